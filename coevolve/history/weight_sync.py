"""How the policy versions of a run reached its engines, folded from the journal."""

from dataclasses import dataclass, field
from statistics import median

from coevolve.journal.codec import topics_of
from protocols.control import RolloutScaled, RunResumed
from protocols.journal import Message
from protocols.learning import StepReport, WeightsVerified, WeightSyncAlarm

TOPICS = topics_of(RunResumed, RolloutScaled, StepReport, WeightsVerified, WeightSyncAlarm)
PARAM_SYNC = "timing_s/param_sync"
MAX_SYNCS = 1000


@dataclass
class Deliveries:
    """The weight syncs so far; `fold` takes the records in journal order, each once."""

    newest: dict[str, WeightsVerified] = field(default_factory=dict[str, WeightsVerified])
    """Engine -> its newest proof; without rollout engines that the run has let go."""

    scaled: RolloutScaled | None = None
    """The rollout engines; None before the run has recorded them."""

    proofs: int = 0
    most_difference: float = 0.0
    """Largest difference of a logprob between the learner and any engine, in nats."""

    longest_pause_s: float = 0.0
    """Longest time for which loading new weights stopped the sampling of an engine."""

    syncs_s: list[float] = field(default_factory=list[float])
    """Seconds from the publication of a version to its last proof, as the newest `MAX_SYNCS` steps
    report them."""

    alarm: WeightSyncAlarm | None = None
    """The alarm that keeps the run from training; None if there is none."""

    def fold(self, message: Message) -> None:
        """Add one record; records of other kinds change nothing."""
        match message:
            case WeightsVerified():
                self.newest[message.engine] = message
                self.proofs += 1
                self.most_difference = max(self.most_difference, message.max_abs_difference)
                self.longest_pause_s = max(self.longest_pause_s, message.pause_s)
            case RolloutScaled():
                gone = set(self.scaled.engines if self.scaled else ()).difference(message.engines)
                self.newest = {name: x for name, x in self.newest.items() if name not in gone}
                self.scaled = message
            case WeightSyncAlarm():
                self.alarm = message
            case RunResumed():
                self.alarm = None
            case StepReport(metrics=metrics) if PARAM_SYNC in metrics:
                self.syncs_s = [*self.syncs_s, metrics[PARAM_SYNC]][-MAX_SYNCS:]
            case _:
                pass

    def lines(self) -> list[tuple[str, str]]:
        """Return (what, value) for a summary; [] if no engine has proven a version."""
        if not self.proofs:
            return []
        lines = [
            ("versions proven on engines", str(self.proofs)),
            ("  largest logprob difference", f"{self.most_difference:.1e} nats"),
            ("  longest pause of sampling", f"{1e3 * self.longest_pause_s:.0f} ms"),
        ]
        if self.syncs_s:
            middle, largest = median(self.syncs_s), max(self.syncs_s)
            what = "  from publication to the last proof, median / maximum"
            lines.append((what, f"{middle:.2f} / {largest:.2f} s"))
        return lines


def scale_sentence(scaled: RolloutScaled) -> str:
    """Return what a change of the engines means, in words."""
    why = {
        "start": "the run starts",
        "request": f"{scaled.actors} were asked for",
        "nodes": "nodes joined or left the cluster",
        "failure": "an engine cannot work",
    }
    return f"rollout engines: {', '.join(scaled.engines) or 'none'} ({why[scaled.cause]})"

"""How a run's policy versions reached its engines, folded from the journal."""

from dataclasses import dataclass, field
from statistics import median

from coevolve.journal.codec import topics_of
from protocols.control import RunResumed
from protocols.journal import Message
from protocols.learning import StepReport, WeightsVerified, WeightSyncAlarm

TOPICS = topics_of(RunResumed, StepReport, WeightsVerified, WeightSyncAlarm)
PARAM_SYNC = "timing_s/param_sync"


@dataclass
class Deliveries:
    """Fold records into this in journal order; each changes it once."""

    newest: dict[str, WeightsVerified] = field(default_factory=dict[str, WeightsVerified])
    """Engine -> what it has proven last."""

    proofs: int = 0
    most_difference: float = 0.0
    """Between learner and any engine, in nats, over all proofs."""

    longest_pause_s: float = 0.0
    """For which a change of weights kept requests from their next token."""

    syncs_s: list[float] = field(default_factory=list[float])
    """From the publication of a version to its last proof, as the steps report it."""

    alarm: WeightSyncAlarm | None = None
    """What keeps the run from training; None where nothing does."""

    def fold(self, message: Message) -> None:
        """Take in one record; kinds that have nothing to do with it are passed over."""
        match message:
            case WeightsVerified():
                self.newest[message.engine] = message
                self.proofs += 1
                self.most_difference = max(self.most_difference, message.max_abs_difference)
                self.longest_pause_s = max(self.longest_pause_s, message.pause_s)
            case WeightSyncAlarm():
                self.alarm = message
            case RunResumed():
                self.alarm = None
            case StepReport(metrics=metrics) if PARAM_SYNC in metrics:
                self.syncs_s.append(metrics[PARAM_SYNC])
            case _:
                pass

    def lines(self) -> list[tuple[str, str]]:
        """Return (what, value) for a summary; [] where nothing was proven."""
        if not self.proofs:
            return []
        lines = [
            ("versions proven on engines", str(self.proofs)),
            ("  largest difference of a logprob", f"{self.most_difference:.1e} nats"),
            ("  longest pause of sampling", f"{1e3 * self.longest_pause_s:.0f} ms"),
        ]
        if self.syncs_s:
            middle, most = median(self.syncs_s), max(self.syncs_s)
            what = "  publication to last proof, median / most"
            lines.append((what, f"{middle:.2f} / {most:.2f} s"))
        return lines

"""What the steps of a run learned from, folded from their reports.

Shares say how far each source moved the weights (`coevolve.learning.attribution`). They do not say
what a source is worth: that takes training without it (`coevolve.replay --ablate`, `tests.bench
learning sources`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from protocols.journal import Message
from protocols.learning import PolicyRegressed, StepReport

NOISE = "gradient_noise/scale_groups"
DIVERGENCE = "actor/kl_from_start"


@dataclass
class Teaching:
    """Fold step reports and the guard's findings into this, in journal order."""

    steps: int = 0
    """That trained; returns are counted apart."""

    policy_gradient: int = 0
    """Groups whose rollouts differ."""

    imitated: int = 0
    nothing: int = 0
    uninformed: int = 0
    """Steps without a single group that the objective learns from: it then moves nothing."""

    movement: float = 0.0
    """Sum over steps of the share of the movement that the objective made."""

    noise_scale: float | None = None
    """Groups at which noise and signal of the gradient are equally large, as told last."""

    divergence: float | None = None
    """From the model that the run started from, nats per token, as told last."""

    returns: list[PolicyRegressed] = field(default_factory=list[PolicyRegressed])
    """Losses of what an earlier version could do, with a return or without."""

    def fold(self, message: Message) -> None:
        """Take in one record; other kinds are passed over."""
        match message:
            case StepReport(returned=None):
                self._step(message)
            case PolicyRegressed():
                self.returns.append(message)
            case _:
                pass

    def lines(self) -> Sequence[tuple[str, str]]:
        """Return what a summary says, (what, value); nothing before the first step."""
        if not self.steps:
            return ()
        lines = [
            ("groups with a policy gradient, per step", f"{self.policy_gradient / self.steps:.1f}"),
            ("groups whose reference was imitated, per step", f"{self.imitated / self.steps:.1f}"),
            ("groups that taught nothing, per step", f"{self.nothing / self.steps:.1f}"),
            ("steps without a policy gradient", str(self.uninformed)),
            (
                "movement of the weights by the objective",
                f"{100 * self.movement / self.steps:.0f} %",
            ),
        ]
        if self.noise_scale is not None:
            lines.append(("gradient noise scale, groups", f"{self.noise_scale:,.0f}"))
        if self.divergence is not None:
            lines.append(("divergence from the start, nats per token", f"{self.divergence:.3f}"))
        lines += [("lost and noticed", sentence(each)) for each in self.returns]
        return lines

    def _step(self, report: StepReport) -> None:
        uses = [group.use for group in report.groups]
        self.steps += 1
        self.policy_gradient += uses.count("policy_gradient")
        self.imitated += uses.count("imitation")
        self.nothing += uses.count("nothing")
        self.uninformed += "policy_gradient" not in uses
        metrics = report.metrics
        self.movement += metrics.get("source/objective/movement_share", 0.0)
        self.noise_scale = metrics.get(NOISE, self.noise_scale)
        self.divergence = metrics.get(DIVERGENCE, self.divergence)


def lost_at_the_end(loss: PolicyRegressed) -> str:
    """Return what was lost by the last versions, after which no step follows."""
    return (
        f"{_lost(loss)}; no step followed, and `--version best` of export and evaluate is version "
        f"{loss.best_version}"
    )


def sentence(loss: PolicyRegressed) -> str:
    """Return what was lost and what follows, in one sentence."""
    follows = (
        f"the next step goes back to version {loss.best_version} at a lower rate"
        if loss.action == "return"
        else "training goes on (learner.guard.action: warn)"
    )
    return f"{_lost(loss)}: {follows}"


def _lost(loss: PolicyRegressed) -> str:
    return (
        f"version {loss.version} passes {100 * loss.score:.0f} % of {loss.canaries} canary tasks, "
        f"version {loss.best_version} passed {100 * loss.best_score:.0f} %"
    )

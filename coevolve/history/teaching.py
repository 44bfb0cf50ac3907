"""What the steps of a run learned from, folded from their reports.

The shares say how far each source moved the weights (`coevolve.learning.attribution`), not how
much a source helped. To measure that, train without the source (`tests.bench learning sources`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from protocols.journal import Message
from protocols.learning import GroupDiscarded, PolicyRegressed, StepReport

SOURCES = {"objective": "policy gradient", "imitation": "imitation", "replay": "replay"}
"""Source of a gradient, as in the names of metrics -> its name in words."""

NOISE = "gradient_noise/scale_groups"
DIVERGENCE = "actor/kl_from_start"

IMITATION = "give references to imitate (learner.warm_start)"

REMEDIES = "use a stronger model, easier tasks, or references to imitate (learner.warm_start)"
"""For a policy that solves nothing."""

MORE_IMITATION = (
    "imitate for more steps (learner.warm_start.steps) or at another rate "
    "(learner.imitation.learning_rate), or use easier tasks"
)
"""The same, if the run imitates references."""

TOO_LONG = "response_length/clip_ratio"
"""Metric: share of a step's rollouts that a limit of tokens ended."""

MANY = 0.25
"""Share of rollouts from which on their end by a limit is a cause, and not an accident."""


class Amount(NamedTuple):
    """What one source of gradient gave in all steps."""

    source: str
    """In words, as in `SOURCES`."""

    groups: int
    """Groups that it taught from; 0 for replay, which imitates references of earlier groups."""

    group_share: float
    """Of all groups that steps trained on, in [0, 1]."""

    references: float
    """References per step that replay imitated; 0 for the others."""

    token_share: float | None
    """Of the tokens that steps trained on, in [0, 1]; None if the steps counted none."""

    norm: float
    """Mean gradient norm of a step, before clipping."""


@dataclass
class Teaching:
    """The totals so far; `fold` takes step reports, discards and findings in journal order."""

    steps: int = 0
    """Steps that trained. Steps that returned to an earlier version are not included."""

    policy_gradient: int = 0
    """Groups whose rollouts have different rewards."""

    imitated: int = 0
    graded: int = 0
    """Of these, groups of another author's rollouts, which are imitated if they succeeded."""

    nothing: int = 0
    successes: int = 0
    """Rollouts that succeeded, those of discarded groups included."""

    uninformed: int = 0
    """Steps without any group that the objective learns from: the objective then moves no
    weight."""

    too_long: float = 0.0
    """Sum over the steps of the share of rollouts that a limit of tokens ended."""

    movement: float = 0.0
    """Sum over the steps of the objective's share of the movement."""

    tokens: dict[str, float] = field(default_factory=dict[str, float])
    """Source -> tokens that the steps trained on for it."""

    norms: dict[str, float] = field(default_factory=dict[str, float])
    """Source -> sum over the steps of its gradient norm, before clipping."""

    replayed: float = 0.0
    """References that were imitated again."""

    noise_scale: float | None = None
    """Groups at which noise and signal of the gradient are equally large; the newest value."""

    divergence: float | None = None
    """Divergence from the model at the start, in nats per token; the newest value."""

    returns: list[PolicyRegressed] = field(default_factory=list[PolicyRegressed])
    """The cases in which a version was worse than an earlier one, with or without a return to
    it."""

    def fold(self, message: Message) -> None:
        """Add one record; records of other kinds change nothing."""
        match message:
            case StepReport(returned=None):
                self._step(message)
            case GroupDiscarded():
                self.successes += message.successes
            case PolicyRegressed():
                self.returns.append(message)
            case _:
                pass

    def lines(self) -> Sequence[tuple[str, str]]:
        """Return (what, value) for a summary; nothing before the first step."""
        if not self.steps:
            return ()
        lines = [
            ("groups without a gradient, per step", f"{self.nothing / self.steps:.1f}"),
            ("steps without a policy gradient", str(self.uninformed)),
        ]
        if self.noise_scale is not None:
            lines.append(("gradient noise scale, newest, groups", f"{self.noise_scale:,.0f}"))
        if self.divergence is not None:
            lines.append(("divergence from the start, nats per token", f"{self.divergence:.3f}"))
        lines += [("regression", sentence(each)) for each in self.returns]
        return lines

    def amounts(self) -> Sequence[Amount]:
        """Return what each source gave; one that never taught is left out."""
        groups = max(1, self.policy_gradient + self.imitated + self.nothing)
        tokens = sum(self.tokens.values())
        of_source = {"objective": self.policy_gradient, "imitation": self.imitated, "replay": 0}
        return [
            Amount(
                source=name,
                groups=of_source[source],
                group_share=of_source[source] / groups,
                references=self.replayed / self.steps if source == "replay" else 0.0,
                token_share=self.tokens.get(source, 0.0) / tokens if tokens else None,
                norm=self.norms.get(source, 0.0) / self.steps,
            )
            for source, name in SOURCES.items()
            if of_source[source] or (source == "replay" and self.replayed)
        ]

    def sources(self) -> Sequence[tuple[str, str]]:
        """Return (source, its groups, share of the tokens and gradient norm in a mean step).

        A source that never taught is left out, and so are tokens if the steps counted none.
        """
        found: list[tuple[str, str]] = []
        for each in self.amounts():
            amount = (
                f"{each.groups / self.steps:.1f} groups ({100 * each.group_share:.0f} %)"
                if each.groups
                else f"{each.references:.1f} references"
            )
            share = each.token_share
            words = () if share is None else (f"{100 * share:.0f} % of tokens",)
            found.append(
                (each.source, ", ".join((amount, *words, f"gradient norm {each.norm:.2g}")))
            )
        return found

    def lesson(self, *, solves: bool) -> str:
        """Return why no step learned from rewards, and the remedy; empty if one did.

        Also empty if imitation taught a policy that ``solves`` held-out tasks before rewards could.
        """
        if not self.steps or self.policy_gradient or self.graded:
            return ""
        if self.successes:
            return (
                "No step learned from rewards: in no group did they differ. Use tasks that the "
                "policy solves sometimes"
            )
        if self.imitated and solves:
            return ""
        return (
            "No step learned from rewards: no rollout succeeded. A policy that never succeeds, "
            f"such as one with random weights, learns nothing from them: {self.remedies}"
        )

    @property
    def remedies(self) -> str:
        """What to do with a policy that solves nothing."""
        if room := self.room:
            return f"{room}, or {MORE_IMITATION if self.imitated else IMITATION}"
        return MORE_IMITATION if self.imitated else REMEDIES

    @property
    def room(self) -> str:
        """What to do if limits of tokens end many attempts; empty if they do not."""
        share = self.too_long / max(1, self.steps)
        if share < MANY:
            return ""
        return (
            "raise rollout.max_call_tokens (of one message) or rollout.max_tokens (of the "
            f"conversation), which ended {100 * share:.0f} % of the attempts"
        )

    def _step(self, report: StepReport) -> None:
        uses = [group.use for group in report.groups]
        self.steps += 1
        self.policy_gradient += uses.count("policy_gradient")
        self.imitated += uses.count("imitation")
        self.graded += sum(g.use == "imitation" and g.successes > 0 for g in report.groups)
        self.nothing += uses.count("nothing")
        self.successes += sum(group.successes for group in report.groups)
        self.uninformed += "policy_gradient" not in uses
        metrics = report.metrics
        self.too_long += metrics.get(TOO_LONG, 0.0)
        self.movement += metrics.get("source/objective/movement_share", 0.0)
        for source in SOURCES:
            tokens, norm = f"source/{source}/tokens", f"source/{source}/grad_norm"
            self.tokens[source] = self.tokens.get(source, 0.0) + metrics.get(tokens, 0.0)
            self.norms[source] = self.norms.get(source, 0.0) + metrics.get(norm, 0.0)
        self.replayed += metrics.get("source/replay/rows", 0.0)
        self.noise_scale = metrics.get(NOISE, self.noise_scale)
        self.divergence = metrics.get(DIVERGENCE, self.divergence)


def lost_at_the_end(loss: PolicyRegressed) -> str:
    """Return a sentence on what the last versions lost, when no step follows."""
    return (
        f"{_loss_text(loss)}; no step followed, so export and evaluate use version "
        f"{loss.best_version} for `--version best`"
    )


def sentence(loss: PolicyRegressed) -> str:
    """Return one sentence: what was lost, and what follows."""
    follows = (
        f"the next step returns to version {loss.best_version} with a lower learning rate"
        if loss.action == "return"
        else "training continues (learner.guard.action: warn)"
    )
    return f"{_loss_text(loss)}: {follows}"


def _loss_text(loss: PolicyRegressed) -> str:
    return (
        f"version {loss.version} passes {100 * loss.score:.0f} % of {loss.canaries} canary tasks, "
        f"version {loss.best_version} passed {100 * loss.best_score:.0f} %"
    )

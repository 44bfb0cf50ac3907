"""What a step trains on: rows of token sequences, and what each of their tokens adds to the loss.

A row has streams. A stream gives each token that the policy wrote a component, which is a formula,
a weight and a target:

    loss = sum over streams, tokens t of  weight_t component(log pi(o_t | q, o_<t), target_t)

A policy gradient, imitation, fine-tuning, preferences and distillation differ in their streams
alone (`coevolve.learning.objective`); a step (`coevolve.learning.step_loss`) knows none of them.

Letters: N written tokens of a micro-batch, R sequences.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, get_args

from protocols import columns
from protocols.generation import Grammar
from protocols.rollouts import Rollout, Tokens

if TYPE_CHECKING:
    import torch

Source = Literal["objective", "imitation", "replay"]
"""Why a step learns from a row: from ``learner.objective``, from the reference of a group that
failed as a whole, or from a replayed reference."""

SOURCES: tuple[Source, ...] = get_args(Source)


@dataclass(frozen=True, kw_only=True)
class Scored:
    """The written tokens of a micro-batch, sequence by sequence, as a component reads them.

    Tensors have N entries.
    """

    logprobs: "torch.Tensor"
    """Log-probabilities under the policy, with gradient."""

    start: "torch.Tensor"
    """The same at the start of the step, before its first update; without gradient."""

    importance: "torch.Tensor"
    """Truncated ratio of the trainer's to the sampler's probability (``learner.importance``); 1 for
    tokens that were not sampled from the policy."""

    targets: "torch.Tensor"
    """The stream's targets; empty if it has none."""

    lengths: Sequence[int]
    """R entries: number of written tokens of each sequence; the sequences of one row follow one
    another. What a loss compares counts as one sequence (`Row.sizes`)."""

    def sums(self, values_N: "torch.Tensor") -> "torch.Tensor":
        """Return the sum of the values of each sequence."""
        import torch

        return torch.stack([part.sum() for part in torch.split(values_N, list(self.lengths))])


class Component(Protocol):
    """A formula that turns log-probabilities and targets into losses."""

    label: ClassVar[str]
    """Name of the loss in the metrics, after ``actor/``."""

    is_per_row: ClassVar[bool]
    """Whether there is one loss for each row, and not one for each token."""

    def losses(self, scored: Scored) -> "torch.Tensor":
        """Return the loss of each of the N tokens, or of each row, before weights."""
        ...

    def measures(self, scored: Scored) -> "Mapping[str, torch.Tensor]":
        """Return metric -> values, of which the step reports the mean."""
        ...


Targets = Sequence[float] | Literal["initial"]
"""A value for each written token, or ``initial``: its log-probability under the run's initial
model."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What the written tokens of a row add to the loss."""

    component: Component
    weights: Sequence[float] = ()
    """One for each written token; empty means 1. Not used if the component is per row."""

    targets: Targets = ()


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """A token sequence.

    Its written tokens are those with mask 1, except at position 0, which no token predicts.
    """

    token_ids: Sequence[int]
    mask: Sequence[int]
    rollout_logprobs: Sequence[float] = ()
    """The sampler's logprobs, by position; empty if the tokens are not trained on as samples."""

    sampled_by: Sequence[int] = ()
    """By position, the version that sampled the token; -1 if none did, or if an older version
    computed keys or values that it attended to. Empty if unknown."""

    grammar: Grammar | None = None
    """As in `BatchGroup`; each run of written tokens starts in the grammar's first state."""

    old_logprobs: Sequence[float] = ()
    """Logprobs of the written tokens at the start of the step. Empty if the step makes a single
    update, because the current policy then is that policy."""

    written_beside: int = 0
    """Number of written tokens of the same rollout in its other conversations."""

    @property
    def written(self) -> int:
        """Return the number of written tokens."""
        return sum(self.mask[1:])

    @property
    def written_by_rollout(self) -> int:
        """Return the number of written tokens of its rollout, in all conversations."""
        return self.written + self.written_beside


@dataclass(frozen=True, kw_only=True)
class Row:
    """Sequences with a common loss; a row is never split over two forward passes."""

    sides: tuple[Conversation, ...]
    """One sequence, or several that the loss compares."""

    streams: tuple[Stream, ...]
    sizes: tuple[int, ...] = ()
    """Number of sequences of each rollout that the loss compares; empty means 1 each."""

    source: Source = "objective"
    group: int = 0
    """Position of its group among the step's groups for the objective."""

    @property
    def is_sampled(self) -> bool:
        """Return whether its tokens are samples of the policy.

        They are scored at the temperature and within the grammar of the rollouts, others as the
        model's own distribution has them.
        """
        return any(side.rollout_logprobs for side in self.sides)

    @property
    def lengths(self) -> list[int]:
        """Return the number of written tokens of each rollout that the loss compares."""
        sides = iter(self.sides)
        sizes = self.sizes or (1,) * len(self.sides)
        return [sum(each.written for each in islice(sides, size)) for size in sizes]

    @property
    def length(self) -> int:
        """Return the token count of the longest sequence."""
        return max(len(side.token_ids) for side in self.sides)

    @property
    def written(self) -> int:
        """Return the number of written tokens."""
        return sum(side.written for side in self.sides)

    def is_like(self, other: "Row") -> bool:
        """Return whether one forward pass can serve both rows."""
        return self.is_sampled == other.is_sampled and [
            each.component for each in self.streams
        ] == [each.component for each in other.streams]


def sides(rows: Sequence[Row]) -> list[Conversation]:
    """Return the sequences of rows, in order."""
    return [side for row in rows for side in row.sides]


def alike(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows in lists that one forward pass can serve, in the order of their first."""
    kinds: list[list[Row]] = []
    for row in rows:
        found = next((kind for kind in kinds if kind[0].is_like(row)), None)
        if found is None:
            kinds.append([row])
        else:
            found.append(row)
    return kinds


def amounts(rows: Sequence[Row]) -> dict[str, float]:
    """Return the number of rows of each source, and of tokens in them that the step trains on."""
    found: dict[str, float] = {}
    for source in SOURCES:
        mine = [row for row in rows if row.source == source]
        found[f"source/{source}/rows"] = float(len(mine))
        found[f"source/{source}/tokens"] = float(sum(row.written for row in mine))
    return found


def conversations(rollout: Rollout) -> tuple[Conversation, ...]:
    """Return a rollout's conversations, to be scored by the model's own distribution."""
    return _beside(
        Conversation(token_ids=columns.from_int32(tokens.token_ids), mask=list(tokens.mask))
        for tokens in rollout.conversations
    )


def sampled(rollout: Rollout, grammar: Grammar | None) -> tuple[Conversation, ...]:
    """Return a rollout's conversations as samples of the policy."""
    return _beside(
        Conversation(
            token_ids=columns.from_int32(tokens.token_ids),
            mask=list(tokens.mask),
            rollout_logprobs=columns.from_float32(tokens.logprobs),
            sampled_by=_sampled_by(tokens),
            grammar=grammar,
        )
        for tokens in rollout.conversations
    )


def _beside(found: Iterable[Conversation]) -> tuple[Conversation, ...]:
    """Return the conversations of one rollout, each with what the others have written."""
    alone = tuple(found)
    if len(alone) == 1:
        return alone
    written = sum(each.written for each in alone)
    return tuple(replace(each, written_beside=written - each.written) for each in alone)


def _sampled_by(tokens: Tokens) -> list[int]:
    versions = columns.from_int32(tokens.versions)
    caches = columns.from_int32(tokens.cache_versions) or versions
    return [version if version == c else -1 for version, c in zip(versions, caches, strict=True)]

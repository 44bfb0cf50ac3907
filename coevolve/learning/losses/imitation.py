"""Imitation of given tokens: of references, and of the best rollouts.

    loss = sum_t -w log pi(o_t | q, o_<t)         over the tokens that the policy would have written

If all rollouts of a group failed, the advantages are zero, so a policy gradient learns nothing, and
a policy never finds a tool that it has never tried; a single success teaches it little. Imitation
instead raises the probability of the task's validated reference, and replays it later from a buffer
of the newest references.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coevolve.learning.rows import Conversation, Row, Scored, Source, Stream

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Likelihood:
    """The component of imitation, ``-log pi``."""

    label: ClassVar[str] = "imitation_loss"
    is_per_row: ClassVar[bool] = False

    def losses(self, scored: Scored) -> "torch.Tensor":
        return -scored.logprobs

    def measures(self, scored: Scored) -> "Mapping[str, torch.Tensor]":
        del scored
        return {}


LIKELIHOOD = Likelihood()


def imitated(given: Conversation, weight: float = 1.0, source: Source = "objective") -> Row:
    """Return the row that raises the probability of ``given``."""
    stream = Stream(component=LIKELIHOOD, weights=[weight] * given.written)
    return Row(sides=(given,), streams=(stream,), source=source)

"""Source texts with what the rollouts of a run reached in them, as an environment returns them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SourceLine:
    text: str
    points: int
    """Things on the line that a rollout can reach; 0 if there are none."""

    reached: int
    """Of these, those that any rollout reached."""

    newest: int
    """Of these, those that a rollout of the newest group reached."""

    missed: tuple[str, ...] = ()
    """Names of those that no rollout reached."""


@dataclass(frozen=True, kw_only=True)
class AnnotatedSource:
    name: str
    groups: int
    """Finished groups of the policy that are counted."""

    lines: Sequence[SourceLine]

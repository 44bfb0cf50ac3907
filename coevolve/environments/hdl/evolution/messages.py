"""Bodies of the loop's messages: what a group says of a design, and tasks made of that."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from protocols.evolution import Candidate, GroupSummary
from protocols.numbers import Share


class GroupDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `protocols.evolution.GroupSummary.details`."""

    design: str
    round: int

    best: Share
    """Overall average of the best testbench."""

    points_hash: str
    """Of the set of points that ``counts`` stand for; empty where nothing was simulated."""

    counts: bytes
    """uint16, little-endian, one for each point of the set: rollouts that covered it."""


@dataclass(frozen=True)
class DesignSummary:
    """A summary with its details read."""

    group: GroupSummary
    details: GroupDetails

    @classmethod
    def of(cls, group: GroupSummary) -> "DesignSummary":
        """Read the details. Raises msgspec.MsgspecError if they are another environment's."""
        return cls(group, _details.decode(group.details))


_details = msgspec.msgpack.Decoder(GroupDetails)


class RegionGoal(msgspec.Struct, frozen=True, kw_only=True, tag="region_goal"):
    """Cover these points of a design, all of them in one run."""

    design: str
    points: Annotated[tuple[int, ...], msgspec.Meta(min_length=1)]
    start: int
    """Journal sequence of the rollout whose testbench is to be improved on; 0 for none."""


class HarderThreshold(msgspec.Struct, frozen=True, kw_only=True, tag="harder_threshold"):
    """Reach a higher overall average than a task asks for."""

    design: str
    than: str
    """The task."""

    threshold: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """One constant of a design, and what stands there instead."""

    old: int
    new: int


class DesignVariant(msgspec.Struct, frozen=True, kw_only=True, tag="design_variant"):
    """Verify the design with other constants: what was learnt of the old ones by heart is wrong."""

    design: str
    constants: Annotated[tuple[Replaced, ...], msgspec.Meta(min_length=1)]


DesignChange = RegionGoal | HarderThreshold | DesignVariant
"""What a new task on a design is made of."""


_change: msgspec.msgpack.Decoder[DesignChange] = msgspec.msgpack.Decoder(DesignChange)


def change_of(candidate: Candidate) -> DesignChange:
    """Return what a candidate asks for. Raises msgspec.MsgspecError if it is another's."""
    return _change.decode(candidate.body)


DESIGN = "design"
"""Kind of the `protocols.evolution.EnvironmentRecord` whose body is a design that the run made of
one of its own; its key is the design's id. It has neither testbenches nor mutants."""

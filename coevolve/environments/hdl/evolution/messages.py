"""Bodies of the loop's messages: summaries of groups on designs, and new tasks from them."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from coevolve.environments.hdl.simulate.messages import Point, Unit
from protocols.evolution import Candidate, GroupSummary
from protocols.numbers import Share


class GroupDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `protocols.evolution.GroupSummary.details`."""

    design: str
    round: int

    best: Share
    """Overall average of the best testbench."""

    points_hash: str
    """Hash of the set of points of ``counts``; empty if nothing was simulated."""

    counts: bytes
    """For each point of the set, the rollouts that covered it, as uint16, little-endian."""


@dataclass(frozen=True)
class DesignSummary:
    """A group summary with its details decoded."""

    group: GroupSummary
    details: GroupDetails

    @classmethod
    def of(cls, group: GroupSummary) -> "DesignSummary":
        """Decode the details. Raises msgspec.MsgspecError for those of another environment."""
        return cls(group, _details.decode(group.details))


_details = msgspec.msgpack.Decoder(GroupDetails)


class RegionGoal(msgspec.Struct, frozen=True, kw_only=True, tag="region_goal"):
    """The task to cover these points of a design, all of them in one run."""

    design: str
    points: Annotated[tuple[int, ...], msgspec.Meta(min_length=1)]
    start: int
    """Journal sequence of the rollout whose testbench is the start; 0 for none."""


class HarderThreshold(msgspec.Struct, frozen=True, kw_only=True, tag="harder_threshold"):
    """The task to reach a higher overall average than another task."""

    design: str
    than: str
    """Id of the other task."""

    threshold: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """One constant of a design and its replacement."""

    old: int
    new: int


class DesignVariant(msgspec.Struct, frozen=True, kw_only=True, tag="design_variant"):
    """The task to verify the design with other constants, so that memorized ones are wrong."""

    design: str
    constants: Annotated[tuple[Replaced, ...], msgspec.Meta(min_length=1)]


DesignChange = RegionGoal | HarderThreshold | DesignVariant
"""The change that makes a new task on a design."""


_change: msgspec.msgpack.Decoder[DesignChange] = msgspec.msgpack.Decoder(DesignChange)


def change_of(candidate: Candidate) -> DesignChange:
    """Return the change of a candidate. Raises msgspec.MsgspecError for another's body."""
    return _change.decode(candidate.body)


class DesignPoints(msgspec.Struct, frozen=True, kw_only=True):
    """A design's source and its set of points, so that the journal explains its own counts."""

    points_hash: str
    """As in `GroupDetails`."""

    unit: Unit
    points: tuple[Point, ...]


DESIGN_POINTS = "design_points"
"""Kind of the `protocols.evolution.EnvironmentRecord` whose body is `DesignPoints`; its key is the
design's id. Only designs of the run's folder have one."""

DESIGN = "design"
"""Kind of the `protocols.evolution.EnvironmentRecord` whose body is a variant that the run made of
one of its designs; its key is the variant's id. The body has neither testbenches nor mutants."""

"""How the tasks on designs evolve: what a group says of a design, and tasks made of that.

The counterparts of `protocols.evolution.Visit` and `Candidate`; signals and verdicts are the same
for tools and designs.
"""

from typing import Annotated

import msgspec

from protocols.designs import Design
from protocols.numbers import Share
from protocols.transitions import Writer


class DesignVisit(msgspec.Struct, frozen=True, kw_only=True, tag="design_visit"):
    """What one finished group says of its task on a design, and of the design's points.

    Void rollouts are counted and say nothing else. Outlives the rollouts that it sums up.
    """

    group_id: str
    group: int
    task_id: str

    root: str
    """The task that work on the design began with."""

    design: str
    round: int
    author: Writer

    version_min: int
    """Oldest and newest policy version that sampled any token of the group."""

    version_max: int

    successes: int
    rollouts: int
    """Rollouts that are not void."""

    void: int

    sampled_tokens: int
    """Tokens of all answers that an engine of the run sampled; a teacher's are counted by call."""

    calls: int
    """Testbenches that were graded."""

    best: Share
    """Overall average of the best testbench."""

    points_hash: str
    """Of the set of points that ``counts`` stand for; empty where nothing was simulated."""

    counts: bytes
    """uint16, little-endian, one for each point of the set: rollouts that covered it."""

    evidence: tuple[int, ...]
    """Journal sequences of the group's rollouts, by index; void ones are left out."""

    def __post_init__(self) -> None:
        """Refuse more successes than rollouts."""
        if not 0 <= self.successes <= self.rollouts:
            raise ValueError(
                f"a visit needs 0 <= successes <= rollouts, got {self.successes} of {self.rollouts}"
            )


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


class DesignCandidate(msgspec.Struct, frozen=True, kw_only=True, tag="design_candidate"):
    """A task on a design that nobody has judged yet."""

    candidate_id: str
    signal_id: str
    synthesizer: str
    change: DesignChange
    policy_version: int


class DesignMade(msgspec.Struct, frozen=True, kw_only=True, tag="design_made"):
    """A design that the run made of one of its own. It has neither testbenches nor mutants."""

    design: Design
    parent: str
    candidate_id: str

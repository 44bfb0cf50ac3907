"""The observer of groups of rollouts on designs: coverage in summaries, and signals about tasks.

A signal is about the task that a chain of groups starts with. Only the first group of a chain
counts, whose rollouts all had exactly this task; later groups start from earlier testbenches, and
pass or fail together. Groups that the policy did not write get a summary but no signals. Signals
are reported; no tasks are made from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from coevolve.environments.hdl.curation.signals import counts
from coevolve.environments.hdl.curation.states import average
from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.policy.task import CoverageTask, coverage_task
from coevolve.environments.hdl.policy.transition import coverage_of, graded_of
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Point, Unit
from coevolve.environments.sdk import (
    CompleteGroup,
    TaskCache,
    TaskObserver,
    environment_record,
    summary_of,
)
from protocols.config import RunConfig
from protocols.evolution import EnvironmentRecord, GroupSummary, Signal
from protocols.interfaces import Reader
from protocols.journal import Message
from protocols.numbers import Share
from protocols.rollouts import Rollout
from protocols.tasks import body_of


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


class DesignPoints(msgspec.Struct, frozen=True, kw_only=True):
    """A design's source and its set of points, so that the journal explains its own counts."""

    points_hash: str
    """As in `GroupDetails`."""

    unit: Unit
    points: tuple[Point, ...]


DESIGN_POINTS = "design_points"
"""Kind of the `protocols.evolution.EnvironmentRecord` whose body is `DesignPoints`; its key is the
design's id."""


def summary_on(group: CompleteGroup, task: CoverageTask) -> DesignSummary:
    """Return the summary of a complete group on ``task``."""
    rollouts = [each for _, each in group.members if isinstance(each, Rollout)]
    states = [state for each in rollouts if (state := graded_of(each)) is not None]
    covered = [coverage for state in states if (coverage := coverage_of(state)) is not None]
    details = GroupDetails(
        design=task.design,
        round=task.round,
        best=float(max(map(average, covered), default=0)),
        points_hash=covered[0].points_hash if covered else "",
        counts=np.array(counts([each.hits for each in covered]), "<u2").tobytes(),
    )
    summary = summary_of(group.members, root=task.root, calls=len(states), details=body_of(details))
    return DesignSummary(summary, details)


class DesignObserver(TaskObserver):
    """Observes the points that testbenches covered, besides rewards."""

    def __init__(
        self,
        config: RunConfig,
        *,
        reader: Reader,
        catalogue: Catalogue,
        simulator: TestbenchSimulator,
    ) -> None:
        """Start without memory; ``simulator`` provides the points of designs."""
        super().__init__(config)
        self._reader = reader
        self._tasks = TaskCache(reader, coverage_task)
        self._catalogue = catalogue
        self._simulator = simulator
        self._recorded: set[str] = set()
        """Designs whose points are in the journal, or were returned to be written."""

    def recall(self, message: Message) -> None:
        """Add a signal, or a summary that is evidence, to the detector's history."""
        if not isinstance(message, GroupSummary) or _is_evidence(message):
            super().recall(message)

    async def judge(
        self, group: CompleteGroup
    ) -> tuple[GroupSummary, Sequence[Signal | EnvironmentRecord]]:
        """Return the group's summary, its signals and the design's points, once in a run."""
        task = await self._tasks.get(group.members[0][1].task_id)
        summary = summary_on(group, task)
        signals = self.signals(summary.group) if _is_evidence(summary.group) else ()
        return summary.group, [*signals, *await self._points(summary)]

    async def _points(self, summary: DesignSummary) -> list[EnvironmentRecord]:
        """Return the record of a design's points, once in a run, if the policy reached some."""
        name, points_hash = summary.details.design, summary.details.points_hash
        if summary.group.author != "policy" or not points_hash or name in self._recorded:
            return []
        self._recorded.add(name)
        if await environment_record(self._reader, DESIGN_POINTS, name) is not None:
            return []
        unit = self._catalogue.get(name).unit
        points = tuple(await self._simulator.points(unit))
        body = DesignPoints(points_hash=points_hash, unit=unit, points=points)
        return [EnvironmentRecord(kind=DESIGN_POINTS, key=name, body=body_of(body))]


def _is_evidence(group: GroupSummary) -> bool:
    """Return whether a group is evidence about the policy's skill at its chain's first task."""
    return group.author == "policy" and group.rollouts > 0 and group.task_id == group.root

"""Derives group summaries and signals from groups of rollouts on designs.

Signals are about tasks and about regions. The rules for tools (`coevolve.signals.detector`) decide
on *tasks*. For forgetting they use the first group of each chain, whose rollouts all had exactly
this task; later groups start from earlier testbenches, and pass or fail together. For the boundary
they use the last group of each chain, because earlier groups have covered less. The rules of
`hdl.evolution.rules` decide on a design's *regions*.

For each design and each kind of signal, signals about regions are at least
``signals.cool_down_versions`` versions apart, at most `MOST_PER_VISIT` at a time. Regions with the
fewest signals so far come first, so that every region has its turn. Groups that the policy did not
write get a summary but no signals.

The rules remember the designs and the tasks that were visited last, `MOST_REMEMBERED` of each.
"""

from collections import Counter, deque
from collections.abc import Sequence

import msgspec
import numpy as np

from coevolve.environments.hdl.coverage.regions import Region, design_of, regions
from coevolve.environments.hdl.curation.signals import counts
from coevolve.environments.hdl.curation.states import average
from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.evolution.messages import (
    DESIGN_POINTS,
    DesignPoints,
    DesignSummary,
    GroupDetails,
)
from coevolve.environments.hdl.evolution.rules import forgotten, rare
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import coverage_of, graded_of
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Point, Unit
from coevolve.journal.codec import topics_of
from coevolve.journal.task_cache import TaskCache
from coevolve.signals.detector import Detector, DetectorState
from coevolve.signals.groups import CompleteGroup, summary_of
from coevolve.signals.rules import MOST_PER_VISIT, Finding, signal_of
from protocols.config import RunConfig
from protocols.evolution import EnvironmentRecord, GroupSummary, OnPattern, Signal, SignalKind
from protocols.journal import Message
from protocols.rollouts import Rollout
from protocols.tasks import body_of

MOST_REMEMBERED = 1_000
"""Designs whose last groups are remembered, and tasks whose last first groups are."""

ABOUT_REGIONS: tuple[SignalKind, ...] = ("forgetting", "rare")


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


class LastSignal(msgspec.Struct):
    """The last signal about a design's regions."""

    kind: SignalKind
    design: str
    version: int
    """The policy version."""


class RegionsState(msgspec.Struct):
    """What `RegionDetector` remembers; summaries as msgpack, since a schema holds no raw body."""

    of_design: dict[str, list[bytes]]
    of_task: dict[str, list[bytes]]
    last: list[LastSignal]
    signal_counts: list[tuple[OnPattern, int]]


class RegionDetector:
    """The rules about regions, with their memory. A pure fold of the journal."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config.signals
        self._of_design = _Recent(self._config.window)
        self._of_task = _Recent(self._config.window)
        """Summaries of first groups, by task."""

        self._last: dict[tuple[SignalKind, str], int] = {}
        """Policy version of the last signal about a design's regions, by kind and design."""

        self._signal_counts: Counter[OnPattern] = Counter()

    @property
    def state(self) -> RegionsState:
        """Return what it remembers."""
        return RegionsState(
            of_design=self._of_design.dump(),
            of_task=self._of_task.dump(),
            last=[LastSignal(kind, design, n) for (kind, design), n in self._last.items()],
            signal_counts=list(self._signal_counts.items()),
        )

    @state.setter
    def state(self, state: RegionsState) -> None:
        self._of_design.load(state.of_design)
        self._of_task.load(state.of_task)
        self._last = {(each.kind, each.design): each.version for each in state.last}
        self._signal_counts = Counter(dict(state.signal_counts))

    def recall(self, message: DesignSummary | Signal) -> None:
        """Process an earlier summary or signal."""
        match message:
            case DesignSummary():
                if forgotten_design := self._of_design.add(message.details.design, message):
                    self._forget(forgotten_design)
                if message.group.task_id == message.group.root:
                    self._of_task.add(message.group.root, message)
            case Signal(about=OnPattern() as about):
                self._last[message.kind, design_of(about)] = message.policy_version
                self._signal_counts[about] += 1
            case Signal():
                pass

    def _forget(self, design: str) -> None:
        """Forget the signals about a design's regions."""
        for kind in ABOUT_REGIONS:
            self._last.pop((kind, design), None)
        counts = self._signal_counts.items()
        self._signal_counts = Counter({x: n for x, n in counts if design_of(x) != design})

    def judge(self, visit: DesignSummary, found: Sequence[Region], points: int) -> list[Signal]:
        """Process a summary on a design with these regions; return the new signals."""
        earlier = [
            each
            for each in self._of_task.of(visit.group.task_id)
            if each.group.version_max < visit.group.version_min and _same_points(each, visit)
        ]
        self.recall(visit)
        recent = [
            each for each in self._of_design.of(visit.details.design) if _same_points(each, visit)
        ]
        findings: dict[SignalKind, list[Finding]] = {
            "forgetting": forgotten(self._config, earlier, visit, found, points) if earlier else [],
            "rare": rare(self._config, recent, found, points),
        }
        signals = [
            signal
            for kind in ABOUT_REGIONS
            if kind in self._config.kinds and not self._is_silent(kind, visit)
            for signal in self._signals(kind, findings[kind], visit)
        ]
        for signal in signals:
            self.recall(signal)
        return signals

    def _is_silent(self, kind: SignalKind, visit: DesignSummary) -> bool:
        last = self._last.get((kind, visit.details.design))
        return last is not None and visit.group.version_max - last < self._config.cool_down_versions

    def _signals(
        self, kind: SignalKind, findings: Sequence[Finding], visit: DesignSummary
    ) -> list[Signal]:
        """Return the findings with the fewest signals so far, numbered after those on the task."""
        chosen = sorted(findings, key=self._signal_count)[:MOST_PER_VISIT]
        return [
            signal_of(
                kind,
                number,
                finding,
                group=visit.group.group,
                version=visit.group.version_max,
            )
            for number, finding in enumerate(chosen, MOST_PER_VISIT)
        ]

    def _signal_count(self, finding: Finding) -> int:
        return self._signal_counts[finding.about] if isinstance(finding.about, OnPattern) else 0


class _Recent:
    """The last summaries of each design or task, of those that were visited last."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._summaries: dict[str, deque[DesignSummary]] = {}
        """In the order of the last visit."""

    def of(self, name: str) -> Sequence[DesignSummary]:
        """Return the summaries, oldest first."""
        return self._summaries.get(name, ())

    def add(self, name: str, visit: DesignSummary) -> str | None:
        """Add a summary; return the name that is forgotten in return, if any."""
        summaries = self._summaries.pop(name, None) or deque(maxlen=self._window)
        summaries.append(visit)
        self._summaries[name] = summaries
        if len(self._summaries) <= MOST_REMEMBERED:
            return None
        oldest = next(iter(self._summaries))
        del self._summaries[oldest]
        return oldest

    def dump(self) -> dict[str, list[bytes]]:
        """Return all summaries."""
        known = self._summaries.items()
        return {
            name: [msgspec.msgpack.encode(x.group) for x in summaries] for name, summaries in known
        }

    def load(self, state: dict[str, list[bytes]]) -> None:
        """Take up summaries, in place of those so far."""
        self._summaries = {
            name: deque(map(_summary, groups), maxlen=self._window)
            for name, groups in state.items()
        }


def _summary(group: bytes) -> DesignSummary:
    return DesignSummary.of(msgspec.msgpack.decode(group, type=GroupSummary))


class ObserverState(msgspec.Struct):
    """What `DesignObserver` remembers."""

    first_groups: DetectorState
    last_groups: DetectorState
    of_regions: RegionsState


class DesignObserver:
    """A `coevolve.signals.extractor.Observer` of rollouts on designs.

    It is a `coevolve.journal.snapshots.Piece`.
    """

    keeps = ()
    topics = topics_of(GroupSummary, Signal)

    def __init__(
        self,
        config: RunConfig,
        *,
        tasks: TaskCache[CoverageTask],
        catalogue: Catalogue,
        simulator: TestbenchSimulator,
    ) -> None:
        """Start without memory; ``simulator`` provides the points of designs."""
        self._config = config.signals
        self._last_round = hdl_settings(config).rounds - 1
        self._first_groups = _detector(config, "forgetting")
        self._last_groups = _detector(config, "boundary")
        self._of_regions = RegionDetector(config)
        self._tasks = tasks
        self._catalogue = catalogue
        self._simulator = simulator
        self._regions: dict[str, tuple[Region, ...]] = {}
        self._recorded: set[str] = set()
        """Designs whose points are in the journal, or were returned to be written."""

    @property
    def settings(self) -> object:
        return self._config, self._last_round

    @property
    def state(self) -> ObserverState:
        """Return what the rules remember."""
        return ObserverState(
            first_groups=self._first_groups.state,
            last_groups=self._last_groups.state,
            of_regions=self._of_regions.state,
        )

    @state.setter
    def state(self, state: ObserverState) -> None:
        self._first_groups.state = state.first_groups
        self._last_groups.state = state.last_groups
        self._of_regions.state = state.of_regions

    def recall(self, message: Message) -> None:
        """Process a summary or a signal; see `coevolve.signals.extractor.Observer`."""
        match message:
            case Signal():
                self._of_regions.recall(message)
                self._first_groups.recall(message)
                self._last_groups.recall(message)
            case GroupSummary() if _is_evidence(message):
                visit = DesignSummary.of(message)
                self._of_regions.recall(visit)
                for detector in self._detectors(visit):
                    detector.recall(_as_task(visit))
            case _:
                pass

    async def judge(
        self, group: CompleteGroup
    ) -> tuple[GroupSummary, Sequence[Signal | EnvironmentRecord]]:
        """Summarize the group and apply the rules; see `coevolve.signals.extractor.Observer`."""
        task = await self._tasks.get(group.members[0][1].task_id)
        visit = summary_on(group, task)
        if not _is_evidence(visit.group):
            return visit.group, ()
        unit = (await self._catalogue.get(task.design)).unit
        points = await self._simulator.points(unit)
        if task.design not in self._regions:
            if len(self._regions) >= MOST_REMEMBERED:
                self._regions.clear()
            self._regions[task.design] = regions(points, unit)
        signals = self._of_regions.judge(visit, self._regions[task.design], len(points))
        for detector in self._detectors(visit):
            signals += detector.judge(_as_task(visit))
        return visit.group, [*signals, *await self._points(visit.details, unit, points)]

    async def _points(
        self, details: GroupDetails, unit: Unit, points: Sequence[Point]
    ) -> list[EnvironmentRecord]:
        """Return the record of a given design's points, once in a run."""
        name = details.design
        if not details.points_hash or name in self._recorded or name not in self._catalogue.given:
            return []
        self._recorded.add(name)
        if await self._catalogue.has_points(name):
            return []
        body = DesignPoints(points_hash=details.points_hash, unit=unit, points=tuple(points))
        return [EnvironmentRecord(kind=DESIGN_POINTS, key=name, body=body_of(body))]

    def _detectors(self, visit: DesignSummary) -> list[Detector]:
        """Return the detectors of task signals that use this summary."""
        first = [self._first_groups] if visit.group.task_id == visit.group.root else []
        return [*first, self._last_groups] if visit.details.round == self._last_round else first


def _detector(config: RunConfig, kind: SignalKind) -> Detector:
    """Return the task rules for one kind of signal; without it if the run leaves it out."""
    kinds = tuple(each for each in config.signals.kinds if each == kind)
    signals = msgspec.structs.replace(config.signals, kinds=kinds)
    return Detector(signals, (), config.remembered_tasks)


def _is_evidence(group: GroupSummary) -> bool:
    """Return whether a group is evidence about the policy."""
    return group.author == "policy" and group.rollouts > 0


def _same_points(one: DesignSummary, other: DesignSummary) -> bool:
    """Return whether two summaries count the same set of points."""
    hashes = {one.details.points_hash, other.details.points_hash}
    return "" in hashes or len(hashes) == 1


def _as_task(visit: DesignSummary) -> GroupSummary:
    """Return the summary as one of the chain's first task."""
    return msgspec.structs.replace(visit.group, task_id=visit.group.root)

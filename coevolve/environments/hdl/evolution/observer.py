"""What the signals part makes of groups on designs: their visits, and signals.

Two things are judged. How a *task* goes is the business of the rules for tools
(`coevolve.signals.detector`). It is forgotten by its first groups, whose rollouts all had exactly
this task; the groups that follow start from what others wrote, and pass or fail together. It is at
the boundary by the last groups of its turns, since earlier ones have less to show. What becomes of
a design's *regions* is the business of `hdl.evolution.rules`.

A region says something at most every ``signals.cool_down_versions`` versions, and so does a design
about its regions, by kind, `MOST_PER_VISIT` at a time; regions of which least was said come first,
so that all have their turn. Groups that the policy did not write are visits of which nothing is
said.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Sequence

import msgspec
import numpy as np

from coevolve.environments.hdl.coverage.regions import Region, design_of, regions
from coevolve.environments.hdl.curation.signals import counts
from coevolve.environments.hdl.curation.states import average
from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.evolution.rules import forgotten, rare
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.journal.task_cache import TaskShelf
from coevolve.signals.detector import Detector
from coevolve.signals.rules import MOST_PER_VISIT, Finding, signal_of
from coevolve.signals.visits import NO_VERSION, CompleteGroup, sampled_surprise
from protocols.config import RunConfig
from protocols.design_evolution import DesignVisit
from protocols.evolution import OnPattern, Signal, SignalKind, Visit
from protocols.interfaces import TestbenchSimulator
from protocols.journal import Message
from protocols.rollouts import Rollout
from protocols.tasks import CoverageTask
from protocols.transitions import coverage_of

ABOUT_REGIONS: tuple[SignalKind, ...] = ("forgetting", "rare")


def visit_of(group: CompleteGroup, task: CoverageTask) -> DesignVisit:
    """Sum up a whole group on ``task``."""
    first = group.members[0][1]
    played = [(sequence, each) for sequence, each in group.members if isinstance(each, Rollout)]
    rollouts = [rollout for _, rollout in played]
    states = [rollout.graded for rollout in rollouts if rollout.graded is not None]
    covered = [coverage for state in states if (coverage := coverage_of(state)) is not None]
    return DesignVisit(
        group_id=first.group_id,
        group=first.group,
        task_id=task.task_id,
        root=task.beginning,
        design=task.design,
        round=task.round,
        author=rollouts[0].author if rollouts else "policy",
        version_min=min((rollout.version_min for rollout in rollouts), default=NO_VERSION),
        version_max=max((rollout.version_max for rollout in rollouts), default=NO_VERSION),
        successes=sum(rollout.succeeded for rollout in rollouts),
        rollouts=len(rollouts),
        void=len(group.members) - len(rollouts),
        sampled_tokens=sum(
            sampled_surprise(rollout.tokens)[1]
            for rollout in rollouts
            if rollout.author != "teacher"
        ),
        calls=len(states),
        best=float(max(map(average, covered), default=0)),
        points_hash=covered[0].points_hash if covered else "",
        counts=np.array(counts([each.hits for each in covered]), "<u2").tobytes(),
        evidence=tuple(sequence for sequence, _ in played),
    )


class RegionDetector:
    """The rules about regions, and all that they remember. A pure fold."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config.signals
        window = self._config.window
        self._of_design: defaultdict[str, deque[DesignVisit]] = defaultdict(
            lambda: deque(maxlen=window)
        )
        self._of_task: defaultdict[str, deque[DesignVisit]] = defaultdict(
            lambda: deque(maxlen=window)
        )
        """Visits of the tasks that work begins with."""

        self._last: dict[tuple[SignalKind, str], int] = {}
        """Version of the last signal of a kind about regions of a design."""

        self._said: Counter[OnPattern] = Counter()

    def recall(self, message: DesignVisit | Signal) -> None:
        """Take in what was judged or said before."""
        match message:
            case DesignVisit():
                self._of_design[message.design].append(message)
                if message.task_id == message.root:
                    self._of_task[message.root].append(message)
            case Signal(about=OnPattern() as about):
                self._last[message.kind, design_of(about)] = message.policy_version
                self._said[about] += 1
            case Signal():
                pass

    def judge(self, visit: DesignVisit, found: Sequence[Region], points: int) -> list[Signal]:
        """Take in a visit, of a design with these regions; return what is to be said."""
        earlier = [
            each
            for each in self._of_task.get(visit.task_id, ())
            if each.version_max < visit.version_min and _alike(each, visit)
        ]
        self.recall(visit)
        recent = [each for each in self._of_design[visit.design] if _alike(each, visit)]
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

    def _is_silent(self, kind: SignalKind, visit: DesignVisit) -> bool:
        last = self._last.get((kind, visit.design))
        return last is not None and visit.version_max - last < self._config.cool_down_versions

    def _signals(
        self, kind: SignalKind, findings: Sequence[Finding], visit: DesignVisit
    ) -> list[Signal]:
        """Return the strongest of what was said least; numbered behind those about the task."""
        chosen = sorted(findings, key=self._times_said)[:MOST_PER_VISIT]
        return [
            signal_of(
                kind,
                number,
                finding,
                group=visit.group,
                version=visit.version_max,
            )
            for number, finding in enumerate(chosen, MOST_PER_VISIT)
        ]

    def _times_said(self, finding: Finding) -> int:
        return self._said[finding.about] if isinstance(finding.about, OnPattern) else 0


class DesignObserver:
    """A `coevolve.signals.extractor.Observer` of rollouts on designs."""

    topics = ("design_visit", "signal")

    def __init__(
        self,
        config: RunConfig,
        *,
        tasks: TaskShelf[CoverageTask],
        catalogue: Catalogue,
        simulator: TestbenchSimulator,
    ) -> None:
        """Remember nothing; ``simulator`` knows the points of designs."""
        self._last_round = hdl_settings(config).rounds - 1
        self._first_groups = _detector(config, "forgetting")
        self._last_groups = _detector(config, "boundary")
        self._of_regions = RegionDetector(config)
        self._tasks = tasks
        self._catalogue = catalogue
        self._simulator = simulator
        self._regions: dict[str, tuple[Region, ...]] = {}

    def recall(self, message: Message) -> None:
        """Take in a visit or a signal; see `coevolve.signals.extractor.Observer`."""
        match message:
            case Signal():
                self._of_regions.recall(message)
                self._first_groups.recall(message)
                self._last_groups.recall(message)
            case DesignVisit() if _tells(message):
                self._of_regions.recall(message)
                for detector in self._concerned(message):
                    detector.recall(_as_task(message))
            case _:
                pass

    async def judge(self, group: CompleteGroup) -> tuple[DesignVisit, Sequence[Signal]]:
        """Sum up the group and ask the rules; see `coevolve.signals.extractor.Observer`."""
        task = await self._tasks.get(group.members[0][1].task_id)
        visit = visit_of(group, task)
        if not _tells(visit):
            return visit, ()
        unit = (await self._catalogue.get(task.design)).unit
        points = await self._simulator.points(unit)
        if task.design not in self._regions:
            self._regions[task.design] = regions(points, unit)
        signals = self._of_regions.judge(visit, self._regions[task.design], len(points))
        for detector in self._concerned(visit):
            signals += detector.judge(_as_task(visit))
        return visit, signals

    def _concerned(self, visit: DesignVisit) -> list[Detector]:
        """Return the rules about tasks that a visit says something to."""
        first = [self._first_groups] if visit.task_id == visit.root else []
        return [*first, self._last_groups] if visit.round == self._last_round else first


def _detector(config: RunConfig, kind: SignalKind) -> Detector:
    """Return the rules about tasks of one kind, of none where the run leaves it out."""
    kinds = tuple(each for each in config.signals.kinds if each == kind)
    return Detector(msgspec.structs.replace(config.signals, kinds=kinds), ())


def _tells(visit: DesignVisit) -> bool:
    """Return whether a visit says anything of the policy."""
    return visit.author == "policy" and visit.rollouts > 0


def _alike(one: DesignVisit, other: DesignVisit) -> bool:
    """Return whether two visits count the same points."""
    return "" in (one.points_hash, other.points_hash) or one.points_hash == other.points_hash


def _as_task(visit: DesignVisit) -> Visit:
    """Return what a visit says of the task that work began with, as of one with tools."""
    return Visit(
        group_id=visit.group_id,
        group=visit.group,
        task_id=visit.root,
        version_min=visit.version_min,
        version_max=visit.version_max,
        successes=visit.successes,
        rollouts=visit.rollouts,
        void=visit.void,
        surprise=0.0,
        sampled_tokens=0,
        calls=0,
        patterns=(),
        evidence=visit.evidence,
    )

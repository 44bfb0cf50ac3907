"""The observer of groups on designs: what it records of them, and which give signals."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.export.annotated import annotated
from coevolve.environments.hdl.observer import DESIGN_POINTS, DesignObserver
from coevolve.environments.hdl.policy.frontier import beginning, continued
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import Graded
from coevolve.environments.hdl.simulate.messages import Covered, Evaluate, Evaluated, Point, Unit
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.snapshots import Piece
from coevolve.signals.groups import CompleteGroup
from protocols.config import RunConfig
from protocols.evolution import EnvironmentRecord, GroupSummary, Signal
from protocols.evolution_config import SignalsConfig
from protocols.journal import Append, Message, Receipt
from protocols.rollouts import Writer
from tests.coevolve.environments.hdl.policy.test_frontier import design, rollout
from tests.hdl_points import POINTS, covering

CONFIG = RunConfig(
    name="x", arm="static", environment={"use": "hdl"}, signals=SignalsConfig(rules="paper")
)
STATES = [point for point in POINTS if point.metric == "fsm" and "->" not in point.name]
LAST = POINTS[-1:]
TASK = beginning(design("top"), CONFIG)


def graded(points: Sequence[Point]) -> Graded:
    outcome = Covered(coverage=covering(points), ended="finish", slots=1, time=1, log="")
    return Graded(testbench=str(points), outcome=outcome, key=str(points))


class PointsAlone:
    """A simulator that says which points a design has."""

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        return POINTS

    async def evaluate(self, request: Evaluate) -> Evaluated:
        raise AssertionError(f"asked to simulate {request}")


class Desk:
    """A journal, and the observer of its groups."""

    def __init__(self, folder: Path) -> None:
        self.store = LocalStore(Journal.open(folder))
        self._writes = 0
        self._group = 0

    def observer(self) -> DesignObserver:
        return DesignObserver(
            CONFIG,
            reader=self.store,
            catalogue=Catalogue([design("top")]),
            simulator=PointsAlone(),
        )

    async def add(self, *messages: Message) -> None:
        self._writes += 1
        receipt = Receipt(producer="test", counter=self._writes)
        await self.store.append(Append(records=tuple(map(encode, messages)), receipt=receipt))

    async def group(
        self, task: CoverageTask, *outcomes: bool, author: Writer = "policy"
    ) -> CompleteGroup:
        """Return a new group of a further version; ``outcomes`` say which rollouts succeeded."""
        await self.add(task.task())
        self._group += 1
        played = [
            msgspec.structs.replace(
                rollout(self._group, index, graded(STATES)),
                task_id=task.task_id,
                group_size=len(outcomes),
                author=author,
                ended="finished" if done else "wrong",
                turns_passed=int(done),
                turns_total=1,
                version_min=self._group,
                version_max=self._group,
            )
            for index, done in enumerate(outcomes)
        ]
        return CompleteGroup(members=tuple(enumerate(played, 10 * self._group)))


def signals(found: Sequence[Signal | EnvironmentRecord]) -> list[Signal]:
    return [each for each in found if isinstance(each, Signal)]


async def test_the_points_of_a_design_are_recorded_once_and_explain_its_counts(tmp_path: Path):
    desk = Desk(tmp_path)
    observer = desk.observer()
    summary, found = await observer.judge(await desk.group(TASK, True, False))
    again, repeated = await observer.judge(await desk.group(TASK, True, False))
    records = [each for each in found if isinstance(each, EnvironmentRecord)]
    assert [(each.kind, each.key) for each in records] == [(DESIGN_POINTS, "top")]
    assert not [each for each in repeated if isinstance(each, EnvironmentRecord)]
    await desk.add(summary, *records)
    _, after_a_restart = await desk.observer().judge(await desk.group(TASK, True, False))
    assert not [each for each in after_a_restart if isinstance(each, EnvironmentRecord)]

    leaf, top = await annotated(desk.store, [summary, again])
    assert (leaf.name, top.name, top.groups) == ("top/leaf.sv", "top/top.sv", 2)
    states = top.lines[1]
    assert (states.points, states.reached, states.newest) == (6, 3, 3)
    assert states.missed == ("fsm DONE->IDLE", "fsm IDLE->RUN", "fsm RUN->DONE")
    assert sum(line.points for source in (leaf, top) for line in source.lines) == len(POINTS)
    assert top.lines[-1].points == 0


async def test_a_task_that_the_policy_forgot_gives_a_signal(tmp_path: Path):
    desk = Desk(tmp_path)
    observer = desk.observer()
    await observer.judge(await desk.group(TASK, True, True))
    summary, found = await observer.judge(await desk.group(TASK, False, False))
    assert "forgetting" in {each.kind for each in signals(found)}
    assert (summary.root, summary.successes, summary.rollouts) == ("top", 0, 2)


async def test_groups_from_earlier_testbenches_and_of_other_writers_give_no_signals(
    tmp_path: Path,
):
    desk = Desk(tmp_path)
    observer = desk.observer()
    later = continued(TASK, graded(LAST), "g0/0")
    others: tuple[tuple[CoverageTask, Writer], ...] = (
        (later, "policy"),
        (TASK, "grammar"),
        (TASK, "teacher"),
    )
    for task, author in others:
        for done in (True, False):
            summary, found = await observer.judge(await desk.group(task, done, done, author=author))
            assert signals(found) == []
            assert (summary.root, summary.author) == ("top", author)


async def test_the_observer_starts_from_a_snapshot(tmp_path: Path):
    desk = Desk(tmp_path)
    whole, halves, resumed = desk.observer(), desk.observer(), desk.observer()
    groups = [await desk.group(TASK, bool(n % 2), bool(n % 3)) for n in range(8)]
    said: list[GroupSummary | Signal] = []
    for group in groups:
        summary, found = await whole.judge(group)
        said += [summary, *signals(found)]
    for message in said[:5]:
        halves.recall(message)
    piece = resumed.piece
    assert isinstance(piece, Piece)
    state = msgspec.msgpack.encode(halves.piece.state)
    piece.state = msgspec.msgpack.decode(state, type=type(piece.state))
    for message in said[5:]:
        resumed.recall(message)
    assert msgspec.msgpack.encode(piece.state) == msgspec.msgpack.encode(whole.piece.state)

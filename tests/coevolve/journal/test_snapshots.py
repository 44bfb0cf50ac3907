"""The state from a snapshot and the records after it is the state from all records."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from coevolve.curriculum import schedule
from coevolve.curriculum.schedule import Schedule
from coevolve.curriculum.task_pool import TOPICS as POOL_TOPICS
from coevolve.curriculum.task_pool import Pool
from coevolve.history import costs, evolution_totals, progress
from coevolve.history.costs import Costs
from coevolve.history.evolution_totals import EvolutionTotals
from coevolve.history.group_totals import GroupTotals
from coevolve.history.progress import Progress
from coevolve.journal.codec import SNAPSHOTS_BY_PART, decode_as, encode
from coevolve.journal.fold import fold
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.reader import JournalReader
from coevolve.journal.snapshots import Piece, Snapshots
from coevolve.journal.verification import faults
from coevolve.learning import guard, recorded_checkpoints
from coevolve.learning.guard import Guard
from coevolve.learning.recorded_checkpoints import RecordedCheckpoints
from coevolve.llm import call_totals
from coevolve.llm.call_totals import CallTotals
from coevolve.signals.detector import Detector
from protocols.config import RunConfig
from protocols.control import PartsRest, RunContinued, RunPaused, RunStarted, StateSnapshot
from protocols.evolution import (
    GroupSummary,
    ModelAnswers,
    ModelRests,
    Parked,
    ReaderAnswers,
    ReaderRests,
    Signal,
)
from protocols.evolution_config import SignalsConfig
from protocols.journal import Append, Message, Receipt
from protocols.learner_config import LearnerConfig
from protocols.learning import CanaryScores, Checkpoint, Returned, TaskScore
from tests import evolving
from tests.coevolve.signals.histories import visit
from tests.pieces import State
from tests.random_histories import History

EAGER = SignalsConfig(
    kinds=("forgetting", "boundary", "rare", "uncertainty"),
    rare_share=0.3,
    confidence=0.6,
    forgetting_drop=0.1,
    cool_down_versions=2,
    window=3,
)
TOOLS = ("cd", "du", "mv")


class Live:
    """A part at work on a journal: it folds, writes snapshots, and may have told itself first."""

    def __init__(
        self,
        journal: Journal,
        part: str,
        pieces: Callable[[], Sequence[Any]],
        topics: Sequence[str],
    ) -> None:
        self.store = LocalStore(journal)
        self.state = State(())
        self.snapshots = Snapshots(self.store, part, topics, lambda: State(pieces()), span=1)
        self.through = 0
        self._writes = 0

    @property
    def pieces(self) -> Sequence[Any]:
        return self.state.pieces

    async def start(self) -> None:
        self.state, self.through = await self.snapshots.restore()
        await self.follow()

    async def follow(self) -> None:
        topics = self.snapshots.topics
        self.through = await fold(self.store, topics, self.state.fold, self.through)

    async def write(self, *messages: Message) -> None:
        self._writes += 1
        receipt = Receipt(producer=f"{id(self)}", counter=self._writes)
        await self.store.append(Append(records=tuple(map(encode, messages)), receipt=receipt))

    async def write_snapshot(self) -> None:
        await self.write(*await self.snapshots.due(self.through))


def config_of(evolve_every: int) -> RunConfig:
    tree = {
        "name": "x",
        "evolve_every": evolve_every,
        "rollout": {"in_flight_groups": 4},
        "pool": {"capacity": 3, "retire_after": 1, "retired_share": 0.3, "retired_capacity": 2},
        "learner": {"groups_per_step": 2, "steps": 1000},
    }
    return msgspec.convert(tree, RunConfig)


class Curriculum:
    """A curriculum's state, and a random run around it."""

    topics = tuple({*schedule.TOPICS, *schedule.CYCLE_TOPICS, *POOL_TOPICS})

    def __init__(self, evolve_every: int) -> None:
        self.config = config_of(evolve_every)

    def pieces(self) -> tuple[Any, ...]:
        return Schedule.of(self.config), Pool(self.config)

    async def live(self, live: Live, chance: random.Random) -> None:
        counts: Schedule = live.pieces[0]
        await live.write(RunStarted(run_id="r", config=""), *map(evolving.seed, "abc"))
        for number in range(chance.randint(5, 40)):
            await live.write(*_others(number, counts, chance), *_consumed(counts, chance))
            await live.follow()
            if chance.random() < 0.3:
                await live.write_snapshot()
            await self._request(live, number, chance)

    async def _request(self, live: Live, number: int, chance: random.Random) -> None:
        """Request the next groups, as `coevolve.curriculum.worker` does, while others write."""
        counts, pool = live.pieces
        requests: list[Message] = []
        go_on = counts.is_cycle_over and not counts.is_paused
        if go_on:
            pool.join()
        while counts.issued < counts.may_be_issued(go_on=go_on):
            drawn = pool.draw(np.random.default_rng(number))
            requests.append(evolving.requested(counts.issued, drawn, counts.steps))
            live.state.fold(requests[-1])
        if requests:
            await live.write(*_others(1000 + number, counts, chance), *requests)

    def answers(self, pieces: Sequence[Any]) -> object:
        """Return what a state answers: the next draws, and how many groups may be issued."""
        counts, pool = pieces
        draws = [pool.draw(np.random.default_rng(seed)) for seed in range(20)]
        return draws, pool.weights(), pool.live, pool.retired, counts.may_be_issued(go_on=True)


def _others(number: int, counts: Schedule, chance: random.Random) -> Iterator[Message]:
    """Yield what other parts write meanwhile."""
    task = chance.choice(["a", "b", "c", "m3", "m5", "m7"])
    cause = f"s{number}"
    if chance.random() < 0.5:
        made = evolving.admission(f"c{number}", cause, f"m{number % 9}")
        yield from (evolving.signal(cause, task), evolving.candidate(f"c{number}", cause), *made)
    if counts.consumed and chance.random() < 0.5:
        yield evolving.visit(task, chance.choice([0, 3, 8]), chance.randrange(counts.consumed))
    if chance.random() < 0.2:
        yield evolving.verdict(f"c{number}-", cause, Parked(probe_rollouts=4))
        yield chance.choice([RunPaused(run_id="r"), RunContinued(run_id="r")])
    if chance.random() < 0.2:
        yield chance.choice(RESTS)


RESTS: Sequence[Message] = (
    *(PartsRest(causes={"signals": "?"}), PartsRest(causes={})),
    *(ModelRests(synthesizer="m", failures=3, reason="?"), ModelAnswers(synthesizer="m")),
    *(ReaderRests(failures=3, reason="?"), ReaderAnswers()),
)


def _consumed(counts: Schedule, chance: random.Random) -> Iterator[Message]:
    """Yield what the learner writes when it has a step's groups."""
    first, most = counts.consumed, counts.consumed + 2
    if counts.issued < most:
        return
    if chance.random() < 0.2:
        lost = evolving.discarded(first)
        yield msgspec.structs.replace(lost, groups_consumed=first + 1)
        return
    step = evolving.stepped(counts.steps + 1, *chance.sample(["a", "b", "m3", "m5"], 2))
    groups = [
        msgspec.structs.replace(each, group=number)
        for number, each in enumerate(step.groups, first)
    ]
    yield msgspec.structs.replace(step, groups=tuple(groups), groups_consumed=most)


class Signals:
    """The state of the rules, and a random run around it."""

    topics = ("group_summary", "signal")

    def __init__(self, rules: str) -> None:
        self.config = msgspec.structs.replace(EAGER, rules=rules)

    def pieces(self) -> tuple[Any, ...]:
        return (Detector(self.config, TOOLS, 3),)

    async def live(self, live: Live, chance: random.Random) -> None:
        [detector] = live.pieces
        for number in range(chance.randint(1, 30)):
            summary = random_visit(number, chance)
            await live.write(summary, *detector.judge(summary))
            live.through = await live.store.wait((), 0, 0.0)
            if chance.random() < 0.3:
                await live.write_snapshot()

    def answers(self, pieces: Sequence[Any]) -> object:
        [detector] = pieces
        chance = random.Random(1)
        return [detector.judge(random_visit(number, chance)) for number in range(100, 120)]


def random_visit(group: int, chance: random.Random) -> GroupSummary:
    tool = chance.choice(TOOLS)
    return visit(
        chance.choice([0, 4, 8]),
        group=group,
        version=group // 2,
        task_id=chance.choice("abc"),
        surprise=chance.random(),
        patterns=[("tool", tool, chance.randint(1, 3)), ("error_class", tool, 1)],
    )


class Learner:
    """What the learner remembers of its checkpoints and of the guard, and a random run of it."""

    topics = tuple({*guard.TOPICS, *recorded_checkpoints.TOPICS})

    def pieces(self) -> tuple[Any, ...]:
        return Guard(LearnerConfig()), RecordedCheckpoints()

    async def live(self, live: Live, chance: random.Random) -> None:
        for step in range(1, chance.randint(2, 40)):
            await live.write(*_step(step, chance))
            await live.follow()
            if chance.random() < 0.3:
                await live.write_snapshot()

    def answers(self, pieces: Sequence[Any]) -> object:
        watching, checkpoints = pieces
        replaced = checkpoints.replaced(99, kept=True, keep=2, needed=watching.needed)
        return watching.loss(), watching.best, watching.needed, replaced


def _step(step: int, chance: random.Random) -> Iterator[Message]:
    """Yield what the learner and the evaluator may write about a step."""
    returned = None
    if step > 3 and chance.random() < 0.1:
        returned = Returned(to_version=step - 3, rate_factor=0.5)
    report = msgspec.structs.replace(evolving.stepped(step), returned=returned)
    yield msgspec.structs.replace(report, devices=chance.choice([1, 1, 1, 2]))
    replaces = tuple({chance.randint(1, step) for _ in range(2)} - {step})
    kept = chance.random() < 0.5
    yield Checkpoint(step=step, path="p", digest="d", size_bytes=1, kept=kept, replaces=replaces)
    scores = [
        TaskScore(task_id=task, turns_passed=chance.randint(0, 1), turns_total=1)
        for task in "abcdef"
    ]
    yield CanaryScores(version=step, scores=tuple(scores), errors=0)


class Launcher:
    """The launcher's states, and a random run of all parts."""

    topics = tuple({*progress.TOPICS, *evolution_totals.TOPICS, *costs.TOPICS, *call_totals.TOPICS})

    def pieces(self) -> tuple[Any, ...]:
        return Progress({"a": ("one",)}), EvolutionTotals(), Costs(), GroupTotals(), CallTotals()

    async def live(self, live: Live, chance: random.Random) -> None:
        history = History(chance)
        await live.write(*history.opening())
        for number in range(chance.randint(5, 40)):
            await live.write(*history.events(number))
            await live.follow()
            if chance.random() < 0.1:
                await live.write_snapshot()

    def answers(self, pieces: Sequence[Any]) -> object:
        following, totals, *_ = pieces
        return following.lesson(), following.degraded.lines(), totals.kinds()


Part = Curriculum | Signals | Learner | Launcher

PARTS: dict[str, Callable[[], Part]] = {
    "curriculum": lambda: Curriculum(0),
    "curriculum in cycles": lambda: Curriculum(2),
    "signals": lambda: Signals("posterior"),
    "signals, the paper's": lambda: Signals("paper"),
    "learner": Learner,
    "launcher": Launcher,
}


@pytest.mark.parametrize("part", PARTS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_snapshot_and_the_records_after_it_give_the_state_of_all_records(part: str, seed: int):
    asyncio.run(_random_run(PARTS[part](), random.Random(seed)))


async def _random_run(
    part: Curriculum | Signals | Learner | Launcher, chance: random.Random
) -> None:
    with TemporaryDirectory() as folder:
        journal = Journal.open(Path(folder))
        working = Live(journal, "p", part.pieces, part.topics)
        await working.start()
        await part.live(working, chance)
        resumed = Live(journal, "p", part.pieces, part.topics)
        await resumed.start()
        whole = Live(journal, "another", part.pieces, part.topics)
        await whole.start()
        stored = await working.store.find(SNAPSHOTS_BY_PART, "p")
        journal.close()
    assert len(stored) <= 2
    states = [[piece.state for piece in each.pieces] for each in (resumed, whole)]
    assert states[0] == states[1]
    assert part.answers(resumed.pieces) == part.answers(whole.pieces)


class Sum(msgspec.Struct):
    successes: int


class Counted:
    """A piece that adds up successes."""

    keeps = ()

    def __init__(self, settings: object = None) -> None:
        self.settings = settings
        self.state = Sum(0)
        self.passed = 0

    def fold(self, message: Message) -> None:
        assert isinstance(message, GroupSummary | Signal)
        self.passed += 1
        self.state.successes += message.successes if isinstance(message, GroupSummary) else 0


TOPICS = ("group_summary",)


async def _counted(folder: Path) -> tuple[Journal, Live]:
    """Return a journal with 3 visits of one success each, and a snapshot after each of them."""
    journal = Journal.open(folder)
    live = Live(journal, "p", lambda: (Counted(),), TOPICS)
    await live.start()
    for number in range(3):
        await live.write(visit(1, group=number))
        await live.follow()
        await live.write_snapshot()
    return journal, live


async def test_the_journal_keeps_the_newest_two_snapshots_of_each_part(tmp_path: Path):
    journal, live = await _counted(tmp_path)
    await live.write(StateSnapshot(part="q", number=1, through=1, form="", states=()))
    records = await live.store.scan("state_snapshot")
    kept = [decode_as(record, StateSnapshot) for record in records]
    assert [(each.part, each.number) for each in kept] == [("p", 2), ("p", 3), ("q", 1)]
    statistics = journal.statistics().result(10)
    assert statistics.topics["state_snapshot"] == 3
    journal.close()
    assert not faults(tmp_path)
    Journal.open(tmp_path).close()


async def test_a_part_reads_only_what_came_after_its_newest_snapshot(tmp_path: Path):
    journal, live = await _counted(tmp_path)
    await live.write(visit(1, group=3))
    resumed = Live(journal, "p", lambda: (Counted(),), TOPICS)
    await resumed.start()
    assert (resumed.pieces[0].state.successes, resumed.pieces[0].passed) == (4, 1)
    journal.close()


@pytest.mark.parametrize("other", ["settings", "topics", "type", "bytes", "record"])
async def test_a_snapshot_of_another_form_is_ignored_with_a_word(tmp_path: Path, other: str):
    journal, live = await _counted(tmp_path)
    piece = Counted("others" if other == "settings" else None)
    topics = ("group_summary", "signal") if other == "topics" else TOPICS
    if other == "type":
        piece.state = msgspec.defstruct("Sum", [("successes", float)])(0.0)  # pyright: ignore
    if other == "bytes":
        newest = decode_as((await live.store.scan("state_snapshot"))[-1], StateSnapshot)
        broken = msgspec.structs.replace(newest, states=(b"\xc1",), through=99)
        await live.write(broken, broken)
    if other == "record":
        record = msgspec.structs.replace(
            encode(StateSnapshot(part="p", number=4, through=1, form="", states=())), body=b"\xc1"
        )
        receipt = Receipt(producer="raw", counter=1)
        await live.store.append(Append(records=(record, record), receipt=receipt))
    resumed = Live(journal, "p", lambda: (piece,), topics)
    with capture_logs() as logs:
        await resumed.start()
    assert [each["event"] for each in logs] == 2 * ["snapshot_ignored"]
    assert (piece.state.successes, piece.passed) == (3, 3)
    journal.close()


@pytest.mark.parametrize(
    "of", [Pool, Schedule.of, lambda config: Detector(config.signals, TOOLS, 3)]
)
def test_a_piece_names_the_settings_on_which_its_state_depends(of: Callable[[RunConfig], Piece]):
    tree = msgspec.to_builtins(config_of(2))
    changes: list[dict[str, Any]] = [{}, {"evolve_every": 3}]
    changes += [{"pool": tree["pool"] | {"retire_after": 7}}]
    changes += [{"learner": tree["learner"] | {"imitation": {"weight": 0.0}}}]
    changes += [{"signals": tree["signals"] | {"window": 3}}]
    pieces = [of(msgspec.convert(tree | change, RunConfig)) for change in changes]
    differ = [piece.settings != pieces[0].settings for piece in pieces[1:]]
    expected = {Pool: [1, 1, 1, 0], Schedule.of: [1, 0, 0, 0]}
    assert differ == expected.get(of, [0, 0, 0, 1])  # pyright: ignore


async def test_an_older_snapshot_serves_if_the_newest_cannot_be_read(tmp_path: Path):
    journal, live = await _counted(tmp_path)
    newest = decode_as((await live.store.scan("state_snapshot"))[-1], StateSnapshot)
    await live.write(msgspec.structs.replace(newest, number=4, states=(b"", b"")))
    resumed = Live(journal, "p", lambda: (Counted(),), TOPICS)
    await resumed.start()
    assert (resumed.pieces[0].state.successes, resumed.pieces[0].passed) == (3, 0)
    [following] = await resumed.snapshots.due(resumed.through + 1)
    assert following.number == 5
    journal.close()


async def test_a_part_with_a_piece_of_another_kind_has_no_snapshots(tmp_path: Path):
    journal, _ = await _counted(tmp_path)

    class Plain:
        passed = 0

        def fold(self, message: Message) -> None:
            self.passed += 1

    plain = Plain()
    assert not isinstance(plain, Piece)
    resumed = Live(journal, "p", lambda: (Counted(), plain), TOPICS)
    await resumed.start()
    assert not await resumed.snapshots.due(10**9)
    assert plain.passed == resumed.pieces[0].passed == 3
    journal.close()


async def test_a_reader_of_the_file_finds_the_snapshots(tmp_path: Path):
    journal, _ = await _counted(tmp_path)
    journal.close()
    snapshots = Snapshots(JournalReader(tmp_path), "p", TOPICS, lambda: State((Counted(),)))
    state, through = await snapshots.restore()
    assert through > 0
    assert state.pieces[0].state.successes == 3

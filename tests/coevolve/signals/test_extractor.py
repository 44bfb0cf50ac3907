import asyncio
import contextlib
import itertools
import random
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from coevolve.environments.tools.observer import ToolObserver
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.journal.codec import decode_as, encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.signals.extractor import SignalExtractor
from coevolve.signals.groups import CompleteGroup
from protocols.config import RolloutConfig, RunConfig, WatchdogConfig
from protocols.control import DeadLetter, LetterAnswered, LetterRetried
from protocols.evolution import EnvironmentRecord, GroupSummary, Signal
from protocols.evolution_config import SignalsConfig
from protocols.interfaces import Reader
from protocols.journal import Append, Complete, Message, Receipt, StoredRecord, Take
from protocols.rollouts import FailedRollout, Rollout
from protocols.tasks import Seeded, Task, body_of
from tests.coevolve.signals.histories import action, failed, rollout
from tests.contexts import context_of

SIZE = 4
TOOLS = ("cd", "du", "mv", "wc")
CONFIG = RunConfig(
    name="test",
    watchdog=WatchdogConfig(attempts=100),  # some tests kill the part again and again
    rollout=RolloutConfig(group_size=SIZE),
    signals=SignalsConfig(
        rare_share=0.3,
        confidence=0.8,
        forgetting_drop=0.1,
        false_discovery=0.3,
        cool_down_versions=3,
    ),
)

Member = Rollout | FailedRollout
Said = Member | LetterRetried


def members(groups: int, seed: int) -> list[Member]:
    """Return groups of a few tasks that get worse, with interleaved members."""
    draws = random.Random(seed)
    made: list[Member] = []
    for group in range(groups):
        skill = 0.9 if group < groups // 2 else 0.1
        for index in range(SIZE):
            if draws.random() < 0.1:
                made.append(failed(group, index, task_id=f"t{group % 3}"))
                continue
            tool = draws.choices(TOOLS, (90, 0, 9, 1))[0]
            made.append(
                rollout(
                    group,
                    index,
                    passed=draws.random() < skill,
                    version=group // 2,
                    task_id=f"t{group % 3}",
                    actions=[action(f"{tool}(name='a')")],
                )
            )
    return [each for _, each in sorted(enumerate(made), key=lambda e: e[0] + draws.random() * 6)]


def task_called(task_id: str) -> Task:
    turn = ToolTurn(instruction="Go.", reference=("cd(folder='a')",))
    body = ToolTask(classes=("GorillaFileSystem",), world="{}", turns=(turn,))
    origin = Seeded(source=task_id)
    return Task(task_id=task_id, split="train", origin=origin, body=body_of(body))


class Stumbling(ToolObserver):
    """Raises an error at some groups, after it counted them."""

    def __init__(self, config: RunConfig, reader: Reader, fails: Collection[int]) -> None:
        super().__init__(config, TOOLS, reader=reader)
        self._fails = fails

    async def judge(
        self, group: CompleteGroup
    ) -> tuple[GroupSummary, Sequence[Signal | EnvironmentRecord]]:
        found = await super().judge(group)
        if found[0].group in self._fails:
            raise ValueError("a strange answer")
        return found


class Desk:
    """A journal with rollouts, and extractors that work on it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writes = 0
        self._identity: dict[int, str] = {}
        self._tasks: set[str] = set()
        self.journal = Journal.open(folder)
        self.store = LocalStore(self.journal)

    async def add(self, messages: Sequence[Said]) -> None:
        """Add messages, with the tasks that they are the first to name."""
        named = {each.task_id for each in messages if not isinstance(each, LetterRetried)}
        tasks = list(map(task_called, sorted(named - self._tasks)))
        self._tasks |= named
        if tasks:
            await self._append(tasks)
        sequences = await self._append(messages)
        for sequence, each in zip(sequences, messages, strict=True):
            if not isinstance(each, LetterRetried):
                self._identity[sequence] = f"{each.group_id}/{each.index}"

    async def _append(self, messages: Sequence[Message]) -> Sequence[int]:
        self._writes += 1
        return await self.store.append(
            Append(
                records=tuple(map(encode, messages)),
                receipt=Receipt(producer="test", counter=self._writes),
            )
        )

    def extractor(
        self, store: LocalStore | None = None, fails: Collection[int] = (), attempts: int = 100
    ) -> SignalExtractor:
        """Return a part that raises an error at the groups ``fails``, after it counted them."""
        config = replace(CONFIG, watchdog=WatchdogConfig(attempts=attempts))
        return SignalExtractor(
            context_of(config, store or self.store, "signals", reader=self.store),
            lambda: Stumbling(config, self.store, fails),
        )

    async def visits(self, count: int) -> None:
        """Wait until there are ``count`` summaries."""
        seen = 0
        while len(await self.store.scan("group_summary", limit=10_000)) < count:
            seen = await self.store.wait(("group_summary",), seen, 10)

    async def said(self) -> list[dict[str, Any]]:
        """Return every summary and signal in order, with evidence as group and index."""
        records = [
            *await self.store.scan("group_summary", limit=10_000),
            *await self.store.scan("signal", limit=10_000),
        ]
        outputs: list[dict[str, Any]] = []
        for record in sorted(records, key=lambda each: each.sequence):
            output = decode_as(record, GroupSummary if record.topic == "group_summary" else Signal)
            tree = msgspec.msgpack.decode(record.body)
            outputs.append({**tree, "evidence": [self._identity[s] for s in output.evidence]})
        return outputs


@contextlib.asynccontextmanager
async def at_work(extractor: SignalExtractor):
    """Let an extractor run, and cancel it without a clean stop."""
    running = asyncio.create_task(extractor.run())
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def complete(messages: Sequence[Member]) -> int:
    counts: dict[str, int] = {}
    for each in messages:
        counts[each.group_id] = counts.get(each.group_id, 0) + 1
    return sum(count == SIZE for count in counts.values())


async def undisturbed(folder: Path, messages: Sequence[Member]) -> list[dict[str, Any]]:
    desk = Desk(folder)
    await desk.add(messages)
    async with at_work(desk.extractor()):
        await desk.visits(complete(messages))
    said = await desk.said()
    desk.journal.close()
    return said


@pytest.mark.parametrize("seed", range(3))
async def test_extractors_that_are_killed_say_the_same_as_one_that_is_not(
    tmp_path: Path, seed: int
):
    messages = members(30, seed)
    expected = await undisturbed(tmp_path / "whole", messages)
    assert sum("signal_id" in each for each in expected) > 5
    draws = random.Random(seed)
    cuts = [0, *sorted(draws.sample(range(1, len(messages)), 8)), len(messages)]
    desk = Desk(tmp_path / "cut")
    for start, end in itertools.pairwise(cuts):
        await desk.add(messages[start:end])
        async with at_work(desk.extractor()):
            await asyncio.sleep(draws.choice([0, 0.002, 0.01]))
        if draws.random() < 0.5:
            async with at_work(desk.extractor()):
                await desk.visits(complete(messages[:end]))
    async with at_work(desk.extractor()):
        await desk.visits(complete(messages))
    assert await desk.said() == expected
    assert (await desk.store.statistics()).backlog.get("signals", 0) == 0
    desk.journal.close()


class Slow(LocalStore):
    """Finishes records only once it is let go."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self.asked, self.let_go, self.done = (asyncio.Event() for _ in range(3))

    async def complete(self, request: Complete) -> tuple[int, ...]:
        self.asked.set()
        await self.let_go.wait()
        try:
            return await super().complete(request)
        finally:
            self.done.set()


class After(LocalStore):
    """Hands out the first records after the write that a slow store holds back."""

    def __init__(self, journal: Journal, slow: Slow) -> None:
        super().__init__(journal)
        self._slow = slow

    async def take(self, request: Take) -> Sequence[StoredRecord]:
        if request.topics:
            self._slow.let_go.set()
            await self._slow.done.wait()
        return await super().take(request)


async def test_a_write_of_an_extractor_that_was_replaced_comes_too_late(tmp_path: Path):
    messages = members(30, 0)
    expected = await undisturbed(tmp_path / "whole", messages)
    desk = Desk(tmp_path / "late")
    slow = Slow(desk.journal)
    await desk.add(messages[:60])
    async with at_work(desk.extractor(slow)):
        await slow.asked.wait()
    async with at_work(desk.extractor(After(desk.journal, slow))):
        await desk.add(messages[60:])
        await desk.visits(complete(messages))
    assert await desk.said() == expected
    desk.journal.close()


async def test_a_visit_and_its_signals_finish_the_group_in_one_transaction(tmp_path: Path):
    desk = Desk(tmp_path)
    await desk.add([rollout(0, index, passed=index < 2) for index in range(SIZE)])
    await desk.add([rollout(1, index) for index in range(SIZE - 1)])
    extractor = desk.extractor()
    async with at_work(extractor) as running:
        await desk.visits(1)
        [visit, signal] = [
            *await desk.store.scan("group_summary"),
            *await desk.store.scan("signal"),
        ]
        assert signal.sequence == visit.sequence + 1
        assert signal.time_ns == visit.time_ns
        await extractor.stop()
        await asyncio.wait_for(running, 10)
    assert extractor.status().done == SIZE
    assert extractor.status().mailbox == SIZE - 1
    desk.journal.close()


async def test_a_part_may_be_run_again(tmp_path: Path):
    desk = Desk(tmp_path)
    messages = members(6, 0)
    extractor = desk.extractor()
    async with at_work(extractor):
        await desk.add(messages[:10])
        await desk.visits(complete(messages[:10]))
    async with at_work(extractor):
        await desk.add(messages[10:])
        await desk.visits(6)
    assert len(await desk.store.scan("group_summary")) == 6
    desk.journal.close()


async def test_failed_rollouts_are_counted_and_say_nothing(tmp_path: Path):
    desk = Desk(tmp_path)
    await desk.add([failed(0, index) for index in range(SIZE)])
    await desk.add([failed(1, 0), *(rollout(1, index) for index in range(1, SIZE))])
    async with at_work(desk.extractor()):
        await desk.visits(2)
    visits = [decode_as(record, GroupSummary) for record in await desk.store.scan("group_summary")]
    assert [(each.successes, each.rollouts, each.errors) for each in visits] == [
        (0, 0, 4),
        (3, 3, 1),
    ]
    assert not await desk.store.scan("signal")
    desk.journal.close()


async def test_a_group_that_raises_at_each_attempt_changes_nothing_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("coevolve.parts.attempts.PAUSE_S", 0.001)
    messages, spoilt = members(30, 0), 9
    without = [each for each in messages if each.group != spoilt]
    expected = await undisturbed(tmp_path / "without", without)
    desk = Desk(tmp_path / "with")
    await desk.add(messages)
    async with at_work(desk.extractor(fails=(spoilt,), attempts=2)):
        await desk.visits(29)
    assert await desk.said() == expected
    [record] = await desk.store.scan("dead_letter")
    letter = decode_as(record, DeadLetter)
    assert (letter.subject, letter.attempts) == (str(spoilt), 2)
    retried = LetterRetried(letter=record.sequence, consumer="signals", sequence=letter.sequence)
    await desk.add([retried, *(rollout(99, index) for index in range(SIZE - 1))])
    async with at_work(desk.extractor()):
        await desk.visits(30)
    newest = decode_as((await desk.store.scan("group_summary"))[-1], GroupSummary)
    assert (newest.group, newest.rollouts + newest.errors) == (spoilt, SIZE)
    [answer] = await desk.store.scan("letter_answered")
    assert decode_as(answer, LetterAnswered).done
    desk.journal.close()


async def test_the_retry_of_a_group_of_which_rollouts_are_gone_is_answered(tmp_path: Path):
    desk = Desk(tmp_path)
    await desk.add([rollout(0, index) for index in range(SIZE - 1)])
    first, *_ = await desk.store.scan("rollout", limit=1)
    await desk.add([LetterRetried(letter=70, consumer="signals", sequence=first.sequence)])
    async with at_work(desk.extractor()), asyncio.timeout(10):
        await desk.store.wait(("letter_answered",), 0, 10)
    [answer] = await desk.store.scan("letter_answered")
    assert decode_as(answer, LetterAnswered) == LetterAnswered(
        letter=70, done=False, outcome="the journal has dropped rollouts of group g0"
    )
    desk.journal.close()

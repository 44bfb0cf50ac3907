"""After the journal dropped group summaries and calls of models, all totals are as before."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from coevolve.environments.registry import environment_of
from coevolve.history.costs import costs_snapshots
from coevolve.history.evolution_totals import evolution_snapshots
from coevolve.history.gathering import gather
from coevolve.history.group_totals import GroupTotals, Score, TaskGroups, group_snapshots
from coevolve.history.lineage import LineageIndex
from coevolve.history.related import Related
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.retention import SPENT_EVERY, SPENT_KEPT
from coevolve.journal.snapshots import SPAN, Snapshots
from coevolve.llm.call_totals import call_snapshots
from coevolve.report.page import page
from coevolve.runs.audit import audit
from protocols.config import RunConfig
from protocols.control import StateSnapshot
from protocols.journal import Append, Message, Receipt, Record
from tests.evolving import called, signal, story, visit
from tests.journals import WAIT_S, record

GROUPS = 2 * SPENT_KEPT
FIRST_VERSION = 9
PARTS = ("curriculum", "signals")


class Week:
    """A run that has lived so long that the journal dropped all summaries and calls it may drop."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal.open(folder, retain_bytes=0)
        self._counter = 0
        self.store = LocalStore(self._journal)
        self.whole = LineageIndex()

    def tell(self, *messages: Message) -> None:
        """Write messages."""
        for message in messages:
            self.whole.fold(message)
        self._write([encode(message) for message in messages])

    def pass_time(self) -> None:
        """Write what parts write, and pass so much time that records go."""
        launcher = (call_snapshots, costs_snapshots, evolution_snapshots, group_snapshots)
        written = [of(self.store) for of in launcher]
        for _ in range(2):
            self._write([record("", "rollout")])
            self._write([record("", "note")] * SPAN)
            asyncio.run(self._write_snapshots(written))
        for _ in range(4):
            self._write([record("", "note")] * SPENT_EVERY)

    def count(self, topic: str) -> int:
        """Return how many records of a topic the journal has."""
        return self._journal.statistics().result(WAIT_S).topics[topic]

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    async def _write_snapshots(self, written: Sequence[Snapshots[Any]]) -> None:
        through = self._journal.newest(())
        for snapshots in written:
            await snapshots.restore()
            self._write([encode(each) for each in await snapshots.due(through)])
        for part in PARTS:
            each = StateSnapshot(part=part, number=1, through=through, form="", states=())
            self._write([encode(each)])

    def _write(self, records: list[Record]) -> None:
        self._counter += 1
        receipt = Receipt(producer="p", counter=self._counter)
        self._journal.append(Append(records=tuple(records), receipt=receipt)).result(WAIT_S)


def test_groups_that_are_taken_out_again_leave_nothing():
    groups = [visit("seed-1", 3), visit("seed-1", 0, rollouts=0), visit("seed-1", 8)]
    found = TaskGroups()
    for each in groups:
        found.add(each)
    assert (found.groups, found.judged, found.successes, found.rollouts) == (3, 2, 11, 16)
    assert (found.first, found.newest) == (Score(3, 8), Score(8, 8))
    for each in groups:
        found.take_out(each)
    assert (found.groups, found.judged, found.successes, found.rollouts) == (0, 0, 0, 0)


def test_only_the_tasks_that_were_visited_last_are_counted():
    totals = GroupTotals(most_tasks=2)
    for task in ("a", "b", "a", "c"):
        totals.fold(visit(task, 4))
    assert {task: each.groups for task, each in totals.tasks.items()} == {"a": 2, "c": 1}
    other = GroupTotals(most_tasks=1)
    other.state = totals
    other.fold(visit("d", 4))
    assert [*other.tasks] == ["d"]


def lived() -> list[Message]:
    """Return the messages of a long life."""
    groups = [numbered(number) for number in range(GROUPS)]
    return [*story(), *[called("s1")] * GROUPS, *groups, signal("s3", "seed-1")]


def numbered(number: int) -> Message:
    """Return a summary of its own."""
    task = ("seed-1", "made-1")[number % 2]
    return replace(
        visit(task, number % 9, version=FIRST_VERSION + number), group_id=f"h{number}", group=number
    )


@pytest.fixture
def week(tmp_path: Path) -> Iterator[Week]:
    week = Week(tmp_path / "store")
    yield week
    week.close()


def test_the_totals_of_a_task_are_those_of_all_its_groups(week: Week):
    week.tell(*lived())
    week.pass_time()
    assert week.count("group_summary") == SPENT_KEPT
    related = Related(week.store)
    assert asyncio.run(related.add_lineage("made-1"))
    index = related.index()
    for task in ("made-1", "seed-1"):
        history, whole = index.history(task), week.whole.history(task)
        assert history.groups == whole.groups
        assert history.dropped.groups == whole.groups.groups - len(history.visits) > 0
        assert history.visits == whole.visits[-len(history.visits) :]
    assert index.history("made-1").groups.first == Score(2, 8)
    assert index.signal_history("s1").results == week.whole.signal_history("s1").results


def test_a_report_shows_the_totals_of_all_records_and_from_when_on_it_lists_groups(
    week: Week, quickstart: RunConfig
):
    environment = environment_of(quickstart)
    week.tell(*lived())
    before = asyncio.run(gather(week.store, quickstart, environment))
    week.pass_time()
    assert week.count("group_summary") == week.count("model_call") == SPENT_KEPT
    after = asyncio.run(gather(week.store, quickstart, environment))
    assert before.costs == after.costs
    assert before.totals == after.totals
    assert before.evolution.listed_from() is None
    listed = FIRST_VERSION + GROUPS - SPENT_KEPT
    assert after.evolution.listed_from() == listed
    assert f"from policy version {listed} on" in page(after)
    assert "from policy version" not in page(before)


def test_an_audit_finds_the_same_before_and_after(week: Week):
    week.tell(*lived())
    before = asyncio.run(audit(week.store))
    week.pass_time()
    after = asyncio.run(audit(week.store))
    # A request of a probe may have been deleted, so its report is not asked for one any more.
    missed = [each for each in before.faults if not each.startswith("probe report")]
    # The first steps may have been deleted too, so the first one left counts as the first.
    begun_later = [each.replace("to be 1, 2, 3,", "to be 3, 4, 5,") for each in missed]
    assert list(after.faults) == begun_later
    assert begun_later != missed
    assert after.deleted > before.deleted

from pathlib import Path

from coevolve.journal.fold import fold
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.journal.paging import PAGE
from protocols.journal import Message, StoredRecord
from protocols.tasks import Task
from tests.evolving import seed, signal, visit, write

TOPICS = ("task", "group_summary", "candidate_verdict")


async def test_topics_come_in_the_journals_order_and_each_record_once(tmp_path: Path):
    journal = Journal.open(tmp_path)
    store = LocalStore(journal)
    written: list[Message] = [seed("a"), visit("a", 1), signal("s"), visit("a", 2), seed("b")]
    write(journal, written)
    seen: list[Message] = []
    through = await fold(store, TOPICS, seen.append)
    assert seen == [message for message in written if message != signal("s")]
    assert await fold(store, TOPICS, seen.append, after=through) == through == 5
    assert len(seen) == 4
    journal.close()


async def test_a_record_that_comes_meanwhile_waits_for_the_next_fold(tmp_path: Path):
    journal = Journal.open(tmp_path)
    store = LocalStore(journal)
    write(journal, [seed("a")])
    seen: list[Message] = []

    def into(message: Message) -> None:
        seen.append(message)
        if len(seen) == 1:
            write(journal, [seed("a"), visit("a", 1), seed("b")])

    through = await fold(store, TOPICS, into)
    assert seen == [seed("a")]
    await fold(store, TOPICS, into, after=through)
    assert seen == [seed("a"), visit("a", 1), seed("b")]
    journal.close()


async def test_topics_longer_than_a_page_are_read_to_their_end(tmp_path: Path):
    journal = Journal.open(tmp_path)
    tasks = [seed(f"t{number}") for number in range(2 * PAGE + 1)]
    visits = [visit("t0", number % 9, number) for number in range(PAGE)]
    write(journal, [*tasks, *visits])
    seen: list[Message] = []
    through = await fold(LocalStore(journal), TOPICS, seen.append, after=1)
    assert through == 3 * PAGE + 1
    assert [message.task_id for message in seen if isinstance(message, Task)] == [
        task.task_id for task in tasks[1:]
    ]
    assert seen[2 * PAGE :] == visits
    journal.close()


class LateStore(LocalStore):
    """A journal that grows while its topics are read."""

    def __init__(self, journal: Journal, late: list[Message]) -> None:
        super().__init__(journal)
        self._journal_written = journal
        self._late = late

    async def last(self, topic: str) -> StoredRecord | None:
        """Return the last record, and let the journal grow once."""
        found = await super().last(topic)
        late, self._late = self._late, []
        write(self._journal_written, late)
        return found


async def test_a_record_that_comes_while_the_topics_are_looked_at_is_not_lost(tmp_path: Path):
    journal = Journal.open(tmp_path)
    write(journal, [seed("a")])
    store = LateStore(journal, [seed("a"), seed("b"), visit("a", 1)])
    seen: list[Message] = []
    through = await fold(store, TOPICS, seen.append, after=1)
    await fold(store, TOPICS, seen.append, after=through)
    assert seen == [seed("b"), visit("a", 1)]
    journal.close()

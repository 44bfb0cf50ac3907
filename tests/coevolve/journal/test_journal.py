import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import lmdb
import pytest

from coevolve.journal.heads import read_head
from coevolve.journal.journal import Journal
from coevolve.journal.layout import DATA_FILE, FORMAT, FORMAT_KEY
from coevolve.journal.opening import LOCK_FILE
from coevolve.journal.reader import JournalReader
from protocols.errors import (
    JournalDamagedError,
    JournalError,
    JournalFormatError,
    JournalFullError,
    JournalLockedError,
    LeaseLostError,
)
from protocols.journal import Durability
from tests.journals import (
    LEASE_S,
    WAIT_S,
    Clock,
    append,
    appended,
    bodies,
    complete,
    completed,
    everything,
    record,
    take,
    taken,
)


@pytest.fixture(params=get_args(Durability))
def durability(request: pytest.FixtureRequest) -> Durability:
    return request.param


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def journal(folder: Path, clock: Clock, durability: Durability) -> Iterator[Journal]:
    journal = Journal.open(folder, durability=durability, clock=clock)
    yield journal
    journal.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


# Appending and reading


def test_sequences_are_counted_from_one_without_gaps(journal: Journal) -> None:
    assert appended(journal, append(record("a"), record("b", "other"))) == (1, 2)
    assert appended(journal, append(record("c"), counter=2)) == (3,)
    assert [stored.sequence for stored in everything(journal)] == [1, 2, 3]


def test_records_come_back_as_they_were_written(folder: Path) -> None:
    with_time = Journal.open(folder, clock_ns=lambda: 123)
    appended(with_time, append(record("body", topic="töpic", index="key")))
    (stored,) = everything(with_time)
    with_time.close()
    assert (stored.topic, stored.body, stored.time_ns) == ("töpic", b"body", 123)


def test_a_topic_is_scanned_beyond_a_sequence_and_up_to_a_limit(journal: Journal) -> None:
    for number in range(6):
        topic = "even" if number % 2 == 0 else "odd"
        appended(journal, append(record(str(number), topic), counter=number + 1))
    with journal.snapshot() as state:
        assert bodies(state.scan("even")) == ["0", "2", "4"]
        assert bodies(state.scan("even", after=1)) == ["2", "4"]
        assert bodies(state.scan("even", after=1, limit=1)) == ["2"]
        assert bodies(state.scan("even", after=5)) == []
        assert bodies(state.scan("absent")) == []


def test_the_last_record_of_a_topic_is_found(journal: Journal) -> None:
    appended(journal, append(record("a"), record("b"), record("c", "other")))
    with journal.snapshot() as state:
        last = state.last("note")
        assert last is not None
        assert last.body == b"b"
        assert state.last("absent") is None


def test_records_are_found_by_their_keys_and_by_no_others(journal: Journal) -> None:
    long = "x" * 5000
    appended(
        journal,
        append(
            record("a", task="1", group="7"),
            record("b", task="2", group="7"),
            record("c", task=long),
            record("d", task=long + "y"),
        ),
    )
    with journal.snapshot() as state:
        assert bodies(state.find("group", "7")) == ["a", "b"]
        assert bodies(state.find("group", "7", limit=1)) == ["a"]
        assert bodies(state.find("task", "2")) == ["b"]
        assert bodies(state.find("task", long)) == ["c"]
        assert bodies(state.find("tas", "k1")) == []


def test_a_record_that_was_never_written_is_refused_by_number(journal: Journal) -> None:
    appended(journal, append(record("a")))
    with journal.snapshot() as state, pytest.raises(JournalError, match=r"no record 2.*deleted"):
        state.read([1, 2])


def test_bodies_are_gathered_into_one_block_in_the_asked_order(journal: Journal) -> None:
    appended(journal, append(record("a"), record("bb", topic="other", key="k"), record("")))
    with journal.snapshot() as state:
        assert state.gather([2, 1, 3, 2]) == (b"bbabb", [2, 1, 0, 2])
        with pytest.raises(JournalError, match="no record 4"):
            state.gather([1, 4])


def test_a_name_that_lmdb_cannot_hold_is_refused_before_anything_is_written(
    journal: Journal,
) -> None:
    for name in ("", "x" * 500, "a\0b"):
        with pytest.raises(JournalError, match="a name in the journal needs"):
            journal.append(append(record("a", topic=name)))
    assert everything(journal) == []


# Repetitions


def test_a_repeated_append_is_carried_out_once(journal: Journal) -> None:
    first = appended(journal, append(record("a"), record("b")))
    assert appended(journal, append(record("a"), record("b"))) == first
    assert bodies(everything(journal)) == ["a", "b"]


def test_a_write_is_carried_out_once_although_it_is_repeated_after_a_restart(
    folder: Path,
) -> None:
    journal = Journal.open(folder)
    appended(journal, append(record("in")))
    taken(journal, take("note"))
    first = completed(journal, complete(1, outputs=[record("out")]))
    journal.close()
    journal = Journal.open(folder)
    assert completed(journal, complete(1, outputs=[record("out")])) == first
    assert bodies(everything(journal)) == ["in", "out"]
    journal.close()


def test_a_write_with_an_old_counter_is_refused(journal: Journal) -> None:
    appended(journal, append(record("a"), counter=1))
    appended(journal, append(record("b"), counter=2))
    with pytest.raises(JournalError, match="repeated its write 1 after its write 2"):
        appended(journal, append(record("a"), counter=1))


def test_a_refused_write_does_not_disturb_those_of_the_same_transaction(journal: Journal) -> None:
    appended(journal, append(record("in")))
    taken(journal, take("note"))
    good = [journal.append(append(record(name), producer=name)) for name in "abc"]
    bad = journal.complete(complete(1, member="other", incarnation="o1", producer="o1"))
    more = [journal.append(append(record(name), producer=name)) for name in "def"]
    with pytest.raises(LeaseLostError):
        bad.result(WAIT_S)
    assert [answer.result(WAIT_S) for answer in good + more] == [(n,) for n in range(2, 8)]


# Taking and completing


def test_members_of_one_consumer_split_the_records_oldest_first(journal: Journal) -> None:
    appended(journal, append(*(record(str(n), "ab"[n % 2]) for n in range(6))))
    assert taken(journal, take("a", "b", limit=4)) == [1, 2, 3, 4]
    assert taken(journal, take("b", "a", member="n", incarnation="n1")) == [5, 6]


def test_consumers_are_independent_of_each_other(journal: Journal) -> None:
    appended(journal, append(record("a")))
    assert taken(journal, take("note", consumer="c")) == [1]
    assert taken(journal, take("note", consumer="d")) == [1]
    completed(journal, complete(1, consumer="c", producer="c"))
    completed(journal, complete(1, consumer="d", producer="d"))


def test_completing_is_final_and_its_outputs_come_with_it(journal: Journal, clock: Clock) -> None:
    appended(journal, append(record("in")))
    taken(journal, take("note"))
    assert completed(journal, complete(1, outputs=[record("out", "result")])) == (2,)
    clock.now_s += 10 * LEASE_S
    assert taken(journal, take("note")) == []
    assert taken(journal, take("result")) == [2]


def test_records_may_be_finished_in_any_order_across_a_restart(folder: Path) -> None:
    journal = Journal.open(folder)
    appended(journal, append(*(record(str(n)) for n in range(6))))
    taken(journal, take("note"))
    completed(journal, complete(2, 4, 6))
    journal.close()
    journal = Journal.open(folder)
    assert taken(journal, take("note", incarnation="m2")) == [1, 3, 5]
    completed(journal, complete(1, 3, incarnation="m2", producer="m2"))
    journal.close()
    journal = Journal.open(folder)
    assert taken(journal, take("note", incarnation="m3")) == [5]
    journal.close()


def test_records_that_a_member_no_longer_holds_are_delivered_again(journal: Journal) -> None:
    appended(journal, append(record("a"), record("b")))
    assert taken(journal, take("note")) == [1, 2]
    assert taken(journal, take("note", held=[2])) == [1]


def test_a_silent_member_loses_its_records(journal: Journal, clock: Clock) -> None:
    appended(journal, append(record("a")))
    taken(journal, take("note"))
    other = take("note", member="n", incarnation="n1")
    clock.now_s += 0.9 * LEASE_S
    assert taken(journal, other) == []
    clock.now_s += 0.2 * LEASE_S
    assert taken(journal, other) == [1]


def test_holding_on_renews_a_lease(journal: Journal, clock: Clock) -> None:
    appended(journal, append(record("a")))
    taken(journal, take("note"))
    for _ in range(3):
        clock.now_s += 0.9 * LEASE_S
        assert taken(journal, take(held=[1])) == []
    assert taken(journal, take("note", member="n", incarnation="n1")) == []


def test_a_slow_member_keeps_records_that_no_other_member_took(
    journal: Journal, clock: Clock
) -> None:
    appended(journal, append(record("a")))
    taken(journal, take("note"))
    clock.now_s += 5 * LEASE_S
    taken(journal, take("note", held=[1]))
    assert taken(journal, take("note", member="n", incarnation="n1")) == []


def test_a_zombie_s_completion_is_refused_and_writes_nothing(
    journal: Journal, clock: Clock
) -> None:
    appended(journal, append(record("a")))
    taken(journal, take("note"))
    clock.now_s += 2 * LEASE_S
    taken(journal, take("note", member="n", incarnation="n1"))
    with pytest.raises(LeaseLostError, match=r"record 1 is held by 'n' \(n1\).*store.lease_s"):
        completed(journal, complete(1, outputs=[record("zombie")]))
    completed(journal, complete(1, member="n", incarnation="n1", producer="n1"))
    with pytest.raises(LeaseLostError, match="record 1 was already finished"):
        completed(journal, complete(1, outputs=[record("zombie")], counter=2))
    assert bodies(everything(journal)) == ["a"]


def test_a_new_incarnation_takes_over_the_seat_for_good(folder: Path) -> None:
    journal = Journal.open(folder)
    appended(journal, append(record("a")))
    assert taken(journal, take("note", incarnation="m1")) == [1]
    assert taken(journal, take("note", incarnation="m2")) == [1]
    journal.close()
    journal = Journal.open(folder)
    for _ in range(2):
        with pytest.raises(LeaseLostError, match=r"seat 'm'.*belongs to incarnation 'm2'"):
            taken(journal, take("note", incarnation="m1", held=[1]))
        with pytest.raises(LeaseLostError, match="its successor runs"):
            completed(journal, complete(1, incarnation="m1"))
    completed(journal, complete(1, incarnation="m2", producer="m2"))
    journal.close()


def test_a_restarted_store_accepts_what_was_taken_before(folder: Path) -> None:
    journal = Journal.open(folder)
    appended(journal, append(record("a"), record("b")))
    taken(journal, take("note"))
    journal.close()
    journal = Journal.open(folder)
    assert completed(journal, complete(1, outputs=[record("out", "result")])) == (3,)
    assert taken(journal, take("note", held=[2])) == []
    assert taken(journal, take("note", member="n", incarnation="n1")) == []
    journal.close()


def test_finishing_an_unknown_record_is_refused(journal: Journal) -> None:
    with pytest.raises(JournalError, match=r"cannot finish record 7.*only records that were taken"):
        completed(journal, complete(7))


def test_statistics_count_what_is_there(journal: Journal) -> None:
    appended(journal, append(*(record(str(n)) for n in range(5))))
    taken(journal, take("note", limit=3))
    completed(journal, complete(2))
    found = journal.statistics().result(WAIT_S)
    assert found.last_sequence == 5
    assert found.topics == {"note": 5}
    assert found.leased == {"c": 2}
    assert found.backlog == {"c": 2}


# Retention


def test_the_oldest_evictable_records_go_beyond_the_budget(folder: Path) -> None:
    journal = Journal.open(folder, retain_bytes=50_000, evictable=("rollout",))
    for number in range(100):
        both = record("t" * 1000, "task"), record("r" * 1000, "rollout", group=str(number))
        appended(journal, append(*both, counter=number + 1))
    with journal.snapshot() as state:
        kept = [stored.sequence for stored in state.scan("rollout")]
        assert kept == list(range(200 - 2 * len(kept) + 2, 201, 2))
        assert 40 <= len(kept) <= 50
        assert len(state.scan("task")) == 100
        assert state.find("group", "3") == []
        assert len(state.find("group", "99")) == 1
        with pytest.raises(JournalError, match=r"no record 2.*raise store.retain_gb"):
            state.read([2])
    journal.close()


def test_records_that_a_consumer_has_not_finished_are_not_evicted(folder: Path) -> None:
    journal = Journal.open(folder, retain_bytes=5_000, evictable=("rollout",))
    taken(journal, take("rollout"))
    journal.close()
    journal = Journal.open(folder, retain_bytes=5_000, evictable=("rollout",))
    for number in range(20):
        appended(journal, append(record("r" * 1000, "rollout"), counter=number + 1))
    assert taken(journal, take("rollout", limit=100)) == list(range(1, 21))
    completed(journal, complete(1, 2, 4))
    appended(journal, append(record("r" * 1000, "rollout"), counter=30))
    left = [stored.sequence for stored in everything(journal)]
    assert left == list(range(3, 22))
    found = journal.statistics().result(WAIT_S)
    assert (found.topics["rollout"], found.leased["c"], found.backlog["c"]) == (19, 17, 1)
    journal.close()


def test_sequences_go_on_where_everything_was_evicted(folder: Path) -> None:
    journal = Journal.open(folder, retain_bytes=0, evictable=("rollout",))
    appended(journal, append(record("a", "rollout")))
    journal.close()
    journal = Journal.open(folder, retain_bytes=0, evictable=("rollout",))
    assert everything(journal) == []
    assert appended(journal, append(record("b", "rollout"), counter=2)) == (2,)
    journal.close()


# Checkpoints


def test_a_checkpoint_is_a_journal_like_the_original(folder: Path, journal: Journal) -> None:
    appended(journal, append(record("a", group="g"), record("b")))
    taken(journal, take("note", limit=1))
    completed(journal, complete(1, outputs=[record("c", "result")]))
    journal.checkpoint(folder.parent / "copy")
    appended(journal, append(record("later"), counter=2))
    copy = Journal.open(folder.parent / "copy")
    assert everything(copy) == everything(journal)[:3]
    assert taken(copy, take("note", incarnation="m2")) == [2]
    assert completed(copy, complete(1, outputs=[record("c", "result")])) == (3,)
    copy.close()


def test_a_checkpoint_into_an_existing_folder_is_refused(folder: Path, journal: Journal) -> None:
    with pytest.raises(JournalError, match=r"needs a new folder, and .* exists"):
        journal.checkpoint(folder)


def test_an_unexpected_exception_stops_the_journal_and_is_named(
    folder: Path, durability: Durability
) -> None:
    broken: list[JournalError] = []
    journal = Journal.open(folder, durability=durability, broken=broken.append)
    appended(journal, append(record("a")))
    (folder / DATA_FILE).rename(folder / "moved")
    with pytest.raises(JournalError, match=r"stopped: FileNotFoundError: .*resume"):
        journal.statistics().result(WAIT_S)
    with pytest.raises(JournalError, match="stopped: FileNotFoundError"):
        appended(journal, append(record("b"), counter=2))
    journal.close()
    (cause,) = broken
    assert isinstance(cause.__cause__, FileNotFoundError)


def test_a_checkpoint_that_fails_leaves_nothing(folder: Path, journal: Journal) -> None:
    (folder.parent / "file").write_text("")
    with pytest.raises(JournalError, match=r"was not made.*intact"):
        journal.checkpoint(folder.parent / "file" / "copy")
    assert sorted(path.name for path in folder.parent.iterdir()) == ["file", "store"]


# Refusals


def test_a_second_writer_is_refused_with_the_first_one_s_number(
    folder: Path, journal: Journal
) -> None:
    with pytest.raises(JournalLockedError, match=rf"process {os.getpid()} is writing it; stop"):
        Journal.open(folder)
    appended(journal, append(record("a")))


def test_the_folder_is_free_again_when_the_writer_is_killed(folder: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from coevolve.journal.journal import Journal\n"
        "journal = Journal.open(Path(sys.argv[1])); print('open', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    with pytest.raises(JournalLockedError, match=f"process {child.pid} is writing it"):
        Journal.open(folder)
    child.kill()
    child.wait()
    Journal.open(folder).close()


def test_a_refused_opening_lets_go_of_the_folder(folder: Path) -> None:
    folder.mkdir()
    (folder / DATA_FILE).write_bytes(b"x" * 10_000)
    with pytest.raises(JournalFormatError):
        Journal.open(folder)
    with (folder / LOCK_FILE).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("other", ["1", str(FORMAT + 1)])
def test_a_journal_of_another_format_is_refused(folder: Path, other: str) -> None:
    Journal.open(folder).close()
    with lmdb.open(str(folder), max_dbs=16) as env:
        meta = env.open_db(b"meta")
        with env.begin(write=True) as txn:
            txn.put(FORMAT_KEY, other.encode(), db=meta)
    with pytest.raises(
        JournalFormatError, match=f"needs format version {FORMAT} and has {other}; open it with"
    ):
        Journal.open(folder)


def test_an_lmdb_file_of_something_else_is_refused_and_left_alone(folder: Path) -> None:
    folder.mkdir()
    with lmdb.open(str(folder), max_dbs=4) as env, env.begin(write=True) as txn:
        txn.put(b"key", b"value")
    before = (folder / DATA_FILE).read_bytes()
    with pytest.raises(JournalFormatError, match="not a journal: it has no format version"):
        Journal.open(folder)
    assert (folder / DATA_FILE).read_bytes() == before


@pytest.mark.parametrize("kept", [0.01, 0.3, 0.7, 0.99])
def test_a_truncated_file_is_refused(folder: Path, kept: float) -> None:
    journal = Journal.open(folder)
    appended(journal, append(*(record("x" * 5000) for _ in range(100))))
    journal.close()
    size = (folder / DATA_FILE).stat().st_size
    os.truncate(folder / DATA_FILE, int(size * kept))
    with pytest.raises((JournalFormatError, JournalDamagedError), match=r"truncated.*repair RUN"):
        Journal.open(folder)


def test_a_file_without_its_never_written_last_page_is_no_truncated_file(folder: Path) -> None:
    journal = Journal.open(folder, retain_bytes=0, evictable=("rollout",))
    for number in range(200):
        request = append(record("r" * 3000, "rollout"), record("t"), counter=number + 1)
        appended(journal, request)
        copy = folder.parent / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        shutil.copy(folder / DATA_FILE, copy)
        if read_head(copy / DATA_FILE).last_page % 7 == 0:
            Journal.open(copy).close()
    journal.close()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="needs a writable folder"):
        Journal.open(tmp_path / "file" / "store")


def test_a_closed_journal_refuses_instead_of_waiting(folder: Path) -> None:
    journal = Journal.open(folder)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="is closed; open it again"):
        appended(journal, append(record("a")))


def test_requests_before_closing_are_answered(folder: Path) -> None:
    journal = Journal.open(folder, durability="power")
    answers = [journal.append(append(record("a"), counter=n)) for n in range(1, 50)]
    journal.close()
    assert [answer.result(0) for answer in answers] == [(n,) for n in range(1, 50)]


def test_a_full_map_keeps_nothing_of_the_write_and_the_journal_goes_on(folder: Path) -> None:
    journal = Journal.open(folder, map_size_bytes=1 << 20)
    appended(journal, append(record("first")))
    taken(journal, take("note"))
    with pytest.raises(JournalFullError, match=r"needs space for 2000005 bytes.*map_size_gb"):
        completed(journal, complete(1, outputs=[record("small"), record("x" * 2_000_000)]))
    assert bodies(everything(journal)) == ["first"]
    assert completed(journal, complete(1, outputs=[record("small")])) == (2,)
    journal.close()


def test_a_journal_without_room_for_its_first_pages_is_refused(folder: Path) -> None:
    with pytest.raises(JournalFullError, match=r"needs space for its first pages.*free space"):
        Journal.open(folder, map_size_bytes=3 * 4096)
    Journal.open(folder).close()


def test_reading_in_the_writer_s_process_is_refused_with_the_way_to_do_it(
    folder: Path, journal: Journal
) -> None:
    appended(journal, append(record("a")))
    with pytest.raises(JournalError, match="must read through its own journal object"):
        JournalReader(folder)


def test_one_write_has_a_bound(journal: Journal) -> None:
    with pytest.raises(JournalError, match=r"one write may hold up to .* files"):
        journal.append(append(*[record("x" * (1 << 20))] * 257))

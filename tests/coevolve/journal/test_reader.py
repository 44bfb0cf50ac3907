import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.mark import MARK_FILE
from coevolve.journal.opening import LOCK_FILE
from coevolve.journal.reader import DOUBT_S, JournalReader
from coevolve.journal.stale_readers import LOCK_TABLE
from coevolve.journal.synced_file import SYNCED_FILE
from coevolve.journal.verification import faults
from protocols.errors import JournalError
from tests.journals import append, appended, bodies, record

ROOT = Path(__file__).parents[3]

GROW = """
import sys
from pathlib import Path
from coevolve.journal.journal import Journal
from tests.journals import append, appended, record

journal = Journal.open(Path(sys.argv[1]), map_size_bytes=int(sys.argv[2]))
print("open", flush=True)
for line in sys.stdin:
    first, count, size = map(int, line.split())
    for n in range(first, first + count):
        body = f"{n} " + chr(97 + n % 26) * size
        appended(journal, append(record(body, n=str(n % 3)), producer=str(n)))
    print("done", flush=True)
"""


class Writer:
    """A journal's writer in another process, as in production."""

    def __init__(self, folder: Path, map_size_bytes: int = 1 << 40) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", GROW, str(folder), str(map_size_bytes)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.heard()
        self.written = 0

    def heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def start(self, first: int, count: int, size_bytes: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{first} {count} {size_bytes}\n")
        self.process.stdin.flush()

    def write(self, first: int, count: int, size_bytes: int) -> None:
        self.start(first, count, size_bytes)
        assert self.heard() == "done"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


async def test_a_reader_sees_what_the_writer_has_committed(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    reader = JournalReader(tmp_path)
    assert await reader.last("note") is None
    writer.write(1, 5, 10)
    assert [stored.sequence for stored in await reader.scan("note", after=2)] == [3, 4, 5]
    assert [stored.sequence for stored in await reader.find("n", "1")] == [1, 4]
    last = await reader.last("note")
    assert last is not None
    assert last.body == b"5 " + b"f" * 10
    assert bodies(await reader.read([2, 1])) == ["2 " + "c" * 10, "1 " + "b" * 10]
    with pytest.raises(JournalError, match="no record 6"):
        await reader.read([6])
    writer.kill()


async def test_a_reader_stays_consistent_while_the_file_grows(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    reader = JournalReader(tmp_path)
    before = (tmp_path / DATA_FILE).stat().st_size
    writer.start(1, 1500, 9000)
    seen: list[int] = []
    while len(seen) < 1500:
        with reader.snapshot() as state:
            fresh = state.scan("note", after=len(seen), limit=100)
            counts = [len(state.find("n", key, limit=2000)) for key in "012"]
            assert sum(counts) == state.newest("note")
        for stored in fresh:
            number, _, padding = stored.body.decode().partition(" ")
            assert int(number) == stored.sequence
            assert padding == chr(97 + stored.sequence % 26) * 9000
        seen.extend(stored.sequence for stored in fresh)
    assert seen == list(range(1, 1501))
    assert (tmp_path / DATA_FILE).stat().st_size > before + 1500 * 9000
    writer.kill()


async def test_a_reader_outlives_its_writers(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write(1, 3, 10)
    reader = JournalReader(tmp_path)
    for first in (4, 7, 10):
        writer.kill()
        assert len(await reader.scan("note")) == first - 1
        writer = Writer(tmp_path)
        writer.write(first, 3, 10)
        assert len(await reader.scan("note")) == first + 2
    writer.kill()


async def test_a_reader_follows_a_map_that_a_later_writer_made_larger(tmp_path: Path) -> None:
    writer = Writer(tmp_path, map_size_bytes=1 << 20)
    writer.write(1, 3, 10)
    reader = JournalReader(tmp_path)
    assert len(await reader.scan("note")) == 3
    writer.kill()
    writer = Writer(tmp_path, map_size_bytes=1 << 30)
    writer.write(4, 300, 9000)
    assert len(await reader.scan("note")) == 303
    writer.kill()


def test_records_returned_by_a_reader_do_not_change_afterwards(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "store", retain_bytes=0, evictable=("rollout",))
    with journal.snapshot() as state:
        pass
    for number in range(50):
        appended(journal, append(record("x" * 9000, "task"), counter=2 * number + 1))
        with journal.snapshot() as state:
            (stored,) = state.read([2 * number + 1])
        appended(journal, append(record("y" * 9000, "rollout"), counter=2 * number + 2))
        assert stored.body == b"x" * 9000
        assert type(stored.body) is bytes
    journal.close()


async def test_several_readers_of_one_process_share_the_map(tmp_path: Path) -> None:
    Journal.open(tmp_path / "store").close()
    first = JournalReader(tmp_path / "store")
    second = JournalReader(tmp_path / "store")
    assert await first.scan("note") == await second.scan("note") == []
    del first
    assert await second.last("note") is None
    del second
    Journal.open(tmp_path / "store").close()


READS = """
import sys
from pathlib import Path
from coevolve.journal.reader import JournalReader
from protocols.errors import JournalError
try:
    with JournalReader(Path(sys.argv[1])).snapshot():
        print('in', flush=True)
        sys.stdin.read()
    print('read')
except JournalError as error:
    print(error)
"""


@contextmanager
def reading(folder: Path) -> Generator["subprocess.Popen[str]"]:
    """A process in a snapshot, which it leaves when its input ends."""
    command = [sys.executable, "-c", READS, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "in\n"
        yield child
        child.kill()


def written_for(journal: Journal, seconds: int, now_s: list[float]) -> None:
    """Append and evict a rollout every second of the journal's clock."""
    for _ in range(seconds):
        now_s[0] += 1.0
        request = append(record("x" * 9000, "rollout"), producer=str(now_s[0]))
        appended(journal, request)


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP, None])
def test_only_a_working_reader_makes_the_file_grow(
    tmp_path: Path, fate: signal.Signals | None
) -> None:
    now_s = [0.0]
    journal = Journal.open(
        tmp_path, durability="power", retain_bytes=100_000, clock=lambda: now_s[0]
    )
    with reading(tmp_path) as child:
        if fate is not None:
            child.send_signal(fate)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        written_for(journal, 50, now_s)
        size_bytes = (tmp_path / DATA_FILE).stat().st_size
        written_for(journal, 100, now_s)
        assert journal.statistics().result(10).readers_cleared == (fate is not None)
        grown_bytes = (tmp_path / DATA_FILE).stat().st_size - size_bytes
        assert (grown_bytes < 100_000) == (fate is not None)
        if fate != signal.SIGKILL:
            time.sleep(DOUBT_S)  # the journal's clock has gone much further
            child.send_signal(signal.SIGCONT)
            said, _ = child.communicate("")
            assert said.startswith("this process was stopped" if fate else "read")
    journal.close()


CLAIMS = """
import fcntl, sys
with open(sys.argv[1], 'r+b') as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        print('free')
    except BlockingIOError:
        print('held')
"""


def test_a_writer_that_looks_at_its_readers_keeps_its_lock_on_their_table(tmp_path: Path) -> None:
    def claimed() -> str:
        command = [sys.executable, "-c", CLAIMS, str(tmp_path / LOCK_TABLE)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    now_s = [0.0]
    journal = Journal.open(tmp_path, clock=lambda: now_s[0])
    written_for(journal, 60, now_s)
    assert claimed() == "held"
    journal.close()
    assert claimed() == "free"


def test_a_folder_without_a_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"there is no journal at .*; start the run first"):
        JournalReader(tmp_path / "absent")


def test_a_truncated_file_is_refused_by_readers_too(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    appended(journal, append(*(record("x" * 5000) for _ in range(100))))
    journal.close()
    os.truncate(tmp_path / DATA_FILE, 200_000)
    with pytest.raises(JournalError, match="truncated"):
        JournalReader(tmp_path)


@pytest.mark.parametrize("name", [DATA_FILE, LOCK_TABLE, MARK_FILE, SYNCED_FILE, LOCK_FILE])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_opened(tmp_path: Path, name: str):
    os.mkfifo(tmp_path / name)
    for opened in (JournalReader, faults, Journal.open):
        with pytest.raises(JournalError, match=rf"{name}: needs to be a plain file, found a"):
            opened(tmp_path)


def test_a_folder_that_is_a_link_to_itself_has_no_journal(tmp_path: Path):
    (tmp_path / "store").symlink_to("store")
    for opened in (JournalReader, faults):
        with pytest.raises(JournalError, match="there is no journal at"):
            opened(tmp_path / "store")

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.mark import MARK_FILE
from coevolve.journal.opening import LOCK_FILE, NEW_FOLDER, lock_folder
from coevolve.journal.queries import Snapshot
from coevolve.journal.reader import DOUBT_S, JournalReader
from coevolve.journal.repair import repair
from coevolve.journal.stale_readers import LOCK_TABLE
from coevolve.journal.synced_file import SYNCED_FILE, this_boot, was_cut
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


def written(folder: Path, map_size_bytes: int, first: int, count: int, size_bytes: int) -> None:
    """Let a writer with a map of this size append records, and end."""
    writer = Writer(folder, map_size_bytes)
    writer.write(first, count, size_bytes)
    writer.kill()


@pytest.mark.parametrize(
    ("maps", "is_shared"),
    [((1 << 25, 1 << 28), False), ((1 << 20, 1 << 22, 1 << 30), True), ((1 << 22, 1 << 23), True)],
)
def test_snapshots_of_different_ages_stay_while_the_map_grows(
    maps: tuple[int, ...], is_shared: bool, tmp_path: Path
) -> None:
    shared: JournalReader | None = None
    newest = 0
    with ExitStack() as open_ones:
        seen: list[tuple[int, Snapshot]] = []
        for before, size_bytes in zip((0, *maps), maps, strict=False):
            count = before // 100_000 + 3  # more than the map before holds
            written(tmp_path, size_bytes, newest + 1, count, 100_000)
            newest += count
            reader = shared or JournalReader(tmp_path)
            shared = reader if is_shared else None
            seen.append((newest, open_ones.enter_context(reader.snapshot())))
            for through, state in seen:
                assert state.newest("note") == through
                assert len(state.scan("note")) == through


def test_readers_in_many_threads_come_and_go_beside_growing_maps(tmp_path: Path) -> None:
    written(tmp_path, 1 << 20, 1, 2, 10)
    ended = threading.Event()

    def read() -> int:
        rounds, newest = 0, 0
        while not ended.wait(0.002) or not rounds:
            with JournalReader(tmp_path).snapshot() as first:
                older = first.newest("note")
                with JournalReader(tmp_path).snapshot() as second:
                    newer = second.newest("note")
                    assert newest <= older <= newer
                    assert len(second.scan("note")) == newer
                assert len(first.scan("note")) == older
            rounds, newest = rounds + 1, newer
        return rounds

    with ThreadPoolExecutor(6) as pool:
        reading = [pool.submit(read) for _ in range(6)]
        for number in range(1, 4):
            written(tmp_path, 1 << (20 + 2 * number), 10 * number, 9, 20_000 * number)
        ended.set()
        assert all(each.result() for each in reading)
    with JournalReader(tmp_path).snapshot() as state:
        assert state.newest("note") == 29
    Journal.open(tmp_path).close()  # no reader has left the file open in this process


def test_a_snapshot_outlives_retention_and_a_later_one_does_not_see_what_it_dropped(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "store"
    journal = Journal.open(folder, retain_bytes=0, evictable=("rollout",))
    for counter in range(1, 4):
        appended(journal, append(record("kept " * 2000, "rollout"), counter=counter))
    with journal.snapshot() as state:
        newest = state.newest("rollout")
        before = state.scan("rollout")
        for counter in range(4, 40):
            appended(journal, append(record("x" * 9000, "rollout"), counter=counter))
        assert state.newest("rollout") == newest
        assert state.scan("rollout") == before
    with journal.snapshot() as state, pytest.raises(JournalError, match="retention deleted it"):
        state.read([newest])
    journal.close()


@pytest.mark.parametrize("damages", [False, True])
async def test_readers_read_the_repaired_file_and_their_older_snapshots_the_one_before(
    damages: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    written(folder, 1 << 30, 1, 30, 9000)
    if damages:
        content = bytearray((folder / DATA_FILE).read_bytes())
        at = content.index(b"i" * 4000)  # in the body of record 8
        content[at] = 0
        (folder / DATA_FILE).write_bytes(content)
    reader, other = JournalReader(folder), JournalReader(folder)
    with reader.snapshot() as before, other.snapshot():
        kept = repair(folder).kept
        assert kept == 30 - damages
        assert len(await reader.scan("note")) == kept
        written(folder, 1 << 30, 31, 4, 9000)
        assert len(await reader.scan("note")) == kept + 4
        assert len(await JournalReader(folder).scan("note")) == kept + 4
        assert before.newest("note") == 30
        assert len(before.scan("note", after=20)) == 10
    assert len(await other.scan("note")) == kept + 4


async def test_a_reader_reads_a_copy_that_took_the_place_of_the_file(tmp_path: Path) -> None:
    folder, copy = tmp_path / "store", tmp_path / "copy"
    written(folder, 1 << 30, 1, 3, 10)
    shutil.copytree(folder, copy)
    written(folder, 1 << 30, 4, 3, 10)
    reader = JournalReader(folder)
    assert len(await reader.scan("note")) == 6
    folder.rename(tmp_path / "moved")
    assert len(await reader.scan("note")) == 6  # until there is another one
    copy.rename(folder)
    assert len(await reader.scan("note")) == 3


IN_LITTLE_SPACE = """
import resource
import sys
from pathlib import Path
from coevolve.journal.reader import JournalReader
from protocols.errors import JournalError
resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))
reader = JournalReader(Path(sys.argv[1]))
with reader.snapshot() as first:
    print(len(first.scan("note")), flush=True)
    sys.stdin.readline()
    try:
        with reader.snapshot() as second:
            print(len(second.scan("note")))
    except JournalError as error:
        print(error)
    print(len(first.scan("note")))
"""


@pytest.mark.parametrize(("size_bytes", "says"), [(1000, "5"), (900_000, "1048576 bytes of addr")])
def test_a_process_with_little_address_space_reads_and_is_told_when_it_is_too_little(
    size_bytes: int, says: str, tmp_path: Path
) -> None:
    written(tmp_path, 1 << 20, 1, 3, 10)
    command = [sys.executable, "-c", IN_LITTLE_SPACE, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "3\n"
        written(tmp_path, 1 << 30, 4, 2, size_bytes)
        said, _ = child.communicate("\n")
    first, second = said.splitlines()
    assert says in first
    assert second == "3"


LIVES = """
import sys
from pathlib import Path
from coevolve.journal.journal import Journal
from coevolve.journal.reader import JournalReader
from coevolve.journal.repair import repair
from tests.journals import append, appended, record

folder, counter = Path(sys.argv[1]), int(sys.argv[2])
journal = Journal.open(folder, map_size_bytes=1 << 28)
appended(journal, append(record(), counter=counter))
journal.checkpoint(folder.with_name(f"copy{counter}"))
journal.close()
repair(folder)
for place in (folder, folder.with_name(f"copy{counter}")):
    with JournalReader(place).snapshot() as state:
        assert len(state.scan("note")) == counter, place
"""


@pytest.mark.parametrize(
    "variables",
    [
        [{"LMDB_DEFAULT_LIB_VERSION": "1"}] * 2,
        [{}, {"LMDB_DEFAULT_LIB_VERSION": "1"}],
        [{"LMDB_DEFAULT_LIB_VERSION": "7", "LMDB_FORCE_CPYTHON": "1"}] * 2,
    ],
)
def test_no_environment_variable_chooses_the_format_of_the_file(
    variables: list[dict[str, str]], tmp_path: Path
) -> None:
    for counter, chosen in enumerate(variables, 1):
        command = [sys.executable, "-c", LIVES, str(tmp_path / "store"), str(counter)]
        ended = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **chosen}, stderr=subprocess.PIPE, text=True
        )
        assert ended.returncode == 0, ended.stderr


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


@pytest.mark.parametrize(
    "name", [DATA_FILE, LOCK_TABLE, MARK_FILE, SYNCED_FILE, LOCK_FILE, NEW_FOLDER, "other"]
)
@pytest.mark.parametrize("target", ["mine", "absent", "folder", "data"])
def test_a_link_in_a_journal_is_refused_and_what_it_leads_to_stays(
    tmp_path: Path, name: str, target: str
):
    folder = tmp_path / "store"
    Journal.open(folder).close()
    for content in ("mine", "data"):
        (tmp_path / content).write_bytes((folder / DATA_FILE).read_bytes())
    (tmp_path / "folder").mkdir()
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / target)
    before = {each: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()}
    for opened in (JournalReader, faults, lock_folder, Journal.open, repair):
        with pytest.raises(JournalError, match=rf"{name}: needs to be a plain file, found a link"):
            opened(folder)
    assert {each: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()} == before
    assert not list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize("target", ["there", "absent", "store"])
def test_a_journal_is_no_link_and_may_lie_behind_one(tmp_path: Path, target: str):
    Journal.open(tmp_path / "there").close()
    files = sorted(tmp_path.rglob("*"))
    (tmp_path / "store").symlink_to(target)
    for opened in (JournalReader, faults, lock_folder, Journal.open, repair):
        with pytest.raises(JournalError, match="store: needs to be a folder, found a link"):
            opened(tmp_path / "store")
    (tmp_path / "store").unlink()
    assert sorted(tmp_path.rglob("*")) == files
    (tmp_path / "above").symlink_to(tmp_path)
    assert not faults(tmp_path / "above" / "there")
    JournalReader(tmp_path / "above" / "there")


def test_a_reader_of_a_journal_from_another_machine_writes_through_no_link(tmp_path: Path):
    folder = tmp_path / "store"
    journal = Journal.open(folder, boot="elsewhere")
    appended(journal, append(record("a")))
    journal.close()
    (tmp_path / "mine").write_text("mine")
    (folder / LOCK_FILE).unlink()
    (folder / LOCK_FILE).symlink_to(tmp_path / "mine")
    assert was_cut(folder, this_boot())
    for opened in (JournalReader, faults):
        with pytest.raises(JournalError, match=f"{LOCK_FILE}: needs to be a plain file"):
            opened(folder)
    assert (tmp_path / "mine").read_text() == "mine"

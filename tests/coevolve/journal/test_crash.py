import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from protocols.journal import Durability
from tests.journal_witness import Witness

KILLS = 40
"""Number of kills per durability level."""

KILLS_PER_CHECK = 4
"""What is lost or doubled stays so: one look at the whole journal finds it for several kills."""

LONGEST_LIFE_S = 0.1
DIES_WRITING = 0.85
"""Share of the processes that live until the journal is open; the others may die while opening
it."""

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("durability", ["process", "power"])
def test_killed_writers_lose_nothing_acknowledged_and_double_nothing(
    tmp_path: Path, durability: Durability
) -> None:
    chance = random.Random(7)
    witness = Witness()
    folder = tmp_path / "store"
    lives = 0
    with subprocess.Popen(
        [sys.executable, "-m", "tests.journal_writer"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as spawner:
        for kill in range(1, KILLS + 1):
            heard = _life(spawner, folder, durability, witness.unanswered(), chance)
            lives += "open" in heard
            witness.hear(heard)
            if kill % KILLS_PER_CHECK == 0:
                witness.check(folder)
        assert spawner.stdin is not None
        spawner.stdin.close()
    assert lives > KILLS / 2
    assert len(witness.done) > KILLS
    assert len(witness.finished) > KILLS


def _life(
    spawner: "subprocess.Popen[str]",
    folder: Path,
    durability: Durability,
    unanswered: list[tuple[str, int, str]],
    chance: random.Random,
) -> list[str]:
    """Let one process write for a moment, kill it, and return its output."""
    assert spawner.stdin is not None
    assert spawner.stdout is not None
    life = {"folder": str(folder), "durability": durability, "unanswered": unanswered}
    spawner.stdin.write(json.dumps(life) + "\n")
    spawner.stdin.flush()
    heard: list[str] = []
    awaited = {"born", "open"} if chance.random() < DIES_WRITING else {"born"}
    while not awaited <= {line.split()[0] for line in heard}:
        heard.append(spawner.stdout.readline().strip())
    pid = next(int(line.split()[1]) for line in heard if line.startswith("born"))
    time.sleep(chance.uniform(0.0, LONGEST_LIFE_S))
    os.kill(pid, signal.SIGKILL)
    while heard[-1] != "dead":
        heard.append(spawner.stdout.readline().strip())
    return heard


# A full disk


FILL = """
import resource, sys
from pathlib import Path
from coevolve.journal.journal import Journal
from protocols.errors import JournalFullError
from tests.journals import append, appended, bodies, everything, record, take, taken, complete
from tests.journals import completed

folder, kind, durability = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
ballast = folder.parent / "ballast"
if kind == "tmpfs":
    ballast.write_bytes(b"x" * (2 << 20))
journal = Journal.open(folder, durability=durability)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
if kind == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, hard))
kept, counter, refusals = [], 0, []
while len(refusals) < 5:
    counter += 1
    records = [record(f"{counter}.{n}." + "x" * 9000) for n in range(20)]
    try:
        appended(journal, append(*records, counter=counter))
        kept.extend(each.body.decode() for each in records)
    except JournalFullError as error:
        refusals.append(str(error))
    assert bodies(everything(journal)) == kept
assert kept and "Free space on the disk" in refusals[0], refusals
if kind == "tmpfs":
    ballast.unlink()
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
appended(journal, append(record("again"), counter=counter + 1))
assert taken(journal, take("note", limit=1)) == [1]
completed(journal, complete(1, outputs=[record("out")]))
assert bodies(everything(journal)) == [*kept, "again", "out"]
journal.close()
journal = Journal.open(folder, durability=durability)
assert bodies(everything(journal)) == [*kept, "again", "out"]
assert [each.sequence for each in everything(journal)] == list(range(1, len(kept) + 3))
journal.close()
print("as promised")
"""


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_full_disk_refuses_whole_writes_and_nothing_else(
    tmp_path: Path, durability: Durability
) -> None:
    _fill(_on_a_small_disk(tmp_path), tmp_path, "tmpfs", durability)


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_file_size_limit_refuses_whole_writes_and_nothing_else(
    tmp_path: Path, durability: Durability
) -> None:
    _fill([], tmp_path, "limit", durability)


REPAIR = """
import os, sys
from pathlib import Path
from coevolve.journal.journal import Journal
from coevolve.journal.reader import JournalReader
from coevolve.journal.repair import repair
from coevolve.journal.verification import faults
from protocols.errors import JournalError, JournalFullError
from tests.journals import append, appended, bodies, everything, record

def refused(act, error_type):
    try:
        act()
    except error_type as error:
        assert "free space" in str(error), error
    else:
        raise AssertionError(act)

folder = Path(sys.argv[1])
data = folder / "data.mdb"
def fill():
    with (folder.parent / "ballast").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass

journal = Journal.open(folder)
appended(journal, append(*[record(f"{n:02}" * 2500) for n in range(40)]))
journal.close()
(folder / "lock.mdb").unlink()
fill()
refused(lambda: faults(folder), JournalFullError)
refused(lambda: JournalReader(folder).snapshot().__enter__(), JournalFullError)
(folder / "journal.mark").unlink()
(folder.parent / "rest").write_bytes(b"x" * 4096)
refused(lambda: Journal.open(folder), JournalFullError)
(folder.parent / "rest").unlink()
content = bytearray(data.read_bytes())
content[content.index(b"3333") + 4] ^= 1
with data.open("r+b") as file:
    file.write(content)
refused(lambda: repair(folder), JournalError)
assert data.read_bytes() == content
assert not list(folder.parent.glob("store.*"))
left = folder.parent / "store.repaired-killed"
(folder.parent / "ballast").unlink()
left.mkdir()
assert len(faults(folder)) == 1
assert repair(folder).kept == 39
assert not left.exists() and not faults(folder)
print("as promised")
"""


def test_a_full_disk_keeps_readers_and_repairs_out_with_a_sentence(tmp_path: Path) -> None:
    _carry_out([*_on_a_small_disk(tmp_path), sys.executable, "-c", REPAIR, str(tmp_path / "store")])


def _on_a_small_disk(folder: Path) -> list[str]:
    """Return what runs a command that has a file system of 8 MB at ``folder``."""
    mounted = ["sh", "-c", 'mount -t tmpfs -o size=8m none "$0" && exec "$@"', str(folder)]
    namespace = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    prefix = [*namespace, *mounted]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small file system here")
    return prefix


def _fill(prefix: list[str], folder: Path, kind: str, durability: Durability) -> None:
    _carry_out([*prefix, sys.executable, "-c", FILL, str(folder / "store"), kind, durability])


def _carry_out(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "as promised\n"

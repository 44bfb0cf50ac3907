import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lmdb.verify
import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.layout import DATA_FILE
from protocols.journal import Append, Durability
from tests.journals import (
    WAIT_S,
    append,
    appended,
    complete,
    completed,
    everything,
    record,
    take,
    taken,
)

KILLS = 40
"""Number of kills per durability level."""

KILLS_PER_CHECK = 4
"""What is lost or doubled stays so: one look at the whole journal finds it for several kills."""

LONGEST_LIFE_S = 0.1
DIES_WRITING = 0.85
"""Share of the processes that live until the journal is open; the others may die while opening
it."""

ROOT = Path(__file__).parents[3]
PAGE_BYTES = 4096
STATES = 120
"""Number of transactions before the power cuts; one cut in each."""

METAS = (0, 1)


class Witness:
    """The answers that killed writers received, and thus what the journal must contain."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, int], str] = {}
        self.done: set[str] = set()
        self.finished: set[str] = set()

    def hear(self, lines: list[str]) -> None:
        for line in lines:
            match line.split():
                case ["sent", producer, counter, body]:
                    self.sent[producer, int(counter)] = body
                case ["done", producer, counter]:
                    self.done.add(self.sent.pop((producer, int(counter))))
                case ["finished", body]:
                    self.finished.add(body)
                case _:
                    pass

    def unanswered(self) -> list[tuple[str, int, str]]:
        return [(producer, counter, body) for (producer, counter), body in self.sent.items()]

    def check(self, folder: Path) -> None:
        journal = Journal.open(folder)
        statistics = journal.statistics().result(WAIT_S)
        with journal.snapshot() as state:
            tasks = state.scan("task", limit=1_000_000)
            rollouts = state.scan("rollout", limit=1_000_000)
            results = state.scan("result", limit=1_000_000)
            indexed = state.find("kind", "in", limit=1_000_000)
        left = taken(journal, take("rollout", member="check", incarnation=str(folder), limit=10**6))
        journal.close()
        written = Counter(stored.body.decode() for stored in tasks)
        effects = Counter(stored.body.decode() for stored in results)
        assert set(written.values()) <= {1}, "a write was carried out twice"
        assert written.keys() >= self.done, "an acknowledged record is lost"
        assert written.keys() <= self.done | set(self.sent.values())
        assert set(effects.values()) <= {1}, "an effect happened twice"
        assert effects.keys() >= self.finished, "an acknowledged effect is lost"
        held = {stored.body.split()[0].decode() for stored in rollouts}
        assert held >= written.keys() - effects.keys(), "unfinished work was evicted"
        unfinished = {n.body.split()[0].decode() for n in rollouts if n.sequence in set(left)}
        assert unfinished == written.keys() - effects.keys(), "work and effects disagree"
        assert indexed == rollouts
        kept = sorted(stored.sequence for stored in [*tasks, *rollouts, *results])
        evicted = len(written) - len(rollouts)
        assert len(set(kept)) == len(kept)
        assert len(kept) + evicted == statistics.last_sequence, "the sequence has a gap"


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


# Simulated power cuts: the file has everything flushed, plus any part of later writes.


def test_a_power_cut_at_level_power_loses_nothing_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(3)
    states = _recorded_states(tmp_path / "store", chance)
    lost = 0
    for number in range(len(states) - 2):
        around = states[number : number + 3]
        folder = tmp_path / str(number)
        pages = _cut(folder, around, chance)
        with _opened(folder / "after", pages) as journal:
            found = journal.statistics().result(WAIT_S)
            assert found.last_sequence >= around[1].acknowledged
            assert len(everything(journal)) == sum(found.topics.values())
            appended(journal, append(record("and on"), producer="next"))
        lost += pages[:2] != around[1].pages[:2]
    assert lost > STATES / 5, "hardly any cut hit a transaction whose meta page was not flushed"


class _State:
    """The file in the page cache between two transactions."""

    def __init__(self, file: Path, acknowledged: int) -> None:
        content = file.read_bytes()
        self.pages = [content[at : at + PAGE_BYTES] for at in range(0, len(content), PAGE_BYTES)]
        self.acknowledged = acknowledged


def _recorded_states(folder: Path, chance: random.Random) -> list[_State]:
    """Write with and without pressure; pages are reused, because old records are evicted.

    The journal reads the clock at the start of each transaction. At that time the test copies the
    file, and appends a record that waits for the transaction's end.
    """
    states: list[_State] = []
    opened: list[Journal] = []

    def next_append() -> Append:
        number = len(states)
        body = "." * chance.randrange(8000)
        return append(record(body, "rollout", n=str(number % 7)), counter=number)

    def look() -> int:
        states.append(_State(folder / DATA_FILE, opened[0].newest(())))
        if len(states) % 10 and len(states) < STATES:
            opened[0].append(next_append())
        return 0

    journal = Journal.open(folder, durability="power", retain_bytes=60_000, clock_ns=look)
    opened.append(journal)
    number = 0
    while len(states) < STATES:
        number += 1
        work = taken(journal, take("rollout", limit=20))
        outputs = [record(str(number), "task")]
        completed(journal, complete(*work, outputs=outputs, counter=number))
        appended(journal, append(record("idle", "rollout"), producer="idle", counter=number))
    journal.close()
    return states


def _cut(folder: Path, states: Sequence[_State], chance: random.Random) -> list[bytes]:
    """Return pages that a disk may hold if the power fails in the transaction after ``states[1]``.

    The data of the transaction before is flushed. Its meta page is flushed only if it was
    acknowledged without waiting for the next one. Any part of later writes may be on the disk.
    """
    before, now, after = states
    pages = list(now.pages)
    if now.acknowledged < _last_sequence(folder, now.pages) and chance.random() < 0.5:
        for meta in METAS:
            pages[meta] = before.pages[meta]
    share = chance.choice((0.0, 0.3, 0.9, 1.0))
    for number, page in enumerate(after.pages):
        if number >= len(pages):
            pages.append(page if chance.random() < share else b"\0" * PAGE_BYTES)
        elif number not in METAS and chance.random() < share:
            pages[number] = page
    return pages


def _last_sequence(folder: Path, pages: list[bytes]) -> int:
    with _opened(folder / "before", pages) as journal:
        return journal.statistics().result(WAIT_S).last_sequence


@contextmanager
def _opened(folder: Path, pages: list[bytes]) -> Generator[Journal]:
    folder.mkdir(parents=True)
    (folder / DATA_FILE).write_bytes(b"".join(pages))
    assert lmdb.verify.verify(str(folder)) == []
    journal = Journal.open(folder)
    yield journal
    journal.close()


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
    mounted = ["sh", "-c", 'mount -t tmpfs -o size=8m none "$0" && exec "$@"', str(tmp_path)]
    namespace = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if subprocess.run([*namespace, *mounted, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small file system here")
    _fill([*namespace, *mounted], tmp_path, "tmpfs", durability)


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_file_size_limit_refuses_whole_writes_and_nothing_else(
    tmp_path: Path, durability: Durability
) -> None:
    _fill([], tmp_path, "limit", durability)


def _fill(prefix: list[str], folder: Path, kind: str, durability: Durability) -> None:
    program = [sys.executable, "-c", FILL, str(folder / "store"), kind, durability]
    command = [*prefix, *program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "as promised\n"

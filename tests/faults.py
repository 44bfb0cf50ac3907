"""A journal of many kinds of records, single faults of its file, and what normal readers then say.

Each trial runs in a child process, because a fault may kill it. The child reads everything with
`JournalReader`, opens the journal as its writer, which repeats a write, takes work, finishes it and
appends, and then reads everything again.
"""

import asyncio
import gc
import hashlib
import os
import random
import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from coevolve.journal.journal import Journal
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.reader import JournalReader
from protocols.errors import CoevolveError, JournalError
from protocols.journal import Record, StoredRecord
from tests.journals import WAIT_S, append, appended, complete, completed, record, take, taken

PAGE_BYTES = 4096
SNAPSHOTS = 8
TOPICS = ("rollout", "task", "signal", "out")
LEASED = 7

Outcome = Literal["clear", "harmless", "silent", "raw"]
Kind = Literal["bit", "swapped", "zeroed", "stale", "truncated"]
Answer = tuple[str, ...]

Queries = Mapping[str, Callable[[JournalReader], Answer]]


class Planted(NamedTuple):
    """A whole journal, and what it has to answer."""

    folder: Path
    older: tuple[bytes, ...]
    """Its file at earlier times."""

    keys: tuple[str, ...]
    last: int
    counter: int
    """Last write of the producer."""

    answers: Mapping[str, Answer]
    state: Answer
    """What the writer finds."""


class Verdict(NamedTuple):
    """What became of one fault."""

    kind: str
    outcome: Outcome
    said: str


def planted(folder: Path, size_bytes: int, seed: int = 0) -> Planted:
    """Write a journal whose file has about ``size_bytes``."""
    chance = random.Random(seed)
    journal = Journal.open(folder, retain_bytes=size_bytes // 3)
    file = folder / DATA_FILE
    older: list[bytes] = []
    keys: set[str] = set()
    counter = 0
    while (size := file.stat().st_size) < size_bytes:
        counter += 1
        records = [_record(chance, keys) for _ in range(chance.randrange(1, 12))]
        appended(journal, append(*records, counter=counter))
        work = taken(journal, take("rollout", "task", limit=14, held=()))
        chance.shuffle(work)
        output = record("." * chance.randrange(60), "out")
        completed(journal, complete(*work[:10], outputs=[output], counter=counter))
        if size > len(older) * size_bytes // SNAPSHOTS:
            older.append(file.read_bytes())
    last = journal.newest(())
    journal.close()
    plain = Planted(folder, tuple(older), tuple(sorted(keys)), last, counter, {}, ())
    answers = {name: query(JournalReader(folder)) for name, query in _queries(plain).items()}
    whole = plain._replace(answers=answers)
    copy = folder.with_name("whole")
    shutil.copytree(folder, copy)
    state = _written(copy, whole)
    shutil.rmtree(copy)
    return whole._replace(state=state)


def _record(chance: random.Random, keys: set[str]) -> Record:
    size = chance.choice((20, 200, 900, 1900, 2100, 5000, 11_000))
    topic = chance.choice(TOPICS[:3])
    key, unique = f"group-{chance.randrange(60)}", f"id-{chance.random()}"
    keys.update((f"group {key}", f"id {unique}"))
    return Record(topic=topic, body=chance.randbytes(size), keys=(("group", key), ("id", unique)))


def _queries(journal: Planted) -> Queries:
    """Return everything that a reader can ask, by name."""
    queries: dict[str, Callable[[JournalReader], Answer]] = {
        "read": lambda reader: _read_all(reader, journal.last)
    }
    for topic in TOPICS:
        queries[f"scan {topic}"] = lambda reader, topic=topic: _said(
            asyncio.run(reader.scan(topic, limit=1_000_000))
        )
        queries[f"last {topic}"] = lambda reader, topic=topic: _said(
            [each for each in [asyncio.run(reader.last(topic))] if each]
        )
    queries["find"] = lambda reader: _find_all(reader, journal.keys)
    return queries


def _read_all(reader: JournalReader, last: int) -> Answer:
    with reader.snapshot() as state:
        answers: list[str] = []
        for sequence in range(1, last + 1):
            try:
                answers += _said(state.read([sequence]))
            except JournalError as error:
                if "retention deleted it" not in str(error):
                    raise
                answers.append("deleted")
        return tuple(answers)


def _find_all(reader: JournalReader, keys: Sequence[str]) -> Answer:
    with reader.snapshot() as state:
        return tuple(
            answer
            for key in keys
            for answer in (key, *_said(state.find(*key.split(" "), limit=1_000_000)))
        )


def _said(records: Sequence[StoredRecord]) -> Answer:
    return tuple(
        f"{each.sequence} {each.topic} {each.time_ns} {hashlib.sha256(each.body).hexdigest()}"
        for each in records
    )


def _written(folder: Path, journal: Planted) -> Answer:
    """Open a journal as its writer, use it, and return what it found."""
    opened = Journal.open(folder, retain_bytes=1 << 40)
    try:
        before = opened.statistics().result(WAIT_S)
        repeated = completed(opened, complete(counter=journal.counter))
        work = taken(opened, take("rollout", "task", "signal", incarnation="m2", limit=LEASED))
        outputs = [record("x" * 5000, "out", id="new") for _ in range(3)]
        new = completed(opened, complete(*work, incarnation="m2", outputs=outputs, producer="q"))
        more = appended(
            opened, append(*(record("y" * 9000, "out") for _ in range(20)), producer="r")
        )
        after = opened.statistics().result(WAIT_S)
    finally:
        opened.close()
    found = (before.topics, before.backlog, repeated, work, new, more, after.topics, after.backlog)
    return tuple(map(str, found))


def faulty(journal: Planted, kind: Kind, chance: random.Random) -> bytes:
    """Return the journal's file with one fault, which changes some byte of it."""
    content = (journal.folder / DATA_FILE).read_bytes()
    while (changed := _changed(content, journal.older, kind, chance)) == content:
        pass
    return changed


def _changed(content: bytes, older: Sequence[bytes], kind: Kind, chance: random.Random) -> bytes:
    page = _page(content, chance)
    start, end = page * PAGE_BYTES, (page + 1) * PAGE_BYTES
    match kind:
        case "bit":
            at = chance.randrange(start, end)
            return (
                content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
            )
        case "swapped":
            other = _page(content, chance) * PAGE_BYTES
            first, second = sorted((start, other))
            pages = [content[at : at + PAGE_BYTES] for at in (first, second)]
            between = content[first + PAGE_BYTES : second]
            if first == second:
                return content
            rest = content[second + PAGE_BYTES :]
            return content[:first] + pages[1] + between + pages[0] + rest
        case "zeroed":
            return content[:start] + bytes(PAGE_BYTES) + content[end:]
        case "stale":
            then = chance.choice(older)
            return content[:start] + then[start:end] + content[start + len(then[start:end]) :]
        case "truncated":
            return content[: chance.randrange(len(content))]


def _page(content: bytes, chance: random.Random) -> int:
    """Return any page, or as often a page of LMDB's own structure, of which there are few."""
    pages = len(content) // PAGE_BYTES
    if chance.random() < 0.5:
        return chance.randrange(pages)
    while True:
        page = chance.randrange(pages)
        if content[page * PAGE_BYTES + 10] & 0b1011:
            return page


def tried(journal: Planted, kind: Kind, chance: random.Random, folder: Path) -> Verdict:
    """Read a journal with one fault in a child process."""
    shutil.copytree(journal.folder, folder)
    (folder / DATA_FILE).write_bytes(faulty(journal, kind, chance))
    outcome, said = in_a_child(lambda: _outcome(journal, folder))
    shutil.rmtree(folder)
    return Verdict(kind, outcome, said)


def in_a_child(judge: Callable[[], tuple[Outcome, str]]) -> tuple[Outcome, str]:
    """Return what ``judge`` says in a child process; raw if that dies or raises anything."""
    output, put = os.pipe()
    child = os.fork()
    if not child:
        os.close(output)
        os.dup2(put, 2)
        try:
            outcome, said = judge()
        except BaseException:  # noqa: BLE001 - any exception is the finding
            outcome, said = "raw", traceback.format_exc()
        os.write(put, f"{outcome}\n{said[:4000]}".encode())
        os._exit(0)
    os.close(put)
    with os.fdopen(output, "rb") as stream:
        lines = stream.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    outcome, _, said = lines.partition("\n")
    if status or outcome not in ("clear", "harmless", "silent", "raw"):
        return "raw", f"the process ended with {os.waitstatus_to_exitcode(status)}: {lines}"
    return outcome, said  # pyright: ignore[reportReturnType]


def _outcome(journal: Planted, folder: Path) -> tuple[Outcome, str]:
    said = _compare(folder, journal, tuple(journal.answers))
    if said[0] == "silent":
        return said
    gc.collect()  # closes the reader's map; a process may open the file once
    try:
        if _written(folder, journal) != journal.state:
            return "silent", "the writer found something else"
    except JournalError as error:
        return "clear", str(error)
    again = _compare(folder, journal, tuple(name for name in journal.answers if "out" not in name))
    return max(said, again, key=lambda each: ("harmless", "clear", "silent").index(each[0]))


def _compare(folder: Path, journal: Planted, names: Sequence[str]) -> tuple[Outcome, str]:
    """Read everything and compare it with what was written."""
    try:
        reader = JournalReader(folder)
    except JournalError as error:
        return "clear", str(error)
    queries, clear = _queries(journal), ""
    for name in names:
        try:
            if queries[name](reader) != journal.answers[name]:
                return "silent", f"{name}: a wrong answer"
        except JournalError as error:
            clear = str(error)
    return ("clear", clear) if clear else ("harmless", "")


def refuses(read: Callable[[], object], right: object) -> tuple[Outcome, str]:
    """Judge the reader of a file: a clear error, the right value, or a wrong one."""
    try:
        found = read()
    except CoevolveError as error:
        return "clear", str(error)
    return ("harmless", "") if found == right else ("silent", f"read {found!r:.200}")

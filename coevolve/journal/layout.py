"""Layout of the journal's file: its tables, and the encoding of records, places and receipts.

One LMDB environment, `data.mdb` in the journal's folder, with these tables. `main` is LMDB's own
list of the others. Each transaction changes it anyway, so it also holds the rows that nearly every
transaction changes; a table of their own would cost a page each time.

| table       | key                    | value                                                    |
|-------------|------------------------|----------------------------------------------------------|
| `records`   | sequence               | head (checksum, time, lengths), topic, index keys, body  |
| `indexes`   | topic or (index, key)  | sequences, ascending                                     |
| `main`      | name                   | root (`coevolve.journal.root`)                           |
|             | ``topic:`` and topic   | records appended, records evicted, bytes stored          |
| `consumers` | consumer, topic        | cursor (all up to it are finished), records finished     |
| `acks`      | consumer, topic        | finished sequences above the cursor, ascending           |
| `seats`     | consumer, member       | incarnations of the member, the newest last              |
| `producers` | producer               | last counter, and the sequences of its write             |
| `meta`      | name                   | format version                                           |

Each value but the sequences and the format version begins with a checksum
(`coevolve.journal.checksums`). Integers are little-endian, as are the columns inside the bodies.
Sequences are LMDB integer keys, appended in order, so that pages fill completely instead of half. A
record contains its index keys, because they prove that an index entry is right, and because
eviction deletes them.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import lmdb
import msgspec

from coevolve.journal.checksums import CHECK_BYTES, DamageError, digest
from protocols.errors import RefusedError
from protocols.journal import Record, StoredRecord

if TYPE_CHECKING:
    from lmdb import _Database as Table  # pyright: ignore[reportPrivateUsage]

FORMAT = 7
"""Increased with every change to this file or to messages that old code would misread."""

ENGINE = 0
"""Major version of the LMDB that reads and writes the file. py-lmdb has several, with a file format
each, and an environment variable chooses among them where nothing else does."""

DATA_FILE = "data.mdb"
FORMAT_KEY = b"format"
ROOT_KEY = b"root"
TOPIC_ROW = b"topic:"
"""Begins the key of a topic's row in `main`."""

MAX_DBS = 16
MAX_READERS = 1024

MAX_NAME_BYTES = 200
"""Maximum length of a topic, consumer, member, producer or index; LMDB keys have at most 511
bytes."""

_MAX_KEY_BYTES = 256
_TIME = struct.Struct("<Q")
_LENGTHS = struct.Struct("<BI")
PREFIX_BYTES = CHECK_BYTES + _TIME.size
"""Bytes of a record's value before its names: checksum and time."""

_HEAD_BYTES = PREFIX_BYTES + _LENGTHS.size
_HEADS = [struct.Struct(f"<QQ{_LENGTHS.size + length}s").unpack_from for length in range(256)]
"""Length of a topic -> what reads checksum, time, and the names up to the topic's end."""

_PAIR = struct.Struct("<QQ")
_TRIPLE = struct.Struct("<QQQ")
_KEYS = msgspec.msgpack.Decoder(list[bytes])
_NAMES = msgspec.msgpack.Decoder(list[str])
_encode = msgspec.msgpack.encode

Body = TypeVar("Body", bytes, memoryview)

TABLE_FLAGS = {
    b"records": 0x08,
    b"indexes": 0x34,
    b"consumers": 0,
    b"acks": 0x34,
    b"seats": 0,
    b"producers": 0,
    b"meta": 0,
}
"""LMDB's flags of the tables that `open_tables` creates: integer keys, or sorted sequences."""


class Tables(NamedTuple):
    """Handles of all tables."""

    records: "Table"
    indexes: "Table"
    main: "Table"
    consumers: "Table"
    acks: "Table"
    seats: "Table"
    producers: "Table"
    meta: "Table"


def open_file(folder: Path, **options: Any) -> lmdb.Environment:
    """Return the environment in ``folder``, opened with further options of `lmdb.open`."""
    return lmdb.open(str(folder), lib_version=ENGINE, max_dbs=MAX_DBS, **options)


def open_tables(
    env: lmdb.Environment, *, creating: "lmdb.Transaction[bytes] | None" = None
) -> Tables:
    """Return the tables of an environment; create them in the transaction ``creating`` if given."""
    create = creating is not None

    def rows(name: bytes) -> "Table":
        return env.open_db(name, creating, create=create)

    def sequences(name: bytes) -> "Table":
        return env.open_db(
            name, creating, dupsort=True, dupfixed=True, integerdup=True, create=create
        )

    return Tables(
        records=env.open_db(b"records", creating, integerkey=True, create=create),
        indexes=sequences(b"indexes"),
        main=env.open_db(None, creating),
        consumers=rows(b"consumers"),
        acks=sequences(b"acks"),
        seats=rows(b"seats"),
        producers=rows(b"producers"),
        meta=rows(b"meta"),
    )


def sequence_key(sequence: int) -> bytes:
    """Return a sequence in the byte format of LMDB's integer keys."""
    return sequence.to_bytes(8, "little")


def sequence_of(key: bytes | memoryview) -> int:
    return int.from_bytes(key, "little")


def pair_key(first: str, second: str) -> bytes:
    """Return the key of a (consumer, topic) or (consumer, member) row."""
    return first.encode() + b"\0" + second.encode()


def unpair_key(key: bytes) -> tuple[str, str]:
    """Return the two strings that `pair_key` encoded."""
    first, _, second = key.partition(b"\0")
    return first.decode(), second.decode()


def topic_key(topic: str) -> bytes:
    """Return the index entry that lists a topic's records."""
    return b"t" + topic.encode()


@lru_cache(maxsize=256)
def topic_row(topic: str) -> bytes:
    return TOPIC_ROW + encode_name(topic)


def index_key(index: str, key: str) -> bytes:
    """Return the index entry of (index, key); a key too long for LMDB is replaced by its digest."""
    encoded = key.encode(errors="surrogatepass")
    if len(encoded) > _MAX_KEY_BYTES:
        encoded = b"\0" + hashlib.sha256(encoded).digest()
    return b"k" + encode_name(index) + b"\0" + encoded


def moved_key(entry: bytes, index: str, to: str) -> bytes | None:
    """Return the entry of the same key in the index ``to``; None if it is not of ``index``."""
    prefix = index_key(index, "")
    return index_key(to, "") + entry[len(prefix) :] if entry.startswith(prefix) else None


class PackedRecord(msgspec.Struct, frozen=True, gc=False):
    """A record encoded for the file by the caller, so that the writer gets only valid records."""

    topic: str
    entries: tuple[bytes, ...]
    """Index entries, the topic's own first."""

    names: bytes
    """Bytes between the time and the body: lengths, topic, index keys."""

    body: bytes
    check: int
    """Checksum of names and body."""


def pack_record(record: Record) -> PackedRecord:
    """Return ``record`` encoded for the file. Raises RefusedError if a name is invalid."""
    body = record.body
    if not record.keys:
        entries, names, seed = _pack_topic(record.topic)
        return PackedRecord(record.topic, entries, names, body, digest(body, seed))
    topic = encode_name(record.topic)
    keys = list(dict.fromkeys(index_key(index, key) for index, key in record.keys))
    packed = _encode(keys)
    start = _LENGTHS.pack(len(topic), len(packed)) + topic
    check = digest(body, digest(packed, digest(start)))
    return PackedRecord(record.topic, (b"t" + topic, *keys), start + packed, body, check)


@lru_cache(maxsize=256)
def _pack_topic(topic: str) -> tuple[tuple[bytes, ...], bytes, int]:
    """Return the entry, the names, and the names' checksum of records without keys."""
    encoded = encode_name(topic)
    names = _LENGTHS.pack(len(encoded), 0) + encoded
    return (b"t" + encoded,), names, digest(names)


def pack_rows(
    first: int, time_ns: int, records: Iterable[tuple[bytes, PackedRecord]]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield each record's key and value (checksum, time, names, body), from sequence ``first``.

    One at a time, so that a value is copied into its page and freed before the next one.
    """
    time = _TIME.pack(time_ns)
    for sequence, (key, record) in enumerate(records, first):
        check = record.check ^ sequence ^ time_ns
        encoded = check.to_bytes(CHECK_BYTES, "little")
        yield key, b"".join((encoded, time, record.names, record.body))


@lru_cache(maxsize=4096)
def encode_name(name: str) -> bytes:
    """Return a topic's, consumer's, member's, producer's or index's name as bytes."""
    encoded = name.encode(errors="replace")
    if not 0 < len(encoded) <= MAX_NAME_BYTES or b"\0" in encoded:
        raise RefusedError(
            f"a name in the journal needs 1 to {MAX_NAME_BYTES} bytes without NUL, got "
            f"{len(encoded)} bytes: {name[:40]!r}"
        )
    return encoded


def unpack_record(sequence: int, value: memoryview, entry: bytes | None = None) -> StoredRecord:
    """Return a copy of a record; nothing in it refers to ``value``.

    Raises DamageError if the checksum does not match, or if the record does not list ``entry``.
    """
    topic, keys, time_ns, body = _open(sequence, value, memoryview.tobytes)
    if entry is not None and entry != topic.entry and entry not in _entries(topic, keys):
        raise DamageError(
            f"the index entry {entry!r} needs to lead to its records and leads to record "
            f"{sequence}, which does not list it"
        )
    return StoredRecord(sequence=sequence, topic=topic.name, time_ns=time_ns, body=body)


def unpack_body(sequence: int, value: memoryview) -> memoryview:
    """Return a view of a record's body. Raises DamageError if the checksum does not match."""
    return _open(sequence, value, memoryview)[3]


def unpack_entries(sequence: int, value: bytes | memoryview) -> list[bytes]:
    """Return a record's index entries, its topic's first. Raises DamageError."""
    topic, keys, _, _ = _open(sequence, memoryview(value), memoryview)
    return _entries(topic, keys)


def unpack_topic(sequence: int, value: bytes | memoryview) -> str:
    """Return a record's topic. Raises DamageError if the checksum does not match."""
    return _open(sequence, memoryview(value), memoryview)[0].name


class _Topic(NamedTuple):
    """What a record's names say up to the end of its topic."""

    name: str
    entry: bytes
    keys_bytes: int
    check: int
    """The digest of these names."""


def _open(
    sequence: int, value: memoryview, form: Callable[[memoryview], Body]
) -> tuple[_Topic, bytes, int, Body]:
    """Return the topic, the index keys, the time, and the body in a ``form``.

    The digest is that of the copy, which is in the processor's cache then.
    """
    try:
        topic_bytes = value[PREFIX_BYTES]
        found, time_ns, names = _HEADS[topic_bytes](value)
    except (IndexError, struct.error):
        raise DamageError(f"record {sequence} needs a head and has {len(value)} bytes") from None
    topic = _topic_of(names)
    body_at = keys_at = _HEAD_BYTES + topic_bytes
    seed, keys = topic.check, b""
    if topic.keys_bytes:
        body_at += topic.keys_bytes
        keys = value[keys_at:body_at].tobytes()
        seed = digest(keys, seed)
    body = form(value[body_at:])
    needed = digest(body, seed) ^ sequence ^ time_ns
    if found != needed:
        raise DamageError(f"record {sequence} needs checksum {needed:016x} and has {found:016x}")
    return topic, keys, time_ns, body


@lru_cache(maxsize=1024)
def _topic_of(names: bytes) -> _Topic:
    """Return a topic from the names up to its end, which may be damaged."""
    name = names[_LENGTHS.size :]
    _, keys_bytes = _LENGTHS.unpack_from(names)
    return _Topic(name.decode(errors="replace"), b"t" + name, keys_bytes, digest(names))


def _entries(topic: _Topic, keys: bytes) -> list[bytes]:
    return [topic.entry, *(_KEYS.decode(keys) if keys else ())]


def pack_pair(first: int, second: int) -> bytes:
    """Return a consumer's row."""
    return _PAIR.pack(first, second)


def unpack_pair(value: bytes | memoryview) -> tuple[int, int]:
    """Return the two numbers that `pack_pair` encoded."""
    first, second = _PAIR.unpack(value)
    return first, second


def pack_triple(first: int, second: int, third: int) -> bytes:
    """Return a topic's or a producer's row."""
    return _TRIPLE.pack(first, second, third)


def unpack_triple(value: bytes | memoryview) -> tuple[int, int, int]:
    """Return the three numbers that `pack_triple` encoded."""
    first, second, third = _TRIPLE.unpack(value)
    return first, second, third


def pack_names(names: Iterable[str]) -> bytes:
    """Return a seat's row."""
    return _encode(list(names))


def unpack_names(value: bytes | memoryview) -> list[str]:
    """Return the names that `pack_names` encoded."""
    return _NAMES.decode(value)

"""Checksums of what the journal stores: which bytes each covers, and to what it binds them.

A fault of the disk may change bytes, but also put a whole page in another's place or bring back an
old one, whose bytes are intact. So each checksum covers the key and the table as well as the value:

- A record's checksum covers its sequence, and so no other record passes for it. It is the digest of
  the body with sequence and time added by exclusive or; so the caller computes it before the writer
  knows these two. The body's seed is the digest of the index keys, and theirs that of the topic.
- A row's checksum covers its table and its key.
- An index entry has no bytes of its own: it is right if the record to which it leads lists it.
- `coevolve.journal.root` holds a sum over the checksums of each table, written with each
  transaction. It tells that something is missing, left over or old.

The function is XXH3 with 64 bits. It finds accidents, not forgeries: a changed value passes by a
chance of 1 in 2^64.
"""

from collections.abc import Iterable

from xxhash import xxh3_64_intdigest as digest

from protocols.errors import JournalError

CHECK_BYTES = 8
MASK = (1 << 64) - 1


class DamageError(JournalError):
    """What was found; `coevolve.journal.damage` adds the file and the remedy."""


def row_check(table: int, key: bytes, payload: bytes) -> int:
    """Return the checksum of a row. ``table`` is the table's number."""
    return digest(payload, digest(key, table))


def seal(check: int, payload: bytes) -> bytes:
    """Return a row's value: its checksum, then its payload."""
    return check.to_bytes(CHECK_BYTES, "little") + payload


def unseal(table: int, key: bytes, value: bytes) -> tuple[bytes, int]:
    """Return a row's payload and checksum. Raises DamageError if the checksum does not match."""
    payload = value[CHECK_BYTES:]
    check = digest(payload, digest(key, table))
    if value[:CHECK_BYTES] != check.to_bytes(CHECK_BYTES, "little"):
        raise DamageError(
            f"the row {key!r} of table {table} needs checksum {check:016x} and has "
            f"{check_of(value):016x}"
        )
    return payload, check


def check_of(value: bytes | memoryview) -> int:
    """Return the checksum that a value carries."""
    return int.from_bytes(value[:CHECK_BYTES], "little")


entry_check = digest
"""The checksum of an index entry and its sequence, which only the sum over all of them contains."""


def entries_check(entries: Iterable[bytes], sequences: Iterable[int]) -> int:
    """Return the sum of the checksums of index entries."""
    return sum(map(digest, entries, sequences)) & MASK

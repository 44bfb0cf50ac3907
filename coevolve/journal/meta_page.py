"""LMDB's two meta pages: each describes one state of the file, the newer one the present state."""

import struct
from pathlib import Path
from typing import NamedTuple

from protocols.errors import JournalFormatError

META_BYTES = 152
"""Bytes at the beginning of a meta page that LMDB uses; they lie in one sector of a disk."""

_MAGIC = 0xBEEFC0DE
_NUMBER = struct.Struct("<Q")
_HEADER_BYTES = 16
"""The header of a page begins with its number."""

_META = struct.Struct("<IIQQI92xQQ")
"""Magic, version, address, map size, page size (the first field of the free list's record), the
rest of two tree records, last page, transaction."""

_TRANSACTION = struct.Struct("<Q")
_TRANSACTION_AT = META_BYTES - _TRANSACTION.size


class MetaPage(NamedTuple):
    """The fields of a meta page."""

    map_bytes: int
    page_bytes: int
    last_page: int
    transaction: int


def read_meta(file: Path) -> MetaPage:
    """Return the newest meta page. Raises JournalFormatError if the file has none."""
    with file.open("rb") as stream:
        head = stream.read(META_BYTES)
        pages = [parse_meta(head)]
        if pages[0] is not None:
            stream.seek(pages[0].page_bytes)
            pages.append(parse_meta(stream.read(META_BYTES)))
    found = [page for page in pages if page is not None]
    if len(found) < 2:
        raise JournalFormatError(
            f"{file} needs two LMDB meta pages and has {len(found)}: it is truncated or not a "
            "journal; restore a checkpoint of the journal, or choose another run directory"
        )
    return max(found, key=lambda page: page.transaction)


def parse_meta(page: bytes) -> MetaPage | None:
    """Return the fields of a page's first `META_BYTES`; None if it is no meta page."""
    if len(page) < META_BYTES:
        return None
    magic, _, _, map_bytes, page_bytes, last_page, transaction = _META.unpack_from(
        page, _HEADER_BYTES
    )
    if magic != _MAGIC or page_bytes == 0:
        return None
    return MetaPage(map_bytes, page_bytes, last_page, transaction)


def fields_of(page: bytes) -> MetaPage:
    """Return the fields of what is known to be a meta page."""
    fields = parse_meta(page)
    assert fields is not None, "no meta page of LMDB"
    return fields


def meta_at(page: bytes, number: int, transaction: int) -> bytes:
    """Return the same state as meta page ``number`` (0 or 1) of another transaction."""
    return b"".join(
        (
            _NUMBER.pack(number),
            page[_NUMBER.size : _TRANSACTION_AT],
            _TRANSACTION.pack(transaction),
        )
    )

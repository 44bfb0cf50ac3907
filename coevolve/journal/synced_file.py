"""The file `synced` beside the journal: the last state that is entirely on the disk.

At level ``process`` the kernel writes the journal's pages when it likes and in any order, so after
a power cut the newest state may lack pages. This file then says which state is whole, and `go_back`
makes it the present one: it puts that state's meta page back. `coevolve.journal.sync_point` writes
the file, and sees to it that no page of that state changes.

The kernel's identifier of the machine's start tells whether there was a cut. If a writer was only
killed, the page cache has everything, and nothing goes back.

The file has two slots, which are written in turn; each fits into a sector. So a cut while one is
written leaves the other.
"""

import hashlib
import os
import struct
from pathlib import Path
from typing import NamedTuple

from coevolve.journal.heads import USED_BYTES, head_of, moved, read_head
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.mark import MARK_FILE
from protocols.errors import JournalFormatError

SYNCED_FILE = "synced"
SLOTS = 2
SLOT_BYTES = 4096
"""Distance of the slots, so that no block of a disk holds both."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_BOOT_BYTES = 36
_SLOT = struct.Struct(f"<Q{_BOOT_BYTES}s{USED_BYTES}s")
_DIGEST_BYTES = 16


class Synced(NamedTuple):
    """A state that is entirely on the disk."""

    number: int
    """Counts the states from 1; the newest has the highest."""

    boot: str
    """Start of the machine in which it was written."""

    meta: bytes
    """The beginning of LMDB's meta page of this state."""


def this_boot() -> str:
    """Return the identifier of the machine's start; empty where the kernel gives none.

    Without it a power cut goes unnoticed.
    """
    try:
        return _BOOT.read_text().strip()[:_BOOT_BYTES]
    except OSError:
        return ""


def pack_slot(synced: Synced) -> bytes:
    content = _SLOT.pack(synced.number, synced.boot.encode(), synced.meta)
    return content + hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def read_synced(folder: Path) -> Synced | None:
    """Return the newest state that the file names; None if it names none.

    Raises JournalFormatError if a slot is damaged: the other one may name a state of which pages
    were used again.
    """
    try:
        content = (folder / SYNCED_FILE).read_bytes()
    except FileNotFoundError:
        return None
    slots = [content[at : at + SLOT_BYTES] for at in range(0, SLOTS * SLOT_BYTES, SLOT_BYTES)]
    found = [_unpack_slot(slot, folder) for slot in slots if any(slot)]
    return max(found, key=lambda each: each.number, default=None)


def was_cut(folder: Path, boot: str) -> bool:
    """Return whether a power cut may have left the newest state incomplete, or its mark wrong."""
    synced = _synced_before(folder, boot)
    return synced is not None and (_is_newer(folder, synced) or (folder / MARK_FILE).exists())


def go_back(folder: Path, boot: str) -> None:
    """Undo what a power cut may have left incomplete; the caller must hold the folder's lock.

    The mark goes: the kernel may have written it before the state that it names. A file that is
    older than the state that `synced` names is another one, for example a checkpoint that somebody
    put there, and is left as it is.
    """
    synced = _synced_before(folder, boot)
    if synced is None:
        return
    (folder / MARK_FILE).unlink(missing_ok=True)
    if not _is_newer(folder, synced):
        return
    state = head_of(synced.meta)
    with (folder / DATA_FILE).open("r+b") as stream:
        for page in (0, 1):
            is_its_own = page == state.transaction % 2
            stream.seek(page * state.page_bytes)
            stream.write(moved(synced.meta, page, state.transaction - (not is_its_own)))
        stream.flush()
        os.fsync(stream.fileno())


def _synced_before(folder: Path, boot: str) -> Synced | None:
    """Return the last whole state if the machine was started since."""
    synced = read_synced(folder)
    return None if synced is None or synced.boot == boot else synced


def _is_newer(folder: Path, synced: Synced) -> bool:
    """Return whether the journal is newer than the state."""
    file = folder / DATA_FILE
    return file.exists() and read_head(file).transaction > head_of(synced.meta).transaction


def _unpack_slot(slot: bytes, folder: Path) -> Synced:
    content, digest = slot[: _SLOT.size], slot[_SLOT.size : _SLOT.size + _DIGEST_BYTES]
    if hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest() != digest:
        raise JournalFormatError(
            f"{folder / SYNCED_FILE} is damaged, so a power cut could not be repaired; remove it "
            "if the machine has run since the run's last start, otherwise restore a checkpoint of "
            "the journal"
        )
    number, boot, meta = _SLOT.unpack(content)
    return Synced(number, boot.rstrip(b"\0").decode(), meta)

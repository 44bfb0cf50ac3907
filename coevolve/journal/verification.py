"""Reads everything in a journal and names all damage."""

from collections.abc import Iterator
from pathlib import Path

import lmdb

from coevolve.journal.checksums import DamageError
from coevolve.journal.contents import contents_faults
from coevolve.journal.damage import naming_damage
from coevolve.journal.layout import DATA_FILE, Tables, sequence_of, unpack_entries
from coevolve.journal.mark import at_rest, marked
from coevolve.journal.opening import check_pages, check_plain, map_for_reading
from coevolve.journal.repair import losses
from coevolve.journal.salvage import Salvage
from protocols.errors import JournalAccessError, JournalError, JournalFullError


def faults(folder: Path) -> list[str]:
    """Return a sentence for each fault of a journal; none if it is whole.

    A journal that is being written is read at its newest transaction, and the way through its pages
    is not checked. Raises JournalError if there is none, if this user may not read it, or if a full
    disk keeps it from being read.
    """
    check_plain(folder)
    file = folder / DATA_FILE
    if not file.exists() and not marked(folder):
        raise JournalError(f"there is no journal at {folder}; name a run that has begun")
    with at_rest(folder) as is_at_rest:
        try:
            if is_at_rest:
                check_pages(file)
            with naming_damage(file), map_for_reading(folder) as (env, tables), env.begin() as txn:
                return [*contents_faults(txn, tables), *_record_faults(txn, tables)]
        except (JournalAccessError, JournalFullError):
            raise
        except JournalError as error:
            return [str(error), *(losses(Salvage(file).read()) if file.exists() else ())]


def _record_faults(txn: "lmdb.Transaction[bytes]", tables: Tables) -> Iterator[str]:
    for key, value in txn.cursor(tables.records):
        try:
            unpack_entries(sequence_of(key), value)
        except DamageError as error:
            yield str(error)

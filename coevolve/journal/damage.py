"""Turns what a damaged file leads to into one error that names the file and the remedy."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from coevolve.journal.checksums import DamageError
from protocols.errors import JournalDamagedError, JournalFormatError

REMEDY = (
    "bytes of the file have changed since they were written. `coevolve journal verify RUN` names "
    "all damage, `coevolve journal repair RUN` saves what is whole"
)

_OF_DAMAGE = (
    lmdb.BadValsizeError,
    lmdb.CorruptedError,
    lmdb.CursorFullError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
)
"""Errors of LMDB that an intact file does not cause."""


def damaged(file: Path, found: str) -> JournalDamagedError:
    return JournalDamagedError(f"{file}: {found}; {REMEDY}")


def not_a_journal(file: Path) -> JournalFormatError:
    """Return the error for an LMDB file of something else."""
    return JournalFormatError(
        f"{file} is an LMDB file but not a journal: it has no format version; choose another run "
        "directory"
    )


@contextmanager
def naming_damage(file: Path) -> Generator[None]:
    """Raise JournalDamagedError, which names ``file``, for any damage found within."""
    try:
        yield
    except DamageError as error:
        raise damaged(file, str(error)) from error
    except _OF_DAMAGE as error:
        raise damaged(file, f"LMDB cannot follow its pages ({error})") from error

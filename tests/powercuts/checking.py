"""Opens disks after a power cut, each in a process of its own, and says what it found.

Run as a program, it answers each line of input, a `Question`, with a line.
"""

import os
import sys
import traceback
from pathlib import Path

import lmdb.verify
import msgspec

from coevolve.journal.layout import DATA_FILE
from coevolve.journal.synced_file import SYNCED_FILE
from protocols.errors import CoevolveError
from protocols.journal import Durability
from tests.journal_witness import Witness
from tests.powercuts import run_files

WHOLE = "whole"
BOOT = "after the cut"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A disk, and what must be on it."""

    folder: str
    durability: Durability | None
    """Level of the journal; None for the other files of a run."""

    heard: list[str]
    """What was said before the cut."""

    promised: int
    """Number of the first of these lines that have to hold; of the others any part may."""


def answer(question: Question) -> str:
    """Return `WHOLE`, or what is wrong."""
    try:
        if question.durability is None:
            run_files.check(Path(question.folder), question.heard)
        else:
            _check_journal(Path(question.folder), question.durability, question)
    except CoevolveError as error:
        return f"refused: {error}"
    except Exception:  # noqa: BLE001 - this is what the question is about
        return f"fault: {traceback.format_exc(limit=3)}"
    return WHOLE


def _check_journal(folder: Path, durability: Durability, question: Question) -> None:
    witness = Witness()
    witness.hear(question.heard[: question.promised])
    for line in question.heard[question.promised :]:
        match line.split():
            case ["sent", producer, counter, body]:
                witness.sent[producer, int(counter)] = body
            case _:
                pass
    if not (folder / DATA_FILE).exists():
        assert not witness.done, "the journal is missing"
        return
    witness.check(folder, durability, BOOT)
    assert lmdb.verify.verify(str(folder / DATA_FILE)) == []
    assert (folder / SYNCED_FILE).exists() == (durability == "process")


def main() -> None:
    for line in sys.stdin:
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.write(write, answer(msgspec.json.decode(line, type=Question)).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as pipe:
            said = pipe.read()
        _, status = os.waitpid(pid, 0)
        fault = f"fault: died with status {status}"
        sys.stdout.write(" ".join((said or fault).splitlines()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

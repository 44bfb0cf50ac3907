"""`coevolve journal verify` and `coevolve journal repair`."""

from pathlib import Path
from typing import TextIO

from coevolve.history import finding
from coevolve.journal import repair as repairing
from coevolve.journal import verification


def verify(run: str | None, runs: Path, out: TextIO) -> bool:
    """Write what is damaged in a run's journal; return whether it is whole.

    Raises RunError if there is no such run, and JournalError if it has no journal.
    """
    found = finding.find(run, runs)
    faults = verification.faults(found.store)
    if not faults:
        out.write(f"{found.store}: the journal is whole\n")
        return True
    out.writelines(f"{fault}\n" for fault in faults)
    out.write(f"save what is whole with `coevolve journal repair {found.called}`\n")
    return False


def repair(run: str, runs: Path, out: TextIO) -> None:
    """Replace a run's damaged journal by what is whole in it.

    Raises RunError if there is no such run, and JournalError if the journal is being written, or if
    nothing in it is whole.
    """
    found = finding.find(run, runs)
    if not verification.faults(found.store):
        out.write(f"{found.store}: the journal is whole; nothing was changed\n")
        return
    done = repairing.repair(found.store)
    out.writelines(f"{each}\n" for each in done.gone)
    out.write(
        f"{found.store}: the new journal has {done.kept} whole records; the damaged one is in "
        f"{done.damaged}\n"
    )

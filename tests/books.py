"""Checks that the journal of a finished run is consistent."""

from collections.abc import Sequence

from coevolve.runs.audit import Books
from protocols.journal import Message


def check_books(messages: Sequence[Message], steps: int) -> None:
    """Check that a run that took ``steps`` steps kept every promise of `coevolve.runs.audit`."""
    books = Books()
    for sequence, message in enumerate(messages, start=1):
        books.enter(sequence, message)
    audit = books.close()
    assert not audit.faults, audit.faults
    assert audit.steps == steps
    assert audit.finished

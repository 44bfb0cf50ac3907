"""The context in which a part works."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coevolve.journal.mailbox import Appender, Mailbox
from protocols.config import RunConfig
from protocols.interfaces import Files, Reader, Store
from protocols.journal import Message


@dataclass(frozen=True, kw_only=True)
class PartContext:
    """The run's settings, and access to its folder and its journal."""

    config: RunConfig
    files: Files
    store: Store
    reader: Reader
    takes: Sequence[type[Message]] = ()
    """The kinds of records that the part takes and answers (`coevolve.loop`)."""

    @property
    def run_dir(self) -> Path:
        """The run's folder, or this node's folder of copies."""
        return self.files.folder

    def appender(self, consumer: str, member: str) -> Appender:
        """Return a function that appends records of ``member`` without merging delay."""
        mailbox = Mailbox(
            self.store,
            consumer=consumer,
            topics=(),
            member=member,
            lease_s=self.config.store.lease_s,
        )
        return mailbox.append

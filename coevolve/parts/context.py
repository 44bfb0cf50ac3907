"""The context in which a part works."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coevolve.journal.codec import topics_of
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

    def mailbox(
        self,
        consumer: str,
        member: str = "",
        takes: Sequence[type[Message]] = (),
        gather_s: float = 0.0,
    ) -> Mailbox:
        """Return a new mailbox for records of the kinds ``takes``.

        By default its consumer has no other ``member``.
        """
        return Mailbox(
            self.store,
            consumer=consumer,
            topics=topics_of(*takes),
            member=member or consumer,
            lease_s=self.config.store.lease_s,
            gather_s=gather_s,
        )

    def appender(self, consumer: str, member: str) -> Appender:
        """Return a function that appends records of ``member`` without merging delay."""
        return self.mailbox(consumer, member).append

"""The context in which a part works."""

from dataclasses import dataclass
from pathlib import Path

from coevolve.journal.mailbox import Appender, Mailbox
from protocols.config import RunConfig
from protocols.interfaces import Reader, Store


@dataclass(frozen=True, kw_only=True)
class PartContext:
    """The run's settings and folder, and access to its journal."""

    config: RunConfig
    run_dir: Path
    store: Store
    reader: Reader

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

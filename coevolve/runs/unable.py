"""Ends a run that cannot make a rollout, with the reason.

A policy's own failures are rollouts with a reward and never end a run. What ends it is that since
the last rollout, or since the start, every attempt failed: by an error of the environment, the
format, the engine or a simulator. Such a run would request groups and discard them without end.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

from coevolve.journal.codec import decode, topic_of, topics_of
from coevolve.journal.fold import fold_records
from coevolve.parts.attempts import KILLED
from coevolve.runs.part_failures import MET_AGAIN, kind_of
from protocols.control import PartFailed
from protocols.errors import JournalError, UnableError
from protocols.interfaces import Reader, Store
from protocols.journal import StoredRecord
from protocols.rollouts import FailedRollout, Rollout

TOPICS = topics_of(FailedRollout, PartFailed)
MADE = topic_of(Rollout)

LOOK_S = 2.0

GROUPS = 3
"""Groups that must have failed: one task may be at fault for a whole group."""

AT_START = 8
"""Before the first rollout of a start, the patience is so many times shorter."""

MIXED_AT_START = 2
"""The same if no reason has the majority: one dead simulator fails calls in several ways."""

ENGINES = "rollout-"
"""First letters of the names of the parts that make rollouts."""


@dataclass
class Failing:
    """The failures since the last rollout that was made."""

    at_start: bool
    """Whether no rollout was made since the run was started or resumed."""

    began_s: float = 0.0
    groups: set[str] = field(default_factory=set[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    newest: dict[str, str] = field(default_factory=dict[str, str])
    """Kind -> the newest reason of this kind."""

    engine_error: str = ""
    """The last error with which an engine's part failed."""

    def fold(self, message: FailedRollout | PartFailed, now_s: float) -> None:
        if isinstance(message, PartFailed):
            if message.part.startswith(ENGINES):
                self.engine_error = message.reason
            return
        self.began_s = self.began_s if self.groups else now_s
        self.groups.add(message.group_id)
        kind = kind_of(message.reason.replace(message.task_id, "*"))
        self.kinds[kind] += 1
        self.newest[kind] = message.reason

    def verdict(self, patience_s: float, now_s: float) -> str:
        """Return why the run cannot go on; empty while it may."""
        if len(self.groups) < GROUPS:
            return ""
        ((kind, count),) = self.kinds.most_common(1)
        failed = self.kinds.total()
        if self.at_start:
            patience_s /= AT_START if 2 * count > failed else MIXED_AT_START
        if now_s - self.began_s < patience_s:
            return ""
        since = "the start" if self.at_start else "the last rollout"
        share = "" if count == failed else f"; {count} of them"
        return (
            f"no rollout can be made: all {failed} since {since}, in {len(self.groups)} groups, "
            f"failed{share} for this reason: {self._told(kind)}"
        )

    def _told(self, kind: str) -> str:
        reason = self.newest[kind].rstrip(". ")
        engine = self.engine_error if reason == KILLED else ""
        return f"{reason}; the last error of a rollout engine: {engine}" if engine else reason


async def until_unable(store: Store, reader: Reader, opened: int, patience_s: float) -> None:
    """Wait until no rollout can be made, without end if ``patience_s`` is 0.

    ``opened`` is the sequence of the record with which the run was started or resumed.

    Raises UnableError with the reason.
    """
    made = through = opened
    failing = Failing(at_start=True)

    def take(record: StoredRecord) -> None:
        message = decode(record)
        assert isinstance(message, FailedRollout | PartFailed)
        failing.fold(message, time.monotonic())

    while patience_s:
        await asyncio.sleep(LOOK_S)
        try:
            newest = await store.wait((MADE,), 0, 0.0)
            if newest > made:
                made, failing = newest, Failing(at_start=False)
            through = await fold_records(reader, TOPICS, take, max(through, made))
        except JournalError:  # the watchdog tells of a store that does not answer
            continue
        if verdict := failing.verdict(patience_s, time.monotonic()):
            raise UnableError(f"{verdict}; {MET_AGAIN} (watchdog.unable_s=0 lets the run try on)")
    await asyncio.Event().wait()

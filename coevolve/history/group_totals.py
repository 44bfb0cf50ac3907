"""Totals of the groups of each task, with which counts stay right after group summaries went.

The launcher writes snapshots of them (`coevolve.runs.drive`), and the journal drops no summary that
is not in both of these (`coevolve.journal.retention`). So what was dropped of a task is what the
newest snapshot counts, without the summaries up to it that are left.
"""

import sys
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from coevolve.journal.codec import topics_of
from coevolve.journal.snapshots import Snapshots, WholeState
from protocols.evolution import GroupSummary
from protocols.interfaces import Reader
from protocols.journal import Message

TOPICS = topics_of(GroupSummary)


class Score(NamedTuple):
    """The rollouts of one group that did not fail."""

    successes: int
    rollouts: int


class TaskGroups(msgspec.Struct):
    """Groups of one task, including those that continue its rollouts."""

    groups: int = 0
    """Finished groups."""

    judged: int = 0
    """Of these, groups with a rollout that did not fail; the other fields are about these."""

    successes: int = 0
    rollouts: int = 0
    first: Score = Score(0, 0)
    """The first one, whether it was dropped or not; without any, 0 of 0."""

    newest: Score = Score(0, 0)

    def add(self, group: GroupSummary) -> None:
        """Count the task's next group."""
        self.groups += 1
        if group.rollouts:
            self.newest = Score(group.successes, group.rollouts)
            self.first = self.first if self.judged else self.newest
            self.judged += 1
            self.successes += group.successes
            self.rollouts += group.rollouts

    def take_out(self, group: GroupSummary) -> None:
        """Do not count a group any more; there is nothing to do if none is left."""
        if self.groups:
            self.groups -= 1
            self.judged -= group.rollouts > 0
            self.successes -= group.successes
            self.rollouts -= group.rollouts


class GroupTotals(WholeState):
    """The totals so far; `fold` takes the records in journal order, each once."""

    given = frozenset(("most_tasks",))

    tasks: dict[str, TaskGroups] = msgspec.field(default_factory=dict[str, TaskGroups])
    """By the task that the groups' rollouts started with, in the order of the last group."""

    most_tasks: int = sys.maxsize
    """Number of tasks, of those that were visited last, whose groups are counted. The launcher,
    which writes the snapshots, limits it."""

    def fold(self, message: Message) -> None:
        """Add one record; records of other kinds change nothing."""
        if not isinstance(message, GroupSummary):
            return
        groups = self.tasks.pop(message.root, None) or TaskGroups()
        groups.add(message)
        self.tasks[message.root] = groups
        while len(self.tasks) > self.most_tasks:
            del self.tasks[next(iter(self.tasks))]


class DroppedGroups:
    """What the journal dropped of the groups, by task."""

    def __init__(self, totals: GroupTotals, through: int) -> None:
        self._through = through
        self.tasks: Mapping[str, TaskGroups] = totals.tasks
        """Groups that were dropped, once `found` has seen all that are left."""

    def found(self, sequence: int, group: GroupSummary) -> None:
        """Take out a group that is left."""
        if sequence <= self._through and group.root in self.tasks:
            self.tasks[group.root].take_out(group)


def group_snapshots(reader: Reader, most_tasks: int = sys.maxsize) -> Snapshots[GroupTotals]:
    """Return the snapshots of the totals; for ``most_tasks`` see `GroupTotals`."""
    return Snapshots(
        reader, "launcher's groups", TOPICS, lambda: GroupTotals(most_tasks=most_tasks)
    )


async def dropped_groups(reader: Reader) -> DroppedGroups:
    """Return what the journal may have dropped; read the summaries that are left after this."""
    return DroppedGroups(*await group_snapshots(reader).restore())

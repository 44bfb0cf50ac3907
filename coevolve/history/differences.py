"""Where rollouts leave the reference of their task, and tasks whose reference is suspect.

The policy may be right where a task is wrong. Rollouts that all make the same other call, which the
simulator accepts, are a hint of that; a policy that never learned the right call looks the same.
Another hint is a wording that other tasks use for other work: one of them is wrong, and the policy
may have learned the wrong one. So a suspect is for a person to read, and nothing in a run acts on
it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

import msgspec

from coevolve.history.histories import TaskHistory
from coevolve.journal.codec import ROLLOUTS_BY_GROUP, decode
from coevolve.journal.lookups import all_of
from coevolve.validation.wordings import Wording, WordingBook
from protocols.evolution import GroupSummary
from protocols.interfaces import Reader
from protocols.rollouts import Action, Rollout
from protocols.tasks import NEW_TASKS, Seeded, Synthesized, Task, TaskText

LEAST = 4
"""Minimum number of rollouts that have to agree."""

MOST = 100
"""Maximum number of tasks whose rollouts are read."""


@dataclass(frozen=True)
class Difference:
    """The first call in which the failed turn of a rollout differs from the reference."""

    turn: int
    """The failed turn, from 1."""

    turns: int
    expected: str
    """The reference's call; empty if the reference has no further call in the turn."""

    made: str
    """The rollout's call; empty if it made no further one. Both are empty if all calls are those of
    the reference, so that only state or words can be wrong."""

    accepted: bool
    """Whether the rollout made another call, and the simulator carried it out without an error."""

    @property
    def sentence(self) -> str:
        """What was expected and what came, as a sentence."""
        if not self.expected and not self.made:
            return f"{self.where} failed, though its calls are those of the reference."
        wanted = f"calls {self.expected}" if self.expected else "makes no further call"
        came = f"called {self.made}" if self.made else "made no further call"
        return f"{self.where} failed: the reference {wanted}, this rollout {came}."

    @property
    def where(self) -> str:
        """The failed turn in words."""
        return f"Turn {self.turn} of {self.turns}"


@dataclass(frozen=True)
class Suspect:
    """A task that may be wrong."""

    task_id: str
    by: Literal["rollouts", "wording"]
    """What gives rise to the doubt: rollouts that agree, or other tasks of the same wording."""

    successes: int
    attempts: int
    """Rollouts on the task that did not fail, of all groups."""

    turn: int
    """The doubtful turn, from 1."""

    turns: int
    """Number of turns."""

    reference: str
    """What the reference does: the call that rollouts do not make, or the tools of the turn."""

    otherwise: str
    """What rollouts or other tasks do instead, in the same form; empty for no further call."""

    why: str
    """The reason for the doubt, as a sentence that tells nothing of the task's content."""


def difference(text: TaskText, rollout: Rollout) -> Difference | None:
    """Return where a rollout left the reference of its task.

    Return None if it succeeded, if it attempted an instance of the task, whose reference has other
    names, or if ``text`` has not all turns.
    """
    turn = rollout.turns_passed
    if rollout.succeeded or rollout.instance or len(text.turns) != rollout.turns_total:
        return None
    expected = text.turns[turn].calls
    made = [each for each in rollout.actions if each.turn == turn]
    pairs = zip_longest(expected, made)
    wanted, other = next((pair for pair in pairs if not _is_same(*pair)), (None, None))
    return Difference(
        turn=turn + 1,
        turns=rollout.turns_total,
        expected=wanted or "",
        made=other.text if other else "",
        accepted=other is not None and not other.failed,
    )


async def suspects(
    reader: Reader,
    histories: Sequence[TaskHistory],
    describe: Callable[[Task], TaskText],
    wordings: Callable[[msgspec.Raw], Sequence[Wording]],
) -> Mapping[str, Suspect]:
    """Return the suspect tasks by id: first those with a contradicted wording.

    A task counts if no rollout of it ever succeeded, and if at least `LEAST` rollouts of its newest
    group are still in the journal. Of more than `MOST` such tasks those with most groups are read.
    A made task counts, too, if other tasks of the journal use one of its ``wordings`` for other
    work; of more than `MOST` those are returned that most tasks contradict.
    """
    unsolved = [
        (each, each.groups) for each in histories if each.visits and not each.groups.successes
    ]
    unsolved.sort(key=lambda pair: -pair[1].judged)
    book = await _book(reader, wordings)
    others = _ambiguous(histories, describe, book)
    found: dict[str, Suspect] = {}
    for history, groups in unsolved[:MOST]:
        newest = next((v for v in reversed(history.visits) if v.rollouts >= LEAST), None)
        shared = await _shared(reader, newest, describe(history.task)) if newest else None
        if newest and shared:
            task_id = history.task.task_id
            found[task_id] = Suspect(
                task_id=task_id,
                by="rollouts",
                successes=0,
                attempts=groups.rollouts,
                turn=shared.turn,
                turns=shared.turns,
                reference=shared.expected,
                otherwise=shared.made,
                why=(
                    f"Nothing solved it, and the newest {newest.rollouts} rollouts agree on "
                    "another call than the reference."
                ),
            )
    return {**found, **others}


async def _book(
    reader: Reader, wordings: Callable[[msgspec.Raw], Sequence[Wording]]
) -> WordingBook:
    """Return the wordings of the training tasks that the journal has, without their instances."""
    book = WordingBook()
    async for task in all_of(reader, Task):
        if task.split == "train" and isinstance(task.origin, NEW_TASKS):
            trusted = isinstance(task.origin, Seeded)
            book.add(task.task_id, wordings(task.body), trusted=trusted)
    return book


def _ambiguous(
    histories: Sequence[TaskHistory], describe: Callable[[Task], TaskText], book: WordingBook
) -> Mapping[str, Suspect]:
    """Return the made tasks that use a wording for other work than other tasks do."""
    doubted = [
        (each, conflict)
        for each in histories
        if isinstance(each.task.origin, Synthesized)
        and (conflict := book.conflict(book.of(each.task.task_id)))
    ]
    doubted.sort(key=lambda pair: (not pair[1].trusted, -pair[1].tasks))
    return {
        history.task.task_id: Suspect(
            task_id=history.task.task_id,
            by="wording",
            successes=history.groups.successes,
            attempts=history.groups.rollouts,
            turn=conflict.wording.turn + 1,
            turns=len(describe(history.task).turns),
            reference=conflict.wording.meaning,
            otherwise=conflict.other,
            why=conflict.why,
        )
        for history, conflict in doubted[:MOST]
    }


async def _shared(reader: Reader, summary: GroupSummary, text: TaskText) -> Difference | None:
    """Return the difference of all rollouts of a group; None unless it is one accepted call."""
    records = await reader.find(ROLLOUTS_BY_GROUP, summary.group_id)
    rollouts = [each for each in map(decode, records) if isinstance(each, Rollout)]
    differences = {difference(text, each) for each in rollouts}
    if len(rollouts) < max(LEAST, summary.rollouts) or len(differences) != 1:
        return None
    (shared,) = differences
    return shared if shared and shared.accepted else None


def _is_same(expected: str | None, made: Action | None) -> bool:
    """Return whether two calls are the same text but for spaces and the kind of quotes."""
    return expected is not None and made is not None and _plain(expected) == _plain(made.text)


def _plain(call: str) -> str:
    return "".join(call.split()).replace('"', "'")

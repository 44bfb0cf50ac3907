"""A table of rollouts that a person can read: what the policy did, and what came of it."""

from collections.abc import Sequence
from itertools import chain, islice, zip_longest

from coevolve.followers.interface import Table
from coevolve.journal.codec import decode_as
from coevolve.visible import visible
from protocols.errors import JournalError
from protocols.interfaces import Reader
from protocols.learning import TrainedGroup
from protocols.rollouts import Rollout

COLUMNS = (
    *("task_id", "group_id", "index", "reward", "succeeded", "turns_passed", "turns_total"),
    *("ended", "version", "tokens", "actions"),
)

MOST_CHARS = 4000
"""Maximum characters of a rollout's actions."""


def sample(groups: Sequence[TrainedGroup], count: int) -> list[int]:
    """Return sequences of ``count`` rollouts: the first of each group, then the second, ..."""
    places = zip_longest(*(group.sequences for group in groups))
    return list(islice((each for each in chain(*places) if each is not None), count))


async def rollout_table(reader: Reader, step: int, sequences: Sequence[int]) -> Table:
    """Return the table of these rollouts, without those that retention has removed."""
    rows = [row for each in sequences for row in await _rows(reader, each)]
    return Table(step=step, columns=COLUMNS, rows=rows)


async def _rows(reader: Reader, sequence: int) -> list[Sequence[str | int | float | bool]]:
    try:
        (record,) = await reader.read((sequence,))
    except JournalError:
        return []
    rollout = decode_as(record, Rollout)
    actions = "\n".join(f"{each.text}\n-> {each.result}" for each in rollout.actions)
    return [
        (
            *(rollout.task_id, rollout.group_id, rollout.index, rollout.reward),
            *(rollout.succeeded, rollout.turns_passed, rollout.turns_total, rollout.ended),
            *(rollout.version_max, rollout.tokens.count, visible(actions)[:MOST_CHARS]),
        )
    ]

"""The rollouts that a tracker's table shows."""

from pathlib import Path

import msgspec
import pytest

from coevolve.followers.tracking import COLUMNS, MOST_CHARS, rollout_table, sample
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from protocols.learning import TrainedGroup
from protocols.rollouts import Action
from tests.following import acted
from tests.scripted import add


def group(*sequences: int) -> TrainedGroup:
    return TrainedGroup(
        group_id="g", group=0, task_id="t", sequences=sequences, successes=1, use="policy_gradient"
    )


@pytest.mark.parametrize(
    ("count", "found"), [(0, []), (2, [1, 4]), (4, [1, 4, 5, 2]), (9, [1, 4, 5, 2, 6, 3])]
)
def test_every_group_has_one_rollout_in_the_table_before_any_has_two(count: int, found: list[int]):
    assert sample([group(1, 2, 3), group(4), group(), group(5, 6)], count) == found


async def test_a_row_has_what_the_rollout_did_and_a_removed_one_has_none(tmp_path: Path):
    journal = Journal.open(tmp_path / "store")
    store = LocalStore(journal)
    long = Action(turn=0, text="x" * MOST_CHARS, result="", failed=False)
    rollout = acted("t", 1)
    longer = msgspec.structs.replace(rollout, actions=(*rollout.actions, long), version_max=3)
    first, second = await add(store, rollout, longer)
    table = await rollout_table(store, 7, [second, first + 100, first])
    journal.close()
    assert (table.step, table.columns) == (7, COLUMNS)
    (cut, row) = table.rows
    assert dict(zip(COLUMNS, row, strict=True)) == {
        "task_id": "t",
        "group_id": "g-t",
        "index": 1,
        "reward": 1.0,
        "succeeded": True,
        "turns_passed": 1,
        "turns_total": 1,
        "ended": "finished",
        "version": 0,
        "tokens": 2,
        "actions": "ls('1')\n-> \\u001bempty",
    }
    assert cut[COLUMNS.index("version")] == 3
    assert len(str(cut[-1])) == MOST_CHARS

from pathlib import Path

import pytest

from coevolve.environments.appworld.own import task_ids
from coevolve.environments.appworld.source import own_tasks
from coevolve.environments.tools.task import tool_task
from tests.coevolve.environments.appworld.hostile import CHECKS, hostile_findings

pytestmark = [pytest.mark.appworld, pytest.mark.timeout(600)]

MEMORY_MB = 4096


async def test_hostile_blocks_leave_break_earn_fill_and_keep_nothing(data: Path) -> None:
    (task,) = own_tasks(data, task_ids(("songs-as-a-note",), 1)[:1], "train", MEMORY_MB)
    found = await hostile_findings(data, task.task_id, tool_task(task), MEMORY_MB)
    assert [(each.check, each.state, each.found) for each in found if each.state != "holds"] == []
    assert [each.check for each in found] == list(CHECKS)

import msgspec
import pytest

from coevolve.rollouts import trained_tasks
from coevolve.rollouts.trained_tasks import TrainedTasks
from protocols.learning import StepReport
from protocols.tasks import Instantiated, Task
from tests.evolving import stepped
from tests.fakes import tool_task
from tests.learning import MemoryJournal

STEPS = 6


def task(name: str) -> Task:
    return tool_task("ls", task_id=name)


def unused(report: StepReport) -> StepReport:
    groups = tuple(msgspec.structs.replace(group, use="nothing") for group in report.groups)
    return msgspec.structs.replace(report, groups=groups)


def trained(steps: int = STEPS) -> MemoryJournal:
    """Return the journal of a run in which step n trains on task ``tn`` and on the first one."""
    journal = MemoryJournal()
    journal.add(*(task(f"t{number}") for number in range(1, steps + 1)))
    journal.add(*(stepped(number, f"t{number}", "t1") for number in range(1, steps + 1)))
    return journal


async def ids(journal: MemoryJournal, count: int, version: int, seed: int = 0) -> list[str]:
    return [each.task_id for each in await TrainedTasks(journal, seed).drawn(count, version)]


async def test_tasks_of_later_steps_are_not_drawn():
    journal = trained()
    assert await ids(journal, 10, 0) == []
    assert sorted(await ids(journal, 10, 3)) == ["t1", "t2", "t3"]
    assert sorted(await ids(journal, 10, STEPS)) == ["t1", "t2", "t3", "t4", "t5", "t6"]


async def test_a_draw_depends_on_its_arguments_alone_and_keeps_the_places_of_tasks():
    journal = trained(40)
    everything = await ids(journal, 40, 40)
    assert await ids(journal, 10, 40) == everything[:10] != sorted(everything)[:10]
    assert await ids(journal, 10, 40, seed=1) != everything[:10]
    earlier = await ids(journal, 10, 30)
    assert earlier == [each for each in everything if int(each[1:]) <= 30][:10]
    assert len({*earlier, *everything[:10]}) < 20


async def test_what_taught_nothing_and_instances_are_not_drawn():
    journal = trained()
    origin = Instantiated(root="t1", instance=7)
    journal.add(msgspec.structs.replace(task("t1~7"), origin=origin), task("idle"))
    journal.add(stepped(7, "t1~7"), unused(stepped(8, "idle")))
    assert sorted(await ids(journal, 10, 8)) == ["t1", "t2", "t3", "t4", "t5", "t6"]


async def test_tasks_of_long_ago_are_not_drawn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trained_tasks, "STEPS", 2)
    assert sorted(await ids(trained(), 10, 5)) == ["t1", "t4", "t5"]

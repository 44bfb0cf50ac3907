"""Parts are asked in turn what they wait for, and one that does not answer delays no other one."""

import asyncio
from collections.abc import Sequence

from coevolve.runs.polling import poll_statuses
from protocols.control import PartStatus
from tests.fakes import SteadyPart


class Silent(SteadyPart):
    """A part that never says what it waits for."""

    async def status(self) -> PartStatus:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_silent_part_delays_no_other_one():
    parts = [Silent("learner"), SteadyPart("rollout-0")]
    looks: list[dict[str, str]] = []
    seen = asyncio.Event()

    def look(statuses: Sequence[PartStatus]) -> None:
        looks.append({each.part: each.waits_for for each in statuses})
        if looks[-1].get("rollout-0") == "requests":
            parts[1] = SteadyPart("rollout-1")
        if looks[-1].get("rollout-1") == "requests":
            seen.set()

    task = asyncio.create_task(poll_statuses(lambda: parts, look))
    async with asyncio.timeout(20):
        await seen.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    silent = {"learner": "has not answered yet"}
    assert looks[0] == silent | {"rollout-0": "has not answered yet"}
    assert silent | {"rollout-0": "requests"} in looks
    assert looks[-1] == silent | {"rollout-1": "requests"}

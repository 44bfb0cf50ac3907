"""Parts are asked in turn what they wait for, and one that does not answer delays no other one."""

import asyncio
from collections.abc import Sequence

from coevolve.runs.looking import look_at_parts
from protocols.control import PartStatus
from tests.fakes import SteadyPart


class Silent(SteadyPart):
    """A part that never says what it waits for."""

    async def status(self) -> PartStatus:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_silent_part_delays_no_other_one():
    parts = [Silent("learner"), SteadyPart("rollout-0")]
    looks: list[list[str]] = []
    seen = asyncio.Event()

    def look(statuses: Sequence[PartStatus]) -> None:
        looks.append([each.part for each in statuses])
        if looks[-1] == ["rollout-0"]:
            parts[1] = SteadyPart("rollout-1")
        if looks[-1] == ["rollout-1"]:
            seen.set()

    task = asyncio.create_task(look_at_parts(lambda: parts, look))
    async with asyncio.timeout(20):
        await seen.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert looks[0] == []
    assert ["rollout-0"] in looks
    assert looks[-1] == ["rollout-1"]

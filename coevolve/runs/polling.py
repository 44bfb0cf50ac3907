"""Asks the parts of a run, again and again, what they wait for."""

import asyncio
from collections.abc import Callable, Sequence

from coevolve.screen.display import StatusListener
from protocols.control import PartStatus
from protocols.interfaces import SupervisedPart

TICK_S = 1.0
"""Seconds between two calls of a `StatusListener`."""

ASK_TICKS = 2
"""Ticks after which a part that has answered is asked again."""


async def poll_statuses(
    parts: Callable[[], Sequence[SupervisedPart]], look: StatusListener
) -> None:
    """Pass the parts' statuses to ``look`` every `TICK_S`; never return.

    ``parts`` returns the parts of that moment. One that does not answer delays no other one: its
    last status stays until its answer comes.
    """
    statuses: dict[str, PartStatus] = {}
    asked: dict[str, asyncio.Task[PartStatus]] = {}
    ticks = 0
    try:
        while True:
            present = {part.name: part for part in parts()}
            for name in [name for name, task in asked.items() if task.done()]:
                statuses[name] = asked.pop(name).result()
            if ticks % ASK_TICKS == 0:
                for name in present.keys() - asked.keys():
                    asked[name] = asyncio.create_task(present[name].status())
            look([statuses.get(name) or _unknown(name) for name in present])
            ticks += 1
            await asyncio.sleep(TICK_S)
    finally:
        for task in asked.values():
            task.cancel()
        await asyncio.gather(*asked.values(), return_exceptions=True)


def _unknown(part: str) -> PartStatus:
    return PartStatus(
        part=part,
        pid=None,
        waits_for="has not answered yet",
        since_s=0.0,
        mailbox=0,
        done=0,
        policy_version=-1,
        last_error="",
    )

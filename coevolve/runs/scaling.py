"""Changes the rollout engines during a run: on request, and as nodes come and go.

Guarantees:

- The journal says which engines the run has (`protocols.control.RolloutScaled`), before an engine
  starts or ends. The newest record also has the number that a resumed run starts with.
- Each request gets one answer, even if processes are killed: the run carries it out, or refuses it
  and says why. A run that has restarted since refuses it.
- An engine that leaves writes what it has completed. Everything else that it took is free for the
  other engines as soon as it has ended, so nothing is lost and nothing is answered twice.
- An engine that cannot work is let go as long as another one works, and the run continues without
  it.

This module knows no cluster: an `EngineHost` starts the processes.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from coevolve.history.directory import RunDirectory, has_journal
from coevolve.journal.codec import decode_as, topic_of, topics_of
from coevolve.journal.mailbox import Delivery, Mailbox, hand_back
from coevolve.journal.reader import STORE_FOLDER, JournalReader
from coevolve.rollouts.worker import CONSUMER
from coevolve.runs.supervisor import Supervisor
from protocols.control import Cause, NodesTooSmall, RolloutScaled, ScaleRefused, ScaleRequested
from protocols.interfaces import Store, SupervisedPart

LOOK_S = 3.0
"""Seconds between two looks for nodes that joined or left, and for engines that cannot work."""


class EngineHost(Protocol):
    """Starts rollout engines, and knows how many may be where."""

    async def rooms(self) -> Mapping[str, int]:
        """Return how many engines each place may have; a place is a node, or all nodes as one."""
        ...

    def too_small(self) -> Sequence[str]:
        """Return a sentence for each place of the last `rooms` that has no room for an engine."""
        ...

    async def refusal(self, actors: int) -> str:
        """Return in sentences why the run cannot have this number of engines; empty if it can."""
        ...

    def start(self, name: str, place: str) -> SupervisedPart:
        """Start an engine; it may take minutes to work."""
        ...


@dataclass(frozen=True, kw_only=True)
class Change:
    """Engines that join and leave a run; empty if it has what it should have."""

    joining: Mapping[str, str]
    """Name -> place."""

    leaving: Sequence[str]
    lost: Sequence[str]
    """Those of ``leaving`` whose place is gone."""

    def __bool__(self) -> bool:
        return bool(self.joining or self.leaving)


def change(present: Mapping[str, str], actors: int, rooms: Mapping[str, int]) -> Change:
    """Return how ``present``, name -> place, becomes up to ``actors`` engines within ``rooms``.

    Engines join where the fewest are, under the lowest free names. The highest names leave.
    """
    lost = [name for name, place in present.items() if place not in rooms]
    kept = {name: place for name, place in present.items() if place in rooms}
    leaving = sorted(kept, key=_number)[actors:]
    used = Counter(place for name, place in kept.items() if name not in leaving)
    free = (name for n in range(actors + len(present)) if (name := _name(n)) not in present)
    joining: dict[str, str] = {}
    while used.total() < actors:
        open_places = [place for place, room in rooms.items() if used[place] < room]
        if not open_places:
            break
        place = min(open_places, key=lambda each: used[each])
        joining[next(free)] = place
        used[place] += 1
    return Change(joining=joining, leaving=[*lost, *leaving], lost=lost)


class EnginePool:
    """The rollout engines of a run, and the number that it should have."""

    def __init__(self, host: EngineHost, actors: int) -> None:
        self.host = host
        self.actors = actors
        """The number that the user wants."""

        self._parts: dict[str, SupervisedPart] = {}
        self._places: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the engines, in the order of their numbers."""
        return tuple(sorted(self._parts, key=_number))

    @property
    def parts(self) -> list[SupervisedPart]:
        """The engines, in the same order."""
        return [self._parts[name] for name in self.names]

    async def open(self) -> None:
        """Start the first engines."""
        for name, place in (await self.change(self.actors)).joining.items():
            self.start(name, place)

    async def change(self, actors: int) -> Change:
        """Return what is missing to ``actors`` engines."""
        return change(self._places, actors, await self.host.rooms())

    def start(self, name: str, place: str) -> SupervisedPart:
        self._parts[name] = self.host.start(name, place)
        self._places[name] = place
        return self._parts[name]

    def remove(self, name: str) -> SupervisedPart:
        del self._places[name]
        return self._parts.pop(name)


class Scaling:
    """Keeps a run's engines at the number that the user wants and that the nodes have room for."""

    def __init__(
        self,
        pool: EnginePool,
        supervisor: Supervisor,
        store: Store,
        lease_s: float,
        say: Callable[[str], None],
    ) -> None:
        self._pool = pool
        self._supervisor = supervisor
        self._store = store
        self._say = say
        self._limit = pool.actors
        """Lower than the pool's number after an engine could not work."""

        self._too_small: tuple[str, ...] = ()
        self._changing = asyncio.Lock()
        self._mailbox = Mailbox(
            store,
            consumer="scaling",
            topics=topics_of(ScaleRequested),
            member="launch",
            lease_s=lease_s,
        )

    async def run(self, opened: int) -> None:
        """Obey requests after the record ``opened``, and follow the nodes; never return."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._obey(opened))
            group.create_task(self._follow())

    async def _obey(self, opened: int) -> None:
        while True:
            for delivery in await self._mailbox.take(1):
                assert isinstance(delivery.message, ScaleRequested)
                await self._answer(delivery, delivery.message, opened)

    async def _answer(self, delivery: Delivery, request: ScaleRequested, opened: int) -> None:
        reason = "the run started again before it could obey; ask again"
        if delivery.sequence > opened:
            reason = await self._pool.host.refusal(request.actors)
        if reason:
            refused = ScaleRefused(request_id=request.request_id, reason=reason)
            await self._mailbox.complete((delivery.sequence,), (refused,))
            return
        async with self._changing:
            self._pool.actors = self._limit = request.actors
            planned = await self._pool.change(request.actors)
            scaled = RolloutScaled(
                cause="request",
                actors=request.actors,
                engines=self._after(planned),
                request_id=request.request_id,
            )
            await self._mailbox.complete((delivery.sequence,), (scaled,))
            await self._carry_out(planned)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            async with self._changing:
                await self._let_go_failed()
                planned = await self._pool.change(self._limit)
                if planned:
                    await self._record("nodes", planned)
                    await self._carry_out(planned)
            await self._note_too_small()

    async def _note_too_small(self) -> None:
        if (found := tuple(self._pool.host.too_small())) != self._too_small:
            self._too_small = found
            await self._mailbox.append((NodesTooSmall(reasons=found),))

    async def _let_go_failed(self) -> None:
        failed = dict(self._supervisor.failed)
        if failed:
            for reason in failed.values():
                self._say(f"{reason}; the run continues without this engine")
            planned = Change(joining={}, leaving=list(failed), lost=())
            self._limit = len(self._pool.names) - len(failed)
            await self._record("failure", planned)
            await self._carry_out(planned)

    async def _record(self, cause: Cause, planned: Change) -> None:
        engines = self._after(planned)
        scaled = RolloutScaled(cause=cause, actors=self._pool.actors, engines=engines)
        await self._mailbox.append((scaled,))

    def _after(self, planned: Change) -> tuple[str, ...]:
        kept = set(self._pool.names).difference(planned.leaving)
        return tuple(sorted(kept.union(planned.joining), key=_number))

    async def _carry_out(self, planned: Change) -> None:
        for name, place in planned.joining.items():
            self._supervisor.add(self._pool.start(name, place))
        leaving = (self._let_go(name, lost=name in planned.lost) for name in planned.leaving)
        await asyncio.gather(*leaving)

    async def _let_go(self, name: str, *, lost: bool) -> None:
        await self._supervisor.let_go(self._pool.remove(name), lost=lost)
        await hand_back(self._store, consumer=CONSUMER, member=name)


def recorded_scale(path: Path) -> tuple[str, ...]:
    """Return the number of engines that the run in ``path`` last had, as an override of settings.

    The user's own overrides, which come after it, win. Empty if the run has recorded none. Raises
    JournalError.
    """
    if not has_journal(RunDirectory(path)):
        return ()
    with JournalReader(path / STORE_FOLDER).snapshot() as state:
        newest = state.last(topic_of(RolloutScaled))
    return (f"rollout.actors={decode_as(newest, RolloutScaled).actors}",) if newest else ()


def _name(number: int) -> str:
    return f"rollout-{number}"


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])

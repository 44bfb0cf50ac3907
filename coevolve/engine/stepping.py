"""A thread that steps an engine for many event loops, and notices when a step does not end.

Orders reach the engine between two steps. The answers of a step travel back in one wake-up per
event loop. An engine that raises, or whose step or order takes longer than its limit where it has
one, is broken for good: everyone who waits, and everyone who comes, is told why.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from protocols.errors import GeneratorError

LOOKS = 4
"""How often within the limit of a step it is looked after."""

END_S = 5.0
"""How long the end of the engine's thread is waited for; a stuck one does not end."""


@dataclass(frozen=True, eq=False)
class Waiter:
    """Who waits for the engine's thread, and where."""

    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"


Settled = tuple[Waiter, Any]
"""A waiter and what it gets: a result, or an exception to raise."""

Order = Callable[[Waiter], bool]
"""Takes something up for the waiter; False where it has to be tried again after the next step."""


class Steps(Protocol):
    """An engine whose requests are named by their waiters."""

    @property
    def busy(self) -> bool:
        """Whether some request is unfinished."""
        ...

    def tick(self) -> Sequence[Settled]:
        """Advance every request; return what is finished."""
        ...


class Stepper:
    """Owns the thread of an engine."""

    def __init__(self, engine: Steps, step_timeout_s: float | None = None) -> None:
        self._engine = engine
        self._cpu_s = 0.0
        self._wake = threading.Condition()
        self._orders: deque[tuple[Waiter | None, Callable[[], bool]]] = deque()
        """What is to be done before the next step; guarded by ``_wake``, as are the following."""

        self._unsettled: set[Waiter] = set()
        self._broken: str | None = None
        """Why nothing is served any more."""

        self._began: float | None = None
        """Since when the thread has been inside the engine."""

        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
        self._thread.start()
        if step_timeout_s is not None:
            watch = threading.Thread(
                target=self._look_after, args=(step_timeout_s,), name="engine-watch", daemon=True
            )
            watch.start()

    async def ask(self, order: Order) -> Any:
        """Return what the waiter that ``order`` is given is settled with.

        Raises GeneratorError where the engine broke, and what the order raised.
        """
        loop = asyncio.get_running_loop()
        waiter = Waiter(loop, loop.create_future())
        self._put(waiter, lambda: order(waiter))
        return await waiter.future

    def tell(self, order: Callable[[], None]) -> None:
        """Have something done between two steps, and do not wait for it."""

        def carry_out() -> bool:
            order()
            return True

        with suppress(GeneratorError):
            self._put(None, carry_out)

    def settle(self, results: Sequence[Settled]) -> None:
        """Hand results, or errors, to those who wait: one wake-up per event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = {}
        with self._wake:
            self._unsettled.difference_update(waiter for waiter, _ in results)
        for waiter, result in results:
            by_loop.setdefault(waiter.loop, []).append((waiter, result))
        for loop, settled in by_loop.items():
            with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_resolve, settled)

    def cpu_s(self) -> float:
        """Return the CPU seconds of the engine's thread."""
        return self._cpu_s

    async def close(self, reason: str) -> None:
        """End the thread, unless it is stuck; whoever waits gets ``reason``."""
        self._break(reason)
        await asyncio.to_thread(self._thread.join, END_S)

    def _put(self, waiter: Waiter | None, order: Callable[[], bool]) -> None:
        with self._wake:
            if self._broken is not None:
                raise GeneratorError(self._broken)
            if waiter is not None:
                self._unsettled.add(waiter)
            self._orders.append((waiter, order))
            self._wake.notify()

    def _serve(self) -> None:
        try:
            while self._wait():
                self._carry_out()
                if self._engine.busy:
                    self.settle(self._engine.tick())
                self._cpu_s = time.thread_time()
        except Exception as error:
            self._break(f"the rollout engine broke: {type(error).__name__}: {error}")
            raise
        finally:
            self._ended.set()

    def _wait(self) -> bool:
        """Wait for something to do, in no step meanwhile; False at the end."""
        with self._wake:
            self._began = None
            while not (self._orders or self._engine.busy or self._broken):
                self._wake.wait()
            self._began = time.monotonic()
            return self._broken is None

    def _carry_out(self) -> None:
        with self._wake:
            orders = list(self._orders)
            self._orders.clear()
        later: list[tuple[Waiter | None, Callable[[], bool]]] = []
        for waiter, order in orders:
            try:
                if not order():
                    later.append((waiter, order))
            except GeneratorError as error:
                if waiter is not None:
                    self.settle([(waiter, error)])
        with self._wake:
            self._orders.extendleft(reversed(later))

    def _look_after(self, limit_s: float) -> None:
        while not self._ended.wait(limit_s / LOOKS):
            began = self._began
            if began is not None and time.monotonic() - began > limit_s:
                self._break(
                    f"the rollout engine is stuck: a step has taken more than {limit_s:g} s "
                    "(rollout.engine.step_timeout_s)"
                )
                return

    def _break(self, reason: str) -> None:
        with self._wake:
            self._broken = self._broken or reason
            left = list(self._unsettled)
            self._wake.notify()
        self.settle([(waiter, GeneratorError(reason)) for waiter in left])


def _resolve(settled: Sequence[Settled]) -> None:
    for waiter, result in settled:
        if waiter.future.done():
            continue
        if isinstance(result, BaseException):
            waiter.future.set_exception(result)
        else:
            waiter.future.set_result(result)

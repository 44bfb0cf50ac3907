"""A thread that steps an engine for many event loops, and detects a step that hangs.

Orders reach the engine between two steps. The answers of a step are delivered with one wake-up per
event loop. An engine fails for good if it raises, or if a step or order exceeds the time limit (if
one is set). All current and later callers then get the cause as an error.
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
"""Number of checks for a hanging step within its time limit."""

END_S = 5.0
"""Maximum wait for the end of the engine's thread; a thread that hangs does not end."""


@dataclass(frozen=True, eq=False)
class Waiter:
    """A caller that waits for the engine's thread, with its event loop."""

    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"


Settled = tuple[Waiter, Any]
"""A waiter and what it gets: a result, or an exception to raise."""

Order = Callable[[Waiter], bool]
"""Starts work for the waiter; returns False if it must be repeated after the next step."""


class Steps(Protocol):
    """An engine whose requests are identified by their waiters."""

    @property
    def busy(self) -> bool:
        """Whether any request is unfinished."""
        ...

    def tick(self) -> Sequence[Settled]:
        """Advance every request; return finished ones."""
        ...


class Stepper:
    """Owns the thread of an engine."""

    def __init__(self, engine: Steps, step_timeout_s: float | None = None) -> None:
        self._engine = engine
        self._cpu_s = 0.0
        self._wake = threading.Condition()
        self._orders: deque[tuple[Waiter | None, Callable[[], bool]]] = deque()
        """Orders to execute before the next step; guarded by ``_wake``, like the next two
        fields."""

        self._unsettled: set[Waiter] = set()
        self._broken: str | None = None
        """Why the engine failed; None while it works."""

        self._began: float | None = None
        """Time at which the thread entered the engine; None outside of it."""

        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
        self._thread.start()
        if step_timeout_s is not None:
            watch = threading.Thread(
                target=self._watch, args=(step_timeout_s,), name="engine-watch", daemon=True
            )
            watch.start()

    async def ask(self, order: Order) -> Any:
        """Pass a waiter to ``order`` and return the waiter's result.

        Raises GeneratorError if the engine failed, and any error of the order.
        """
        loop = asyncio.get_running_loop()
        waiter = Waiter(loop, loop.create_future())
        self._put(waiter, lambda: order(waiter))
        return await waiter.future

    def tell(self, order: Callable[[], None]) -> None:
        """Execute ``order`` between two steps, without waiting for it."""

        def run_order() -> bool:
            order()
            return True

        with suppress(GeneratorError):
            self._put(None, run_order)

    def settle(self, results: Sequence[Settled]) -> None:
        """Deliver results or errors to their waiters, with one wake-up per event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = {}
        with self._wake:
            self._unsettled.difference_update(waiter for waiter, _ in results)
        for waiter, result in results:
            by_loop.setdefault(waiter.loop, []).append((waiter, result))
        for loop, settled in by_loop.items():
            with suppress(RuntimeError):  # the loop is closed, so nobody waits
                loop.call_soon_threadsafe(_resolve, settled)

    def cpu_s(self) -> float:
        return self._cpu_s

    async def close(self, reason: str) -> None:
        """End the thread, unless it hangs; all waiters get ``reason`` as an error."""
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
                self._run_orders()
                if self._engine.busy:
                    self.settle(self._engine.tick())
                self._cpu_s = time.thread_time()
        except Exception as error:
            self._break(f"the rollout engine failed: {type(error).__name__}: {error}")
            raise
        finally:
            self._ended.set()

    def _wait(self) -> bool:
        """Wait for work, outside of any step; return False at the end."""
        with self._wake:
            self._began = None
            while not (self._orders or self._engine.busy or self._broken):
                self._wake.wait()
            self._began = time.monotonic()
            return self._broken is None

    def _run_orders(self) -> None:
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

    def _watch(self, limit_s: float) -> None:
        while not self._ended.wait(limit_s / LOOKS):
            began = self._began
            if began is not None and time.monotonic() - began > limit_s:
                self._break(
                    f"the rollout engine hangs: a step has taken more than {limit_s:g} s "
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

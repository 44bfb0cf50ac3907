"""Asynchronous work from code that is not asynchronous."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``, whether or not an event loop runs in this thread."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 -- raised again in the waiting thread
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result()

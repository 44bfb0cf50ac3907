"""Serves a run's numbers at `/metrics`, in Prometheus's format, from the launcher's process.

Each request gets the run's present state. If the launcher does not answer within `ANSWER_S`, it
gets the last one, whose ``coevolve_last_progress_timestamp_seconds`` then stands still.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coevolve.followers.numbers import Number, numbers_of
from coevolve.runs.drive import Run
from protocols.config import RunConfig
from protocols.errors import CoevolveError

ANSWER_S = 10.0
AGAIN_S = 30.0
"""Pause before an address that is taken is tried again."""

NAME = "prometheus"


async def serve(config: RunConfig, say: Callable[[str, str], None], run: Run) -> None:
    """Serve until cancelled. ``say`` gets `NAME` and why it cannot, or an empty text."""
    host, port = config.prometheus.host, config.prometheus.port
    registry = CollectorRegistry()
    registry.register(_Collected(partial(numbers_of, config, run), asyncio.get_running_loop()))
    while True:
        try:
            server, thread = start_http_server(port, addr=host, registry=registry)
            break
        except OSError as error:
            say(NAME, f"cannot listen on {host}:{port}: {error.strerror}")
            await asyncio.sleep(AGAIN_S)
    say(NAME, "")
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.to_thread(server.shutdown)
        thread.join()
        server.server_close()


Ask = Callable[[], Coroutine[Any, Any, Sequence[Number]]]


class _Collected(Collector):
    """Asks the run's event loop from the server's threads."""

    def __init__(self, ask: Ask, loop: asyncio.AbstractEventLoop) -> None:
        self._ask = ask
        self._loop = loop
        self._last: Sequence[Number] = ()

    def collect(self) -> Iterator[Metric]:
        """Yield the run's metrics."""
        # RuntimeError: the event loop has ended, and this server is about to.
        with contextlib.suppress(TimeoutError, CoevolveError, RuntimeError):
            asked = asyncio.run_coroutine_threadsafe(self._ask(), self._loop)
            self._last = asked.result(ANSWER_S)
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for each in self._last:
            if each.name not in families:
                family = CounterMetricFamily if each.counts else GaugeMetricFamily
                families[each.name] = family(each.name, each.about, labels=tuple(each.labels))
            families[each.name].add_metric(tuple(each.labels.values()), each.value)
        yield from families.values()

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what there is depends on the run."""
        return ()

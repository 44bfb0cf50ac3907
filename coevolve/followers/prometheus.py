"""Serves a run's numbers at `/metrics`, in Prometheus's format, from the launcher's process.

Each request gets the run's present state. If the launcher raises an error, or does not answer
within `ANSWER_S`, it gets the last one, whose ``coevolve_last_progress_timestamp_seconds`` then
stands still.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import structlog
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coevolve.followers.numbers import Number, numbers_of
from coevolve.runs.drive import Run
from protocols.config import RunConfig

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

ANSWER_S = 10.0
AGAIN_S = 30.0
"""Pause before an address that is taken is tried again."""

NAME = "prometheus"

NAMES = ("127.0.0.1", "[::1]", "localhost")
"""How a request then names this machine."""

log = structlog.get_logger()


async def serve(config: RunConfig, say: Callable[[str, str], None], run: Run) -> None:
    """Serve until cancelled. ``say`` gets `NAME` and why it cannot, or an empty text."""
    host, port = config.prometheus.host, config.prometheus.port
    registry = CollectorRegistry()
    while True:
        try:
            server, thread = start_http_server(port, addr=host, registry=registry)
            break
        except OSError as error:
            say(NAME, f"cannot listen on {host}:{port}: {error.strerror}")
            await asyncio.sleep(AGAIN_S)
    if ip_address(str(server.server_address[0])).is_loopback:
        names = frozenset(f"{name}:{port}" for name in (host, *NAMES))
        app = server.get_app()
        assert app is not None, "prometheus_client has set one"
        server.set_app(_only_for(names, app))
    # Only now, because the server answers already.
    registry.register(_Collected(partial(numbers_of, config, run), asyncio.get_running_loop()))
    say(NAME, "")
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.to_thread(server.shutdown)
        thread.join()
        server.server_close()


def _only_for(names: Collection[str], app: "WSGIApplication") -> "WSGIApplication":
    """Return ``app`` for requests whose Host header is one of ``names``; others get no number."""

    def answer(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        if environ.get("HTTP_HOST", "") in names:
            return app(environ, start)
        start("421 Misdirected Request", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"Ask for {min(names)}.\n".encode()]

    return answer


Ask = Callable[[], Coroutine[Any, Any, Sequence[Number]]]


class _Collected(Collector):
    """Asks the run's event loop from the server's threads."""

    def __init__(self, ask: Ask, loop: asyncio.AbstractEventLoop) -> None:
        self._ask = ask
        self._loop = loop
        self._last: Sequence[Number] = ()
        self._asked: Future[Sequence[Number]] | None = None
        self._asking = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Yield the run's metrics."""
        self._look()
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for each in self._last:
            if each.name not in families:
                family = CounterMetricFamily if each.counts else GaugeMetricFamily
                families[each.name] = family(each.name, each.about, labels=tuple(each.labels))
            families[each.name].add_metric(tuple(each.labels.values()), each.value)
        yield from families.values()

    def _look(self) -> None:
        """Take up the present state, if it can be had in time."""
        try:
            asked = self._one_ask()
            try:
                self._last = asked.result(ANSWER_S)
            finally:
                asked.cancel()
        except Exception as error:  # noqa: BLE001 - the boundary round the run's own numbers
            log.warning("no_present_numbers", reason=f"{type(error).__name__}: {error}")

    def _one_ask(self) -> "Future[Sequence[Number]]":
        """Return the ask in flight, or a new one. Raises RuntimeError if the loop has ended."""
        with self._asking:
            if self._asked is None or self._asked.done():
                ask = self._ask()
                try:
                    self._asked = asyncio.run_coroutine_threadsafe(ask, self._loop)
                except RuntimeError:
                    ask.close()
                    raise
            return self._asked

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what there is depends on the run."""
        return ()

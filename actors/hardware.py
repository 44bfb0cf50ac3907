"""A hardware simulator as a Ray actor: both ends of the wire, no behaviour of its own."""

import asyncio
from pathlib import Path

import msgspec
import ray
from ray.actor import ActorProxy
from ray.exceptions import RayError, RayTaskError

from coevolve.environments.hdl import assembly
from coevolve.parts.starting import starting
from coevolve.parts.status import Standing
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.errors import CoevolveError, SimulatorError
from protocols.hardware import Evaluate, Evaluated, Point, Unit

PATIENCE_S = 600.0
"""Longer than an evaluation may take together with those that it waits behind."""

MAX_REASON = 500

_ENCODER = msgspec.msgpack.Encoder()
_EVALUATE = msgspec.msgpack.Decoder(Evaluate)
_EVALUATED = msgspec.msgpack.Decoder(Evaluated)
_UNIT = msgspec.msgpack.Decoder(Unit)
_POINTS = msgspec.msgpack.Decoder(tuple[Point, ...])


class HardwareShell:
    """Gives one hardware simulator a process."""

    def __init__(self, name: str, config: RunConfig, run_dir: str) -> None:
        with starting(Path(run_dir), name):
            self._simulator = assembly.simulator(config)
        self._gate = asyncio.Semaphore(config.hdl.concurrent)
        self._standing = Standing(name)
        self._standing.waits_for("testbenches")
        self._waiting = 0

    @ray.method
    async def evaluate(self, request: bytes) -> bytes:
        """Grade one submission; both travel as msgpack."""
        self._waiting += 1
        self._standing.waits_for("Verilator")
        try:
            async with self._gate:
                evaluated = await self._simulator.evaluate(_EVALUATE.decode(request))
            return _ENCODER.encode(evaluated)
        except SimulatorError as error:
            self._standing.last_error = str(error)
            raise
        finally:
            self._waiting -= 1
            self._standing.done += 1
            if not self._waiting:
                self._standing.waits_for("testbenches")

    @ray.method
    async def points(self, unit: bytes) -> bytes:
        """Return the coverage points of a unit."""
        async with self._gate:
            return _ENCODER.encode(await self._simulator.points(_UNIT.decode(unit)))

    async def status(self) -> PartStatus:
        """Say what the simulator is doing; the mailbox counts testbenches, ``done`` likewise."""
        return self._standing.report(mailbox=self._waiting)

    async def cpu_s(self) -> float:
        """Return the CPU seconds of compilers and simulations so far."""
        return self._simulator.cpu_s()

    async def close(self) -> None:
        """End the processes of compiled designs."""
        await self._simulator.close()


HardwareActor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)(HardwareShell)


class RemoteTestbenchSimulator:
    """The callers' end: a ``protocols.interfaces.TestbenchSimulator`` over one actor."""

    def __init__(self, actor: "ActorProxy[HardwareShell]", patience_s: float = PATIENCE_S) -> None:
        self._actor = actor
        self._patience_s = patience_s

    async def evaluate(self, request: Evaluate) -> Evaluated:
        """Have one submission graded there. Raises SimulatorError and ConfigError."""
        return _EVALUATED.decode(
            await self._answer(self._actor.evaluate.remote(_ENCODER.encode(request)))
        )

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        """Return the unit's points. Raises SimulatorError and ConfigError."""
        return _POINTS.decode(await self._answer(self._actor.points.remote(_ENCODER.encode(unit))))

    async def _answer(self, reply: "ray.ObjectRef[bytes]") -> bytes:
        try:
            return await asyncio.wait_for(reply, self._patience_s)
        except TimeoutError as error:
            raise SimulatorError(
                f"no answer from the simulator actor within {self._patience_s} s"
            ) from error
        except RayError as error:
            if isinstance(error, RayTaskError) and isinstance(error.cause, CoevolveError):
                raise error.cause from error
            reason = f"the simulator actor failed: {type(error).__name__}: {error}"
            raise SimulatorError(reason[:MAX_REASON]) from error

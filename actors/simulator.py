"""A member of the simulator pool as a Ray actor: both ends of the wire, no behaviour of its own."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import ray
from ray.actor import ActorProxy
from ray.exceptions import RayError

from coevolve.environments.tools.bfcl.worker import BfclWorker
from coevolve.parts import logs
from coevolve.parts.status import Standing
from protocols.config import SimulatorConfig
from protocols.control import PartStatus
from protocols.simulation import Broken, Command, Ready, Release, Reply

PATIENCE_S = 90.0
"""Longer than a worker may take for a batch: beyond it the actor itself is lost."""


MAX_REASON = 500

# Ray would pickle each struct by itself, which takes ten times as long.
_ENCODER = msgspec.msgpack.Encoder()
_COMMANDS = msgspec.msgpack.Decoder(tuple[Command, ...])
_REPLIES = msgspec.msgpack.Decoder(tuple[Reply, ...])


class SimulatorShell:
    """Gives one simulator worker a process. Without ``run_dir`` it logs to its output."""

    def __init__(self, name: str, config: SimulatorConfig, run_dir: str = "") -> None:
        if run_dir:
            logs.to_file(Path(run_dir), name)
        self._worker = BfclWorker(config)
        self._standing = Standing(name)
        self._standing.waits_for("commands")
        self._waiting = 0

    @ray.method
    async def execute(self, batch: bytes) -> bytes:
        """Forward one batch; commands and replies travel as msgpack."""
        commands = _COMMANDS.decode(batch)
        self._waiting += 1
        self._standing.waits_for("the simulator child")
        try:
            return _ENCODER.encode(await self._worker.execute(commands))
        finally:
            self._waiting -= 1
            self._standing.done += len(commands)
            if not self._waiting:
                self._standing.waits_for("commands")

    async def status(self) -> PartStatus:
        """Say what the worker is doing; the mailbox counts batches, ``done`` commands."""
        self._standing.last_error = self._worker.last_error
        return self._standing.report(mailbox=self._waiting)

    async def cpu_s(self) -> float:
        """Return the CPU seconds of the worker's children."""
        return self._worker.cpu_s()

    async def restarts(self) -> int:
        """Return how many children had to be replaced."""
        return self._worker.restarts

    async def close(self) -> None:
        """End the worker's child."""
        await self._worker.close()


SimulatorActor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)(SimulatorShell)


class RemoteSimulatorWorker:
    """The callers' end: a ``protocols.interfaces.SimulatorWorker`` over one actor."""

    def __init__(self, actor: "ActorProxy[SimulatorShell]", patience_s: float = PATIENCE_S) -> None:
        self._actor = actor
        self._patience_s = patience_s

    async def execute(self, commands: Sequence[Command]) -> Sequence[Reply]:
        """Send the batch; where the actor fails, every session in it is `Broken`."""
        try:
            answer = self._actor.execute.remote(_ENCODER.encode(commands))
            return _REPLIES.decode(await asyncio.wait_for(answer, self._patience_s))
        except TimeoutError:
            reason = f"no answer from the simulator actor within {self._patience_s} s"
        except RayError as error:
            reason = f"the simulator actor failed: {type(error).__name__}: {error}"[:MAX_REASON]
        return [
            Ready() if isinstance(command, Release) else Broken(reason=reason)
            for command in commands
        ]

"""Both ends of the connection between sessions and the process that holds their worlds."""

from collections.abc import Sequence

import msgspec

from coevolve.environments.tools.commands import Broken, Command, Ready, Release, Reply, sendable
from coevolve.environments.tools.interfaces import OwnedWorker
from protocols.errors import SimulatorError
from protocols.interfaces import SimulatorService

_encoder = msgspec.msgpack.Encoder()
_commands = msgspec.msgpack.Decoder(tuple[Command, ...])
_replies = msgspec.msgpack.Decoder(tuple[Reply, ...])


class ToolService:
    """A `protocols.interfaces.SimulatorService` for one worker."""

    def __init__(self, worker: OwnedWorker) -> None:
        self._worker = worker

    @property
    def last_error(self) -> str:
        return self._worker.last_error

    @property
    def restarts(self) -> int:
        return self._worker.restarts

    async def answer(self, request: bytes) -> bytes:
        """Execute a batch of commands."""
        return _encoder.encode(await self._worker.execute(_commands.decode(request)))

    def cpu_s(self) -> float:
        return self._worker.cpu_s()

    async def close(self) -> None:
        await self._worker.close()


class ToolClient:
    """A `coevolve.environments.tools.interfaces.SimulatorWorker` that uses a service."""

    def __init__(self, service: SimulatorService) -> None:
        self._service = service

    async def execute(self, commands: Sequence[Command]) -> Sequence[Reply]:
        """Send the batch; if the service fails, every session in it is `Broken`."""
        batch = _encoder.encode([sendable(command) for command in commands])
        try:
            return _replies.decode(await self._service.answer(batch))
        except SimulatorError as error:
            return [
                Ready() if isinstance(command, Release) else Broken(reason=str(error))
                for command in commands
            ]

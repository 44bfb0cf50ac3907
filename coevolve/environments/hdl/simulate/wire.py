"""Encodes and decodes the messages between a simulator's caller and its process."""

import asyncio
from typing import Protocol

import msgspec

from coevolve.environments.hdl.simulate.interfaces import TestbenchSimulator
from coevolve.environments.hdl.simulate.messages import Evaluate, Evaluated, Point, Unit
from protocols.errors import SimulatorError
from protocols.interfaces import SimulatorService


class _Grade(msgspec.Struct, frozen=True, tag="grade"):
    request: Evaluate


class _PointsOf(msgspec.Struct, frozen=True, tag="points_of"):
    unit: Unit


_encoder = msgspec.msgpack.Encoder()
_question = msgspec.msgpack.Decoder(_Grade | _PointsOf)
_evaluated = msgspec.msgpack.Decoder(Evaluated)
_points = msgspec.msgpack.Decoder(tuple[Point, ...])


class Owned(TestbenchSimulator, Protocol):
    """A simulator with processes of its own."""

    def cpu_s(self) -> float:
        """Return the CPU seconds of compilers and simulations so far."""
        ...

    async def close(self) -> None:
        """End the processes of compiled designs."""
        ...


class TestbenchService:
    """A `protocols.interfaces.SimulatorService` over one simulator."""

    __test__ = False

    def __init__(self, simulator: Owned, concurrent: int) -> None:
        """Run at most ``concurrent`` evaluations at a time."""
        self._simulator = simulator
        self._gate = asyncio.Semaphore(concurrent)
        self._last_error = ""

    @property
    def last_error(self) -> str:
        """The message of the last evaluation that failed."""
        return self._last_error

    async def answer(self, request: bytes) -> bytes:
        """Grade a submission, or return a unit's points. Raises SimulatorError and ConfigError."""
        question = _question.decode(request)
        async with self._gate:
            try:
                return _encoder.encode(await self._dispatch(question))
            except SimulatorError as error:
                self._last_error = str(error)
                raise

    async def _dispatch(self, question: _Grade | _PointsOf) -> Evaluated | tuple[Point, ...]:
        match question:
            case _Grade(request=request):
                return await self._simulator.evaluate(request)
            case _PointsOf(unit=unit):
                return await self._simulator.points(unit)

    def cpu_s(self) -> float:
        return self._simulator.cpu_s()

    async def close(self) -> None:
        await self._simulator.close()


class TestbenchClient:
    """A `coevolve.environments.hdl.simulate.interfaces.TestbenchSimulator` over a service."""

    __test__ = False

    def __init__(self, service: SimulatorService) -> None:
        self._service = service

    async def evaluate(self, request: Evaluate) -> Evaluated:
        return _evaluated.decode(await self._service.answer(_encoder.encode(_Grade(request))))

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        return _points.decode(await self._service.answer(_encoder.encode(_PointsOf(unit))))

"""The environment of `sums` with a machine's fault of a kind that a test names."""

import asyncio
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from sums import Answerer, Grader, Settings, Sums, SumSource, sum_of

from coevolve.curriculum.task_sampler import SourceSampler
from coevolve.delivery.engine import VerifiedEngine
from coevolve.environments.settings import settings_of
from coevolve.parts.context import PartContext
from coevolve.rollouts.agent import Agent, Episode
from protocols.errors import EndpointError, GeneratorError, SimulatorError
from protocols.interfaces import Generator, SimulatorService
from protocols.learning import PolicyVersion, ServedWeights
from protocols.rollouts import Writer
from protocols.tasks import Task

Fault = Literal[
    "none",
    "opening",
    "prompt",
    "world",
    "grader",
    "grader dies",
    "grader hangs",
    "endpoint",
    "engine",
    "process dies",
    "import",
    "sampler",
    "version gone",
    "version damaged",
    "unlucky",
    "endpoint rests",
    "grader rests",
]

WORKS = 24
"""Requests that are answered before a rest."""

REST_S = 120.0


class BrokenSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which fault."""

    fault: Fault = "none"


class Rest:
    """A service that does not answer for a while."""

    def __init__(self) -> None:
        self._asked = 0
        self._ends_s = 0.0

    def lasts(self) -> bool:
        """Return whether this request finds the service at rest."""
        self._asked += 1
        if self._asked == WORKS:
            self._ends_s = time.monotonic() + REST_S
        return time.monotonic() < self._ends_s


class BrokenGrader(Grader):
    """A simulator that fails in one way."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._asked = 0
        self._rest = Rest()

    async def answer(self, request: bytes) -> bytes:
        """Answer, or fail."""
        self._asked += 1
        match self._fault:
            case "grader":
                raise SimulatorError(f"reward() raised KeyError: 'case {self._asked}'")
            case "grader dies":
                os._exit(1)
            case "grader hangs":
                await asyncio.sleep(3600)
            case "grader rests" if self._rest.lasts():
                await asyncio.sleep(3600)
            case "unlucky" if self._asked % 3:
                raise SimulatorError("the machine was busy")
            case _:
                pass
        return await super().answer(request)


class BrokenAnswerer:
    """An agent that fails in one way, and asks the grader whatever the policy says."""

    def __init__(self, fault: Fault, agent: Answerer, service: SimulatorService) -> None:
        self._fault = fault
        self._agent = agent
        self._service = service
        self._rest = Rest()

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        """Attempt a task, or fail."""
        name = task.task_id
        match self._fault:
            case "opening":
                raise ValueError(f"System role not supported in the opening of {name}")
            case "prompt":
                raise SimulatorError(
                    f"task {name}: a prompt must be shorter than rollout.max_tokens = 64, found "
                    f"{400 + seed % 50} tokens"
                )
            case "world":
                raise SimulatorError(f"the task's world does not load: KeyError: {name!r}")
            case "endpoint":
                raise EndpointError("http://127.0.0.1:9/v1: the connection failed (refused)")
            case "endpoint rests" if self._rest.lasts():
                raise EndpointError("http://127.0.0.1:9/v1: the connection failed (refused)")
            case "engine":
                raise GeneratorError(f"row {seed % 7}: the logits are not finite")
            case "process dies":
                os._exit(1)
            case _:
                pass
        await self._service.answer(msgspec.msgpack.encode((sum_of(task), "")))
        return await self._agent.attempt(task, session, seed=seed)


def spoil(generator: Generator, run_dir: Path, *, damaged: bool) -> None:
    """Let an engine find each version's weights shortened, or gone, when it loads them."""
    load = generator.load

    async def load_spoilt(version: PolicyVersion) -> ServedWeights:
        for weights in (run_dir / version.path).glob("*.safetensors"):
            if damaged:
                os.truncate(weights, weights.stat().st_size // 2)
            else:
                shutil.rmtree(weights.parent)
        return await load(version)

    generator.load = load_spoilt


class Broken(Sums):
    """`Sums` with the fault of its settings."""

    name = "broken"
    config_type = BrokenSettings
    patience_s = 2.0

    @property
    def fault(self) -> Fault:
        """The fault."""
        return settings_of(self._config, BrokenSettings).fault

    def source(self) -> SumSource:
        """Return the sums."""
        return SumSource(settings_of(self._config, BrokenSettings).largest)

    def sampler(self) -> SourceSampler:
        """Return the sampler of the curriculum."""
        if self.fault == "sampler":
            raise RuntimeError("the tasks cannot be sorted")
        return super().sampler()

    def simulator(self) -> Grader:
        """Return the simulator."""
        return BrokenGrader(self.fault)

    def agents(
        self,
        name: str,
        context: PartContext,
        engine: VerifiedEngine,
        simulators: Sequence[SimulatorService],
    ) -> Mapping[Writer, Agent]:
        """Return the policy's agent."""
        if self.fault == "import":
            import no_such_package  # noqa: F401 # pyright: ignore
        if self.fault.startswith("version"):
            damaged = self.fault == "version damaged"
            spoil(engine.generator, context.run_dir, damaged=damaged)
        temperature = self._config.rollout.temperature
        agent = Answerer(self._config, engine.generator, simulators[0], temperature)
        return {"policy": BrokenAnswerer(self.fault, agent, simulators[0])}

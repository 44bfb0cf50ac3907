"""The part of a run that makes rollouts: store, simulators and one rollout actor."""

import asyncio
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager

import ray

from actors.home import Home
from actors.part import RemotePart
from actors.remote_store import STORE_NAME, RemoteStore
from actors.rollout import RolloutActor
from actors.simulator import RemoteSimulator, SimulatorActor
from actors.store import StoreActor
from coevolve.curriculum.group_requests import group_requests
from coevolve.engine.vllm.environment import environment
from coevolve.environments.registry import environment_of
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.history.directory import RunDirectory
from coevolve.journal.mailbox import Mailbox
from coevolve.models.model_folder import model_folder
from coevolve.runs.accounting import CpuReading, read_cpu
from protocols.config import RunConfig, VllmEngine
from protocols.errors import ConfigError, SimulatorError
from protocols.journal import Message
from protocols.rollouts import FailedRollout, Rollout

ENGINE = "rollout-0"

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    # Ray gives its workers a low priority; processes that are measured beside them have none.
    "RAY_worker_niceness": "0",
}


class System:
    """The actors, with methods to send requests and to receive rollouts."""

    def __init__(self, config: RunConfig, directory: RunDirectory) -> None:
        """Start every actor in the existing Ray cluster."""
        self.config = config
        self._run_dir = directory.path
        home = Home(folder=str(directory.path))
        store_actor = StoreActor.remote(directory.store, config.store)
        store = RemoteStore(store_actor)
        names = [f"simulator-{number}" for number in range(config.simulator.workers)]
        simulators = [SimulatorActor.remote(name, config, home) for name in names]
        tools = environment_of(config)
        assert isinstance(tools, ToolEnvironment)
        workers = [RemoteSimulator(actor, tools.patience_s) for actor in simulators]
        sampling = RolloutActor.options(
            runtime_env={"env_vars": environment(engine_settings(config))}
        ).remote(ENGINE, config, home, store, workers)
        self._sampling = RemotePart(ENGINE, sampling)
        self._simulators = list(map(RemotePart, names, simulators))
        self._store_part = RemotePart(STORE_NAME, store_actor)
        self._source = tools.source()
        self._groups = 0
        self._mailbox = Mailbox(
            store,
            consumer="bench",
            topics=("rollout", "failed_rollout"),
            member="bench",
            lease_s=config.store.lease_s,
        )

    async def publish(self) -> None:
        """Publish version 0 as a learner does, and start the rollout part."""
        from coevolve.learning.trainer import Trainer
        from coevolve.learning.versions import write_version

        trainer = Trainer(self.config, model_folder(self.config.policy.model))
        version = write_version(self._run_dir, trainer, self.config)
        await self._mailbox.append([version])
        self._running = asyncio.create_task(self._sampling.run())

    async def play(self, groups: int) -> list[Rollout]:
        """Request more groups and return their rollouts.

        Raises SimulatorError if one fails, and any error of the rollout part.
        """
        asked = [message for _ in range(groups) for message in self._group()]
        await self._mailbox.append(asked)
        wanted = groups * self.config.rollout.group_size
        rollouts: list[Rollout] = []
        while len(rollouts) < wanted:
            left = wanted - len(rollouts)
            taken = await self._mailbox.take(left, at_least=left)
            await self._check()
            rollouts.extend(_made(outcome) for _, outcome in taken)
            if taken:
                await self._mailbox.complete([delivery.sequence for delivery in taken])
        return rollouts

    async def cpu(self) -> CpuReading:
        """Return the CPU time of every process so far."""
        return await read_cpu([self._sampling], self._simulators, [self._store_part])

    async def stop(self) -> None:
        """End the rollout part."""
        await self._sampling.stop()
        await self._running

    async def _check(self) -> None:
        """Raise the error of the rollout part, if it has ended."""
        if self._running.done():
            await self._running

    def _group(self) -> list[Message]:
        """Return the next group's task and requests, with seeds as the curriculum gives them."""
        number = self._groups
        self._groups += 1
        task, _ = self._source.draw(number)
        return [task, *group_requests(self.config, number, task.task_id)]


@contextmanager
def system(config: RunConfig, directory: RunDirectory) -> Generator[System]:
    """Start a local Ray cluster with the actors, both of which end with the block."""
    os.environ.update(ENVIRONMENT)
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    try:
        yield System(config, directory)
    finally:
        ray.shutdown()


def _made(outcome: Message) -> Rollout:
    match outcome:
        case Rollout():
            return outcome
        case FailedRollout(reason=reason):
            raise SimulatorError(f"a measurement needs every rollout, one failed: {reason}")
        case other:
            raise TypeError(f"needs rollouts, found {type(other).__name__}")


def engine_settings(config: RunConfig) -> VllmEngine:
    """Return the settings of the engine. Raises ConfigError if it is not vLLM on the CPU."""
    engine = config.rollout.engine
    if isinstance(engine, VllmEngine) and not engine.gpus:
        return engine
    raise ConfigError(
        "rollout.engine: a comparison with vLLM needs kind vllm with gpus 0, found "
        f"{engine}; give another --run-file"
    )

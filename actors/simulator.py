"""A member of the simulator pool as a Ray actor, and its proxy; both only forward calls."""

import asyncio

import ray
from ray.actor import ActorProxy
from ray.exceptions import RayActorError, RayError, RayTaskError

from actors.home import Home
from coevolve.environments.registry import environment_of
from coevolve.parts.starting import unexpected_logged
from coevolve.parts.status import StatusReporter
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.errors import CoevolveError, SimulatorError, SimulatorLostError

MAX_REASON = 500


class SimulatorShell:
    """Runs one simulator of the run's environment in its own process."""

    def __init__(self, name: str, config: RunConfig, home: Home) -> None:
        with home.starting(name):
            self._simulator = environment_of(config).simulator()
        self._name = name
        self._reporter = StatusReporter(name)
        self._reporter.waits_for("requests")
        self._waiting = 0

    @ray.method(max_task_retries=0)
    async def answer(self, request: bytes) -> bytes:
        """Forward one request. Raises SimulatorError for any unexpected error."""
        self._waiting += 1
        self._reporter.waits_for("the simulator")
        try:
            with unexpected_logged():
                return await self._simulator.answer(request)
        except CoevolveError:
            raise
        except Exception as error:
            raise SimulatorError(
                f"the simulator raised {type(error).__name__}: {error}; its traceback is in "
                f"logs/{self._name}.jsonl"
            ) from error
        finally:
            self._waiting -= 1
            self._reporter.done += 1
            if not self._waiting:
                self._reporter.waits_for("requests")

    @ray.method(max_task_retries=0)
    async def status(self) -> PartStatus:
        """Return the simulator's status; mailbox and ``done`` count requests."""
        self._reporter.last_error = self._simulator.last_error
        return self._reporter.report(mailbox=self._waiting)

    @ray.method(max_task_retries=0)
    async def cpu_s(self) -> float:
        return self._simulator.cpu_s()

    async def close(self) -> None:
        await self._simulator.close()


# As the actor has retries, Ray keeps requests while it starts again. As its methods have none, what
# it was answering fails.
SimulatorActor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(SimulatorShell)


class RemoteSimulator:
    """The callers' proxy: a `protocols.interfaces.SimulatorService` for one actor."""

    last_error = ""

    def __init__(self, actor: "ActorProxy[SimulatorShell]", patience_s: float) -> None:
        """Wait ``patience_s`` for each answer, a restart of the actor included."""
        self._actor = actor
        self._patience_s = patience_s

    async def answer(self, request: bytes) -> bytes:
        """Return the answer to one request.

        Raises the simulator's own errors, SimulatorLostError if the actor ended meanwhile, and
        SimulatorError.
        """
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._actor.answer.remote(request)
        except TimeoutError as error:
            raise SimulatorError(
                f"no answer from the simulator actor within {self._patience_s} s"
            ) from error
        except RayError as error:
            if isinstance(error, RayTaskError) and isinstance(error.cause, CoevolveError):
                raise error.cause from error
            reason = f"the simulator actor failed: {type(error).__name__}: {error}"
            kind = SimulatorLostError if isinstance(error, RayActorError) else SimulatorError
            raise kind(reason[:MAX_REASON]) from error

    def cpu_s(self) -> float:
        """Return 0: the actor reports its own CPU seconds."""
        return 0.0

    async def close(self) -> None:
        """Do nothing: the run stops the actor."""

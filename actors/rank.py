"""Another rank of the learner as a Ray actor, and the learner's end of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from actors.home import Home
from coevolve.learning.sharded.rpc import Done, Enlistment, Order
from coevolve.models.model_folder import model_folder
from protocols.config import RunConfig
from protocols.errors import CoevolveError, RankError


class RankShell:
    """Runs one rank in its own process."""

    def __init__(self, rank: int, config: RunConfig, home: Home) -> None:
        with home.starting(f"learner-rank-{rank}"):
            from coevolve.learning.sharded.worker import RankWorker  # with torch

            here = home.with_model(config)
            self._worker = RankWorker(rank, here, model_folder(here.policy.model), home.reach())

    def execute(self, message: Enlistment | Order) -> Done:
        return self._worker.execute(message)


RankActor: Any = ray.remote(num_cpus=0)(RankShell)


@dataclass(frozen=True, kw_only=True)
class RemoteRanks:
    """A `coevolve.learning.sharded.rpc.RankStarter` on a Ray cluster."""

    config: RunConfig
    home: Home
    options: Sequence[Mapping[str, Any]]
    """Ray's options of each rank, from rank 0, which is the learner itself."""

    @property
    def address(self) -> str:
        """The address of this node, as the others reach it."""
        return self.home.address()

    def start(self, rank: int) -> "RemoteRank":
        """Start an actor, which ends with this process."""
        started = RankActor.options(**self.options[rank])
        return RemoteRank(rank, started.remote(rank, self.config, self.home))


class RemoteRank:
    """A `coevolve.learning.sharded.rpc.Member` for one actor."""

    def __init__(self, rank: int, actor: Any) -> None:
        self._rank = rank
        self._actor = actor

    def wait_until_started(self, wait_s: float) -> None:
        self._answer(self._actor.__ray_ready__.remote(), wait_s)

    def call(self, message: Enlistment | Order) -> Done:
        return self._answer(self._actor.execute.remote(message), None)

    def dismiss(self) -> None:
        ray.kill(self._actor)

    def _answer(self, call: Any, wait_s: float | None) -> Any:
        try:
            return ray.get(call, timeout=wait_s)
        except GetTimeoutError:
            raise RankError(
                f"rank {self._rank} did not start within {wait_s:.0f} s: no node has room for what "
                "it reserves (learner.gpus, placement.cpus, placement.learner), or its node still "
                "copies the model; add a node, or resume with fewer learner.devices"
            ) from None
        except RayError as error:
            if isinstance(error, RayTaskError) and isinstance(error.cause, CoevolveError):
                raise error.cause from None
            reason = str(error).strip().splitlines()[-1]
            raise RankError(f"the process of rank {self._rank} ended: {reason}") from error

"""A rank that rank 0 drives: executes messages, one after the other."""

from pathlib import Path

from coevolve.learning.sharded.rendezvous import find_meeting, join, leave
from coevolve.learning.sharded.rpc import Done, Enlistment, Folder, Order, RunFolder
from coevolve.learning.trainer import Trainer
from coevolve.parts.starting import unexpected_logged
from protocols.config import RunConfig
from protocols.errors import CoevolveError, RankError
from protocols.interfaces import Files


class RankWorker:
    """One rank from 1 on, in its own process.

    After an error it leaves the group, because the ranks are then out of step; this also ends what
    the other ranks wait for.
    """

    def __init__(
        self, rank: int, config: RunConfig, base: Path, files: Files, *, gpu: int = 0
    ) -> None:
        """Wait for an `Enlistment`; with ``policy.device: cuda``, compute on GPU ``gpu``.

        ``base`` is the folder of the run's initial model, and ``files`` is the run's folder, both
        as this node has them.
        """
        self._rank = rank
        self._config = config
        self._base = base
        self._files = files
        self._gpu = gpu
        self._trainer: Trainer | None = None

    def execute(self, message: Enlistment | Order) -> Done:
        """Execute a message. Raises CoevolveError, which names this rank."""
        try:
            with unexpected_logged():
                return self._execute(message)
        except CoevolveError as error:
            leave()
            raise type(error)(f"rank {self._rank}: {error}") from error
        except Exception as error:
            leave()
            raise RankError(f"rank {self._rank}: {type(error).__name__}: {error}") from error

    def _execute(self, message: Enlistment | Order) -> Done:
        match message:
            case Enlistment():
                self._trainer = self._load(message)
            case Order(method="save", arguments=(RunFolder(path=path),)):
                self._files.contribute(path, self._loaded.save)
            case Order(method=method, arguments=arguments):
                getattr(self._loaded, method)(*map(self._here, arguments))
        return Done(cpu_s=self._loaded.cpu_s())

    @property
    def _loaded(self) -> Trainer:
        assert self._trainer is not None, "the first message enlists the rank"
        return self._trainer

    def _load(self, enlistment: Enlistment) -> Trainer:
        count = self._config.learner.devices
        weights = self._here(enlistment.weights)
        checkpoint = self._here(enlistment.checkpoint, keep=1)
        ranks = join(
            find_meeting(enlistment.address, enlistment.port, count),
            rank=self._rank,
            count=count,
            device=self._config.policy.device,
            gpu=self._gpu,
            timeout_s=self._config.learner.device_timeout_s,
        )
        return Trainer(
            self._config, self._base, weights=weights, checkpoint=checkpoint, ranks=ranks
        )

    def _here(self, argument: Folder | None, *, keep: int = 0) -> Path | None:
        """Return this node's copy of a folder of the run, and anything else unchanged."""
        if isinstance(argument, RunFolder):
            return self._files.fetch_now(argument.path, keep=keep)
        return argument

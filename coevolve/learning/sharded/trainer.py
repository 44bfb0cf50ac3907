"""A trainer over several devices: this process is rank 0 and drives the others.

It has the methods of `coevolve.learning.trainer.Trainer` and their promises, with three
differences. Weights agree with those of one device to rounding, not to the bit; the same number of
devices makes the same bits. What fails on one rank ends the step on all of them: the processes are
stopped, this one leaves the group, and whoever wants to go on opens another trainer. And an
operation that some rank never comes to is given up after ``learner.device_timeout_s``.

*What was run*: CPU processes that talk by gloo. *What was not*: ``policy.device: cuda``, where rank
N computes on GPU N and talks by NCCL, for example eight GPUs of one node with ``learner.devices:
8``. There NCCL itself ends rank 0's process when an operation times out, and the learner starts
again from its journal.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from coevolve.learning.batch import Batch, PairRow, ReferenceRow
from coevolve.learning.sharded.rendezvous import join, leave, open_meeting
from coevolve.learning.sharded.rpc import Method, Order
from coevolve.learning.sharded.workers import TrainingWorkers
from coevolve.learning.trainer import Trainer
from protocols.config import RunConfig
from protocols.errors import CoevolveError, LearnerError
from protocols.learning import Probe

T = TypeVar("T")

LAST_WORDS_S = 5.0
"""Time that a failing rank has to say why, once another has noticed."""


class ShardedTrainer:
    """A policy in parts, and what it takes to improve it by one batch."""

    def __init__(
        self,
        config: RunConfig,
        base: Path,
        *,
        weights: Path | None = None,
        checkpoint: Path | None = None,
    ) -> None:
        """Start ``learner.devices - 1`` processes and load as `Trainer` does, on every rank.

        Raises LearnerError where a process cannot be started, or cannot load.
        """
        learner = config.learner
        self._others_cpu_s = 0.0
        store = open_meeting(learner.devices)
        self._crew = TrainingWorkers(
            config, base, port=store.port, weights=weights, checkpoint=checkpoint
        )

        def load() -> Trainer:
            self._crew.wait_until_started()
            ranks = join(
                store,
                rank=0,
                count=learner.devices,
                device=config.policy.device,
                timeout_s=learner.device_timeout_s,
            )
            return Trainer(config, base, weights=weights, checkpoint=checkpoint, ranks=ranks)

        self._own = self._together(load, "load")

    @property
    def step(self) -> int:
        """Return the step that was taken last: the version of the weights."""
        return self._own.step

    def cpu_s(self) -> float:
        """Return the CPU seconds spent inside the model so far, on all ranks."""
        return self._own.cpu_s() + self._others_cpu_s

    def take_step(self, batch: Batch) -> dict[str, float]:
        """Improve the policy by one step on rollouts and return its metrics."""
        return self._ordered("take_step", self._own.take_step, batch)

    def take_supervised_step(
        self, step: int, rows: Sequence[ReferenceRow] | Sequence[PairRow]
    ) -> dict[str, float]:
        """Improve the policy by one step on given rows and return its metrics."""
        return self._ordered("take_supervised_step", self._own.take_supervised_step, step, rows)

    def go_back(self, step: int, folder: Path, rate_factor: float) -> dict[str, float]:
        """Take step ``step`` back to the weights in ``folder``, and return its metrics."""
        return self._ordered("go_back", self._own.go_back, step, folder, rate_factor)

    def probe(self) -> Probe:
        """Return the run's probe, with what the present weights give to its tokens."""
        return self._ordered("probe", self._own.probe)

    def save_weights(self, folder: Path) -> None:
        """Write the whole weights with their config into ``folder``."""
        self._ordered("save_weights", self._own.save_weights, folder)

    def save(self, folder: Path) -> None:
        """Write all that ``checkpoint`` needs, for any number of devices, into ``folder``."""
        self._ordered("save", self._own.save, folder)

    def close(self) -> None:
        """Stop the other ranks and leave their group."""
        self._crew.dismiss()
        leave()

    def _ordered(self, method: Method, own: Callable[..., T], *arguments: object) -> T:
        """Have every rank call ``method``, this one as ``own``."""

        def call() -> T:
            self._crew.order(Order(method=method, arguments=arguments))
            return own(*arguments)

        return self._together(call, method)

    def _together(self, own: Callable[[], T], what: str) -> T:
        """Do this rank's part and wait for the others'; whatever fails ends all."""
        try:
            result = own()
            self._others_cpu_s = sum(done.cpu_s for done in self._crew.answers())
        except CoevolveError:
            self.close()
            raise
        except Exception as error:
            reasons = self._crew.failures(LAST_WORDS_S)
            self.close()
            raise LearnerError(f"{what} over several devices: {reasons or error}") from error
        return result

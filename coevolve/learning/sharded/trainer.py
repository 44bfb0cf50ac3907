"""A trainer over several devices: this process is rank 0 and drives the others.

It has the methods and guarantees of `coevolve.learning.trainer.Trainer`, with three differences.
Weights agree with those of one device to rounding, not in every bit; the same number of devices
gives the same bits. An error on one rank ends the step on all: the trainer stops the processes and
leaves the group, and the caller must open another trainer. A collective operation is aborted after
``learner.device_timeout_s`` if a rank does not join it.

*Tested*: CPU processes with gloo. *Not tested*: ``policy.device: cuda``, where rank N computes on
GPU N and uses NCCL, for example eight GPUs of one node with ``learner.devices: 8``. There NCCL
itself ends rank 0's process when an operation times out, and the learner restarts from its journal.
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
"""Time for a failing rank to report its error, after another rank has noticed."""


class ShardedTrainer:
    """A sharded policy with the state needed to train it by one batch."""

    def __init__(
        self,
        config: RunConfig,
        base: Path,
        *,
        weights: Path | None = None,
        checkpoint: Path | None = None,
    ) -> None:
        """Start ``learner.devices - 1`` processes and load as `Trainer` does, on every rank.

        Raises LearnerError if a process cannot start or load.
        """
        learner = config.learner
        self._others_cpu_s = 0.0
        store = open_meeting(learner.devices)
        self._workers = TrainingWorkers(
            config, base, port=store.port, weights=weights, checkpoint=checkpoint
        )

        def load() -> Trainer:
            self._workers.wait_until_started()
            ranks = join(
                store,
                rank=0,
                count=learner.devices,
                device=config.policy.device,
                timeout_s=learner.device_timeout_s,
            )
            return Trainer(config, base, weights=weights, checkpoint=checkpoint, ranks=ranks)

        self._own = self._run_on_all(load, "load")

    @property
    def step(self) -> int:
        """Return the last step, which is the version of the weights."""
        return self._own.step

    def cpu_s(self) -> float:
        """Return the CPU seconds spent in the model so far, on all ranks."""
        return self._own.cpu_s() + self._others_cpu_s

    def take_step(self, batch: Batch) -> dict[str, float]:
        """Train one step on rollouts and return its metrics."""
        return self._call_all("take_step", self._own.take_step, batch)

    def take_supervised_step(
        self, step: int, rows: Sequence[ReferenceRow] | Sequence[PairRow]
    ) -> dict[str, float]:
        """Train one step on given rows and return its metrics."""
        return self._call_all("take_supervised_step", self._own.take_supervised_step, step, rows)

    def go_back(self, step: int, folder: Path, rate_factor: float) -> dict[str, float]:
        """Take step ``step`` back to the weights in ``folder``, and return its metrics."""
        return self._call_all("go_back", self._own.go_back, step, folder, rate_factor)

    def load_weights(self, folder: Path) -> None:
        """Replace the weights by those in ``folder``; step and momentum stay."""
        self._call_all("load_weights", self._own.load_weights, folder)

    def probe(self) -> Probe:
        """Return the run's probe, with the current weights' logprobs."""
        return self._call_all("probe", self._own.probe)

    def save_weights(self, folder: Path) -> None:
        """Write the full weights and their config into ``folder``."""
        self._call_all("save_weights", self._own.save_weights, folder)

    def save(self, folder: Path) -> None:
        """Write a checkpoint, usable with any number of devices, into ``folder``."""
        self._call_all("save", self._own.save, folder)

    def close(self) -> None:
        """Stop the other ranks and leave their group."""
        self._workers.dismiss()
        leave()

    def _call_all(self, method: Method, own: Callable[..., T], *arguments: object) -> T:
        """Call ``method`` on every rank; ``own`` is this rank's method."""

        def call() -> T:
            self._workers.order(Order(method=method, arguments=arguments))
            return own(*arguments)

        return self._run_on_all(call, method)

    def _run_on_all(self, own: Callable[[], T], what: str) -> T:
        """Run this rank's part and wait for the others; any error stops all ranks."""
        try:
            result = own()
            self._others_cpu_s = sum(done.cpu_s for done in self._workers.answers())
        except CoevolveError:
            self.close()
            raise
        except Exception as error:
            reasons = self._workers.failures(LAST_WORDS_S)
            self.close()
            raise LearnerError(f"{what} over several devices: {reasons or error}") from error
        return result

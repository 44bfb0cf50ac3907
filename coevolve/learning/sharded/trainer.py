"""A trainer over several devices: this process is rank 0 and drives the others.

It has the methods and guarantees of `coevolve.learning.trainer.Trainer`, with three differences.
Weights agree with those of one device to rounding, not in every bit; the same number of devices
gives the same bits. An error on one rank ends the step on all: the trainer stops the other
processes and leaves the group, and the caller must open another trainer. A collective operation is
aborted after ``learner.device_timeout_s`` if a rank does not join it, and as soon as a rank's
process is known to have ended.

The ranks need no common files. Each rank loads from its node's copies, and writes its own part of a
checkpoint, which travels to the run's folder (`protocols.interfaces.Files`).

*Tested*: CPU processes with gloo, on one machine and on nodes that share no files. *Not tested*:
``policy.device: cuda``, where ranks use NCCL, each on a GPU of its own. There NCCL itself ends rank
0's process when an operation times out, and the learner restarts from its journal.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

from coevolve.learning.batch import Batch
from coevolve.learning.sharded.processes import LocalRanks
from coevolve.learning.sharded.rendezvous import join, leave, open_meeting
from coevolve.learning.sharded.rpc import (
    Done,
    Enlistment,
    Folder,
    Method,
    Order,
    RankStarter,
    RunFolder,
)
from coevolve.learning.trainer import Trainer
from coevolve.models.atomic_folder import published
from protocols.config import RunConfig
from protocols.errors import CoevolveError, RankError
from protocols.interfaces import Files
from protocols.learning import Probe

T = TypeVar("T")

LAST_WORDS_S = 5.0
"""Time for a failing rank to report its error, after another rank has noticed."""


START_S = 300.0
"""Time for a process to get its place, to import its modules, and to copy the initial model."""


class OtherRanks:
    """Calls all other ranks at the same time; a thread waits for each."""

    def __init__(self, starter: RankStarter, count: int) -> None:
        """Start the processes of the ranks from 1 to ``count``."""
        self._members = [starter.start(rank) for rank in range(1, count + 1)]
        self._threads = ThreadPoolExecutor(max(1, count), thread_name_prefix="rank")

    def wait_until_started(self) -> None:
        for member in self._members:
            member.wait_until_started(START_S)

    def call(self, message: Enlistment | Order) -> Sequence[Future[Done]]:
        """Let every rank execute a message; return the answers to come, in rank order."""
        return [self._threads.submit(member.call, message) for member in self._members]

    def dismiss(self) -> None:
        for member in self._members:
            member.dismiss()
        self._members = []
        self._threads.shutdown(wait=False)


class ShardedTrainer:
    """A sharded policy with the state needed to train it by one batch."""

    def __init__(
        self,
        config: RunConfig,
        base: Path,
        files: Files,
        *,
        weights: Path | None = None,
        checkpoint: Path | None = None,
        starter: RankStarter | None = None,
    ) -> None:
        """Start ``learner.devices - 1`` processes and load as `Trainer` does, on every rank.

        Without a ``starter`` they are processes of this machine. Raises RankError if one cannot
        start, and what `Trainer` raises.
        """
        learner = config.learner
        starter = starter or LocalRanks(config, base, files.folder)
        self._files = files
        self._timeout_s = learner.device_timeout_s
        self._others_cpu_s = 0.0
        store = open_meeting(starter.address, learner.devices)
        # All of rank 0's own work is done in one thread, which a rank that is gone may block.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rank-0")
        self._others = OtherRanks(starter, learner.devices - 1)

        def load() -> Trainer:
            ranks = join(
                store,
                rank=0,
                count=learner.devices,
                device=config.policy.device,
                timeout_s=learner.device_timeout_s,
            )
            return Trainer(config, base, weights=weights, checkpoint=checkpoint, ranks=ranks)

        enlistment = Enlistment(
            address=starter.address,
            port=store.port,
            weights=self._portable(weights),
            checkpoint=self._portable(checkpoint),
        )
        try:
            self._others.wait_until_started()
        except RankError:
            self.close()
            raise
        self._own = self._run_on_all(enlistment, load, "load")

    @property
    def step(self) -> int:
        """Return the last step, which is the version of the weights."""
        return self._own.step

    def cpu_s(self) -> float:
        return self._own.cpu_s() + self._others_cpu_s

    def take_step(self, batch: Batch) -> dict[str, float]:
        """Train one step on rollouts and return its metrics."""
        return self._call_all("take_step", self._own.take_step, batch)

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
        # The others write nothing, so they need not find the folder.
        order = Order(method="save_weights", arguments=(folder,))
        self._run_on_all(order, lambda: self._own.save_weights(folder), "save_weights")

    def save(self, folder: Path) -> None:
        """Write a checkpoint, usable with any number of devices, into ``folder``.

        ``folder`` has to be one that `Files.assemble` gave.
        """
        order = Order(method="save", arguments=(self._portable(published(folder)),))
        self._run_on_all(order, lambda: self._own.save(folder), "save")

    def close(self) -> None:
        """Stop the other ranks and leave their group."""
        self._others.dismiss()
        leave()
        self._thread.shutdown(wait=False)

    def _call_all(self, method: Method, own: Callable[..., T], *arguments: object) -> T:
        """Call ``method`` on every rank; ``own`` is this rank's method."""
        portable = tuple(
            self._portable(each) if isinstance(each, Path) else each for each in arguments
        )
        order = Order(method=method, arguments=portable)
        return self._run_on_all(order, lambda: own(*arguments), method)

    def _portable(self, folder: Path | None) -> Folder | None:
        """Return a folder as other ranks find it, whichever node they are on."""
        if folder is None or not folder.is_relative_to(self._files.folder):
            return folder
        return RunFolder(path=folder.relative_to(self._files.folder).as_posix())

    def _run_on_all(self, message: Enlistment | Order, own: Callable[[], T], what: str) -> T:
        """Run this rank's part and let the others execute ``message``; any error stops all."""
        calls = self._others.call(message)
        mine = self._thread.submit(own)
        if not _all_succeed(mine, calls, self._timeout_s):
            error = _failure(mine, calls, what)
            self.close()
            raise error
        self._others_cpu_s = sum(call.result().cpu_s for call in calls)
        return mine.result()


def _all_succeed(mine: Future[Any], calls: Sequence[Future[Any]], timeout_s: float) -> bool:
    """Wait for all ranks; return False once one fails.

    The others may take ``timeout_s`` longer than rank 0, whose operations have a time limit.
    """
    left = {mine, *calls}
    while left:
        done, left = wait(left, timeout_s if mine.done() else None, FIRST_COMPLETED)
        if not done or any(each.exception() for each in done):
            return False
    return True


def _failure(mine: Future[Any], calls: Sequence[Future[Any]], what: str) -> BaseException:
    """Return the error that explains why a call on all ranks failed.

    It is a CoevolveError, or an OSError of this node's disk.
    """
    wait((mine, *calls), LAST_WORDS_S)
    told = [error for each in (mine, *calls) if each.done() and (error := each.exception())]
    for error in told:
        if isinstance(error, CoevolveError | OSError) and not isinstance(error, RankError):
            return error
    silent = [
        f"rank {rank} did not answer; it hangs, or needs longer than learner.device_timeout_s "
        "allows"
        for rank, call in enumerate(calls, start=1)
        if not call.done()
    ]
    ended = [str(each) for each in told if isinstance(each, RankError)]
    reasons = ended or [*silent, *map(str, told)]
    error = RankError(f"{what} over several devices: {'; '.join(reasons)}")
    error.__cause__ = told[0] if told else None
    return error

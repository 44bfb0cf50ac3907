"""The processes of the other ranks, from the view of the process that started them."""

import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing import Pipe
from pathlib import Path

from coevolve.learning.sharded.rpc import Answer, Done, Enlistment, Failed, Order
from protocols.config import RunConfig
from protocols.errors import LearnerError

START_S = 300.0
"""Time for a process to import its modules, on a busy machine."""

END_S = 5.0
"""Time between the end of a process's connection and the end of the process."""


class TrainingWorkers:
    """The ranks from 1 on, each in its own process, which ends with this one."""

    def __init__(
        self,
        config: RunConfig,
        base: Path,
        *,
        port: int,
        weights: Path | None,
        checkpoint: Path | None,
    ) -> None:
        """Start the processes; each joins the store at ``port`` and loads rank 0's model."""
        self._timeout_s = config.learner.device_timeout_s
        self._members = [
            _Member(
                Enlistment(
                    rank=rank,
                    port=port,
                    config=config,
                    base=base,
                    weights=weights,
                    checkpoint=checkpoint,
                )
            )
            for rank in range(1, config.learner.devices)
        ]

    def order(self, order: Order) -> None:
        """Send ``order`` to every rank. Raises LearnerError if one is gone."""
        for member in self._members:
            member.send(order)

    def wait_until_started(self) -> None:
        """Wait until every process runs. Raises LearnerError if one ended or does not answer."""
        for member in self._members:
            member.answer(START_S)

    def answers(self) -> Sequence[Done]:
        """Wait until every rank is done. Raises LearnerError if one failed or does not answer."""
        return [member.answer(self._timeout_s) for member in self._members]

    def failures(self, wait_s: float) -> str:
        """Return the errors of failed ranks, after at most ``wait_s``."""
        deadline_s = time.monotonic() + wait_s
        reasons: list[str] = []
        for member in self._members:
            try:
                member.answer(max(0.0, deadline_s - time.monotonic()))
            except LearnerError as error:
                reasons.append(str(error))
        return "; ".join(reasons)

    def dismiss(self) -> None:
        """Stop all processes."""
        for member in self._members:
            member.dismiss()
        self._members = []


class _Member:
    """One process."""

    def __init__(self, enlistment: Enlistment) -> None:
        self._rank = enlistment.rank
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 -- our own module
                [sys.executable, "-m", "coevolve.learning.sharded.worker", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
            )
        self.send(enlistment)

    def send(self, message: Enlistment | Order) -> None:
        try:
            self._connection.send(message)
        except ConnectionError as error:
            raise self._end_error() from error

    def answer(self, wait_s: float) -> Done:
        try:
            if not self._connection.poll(wait_s):
                raise LearnerError(
                    f"rank {self._rank} did not answer; it hangs, or needs longer than "
                    "learner.device_timeout_s allows"
                )
            answer: Answer = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise self._end_error() from error
        if isinstance(answer, Failed):
            raise LearnerError(f"rank {self._rank}: {answer.reason}")
        return answer

    def dismiss(self) -> None:
        """Kill the process; all its state is on rank 0 or can be recomputed."""
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _end_error(self) -> LearnerError:
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return LearnerError(f"rank {self._rank} closed its connection")
        return LearnerError(f"the process of rank {self._rank} ended with status {status}")

"""The processes of the other ranks, as the one that started them sees them."""

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
"""Time that a process has to import what it needs, on a machine that is busy."""

END_S = 5.0
"""Time from the end of a process's connection to that of the process itself."""


class TrainingWorkers:
    """The ranks from 1 on, each in a process of its own that ends with this one."""

    def __init__(
        self,
        config: RunConfig,
        base: Path,
        *,
        port: int,
        weights: Path | None,
        checkpoint: Path | None,
    ) -> None:
        """Start the processes; each joins the meeting at ``port`` and loads what rank 0 loads."""
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
        """Let every rank begin with ``order``. Raises LearnerError where one is gone."""
        for member in self._members:
            member.send(order)

    def wait_until_started(self) -> None:
        """Wait until every process runs. Raises LearnerError where one ended, or says nothing."""
        for member in self._members:
            member.answer(START_S)

    def answers(self) -> Sequence[Done]:
        """Wait until every rank is done. Raises LearnerError where one failed, or says nothing."""
        return [member.answer(self._timeout_s) for member in self._members]

    def failures(self, wait_s: float) -> str:
        """Return what became of the ranks that are not well, after at most ``wait_s``."""
        deadline_s = time.monotonic() + wait_s
        reasons: list[str] = []
        for member in self._members:
            try:
                member.answer(max(0.0, deadline_s - time.monotonic()))
            except LearnerError as error:
                reasons.append(str(error))
        return "; ".join(reasons)

    def dismiss(self) -> None:
        """Leave no process behind."""
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
            raise self._ended() from error

    def answer(self, wait_s: float) -> Done:
        try:
            if not self._connection.poll(wait_s):
                raise LearnerError(
                    f"rank {self._rank} did not answer; it hangs, or needs longer than "
                    "learner.device_timeout_s allows"
                )
            answer: Answer = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise self._ended() from error
        if isinstance(answer, Failed):
            raise LearnerError(f"rank {self._rank}: {answer.reason}")
        return answer

    def dismiss(self) -> None:
        """End the process at once: all that it has is on rank 0 or can be computed again."""
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _ended(self) -> LearnerError:
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return LearnerError(f"rank {self._rank} closed its connection")
        return LearnerError(f"the process of rank {self._rank} ended with status {status}")

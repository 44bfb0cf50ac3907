"""The ranks from 1 on, as rank 0 drives them."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from coevolve.learning.sharded.rpc import Done, Enlistment, Order, RankStarter

START_S = 300.0
"""Time for a process to get its place, to import its modules, and to copy the initial model."""


class OtherRanks:
    """Calls all other ranks at the same time; a thread waits for each."""

    def __init__(self, starter: RankStarter, count: int) -> None:
        """Start the processes of the ranks from 1 to ``count``."""
        self._members = [starter.start(rank) for rank in range(1, count + 1)]
        self._threads = ThreadPoolExecutor(max(1, count), thread_name_prefix="rank")

    def wait_until_started(self) -> None:
        """Wait until every process runs. Raises RankError if one ended or does not answer."""
        for member in self._members:
            member.wait_until_started(START_S)

    def call(self, message: Enlistment | Order) -> Sequence[Future[Done]]:
        """Let every rank execute a message; return the answers to come, in rank order."""
        return [self._threads.submit(member.call, message) for member in self._members]

    def dismiss(self) -> None:
        """Stop all processes."""
        for member in self._members:
            member.dismiss()
        self._members = []
        self._threads.shutdown(wait=False)

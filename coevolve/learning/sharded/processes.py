"""Other ranks as processes of this machine, for runs without Ray.

``python -m coevolve.learning.sharded.processes DESCRIPTOR`` is such a process. It ends when its
connection ends, and thus with the process that started it. It also ends after an error.
"""

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from coevolve.learning.sharded.rendezvous import LOOPBACK, leave
from coevolve.learning.sharded.rpc import Done, Enlistment, Order
from coevolve.learning.sharded.worker import RankWorker
from coevolve.parts.files import LocalFiles
from protocols.config import RunConfig
from protocols.errors import CoevolveError, RankError

T = TypeVar("T")

END_S = 5.0
"""Time between the end of a process's connection and the end of the process."""

Answer = Done | CoevolveError


class LocalRanks:
    """A `coevolve.learning.sharded.rpc.RankStarter` on this machine; rank N computes on GPU N."""

    address = LOOPBACK

    def __init__(self, config: RunConfig, base: Path, run_dir: Path) -> None:
        """Start ranks for a run with the initial model ``base``."""
        self._config = config
        self._base = base
        self._run_dir = run_dir

    def start(self, rank: int) -> "LocalRank":
        return LocalRank(rank, self._config, self._base, self._run_dir)


class LocalRank:
    """A `coevolve.learning.sharded.rpc.Member`."""

    def __init__(self, rank: int, config: RunConfig, base: Path, run_dir: Path) -> None:
        self._rank = rank
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 -- our own module
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
            )
        self._connected(lambda: self._connection.send((rank, config, base, run_dir)))

    def wait_until_started(self, wait_s: float) -> None:
        if not self._connected(lambda: self._connection.poll(wait_s)):
            raise RankError(f"the process of rank {self._rank} did not start within {wait_s:g} s")
        self._connected(self._connection.recv)

    def call(self, message: Enlistment | Order) -> Done:
        def exchange() -> Answer:
            self._connection.send(message)
            return self._connection.recv()

        answer = self._connected(exchange)
        if isinstance(answer, CoevolveError):
            raise answer
        return answer

    def dismiss(self) -> None:
        self._process.kill()
        self._process.wait()
        self._connection.close()

    def _connected(self, act: Callable[[], T]) -> T:
        """Use the connection. Raises RankError if the process has ended."""
        try:
            return act()
        except (EOFError, OSError) as error:
            raise RankError(self._end()) from error

    def _end(self) -> str:
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return f"rank {self._rank} closed its connection"
        return f"the process of rank {self._rank} ended with status {status}"


def main(arguments: list[str]) -> int:
    """Serve until the connection ends; return the exit status."""
    connection = Connection(int(arguments[0]))
    try:
        rank, config, base, run_dir = connection.recv()
        connection.send(Done())
        worker = RankWorker(rank, config, base, LocalFiles(run_dir), gpu=rank)
        while True:
            connection.send(worker.execute(connection.recv()))
    except (EOFError, ConnectionError):
        return 0
    except CoevolveError as error:
        with suppress(ConnectionError):
            connection.send(error)
        return 1
    finally:
        leave()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

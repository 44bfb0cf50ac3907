"""Serves LLM4Cov's file-drop queue.

`python -m coevolve.environments.hdl.llm4cov.serve_queue FOLDER --workers N`

Clients that were written for a licensed simulator are pointed at FOLDER and need no change; see
`hdl.llm4cov.queue` for what lies in it. Several of these may serve one folder. An
interrupt lets what is being evaluated end; a second one does not. Exits 0 when stopped, 1 where
the simulator cannot be used.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from coevolve.environments.hdl.needs import leave_without_slang

if __name__ == "__main__":
    leave_without_slang()

from coevolve.environments.hdl.llm4cov.queue import DropFolder
from coevolve.environments.hdl.llm4cov.serving import serve
from coevolve.environments.hdl.simulate.verilator import open_simulator
from protocols.errors import CoevolveError


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.environments.hdl.llm4cov.serve_queue",
        description=__doc__,
        allow_abbrev=False,
    )
    parser.add_argument("folder", type=Path, help="made where it is not there")
    parser.add_argument("--workers", type=int, default=1, help="jobs at a time")
    arguments = parser.parse_args()
    if arguments.workers < 1:
        parser.error(f"--workers needs at least 1, found {arguments.workers}")
    try:
        asyncio.run(_serve(arguments.folder, arguments.workers))
    except (CoevolveError, OSError) as error:
        sys.stderr.write(f"coevolve: {error}\n")
        sys.exit(1)


async def _serve(folder: Path, workers: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stopped(number: int) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped, number)
    simulator = open_simulator()
    queue = DropFolder(folder)
    sys.stderr.write(f"coevolve: serving {folder} with {workers} workers\n")
    await serve(queue, simulator, workers=workers, stop=stop)


if __name__ == "__main__":
    main()

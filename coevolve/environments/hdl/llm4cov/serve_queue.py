"""Serves LLM4Cov's file-drop queue.

`python -m coevolve.environments.hdl.llm4cov.serve_queue FOLDER --workers N`

Point clients that were written for a licensed simulator at FOLDER; they need no change. See
`hdl.llm4cov.queue` for the content of FOLDER. Several of these commands may serve one folder. After
an interrupt, running evaluations finish; a second interrupt stops them. The exit status is 0 when
stopped, 1 if the simulator cannot be used.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

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
    parser.add_argument("folder", type=Path, help="folder of the queue; made if missing")
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

"""Serves LLM4Cov's file-drop queue, for the command ``coevolve hdl serve-queue``."""

import asyncio
import signal
import sys
from pathlib import Path

from coevolve.environments.hdl.llm4cov.queue import DropFolder
from coevolve.environments.hdl.llm4cov.serving import serve
from coevolve.environments.hdl.simulate.verilator import open_simulator
from protocols.errors import RunError


def serve_folder(folder: Path, workers: int) -> None:
    """Serve until interrupted. Raises CoevolveError where the simulator cannot be used."""
    try:
        asyncio.run(_serve(folder, workers))
    except OSError as error:
        raise RunError(f"{folder}: cannot be served: {error}") from error


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

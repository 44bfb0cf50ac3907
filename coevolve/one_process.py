"""``python -m coevolve.loop RUN_FILE [KEY=VALUE ...]``: a new run in this process, without Ray."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine
from math import nan
from pathlib import Path
from typing import Any

from coevolve.base.foreign import resolved
from coevolve.base.import_guard import use_code
from coevolve.base.terminal import Terminal
from coevolve.config import preflight
from coevolve.config.load import load_config
from coevolve.environments.initial_model import make_model
from coevolve.environments.registry import environment_of
from coevolve.history.progress import TOPICS, Progress
from coevolve.journal.fold import fold
from coevolve.journal.local_store import LocalStore
from coevolve.journal.mailbox import IDLE_WAIT_S
from coevolve.parts import logs
from coevolve.parts.privacy import private_files
from coevolve.runs import starting
from coevolve.screen.facts import score_tables
from protocols.config import RunConfig
from protocols.errors import CoevolveError, first_error
from protocols.journal import Message
from protocols.learning import Evaluation, StepReport

LOG = "loop"
"""Name of the log of all parts."""


Run = Callable[[RunConfig, Path, str, "_Follower"], Coroutine[Any, Any, object]]
"""`coevolve.loop.run_here`."""


def main(run: Run) -> None:
    """Carry out the run that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.loop", description="Run the loop in this process, without Ray."
    )
    parser.add_argument("run_file", help="a run file, or the name of a built-in one")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings to change")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs")
    words = parser.parse_intermixed_args()
    use_code()
    try:
        _run(load_config(words.run_file, words.overrides), words.runs, run)
    except* CoevolveError as errors:
        sys.exit(f"{parser.prog}: {first_error(errors)}")


def _run(config: RunConfig, runs: Path, run: Run) -> None:
    console = Terminal()
    folder = resolved(runs / config.name)
    preflight.check_run(config, folder)
    with private_files():
        directory = starting.create(folder, config)
        with starting.launch_lock(directory):
            make_model(config, directory.path)
            preflight.check_made(config, directory.path)
            logs.to_file(directory.path, LOG)
            run_id = directory.identity().run_id
            asyncio.run(run(directory.config(), directory.path, run_id, _Follower(console)))
    console.print(f"The journal is in {directory.store}.", soft_wrap=True)


class _Follower:
    """Prints each step and the scores."""

    def __init__(self, console: Terminal) -> None:
        self._console = console

    async def __call__(self, config: RunConfig, store: LocalStore) -> None:
        """Return when the last version is scored."""
        progress, through = Progress(environment_of(config).labels()), 0
        steps = config.learner.steps

        def take(message: Message) -> None:
            progress.fold(message)
            match message:
                case StepReport(step=step, metrics=metrics):
                    reward = metrics.get("critic/rewards/mean", nan)
                    self._console.print(f"step {step} of {steps}: mean reward {reward:.2f}")
                case Evaluation(version=version):
                    score = progress.held_out()[version].mean
                    self._console.print(f"version {version}: mean score {score:.1%}")
                case _:
                    return

        while steps not in progress.evaluations:
            through = await fold(store, TOPICS, take, through)
            await store.wait(TOPICS, through, IDLE_WAIT_S)
        self._console.print(*score_tables(progress, self._console.width), sep="\n")

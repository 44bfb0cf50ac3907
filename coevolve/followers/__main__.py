"""The process of one follower: ``python -m coevolve.followers RUN NAME``, started by the launcher.

It ends with its standard input, so it never outlives a launcher that was killed by more than
`CLOSE_S`. A line on standard input says that there is news, or that the run has ended. Each line
that it writes to standard output is a `Said`. What libraries print goes to standard error.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from coevolve.base.durable_files import make_folder
from coevolve.base.foreign import plain
from coevolve.base.import_guard import use_code
from coevolve.environments.registry import environment_of
from coevolve.followers.interface import FollowedRun, Tracker
from coevolve.followers.own import OwnTracker
from coevolve.followers.said import END, Said, folder_of
from coevolve.followers.tracking import Tracking
from coevolve.history.directory import RunDirectory
from coevolve.journal.reader import run_reader
from coevolve.models.scratch_folder import scratch_folder
from coevolve.parts.attempts import reason_of
from coevolve.parts.privacy import keep_private
from protocols.config import RunConfig

CLOSE_S = 60.0
"""Seconds that a tracker may take to close once the launcher has gone."""

BUILT_IN = {
    "tensorboard": "TensorBoardTracker",
    "wandb": "WandbTracker",
    "mlflow": "MlflowTracker",
    "trackio": "TrackioTracker",
}

Say = Callable[[Said], None]


def main() -> None:
    """Follow the run until standard input ends."""
    channel = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # which writes each line at once
    keep_private()
    use_code()

    def say(said: Said) -> None:
        with contextlib.suppress(BrokenPipeError):  # the launcher has gone
            channel.write(msgspec.json.encode(said) + b"\n")

    code = 0
    with scratch_folder() as scratch:
        tempfile.tempdir = str(scratch.path)
        try:
            asyncio.run(_follow(RunDirectory(Path(sys.argv[1])), sys.argv[2], say))
        except BaseException as error:  # noqa: BLE001 - said, and the process ends
            say(Said(failure=plain(reason_of(error))))
            traceback.print_exc()
            code = 1
    os._exit(code)  # a library's threads may still wait for a network


async def _follow(directory: RunDirectory, name: str, say: Say) -> None:
    config = directory.config()
    folder = folder_of(directory.path, name)
    make_folder(folder, exist_ok=True)
    follower = Tracking(
        _tracker(name, _followed(directory, config, folder)),
        run_reader(directory.path),
        run=directory.path,
        labels=environment_of(config).labels(),
        unearned=len(environment_of(config).unearned()),
        settings=config.trackers,
    )
    await follower.catch_up()
    say(Said())
    while (line := await asyncio.to_thread(sys.stdin.readline)) and line.strip() != END:
        await follower.catch_up()
        say(Said())
    threading.Timer(CLOSE_S, os._exit, (1,)).start()
    await follower.catch_up()
    follower.finish(directory.report if line else None)
    say(Said())


def _followed(directory: RunDirectory, config: RunConfig, folder: Path) -> FollowedRun:
    tree: dict[str, Any] = msgspec.to_builtins(config)
    return FollowedRun(
        name=config.name,
        run_id=directory.identity().run_id,
        path=directory.path,
        folder=folder,
        config=tree,
        project=config.trackers.project,
        offline=config.trackers.offline,
    )


def _tracker(name: str, run: FollowedRun) -> Tracker:
    """Import and make the tracker; nothing of the others is imported."""
    if name not in BUILT_IN:
        return OwnTracker(run, name)
    module = import_module(f"coevolve.followers.built_in.{name}")
    return getattr(module, BUILT_IN[name])(run)


if __name__ == "__main__":
    main()

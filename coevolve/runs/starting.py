"""Begins a run's folder or continues it; refuses what would make it another run or harm it."""

import contextlib
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import cast

import msgspec

from coevolve.base.durable_files import make_folder, no_link
from coevolve.base.foreign import resolved
from coevolve.history.directory import LAUNCH_LOG, RunDirectory, RunIdentity, has_journal
from coevolve.journal.codec import decode_as, topic_of
from coevolve.journal.layout import DATA_FILE
from coevolve.journal.opening import lock_folder
from coevolve.journal.reader import JournalReader
from coevolve.parts.privacy import FOLDER_MODE
from coevolve.runs.sessions import last_launcher
from protocols.config import RunConfig
from protocols.control import RunFinished, RunStarted
from protocols.errors import JournalError, RunError
from protocols.learning import StepReport

MAY_CHANGE = (
    "cluster",
    "delivery",
    "evaluator",
    "evolve_wait_s",
    "learner.checkpoint_every",
    "learner.device_timeout_s",
    "learner.devices",
    "learner.failure_timeout_s",
    "learner.gpus",
    "learner.keep_checkpoints",
    "learner.recover_every",
    "learner.steps",
    "placement",
    "prometheus",
    "rollout.actors",
    "rollout.actors_per_node",
    "rollout.concurrent",
    "rollout.engine.batch_tokens",
    "rollout.engine.enforce_eager",
    "rollout.engine.gpu_memory_utilization",
    "rollout.engine.gpus",
    "rollout.engine.kv_cache_mb",
    "rollout.engine.self_test",
    "rollout.engine.sleeps",
    "rollout.engine.step_timeout_s",
    "rollout.engine.threads",
    "rollout.tries",
    "simulator",
    "store",
    "synthesizer.may_be_missing",
    "trackers",
    "watchdog",
)
"""Settings, and sections of settings, that may change when a run is resumed."""

LOCK_FILE = "launcher.lock"
"""File that the launching process locks, and that holds its id."""

RUN_ENTRIES = (
    "checkpoints",
    "config.yaml",
    "config.yaml.new",
    LAUNCH_LOG,
    LOCK_FILE,
    "logs",
    "model",
    "run.json",
    "run.json.new",
    "store",
    "tasks.jsonl",
    "versions",
)
"""All files and folders that a run may have before its first step."""


@contextlib.contextmanager
def launch_lock(directory: RunDirectory) -> Generator[None]:
    """Hold the lock for launching this run.

    Raises RunError if another process holds it, or if it is a link. Raises OSError.
    """
    lock = directory.path / LOCK_FILE
    _refuse_link(lock)
    with open(lock, "a+", opener=no_link) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(_running(directory)) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def is_launched(directory: RunDirectory) -> bool:
    """Return whether a process holds the run's lock now. Writes nothing.

    Whose process it is, `coevolve.runs.sessions.is_launcher_of_this_user` tells.
    """
    try:
        with open(directory.path / LOCK_FILE, opener=no_link) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no process has ever launched it
        return False
    return False


def _check_not_running(directory: RunDirectory) -> None:
    """Refuse a run that a process is running. Writes nothing. Raises RunError."""
    if is_launched(directory):
        raise RunError(_running(directory))


def _running(directory: RunDirectory) -> str:
    process = last_launcher(directory.path / LOCK_FILE) or directory.identity().pid
    attach = f"coevolve attach {directory.called}"
    return (
        f"{directory.path}: process {process} is running this run; `{attach} status` looks into "
        f"it, `{attach} resume` ends a pause, `{attach} stop` stops it; name=another-name starts "
        "another run"
    )


def refuse_existing(path: Path) -> None:
    """Refuse a folder for a new run that holds something else than a run without a record.

    Raises RunError.
    """
    directory = RunDirectory(path)
    if os.path.lexists(path) and not _never_began(directory):
        _check_not_running(directory)
        raise RunError(
            f"{path}: exists already; continue that run with `coevolve resume {directory.called}` "
            "(from Python: resume=True), or start another run with name=another-name"
        )


def create(path: Path, config: RunConfig) -> RunDirectory:
    """Create the folder of a new run; replace one whose run died before its first record.

    Raises RunError if the folder exists for any other reason, and then writes nothing.
    """
    refuse_existing(path)
    if _never_began(RunDirectory(path)):
        shutil.rmtree(path)
    try:
        make_folder(path, mode=FOLDER_MODE)
    except FileExistsError:  # another launcher has made it since
        refuse_existing(path)
        raise
    except OSError as error:
        raise RunError(
            f"{path}: cannot be created: {error.strerror}; name a folder that may be written with "
            "--runs"
        ) from error
    directory = RunDirectory(path)
    run_id = uuid.uuid4().hex[:12]
    namespace = f"coevolve-{config.name}-{run_id}"
    identity = RunIdentity(
        run_id=run_id, name=config.name, namespace=namespace, address="", pid=os.getpid()
    )
    try:
        directory.record_launch(config, identity)
    except RunError:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return directory


def _never_began(directory: RunDirectory) -> bool:
    """Return whether the run's launcher died before the first record."""
    try:
        found = {entry.name for entry in directory.path.iterdir()}
        if "run.json" not in found:
            return bool(found) and found <= {"config.yaml.new"}
        if not found <= set(RUN_ENTRIES) or _first_start(directory):
            return False
        with launch_lock(directory):
            return _first_start(directory) is None
    except (OSError, RunError, JournalError):
        return False


def _first_start(directory: RunDirectory) -> RunStarted | None:
    """Return the journal's first record, or None. Raises JournalError if it cannot be opened."""
    if not has_journal(directory):
        return None
    with lock_folder(directory.store), JournalReader(directory.store).snapshot() as state:
        first = state.scan(topic_of(RunStarted), 0, 1)
    return decode_as(first[0], RunStarted) if first else None


def reopen(path: Path, config: RunConfig) -> RunDirectory:
    """Return the folder of an earlier run of the same experiment, without changing it.

    Raises:
        RunError: There is no such run, it is running or has finished, its journal belongs to
            another run, or ``config`` changes a setting that would make it another experiment.
        JournalError: The journal cannot be continued, or another process is writing it.
    """
    try:
        there = path.is_dir()
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error}") from error
    if not there:
        raise RunError(
            f"{path}: there is no run to resume; leave --resume (from Python: resume=True) out to "
            "start it"
        )
    directory = RunDirectory(path)
    identity = directory.identity()
    _check_not_running(directory)
    before, now = _flat(directory.written_config()), _flat(config)
    differing = [
        f"  {key}: was {before.get(key)!r}, is {now.get(key)!r}"
        for key in sorted(before | now)
        if before.get(key) != now.get(key)
        and not any(key == each or key.startswith(f"{each}.") for each in MAY_CHANGE)
    ]
    if differing:
        raise RunError(
            f"{path}: the run was started with other settings, which would make it another "
            "experiment:\n" + "\n".join(differing) + "\nuse the old ones, or name=another-name"
        )
    _check_links(path)
    _check_journal(directory, identity.run_id)
    _check_steps(directory, config.learner.steps)
    return directory


def check_name(directory: RunDirectory, name: str) -> None:
    """Refuse to continue a run under another name than its folder's. Raises RunError.

    A run is continued in the folder of its name, and its copies are kept under its name; so the
    copy of a folder would continue as the original.
    """
    if directory.path.name != name:
        raise RunError(
            f"{directory.path}: the folder of run {name!r} has to be called {name!r}, found "
            f"{directory.path.name!r}; rename it, or move it into another folder, to continue it "
            f"there with `coevolve resume {name} --runs FOLDER`"
        )


def _check_journal(directory: RunDirectory, run_id: str) -> None:
    """Refuse a journal that is missing or damaged, belongs to another run, or is being written."""
    if directory.metrics.exists() and not has_journal(directory):
        raise RunError(
            f"{directory.store / DATA_FILE}: the journal of a run that went on is missing; put it "
            "back, or restore a checkpoint of it, or start another run with name=another-name"
        )
    first = _first_start(directory)
    if first is not None and first.run_id != run_id:
        raise RunError(
            f"{directory.store}: the journal belongs to run {first.run_id}, the directory to "
            f"run {run_id}; put the right journal back, or start under another name"
        )


def _check_steps(directory: RunDirectory, steps: int) -> None:
    """Refuse a run that has finished its ``steps``, or has taken more. Raises RunError.

    A run that has taken its last step, but not scored it, has not finished.
    """
    if not has_journal(directory):
        return
    with JournalReader(directory.store).snapshot() as state:
        report, finished = state.last(topic_of(StepReport)), state.last(topic_of(RunFinished))
    taken = decode_as(report, StepReport).step if report else 0
    if taken > steps:
        raise RunError(
            f"{directory.path}: has already taken {taken} steps, but learner.steps is {steps}; "
            f"resume with learner.steps of {taken} or more"
        )
    if finished and decode_as(finished, RunFinished).steps == steps:
        raise RunError(
            f"{directory.path}: has taken all {steps} steps; learner.steps=MORE continues it, for "
            f"example `coevolve resume {directory.called} learner.steps={2 * steps}`"
        )


def _check_links(run: Path) -> None:
    """Refuse a folder with a link out of it: the run would write there. Raises RunError.

    The folder itself may lie behind links, and trackers link their own files.
    """
    inside = resolved(run)
    for each in run.rglob("*"):
        if each.is_symlink() and not resolved(each).is_relative_to(inside):
            _refuse_link(each)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise RunError(
            f"{path}: needs to be no link, because the run would write through it, found a link to "
            f"{path.readlink()}; put what it leads to in its place, or remove it (the run's folder "
            "itself may be a link)"
        )


def _flat(config: RunConfig) -> dict[str, object]:
    flat: dict[str, object] = {}

    def walk(tree: object, path: str) -> None:
        if isinstance(tree, dict):
            for key, value in cast("dict[str, object]", tree).items():
                walk(value, f"{path}.{key}" if path else key)
        else:
            flat[path] = tree

    walk(json.loads(msgspec.json.encode(config)), "")
    return flat

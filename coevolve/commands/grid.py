"""Makes the runs of several arms and seeds; finished runs are kept.

A run's name consists of its arm, its seed and a digest of its settings. After an interruption,
give the same command again: it skips finished runs and makes the others. Runs of one seed are
adjacent in the order, so that the machine is in a similar state for paired runs.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

import coevolve
from protocols.config import RunConfig
from protocols.errors import RunError

Outcome = TypeVar("Outcome")

LOCK = "grid.lock"

By = Literal["coevolve.launch", "coevolve.loop"]
"""The program that makes a run: on Ray, or in one process with one thread for the model."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run of an arm."""

    arm: str
    seed: int
    run_file: Path
    config: RunConfig
    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        """Folder name of the run; different settings give a different name."""
        digest = hashlib.sha256(msgspec.json.encode(self.config)).hexdigest()
        return f"{self.arm.replace(' ', '-')}-{self.seed}-{digest[:8]}"


def run_grid(
    plans: Sequence[Plan],
    runs: Path,
    outcome_of: Callable[[Path, RunConfig], Outcome | None],
    *,
    jobs: int = 1,
    by: By = "coevolve.launch",
) -> dict[tuple[str, int], Outcome]:
    """Return the outcome of every run by (arm, seed); make missing runs, ``jobs`` at a time.

    ``outcome_of`` reads a run's folder and returns None if the run is not finished. Raises RunError
    for the first run that does not finish, if another process makes runs in the folder, and if the
    folder is a run's.
    """
    if (runs / "run.json").exists():
        raise RunError(
            f"{runs}: needs a folder for several runs, found a run; name another by --runs"
        )
    runs.mkdir(parents=True, exist_ok=True)
    with _alone(runs), ThreadPoolExecutor(max_workers=jobs) as pool:
        made = [pool.submit(_outcome, plan, runs, outcome_of, by) for plan in plans]
        try:
            found = [each.result() for each in made]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return {(plan.arm, plan.seed): each for plan, each in zip(plans, found, strict=True)}


def _outcome(
    plan: Plan, runs: Path, outcome_of: Callable[[Path, RunConfig], Outcome | None], by: By
) -> Outcome:
    folder = runs / plan.name
    known = outcome_of(folder, plan.config)
    if known is not None:
        return known
    started = time.monotonic()
    sys.stderr.write(f"{plan.name}: running; its output goes to {folder}.log\n")
    command = [*_dying_with_us(), sys.executable, "-u", "-m", by, str(plan.run_file)]
    command += [*plan.overrides, f"name={plan.name}", "--runs", str(runs)]
    environment = dict(os.environ)
    if by == "coevolve.loop":
        # It cannot go on with a run that was cut off.
        shutil.rmtree(folder, ignore_errors=True)
        environment["OMP_NUM_THREADS"] = "1"
    elif (folder / "run.json").exists():
        command += ["--resume"]
    if "--resume" not in command:
        _code_file(folder).write_text(_code_digest())
    with Path(f"{folder}.log").open("ab") as log:
        ended = subprocess.run(  # noqa: S603 - this very program
            command, stdout=log, stderr=log, env=environment, check=False
        )
    made = outcome_of(folder, plan.config)
    if ended.returncode or made is None:
        raise RunError(
            f"{plan.name}: has to finish, but ended with status {ended.returncode}; read "
            f"{folder}.log, then give the same command again"
        )
    sys.stderr.write(f"{plan.name}: took {time.monotonic() - started:.0f} s\n")
    return made


def code_of(folder: Path) -> str:
    """Return a digest of the code by which a run was begun; empty if it is not known."""
    file = _code_file(folder)
    return file.read_text() if file.exists() else ""


def _code_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.code")


def _code_digest() -> str:
    digest = hashlib.sha256()
    for package in ("actors", "coevolve", "protocols"):
        for file in sorted(Path(coevolve.__path__[0]).with_name(package).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:8]


@contextmanager
def _alone(runs: Path) -> Generator[None]:
    with (runs / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"{runs}: another process makes runs there; wait for it, or name another folder"
            ) from error
        yield


def _dying_with_us() -> tuple[str, ...]:
    """Return what ends a run when this process is killed, where the system can."""
    found = shutil.which("setpriv")
    return (found, "--pdeathsig", "TERM") if found else ()

"""Runs of several arms and seeds, each by `python -m coevolve.launch`, made once and then kept.

A run is named by its arm, its seed and a digest of its settings, so a grid can be interrupted and
given again: finished runs are taken as they are, others go on where they were left. Runs of one
seed stand side by side in the order, so that paired runs meet the same machine.
"""

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from protocols.config import RunConfig
from protocols.errors import RunError

Outcome = TypeVar("Outcome")


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
        """Folder of the run; other settings have another one."""
        digest = hashlib.sha256(msgspec.json.encode(self.config)).hexdigest()
        return f"{self.arm.replace(' ', '-')}-{self.seed}-{digest[:8]}"


def seeds_of(text: str) -> list[int]:
    """Return the seeds that ``0,1,4`` or ``0-7`` names. Raises RunError."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ends = (first, last or first)
        if not all(end.isascii() and end.isdecimal() for end in ends):
            raise RunError(
                "--seeds needs whole numbers of 0 or more, with commas between them, or a range "
                f"such as 0-7; found {text!r}"
            )
        seeds.extend(range(int(ends[0]), int(ends[1]) + 1))
    return list(dict.fromkeys(seeds))


def run_grid(
    plans: Sequence[Plan],
    runs: Path,
    outcome_of: Callable[[Path, RunConfig], Outcome | None],
    *,
    jobs: int = 1,
) -> dict[tuple[str, int], Outcome]:
    """Return what came of every run, by arm and seed; make those that are missing, ``jobs`` a time.

    ``outcome_of`` reads a run's folder, and returns None where the run is not over. Raises RunError
    for the first run that does not end by itself.
    """
    runs.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        made = [pool.submit(_outcome, plan, runs, outcome_of) for plan in plans]
        found = [each.result() for each in made]
    return {(plan.arm, plan.seed): each for plan, each in zip(plans, found, strict=True)}


def _outcome(
    plan: Plan, runs: Path, outcome_of: Callable[[Path, RunConfig], Outcome | None]
) -> Outcome:
    folder = runs / plan.name
    known = outcome_of(folder, plan.config)
    if known is not None:
        return known
    started = time.monotonic()
    sys.stderr.write(f"{plan.name}: runs, its output goes to {folder}.log\n")
    command = [sys.executable, "-m", "coevolve.launch", str(plan.run_file), *plan.overrides]
    command += [f"name={plan.name}", "--runs", str(runs)]
    command += ["--resume"] if (folder / "run.json").exists() else []
    with Path(f"{folder}.log").open("ab") as log:
        ended = subprocess.run(command, stdout=log, stderr=log, check=False)  # noqa: S603, our own
    made = outcome_of(folder, plan.config)
    if ended.returncode or made is None:
        raise RunError(
            f"{plan.name}: needs to end by itself, ended with status {ended.returncode}; read "
            f"{folder}.log, and give the same command again: it goes on from there"
        )
    sys.stderr.write(f"{plan.name}: took {time.monotonic() - started:.0f} s\n")
    return made

"""Ablates the policy gradient: each arm changes one choice, at equal numbers of rollouts.

Each training uses only the quickstart's policy gradient, on the arm ``uniform``, in one process
(`tests.bench.synchronous`). All arms have the same tasks in the same order for a seed. Training
ends when the rollouts are used up, including those of replaced groups, so an arm that replaces more
groups takes fewer steps.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table

from coevolve.commands.intervals import interval, told
from coevolve.config.load import load_config
from protocols.errors import CoevolveError, RunError
from tests.bench.seeds import seeds_of
from tests.bench.synchronous import GRADIENT_ALONE, Point, in_folder, learn, schedule

RUN_FILE = Path("configs/quickstart.yaml")
SHIPPED = "as shipped"

ARMS: Mapping[str, tuple[str, ...]] = {
    SHIPPED: (),
    "whole-rollout credit": ("learner.credit=rollout",),
    "no refill": ("learner.refill_batches=0",),
    "failures in full": ("learner.negative_weight=1",),
    "no divergence term": ("learner.kl_coefficient=0",),
    "constant 2e-3": (
        "learner.learning_rate=2e-3",
        "learner.schedule=constant",
        "learner.warmup_steps=0",
    ),
    "none of these": (
        "learner.credit=rollout",
        "learner.refill_batches=0",
        "learner.negative_weight=1",
        "learner.kl_coefficient=0",
        "learner.learning_rate=2e-3",
        "learner.schedule=constant",
        "learner.warmup_steps=0",
    ),
    "groups of 16": (
        "rollout.group_size=16",
        "learner.groups_per_step=4",
        "rollout.in_flight_groups=8",
    ),
    "Dr. GRPO": ("learner.objective.kind=dr_grpo",),
}


def main(arguments: list[str]) -> None:
    """Train every arm and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench gradient",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rollouts", type=int, default=10_240, help="of each training")
    parser.add_argument("--every", type=int, default=5_120, help="rollouts between two scores")
    parser.add_argument("--seeds", default="0-2", metavar="N,N or N-N")
    parser.add_argument("--arms", default=",".join(ARMS), metavar="NAME,NAME")
    parser.add_argument("--held-out", type=int, default=480, help="tasks that are scored")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at a time")
    parser.add_argument("--set", nargs="*", default=(), metavar="key=value", dest="overrides")
    options = parser.parse_args(arguments)
    try:
        seeds, arms = seeds_of(options.seeds), arms_of(options.arms)
    except CoevolveError as error:
        sys.stderr.write(f"bench: {error}\n")
        sys.exit(2)
    work = [(arm, seed) for seed in seeds for arm in arms]
    further = (f"environment.held_out={options.held_out}", *options.overrides)
    train = partial(_train, options.rollouts, options.every, further)
    with ProcessPoolExecutor(max_workers=options.jobs) as pool:
        found = dict(zip(work, pool.map(train, work), strict=True))
    Console(width=max(150, Console().width)).print(_table(found, arms, seeds))


def arms_of(text: str) -> list[str]:
    """Return the arms named by ``text``, which must include the shipped one. Raises RunError."""
    arms = list(dict.fromkeys(text.split(",")))
    unknown = [arm for arm in arms if arm not in ARMS]
    if unknown or SHIPPED not in arms:
        raise RunError(
            f"--arms needs {SHIPPED!r}, which the others are compared with, and any of "
            f"{', '.join(list(ARMS)[1:])}; found {text!r}"
        )
    return arms


def _train(rollouts: int, every: int, further: Sequence[str], what: tuple[str, int]) -> list[Point]:
    """Train one arm with one seed, in a separate process."""
    arm, seed = what
    settings = (*GRADIENT_ALONE, *schedule(rollouts), *ARMS[arm], *further, f"seed={seed}")
    config = load_config(RUN_FILE, settings)
    return in_folder(
        lambda folder: asyncio.run(learn(config, folder, rollouts=rollouts, every=every))
    )


def _table(
    found: Mapping[tuple[str, int], Sequence[Point]], arms: Sequence[str], seeds: Sequence[int]
) -> Table:
    shown = Table(title="The policy gradient alone: held-out success, %")
    shown.add_column("arm", no_wrap=True)
    for heading in (
        "start",
        "final",
        "gain (95 %)",
        f"minus {SHIPPED}\n(95 %, paired)",
        "lowest score\nminus start",
        "rollouts",
        "steps",
        "CPU s",
    ):
        shown.add_column(heading, justify="right", no_wrap=True)
    for arm in arms:
        runs = [found[arm, seed] for seed in seeds]
        others = [found[SHIPPED, seed] for seed in seeds]
        gains = [run[-1].success - run[0].success for run in runs]
        beside = [a[-1].success - b[-1].success for a, b in zip(runs, others, strict=True)]
        shown.add_row(
            arm,
            f"{fmean(run[0].success for run in runs):.1f}",
            f"{fmean(run[-1].success for run in runs):.1f}",
            told(interval(gains)),
            "" if arm == SHIPPED else told(interval(beside)),
            f"{min(p.success - run[0].success for run in runs for p in run[1:]):+.1f}",
            f"{fmean(run[-1].rollouts for run in runs):,.0f}",
            f"{fmean(run[-1].step for run in runs):.0f}",
            f"{fmean(run[-1].cpu_s for run in runs):.0f}",
        )
    return shown

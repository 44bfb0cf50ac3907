"""Compares the policy gradient with TRL's: held-out success by rollouts and by CPU seconds.

Both train the quickstart's policy on the same tasks in the same order, on one thread, in groups of
the same size, with the policy gradient only. The same engine scores both on the same held-out
tasks. Each side has three learning rates and is compared at its best one. The sides differ in
generation, loss, choice of groups and optimizer. TRL takes a step on every batch of groups; this
project replaces groups that give no gradient, and the count of its rollouts includes those of
replaced groups. Scoring counts for neither side.
"""

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from coevolve.config.load import load_config
from coevolve.environments.settings import settings_of
from coevolve.environments.tools.filesystem.grammar import held_out_tasks, uniform_task
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.settings import FilesystemConfig
from coevolve.models.load import read_model
from coevolve.models.model_folder import model_folder
from protocols.config import RunConfig
from protocols.errors import CoevolveError
from protocols.tasks import Task
from tests.bench.seeds import seeds_of
from tests.bench.synchronous import GRADIENT_ALONE, Players, Point, in_folder, learn, schedule

RUN_FILE = Path("configs/quickstart.yaml")
OURS, TRL = "coevolve", "TRL"


def main(arguments: list[str]) -> None:
    """Train both and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench trl",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rollouts", type=int, default=10_240, help="of each training")
    parser.add_argument("--every", type=int, default=2_560, help="rollouts between two scores")
    parser.add_argument("--rates", default="3e-4,6e-4,1e-3", metavar="RATE,RATE,RATE")
    parser.add_argument("--seeds", default="0", metavar="N,N or N-N")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at a time")
    options = parser.parse_args(arguments)
    try:
        seeds = seeds_of(options.seeds)
    except CoevolveError as error:
        sys.stderr.write(f"bench: {error}\n")
        sys.exit(2)
    rates = [float(rate) for rate in options.rates.split(",")]
    work = [(side, rate, seed) for seed in seeds for rate in rates for side in (OURS, TRL)]
    train = partial(_train, options.rollouts, options.every)
    with ProcessPoolExecutor(max_workers=options.jobs) as pool:
        found = dict(zip(work, pool.map(train, work), strict=True))
    console = Console(width=max(140, Console().width))
    console.print(_table(found, rates, seeds))


def _train(rollouts: int, every: int, what: tuple[str, float, int]) -> list[Point]:
    """Train one side at one rate with one seed, in a separate process."""
    side, rate, seed = what
    settings = (*GRADIENT_ALONE, f"seed={seed}", f"learner.learning_rate={rate}")
    if side == OURS:
        config = load_config(RUN_FILE, (*settings, *schedule(rollouts)))
        return in_folder(
            lambda folder: asyncio.run(learn(config, folder, rollouts=rollouts, every=every))
        )
    config = load_config(RUN_FILE, settings)
    return in_folder(lambda folder: _train_trl(config, folder, rate, rollouts, every))


def _train_trl(
    config: RunConfig, folder: Path, rate: float, rollouts: int, every: int
) -> list[Point]:
    from transformers import TrainerCallback

    from tests.bench.trl_loop import TrlLoop

    groups, source = config.learner.groups_per_step, model_folder(config.policy.model)
    a_step = groups * config.rollout.group_size
    loop = TrlLoop(
        config,
        read_model(source),
        source,
        folder,
        renderer=TinyRenderer.load(source),
        tasks=[uniform_task(config.seed, number) for number in range(rollouts // a_step * groups)],
        rate=rate,
    )
    held_out = held_out_tasks(settings_of(config, FilesystemConfig).held_out)

    def scored(step: int, spent: float) -> Point:
        success = asyncio.run(_success(loop.model, config, folder, held_out))
        return Point(step=step, rollouts=step * a_step, cpu_s=spent, success=success)

    points = [scored(0, 0.0)]
    began = time.process_time()

    class Scoring(TrainerCallback):
        def on_step_end(self, args: object, state: Any, control: object, **_: object) -> None:
            nonlocal began
            step = int(state.global_step)
            if step * a_step % every < a_step:
                spent = time.process_time() - began
                points.append(scored(step, spent))
                began = time.process_time() - spent

    loop.train(Scoring())
    return points


async def _success(model: Any, config: RunConfig, folder: Path, held_out: Sequence[Task]) -> float:
    """Return the greedy success of TRL's model, served by the engine that scores both sides."""
    served = folder / "scored"
    shutil.copytree(model_folder(config.policy.model), served, dirs_exist_ok=True)
    model.save_pretrained(served)
    policy = msgspec.structs.replace(config.policy, model=str(served))
    players = Players(msgspec.structs.replace(config, policy=policy), folder)
    try:
        return await players.success(held_out)
    finally:
        await players.generator.close()


def _table(
    found: Mapping[tuple[str, float, int], list[Point]],
    rates: Sequence[float],
    seeds: Sequence[int],
) -> Table:
    """Return a row for each side and rate, the best rate of each side marked."""
    best = {
        side: max(rates, key=lambda rate: _final([found[side, rate, s] for s in seeds]))
        for side in (OURS, TRL)
    }
    marks = [point.rollouts for point in found[TRL, rates[0], seeds[0]]]
    shown = Table(title=f"Held-out success, %, by rollouts; means of {len(seeds)} seed(s)")
    for heading in ("side", "rate"):
        shown.add_column(heading, no_wrap=True)
    for heading in (*(f"{mark:,}" for mark in marks), "CPU s", "points gained\nper CPU minute"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for side in (OURS, TRL):
        for rate in rates:
            runs = [found[side, rate, seed] for seed in seeds]
            cpu_s = fmean(run[-1].cpu_s for run in runs)
            gain = _final(runs) - fmean(run[0].success for run in runs)
            shown.add_row(
                side,
                f"{rate:g}{' (best)' if rate == best[side] else ''}",
                *(f"{fmean(_at(run, mark) for run in runs):.1f}" for mark in marks),
                f"{cpu_s:.0f}",
                f"{60 * gain / cpu_s:.1f}",
                end_section=rate == rates[-1],
            )
    return shown


def _final(runs: Sequence[Sequence[Point]]) -> float:
    return fmean(run[-1].success for run in runs)


def _at(run: Sequence[Point], rollouts: int) -> float:
    """Return the success after at most so many rollouts, between two scores by a straight line."""
    xs, ys = [point.rollouts for point in run], [point.success for point in run]
    return float(np.interp(rollouts, xs, ys))

"""Ablates the quickstart's learning: which part of it gives the result.

The studies use equal numbers of groups and rollouts per step, with the seeds paired:

- *quickstart*: the quickstart as it is.
- *gradient*: the policy gradient only, without imitation and replay, on the arms ``uniform`` and,
  for more steps, ``full``. `tests.bench gradient` ablates its choices.
- *parts*: the quickstart as it is (``full``), and without one of its parts: imitation (and
  replay, which it needs), replay, the policy gradient, or the tasks that the loop makes.
- *sources*: the quickstart unchanged (``both``); only ``imitation`` and replay, where groups with
  different rewards fill the batch and give no gradient; only the policy ``gradient``.
- *arms*: the quickstart with each of its arms.
- *engine*: *sources* with vLLM as the rollout engine.
- *collapse*: twenty times the learning rates, with the guard and without.

`coevolve launch` makes the runs (`coevolve.commands.grid`); the printed figures are read from
their journals. Finished runs are not repeated.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from coevolve.commands.grid import Plan, run_grid
from coevolve.config.load import load_config
from protocols.config import RunConfig
from protocols.errors import CoevolveError, RunError
from tests.bench.learning_outcome import Outcome, arms_table, curves_table, outcome_of
from tests.bench.learning_shares import shares_table
from tests.bench.seeds import seeds_of

QUICKSTART = Path("configs/quickstart.yaml")
QUICKSTART_VLLM = Path("configs/quickstart_vllm.yaml")

NO_OBJECTIVE = (
    "learner.objective={kind: none}",
    "learner.credit=rollout",
    "learner.kl_coefficient=0",
)
"""Turns the policy gradient off. Groups whose rollouts differ still count towards a batch."""

NO_REPLAY = ("learner.imitation.replay_per_step=0",)
NO_IMITATION = ("learner.imitation.weight=0", *NO_REPLAY)
"""Without imitation there is also no replay."""

SOURCES: Mapping[str, tuple[str, ...]] = {
    "both": (),
    "imitation": NO_OBJECTIVE,
    "gradient": NO_IMITATION,
}


@dataclass(frozen=True, kw_only=True)
class Study:
    """Arms that are compared with one of them."""

    reference: str
    arms: Mapping[str, tuple[str, ...]]
    """Arm -> overrides of the run file."""

    common: tuple[str, ...] = ()
    run_file: Path = field(default=QUICKSTART)


STUDIES: Mapping[str, Study] = {
    "quickstart": Study(reference="full", arms={"full": ()}),
    "gradient": Study(
        reference="uniform",
        arms={
            "uniform": ("arm=uniform", "learner.steps=120"),
            "full": ("arm=full", "learner.steps=200"),
        },
        common=(*NO_IMITATION, "evaluator.every=20"),
    ),
    "parts": Study(
        reference="full",
        arms={
            "full": (),
            "no imitation": NO_IMITATION,
            "no replay": NO_REPLAY,
            "no policy gradient": NO_OBJECTIVE,
            "no made tasks": ("arm=static",),
        },
    ),
    "sources": Study(reference="imitation", arms=SOURCES),
    "engine": Study(reference="imitation", arms=SOURCES, run_file=QUICKSTART_VLLM),
    "arms": Study(
        reference="static",
        arms={
            "static": ("arm=static",),
            "random": ("arm=random",),
            "placebo": ("arm=placebo",),
            "full": (),
            "uniform": ("arm=uniform",),
        },
    ),
    "collapse": Study(
        reference="without guard",
        arms={
            "with guard": (),
            "without guard": ("learner.guard.action=none",),
        },
        common=("arm=uniform",),
    ),
}


def main(arguments: list[str]) -> None:
    """Make the missing runs, and print the study's tables."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench learning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--runs", type=Path, default=Path("runs/learning"), help="folder of runs")
    parser.add_argument("--seeds", default="0-2", metavar="N,N or N-N")
    parser.add_argument("--arms", default="", metavar="NAME,NAME", help="default: all")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--set", nargs="*", default=(), metavar="key=value", dest="overrides")
    options = parser.parse_args(arguments)
    try:
        study = STUDIES[options.study]
        plans = plans_of(options)
        found = run_grid(plans, options.runs, _outcome, jobs=options.jobs)
    except CoevolveError as error:
        sys.stderr.write(f"bench: {error}\n")
        sys.exit(2)
    console = Console(width=max(190, Console().width))
    console.print(curves_table(found))
    console.print(shares_table({run: outcome.shares for run, outcome in found.items()}))
    console.print(arms_table(found, reference=study.reference, title=options.study))


def plans_of(options: argparse.Namespace) -> list[Plan]:
    """Return every run, seed by seed. Raises RunError and ConfigError."""
    study = STUDIES[options.study]
    arms = options.arms.split(",") if options.arms else list(study.arms)
    unknown = [arm for arm in arms if arm not in study.arms]
    if unknown:
        raise RunError(
            f"--arms of the study {options.study!r} needs names among {', '.join(study.arms)}; "
            f"found {unknown[0]!r}"
        )
    return [
        _plan(study, arm, seed, tuple(options.overrides))
        for seed in seeds_of(options.seeds)
        for arm in dict.fromkeys(arms)
    ]


def _plan(study: Study, arm: str, seed: int, further: tuple[str, ...]) -> Plan:
    overrides = (*study.common, *study.arms[arm], *further, f"seed={seed}")
    config = load_config(study.run_file, overrides)
    if study is STUDIES["collapse"]:
        learner = config.learner
        rates = (
            f"learner.learning_rate={20 * learner.learning_rate:g}",
            f"learner.imitation.learning_rate={20 * learner.imitation.learning_rate:g}",
        )
        overrides = (*overrides, *rates)
        config = load_config(study.run_file, overrides)
    return Plan(arm=arm, seed=seed, run_file=study.run_file, config=config, overrides=overrides)


def _outcome(folder: Path, config: RunConfig) -> Outcome | None:
    return asyncio.run(outcome_of(folder, config))

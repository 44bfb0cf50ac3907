"""Ablates the training of the tiny hardware policy, at equal numbers of simulator calls.

Every arm is `configs/hdl_tiny.yaml` with the same numbers of steps, groups and rollouts, and one
change:

- *full*: no change. Each step on a design continues from the best testbench of the one before. A
  first stage imitates the grammar's edits that gained coverage; then GRPO trains on the policy's
  own.
- *worst*, *uniform*: each step continues from the group's worst testbench (LLM4Cov's rule in
  training), or from a random one.
- *rejection*: rejection-sampled fine-tuning in both stages.
- *one kept*: as *rejection*, but of each group only the step with the largest gain is trained on
  (LLM4Cov's rule).
- *unfiltered*: as *rejection*, but of each group the same number of steps is trained on, those with
  the largest gains, whatever the gains are: execution-validated, not coverage-guided.
- *grammar only*: the grammar's edits in all steps; the difference to *full* shows the effect of the
  policy's own edits.
- *policy only*: no stage on the grammar's edits.
- *policy first*: the same two stages in the other order.

`coevolve launch` makes the runs one after the other; the printed figures are read from
their journals. A finished run with the same settings is used as it is, an unfinished one is
resumed. Scores are overall averages of coverage after the run file's steps on each design, before
and after training. Differences are to the arm named by ``--reference``, for the last versions, with
seeds paired, and have an interval by Student's t over seeds: with two seeds it is very wide.
"""

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec
from msgspec.structs import replace
from rich.console import Console

from coevolve.commands.grid import Plan, run_grid
from coevolve.config.load import load_config
from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.config import RejectionConfig, StageConfig
from coevolve.environments.hdl.settings import hdl_settings
from protocols.config import RunConfig
from protocols.errors import CoevolveError, RunError
from tests.bench.ablation_outcome import Outcome, alike, outcome_of, table
from tests.bench.seeds import seeds_of

RUN_FILE = Path("configs/hdl_tiny.yaml")
WARM_UP_SHARE = 3
"""One step in this number uses the grammar's edits, in the arms that have such a stage."""

FULL = "full"
ARMS = (
    FULL,
    "worst",
    "uniform",
    "rejection",
    "one kept",
    "unfiltered",
    "grammar only",
    "policy only",
    "policy first",
)
FINE_TUNED = ("rejection", "one kept", "unfiltered")
"""Arms without a policy gradient."""


def main(arguments: list[str]) -> None:
    """Make the missing runs and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench hdl-ablation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--run-file", type=Path, default=RUN_FILE)
    parser.add_argument("--runs", type=Path, default=Path("runs/ablation"), help="folder of runs")
    parser.add_argument("--steps", type=int, default=60, help="of the learner, each run")
    parser.add_argument("--seeds", default="0,1", metavar="N,N")
    parser.add_argument("--arms", default=",".join(ARMS), metavar="NAME,NAME")
    parser.add_argument("--reference", default=FULL, metavar="NAME", help="one of the arms")
    parser.add_argument("--set", nargs="*", default=(), metavar="key=value", dest="overrides")
    options = parser.parse_args(arguments)
    try:
        plans = plans_of(options)
        found = run_grid(plans, options.runs, _outcome)
        alike(found)
        designs = hardware.designs(plans[0].config)
    except CoevolveError as error:
        sys.stderr.write(f"bench: {error}\n")
        sys.exit(2)
    console = Console(width=max(140, Console().width))
    console.print(table(found, designs, reference=options.reference))


def plans_of(options: argparse.Namespace) -> list[Plan]:
    """Return every run, seed by seed. Raises RunError and ConfigError."""
    arms, seeds = options.arms.split(","), seeds_of(options.seeds)
    unknown = [arm for arm in arms if arm not in ARMS]
    if unknown or options.reference not in arms:
        raise RunError(
            f"--arms needs {options.reference!r}, which the others are compared with "
            f"(--reference), and any of {', '.join(ARMS)}; found {options.arms!r}"
        )
    return [_plan(arm, seed, options) for seed in seeds for arm in dict.fromkeys(arms)]


def _plan(arm: str, seed: int, options: argparse.Namespace) -> Plan:
    steps = options.steps
    equal = (
        *options.overrides,
        f"seed={seed}",
        f"learner.steps={steps}",
        f"evaluator.every={steps}",
    )
    base = load_config(options.run_file, equal)
    changes = changes_of(arm, base)
    overrides = (*equal, *(f"{setting}={value}" for setting, value in changes.items()))
    config = load_config(options.run_file, overrides)
    return Plan(arm=arm, seed=seed, run_file=options.run_file, config=config, overrides=overrides)


def changes_of(arm: str, base: RunConfig) -> dict[str, str]:
    """Return the settings of an arm; all arms share ``base``."""
    changes = {"environment.stages": msgspec.json.encode(_stages(arm, base)).decode()}
    if arm in ("worst", "uniform"):
        changes["environment.next_state"] = arm
    if arm in FINE_TUNED:
        changes |= {
            "learner.objective": "{kind: sft}",
            "learner.learning_rate": str(base.learner.imitation.learning_rate),
        }
    return changes


def _stages(arm: str, base: RunConfig) -> tuple[StageConfig, ...]:
    groups = base.learner.groups_per_step * base.learner.steps
    warm_up = groups // WARM_UP_SHARE
    rejection = _rejection(arm, hdl_settings(base).stages[-1].rejection)
    grammar = StageConfig(writers=("grammar",), rejection=rejection)
    policy = StageConfig(writers=("policy",), rejection=rejection)
    match arm:
        case "policy only":
            return (policy,)
        case "grammar only":
            return (grammar,)
        case "policy first":
            return (replace(policy, groups=groups - warm_up), grammar)
        case _:
            return (replace(grammar, groups=warm_up), policy)


def _rejection(arm: str, usual: RejectionConfig) -> RejectionConfig:
    match arm:
        case "one kept":
            return replace(usual, keep=1)
        case "unfiltered":
            return replace(usual, least_gain=-1.0, no_kind_falls=False)
        case _:
            return usual


def _outcome(folder: Path, config: RunConfig) -> Outcome | None:
    return asyncio.run(outcome_of(folder, config))

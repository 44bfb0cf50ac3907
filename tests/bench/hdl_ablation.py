"""Takes the tiny hardware policy's training apart, at equal numbers of simulator calls.

Every arm is `configs/hdl_tiny.yaml` with as many steps, groups and rollouts, and one thing changed:

- *full*: nothing. Each step on a design goes on from the best testbench of the one before; a stage
  that imitates the grammar's edits which gained coverage, then GRPO on the policy's own.
- *worst*, *uniform*: each step goes on from the group's worst testbench (LLM4Cov's rule in
  training), or from any.
- *rejection*: rejection-sampled fine-tuning in both stages.
- *one kept*: the same, but of each group only the step that gained the most is trained on, which is
  LLM4Cov's rule.
- *unfiltered*: the same, but of each group as many steps, those that gained the most, whatever they
  gained: execution-validated, not coverage-guided.
- *grammar only*: the grammar's edits all along; what *full* has over it, the policy's own brought.
- *policy only*: no stage on the grammar's edits.
- *policy first*: the same two stages, the policy's own edits first.

Runs follow one another, each by `python -m coevolve.launch`; what is printed is read from their
journals. A run that is there with the same settings is taken as it is, or goes on where it was
left. Scores are overall averages of coverage after the run file's steps on each design, before and
after training. Differences are to the arm that ``--reference`` names, of the last versions, with
designs and seeds paired; their bootstrap interval over designs
(`hdl.evaluation.measures`) says nothing of further seeds.
"""

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec
from msgspec.structs import replace
from rich.console import Console

from coevolve.config import load_config
from coevolve.environments.hdl import parts as hardware
from coevolve.environments.hdl.config import RejectionConfig, StageConfig
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.runs.grid import Plan, run_grid, seeds_of
from protocols.config import RunConfig
from protocols.errors import CoevolveError, RunError
from tests.bench.ablation_outcome import Outcome, alike, outcome_of, table

RUN_FILE = Path("configs/hdl_tiny.yaml")
WARM_UP_SHARE = 3
"""One in so many steps is on the grammar's edits, in the arms that have such a stage."""

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
    """Run what has not been run, and print a table."""
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
    """Return the settings of an arm, ``base`` being what all of them share."""
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

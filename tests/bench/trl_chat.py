"""Compares a run of a chat model with TRL's SFTTrainer and GRPOTrainer, on the run file's tasks.

    coevolve start shopdb:Shop tasks.jsonl --dry-run
    python -m tests.bench trl-chat shop.yaml

Both sides start from one folder: SFTTrainer imitates the references of the training tasks for
``--imitate`` steps, in batches of the rows that a step of the run imitates, and its adapter is
merged. From there each side takes ``--steps`` steps on groups of the same tasks at each of
``--rates``: TRL with GRPO, in the conversations of `tests.bench.trl_loop`; this project by
`coevolve launch` with ``arm: static``, which imitates references besides. Both train an adapter of
the same rank, in the precision of the run file, with all threads of the machine. The same engine
scores both greedily on the same held-out tasks. Scoring counts for neither side.
"""

import argparse
import asyncio
import copy
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, cast

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer, TrainerCallback
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from coevolve.config.load import load_config
from coevolve.engine.generator import TransformersGenerator
from coevolve.environments.registry import environment_of
from coevolve.environments.tools.agent import ToolAgent
from coevolve.environments.tools.environment import ANSWERED_ERRORS, ToolEnvironment
from coevolve.models.load import read_model
from coevolve.models.model_folder import model_folder
from protocols.config import RunConfig
from protocols.tasks import Task
from tests.bench.trl_loop import TrlLoop
from tests.bench.trl_peer import ON_CPU
from tests.simulated import InProcessSimulator

START = "imitated"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One training after the common start."""

    side: str
    rate: float
    success: float
    """Greedy, per cent of the held-out tasks."""

    step_s: float
    """Median."""

    tokens_s: float
    """Tokens of trained conversations by second of the training."""

    learner_tokens_s: float
    """The same by second of the learner."""

    rollout_share: float
    """Share of the time in which the learner waits for rollouts."""


def main(arguments: list[str]) -> None:
    """Train all and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench trl-chat",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_file", type=Path)
    parser.add_argument("--imitate", type=int, default=4, help="steps of SFTTrainer")
    parser.add_argument("--steps", type=int, default=8, help="of each training after that")
    parser.add_argument("--rates", default="3e-5,1e-4,3e-4", metavar="RATE,...")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(Path.cwd()))
    config = load_config(options.run_file)
    environment = cast("ToolEnvironment", environment_of(config))
    folder = _imitated(config, environment, options.imitate)
    held_out = environment.scored_tasks()
    before = [
        (name, asyncio.run(_success(config, environment, each, held_out)))
        for name, each in (("the model", model_folder(config.policy.model)), ("SFTTrainer", folder))
    ]
    found: list[Outcome] = []
    for rate in map(float, options.rates.split(",")):
        found.append(_ours(config, environment, options.run_file, folder, rate, options.steps))
        found.append(_trl(config, environment, folder, rate, options.steps))
    console = Console(width=max(120, Console().width))
    for name, success in before:
        console.print(f"{name}: {success:.1f} % of {len(held_out)} held-out tasks")
    console.print(_table(found))


def _adapted(config: RunConfig, folder: Path) -> Any:
    """Return the model with a new adapter as the run's learner adds it."""
    dtype = torch.bfloat16 if config.policy.precision == "bf16" else torch.float32
    lora = LoraConfig(
        r=config.policy.lora_rank,
        lora_alpha=config.policy.lora_alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(read_model(folder, dtype), lora)


def _imitated(config: RunConfig, environment: ToolEnvironment, steps: int) -> Path:
    """Return the folder of the model after SFTTrainer's imitation of references."""
    source, target = model_folder(config.policy.model), Path(START)
    shutil.rmtree(target, ignore_errors=True)
    learner, renderer = config.learner, environment.renderer()
    rows = learner.groups_per_step + learner.imitation.replay_per_step
    shown = [renderer.demonstration(task) for task in environment.source().pool()]
    trainer: Any = SFTTrainer(
        model=_adapted(config, source),
        args=SFTConfig(
            **ON_CPU,
            output_dir=str(target / "trainer"),
            bf16=config.policy.precision == "bf16",
            logging_strategy="no",
            completion_only_loss=True,
            per_device_train_batch_size=rows,
            max_steps=steps,
            learning_rate=learner.imitation.learning_rate or learner.learning_rate,
            lr_scheduler_type="constant",
            max_length=config.rollout.max_tokens,
            seed=config.seed,
        ),
        train_dataset=Dataset.from_dict(
            {
                "input_ids": [list(ids) for ids, _ in shown],
                "completion_mask": [list(mask) for _, mask in shown],
            }
        ),
        processing_class=cast("Any", AutoTokenizer).from_pretrained(source),
    )
    trainer.train()
    return _merged(trainer.model, source, target)


def _merged(model: Any, source: Path, target: Path) -> Path:
    """Write the model with its adapter merged, and everything else of ``source``."""
    skipped = shutil.ignore_patterns("*.safetensors", "*.json.index")
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=skipped)
    copy.deepcopy(model).merge_and_unload().float().save_pretrained(target)
    return target


async def _success(
    config: RunConfig, environment: ToolEnvironment, folder: Path, tasks: Sequence[Task]
) -> float:
    """Return the greedy success of the model in ``folder``, %."""
    generator = TransformersGenerator(
        folder,
        folder,
        max_concurrent=config.evaluator.concurrent,
        max_length=config.rollout.max_tokens,
        dtype="bfloat16" if config.policy.precision == "bf16" else "float32",
    )
    agent = ToolAgent(
        generator=generator,
        simulator=InProcessSimulator(),
        renderer=environment.renderer(),
        limits=config.rollout,
        temperature=0.0,
        answered_errors=ANSWERED_ERRORS,
    )
    try:
        played = await asyncio.gather(
            *(agent.attempt(each, each.task_id, seed=0) for each in tasks)
        )
    finally:
        await generator.close()
    return 100 * fmean(each.succeeded for each in played)


def _trl(
    config: RunConfig, environment: ToolEnvironment, folder: Path, rate: float, steps: int
) -> Outcome:
    """Train with GRPOTrainer."""
    output = Path(f"trl-{rate:g}")
    shutil.rmtree(output, ignore_errors=True)
    pool = list(environment.source().pool())
    drawn = random.Random(config.seed)
    count = steps * config.learner.groups_per_step
    loop = TrlLoop(
        config,
        _adapted(config, folder),
        folder,
        output / "trainer",
        renderer=environment.renderer(),
        tasks=[drawn.choice(pool) for _ in range(count)],
        rate=rate,
        answered_errors=ANSWERED_ERRORS,
    )
    ends: list[float] = [time.monotonic()]

    class Watch(TrainerCallback):
        def on_step_end(self, args: object, state: Any, control: object, **_: object) -> None:
            ends.append(time.monotonic())

    loop.train(Watch())
    learned_s = ends[-1] - ends[0] - loop.generated_s
    merged = _merged(loop.model, folder, output)
    return Outcome(
        side="TRL",
        rate=rate,
        success=asyncio.run(_success(config, environment, merged, environment.scored_tasks())),
        step_s=median(after - before for before, after in pairwise(ends)),
        tokens_s=loop.tokens / (ends[-1] - ends[0]),
        learner_tokens_s=loop.tokens / learned_s,
        rollout_share=loop.generated_s / (ends[-1] - ends[0]),
    )


def _ours(
    config: RunConfig,
    environment: ToolEnvironment,
    run_file: Path,
    folder: Path,
    rate: float,
    steps: int,
) -> Outcome:
    """Train with a run of its own."""
    name = f"static-{rate:g}"
    shutil.rmtree(Path("runs") / name, ignore_errors=True)
    settings = (
        f"name={name}",
        "arm=static",
        f"policy.model={folder}",
        f"learner.steps={steps}",
        "learner.warm_start.steps=0",
        f"learner.learning_rate={rate}",
        "learner.schedule=constant",
        f"evaluator.every={steps}",
    )
    subprocess.run(["coevolve", "launch", str(run_file), *settings], check=True)
    rows = list(map(json.loads, (Path("runs") / name / "metrics.jsonl").read_text().splitlines()))
    taken = [row for row in rows if "timing_s/step" in row]
    tokens = sum(row["perf/trained_tokens"] for row in taken)
    step_s, waited_s, learned_s = (
        sum(row[f"timing_s/{part}"] for row in taken) for part in ("step", "wait", "update_actor")
    )
    scores = [row["val/success/all"] for row in rows if "val/success/all" in row]
    return Outcome(
        side="coevolve",
        rate=rate,
        success=100 * scores[-1],
        step_s=median(row["timing_s/step"] for row in taken),
        tokens_s=tokens / step_s,
        learner_tokens_s=tokens / learned_s,
        rollout_share=waited_s / step_s,
    )


def _table(found: Sequence[Outcome]) -> Table:
    shown = Table(title="After the common start")
    heads = ("side", "rate", "held-out, %", "s a step", "tokens/s", "learner tokens/s")
    for heading in (*heads, "waits for rollouts, %"):
        shown.add_column(heading, justify="right")
    for each in sorted(found, key=lambda each: each.side):
        shown.add_row(
            each.side,
            f"{each.rate:g}",
            f"{each.success:.1f}",
            f"{each.step_s:.1f}",
            f"{each.tokens_s:.0f}",
            f"{each.learner_tokens_s:.0f}",
            f"{100 * each.rollout_share:.0f}",
        )
    return shown

"""Measures a training step beside TRL's `GRPOTrainer`, on the same batch.

Both take GRPO optimizer steps on the same rollouts of several turns, from the same weights, at the
same precision, on one thread, and alternate step by step. The learner sorts rows by length before
it pads them; TRL pads a whole batch to its longest prompt and its longest rest and then splits it.
TRL's time does not include its work between generation and training (tokenizing, rewards,
log-probabilities of the old policy). Its gradient checkpointing, which is on by default and would
cost another forward pass, is off. Its micro-batches have ``--rows`` rows. The learner's algorithms
are deterministic, as in a run; TRL's need not be, which is faster.

Tokens are those of the rollouts, without padding. *Ratio* is the median, over pairs of steps, of
TRL's time divided by the learner's. *Peak memory* is the memory that loading the model and three
steps add to a process that has imported everything, in a separate process for each (Linux only).
TRL comes with the dependency group `dev`.
"""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import msgspec
import psutil
import torch
import transformers
from rich.table import Table
from transformers import Qwen3Config, Qwen3ForCausalLM

from coevolve.learning.batch import Batch
from coevolve.learning.group import BatchGroup
from coevolve.learning.objectives.grpo import Grpo
from coevolve.learning.rows import Row
from coevolve.learning.trainer import Trainer
from coevolve.models.load import read_model
from coevolve.models.model_folder import TINY_FOLDER
from protocols.config import LearnerConfig, PolicyConfig, RolloutConfig, RunConfig
from tests.bench import output
from tests.bench.batches import GROUP_SIZE, GROUPS, batch_groups

MODELS = ("tiny", "small")
MEMORY_STEPS = 3


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table: a model, the learner and TRL."""

    model: str
    parameters: int
    tokens: int
    tokens_per_s: float
    trl_tokens_per_s: float
    ratio: float
    cpu_ratio: float
    padding_share: float
    trl_padding_share: float
    peak_mb: float
    trl_peak_mb: float


def main(arguments: list[str]) -> None:
    """Measure, and print a table or JSON."""
    parser = output.parser_of("learner", __doc__)
    parser.add_argument("--pairs", type=int, default=15, help="steps of each")
    parser.add_argument("--rows", type=int, default=8, help="rows of TRL's micro-batches")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    if options.peak_of:
        sys.stdout.write(json.dumps(peak_mb(options.folder, options)) + "\n")
        return
    with tempfile.TemporaryDirectory() as place:
        rows = [measured(name, Path(place), options) for name in MODELS]
    output.show(rows, _table, as_json=options.json, width=140)


def measured(name: str, place: Path, options: argparse.Namespace) -> Figures:
    """Take steps alternately and return their costs."""
    folder = TINY_FOLDER if name == "tiny" else small_model(place / name)
    groups = batch_groups()
    steps = {
        "learner": learner_step(folder, groups, options),
        "trl": trl_step(folder, groups, options),
    }
    wall: dict[str, list[float]] = {each: [] for each in steps}
    cpu: dict[str, list[float]] = {each: [] for each in steps}
    padding: dict[str, float] = {}
    for number in range(options.pairs + 1):
        for each, step in steps.items():
            started_s, started_cpu_s = time.perf_counter(), time.process_time()
            padding[each] = step(number + 1)
            if number:
                wall[each].append(time.perf_counter() - started_s)
                cpu[each].append(time.process_time() - started_cpu_s)
    tokens = sum(rollout.tokens.count for group in groups for rollout in group.rollouts)
    return Figures(
        model=name,
        parameters=sum(each.numel() for each in _parameters(folder)),
        tokens=tokens,
        tokens_per_s=tokens / median(wall["learner"]),
        trl_tokens_per_s=tokens / median(wall["trl"]),
        ratio=_median_ratio(wall["trl"], wall["learner"]),
        cpu_ratio=_median_ratio(cpu["trl"], cpu["learner"]),
        padding_share=padding["learner"],
        trl_padding_share=padding["trl"],
        peak_mb=_peak_in_a_process("learner", folder, options),
        trl_peak_mb=_peak_in_a_process("trl", folder, options),
    )


Step = Callable[[int], float]
"""Takes the step with the given number, from 1, and returns the share of padding."""


def learner_step(folder: Path, groups: Sequence[BatchGroup], options: argparse.Namespace) -> Step:
    """Return the learner's step on ``groups``."""
    config = RunConfig(
        name="bench",
        policy=PolicyConfig(precision=options.precision),
        rollout=RolloutConfig(group_size=GROUP_SIZE),
        learner=LearnerConfig(groups_per_step=GROUPS, learning_rate=1e-6, divergence_every=0),
    )
    trainer = Trainer(config, folder)

    def step(number: int) -> float:
        torch.use_deterministic_algorithms(mode=True)
        metrics = trainer.take_step(Batch(step=number, groups=tuple(groups)))
        return metrics["perf/padding_share"]

    return step


def trl_step(folder: Path, groups: Sequence[BatchGroup], options: argparse.Namespace) -> Step:
    """Return TRL's step on ``groups``."""
    settings = LearnerConfig()
    rows: list[Row] = [row for group in groups for row in Grpo().rows(group, settings)]
    from tests.bench.trl_peer import TrlPeer, trl_inputs  # loads vLLM, if it is installed

    peer = TrlPeer(
        folder,
        Path(tempfile.gettempdir()),
        rows=options.rows,
        gradient_accumulation_steps=len(rows) // options.rows,
        loss_type="dr_grpo",
        learning_rate=1e-6,
        bf16=options.precision == "bf16",
        num_generations=GROUP_SIZE,
    )
    inputs = trl_inputs(rows)
    padded = inputs["prompt_ids"].numel() + inputs["completion_ids"].numel()
    tokens = sum(row.length for row in rows)

    def step(_: int) -> float:
        torch.use_deterministic_algorithms(mode=False)
        peer.step(inputs)
        return 1.0 - tokens / padded

    return step


def small_model(folder: Path) -> Path:
    """Write a random Qwen3 of 3.1 million parameters with the tiny policy's tokenizer."""
    config = Qwen3Config(
        vocab_size=4096,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=6,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=5,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY_FOLDER / name, folder)
    return folder


def peak_mb(folder: Path, options: argparse.Namespace) -> float:
    """Return the maximum that loading and some steps add to this process's resident memory."""
    before = psutil.Process().memory_info().rss
    # Linux: resets the high-water mark to the memory that is resident now.
    Path("/proc/self/clear_refs").write_text("5")
    make = learner_step if options.peak_of == "learner" else trl_step
    step = make(folder, batch_groups(), options)
    for number in range(MEMORY_STEPS):
        step(number + 1)
    status = Path("/proc/self/status").read_text()
    peak_kb = int(status.split("VmHWM:")[1].split()[0])
    return (peak_kb * 1024 - before) / 1e6


def _peak_in_a_process(name: str, folder: Path, options: argparse.Namespace) -> float:
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench", "learner"]
    command += ["--peak-of", name, "--folder", str(folder)]
    command += ["--rows", str(options.rows), "--precision", options.precision]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _parameters(folder: Path) -> list[torch.Tensor]:
    return list(read_model(folder).parameters())


def _median_ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    return median(a / b for a, b in zip(theirs, ours, strict=True))


def _table(rows: Sequence[Figures]) -> Table:
    headings = ("model", "parameters", "tokens/s", "ratio", "CPU ratio", "padding", "peak MB")
    cells = [
        (
            row.model,
            f"{row.parameters:,}",
            f"{row.tokens_per_s:,.0f} / {row.trl_tokens_per_s:,.0f}",
            f"{row.ratio:.2f}",
            f"{row.cpu_ratio:.2f}",
            f"{row.padding_share:.0%} / {row.trl_padding_share:.0%}",
            f"{row.peak_mb:,.0f} / {row.trl_peak_mb:,.0f}",
        )
        for row in rows
    ]
    title = f"training steps on {rows[0].tokens:,} tokens, learner / TRL"
    return output.table(title, headings, cells)

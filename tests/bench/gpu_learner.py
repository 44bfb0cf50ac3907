"""Parts of the benchmark on a GPU: the learner's speed and memory, TRL beside it, repetition."""

# torch is partly untyped.
# pyright: reportUnknownMemberType=false

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import torch

from coevolve.estimate.estimate import estimate
from coevolve.estimate.step_time import Throughput, active, learner_flops
from coevolve.learning.batch import Batch
from coevolve.learning.group import BatchGroup
from coevolve.learning.objectives.grpo import Grpo
from coevolve.learning.rows import Row
from coevolve.learning.trainer import Trainer
from coevolve.models.weight_files import version_digest
from protocols.config import RunConfig
from tests.allocated import Allocated
from tests.bench.batches import GROUP_SIZE
from tests.bench.gpu_models import Bench, assumed, batch, learner_config, throughput
from tests.bench.gpu_outcome import Outcome, proof

STEPS = 3


def learner(bench: Bench) -> Outcome:
    """Measure the learner's steps in bf16: tokens per second, use of the GPU, peak memory."""
    config = learner_config(bench)
    groups = batch(bench, config, seed=0)
    peak = _peak(bench, lambda: _step(Trainer(config, bench.model()), 1, groups))
    trainer = Trainer(config, bench.model())
    _step(trainer, 1, groups)
    seconds = median(_timed(bench, trainer, number, groups) for number in range(2, 2 + STEPS))
    foreseen = _foreseen(config)
    tokens = _tokens(groups)
    share, with_recomputation = _shares(bench, config, groups, seconds)
    figures = {
        "tokens_per_s": tokens / seconds,
        "mfu": share,
        "flops_share": with_recomputation,
        "peak_bytes": peak,
        "estimated_bytes": foreseen,
    }
    known = throughput(bench)
    return Outcome(
        part="learner",
        verdict="measured",
        said=f"learner {bench.size} in bf16: {tokens / seconds:,.0f} tokens/s, MFU {share:.1%}, "
        f"peak {peak / 1e9:.3g} GB, estimated {foreseen / 1e9:.3g} GB",
        figures=figures,
        throughput=known | ({"flops_share": with_recomputation} if "tflops" in known else {}),
    )


def trl(bench: Bench) -> Outcome:
    """Measure TRL's GRPO steps on the learner's batch."""
    if find_spec("trl") is None:
        said = "TRL: skipped, because the package trl is not installed"
        return Outcome(part="trl", verdict="skipped", said=said)
    from tests.bench.trl_peer import TrlPeer, trl_inputs

    config = learner_config(bench)
    groups = batch(bench, config, seed=0)
    rows: list[Row] = [row for group in groups for row in Grpo().rows(group, config.learner)]
    peer = TrlPeer(
        bench.model(),
        bench.place / "trl",
        rows=GROUP_SIZE,
        gradient_accumulation_steps=len(rows) // GROUP_SIZE,
        loss_type="dr_grpo",
        learning_rate=config.learner.learning_rate,
        bf16=True,
        use_cpu=not bench.on_gpu,
        gradient_checkpointing=True,
    )
    inputs = {name: each.to(bench.device) for name, each in trl_inputs(rows).items()}
    peer.step(inputs)
    seconds = median(_seconds(bench, lambda: peer.step(inputs)) for _ in range(STEPS))
    tokens = _tokens(groups)
    peak = float(torch.cuda.max_memory_allocated()) if bench.on_gpu else 0.0
    return Outcome(
        part="trl",
        verdict="measured",
        said=f"TRL {bench.size} in bf16, the same batch: {tokens / seconds:,.0f} tokens/s, "
        f"peak {peak / 1e9:.3g} GB",
        figures={"tokens_per_s": tokens / seconds, "peak_bytes": peak},
    )


def repeat(bench: Bench) -> Outcome:
    """Take the second step twice, again from the checkpoint of the first, and compare all bits."""
    config = learner_config(bench)
    first, second = (Batch(step=n, groups=batch(bench, config, seed=n)) for n in (1, 2))
    trainer = Trainer(config, bench.model())
    trainer.take_step(first)
    before = _digest(trainer, bench.place / "first")
    checkpoint = bench.place / "checkpoint"
    checkpoint.mkdir()
    trainer.save(checkpoint)
    trainer.take_step(second)
    once = _digest(trainer, bench.place / "once")
    del trainer
    again = Trainer(config, bench.model(), checkpoint=checkpoint)
    again.take_step(second)
    twice = _digest(again, bench.place / "twice")
    same, moved = once == twice, before != once
    words = "the same bits" if same else "other bits"
    if not moved:
        words += ", but the step did not change the weights"
    return proof(
        "repeat",
        same and moved,
        f"a step of {bench.size} in bf16, twice from one checkpoint: {words} "
        f"({once[:12]}, {twice[:12]})",
    )


def _step(trainer: Trainer, number: int, groups: tuple[BatchGroup, ...]) -> None:
    trainer.take_step(Batch(step=number, groups=groups))


def _timed(bench: Bench, trainer: Trainer, number: int, groups: tuple[BatchGroup, ...]) -> float:
    return _seconds(bench, lambda: _step(trainer, number, groups))


def _seconds(bench: Bench, work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    if bench.on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def _peak(bench: Bench, work: Callable[[], Any]) -> float:
    """Return the most bytes of tensors on the device during ``work``."""
    if bench.on_gpu:
        work()
        return float(torch.cuda.max_memory_allocated())
    with Allocated(()) as allocated:
        work()
    return float(allocated.peak)


def _foreseen(config: RunConfig) -> float:
    return float(sum(size or 0 for size in estimate(config).learner.values()))


def _tokens(groups: tuple[BatchGroup, ...]) -> int:
    return sum(rollout.tokens.count for group in groups for rollout in group.rollouts)


def _shares(
    bench: Bench, config: RunConfig, groups: tuple[BatchGroup, ...], seconds: float
) -> tuple[float, float]:
    """Return the shares of the GPU's peak, without and with recomputation."""
    rollouts = sum(len(group.rollouts) for group in groups)
    filled = _tokens(groups) / rollouts / config.rollout.max_tokens
    count = active(bench.sizes, bench.sizes.parameters)
    speed = Throughput(filled=filled)
    found = learner_flops(config, bench.sizes, count, speed)
    peak = assumed(bench).tflops * 1e12 * seconds
    return found * 3 / 4 / peak, found / peak


def _digest(trainer: Trainer, folder: Path) -> str:
    folder.mkdir()
    trainer.save_weights(folder)
    return version_digest(folder, "full")

"""Trains a run's recorded batches again without one source, and scores what comes of it.

The batches stay those that the recorded policy made. A policy that learns from less of them moves
away from it; then its rollouts are off-policy, and a policy gradient on them can do harm that it
would not do on its own rollouts. So how far they are apart is told beside the success. What a
source is worth in a run takes runs without it: `python -m coevolve.bench learning sources`.

`coevolve.replay` prints the result and keeps it in the run's folder, as `attribution.json`.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import msgspec

from coevolve import assembly
from coevolve.learning.batch import Batch, Source
from coevolve.learning.history import History
from coevolve.learning.opening import AnyTrainer, close_trainers
from coevolve.learning.recovery import trainer_at
from coevolve.learning.versions import write_version
from coevolve.run.attribution import Ablated, Attribution
from protocols.config import RunConfig
from protocols.errors import RunError

OFF_POLICY = "rollout_corr/k3_kl"

SOURCES: tuple[Source, ...] = ("objective", "imitation", "replay")


async def ablate(
    config: RunConfig, run_dir: Path, history: History, sources: Sequence[Source]
) -> Attribution:
    """Return the held-out success with everything and without each of ``sources``.

    Raises:
        RunError: The run is not one with tools, it went back to an earlier version, or it has taken
            no step.
        LearnerError: A step's rollouts are no longer in the journal.
    """
    if config.domain != "bfcl":
        raise RunError(f"--ablate needs a run on tasks with tools, found domain {config.domain}")
    steps = await history.steps(after=0)
    if not steps:
        raise RunError(f"{run_dir}: --ablate needs a run that took steps, found none")
    if any(step.returned for step in steps):
        raise RunError(
            f"{run_dir}: --ablate needs a run whose guard never went back to an earlier version: "
            "what the steps after it are worth cannot be told apart"
        )
    batches = [await history.batch(step) for step in steps]
    trainer = await trainer_at(None, config, run_dir, history)
    start = await _success(config, trainer)
    off_policy = await asyncio.to_thread(_train, trainer, batches)
    final = await _success(config, trainer)
    without: dict[str, Ablated] = {}
    for source in sources:
        settings = settings_without(config, source)
        trainer = await trainer_at(None, settings, run_dir, history)
        left = [batch_without(each, source) for each in batches]
        off = await asyncio.to_thread(_train, trainer, left)
        without[source] = Ablated(success=await _success(config, trainer), off_policy=off)
    close_trainers()
    return Attribution(
        steps=len(steps), start=start, final=final, off_policy=off_policy, without=without
    )


def settings_without(config: RunConfig, source: Source) -> RunConfig:
    """Return the settings of a run that does not learn from ``source``."""
    learner = config.learner
    imitation = learner.imitation
    if source in ("imitation", "replay"):
        imitation = msgspec.structs.replace(imitation, replay_per_step=0)
    return msgspec.structs.replace(
        config, learner=msgspec.structs.replace(learner, imitation=imitation)
    )


def batch_without(batch: Batch, source: Source) -> Batch:
    """Return the batch with the groups of ``source`` turned to nothing.

    Without imitation nothing is replayed, either.
    """
    use = {"objective": "policy_gradient", "imitation": "imitation"}.get(source)
    return replace(
        batch,
        groups=tuple(
            replace(
                group,
                record=msgspec.structs.replace(group.record, use="nothing"),
                reference=None,
            )
            if group.record.use == use
            else group
            for group in batch.groups
        ),
    )


def _train(trainer: AnyTrainer, batches: Sequence[Batch]) -> float:
    """Take every step; return how far rollouts and trainer were apart, nats per token."""
    metrics = [trainer.take_step(batch) for batch in batches]
    return fmean([each[OFF_POLICY] for each in metrics if OFF_POLICY in each] or [0.0])


async def _success(config: RunConfig, trainer: AnyTrainer) -> float:
    """Return the share of the held-out tasks that the trainer's weights solve, greedily."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "versions").mkdir()
        version = await asyncio.to_thread(write_version, folder, trainer, config)
        scores = await assembly.scores(config, folder, version)
    return fmean(scores.values())

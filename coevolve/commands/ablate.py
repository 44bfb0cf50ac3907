"""What a source of gradient is worth: a run with it beside one without it.

Two ways. `run_without` makes a run of its own, with the same settings and seed but for the source:
that is what the source is worth, up to the noise of one pair. `ablate` trains the run's recorded
batches again, which is quick. But they stay those that the recorded policy made: a policy that
learns from less of them moves away from it, its rollouts are then off-policy, and a policy gradient
on them can do harm that it would not do on its own rollouts. So how far they are apart is told
beside the success. What a claim should rest on is several pairs: `python -m tests.bench learning
sources`.

`coevolve replay` prints the result and keeps it in the run's folder, as `attribution.json`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import msgspec

from coevolve.build import parts as build
from coevolve.config import load_config
from coevolve.journal.fold import fold
from coevolve.journal.reader import run_reader
from coevolve.learning.batch import Batch, Source
from coevolve.learning.history import History
from coevolve.learning.opening import AnyTrainer, close_trainers
from coevolve.learning.recovery import trainer_at
from coevolve.learning.versions import write_version
from coevolve.parts.context import PartContext
from coevolve.runs.attribution import Ablated, Attribution
from coevolve.runs.directory import RunDirectory
from coevolve.runs.grid import Plan, run_grid
from coevolve.runs.progress import Progress
from protocols.config import RunConfig
from protocols.errors import RunError

OFF_POLICY = "rollout_corr/k3_kl"

WITHOUT: Mapping[Source, tuple[str, ...]] = {
    "objective": (
        "learner.objective={kind: none}",
        "learner.credit=rollout",
        "learner.kl_coefficient=0",
    ),
    "imitation": ("learner.imitation.weight=0", "learner.imitation.replay_per_step=0"),
    "replay": ("learner.imitation.replay_per_step=0",),
}
"""Source -> overrides of a run that does not learn from it. Without imitation there is nothing to
replay, either; without an objective the groups whose rollouts differ fill a batch all the same."""


async def run_without(run_dir: Path, sources: Sequence[Source]) -> Attribution:
    """Make a run without each of ``sources`` beside the run, and return what came of them.

    Those that are there are taken as they are, or resumed.

    Raises:
        RunError: The run is not finished, or one without a source did not end by itself.
    """
    config = RunDirectory(run_dir).written_config()
    own = await _held_out(run_dir, config)
    if own is None:
        raise RunError(
            f"{run_dir}: --anew needs a run that is finished and scored at its last step; --resume "
            "it first"
        )
    run_file = run_dir / "config.yaml"
    plans = [
        Plan(
            arm=f"{config.name}-without-{source}",
            seed=config.seed,
            run_file=run_file,
            config=load_config(run_file, WITHOUT[source]),
            overrides=WITHOUT[source],
        )
        for source in sources
    ]

    def found(folder: Path, settings: RunConfig) -> tuple[float, float] | None:
        return asyncio.run(_held_out(folder, settings))

    made = await asyncio.to_thread(run_grid, plans, run_dir.parent, found)
    return Attribution(
        steps=config.learner.steps,
        start=own[0],
        final=own[1],
        without=tuple(
            Ablated(source=source, method="paired runs", success=made[plan.arm, plan.seed][1])
            for source, plan in zip(sources, plans, strict=True)
        ),
    )


async def _held_out(folder: Path, config: RunConfig) -> tuple[float, float] | None:
    """Return the success of version 0 and of the last one, or None where the run is not over."""
    if not RunDirectory(folder).metrics.exists():
        return None
    progress = Progress(build.labels(config))
    await fold(run_reader(folder), ("evaluation",), progress.fold)
    scores = progress.held_out()
    last = config.learner.steps
    return (scores[0], scores[last]) if {0, last} <= scores.keys() else None


async def ablate(
    config: RunConfig, run_dir: Path, history: History, sources: Sequence[Source]
) -> Attribution:
    """Return the held-out success with everything and without each of ``sources``.

    Raises:
        RunError: The run went back to an earlier version, or it has taken no step.
        LearnerError: A step's rollouts are no longer in the journal.
    """
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
    start = await _success(config, run_dir, trainer)
    off_policy = await asyncio.to_thread(_train, trainer, batches)
    final = await _success(config, run_dir, trainer)
    without: list[Ablated] = []
    for source in sources:
        settings = settings_without(config, source)
        trainer = await trainer_at(None, settings, run_dir, history)
        left = [batch_without(each, source) for each in batches]
        off = await asyncio.to_thread(_train, trainer, left)
        success = await _success(config, run_dir, trainer)
        without.append(
            Ablated(source=source, method="recorded batches", success=success, off_policy=off)
        )
    close_trainers()
    return Attribution(
        steps=len(steps),
        start=start,
        final=final,
        off_policy=off_policy,
        without=tuple(without),
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


def _train(trainer: AnyTrainer, batches: Sequence[Batch]) -> float | None:
    """Take every step; return how far rollouts and trainer were apart, nats per token.

    None where no step had a policy gradient: only that looks at who wrote.
    """
    metrics = [trainer.take_step(batch) for batch in batches]
    measured = [each[OFF_POLICY] for each in metrics if OFF_POLICY in each]
    return fmean(measured) if measured else None


async def _success(config: RunConfig, run_dir: Path, trainer: AnyTrainer) -> float:
    """Return the trainer's mean score on the tasks that are scored: the share that it solves."""
    reader = run_reader(run_dir)
    with build.spare_store() as (folder, store):
        (folder / "versions").mkdir()
        version = await asyncio.to_thread(write_version, folder, trainer, config)
        context = PartContext(config=config, run_dir=folder, store=store, reader=reader)
        return fmean(each.score for each in await build.scores(context, version))

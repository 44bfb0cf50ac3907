"""Measures the effect of a source of gradient: compares a run with it to a run without it.

There are two methods. `run_without` starts a new run with the same settings and seed, but without
the source. The difference is the source's effect, up to the noise of one pair. `ablate` trains
again on the run's recorded batches, which is quick. But the recorded policy sampled these batches.
A policy that learns from fewer sources moves away from it. The rollouts are then off-policy, and a
policy gradient on them can do harm that it would not do on the policy's own rollouts. The result
therefore also gives the distance between the two policies. A claim needs several pairs of runs:
`python -m tests.bench learning sources`.

`coevolve replay` prints the result and stores it in the run's folder, as `attribution.json`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import msgspec

from coevolve.commands.scoring import open_scoring, spare_store
from coevolve.config import load_config
from coevolve.environments.registry import environment_of
from coevolve.history.attribution import Ablated, Attribution
from coevolve.history.directory import RunDirectory
from coevolve.history.progress import Progress
from coevolve.history.score import Score, score_of
from coevolve.journal.codec import topics_of
from coevolve.journal.fold import fold
from coevolve.journal.reader import run_reader
from coevolve.learning.batch import Batch
from coevolve.learning.history import History
from coevolve.learning.opening import AnyTrainer, close_trainers
from coevolve.learning.recovery import trainer_at
from coevolve.learning.rows import Source
from coevolve.learning.versions import write_version
from coevolve.parts.context import PartContext
from coevolve.parts.files import LocalFiles
from coevolve.runs.grid import Plan, run_grid
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.learning import Evaluation

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
"""Source -> overrides that turn it off. Without imitation there is also no replay. Without an
objective, groups whose rollouts differ still count towards a batch."""


async def run_without(run_dir: Path, sources: Sequence[Source]) -> Attribution:
    """Carry out a run without each of ``sources``, in a folder beside the run; return the results.

    A run that already exists is reused, or resumed if it is not finished.

    Raises:
        RunError: The run is not finished, or a run without a source did not reach its end.
    """
    config = RunDirectory(run_dir).written_config()
    own = await _held_out(run_dir, config)
    if own is None:
        raise RunError(
            f"{run_dir}: --anew needs a run that is finished and scored at its last step; continue "
            f"it with `coevolve resume {run_dir}`"
        )
    run_file = RunDirectory(run_dir).config_file()
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

    def found(folder: Path, settings: RunConfig) -> tuple[Score, Score] | None:
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


async def _held_out(folder: Path, config: RunConfig) -> tuple[Score, Score] | None:
    """Return the success of version 0 and the last version; None if the run is not finished."""
    if not RunDirectory(folder).metrics.exists():
        return None
    progress = Progress(environment_of(config).labels())
    await fold(run_reader(folder), topics_of(Evaluation), progress.fold)
    scores = progress.held_out()
    last = config.learner.steps
    return (scores[0], scores[last]) if {0, last} <= scores.keys() else None


async def ablate(
    config: RunConfig, run_dir: Path, history: History, sources: Sequence[Source]
) -> Attribution:
    """Return the held-out success with all sources and without each of ``sources``.

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
    trainer = await trainer_at(None, config, LocalFiles(run_dir), history)
    start = await _success(config, run_dir, trainer)
    off_policy = await asyncio.to_thread(_train, trainer, batches)
    final = await _success(config, run_dir, trainer)
    without: list[Ablated] = []
    for source in sources:
        settings = settings_without(config, source)
        trainer = await trainer_at(None, settings, LocalFiles(run_dir), history)
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
    """Return the batch, whose groups of ``source`` then contribute no gradient.

    Without imitation there is also no replay.
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
    """Take every step; return the distance of the trainer from the rollouts, in nats per token.

    None if no step had a policy gradient, because only a policy gradient measures the distance.
    """
    metrics = [trainer.take_step(batch) for batch in batches]
    measured = [each[OFF_POLICY] for each in metrics if OFF_POLICY in each]
    return fmean(measured) if measured else None


async def _success(config: RunConfig, run_dir: Path, trainer: AnyTrainer) -> Score:
    """Return the trainer's score on the scored tasks."""
    reader = run_reader(run_dir)
    with spare_store() as (folder, store):
        (folder / "versions").mkdir()
        version = await asyncio.to_thread(write_version, folder, trainer, config)
        context = PartContext(config=config, files=LocalFiles(folder), store=store, reader=reader)
        async with open_scoring(context, version) as scoring:
            scores = await scoring.of(scoring.environment.scored_tasks())
        return score_of((each.task_id, each.score) for each in scores)

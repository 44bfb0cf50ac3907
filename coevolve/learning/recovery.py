"""Restores a trainer to the learner's last recorded step, and proves the result.

It starts from the newest intact checkpoint, or else from version 0. From there it repeats the
recorded steps, on their recorded batches or back to the recorded version. Each step must reach the
recorded weights, bit by bit. `coevolve.learning.checkpoints` says how few steps these are.

Steps that another number of processes (`learner.devices`), another processor or another version of
torch took are reached to rounding. After the last of them, the trainer gets the recorded version's
weights, so that engines and trainer agree in every bit; its momentum agrees to rounding. The
learner then writes a checkpoint, from which later recoveries are exact again.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from coevolve.learning.arithmetic import arithmetic
from coevolve.learning.history import History
from coevolve.learning.opening import AnyTrainer, open_trainer
from coevolve.learning.sharded.rpc import RankStarter
from coevolve.learning.versions import weights_digest, whole_version
from coevolve.models.atomic_folder import verify
from coevolve.models.model_folder import model_folder
from protocols.config import RunConfig
from protocols.errors import CheckpointError, LearnerError, TransferError
from protocols.interfaces import Files
from protocols.learning import Checkpoint, PolicyVersion, Returned, StepReport

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """A trainer after the last recorded step."""

    trainer: AnyTrainer
    checkpoint: Checkpoint | None
    """Where it started from; None for version 0."""

    to_rounding: bool
    """Whether some of the repeated steps were taken otherwise: see `_by_others`."""


async def recover(
    config: RunConfig, files: Files, history: History, starter: RankStarter | None = None
) -> Recovered:
    """Return the trainer after the last recorded step; ``starter`` is `open_trainer`'s.

    Raises:
        CheckpointError: No checkpoint is intact and version 0 has changed, or a version that the
            trainer must go on from is missing.
        LearnerError: A step cannot be repeated, or reaches other weights.
    """
    checkpoint = await newest_valid(files, (await history.checkpoints()).values())
    trainer = await trainer_at(checkpoint, config, files, history, starter)
    reports = await history.steps(after=trainer.step)
    for number, report in enumerate(reports):
        found = await take_again(trainer, report, config, files, history)
        if found == report.weights_digest:
            log.info("step_taken_again", step=report.step)
        elif not _by_others(report, config):
            raise _differs(report, found, checkpoint)
        else:
            log.warning(
                "step_taken_again_to_rounding",
                step=report.step,
                devices=config.learner.devices,
                recorded_devices=report.devices,
                arithmetic=arithmetic(config.policy),
                recorded_arithmetic=report.arithmetic,
            )
            if not _others_follow(reports[number + 1 :], config):
                await _take_weights(trainer, report, files, history)
    return Recovered(
        trainer=trainer,
        checkpoint=checkpoint,
        to_rounding=any(_by_others(report, config) for report in reports),
    )


def _differs(report: StepReport, found: str, checkpoint: Checkpoint | None) -> LearnerError:
    start = checkpoint.path if checkpoint else "version 0"
    return LearnerError(
        f"step {report.step}, repeated from {start}, reached weights {found[:12]} instead of the "
        f"recorded {report.weights_digest[:12]}; resume on the machine, and with the torch and "
        "learner.threads, with which the run was started"
    )


def _by_others(report: StepReport, config: RunConfig) -> bool:
    """Return whether another number of processes, processor or version of torch took the step."""
    return report.devices not in (0, config.learner.devices) or report.arithmetic not in (
        "",
        arithmetic(config.policy),
    )


def _others_follow(reports: Sequence[StepReport], config: RunConfig) -> bool:
    return bool(reports) and _by_others(reports[0], config)


async def _take_weights(
    trainer: AnyTrainer, report: StepReport, files: Files, history: History
) -> None:
    """Give the trainer the recorded weights of its step. Raises CheckpointError."""
    folder = await _weights(
        report.step,
        f"{report.devices} processes took step {report.step} with {report.arithmetic}, so others "
        "need the weights of its version, which are missing or were changed; restore that folder, "
        f"or resume there with learner.devices={report.devices}",
        files,
        history,
    )
    await asyncio.to_thread(trainer.load_weights, folder)


async def _weights(version: int, lacking: str, files: Files, history: History) -> Path:
    """Return the folder with a version's weights. Raises CheckpointError that says ``lacking``."""
    record = await history.version(version)
    folder = await whole_version(files, record)
    if folder is None:
        raise CheckpointError(f"{files.folder / record.path}: {lacking}")
    return folder


async def trainer_at(
    checkpoint: Checkpoint | None,
    config: RunConfig,
    files: Files,
    history: History,
    starter: RankStarter | None = None,
) -> AnyTrainer:
    """Return a trainer at ``checkpoint``, or at version 0; ``starter`` is `open_trainer`'s."""
    base = model_folder(config.policy.model)
    opened = partial(open_trainer, config, base, files, starter=starter)
    if checkpoint is not None:
        return await asyncio.to_thread(opened, checkpoint=files.folder / checkpoint.path)
    first = await history.first_version()
    if first is None:
        return await asyncio.to_thread(opened)
    weights = await whole_version(files, first)
    if weights is not None:
        return await asyncio.to_thread(opened, weights=weights)
    return await asyncio.to_thread(_from_base, first, config, base, opened)


async def take_again(
    trainer: AnyTrainer, report: StepReport, config: RunConfig, files: Files, history: History
) -> str:
    """Repeat a recorded step and return the digest of the resulting weights."""
    if report.returned is None:
        batch = await history.batch(report)
        await asyncio.to_thread(trainer.take_step, batch)
    else:
        await go_back(trainer, report.step, report.returned, files, history)
    return await asyncio.to_thread(weights_digest, trainer, config)


async def go_back(
    trainer: AnyTrainer, step: int, returned: Returned, files: Files, history: History
) -> dict[str, float]:
    """Take a step back to an earlier version and return its metrics.

    Raises CheckpointError if that version's weights are missing or were changed.
    """
    folder = await _weights(
        returned.to_version,
        f"step {step} returns to version {returned.to_version}, whose weights are missing or were "
        "changed; restore that folder",
        files,
        history,
    )
    return await asyncio.to_thread(trainer.go_back, step, folder, returned.rate_factor)


async def newest_valid(files: Files, checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Return the last intact one of ``checkpoints``; log a warning for each that is not intact."""
    for checkpoint in sorted(checkpoints, key=lambda each: each.step, reverse=True):
        try:
            await files.fetch(checkpoint.path)
            await asyncio.to_thread(verify, files.folder, checkpoint)
        except (CheckpointError, TransferError) as error:
            log.warning("checkpoint_skipped", step=checkpoint.step, reason=str(error))
            continue
        return checkpoint
    return None


def _from_base(
    first: PolicyVersion, config: RunConfig, base: Path, opened: Callable[[], AnyTrainer]
) -> AnyTrainer:
    """Load version 0, whose own folder is damaged, from the model's folder."""
    log.warning("version_0_damaged", path=first.path)
    trainer = opened()
    found = weights_digest(trainer, config)
    if found != first.digest:
        raise CheckpointError(
            f"{first.path}: version 0 is missing or was changed, and {base} now has another model "
            f"(digest {found[:12]}, recorded {first.digest[:12]}); restore one of the two"
        )
    return trainer

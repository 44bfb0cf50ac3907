"""Restores a trainer to the learner's last recorded step, and proves the result.

It starts from the newest intact checkpoint, or else from version 0. From there it repeats the
recorded steps, on their recorded batches or back to the recorded version. Each step must reach the
recorded weights, bit by bit.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import structlog

from coevolve.learning.history import History
from coevolve.learning.opening import AnyTrainer, open_trainer
from coevolve.learning.versions import weights_digest, whole_version
from coevolve.models.atomic_folder import verify
from coevolve.models.model_folder import model_folder
from protocols.config import RunConfig
from protocols.errors import CheckpointError, LearnerError, TransferError
from protocols.interfaces import Files
from protocols.learning import Checkpoint, PolicyVersion, Returned, StepReport

log = structlog.get_logger()


async def recover(
    config: RunConfig, files: Files, history: History
) -> tuple[AnyTrainer, Checkpoint | None]:
    """Return the trainer after the last recorded step, and the checkpoint that it started from.

    Raises:
        CheckpointError: No checkpoint is intact and version 0 has changed.
        LearnerError: A step cannot be repeated, or reaches other weights.
    """
    checkpoint = await newest_valid(files, await history.checkpoints())
    trainer = await trainer_at(checkpoint, config, files, history)
    for report in await history.steps(after=trainer.step):
        found = await take_again(trainer, report, config, files, history)
        if found != report.weights_digest:
            raise LearnerError(
                f"step {report.step}, repeated from "
                f"{checkpoint.path if checkpoint else 'version 0'}, reached weights {found[:12]} "
                f"instead of the recorded {report.weights_digest[:12]}; resume on the machine, and "
                "with the torch and learner.threads, with which the run was started"
            )
        log.info("step_taken_again", step=report.step)
    return trainer, checkpoint


async def trainer_at(
    checkpoint: Checkpoint | None, config: RunConfig, files: Files, history: History
) -> AnyTrainer:
    """Return a trainer at ``checkpoint``, or at version 0."""
    base = model_folder(config.policy.model)
    if checkpoint is not None:
        folder = files.folder / checkpoint.path
        return await asyncio.to_thread(open_trainer, config, base, checkpoint=folder)
    first = await history.first_version()
    if first is None:
        return await asyncio.to_thread(open_trainer, config, base)
    weights = await whole_version(files, first)
    if weights is not None:
        return await asyncio.to_thread(open_trainer, config, base, weights=weights)
    return await asyncio.to_thread(_from_base, first, config, base)


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
    version = await history.version(returned.to_version)
    folder = await whole_version(files, version)
    if folder is None:
        raise CheckpointError(
            f"{files.folder / version.path}: step {step} returns to version {version.version}, "
            "whose weights are missing or were changed; restore that folder"
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


def _from_base(first: PolicyVersion, config: RunConfig, base: Path) -> AnyTrainer:
    """Load version 0, whose own folder is damaged, from the model's folder."""
    log.warning("version_0_damaged", path=first.path)
    trainer = open_trainer(config, base)
    found = weights_digest(trainer, config)
    if found != first.digest:
        raise CheckpointError(
            f"{first.path}: version 0 is missing or was changed, and {base} now has another model "
            f"(digest {found[:12]}, recorded {first.digest[:12]}); restore one of the two"
        )
    return trainer

"""Writes weights as folders of a run, `versions/v_N`.

A folder is complete before its record is written, and only the record makes it exist. Version
folders that no rollout can need any more are removed, except those that stay for evaluation or
that the guard may return to.
"""

import asyncio
from collections.abc import Collection
from functools import cache
from pathlib import Path

from coevolve.curriculum.schedule import is_evaluated, is_scored
from coevolve.learning.opening import AnyTrainer
from coevolve.models.atomic_folder import write_folder
from coevolve.models.model_folder import model_folder
from coevolve.models.scratch_folder import scratch_folder
from coevolve.models.weight_files import SPARE, WEIGHTS_FILES, model_digest, version_digest
from protocols.config import RunConfig
from protocols.errors import TransferError
from protocols.interfaces import Files
from protocols.learning import PolicyVersion


def version_path(version: int) -> str:
    """Return a version's folder, relative to the run directory."""
    return f"versions/v_{version}"


async def publish_version(
    files: Files, trainer: AnyTrainer, config: RunConfig, *, is_milestone: bool = False
) -> PolicyVersion:
    """Write the trainer's weights into the run's folder and return the version's record."""
    version = await asyncio.to_thread(
        write_version, files.folder, trainer, config, is_milestone=is_milestone
    )
    await files.publish(version.path)
    return version


def write_version(
    folder: Path, trainer: AnyTrainer, config: RunConfig, *, is_milestone: bool = False
) -> PolicyVersion:
    """Write the trainer's weights below ``folder`` and return the version's record.

    The digest is computed before the folder gets its name, so a later change of its files is
    detected.
    """
    path, policy = version_path(trainer.step), config.policy
    digests: list[str] = []

    def write(partial: Path) -> None:
        trainer.save_weights(partial)
        digests.append(version_digest(partial, policy.train))

    write_folder(folder / path, write)
    return PolicyVersion(
        version=trainer.step,
        path=path,
        format=policy.train,
        digest=digests[0],
        size_bytes=(folder / path / WEIGHTS_FILES[policy.train]).stat().st_size,
        kept=is_milestone or is_scored(trainer.step, config),
        is_milestone=is_milestone,
        base=_base_digest(policy.model),
        scale=policy.lora_alpha / policy.lora_rank if policy.train == "lora" else 0.0,
        probe=trainer.probe(),
    )


async def whole_version(files: Files, version: PolicyVersion) -> Path | None:
    """Return the folder with the version's weights on this node; None if they are not intact."""
    try:
        folder = await files.fetch(version.path)
        found = await asyncio.to_thread(version_digest, folder, version.format)
    except (OSError, TransferError):
        return None
    return folder if found == version.digest else None


def weights_digest(trainer: AnyTrainer, config: RunConfig) -> str:
    """Return the digest that a version of the trainer's weights would have."""
    with scratch_folder() as scratch:
        trainer.save_weights(scratch.path)
        return version_digest(scratch.path, config.policy.train)


@cache
def _base_digest(model: str) -> str:
    return model_digest(model_folder(model))


async def remove_old_versions(
    files: Files, newest: int, config: RunConfig, needed: Collection[int]
) -> None:
    """Delete weights that neither a rollout nor an evaluation can need any more.

    Versions in ``needed`` are kept, whatever their age.
    """
    prefix = "v_"
    for name in await files.names("versions"):
        number = name.removeprefix(prefix)
        if number != name and number.isdecimal():  # others are not the run's
            version = int(number)
            is_old = version < newest - config.learner.max_staleness - SPARE
            if is_old and not is_evaluated(version, config) and version not in needed:
                await files.remove(version_path(version))

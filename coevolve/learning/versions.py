"""Writes weights and checkpoints as folders of a run: `versions/v_N` and `checkpoints/step_N`.

A folder is complete before its record is written, and only the record makes it exist. Version
folders that no rollout can need any more are removed, except those that stay for evaluation or
that the guard may return to.
"""

import shutil
from collections.abc import Collection
from functools import cache
from pathlib import Path

from coevolve.curriculum.schedule import is_evaluated, is_scored
from coevolve.learning.opening import AnyTrainer
from coevolve.models.atomic_folder import folder_digest, folder_size, write_folder
from coevolve.models.model_folder import model_folder
from coevolve.models.scratch_folder import scratch_folder
from coevolve.models.weight_files import WEIGHTS_FILES, model_digest, version_digest
from protocols.config import RunConfig
from protocols.learning import Checkpoint, PolicyVersion

SPARE = 2
"""Number of versions kept beyond the staleness bound, because an engine may still read one."""


def version_path(version: int) -> str:
    """Return a version's folder, relative to the run directory."""
    return f"versions/v_{version}"


def write_version(run_dir: Path, trainer: AnyTrainer, config: RunConfig) -> PolicyVersion:
    """Write the trainer's weights to disk and return the version's record.

    The digest is computed before the folder gets its name, so a later change of its files is
    detected.
    """
    path, policy = version_path(trainer.step), config.policy
    digests: list[str] = []

    def write(folder: Path) -> None:
        trainer.save_weights(folder)
        digests.append(version_digest(folder, policy.train))

    write_folder(run_dir / path, write)
    return PolicyVersion(
        version=trainer.step,
        path=path,
        format=policy.train,
        digest=digests[0],
        size_bytes=(run_dir / path / WEIGHTS_FILES[policy.train]).stat().st_size,
        kept=is_scored(trainer.step, config),
        base=_base_digest(policy.model),
        scale=policy.lora_alpha / policy.lora_rank if policy.train == "lora" else 0.0,
        probe=trainer.probe(),
    )


def is_whole(run_dir: Path, version: PolicyVersion) -> bool:
    """Return whether the version's weights are on disk, unchanged."""
    try:
        return version_digest(run_dir / version.path, version.format) == version.digest
    except OSError:
        return False


def write_checkpoint(run_dir: Path, trainer: AnyTrainer, devices: int) -> Checkpoint:
    """Write a checkpoint and return its record; ``devices`` processes write it together."""
    path = f"checkpoints/step_{trainer.step}"
    write_folder(run_dir / path, trainer.save)
    return Checkpoint(
        step=trainer.step,
        path=path,
        digest=folder_digest(run_dir / path),
        size_bytes=folder_size(run_dir / path),
        devices=devices,
    )


def weights_digest(trainer: AnyTrainer, config: RunConfig) -> str:
    """Return the digest that a version of the trainer's weights would have."""
    with scratch_folder() as scratch:
        trainer.save_weights(scratch.path)
        return version_digest(scratch.path, config.policy.train)


@cache
def _base_digest(model: str) -> str:
    return model_digest(model_folder(model))


def remove_old_versions(
    run_dir: Path, newest: int, config: RunConfig, needed: Collection[int]
) -> None:
    """Delete weights that neither a rollout nor an evaluation can need any more.

    Versions in ``needed`` are kept, whatever their age.
    """
    for folder in (run_dir / "versions").glob("v_*"):
        version = int(folder.name.removeprefix("v_"))
        is_old = version < newest - config.learner.max_staleness - SPARE
        if is_old and not is_evaluated(version, config) and version not in needed:
            shutil.rmtree(folder)

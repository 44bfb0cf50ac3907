"""Finds a policy version and its weights.

The weights are in the version's own folder while a rollout may need them, and, in shards, in the
checkpoint of the step that made them.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import structlog

from coevolve.history.progress import Progress
from coevolve.history.score import Choice
from coevolve.journal.lookups import all_of
from coevolve.learning.checkpoint_folder import read_checkpoint_weights
from coevolve.learning.checkpoints import checkpoint_path
from coevolve.learning.policy import Policy
from coevolve.learning.recorded_checkpoints import recorded_checkpoints
from coevolve.learning.sharded.shards import INDEX_FILE
from coevolve.models.atomic_folder import verify
from coevolve.models.model_folder import model_folder
from coevolve.models.weight_files import WEIGHTS_FILES, version_digest
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.interfaces import Reader
from protocols.learning import Checkpoint, PolicyVersion

log = structlog.get_logger()

NAMED = 12
"""Maximum number of versions that an error message lists."""


@dataclass(frozen=True)
class HeldVersion:
    """A policy version whose weights are on disk."""

    version: PolicyVersion
    folder: Path
    """The version's own folder, or a checkpoint."""

    checkpoint: Checkpoint | None = None
    """The record of the checkpoint that ``folder`` is; None for the version's own folder."""

    choice: Choice | None = None
    """How it was found to be the best; None if the user named it, or the newest one."""

    def unpacked(self, config: RunConfig, scratch: Path) -> "HeldVersion":
        """Return the version in its own folder; one in a checkpoint is written to ``scratch``.

        Raises CheckpointError if the checkpoint is not as recorded, before any of it is parsed, or
        cannot be read.
        """
        if self.checkpoint is None:
            return self
        verify(self.folder.parents[1], self.checkpoint)
        policy = Policy(
            msgspec.structs.replace(config.policy, device="cpu"),
            model_folder(config.policy.model),
            filled=False,
        )
        read_checkpoint_weights(self.folder, policy)
        policy.save(scratch)
        return replace(self, folder=scratch, checkpoint=None)

    @property
    def weights(self) -> Path:
        """The file whose digest the journal records."""
        return self.folder / WEIGHTS_FILES[self.version.format]


async def find_version(
    run_dir: Path, reader: Reader, wanted: str, progress: Progress
) -> HeldVersion:
    """Return the version number ``wanted``, the ``newest`` on disk, or the ``best``.

    The best is that of `Progress.choice`, which the reported score takes no part in. If the
    version's own folder is damaged, its checkpoint takes its place, with a warning. Raises RunError
    if there is no such version, or if its weights are gone or damaged.
    """
    versions = {each.version: each async for each in all_of(reader, PolicyVersion)}
    checkpoints = (await recorded_checkpoints(reader)).existing
    held = {
        number: found
        for number, version in versions.items()
        if (found := _held(run_dir, version, checkpoints.get(number))) is not None
    }
    if not held:
        raise RunError(
            f"{run_dir}: has no weights for any of the {len(versions)} policy versions in "
            "its journal; restore its folders versions/ and checkpoints/"
            if versions
            else f"{run_dir}: has no policy version yet, as `coevolve attach status` says; wait "
            "until the learner has started"
        )
    best = progress.choice(held) if wanted == "best" else None
    number = best.version if best else _number(run_dir, wanted, held)
    if number in held:
        whole = await asyncio.to_thread(
            _whole, run_dir, held[number], checkpoints.get(number), _listed(held)
        )
        return replace(whole, choice=best)
    found = "its weights were removed" if number in versions else "the run never made it"
    raise RunError(
        f"{run_dir}: version {number} is not available: {found}; weights exist for "
        f"{_listed(held)}. A run keeps the versions that it scores (evaluator.every) and those "
        "of its checkpoints (learner.checkpoint_every, learner.keep_checkpoints)"
    )


def _number(run_dir: Path, wanted: str, held: Mapping[int, HeldVersion]) -> int:
    """Return the number of a version, ``best`` if no version has a score."""
    match wanted:
        case "newest":
            return max(held)
        case "best":
            raise RunError(
                f"{run_dir}: no version has a score, neither on the guard's canaries "
                "(learner.guard) nor on held-out tasks (evaluator.every), so there is no best one; "
                f"--version newest gives version {max(held)}"
            )
        case _:
            return int(wanted)


def _held(
    run_dir: Path, version: PolicyVersion, checkpoint: Checkpoint | None
) -> HeldVersion | None:
    own = run_dir / version.path
    if (own / WEIGHTS_FILES[version.format]).is_file():
        return HeldVersion(version, own)
    return _in_checkpoint(run_dir, version, checkpoint)


def _in_checkpoint(
    run_dir: Path, version: PolicyVersion, checkpoint: Checkpoint | None
) -> HeldVersion | None:
    """Return the version in the checkpoint of the step that made it, if the run still has that."""
    folder = run_dir / checkpoint_path(version.version)
    if checkpoint is None or not (folder / INDEX_FILE).is_file():
        return None
    checkpoint = msgspec.structs.replace(checkpoint, path=checkpoint_path(version.version))
    return HeldVersion(version, folder, checkpoint)


def _whole(
    run_dir: Path, found: HeldVersion, checkpoint: Checkpoint | None, listed: str
) -> HeldVersion:
    """Return the version, from its checkpoint if its own folder is damaged. Raises RunError."""
    fault, number = _fault(found), found.version.version
    if not fault:
        return found
    instead = _in_checkpoint(run_dir, found.version, checkpoint)
    if instead is None:
        raise RunError(
            f"{found.folder}: version {number} is damaged: {fault}; restore the folder, or choose "
            f"another version: weights exist for {listed}. If it is the newest, `coevolve resume` "
            "writes it again"
        )
    log.warning(
        "version_damaged", path=str(found.folder), reason=fault, instead=str(instead.folder)
    )
    return instead


def _fault(held: HeldVersion) -> str:
    """Return what is wrong with the files of a version's own folder; empty if nothing is."""
    if held.checkpoint is not None:
        return ""
    try:
        digest = version_digest(held.folder, held.version.format)
    except OSError as error:
        return f"{error}"
    recorded = held.version.digest
    if digest == recorded:
        return ""
    return (
        f"its {held.weights.name} or its settings were changed: their digest is {digest[:12]}, the "
        f"journal says {recorded[:12]}"
    )


def _listed(held: Mapping[int, HeldVersion]) -> str:
    numbers = sorted(held)
    more = f" and {len(numbers) - NAMED} older ones" if len(numbers) > NAMED else ""
    return "version " + ", ".join(map(str, numbers[-NAMED:])) + more

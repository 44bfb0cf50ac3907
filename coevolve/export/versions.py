"""Finds the policy version that is asked for, and where its weights are.

Weights lie in the version's own folder until no rollout can need them, and in the checkpoint of
the step that made them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coevolve.journal.codec import decode_as
from coevolve.journal.paging import whole_topic
from coevolve.models.weight_files import WEIGHTS_FILES
from protocols.errors import RunError
from protocols.interfaces import Reader
from protocols.learning import PolicyVersion

NAMED = 12
"""Versions that a refusal lists."""


@dataclass(frozen=True)
class HeldVersion:
    """A policy version whose weights are on disk."""

    version: PolicyVersion
    folder: Path

    @property
    def weights(self) -> Path:
        """The file that the version's digest is of."""
        return self.folder / WEIGHTS_FILES[self.version.format]


async def find_version(
    run_dir: Path, reader: Reader, wanted: str, canaries: Mapping[int, float]
) -> HeldVersion:
    """Return the version number ``wanted``, the ``newest`` on disk, or the ``best``.

    The best has the highest score on the guard's ``canaries``, and is the newest of equals; so what
    is held out remains a fair measure of it. Raises RunError where there is no such version, or its
    weights are gone.
    """
    versions: dict[int, PolicyVersion] = {}
    async for record in whole_topic(reader, "policy_version"):
        version = decode_as(record, PolicyVersion)
        versions[version.version] = version
    held = {
        number: HeldVersion(version, folder)
        for number, version in versions.items()
        if (folder := _folder(run_dir, version)) is not None
    }
    if not held:
        raise RunError(
            f"{run_dir}: holds no weights of the {len(versions)} policy versions that its journal "
            "tells of; put its folders versions/ and checkpoints/ back"
            if versions
            else f"{run_dir}: has made no policy version yet; wait until it has started"
        )
    number = _number(run_dir, wanted, held, canaries)
    if number in held:
        return held[number]
    found = "its weights were removed" if number in versions else "the run never made it"
    raise RunError(
        f"{run_dir}: version {number} is not to be had: {found}; there are weights of "
        f"{_listed(held)}; kept are those that are scored (evaluator.every) or are a checkpoint "
        "(learner.checkpoint_every)"
    )


def _number(
    run_dir: Path, wanted: str, held: Mapping[int, HeldVersion], canaries: Mapping[int, float]
) -> int:
    match wanted:
        case "newest":
            return max(held)
        case "best":
            scored = canaries.keys() & held.keys()
            if not scored:
                raise RunError(
                    f"{run_dir}: no version was scored on the guard's canaries (learner.guard), so "
                    f"none is the best; --version newest is version {max(held)}"
                )
            return max(scored, key=lambda number: (canaries[number], number))
        case _:
            return int(wanted)


def _folder(run_dir: Path, version: PolicyVersion) -> Path | None:
    for path in (version.path, f"checkpoints/step_{version.version}"):
        if (run_dir / path / WEIGHTS_FILES[version.format]).is_file():
            return run_dir / path
    return None


def _listed(held: Mapping[int, HeldVersion]) -> str:
    numbers = sorted(held)
    more = f" and {len(numbers) - NAMED} older ones" if len(numbers) > NAMED else ""
    return "version " + ", ".join(map(str, numbers[-NAMED:])) + more

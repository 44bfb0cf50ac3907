"""Removes files of the newest version that are not those of its record."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from coevolve.journal.lookups import newest_of
from coevolve.models.atomic_folder import remove
from coevolve.models.weight_files import version_digest
from protocols.interfaces import Reader
from protocols.learning import PolicyVersion


async def lay_aside(reader: Reader, run_dir: Path, say: Callable[[str], None]) -> None:
    """Remove the files of the newest version if they differ from their recorded digest.

    Otherwise an engine would refuse them with an alarm before the learner writes them again.
    """
    version = await newest_of(reader, PolicyVersion)
    if version is None:
        return
    folder = run_dir / version.path
    try:
        found = await asyncio.to_thread(version_digest, folder, version.format)
    except OSError:
        return
    if found != version.digest:
        say(f"{folder} differs from its record; the learner rewrites version {version.version}")
        await asyncio.to_thread(remove, folder)

"""The folder of own worlds and tasks on this machine, and the ids of own tasks.

The folder is made once and kept in the cache, by what determines its content: the engine's version,
our programs that write it, and the seed of the world. Tasks are added to it when they are first
asked for. Nothing in it is the benchmark's, but the documents of the APIs are texts of its apps; so
the folder stays where it is.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import structlog

from coevolve.environments import packages
from coevolve.environments.appworld import engine
from coevolve.environments.appworld.engines import make_data
from coevolve.environments.appworld.place import PACKAGE
from coevolve.environments.sdk import cache_folder, shared_folder
from protocols.errors import SimulatorError

VARIANTS = (1, 2, 3)
HELD_OUT_FROM = 1_000
INSTANCES_FROM = 1_000_000
"""First numbers of the scenarios that are held out, and of those of fresh instances."""

log = structlog.get_logger()


def own_data(seed: int) -> Path:
    """Return the folder of data of the world ``seed``; make it if it is not there.

    Making it takes ten seconds or more. Raises DependencyError and SimulatorError.
    """
    folder = cache_folder() / "appworld" / f"own-{_digest(seed)}"
    if not folder.is_dir():
        try:
            shared_folder(folder.parent)
            with packages.alone(folder, log.info):
                if not folder.is_dir():
                    _make(folder, seed)
        except OSError as error:
            raise SimulatorError(
                f"{folder}: AppWorld's own world cannot be made: {error}"
            ) from error
    return folder / "data"


def template_names(data: Path) -> tuple[str, ...]:
    """Return the names of the templates that a folder of own data knows."""
    return tuple(json.loads((data / "templates.json").read_text()))


def task_ids(templates: Sequence[str], scenarios: int, first: int = 0) -> tuple[str, ...]:
    """Return the ids of the tasks of so many scenarios of each template, from number ``first``."""
    return tuple(
        f"{template}-{number}_{variant}"
        for number in range(first, first + scenarios)
        for template in templates
        for variant in VARIANTS
    )


def template_of(task_id: str) -> str:
    """Return the template of an own task."""
    return scenario_of(task_id).rpartition("-")[0]


def scenario_of(task_id: str) -> str:
    """Return the scenario of a task, own or official: its variants share it."""
    return task_id.rpartition("_")[0]


def instance_id(task_id: str, seed: int) -> str:
    """Return the id of another draw from the template of an own task."""
    variant = VARIANTS[seed % len(VARIANTS)]
    chosen = int.from_bytes(hashlib.sha256(f"{task_id} {seed}".encode()).digest()[:4], "little")
    return f"{template_of(task_id)}-{INSTANCES_FROM + chosen}_{variant}"


def _make(folder: Path, seed: int) -> None:
    partial = folder.with_name(f".{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    shared_folder(partial)
    log.info("appworld_world_made", folder=str(folder), seed=seed)
    make_data(partial, seed=seed)
    partial.rename(folder)


def _digest(seed: int) -> str:
    return hashlib.sha256("\0".join(_told(seed)).encode()).hexdigest()[:12]


def _told(seed: int) -> Iterator[str]:
    yield f"{PACKAGE} {seed}"
    for path in sorted(Path(engine.__file__).parent.glob("*.py")):
        yield path.read_text()

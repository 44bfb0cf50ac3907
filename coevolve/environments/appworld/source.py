"""Tasks from a folder in AppWorld's layout: own ones, which are made for it, or the benchmark's."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from coevolve.environments.appworld.blocks import apis_in
from coevolve.environments.appworld.engines import Engine
from coevolve.environments.appworld.own import (
    HELD_OUT_FROM,
    own_data,
    scenario_of,
    task_ids,
    template_names,
    template_of,
)
from coevolve.environments.appworld.settings import AppWorldConfig
from coevolve.environments.tools.split_tasks import SplitTasks, Streams
from coevolve.environments.tools.task import ToolTask, ToolTurn, tool_task
from protocols.config import RunConfig
from protocols.errors import ConfigError, DependencyError
from protocols.tasks import Seeded, Split, Task, body_of

SET = "appworld"
"""The name of the tool set in a task's body."""

SILENT = "Execution successful."
"""The observation of a block that prints nothing, as the blocks of references do."""

COMMON = ("supervisor.", "api_docs.")
"""Apps whose APIs every task uses; they are no skill."""

TRAINING = ("train", "dev")
SCORED = ("test_normal", "test_challenge")
"""The benchmark's sets for training, and those for scoring alone."""

_STREAMS = Streams(pool=11, choice=12, start=14)
_SHUFFLE_STREAM = 13


class WorldOf(msgspec.Struct, frozen=True, kw_only=True):
    """The world of a task, as JSON in `ToolTask.world`."""

    task: str
    """Id of the task whose world is opened."""


class Extra(msgspec.Struct, frozen=True, kw_only=True):
    """What the opening of a conversation says besides the instruction: JSON in `ToolTask.extra`."""

    supervisor: dict[str, str]
    now: str


class _Specs(msgspec.Struct, frozen=True, kw_only=True):
    instruction: str
    supervisor: dict[str, str]
    datetime: str


class _Metadata(msgspec.Struct, frozen=True, kw_only=True):
    difficulty: int


class AppWorldSource(SplitTasks):
    """Tasks of one folder of data."""

    def __init__(self, config: RunConfig, train: Sequence[Task], held_out: Sequence[Task]) -> None:
        """Leave out training tasks with the instruction of a held-out one.

        Raises ConfigError if a side is empty.
        """
        told = {tool_task(task).turns[0].instruction for task in held_out}
        kept = [task for task in train if tool_task(task).turns[0].instruction not in told]
        if not (kept and held_out):
            raise ConfigError(
                f"environment: needs at least 1 task in each split, found {len(kept)} training "
                f"tasks and {len(held_out)} held-out tasks; correct its settings"
            )
        self._known = frozenset(task.task_id for task in kept)
        seeds = int(config.environment.get("seeds", AppWorldConfig().seeds))
        super().__init__(config, kept, held_out, seeds=seeds, streams=_STREAMS)

    def trains_on(self, task_id: str) -> bool:
        """Return whether a task is of the training split, so that its world may be explored."""
        return task_id in self._known


def data_folder(settings: AppWorldConfig) -> Path:
    """Return the folder of data. Raises DependencyError and SimulatorError."""
    if settings.source == "own":
        return own_data(settings.world)
    folder = Path(settings.data).absolute()
    if not (folder / "tasks").is_dir():
        raise DependencyError(
            f"environment.data: {folder} has to be the folder that `appworld download data` made, "
            "but has no folder 'tasks'; give its path"
        )
    return folder


def open_source(config: RunConfig, settings: AppWorldConfig) -> AppWorldSource:
    """Return the tasks of a run. Raises ConfigError, DependencyError and SimulatorError."""
    data = data_folder(settings)
    given = _own if settings.source == "own" else _official
    train, held_out = given(data, settings)
    return AppWorldSource(config, train, held_out)


def own_tasks(data: Path, ids: Sequence[str], split: Split, memory_mb: int) -> tuple[Task, ...]:
    """Return own tasks; those that the folder lacks are made. Raises SimulatorError."""
    if not all((data / "tasks" / each).is_dir() for each in ids):
        with closing(Engine(data, memory_mb)) as engine:
            engine.make(ids)
    return tuple(_task(data, each, split, f"own:{template_of(each)}") for each in ids)


def _own(data: Path, settings: AppWorldConfig) -> tuple[Sequence[Task], Sequence[Task]]:
    known = template_names(data)
    if unknown := sorted(set(settings.templates) - set(known)):
        raise ConfigError(
            f"environment.templates: needs names among {', '.join(known)}, found {unknown[0]!r}"
        )
    templates = settings.templates or known
    train = _shuffled(task_ids(templates, settings.scenarios))
    held_out = _shuffled(task_ids(templates, settings.scenarios, HELD_OUT_FROM))
    memory_mb = settings.engine_memory_mb
    if settings.difficulties:
        own_tasks(data, (*train, *held_out), "train", memory_mb)
        train, held_out = (_as_hard(data, each, settings) for each in (train, held_out))
    return (
        own_tasks(data, train, "train", memory_mb),
        own_tasks(data, held_out[: settings.held_out], "held_out", memory_mb),
    )


def _official(data: Path, settings: AppWorldConfig) -> tuple[Sequence[Task], Sequence[Task]]:
    scored = {scenario_of(each): name for name in SCORED for each in _ids(data, name)}
    for name in TRAINING:
        for each in _ids(data, name):
            if held := scored.get(scenario_of(each)):
                raise ConfigError(
                    f"environment.data: {data / 'datasets' / name}.txt has {each}, a task of "
                    f"{held}, on which nothing may be trained; take it out"
                )

    def tasks(names: Sequence[str], split: Split) -> list[Task]:
        held = [_as_hard(data, _shuffled(_ids(data, name)), settings) for name in names]
        return [
            _task(data, each, split, f"official:{name}")
            for name, ids in zip(names, held, strict=True)
            for each in ids
        ]

    return tasks(TRAINING, "train"), tasks(SCORED, "held_out")[: settings.held_out]


def _ids(data: Path, name: str) -> list[str]:
    path = data / "datasets" / f"{name}.txt"
    return path.read_text().split() if path.is_file() else []


def _shuffled(ids: Sequence[str]) -> tuple[str, ...]:
    """Shuffle the scenarios; the variants of each stay together."""
    scenarios: dict[str, list[str]] = {}
    for each in ids:
        scenarios.setdefault(scenario_of(each), []).append(each)
    held = tuple(scenarios.values())
    order = np.random.default_rng((_SHUFFLE_STREAM, len(ids))).permutation(len(held))
    return tuple(each for number in order for each in held[int(number)])


def _as_hard(data: Path, ids: Sequence[str], settings: AppWorldConfig) -> tuple[str, ...]:
    """Return the tasks of the scenarios whose first variant has a wanted difficulty."""
    if not settings.difficulties:
        return tuple(ids)
    firsts: dict[str, str] = {}
    for each in sorted(ids):
        firsts.setdefault(scenario_of(each), each)
    wanted = {
        scenario
        for scenario, first in firsts.items()
        if difficulty_of(data, first) in settings.difficulties
    }
    return tuple(each for each in ids if scenario_of(each) in wanted)


def difficulty_of(data: Path, task_id: str) -> int:
    """Return how hard a task is, from 1 to 3: by the benchmark, or by the template."""
    path = data / "tasks" / task_id / "ground_truth" / "metadata.json"
    return msgspec.json.decode(path.read_bytes(), type=_Metadata).difficulty


def _task(data: Path, task_id: str, split: Split, source: str) -> Task:
    folder = data / "tasks" / task_id
    specs = msgspec.json.decode((folder / "specs.json").read_bytes(), type=_Specs)
    reference = _reference(folder)
    body = ToolTask(
        classes=(SET,),
        world=_json(WorldOf(task=task_id)),
        turns=(
            ToolTurn(
                instruction=specs.instruction,
                reference=reference,
                results=(SILENT,) * len(reference),
            ),
        ),
        extra=_json(Extra(supervisor=specs.supervisor, now=specs.datetime)),
    )
    return Task(
        task_id=task_id,
        split=split,
        origin=Seeded(source=source),
        skills=skills_of(reference),
        body=body_of(body),
        scenario=scenario_of(task_id),
    )


def skills_of(reference: Sequence[str]) -> tuple[str, ...]:
    """Return the APIs that blocks name, without those that every task uses."""
    named = {name for block in reference for name in apis_in(block)}
    return tuple(
        name
        for name in sorted(named)
        if not name.startswith(COMMON) and not name.endswith(".login")
    )


def _reference(folder: Path) -> tuple[str, ...]:
    path = folder / "reference.json"
    return tuple(json.loads(path.read_text())) if path.is_file() else ()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

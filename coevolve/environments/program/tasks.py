"""Tasks of a program: lines of JSON, which only the program understands."""

import hashlib
import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from coevolve.environments.program.settings import ProgramConfig, carried
from coevolve.environments.program.worker import (
    KILLED_S,
    command_of,
    environment_of,
    kill_session,
    shown_line,
)
from coevolve.environments.sdk import apart, boundary, held_out_places, plain, shown
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.tasks import SPLITS, Seeded, Split, Task, body_of

MAX_BYTES = 1 << 30
TASKS = "--tasks"
"""Argument with which a program prints its tasks, one a line, and ends."""

HEADLINES = ("prompt", "instruction", "question", "task", "id")
"""Fields of which the first that is a text describes a task."""

_POOL_STREAM, _DRAW_STREAM = 301, 302


class ProgramTask(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a task: its line."""

    line: dict[str, Any]


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """What a line needs."""

    id: str
    split: Split | None = None


def line_of(task: Task) -> dict[str, Any]:
    """Return the line of a task."""
    return msgspec.msgpack.decode(task.body, type=ProgramTask).line


def headline(line: dict[str, Any]) -> str:
    """Return a description of a task in one line."""
    named = (line.get(name) for name in HEADLINES)
    return plain(next(each for each in named if isinstance(each, str) and each), 200)


@dataclass(frozen=True, kw_only=True)
class TaskFile:
    """A `protocols.interfaces.TaskSource`."""

    seed: int
    train: tuple[Task, ...]
    watched: tuple[Task, ...]
    scored: tuple[Task, ...]

    def pool(self) -> Sequence[Task]:
        return self.train

    def draw(self, number: int) -> tuple[Task, bool]:
        """Return the task of group ``number``; each is drawn once before any is drawn again."""
        epoch, place = divmod(number, len(self.train))
        order = np.random.default_rng((self.seed, _DRAW_STREAM, epoch)).permutation(len(self.train))
        return self.train[int(order[place])], False

    def held_out(self) -> Sequence[Task]:
        return self.scored

    def canaries(self, count: int) -> Sequence[Task]:
        return self.watched[:count]


def read_tasks(settings: ProgramConfig, config: RunConfig) -> TaskFile:
    """Return the tasks of a run.

    Raises ConfigError if the file cannot be read, or lacks tasks of a split.
    """
    path = Path(carried(settings.tasks))
    tasks = _tasks(path, _rows(path, task_content(settings)), settings)
    sides = {split: [task for task in tasks if task.split == split] for split in SPLITS}
    for split, found in sides.items():
        if not found:
            raise ConfigError(
                f"environment.tasks: {path} needs a task of split {split}, found none of "
                f"{len(tasks)}; add tasks, or name their split"
            )
    watched, train = apart(config, sides["train"], _POOL_STREAM)
    return TaskFile(
        seed=config.seed,
        train=train[: settings.seeds],
        watched=watched,
        scored=tuple(sides["held_out"][: settings.held_out]),
    )


def checked_lines(content: bytes) -> bytes:
    """Return lines that are tasks, as a file of them. Raises ConfigError."""
    place = Path("the program's output")
    rows = _rows(place, content)
    if not rows:
        raise ConfigError("environment.command: needs to print tasks, found none")
    names = Counter(each.id for each, _ in rows)
    if repeated := [name for name, times in names.items() if times > 1]:
        raise ConfigError(
            f"environment.command: needs ids that differ, found {repeated[0]!r} twice"
        )
    return b"".join(msgspec.json.encode(line) + b"\n" for _, line in rows)


def task_content(settings: ProgramConfig) -> bytes:
    """Return the content of the file of tasks. Raises ConfigError."""
    path = Path(carried(settings.tasks))
    what = f"environment.tasks: {path} needs to be a file of JSON lines"
    with boundary(ConfigError, what, named=path):
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it needs at most {MAX_BYTES} bytes, found more")
        return path.read_bytes()


def _rows(path: Path, content: bytes) -> list[tuple[_Line, dict[str, Any]]]:
    """Return the lines that are not empty. Raises ConfigError."""
    rows = enumerate(content.split(b"\n"), 1)
    return [_read(path, number, row) for number, row in rows if row.strip()]


def _read(path: Path, number: int, row: bytes) -> tuple[_Line, dict[str, Any]]:
    place = f"environment.tasks: {path}, line {number}, needs a JSON object with an id"
    with boundary(ConfigError, place, "; write each task as one line"):
        line = msgspec.json.decode(row, type=dict[str, Any])
        found = msgspec.convert(line, _Line)
    if not found.id:
        raise ConfigError(f"{place}, found an empty one")
    return found, line


def _tasks(
    path: Path, rows: Sequence[tuple[_Line, dict[str, Any]]], settings: ProgramConfig
) -> list[Task]:
    """Return the tasks in the order of their lines. Raises ConfigError for ids that repeat."""
    free = {_place(each, settings.split_seed) for each, _ in rows if not each.split}
    decided: set[Split] = {each.split for each, _ in rows if each.split}
    held_out = set[int]()
    if free:
        held_out = held_out_places(free, settings.held_out_share, decided=decided)
    tasks: dict[str, Task] = {}
    for each, line in rows:
        if each.id in tasks:
            raise ConfigError(
                f"environment.tasks: {path} needs ids that differ, found {shown(each.id)} twice"
            )
        is_held_out = _place(each, settings.split_seed) in held_out
        split = each.split or ("held_out" if is_held_out else "train")
        tasks[each.id] = Task(
            task_id=each.id,
            split=split,
            origin=Seeded(source=f"{path.name}:{each.id}"),
            body=body_of(ProgramTask(line=line)),
        )
    return list(tasks.values())


def _place(line: _Line, seed: int) -> int:
    salt = seed.to_bytes(hashlib.blake2b.SALT_SIZE)
    return int.from_bytes(hashlib.blake2b(line.id.encode(), digest_size=8, salt=salt).digest())


def printed_tasks(settings: ProgramConfig) -> bytes:
    """Return what the program prints with the argument `TASKS`. Raises ConfigError."""
    with boundary(ConfigError, f"environment.command: needs to print tasks with {TASKS}"):
        process = subprocess.Popen(  # noqa: S603 -- the user's own command
            [*command_of(settings), TASKS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=environment_of(os.environ, settings),
        )
        with process:
            try:
                printed, said = process.communicate(timeout=settings.patience_s)
            finally:
                _stop(process)
        if process.returncode:
            words = "".join(map(shown_line, said.strip().splitlines()[-1:]))
            raise ValueError(f"it ended with status {process.returncode}: {words}")
        return printed


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_S)
    kill_session(process.pid)

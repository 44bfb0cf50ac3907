"""A real run in its own process group, for tests that observe it from outside."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

from coevolve.journal.codec import TOPICS, decode, decode_as, topic_of
from coevolve.journal.reader import STORE_FOLDER, JournalReader
from protocols.errors import JournalError
from protocols.journal import Message
from tests.commands import ROOT, Answer, answered

QUICKSTART = "configs/quickstart.yaml"

SMALL = (
    "learner.groups_per_step=4",
    "rollout.group_size=4",
    "environment.held_out=12",
    "rollout.in_flight_groups=8",
    "simulator.workers=2",
    "learner.checkpoint_every=3",
    "learner.imitation.replay_per_step=4",
    "evaluator.engine=rollout",
)
"""Settings that make the quickstart's run short; one process less loads a model."""


Kind = TypeVar("Kind", bound=msgspec.Struct)


class LaunchedRun:
    """`coevolve launch`, by default on the quickstart's config, as a user starts it."""

    def __init__(self, runs: Path, name: str, *overrides: str, run_file: str = QUICKSTART) -> None:
        self._runs = runs
        self._run_file = run_file
        self._name = name
        self._overrides = overrides
        self.directory = runs / name
        self.process: subprocess.Popen[str] | None = None
        self.output = ""

    def start(self, *flags: str) -> None:
        """Start or, with ``--resume``, start again."""
        self.log = (self._runs / f"{self._name}.out").open("a+", encoding="utf-8")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "coevolve.launch",
                self._run_file,
                f"name={self._name}",
                *self._overrides,
                "--runs",
                str(self._runs),
                *flags,
            ],
            cwd=ROOT,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def said(self) -> str:
        """Return the output so far."""
        return (self._runs / f"{self._name}.out").read_text(encoding="utf-8")

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the JSON lines of one kind in the output so far."""
        lines = (line for line in self.said().splitlines() if line.startswith("{"))
        found: list[dict[str, Any]] = []
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):
                event = json.loads(line)
                if event.get("event") == kind:
                    found.append(event)
        return found

    def until(self, what: str, condition: Callable[[], bool], timeout_s: float = 300.0) -> None:
        """Wait for ``condition``; fail with the run's output if it does not come true."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self.process is not None
            code = self.process.poll()
            if (code is not None and not condition()) or time.monotonic() > deadline:
                raise AssertionError(f"waited for {what}; exit code {code}; said:\n{self.said()}")
            time.sleep(0.2)

    def step(self) -> int:
        """Return the newest step that was printed."""
        return max((event["step"] for event in self.events("step")), default=0)

    def wait(self, timeout_s: float = 300.0) -> int:
        """Wait for the end and return the exit code."""
        assert self.process is not None
        return self.process.wait(timeout_s)

    def attach(self, *words: str) -> Answer:
        """Let attach answer about this run."""
        return answered("attach", str(self.directory), *words)

    def told(self, *words: str) -> dict[str, Any]:
        """Return the JSON answer of attach."""
        answer = self.attach(*words, "--json")
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def pids(self) -> dict[str, int]:
        """Return the process of each actor, by name."""
        return {part["part"]: part["pid"] for part in self.told("status")["parts"]}

    def reader(self) -> JournalReader:
        """Return the run's journal."""
        return JournalReader(self.directory / STORE_FOLDER)

    def count(self, kind: type[msgspec.Struct]) -> int:
        """Return how many messages of a kind the journal holds; 0 before there is a journal."""
        try:
            with self.reader().snapshot() as state:
                return len(state.scan(topic_of(kind), limit=10**6))
        except JournalError:
            return 0

    def journal(self) -> list[tuple[int, Message]]:
        """Return every record in order, with its sequence; fails where one is missing."""
        newest = self.newest()
        with self.reader().snapshot() as state:
            return [(each.sequence, decode(each)) for each in state.read(range(1, newest + 1))]

    def newest(self) -> int:
        """Return the newest sequence of the journal."""
        with self.reader().snapshot() as state:
            return max(state.newest(topic) for topic in TOPICS)

    def scan(self, kind: type[Kind], after: int = 0) -> list[Kind]:
        """Return every message of a kind beyond a sequence, oldest first."""
        with self.reader().snapshot() as state:
            found = state.scan(topic_of(kind), after=after, limit=10**6)
            return [decode_as(record, kind) for record in found]

    def holds(self, kind: type[msgspec.Struct]) -> bool:
        """Return whether the journal holds a message of a kind."""
        return self.count(kind) > 0

    def process_of(self, shell: str) -> psutil.Process:
        """Return the process of the actor of a class."""
        return next(p for p in self.processes() if p.cmdline()[0].startswith(f"ray::{shell}"))

    def processes(self) -> list[psutil.Process]:
        """Return every living process of the run: the launcher and all below it."""
        assert self.process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            launcher = psutil.Process(self.process.pid)
            return [launcher, *launcher.children(recursive=True)]
        return []

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the launcher only."""
        assert self.process is not None
        os.kill(self.process.pid, number)


@contextlib.contextmanager
def launched(
    runs: Path, name: str, *overrides: str, run_file: str = QUICKSTART
) -> Generator[LaunchedRun]:
    """Start a run, and end all its processes after the block."""
    run = LaunchedRun(runs, name, *overrides, run_file=run_file)
    run.start()
    try:
        yield run
    finally:
        for process in run.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if run.process is not None:
            run.process.wait(30)


def gone(processes: list[psutil.Process], timeout_s: float = 30.0) -> list[psutil.Process]:
    """Return the processes that are still alive after ``timeout_s``."""
    _, alive = psutil.wait_procs(processes, timeout=timeout_s)
    return alive

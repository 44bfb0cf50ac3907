"""One attempt at a task: a world in the engine, and an interpreter for the policy's blocks.

The verdict on a task with a reference is that its end state equals the reference's: in every table
of every app the same records, the answer included. A task of the benchmark has no reference here,
so its own evaluator decides. A task that was not completed fails.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from coevolve.environments.appworld.blocks import MAX_CHARS
from coevolve.environments.appworld.engines import Evaluated, Opened, World
from coevolve.environments.appworld.frames import Answered, Called, Refused
from coevolve.environments.appworld.interpreter import Interpreter, Settings
from coevolve.environments.appworld.place import interpreter_folder, plain_python
from coevolve.environments.appworld.program import FAILED
from coevolve.environments.sdk import Sandbox
from coevolve.environments.tools.commands import Failed, Observed, Passed, Verdict
from coevolve.environments.tools.task import ToolTask
from coevolve.environments.tools.toolset import STATE_MISMATCH

State = Mapping[str, str]
"""Digest of each table with rows, by name."""

COMPLETES = ("supervisor", "complete_task")
NOT_COMPLETED = "not_completed"
TESTS_FAILED = "tests_failed"
TOO_LONG = f"{FAILED}Exception: The code has more than {MAX_CHARS} characters."
ALWAYS_PASSES = "no_op_pass"
"""The evaluator's label of tests that an attempt passes by doing nothing."""

NAMED_TABLES = 3


class Session:
    """An open attempt; not for several threads at once."""

    def __init__(self, task: ToolTask, world: World, interpreter: Interpreter) -> None:
        """Take over both; `close` closes them."""
        self.task = task
        self._world = world
        self._interpreter = interpreter
        self._ends = False

    def start(self) -> None:
        """Start the interpreter without waiting for it. Raises SimulatorError."""
        self._interpreter.start()

    def act(self, code: str) -> Observed:
        """Execute a block. Raises SimulatorError."""
        if len(code) > MAX_CHARS:
            return Observed(result=TOO_LONG, failed=True)
        text = self._interpreter.run(code, self._answer)
        return Observed(
            result=text,
            failed=text.startswith(FAILED),
            ended=self._ends and self._world.completed(),
        )

    def state(self) -> State:
        """Return the state of the whole world. Raises SimulatorError."""
        return self._world.digests()

    def verdict(self, expected: State | None, *, partial_credit: bool) -> Verdict:
        """Return whether the end state is the expected one; without one, ask the evaluator.

        Raises SimulatorError.
        """
        completed = self._world.completed()
        if expected is None:
            return _evaluated(self._world.evaluated(), completed, partial_credit=partial_credit)
        if not completed:
            return Failed(reason=NOT_COMPLETED)
        return _compared(self.state(), expected)

    def evaluated(self) -> bool:
        """Return whether the task's own evaluator passes. Raises SimulatorError."""
        return self._world.evaluated().success

    def close(self) -> float:
        """End both processes; return the CPU seconds that they used."""
        try:
            spent_s = self._world.cpu_s()
        finally:
            self._interpreter.close()
            self._world.close()
        return spent_s + self._interpreter.cpu_s

    def _answer(self, call: Called) -> Answered | Refused:
        self._ends |= (call.app, call.api) == COMPLETES
        return self._world.call(call)


def opened(
    world: World, sandbox: Sandbox, task: ToolTask, *, block_s: float, memory_mb: int
) -> Session:
    """Return a session on a world; its interpreter starts while the first block is written.

    Raises SimulatorError.
    """
    settings = interpreter_settings(world.opened, block_s=block_s, memory_mb=memory_mb)
    session = Session(task, world, Interpreter(sandbox, settings))
    try:
        session.start()
    except BaseException:
        session.close()
        raise
    return session


def interpreter_settings(shown: Opened, *, block_s: float, memory_mb: int) -> Settings:
    """Return the settings of the interpreter for a world. Raises DependencyError."""
    return Settings(
        python=plain_python(),
        apps=shown.apps,
        now=shown.now,
        modules=shown.modules,
        functions=shown.functions,
        folders=(interpreter_folder(),),
        block_s=block_s,
        memory_mb=memory_mb,
    )


def readable_folders() -> tuple[Path, ...]:
    """Return the folders that an interpreter reads. Raises DependencyError."""
    return (plain_python().parents[1], interpreter_folder())


def digest_of(state: State) -> str:
    """Return one digest of a whole world."""
    return hashlib.sha256(json.dumps(sorted(state.items())).encode()).hexdigest()[:16]


def _compared(state: State, expected: State) -> Verdict:
    tables = sorted(state.keys() | expected.keys())
    differ = [name for name in tables if state.get(name) != expected.get(name)]
    if not differ:
        return Passed()
    more = f" and {len(differ) - NAMED_TABLES} more" * (len(differ) > NAMED_TABLES)
    return Failed(reason=f"{STATE_MISMATCH}: {', '.join(differ[:NAMED_TABLES])}{more}")


def _evaluated(found: Evaluated, completed: bool, *, partial_credit: bool) -> Verdict:
    if found.success and completed:
        return Passed()
    reason = TESTS_FAILED if completed else NOT_COMPLETED
    passed, failed = (
        sum(label != ALWAYS_PASSES for _, label in tests)
        for tests in (found.passes, found.failures)
    )
    share = passed / (passed + failed) if partial_credit and failed else 0.0
    return Failed(reason=reason, reward=share)

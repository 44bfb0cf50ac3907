"""The adversary: blocks of code that try to leave the interpreter, or to earn a reward.

Each block runs as a policy's would, but every import is let pass, because the engine's list of
allowed modules protects nothing. A file that all users may read holds a secret word.
"""

import asyncio
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from coevolve.environments.appworld.engines import Engine
from coevolve.environments.appworld.interpreter import Interpreter
from coevolve.environments.appworld.session import (
    Session,
    interpreter_settings,
    readable_folders,
)
from coevolve.environments.findings import Checks, Finding, measured
from coevolve.environments.sandbox.runner import Sandbox
from coevolve.environments.tools.commands import Passed
from coevolve.environments.tools.task import ToolTask
from protocols.capabilities import Capabilities
from tests.coevolve.environments.appworld.hostile_blocks import (
    BREAKS,
    EARNS,
    FILLS,
    FINDS,
    HEAD,
    LEAVES,
    MODULES,
    STAYS,
)

BLOCK_S = 2.0
MEMORY_MB = 512
AT_A_TIME = 4


class _Subject:
    def __init__(self, engine: Engine, task_id: str, body: ToolTask, folder: Path) -> None:
        self._engine = engine
        self._task_id = task_id
        self._body = body
        self._sandbox = Sandbox(readable_folders())
        self.word = secrets.token_hex(16)
        self.secret, self.written = folder / "secret_module.py", folder / "written"
        self.secret.write_text(f"WORD = '{self.word}'")
        folder.chmod(0o777)
        self._head = HEAD.format(secret=str(self.secret), written=str(self.written))

    def found_after(self, code: str) -> tuple[str, str]:
        """Return what an attempt finds that began before the one of ``code`` ended, and after."""
        leaving, beside = self._opened(), self._opened()
        try:
            leaving.act(f"{self._head}WORD = {self.word!r}\n{code}")
            during = beside.act(self._head + FINDS).result
        finally:
            leaving.close()
            beside.close()
        following = self._opened()
        try:
            return during, following.act(self._head + FINDS).result
        finally:
            following.close()

    def _opened(self) -> Session:
        """Return an attempt whose interpreter is started ahead, as every attempt's is."""
        world = self._engine.open(self._task_id)
        limits = interpreter_settings(world.opened, block_s=BLOCK_S, memory_mb=MEMORY_MB)
        limits = replace(limits, modules=MODULES, functions=())
        session = Session(self._body, world, Interpreter(self._sandbox, limits))
        session.start()
        return session

    async def observations(self, blocks: Mapping[str, str]) -> dict[str, str]:
        """Return what each block shows; raise CoevolveError if it broke more than its process."""
        labels = list(blocks)
        parts = [labels[number::AT_A_TIME] for number in range(AT_A_TIME)]
        found = await asyncio.gather(
            *(asyncio.to_thread(self._played, [(n, blocks[n]) for n in part]) for part in parts)
        )
        return {label: text for part in found for label, text in part.items()}

    def _played(self, blocks: Sequence[tuple[str, str]]) -> dict[str, str]:
        session = self._opened()
        shown: dict[str, str] = {}
        try:
            before = session.state()
            for label, code in blocks:
                shown[label] = session.act(self._head + code).result
            if session.state() != before:
                shown["(state)"] = "the blocks changed the world"
            if isinstance(session.verdict(None, partial_credit=False), Passed):
                shown["(verdict)"] = "the blocks solved the task"
        finally:
            session.close()
        return shown


async def hostile_findings(
    data: Path, task_id: str, body: ToolTask, memory_mb: int
) -> tuple[Finding, ...]:
    """Return the findings on the worlds of one task. Raises DependencyError."""
    engine = Engine(data, memory_mb)
    with tempfile.TemporaryDirectory(prefix="appworld_") as folder:
        subject = _Subject(engine, task_id, body, Path(folder))
        try:
            claimed = Capabilities()
            return await measured(CHECKS, subject, claimed)
        finally:
            engine.close()


async def _leave_nothing(subject: _Subject) -> tuple[bool, str]:
    shown = await subject.observations(LEAVES)
    for label, text in shown.items():
        if subject.word in text:
            return False, f"{label!r} reads a file"
        if "the blocks" in text:
            return False, text
    if subject.written.exists():
        return False, "a block writes a file"
    return True, f"{len(LEAVES)} blocks read, wrote, started and reached nothing"


async def _break_nothing(subject: _Subject) -> tuple[bool, str]:
    shown = await subject.observations(BREAKS)
    if told := next((text for text in shown.values() if "the blocks" in text), ""):
        return False, told
    return True, f"{len(BREAKS)} blocks ended their own process at most"


async def _earn_nothing(subject: _Subject) -> tuple[bool, str]:
    return await _unsolved(subject, EARNS, "earned nothing")


async def _fill_nothing(subject: _Subject) -> tuple[bool, str]:
    return await _unsolved(subject, FILLS, "left every world in order")


async def _unsolved(subject: _Subject, blocks: Mapping[str, str], found: str) -> tuple[bool, str]:
    """Check that no block, each in an attempt of its own, solves the task."""
    for label, code in blocks.items():
        shown = await subject.observations({label: code})
        if shown.get("(verdict)"):
            return False, f"{label!r} solves the task"
    return True, f"{len(blocks)} blocks {found}"


async def _keep_nothing(subject: _Subject) -> tuple[bool, str]:
    for label, code in STAYS.items():
        for text in await asyncio.to_thread(subject.found_after, code):
            if subject.word in text:
                return False, f"{label!r} reaches another attempt"
    return True, f"{len(STAYS)} blocks left nothing to other attempts"


CHECKS: Checks[_Subject] = {
    "hostile blocks leave the interpreter nowhere": _leave_nothing,
    "hostile blocks break nothing": _break_nothing,
    "hostile blocks earn nothing": _earn_nothing,
    "hostile blocks fill no process of the engine": _fill_nothing,
    "hostile blocks leave nothing to other attempts": _keep_nothing,
}

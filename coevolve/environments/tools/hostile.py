"""An adversary of an environment with tools: hostile calls of a policy, hostile worlds of tasks.

The suite is made of the tools' own schemas: each tool gets no arguments, too many, unknown ones,
and values that tools rarely expect. Texts that are no calls, or that reach for Python, come on top.
A tool may refuse any of them; nothing may end the simulator, pass a task, or reach another session.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from coevolve.environments.findings import Checks, Finding, measured
from coevolve.environments.tools.chat.tools import schemas
from coevolve.environments.tools.commands import Passed, Tried, Verdict
from coevolve.environments.tools.endings import ending_of
from coevolve.environments.tools.interfaces import ToolSource
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.wire import ToolClient
from coevolve.foreign import plain
from protocols.capabilities import Capabilities
from protocols.errors import SimulatorError
from protocols.interfaces import SimulatorService
from protocols.tasks import Task

LITERALS = (
    *("None", "True", "-1", "0", "1e308", "9" * 60, "''", "'\\x00'", "'\\x1b[2J\\u202e'", "()"),
    *("'../../../../etc/passwd'", "'%s%n{0.__class__}'", "'" + "a" * 10_000 + "'", "[None] * 9"),
    *("[" * 12 + "]" * 12, "{'__class__': {'a': [1, {}]}}", "[" + "1, " * 5_000 + "]"),
)
"""Arguments, as Python would write them."""

TEXTS = (
    *("", " ", "\x00", "\ud800", "a" * 30_000, "(" * 5_000, "f(" * 150, "f(" + "-" * 15_000 + "1)"),
    *("__import__('os').system('id')", "open('/etc/passwd')", "exec('raise SystemExit')", "quit()"),
    *("lambda: 0", "[x for x in ()]", "self.__dict__", "print(1)", "f'{1}'", "# nothing", "x = 1"),
)
"""Messages that are no call of a tool."""

WORLDS: tuple[Any, ...] = (
    *(None, True, -1, 1e308, "", "\x00", "a" * 100_000, [], {}, [None] * 5_000, {"": {}}),
    *({"__class__": {"__init__": 1}}, {"root": None}, {"root": {"a": {"type": "x"}}}),
)
"""Worlds of each tool set, in place of the task's own."""

MOST_ANSWER_CHARS = 1 << 20
"""Maximum characters of an answer; it has to fit into a prompt, and into the journal."""


@dataclass(frozen=True)
class _Subject:
    pool: SimulatorPool
    tasks: Sequence[Task]
    """One task for each combination of tool sets."""

    async def alone(self, name: str, body: ToolTask) -> Tried:
        """Return the results of the task's reference in a world of its own."""
        return await self.pool.trial(name, body, [turn.reference for turn in body.turns])

    async def attack(self, body: ToolTask) -> None:
        """Play all hostile texts in the session ``hostile``."""
        for text in replies(body):
            await self.pool.act("hostile", text)


async def hostile(
    source: ToolSource, simulator: SimulatorService, claimed: Capabilities, most: int
) -> tuple[Finding, ...]:
    """Return what an adversary could do, with at most ``most`` tasks of different tools."""
    different = {tool_task(task).classes: task for task in (*source.pool(), *source.held_out())}
    tasks = tuple(different.values())[:most]
    try:
        subject = _Subject(SimulatorPool([ToolClient(simulator)]), tasks)
        return await measured(_CHECKS, subject, claimed)
    finally:
        await simulator.close()


def replies(body: ToolTask) -> Iterator[str]:
    """Yield the hostile texts for the tools of a task."""
    yield from TEXTS
    for schema in schemas(body.classes):
        name, names = schema["function"]["name"], schema["function"]["parameters"]["properties"]
        yield from (f"{name}()", f"{name}({'1, ' * 30})", f"{name}(unknown=1)", f"{name}.a()")
        yield from (f"{name}(*[1])", f"{name}(**{{}})", f"{name}({name}())", name)
        for literal in LITERALS:
            yield f"{name}({', '.join(f'{each}={literal}' for each in names)})"


async def _calls_are_answered(subject: _Subject) -> tuple[bool, str]:
    """Check that every hostile text gets an answer of a bounded length; a session may end."""
    count = 0
    for task in subject.tasks:
        body = tool_task(task)
        await subject.pool.reset("hostile", body)
        for text in replies(body):
            try:
                answer = await subject.pool.act("hostile", text)
            except SimulatorError as error:
                return False, f"{task.task_id}: {plain(text)}: ended the simulator: {error}"
            if len(answer.result) > MOST_ANSWER_CHARS:
                return False, f"{task.task_id}: {plain(text)}: {len(answer.result)} characters"
            if ending_of(answer):
                await subject.pool.reset("hostile", body)
            count += 1
        await subject.pool.release("hostile")
    return True, f"{count} calls, each answered"


async def _no_task_passes(subject: _Subject) -> tuple[bool, str]:
    """Check that hostile texts solve no task that an idle attempt does not solve."""
    for task in subject.tasks:
        body = tool_task(task)
        idle = await subject.pool.trial("idle", body, [() for _ in body.turns])
        await subject.pool.reset("hostile", body)
        await subject.attack(body)
        verdicts = [await subject.pool.grade("hostile") for _ in body.turns]
        await subject.pool.release("hostile")
        if _passes(verdicts) and not _passes([turn.verdict for turn in idle.turns]):
            return False, f"{task.task_id}: hostile calls pass it"
    return True, f"{len(subject.tasks)} tasks, none passed"


async def _sessions_stay_apart(subject: _Subject) -> tuple[bool, str]:
    """Check that a session beside a hostile one gets what it gets alone."""
    for task in subject.tasks:
        body = tool_task(task)
        alone = await subject.alone("alone", body)
        await subject.pool.reset("honest", body)
        await subject.pool.reset("hostile", body)
        await subject.attack(body)
        acts = [await subject.pool.act("honest", call) for call in body.turns[0].reference]
        await subject.attack(body)
        verdict = await subject.pool.grade("honest")
        state = await subject.pool.look("honest")
        for name in ("honest", "hostile"):
            await subject.pool.release(name)
        turn = alone.turns[0]
        if (tuple(acts), verdict, state) != (turn.observed, turn.verdict, turn.state):
            return False, f"{task.task_id}: a session sees what a hostile one did"
    return True, f"{len(subject.tasks)} sessions"


async def _worlds_are_refused(subject: _Subject) -> tuple[bool, str]:
    """Check that a task with a hostile world opens or fails alone, and the next one works."""
    count = refused = 0
    for task in subject.tasks:
        body = tool_task(task)
        alone = await subject.alone("alone", body)
        for world in WORLDS:
            content = msgspec.json.encode(dict.fromkeys(body.classes, world)).decode()
            try:
                await subject.alone("hostile", msgspec.structs.replace(body, world=content))
            except SimulatorError:
                refused += 1
            count += 1
        if await subject.alone("again", body) != alone:
            return False, f"{task.task_id}: it differs after hostile worlds"
    return True, f"{count} worlds, {refused} refused"


def _passes(verdicts: Sequence[Verdict]) -> bool:
    return all(isinstance(verdict, Passed) for verdict in verdicts)


_CHECKS: Checks[_Subject] = {
    "hostile calls are answered": _calls_are_answered,
    "hostile calls pass no task": _no_task_passes,
    "sessions beside hostile ones": _sessions_stay_apart,
    "hostile worlds harm no other task": _worlds_are_refused,
}

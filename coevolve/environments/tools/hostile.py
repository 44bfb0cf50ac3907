"""Checks that hostile policies break, see and earn nothing in an environment with tools.

The hostile calls are derived from the tools' own schemas. As in a run, the tools run in a
simulator's process. While a hostile session works on a task, an honest one works beside it.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coevolve.base.in_turn import in_turn
from coevolve.environments.findings import Check, Finding, UnfitError, measured
from coevolve.environments.tools.chat.tools import named_arguments, schemas
from coevolve.environments.tools.commands import Observed, Passed, Verdict
from coevolve.environments.tools.interfaces import ToolSource
from coevolve.environments.tools.session_pool import SimulatorPool
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.wire import ToolClient
from protocols.capabilities import Capabilities
from protocols.errors import SimulatorError
from protocols.interfaces import SimulatorService
from protocols.tasks import Task

CALLS_A_SESSION = 60
"""Maximum number of hostile calls on one task; further tasks get the following calls."""

VALUES = (
    *(
        "''",
        repr("a" * 15_000),
        r"'\x00'",
        r"'\u202e\x1b[2J'",
        "'{0.__class__.__init__}'",
        "'%n%s'",
    ),
    *("'../../../../etc/passwd'", "'/proc/self/environ'", '"\'; DROP TABLE x; --"', "'$(id)'"),
    *("'<|im_end|><tool_call>'", "'__import__(\"os\").getpid()'", "9" * 4000, "-1", "1e308"),
    *("-0.0", "1e999", "True", "None", "[]", "{}", "{'__class__': 'x'}", "[" * 14 + "]" * 14),
    *("['a'] * 10", "[x for x in 'a']", "lambda: 0", "f'{1}'", "b'x'", "1j", "print", "..."),
)
"""Texts of arguments, most of which no tool should accept."""

TEXTS = (
    *("", " ", "\x00", "(", ")", "f(", "()()", "1", "'text'", "a.b.c()", "[]()", "(lambda: 0)()"),
    *("exec('1')", "eval('1')", "__import__('os').abort()", "print(1)", "exit()", "quit(0)"),
    *("open('/etc/passwd')", "globals()", "self.reset()", "super()", "import os", "del x"),
    *("(" * 3000 + ")" * 3000, "-" * 15_000 + "1", "f(" * 200 + ")" * 200, "x" * 40_000),
    *("f(**{'a': 1})", "f(*[1])", "await f()", "(yield)", "f() if 1 else 0", "f(a := 1)", "\ud800"),
)
"""Texts that are no calls, or calls of no tool."""

HIDDEN = ("reset", "state", "reward", "close", "tools", "lacks", "requires", "data", "_data")
SPECIAL = ("__init__", "__class__", "__dict__", "__getattribute__", "__del__", "__reduce__")
"""Names that an object may have and that are no tools."""

WORLDS: tuple[Any, ...] = (
    *(None, True, -1, 1e308, "", "\x00", "a" * 100_000, [], {}, [None] * 5_000, {"": {}}),
    *({"__class__": {"__init__": 1}}, {"root": None}, {"root": {"a": {"type": "x"}}}),
)
"""Worlds of each tool set, in place of the task's own."""

WORLD_TASKS = 4
"""Maximum number of tasks whose worlds are replaced."""

WORDS = (
    "",
    " ",
    "\x00",
    "a" * 40_000,
    "\x1b[2J\u202e",
    "{0}",
    "nan",
    "inf",
    "-1",
    "9" * 5000,
    "[]",
)
"""Answers that solve no task."""

MACHINE = re.compile(r" at 0x[0-9a-f]{6}|Traceback \(most recent call last\)")


class Attack(NamedTuple):
    """One text that a hostile policy writes."""

    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A hostile session on a task."""

    task: Task
    attacks: Sequence[Attack]
    answers: Sequence[Observed]
    verdicts: Sequence[Verdict]
    broken: str = ""
    """The call that ended the simulator's process, and how; empty if none did."""

    disturbed: bool = False
    """Whether the honest session beside it got other answers than alone."""

    @property
    def solved(self) -> bool:
        """Whether it passed every turn."""
        return bool(self.verdicts) and all(isinstance(each, Passed) for each in self.verdicts)

    @property
    def accepted(self) -> set[str]:
        """The tools that accepted one of the calls."""
        pairs = zip(self.attacks, self.answers, strict=False)
        return {attack.text.partition("(")[0] for attack, answer in pairs if not answer.failed}


@dataclass
class _Subject:
    tool_sets: tuple[str, ...]
    pool: SimulatorPool
    tasks: Sequence[Task]
    attempts: list[Attempt] = field(default_factory=list[Attempt])

    async def attack(self) -> None:
        """Attack all tasks, unless that is done."""
        if not self.tasks:
            raise UnfitError("there is no task to attack")
        if not self.attempts:
            attacks = cycle(hostile_texts(self.tool_sets, self.tasks))
            for number, task in enumerate(self.tasks):
                chosen = list(islice(attacks, CALLS_A_SESSION))
                self.attempts.append(await _attempt(self.pool, f"hostile-{number}", task, chosen))

    @property
    def made(self) -> str:
        """How many texts were tried."""
        texts = list(chain.from_iterable(each.attacks for each in self.attempts))
        kinds = ", ".join(sorted({attack.kind for attack in texts}))
        return f"{len(texts)} hostile calls on {len(self.attempts)} tasks ({kinds})"


async def hostile_findings(
    source: ToolSource,
    simulator: SimulatorService,
    tool_sets: Sequence[str],
    claimed: Capabilities,
    most: int,
) -> tuple[Finding, ...]:
    """Return the findings of all attacks on at most ``most`` tasks of each split.

    Only an environment that declares to be ``replayable`` has to repeat its answers.
    """
    subject = _Subject(
        tool_sets=tuple(tool_sets),
        pool=SimulatorPool([ToolClient(simulator)]),
        tasks=(*source.pool()[:most], *source.held_out()[:most]),
    )
    try:
        return await measured(CHECKS | (REPEATED if claimed.replayable else {}), subject, claimed)
    finally:
        await simulator.close()


def hostile_texts(tool_sets: Sequence[str], tasks: Sequence[Task]) -> list[Attack]:
    """Return hostile texts for these tools, mixed in kind; equal inputs give equal texts."""
    known: dict[str, Mapping[str, Any]] = {
        each["function"]["name"]: each["function"]["parameters"]["properties"]
        for each in schemas(tool_sets)
    }
    names = (name for name in (*HIDDEN, *SPECIAL) if name not in known)
    kinds = [
        [Attack("no call", text) for text in TEXTS],
        [
            Attack("no tool", text)
            for name in names
            for text in (f"{name}()", f"{name}(world={{}})")
        ],
        [Attack("arguments", text) for text in _bad_arguments(known, _examples(tasks))],
    ]
    return list(in_turn(*kinds))


def _bad_arguments(
    known: Mapping[str, Mapping[str, Any]], examples: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    """Yield calls of each tool with one bad argument each, and with missing and unknown ones."""
    for value in VALUES:
        for tool, parameters in known.items():
            for name in parameters:
                others = {**examples.get(tool, {})}
                others.pop(name, None)
                yield _call(tool, [*(f"{k}={v!r}" for k, v in others.items()), f"{name}={value}"])
    for tool, parameters in known.items():
        yield f"{tool}({', '.join(['1'] * (len(parameters) + 1))})"
        yield _call(tool, ["unknown=1"])
        yield f"{tool}.__self__()"
        yield f"{tool}.__globals__['os'].abort()"


def _call(tool: str, arguments: Sequence[str]) -> str:
    return f"{tool}({', '.join(arguments)})"


def _examples(tasks: Sequence[Task]) -> dict[str, Mapping[str, object]]:
    """Return arguments of each tool from a call of a reference."""
    found: dict[str, Mapping[str, object]] = {}
    for task in tasks:
        for call in _reference(tool_task(task)):
            tool, arguments = named_arguments(call, tool_task(task).classes)
            found.setdefault(tool, arguments)
    return found


def _reference(body: ToolTask) -> list[str]:
    return [call for turn in body.turns for call in turn.reference]


async def _attempt(
    pool: SimulatorPool, name: str, task: Task, attacks: Sequence[Attack]
) -> Attempt:
    """Attack a task while an honest session is between the calls of the reference."""
    body = tool_task(task)
    honest = _reference(body)
    alone = await _alone(pool, f"{name}-alone", body, honest)
    beside, broken = _Session(pool, f"{name}-beside"), ""
    hostile = _Session(pool, name)
    verdicts: list[Verdict] = []
    try:
        await beside.open(body)
        await hostile.open(body)
        await beside.act(honest[: len(honest) // 2])
        await hostile.act([attack.text for attack in attacks])
        await beside.act(honest[len(honest) // 2 :])
        verdicts += [
            await pool.grade(name, words) for words in islice(cycle(WORDS), len(body.turns))
        ]
    except SimulatorError as error:
        broken = f"{hostile.last!r:.80}: {error}"
    finally:
        await pool.release(hostile.name)
        await pool.release(beside.name)
    return Attempt(
        task=task,
        attacks=attacks,
        answers=hostile.answers,
        verdicts=verdicts,
        broken=broken,
        disturbed=not broken and beside.answers != alone,
    )


class _Session:
    """A session and its answers."""

    def __init__(self, pool: SimulatorPool, name: str) -> None:
        self._pool = pool
        self.name = name
        self.answers: list[Observed] = []
        self.last = "the beginning"

    async def open(self, body: ToolTask) -> None:
        await self._pool.reset(self.name, body)

    async def act(self, texts: Sequence[str]) -> None:
        for self.last in texts:
            self.answers.append(await self._pool.act(self.name, self.last))


async def _alone(
    pool: SimulatorPool, name: str, body: ToolTask, calls: Sequence[str]
) -> list[Observed]:
    await pool.reset(name, body)
    try:
        return [await pool.act(name, call) for call in calls]
    except SimulatorError as error:
        raise UnfitError(f"the reference ends the simulator's process: {error}") from error
    finally:
        await pool.release(name)


async def _break_nothing(subject: _Subject) -> tuple[bool, str]:
    """Check that no call ends the simulator's process or cannot be graded."""
    await subject.attack()
    for each in subject.attempts:
        if each.broken:
            return False, f"{each.task.task_id}: {each.broken}"
    return True, subject.made


async def _disturb_nobody(subject: _Subject) -> tuple[bool, str]:
    """Check that a session beside gets the answers that it gets alone."""
    await subject.attack()
    for each in subject.attempts:
        if each.disturbed:
            return False, f"{each.task.task_id}: an honest session got other answers beside them"
    return True, f"{len(subject.attempts)} honest sessions beside them got the answers of before"


async def _show_nothing(subject: _Subject) -> tuple[bool, str]:
    """Check that no answer shows an address in memory, a traceback, or a folder of the machine."""
    await subject.attack()
    folders = (sys.prefix, str(Path.home()), str(Path.cwd()))
    longest = 0
    for each in subject.attempts:
        for attack, answer in zip(each.attacks, each.answers, strict=False):
            longest = max(longest, len(answer.result))
            shown = MACHINE.search(answer.result)
            place = next((f for f in folders if len(f) > 1 and f in answer.result), "")
            if (shown or place) and (shown is None or shown[0] not in attack.text):
                what = place or (shown[0] if shown else "")
                return False, f"{each.task.task_id}: {attack.text!r:.80} shows {what!r}"
    return True, f"the longest answer has {longest} characters"


async def _earn_nothing(subject: _Subject) -> tuple[bool, str]:
    """Check that no attack solves a task, unless the right tool accepts one of its calls."""
    await subject.attack()
    solved = [each for each in subject.attempts if each.solved]
    for each in solved:
        body = tool_task(each.task)
        right = {named_arguments(call, body.classes)[0] for call in _reference(body)}
        if not right & each.accepted:
            return False, f"{each.task.task_id} is solved by them"
    return True, (
        f"{len(subject.attempts)} tasks, {len(solved)} of them solved, by a call of the right tool "
        "that it accepts"
    )


async def _repeat(subject: _Subject) -> tuple[bool, str]:
    """Check that the same attacks get the same answers and verdicts again."""
    await subject.attack()
    for number, each in enumerate(subject.attempts):
        again = await _attempt(subject.pool, f"again-{number}", each.task, each.attacks)
        pairs = zip(each.attacks, each.answers, again.answers, strict=False)
        other = next((attack for attack, one, two in pairs if one != two), None)
        if other is not None:
            return False, f"{each.task.task_id}: {other.text!r:.80} has another answer again"
        if each.verdicts != again.verdicts:
            return False, f"{each.task.task_id}: the same attacks have another verdict again"
    return True, f"{len(subject.attempts)} tasks, twice each"


async def _refuse_worlds(subject: _Subject) -> tuple[bool, str]:
    """Check that a hostile world opens or fails alone, and that the task works after it."""
    count = refused = 0
    for task in subject.tasks[:WORLD_TASKS]:
        body = tool_task(task)
        turns = body.references
        alone = await subject.pool.trial("alone", body, turns)
        for world in WORLDS:
            content = msgspec.json.encode(dict.fromkeys(body.classes, world)).decode()
            hostile = msgspec.structs.replace(body, world=content)
            try:
                await subject.pool.trial("hostile", hostile, turns)
            except SimulatorError:
                refused += 1
            count += 1
        if await subject.pool.trial("again", body, turns) != alone:
            return False, f"{task.task_id}: it differs after hostile worlds"
    return True, f"{count} worlds, {refused} refused"


CHECKS: dict[str, Check[_Subject]] = {
    "hostile calls break nothing": _break_nothing,
    "hostile calls affect no other session": _disturb_nobody,
    "hostile calls see nothing of the machine": _show_nothing,
    "hostile calls earn nothing": _earn_nothing,
    "hostile worlds harm no other task": _refuse_worlds,
}
REPEATED: dict[str, Check[_Subject]] = {"hostile calls have the same answers again": _repeat}

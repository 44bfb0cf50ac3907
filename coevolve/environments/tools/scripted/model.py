"""Answers the questions of synthesis, reading and judging by script, for any class of tools.

It stands in for a model, so that somebody can try the loop without one. All that it knows are the
training tasks: it carries out their turns with other values, words what worked like them, and reads
an instruction by inverting these words (`tools.scripted.templates`). It never sees a held-out task,
and it invents no new kind of task.

An answer follows from the question; a question that is asked again, from how often, so that
explorations of one prompt differ.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from coevolve.environments.tools.gates.control import FOLLOWS
from coevolve.environments.tools.gates.reading import tools_of
from coevolve.environments.tools.scripted.templates import Example, learned, normal
from coevolve.environments.tools.scripted.values import Values, World, world_of
from coevolve.environments.tools.synthesis import prompts
from coevolve.environments.tools.synthesis.answers import MAX_TASKS
from coevolve.environments.tools.synthesis.prompt_parts import REFLECT
from coevolve.environments.tools.task import ToolTask
from protocols.errors import ConfigError

NAME = "scripted"
"""Its name as a model, in requests and in what a run records."""

PLANS = 3
"""Tasks that one exploration carries out."""

EMPTY = ("", "[]", "{}", "null", "None")
"""Answers that show nothing."""

_DATA = re.compile(r"<data (\w+)>\n(.*?)\n</data \1>", re.DOTALL)
_TURN = re.compile(r"^turn (\d+): ", re.MULTILINE)
_OPTION = re.compile(r"^Option \d+:\n", re.MULTILINE)
_PLAN = re.compile(r"as task (\d+), try (\d+), call (\d+)")
_ORDER = re.compile(rf"Make (?:exactly these calls: (.*)|no call)\. {FOLLOWS}.*", re.DOTALL)

_NOTHING = {"content": ""}

Chat = Sequence[Mapping[str, str]]
"""Messages with a role and a content."""


class _Source(NamedTuple):
    """What is known of a training task."""

    examples: Sequence[Example]
    world: World
    text: str
    """The world as it was written."""


class ScriptedModel:
    """Answers from training tasks alone."""

    def __init__(self, bodies: Sequence[ToolTask]) -> None:
        """Learn from training tasks. Raises ConfigError if none of them has a template."""
        known = learned(bodies)
        worlds = [world_of(body) for body in bodies]
        self._values = Values(worlds, known)
        self._sources = [
            _Source(examples, world, body.world)
            for examples, world, body in zip(known, worlds, bodies, strict=True)
            if any(each.template.slots for each in examples)
        ]
        if not self._sources:
            raise ConfigError(
                "environment.tasks: the scripted model needs training tasks whose instructions "
                "say values of their calls, as 'Set the price of product 2 to 40' says 2 and 40; "
                f"found none in {len(bodies)}; ask a real model"
            )
        self.templates = tuple(
            dict.fromkeys(each.template for source in self._sources for each in source.examples)
        )
        self._tools = tools_of(bodies[0].classes)
        self._most_turns = max(2, *(len(body.turns) for body in bodies))
        self._asked = Counter[str]()

    def answer(self, messages: Chat) -> str:
        """Return the answer to a chat, a JSON object; an empty one to any other question."""
        system, asked = (each["content"] for each in (*messages, _NOTHING, _NOTHING)[:2])
        answers = {
            REFLECT: self._reflection,
            prompts.ABSTRACT: self._tasks,
            prompts.JUDGE: self._judgement,
            prompts.CONTRAST: self._pick,
            prompts.REBUILD: self._rebuilt,
        }
        if system.startswith(prompts.EXPLORE.partition("{")[0]):
            return json.dumps(self._move(messages))
        found = answers.get(system)
        return json.dumps(found(asked) if found else {}, ensure_ascii=False)

    def _reflection(self, asked: str) -> Mapping[str, Any]:
        """Name the tools of what is flagged."""
        flagged = "\n".join(_data(asked.partition("\nAttempt 1 (")[0]))
        read = self._read(_turns(flagged)) or ()
        tools = [call.partition("(")[0] for calls in read for call in calls]
        tools += [tool for tool in self._tools if re.search(rf"\b{re.escape(tool)}\b", flagged)]
        return {
            "summary": "A script counted the tools that are named; it does not understand them.",
            "focus_pattern": list(dict.fromkeys(tools)),
        }

    def _move(self, messages: Chat) -> Mapping[str, Any]:
        """Go on with the plan if its last call worked, else begin another."""
        question = json.dumps(messages[1:])
        self._asked[question] += 1
        digest = hashlib.blake2b(question.encode(), digest_size=8).hexdigest()
        rng = Random(f"{digest}/{self._asked[question]}")  # noqa: S311, no secret
        steps = list(_steps(messages))
        if steps and not steps[-1].failed:
            source, attempt, call = steps[-1].plan
            calls = self._plan(source, attempt)
            if call + 1 < len(calls):
                return _call(source, attempt, call + 1, calls)
            if sum(not each.failed and each.plan[2] == 0 for each in steps) >= PLANS:
                return {"reason": "enough for some tasks", "done": True}
        source = self._next(messages[1]["content"], steps, rng)
        attempt = rng.randrange(10**6)
        return _call(source, attempt, 0, self._plan(source, attempt))

    def _plan(self, source: int, attempt: int) -> tuple[str, ...]:
        """Return the calls of a training task with other values."""
        examples, world, _ = self._sources[source]
        rng = Random(attempt)  # noqa: S311, no secret
        values = self._values.others(examples, world, rng)
        made = (each.template.made(new) for each, new in zip(examples, values, strict=True))
        return tuple(call for calls in made for call in calls)

    def _next(self, asked: str, steps: Sequence["_Step"], rng: Random) -> int:
        """Return a task to follow: of a world in which calls work, and with tools in focus."""
        works = {self._sources[each.plan[0]].text for each in steps if not each.failed}
        fails = {self._sources[each.plan[0]].text for each in steps if each.failed}
        focus = set(re.findall(r"^explore: (\w+)$", asked, re.MULTILINE))
        done = {each.plan[0] for each in steps}
        weights = [
            (8 if source.text in works else 1)
            * (0.05 if source.text in fails - works else 1)
            * (
                8
                if focus & {tool for each in source.examples for tool in each.template.tools}
                else 1
            )
            * (0.2 if number in done else 1)
            for number, source in enumerate(self._sources)
        ]
        return rng.choices(range(len(self._sources)), weights)[0]

    def _tasks(self, asked: str) -> Mapping[str, Any]:
        """Word each turn that worked as a task, and join the first ones to one more."""
        turns = list(self._worded(list(_worked(asked))))
        unlike = list({turn["instruction"]: turn for turn in turns}.values())
        tasks = [[turn] for turn in unlike[: MAX_TASKS - 1]]
        if len(unlike) > 1:
            tasks.append(unlike[: self._most_turns])
        return {"tasks": [{"description": "by script", "turns": each} for each in tasks]}

    def _worded(self, calls: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield turns for calls in order, the longest that a template covers at each place."""
        place = 0
        while place < len(calls):
            found = list(self._wordings(calls[place:]))
            length = max((length for length, _ in found), default=0)
            made = calls[place : place + length]
            said = sorted({said for many, said in found if many == length})
            if said:
                digest = "\n".join(calls)
                chosen = Random(f"{digest}/{place}").choice(said)  # noqa: S311, no secret
                yield {"instruction": chosen, "calls": list(made)}
            place += max(1, length)

    def _wordings(self, calls: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Yield how many of the next calls a template covers, and its words for them."""
        for template in self.templates:
            values = template.values_called(calls[: len(template.calls)])
            if values is not None and self._read((said := template.said(values),)) is not None:
                yield len(template.calls), said

    def _judgement(self, asked: str) -> Mapping[str, Any]:
        """Say whether the calls are those that the instructions ask for."""
        said = [turn.split('\n{"call": ')[0] for turn in _turns(_data(asked)[-1])]
        calls = [
            tuple(json.loads(line)["call"] for line in turn.splitlines() if line.startswith("{"))
            for turn in _turns(_data(asked)[-1])
        ]
        fits = self._read(said) == tuple(map(self._normal, calls))
        return {"reason": "by script: the words, inverted", "success": fits}

    def _pick(self, asked: str) -> Mapping[str, Any]:
        *_, instructions, offered = _data(asked)
        wanted = self._read(_turns(instructions))
        options = [
            tuple(self._normal(_split(turn)) for turn in _turns(option))
            for option in _OPTION.split(offered)[1:]
        ]
        picks = [number for number, each in enumerate(options, 1) if each == wanted]
        return {"reason": "by script: the words, inverted", "picks": picks}

    def _rebuilt(self, asked: str) -> Mapping[str, Any]:
        _, instructions = _data(asked.partition("\n\nWhat your calls so far answer:")[0])[:2]
        turns = _turns(instructions)
        read = self._read(turns) or ((),) * len(turns)
        return {"reason": "by script: the words, inverted", "calls_by_turn": read, "finished": True}

    def _read(self, instructions: Sequence[str]) -> tuple[tuple[str, ...], ...] | None:
        """Return the calls that instructions ask for; None if one has unknown or two meanings."""
        found: list[tuple[str, ...]] = []
        for text in instructions:
            if order := _ORDER.fullmatch(text):
                found.append(self._normal(_split(order[1] or "")))
                continue
            meant = {
                template.made(values)
                for template in self.templates
                if (values := template.values_said(text)) is not None
            }
            if len(meant) != 1:
                return None
            found.append(meant.pop())
        return tuple(found)

    def _normal(self, calls: Iterable[str]) -> tuple[str, ...]:
        try:
            return normal(calls, self._tools)
        except ValueError:
            return tuple(calls)


class _Step(NamedTuple):
    """A call of an exploration so far."""

    plan: tuple[int, int, int]
    """Number of the task, of the attempt at it, and of the call in it."""

    failed: bool


def _steps(messages: Chat) -> Iterator[_Step]:
    for said, seen in zip(messages[2::2], messages[3::2], strict=False):
        if plan := _PLAN.search(said["content"]):
            numbers = (int(plan[1]), int(plan[2]), int(plan[3]) - 1)
            yield _Step(numbers, seen["content"].startswith("The call failed"))


def _call(source: int, attempt: int, number: int, calls: Sequence[str]) -> Mapping[str, Any]:
    reason = f"as task {source}, try {attempt}, call {number + 1} of {len(calls)}"
    return {"reason": reason, "action": calls[number]}


def _worked(asked: str) -> Iterator[str]:
    """Yield the calls of an exploration that worked and answered something."""
    for line in _data(asked)[-1].splitlines():
        step: dict[str, Any] = json.loads(line) if line.startswith("{") else {"failed": True}
        if not step["failed"] and step["result"] not in EMPTY:
            yield step["call"]


def _data(text: str) -> list[str]:
    """Return the marked texts of a prompt."""
    return [found[2] for found in _DATA.finditer(text)]


def _turns(text: str) -> list[str]:
    """Return the texts after ``turn N:``, in order."""
    return [each.strip() for each in _TURN.split(text)[2::2]]


def _split(calls: str) -> list[str]:
    """Return the calls that are written in a row."""
    return [each for each in re.split(r"; (?=\w+\()", calls.strip()) if each]

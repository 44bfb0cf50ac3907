"""Whether the verdicts on appworld's own templates hold.

``python -m tests.bench appworld-templates --edits 200`` takes half an hour of CPU. For each
template, three variants of a task: the reference passes and ends twice in the same state, doing
nothing fails, and five spoilt references fail. Then the API calls of the reference that change
something are edited at random: one or two of them are dropped, repeated, exchanged, given another
argument (a changed one, or that of a call of another variant) or one more argument, or a call of
another variant is added. After each edit, the verdict of the engine's own
evaluator has to be that of the end state. A line for each template; the exit status is 1 if any of
this does not hold.
"""

import argparse
import contextlib
import copy
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from coevolve.environments.appworld.engines import Engine, World
from coevolve.environments.appworld.frames import Answered, Called, Refused
from coevolve.environments.appworld.interpreter import Interpreter
from coevolve.environments.appworld.mutants import mutants_of
from coevolve.environments.appworld.own import own_data, task_ids, template_names
from coevolve.environments.appworld.session import interpreter_settings, readable_folders
from coevolve.environments.sandbox.runner import Sandbox

IDLE = ("apis.supervisor.complete_task()",)
ENOUGH, MUTANTS = 5, 24
"""Spoilt references that have to fail, and the most that are tried."""

LOGIN = "login"
Call = dict[str, Any]
"""``app``, ``api`` and ``arguments``."""

Api = tuple[str, str]
"""Of an app."""

End = tuple[bool, bool, Mapping[str, str]]
"""Whether the task was completed, the evaluator's verdict, and the end state."""


@dataclass(frozen=True)
class Bench:
    """The processes that carry tasks out."""

    engine: Engine
    sandbox: Sandbox
    writing: Mapping[Api, Mapping[str, Any]]
    """The calls that change something, and the optional arguments of each, with defaults."""

    def played(self, task: str, blocks: Sequence[str]) -> tuple[End, list[Call]]:
        """Return the end of blocks of code, and the calls that change something."""
        world = self.engine.open(task)
        settings = interpreter_settings(world.opened, block_s=100.0, memory_mb=1024)
        interpreter = Interpreter(self.sandbox, settings)
        calls: list[Call] = []

        def answer(call: Called) -> Answered | Refused:
            if (call.app, call.api) in self.writing:
                arguments = msgspec.json.decode(call.arguments)
                calls.append({"app": call.app, "api": call.api, "arguments": arguments})
            return world.call(call)

        try:
            for block in blocks:
                interpreter.run(block, answer)
            return _end(world), calls
        finally:
            interpreter.close()
            world.close()

    def called(self, task: str, calls: Sequence[Call]) -> End:
        """Return the end of calls without an interpreter."""
        with contextlib.closing(self.engine.open(task)) as world:
            for each in calls:
                world.call(
                    Called(
                        turn=1,
                        app=each["app"],
                        api=each["api"],
                        arguments=msgspec.Raw(msgspec.json.encode(each["arguments"])),
                    )
                )
            return _end(world)


def main(arguments: list[str]) -> int:
    """Check the templates and print a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench appworld-templates", description=__doc__
    )
    parser.add_argument("--edits", type=int, default=200, help="of each template")
    parser.add_argument("--templates", nargs="*", default=[], metavar="NAME")
    given = parser.parse_args(arguments)
    data = own_data(0)
    failures = 0
    with contextlib.closing(Engine(data)) as engine:
        bench = Bench(engine, Sandbox(readable_folders()), _writing(data))
        for name in given.templates or template_names(data):
            started = time.monotonic()
            found = list(checked(bench, data, name, given.edits))
            failures += len(found)
            told = "; ".join(found) or "all holds"
            sys.stdout.write(f"{name}: {told} ({time.monotonic() - started:.0f} s)\n")
            sys.stdout.flush()
    return min(1, failures)


def checked(bench: Bench, data: Path, template: str, edits: int) -> Iterator[str]:
    """Yield what does not hold for a template, of whose variants ``edits`` edits are tried."""
    variants = task_ids((template,), 1)
    bench.engine.make(variants)
    references = [
        json.loads((data / "tasks" / each / "reference.json").read_text()) for each in variants
    ]
    found = [bench.played(*each) for each in zip(variants, references, strict=True)]
    others = [call for _, calls in found for call in calls if call["api"] != LOGIN]
    for number, (task, blocks, (end, calls)) in enumerate(
        zip(variants, references, found, strict=True)
    ):
        expected = end[2]
        if end[:2] != (True, True):
            yield f"{task}: the reference fails"
        if bench.called(task, calls) != end:
            yield f"{task}: the reference's calls end in another state the second time"
        _, success, state = bench.played(task, IDLE)[0]
        if success or state == expected:
            yield f"{task}: doing nothing passes"
        yield from _spoilt(bench, task, blocks, expected)
        share = edits // len(variants) + (number < edits % len(variants))
        yield from _edited(bench, task, calls, others, expected, share)


def _spoilt(
    bench: Bench, task: str, blocks: Sequence[str], expected: Mapping[str, str]
) -> Iterator[str]:
    failed = 0
    for mutant in mutants_of(blocks, random.Random(task), MUTANTS):
        end = bench.played(task, mutant.blocks)[0]
        failed += not _passes(end, expected)
        if disagreement := _disagreement(end, expected):
            yield f"{task}: {disagreement} on {mutant.blocks}"
        if failed == ENOUGH:
            return
    yield f"{task}: only {failed} spoilt references fail"


def _edited(
    bench: Bench,
    task: str,
    calls: Sequence[Call],
    others: Sequence[Call],
    expected: Mapping[str, str],
    edits: int,
) -> Iterator[str]:
    rng = random.Random(f"edits {task}")
    edit = Edits(others, bench.writing, rng)
    for _ in range(edits):
        edited = list(copy.deepcopy(calls))
        for _ in range(rng.choice((1, 1, 2))):
            edit(edited)
        if disagreement := _disagreement(bench.called(task, edited), expected):
            yield f"{task}: {disagreement} on {_shown(edited)}"


@dataclass(frozen=True)
class Edits:
    """Random changes of sequences of calls."""

    others: Sequence[Call]
    """Calls of the template's variants that are not logins."""

    optional: Mapping[Api, Mapping[str, Any]]
    rng: random.Random

    def __call__(self, calls: list[Call]) -> None:
        """Change a sequence; calls that log in stay, so that the others take effect."""
        places = [number for number, each in enumerate(calls) if each["api"] != LOGIN]
        if places:
            self.rng.choice(
                (
                    self._drop,
                    self._repeat,
                    self._exchange,
                    self._argument,
                    self._argument,
                    self._option,
                    self._answer,
                    self._add,
                )
            )(calls, places)

    def _drop(self, calls: list[Call], places: Sequence[int]) -> None:
        del calls[self.rng.choice(places)]

    def _repeat(self, calls: list[Call], places: Sequence[int]) -> None:
        place = self.rng.choice(places)
        calls.insert(place, copy.deepcopy(calls[place]))

    def _exchange(self, calls: list[Call], places: Sequence[int]) -> None:
        place, other = self.rng.choice(places), self.rng.choice(places)
        calls[place], calls[other] = calls[other], calls[place]

    def _argument(self, calls: list[Call], places: Sequence[int]) -> None:
        """Change an argument, or take over that of another call."""
        call = calls[self.rng.choice(places)]
        names = [name for name in sorted(call["arguments"]) if name != "access_token"]
        if not names:
            return
        name = self.rng.choice(names)
        known = [
            each["arguments"][name]
            for each in self.others
            if each["app"] == call["app"] and name in each["arguments"]
        ]
        if known and self.rng.random() < 0.5:
            call["arguments"][name] = copy.deepcopy(self.rng.choice(known))
        else:
            call["arguments"][name] = _another(call["arguments"][name], self.rng)

    def _option(self, calls: list[Call], places: Sequence[int]) -> None:
        call = calls[self.rng.choice(places)]
        for name, default in self.optional[call["app"], call["api"]].items():
            if self.rng.random() < 0.5:
                call["arguments"][name] = _another(default, self.rng)

    def _answer(self, calls: list[Call], places: Sequence[int]) -> None:
        arguments = calls[places[-1]]["arguments"]
        arguments["answer"] = _another(arguments.get("answer"), self.rng)

    def _add(self, calls: list[Call], places: Sequence[int]) -> None:
        added = copy.deepcopy(self.rng.choice(self.others))
        tokens = {each["app"]: each["arguments"].get("access_token") for each in calls}
        if "access_token" in added["arguments"] and tokens.get(added["app"]):
            added["arguments"]["access_token"] = tokens[added["app"]]
        calls.insert(self.rng.choice(places), added)


def _another(value: Any, rng: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + rng.choice((-2, -1, 1, 2))
        case str():
            return rng.choice((f"{value}s", value[:-1], value.upper(), f"{value}  ", ""))
        case list():
            held: list[Any] = [*value]
            return held[:-1] if held and rng.random() < 0.5 else [*held, *held[:1]]
        case _:
            return rng.choice((1, "none", None))


def _disagreement(end: End, expected: Mapping[str, str]) -> str:
    by_state, by_evaluator = _passes(end, expected), end[0] and end[1]
    if by_state == by_evaluator:
        return ""
    return f"the evaluator says {by_evaluator}, the state {by_state}"


def _passes(end: End, expected: Mapping[str, str]) -> bool:
    return end[0] and end[2] == expected


def _end(world: World) -> End:
    return world.completed(), world.evaluated().success, dict(world.digests())


def _shown(calls: Sequence[Call]) -> str:
    shown = [
        (
            each["api"],
            {k: v for k, v in each["arguments"].items() if k not in ("access_token", "password")},
        )
        for each in calls
        if each["api"] != LOGIN
    ]
    return str(shown)[:600]


def _writing(data: Path) -> dict[Api, dict[str, Any]]:
    """Return the calls that are no reads, by the documents of the APIs."""
    found = dict[Api, dict[str, Any]]()
    for path in (data / "api_docs" / "standard").glob("*.json"):
        for api, document in json.loads(path.read_text()).items():
            if document["method"].upper() != "GET":
                found[path.stem, api] = {
                    each["name"]: each["default"]
                    for each in document["parameters"]
                    if not each["required"] and "token" not in each["name"]
                }
    return found

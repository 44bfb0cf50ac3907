"""Held-out requests of the file system in other words: thanked for, translated, renamed."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coevolve.environments.tools.filesystem.grammar import held_out_tasks, uniform_task
from coevolve.environments.tools.task import ToolTask, ToolTurn, tool_task
from protocols.tasks import Task

LANGUAGES: Mapping[str, Mapping[str, Any]] = msgspec.yaml.decode(
    Path(__file__).with_suffix(".yaml").read_bytes()
)
_QUOTED = re.compile(r"'([^']*)'")
_OTHERS = ("walnut", "cedar", "larch", "maple", "birch", "aspen", "hazel", "rowan")


class Again(NamedTuple):
    """A held-out request in other words, as a candidate of another world."""

    kind: str
    body: ToolTask


def asked_again() -> Iterator[Again]:
    """Yield 40 requests in each of five languages."""
    tasks = held_out_tasks(480)
    for number, language in enumerate(LANGUAGES):
        found = _in_language(language, [tasks[(number + 37 * each) % 480] for each in range(96)])
        yield from (next(found) for _ in range(40))


def _in_language(language: str, held_out: Sequence[Task]) -> Iterator[Again]:
    thanks = cycle(LANGUAGES[language]["thanks"])
    for number, task in enumerate(held_out):
        body = tool_task(task)
        if not all(_QUOTED.search(turn.instruction) for turn in body.turns):
            continue
        turns = [_said(turn, language, next(thanks)) for turn in body.turns]
        kind = language
        if len(turns) > 1 and number % 2:
            kind, turns = f"{language}, in one turn", [_joined(turns, language)]
        elif number % 3 == 0 and (language != "english" or _calls(turns) > 2):
            kind, turns = f"{language}, other names", _renamed(turns)
        world = tool_task(uniform_task(1, number)).world
        yield Again(kind, msgspec.structs.replace(body, world=world, turns=tuple(turns)))


def _calls(turns: Iterable[ToolTurn]) -> int:
    return sum(len(turn.reference) for turn in turns)


def _said(turn: ToolTurn, language: str, thanks: str) -> ToolTurn:
    text = turn.instruction
    if language != "english":
        tools = " ".join(call.partition("(")[0] for call in turn.reference)
        text = LANGUAGES[language][tools].format(*_QUOTED.findall(text), "", "")
    return ToolTurn(instruction=thanks.format(text), reference=turn.reference)


def _joined(turns: list[ToolTurn], language: str) -> ToolTurn:
    texts = LANGUAGES[language]["order"].join(turn.instruction for turn in turns)
    return ToolTurn(instruction=texts, reference=tuple(c for turn in turns for c in turn.reference))


def _renamed(turns: list[ToolTurn]) -> list[ToolTurn]:
    names = {name for turn in turns for name in _QUOTED.findall(turn.instruction)}
    others = dict(zip(sorted(names), _OTHERS, strict=False))

    def renamed(text: str) -> str:
        return _QUOTED.sub(lambda found: f"'{others.get(found[1], found[1])}'", text)

    return [
        ToolTurn(
            instruction=renamed(turn.instruction), reference=tuple(map(renamed, turn.reference))
        )
        for turn in turns
    ]

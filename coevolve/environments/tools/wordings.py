"""The wordings of a task's instructions, and the tools that its reference calls for each."""

import re
from collections.abc import Iterable

from coevolve.environments.tools.gates.reading import leaves, read_call, tools_of
from coevolve.environments.tools.gates.wording import QUOTED
from coevolve.environments.tools.task import ToolTask, asked_in
from coevolve.validation.wordings import Wording

SLOT = "#"
"""Stands for a value."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def wordings_of(body: ToolTask) -> tuple[Wording, ...]:
    """Return a wording for every turn with calls; the calls must be readable.

    Values are what is in quotation marks, numbers, and whatever a call so far takes. The meaning is
    the tools in the order of their first calls: how often each is called depends on the world.
    """
    tools = tools_of(body.classes)
    values: set[str] = set()
    found: list[Wording] = []
    for number, turn in enumerate(body.turns):
        calls = [read_call(text, tools) for text in turn.reference]
        values.update(
            str(value)
            for call in calls
            for argument in call.arguments
            for value in leaves(argument.value)
        )
        if calls:
            meaning = ", then ".join(dict.fromkeys(call.tool for call in calls))
            found.append(Wording(_without(values, asked_in(body, number)), meaning, number))
    return tuple(found)


def _without(values: Iterable[str], instruction: str) -> str:
    """Return an instruction with slots for its values; single characters are no values."""
    text = QUOTED.sub(SLOT, instruction)
    for value in sorted(values, key=lambda value: (-len(value), value)):
        if len(value) > 1:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", SLOT, text)
    return " ".join(_NUMBER.sub(SLOT, text).lower().split())

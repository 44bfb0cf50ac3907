"""Parses a reference's calls into tools, parameters and values."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, cast

from coevolve.environments.tools.calls import parse_call
from coevolve.environments.tools.toolset import ToolDocument
from coevolve.environments.tools.toolsets import tool_documents


class Argument(NamedTuple):
    """One argument of a call."""

    name: str
    """The parameter's name; its position as digits if the tool documents no parameter there."""

    value: object


class ReadCall(NamedTuple):
    """A call in a normal form: equal calls have equal forms."""

    tool: str
    arguments: tuple[Argument, ...]

    def text(self) -> str:
        """Return the call as a Python expression, with parameters named where possible."""
        return f"{self.tool}({', '.join(map(_argument_text, self.arguments))})"

    def with_value(self, position: int, value: object) -> "ReadCall":
        """Return the call with another value of one argument."""
        arguments = list(self.arguments)
        arguments[position] = Argument(arguments[position].name, value)
        return ReadCall(self.tool, tuple(arguments))


Read = Sequence[Sequence[ReadCall]]
"""The calls of a reference by turn."""


class _AnyTool:
    """A container of every name, because another gate checks whether a tool is known."""

    def __contains__(self, name: object) -> bool:
        return True


@cache
def tools_of(classes: tuple[str, ...]) -> Mapping[str, ToolDocument]:
    """Return the documentation of every tool of these simulator classes, by name."""
    return {document.name: document for name in classes for document in tool_documents(name)}


def read_call(text: str, tools: Mapping[str, ToolDocument]) -> ReadCall:
    """Return the call in ``text``, of a known or an unknown tool.

    Raises:
        NotACallError: It is not a call expression.
        RefusedCallError: Its arguments are not literals.
    """
    call = parse_call(text, _AnyTool())
    names = tuple(tools[call.tool].parameters["properties"]) if call.tool in tools else ()
    by_position = (
        Argument(names[position] if position < len(names) else str(position), value)
        for position, value in enumerate(call.positional)
    )
    by_name = sorted(Argument(name, value) for name, value in call.named.items())
    return ReadCall(call.tool, (*by_position, *by_name))


def written(read: Read) -> tuple[tuple[str, ...], ...]:
    """Return the calls in their normal form."""
    return tuple(tuple(call.text() for call in calls) for calls in read)


def leaves(value: object) -> Iterator[str | int | float | bool | None]:
    """Yield the plain values in an argument, without the keys of dicts."""
    match value:
        case list() | tuple():
            for item in cast("Sequence[object]", value):
                yield from leaves(item)
        case dict():
            yield from leaves(list(cast("dict[object, object]", value).values()))
        case _:
            yield cast("str | int | float | bool | None", value)


def _argument_text(argument: Argument) -> str:
    if argument.name.isdigit():
        return repr(argument.value)
    return f"{argument.name}={argument.value!r}"

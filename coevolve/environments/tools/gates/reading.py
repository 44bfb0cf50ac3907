"""Reads a reference's calls: which tool, which parameters, which values."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, cast

from coevolve.environments.tools.calls import parse_call
from coevolve.environments.tools.toolsets import ToolDocument, tool_documents


class Argument(NamedTuple):
    """One value that a call is made with."""

    name: str
    """The parameter's; its position as digits where the tool documents none there."""

    value: object


class ReadCall(NamedTuple):
    """A call, written in the one way in which equal calls are written alike."""

    tool: str
    arguments: tuple[Argument, ...]

    def text(self) -> str:
        """Return the call as a Python expression, parameters named where that is possible."""
        return f"{self.tool}({', '.join(map(_written, self.arguments))})"


class _AnyTool:
    """A container of every name: whether a tool is known is asked separately."""

    def __contains__(self, name: object) -> bool:
        return True


@cache
def tools_of(classes: tuple[str, ...]) -> Mapping[str, ToolDocument]:
    """Return the documentation of every tool of these simulator classes, by name."""
    return {document.name: document for name in classes for document in tool_documents(name)}


def read_call(text: str, tools: Mapping[str, ToolDocument]) -> ReadCall:
    """Return the call in ``text``, of a known tool or of an unknown one.

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


def leaves(value: object) -> Iterator[str | int | float | bool | None]:
    """Yield the plain values in an argument; the keys of a dict are none."""
    match value:
        case list() | tuple():
            for item in cast("Sequence[object]", value):
                yield from leaves(item)
        case dict():
            yield from leaves(list(cast("dict[object, object]", value).values()))
        case _:
            yield cast("str | int | float | bool | None", value)


def _written(argument: Argument) -> str:
    if argument.name.isdigit():
        return repr(argument.value)
    return f"{argument.name}={argument.value!r}"

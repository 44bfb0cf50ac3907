"""Tools and calls in the format of OpenAI's chat API, where arguments are a JSON string."""

import json

from coevolve.environments.tools.calls import parse_call
from coevolve.environments.tools.chat.tools import named_arguments, schemas
from coevolve.environments.tools.task import ToolTask


def tools_json(body: ToolTask) -> str:
    """Return the tools that a task offers from its first turn on, as JSON text.

    It is text, because a column has one type, and the parameters of tools have many.
    """
    return json.dumps(schemas(body.classes, body.withheld), ensure_ascii=False)


def revealed_json(body: ToolTask, turn: int) -> str:
    """Return the tools that a turn reveals, as JSON text."""
    names = body.turns[turn].revealed
    tools = [tool for tool in schemas(body.classes) if tool["function"]["name"] in names]
    return json.dumps(tools, ensure_ascii=False)


def function_of(call: str, classes: tuple[str, ...]) -> tuple[str, str] | None:
    """Return (name, arguments as a JSON object) of ``call``.

    Return None if it is not a call of a tool of ``classes`` with literals, or if JSON or the
    parameters' names cannot represent all of it.
    """
    try:
        name, arguments = named_arguments(call, classes)
        parsed = parse_call(call, (name,))
        if len(arguments) != len(parsed.positional) + len(parsed.named):
            return None
        return name, json.dumps(arguments, allow_nan=False, ensure_ascii=False)
    except ValueError:
        return None

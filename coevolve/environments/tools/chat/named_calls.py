"""Calls as names and arguments, for clients that get a policy's messages over an endpoint.

They are read by the same readers as those of an agent of coevolve. A name that Python's call
expressions cannot hold, such as one with a hyphen, makes a call malformed.
"""

import ast
from collections.abc import Sequence
from typing import Any

import msgspec

from coevolve.base.foreign import boundary
from coevolve.environments.tools.chat.call_text import MalformedCallsError
from coevolve.environments.tools.chat.calls import CallForm, read_calls
from coevolve.environments.tools.chat.json_forms import OPEN
from coevolve.environments.tools.chat.python_forms import START
from coevolve.environments.tools.chat.renderer import ChatRenderer
from coevolve.environments.tools.chat.typed import Types, parameter_types
from coevolve.gateway.session import CallReader, NamedCall
from coevolve.llm.reading import END, opens_thinking, spoken
from coevolve.models.chat_template import ChatTemplate
from protocols.config import ChatConfig
from protocols.errors import ConfigError

MARKS = (OPEN, "<function=", START)
"""What stands before the first call of a message, in the forms that have such a mark."""


def call_reader(template: ChatTemplate, chat: ChatConfig) -> CallReader | None:
    """Return the reader of calls in the form of the template; None if it lists no tools.

    The form is proven: the template writes calls, and they are read as written.
    """
    try:
        renderer = ChatRenderer(template, msgspec.structs.replace(chat, tools="template"))
    except ConfigError:
        return None
    form, thinking = renderer.form, opens_thinking(template.prompt)

    def read(text: str, tools: Sequence[dict[str, Any]]) -> tuple[str, Sequence[NamedCall]]:
        with boundary(MalformedCallsError, "calls cannot be read"):
            calls = read_calls(form, spoken(text, thinking=thinking), _types(form, tools))
            return (_words(form, text), tuple(map(_named, calls))) if calls else (text, ())

    return read


def _types(form: CallForm, tools: Sequence[dict[str, Any]]) -> Types:
    """Return the types by which a form reads values; tools of clients need not name any."""
    if form not in ("xml", "keys"):
        return {}
    complete = (
        tool["function"]
        | {"parameters": {"properties": {}} | (tool["function"].get("parameters") or {})}
        for tool in tools
    )
    return parameter_types([{"type": "function", "function": each} for each in complete])


def _words(form: CallForm, text: str) -> str:
    """Return the words before the first call, thinking included."""
    if form in ("json", "pythonic"):
        return ""
    begin = text.find(END) + len(END) if END in text else 0
    places = [place for mark in MARKS if (place := text.find(mark, begin)) >= 0]
    return text[: min(places)].rstrip() if places else ""


def _named(call: str) -> NamedCall:
    """Return the name and the arguments of a call expression with literals."""
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    arguments = {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
    return ast.unparse(node.func), arguments

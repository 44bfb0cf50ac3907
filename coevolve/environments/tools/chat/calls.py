"""Parses the forms in which chat models write calls into the simulators' call expressions.

- ``tags``: ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` (Hermes, Qwen2.5, Qwen3);
- ``xml`` and ``keys``: a tag for each argument (Qwen3-Coder, Qwen3.5, Nemotron 3; GLM);
- ``json``: ``{"name": ..., "parameters": {...}}`` among words (Llama 3);
- ``wrapped`` and ``pythonic``: ``[f(a=1), g()]`` with and without LFM2's two tokens around it;
- ``python`` and ``bfcl``: the same for `policy.chat.tools: prompt`, and as BFCL's loop reads it.

What is a call in a form is decided as in the parser that serves the form, which `SERVED_BY` names;
the module of a form names the deviations. A message without calls is plain text and gives no calls.
A message that begins a call but is not a valid one is an error. Nothing is ever evaluated; the
simulator decides which tools exist.

The readers return for any message, in time proportional to its length; only `MAX_CHARS` characters
of calls are parsed.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from coevolve.base.foreign import boundary
from coevolve.environments.tools.chat.bfcl_form import read_bfcl
from coevolve.environments.tools.chat.call_text import MalformedCallsError
from coevolve.environments.tools.chat.json_forms import PYTHON_TAG, read_json, read_tags
from coevolve.environments.tools.chat.python_forms import (
    read_python,
    read_pythonic,
    read_wrapped,
)
from coevolve.environments.tools.chat.tagged_forms import read_keys, read_xml
from coevolve.environments.tools.chat.typed import Types

CallForm = Literal["tags", "xml", "keys", "json", "wrapped", "pythonic", "python", "bfcl"]

SERVED_BY: Mapping[CallForm, str] = {
    "tags": "hermes",
    "xml": "qwen3_xml",
    "keys": "glm47",
    "json": "llama3_json",
    "wrapped": "lfm2",
    "pythonic": "pythonic",
}
"""Form of a chat template -> vLLM's ``--tool-call-parser`` for it."""

FORMS = tuple(SERVED_BY)


def read_calls(form: CallForm, message: str, types: Types | None = None) -> tuple[str, ...]:
    """Return the calls of a message; none if it has none. Raises MalformedCallsError.

    ``types`` decides which values of the forms ``xml`` and ``keys`` are no texts.
    """
    with boundary(MalformedCallsError, f"calls of the form {form} cannot be read"):
        return _reader(form, types or {})(message)


def is_written(form: CallForm, text: str) -> bool:
    """Return whether a template that writes ``text`` for a call can have this form.

    The reader of ``json`` also finds objects in forms of other models, with tokens around them.
    """
    return form != "json" or text.removeprefix(PYTHON_TAG).lstrip().startswith("{")


def _reader(form: CallForm, types: Types) -> Callable[[str], tuple[str, ...]]:
    match form:
        case "tags":
            return read_tags
        case "xml":
            return partial(read_xml, types=types)
        case "keys":
            return partial(read_keys, types=types)
        case "json":
            return read_json
        case "wrapped":
            return read_wrapped
        case "pythonic":
            return read_pythonic
        case "python":
            return read_python
        case "bfcl":
            return read_bfcl

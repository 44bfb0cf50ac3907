"""A `Renderer` for any model folder with a chat template.

Tools, instructions, calls and answers are messages of the model's own chat template
(`coevolve.models.chat_template`); the policy writes assistant messages up to their end. Sampled
tokens are never tokenised again. With ``policy.chat.tools: template`` the template lists the tools,
and the form of calls is that of the template; this module finds it by letting the template write
some calls. With ``prompt`` the system message lists the tools, calls are lists of Python calls, and
answers come in a user's message: BFCL prompts models without native tool calling in this way.
``signatures`` is the same, with shorter tools (`coevolve.environments.tools.chat.tools`).
Without tools, every message is plain text.

A message without a call ends the policy's turn. What begins a call and cannot be read is malformed,
except where the benchmark's own loop goes on to the next turn (``ends_turn``). If a turn reveals
tools, its instruction lists them, because the opening can no longer be changed (as in BFCL for
models without tool calling).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from coevolve.base.foreign import DESCRIBED_CHARS, boundary, shown
from coevolve.environments.tools.chat.call_text import (
    MalformedCallsError,
    call_text,
    python_list,
)
from coevolve.environments.tools.chat.calls import FORMS, CallForm, is_written, read_calls
from coevolve.environments.tools.chat.joined import Played, joined
from coevolve.environments.tools.chat.python_forms import END, START
from coevolve.environments.tools.chat.tools import named_arguments, schemas, signatures
from coevolve.environments.tools.chat.typed import Types, parameter_types
from coevolve.environments.tools.task import ToolTask, ToolTurn, tool_task
from coevolve.llm.reading import UnfinishedThinkingError, opens_thinking, spoken
from coevolve.models.chat_template import LOAD_S, SENTINEL, ChatTemplate, Message
from coevolve.models.deadline import within
from coevolve.models.model_files import DOWNLOAD_AGAIN, unusable
from protocols.config import ChatConfig
from protocols.errors import ConfigError
from protocols.tasks import Task

CLOSING = "Done."
"""The last message of each turn of a demonstration."""

_PROMPT = """You carry out what the user asks with the tools below.

Write calls as one list, [tool(name=value, ...), tool(name=value, ...)], with values as Python \
literals, and nothing else in that message. The answers follow in the next message. Make calls \
until the request is carried out; then say so in plain words, without a call, and the user goes on.

The tools, as JSON:
"""
_SIGNATURES = _PROMPT.replace("as JSON", "as Python signatures")
_REVEALED = "These tools are available from now on as well, called like the others:\n"
_GO_ON = "Please go on with them."
_ANSWERS = "The answers to your calls, in order:\n"

_PROBE_TOOL = "probe_tool"
_PROBE_ARGUMENTS: Mapping[str, object] = {
    "text": 'it\'s "quoted"',
    "count": 2,
    "share": 0.5,
    "whole": True,
    "nothing": None,
    "several": ["a", 1],
    "nested": {"key": "value"},
}
_PROBE_TYPES: Mapping[str, object] = {
    "text": "string",
    "count": "integer",
    "share": "number",
    "whole": "boolean",
    "nothing": ["string", "null"],
    "several": "array",
    "nested": "object",
}
_PROBE_SCHEMA: Message = {
    "type": "function",
    "function": {
        "name": _PROBE_TOOL,
        "description": "Answers.",
        "parameters": {
            "type": "object",
            "properties": {name: {"type": each} for name, each in _PROBE_TYPES.items()},
        },
    },
}
_LFM2_LISTS = "<|tool_list_start|>"
"""The first templates of LFM2 list tools between such tokens, and leave calls to the content."""

_LISTS = (
    "policy.chat.tools: prompt, which asks for lists of Python calls, a form that the model may "
    "never have seen"
)


class ChatRenderer:
    """A `coevolve.environments.tools.interfaces.Renderer`."""

    def __init__(
        self,
        template: ChatTemplate,
        chat: ChatConfig,
        *,
        has_tools: bool = True,
        ends_turn: bool = False,
    ) -> None:
        """Find the form of calls. Raises ConfigError if the template cannot be used.

        ``ends_turn`` says whether a message that cannot be read ends the turn, as in BFCL's loop.
        """
        self._template = template
        self._has_tools = has_tools
        self._chat = chat if has_tools else msgspec.structs.replace(chat, tools="prompt")
        self._ends_turn = ends_turn
        self._thinking = opens_thinking(template.prompt)
        self._in_content = self._chat.tools != "template"
        """Whether messages hold calls as their content, and not as the template writes them."""

        listed: CallForm = "bfcl" if ends_turn else "python"
        self.form: CallForm = listed if self._in_content else self._own_form()
        self._types = lru_cache(maxsize=256)(self._types_of)
        if self._chat.joined_calls and not self._in_content:
            raise ConfigError(
                "policy.chat.joined_calls: needs a form in which a message lists calls, found the "
                f"template's own; use {_LISTS}, or set it to false"
            )
        self._check()
        self._closing = template.written({"role": "assistant", "content": CLOSING})
        self._opening = lru_cache(maxsize=256)(self._render_opening)

    @classmethod
    def load(
        cls, folder: Path, chat: ChatConfig, *, has_tools: bool = True, ends_turn: bool = False
    ) -> "ChatRenderer":
        """Return the renderer for a model folder. Raises ConfigError."""
        template = ChatTemplate.load(
            folder,
            variables={"enable_thinking": chat.thinking},
            tools=has_tools and chat.tools == "template",
        )
        what = f"policy.model: {folder} needs a usable chat template"
        with boundary(ConfigError, what, DOWNLOAD_AGAIN), within(LOAD_S):
            return cls(template, chat, has_tools=has_tools, ends_turn=ends_turn)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The end of an assistant message, and the model's end-of-text tokens."""
        return self._template.stop_ids

    def opening(self, task: ToolTask) -> tuple[int, ...]:
        return self._opening(task.classes, task.withheld, self._instruction_text(task, 0))

    def instruction(self, task: ToolTask, turn: int, said: Sequence[int] = ()) -> tuple[int, ...]:
        """Return the instruction of a later turn, with the tools that it reveals."""
        return self._template.after([_user(self._instruction_text(task, turn))], said)

    def observation(self, results: Sequence[str], said: Sequence[int] = ()) -> tuple[int, ...]:
        return self._template.after(self._answers(results), said)

    def parse(self, token_ids: Sequence[int], classes: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the calls of a message; none if it has none.

        ``classes`` are the tools that the values of some forms get their types from. Raises
        MalformedCallsError for calls that cannot be read, and another ValueError for a message
        that is none.
        """
        said = self._template.said(token_ids)
        if not self._has_tools:
            return ()
        try:
            text = spoken(said, thinking=self._thinking)
            return read_calls(self.form, text, self._types(tuple(classes)))
        except (MalformedCallsError, UnfinishedThinkingError) as error:
            if self._ends_turn:
                return ()
            raise MalformedCallsError(f"{error}") from error

    def words(self, token_ids: Sequence[int]) -> str:
        """Return the part of a message after its thinking. Raises ValueError."""
        said = self._template.said(token_ids)
        try:
            return self._template.unmarked(spoken(said, thinking=self._thinking)).strip()
        except UnfinishedThinkingError:
            return ""

    def _types_of(self, classes: tuple[str, ...]) -> Types:
        return parameter_types(schemas(classes)) if self.form in ("xml", "keys") else {}

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return (token ids, mask) of the reference; needs recorded results.

        A message makes one call, or several (``policy.chat.joined_calls``). The mask is 1 on calls
        and closing messages, including their end tokens.
        """
        body = tool_task(task)
        pieces: list[tuple[tuple[int, ...], int]] = []
        read = ""
        for number, turn in enumerate(body.turns):
            prompt = self.instruction(body, number) if number else self.opening(body)
            pieces.append((prompt, 0))
            read += f"{turn.instruction}\n"
            for calls, results in self._messages_of(turn, body.classes, read):
                pieces.append((self._template.written(self._calling(calls, body.classes)), 1))
                pieces.append((self.observation(results), 0))
            read += "\n".join((*turn.results, ""))
            pieces.append((self._closing, 1))
        ids = tuple(token for tokens, _ in pieces for token in tokens)
        return ids, tuple(own for tokens, own in pieces for _ in tokens)

    def _render_opening(
        self, classes: tuple[str, ...], withheld: tuple[str, ...], instruction: str
    ) -> tuple[int, ...]:
        return self._template.opening(*self._start(instruction, schemas(classes, withheld)))

    def _start(
        self, instruction: str, tools: Sequence[Message]
    ) -> tuple[list[Message], Sequence[Message]]:
        """Return the first messages of a conversation, and the tools that the template lists."""
        system = self._chat.system
        if tools and self._chat.tools != "template":
            system, tools = with_tools_listed(system, self._chat, tools), ()
        head: list[Message] = [{"role": "system", "content": system}] if system else []
        return [*head, _user(instruction)], tools

    def _instruction_text(self, task: ToolTask, number: int) -> str:
        turn = task.turns[number]
        if number == 0 or not turn.revealed:
            return turn.instruction
        revealed = [
            schema for schema in schemas(task.classes) if _name(schema) in set(turn.revealed)
        ]
        return f"{_REVEALED}{_lines(self._chat, revealed)}\n\n{turn.instruction or _GO_ON}"

    def _answers(self, results: Sequence[str]) -> list[Message]:
        if self._chat.tools != "template":
            return [answers_listed(results)]
        return [{"role": "tool", "content": result} for result in results]

    def _messages_of(self, turn: ToolTurn, classes: Sequence[str], read: str) -> Iterable[Played]:
        """Return the calls of a turn and their results, message by message."""
        if self._chat.joined_calls:
            return joined(turn, classes, read)
        pairs = zip(turn.reference, turn.results, strict=True)
        return [((call,), (result,)) for call, result in pairs]

    def _calling(self, calls: Sequence[str], classes: Sequence[str]) -> Message:
        """Return the assistant message that makes calls of a reference."""
        if self.form == "python":
            return {"role": "assistant", "content": python_list(calls)}
        return self._message([named_arguments(call, classes) for call in calls])

    def _message(self, calls: Sequence[tuple[str, Mapping[str, object]]]) -> Message:
        """Return the assistant message that makes calls; one where the template writes them."""
        if not self._in_content:
            ((name, arguments),) = calls
            return _tool_call(name, arguments)
        listed = python_list([call_text(*each) for each in calls])
        content = f"{START}{listed}{END}" if self.form == "wrapped" else listed
        return {"role": "assistant", "content": content}

    def _own_form(self) -> CallForm:
        """Return the form in which the template writes calls."""
        messages, tools = self._start("?", [_PROBE_SCHEMA])
        opening = self._template.render(messages, tools, prompts=True)
        if _PROBE_TOOL not in opening:
            raise ConfigError(
                "policy.chat.tools: 'template' needs a chat template that lists the tools, but "
                f"this template leaves them out; use {_LISTS}"
            )
        simple: dict[str, object] = {"text": "a b", "count": 2}
        written = self._template.written(_tool_call(_PROBE_TOOL, simple))[:-1]
        text = spoken(self._template.decode(written), thinking=self._thinking)
        for form in FORMS:
            if is_written(form, text) and _read(form, text) == call_text(_PROBE_TOOL, simple):
                return form
        if not text and _LFM2_LISTS in opening:
            self._in_content = True
            return "wrapped"
        raise ConfigError(
            "policy.chat.tools: 'template' needs a chat template that writes calls in one of the "
            f"forms {', '.join(FORMS)} (coevolve/environments/tools/chat/calls.py), found "
            f"{shown(text, DESCRIBED_CHARS)}; use another model, or {_LISTS}"
        )

    def _check(self) -> None:
        """Check that borders are fixed, answers are shown, and calls are read as written."""
        calling = self._message([(_PROBE_TOOL, _probed(self.form))])
        if self._has_tools:
            said = spoken(
                self._template.said(self._template.written(calling)), thinking=self._thinking
            )
            expected, found = call_text(_PROBE_TOOL, _probed(self.form)), _read(self.form, said)
            if found != expected:
                raise unusable(f"it writes the call {expected} in a way that is read as {found}")
        histories = _histories(calling, self._answers(["1", "2"]))
        for between in (self._answers(["a"]), self._answers(["a", "b"]), [_user("c")]):
            self._template.check_border(between, histories)
        seen = self._template.decode(self.observation(("firstAnswer", "secondAnswer")))
        if not 0 <= seen.find("firstAnswer") < seen.find("secondAnswer"):
            raise unusable("it does not show the answers of tools in their order")


def with_tools_listed(system: str, chat: ChatConfig, tools: Sequence[Message]) -> str:
    """Return a system message that lists tools, and says how to call them."""
    begins = _PROMPT if chat.tools == "prompt" else _SIGNATURES
    return f"{system}\n\n{begins}{_lines(chat, tools)}".strip()


def _lines(chat: ChatConfig, tools: Sequence[Message]) -> str:
    """Return tools as lines of the text of a message."""
    if chat.tools == "signatures":
        return signatures(tools)
    return "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)


def answers_listed(results: Sequence[str]) -> Message:
    """Return the user's message that holds the answers to calls."""
    return _user(_ANSWERS + "\n".join(results))


def _probed(form: CallForm) -> Mapping[str, object]:
    """Return arguments that a form can write; ``xml`` writes None as if it were a text."""
    return {
        name: value
        for name, value in _PROBE_ARGUMENTS.items()
        if form != "xml" or value is not None
    }


def _read(form: CallForm, text: str) -> str:
    """Return what is read in place of the test call."""
    try:
        return ", ".join(read_calls(form, text, parameter_types([_PROBE_SCHEMA])))
    except ValueError as error:
        return f"malformed: {error}"


def _histories(calling: Message, answers: Sequence[Message]) -> list[list[Message]]:
    """Return conversations of different lengths and contents that end with the sentinel."""
    said: Message = {"role": "assistant", "content": SENTINEL}
    thought: Message = {"role": "assistant", "content": f"<think>\nSo.\n</think>\n\n{SENTINEL}"}
    longer: Message = {"role": "assistant", "content": f"Two words.\nMore: {SENTINEL}"}
    talk: Message = {"role": "assistant", "content": CLOSING}
    return [
        [_user("a"), said],
        [_user("b"), thought],
        [_user("a"), longer],
        [_user("a"), calling, *answers, said],
        [_user("a"), talk, _user("b"), calling, *answers, longer],
    ]


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _tool_call(name: str, arguments: Mapping[str, object]) -> Message:
    function: dict[str, Any] = {"name": name, "arguments": dict(arguments)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": function}],
    }


def _name(schema: Message) -> str:
    return schema["function"]["name"]

"""A model's own chat template and tokenizer, split at the borders of assistant messages.

A conversation is never rendered twice. The template renders its opening once, and sampled messages
stay as they were sampled. After each of them come the tokens that the template puts between the end
of an assistant message and the next generation prompt. They are taken from a rendered conversation
with a sentinel in place of the message. When the template is loaded, a check verifies that this
border depends neither on the message nor on earlier messages. Some templates drop the thinking of
earlier messages or rewrite their calls. They do so only when they render those messages. That
never happens here, so sampled tokens stay in the context.

This is the only deviation from rendering the whole conversation with such a template. Where a
template has no system role, the system text begins the first user's message.

Contents of messages are text from outside: they reach the policy unchanged and spell no token of
the format (`coevolve.models.format_tokens`).
"""

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from jinja2 import TemplateError
from transformers import AutoTokenizer

from coevolve.base.foreign import (
    DESCRIBED_CHARS,
    boundary,
    described,
    native_to_errors,
    plain,
    shown,
)
from coevolve.models.deadline import within
from coevolve.models.format_tokens import FormatTokens
from coevolve.models.model_files import DOWNLOAD_AGAIN, as_ids, ends_of_text, unusable
from protocols.errors import ConfigError

Message = dict[str, Any]

LOAD_S = 60.0
"""Seconds that the template may take for its first conversations; it may contain any loop."""

SENTINEL = f"Zq{secrets.token_hex(6)}qZ"
"""Stands for the content of a message; no other text contains it."""

_STUB: Message = {"role": "user", "content": "Please begin."}
_SAID: Message = {"role": "assistant", "content": SENTINEL}
_NOW = datetime(2024, 7, 26)
"""The time that templates print; it is fixed, so that conversations do not depend on the day."""

_DATE = {"date_string": _NOW.strftime("%d %b %Y")}
_CLOCK = "strftime_now"
_CLOCK_MACRO = (
    f"{{% macro {_CLOCK}(form) %}}{{{{ form"
    + "".join(
        f"|replace('%{each}', '{_NOW.strftime('%' + each)}')"
        for each in (*"aAbBcdeDfFGHIjmMpsSTuUVwWxXyYzZ", "-d", "-H", "-I", "-m")
    )
    + " }}{% endmacro %}\n"
)
"""Stands before a template that asks for the time, in place of transformers' own function, which
no variable replaces in every version."""
_THINKS = re.compile(r"<think>\s*\Z")
_EMPTY_THOUGHT = "\n</think>\n\n"
"""Ends a thought that the generation prompt began."""


class ChatTemplate:
    """Renders messages as tokens and finds the borders between them."""

    end: str
    """Token that ends an assistant message, as text. Empty where the token that begins the next
    message does (GLM)."""

    stop_ids: tuple[int, ...]
    """Tokens that end a generation: that of words first, then the model's other ends."""

    border_ids: frozenset[int]
    """Special tokens of the borders; only the template may write them."""

    has_system: bool
    """Whether the template has a system role."""

    def __init__(
        self,
        tokenizer: Any,
        *,
        variables: Mapping[str, object],
        stop_ids: Iterable[int] = (),
        tools: bool = False,
    ) -> None:
        """Find the borders. The template gets ``variables``.

        ``tools`` chooses the template for tools, if the model has one beside the other. Raises
        ConfigError.
        """
        self._tokenizer = tokenizer
        self._source = _source(tokenizer.chat_template, tools=tools)
        self._dated = (_CLOCK_MACRO if _CLOCK in self._source else "") + self._source
        self._variables = {**_DATE, **variables}
        self._format = FormatTokens(tokenizer, self._source)
        self.has_system, self._has_parts = True, False
        self._has_parts = not self._shows(_STUB | {"content": SENTINEL})
        self.has_system = self._shows({"role": "system", "content": SENTINEL}, _STUB)
        self.prompt = self.render([_STUB], prompts=True)
        self._prompt_ids = self.encode(self.prompt)
        self.end, border = self._first_border()
        border_ids = self.encode(border)
        ends = self.encode(self.end) if self.end else (border_ids[0], *self._tool_end())
        others = {*stop_ids, *as_ids(tokenizer.eos_token_id)}
        self.stop_ids = tuple(dict.fromkeys((*ends, *sorted(others))))
        self.border_ids = self._format.special & set(border_ids)
        self._header, self._resumed = self._channels(border)
        self.border_ids -= {*self.encode(self._header)}

    @classmethod
    def load(
        cls, folder: Path, *, variables: Mapping[str, object], tools: bool = False
    ) -> "ChatTemplate":
        """Return the template of a model folder, whose code is never run. Raises ConfigError."""
        what = f"policy.model: {folder} needs a usable chat template"
        with boundary(ConfigError, what, DOWNLOAD_AGAIN), within(LOAD_S):
            ends = ends_of_text(folder)
            return cls(read_tokenizer(folder), variables=variables, stop_ids=ends, tools=tools)

    def render(
        self, messages: Sequence[Message], tools: Sequence[Message] = (), *, prompts: bool
    ) -> str:
        """Return the text of a conversation; ``prompts`` adds the generation prompt.

        Raises ConfigError if the template refuses.
        """
        return self._format.restored(self._render(self._outside(messages), tools, prompts=prompts))

    def opening(
        self, messages: Sequence[Message], tools: Sequence[Message] = ()
    ) -> tuple[int, ...]:
        """Return the tokens of a conversation up to the policy's first word.

        Raises ConfigError if the template refuses.
        """
        return self.encode(self._render(self._outside(messages), tools, prompts=True))

    @property
    def vocabulary(self) -> int:
        """The number of tokens; each id is below it."""
        return len(self._tokenizer)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of rendered text; names of special tokens become these tokens."""
        return self._format.encode(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of tokens, including special ones."""
        return cast(
            "str",
            self._tokenizer.decode(
                list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
            ),
        )

    def said(self, token_ids: Sequence[int]) -> str:
        """Return the text of a complete sampled assistant message, without its end token.

        Raises ValueError if it has no end token, or contains tokens that only the template may
        write.
        """
        message, stop = tuple(token_ids[:-1]), tuple(token_ids[-1:])
        if not set(stop).intersection(self.stop_ids):
            raise ValueError("a message needs an end")
        text = self.decode(message)
        for begun in self._resumed:
            message = _without(message, begun)
        if self.border_ids.intersection(message):
            raise ValueError("a message may not write the tokens that stand between messages")
        return text.rpartition(self._header)[2] if self._header else text

    def unmarked(self, text: str) -> str:
        """Return a message's text without special tokens."""
        return self._format.special_words.sub("", text)

    def after(self, messages: Sequence[Message], said: Sequence[int] = ()) -> tuple[int, ...]:
        """Return the tokens between the end of an assistant message and the next generation prompt.

        ``messages`` are the messages in between, ``said`` the tokens of the assistant message.
        """
        ids = self.encode(self._text_after_sentinel([_STUB, _SAID, *self._outside(messages)]))
        if not self.end:
            return ids[1:] if not said or said[-1] == ids[0] else ids
        if ids[0] != self._border_start:
            raise unusable(f"the tokens after a message do not begin with its end {self.end!r}")
        return ids[1:]

    def written(self, message: Message) -> tuple[int, ...]:
        """Return the tokens that the policy must sample for the template's ``message``.

        They begin after the generation prompt and end with the message's end. Raises ConfigError if
        the template begins its messages differently from its generation prompts.
        """
        text = self._continued(self._render([_STUB, *self._outside([message])], prompts=False))
        if not self.end:
            ends = self._tool_end() if "tool_calls" in message else ()
            return (*self._tokens_after_prompt(text.rstrip()), *(ends or self.stop_ids)[:1])
        end = text.rfind(self.end, len(self.prompt))
        if end >= 0:
            return self._tokens_after_prompt(text[: end + len(self.end)])
        others = [*self._format.words.finditer(text, len(self.prompt))]
        if not others:
            raise unusable(f"it writes an assistant message without an end: {text[-200:]!r}")
        return self._tokens_after_prompt(text[: others[-1].end()])

    def answer(self, text: str) -> tuple[int, ...]:
        """Return the tokens that the policy must sample to say ``text``, including the end token.

        Raises ConfigError if they depend on the generation prompt.
        """
        ids = self._tokens_after_prompt(self.prompt + self._format.guarded(text))
        return (*ids, self.stop_ids[0])

    def _continued(self, text: str) -> str:
        """Return the text of a message, which has to continue the generation prompt.

        Where the prompt begins a thought and the message has none, the thought is empty.
        """
        thought = _THINKS.search(self.prompt)
        begun = self.prompt[: thought.start()] if thought else self.prompt
        if text.startswith(self.prompt):
            return text
        if thought and text.startswith(begun):
            return self.prompt + _EMPTY_THOUGHT + text[len(begun) :]
        raise unusable(
            "it begins an assistant message differently from a generation prompt: "
            f"{text[-200:]!r} does not continue {self.prompt[-100:]!r}"
        )

    def _tokens_after_prompt(self, text: str) -> tuple[int, ...]:
        """Return the tokens of ``text`` after its generation prompt."""
        ids = self.encode(text)
        count = len(self._prompt_ids)
        if ids[:count] != self._prompt_ids:
            raise unusable("its tokenizer merges a generation prompt with the message after it")
        return ids[count:]

    def check_border(self, between: Sequence[Message], histories: Sequence[Sequence[Message]]):
        """Check that the border is the same after every message and history.

        Each history ends with an assistant message whose content ends with the sentinel. Raises
        ConfigError.
        """
        expected = self._text_after_sentinel([*histories[0], *between])
        for history in histories[1:]:
            found = self._text_after_sentinel([*history, *between])
            if found != expected:
                raise unusable(
                    "the text after an assistant message depends on the messages before: "
                    f"{found!r} is not {expected!r}"
                )

    def _outside(self, messages: Iterable[Message]) -> list[Message]:
        """Return messages whose contents spell no token of the format."""
        return [self._format.guarded(message) for message in messages]

    def _render(
        self, messages: Sequence[Message], tools: Sequence[Message] = (), *, prompts: bool
    ) -> str:
        """Return the text of a conversation whose contents are guarded. Raises ConfigError."""
        said = list(messages if self.has_system else _without_system(messages))
        said = [_in_parts(message) for message in said] if self._has_parts else said
        try:
            text = self._tokenizer.apply_chat_template(
                said,
                tools=self._outside(tools) or None,
                chat_template=self._dated,
                tokenize=False,
                add_generation_prompt=prompts,
                **self._variables,
            )
        except TimeoutError:
            raise
        except Exception as error:
            roles = plain(", ".join(message["role"] for message in said))
            is_own = isinstance(error, TemplateError)
            reason = plain(str(error), DESCRIBED_CHARS) if is_own else described(error)
            raise unusable(f"it refuses a conversation of {roles}: {reason}") from error
        return cast("str", text)

    def _text_after_sentinel(self, messages: Sequence[Message], *, prompts: bool = True) -> str:
        """Return the text after the sentinel, without blanks at its begin."""
        text = self._render(messages, prompts=prompts)
        if text.count(SENTINEL) != 1:
            raise unusable(
                f"it renders the content of an assistant message {text.count(SENTINEL)} times"
            )
        return text.partition(SENTINEL)[2].lstrip()

    def _first_border(self) -> tuple[str, str]:
        """Return an assistant message's end token, and the text up to the generation prompt."""
        border = self._text_after_sentinel([_STUB, _SAID, _STUB])
        last = self._text_after_sentinel([_STUB, _SAID], prompts=False)
        begins, ends = self._format.words.match(border), self._format.words.match(last)
        if begins:
            self._border_start = self.encode(begins[0])[0]
            after_user = border.partition(_STUB["content"])[2].lstrip()
            if ends and (ends[0] == begins[0] or after_user.startswith(begins[0])):
                return ends[0], border
            if self.prompt.endswith(border):
                return "", border
        raise unusable(
            "it must end an assistant message with a special token, whatever follows; "
            f"found {last[:40]!r} at the end and {border[:40]!r} before an instruction"
        )

    def _tool_end(self) -> tuple[int, ...]:
        """Return the first token after a message with calls; none if there are no such messages."""
        try:
            border = self._text_after_sentinel([_STUB, _SAID, {"role": "tool", "content": "1"}])
        except ConfigError:
            return ()
        return self.encode(border)[:1] if self._format.words.match(border) else ()

    def _shows(self, *messages: Message) -> bool:
        """Return whether the template writes the sentinel of these messages once."""
        try:
            return self._render(messages, prompts=True).count(SENTINEL) == 1
        except ConfigError:
            return False

    def _channels(self, border: str) -> tuple[str, tuple[tuple[int, ...], ...]]:
        """Return what begins the policy's words, and the tokens by which it begins a new message.

        Both are empty unless a generation may contain several messages, as with gpt-oss, so that
        tokens which stand between messages also stand in them.
        """
        text = self._render([_STUB, _SAID], prompts=False)
        header = text.removeprefix(self.prompt).partition(SENTINEL)[0]
        if not text.startswith(self.prompt):
            return "", ()
        if not self.border_ids.intersection(self.encode(header)):
            return "", ()
        begun = self.encode(border.partition(_STUB["content"])[2].lstrip())
        return header, (begun, begun[1:])


def read_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a model folder, whose code is never run. Raises ConfigError."""
    what = f"policy.model: {folder} needs a usable tokenizer"
    with boundary(ConfigError, what, DOWNLOAD_AGAIN), native_to_errors():
        return cast("Any", AutoTokenizer).from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )


def _source(found: str | Mapping[str, str] | None, *, tools: bool) -> str:
    """Return the template that the model has for conversations with or without tools."""
    if isinstance(found, str):
        return found
    named = dict(found or {})
    for name in ("tool_use", "default") if tools else ("default",):
        if name in named:
            return named[name]
    names = ", ".join(map(shown, sorted(named))) or "none"
    raise unusable(f"the folder needs a template, or one with the name default, found {names}")


def _without(ids: tuple[int, ...], part: tuple[int, ...]) -> tuple[int, ...]:
    """Return tokens without each occurrence of ``part``."""
    found = next((i for i in range(len(ids)) if ids[i : i + len(part)] == part), None)
    if found is None:
        return ids
    return ids[:found] + _without(ids[found + len(part) :], part)


def _in_parts(message: Message) -> Message:
    """Return a message whose content is a list of parts, as templates for images need it."""
    return message | {"content": [{"type": "text", "text": message["content"]}]}


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose system text begins the first user's message."""
    if not messages or messages[0]["role"] != "system":
        return list(messages)
    system, *others = messages
    if not others or others[0]["role"] != "user":
        return [{"role": "user", "content": system["content"]}, *others]
    text = f"{system['content']}\n\n{others[0]['content']}".strip()
    return [{"role": "user", "content": text}, *others[1:]]

"""A model's own chat template and tokenizer, taken apart at the borders of assistant messages.

A conversation is never rendered twice. Its opening is rendered once; whatever the policy samples
stays as it was sampled; and behind it comes what the template itself puts between the end of an
assistant message and the next generation prompt, read off a rendering of a conversation in which a
sentinel stands for the message. That this border does not depend on the message or on what went
before is checked when the template is loaded. So templates that drop the thinking of earlier
messages, or rewrite their calls, do so only where they are asked to render those messages, which
here they never are: what was sampled stays in the context.

Deviation from rendering the whole conversation with such a template: just that.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from jinja2 import TemplateError
from transformers import AutoTokenizer

from coevolve.models.model_files import as_ids, ends_of_text, unusable

Message = dict[str, Any]

SENTINEL = "Zq7sentinel7qZ"
_STUB: Message = {"role": "user", "content": "Please begin."}
_DATE = "26 Jul 2024"
"""Llama's templates print the date; a fixed one, or a conversation would differ from day to day."""


class ChatTemplate:
    """Renders messages as tokens, and knows the borders between them."""

    end: str
    """Token that ends an assistant message, as text."""

    stop_ids: tuple[int, ...]
    """Tokens that end a generation: ``end`` first, then the model's other ends of text."""

    border_ids: frozenset[int]
    """Special tokens of the borders: nothing but the template may write them."""

    def __init__(
        self, tokenizer: Any, *, variables: Mapping[str, object], stop_ids: Iterable[int] = ()
    ) -> None:
        """Learn the borders. ``variables`` are handed to the template. Raises ConfigError."""
        self._tokenizer = tokenizer
        self._variables = {"date_string": _DATE, **variables}
        self._added = _any_of(tokenizer.get_added_vocab())
        self.prompt = self.render([_STUB], prompts=True)
        self._prompt_ids = self.encode(self.prompt)
        self.end, border = self._first_border()
        others = {*stop_ids, *as_ids(tokenizer.eos_token_id)}
        end_id = self.encode(self.end)[0]
        self.stop_ids = (end_id, *sorted(others - {end_id}))
        added = tokenizer.added_tokens_decoder.items()
        special = {i: token.content for i, token in added if token.special}
        self.border_ids = frozenset(special.keys() & set(self.encode(border)))
        self._special = _any_of(special.values())

    @classmethod
    def load(cls, folder: Path, *, variables: Mapping[str, object]) -> "ChatTemplate":
        """Return the template of a model folder. Raises ConfigError."""
        return cls(
            AutoTokenizer.from_pretrained(folder),
            variables=variables,
            stop_ids=ends_of_text(folder),
        )

    def render(
        self, messages: Sequence[Message], tools: Sequence[Message] = (), *, prompts: bool
    ) -> str:
        """Return the text of a conversation; ``prompts`` adds the generation prompt.

        Raises ConfigError where the template refuses.
        """
        try:
            text = self._tokenizer.apply_chat_template(
                list(messages),
                tools=list(tools) or None,
                tokenize=False,
                add_generation_prompt=prompts,
                **self._variables,
            )
        except (TemplateError, TypeError, ValueError) as error:
            roles = ", ".join(message["role"] for message in messages)
            raise unusable(f"it refuses a conversation of {roles}: {error}") from error
        return cast("str", text)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of rendered text; names of special tokens are those tokens."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of tokens, special ones included."""
        return cast(
            "str",
            self._tokenizer.decode(
                list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
            ),
        )

    def said(self, token_ids: Sequence[int]) -> str:
        """Return the text of a whole assistant message that was sampled, without its end.

        Raises ValueError where it does not end, or writes what only the template may write.
        """
        message, stop = tuple(token_ids[:-1]), tuple(token_ids[-1:])
        if not set(stop).intersection(self.stop_ids):
            raise ValueError("a message needs an end")
        if self.border_ids.intersection(message):
            raise ValueError("a message may not write the tokens that stand between messages")
        return self.decode(message)

    def plain(self, text: str) -> str:
        """Return foreign text in which no token of the format is spelled.

        A space behind the first character keeps, say, a tool's answer from ending its message.
        """
        return self._added.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def unmarked(self, text: str) -> str:
        """Return a message's text without special tokens."""
        return self._special.sub("", text)

    def after(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the tokens from behind an assistant message's end to the next generation prompt.

        ``messages`` are what comes between the two.
        """
        said: Message = {"role": "assistant", "content": SENTINEL}
        border = self._behind([_STUB, said, *messages])
        ids = self.encode(border)
        if ids[:1] != self.stop_ids[:1]:
            raise unusable(f"the tokens behind a message do not begin by its end {self.end!r}")
        return ids[1:]

    def written(self, message: Message) -> tuple[int, ...]:
        """Return the tokens that the policy has to sample for the template's ``message``.

        They begin behind the generation prompt and end with the message's end. Raises ConfigError
        where the template begins its messages otherwise than its generation prompts.
        """
        text = self.render([_STUB, message], prompts=False)
        if not text.startswith(self.prompt):
            raise unusable(
                "it begins an assistant message otherwise than a generation prompt: "
                f"{text[-200:]!r} does not continue {self.prompt[-100:]!r}"
            )
        return self._behind_prompt(text[: text.rindex(self.end) + len(self.end)])

    def answer(self, text: str) -> tuple[int, ...]:
        """Return the tokens that the policy has to sample to say ``text``, up to its end.

        Raises ConfigError where they depend on the generation prompt.
        """
        return self._behind_prompt(f"{self.prompt}{text}{self.end}")

    def _behind_prompt(self, text: str) -> tuple[int, ...]:
        """Return the tokens of ``text`` behind the generation prompt that it begins by."""
        ids = self.encode(text)
        count = len(self._prompt_ids)
        if ids[:count] != self._prompt_ids:
            raise unusable("its tokenizer joins a generation prompt with the message behind")
        return ids[count:]

    def check_border(self, between: Sequence[Message], histories: Sequence[Sequence[Message]]):
        """Make sure that the border is the same behind every message and history.

        Each history ends by an assistant message whose content ends by the sentinel. Raises
        ConfigError.
        """
        expected = self._behind([*histories[0], *between])
        for history in histories[1:]:
            found = self._behind([*history, *between])
            if found != expected:
                raise unusable(
                    "what it puts behind an assistant message depends on what was said before: "
                    f"{found!r} is not {expected!r}"
                )

    def _behind(self, messages: Sequence[Message]) -> str:
        """Return the text behind the sentinel, generation prompt included."""
        text = self.render(messages, prompts=True)
        if text.count(SENTINEL) != 1:
            raise unusable(
                f"it renders the content of an assistant message {text.count(SENTINEL)} times"
            )
        return text.partition(SENTINEL)[2]

    def _first_border(self) -> tuple[str, str]:
        """Return the end of an assistant message, and all up to the next generation prompt."""
        said: Message = {"role": "assistant", "content": SENTINEL}
        border = self._behind([_STUB, said, _STUB])
        last = self.render([_STUB, said], prompts=False).partition(SENTINEL)[2]
        found = self._added.match(border)
        if not found or not last.startswith(found[0]):
            raise unusable(
                "it needs to end an assistant message by a token of its own, whatever follows; "
                f"found {last[:40]!r} at the end and {border[:40]!r} before an instruction"
            )
        return found[0], border


def _any_of(tokens: Iterable[str]) -> re.Pattern[str]:
    """Return what finds any of these tokens, the longest that there is."""
    return re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or r"(?!)")

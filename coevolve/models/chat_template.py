"""A model's own chat template and tokenizer, split at the borders of assistant messages.

A conversation is never rendered twice. The template renders its opening once, and sampled messages
stay as they were sampled. After each of them come the tokens that the template puts between the end
of an assistant message and the next generation prompt. They are taken from a rendered conversation
with a sentinel in place of the message. When the template is loaded, a check verifies that this
border depends neither on the message nor on earlier messages. Some templates drop the thinking of
earlier messages or rewrite their calls. They do so only when they render those messages. That
never happens here, so sampled tokens stay in the context.

This is the only deviation from rendering the whole conversation with such a template.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from jinja2 import TemplateError
from transformers import AutoTokenizer

from coevolve.foreign import DESCRIBED_CHARS, boundary, described, native_to_errors, plain
from coevolve.models.deadline import within
from coevolve.models.model_files import DOWNLOAD_AGAIN, as_ids, ends_of_text, unusable
from protocols.errors import ConfigError

Message = dict[str, Any]

LOAD_S = 60.0
"""Seconds that the template may take for its first conversations; it may contain any loop."""

SENTINEL = "Zq7sentinel7qZ"
_STUB: Message = {"role": "user", "content": "Please begin."}
_DATE = "26 Jul 2024"
"""Llama's templates print the date; it is fixed, so that conversations do not depend on the day."""


class ChatTemplate:
    """Renders messages as tokens and finds the borders between them."""

    end: str
    """Token that ends an assistant message, as text."""

    stop_ids: tuple[int, ...]
    """Tokens that end a generation: ``end`` first, then the model's other ends of text."""

    border_ids: frozenset[int]
    """Special tokens of the borders; only the template may write them."""

    def __init__(
        self, tokenizer: Any, *, variables: Mapping[str, object], stop_ids: Iterable[int] = ()
    ) -> None:
        """Find the borders. The template gets ``variables``. Raises ConfigError."""
        self._tokenizer = tokenizer
        self._variables = {"date_string": _DATE, **variables}
        self._added = _pattern_of(tokenizer.get_added_vocab())
        self.prompt = self.render([_STUB], prompts=True)
        self._prompt_ids = self.encode(self.prompt)
        self.end, border = self._first_border()
        others = {*stop_ids, *as_ids(tokenizer.eos_token_id)}
        end_id = self.encode(self.end)[0]
        self.stop_ids = (end_id, *sorted(others - {end_id}))
        added = tokenizer.added_tokens_decoder.items()
        special = {i: token.content for i, token in added if token.special}
        self.border_ids = frozenset(special.keys() & set(self.encode(border)))
        self._special = _pattern_of(special.values())

    @classmethod
    def load(cls, folder: Path, *, variables: Mapping[str, object]) -> "ChatTemplate":
        """Return the template of a model folder, whose code is never run. Raises ConfigError."""
        what = f"policy.model: {folder} needs a usable chat template"
        with boundary(ConfigError, what, DOWNLOAD_AGAIN), within(LOAD_S):
            return cls(read_tokenizer(folder), variables=variables, stop_ids=ends_of_text(folder))

    def render(
        self, messages: Sequence[Message], tools: Sequence[Message] = (), *, prompts: bool
    ) -> str:
        """Return the text of a conversation; ``prompts`` adds the generation prompt.

        Raises ConfigError if the template refuses.
        """
        try:
            text = self._tokenizer.apply_chat_template(
                list(messages),
                tools=list(tools) or None,
                tokenize=False,
                add_generation_prompt=prompts,
                **self._variables,
            )
        except TimeoutError:
            raise
        except Exception as error:
            roles = plain(", ".join(message["role"] for message in messages))
            is_own = isinstance(error, TemplateError)
            reason = plain(str(error), DESCRIBED_CHARS) if is_own else described(error)
            raise unusable(f"it refuses a conversation of {roles}: {reason}") from error
        return cast("str", text)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of rendered text; names of special tokens become these tokens."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

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
        if self.border_ids.intersection(message):
            raise ValueError("a message may not write the tokens that stand between messages")
        return self.decode(message)

    def plain(self, text: str) -> str:
        """Return foreign text changed so that it spells no special token of the format.

        A space after the first character prevents, for example, a tool's answer from ending its
        message.
        """
        return self._added.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def unmarked(self, text: str) -> str:
        """Return a message's text without special tokens."""
        return self._special.sub("", text)

    def after(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the tokens between the end of an assistant message and the next generation prompt.

        ``messages`` are the messages in between.
        """
        said: Message = {"role": "assistant", "content": SENTINEL}
        border = self._text_after_sentinel([_STUB, said, *messages])
        ids = self.encode(border)
        if ids[:1] != self.stop_ids[:1]:
            raise unusable(f"the tokens after a message do not begin with its end {self.end!r}")
        return ids[1:]

    def written(self, message: Message) -> tuple[int, ...]:
        """Return the tokens that the policy must sample for the template's ``message``.

        They begin after the generation prompt and end with the message's end. Raises ConfigError if
        the template begins its messages differently from its generation prompts.
        """
        text = self.render([_STUB, message], prompts=False)
        if not text.startswith(self.prompt):
            raise unusable(
                "it begins an assistant message differently from a generation prompt: "
                f"{text[-200:]!r} does not continue {self.prompt[-100:]!r}"
            )
        return self._tokens_after_prompt(text[: text.rindex(self.end) + len(self.end)])

    def answer(self, text: str) -> tuple[int, ...]:
        """Return the tokens that the policy must sample to say ``text``, including the end token.

        Raises ConfigError if they depend on the generation prompt.
        """
        return self._tokens_after_prompt(f"{self.prompt}{text}{self.end}")

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

    def _text_after_sentinel(self, messages: Sequence[Message]) -> str:
        """Return the text after the sentinel, including the generation prompt."""
        text = self.render(messages, prompts=True)
        if text.count(SENTINEL) != 1:
            raise unusable(
                f"it renders the content of an assistant message {text.count(SENTINEL)} times"
            )
        return text.partition(SENTINEL)[2]

    def _first_border(self) -> tuple[str, str]:
        """Return an assistant message's end token, and the text up to the generation prompt."""
        said: Message = {"role": "assistant", "content": SENTINEL}
        border = self._text_after_sentinel([_STUB, said, _STUB])
        last = self.render([_STUB, said], prompts=False).partition(SENTINEL)[2]
        found = self._added.match(border)
        if not found or not last.startswith(found[0]):
            raise unusable(
                "it must end an assistant message with a special token, whatever follows; "
                f"found {last[:40]!r} at the end and {border[:40]!r} before an instruction"
            )
        return found[0], border


def read_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a model folder, whose code is never run. Raises ConfigError."""
    what = f"policy.model: {folder} needs a usable tokenizer"
    with boundary(ConfigError, what, DOWNLOAD_AGAIN), native_to_errors():
        return cast("Any", AutoTokenizer).from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )


def _pattern_of(tokens: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds any of these tokens, and prefers the longest."""
    return re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or r"(?!)")

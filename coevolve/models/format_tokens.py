"""The tokens of a chat format, which the template writes and text from outside only spells.

Text from outside (instructions, answers of tools, descriptions) reaches the policy unchanged. Where
it spells a token of the format, such as ``<|im_end|>``, it is encoded as ordinary text. For that,
the template sees a placeholder in place of the word, and a copy of the tokenizer knows the format's
tokens by secret names only. Everything is still encoded at once, so that other text has the tokens
that the model's own tokenizer gives it.

Added tokens that are ordinary text, such as empty lines and HTML in Gemma's tokenizer, are no part
of the format.
"""

import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, cast

from tokenizers import AddedToken, Tokenizer

from coevolve.models.model_files import unusable

_TAG = re.compile(r"</?\w[\w.:-]{0,60}>")
"""A tag in the template, which the template may look for in contents."""

_READ = ("<think>", "</think>", "<tool_call>", "</tool_call>")
"""Words that readers of messages look for, also where the template does not write them."""


class FormatTokens:
    """Encodes text that a template has rendered, and guards text from outside."""

    def __init__(self, tokenizer: Any, template: str) -> None:
        """Copy the tokenizer. Raises ConfigError if transformers' fast one cannot be used."""
        own = getattr(tokenizer, "backend_tokenizer", None)
        if not isinstance(own, Tokenizer):
            raise unusable("its tokenizer needs to be one with a tokenizer.json")
        added = cast("Mapping[int, AddedToken]", tokenizer.added_tokens_decoder)
        texts = {number: token.content for number, token in added.items()}
        self.special = frozenset(number for number, token in added.items() if token.special)
        self._format = {
            text: number for number, text in texts.items() if _is_format(added[number], template)
        }
        nonce = secrets.token_hex(8)
        self._secret = {text: f"q{nonce}t{number}q" for text, number in self._format.items()}
        self._copy, self._ids = _renamed(own, added, self._secret)
        words = [*self._format, *_TAG.findall(template)]
        self._guards = {word: f"q{nonce}w{number}q" for number, word in enumerate({*words})}
        self._guarded = _any_of(self._guards)
        self._unguarded = {guard: word for word, guard in self._guards.items()}
        self._guard = _any_of(self._unguarded)
        self.words = _any_of(self._format)
        self.special_words = _any_of(texts[number] for number in self.special)
        self._check()

    def guarded(self, content: Any) -> Any:
        """Return text from outside, or a JSON tree of it, with placeholders for format words."""
        if isinstance(content, str):
            return self._guarded.sub(lambda found: self._guards[found[0]], content)
        if isinstance(content, dict):
            tree = cast("dict[Any, Any]", content)
            return {self.guarded(key): self.guarded(value) for key, value in tree.items()}
        if isinstance(content, list | tuple):
            return [self.guarded(each) for each in cast("list[Any]", content)]
        return content

    def restored(self, text: str) -> str:
        """Return rendered text with the words in place of their placeholders."""
        return self._guard.sub(lambda found: self._unguarded[found[0]], text)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of rendered text. Guarded words become ordinary text."""
        secret = self.words.sub(lambda found: self._secret[found[0]], text)
        ids = self._copy.encode(self.restored(secret), add_special_tokens=False).ids
        return tuple(map(self._ids.get, ids, ids))

    def _check(self) -> None:
        for text, number in self._format.items():
            if number in self.encode(self.guarded(text)):
                raise unusable(f"its tokenizer reads ordinary text {text!r} as a special token")


def _is_format(token: AddedToken, template: str) -> bool:
    """Return whether an added token is special, or a word that template or readers know."""
    word = token.content
    return bool(word.strip()) and (token.special or word in _READ or word in template)


def _renamed(
    own: Tokenizer, added: Mapping[int, AddedToken], names: Mapping[str, str]
) -> tuple[Tokenizer, dict[int, int]]:
    """Return a copy with other names of added tokens, and the own id of each added token."""
    copy = Tokenizer(own.model)
    parts = cast("Any", copy)
    parts.normalizer, parts.pre_tokenizer = own.normalizer, own.pre_tokenizer
    named = {number: names.get(token.content, token.content) for number, token in added.items()}
    copy.add_tokens(
        [
            AddedToken(
                named[number],
                single_word=token.single_word,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                normalized=token.normalized,
                special=False,
            )
            for number, token in added.items()
        ]
    )
    return copy, {cast("int", copy.token_to_id(name)): number for number, name in named.items()}


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds any of these words, and prefers the longest.

    It tries the words together, because some tokenizers have thousands of special tokens.
    """
    root: dict[str, Any] = {}
    for word in words:
        node = root
        for char in word:
            node = node.setdefault(char, {})
        node[""] = {}
    return re.compile(_branches(root) if root else r"(?!)")


def _branches(node: dict[str, Any]) -> str:
    """Return a pattern for the words below a node of a tree of characters."""
    if len(node) == 1:
        ((char, below),) = node.items()
        return re.escape(char) + _branches(below) if char else ""
    ways = [re.escape(char) + _branches(below) for char, below in node.items() if char]
    return f"(?:{'|'.join(ways)}){'?' if '' in node else ''}"

"""Gates of the instructions' form: a user speaks, and writes no calls, markup or orders.

An instruction that spells the calls out teaches copying. Markup of chats and orders to the reader
("ignore all previous instructions"), escape sequences, characters that hide and words of letters
that look alike come from texts that a synthesizer copied, not from a user. Orders are known in
English alone here; `gates.control` finds a reader that obeys one in any language.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from coevolve.base.visible import UNSAFE
from coevolve.environments.tools.task import ToolTurn
from coevolve.environments.tools.toolset import ToolDocument

_MARKUP = re.compile(
    r"<\|[^<>]*\|>|\[/?(?:INST|SYS)\]|<</?SYS>>"
    r"|</?(?:s|system|user|assistant|human|tools?|tool_calls?|function|think|data|im_\w+)\b[^<>]*>"
    r"|^\s*(?:system|assistant|user|human|ai|agent|observation|action)\s*:"
    r"|^\s*#{2,}\s|```",
    re.IGNORECASE | re.MULTILINE,
)
_HIDDEN = re.compile(rf"(?![\u200c\u200d\ufe00-\ufe0f]){UNSAFE.pattern}")
"""Characters that act or that hide, but those that scripts and emoji need."""

_LATIN, _LIKE_LATIN = "[A-Za-z\u00c0-\u024f]", "[\u0370-\u03ff\u0400-\u052f\u13a0-\u13fd]"
_TWO_SCRIPTS = re.compile(
    rf"(?:{_LATIN}+{_LIKE_LATIN}+{_LATIN}|{_LIKE_LATIN}+{_LATIN}+{_LIKE_LATIN}"
    rf"|{_LATIN}{{2,}}{_LIKE_LATIN}|{_LIKE_LATIN}{_LATIN}{{2,}})"
)
"""Latin letters beside Greek, Cyrillic or Cherokee ones: homoglyphs. Formulas have one of each."""

_JSON = re.compile(r"[{\[]\s*\"\w+\"\s*:")
_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b[^.]{0,30}"
    r"\b(?:previous|prior|earlier|above|preceding|system|all|your)\b[^.]{0,20}"
    r"\b(?:instructions?|prompts?|rules?|messages?|guidelines?|tasks?)\b"
    r"|\byou are (?:now )?(?:an?|the) (?:\w+ ){0,2}(?:ai|assistant|agent|model|bot|chatbot)\b"
    r"|\bas an? (?:ai|language model|assistant)\b|\b(?:system|hidden) prompt\b|\bjailbreak\b"
    r"|\b(?:call|invoke|execute|use|run) the (?:\w+ )?(?:tool|function|api call)\b"
    r"|\b(?:tool|function) calls?\b|\bcorrect (?:calls?|answer is)\b|\bexpected (?:calls?|answer)\b"
    r"|\b(?:respond|reply|answer|output) (?:only with|exactly|with the word|verbatim)\b"
    r"|\b(?:rate|mark|grade|score) (?:this|the) (?:task|answer|attempt|conversation)\b"
    r"|\b(?:grader|verifier|reward function|this training task|full marks?)\b",
    re.IGNORECASE,
)


def unclean(turns: Iterable[ToolTurn], tools: Mapping[str, ToolDocument]) -> str:
    """Return the first words that no user would say; empty if there are none."""
    for number, turn in enumerate(turns):
        for kind, pattern in (
            ("a hidden character", _HIDDEN),
            ("markup", _MARKUP),
            ("JSON", _JSON),
            ("an order to the reader", _ORDER),
            ("a call", _calls(tools)),
            ("a word in letters of two scripts", _TWO_SCRIPTS),
        ):
            text = turn.instruction
            found = pattern.search(text) or pattern.search(unicodedata.normalize("NFKC", text))
            if found:
                return f"turn {number + 1} has {kind}: {(found[0].strip() or found[0])!r}"
    return ""


def _calls(tools: Mapping[str, ToolDocument]) -> re.Pattern[str]:
    """Return a pattern of a tool before a parenthesis, an argument, or a name that is no word."""
    parameters = {name for each in tools.values() for name in each.parameters["properties"]}
    names = "|".join(map(re.escape, tools))
    coded = "|".join(re.escape(name) for name in tools if _is_coded(name)) or "(?!)"
    given = "|".join(re.escape(name) for name in parameters if len(name) > 2) or "(?!)"
    value = r"(?:['\"\[{\d-]|True\b|False\b|None\b)"
    return re.compile(rf"\b(?:{names})\(|\b(?:{coded})\b|\b(?:{given})={value}")


def _is_coded(name: str) -> bool:
    """Return whether a name is written as only programs do: ``get_user``, ``setLights``."""
    return "_" in name.strip("_") or re.search(r"[a-z][A-Z]", name) is not None

"""Gates of what an instruction says beside its reference: no more, no answer, no other wish."""

import re
from collections.abc import Collection, Iterable, Sequence

from coevolve.environments.appworld.gates.literals import Value, is_said_number
from coevolve.environments.tools.gates.forms import digits, says, words

_QUOTED = re.compile(r"(?<!\w)'([^'\n]+)'(?!\w)|\"([^\"\n]+)\"|“([^”\n]+)”")

_WANTS = re.compile(
    r"\b(?:tell|answer|let me know|report|reply with|how (?:many|much)|number alone|only the)\b",
    re.IGNORECASE,
)
"""Words with which an answer is asked for."""

_ASKS = re.compile(
    r"\?|\b(?:what|which|who|when|where|give|name|find out|say|count)\b", re.IGNORECASE
)
"""Words that may ask for an answer, besides the others."""

COMMON_WORDS = frozenset({"phone", "file_system", "supervisor", "api_docs", "admin"})
"""Apps whose names are words of every day."""

LEAST_CHARS = 3
"""Shorter answers stand in an instruction by chance."""


def invented(instruction: str, values: Sequence[Value]) -> str:
    """Return what an instruction names and no literal of the reference has; empty if nothing."""
    told = words("\n".join(map(str, values)))
    for match in _QUOTED.finditer(instruction):
        name = next(filter(None, match.groups()))
        if words(name) not in told:
            return f"no code uses {name!r}"
    for number in sorted(digits(instruction)):
        if not is_said_number(number, values):
            return f"no code uses {number:g}"
    return ""


def other_app(instruction: str, apps: Iterable[str], used: Collection[str]) -> str:
    """Return an app that an instruction names and a reference does not use; empty if there is none.

    Names that are words of every day, such as phone, do not count, nor do those in quotations.
    """
    told = words(_QUOTED.sub(" ", instruction))
    for app in apps:
        if app not in used and app not in COMMON_WORDS and words(app.replace("_", " ")) in told:
            return f"the instruction names the app {app}, and the code does not use it"
    return ""


def unanswered(instruction: str, *, answers: bool) -> str:
    """Return how an instruction and a reference differ about an answer; empty if they do not."""
    wants = _WANTS.search(instruction)
    if wants and not answers:
        return f"the instruction asks for an answer ({wants[0]!r}), and the code gives none"
    if answers and not wants and not _ASKS.search(instruction):
        return "the code gives an answer, and the instruction asks for none"
    return ""


def told_answer(instruction: str, answer: str) -> str:
    """Return the answer if the instruction says it; empty if it does not."""
    told = len(answer) >= LEAST_CHARS and says(instruction, answer)
    return f"the instruction says the answer {answer!r}" if told else ""

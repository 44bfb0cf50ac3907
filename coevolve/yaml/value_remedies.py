"""Suggests corrections for values of the wrong type, by common mistakes in run files."""

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from coevolve.base import similar
from coevolve.base.foreign import plain as plain_text
from coevolve.base.foreign import shown
from coevolve.yaml.value_forms import choices, entry_of, plain

UNITS = {"s": "seconds", "mb": "megabytes", "gb": "gigabytes", "usd": "US dollars"}
"""Suffix of a setting's name -> the unit that it counts in."""

NAME_CHARS = 100
"""Maximum characters of a text that may mean a name."""

NUMBER_CHARS = 40
"""Maximum characters of a text that may mean a number."""

THOUSANDS = {"k": 10**3, "K": 10**3, "m": 10**6, "M": 10**6}


SYNONYMS = {"gpu": "cuda"}
"""What users write -> the name of it in a choice."""


def found(value: Any) -> str:
    """Return a value for a message, shortened if it is long."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value}" if isinstance(value, datetime.date) else shown(value)


def remedy(kind: Any, value: Any, path: str) -> str:
    """Return how to turn ``value`` into a ``kind``; empty if the message is clear without it."""
    nature = plain(kind)
    if value is None:
        return "; give a value, or leave the setting out for its default"
    if entry_of(kind) is not None:
        return _list_remedy(value)
    if known := choices(kind):
        return meant(value, known)
    if nature is str and isinstance(value, bool | int | float | datetime.date):
        return "; put it in quotes"
    if nature is bool and isinstance(value, str) and value.lower() in ("true", "false"):
        return "; leave out the quotes"
    if nature in (int, float):
        return _number_remedy(nature, value, path)
    return ""


def meant(value: Any, known: Sequence[Any]) -> str:
    """Return the most similar one of ``known``, as a question; empty if none is similar."""
    texts = [each for each in known if isinstance(each, str)]
    synonym = SYNONYMS.get(f"{value}".lower(), "")
    near = synonym if synonym in texts else nearest(value, texts)
    return f"; did you mean {near!r}?" if near else ""


def nearest(value: Any, known: Iterable[str]) -> str:
    """Return the most similar one of ``known``; empty if none is similar."""
    written = f"{value}".strip().lower() if isinstance(value, str | int | float) else ""
    return similar.nearest(written, known)


def _list_remedy(value: Any) -> str:
    if isinstance(value, str):
        entries = ", ".join(each.strip(" []") for each in value.split(",") if each.strip(" []"))
        return f"; write a list: [{plain_text(entries)}]"
    if isinstance(value, Mapping):
        keys = cast("Mapping[Any, Any]", value)
        whole = "give the whole list" if all(f"{key}".isdigit() for key in keys) else ""
        return f"; {whole or 'put a dash before each entry'}"
    return "" if isinstance(value, list) else "; write a list, for example [a, b]"


def _number_remedy(nature: type, value: Any, path: str) -> str:
    if isinstance(value, str):
        return _text_remedy(value.strip(), path)
    if nature is int and isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return f"; write {int(value)}"
    if nature is float and isinstance(value, int | float) and 1 < value <= 100:
        return f"; {value:g} % is {value / 100:g}"
    return ""


def _text_remedy(text: str, path: str) -> str:
    """Return how to write the number that a text contains; empty for a long text."""
    if len(text) > NUMBER_CHARS:
        return ""
    unit = UNITS.get(path.rpartition("_")[2], "")
    alone = f"; give the number of {unit} alone" if unit else "; give the number alone"
    odd = next((each for each in text if not each.isascii()), "")
    if odd:
        return f"; {shown(odd)} is no sign of a number: type it anew"
    if re.fullmatch(r"[-+]?0\d+", text):
        return "; leave out the leading zero"
    if re.fullmatch(r"[-+]?[\d_.]+([eE][-+]?\d+)?", text):
        return "; leave out the quotes"
    if re.fullmatch(r"\d{1,3}(,\d{3})+", text):
        return f"; write it without commas: {text.replace(',', '')}"
    if re.fullmatch(r"\d+,\d+", text):
        return f"; write it with a decimal point: {text.replace(',', '.')}"
    if fraction := re.fullmatch(r"(\d+)/([1-9]\d*)", text):
        return f"; write {int(fraction[1]) / int(fraction[2]):g}"
    if measured := re.fullmatch(r"(\d+\.?\d*) *([A-Za-z%]+)", text):
        return _unit_remedy(float(measured[1]), measured[2], unit) or alone
    return alone if re.match(r"\d", text) else ""


def _unit_remedy(number: float, unit: str, counted: str) -> str:
    if unit == "%":
        return f"; write the share: {number / 100:g}"
    if unit in THOUSANDS and not counted:
        return f"; write {number * THOUSANDS[unit]:.0f}"
    return ""

"""Finds a value in a text, in any of the forms in which people write it.

Upper and lower case are equal, and so are the ways to join the words of a name (``budget_analysis``
is *budget analysis*). ``two`` and ``2nd`` are 2; *November 15th, 2024* is ``2024-11-15``. A value
is not found inside a longer name.
"""

import calendar
import itertools
import json
import re
from collections.abc import Iterator

from coevolve.environments.tools.gates.reading import leaves

_NUMBER = re.compile(
    r"(?<![\w.\-/:])([-+]?\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:st|nd|rd|th|k|K)?(?![\w\-/:]|\.\d)"
)
_JOINED = re.compile(r"\b[A-Za-z]+-(\d+)\b(?![-/.])|(?<![\w\-/.])(\d+)-[A-Za-z]+\b")
_LONG_NUMBER = re.compile(r"(?<![\w.\-/])\d{3,}(?:\.\d+)?")
_LOOSE_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")

_UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"),
    *("tenth", "eleventh", "twelfth"),
)
_OTHERS = {
    **dict(zip(_ORDINALS, range(1, 13), strict=True)),
    **{"once": 1, "twice": 2, "half": 0.5, "halfway": 0.5, "quarter": 0.25, "dozen": 12},
    **{"hundred": 100, "thousand": 1000, "million": 1_000_000, "single": 1, "pair": 2},
}
_SPELLED: dict[str, float] = {
    **{word: number for number, word in enumerate(_UNITS)},
    **{word: 10 * number for number, word in enumerate(_TENS, 2)},
    **_OTHERS,
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}

_MONTHS = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_MONTH_OF_YEAR = re.compile(r"(\d\d)/20(\d\d)")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?!\d)")
_JOINT = re.compile(r"[\W_]+")
_FILE_NAME = re.compile(r"(?<![\w.])([\w-]+)\.(\w+)(?![\w.])")
_BETWEEN = r"[\W_]*"
"""Between the words of a name: blanks and punctuation, or nothing."""

_CODE = re.compile(r"([A-Za-z]+)(\d{3,})|(\d{3,})([A-Za-z]+)")

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def says(text: str, value: object) -> bool:
    """Return whether ``text`` has ``value`` in some form."""
    number = as_number(value)
    if number is not None and number in numbers(text):
        return True
    return _has_name(text, str(value)) or is_date(text, str(value))


def shows(answer: str, value: object) -> bool:
    """Return whether a tool's answer, in plain words, has ``value``, perhaps with more digits."""
    number = as_number(value)
    if number is not None and any(
        is_rounded(number, other) for other in digits(answer) | _long_numbers(answer)
    ):
        return True
    return _has_name(answer, str(value))


def as_number(value: object) -> float | None:
    """Return the value of a number or of a text that is one; None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def is_rounded(number: float, exact: float) -> bool:
    """Return whether ``number`` is ``exact``, perhaps rounded to its own decimals."""
    decimals = len(f"{number:.6f}".rstrip("0").partition(".")[2])
    return number == exact or number == round(exact, decimals)


def is_composed(value: object, text: str) -> bool:
    """Return whether a name or sentence is put together from parts that ``text`` has.

    A path or file name needs all its parts, and a code of letters and a long number (``US914881``)
    both. A sentence needs all its words, and most of its pairs
    of neighbouring words: so a form such as *The distance is xxx km* gives it, with the number.
    """
    whole = str(value)
    parts = [part for part in whole.split("/") if part.strip(".")]
    if len(parts) > 1 and " " not in whole:
        return all(says(text, part) or shows(text, part) for part in parts)
    if match := _FILE_NAME.fullmatch(whole):
        return says(_FILE_NAME.sub(r"\1 ", text), match[1]) and says(text, match[2])
    if code := code_parts(whole):
        return all(_has_name(text, part) for part in code)
    spoken = words(whole).split()
    if len(spoken) < MIN_SENTENCE:
        return False
    known = words(text)
    pairs = list(itertools.pairwise(spoken))
    joined = sum(f" {one} {other} " in known for one, other in pairs)
    return all(f" {word} " in known for word in spoken) and 2 * joined > len(pairs)


def code_parts(text: str) -> tuple[str, ...]:
    """Return the letters and the long number of a code such as ``US914881``; none of other text."""
    match = _CODE.fullmatch(text)
    return tuple(filter(None, match.groups())) if match else ()


MIN_SENTENCE = 3
"""Minimum words of a sentence that may be composed."""


def numbers(text: str) -> set[float]:
    """Return the numbers in a text: as digits, in words, or joined to a word (*30-gallon*)."""
    joined = {float(found) for match in _JOINED.finditer(text) for found in match.groups() if found}
    return digits(text) | set(_spelled(text)) | joined


def digits(text: str) -> set[float]:
    """Return the numbers that a text has as digits and not within a name."""
    return {float(match.replace(",", "")) for match in _NUMBER.findall(text)}


def _long_numbers(text: str) -> set[float]:
    """Return the numbers of three digits or more, also where letters follow: *$5000Expenses*."""
    return {float(found) for found in _LONG_NUMBER.findall(text)}


def plain(answer: str) -> str:
    """Return the plain values in a JSON answer as text, one after the other."""
    return "\n".join(plain_values(answer))


def plain_values(answer: str) -> list[str]:
    """Return the plain values in a JSON answer, or the answer itself."""
    try:
        return list(map(str, leaves(json.loads(answer))))
    except (ValueError, RecursionError):
        return [answer]


def words(text: str) -> str:
    """Return the words of a text or name, in lower case with single blanks between and around."""
    return f" {_JOINT.sub(' ', _HUMP.sub(' ', text)).lower().strip()} "


def _has_name(text: str, value: str) -> bool:
    parts = list(map(re.escape, words(value).split()))
    if not parts:
        return " ".join(value.split()) in " ".join(text.split())
    name = rf"(?<![\w-]){_BETWEEN.join(parts)}(?![\w-]|\.\w)"
    return re.search(name, text, re.IGNORECASE) is not None


def is_date(text: str, value: str) -> bool:
    """Return whether ``text`` has the date ``value`` (``2024-11-15`` or ``11/2024``)."""
    if month_of_year := _MONTH_OF_YEAR.fullmatch(value):
        return f"{month_of_year[1]}/{month_of_year[2]}" in text
    match = _DATE.search(value)
    if not match:
        return False
    year, month, day = map(int, match.groups())
    if not 1 <= month <= len(_MONTHS):
        return False
    lowered = text.lower()
    named = re.search(rf"\b{_MONTHS[month - 1]}[a-z]*\b", lowered)
    slashed = re.search(rf"\b0?{month}/0?{day}(?:/(?:20)?{year % 100:02d})?\b", lowered)
    counts = {int(found) for found in re.findall(r"\d+", lowered)}
    spelled = {day for day in _spelled(lowered) if day == int(day)}
    ordinal = f"{_ORDINALS[month - 1]} month" in lowered
    ends = "last day" in lowered and day == calendar.monthrange(year, month)[1]
    in_words = (named or ordinal) and (ends or day in counts | spelled)
    return bool(slashed or in_words) and bool({year, year % 100} & counts)


def _spelled(text: str) -> Iterator[float]:
    """Yield the numbers that a text has in words: *twenty-five*, *three hundred*."""
    before: float | None = None
    for word in re.findall(r"[a-z]+|[\d,.]*\d", text.lower()):
        number = _SPELLED.get(word)
        if number is None:
            before = float(word.replace(",", "")) if _LOOSE_NUMBER.fullmatch(word) else None
            continue
        yield number
        if before is not None:
            both = before * number if word in _SCALES else before + number
            yield both
            number = both
        before = number

"""Finds where some lines stand among others (Knuth, Morris and Pratt 1977).

The number of comparisons grows with the number of lines, however often one stands among them.
"""

from collections.abc import Sequence


def occurrences(among: Sequence[object], wanted: Sequence[object]) -> list[int]:
    """Return every index at which ``wanted``, at least one thing, stands in ``among``."""
    borders = _borders(wanted)
    found: list[int] = []
    matched = 0
    for index, each in enumerate(among):
        matched = _match_length(each, wanted, borders, matched)
        if matched == len(wanted):
            found.append(index + 1 - matched)
            matched = borders[-1]
    return found


def _borders(wanted: Sequence[object]) -> list[int]:
    """Return, of each beginning, the length of the longest that it ends with beside itself."""
    borders = [0]
    for each in wanted[1:]:
        borders.append(_match_length(each, wanted, borders, borders[-1]))
    return borders


def _match_length(
    each: object, wanted: Sequence[object], borders: Sequence[int], matched: int
) -> int:
    """Return how much of ``wanted`` stands at the end, ``each`` included, after ``matched``."""
    while each != wanted[matched]:
        if not matched:
            return 0
        matched = borders[matched - 1]
    return matched + 1

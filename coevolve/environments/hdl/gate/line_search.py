"""Finds a sequence of lines in another (Knuth, Morris and Pratt 1977).

The number of comparisons is linear in the number of lines, however often a line repeats.
"""

from collections.abc import Sequence


def occurrences(among: Sequence[object], wanted: Sequence[object]) -> list[int]:
    """Return every index at which ``wanted``, with at least one item, starts in ``among``."""
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
    """Return, for each prefix of ``wanted``, the length of its longest proper prefix and suffix."""
    borders = [0]
    for each in wanted[1:]:
        borders.append(_match_length(each, wanted, borders, borders[-1]))
    return borders


def _match_length(
    each: object, wanted: Sequence[object], borders: Sequence[int], matched: int
) -> int:
    """Return the length of the prefix matched after ``each``, given ``matched`` before it."""
    while each != wanted[matched]:
        if not matched:
            return 0
        matched = borders[matched - 1]
    return matched + 1

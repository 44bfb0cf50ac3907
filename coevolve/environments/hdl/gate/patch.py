"""Applies a policy's hunks to a testbench: all of them, or none.

The grammar is LLM4Cov's (arXiv 2602.16953): hunks only, each opened by a line that starts with
``@@``; in it a line of context starts with a blank, an old line with ``-``, a new one with ``+``;
``NO_CHANGES`` alone changes nothing. Hunks apply in order, each to what the former ones left.

Deviations, each because policies miscount more often than they misremember:

- Context need not be exact. A hunk is looked for as it stands, then without trailing blanks, then
  without indentation, then without blank lines, and the first way that finds it counts. What is
  kept of the text is never rewritten. An empty line in a hunk is blank context.
- The place must be the only one. Where there are several, the line that a header such as
  ``@@ -12,3 +12,4 @@`` names decides, then whether only one of them lies behind the former hunk;
  else the hunk fails. (LLM4Cov takes the first.)
- Headers of a unified diff (``---``, ``+++``) before the first hunk are skipped.
- Nothing is applied where one hunk fails, and the error tells every one that does.
- A patch has a limited number of hunks, for each is looked for in the whole text.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coevolve.environments.hdl.gate.line_search import occurrences

NO_CHANGES = "NO_CHANGES"

MOST_LOOKED_AT = 1_000_000
"""Hunks times lines, those of the patch included."""

_NUMBERED = re.compile(r"@@ -(\d{1,9})(?:,(\d+))?(?: \+\d+(?:,\d+)?)? @@")
"""Longer numbers are no line's."""


class PatchError(ValueError):
    """Some hunks do not apply, or the text is not a patch; ``hunks`` counts from 1."""

    def __init__(self, reason: str, hunks: tuple[int, ...] = ()) -> None:
        super().__init__(reason)
        self.hunks = hunks


@dataclass(frozen=True, kw_only=True)
class _Hunk:
    lines: tuple[str, ...]
    """Each with its prefix."""

    start: int | None
    """Index of the first old line, where the header tells it."""

    fault: str
    """Why it cannot be applied anywhere; empty where it can be tried."""

    @property
    def old(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] != "+"]


def apply(base: str, patch: str) -> str:
    """Return the text with every hunk applied.

    Raises PatchError where any does not apply, naming each one that does not, or where there are
    too many.
    """
    if patch.strip() == NO_CHANGES:
        return base
    lines = base.split("\n")
    hunks = _hunks(patch)
    _refuse_too_many(len(hunks), base.count("\n") + patch.count("\n") + 2)
    failed: dict[int, str] = {}
    shift = behind = 0
    for number, hunk in enumerate(hunks, start=1):
        try:
            places = _place(lines, hunk, shift=shift, behind=behind)
        except PatchError as error:
            failed[number] = str(error)
            continue
        before = len(lines)
        lines, behind = _replaced(lines, hunk, places, _insertion(hunk, shift))
        shift += len(lines) - before
    if failed:
        words = "; ".join(f"hunk {number}: {reason}" for number, reason in failed.items())
        raise PatchError(f"every hunk must apply, and nothing was changed: {words}", tuple(failed))
    return "\n".join(lines)


def _refuse_too_many(hunks: int, lines: int) -> None:
    most = max(1, MOST_LOOKED_AT // lines)
    if hunks > most:
        raise PatchError(
            f"a patch of a text of this length has at most {most} hunks, found {hunks}; put "
            "neighbouring changes into one hunk, or change less"
        )


def _hunks(patch: str) -> list[_Hunk]:
    bodies: list[tuple[str, list[str]]] = []
    for line in patch.split("\n"):
        if line.startswith("@@"):
            bodies.append((line, []))
        elif bodies:
            bodies[-1][1].append(line)
        elif line.strip() and not line.startswith(("---", "+++")):
            raise PatchError(
                "a patch is hunks that each open with a line '@@', or NO_CHANGES alone; "
                f"found {line.strip()[:60]!r} before any hunk"
            )
    if not bodies:
        raise PatchError("a patch needs a hunk that opens with a line '@@', found none")
    return [_hunk(header, body) for header, body in bodies]


def _hunk(header: str, body: Sequence[str]) -> _Hunk:
    end = len(body)
    while end and not body[end - 1].strip("\r"):
        end -= 1
    kept = [line for line in body[:end] if not line.startswith("\\")]
    lines = tuple(" " + line if line[:1] in ("", "\t", "\r") else line for line in kept)
    numbered = _NUMBERED.match(header)
    start = None
    if numbered:
        # A count of 0 names the line after which to insert, any other the first old line.
        start = int(numbered[1]) - (numbered[2] != "0")
    return _Hunk(lines=lines, start=start, fault=_fault(lines))


def _fault(lines: Sequence[str]) -> str:
    for line in lines:
        if line[0] not in " -+":
            return f"each line must start with ' ', '-' or '+', found {line[:60]!r}"
    if all(line[0] == " " for line in lines):
        return "it needs a line that starts with '-' or '+', found none"
    return ""


_LOOKS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)


def _place(lines: Sequence[str], hunk: _Hunk, *, shift: int, behind: int) -> list[int]:
    """Return the index in ``lines`` of each old line, -1 for one that is skipped as blank."""
    if hunk.fault:
        raise PatchError(hunk.fault)
    old = hunk.old
    if not any(line.strip() for line in old):
        return _unanchored(lines, hunk, shift)
    for look in _LOOKS:
        seen = [look(line) for line in lines]
        found = occurrences(seen, [look(line) for line in old])
        if found:
            start = _only(found, hunk, shift=shift, behind=behind)
            return list(range(start, start + len(old)))
    return _without_blank_lines(lines, hunk, shift=shift, behind=behind)


def _unanchored(lines: Sequence[str], hunk: _Hunk, shift: int) -> list[int]:
    """Place a hunk without words of context: by its line number, or into an empty text."""
    count = len(hunk.old)
    if hunk.start is None:
        if any(line.strip() for line in lines):
            raise PatchError("it needs a line of context or an old line, found none")
        return list(range(min(count, len(lines)))) + [-1] * max(0, count - len(lines))
    start = hunk.start + shift
    there = lines[max(start, 0) : max(start, 0) + count]
    if not 0 <= start <= len(lines) or len(there) != count or any(line.strip() for line in there):
        raise PatchError(f"line {hunk.start + 1} is not blank, and it has no other context")
    return list(range(start, start + count))


def _without_blank_lines(
    lines: Sequence[str], hunk: _Hunk, *, shift: int, behind: int
) -> list[int]:
    worded = [index for index, line in enumerate(lines) if line.strip()]
    wanted = [line.strip() for line in hunk.old if line.strip()]
    found = occurrences([lines[index].strip() for index in worded], wanted)
    if not found:
        raise PatchError(f"its old lines stand nowhere in the testbench, found {_first(hunk)!r}")
    starts = [worded[index] for index in found]
    at = found[starts.index(_only(starts, hunk, shift=shift, behind=behind))]
    rest = iter(worded[at : at + len(wanted)])
    return [next(rest) if line.strip() else -1 for line in hunk.old]


def _only(found: Sequence[int], hunk: _Hunk, *, shift: int, behind: int) -> int:
    if len(found) == 1:
        return found[0]
    if hunk.start is not None and hunk.start + shift in found:
        return hunk.start + shift
    later = [index for index in found if index >= behind]
    if behind and len(later) == 1:
        return later[0]
    raise PatchError(
        f"its old lines stand at {len(found)} places, give more lines of context; "
        f"they begin {_first(hunk)!r}"
    )


def _first(hunk: _Hunk) -> str:
    return next(line.strip() for line in hunk.old if line.strip())[:60]


def _insertion(hunk: _Hunk, shift: int) -> int:
    """Return where the new lines of a hunk without old ones go."""
    return 0 if hunk.start is None else hunk.start + shift


def _replaced(
    lines: Sequence[str], hunk: _Hunk, places: Sequence[int], insertion: int
) -> tuple[list[str], int]:
    """Return the lines with the hunk applied, and the index behind what it touched."""
    known = [index for index in places if index >= 0]
    cursor = known[0] if known else insertion
    made = list(lines[:cursor])
    old = iter(places)
    for line in hunk.lines:
        if line[0] == "+":
            made.append(line[1:])
            continue
        index = next(old)
        if index < 0:
            continue
        made += lines[cursor:index]
        if line[0] == " ":
            made.append(lines[index])
        cursor = index + 1
    return made + list(lines[cursor:]), len(made)

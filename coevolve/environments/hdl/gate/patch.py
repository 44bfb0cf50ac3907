"""Applies a policy's hunks to a testbench: all of them, or none.

The grammar is LLM4Cov's (arXiv 2602.16953). A patch has only hunks, and each starts with a line
that begins with ``@@``. In a hunk a line of context starts with a blank, an old line with ``-``, a
new one with ``+``. ``NO_CHANGES`` alone changes nothing. Hunks apply in order, each to the result
of those before it.

Deviations, each because policies miscount more often than they misremember:

- Context need not be exact. A hunk is searched for unchanged, then without trailing blanks, then
  without indentation, then without blank lines; the first search that finds it counts. The text
  that stays is never rewritten. An empty line in a hunk is blank context.
- The match must be unique. Of several matches, the one at the line number of a header such as ``@@
  -12,3 +12,4 @@`` is used, or else the only one after the hunk before; otherwise the hunk fails.
  (LLM4Cov takes the first.)
- Headers of a unified diff (``---``, ``+++``) before the first hunk are skipped.
- If any hunk fails, none is applied, and the error names every hunk that fails.
- The number of hunks is limited, because each one is searched for in the whole text; so is the
  patch's length.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coevolve.environments.sdk import boundary, shown

NO_CHANGES = "NO_CHANGES"

MOST_CHARS = 1_000_000
"""Maximum length of a patch."""

MOST_LOOKED_AT = 1_000_000
"""Maximum of hunks times lines, including the patch's own lines."""

MOST_REASONS = 20
"""Maximum number of hunks whose faults the error names; it goes into a prompt."""

_NUMBERED = re.compile(r"@@ -(\d{1,9})(?:,(\d+))?(?: \+\d+(?:,\d+)?)? @@")
"""Header with a line number; no file has lines with longer numbers."""


class PatchError(ValueError):
    """Some hunks do not apply, or the text is not a patch; ``hunks`` are numbered from 1."""

    def __init__(self, reason: str, hunks: tuple[int, ...] = ()) -> None:
        super().__init__(reason)
        self.hunks = hunks


@dataclass(frozen=True, kw_only=True)
class _Hunk:
    lines: tuple[str, ...]
    """The hunk's lines, each with its prefix."""

    start: int | None
    """Index of the first old line, if the header has a line number."""

    fault: str
    """Why the hunk is invalid; empty for a valid one."""

    @property
    def old(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] != "+"]


def apply(base: str, patch: str) -> str:
    """Return the text with every hunk applied.

    Raises PatchError, with the number of each hunk that does not apply, or if the patch is too long
    or has too many.
    """
    with boundary(PatchError, "the patch cannot be applied"):
        return _apply(base, patch)


def _apply(base: str, patch: str) -> str:
    if len(patch) > MOST_CHARS:
        raise PatchError(
            f"a patch has at most {MOST_CHARS} characters, found {len(patch)}; change less"
        )
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
        lines, behind = _apply_hunk(lines, hunk, places, _insertion(hunk, shift))
        shift += len(lines) - before
    if failed:
        some = list(failed.items())[:MOST_REASONS]
        words = "; ".join(f"hunk {number}: {reason}" for number, reason in some)
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
                f"found {shown(line.strip()[:60])} before any hunk"
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
            return f"each line must start with ' ', '-' or '+', found {shown(line[:60])}"
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
    """Return the place of a hunk without words: its line number, or the start of a blank text."""
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
        raise PatchError(f"its old lines are not in the testbench; they start {_first(hunk)}")
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
        f"its old lines occur at {len(found)} places, give more lines of context; "
        f"they start {_first(hunk)}"
    )


def _first(hunk: _Hunk) -> str:
    """Return the first words of a hunk's old lines, quoted."""
    return shown(next(line.strip() for line in hunk.old if line.strip())[:60])


def _insertion(hunk: _Hunk, shift: int) -> int:
    """Return the index at which to insert a hunk without old lines."""
    return 0 if hunk.start is None else hunk.start + shift


def _apply_hunk(
    lines: Sequence[str], hunk: _Hunk, places: Sequence[int], insertion: int
) -> tuple[list[str], int]:
    """Return the lines with the hunk applied, and the index after its last line."""
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


def occurrences(among: Sequence[object], wanted: Sequence[object]) -> list[int]:
    """Return every index at which ``wanted``, with at least one item, starts in ``among``.

    However often an item repeats, it compares about ``len(among) + len(wanted)`` times (Knuth,
    Morris and Pratt 1977).
    """
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

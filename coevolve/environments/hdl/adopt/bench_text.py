"""Joins the files of a testbench: those given, and those that they include.

Several files are one compilation unit, so their texts in order mean the same as one text, and an
``include`` the same as the text that it names. Each line remembers its file and its number there.
"""

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from coevolve.environments.hdl.gate.encoding import bench_text as decoded
from coevolve.environments.sdk import boundary, bytes_of
from protocols.errors import ConfigError

MOST_BYTES = 16 << 20
"""Of a file: a device or a pipe may have no end."""

MOST_NESTED = 32
_INCLUDE = re.compile(r'^([ \t]*)`include[ \t]+"([^"\n]+)"(.*)$', re.MULTILINE)
_PLACE = re.compile(r"\btb\.sv:(\d+)")


@dataclass(frozen=True, kw_only=True)
class BenchText:
    """One text, and where its lines are from."""

    text: str
    starts: tuple[tuple[int, str, int], ...]
    """Line of the text from which on the lines are those of a file, its name, and its line."""

    def placed(self, message: str) -> str:
        """Return a message with the places of the files in place of those of the text."""
        if len(self.starts) < 2:
            return message
        return _PLACE.sub(lambda match: self._place(int(match[1])), message)

    def _place(self, line: int) -> str:
        at = bisect.bisect_right(self.starts, line, key=lambda each: each[0]) - 1
        first, name, number = self.starts[max(at, 0)]
        return f"{name}:{line - first + number}"


def bench_text(paths: Sequence[Path], include: Sequence[Path] = ()) -> BenchText:
    """Return the text of the files. Raises ConfigError where one cannot be read."""
    lines: list[str] = []
    starts: list[tuple[int, str, int]] = []
    for path in paths:
        _add(path, include, lines, starts, ())
    return BenchText(text="".join(lines), starts=tuple(starts))


def _add(
    path: Path,
    include: Sequence[Path],
    lines: list[str],
    starts: list[tuple[int, str, int]],
    outer: tuple[Path, ...],
) -> None:
    if len(outer) > MOST_NESTED:
        raise ConfigError(f"{path}: files are included more than {MOST_NESTED} deep")
    starts.append((len(lines) + 1, path.name, 1))
    for number, line in enumerate(_read(path).splitlines(keepends=True), 1):
        match = _INCLUDE.match(line)
        target = match and next(_found(match[2], path, include), None)
        if not match or target is None:
            lines.append(line if line.endswith("\n") else f"{line}\n")
            continue
        _add(target, include, lines, starts, (*outer, path))
        if match[3].strip():
            starts.append((len(lines) + 1, path.name, number))
            lines.append(f"{match[3]}\n")
        starts.append((len(lines) + 1, path.name, number + 1))


def _found(name: str, path: Path, include: Sequence[Path]) -> Iterator[Path]:
    for folder in (path.parent, *include, Path()):
        if (folder / name).is_file():
            yield folder / name


def _read(path: Path) -> str:
    with boundary(ConfigError, f"{path}: cannot be read", named=path):
        return decoded(bytes_of(path, MOST_BYTES))

"""Writes coverage to files and lines, and merges coverage files for ``coevolve hdl merge``."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from coevolve.environments.hdl.simulate.messages import Coverage, Point, Unit
from coevolve.environments.sdk import boundary, bytes_of
from protocols.errors import ConfigError

MOST_BYTES = 256 << 20
"""Maximum size of a coverage file that is read."""


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files to write; None for those that are not wanted."""

    lcov: Path | None
    dat: Path | None


def merge(
    *,
    paths: tuple[Path, ...],
    rtl: tuple[Path, ...],
    dut: str,
    plan: tuple[Path, ...],
    lcov: Path | None,
    dat: Path | None,
    limit: int,
    as_json: bool,
) -> None:
    """Print the coverage of several coverage files together, and write it.

    Raises ConfigError, DependencyError and SimulatorError.
    """
    from coevolve.environments.hdl.coverage.database import merged
    from coevolve.environments.hdl.coverage.feedback import structured, uncovered
    from coevolve.environments.hdl.coverage.points import point_set
    from coevolve.environments.hdl.designs.folders import load, unit_from_files, with_plan
    from coevolve.environments.hdl.simulate.verilator import open_simulator

    unit = unit_from_files(rtl, dut) if rtl else load(paths[0]).planned.unit
    unit = with_plan(unit, plan) if plan else unit
    files = paths if rtl else paths[1:]
    points = asyncio.run(open_simulator().points(unit))
    coverage = merged([(str(path), _read(path)) for path in files], point_set(points), unit)
    given = rtl or [paths[0] / file.name for file in unit.files]
    write_coverage(Files(lcov=lcov, dat=dat), points, coverage, unit, given)
    if as_json:
        answer: dict[str, Any] = {
            "kinds": coverage.kinds,
            "overall_average": coverage.overall_average,
            "overall_covered": coverage.overall_covered,
            "uncovered": structured(points, coverage, unit),
        }
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer)).decode() + "\n")
        return
    lines = [f"{unit.name}: {len(files)} files", *counted(coverage), ""]
    sys.stdout.write("\n".join(lines) + "\n" + uncovered(points, coverage, unit, limit))


def write_coverage(
    files: Files, points: Sequence[Point], coverage: Coverage, unit: Unit, given: Sequence[Path]
) -> None:
    """Write the wanted files; ``given`` are the paths of the RTL. Raises ConfigError."""
    from coevolve.environments.hdl.coverage.database import written
    from coevolve.environments.hdl.coverage.lcov import lcov

    if files.lcov is not None:
        paths = {path.name: str(path.resolve()) for path in given}
        write(files.lcov, lcov(points, coverage, unit, paths))
    if files.dat is not None:
        write(files.dat, written(points, coverage, unit))


def counted(coverage: Coverage) -> list[str]:
    """Return the counts of each kind and of all, a line each."""
    covered = sum(kind.covered for kind in coverage.kinds)
    total = sum(kind.total for kind in coverage.kinds)
    kinds = [
        f"  {kind.metric:<8} {kind.covered:>5} of {kind.total:<5} {kind.covered / kind.total:7.1%}"
        for kind in coverage.kinds
    ]
    return [
        *kinds,
        f"  overall average        {coverage.overall_average:7.1%}",
        f"  overall  {covered:>5} of {total:<5} {coverage.overall_covered:7.1%}",
    ]


def _read(path: Path) -> str:
    with boundary(ConfigError, f"{path}: cannot be read"):
        return bytes_of(path, MOST_BYTES).decode("utf-8", "replace")


def write(path: Path, text: str) -> None:
    """Write a file. Raises ConfigError where that fails."""
    try:
        path.write_text(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error

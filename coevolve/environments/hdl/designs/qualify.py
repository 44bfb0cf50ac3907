"""Checks whether runs may train and measure on designs, for the command ``coevolve hdl qualify``.

It measures each design and names every rule of `hdl.designs.admission` that the design breaks. The
rules on copies and families use all readable designs in the same folder.
"""

import asyncio
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from coevolve.environments.hdl.designs.admission import (
    FREEZABLE,
    Measured,
    Refusal,
    kept_apart,
    refusals,
)
from coevolve.environments.hdl.designs.design import QUALITIES, Design, PointsFile
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.designs.measuring import measure
from coevolve.environments.hdl.simulate.verilator import VerilatorSimulator, open_simulator
from protocols.errors import ConfigError


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one design."""

    design_id: str
    family: str
    split: str
    secret: bool
    threshold: float
    mutants: int
    measured: Measured
    refusals: tuple[Refusal, ...]

    @property
    def admitted(self) -> bool:
        """Whether the design breaks no rule."""
        return not self.refusals


async def admit(design: Design, simulator: VerilatorSimulator) -> Admission:
    """Measure one design, and check the rules that concern it alone."""
    measured = await measure(design, simulator)
    return Admission(
        design_id=design.design_id,
        family=design.file.family,
        split=design.file.split,
        secret=bool(design.file.secret),
        threshold=design.file.threshold,
        mutants=len(design.mutants),
        measured=measured,
        refusals=refusals(design, measured),
    )


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command line; `coevolve.environments.hdl.cli` says what each option is."""

    designs: tuple[Path, ...]
    freeze: bool
    as_json: bool
    table: bool
    uncovered: bool
    jobs: int


def qualify(options: Options) -> bool:
    """Check and print the designs; return whether all are admitted.

    Raises CoevolveError where a design cannot be read.
    """
    admissions = asyncio.run(_admit_all(_folders(options.designs), options))
    apart = kept_apart(_readable_designs(options.designs))
    if options.table:
        sys.stdout.write(table(admissions))
    for refusal in apart:
        sys.stderr.write(f"{refusal}\n")
    return not apart and all(admission.admitted for admission in admissions)


async def _admit_all(folders: Sequence[Path], options: Options) -> tuple[Admission, ...]:
    """Check designs, ``options.jobs`` at a time; print each when it is done.

    Returns the results in the order of ``folders``.
    """
    designs = [load(folder) for folder in folders]
    simulator = open_simulator()
    free = asyncio.Semaphore(options.jobs)

    async def one(folder: Path, design: Design) -> Admission:
        async with free:
            admission = await admit(design, simulator)
        if options.freeze:
            admission = _freeze_points(folder, admission)
        if not options.table:
            sys.stdout.write(_report(admission, options))
            sys.stdout.flush()
        return admission

    jobs = (one(folder, design) for folder, design in zip(folders, designs, strict=True))
    return tuple(await asyncio.gather(*jobs))


def _freeze_points(folder: Path, admission: Admission) -> Admission:
    """Freeze the points if the design breaks no other rule, and return the new result."""
    if {refusal.rule for refusal in admission.refusals} - FREEZABLE:
        sys.stderr.write(f"{folder}: points not frozen, because the design breaks other rules\n")
        return admission
    measured = admission.measured
    freeze(folder, PointsFile(count=measured.count, sha256=measured.sha256))
    return msgspec.structs.replace(admission, refusals=())


def _folders(given: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in given:
        if (path / "design.yaml").is_file():
            found.append(path)
            continue
        below = sorted(file.parent for file in path.glob("*/design.yaml"))
        if not below:
            raise ConfigError(f"{path}: needs a design.yaml, or folders that have one; found none")
        found += below
    return found


def _readable_designs(given: Iterable[Path]) -> list[Design]:
    """Return the readable designs of all folders that contain one of ``given``."""
    roots = {
        (path.parent if (path / "design.yaml").is_file() else path).resolve() for path in given
    }
    found: list[Design] = []
    for file in (file for root in sorted(roots) for file in sorted(root.glob("*/design.yaml"))):
        try:
            found.append(load(file.parent))
        except ConfigError as error:
            sys.stderr.write(f"coevolve: left out of the comparison: {error}\n")
    return found


def _report(admission: Admission, options: Options) -> str:
    if options.as_json:
        return msgspec.json.encode(admission).decode() + "\n"
    measured = admission.measured
    ladder = ", ".join(f"{quality} {measured.average(quality):.4f}" for quality in QUALITIES)
    killed = len(measured.bugs["good"].killed) if "good" in measured.bugs else 0
    lines = [
        f"{admission.design_id}: {'admitted' if admission.admitted else 'refused'}; "
        f"{measured.count} points; {ladder}; random {max(measured.random):.4f}"
        + (f", long random {measured.long_random:.4f}" if admission.secret else "")
        + f"; {killed} of {admission.mutants} mutants killed"
        + f"; {measured.cpu_s:.2f} CPU-s an evaluation"
    ]
    lines += [f"  {refusal}" for refusal in admission.refusals]
    if options.uncovered:
        lines += [f"  uncovered: {point}" for point in measured.uncovered]
    return "\n".join(lines) + "\n"


def table(admissions: Iterable[Admission]) -> str:
    """Return a Markdown table of the designs."""
    head = "design", "family", "split", "points", *QUALITIES, "random", "threshold", "secret"
    rows = [head, tuple("---" for _ in head)]
    for admission in sorted(admissions, key=lambda each: (each.family, each.design_id)):
        measured = admission.measured
        rows.append(
            (
                admission.design_id,
                admission.family,
                admission.split,
                str(measured.count),
                *(f"{100 * measured.average(quality):.1f}" for quality in QUALITIES),
                f"{100 * max(measured.random):.1f}",
                f"{100 * admission.threshold:g}",
                f"{100 * measured.long_random:.1f}" if admission.secret else "",
            )
        )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


_POINTS = re.compile(r"^points:.*\n(?:[ \t]+.*\n)*", re.MULTILINE)
"""The key ``points`` and the lines indented below it."""


def freeze(folder: Path, points: PointsFile) -> None:
    """Set ``points`` in the folder's ``design.yaml``; comments and order are kept.

    Raises ConfigError, and leaves the file unchanged, where its layout does not allow that.
    """
    path = folder / "design.yaml"
    before = path.read_text(encoding="utf-8")
    path.write_text(frozen(before, points), encoding="utf-8")
    if not _holds(folder, points):
        path.write_text(before, encoding="utf-8")
        raise ConfigError(
            f"{path}: needs `points:` at the beginning of a line, where it can be replaced; "
            f"write it by hand: {line(points)}"
        )


def _holds(folder: Path, points: PointsFile) -> bool:
    try:
        return load(folder).file.points == points
    except ConfigError:
        return False


def frozen(text: str, points: PointsFile) -> str:
    """Return the text of a ``design.yaml`` with ``points`` in it, in place or at the end."""
    if text and not text.endswith("\n"):
        text += "\n"
    without, found = _POINTS.subn(lambda _: f"{line(points)}\n", text, count=1)
    return without if found else f"{text}{line(points)}\n"


def line(points: PointsFile) -> str:
    """Return the line of ``design.yaml`` for ``points``."""
    return f"points: {{count: {points.count}, sha256: {points.sha256}}}"

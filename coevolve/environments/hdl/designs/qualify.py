"""Says whether designs may be trained and measured on.

`python -m coevolve.environments.hdl.designs.qualify [DESIGN ...]`

A DESIGN is a folder with a ``design.yaml``, or a folder of such; without any, ``designs``. Each is
measured, and refused by name for every rule of `hdl.designs.admission` that it breaks; whether
designs are kept apart is judged over all readable ones that lie beside them. ``--freeze`` writes
the set of points into ``design.yaml`` where nothing else is refused. Ends with 0 where all are
admitted, 1 where some are refused, 2 where one cannot be read.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from coevolve.environments.hdl.needs import leave_without_slang

if __name__ == "__main__":
    leave_without_slang()

from coevolve.environments.hdl.designs.admission import (
    FREEZABLE,
    Measured,
    Refusal,
    kept_apart,
    refusals,
)
from coevolve.environments.hdl.designs.design import QUALITIES, Design, PointsFile
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.designs.measuring import Laboratory, measure, open_laboratory
from coevolve.environments.hdl.designs.point_set_file import freeze
from protocols.errors import CoevolveError, ConfigError


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one design."""

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
        """Whether no rule is broken."""
        return not self.refusals


async def admit(design: Design, laboratory: Laboratory) -> Admission:
    """Measure and judge one design by itself."""
    measured = await measure(design, laboratory)
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge designs, print, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.environments.hdl.designs.qualify",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("designs", nargs="*", type=Path, default=[Path("designs")])
    parser.add_argument("--freeze", action="store_true", help="write the points into design.yaml")
    parser.add_argument("--json", action="store_true", help="print JSON, a line a design")
    parser.add_argument("--table", action="store_true", help="print one table in Markdown")
    parser.add_argument("--uncovered", action="store_true", help="list points that nothing covered")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    try:
        admissions = asyncio.run(_admit_all(_folders(options.designs), options))
        apart = kept_apart(_beside(options.designs))
    except CoevolveError as error:
        sys.stderr.write(f"admit: {error}\n")
        return 2
    if options.table:
        sys.stdout.write(table(admissions))
    for refusal in apart:
        sys.stderr.write(f"{refusal}\n")
    return int(bool(apart) or not all(admission.admitted for admission in admissions))


async def _admit_all(folders: Sequence[Path], options: argparse.Namespace) -> tuple[Admission, ...]:
    """Judge designs, so many at a time, each printed when it is done; in the order given."""
    designs = [load(folder) for folder in folders]
    laboratory = open_laboratory()
    free = asyncio.Semaphore(options.jobs)

    async def one(folder: Path, design: Design) -> Admission:
        async with free:
            admission = await admit(design, laboratory)
        if options.freeze:
            admission = _frozen(folder, admission)
        if not options.table:
            sys.stdout.write(_printed(admission, options))
            sys.stdout.flush()
        return admission

    jobs = (one(folder, design) for folder, design in zip(folders, designs, strict=True))
    return tuple(await asyncio.gather(*jobs))


def _frozen(folder: Path, admission: Admission) -> Admission:
    """Freeze the points where only that is missing, and return the judgement after it."""
    if {refusal.rule for refusal in admission.refusals} - FREEZABLE:
        sys.stderr.write(f"{folder}: not frozen, for other rules are broken\n")
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


def _beside(given: Iterable[Path]) -> list[Design]:
    """Return the readable designs of all folders that hold one of ``given``."""
    roots = {
        (path.parent if (path / "design.yaml").is_file() else path).resolve() for path in given
    }
    found: list[Design] = []
    for file in (file for root in sorted(roots) for file in sorted(root.glob("*/design.yaml"))):
        try:
            found.append(load(file.parent))
        except ConfigError as error:
            sys.stderr.write(f"admit: left out of the comparison: {error}\n")
    return found


def _printed(admission: Admission, options: argparse.Namespace) -> str:
    if options.json:
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
    """Return the designs as a table in Markdown."""
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


if __name__ == "__main__":
    sys.exit(main())

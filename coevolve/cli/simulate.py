"""Grades one testbench by its coverage: ``python -m coevolve.simulate DESIGN TB.sv``.

DESIGN is a folder of ``designs/``; any other RTL is named by ``--rtl`` and ``--dut`` instead.
``--stimulus`` names a stimulus program in place of TB.sv, and ``--patch`` hunks for the testbench
that ``--base`` names. A stimulus program for other RTL needs to know of its clock and reset:
``--clock clk --reset rst_n=low``.

Exit status: 0 where the testbench ran, 1 where it is to blame that it did not (refused, does not
compile, fails, covers nothing, takes too long), 2 where the command or the design is, 3 where the
machine is.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from coevolve.environments.hdl.needs import require_slang
from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    Evaluated,
    Patch,
    Point,
    Reset,
    Stimulus,
    Submission,
    Testbench,
)
from protocols.errors import ConfigError, DependencyError, SimulatorError

RAN, BLAMED, MISUSED, BROKEN = range(4)
DETAIL_CHARACTERS = 4000
MOST_BYTES = 16 << 20
"""Of a submission: a device or a pipe may have no end."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line asks for."""

    request: Evaluate
    json: bool
    limit: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade and print; return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        require_slang()
        asked = _asked(parser, options)
        evaluated, points = asyncio.run(_graded(asked.request))
    except (ConfigError, DependencyError) as error:
        sys.stderr.write(f"{error}\n")
        return MISUSED
    except SimulatorError as error:
        sys.stderr.write(f"{error}\n")
        return BROKEN
    shown = _json if asked.json else _text
    sys.stdout.write(shown(evaluated, asked, points))
    return RAN if isinstance(evaluated.outcome, Covered) else BLAMED


def _parser() -> argparse.ArgumentParser:
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.simulate",
        description=summary,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("paths", nargs="*", type=Path, metavar="DESIGN TB.sv", help="DESIGN only without --rtl")
    add("--rtl", action="append", type=Path, default=[], help="a file of RTL, in order of use")
    add("--dut", default="", help="module under verification, with --rtl")
    add("--clock", default="", help="input that a stimulus program toggles, with --rtl")
    add("--reset", default="", metavar="PORT=low|high", help="input that resets, with --rtl")
    add("--stimulus", type=Path, help="stimulus program in place of TB.sv")
    add("--patch", type=Path, help="hunks in place of TB.sv")
    add("--base", type=Path, help="testbench that the hunks apply to")
    add("--top", default="", help="module to simulate; found where not given")
    add("--instance", default="", help="name of the DUT's instance; found where not given")
    add("--seed", type=int, help="seed of $urandom; the design's own where not given, else 1")
    add("--json", action="store_true", help="print JSON, a superset of LLM4Cov's")
    add("--limit", type=int, default=DETAIL_CHARACTERS, help="characters of uncovered points")
    return parser


def _asked(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Asked:
    from coevolve.environments.hdl.designs.folders import load, unit_from_files

    paths: list[Path] = options.paths
    expected = [] if options.rtl else ["DESIGN"]
    expected += [] if options.stimulus or options.patch else ["TB.sv"]
    if len(paths) != len(expected):
        needed = " and ".join(expected) or "no path"
        parser.error(f"needs {needed} here, found {len(paths)} paths")
    if bool(options.rtl) != bool(options.dut):
        parser.error("--rtl and --dut go together")
    if bool(options.patch) != bool(options.base):
        parser.error("--patch and --base go together")
    if options.patch and options.stimulus:
        parser.error("--patch and --stimulus are two submissions; give one")
    if (options.clock or options.reset) and not options.rtl:
        parser.error("--clock and --reset are for --rtl; a design's folder names its own")
    seed = 1
    if options.rtl:
        unit = unit_from_files(options.rtl, options.dut, options.clock, _reset(options.reset))
    else:
        design = load(paths[0])
        unit, seed = design.unit, design.file.seed
    request = {
        "unit": unit,
        "submission": _submission(options),
        "testbench_top": options.top,
        "instance": options.instance,
        "seed": seed if options.seed is None else options.seed,
    }
    try:
        made = msgspec.convert(request, Evaluate)
    except msgspec.ValidationError as error:
        raise ConfigError(f"--seed: {error}") from error
    return Asked(request=made, json=options.json, limit=options.limit)


def _reset(told: str) -> Reset | None:
    port, _, active = told.partition("=")
    try:
        return msgspec.convert({"port": port, "active": active}, Reset) if told else None
    except msgspec.ValidationError as error:
        raise ConfigError(f"--reset: needs PORT=low or PORT=high, found {told!r}") from error


def _submission(options: argparse.Namespace) -> Submission:
    if options.stimulus:
        return Stimulus(program=_read(options.stimulus))
    if options.patch:
        return Patch(text=_read(options.patch), base=_read(options.base))
    return Testbench(text=_read(options.paths[-1]))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            found = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(found) > MOST_BYTES:
        raise ConfigError(f"{path}: needs to have at most {MOST_BYTES} bytes, has more")
    return found.decode("utf-8", "replace")


async def _graded(request: Evaluate) -> tuple[Evaluated, tuple[Point, ...]]:
    from coevolve.environments.hdl.simulate.verilator import open_simulator

    simulator = open_simulator()
    points = await simulator.points(request.unit)
    return await simulator.evaluate(request), points


def _json(evaluated: Evaluated, asked: Asked, points: Sequence[Point]) -> str:
    from coevolve.environments.hdl.simulate.summary import response

    request = asked.request
    answer = response(evaluated, request.unit, points, request.instance, asked.limit)
    return msgspec.json.format(msgspec.json.encode(answer)).decode() + "\n"


def _text(evaluated: Evaluated, asked: Asked, points: Sequence[Point]) -> str:
    from coevolve.environments.hdl.coverage.feedback import uncovered
    from coevolve.environments.hdl.simulate.summary import message, status

    unit, outcome = asked.request.unit, evaluated.outcome
    took = sum(cost.cpu_s for cost in evaluated.stages)
    lines = [f"{unit.name}: {status(outcome)}"]
    if isinstance(outcome, Covered):
        lines += _measured(outcome)
        lines += ["", uncovered(points, outcome.coverage, unit, asked.limit).rstrip()]
    else:
        lines.append(message(outcome))
    lines += ["", f"{took:.2f} CPU-s, sandbox {evaluated.sandbox}, {evaluated.toolchain}"]
    return "\n".join(lines) + "\n"


def _measured(outcome: Covered) -> list[str]:
    coverage = outcome.coverage
    kinds = [
        f"  {kind.metric:<8} {kind.covered:>5} of {kind.total:<5} {kind.covered / kind.total:7.1%}"
        for kind in coverage.kinds
    ]
    covered = sum(kind.covered for kind in coverage.kinds)
    total = sum(kind.total for kind in coverage.kinds)
    return [
        *kinds,
        f"  overall average        {coverage.overall_average:7.1%}",
        f"  overall  {covered:>5} of {total:<5} {coverage.overall_covered:7.1%}",
        f"  ended by {outcome.ended} after {outcome.slots} time slots",
    ]

"""Grades one testbench by its coverage, for the command ``coevolve hdl simulate``."""

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
    Outcome,
    Patch,
    Point,
    Reset,
    Stimulus,
    Submission,
    Testbench,
    verdict_of,
)
from protocols.errors import ConfigError, DependencyError, SimulatorError

RAN, BLAMED, MISUSED, BROKEN, FAILED = range(5)
MOST_BYTES = 16 << 20
"""Of a submission: a device or a pipe may have no end."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command line; `coevolve.environments.hdl.cli` says what each option is."""

    paths: tuple[Path, ...]
    rtl: tuple[Path, ...]
    dut: str
    clock: str
    reset: str
    stimulus: Path | None
    patch: Path | None
    base: Path | None
    top: str
    instance: str
    seed: int | None
    fail_on: tuple[str, ...]
    limit: int
    as_json: bool


def grade(options: Options) -> int:
    """Grade and print; return the exit code.

    `RAN`; `FAILED` for that verdict; `BLAMED` where the testbench did not run and is to blame;
    `MISUSED` for a fault of the options or the design; `BROKEN` for a failure of the machine.
    """
    try:
        require_slang()
        request = _request(options)
        evaluated, points = asyncio.run(_graded(request))
        without = _without_points(request)
    except (ConfigError, DependencyError) as error:
        sys.stderr.write(f"coevolve: {error}\n")
        return MISUSED
    except SimulatorError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        return BROKEN
    shown = _json if options.as_json else _text
    sys.stdout.write(shown(evaluated, request, points, without, options.limit))
    if verdict_of(evaluated.outcome) == "failed":
        return FAILED
    return RAN if isinstance(evaluated.outcome, Covered) else BLAMED


def _request(options: Options) -> Evaluate:
    from coevolve.environments.hdl.designs.folders import load, unit_from_files

    seed = 1
    if options.rtl:
        unit = unit_from_files(options.rtl, options.dut, options.clock, _reset(options.reset))
    else:
        design = load(options.paths[0])
        unit, seed = design.unit, design.file.seed
    request = {
        "unit": unit,
        "submission": _submission(options),
        "testbench_top": options.top,
        "instance": options.instance,
        "seed": seed if options.seed is None else options.seed,
        "limits": {"fail_on": options.fail_on},
    }
    try:
        return msgspec.convert(request, Evaluate)
    except msgspec.ValidationError as error:
        option = "--fail-on" if "fail_on" in str(error) else "--seed"
        raise ConfigError(f"{option}: {error}") from error


def _reset(told: str) -> Reset | None:
    port, _, active = told.partition("=")
    try:
        return msgspec.convert({"port": port, "active": active}, Reset) if told else None
    except msgspec.ValidationError as error:
        raise ConfigError(f"--reset: needs PORT=low or PORT=high, found {told!r}") from error


def _submission(options: Options) -> Submission:
    if options.stimulus:
        return Stimulus(program=_read(options.stimulus))
    if options.patch and options.base:
        return Patch(text=_read(options.patch), base=_read(options.base))
    return Testbench(text=_read(options.paths[-1]))


def _read(path: Path) -> str:
    from coevolve.environments.hdl.gate.encoding import bench_text

    try:
        with path.open("rb") as file:
            found = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(found) > MOST_BYTES:
        raise ConfigError(f"{path}: needs to have at most {MOST_BYTES} bytes, has more")
    try:
        return bench_text(found)
    except ValueError as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


async def _graded(request: Evaluate) -> tuple[Evaluated, tuple[Point, ...]]:
    from coevolve.environments.hdl.simulate.verilator import open_simulator

    simulator = open_simulator()
    points = await simulator.points(request.unit)
    return await simulator.evaluate(request), points


def _without_points(request: Evaluate) -> Sequence[str]:
    from coevolve.environments.hdl.coverage.unmeasured import unmeasured
    from coevolve.environments.hdl.designs.rtl import elaborate

    return unmeasured(elaborate(request.unit))


def _json(
    evaluated: Evaluated,
    request: Evaluate,
    points: Sequence[Point],
    without: Sequence[str],
    limit: int,
) -> str:
    from coevolve.environments.hdl.simulate.summary import response

    answer = response(evaluated, request.unit, points, request.instance, limit)
    answer["conditions_without_points"] = without
    return msgspec.json.format(msgspec.json.encode(answer)).decode() + "\n"


def _text(
    evaluated: Evaluated,
    request: Evaluate,
    points: Sequence[Point],
    without: Sequence[str],
    limit: int,
) -> str:
    from coevolve.environments.hdl.coverage.feedback import uncovered
    from coevolve.environments.hdl.simulate.summary import message, status

    unit, outcome = request.unit, evaluated.outcome
    took = sum(cost.cpu_s for cost in evaluated.stages)
    lines = [f"{unit.name}: {status(outcome)}", *_verdict(outcome)]
    if isinstance(outcome, Covered):
        lines += _measured(outcome)
        lines += ["", uncovered(points, outcome.coverage, unit, limit).rstrip()]
        lines += [f"no points, because it has too many combinations: {each}" for each in without]
    else:
        lines.append(message(outcome))
    lines += ["", f"{took:.2f} CPU-s, sandbox {evaluated.sandbox}, {evaluated.toolchain}"]
    return "\n".join(lines) + "\n"


def _verdict(outcome: Outcome) -> list[str]:
    lines = [f"verdict: {verdict_of(outcome)}"]
    if isinstance(outcome, Covered):
        lines += [f"  {each}" for each in outcome.faults]
        if outcome.verdict == "none":
            lines[0] += ", since the testbench has no check"
    return lines


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

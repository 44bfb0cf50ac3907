"""Grades one testbench by its coverage, for the command ``coevolve hdl simulate``."""

import asyncio
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from coevolve.environments.hdl.evaluation.coverage_files import (
    Files,
    counted,
    write,
    write_coverage,
)
from coevolve.environments.hdl.needs import require_slang
from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    Evaluated,
    GateLevel,
    Outcome,
    Patch,
    Point,
    Rejected,
    Reset,
    Stimulus,
    Submission,
    Testbench,
    Unit,
    verdict_of,
)
from coevolve.environments.hdl.simulate.reported import REPORTED
from protocols.errors import ConfigError, DependencyError, SimulatorError

if TYPE_CHECKING:
    from coevolve.environments.hdl.adopt.bench_text import BenchText
    from coevolve.environments.hdl.designs.design import Mutant
    from coevolve.environments.hdl.evaluation.mutation import Mutation

RAN, BLAMED, MISUSED, BROKEN, FAILED, UNNOTICED = range(6)
TRUST = (
    "If the testbench is your own, --gate trusted leaves these to the sandbox. --data names the "
    "folder of files that it reads."
)
ABSENT = re.compile(r"unknown (?:module|package|interface)|Cannot find file|Import package")
BRING = (
    "Give the files of these before the testbench's, or, if the project has them, adopt the design "
    "again with --bench and the testbench."
)

NO_CHECK = "; if it prints what it finds, --fail-on names the words of a failure"
CUT = "  If it needs longer, --slots raises the limit."

TRUSTED_LIMITS: dict[str, object] = {
    "slots": 10**9,
    "cpu_s": 60.0,
    "wall_s": 600.0,
    "compile_cpu_s": 200.0,
    "log_bytes": 1 << 25,
    "solver_steps": 2**32 - 1,
    "fail_on": (REPORTED,),
}
"""Defaults for a person's own testbench, which may run long."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command line; `coevolve.environments.hdl.cli` says what each option is."""

    paths: tuple[Path, ...]
    rtl: tuple[Path, ...]
    dut: str
    plan: tuple[Path, ...]
    clock: str
    reset: str
    stimulus: Path | None
    patch: Path | None
    base: Path | None
    top: str
    instance: str
    gate: GateLevel
    include: tuple[Path, ...]
    data: tuple[Path, ...]
    slots: int | None
    cpu_s: float | None
    seed: int | None
    fail_on: tuple[str, ...]
    mutants: Literal["auto", "given"] | None
    lcov: Path | None
    dat: Path | None
    html: Path | None
    limit: int
    as_json: bool


@dataclass(frozen=True, kw_only=True)
class _Report:
    """Everything that is printed of one testbench."""

    request: Evaluate
    evaluated: Evaluated
    points: Sequence[Point]
    without: Sequence[str]
    """Conditions that have no points."""

    mutation: "Mutation | None"
    """None without mutants, and for a testbench that does not pass on the design itself."""

    bench: "BenchText"
    note: str
    """Which of several instances of the design count; empty for a single one."""


def grade(options: Options) -> int:
    """Grade and print; return the exit code.

    `RAN`; `FAILED` for that verdict; `UNNOTICED` if a mutant was not noticed; `BLAMED` where the
    testbench did not run and is to blame; `MISUSED` for a fault of the options or the design;
    `BROKEN` for a failure of the machine.
    """
    try:
        require_slang()
        report = _report(options)
        _write(options, report)
    except (ConfigError, DependencyError) as error:
        sys.stderr.write(f"coevolve: {error}\n")
        return MISUSED
    except SimulatorError as error:
        sys.stderr.write(f"coevolve: {error}\n")
        return BROKEN
    shown = _json if options.as_json else _text
    sys.stdout.write(report.bench.placed(shown(report, options.limit)))
    outcome = report.evaluated.outcome
    if verdict_of(outcome) == "failed":
        return FAILED
    if report.mutation is not None and report.mutation.score < 1:
        return UNNOTICED
    return RAN if isinstance(outcome, Covered) else BLAMED


def _write(options: Options, report: _Report) -> None:
    """Write the files of --lcov, --dat and --html if there is coverage. Raises ConfigError."""
    from coevolve.environments.hdl.evaluation.page import page

    unit, outcome = report.request.unit, report.evaluated.outcome
    if isinstance(outcome, Covered):
        given = options.rtl or [options.paths[0] / file.name for file in unit.files]
        files = Files(lcov=options.lcov, dat=options.dat)
        write_coverage(files, report.points, outcome.coverage, unit, given)
        if options.html is not None:
            write(options.html, page(unit, report.points, outcome, report.mutation))


def _report(options: Options) -> _Report:
    from coevolve.environments.hdl.coverage.unmeasured import unmeasured
    from coevolve.environments.hdl.designs.mutating import mutants_of
    from coevolve.environments.hdl.designs.rtl import elaborate

    request, mutants, bench, note = _request(options)
    rtl = elaborate(request.unit)
    if options.mutants == "auto":
        mutants = mutants_of(rtl)
    evaluated, points, found = asyncio.run(_graded(request, mutants if options.mutants else ()))
    return _Report(
        request=request,
        evaluated=evaluated,
        points=points,
        without=unmeasured(rtl),
        mutation=found,
        bench=bench,
        note=note,
    )


def _request(options: Options) -> "tuple[Evaluate, Sequence[Mutant], BenchText, str]":
    """Return the request, the mutants in the design's folder, the testbench's lines, and a note."""
    from coevolve.environments.hdl.adopt.bench_text import bench_text
    from coevolve.environments.hdl.designs.folders import load, unit_from_files, with_plan

    seed = 1
    mutants: Sequence[Mutant] = ()
    if options.rtl:
        unit = unit_from_files(options.rtl, options.dut, options.clock, reset_of(options.reset))
    else:
        design = load(options.paths[0]).planned
        unit, seed, mutants = design.unit, design.file.seed, design.mutants
    bench = bench_text(_files(options), options.include)
    unit, submission, note = _own(options, unit, bench)
    limits = TRUSTED_LIMITS if options.gate == "trusted" else dict[str, object]()
    limits = limits | ({"fail_on": options.fail_on} if options.fail_on else {})
    limits |= {} if options.slots is None else {"slots": options.slots}
    limits |= {} if options.cpu_s is None else {"cpu_s": options.cpu_s}
    request = {
        "unit": with_plan(unit, options.plan) if options.plan else unit,
        "submission": submission,
        "testbench_top": options.top,
        "instance": options.instance,
        "seed": seed if options.seed is None else options.seed,
        "limits": limits,
        "gate": options.gate,
    }
    try:
        return msgspec.convert(request, Evaluate), mutants, bench, note
    except msgspec.ValidationError as error:
        at = next((each for each in ("fail_on", "slots", "cpu_s") if each in str(error)), "seed")
        raise ConfigError(f"--{at.replace('_', '-')}: {error}") from error


def _files(options: Options) -> Sequence[Path]:
    """Return the files of the testbench; that of a patch is its base."""
    if options.stimulus:
        return ()
    return [options.base] if options.base else options.paths[0 if options.rtl else 1 :]


def _own(options: Options, unit: Unit, bench: "BenchText") -> tuple[Unit, Submission, str]:
    """Return the design as the testbench uses it, with the data that it reads, and the submission.

    For a trusted testbench the design has the parameters of its instance, and a note says of which.
    """
    from coevolve.environments.hdl.adopt.bench_text import bench_text
    from coevolve.environments.hdl.adopt.bench_use import as_instantiated, with_bench_data

    note, trusted = "", options.gate == "trusted"
    if options.stimulus:
        return unit, Stimulus(program=bench_text([options.stimulus]).text), note
    if trusted:
        unit, note = as_instantiated(unit, bench.text, options.top, options.instance)
    unit, text = with_bench_data(unit, bench.text, _files(options), options.data, trusted=trusted)
    if options.patch:
        return unit, Patch(text=bench_text([options.patch]).text, base=text), note
    return unit, Testbench(text=text), note


def reset_of(told: str) -> Reset | None:
    """Return the reset of an option ``PORT=low``; None for an empty one. Raises ConfigError."""
    port, _, active = told.partition("=")
    try:
        return msgspec.convert({"port": port, "active": active}, Reset) if told else None
    except msgspec.ValidationError as error:
        raise ConfigError(f"--reset: needs PORT=low or PORT=high, found {told!r}") from error


async def _graded(
    request: Evaluate, mutants: "Sequence[Mutant]"
) -> "tuple[Evaluated, tuple[Point, ...], Mutation | None]":
    from coevolve.environments.hdl.evaluation.mutation import mutation
    from coevolve.environments.hdl.simulate.verilator import open_simulator

    simulator = open_simulator()
    points = await simulator.points(request.unit)
    evaluated = await simulator.evaluate(request)
    judged = None
    if mutants and isinstance(evaluated.outcome, Covered) and not evaluated.outcome.faults:
        judged = await mutation(simulator, request, evaluated.testbench, mutants)
    return evaluated, points, judged


def _json(report: _Report, limit: int) -> str:
    from coevolve.environments.hdl.simulate.summary import response

    request = report.request
    answer = response(report.evaluated, request.unit, report.points, request.instance, limit)
    answer["conditions_without_points"] = report.without
    answer["note"] = report.note
    if report.mutation is not None:
        answer["mutation"] = {
            "score": report.mutation.score,
            "noticed": report.mutation.count("noticed"),
            "counted": report.mutation.counted,
            "mutants": report.mutation.judged,
        }
    return msgspec.json.format(msgspec.json.encode(answer)).decode() + "\n"


def _text(report: _Report, limit: int) -> str:
    from coevolve.environments.hdl.coverage.feedback import uncovered
    from coevolve.environments.hdl.simulate.summary import message, status

    unit, evaluated, outcome = report.request.unit, report.evaluated, report.evaluated.outcome
    took = sum(cost.cpu_s for cost in evaluated.stages)
    lines = [f"{unit.name}: {status(outcome)}", *_verdict(outcome)]
    if isinstance(outcome, Covered):
        lines += _measured(outcome)
        lines += [f"  {report.note}"] * bool(report.note)
        lines += _mutants(report.mutation) if report.mutation else []
        lines += ["", uncovered(report.points, outcome.coverage, unit, limit).rstrip()]
        lines += [
            f"no points, because it has too many combinations: {each}" for each in report.without
        ]
    else:
        lines.append(message(outcome))
        lines += [TRUST] * isinstance(outcome, Rejected)
        lines += [BRING] * bool(ABSENT.search(lines[-1]))
    lines += ["", f"{took:.2f} CPU-s, sandbox {evaluated.sandbox}, {evaluated.toolchain}"]
    return "\n".join(lines) + "\n"


def _mutants(found: "Mutation") -> list[str]:
    """Return the score, and each mutant that counts; the missed ones first."""
    noticed, counted = found.count("noticed"), found.counted
    order = {"missed": 0, "shown": 1, "noticed": 2}
    listed = sorted(
        (each for each in found.judged if each.fate in order), key=lambda each: order[each.fate]
    )
    return [
        f"  mutants  {noticed:>5} of {counted:<5} {found.score:7.1%} noticed, "
        f"{found.count('shown')} changed outputs unnoticed, "
        f"{found.count('equivalent')} equivalent left out",
        *(
            f"    {each.fate:<7} {each.bug}{': ' * bool(each.reason)}{each.reason}"
            for each in listed
        ),
    ]


def _verdict(outcome: Outcome) -> list[str]:
    lines = [f"verdict: {verdict_of(outcome)}"]
    if isinstance(outcome, Covered):
        lines += [f"  {each}" for each in outcome.faults]
        if outcome.verdict == "none":
            lines[0] += f", since the testbench has no check{NO_CHECK}"
        if outcome.ended == "slot_limit":
            lines.append(CUT)
    return lines


def _measured(outcome: Covered) -> list[str]:
    return [
        *counted(outcome.coverage),
        f"  ended by {outcome.ended} after {outcome.slots} time slots",
    ]

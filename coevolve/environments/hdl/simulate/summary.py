"""Converts an evaluation to JSON: LLM4Cov's ``get_cov_result`` with additional fields.

The fields ``returncode``, ``status``, ``err_msg`` and ``cov_info`` are those of LLM4Cov's protocol
(arXiv 2602.16953), and its clients can read them; the other fields are ours. All shares are
fractions 0..1, and null where the design has no points of the kind.

There are five kinds of coverage here: line, branch, expression, toggle, fsm. LLM4Cov's simulator
counts blocks, which include lines and branches. ``Block`` therefore pools the two, while ``Overall
Average`` is the unweighted mean of the five kinds that the design has: a design with lines and
branches counts its control flow twice here and once there. ``Code Average`` is that mean without
fsm. Numbers of the two simulators are not comparable; rankings are. ``Functional`` is the plan's
coverage, a sixth kind, and null without a plan: with covergroups of its own a testbench would grade
itself. ``Assertion`` is null for the same reason.

A strict answer uses only LLM4Cov's own statuses, for clients that know no others. Every failure
that the testbench caused is ``xrun_failed``. So is a run that was cut off: their simulator counts
it as a timeout, without coverage and reward.
"""

import base64
from collections.abc import Iterable, Sequence
from typing import assert_never

from coevolve.environments.hdl.coverage.feedback import structured, uncovered
from coevolve.environments.hdl.coverage.holes import reachable
from coevolve.environments.hdl.simulate.messages import (
    METRICS,
    BadStimulus,
    CompileFailed,
    Coverage,
    Covered,
    Evaluated,
    KindCount,
    NotCovered,
    Outcome,
    PatchFailed,
    Point,
    Rejected,
    SimulationFailed,
    TimedOut,
    Unit,
    reward_of,
    verdict_of,
)

PROTOCOL = "hdl-sim/1"


def response(
    evaluated: Evaluated,
    unit: Unit,
    points: Sequence[Point],
    instance: str = "",
    detail_limit: int = 4000,
    *,
    strict: bool = False,
) -> dict[str, object]:
    """Return the answer as data for JSON.

    ``points`` is the design's set of points. ``detail_limit`` is the maximum length of
    ``cov_info.detail`` in characters; 0 leaves out the detail and the uncovered points.
    ``instance`` is the name of the DUT's instance, if known.
    """
    outcome = strict_outcome(evaluated.outcome) if strict else evaluated.outcome
    name = status(outcome)
    answer: dict[str, object] = {
        "returncode": 0 if isinstance(outcome, Covered) else 1,
        "status": strict_status(name) if strict else name,
        "err_msg": message(outcome),
        "protocol": PROTOCOL,
        "verdict": verdict_of(outcome),
        "faults": faults(outcome),
        "reward": reward_of(outcome),
        "stages": {cost.stage: cost.cpu_s for cost in evaluated.stages},
        "cpu_sec": sum(cost.cpu_s for cost in evaluated.stages),
        "seed": evaluated.seed,
        "key": evaluated.key,
        "cached": evaluated.cached,
        "toolchain": evaluated.toolchain,
        "sandbox": evaluated.sandbox,
    }
    if isinstance(outcome, Covered):
        answer |= _measured(evaluated, outcome, unit, points, instance, detail_limit)
    return answer


def failure(reason: str) -> dict[str, object]:
    """Return the strict answer for a job that an infrastructure failure ended."""
    return {"returncode": 1, "status": "exception", "err_msg": reason, "protocol": PROTOCOL}


def status(outcome: Outcome) -> str:
    """Return the outcome's name in the answer."""
    match outcome:
        case Covered(ended=ended):
            return "truncated" if ended == "slot_limit" else "success"
        case Rejected():
            return "rejected"
        case PatchFailed():
            return "patch_failed"
        case BadStimulus():
            return "bad_stimulus"
        case CompileFailed():
            return "compile_failed"
        case SimulationFailed():
            return "sim_failed"
        case NotCovered():
            return "no_coverage"
        case TimedOut():
            return "timeout"
        case _:
            assert_never(outcome)


def strict_status(name: str) -> str:
    """Return the LLM4Cov status that stands for ``name``."""
    match name:
        case "success":
            return "success"
        case "no_coverage":
            return "imc_report_summary_failed"
        case _:
            return "xrun_failed"


def strict_outcome(outcome: Outcome) -> Outcome:
    """Return the outcome for a strict client: a run that was cut off is a timeout."""
    match outcome:
        case Covered(ended="slot_limit", slots=slots):
            words = f"the simulation was cut off after {slots} time slots; end it by $finish"
            return TimedOut(stage="simulate", message=words)
        case _:
            return outcome


def message(outcome: Outcome) -> str:
    """Return the policy's error in words for a prompt; empty if the testbench ran."""
    match outcome:
        case Covered():
            return ""
        case Rejected(violations=violations):
            return "\n".join(
                f"tb.sv:{each.line}:{each.column}: error: {each.message}" for each in violations
            )
        case PatchFailed(reason=reason):
            return reason
        case BadStimulus(line=line, reason=reason):
            return f"stimulus:{line}: error: {reason}"
        case CompileFailed() | SimulationFailed() | NotCovered() | TimedOut():
            return outcome.message
        case _:
            assert_never(outcome)


def faults(outcome: Outcome) -> tuple[str, ...]:
    """Return why the verdict is failed; empty if it is not."""
    if isinstance(outcome, Covered):
        return outcome.faults
    return (message(outcome),) if verdict_of(outcome) == "failed" else ()


def _measured(
    evaluated: Evaluated,
    outcome: Covered,
    unit: Unit,
    points: Sequence[Point],
    instance: str,
    detail_limit: int,
) -> dict[str, object]:
    coverage = outcome.coverage
    cov_info: dict[str, object] = {
        "summary": rows(unit, points, coverage),
        "detail": uncovered(points, coverage, unit, detail_limit),
        "runtime_sec": sum(cost.wall_s for cost in evaluated.stages),
        "instance": instance,
    }
    if detail_limit:
        cov_info["uncovered"] = structured(points, coverage, unit)
    return {
        "cov_info": cov_info,
        "points": {
            "n": len(points),
            "manifest_hash": coverage.points_hash,
            "hit_b64": base64.b64encode(coverage.hits).decode(),
        },
        "checks": outcome.checks,
        "mutants": outcome.mutants,
        "sim": {
            "why": outcome.ended,
            "slots": outcome.slots,
            "time": outcome.time,
            "log_tail": outcome.log,
        },
    }


def rows(unit: Unit, points: Sequence[Point], coverage: Coverage) -> list[dict[str, object]]:
    """Return the DUT's row, named after its module, then one row per submodule."""
    found = [{"name": unit.top, "level": 0} | _row(coverage.kinds)]
    counted = reachable(points, unit)
    for path in sorted({points[index].instance for index in counted} - {""}):
        below = (index for index in counted if f"{points[index].instance}.".startswith(f"{path}."))
        kinds = _counts(points, coverage, below)
        name, level = path.rpartition(".")[2], path.count(".") + 1
        found.append({"name": name, "level": level, "path": path} | _row(kinds))
    return found


def _counts(
    points: Sequence[Point], coverage: Coverage, indices: Iterable[int]
) -> tuple[KindCount, ...]:
    found = [(points[index].metric, coverage.hit(index)) for index in indices]
    return tuple(
        KindCount(metric=metric, covered=found.count((metric, True)), total=total)
        for metric in METRICS
        if (total := sum(each == metric for each, _ in found))
    )


def _row(kinds: Sequence[KindCount]) -> dict[str, object]:
    code = [kind for kind in kinds if kind.metric not in ("fsm", "plan")]

    def of(*metrics: str) -> list[KindCount]:
        return [kind for kind in kinds if kind.metric in metrics]

    return {
        "Overall Average": _average(kinds),
        "Overall Covered": _pooled(kinds),
        "Code Average": _average(code),
        "Code Covered": _pooled(code),
        "Fsm Average": _average(of("fsm")),
        "Fsm Covered": _pooled(of("fsm")),
        "Functional Average": _average(of("plan")),
        "Functional Covered": _pooled(of("plan")),
        "Toggle": _pooled(of("toggle")),
        "Block": _pooled(of("line", "branch")),
        "Line": _pooled(of("line")),
        "Branch": _pooled(of("branch")),
        "Expression": _pooled(of("expr")),
        "Assertion": None,
    }


def _average(kinds: Sequence[KindCount]) -> float | None:
    return sum(kind.covered / kind.total for kind in kinds) / len(kinds) if kinds else None


def _pooled(kinds: Sequence[KindCount]) -> float | None:
    total = sum(kind.total for kind in kinds)
    return sum(kind.covered for kind in kinds) / total if total else None

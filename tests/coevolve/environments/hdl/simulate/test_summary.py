import base64
import json
from typing import Any

import pytest

from coevolve.environments.hdl.simulate.messages import (
    BadStimulus,
    CompileFailed,
    Covered,
    Evaluated,
    NotCovered,
    Outcome,
    PatchFailed,
    Rejected,
    SimulationFailed,
    StageCost,
    TimedOut,
    Violation,
)
from coevolve.environments.hdl.simulate.summary import failure, response
from tests.hdl_points import POINTS, all_but, covering, unit

STRICT = {"success", "xrun_failed", "imc_merge_failed", "imc_report_summary_failed", "exception"}

COVERAGE = covering(all_but("if", "else", "DONE", "q:0->1", "count[7]:0->1", "(d==0) => 0"))


def evaluated(outcome: Outcome) -> Evaluated:
    return Evaluated(
        key="k1",
        testbench="module tb; endmodule",
        outcome=outcome,
        seed=7,
        stages=(
            StageCost(stage="compile", cpu_s=0.3, wall_s=0.4),
            StageCost(stage="simulate", cpu_s=0.1, wall_s=0.2),
        ),
        toolchain="verilator 5.052",
        sandbox="namespaces",
    )


def answer(outcome: Outcome, **options: Any) -> dict[str, Any]:
    return json.loads(json.dumps(response(evaluated(outcome), unit(), POINTS, **options)))


RAN = Covered(coverage=COVERAGE, ended="finish", slots=40, time=390, log="done\n")


def test_the_level_0_row_is_the_module_with_the_average_of_the_kinds() -> None:
    row = answer(RAN)["cov_info"]["summary"][0]
    assert (row["name"], row["level"]) == ("top", 0)
    # line 2/2, branch 1/3, expr 2/3, toggle 50/52, fsm 5/6.
    code = (1 + 1 / 3 + 2 / 3 + 50 / 52) / 4
    assert row["Overall Average"] == pytest.approx((4 * code + 5 / 6) / 5)
    assert row["Overall Average"] == pytest.approx(COVERAGE.overall_average)
    assert row["Overall Covered"] == pytest.approx(60 / 66)
    assert row["Code Average"] == pytest.approx(code)
    assert row["Code Covered"] == pytest.approx(55 / 60)
    assert row["Fsm Average"] == row["Fsm Covered"] == pytest.approx(5 / 6)
    assert row["Block"] == pytest.approx(3 / 5)
    assert (row["Line"], row["Toggle"]) == (1.0, pytest.approx(50 / 52))
    assert row["Functional Average"] is row["Assertion"] is None


def test_submodules_are_rows_below_with_null_for_what_they_do_not_have() -> None:
    _, leaf = answer(RAN)["cov_info"]["summary"]
    assert (leaf["name"], leaf["level"], leaf["path"]) == ("u_leaf", 1, "u_leaf")
    assert (leaf["Block"], leaf["Toggle"]) == (1.0, 0.5)
    assert leaf["Branch"] is leaf["Expression"] is leaf["Fsm Average"] is None


def test_an_answer_has_points_and_the_end_of_the_simulation() -> None:
    found = answer(RAN, instance="u1", detail_limit=300)
    assert (found["returncode"], found["status"], found["err_msg"]) == (0, "success", "")
    assert base64.b64decode(found["points"]["hit_b64"]) == COVERAGE.hits
    assert (found["points"]["n"], found["points"]["manifest_hash"]) == (66, "5e7")
    assert found["sim"] == {"why": "finish", "slots": 40, "time": 390, "log_tail": "done\n"}
    assert found["stages"] == {"compile": 0.3, "simulate": 0.1}
    assert found["cpu_sec"] == pytest.approx(0.4)
    assert found["cov_info"]["runtime_sec"] == pytest.approx(0.6)
    assert (found["seed"], found["key"], found["cached"]) == (7, "k1", False)
    assert found["reward"] == pytest.approx(1 + COVERAGE.overall_average)
    assert 0 < len(found["cov_info"]["detail"]) <= 300
    assert found["cov_info"]["uncovered"]["total_uncovered"] == 6


def test_details_can_be_left_out() -> None:
    found = answer(RAN, detail_limit=0)["cov_info"]
    assert found["detail"] == ""
    assert "uncovered" not in found


@pytest.mark.parametrize(
    ("outcome", "status", "strict", "words"),
    [
        (
            Rejected(violations=(Violation(line=3, column=2, message="no $fopen"),)),
            "rejected",
            "xrun_failed",
            "tb.sv:3:2: error: no $fopen",
        ),
        (PatchFailed(hunks=(2,), reason="hunk 2"), "patch_failed", "xrun_failed", "hunk 2"),
        (BadStimulus(line=4, reason="no"), "bad_stimulus", "xrun_failed", "stimulus:4: error: no"),
        (CompileFailed(message="tb.sv:1"), "compile_failed", "xrun_failed", "tb.sv:1"),
        (SimulationFailed(message="$fatal"), "sim_failed", "xrun_failed", "$fatal"),
        (TimedOut(stage="simulate", message="4 s"), "timeout", "xrun_failed", "4 s"),
        (NotCovered(message="none"), "no_coverage", "imc_report_summary_failed", "none"),
    ],
)
def test_errors_of_a_policy_have_a_status_and_a_message(
    outcome: Outcome, status: str, strict: str, words: str
) -> None:
    found = answer(outcome)
    assert (found["status"], found["err_msg"]) == (status, words)
    assert found["returncode"] != 0
    assert found["reward"] == 0.0
    assert "cov_info" not in found
    assert answer(outcome, strict=True)["status"] == strict
    assert strict in STRICT


def test_a_run_that_was_cut_off_counts_except_in_a_strict_answer() -> None:
    cut = Covered(coverage=COVERAGE, ended="slot_limit", slots=40000, time=1, log="")
    assert answer(cut)["status"] == "truncated"
    assert answer(cut)["returncode"] == 0
    assert "cov_info" in answer(cut)
    strict = answer(cut, strict=True)
    assert (strict["status"], strict["returncode"], strict["reward"]) == ("xrun_failed", 1, 0.0)
    assert "cut off after 40000 time slots" in str(strict["err_msg"])
    assert "cov_info" not in strict


def test_a_job_that_could_not_be_tried_is_an_exception() -> None:
    found = failure("disk full")
    assert (found["status"], found["err_msg"]) == ("exception", "disk full")
    assert found["returncode"] != 0

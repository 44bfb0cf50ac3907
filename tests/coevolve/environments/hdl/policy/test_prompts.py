from typing import Any

import pytest

from coevolve.environments.hdl.gate.patch import apply
from coevolve.environments.hdl.policy.instructions import SYNTAX_RULES, system_message
from coevolve.environments.hdl.policy.prompts import (
    UnreadableAnswerError,
    extract,
    instance_name,
    prompt,
)
from coevolve.environments.hdl.policy.transition import Blank, ChatText, DesignState, Graded
from coevolve.environments.hdl.simulate.messages import (
    CompileFailed,
    Covered,
    NotCovered,
    Outcome,
    Patch,
    Port,
    Reset,
    Stimulus,
    SubmissionForm,
    Testbench,
)
from coevolve.environments.hdl.stimulus.language import WORDS, parse
from tests.hdl_points import POINTS, all_but, covering, unit

RAN = Covered(coverage=covering(all_but("DONE", "if")), ended="finish", slots=1, time=1, log="")


def graded(outcome: Outcome = RAN, testbench: str = "module tb;\nendmodule\n") -> Graded:
    return Graded(testbench=testbench, outcome=outcome, key="k")


def messages(state: DesignState, **options: Any) -> tuple[ChatText, ...]:
    return prompt(unit(), "It counts.\n", state, POINTS, **options)


def test_a_blank_state_shows_the_design_and_its_specification() -> None:
    system, user = messages(Blank(), instance="uut")
    assert (system.role, user.role) == ("system", "user")
    for words in ("filename: tb.sv", "```systemverilog", "stimulus only", "$finish"):
        assert words in system.text
    for words in ("// File: leaf.sv", "// File: top.sv", "It counts.", "`top`", "name `uut`"):
        assert words in user.text


def test_a_graded_state_adds_the_testbench_and_the_result() -> None:
    system, task, written, result = messages(graded())
    assert [each.role for each in (system, task, written, result)] == [
        "system", "user", "assistant", "user",
    ]  # fmt: skip
    assert (system, task) == messages(Blank())
    assert written.text == "filename: tb.sv\n```systemverilog\nmodule tb;\nendmodule\n```"
    for words in ("- status: success", "branch 2/3", "state DONE never entered", "Raise the cov"):
        assert words in result.text


def test_feedback_keeps_its_maximum_length() -> None:
    bare = Covered(coverage=covering([]), ended="finish", slots=1, time=1, log="")
    few, many = (messages(graded(bare), limit=limit)[-1].text for limit in (200, 2000))
    assert len(few) < len(many) < len(few) + 2000
    noisy = graded(CompileFailed(message="tb.sv:1:1: error: a\n" + "x" * 9000))
    assert len(messages(noisy, limit=200)[-1].text) < 600


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (CompileFailed(message="tb.sv:3:1: error: no such port"), "tb.sv:3:1: error: no such port"),
        (NotCovered(message="no instance of top"), "without the design"),
        (
            Covered(coverage=RAN.coverage, ended="slot_limit", slots=1, time=1, log=""),
            "End the simulation by $finish",
        ),
    ],
)
def test_the_outcome_decides_the_next_instruction(outcome: Outcome, words: str) -> None:
    assert words in messages(graded(outcome))[-1].text


def test_a_state_without_a_testbench_is_in_the_message_on_the_design() -> None:
    state = graded(CompileFailed(message="m"), testbench="")
    system, user = messages(state)
    assert system.role == "system"
    assert "Simulation result" in user.text


def test_a_prompt_requests_a_patch_if_there_is_a_testbench() -> None:
    said = messages(graded(), form="patch")
    assert "hunks in one fence" in said[0].text
    assert "module tb;" in said[2].text
    for state in (Blank(), graded(CompileFailed(message="m"), testbench="")):
        assert messages(state, form="patch") == messages(state)
    assert extract(TB, "patch") == Testbench(text="module tb;\nendmodule\n")


def test_a_stimulus_program_is_shown_as_it_was_written() -> None:
    state = Graded(testbench="module tb;", program="rst 2\nstep 4\n", outcome=RAN, key="k")
    said = messages(state, form="stimulus")
    assert said[2].text == "```stimulus\nrst 2\nstep 4\n```"
    assert "prob p=k/8" in said[0].text
    assert "module tb" not in "".join(each.text for each in said)


def test_only_teachers_get_rules_of_syntax() -> None:
    assert SYNTAX_RULES in messages(Blank(), rules=True)[0].text
    assert SYNTAX_RULES not in messages(Blank())[0].text


def test_each_instance_name_has_a_third_of_the_designs() -> None:
    names = [instance_name(f"design{number}", "top") for number in range(3000)]
    assert names == [instance_name(f"design{number}", "top") for number in range(3000)]
    assert all(900 < names.count(name) < 1100 for name in ("dut", "uut", "inst_top"))


TB = "filename: tb.sv\n```systemverilog\nmodule tb;\nendmodule\n```\n"
HUNK = "@@\n-a\n+b"


@pytest.mark.parametrize(
    ("answer", "form", "submission"),
    [
        (TB, "testbench", Testbench(text="module tb;\nendmodule\n")),
        (f"<think>```x</think>I drive it.\n{TB}Done.", "testbench", None),
        (f"Here:\n```diff\n{HUNK}\n```", "patch", Patch(text=f"{HUNK}\n", base="old")),
        (f"{HUNK}\n", "patch", Patch(text=HUNK, base="old")),
        ("NO_CHANGES", "patch", Patch(text="NO_CHANGES", base="old")),
        ("```\nrst 2\nstep 3\n```", "stimulus", Stimulus(program="rst 2\nstep 3\n")),
    ],
)
def test_an_answer_holds_one_submission(
    answer: str, form: SubmissionForm, submission: Testbench | Patch | Stimulus | None
) -> None:
    expected = submission or Testbench(text="module tb;\nendmodule\n")
    assert extract(answer, form, "old") == expected


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("module tb; endmodule", "found none"),
        ("", "found none"),
        ("```systemverilog\nmodule tb;", "cut off: its fence"),
        (TB + TB, "found 2"),
        ("```\n\n```", "found nothing"),
        ("<think>it has a clock", "still thinking"),
    ],
)
def test_an_answer_without_one_complete_fence_is_refused(answer: str, words: str) -> None:
    with pytest.raises(UnreadableAnswerError, match=words):
        extract(answer, "testbench")


def test_the_examples_in_the_instructions_are_answers() -> None:
    ports = (
        Port(name="clk", direction="in", width=1),
        Port(name="rst", direction="in", width=1),
        Port(name="enable", direction="in", width=1),
        Port(name="data", direction="in", width=8),
    )
    said = system_message("stimulus")
    stimulus = extract(said, "stimulus")
    assert isinstance(stimulus, Stimulus)
    parse(stimulus.program, ports, "clk", Reset(port="rst", active="high"))
    assert all(word in said for word in WORDS)
    patch = extract(system_message("patch"), "patch", base="x")
    assert isinstance(patch, Patch)
    changed = apply("module tb;\n  rst_n = 1;\n  #100;\n  $finish;\nendmodule\n", patch.text)
    assert "repeat (20) @(posedge clk);\n  $finish;" in changed
    assert isinstance(extract(system_message("testbench"), "testbench"), Testbench)

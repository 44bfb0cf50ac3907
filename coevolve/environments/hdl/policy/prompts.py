"""Renders an agent's step as prompt messages, and extracts the submission from its answer.

A prompt is memoryless, as in LLM4Cov (arXiv 2602.16953): it depends only on the design and one
state, the best so far or the last, as the caller chooses. From a blank state it is two messages:
system, and the design with its specification. From a graded one it is four: these two, the
testbench as the policy would have written it, and the simulator's result, in the structure of their
recovery message.

Deviations: feedback and messages have a maximum length in characters; `hdl.coverage.feedback`
describes the coverage; the prompt requests a file name but `extract` does not need it, since there
is only one file; an answer with several fences is refused, where theirs takes the first.
"""

import hashlib
from collections.abc import Sequence
from typing import assert_never

from coevolve.environments.hdl.coverage.feedback import uncovered
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.gate.patch import NO_CHANGES
from coevolve.environments.hdl.policy.instructions import system_message
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.transition import Blank, ChatText, DesignState, Graded
from coevolve.environments.hdl.simulate.messages import (
    Covered,
    NotCovered,
    Patch,
    Point,
    Stimulus,
    Submission,
    SubmissionForm,
    Testbench,
    Unit,
)
from coevolve.environments.hdl.simulate.summary import message, status
from coevolve.environments.sdk import boundary, spoken, without_thoughts

FEEDBACK_CHARACTERS = 4000
"""Default maximum length of feedback: about 1,300 tokens."""

_FENCE = "```"


class UnreadableAnswerError(ValueError):
    """The policy's answer has no submission; the message may be shown to the policy."""


def instance_name(design_id: str, top: str) -> str:
    """Return ``dut``, ``uut`` or ``inst_<top>``: a third of the designs each, fixed for a design.

    As in LLM4Cov, so that a policy does not memorize one name.
    """
    third = int.from_bytes(hashlib.sha256(design_id.encode()).digest()) % 3
    return ("dut", "uut", f"inst_{top}")[third]


def prompt(
    unit: Unit,
    specification: str,
    state: DesignState,
    points: Sequence[Point],
    *,
    form: SubmissionForm = "testbench",
    instance: str = "dut",
    limit: int = FEEDBACK_CHARACTERS,
    threshold: float = 1.0,
    rules: bool = False,
) -> tuple[ChatText, ...]:
    """Return the messages of one step.

    Args:
        unit: The design.
        specification: Its specification, in words.
        state: The state to improve on.
        points: The design's coverage points.
        form: The form of the answer. A patch needs a testbench to change; without one the prompt
            asks for a whole testbench.
        instance: Name that the testbench has to give the design's instance.
        limit: Maximum characters of feedback.
        threshold: Overall average to reach.
        rules: Whether to add rules of syntax, for a teacher.
    """
    system = opening(state, form, rules=rules)
    form = _usable_form(form, _base(state))
    task = _task(unit, specification, form, instance) + _goal(threshold)
    match state:
        case Blank():
            return (system, ChatText(role="user", text=task))
        case Graded():
            result = _result(state, unit, points, form, limit)
            written = _state_as_answer(state, form)
            if not written:
                return (system, ChatText(role="user", text=f"{task}\n{result}"))
            return (
                system,
                ChatText(role="user", text=task),
                ChatText(role="assistant", text=written),
                ChatText(role="user", text=result),
            )
        case _:
            assert_never(state)


def step_prompt(
    task: CoverageTask,
    design: Design,
    points: Sequence[Point],
    *,
    limit: int = FEEDBACK_CHARACTERS,
    rules: bool = False,
) -> tuple[ChatText, ...]:
    """Return the messages of a task's step on its design; see `prompt`."""
    return prompt(
        design.unit,
        design.specification,
        task.state,
        points,
        form=task.form,
        instance=task.instance,
        limit=limit,
        threshold=task.threshold,
        rules=rules,
    )


def opening(state: DesignState, form: SubmissionForm, *, rules: bool = False) -> ChatText:
    """Return the system message of a prompt."""
    text = system_message(_usable_form(form, _base(state)), rules=rules)
    return ChatText(role="system", text=text)


def extract(answer: str, form: SubmissionForm, base: str = "") -> Submission:
    """Return the submission in an answer.

    ``base`` is the testbench that a patch changes; without one, a whole testbench is expected.

    Raises UnreadableAnswerError if there is no fence, more than one, or one without an end.
    """
    with boundary(UnreadableAnswerError, "the answer cannot be read"):
        return _extract(answer, form, base)


def _extract(answer: str, form: SubmissionForm, base: str) -> Submission:
    try:
        text = spoken(answer, thinking=False)
        if not _is_bare_patch(text):
            text = without_thoughts(text)
    except ValueError as error:
        raise UnreadableAnswerError("the answer was cut off while it was still thinking") from error
    match _usable_form(form, base):
        case "testbench":
            return Testbench(text=_fence_content(text))
        case "patch":
            return Patch(text=text if _is_bare_patch(text) else _fence_content(text), base=base)
        case "stimulus":
            return Stimulus(program=_fence_content(text))


def _is_bare_patch(text: str) -> bool:
    return text.startswith("@@") or text == NO_CHANGES


def _base(state: DesignState) -> str:
    """Return the testbench that a patch would change; empty if there is none."""
    return state.testbench if isinstance(state, Graded) else ""


def _usable_form(form: SubmissionForm, base: str) -> SubmissionForm:
    return "testbench" if form == "patch" and not base else form


def _fence_content(text: str) -> str:
    lines = text.splitlines(keepends=True)
    marks = [index for index, line in enumerate(lines) if line.lstrip().startswith(_FENCE)]
    if not marks:
        raise UnreadableAnswerError("the answer needs one fence that opens with ```, found none")
    if len(marks) == 1:
        raise UnreadableAnswerError("the answer was cut off: its fence ``` does not end")
    if len(marks) > 2:
        raise UnreadableAnswerError(
            f"the answer needs one fence, found {(len(marks) + 1) // 2}; put everything into one"
        )
    text = "".join(lines[marks[0] + 1 : marks[1]])
    if not text.strip():
        raise UnreadableAnswerError("the answer needs something in its fence, found nothing")
    return text


def _task(unit: Unit, specification: str, form: SubmissionForm, instance: str) -> str:
    files = "\n".join(f"// File: {file.name}\n{file.text.rstrip()}\n" for file in unit.files)
    named = "" if form == "stimulus" else f" Instantiate it once, under the name `{instance}`."
    return (
        f"<context>\n{files}\n// File: spec.md\n{specification.strip()}\n</context>\n"
        f"<instructions>\nThe module under verification is `{unit.top}`.{named}\n</instructions>\n"
        f"Write a {_NOUNS[form]} that reaches as much coverage of it as possible."
    )


def _goal(threshold: float) -> str:
    """Return the sentence on the task's threshold."""
    return f"\nIts overall average has to reach {100 * threshold:g} %." if threshold < 1 else ""


_NOUNS = {
    "testbench": "SystemVerilog testbench",
    "patch": "patch of its SystemVerilog testbench",
    "stimulus": "stimulus program",
}


def _state_as_answer(state: Graded, form: SubmissionForm) -> str:
    """Return the state's testbench in the form of an answer; empty if there is none."""
    if form == "stimulus":
        return f"{_FENCE}stimulus\n{state.program.rstrip()}\n{_FENCE}" if state.program else ""
    if not state.testbench:
        return ""
    return f"filename: tb.sv\n{_FENCE}systemverilog\n{state.testbench.rstrip()}\n{_FENCE}"


def _result(
    state: Graded, unit: Unit, points: Sequence[Point], form: SubmissionForm, limit: int
) -> str:
    outcome = state.outcome
    lines = ["Simulation result:", f"- status: {status(outcome)}"]
    if isinstance(outcome, Covered):
        coverage = outcome.coverage
        kinds = ", ".join(f"{each.metric} {each.covered}/{each.total}" for each in coverage.kinds)
        lines += [
            f"- overall average: {100 * coverage.overall_average:.1f} % ({kinds})",
            f"- uncovered:\n{uncovered(coverage=coverage, points=points, unit=unit, limit=limit)}",
        ]
        todo = "Raise the coverage"
        if outcome.mutants is not None:
            found = outcome.mutants
            lines.insert(3, f"- bugs of the design that it finds: {found.found} of {found.counted}")
            todo = "Raise the coverage, and let checks find more bugs"
        if outcome.ended == "slot_limit":
            todo = "End the simulation by $finish before it is cut off, and raise the coverage"
        elif outcome.faults:
            lines.append("- log:\n" + _clip("\n".join(outcome.faults), limit) + "\n")
            todo = "It fails on a correct design: correct its checks, and raise the coverage"
    elif isinstance(outcome, NotCovered):
        lines.append(f"- log:\n{_clip(message(outcome), limit)}\n")
        todo = "It ran, but without the design: fix that"
    else:
        lines.append(f"- log:\n{_clip(message(outcome), limit)}\n")
        todo = "It failed: fix that first, and keep or raise what it covers"
    return "\n".join([*lines, f"What to do next:\n{todo}. {_HOW[form]}"])


_HOW = {
    "testbench": "Answer with the whole new testbench: the line `filename: tb.sv`, then one fence.",
    "patch": "Answer with hunks that change the testbench above, in one fence.",
    "stimulus": "Answer with the whole new program in one fence.",
}


def _clip(text: str, limit: int) -> str:
    """Return the start of the text; compilers report the first error first."""
    return text if len(text) <= limit else f"{text[:limit]}\n... cut off"

"""The tiny hardware policy's prompts, and the programs from its edits."""

import msgspec
import pytest

from coevolve.environments.hdl.config import HdlConfig
from coevolve.environments.hdl.policy.frontier import beginning
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.tiny.features import MOST_HINTS, hints_of, modes, of_missed
from coevolve.environments.hdl.policy.tiny.renderer import TinyStepRenderer
from coevolve.environments.hdl.policy.tiny.vocabulary import IDS, LAST, WORDS
from coevolve.environments.hdl.policy.transition import DesignState, Graded
from coevolve.environments.hdl.settings import with_hdl
from coevolve.environments.hdl.simulate.messages import Coverage, Covered, Port
from coevolve.environments.hdl.stimulus.language import parse
from coevolve.environments.hdl.stimulus.program import ApplyReset, Drive, Step
from protocols.config import RunConfig
from tests.hdl_points import POINTS, all_but, covering, unit
from tests.hdl_transitions import FAILED
from tests.small_designs import counter

TOP = counter(
    name="top",
    unit=msgspec.structs.replace(unit(), clock="clk"),
    ports=(
        Port(name="clk", direction="in", width=1),
        Port(name="d", direction="in", width=4),
        Port(name="count", direction="out", width=8),
    ),
)
RESETTABLE = counter()
RENDERER = TinyStepRenderer({each.design_id: each for each in (TOP, RESETTABLE)})
BEGINNING = beginning(TOP, with_hdl(RunConfig(name="t"), HdlConfig(form="stimulus")))


def task(state: DesignState, number: int = 1) -> CoverageTask:
    return msgspec.structs.replace(BEGINNING, state=state, round=number)


def graded(program: str, coverage: Coverage) -> Graded:
    outcome = Covered(coverage=coverage, ended="finish", slots=1, time=1, log="")
    return Graded(testbench="tb", program=program, outcome=outcome, key="k")


def said(task: CoverageTask) -> str:
    return " ".join(WORDS[token] for token in RENDERER.prompt(task, TOP, POINTS))


def missed(coverage: Coverage) -> list[str]:
    hints = hints_of(POINTS, TOP)
    return [WORDS[token] for token in of_missed(hints, POINTS, coverage, range(len(POINTS)))]


def test_the_first_prompt_has_only_the_ports():
    assert said(BEGINNING) == "<ports> in0 zero4 <covered> round0 <edit>"
    assert said(task(FAILED, 2)) == "<ports> in0 zero4 <covered> round2 <edit>"


def test_a_prompt_has_input_modes_coverage_and_missed_points():
    state = graded(
        "rand d\nstep 4\n", covering(all_but("DONE", "RUN->DONE", "else", "count[3]:0->1"))
    )
    assert said(task(state, 99)) == (
        "<ports> in0 random4 <covered> round7 line10 branch6 expr10 toggle9 fsm6 "
        "<missed> branch_at4 out0 state0 arc2 <edit>"
    )


def test_hints_of_a_kind_are_limited_and_unique():
    nothing = missed(covering([]))
    assert len(nothing) == len(set(nothing)) <= sum(MOST_HINTS.values())
    assert nothing.count("out0") == 1
    assert missed(covering(POINTS)) == []


def test_unreachable_points_give_no_hint():
    done = next(each for each in POINTS if each.name == "DONE")
    design = msgspec.structs.replace(TOP, unit=unit([done]))
    renderer = TinyStepRenderer({design.design_id: design})
    prompt = renderer.prompt(task(graded("", covering(all_but("DONE")))), design, POINTS)
    assert [WORDS[token] for token in prompt[-2:]] == ["<missed>", "<edit>"]


def test_a_prompt_fits_even_if_everything_is_missed():
    assert len(RENDERER.prompt(task(graded("", covering([]))), TOP, POINTS)) <= 64


@pytest.mark.parametrize(
    ("program", "mode"),
    [
        ("set d=3", "held"),
        ("set d=3\nset d=0", "zero"),
        ("prob d=1/8", "chance"),
        ("rand d\nonce d", "held"),
        ("rep 2\nrand d\nstep 1\nendrep", "random"),
        ("step 1", None),
    ],
)
def test_a_prompt_names_the_modes_of_inputs(program: str, mode: str | None):
    assert modes(parse(program, TOP.ports, "clk", None).statements).get("d") == mode


def test_an_edit_is_appended_to_the_program():
    edit = tuple(IDS[word] for word in ("set", "in0", "=3", "run8"))
    begun = RENDERER.read(BEGINNING, edit).program
    assert parse(begun, TOP.ports, "clk", None).statements == (
        Drive(port="d", word=3),
        Step(cycles=8),
    )
    going_on = RENDERER.read(task(graded(begun, covering([]))), edit).program
    statements = parse(going_on, TOP.ports, "clk", None).statements
    assert statements == parse(begun + begun, TOP.ports, "clk", None).statements


def test_the_first_program_starts_with_a_reset():
    begun = msgspec.structs.replace(BEGINNING, design="counter")
    program = RENDERER.read(begun, (IDS["run1"],)).program
    unit = RESETTABLE.unit
    read = parse(program, RESETTABLE.ports, unit.clock, unit.reset)
    assert read.statements == (ApplyReset(cycles=2), Step(cycles=1))


def test_a_program_that_grows_too_long_is_refused():
    long = graded("step 19000\n", covering([]))
    with pytest.raises(ValueError, match="at most 19990 cycles"):
        RENDERER.read(task(long), tuple(IDS[word] for word in ("step8",) * 4 + ("loop64",)))


def test_the_grammars_last_words_are_the_stop_tokens():
    assert RENDERER.grammar(BEGINNING).last_tokens <= set(RENDERER.stop_ids) == set(LAST)

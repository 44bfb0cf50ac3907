"""Every text is graded, whatever it does to the parser, and only the parser's own stack is used."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from coevolve.environments.hdl.designs.rtl import elaborate
from coevolve.environments.hdl.gate.elaboration import NESTED, Refusal, complaints, find_top
from coevolve.environments.hdl.gate.rules import MOST_BYTES
from coevolve.environments.hdl.simulate.messages import Rejected, SourceFile, Unit
from protocols.errors import ConfigError

pytestmark = pytest.mark.timeout(120)

RTL = SourceFile(name="m.sv", text="module m (input logic a);\nendmodule\n")
UNIT = Unit(name="m", files=(RTL,), top="m")

PLACES = {
    "file": "",
    "module": "module tb; m u (); ",
    "expression": "module tb; m u (); int a = ",
    "property": "module tb; m u (); property p; ",
    "constraint": "class c; rand int a; constraint k {",
}
NESTING = {
    **{"if": "if(1)", "else": "if(1);else ", "loop": "initial for(;;)", "block": "begin "},
    **{"bracket": "(", "brace": "{", "index": "a[", "negation": "!", "not": "not ", "call": "f("},
    **{"implication": "a->", "choice": "a?a:", "delay": "##1 ", "event": "@a ", "sum": "a+"},
    **{"scope": "a::", "cast": "int'(", "module": "module m;", "class": "class c;"},
    **{"struct": "struct{", "attribute": "(*a=", "parameter": "c#(", "pattern": "'{"},
}
DEEPEST = [
    pytest.param(PLACES[place] + NESTING[nesting] * count, id=f"{nesting}_in_{place}")
    for place, nesting, count in (
        ("module", "if", 11_375),
        ("constraint", "implication", 21_000),
        ("property", "not", 14_000),
    )
]
STACK = 256 << 10


@pytest.fixture
def small_stack():
    """Run in a thread whose stack is a small part of what deep texts need."""
    before = threading.stack_size(STACK)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(int).result()
        threading.stack_size(before)
        yield threads


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=pytest.mark.exhaustive if number else ())
        for number, place in enumerate(PLACES)
    ],
)
def test_a_text_that_is_nested_in_any_way_is_graded(
    place: str, small_stack: ThreadPoolExecutor
) -> None:
    for unit in NESTING.values():
        text = PLACES[place] + unit * ((MOST_BYTES - 100) // len(unit))
        found = small_stack.submit(find_top, text, UNIT).result()
        assert isinstance(found, str | Refusal)


@pytest.mark.parametrize("text", DEEPEST)
def test_a_text_that_overflows_the_parsers_stack_is_refused(
    text: str, small_stack: ThreadPoolExecutor
) -> None:
    found = small_stack.submit(find_top, text, UNIT).result()
    assert isinstance(found, Rejected)
    assert found.violations[0].message == NESTED
    assert isinstance(small_stack.submit(complaints, text, UNIT).result(), tuple)


@pytest.mark.parametrize("text", DEEPEST)
def test_a_design_that_overflows_the_parsers_stack_does_not_compile(text: str) -> None:
    deep = Unit(name="deep", files=(RTL, SourceFile(name="deep.sv", text=text)), top="m")
    with pytest.raises(ConfigError, match="design deep: the text is nested too deeply"):
        elaborate(deep)


DEEPEST_READ = {"a+": 3000, "a?a:": 1000}
"""What is complete Verilog -> the depth to which it is read; the rest is malformed."""


@pytest.mark.parametrize("depth", [10, 100, 1000, 3000, 10_000])
@pytest.mark.parametrize("unit", ["a+", "a?a:", "!", "f(", "{"])
def test_a_deep_design_is_read_or_refused_on_any_thread(unit: str, depth: int) -> None:
    text = f"module d; int a = {unit * depth}a; endmodule"
    deep = Unit(name="deep", files=(RTL, SourceFile(name="d.sv", text=text)), top="d")
    before = threading.stack_size(2 << 20)
    try:
        with ThreadPoolExecutor(1) as threads:
            error = threads.submit(elaborate, deep).exception()
        if depth <= DEEPEST_READ.get(unit, 0):
            assert error is None
        else:
            assert isinstance(error, ConfigError)
            assert "design deep" in str(error)
    finally:
        threading.stack_size(before)


def test_elaboration_of_a_design_has_limits() -> None:
    text = """module m; localparam P = f(64); function automatic int f(int n);
      return n == 0 ? 1 : f(n - 1) + f(n - 1); endfunction t #(60) u (); endmodule
      module t #(parameter N = 1) (); if (N > 0) begin t #(N - 1) a (); t #(N - 1) b (); end
      endmodule"""
    unit = Unit(name="endless", files=(SourceFile(name="m.sv", text=text),), top="m")
    with pytest.raises(ConfigError, match="endless"):
        elaborate(unit)


def test_questions_of_many_threads_get_their_own_answers() -> None:
    names = [f"tb_{number}" for number in range(24)]
    texts = [f"module {name}; m u (); endmodule" for name in names]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda text: find_top(text, UNIT), texts)) == names

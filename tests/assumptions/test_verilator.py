"""Facts about Verilator: what it writes for coverage, and what its options do."""

import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from coevolve.environments.hdl.simulate.runtime import open_runtime
from coevolve.environments.hdl.simulate.toolchain import find_toolchain

pytestmark = pytest.mark.hdl

COVERAGE = ("--coverage-line", "--coverage-toggle", "--coverage-expr", "--coverage-user")
OPTIONS = ("--cc", "--exe", "--timing", "--assert", "-O0", "-fgate", "--quiet", "-Wno-fatal")

RTL = """module part #(parameter W = 2, parameter type T = logic [3:0]) (input logic [W-1:0] d);
  logic q;
  always @(d) q = d[0];
endmodule
module m (input logic clk, input logic a__b, c, input logic [7:0] x);
  logic r = 1;
  /*verilator coverage_off*/ initial r = 0; /*verilator coverage_on*/
  always @(posedge clk)
    if (a__b && c) r <= 1;
  always @(posedge clk) if (^x) r <= 0;
`line 7 ".added" 0
  always @(posedge clk) begin
    if (r) ;
    named: cover (c);
  end
`line 15 "d.sv" 0
  always @(posedge clk) case (x[1:0]) 0: r <= 1; default: ; endcase
  assign unused = c;
  logic unused;
endmodule
"""
BENCH = """module tb; logic clk = 0, a__b = 0, c = 0; logic [7:0] x = 0; m dut (.*);
  part #(PART) p (.d(x[1:0])); m \\odd.name (.*);
  initial begin $assertoff; #5 clk = 1; #5 $finish; end
  initial if (c) begin $error("is %0d", x);
    $stop;
    $fatal(1, "is %0d", x);
  end
endmodule
"""


def translated(folder: Path, *options: str, part: str = "") -> str:
    """Return everything that Verilator writes for the module and its testbench."""
    toolchain = find_toolchain()
    runtime = open_runtime(toolchain)
    (folder / "d.sv").write_text(RTL)
    (folder / "tb.sv").write_text(BENCH.replace("PART", part))
    files = ("--prefix", "Vtb", "--Mdir", "o", "--top-module", "tb", "d.sv", "tb.sv")
    done = subprocess.run(
        [str(runtime.verilator), *OPTIONS, "--output-split", "0", *options, *files],
        cwd=folder,
        env={**os.environ, "VERILATOR_ROOT": str(runtime.root)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    texts = [path.read_text() for path in sorted((folder / "o").iterdir())]
    return "\n".join((done.stdout, done.stderr, *texts))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return translated(tmp_path_factory.mktemp("model"), *COVERAGE, "--coverage-expr-max", "16")


@cache
def found(text: str) -> frozenset[tuple[str, int, int, str, str]]:
    """Return file, line, column, page and comment of each point."""
    calls = re.findall(
        r'first, true, "([^"]*)", (\d+), (\d+), "[^"]*", "(v_\w+)/[^"]*", "([^"]*)"', text
    )
    return frozenset(
        (file, int(line), int(column), page, comment) for file, line, column, page, comment in calls
    )


def at(text: str, file: str, line: int) -> set[tuple[int, str, str]]:
    return {
        (column, page, what)
        for name, at_, column, page, what in found(text)
        if (name, at_) == (file, line)
    }


def test_a_branch_has_a_point_at_its_if_and_one_at_the_next_column(text: str):
    """An ``if`` has the comment ``if`` at its column and ``else`` at the next one.

    Needed by: coevolve/environments/hdl/coverage/holes.py,
      coevolve/environments/hdl/coverage/points.py
    """
    assert {(5, "v_branch", "if"), (6, "v_branch", "else")} <= at(text, "d.sv", 9)


def test_an_if_with_nothing_to_do_has_its_points(text: str):
    """An ``if`` with an empty statement is counted as a branch.

    Needed by: coevolve/environments/hdl/coverage/instrument.py
    """
    assert {each[1:] for each in at(text, ".added", 8)} >= {("v_branch", "if")}


def test_a_line_directive_names_file_and_line_of_points(text: str):
    """Points after a line directive have its file and count lines from its number.

    Needed by: coevolve/environments/hdl/coverage/instrument.py
    """
    assert {line for file, line, *_ in found(text) if file == ".added"} >= {7, 8}
    assert {each[1:] for each in at(text, "d.sv", 15)} >= {("v_line", "case")}


def test_a_condition_s_comment_says_its_terms_and_its_value(text: str):
    """A condition has a point for each shortest combination of terms that decides it.

    Needed by: coevolve/environments/hdl/coverage/holes.py,
      coevolve/environments/hdl/coverage/unmeasured.py
    """
    terms = {what for _, page, what in at(text, "d.sv", 9) if page == "v_expr"}
    assert terms == {"(a__b==1 && c==1) => 1", "(a__b==0) => 0", "(c==0) => 0"}


def test_two_underscores_in_a_name_are_written_as_a_code(text: str):
    """Two underscores of a name are ``___05F`` in comments.

    Needed by: coevolve/environments/hdl/coverage/scopes.py
    """
    assert "a___05Fb" in {what for *_, page, what in found(text) if page == "v_toggle"}


def test_a_parity_of_too_many_bits_has_no_points_and_no_message(text: str, tmp_path: Path):
    """A condition with more combinations than ``--coverage-expr-max`` has none, without a word.

    Needed by: coevolve/environments/hdl/coverage/unmeasured.py,
      coevolve/environments/hdl/simulate/simulation.py
    """
    assert not any(page == "v_expr" for _, page, _ in at(text, "d.sv", 10))
    assert "COVERIGN" not in text
    more = translated(tmp_path, *COVERAGE, "--coverage-expr-max", "256")
    assert sum(page == "v_expr" for _, page, _ in at(more, "d.sv", 10)) == 256


def test_a_toggle_has_a_range_of_bits(text: str):
    """A vector's toggles are registered together, with its first and last bit.

    Needed by: coevolve/environments/hdl/coverage/points.py
    """
    assert re.search(r'__vlCoverToggleInsert\(0, 7, 1, .*"v_toggle/m", "x"\)', text)


def test_the_function_that_registers_has_the_page_as_pagep(text: str):
    """Counters are registered by VL_COVER_INSERT, in functions with a parameter ``pagep``.

    Needed by: coevolve/environments/hdl/simulate/cpp/counters.h
    """
    for kind in ("", "Toggle"):
        function = re.search(rf"void Vtb_m::__vlCover{kind}Insert\(.*?\n}}\n", text, re.DOTALL)
        assert function
        assert "const char* pagep" in function[0]
        assert "VL_COVER_INSERT(" in function[0]
        assert "count32p" in function[0]


def test_a_cover_statement_asks_whether_assertions_are_on(text: str):
    """A cover statement counts only while assertion control leaves it on.

    Needed by: coevolve/environments/hdl/coverage/instrument.py
    """
    assert "ASSERT_CTL_ON" in text
    assert ".named" in text


def test_a_comment_turns_coverage_off_for_an_initial_block(text: str):
    """Between ``coverage_off`` and ``coverage_on`` nothing has a point, and after it all has.

    Needed by: coevolve/environments/hdl/coverage/initial.py
    """
    assert at(text, "d.sv", 7) == set()
    assert {each[1] for each in at(text, "d.sv", 8)} == {"v_line"}


def test_an_initial_value_is_a_line_of_its_own(text: str):
    """The value of a variable's declaration has a line point at its own column.

    Needed by: coevolve/environments/hdl/coverage/initial.py
    """
    assert (13, "v_line", "block") in at(text, "d.sv", 6)


def test_equal_parameters_make_no_module_of_their_own(tmp_path: Path):
    """A module whose parameters keep their values has its plain name, else a suffix.

    Needed by: coevolve/environments/hdl/coverage/scopes.py
    """
    for part, name in ((".W(4'd2)", "Vtb_part"), ("1 + 1", "Vtb_part"), (".W(1)", "Vtb_part__W1")):
        place = tmp_path / name / part.replace("'", "").replace(" ", "")
        place.mkdir(parents=True)
        assert re.search(rf" {name} +TOP__tb__p;", translated(place, *COVERAGE, part=part)), part


def test_a_type_parameter_makes_a_module_of_its_own(tmp_path: Path):
    """A type parameter that is given gets a suffix even if it is the same type.

    Needed by: coevolve/environments/hdl/coverage/scopes.py
    """
    text = translated(tmp_path, *COVERAGE, part=".T(logic [3:0])")
    assert re.search(r" Vtb_part__\w+ +TOP__tb__p;", text)


def test_the_symbol_table_has_each_instance_with_its_printed_path(text: str):
    """The symbol table lists each instance with its class, its holder and its printed path.

    Needed by: coevolve/environments/hdl/coverage/scopes.py
    """
    assert re.search(r"^ +Vtb_m +TOP__tb__dut;$", text, re.MULTILINE)
    assert 'TOP__tb__dut.ctor(this, "tb.dut");' in text
    assert re.search(r"TOP__tb\.\w+ = &TOP__tb__dut;", text)


def test_an_escaped_name_prints_its_dot(text: str):
    """An escaped name with a dot prints like a path into another instance.

    Needed by: coevolve/environments/hdl/coverage/scopes.py
    """
    assert re.search(r'ctor\(this, "tb\.odd\.name"\)|ctor\(this, "tb\.odd\S*name"\)', text)


def test_without_the_pass_gate_verilator_warns_of_other_orders(tmp_path: Path):
    """Without the pass ``gate`` Verilator says that the order of events may differ.

    Needed by: coevolve/environments/hdl/simulate/simulation.py
    """
    said = translated(tmp_path, *COVERAGE, "-fno-gate")
    assert "disabled gate optimization" in said
    assert "ordering problems" in said


def test_equal_signals_keep_a_point_each(text: str):
    """With the pass ``gate`` a signal that equals another keeps its toggle points.

    Needed by: coevolve/environments/hdl/simulate/simulation.py,
      coevolve/environments/hdl/simulate/cpp/counters.h
    """
    toggles = {what for *_, page, what in found(text) if page == "v_toggle"}
    assert {"unused", "c", "r", "clk"} <= toggles


def test_error_stop_and_fatal_are_calls_with_file_and_line(text: str):
    """``$error`` prints its place and calls ``VL_STOP_MT``, which ``$stop`` calls without printing.

    Needed by: coevolve/environments/hdl/simulate/verdict.py,
    coevolve/environments/hdl/simulate/cpp/runtime.cpp
    """
    calls = re.findall(r'VL_STOP_MT\("tb\.sv", (\d+), ""(, false)?\);', text)
    assert calls == [("4", ""), ("5", ""), ("6", ", false")]
    assert re.findall(r'VL_WRITEF_NX\("\[%0t\] %%Error: tb\.sv:(\d+):', text) == ["4"]
    assert 'VL_FINISH_MT("tb.sv", 3, "")' in text


def ran(folder: Path, *arguments: str) -> str:
    runtime = open_runtime(find_toolchain())
    environment = {**os.environ, "VERILATOR_ROOT": str(runtime.root)}
    words = (str(runtime.verilator), "-Wno-fatal", *arguments)
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_preprocessor_marks_where_a_file_is_included(tmp_path: Path):
    """With -E, a line directive ends in 1 where a file begins, and in 2 at its ``include``.

    Needed by: coevolve/environments/hdl/adopt/reading.py
    """
    (tmp_path / "h.vh").write_text("`define X 1\n")
    (tmp_path / "a.v").write_text('\n`include "h.vh"\nmodule a; endmodule\n')
    (tmp_path / "b.v").write_text("module b; endmodule\n")
    marks = re.findall(r'^`line (\d+) "(.*)" ([12])$', ran(tmp_path, "-E", "a.v", "b.v"), re.M)
    assert marks == [("1", "a.v", "1"), ("1", "h.vh", "1"), ("2", "a.v", "2"), ("1", "b.v", "1")]


def test_a_file_lists_what_was_read_and_a_word_of_cpp_is_marked(tmp_path: Path):
    """The file of dependencies names library files; a module named like a C++ word gets a prefix.

    Needed by: coevolve/environments/hdl/adopt/reading.py,
    coevolve/environments/hdl/coverage/scopes.py
    """
    (tmp_path / "queue.v").write_text("module queue(input a); wire b = a; endmodule\n")
    (tmp_path / "t.v").write_text("module t(input a); queue q(a); endmodule\n")
    words = ("--cc", "-O0", "--coverage-toggle", "--Mdir", "o", "--prefix", "Vtb", "t.v")
    ran(tmp_path, *words, "--top-module", "t")
    known = (tmp_path / "o" / "Vtb__verFiles.dat").read_text()
    assert re.findall(r'^S +\d+ .* "([^"/]+)"$', known, re.M) == ["queue.v", "t.v"]
    assert "Vtb___SYM__queue " in (tmp_path / "o" / "Vtb__Syms.h").read_text()

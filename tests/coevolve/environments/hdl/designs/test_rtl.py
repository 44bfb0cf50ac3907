import re
from pathlib import Path

import msgspec
import pytest

from coevolve.environments.hdl.designs.rtl import elaborate
from coevolve.environments.hdl.simulate.messages import DataFile, SourceFile, Unit
from protocols.errors import ConfigError

MODULE = "module m (input logic a, output logic y);\n  assign y = a;\nendmodule\n"


def unit(text: str, name: str = "m.sv") -> Unit:
    header = SourceFile(name="width.svh", text="`define WIDTH 4\n")
    return Unit(name="m", files=(header, SourceFile(name=name, text=text)), top="m")


def test_a_design_with_messages_that_are_not_text_does_not_compile():
    with pytest.raises(ConfigError, match=r"the text cannot be parsed.*Unicode"):
        elaborate(unit('module m (input logic a);\n  $error("\\xff");\nendmodule\n'))


def test_a_design_includes_its_own_headers():
    text = '`include "width.svh"\nmodule m (input logic [`WIDTH-1:0] a);\nendmodule\n'
    assert elaborate(unit(text)).top.name == "m"


@pytest.mark.parametrize(
    "include",
    [
        '`include "{}"',
        "`include <{}>",
        '`define FILE "{}"\n`include `FILE',
        '`define READ `include "{}"\n`READ',
        '`define READ(a, b) `a``b "{}"\n`READ(inc, lude)',
        '`define SIGN `\n`define READ(a) `SIGN``a "{}"\n`READ(include)',
    ],
)
def test_a_design_reads_no_file_of_the_machine(include: str, tmp_path: Path):
    secret = tmp_path / "secret.svh"
    secret.write_text("hunter2")
    with pytest.raises(ConfigError) as refused:
        elaborate(unit(f"{include.format(secret)}\n{MODULE}"))
    assert "one of the design's own files" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("module m (input logic a)\nendmodule\n", r"^m\.sv:\d+:\d+: error: "),
        ("module m #(parameter W) (input logic [W-1:0] a);\nendmodule\n", "^error: 'm' is not a"),
    ],
)
def test_an_error_has_its_place_if_there_is_one(text: str, told: str):
    with pytest.raises(ConfigError) as refused:
        elaborate(unit(text))
    lines = str(refused.value).splitlines()
    assert lines[0] == "design m does not compile:"
    assert re.match(told, lines[1])


@pytest.mark.parametrize(
    "call",
    ['$readmemh("rom.hex", rom)', '$readmemb({"r", "om"}, rom)'],
)
def test_a_design_that_needs_a_file_is_refused(call: str):
    inside = f"logic [7:0] rom [0:3]; initial begin {call}; end"
    text = f"module part (input logic a); {inside} endmodule\n"
    top = "module m (input logic a); part p (.a); endmodule\n"
    with pytest.raises(ConfigError, match=r"m\.sv:1:\d+: error: \$readmem[hb] reads rom"):
        elaborate(unit(text + top))
    left_out = text.replace("initial", "`ifdef SIMULATION\ninitial").replace(
        " endmodule", "\n`endif\nendmodule"
    )
    assert elaborate(unit(left_out + top))


@pytest.mark.parametrize(
    "call",
    [
        '$readmemh("rom.hex", rom)',
        '$readmemb({"rom", ".hex"}, rom)',
        'if (FILE != "") $readmemh(FILE, rom)',
        'if ($value$plusargs("rom=%s", given)) $readmemh(given, rom)',
    ],
)
def test_a_design_reads_its_data_and_names_that_only_a_run_knows(call: str):
    inside = f"logic [7:0] rom [0:3]; string given; initial begin {call}; end"
    made = unit(f'module m #(parameter FILE = "") (input logic a); {inside} endmodule\n')
    data = (DataFile(name="rom.hex", text="00 01 02 03\n"),)
    assert elaborate(msgspec.structs.replace(made, data=data))


@pytest.mark.parametrize(
    "text",
    [
        '`ifdef FORMAL\n`include "formal/checks.svh"\n`endif\nmodule m; endmodule\n',
        '`ifndef VERILATOR\n`include "/etc/passwd"\n`endif\nmodule m; endmodule\n',
        'module m; endmodule\n`define OFF\n`ifndef OFF\n`include /* */ "no.vh"\n`endif\n',
        'module m; string s = "`include \\"x.vh\\""; endmodule // `include "y.vh"\n',
    ],
)
def test_an_include_that_is_not_compiled_is_left_alone(text: str):
    assert elaborate(unit(text))


def test_a_design_is_read_with_the_macros_that_verilator_sets():
    assert elaborate(unit("`ifdef VERILATOR\nmodule m; endmodule\n`endif\n"))


def test_a_design_needs_a_file_that_is_not_a_header():
    with pytest.raises(ConfigError, match=r"does not end in \.svh or \.vh"):
        elaborate(unit(MODULE, name="m.svh"))

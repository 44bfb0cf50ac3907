"""Each construct of a file list, and what of it becomes the design."""

import re
from pathlib import Path

import pytest

from coevolve.environments.hdl.adopt.adopting import Options, adopt
from coevolve.environments.hdl.designs.folders import load
from coevolve.environments.hdl.designs.rtl import elaborate, ports_of
from coevolve.environments.hdl.simulate.messages import Reset
from protocols.errors import ConfigError
from tests.coevolve.environments.hdl.adopt.conftest import Adopt

COUNTER = """module top #(parameter W = 4) (input clk, input rst_n, output reg [W-1:0] q);
always @(posedge clk or negedge rst_n) if (!rst_n) q <= 0; else q <= q + 1;
endmodule
"""


def text(found: object, name: str) -> str:
    return next(file.text for file in found.unit.files if file.name == name)  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType,reportUnknownVariableType]


def names(found: object) -> list[str]:
    return [file.name for file in found.unit.files]  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType,reportUnknownVariableType]


def test_a_list_in_a_list_names_folders_macros_and_libraries(adopted: Adopt):
    found = adopted(
        {
            "p.f": "// a core\n-F sub/core.f # nested\n+define+WIDE+DEPTH=3\n--trace -CFLAGS -O3\n",
            "sub/core.f": "+incdir+inc\n-y lib +libext+.v\nrtl/top.v\n",
            "sub/inc/w.vh": "`ifdef WIDE\n`define W 8\n`endif\n",
            "sub/rtl/top.v": '`include "w.vh"\nmodule top(input [`W-1:0] a, output [`DEPTH:0] y);\n'
            "leaf u(.a(a[3:0]), .y(y));\nendmodule\n",
            "sub/lib/leaf.v": "module leaf(input [3:0] a, output [3:0] y); assign y = ~a;\n"
            "endmodule\n",
            "sub/lib/other.v": "module other; nonsense\n",
        }
    )
    assert names(found) == ["adopted_macros.sv", "w.vh", "top.v", "leaf.v"]
    widths = {port.name: port.width for port in ports_of(elaborate(found.unit))}
    assert widths == {"a": 8, "y": 4}


def test_files_of_one_name_in_several_folders_get_names_of_their_own(adopted: Adopt):
    found = adopted(
        {
            "a/part.v": 'module part_a(input a, output y); `include "defs.vh"\nendmodule\n',
            "a/defs.vh": "assign y = a;\n",
            "b/part.v": 'module part_b(input a, output y); `include "b/defs.vh"\nendmodule\n',
            "b/defs.vh": "assign y = !a;\n",
            "top.v": "module top(input a, output y, z); part_a p(a, y); part_b q(a, z);\n"
            "endmodule\n",
            "p.f": "+incdir+a +incdir+.\na/part.v b/part.v\ntop.v\n",
        }
    )
    assert len({*names(found)}) == 5
    part = next(
        file for file in found.unit.files if "part_b" in file.text and "top" not in file.text
    )
    (header,) = re.findall(r'`include "(.*)"', part.text)
    assert text(found, header) == "assign y = !a;\n"
    assert elaborate(found.unit)


@pytest.mark.parametrize(
    ("files", "kept"),
    [
        ({"top.sv": '`ifdef FORMAL\n`include "no/such.sv"\n`endif\n' + COUNTER}, "no/such.sv"),
        ({"top.sv": '`define H "h.sv"\n`include `H\n' + COUNTER, "h.sv": "`define X 1\n"}, "h.sv"),
        ({"top.sv": COUNTER, "unused.sv": "module unused; part p(); endmodule\n"}, "module top"),
        ({"top.svh": COUNTER}, "module top"),
        ({"a b.sv": COUNTER}, "module top"),
    ],
)
def test_what_verilator_reads_is_adopted(adopted: Adopt, files: dict[str, str], kept: str):
    given = {name: text for name, text in files.items() if name != "h.sv"}
    found = adopted({**files, "p.f": "\n".join(f'"{name}"' for name in given)})
    assert any(kept in file.text for file in found.unit.files)
    assert "unused.sv" not in names(found)
    assert elaborate(found.unit)


@pytest.mark.parametrize(
    ("listed", "options"), [("-Ia+b\n", {}), ("", {"include": (Path("a+b"),)})]
)
def test_a_folder_of_includes_may_have_a_plus_in_its_name(
    adopted: Adopt, listed: str, options: dict[str, object]
):
    files = {"p.f": f"{listed}top.v\n", "top.v": '`include "h.vh"\n' + COUNTER, "a+b/h.vh": "\n"}
    assert "h.vh" in names(adopted(files, **options))


@pytest.mark.parametrize(
    ("options", "width"),
    [({}, 4), ({"parameter": ("W=9",)}, 9), ({"bench": (Path("tb.sv"),)}, 12)],
)
def test_parameters_are_those_of_the_option_or_of_the_benchs_instance(
    adopted: Adopt, options: dict[str, object], width: int
):
    files = {
        "top.v": COUNTER,
        "tb.sv": '`include "size.vh"\nmodule tb; reg clk, rst_n; wire [`SIZE-1:0] q;\n'
        "top #(.W(`SIZE)) dut(.*);\nendmodule\n",
        "size.vh": "`define SIZE 12\n",
        "p.f": "top.v\n",
    }
    found = adopted(files, **options)
    assert ports_of(elaborate(found.unit))[-1].width == width


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        ("parameter type T = logic [3:0]", ".T(pair)"),
        ("parameter type T = logic", ".T(logic [5:0])"),
        ("parameter type T = bit [W-1:0], localparam W = 2", ".T(pair)"),
        ('parameter string S = "a", parameter type T = logic', '.T(pair), .S("b\\"c")'),
    ],
)
def test_types_and_strings_are_parameters_too(adopted: Adopt, declared: str, given: str):
    files = {
        "top.sv": f"module top #({declared}) (input T x, output T y); assign y = x; endmodule\n",
        "tb.sv": "module tb; typedef struct packed {logic [1:0] a; logic [3:0] b;} pair;\n"
        f"pair x, y; top #({given}) dut(.*); endmodule\n",
        "p.f": "top.sv\n",
    }
    found = adopted(files, bench=(Path("tb.sv"),))
    assert {port.width for port in ports_of(elaborate(found.unit))} == {6}


def test_a_structure_keeps_its_fields_as_a_parameter(adopted: Adopt):
    files = {
        "top.sv": "module top #(parameter type T = logic) (input T x, output [3:0] y);\n"
        "assign y = x.low.b; endmodule\n",
        "tb.sv": "module tb; typedef struct packed {logic [1:0] a; logic [3:0] b;} part;\n"
        "typedef struct packed {part low; logic last;} whole; whole x; wire [3:0] y;\n"
        "top #(.T(whole)) dut(.*); endmodule\n",
        "p.f": "top.sv\n",
    }
    made = text(adopted(files, bench=(Path("tb.sv"),)), "top.sv")
    assert "struct packed {struct packed {logic[1:0] a; logic[3:0] b;} low; logic last;}" in made


def test_a_parameter_that_the_module_does_not_have_is_refused(adopted: Adopt):
    with pytest.raises(ConfigError, match=r"[Pp]arameter.*DEPTH"):
        adopted({"top.v": COUNTER}, parameter=("DEPTH=9",))


@pytest.mark.parametrize(
    ("name", "copy", "told"),
    [
        ("rom.hex", "rom.hex", False),
        ("data/rom.hex", "data/rom.hex", False),
        ("../elsewhere/rom.hex", "rom.hex", False),
        ("missing.hex", "missing.hex", True),
    ],
)
def test_data_files_come_along(adopted: Adopt, name: str, copy: str, told: bool):
    found = adopted(
        {
            "top.v": f'module top #(parameter F = "{name}") (input [1:0] a, output [7:0] y);\n'
            "reg [7:0] m [0:3]; initial $readmemh(F, m); assign y = m[a]; endmodule\n",
            "data/rom.hex": "01 02 03 04\n",
            "p.f": "top.v\n",
        },
        data=(Path("data"),),
    )
    (data,) = found.unit.data
    assert data.name == copy
    assert bool(data.text) is not told
    assert any("missing.hex" in note and "--data" in note for note in found.notes) is told
    assert elaborate(found.unit)


@pytest.mark.parametrize(
    ("ports", "uses", "clock", "reset"),
    [
        ("input clk, input rst_n, input d", "posedge clk or negedge rst_n", "clk", "rst_n=low"),
        ("input i_clk, input i_reset, input d", "posedge i_clk", "i_clk", "i_reset=high"),
        ("input aclk, input aresetn, input d", "posedge aclk", "aclk", "aresetn=low"),
        (
            "input S_AXI_ACLK, input S_AXI_ARESETN",
            "posedge S_AXI_ACLK",
            "S_AXI_ACLK",
            "S_AXI_ARESETN=low",
        ),
        ("input rd_clk, input wr_clk, input rst", "posedge wr_clk", "wr_clk", "rst=high"),
        ("input clk, input rst", "posedge clk or negedge rst", "clk", "rst=low"),
        ("input XCLK, input XRES, input d", "posedge XCLK", "XCLK", "XRES=high"),
        ("input phi, input d", "posedge phi", "phi", ""),
        ("input a, input b", "a or b", "", ""),
    ],
)
def test_clock_and_reset_are_found(adopted: Adopt, ports: str, uses: str, clock: str, reset: str):
    found = adopted(
        {"top.v": f"module top({ports}, output reg q);\nalways @({uses}) q <= 1;\nendmodule\n"}
    )
    port, _, active = reset.partition("=")
    assert found.unit.clock == clock
    assert found.unit.reset == (Reset(port=port, active=active) if reset else None)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (
            {"top.v": "module top; part p(); endmodule\n"},
            r"(?s)top\.v:1:13: Cannot find.*part.*-y and a folder.*--bench",
        ),
        ({"top.v": '`include "no.vh"\n'}, r"(?s)top\.v:1:10: Cannot find.*no\.vh.*by -I"),
        ({"top.v": "module top; import p::*; endmodule\n"}, r"(?s)'p'\n.*before those"),
        ({"tap.v": "module tap; endmodule\n"}, r"(?s)--top-module 'top'.*--top; found tap"),
        ({"top.v": "module top; wire a = ; endmodule\n"}, r"top\.v:1:\d+: syntax error"),
        ({"p.f": "rtl/no.v\n"}, r"p\.f:1: needs the file rtl/no\.v, found none; give the list"),
        ({"p.f": "-f\n"}, r"p\.f:1: -f needs a value"),
        ({"core.core": "CAPI=2:\n"}, r"core\.core: needs a file list.*fusesoc run --setup"),
        (
            {"top.sv": "module top(interface t, output y); assign y = t.a; endmodule\n"},
            r"top\.sv:1:22: port 't' of top needs an interface with a name",
        ),
        ({"Bender.yml": "package:\n"}, r"Bender\.yml: needs a file list.*bender script"),
        ({"p.f": "// nothing\n"}, r"p\.f: needs at least one source"),
    ],
)
def test_a_refusal_names_the_place(adopted: Adopt, files: dict[str, str], told: str):
    with pytest.raises(ConfigError, match=told):
        adopted(files)


def test_a_command_writes_a_folder_that_loads_with_its_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source = tmp_path / "rtl.sv"
    source.write_text(
        COUNTER.replace("top", "queue").replace("input rst_n,", "input rst_n, input [3:0] x [2],")
    )
    made = adopt(
        Options(
            project=(source,),
            top="queue",
            to=tmp_path / "made",
            parameter=("W=3",),
            define=(),
            include=(),
            data=(),
            bench=(),
            clock="",
            reset=None,
            flat=True,
        )
    )
    design = load(made)
    assert design.file.points
    assert f"queue_flat with {design.file.points.count} points" in capsys.readouterr().out
    assert (design.unit.clock, design.file.adopted) == ("clk", True)
    assert [port.width for port in design.ports] == [1, 1, 8, 3]


LINK = """interface kinds; logic a; endinterface
interface link #(parameter W = 4) (input clk, kinds k);
  logic [W-1:0] data; logic ready; modport sink (input clk, data, output ready);
endinterface
"""


def test_a_module_with_ports_of_interfaces_is_adopted_and_may_get_ports_of_bits(adopted: Adopt):
    top = """module top(kinds k, link.sink s [2], input [1:0] n [1:0], output logic q);
  assign s[0].ready = k.a; assign s[1].ready = 1;
  always @(posedge s[0].clk) q <= n[0][1] ^ s[1].data[3];
endmodule
"""
    files = {"link.sv": LINK, "top.sv": top}
    assert [port.name for port in ports_of(elaborate(adopted(files).unit))] == ["q"]
    unit = adopted(files, flat=True).unit
    assert (unit.top, unit.clock) == ("top_flat", "clk")
    found = {port.name: (port.direction, port.width) for port in ports_of(elaborate(unit))}
    assert found == {
        "clk": ("in", 1),
        **{f"s_{each}_data": ("in", 4) for each in (0, 1)},
        **{f"s_{each}_ready": ("out", 1) for each in (0, 1)},
        "n": ("in", 4),
        "q": ("out", 1),
    }


def test_several_instances_under_several_parameters_leave_the_design_s_own(adopted: Adopt):
    bench = "module tb; reg clk, rst_n; wire [3:0] x; wire [8:0] y;\n"
    bench += "top a(.q(x), .*); top #(9) b(.q(y), .*);\nendmodule\n"
    found = adopted({"top.v": COUNTER, "tb.sv": bench, "p.f": "top.v\n"}, bench=(Path("tb.sv"),))
    assert ports_of(elaborate(found.unit))[-1].width == 4
    (note,) = found.notes
    assert "so the module keeps its own" in note
    assert note.endswith("--instance takes another: tb.a, tb.b")


def test_what_only_the_testbench_needs_of_the_project_comes_along(adopted: Adopt):
    files = {
        "rtl/top.v": "module top(input [3:0] x, output [3:0] y); assign y = ~x; endmodule\n",
        "rtl/model.v": "module model(output [3:0] y); assign y = 3; endmodule\n",
        "rtl/unused.v": "module unused; endmodule\n",
        "tb/tb.v": '`include "size.vh"\nmodule tb; wire [3:0] x, y; model m(x); top dut(x, y);\n'
        "endmodule\n",
        "tb/size.vh": "`define SIZE 3\n",
        "p.f": "-y rtl +incdir+tb\nrtl/top.v\n",
    }
    assert names(adopted(files)) == ["top.v"]
    assert sorted(names(adopted(files, bench=(Path("tb/tb.v"),)))) == ["model.v", "top.v"]


def test_modules_that_the_top_does_not_use_are_left_out(adopted: Adopt):
    """Also if they include headers, unless what is compiled depends on the macros of these."""
    header = "`ifndef W\n`define W 4\n`endif\n"
    top = "module top(input [`W-1:0] a, output y); assign y = ^a; endmodule\n"
    other = '`include "w.vh"\nmodule other(input a); endmodule\n'
    bench = (
        'module bench; reg [3:0] a; wire y; top dut(a, y); initial $display("%b", y);\nendmodule\n'
    )
    listed = "+incdir+.\nother.v\ntop.v\n"
    files = {"p.f": listed, "w.vh": header, "other.v": other, "bench.v": bench}
    given = {"bench": (Path("bench.v"),)}
    kept = [
        names(adopted(files | {"top.v": text}, **given))
        for text in (f'`include "w.vh"\n{top}', top, f'`ifdef W\n`include "w.vh"\n{top}`endif\n')
    ]
    assert kept == [["w.vh", "top.v"], *[["w.vh", "other.v", "top.v"]] * 2]
    files["p.f"] += "handles.sv\n"
    files["top.v"] = f'`include "w.vh"\n{top}'
    files["other.v"] = other.replace("module other(input a)", "interface other").replace(
        "endmodule", "endinterface"
    )
    files["handles.sv"] = "package handles; class c; virtual other o; endclass endpackage\n"
    assert names(adopted(files, **given)) == ["w.vh", "other.v", "top.v", "handles.sv"]

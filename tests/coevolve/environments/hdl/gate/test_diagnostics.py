import resource

from coevolve.environments.hdl.gate.diagnostics import explain
from coevolve.environments.hdl.gate.elaboration import complaints, find_top
from coevolve.environments.hdl.simulate.messages import CompileFailed, SourceFile, Unit

RTL = "module m (input logic clk);\nendmodule\n"
UNIT = Unit(name="m", files=(SourceFile(name="m.sv", text=RTL),), top="m")


def test_a_line_with_errors_of_both_tools_is_reported_once():
    testbench = "module tb;\n  m dut (.clock(1));\n  nothing u ();\nendmodule\n"
    output = (
        "%Error-PINNOTFOUND: tb.sv:2:10: Pin not found: 'clock'\n    2 |   m dut\n"
        "%Error: tb.sv:3:3: Cannot find file containing module: 'nothing'\n"
        "%Error: Exiting due to 2 error(s)\n"
    )
    assert explain(output, testbench, UNIT).splitlines() == [
        "tb.sv:2:11: error: port 'clock' does not exist in 'm'",
        "tb.sv:3:3: error: Cannot find file containing module: 'nothing'",
    ]


def test_lines_about_other_files_are_left_out():
    output = "%Error: /etc/passwd:1:5: syntax error, unexpected root\n%Error: Cannot continue\n"
    told = explain(output, 'module tb;\n`include "/etc/passwd"\nendmodule\n', UNIT)
    assert told
    assert "root" not in told
    assert "passwd" not in told


def test_a_crash_of_the_simulator_is_reported_without_internals():
    output = "%Error: Internal Error: tb.sv:2:3: ../V3Width.cpp:7291: Unexpected\n"
    told = explain(output, "module tb; endmodule", UNIT)
    assert told == "tb.sv:2:3: error: the simulator does not support this"


def test_the_work_of_pyslang_is_limited():
    bomb = """module tb;
    for (genvar i = 0; i < 200; i++) for (genvar j = 0; j < 200; j++)
      for (genvar k = 0; k < 200; k++) for (genvar l = 0; l < 200; l++) logic x;
    function automatic int f(int n); return n == 0 ? 1 : f(n - 1) + f(n - 1); endfunction
    localparam Q = f(60);
    t #(60) u ();
    endmodule
    module t #(parameter N = 1) (); if (N > 0) begin t #(N - 1) a (); t #(N - 1) b (); end endmodule
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert "tb.sv" in explain("", bomb, UNIT)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 2.0


def test_a_text_that_takes_too_long_gets_no_message_of_pyslang():
    endless = f"module tb; int a; initial a = {'+'.join(['a'] * 20_000)}; wrong u (); endmodule"
    assert len(endless) < 60_000
    assert complaints(endless, UNIT) == ()
    output = "%Error: tb.sv:1:2: Cannot find file containing module: 'wrong'\n"
    assert explain(output, endless, UNIT) == (
        "tb.sv:1:2: error: Cannot find file containing module: 'wrong'"
    )


def test_text_that_is_not_systemverilog_has_an_error_with_its_place():
    found = find_top("hello world", UNIT)
    assert isinstance(found, CompileFailed)
    assert found.message.startswith("tb.sv:1:")

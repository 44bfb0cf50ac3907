import pytest

from coevolve.environments.hdl.simulate.stops import endings

WATCHDOG = 'initial begin #100000; $display("timeout"); $finish; end\n'
DRIVE = "initial begin a = 0; #5 a = 1;\n"


@pytest.mark.parametrize(
    "text",
    [
        WATCHDOG + DRIVE + "$stop; end",
        WATCHDOG + DRIVE + "if (a) b = 1; else b = 0;\n#10 $stop; end",
        WATCHDOG + DRIVE + "begin : last #3; $stop; end end",
        "initial begin repeat (1000) @(posedge clk); $finish(); end\n"
        + "initial begin reset; send(1);\n$stop(); end",
        WATCHDOG + DRIVE + "for (i = 0; i < 4; i = i + 1) a = i;\n$stop; end",
        DRIVE + "$stop; end",
    ],
)
def test_a_stop_at_the_end_of_the_stimulus_is_no_fault(text: str):
    assert endings(f"module tb;\n{text}\nendmodule\n")


@pytest.mark.parametrize(
    "text",
    [
        DRIVE + "if (a != 1) $stop;\n$finish; end",
        DRIVE + "$finish; end\ninitial #100000 $stop;",
        WATCHDOG + DRIVE + "if (a != 1) begin $display; $stop; end end",
        WATCHDOG + DRIVE + "case (a) 1: $stop; endcase end",
        WATCHDOG + DRIVE + "assert (a) else $stop; end",
        WATCHDOG + "always @(posedge clk) begin b = a; $stop; end",
        DRIVE + "end\ntask done; $finish; endtask\ninitial begin a = 1; $stop; end",
        WATCHDOG + DRIVE + "for (i = 0; i < 4; i = i + 1) $stop; end",
        WATCHDOG + DRIVE + "if (a) b = 1; else\n$stop; end",
    ],
)
def test_a_stop_that_says_that_something_failed_stays_a_fault(text: str):
    assert endings(f"module tb;\n{text}\nendmodule\n") == frozenset()

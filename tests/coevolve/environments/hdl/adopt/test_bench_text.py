from pathlib import Path

from coevolve.environments.hdl.adopt.bench_text import bench_text


def test_lines_of_joined_files_keep_their_places(tmp_path: Path):
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "defs.vh").write_text("`define A 1\n`define B 2")
    (tmp_path / "model.v").write_text("module model;\nendmodule\n")
    (tmp_path / "tb.v").write_text('// first\n`include "defs.vh" // its end\nmodule tb;\nwrong\n')
    made = bench_text([tmp_path / "model.v", tmp_path / "tb.v"], [tmp_path / "inc"])
    lines = made.text.splitlines()
    assert lines[4:6] == ["`define B 2", " // its end"]
    at = {text: number for number, text in enumerate(lines, 1)}
    assert made.placed(f"tb.sv:{at['wrong']}:1: error") == "tb.v:4:1: error"
    assert made.placed(f"tb.sv:{at['`define B 2']}:3") == "defs.vh:2:3"
    assert made.placed("tb.sv:2:1 and tb.sv:3:1") == "model.v:2:1 and tb.v:1:1"


def test_an_include_that_is_not_found_stays(tmp_path: Path):
    path = tmp_path / "tb.v"
    path.write_text('`ifdef X\n`include "none.vh"\n`endif\nmodule tb; endmodule\n')
    made = bench_text([path])
    assert made.text == path.read_text()
    assert made.placed("tb.sv:4:1") == "tb.sv:4:1"

import json
from pathlib import Path

import pytest

from tests.bench.survey import main

DESIGNS = Path(__file__).parents[2] / "designs"
FORCED = "module tb; logic a, q; gate dut(.*); initial begin force dut.q = a; #1; end endmodule"


@pytest.mark.hdl
def test_a_survey_counts_what_is_taken_and_says_why_the_rest_is_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "gate.sv").write_text("module gate(input a, output q); assign q = !a; endmodule")
    (tmp_path / "tb.sv").write_text(FORCED)
    lane = {"project": ["crossbar2.sv"], "top": "crossbar2"}
    own = {"project": ["gate.sv"], "bench": ["tb.sv"], "bench_top": "tb"}
    lines = [
        {"name": "part", "folder": str(DESIGNS / "crossbar2"), **lane},
        {"name": "forced", "folder": ".", **own, "top": "gate"},
        {"name": "absent", "folder": ".", "project": ["gate.sv"], "top": "other"},
    ]
    (tmp_path / "list").write_text("\n".join(map(json.dumps, lines)) + "\n")
    main([str(tmp_path / "list"), "--json"])
    figures = json.loads(capsys.readouterr().out)
    assert figures["taken"] == {
        "plain Verilator": [2, 3],
        "adopted": [2, 2],
        "policy": [0, 1],
        "trusted": [1, 1],
    }
    (forced, absent) = figures["refused"]
    assert forced[:2] == ["forced", "policy"]
    assert "tb.sv:1:" in forced[2]
    assert "'force' may not be used" in forced[2]
    assert absent[:2] == ["absent", "plain Verilator"]

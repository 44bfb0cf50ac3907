import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coevolve.environments.hdl.llm4cov.get_cov_result import main
from tests.conftest import ROOT
from tests.hdl_simulators import until

pytestmark = pytest.mark.hdl

RTL = """module blinker (input logic clk, input logic rst_n, output logic led);
  always_ff @(posedge clk)
    if (!rst_n) led <= 1'b0;
    else led <= !led;
endmodule
"""
TESTBENCH = """module tb_blinker;
  logic clk = 0, rst_n = 0, led;
  blinker uut (.*);
  initial begin
    repeat (20) #5 clk = !clk;
    #1 rst_n = 1;
    repeat (20) #5 clk = !clk;
    $finish;
  end
endmodule
"""


def run(folder: Path, testbench: str, *more: str) -> dict[str, Any]:
    """Call the command as LLM4Cov's client does; return the answer."""
    (folder / "blinker.sv").write_text(RTL)
    (folder / "tb_b.sv").write_text(testbench)
    words = (
        f"--workdir {folder} --tb tb_b.sv --sv_files blinker.sv --dut blinker --cov_type all "
        "--timeout 30 --outfile out.json"
    )
    main([*words.split(), *more, "--metrics", "overall", "code", "fsm", "toggle"])
    return json.loads((folder / "out.json").read_text())


def test_the_command_answers_with_llm4covs_fields(tmp_path: Path) -> None:
    found = run(tmp_path, TESTBENCH)
    assert (found["returncode"], found["status"], found["err_msg"]) == (0, "success", "")
    (row,) = found["cov_info"]["summary"]
    assert (row["name"], row["level"], row["Fsm Average"]) == ("blinker", 0, None)
    assert row["Block"] == 1.0
    assert 0.8 < row["Overall Average"] < 1.0
    assert "rst_n never 1->0 | module blinker" in found["cov_info"]["detail"]
    assert found["sim"]["why"] == "finish"


def test_a_testbench_that_does_not_compile_is_an_answer_too(tmp_path: Path) -> None:
    found = run(tmp_path, TESTBENCH.replace("20)", "20 ", 1), "--skip_detail")
    assert found["status"] == "xrun_failed"
    assert "tb_b.sv:5:" in found["err_msg"]
    assert str(tmp_path) not in found["err_msg"]


def test_a_job_that_cannot_be_evaluated_is_an_exception(tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit) as left:
        run(tmp_path, TESTBENCH, "--sv_files", "../blinker.sv")
    assert left.value.code == 1
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["status"], "cov_info" in found) == ("exception", False)
    assert "../blinker.sv" in capsys.readouterr().err


def test_the_queue_is_served_until_a_signal(tmp_path: Path) -> None:
    worker = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "coevolve",
            "hdl",
            "serve-queue",
            str(tmp_path),
            "--workers",
            "2",
        ],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stderr is not None
    try:
        assert "serving" in worker.stderr.readline()
        files = {"blinker.sv": RTL, "tb_b.sv": TESTBENCH}
        staging = tmp_path / "incoming" / "j.staging"
        (staging / "inputs").mkdir(parents=True)
        for name, text in files.items():
            (staging / "inputs" / name).write_text(text)
        manifest = {
            "job_id": "j",
            "dut": "blinker",
            "tb": "tb_b.sv",
            "sv_files": ["blinker.sv"],
            "inputs_sha256": {n: hashlib.sha256(t.encode()).hexdigest() for n, t in files.items()},
        }
        (staging / "manifest.json").write_text(json.dumps(manifest))
        staging.rename(tmp_path / "incoming" / "j")
        until((tmp_path / "results" / "j" / ".done").exists)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
    finally:
        worker.kill()
    found = json.loads((tmp_path / "results" / "j" / "result.json").read_text())
    assert found["status"] == "success"

import json
from pathlib import Path

import pytest

from tests.bench.hdl import main

DESIGNS = Path(__file__).parents[2] / "designs"


@pytest.mark.hdl
@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_the_benchmark_prints_what_an_evaluation_costs(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--rounds", "1", "--plain", "0", "--programs", "20"]
    main(["--root", str(DESIGNS), "--designs", "sync_fifo", *few, "--json"])
    figures = json.loads(capsys.readouterr().out)
    (row,) = figures["designs"]
    assert row["design"] == "sync_fifo"
    assert [*row["stages"]] == ["check", "verilate", "compile", "link", "simulate", "read"]
    assert sum(row["stages"].values()) == pytest.approx(row["evaluation_cpu_s"])
    assert row["plain_cpu_s"] is None
    assert 1000 * row["evaluation_cpu_s"] > 10 * row["cached_ms"] > 0
    assert row["programs_per_cpu_s"] * row["evaluation_cpu_s"] > 10
    assert figures["one_per_s"] > 0
    assert figures["two_per_s"] > 0

"""Coverage in the format of lcov."""

from pathlib import Path

import pytest

from coevolve.environments.hdl.coverage.lcov import lcov
from coevolve.environments.hdl.evaluation.grade_testbench import MISUSED, RAN
from coevolve.environments.hdl.simulate.messages import (
    Coverage,
    Metric,
    Point,
    SourceFile,
    Unit,
)
from tests.commands import ROOT, answered


def point(metric: Metric, line: int, name: str, lines: str) -> Point:
    return Point(
        metric=metric, file="a.sv", line=line, column=1, instance="", name=name, lines=lines
    )


POINTS = (
    point("branch", 3, "else", "5"),
    point("branch", 3, "if", "3-4,7"),
    point("branch", 9, "if", "7,9"),
    point("line", 2, "block", "2"),
    point("toggle", 1, "q[0]:0->1", ""),
)
UNIT = Unit(
    name="a",
    files=(SourceFile(name="a.sv", text="//\n"), SourceFile(name="b.sv", text="//\n")),
    top="a",
)


def test_lines_and_branches_have_records_and_sums() -> None:
    coverage = Coverage(points_hash="", hits=bytes([0b11010]), kinds=())
    told = lcov(POINTS, coverage, UNIT, {"a.sv": "/rtl/a.sv"})
    assert told.split("\n") == [
        *("TN:", "SF:/rtl/a.sv", "BRDA:3,0,0,0", "BRDA:3,0,1,1", "BRDA:9,0,0,0", "BRF:3", "BRH:1"),
        *("DA:2,1", "DA:3,1", "DA:4,1", "DA:5,0", "DA:7,1", "DA:9,0", "LF:6", "LH:4"),
        *("end_of_record", ""),
    ]


@pytest.mark.hdl
def test_the_command_writes_a_file_that_names_the_source(tmp_path: Path) -> None:
    folder = Path(ROOT, "designs", "alu16")
    info = tmp_path / "alu.info"
    bench = str(folder / "testbenches" / "poor.sv")
    assert answered("hdl", "simulate", str(folder), bench, f"--lcov={info}").returncode == RAN
    told = info.read_text()
    assert f"SF:{folder.resolve() / 'alu16.sv'}\n" in told
    assert "\nDA:38,1\n" in told
    assert ",0\n" in told
    wrong = answered("hdl", "simulate", str(folder), bench, f"--lcov={tmp_path}")
    assert wrong.returncode == MISUSED
    assert "cannot be written" in wrong.stderr

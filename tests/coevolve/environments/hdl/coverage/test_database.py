"""Coverage files in Verilator's format, written, read and merged."""

import json
import subprocess
from pathlib import Path

import pytest

from coevolve.environments.hdl.coverage.database import HEADER, merged, written
from coevolve.environments.hdl.coverage.points import point_set
from coevolve.environments.hdl.simulate.messages import Coverage, Metric, Point, SourceFile, Unit
from coevolve.environments.hdl.simulate.toolchain import find_toolchain
from protocols.errors import ConfigError
from tests.commands import ROOT, answered


def point(metric: Metric, line: int, name: str, *, instance: str = "", file: str = "a.sv") -> Point:
    return Point(
        metric=metric, file=file, line=line, column=3, instance=instance, name=name, lines="2-3"
    )


OVER = point_set(
    (
        point("line", 2, "block"),
        point("branch", 3, "if", instance="left.u[0]"),
        point("expr", 4, "(a==1 && b==0) => 1"),
        point("toggle", 5, "q__x[3]:0->1"),
        point("fsm", 6, "IDLE->RUN"),
        point("fsm", 6, "IDLE->RUN", instance="left"),
        point("plan", 7, "bin cg.at.zero_x_po (zero with po)", file="plan.sv"),
        point("plan", 8, "bin cg.ops.both", file="plan.sv"),
        point("plan", 9, "cover seen", file="plan.sv"),
    )
)
UNIT = Unit(
    name="a",
    files=(SourceFile(name="a.sv", text=""),),
    plan=(SourceFile(name="plan.sv", text=""),),
    top="a",
)


def coverage(bits: int) -> Coverage:
    return Coverage(points_hash=OVER.sha256, hits=bits.to_bytes(2, "little"), kinds=())


def file(bits: int) -> tuple[str, str]:
    return f"{bits}.dat", written(OVER.points, coverage(bits), UNIT)


@pytest.mark.parametrize("bits", [0, 0b1, 0b101010101, 0b010101010, 0b111111111])
def test_what_is_written_is_read_again(bits: int):
    found = merged([file(bits)], OVER, UNIT)
    assert int.from_bytes(found.hits, "little") == bits
    assert sum(kind.covered for kind in found.kinds) == bits.bit_count()


@pytest.mark.parametrize("files", [(1, 2), (0b11100, 0b00111, 0b100000000), (7, 7, 0)])
def test_merged_files_cover_the_union(files: tuple[int, ...]):
    found = merged([file(bits) for bits in files], OVER, UNIT)
    union = 0
    for bits in files:
        union |= bits
    assert int.from_bytes(found.hits, "little") == union


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found none"),
        ("hello\n", "found none"),
        (HEADER + "C 'nothing' many\n", "needs a coverage file of Verilator"),
        (
            written(OVER.points, coverage(1), UNIT)
            + written(OVER.points, coverage(1), UNIT).replace("tb.dut", "tb.other"),
            "one instance of a, found tb.dut, tb.other",
        ),
    ],
)
def test_files_without_the_design_are_refused(text: str, words: str):
    with pytest.raises(ConfigError, match=words):
        merged([("x.dat", text)], OVER, UNIT)


@pytest.mark.hdl
@pytest.mark.timeout(300)
def test_the_command_merges_as_verilator_coverage_does(tmp_path: Path):
    design = Path(ROOT, "designs", "alu16")
    for name in ("poor", "mid"):
        bench = str(design / "testbenches" / f"{name}.sv")
        answered("hdl", "simulate", str(design), bench, f"--dat={tmp_path / name}.dat")
    files = [str(tmp_path / f"{name}.dat") for name in ("poor", "mid")]
    both = str(tmp_path / "both.dat")
    ours = answered("hdl", "merge", str(design), *files, "--json", f"--dat={tmp_path / 'our.dat'}")
    program = find_toolchain().verilator.parent / "verilator_coverage_bin_dbg"
    subprocess.run([program, "--write", both, *files], check=True, capture_output=True)
    theirs = answered("hdl", "merge", str(design), both, "--json")
    alone = answered("hdl", "merge", str(design), files[0], "--json")
    assert json.loads(ours.stdout) == json.loads(theirs.stdout)
    assert json.loads(ours.stdout)["overall_covered"] > json.loads(alone.stdout)["overall_covered"]

    def hit(path: Path) -> set[str]:
        lines = path.read_text().splitlines()[1:]
        return {text for text, _, count in (each.rpartition(" ") for each in lines) if count != "0"}

    assert hit(tmp_path / "our.dat") == hit(Path(both))

import shutil
from pathlib import Path

import pytest

from coevolve.environments.hdl.designs.folders import load, load_all, unit_from_files
from protocols.errors import ConfigError

DESIGN = {
    "design.yaml": """
top: m
family: samples
split: train
files: [m.sv]
clock: clk
reset: {port: rst_n, active: low}
threshold: 0.9
""",
    "m.sv": "module m (input logic clk, rst_n, input logic [3:0] a, output logic y);\n"
    "  always_ff @(posedge clk) if (!rst_n) y <= 0; else y <= ^a;\nendmodule\n",
    "spec.md": "Parity.\n",
    "mutants.yaml": "- {name: odd, file: m.sv, find: ^a, replace: '&a', bug: and for xor}\n",
    "testbenches/poor.sv": "module tb; endmodule\n",
    "testbenches/mid.sv": "module tb; endmodule\n",
    "testbenches/good.sv": "module tb; endmodule\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "parity"
    (path / "testbenches").mkdir(parents=True)
    for name, text in DESIGN.items():
        (path / name).write_text(text)
    return path


def test_a_folder_is_a_design(folder: Path):
    design = load(folder)
    assert design.design_id == "parity"
    assert [(port.name, port.direction, port.width) for port in design.ports] == [
        ("clk", "in", 1),
        ("rst_n", "in", 1),
        ("a", "in", 4),
        ("y", "out", 1),
    ]
    assert design.unit.clock == "clk"
    assert [mutant.name for mutant in design.mutants] == ["odd"]
    assert load_all(folder.parent) == (design,)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("design.yaml", "clock: clk", "clokc: clk", "unknown field 'clokc'; did you mean 'clock'?"),
        ("design.yaml", "clock: clk", "clock: clok", "did you mean 'clk'?"),
        ("design.yaml", "clock: clk", "clock: y", "$.clock: needs an input of one bit of m"),
        ("design.yaml", "port: rst_n", "port: a", "$.reset: needs an input of one bit of m"),
        ("design.yaml", "top: m", "top: n", "needs its top module 'n' in m.sv, found m"),
        ("design.yaml", "[m.sv]", "[n.sv]", "n.sv is missing; did you mean 'm.sv'?"),
        ("design.yaml", "0.9", "1.5", "$.threshold"),
        (
            "design.yaml",
            "0.9",
            "0.9\nunreachable: [line 3]",
            "metric file:line:column instance name",
        ),
        ("m.sv", "y <= 0", "z <= 0", "error: use of undeclared identifier 'z'"),
        (
            "mutants.yaml",
            "find: ^a",
            "find: clk",
            "must occur exactly once in m.sv, found it 2 times",
        ),
        ("mutants.yaml", "file: m.sv", "file: k.sv", "needs one of the files m.sv, found 'k.sv'"),
        ("mutants.yaml", "'&a'", "^a", "odd: changes nothing"),
        ("spec.md", "Parity.", "", "spec.md is empty"),
    ],
)
def test_a_fault_has_its_place(folder: Path, name: str, old: str, new: str, words: str):
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigError) as refused:
        load(folder)
    assert words in str(refused.value)


def test_one_error_names_all_faults_of_a_folder(folder: Path):
    (folder / "spec.md").unlink()
    shutil.rmtree(folder / "testbenches")
    with pytest.raises(ConfigError) as refused:
        load_all(folder.parent)
    for name in ("spec.md", "testbenches/poor.sv", "testbenches/mid.sv", "testbenches/good.sv"):
        assert f"{name} is missing" in str(refused.value)


def test_rtl_without_a_folder_is_a_unit(folder: Path, tmp_path: Path):
    unit = unit_from_files([folder / "m.sv"], "m")
    assert (unit.name, unit.top, [file.name for file in unit.files]) == ("m", "m", ["m.sv"])
    with pytest.raises(ConfigError, match=r"two files are called m\.sv"):
        unit_from_files([folder / "m.sv", folder / "m.sv"], "m")
    with pytest.raises(ConfigError, match=r"k\.sv is missing"):
        unit_from_files([tmp_path / "k.sv"], "m")

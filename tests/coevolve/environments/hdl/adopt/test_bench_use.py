import re
from pathlib import Path

import pytest

from coevolve.environments.hdl.adopt.bench_use import with_bench_data
from coevolve.environments.hdl.simulate.messages import SourceFile, Unit

UNIT = Unit(name="m", files=(SourceFile(name="m.sv", text="module m; endmodule\n"),), top="m")


@pytest.mark.parametrize(
    ("name", "in_policy", "in_trusted"),
    [
        ("near.tv", True, True),
        ("../data/far.tv", False, True),
        ("far.tv", False, False),
        ("link.tv", False, True),
    ],
)
@pytest.mark.parametrize("trusted", [False, True])
def test_only_a_trusted_bench_reads_outside_of_the_given_folders(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    in_policy: bool,
    in_trusted: bool,
    trusted: bool,
):
    for path in ("tb/near.tv", "data/far.tv"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text("1\n")
    (tmp_path / "tb/link.tv").symlink_to(tmp_path / "data/far.tv")
    monkeypatch.chdir(tmp_path / "tb")
    text = f'module tb; int f = $fopen("{name}", "r"); endmodule\n'
    bench = [tmp_path / "tb/tb.sv"]
    unit, read = with_bench_data(UNIT, text, bench, [], trusted=trusted)
    own = [each.name for each in unit.data]
    assert bool(own) is (in_trusted if trusted else in_policy)
    assert all(f'"{each}"' in read for each in own)
    given, _ = with_bench_data(UNIT, text, bench, [tmp_path / "data"])
    assert len(given.data) == 1


def test_a_file_that_a_bench_reads_takes_no_place_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for path in ("m.sv", "x/v.txt", "y/v.txt"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(path)
    monkeypatch.chdir(tmp_path)
    opened = ("m.sv", "./x/v.txt", "y/v.txt", "y/v.txt")
    text = "".join(f'int f{n} = $fopen("{name}", "r");' for n, name in enumerate(opened))
    unit, read = with_bench_data(UNIT, f"module tb; {text} endmodule\n", [Path("tb.sv")], [])
    held = {each.name: each.text for each in unit.data}
    assert sorted(held.values()) == sorted({"m.sv", "x/v.txt", "y/v.txt"})
    names = re.findall(r'"([^"]+)", "r"', read)
    assert [held[name] for name in names] == [name.removeprefix("./") for name in opened]
    assert "m.sv" not in held


def test_a_file_that_a_bench_writes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("out.log").write_bytes(b"\xff")
    text = 'module tb; int f = $fopen("out.log", "w"); endmodule\n'
    assert with_bench_data(UNIT, text, [Path("tb.sv")], [], trusted=True) == (UNIT, text)

import os
from pathlib import Path

import pytest

from coevolve.base.durable_files import no_link, replace_file


@pytest.mark.parametrize("there", [True, False], ids=["file", "nothing"])
@pytest.mark.parametrize("name", ["run.json", "run.json.new"])
def test_a_file_is_replaced_and_what_a_link_leads_to_stays(
    tmp_path: Path, name: str, *, there: bool
):
    target = tmp_path / "target"
    if there:
        target.write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(target)
    replace_file(tmp_path / "run" / "run.json", b"new")
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["run.json"]
    assert not (tmp_path / "run" / "run.json").is_symlink()
    assert (tmp_path / "run" / "run.json").read_bytes() == b"new"
    assert target.read_text() == "mine" if there else not target.exists()


def test_a_file_is_replaced_in_a_folder_behind_a_link_and_after_an_interrupted_write(
    tmp_path: Path,
):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "runs").symlink_to("scratch")
    (tmp_path / "scratch" / "a.new").write_text("half of a longer text")
    replace_file(tmp_path / "runs" / "a", b"whole")
    assert (tmp_path / "scratch" / "a").read_bytes() == b"whole"


@pytest.mark.parametrize("mode", ["r", "a", "a+", "w", "x"])
def test_no_link_is_opened_and_no_pipe_is_waited_for(tmp_path: Path, mode: str):
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "nowhere").symlink_to("absent")
    os.mkfifo(tmp_path / "pipe")
    refused = ["link", "circle", "nowhere", *(["pipe"] if mode != "r" else [])]
    for name in refused:
        with (
            pytest.raises(OSError, match=f"{name}|not seekable"),
            open(tmp_path / name, mode, opener=no_link),
        ):
            pass
    assert (tmp_path / "target").read_text() == "mine"
    assert not (tmp_path / "absent").exists()

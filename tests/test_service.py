"""The unit of systemd on the page Operations."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import ROOT

PAGE = ROOT / "coevolve" / "docs" / "operations.md"


def unit() -> str:
    """Return the unit, for this machine's user and programs."""
    lines = PAGE.read_text(encoding="utf-8").split("    [Unit]\n")[1].split("\n`systemctl")[0]
    text = "[Unit]\n" + "".join(f"{line.removeprefix('    ')}\n" for line in lines.splitlines())
    program = str(Path(sys.executable).with_name("coevolve"))
    text = text.replace("/home/trainer/.venv/bin/coevolve", program)
    return text.replace("/home/trainer", "/").replace("User=trainer\n", "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit_that_keeps_a_run(tmp_path: Path):
    file = tmp_path / "coevolve.service"
    file.write_text(unit(), encoding="utf-8")
    found = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=60
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert "coevolve resume quickstart --keep" in file.read_text(encoding="utf-8")

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from coevolve.models.scratch_folder import scratch_folder

KILLED = """
import os, signal
from coevolve.models.scratch_folder import scratch_folder
print(scratch_folder().path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def left_by_a_killed_process() -> Path:
    told = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    folder = Path(told.stdout.strip())
    (folder / "file").touch()
    return folder


def test_the_next_folder_removes_what_a_killed_process_left(place: Path):
    left, mine = left_by_a_killed_process(), scratch_folder()
    assert left.parent == place
    for folder in (left, mine.path):
        os.utime(folder, (0, 0))
    with scratch_folder() as other:
        assert (left.exists(), mine.path.exists(), other.path.exists()) == (False, True, True)
    mine.remove()
    assert list(place.iterdir()) == []


def test_a_young_folder_may_be_in_use_and_stays():
    left = left_by_a_killed_process()
    with scratch_folder():
        assert left.exists()


def test_a_folder_from_before_the_clock_was_set_back_is_removed():
    left = left_by_a_killed_process()
    ahead = time.time() + 86400.0
    os.utime(left, (ahead, ahead))
    with scratch_folder():
        assert not left.exists()

import os
import subprocess
import sys
import time
from pathlib import Path

from coevolve.environments.sandbox.work_folders import WorkFolder, sweep
from coevolve.models.scratch_folder import YOUNG_S

KILLED = """
import os, signal
from coevolve.environments.sandbox.work_folders import WorkFolder
print(WorkFolder().path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def left_by_a_killed_process() -> Path:
    told = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    folder = Path(told.stdout.strip())
    (folder / "file").touch()
    return folder


def age(folder: Path) -> None:
    long_ago = time.time() - YOUNG_S - 60
    os.utime(folder, (long_ago, long_ago))


def test_folders_of_killed_processes_are_removed_and_those_in_use_are_kept():
    old, young, mine = left_by_a_killed_process(), left_by_a_killed_process(), WorkFolder()
    age(old)
    age(mine.path)
    sweep()
    assert (old.exists(), young.exists(), mine.path.exists()) == (False, True, True)
    mine.remove()
    assert not mine.path.exists()
    age(young)
    sweep()
    assert not young.exists()

"""The processes of a run share neither files nor memory."""

import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

from coevolve.parts.privacy import private_files

CHILD = "import os, resource; print(os.umask(0), resource.getrlimit(resource.RLIMIT_CORE)[0])"


def test_files_are_the_users_alone_and_children_keep_that(tmp_path: Path):
    before = os.umask(0o022)
    cores = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        with private_files():
            (tmp_path / "folder").mkdir()
            (tmp_path / "file").touch()
            child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    assert resource.getrlimit(resource.RLIMIT_CORE) == cores
    assert child.stdout == f"{0o077} 0\n"
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("folder", "file")]
    assert modes == [0o700, 0o600]

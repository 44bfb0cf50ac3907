"""The processes of a run share neither files nor memory."""

import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.parts.privacy import claim, private_files
from protocols.errors import TransferError

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


def test_a_folder_with_a_name_that_others_know_is_the_users_or_refused(tmp_path: Path):
    folder = tmp_path / "copies"
    folder.mkdir(mode=0o755)
    claim(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / "planted").symlink_to(folder)
    with pytest.raises(TransferError, match="or a link; remove it"):
        claim(tmp_path / "planted")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path):
    folder = tmp_path / "copies"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    with pytest.raises(TransferError, match="found one of user 65534"):
        claim(folder)

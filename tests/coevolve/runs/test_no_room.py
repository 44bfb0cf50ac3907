"""What a user without space or rights is told, and what is left behind."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coevolve.config.load import load_config
from coevolve.journal.journal import Journal
from coevolve.runs.starting import create
from protocols.errors import RunError
from tests.commands import ROOT

WITHOUT = "-dac_override,-dac_read_search,-fowner"
"""What root loses, so that the modes of files hold for it."""


@contextmanager
def no_room() -> Generator[None]:
    """Let no file grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_start_without_room_leaves_nothing(tmp_path: Path) -> None:
    config = load_config("quickstart")
    with no_room(), pytest.raises(RunError, match=r"cannot be written: .*; free space on the disk"):
        create(tmp_path / config.name, config)
    assert not list(tmp_path.iterdir())


def test_a_start_that_was_killed_at_its_first_file_is_replaced(tmp_path: Path) -> None:
    config = load_config("quickstart")
    (tmp_path / config.name).mkdir()
    (tmp_path / config.name / "config.yaml.new").touch()
    assert create(tmp_path / config.name, config).written_config() == config


def test_a_folder_with_something_else_is_not_replaced(tmp_path: Path) -> None:
    config = load_config("quickstart")
    (tmp_path / config.name).mkdir()
    (tmp_path / config.name / "config.yaml").write_text("mine")
    with pytest.raises(RunError, match="exists already"):
        create(tmp_path / config.name, config)


@pytest.mark.skipif(not os.geteuid() and not shutil.which("setpriv"), reason="needs rights to lose")
def test_a_journal_that_may_not_be_read_is_not_called_damaged(tmp_path: Path) -> None:
    config = load_config("quickstart")
    directory = create(tmp_path / config.name, config)
    Journal.open(directory.store, map_size_bytes=1 << 24).close()
    for file in (*directory.store.iterdir(), directory.store):
        file.chmod(0o500 if file.is_dir() else 0o400)
    lose = ("setpriv", f"--bounding-set={WITHOUT}", f"--inh-caps={WITHOUT}")
    words = ("journal", "verify", str(directory.path))
    done = subprocess.run(
        [*(() if os.geteuid() else lose), sys.executable, "-m", "coevolve", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    directory.store.chmod(0o700)
    assert done.returncode == 1
    assert "needs files that this user may read and write" in done.stderr
    assert "repair" not in done.stdout + done.stderr

import os
import select
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.environments.cache_folder import cache_folder
from coevolve.environments.hdl.simulate.runtime import open_runtime, runtimes_folder
from coevolve.environments.hdl.simulate.toolchain import VERILATOR_VERSION, find_toolchain
from protocols.errors import DependencyError

pytestmark = pytest.mark.hdl


def test_the_error_for_a_missing_compiler_names_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DependencyError) as refused:
        find_toolchain()
    for word in ("clang++ 16", "`coevolve setup hdl`", "clang-19", "mold", "bubblewrap"):
        assert word in str(refused.value)


def test_the_identity_has_the_versions_that_results_depend_on():
    toolchain = find_toolchain()
    assert f"verilator {VERILATOR_VERSION}" in toolchain.identity
    assert f"clang {toolchain.clang_version}" in toolchain.identity
    assert "revision" in toolchain.identity


def test_a_runtime_is_built_once_and_others_may_read_it():
    toolchain = find_toolchain()
    runtime = open_runtime(toolchain)
    built = {path: path.stat() for path in sorted(runtime.folder.rglob("*"))}
    assert len(built) > 3
    assert open_runtime(toolchain) == runtime
    for path, before in built.items():
        now = path.stat()
        assert (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert runtime.folder.parent == runtimes_folder()
    for path in (runtime.folder, runtime.library, runtime.header, runtime.verilator):
        assert path.stat().st_mode & stat.S_IROTH


def test_the_runtimes_folder_lies_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert runtimes_folder() == tmp_path / "coevolve" / "hdl"


def test_a_cache_without_an_absolute_path_is_ignored(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert runtimes_folder().is_absolute()


NOBODY = """
import os, sys
os.environ.pop("HOME", None)
for name in ("XDG_CACHE_HOME", "COEVOLVE_CACHE"):
    os.environ.pop(name, None)
from coevolve.environments.hdl.simulate.runtime import runtimes_folder
os.setuid(54321)
runtimes_folder()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes a user without a home")
def test_the_error_for_a_user_without_a_home_names_the_cache_variable():
    told = subprocess.run([sys.executable, "-c", NOBODY], capture_output=True, text=True)
    assert f"{DependencyError.__name__}: " in told.stderr
    assert "set COEVOLVE_CACHE" in told.stderr


BUILDER = """
import sys
from dataclasses import replace
from pathlib import Path
from coevolve.environments.hdl.simulate.runtime import open_runtime
from coevolve.environments.hdl.simulate.toolchain import find_toolchain
open_runtime(replace(find_toolchain(), clang=Path(sys.argv[1])))
"""


def test_compilers_die_with_the_process_that_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "coevolve").mkdir()
    (tmp_path / "coevolve" / "packages").symlink_to(cache_folder() / "packages")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiler, pids = tmp_path / "clang++", tmp_path / "pids"
    os.mkfifo(pids)
    # 1<> does not wait for a reader: a second compiler may start when there is none any more.
    compiler.write_text(f"#!/bin/sh\necho $$ 1<> {pids}\nexec sleep 60\n")
    compiler.chmod(0o755)
    builder = subprocess.Popen([sys.executable, "-c", BUILDER, str(compiler)])
    with pids.open() as told:
        compiling = os.pidfd_open(int(told.readline()))
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    ended, _, _ = select.select([compiling], [], [], 10)
    os.close(compiling)
    assert ended

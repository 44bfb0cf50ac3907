import stat
from pathlib import Path

import pytest

from coevolve.hdl.runtime import cache_folder, open_runtime
from coevolve.hdl.toolchain import VERILATOR_VERSION, find_toolchain
from protocols.errors import DependencyError

pytestmark = pytest.mark.hdl


def test_a_machine_without_a_compiler_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DependencyError) as refused:
        find_toolchain()
    for word in ("clang++ 16", "`make .venv/.hdl`", "clang-19", "mold", "bubblewrap"):
        assert word in str(refused.value)


def test_the_identity_names_what_results_depend_on():
    toolchain = find_toolchain()
    assert f"verilator {VERILATOR_VERSION}" in toolchain.identity
    assert f"clang {toolchain.clang_version}" in toolchain.identity
    assert "revision" in toolchain.identity


def test_a_runtime_is_built_once_and_others_may_read_it():
    toolchain = find_toolchain()
    runtime = open_runtime(toolchain)
    assert open_runtime(toolchain) == runtime
    assert runtime.folder.parent == cache_folder()
    for path in (runtime.folder, runtime.library, runtime.header, runtime.verilator):
        assert path.stat().st_mode & stat.S_IROTH


def test_the_cache_lies_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "coevolve" / "hdl"

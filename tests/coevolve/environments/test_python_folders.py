"""Python environments of their own: made once for a list of pinned packages, and complete."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from coevolve.config.load import load_config
from coevolve.environments.cache_folder import CACHE_VARIABLE
from coevolve.environments.program.settings import ProgramConfig
from coevolve.environments.python_folders import COMPLETE, OwnPython
from coevolve.environments.registry import environment_named, environment_of
from protocols.errors import DependencyError
from tests.commands import answered


def wheel(folder: Path, version: str) -> str:
    """Write the package ``ownpack``; return its entry in a list of packages."""
    path = folder / f"ownpack-{version}-py3-none-any.whl"
    info = f"ownpack-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("ownpack.py", f"VERSION = {version!r}\n")
        file.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: ownpack\nVersion: {version}\n"
        )
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return f"ownpack @ {path.as_uri()}"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_each_list_has_an_environment_of_its_own_that_is_made_once(
    cache: Path, tmp_path: Path
) -> None:
    one, two = ([wheel(tmp_path, version)] for version in ("1.0", "2.0"))
    said: list[str] = []
    for packages, version in ((one, "1.0"), (two, "2.0"), (one, "1.0")):
        OwnPython(packages).make(said.append)
        code = "import ownpack, sys; print(ownpack.VERSION, 'coevolve' in sys.modules)"
        done = subprocess.run(
            [OwnPython(packages).interpreter, "-c", code],
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout == f"{version} False\n"
    assert len(said) == 2
    assert OwnPython(one).interpreter.is_relative_to(cache)
    ours = subprocess.run(
        [OwnPython(one).interpreter, "-c", "import msgspec"], check=False, capture_output=True
    )
    assert ours.returncode, "packages of ours are not importable there"


def test_what_a_killed_installation_leaves_is_replaced(cache: Path, tmp_path: Path) -> None:
    packages = [wheel(tmp_path, "1.0")]
    folder = OwnPython(packages).interpreter.parents[1]
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text("broken")
    assert not OwnPython(packages).is_made
    OwnPython(packages).make(lambda line: None)
    assert OwnPython(packages).is_made
    assert (folder / COMPLETE).read_text() == packages[0]


def test_packages_that_cannot_be_installed_are_named(cache: Path, tmp_path: Path) -> None:
    packages = [f"nothing @ {(tmp_path / 'nothing-1.0-py3-none-any.whl').as_uri()}"]
    with pytest.raises(
        DependencyError, match=r"environment\.python: nothing @ .* cannot be installed"
    ):
        OwnPython(packages).make(lambda line: None)
    assert not OwnPython(packages).is_made


def test_packages_need_one_version() -> None:
    pinned = ("a==1", "b[x,y]==1.2.post1", "c @ https://x/c.whl", "d == 2!3+cpu", "e_f.g-h==0.1a1")
    loose = ("a", "a>=1", "a==1.*", "a==", "==1", "-r file", "a==1; x", "", "a==1 b==2")
    assert OwnPython((*pinned, *loose)).unpinned == loose
    for python in (["openai"], ["openai==1", "mcp>2"]):
        settings = {"tasks": "coevolve:letters.jsonl", "command": ["coevolve:openai_loop.py"]}
        environment = environment_named("program", python=python, **settings)
        (fault,) = [
            text for is_fault, text in environment.faults() if is_fault and "python" in text
        ]
        assert "needs packages such as name==1.2, found" in fault
        assert "openai==1" not in fault


def test_a_setup_of_a_run_file_installs_what_a_check_misses(cache: Path, tmp_path: Path) -> None:
    entry = wheel(tmp_path, "1.0")
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\narm: static\nlearner: {imitation: {weight: 0, replay_per_step: 0}}\n"
        "policy: {model: Qwen/Qwen3-4B-Instruct-2507, tiny_random: true}\n"
        "environment: {use: program, tasks: 'coevolve:letters.jsonl', "
        f"command: ['coevolve:openai_loop.py'], python: ['{entry}']}}\n"
    )
    environment = environment_of(load_config(file))
    (lacks,) = environment.check()
    assert "run `coevolve setup FILE`" in lacks
    answer = answered("setup", str(file))
    assert answer.returncode == 0, answer.stderr
    assert f"{file}: the packages of its environment are installed" in answer.stdout
    assert not environment.check()
    settings = ProgramConfig(tasks="", command=("x.py",), python=(entry,))
    assert settings.argv() == (str(OwnPython((entry,)).interpreter), "x.py")

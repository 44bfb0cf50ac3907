"""Setting AppWorld up: where its package lies, what is unpacked, and what the errors say."""

import io
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from coevolve.cli.setup import command
from coevolve.environments import packages
from coevolve.environments.appworld import place
from coevolve.environments.cache_folder import CACHE_VARIABLE
from protocols.errors import DependencyError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    return tmp_path


@pytest.fixture
def package(cache: Path) -> Path:
    """A package of the same name that unpacks one file, and what the interpreter gets."""
    folder = packages.private_folder(place.PACKAGE)
    (folder / "appworld").mkdir(parents=True)
    (folder / "appworld" / "__init__.py").touch()
    (folder / "appworld" / "install.py").write_text(
        "from pathlib import Path\n"
        "def install_package():\n"
        "    (Path(__file__).parent / 'apps.py').write_text('')\n"
    )
    for name in ("freezegun", "pendulum", "yaml"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").touch()
    return folder


def test_without_it_the_overview_and_the_errors_name_the_command(cache: Path) -> None:
    said = CliRunner().invoke(command, [])
    line = next(line for line in said.output.splitlines() if line.startswith("appworld"))
    assert line == "appworld: needs appworld 0.1.3.post1; run `coevolve setup appworld`"
    for asked in (place.engine_folder, place.interpreter_folder):
        with pytest.raises(DependencyError, match="run `coevolve setup appworld`"):
            asked()


def test_the_apps_are_unpacked_once_and_the_interpreter_gets_its_own_packages(
    package: Path,
) -> None:
    assert place.missing() == "the unpacked apps of appworld"
    with pytest.raises(DependencyError, match="needs the unpacked apps"):
        place.engine_folder()
    said = CliRunner().invoke(command, ["appworld"])
    assert said.exit_code == 0, said.output
    assert place.NOTICE in said.output
    assert said.output.endswith(f"appworld: ready, appworld 0.1.3.post1 in {package}\n")
    assert (package / "appworld" / "apps.py").is_file()
    assert place.engine_folder() == package
    held = sorted(path.name for path in place.interpreter_folder().iterdir())
    assert held == ["freezegun", "pendulum", "yaml"]
    assert CliRunner().invoke(command, ["appworld"]).output.count("\n") == 1


def test_what_cannot_be_unpacked_is_told_with_a_remedy(package: Path) -> None:
    (package / "appworld" / "install.py").write_text("raise OSError('the bundle is damaged')")
    with pytest.raises(DependencyError, match=r"the bundle is damaged; remove the folder and run"):
        place.prepare(io.StringIO())
    assert place.missing() == "the unpacked apps of appworld"


def test_an_interpreters_folder_without_a_package_is_refused(package: Path) -> None:
    (package / "pendulum" / "__init__.py").unlink()
    (package / "pendulum").rmdir()
    with pytest.raises(DependencyError, match="No module named 'pendulum'"):
        place.prepare(io.StringIO())
    assert place.missing()
    assert sorted(path.name for path in package.parent.iterdir() if path.is_dir()) == [package.name]


def test_the_plain_python_has_no_packages_of_ours() -> None:
    script = "import importlib.util as u; print(u.find_spec('coevolve'), u.find_spec('msgspec'))"
    told = subprocess.run(
        [place.plain_python(), "-I", "-S", "-c", script],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "None None\n"

from collections.abc import Callable
from pathlib import Path

import pytest

from coevolve.environments.hdl.adopt.adopting import Found, Options, found_design
from coevolve.environments.hdl.adopt.reading import Verilator
from coevolve.environments.hdl.simulate.runtime import open_runtime
from coevolve.environments.hdl.simulate.toolchain import find_toolchain

Adopt = Callable[..., Found]


@pytest.fixture(scope="session")
def verilator() -> Verilator:
    runtime = open_runtime(find_toolchain())
    return Verilator(program=runtime.verilator, root=runtime.root)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], Path]:
    """Write the files of a project into a folder, which becomes the working folder."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return write


@pytest.fixture
def adopted(project: Callable[[dict[str, str]], Path], verilator: Verilator) -> Adopt:
    """Adopt the module ``top`` of a project with these files, of which ``p.f`` is the list."""

    def adopt(files: dict[str, str], top: str = "top", **options: object) -> Found:
        project(files)
        names = [name for name in files if name == "p.f"] or [*files]
        given: dict[str, object] = {
            "project": tuple(Path(each) for each in names),
            "to": None,
            "clock": "",
            "reset": None,
            "flat": False,
            **dict.fromkeys(("parameter", "define", "include", "data", "bench"), ()),
        }
        return found_design(Options(top=top, **given | options), verilator)  # pyright: ignore[reportArgumentType]

    return adopt

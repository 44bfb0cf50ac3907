"""An environment's own packages, installed for real from a tiny wheel, without a network."""

import base64
import hashlib
import os
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from coevolve.environments import packages
from coevolve.environments.cache_folder import cache_folder, passed_on
from coevolve.environments.packages import Package, Requirements
from coevolve.environments.tools.commands import Act, Observed, Reset
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.environments.tools.worker import ToolWorker
from protocols.config import SimulatorConfig
from protocols.errors import DependencyError

NAME, MODULE = "coevolve-tiny-tools", "coevolve_tiny_tools"
TINY = Package(name=NAME, version="1.2", module=MODULE, needs=())
ROOT = Path(__file__).parents[3]

INSTALL = f"""
import sys
from coevolve.environments import packages
from protocols.errors import DependencyError
tiny = packages.Package(name={NAME!r}, version="1.2", module={MODULE!r}, needs=())
try:
    packages.install(packages.Requirements(packages=(tiny,)), "tiny", print)
    print(packages.use(tiny, "tiny"))
except DependencyError as error:
    sys.exit(str(error))
import {MODULE}
print({MODULE}.VERSION)
"""
"""What a launcher does. Its last lines are where the package lies, and what it says."""


def wheel(folder: Path, version: str) -> Path:
    """Write a wheel of one module."""
    files = {
        f"{MODULE}/__init__.py": f"VERSION = {version!r}\n",
        f"{MODULE}-{version}.dist-info/METADATA": (
            # What it asks for is nowhere: only ``needs`` counts.
            f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n"
            "Requires-Dist: coevolve-no-such-package==1\n"
        ),
        f"{MODULE}-{version}.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = f"{MODULE}-{version}.dist-info/RECORD"
    path = folder / f"{MODULE}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(record, "".join(map(_line, files, files.values())) + f"{record},,\n")
    return path


def _line(name: str, text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(text)}\n"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only place that packages come from, and an empty cache."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, "1.2")
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "no_index").as_uri())
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture(params=["uv", "pip"])
def installer(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An interpreter beside which there is uv, or only pip."""
    if request.param == "uv":
        return sys.executable
    pytest.importorskip("pip")
    folder = tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    here = [path for path in sys.path if path.endswith("site-packages")]
    (site / "those.pth").write_text("\n".join(here))
    return str(folder / "bin" / "python")


def called(
    code: str, python: str = sys.executable, **more: str
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | more
    if python != sys.executable:
        environment["PATH"] = "/usr/bin:/bin"  # where no uv is
    return subprocess.run(
        [python, "-c", code], env=environment, capture_output=True, text=True, timeout=100
    )


def kept() -> list[Path]:
    """Everything in the cache but locks."""
    return [path for path in (cache_folder() / "packages").iterdir() if path.suffix != ".lock"]


def test_the_first_use_installs_and_the_second_finds(shelf: Path, installer: str):
    first, second = called(INSTALL, installer), called(INSTALL, installer)
    assert first.returncode == 0, first.stderr
    place = first.stdout.splitlines()[-2]
    assert first.stdout.splitlines() == [
        f"installing {NAME} 1.2 for environment tiny ...",
        place,
        "1.2",
    ]
    assert second.stdout.splitlines() == [place, "1.2"]
    assert kept() == [Path(place)]
    assert Path(place).stat().st_mode & 0o055 == 0o055
    assert list(Path(place).rglob("*.pyc"))


def test_of_processes_that_start_together_one_installs(shelf: Path):
    def started() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", INSTALL]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    ends = [process.communicate(timeout=100) for process in [started() for _ in range(4)]]
    told = [out for out, _ in ends]
    assert [out.splitlines()[-1] for out in told] == ["1.2"] * 4, ends
    assert sum("installing" in out for out in told) == 1
    assert len(kept()) == 1


def test_a_killed_installation_leaves_nothing_that_is_found(shelf: Path, silent_index: "Silent"):
    process = subprocess.Popen([sys.executable, "-c", INSTALL], stdout=subprocess.DEVNULL)
    silent_index.asked()
    process.send_signal(signal.SIGKILL)
    process.wait()
    (partial,) = kept()
    assert packages.find(TINY) is None
    silent_index.close()  # now the orphan, which still holds the lock, gives up
    done = called(INSTALL, PIP_INDEX_URL=(shelf / "none").as_uri())
    assert done.stdout.splitlines()[-1] == "1.2", done.stderr
    assert kept() == [packages.private_folder(TINY)] != [partial]


def test_without_a_network_the_message_names_command_and_folder(shelf: Path, installer: str):
    (next(shelf.iterdir())).unlink()
    said = called(INSTALL, installer).stderr.strip()
    assert said.startswith(f"environment tiny needs {NAME} 1.2, which cannot be installed into ")
    assert "`coevolve setup tiny`" in said
    assert "set COEVOLVE_CACHE" in said
    assert len(said.splitlines()) == 1
    assert not kept()


def test_a_package_that_nobody_installed_is_refused_with_the_command(shelf: Path):
    with pytest.raises(DependencyError, match="run `coevolve setup tiny`"):
        packages.use(TINY, "tiny")
    assert not cache_folder().exists()


def test_a_cache_that_cannot_be_written_is_named(shelf: Path):
    (file := shelf / "file").write_text("")
    said = called(INSTALL, COEVOLVE_CACHE=str(file / "cache")).stderr
    assert str(file / "cache" / "packages") in said
    assert "set COEVOLVE_CACHE to a folder" in said


def test_what_is_there_is_used_without_writing(shelf: Path):
    assert called(INSTALL).returncode == 0
    (cache_folder() / "packages" / f"{packages.private_folder(TINY).name}.lock").unlink()
    before = changes(cache_folder())
    done = called(INSTALL, PIP_FIND_LINKS="/none")
    assert done.stdout.splitlines()[-1] == "1.2"
    assert changes(cache_folder()) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("is_link", [False, True])
def test_a_package_of_another_user_is_refused(shelf: Path, tmp_path: Path, is_link: bool):
    package = Package(name="of_another_user", version="1", module="of_another_user")
    folder = packages.private_folder(package)
    folder.parent.mkdir(parents=True)
    if is_link:
        folder.symlink_to(tmp_path)
    else:
        folder.mkdir()
    os.chown(folder, 65534, 65534, follow_symlinks=False)
    with pytest.raises(DependencyError, match="because its code runs as you, found user 65534"):
        packages.use(package, "tiny")


def changes(folder: Path) -> Mapping[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


def test_the_right_version_of_the_users_own_is_used(shelf: Path, tmp_path: Path):
    own = users_own(tmp_path, "1.2")
    done = called(INSTALL, PYTHONPATH=os.pathsep.join((str(ROOT), str(own))))
    assert done.stdout.splitlines() == [str(own), "1.2"]
    assert not cache_folder().exists()


def test_another_version_of_the_users_own_is_refused(shelf: Path, tmp_path: Path):
    own = users_own(tmp_path, "1.3")
    done = called(INSTALL, PYTHONPATH=os.pathsep.join((str(ROOT), str(own))))
    assert done.stderr.strip() == (
        f"environment tiny needs {NAME} 1.2, found version 1.3 in {own}, which hides it; uninstall "
        f"that, or install {NAME}==1.2 there"
    )
    assert not cache_folder().exists()


def test_files_alone_are_not_hidden_by_another_version(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(str(users_own(tmp_path, "1.3")))
    program = Package(name=NAME, version="1.2", module="", needs=())
    packages.install(Requirements(packages=(program,)), "tiny", lambda _: None)
    assert packages.package_files(program, "tiny") == packages.private_folder(program)


def users_own(folder: Path, version: str) -> Path:
    """Return a folder with the package as the user installed it."""
    own = folder / "own"
    with zipfile.ZipFile(wheel(folder, version)) as archive:
        archive.extractall(own)
    return own


TOOLS = f"""
from coevolve.environments import packages
packages.use(packages.Package(name={NAME!r}, version="1.2", module={MODULE!r}, needs=()), "tiny")
import {MODULE}

class Tools:
    '''Tools that need the package.'''
    def reset(self, world: dict[str, str]) -> None:
        self.data = dict(world)
    def version(self) -> str:
        '''Return the version.'''
        return {MODULE}.VERSION
"""


async def test_a_simulators_child_finds_the_package(shelf: Path, tmp_path: Path):
    assert called(INSTALL).returncode == 0
    (tmp_path / "tiny_tools.py").write_text(TOOLS)
    worker = ToolWorker(SimulatorConfig(), ("tiny_tools:Tools",), folders=(tmp_path,))
    body = ToolTask(
        classes=("tiny_tools:Tools",), world="{}", turns=(ToolTurn(instruction="", reference=()),)
    )
    try:
        _, answer = await worker.execute(
            [Reset(session="s", task=body), Act(session="s", text="version()")]
        )
    finally:
        await worker.close()
    assert isinstance(answer, Observed), answer
    assert "1.2" in answer.result


def test_a_child_is_told_an_absolute_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COEVOLVE_CACHE", "here")
    assert passed_on() == {"COEVOLVE_CACHE": str(Path.cwd() / "here")}


class Silent:
    """A server that takes connections and says nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._taken: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/simple"

    def asked(self) -> None:
        """Wait until somebody asks."""
        self._socket.settimeout(60)
        self._taken.append(self._socket.accept()[0])

    def close(self) -> None:
        """Refuse everybody from now on."""
        for each in (self._socket, *self._taken):
            each.close()


@pytest.fixture
def silent_index(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    silent = Silent()
    monkeypatch.setenv("PIP_INDEX_URL", silent.url)
    yield silent
    silent.close()

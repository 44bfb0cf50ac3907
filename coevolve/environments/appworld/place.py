"""What AppWorld needs of a machine, and where it lies.

The package pins pydantic 1, which cannot be in one process with Ray. It is installed with all that
it needs into a private folder of the cache, which only processes of its own have on their import
path (`plain_python`, without the packages of any environment). Its apps come as an encrypted bundle
inside the package; `prepare` unpacks them there, without a network. Beside it lies a folder with
the few packages that a policy's interpreter gets: those that stop the clock, and none of AppWorld.

AppWorld's licence allows public redistribution of its apps and of what derives from them only in
encrypted form. So nothing of them is in this repository, and nothing leaves the cache.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TextIO

from coevolve.environments import packages
from coevolve.environments.sdk import Package, Requirements
from protocols.errors import DependencyError

NAME = "appworld"

PACKAGE = Package(name="appworld", version="0.1.3.post1", module="")

FOR_INTERPRETER = ("freezegun", "dateutil", "six.py", "pendulum", "tzdata", "yaml", "_yaml")
"""What the interpreter gets of the packages that the engine needs, as far as it is there: newer
releases need less of each other."""

UNPACKED = ".apps_unpacked"
"""A file in the private folder that says that the apps are complete."""

UNPACK_S = 600.0

UNPACK = """
import sys
sys.path.insert(0, sys.argv[1])
from appworld.install import install_package
install_package()
"""

IMPORTED = """
import sys
sys.path.insert(0, sys.argv[1])
import freezegun, pendulum, yaml
"""

NOTICE = (
    "AppWorld's licence: its apps, and what derives from them, may be redistributed publicly only "
    "in encrypted form"
)


def plain_python() -> Path:
    """Return the Python that runs this one, outside any virtual environment."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return Path(sys.base_prefix) / "bin" / version


def engine_folder() -> Path:
    """Return the folder to import the engine from. Raises DependencyError if it is not set up."""
    return _ready(packages.package_files(PACKAGE, NAME))


def interpreter_folder() -> Path:
    """Return the folder with the interpreter's packages.

    Raises DependencyError if it is not set up.
    """
    return _beside(_ready(packages.package_files(PACKAGE, NAME)))


def missing() -> str:
    """Return what is missing beside the package; empty if nothing is."""
    folder = packages.find(PACKAGE)
    return "" if folder is None or _is_ready(folder) else "the unpacked apps of appworld"


def prepare(out: TextIO) -> None:
    """Unpack the apps, and make the interpreter's folder. Raises DependencyError."""
    folder = packages.package_files(PACKAGE, NAME)
    if _is_ready(folder):
        return

    def say(line: str) -> None:
        out.write(f"{line}\n")
        out.flush()

    try:
        with packages.alone(folder, say):
            if not _is_ready(folder):
                say(f"unpacking the apps of {PACKAGE} ...")
                _run(UNPACK, folder)
                _make_interpreter_folder(folder)
                (folder / UNPACKED).touch()
                say(NOTICE)
    except (OSError, subprocess.SubprocessError) as error:
        raise DependencyError(
            f"the apps of {PACKAGE} cannot be unpacked into {folder}: {_reason(error)}; remove the "
            f"folder and run `coevolve setup {NAME}` again"
        ) from error


def _is_ready(folder: Path) -> bool:
    return (folder / UNPACKED).is_file() and _beside(folder).is_dir()


def _ready(folder: Path) -> Path:
    if not _is_ready(folder):
        raise DependencyError(
            f"environment {NAME} needs the unpacked apps of {PACKAGE}, found none in {folder}; run "
            f"`coevolve setup {NAME}`"
        )
    return folder


def _beside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-interpreter")


def _run(script: str, folder: Path) -> None:
    """Run a script on a folder, without this process's packages and environment variables."""
    with tempfile.TemporaryDirectory(prefix="appworld_") as elsewhere:
        subprocess.run(  # noqa: S603, the package's own program
            [plain_python(), "-I", "-S", "-c", script, str(folder)],
            check=True,
            capture_output=True,
            text=True,
            timeout=UNPACK_S,
            cwd=elsewhere,
            env={"APPWORLD_CACHE": elsewhere, "APPWORLD_ROOT": elsewhere, "HOME": elsewhere},
            umask=0o022,
        )


def _make_interpreter_folder(folder: Path) -> None:
    made = _beside(folder)
    partial = Path(tempfile.mkdtemp(prefix=f".{made.name}-", dir=made.parent))
    try:
        for name in FOR_INTERPRETER:
            source = folder / name
            if source.is_dir():
                shutil.copytree(source, partial / name)
            elif source.is_file():
                shutil.copy(source, partial / name)
        _run(IMPORTED, partial)
        partial.chmod(0o755)
        shutil.rmtree(made, ignore_errors=True)
        os.rename(partial, made)  # noqa: PTH104, a folder
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _reason(error: OSError | subprocess.SubprocessError) -> str:
    if isinstance(error, subprocess.CalledProcessError) and (lines := error.stderr.splitlines()):
        return str(lines[-1])
    return str(error)


REQUIRES = Requirements(packages=(PACKAGE,), missing=missing, prepare=prepare)

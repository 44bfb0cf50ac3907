"""Installs an environment's own packages in private folders, separate from the user's packages.

Some packages pin versions that conflict with other packages, so coevolve cannot depend on them. An
environment lists such packages in its `Requirements`. `install` puts each, once per machine, into a
private folder of the cache (`coevolve.environments.cache_folder`), and `use` makes it importable in
a process. The folder is added at the end of the import path, so it hides no package of the user. If
the user's Python environment has the package in the right version, that one is used.

Guarantees: a private folder is either complete or absent. The installer fills a folder with a
temporary name and then renames it. The lock is also held by the installing program (uv or pip), so
one process installs and the others wait. A killed installation leaves no private folder, and the
next one removes its remains. Only `coevolve setup` and the launcher install packages; actors and
their children only use installed ones.
"""

import contextlib
import fcntl
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from coevolve.environments.cache_folder import CACHE_VARIABLE, cache_folder, shared_folder
from protocols.errors import DependencyError

INSTALL_TIMEOUT_S = 1800.0

Say = Callable[[str], None]
"""Shows one line to the user."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A distribution in one version."""

    name: str
    """Name in package registries."""

    version: str
    """Version, as written in the package's metadata."""

    module: str
    """Top-level module to import. Empty if only the package's files are used, which another
    version cannot hide."""

    needs: tuple[str, ...] | None = None
    """Dependencies to install in place of those in its metadata; None for those in its metadata."""

    python: str = ""
    """Oldest Python that its metadata allows, for example ``3.12``. Set only if the package also
    works with the older versions that coevolve supports."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def _nothing() -> str:
    return ""


def _no_preparation(_out: TextIO) -> None:
    return


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """What an environment needs on a machine besides coevolve's own dependencies."""

    packages: tuple[Package, ...] = ()
    """The launcher and ``coevolve setup`` install them. Code that imports one must call `use` just
    before, because nothing else does so in the process of an actor or its child."""

    missing: Callable[[], str] = _nothing
    """Returns a message about what else is missing, with the remedy; empty if nothing is."""

    prepare: Callable[[TextIO], None] = _no_preparation
    """Prepares the machine as far as possible and writes its steps to the stream. Only ``coevolve
    setup`` calls it. Raises CoevolveError if something is still missing."""


def find(package: Package) -> Path | None:
    """Return the folder that holds the package: the user's, else the private one, else None.

    Raises DependencyError if there is no cache folder, because the user has no home, or if another
    user made it.
    """
    if own := _own(package):
        return own
    folder = private_folder(package)
    if not folder.is_dir():
        return None
    refuse_another_user(folder)
    return folder


def refuse_another_user(folder: Path) -> None:
    """Raise DependencyError if another user than root could put code into the folder."""
    for each in (folder, folder.parent):
        owner = each.lstat().st_uid
        if owner not in (0, os.geteuid()):
            raise DependencyError(
                f"{each}: needs to belong to user {os.geteuid()} or to root, because its code runs "
                f"as you, found user {owner}; remove it, or set {CACHE_VARIABLE} to another folder"
            )


def use(package: Package, environment: str) -> Path:
    """Make the package importable in this process, and return the folder that holds it.

    Raises DependencyError if it is not installed, or if another version hides it. ``environment``
    is the environment that needs it.
    """
    _refuse_another_version(package, environment)
    folder = _held(package, environment)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        importlib.invalidate_caches()
    return folder


def package_files(package: Package, environment: str) -> Path:
    """Return the package's folder without making it importable. Raises DependencyError."""
    return _held(package, environment)


def install(requirements: Requirements, environment: str, say: Say) -> None:
    """Install the missing packages.

    Raises DependencyError if one cannot be installed, or if another version hides it.
    """
    for package in requirements.packages:
        _refuse_another_version(package, environment)
        if find(package) is None:
            _install(package, environment, say)


def private_folder(package: Package) -> Path:
    """Return the package's private folder for this Python. Raises DependencyError."""
    python = (sys.implementation.cache_tag, sysconfig.get_platform())
    told = "\0".join(map(str, (*python, *_wanted(package), package.needs, package.python)))
    digest = hashlib.sha256(told.encode()).hexdigest()[:12]
    return cache_folder() / "packages" / f"{package.name}-{digest}"


def _wanted(package: Package) -> tuple[str, ...]:
    return (f"{package.name}=={package.version}", *(package.needs or ()))


def _held(package: Package, environment: str) -> Path:
    found = find(package)
    if found is None:
        raise DependencyError(
            f"environment {environment} needs the package {package}, which is neither in this "
            f"Python environment nor in {private_folder(package)}; run `coevolve setup "
            f"{environment}`"
        )
    return found


def _own(package: Package) -> Path | None:
    """Return the folder of the import path with the right version; None if there is none."""
    if _own_version(package) != package.version:
        return None
    if not package.module:
        return Path(str(distribution(package.name).locate_file("")))
    return _place(package.module)


def _own_version(package: Package) -> str:
    try:
        return distribution(package.name).version
    except PackageNotFoundError:
        return ""


def _place(module: str) -> Path | None:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parents[1 if spec.submodule_search_locations else 0]


def _refuse_another_version(package: Package, environment: str) -> None:
    version = _own_version(package)
    place = _place(package.module) if package.module else None
    if place is None or place.is_relative_to(private_folder(package)):
        return
    if version != package.version:
        raise DependencyError(
            f"environment {environment} needs {package}, found "
            f"{f'version {version}' if version else 'a module of that name'} in {place}, which "
            f"hides it; uninstall that, or install {package.name}=={package.version} there"
        )


def _install(package: Package, environment: str, say: Say) -> None:
    folder = private_folder(package)
    try:
        shared_folder(folder.parent)
        with alone(folder, say) as lock:
            if not folder.is_dir():
                say(f"installing {package} for environment {environment} ...")
                _fill(folder, package, lock)
    except (OSError, subprocess.SubprocessError) as error:
        raise DependencyError(
            f"environment {environment} needs {package}, which cannot be installed into {folder}: "
            f"{failure_of(error)}. Run `coevolve setup {environment}` on a machine with a network "
            f"and the same Python and copy the folder here, or set {CACHE_VARIABLE} to a folder "
            "that holds its packages or can be written"
        ) from error


@contextlib.contextmanager
def alone(folder: Path, say: Say) -> Generator[int]:
    """Hold the lock of a private folder, whose parent exists; yield its file descriptor.

    Raises OSError.
    """
    with (folder.parent / f"{folder.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process installs {folder.name}; waiting for it ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _fill(folder: Path, package: Package, lock: int) -> None:
    """Create the folder; the caller holds ``lock``. Raises OSError and SubprocessError."""
    prefix = f".{folder.name}-"
    for dead in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(dead, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        # The program inherits the lock, so it stays locked if only this process is killed.
        installer = _installer(alone=package.needs is not None, python=package.python)
        _run_installer(installer, partial, _wanted(package), (lock,))
        partial.chmod(0o755)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def install_into(folder: Path, wanted: Sequence[str]) -> None:
    """Unpack distributions, such as ``name==1.2``, into ``folder``, without their dependencies.

    Raises DependencyError if the index cannot be reached or lacks one.
    """
    try:
        _run_installer(_installer(alone=True), folder, wanted)
    except (OSError, subprocess.SubprocessError) as error:
        raise DependencyError(
            f"{' and '.join(wanted)} cannot be downloaded: {failure_of(error)}; check the network, "
            "or where pip and uv get packages from"
        ) from error


def _run_installer(
    installer: Sequence[str], folder: Path, wanted: Sequence[str], inherited: Sequence[int] = ()
) -> None:
    """Install into ``folder``. Raises OSError and SubprocessError."""
    subprocess.run(  # noqa: S603, the installing program
        [*installer, "--target", str(folder), *wanted],
        check=True,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        env=installer_environment(),
        umask=0o022,  # The sandbox of a simulation reads them as another user.
        pass_fds=tuple(inherited),
    )


def _installer(*, alone: bool, python: str = "") -> tuple[str, ...]:
    """Return the install command of uv, else of pip, without target folder and packages.

    ``alone``: without dependencies. ``python``: as in `Package`.
    """
    no_deps = ("--no-deps",) if alone else ()
    if uv := uv_program():
        older = ("--python-version", python) if python else ()
        return (
            uv,
            "pip",
            "install",
            "--python",
            sys.executable,
            "--compile-bytecode",
            *no_deps,
            *older,
        )
    older = ("--ignore-requires-python",) if python else ()
    return (sys.executable, "-m", "pip", "install", *no_deps, *older)


def uv_program() -> str | None:
    """Return uv's path: that beside this Python first; None if there is none."""
    places = (str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))
    return shutil.which("uv", path=os.pathsep.join(places))


FOR_UV = {
    "UV_FIND_LINKS": "PIP_FIND_LINKS",
    "UV_INDEX_URL": "PIP_INDEX_URL",
    "UV_EXTRA_INDEX_URL": "PIP_EXTRA_INDEX_URL",
    "SSL_CERT_FILE": "PIP_CERT",
}
"""Variable of uv -> variable of pip whose value it gets if it has none."""


def installer_environment() -> dict[str, str]:
    """Return the user's environment variables, with pip's settings also for uv."""
    environment = dict(os.environ)
    for uv, pip in FOR_UV.items():
        if given := environment.get(pip):
            environment.setdefault(uv, given.replace(" ", ",") if uv == "UV_FIND_LINKS" else given)
    # pip refuses both settings together with a target folder.
    return environment | {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}


def failure_of(error: OSError | subprocess.SubprocessError) -> str:
    """Return the reason of a failed installation, in one line."""
    match error:
        case subprocess.CalledProcessError(stderr=str(said)) if lines := said.strip().splitlines():
            return f"{Path(error.cmd[0]).name} says {lines[-1].strip()!r}"
        case subprocess.TimeoutExpired():
            return f"that took more than {INSTALL_TIMEOUT_S / 60:.0f} minutes"
        case _:
            return str(error)

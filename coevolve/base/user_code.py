"""Finds classes of users and of installed packages by name, and tells their errors.

Errors of users' classes and files become one-sentence errors of this project.
"""

import contextlib
import importlib
import os
import shlex
import sys
import threading
import traceback
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from coevolve.base.foreign import boundary, described, resolved, shown
from coevolve.base.import_guard import PACKAGES, code_folder, is_in_run
from coevolve.base.similar import nearest
from protocols.config import RunConfig
from protocols.errors import CoevolveError, ConfigError


def resume_command(run: Path | str, config: RunConfig) -> str:
    """Return the command that continues a run, with the folder of the user's classes if it has any.

    A launch imports from the working folder, and a resumption only from the one that it is given.
    """
    folder = code_folder() or Path.cwd()
    named = (config.uses, f"{config.learner.objective.get('kind')}", *config.trackers.use)
    own = any(":" in each and _has_file(each.partition(":")[0], folder) for each in named)
    given = "." if folder == Path.cwd() else shlex.quote(str(folder))
    return f"coevolve resume {run}" + (f" --code {given}" if own else "")


@contextlib.contextmanager
def told(what: str, remedy: str = "") -> Generator[None]:
    """Raise ConfigError for any exception of the block, and send its prints to standard error.

    ``what`` says what is required and where. A CoevolveError and an interrupt pass unchanged.
    """
    with boundary(ConfigError, what, remedy), contextlib.redirect_stdout(sys.stderr):
        try:
            yield
        except (Exception, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # SystemExit, or a class of one's own
            raise ConfigError(f"{what}: {described(error)}{remedy}") from error


@contextlib.contextmanager
def exits_raised() -> Generator[None]:
    """Raise SystemExit in place of an ``os._exit`` of the block, which would end this process.

    Other threads and forked processes still end at once.
    """
    end, caller = os._exit, (os.getpid(), threading.get_ident())

    def refuse(status: int) -> NoReturn:
        if os._exit is refuse and (os.getpid(), threading.get_ident()) == caller:
            raise SystemExit(f"it calls os._exit({status})")
        end(status)

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = end


@dataclass(frozen=True)
class NamedClass:
    """A setting that names a class: a built-in one, one of an installed package, or one's own."""

    setting: str
    """Name of the setting, for messages."""

    what: str
    """What the class is, with its article."""

    group: str
    """The entry point group in which packages offer such classes."""

    def offered(self) -> dict[str, str]:
        """Return name -> ``package.module:Class`` of what installed packages offer."""
        return {each.name: each.value for each in entry_points(group=self.group)}

    def path_of(self, use: str, built_in: Iterable[str]) -> str:
        """Return ``package.module:Class`` for what the user wrote, which is not built in.

        ``built_in`` are the names of those that are, for hints. Raises ConfigError.
        """
        if ":" in use:
            return use  # no search of the installed packages, which takes milliseconds
        offered = self.offered()
        path = offered.get(use, use)
        if ":" not in path:
            raise ConfigError(
                f"{self.setting}: needs the name of {self.what}, or package.module:Class of your "
                f"own, found {shown(use)}; {_hint(use, (*built_in, *offered))}"
            )
        return path

    def load(self, use: str, path: str) -> Any:
        """Return the class at ``path``, for which the user wrote ``use``. Raises ConfigError."""
        module, _, name = path.partition(":")
        remedy = "; correct the module, or install what it imports"
        self._check_name(module, use)
        with told(f"{self.setting}: {shown(use)} cannot be imported", remedy), exits_raised():
            try:
                held = self._module(module, use)
            except CoevolveError:
                raise
            except Exception as error:
                said = f"{described(error)}{_place(error, module)}{remedy}"
                raise ConfigError(
                    f"{self.setting}: {shown(use)} cannot be imported: {said}"
                ) from error
        found: Any = getattr(held, name, None)
        if found is None:
            raise ConfigError(
                f"{self.setting}: module {module} has no {name!r}; it is "
                f"{getattr(held, '__file__', 'a folder without __init__.py')}{_alike(name, held)}"
            )
        return found

    def _check_name(self, module: str, use: str) -> None:
        """Refuse the name of a module of Python, which hides a user's. Raises ConfigError."""
        package, dot, rest = module.partition(".")
        if package in sys.stdlib_module_names:
            raise ConfigError(
                f"{self.setting}: {shown(use)} cannot be imported: the name {package!r} is taken "
                f"by Python's own module; give yours another name, for example "
                f"my_{package}{dot}{rest}"
            )

    def _module(self, name: str, use: str) -> ModuleType:
        """Import a module. Raises ConfigError if there is none, and the module's own errors."""
        meant = _file_hint(name, use)
        advice = "install its package, or name the folder that holds it, which may be no run's: cd "
        advice += "to it, set PYTHONPATH to it, or give --code FOLDER to commands on a run"
        advice = _module_meant(name, use) or advice
        if _has_file(name) and not is_in_run(Path.cwd()):
            advice = "it is in this folder; give --code . to a command on a run to import it"
        missing = ConfigError(
            f"{self.setting}: {shown(use)} cannot be imported: there is no module {name!r}; "
            "package.module:Class names a module, and no file: "
            f"{meant if name.endswith('.py') else advice}"
        )
        if not all(part.isidentifier() for part in name.split(".")):
            raise missing
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if f"{name}.".startswith(f"{error.name}."):
                raise missing from error
            raise


def _module_meant(name: str, use: str) -> str:
    """Return the module of this folder that a misspelt name means; empty if none is similar."""
    if _has_file(name):
        return ""
    *folders, last = name.split(".")
    near = nearest(last, (each.stem for each in Path(*folders).glob("*.py")))
    return f"did you mean {'.'.join((*folders, near))}{use.removeprefix(name)}?" if near else ""


def _file_hint(name: str, use: str) -> str:
    """Return how a class is named of which the file is given, also from another folder."""
    file, rest = Path(name), use.removeprefix(name)
    if file.is_absolute() or ".." in file.parts:
        return f"cd {shown(str(file.parent))}, and write {file.stem}{rest}"
    return f"did you mean {_dotted(name)}{rest}?"


def _hint(use: str, names: Sequence[str]) -> str:
    """Return what a name without a colon may mean."""
    if near := nearest(use, names):
        return f"did you mean {near!r}?"
    module = _dotted(use)
    if _has_file(module):
        return f"write {module}:CLASS, with the name of your class"
    package, _, name = module.rpartition(".")
    if package and _has_file(package):
        return f"did you mean {package}:{name}?"
    return f"there are {', '.join(names)}"


def _alike(name: str, module: ModuleType) -> str:
    """Return a hint at the class of ``module`` that ``name`` may mean, in whatever case.

    Or at the user's file that the module hides.
    """
    own = Path(*module.__name__.split(".")).with_suffix(".py")
    file = getattr(module, "__file__", None)
    if file and _has_file(module.__name__) and resolved(Path(file)) != resolved(own):
        return f", and hides {own} of this folder; give yours another name, such as my_{own.name}"
    held = (kind for kind in vars(module).values() if isinstance(kind, type))
    folded = {
        kind.__name__.casefold(): kind.__name__
        for kind in held
        if kind.__module__ == module.__name__
    }
    near = nearest(name.casefold(), folded)
    meant = f"did you mean {module.__name__}:{folded[near]}?" if near else ""
    return f"; {meant or 'name a class at the top of the module'}"


def _has_file(module: str, folder: Path = Path()) -> bool:
    parts = module.split(".")
    return all(map(str.isidentifier, parts)) and Path(folder, *parts).with_suffix(".py").is_file()


def _place(error: Exception, module: str) -> str:
    """Return the last file and line of a module's folder that an error passed; empty if none.

    Packages that are installed below the folder are not the user's.
    """
    package, folder, place = module.partition(".")[0], "", ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if not folder and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            folder = f"{path.parent}{os.sep}"
        others = tuple(each for each in PACKAGES if each.startswith(folder))
        if folder and f"{path}".startswith(folder) and not f"{path}".startswith(others):
            place = f" ({path.name}, line {line})"
    return "" if isinstance(error, SyntaxError) else place  # such an error names its own


def _dotted(module: str) -> str:
    """Return the name under which a module is imported, also if its file is given."""
    return ".".join(Path(module.removesuffix(".py")).parts)

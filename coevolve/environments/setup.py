"""Makes a machine ready for environments, and says which it is ready for."""

from collections.abc import Sequence
from typing import TextIO

from coevolve.environments.packages import Package, Requirements, find, install
from coevolve.environments.registry import environment_type, names


def setup(environments: Sequence[str], out: TextIO) -> None:
    """Install and prepare what the environments need; what is there already stays as it is.

    Raises ConfigError if there is no such environment, DependencyError and SimulatorError if
    something cannot be installed or built.
    """
    for name in environments:
        requirements = environment_type(name).requires
        install(requirements, name, lambda line: _write(out, line))
        requirements.prepare(out)
        _write(out, _line(name, requirements))


def overview(out: TextIO) -> None:
    """Write a line for each environment that is known by name: whether it is set up."""
    for name in names():
        _write(out, _line(name, environment_type(name).requires))


def _line(name: str, requirements: Requirements) -> str:
    lacks = [str(each) for each in requirements.packages if find(each) is None]
    if missing := requirements.missing():
        lacks.append(missing)
    if lacks:
        return f"{name}: needs {', '.join(lacks)}; run `coevolve setup {name}`"
    return f"{name}: ready{''.join(map(_place, requirements.packages))}"


def _place(package: Package) -> str:
    return f", {package} in {find(package)}"


def _write(out: TextIO, line: str) -> None:
    out.write(f"{line}\n")
    out.flush()

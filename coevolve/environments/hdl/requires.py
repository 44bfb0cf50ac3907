"""What the environment needs of a machine: Verilator, pyslang, a compiler and a sandbox."""

from importlib.util import find_spec
from typing import TextIO

from coevolve.environments.hdl.needs import require_slang
from coevolve.environments.hdl.simulate.toolchain import VERILATOR
from coevolve.environments.sdk import Requirements


def missing() -> str:
    """Return which programs are missing, or pyslang; empty if nothing is."""
    from coevolve.environments.hdl.simulate.setup import missing_programs

    return missing_programs() if find_spec("pyslang") else "the package pyslang"


def prepare(out: TextIO) -> None:
    """Install programs and build what simulations share. Raises CoevolveError."""
    from coevolve.environments.hdl.simulate import setup

    require_slang()
    setup.prepare(out)


REQUIRES = Requirements(packages=(VERILATOR,), missing=missing, prepare=prepare)

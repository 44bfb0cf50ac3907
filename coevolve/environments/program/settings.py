"""Settings of the environment ``program``."""

import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec

from coevolve.environments.sdk import OwnPython
from protocols.numbers import Count, Megabytes, Seconds, Seed

CARRIED = "coevolve:"
"""Begins the name of a file that coevolve carries."""

EXAMPLES = Path(__file__).parent / "examples"


class ProgramConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent program of your own, which talks to the policy as to an OpenAI endpoint."""

    tasks: str
    """A file of JSON lines, one task each, with a unique ``id``; a ``split`` of ``train`` or
    ``held_out`` is optional, and everything else is the program's. ``coevolve:NAME`` is a file that
    coevolve carries."""

    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """The program and its arguments. A program that ends with ``.py`` is run by ``python``.
    ``coevolve:NAME`` is a program that coevolve carries."""

    python: str | tuple[str, ...] = ""
    """Path of the interpreter for a Python program, for example that of a virtual environment with
    the packages that it needs. Empty: the one that runs coevolve. Or a list of packages such as
    ``verifiers==0.4.0``, each in one version: a launch installs them into a Python environment of
    their own, once per machine, and so does ``coevolve setup FILE`` for the run file ``FILE``."""

    seeds: Count = 1000
    """Maximum number of training tasks."""

    held_out: Count = 240
    """Maximum number of held-out tasks; they are the same in every run."""

    split_seed: Seed = 0
    """Seed that decides which tasks are held out, among those that do not name their split."""

    held_out_share: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.3
    """Share of tasks that are held out, among those that do not name their split; at least one."""

    success: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 1.0
    """Reward from which on an attempt counts as a success."""

    patience_s: Seconds = 600.0
    """Seconds that the program may take for one attempt. After that the attempt has failed, and the
    program's process ends with its last other attempt."""

    memory_mb: Megabytes = 16_384
    """Megabytes of address space of each of the program's processes."""

    variables: tuple[str, ...] = ()
    """Names of environment variables that the program gets besides those of its machine and
    language, such as ``PATH``. It gets no others, because they may hold secrets."""

    def argv(self) -> tuple[str, ...]:
        """Return the command, with its interpreter."""
        program, *arguments = map(carried, self.command)
        interpreter = (self.interpreter(),) if program.endswith(".py") else ()
        return (*interpreter, program, *arguments)

    def interpreter(self) -> str:
        """Return the path of the interpreter for a Python program."""
        own = self.own_python()
        return str(own.interpreter if own else self.python or sys.executable)

    def path(self, path: str) -> str:
        """Return the ``PATH`` of the program: commands of ``python``'s packages are found first."""
        own = self.interpreter() if self.python else ""
        return f"{Path(own).parent.absolute()}{os.pathsep}{path}" if os.sep in own else path

    def own_python(self) -> OwnPython | None:
        """Return the program's own Python environment; None if it has none."""
        return OwnPython(self.python) if self.python and not isinstance(self.python, str) else None


def carried(name: str) -> str:
    """Return the path of a file that may be one that coevolve carries."""
    if not name.startswith(CARRIED):
        return name
    return str(EXAMPLES / Path(name.removeprefix(CARRIED)).name)

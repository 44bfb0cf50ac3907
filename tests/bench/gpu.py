"""Proves on one GPU of 80 GB or more, in 15 minutes at most, what has to hold before it is rented.

Each part prints a line of JSON and a line for people, and has a process and a time limit of its
own; a part that fails does not stop the others.

- engine: sampled tokens per second beside vLLM's own offline loop; the goal is a ratio of 0.95.
- learner: tokens per second in bf16, use of the GPU, peak memory beside the estimate.
- trl: the same batch with TRL, if it is installed.
- repeat: a step is taken twice from one checkpoint, bit for bit.
- deliver-full, deliver-adapter: five versions are proven, a changed and an unloaded one caught.
- loop: three steps of the quickstart with engine and learner on the same GPU.

The models have random weights and the sizes of Qwen3; nothing is downloaded. Without a GPU the
command says so and exits with 0. It exits with 1 if a proof (repeat, deliver-*, loop) fails.
`--device cpu --size tiny` runs the parts on the CPU. `coevolve launch FILE --dry-run --measured
FILE` reads the JSON lines.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import msgspec
import torch

from tests.bench.gpu_models import SIZES, Bench
from tests.bench.gpu_outcome import Outcome

MIN_BYTES = 79e9
"""A GPU of 80 GB reports a little less than its name says."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the benchmark."""

    home: str
    """Its function, as ``module:name``."""

    size: str
    """Default size of the model."""

    limit_s: float
    """About twice what the part took on an H100 (`coevolve/docs/figures.md`)."""

    proves: bool = False

    def work(self) -> Callable[[Bench], Outcome]:
        """Import the function."""
        module, _, name = self.home.partition(":")
        return getattr(import_module(f"tests.bench.{module}"), name)


PARTS: Mapping[str, Part] = {
    "engine": Part(home="gpu_engine:engine", size="1.7B", limit_s=220),
    "learner": Part(home="gpu_learner:learner", size="1.7B", limit_s=80),
    "trl": Part(home="gpu_learner:trl", size="1.7B", limit_s=60),
    "repeat": Part(home="gpu_learner:repeat", size="0.6B", limit_s=120, proves=True),
    "deliver-full": Part(home="gpu_delivery:deliver_full", size="0.6B", limit_s=200, proves=True),
    "deliver-adapter": Part(
        home="gpu_delivery:deliver_adapter", size="1.7B", limit_s=120, proves=True
    ),
    "loop": Part(home="gpu_loop:loop", size="tiny", limit_s=100, proves=True),
}


def main(arguments: list[str]) -> None:
    """Run the parts. Exits with 1 if a proof fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--size", choices=SIZES, help="of every part's model")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--limit", type=float, metavar="S", help="seconds of every part")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        (name,) = options.parts
        _run_inside(name, Bench(place=options.inside, size=options.size, device=options.device))
        return
    reason = unfit() if options.device == "cuda" else ""
    if reason:
        sys.stdout.write(f"gpu: skipped, because {reason}\n")
        return
    with tempfile.TemporaryDirectory() as place:
        outcomes = [_run(name, Path(place), options) for name in options.parts]
    sys.exit(int(any(refutes(each) for each in outcomes)))


def unfit() -> str:
    """Return why this machine cannot run the benchmark; empty if it can."""
    if not torch.cuda.is_available():
        built = torch.version.cuda or "no CUDA"
        return f"torch {torch.__version__}, built for {built}, finds no GPU on this machine"
    found = torch.cuda.get_device_properties(0)
    if found.total_memory < MIN_BYTES:
        return f"it needs a GPU of 80 GB, and {found.name} has {found.total_memory / 1e9:.0f} GB"
    return ""


def refutes(outcome: Outcome) -> bool:
    """Return whether a proof is missing, although its part was not skipped."""
    return PARTS[outcome.part].proves and outcome.verdict not in ("proven", "skipped")


def _run(name: str, place: Path, options: argparse.Namespace) -> Outcome:
    """Run a part in a process of its own, and print its lines."""
    part = PARTS[name]
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench", "gpu", "--parts", name]
    command += ["--size", options.size or part.size, "--device", options.device]
    command += ["--inside", str(place)]
    began = time.monotonic()
    found = watched(name, command, options.limit or part.limit_s)
    found = msgspec.structs.replace(found, wall_s=round(time.monotonic() - began, 1))
    sys.stdout.write(f"{msgspec.json.encode(found).decode()}\n")
    sys.stdout.write(f"{found.verdict}: {found.said} ({found.wall_s:.0f} s)\n")
    sys.stdout.flush()
    return found


def watched(name: str, command: Sequence[str], limit_s: float) -> Outcome:
    """Return the outcome that ``command`` prints last, or its failure.

    After ``limit_s`` seconds the command is killed with all processes that it started.
    """
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            late = f"{name}: took more than its {limit_s:.0f} s"
            return Outcome(part=name, verdict="late", said=late)
        finally:
            _kill(process)
        if process.returncode == 0:
            return msgspec.json.decode(said.splitlines()[-1], type=Outcome)
        complaints.seek(0)
        reason = (complaints.read().strip().splitlines() or ["it said nothing"])[-1]
        return Outcome(part=name, verdict="failed", said=f"{name}: {reason}")


def _kill(process: "subprocess.Popen[str]") -> None:
    """End a part's whole process group, which may outlive its first process."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def _run_inside(name: str, bench: Bench) -> None:
    """Carry out a part in this process, and print its outcome alone."""
    # Prints of libraries must not mix with the outcome.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    found = PARTS[name].work()(bench)
    answers.write(msgspec.json.encode(found).decode() + "\n")
    answers.close()
    # vLLM and CUDA may take seconds to let go of what ends with the process anyway.
    os._exit(0)

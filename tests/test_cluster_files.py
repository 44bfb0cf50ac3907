"""The manifest for Kubernetes and the script for Slurm that coevolve carries.

Neither Kubernetes nor Slurm is needed here; `coevolve/docs/clusters.md` says what was tried.
"""

import os
import shlex
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coevolve.cli.resume import command as resume
from coevolve.config.run_files import carried
from tests.commands import ROOT, answered

FOLDER = ROOT / "configs" / "cluster"
SLURM = FOLDER / "slurm.sh"
WAIT_S = 30.0

COEVOLVE = """#!/bin/sh
echo "$@" >> "$CALLS"
case $1 in
config) echo 'name: quickstart' ;;
*) trap 'exit 0' TERM; while true; do sleep 0.05; done ;;
esac
"""
"""A program that notes its arguments; a run of it lasts until SIGTERM."""

OTHERS = {
    "ray": "exec sleep 60",
    "srun": "exec sleep 60",
    "python": "true",
    "scontrol": 'echo "scontrol $@" >> "$CALLS"',
}


def manifest() -> Any:
    return msgspec.yaml.decode((FOLDER / "rayjob.yaml").read_bytes())


def pods() -> Iterator[Any]:
    cluster = manifest()["spec"]["rayClusterSpec"]
    yield cluster["headGroupSpec"]
    yield from cluster["workerGroupSpecs"]


def test_the_commands_of_the_manifest_are_commands():
    shell, flag, script = shlex.split(manifest()["spec"]["entrypoint"])
    assert (shell, flag) == ("sh", "-c")
    assert subprocess.run(["sh", "-n", "-c", script]).returncode == 0
    continued, started = (each.split(";")[0].split() for each in script.split("exec coevolve ")[1:])
    assert resume.make_context("resume", continued[1:]).params["runs"] == Path("/runs")
    assert answered(*started, "--dry-run").returncode == 0


def test_the_parts_of_the_manifest_fit_together():
    spec = manifest()["spec"]
    _, worker = pods()
    for label, value in worker["labels"].items():
        assert f"placement.learner={label}={value}" in spec["entrypoint"]
    head, *others = ([*pod["template"]["spec"]["containers"]] for pod in pods())
    images = {container["image"] for pod in (head, *others) for container in pod}
    assert len(images) == 1
    (mount,) = head[0]["volumeMounts"]
    assert f"--runs {mount['mountPath']}" in spec["entrypoint"]
    assert spec["rayClusterSpec"]["rayVersion"] == version("ray")
    waits = msgspec.yaml.decode(spec["runtimeEnvYAML"])["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"]
    assert int(waits) > 8


@pytest.mark.parametrize("name", ["rayjob.yaml", "slurm.sh"])
def test_a_command_prints_the_file_as_it_is(name: str):
    assert answered("docs", name).stdout == (FOLDER / name).read_text()
    assert name in answered("docs").stdout


def test_they_are_no_run_files():
    assert not {"rayjob", "slurm"} & carried().keys()


class Batch:
    """The script as Slurm starts it, with programs that only note what they are asked."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._calls = folder / "calls"
        self._calls.touch()
        for name, text in {"coevolve": COEVOLVE, **OTHERS}.items():
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self._process = subprocess.Popen(
            ["bash", str(SLURM), *words],
            env=os.environ
            | {
                "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
                "CALLS": str(self._calls),
                "RUNS": str(folder / "runs"),
                "SLURM_JOB_ID": f"{os.getpid()}",
                "SLURM_JOB_NUM_NODES": "3",
                "SLURMD_NODENAME": "n1",
                "SLURM_SUBMIT_DIR": str(folder),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines()

    def run(self) -> str:
        """Wait for the run, and return the command that started it."""
        deadline = time.monotonic() + WAIT_S
        while len(self.calls()) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return self.calls()[1]

    def ended(self, number: signal.Signals) -> int:
        """Send the batch script a signal and return its exit code."""
        try:
            self._process.send_signal(number)
            return self._process.wait(WAIT_S)
        finally:
            os.killpg(self._process.pid, signal.SIGKILL)


def test_the_script_starts_a_run_and_queues_again_when_the_time_is_over(tmp_path: Path):
    batch = Batch(tmp_path, "quickstart", "learner.steps=9")
    command = batch.run()
    given = "cluster.stop_s=240 learner.steps=9"
    assert command == f"launch quickstart {given} --runs {tmp_path / 'runs'}"
    assert answered(*command.split(), "--dry-run").returncode == 0
    assert batch.ended(signal.SIGUSR1) == 0
    assert batch.calls()[-1] == f"scontrol requeue {os.getpid()}"


def test_the_script_continues_a_run_and_ends_for_good_when_it_is_told_to(tmp_path: Path):
    (tmp_path / "runs" / "quickstart").mkdir(parents=True)
    (tmp_path / "runs" / "quickstart" / "run.json").touch()
    batch = Batch(tmp_path)
    assert batch.run().startswith("resume quickstart cluster.")
    assert batch.ended(signal.SIGTERM) == 0
    assert not [call for call in batch.calls() if "requeue" in call]

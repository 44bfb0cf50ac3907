import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from coevolve.runs.keeper import TRIES, Keeper, pause_s
from tests.commands import ROOT

LOST = 75

INTERRUPTED = """
import os, signal, sys, threading, time
from pathlib import Path
from tests.coevolve.runs.test_keeper import Script

ready = Path(sys.argv[1])

def interrupt():
    while not ready.exists():
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)

script = Script([(f"trap 'exit 0' INT; touch {ready}; while :; do sleep 0.05; done", 0)])
threading.Thread(target=interrupt).start()
print(script.keep(), script.starts)
"""


class Script:
    """Processes that end in a scripted way; each may take a step before."""

    def __init__(self, endings: Sequence[tuple[str, int]]) -> None:
        self._endings = list(endings)
        self.starts = self.steps = 0
        self.said: list[str] = []

    def start(self) -> "subprocess.Popen[bytes]":
        code, steps = self._endings.pop(0)
        self.starts += 1
        self.steps += steps
        return subprocess.Popen(["/bin/sh", "-c", code])

    def keep(self) -> int:
        return Keeper(
            self.start, lambda: self.starts, lambda: self.steps, self.said.append, lost=LOST
        ).keep()


def test_a_run_is_resumed_after_losses_until_it_ends():
    script = Script([("kill -9 $$", 1), ("exit 75", 1), ("exit 0", 0)])
    assert script.keep() == 0
    assert script.starts == 3
    lost = [line for line in script.said if line.startswith("lost")]
    assert "SIGKILL" in lost[0]
    assert all("1 of 5 without a step" in line for line in lost)


def test_a_refusal_and_a_permanent_error_are_final():
    script = Script([("exit 1", 0)])
    assert script.keep() == 1
    assert script.starts == 1


def test_resumptions_without_a_step_are_bounded(monkeypatch):
    monkeypatch.setattr("coevolve.runs.keeper.pause_s", lambda tries: 0.0)
    script = Script([("exit 75", 1), *[("exit 75", 0)] * TRIES])
    assert script.keep() == LOST
    assert script.starts == TRIES + 1
    assert script.said[-1] == f"gave up: {TRIES} resumptions in a row took no step"
    assert pause_s(1) == 0.0 < pause_s(2) < pause_s(3)


def test_an_interrupt_reaches_the_run_and_nothing_is_resumed(tmp_path: Path):
    # In a process of its own, which may be interrupted at any time.
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "ready")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == ["0", "1"], done.stderr

"""Runs from Python: from a running event loop, from a thread, and what stops them."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import coevolve
from protocols.config import RunConfig
from protocols.errors import ConfigError, RunError
from protocols.learning import StepReport
from tests.launched import SMALL, LaunchedRun

BEAT_S = 0.1
SOME = 20
"""Fewer beats than a run's start takes."""

MANY = 400
"""More steps than a run takes before it notices that it was stopped."""

SETTINGS = [*SMALL, "arm=static", "evaluator.every=1000", f"learner.steps={MANY}"]

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


def run(
    runs: Path,
    on_step: Callable[[StepReport], None] | None = None,
    *,
    resume: bool = False,
) -> coevolve.RunResult:
    return coevolve.run("quickstart", overrides=SETTINGS, runs=runs, on_step=on_step, resume=resume)


def test_a_shell_completes_run_before_it_is_imported():
    code = "import sys, coevolve; print('coevolve.api' in sys.modules, *dir(coevolve))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imported, *names = done.stdout.split()
    assert imported == "False"
    assert {"run", "RunResult", "__version__"} <= set(names)


@pytest.mark.exhaustive
def test_a_run_stops_with_its_callbacks_error_and_is_resumed_until_an_interrupt(tmp_path: Path):
    asyncio.run(a_thread_whose_callback_fails(tmp_path))
    taken = LaunchedRun(tmp_path, "quickstart").count(StepReport)
    assert a_notebook_that_is_interrupted(tmp_path) == taken + 1


async def a_thread_whose_callback_fails(runs: Path) -> None:
    beats = 0

    def fail(step: StepReport) -> None:
        raise KeyError(step.step)

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(BEAT_S)
            beats += 1

    beating = asyncio.create_task(beat())
    with pytest.raises(KeyError) as raised:
        await asyncio.to_thread(run, runs, fail)
    assert raised.value.args == (1,)
    beating.cancel()
    assert beats > SOME, "the caller's event loop stands still"


def a_notebook_that_is_interrupted(runs: Path) -> int:
    """Resume the run, interrupt it at its first step, and return that step."""
    before = signal.getsignal(signal.SIGINT)
    steps: list[int] = []

    def interrupt(step: StepReport) -> None:
        steps.append(step.step)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    async def cell() -> None:
        run(runs, interrupt, resume=True)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    assert signal.getsignal(signal.SIGINT) is before
    return steps[0]


def test_faults_are_raised_to_the_caller(tmp_path: Path):
    with pytest.raises(ConfigError, match="there is no such run file"):
        coevolve.run("quikstart", runs=tmp_path)
    with pytest.raises(ConfigError, match=r"learner\.steps"):
        coevolve.run("quickstart", overrides=["learner.steps=0"], runs=tmp_path)
    with pytest.raises(ConfigError, match="overrides: needs a list"):
        coevolve.run("quickstart", overrides="learner.steps=2", runs=tmp_path)
    given: Any = {"learner.steps": 2}
    with pytest.raises(ConfigError, match=r"needs a list of texts .*, found a dict, \{'learner"):
        coevolve.run("quickstart", overrides=given, runs=tmp_path)
    nothing: Any = None
    with pytest.raises(ConfigError, match=r"config: needs a RunConfig, .* found NoneType"):
        coevolve.run(nothing, runs=tmp_path)
    text: Any = "print"
    with pytest.raises(ConfigError, match="on_step: needs a function such as print, found str"):
        coevolve.run("quickstart", on_step=text, runs=tmp_path)
    with pytest.raises(ConfigError, match="change the RunConfig itself"):
        coevolve.run(RunConfig(name="x"), overrides=SETTINGS, runs=tmp_path)
    with pytest.raises(RunError, match="there is no run to resume"):
        run(tmp_path, resume=True)
    assert not list(tmp_path.iterdir())

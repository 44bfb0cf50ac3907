"""Simulators of testbenches that run nothing, and a wait for their effects."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from coevolve.environments.hdl.simulate.messages import (
    CompileFailed,
    Covered,
    Evaluate,
    Evaluated,
    Outcome,
    Point,
    Testbench,
    Unit,
)
from protocols.errors import SimulatorError
from tests.hdl_points import POINTS, all_but, covering


class ScriptedSimulator:
    """Answers every testbench with ``outcome``, after ``broken`` failures."""

    def __init__(self, outcome: Callable[[str], Outcome] | None = None, *, broken: int = 0) -> None:
        self.outcome = outcome or _by_its_words
        self.broken = broken
        self.requests: list[Evaluate] = []

    async def evaluate(self, request: Evaluate) -> Evaluated:
        self.requests.append(request)
        await asyncio.sleep(0)
        if self.broken:
            self.broken -= 1
            raise SimulatorError("the compiler was not there")
        submission = request.submission
        assert isinstance(submission, Testbench)
        return Evaluated(
            key="key",
            testbench=submission.text,
            outcome=self.outcome(submission.text),
            seed=request.seed,
            stages=(),
            toolchain="none",
            sandbox="limits",
        )

    async def points(self, unit: Unit) -> tuple[Point, ...]:
        return POINTS

    def cpu_s(self) -> float:
        return 0.0

    async def close(self) -> None:
        return


class EndlessSimulator(ScriptedSimulator):
    """Never answers; writes a file when it gets a request."""

    def __init__(self, asked: Path) -> None:
        super().__init__()
        self.asked = asked

    async def evaluate(self, request: Evaluate) -> Evaluated:
        self.asked.write_text("asked")
        await asyncio.Event().wait()
        raise AssertionError


def _by_its_words(testbench: str) -> Outcome:
    if "broken" in testbench:
        return CompileFailed(message="tb.sv:1:1: error: it is broken")
    coverage = covering(all_but("DONE", "if"))
    return Covered(coverage=coverage, ended="finish", slots=1, time=1, log="")


def until(true: Callable[[], bool]) -> None:
    """Block until the condition is true, for at most 30 s."""
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)

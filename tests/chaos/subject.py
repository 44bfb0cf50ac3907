"""The run under attack: it is kept by `coevolve launch --keep`, and begun again if that ends."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from coevolve.journal.codec import TOPICS
from coevolve.journal.reader import STORE_FOLDER, JournalReader
from coevolve.launcher.interrupts import INTERRUPTED
from protocols.errors import JournalError
from tests.chaos.population import KEPT, Living, Population, by_kind
from tests.commands import ROOT
from tests.launched import QUICKSTART, SMALL

END_S = 900.0
SAID_LINES = 3


class Subject:
    """A run of the quickstart's small form, which never ends by itself."""

    def __init__(self, runs: Path, environment: Mapping[str, str]) -> None:
        self.runs = runs
        self.directory = runs / "chaos"
        self._environment = dict(os.environ) | dict(environment)
        self._population = Population()
        self._keeper: subprocess.Popen[bytes] | None = None
        self.output = Path(environment["TMPDIR"]) / "output"
        self.living: list[Living] = []
        self.usual: Mapping[str, int] = {}
        """How many processes the run has of each kind that it starts again."""

        self.step = self.start = self.newest = 0
        """Sequences of the newest step, start and record."""

    def begin(self, *, resume: bool, steps: int = 1_000_000) -> None:
        """Start or resume the run, with a keeper."""
        words = ["launch", QUICKSTART, "name=chaos", *SMALL, f"learner.steps={steps}", "--keep"]
        flags = ["--runs", str(self.runs), *(["--resume"] if resume else [])]
        with self.output.open("ab") as output:
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", "coevolve", *words, *flags],
                cwd=ROOT,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def look(self) -> None:
        """Find out who lives, and what the journal holds."""
        keeper = self._keeper
        self.living = self._population.look(keeper.pid if keeper else None)
        with (
            contextlib.suppress(JournalError),
            JournalReader(self.directory / STORE_FOLDER).snapshot() as state,
        ):
            self.newest = max(state.newest(topic) for topic in TOPICS)
            self.step = state.newest("step_report")
            self.start = max(state.newest("run_started"), state.newest("run_resumed"))

    def settle_in(self, timeout_s: float) -> None:
        """Wait until every part works, and note who belongs to the run."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.look()
            counts = {kind: len(each) for kind, each in by_kind(self.living).items()}
            if self.step and all(kind in counts for kind in KEPT):
                self.usual = {kind: counts[kind] for kind in KEPT}
                return
            if self.ended() is not None:
                break
            time.sleep(0.2)
        raise AssertionError(f"the run did not begin: {self.said()}")

    def ended(self) -> tuple[int, str] | None:
        """Return the keeper's exit code and last words if it has ended."""
        assert self._keeper is not None
        code = self._keeper.poll()
        return None if code is None else (code, self.said())

    def said(self) -> str:
        """Return the last lines of the output."""
        lines = self.output.read_text(encoding="utf-8", errors="replace").splitlines()
        return " | ".join(lines[-SAID_LINES:])

    def kill_all(self) -> None:
        """Kill every process of the run."""
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.kill()

    def restart(self) -> None:
        """Kill every process of the run, and begin again."""
        self.kill_all()
        assert self._keeper is not None
        self._keeper.wait()
        self.begin(resume=True)

    def finish(self, steps: int) -> list[str]:
        """Stop the run, and let it take ``steps`` more; return what is wrong with that."""
        assert self._keeper is not None
        self._keeper.send_signal(signal.SIGINT)
        wrong = self._wrong_end("stop", INTERRUPTED)
        self.begin(resume=True, steps=self.steps_taken() + steps)
        return wrong + self._wrong_end("finish", 0)

    def _wrong_end(self, what: str, expected: int) -> list[str]:
        """Wait for the keeper's end; return a sentence if its exit code is not ``expected``.

        Then all processes have ended.
        """
        assert self._keeper is not None
        try:
            code = self._keeper.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill_all()
            return [f"the run did not {what} within {END_S:.0f} s: {self.said()}"]
        return [f"the run did not {what}, code {code}: {self.said()}"] if code != expected else []

    def steps_taken(self) -> int:
        """Return how many steps the journal holds."""
        with JournalReader(self.directory / STORE_FOLDER).snapshot() as state:
            return len(state.scan("step_report", limit=10**6))

    def left(self) -> list[str]:
        """Return a line for each process that is left half a minute after the end."""
        _, alive = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=30.0)
        self.look()
        return [f"process {each.pid} is left: {each.kind}" for each in self.living] if alive else []

"""Runs the program of a compiled design in the sandbox, without network.

The program is a long-lived child process within the limits below. If it dies or hangs, the call
raises SimulatorError, and the next call starts a new one.
"""

import os
import selectors
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from coevolve.environments.hdl.simulate.simulation import write_data
from coevolve.environments.hdl.stimulus.compiled import Compiled
from coevolve.environments.sdk import Finished, Sandbox, StageLimits, WorkFolder
from protocols.errors import SimulatorError

REQUESTS = "in"
ANSWERS = "out"
CHUNK_BYTES = 65_536


class Dialogue:
    """A running program, and two FIFOs to it; only one thread at a time may call `ask`.

    The FIFOs are in the program's work folder, so the sandbox needs no other connection. The
    program ends once no process has its FIFO ``in`` open for writing. It may end at any time: a
    running `ask` then raises SimulatorError, and `alive` is false.
    """

    def __init__(
        self, sandbox: Sandbox, argv: Sequence[str], *, work: Path, limits: StageLimits
    ) -> None:
        """Start ``argv`` in ``work``, whose owner becomes the sandbox's user."""
        for name in (REQUESTS, ANSWERS):
            os.mkfifo(work / name, 0o600)
        sandbox.own(work)
        # Both are open for reading and writing, so that no side waits for the other to open.
        self._requests = os.open(work / REQUESTS, os.O_RDWR | os.O_NONBLOCK)
        self._answers = os.open(work / ANSWERS, os.O_RDWR | os.O_NONBLOCK)
        self._ended, self._end = os.pipe()
        self._outcome: Finished | Exception | None = None
        self._closed = False
        self._started = time.monotonic()
        self._thread = threading.Thread(
            target=self._run, args=(sandbox, tuple(argv), work, limits), daemon=True
        )
        self._thread.start()

    def _run(self, sandbox: Sandbox, argv: Sequence[str], work: Path, limits: StageLimits) -> None:
        try:
            self._outcome = sandbox.run(argv, work=work, cwd=work, limits=limits, environment={})
        except Exception as error:  # noqa: BLE001, `ask` reports it
            self._outcome = error
        finally:
            os.close(self._end)

    @property
    def alive(self) -> bool:
        """Whether the program still runs."""
        return self._thread.is_alive()

    @property
    def age_s(self) -> float:
        """Seconds since the program was started."""
        return time.monotonic() - self._started

    def ask(self, request: bytes, answer_bytes: int, patience_s: float) -> bytes:
        """Send a request and return an answer of ``answer_bytes`` bytes. Blocks.

        Raises SimulatorError if the program ends first, or does nothing for ``patience_s``.
        """
        left, answer = memoryview(request), bytearray()
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._answers, selectors.EVENT_READ)
            waiting.register(self._ended, selectors.EVENT_READ)
            waiting.register(self._requests, selectors.EVENT_WRITE)
            while left or len(answer) < answer_bytes:
                ready = {key.fd for key, _ in waiting.select(patience_s)}
                if not ready:
                    raise SimulatorError(f"a harness did not answer within {patience_s:.0f} s")
                if self._answers in ready:
                    answer += os.read(self._answers, answer_bytes - len(answer))
                elif self._ended in ready:
                    raise SimulatorError(f"a harness ended before it answered: {self._last_words}")
                if self._requests in ready:
                    left = left[os.write(self._requests, left[:CHUNK_BYTES]) :]
                    if not left:
                        waiting.unregister(self._requests)
        return bytes(answer)

    @property
    def _last_words(self) -> str:
        match self._outcome:
            case Finished(status=status, limit=limit, output=output):
                return f"status {status}, limit '{limit}', {output[-500:].strip()!r}"
            case outcome:
                return str(outcome)

    def close(self, patience_s: float) -> None:
        """Let the program end, and wait for it; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        os.close(self._requests)
        os.close(self._answers)
        self._thread.join(patience_s)
        os.close(self._ended)


LIFE_S = 3600.0
"""Age at which a child is replaced, well below its limits on time."""

LIMITS = StageLimits(
    cpu_s=4 * LIFE_S,
    wall_s=4 * LIFE_S,
    memory_mb=1500,
    file_mb=1,
    processes=8,
    output_bytes=65_536,
)
PROGRAM_S = 20
"""Maximum wall-clock seconds of one program."""

PATIENCE_S = 60.0
"""Maximum seconds without any output of the child."""

SPENT_BYTES = 8
"""Size of the end of each answer: the CPU time of the child so far, in nanoseconds."""


class Server:
    """The child in the protocol of ``cpp/server.cpp``; only one thread at a time may ask."""

    def __init__(
        self, design: Compiled, sandbox: Sandbox, mode: Sequence[str], program_s: int
    ) -> None:
        """Run ``design`` in ``mode``; the first `ask` starts a child."""
        self._design = design
        self._sandbox = sandbox
        self._mode = tuple(mode)
        self._program_s = program_s
        self._child: Dialogue | None = None
        self._work: WorkFolder | None = None
        self._before_s = 0.0
        self._child_s = 0.0

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all children, up to their last answers."""
        return self._before_s + self._child_s

    def ask(self, request: bytes, answer_bytes: int) -> bytes:
        """Return an answer of ``answer_bytes`` bytes. Blocks. Raises SimulatorError."""
        child = self._child
        if child is None or not child.alive or child.age_s > LIFE_S:
            self.end()
            child = self._start()
        try:
            answer = child.ask(request, answer_bytes + SPENT_BYTES, PATIENCE_S)
        except SimulatorError:
            self.end()
            raise
        self._child_s = int.from_bytes(answer[-SPENT_BYTES:], "little") / 1e9
        return answer[:-SPENT_BYTES]

    def end(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close(PATIENCE_S)
        if self._work is not None:
            self._work.remove()
        self._child = self._work = None
        self._before_s, self._child_s = self.cpu_s, 0.0

    def _start(self) -> Dialogue:
        self._work = WorkFolder()
        work = self._work.path
        program = shutil.copy(self._design.program, work)
        shutil.copy(self._design.owners, work)
        write_data(work, self._design.data)
        argv = (str(program), *self._mode, REQUESTS, ANSWERS, str(self._program_s))
        self._child = Dialogue(self._sandbox, argv, work=work, limits=LIMITS)
        return self._child

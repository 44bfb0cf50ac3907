"""Keeps one program running in the sandbox, and exchanges messages with it over two FIFOs.

The FIFOs are in the program's work folder, so the sandbox needs no other connection. The program
ends once no process has its FIFO ``in`` open for writing. It may end at any time: a running `ask`
then raises SimulatorError, and `alive` is false.
"""

import os
import selectors
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from coevolve.environments.sdk import Finished, Sandbox, StageLimits
from protocols.errors import SimulatorError

REQUESTS = "in"
ANSWERS = "out"
CHUNK_BYTES = 65_536


class Dialogue:
    """A running program; only one thread at a time may call `ask`."""

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

"""Runs the program of a compiled design in the sandbox, without network.

The program is a long-lived child process within the limits below. If it dies or hangs, the call
raises SimulatorError, and the next call starts a new one.
"""

import shutil
from collections.abc import Sequence

from coevolve.environments.hdl.simulate.simulation import write_data
from coevolve.environments.hdl.stimulus.compiled import Compiled
from coevolve.environments.hdl.stimulus.dialogue import ANSWERS, REQUESTS, Dialogue
from coevolve.environments.sdk import Sandbox, StageLimits, WorkFolder
from protocols.errors import SimulatorError

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

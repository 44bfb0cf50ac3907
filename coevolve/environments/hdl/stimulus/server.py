"""The program of a compiled design while it runs, in the sandbox, without network.

It is a long-lived child, within the limits below. Where it dies or hangs, that is a SimulatorError,
and the next call starts another.
"""

import shutil
from collections.abc import Sequence

from coevolve.environments.hdl.stimulus.compiled import Compiled
from coevolve.environments.hdl.stimulus.dialogue import ANSWERS, REQUESTS, Dialogue
from coevolve.environments.sandbox.runner import Sandbox, StageLimits
from coevolve.environments.sandbox.work_folders import WorkFolder
from protocols.errors import SimulatorError

LIFE_S = 3600.0
"""Age after which a child is replaced, long before its limits of time."""

LIMITS = StageLimits(
    cpu_s=4 * LIFE_S,
    wall_s=4 * LIFE_S,
    memory_mb=1500,
    file_mb=1,
    processes=8,
    output_bytes=65_536,
)
PROGRAM_S = 20
"""Wall clock of one program."""

PATIENCE_S = 60.0
"""How long nothing at all may come from the child."""

SPENT_BYTES = 8
"""Behind each answer: the CPU time of the child so far, in nanoseconds."""


class Server:
    """Answers requests as ``cpp/server.cpp`` says; one thread at a time may ask."""

    def __init__(
        self, design: Compiled, sandbox: Sandbox, mode: Sequence[str], program_s: int
    ) -> None:
        """Let ``design`` run in ``mode``; a child is started by the first `ask`."""
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

    def ask(self, told: bytes, answer_bytes: int) -> bytes:
        """Return the answer of so many bytes. Blocks; raises SimulatorError."""
        child = self._child
        if child is None or not child.alive or child.age_s > LIFE_S:
            self.end()
            child = self._start()
        try:
            answer = child.ask(told, answer_bytes + SPENT_BYTES, PATIENCE_S)
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
        argv = (str(program), *self._mode, REQUESTS, ANSWERS, str(self._program_s))
        self._child = Dialogue(self._sandbox, argv, work=work, limits=LIMITS)
        return self._child

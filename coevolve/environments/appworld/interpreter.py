"""Runs a policy's blocks of code in a process that can do nothing but compute and call APIs.

The process is a plain Python in the sandbox (`coevolve.environments.appworld.program`). It holds
the policy's variables, and no data. What comes out of it is the policy's: an API that a block calls
is checked against ``apps`` and counted here, and answered by the owner; an output is a text.

*What is covered.* Whatever a block does, `Interpreter.run` returns an observation: by the limit on
wall-clock time, with at most ``output_chars`` of text, after at most so many calls. If a block ends
the process, floods its pipe or breaks the protocol, the next one gets a new process without
variables. At the levels ``namespaces`` and ``seccomp`` of the sandbox the process reads no file and
no environment variable, and reaches no network and no other process. It has no files to read in
the first place at ``namespaces``.

*What is not covered.* At the level ``limits`` the program still seals itself with the same filter,
where the kernel has filters; without them it refuses to start. CPU time of a process that goes on
after its block is bounded only by ``cpu_s`` for its life.
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coevolve.environments.appworld import guard, program
from coevolve.environments.appworld.frames import (
    LENGTH_BYTES,
    MAX_BYTES,
    Answered,
    Called,
    Done,
    FromProgram,
    Hello,
    Refused,
    Run,
    Started,
    frame,
    message_in,
)
from coevolve.environments.sandbox import seccomp
from coevolve.environments.sandbox.piped import PipeBrokenError, PipedProgram
from coevolve.environments.sdk import Sandbox, StageLimits, WorkFolder
from protocols.errors import SimulatorError

MOST_REFUSED = 100
"""Calls beyond the limit that are answered with an error; after them the process ends."""

START_S = 60.0
"""Maximum seconds for a process to start; it takes a fifth of a second on an idle machine."""

LAST_CHARS = 300

END_S = 1.0
"""Seconds for a process that closed its pipes to end."""

Answer = Callable[[Called], Answered | Refused]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an interpreter is given, and its limits."""

    apps: Mapping[str, tuple[str, ...]]
    """App -> its APIs; nothing else can be called."""

    python: Path
    """A plain Python that the sandbox can read, for example `appworld.place.plain_python`."""

    now: str = ""
    """Time at which the clock stands, in ISO 8601; empty for the machine's clock."""

    modules: tuple[str, ...]
    """Modules that blocks may import."""

    functions: tuple[str, ...] = ()
    """Functions that blocks may not call, as dotted paths."""

    folders: tuple[Path, ...] = ()
    """Folders with the packages that stop the clock; empty only if ``now`` is."""

    calls: int = 1000
    """Maximum API calls of a block."""

    block_s: float = 100.0
    """Seconds after which a block is interrupted; a tenth and a second more, and its process
    ends."""

    cpu_s: float = 300.0
    """CPU seconds of a process's life."""

    memory_mb: int = 1024
    """Address space of a process."""

    output_chars: int = 20_000


class Interpreter:
    """Runs blocks, one after another; not for several threads at once."""

    def __init__(self, sandbox: Sandbox, settings: Settings) -> None:
        """Start no process yet."""
        self._sandbox = sandbox
        self._settings = settings
        self._process: PipedProgram | None = None
        self._ready = False
        self._turn = 0
        self.cpu_s = 0.0
        """CPU seconds of the processes that have ended."""

        self._work = WorkFolder()
        sandbox.own(self._work.path)

    def run(self, code: str, answer: Answer) -> str:
        """Return the observation of a block; ``answer`` answers its calls.

        Raises SimulatorError if the machine starts no process or kills it, and what ``answer``
        raises.
        """
        process = self._ready_process()
        self._turn += 1
        try:
            process.renew(1.1 * self._settings.block_s + 1.0)
            process.send(frame(Run(turn=self._turn, code=code.encode(errors="replace").decode())))
            return self._observed(process, answer)
        except PipeBrokenError as error:
            self._check_end(process)
            return f"Execution failed. Traceback:\nException: {error}. All variables are lost."
        except BaseException:
            self._end()
            raise

    def start(self) -> None:
        """Start a process ahead of the first block, without waiting for it.

        `run` starts one where none was started. Raises SimulatorError.
        """
        if self._process is None:
            self._process = self._launched()
            self._send_hello(self._process)

    def close(self) -> None:
        self._end()
        self._work.remove()

    def _observed(self, process: PipedProgram, answer: Answer) -> str:
        calls = 0
        while True:
            message = _receive(process)
            if not isinstance(message, Called | Done) or message.turn != self._turn:
                raise PipeBrokenError("The code broke its connection to the apps")
            if isinstance(message, Done):
                return message.output[: self._settings.output_chars + len(program.CUT)]
            calls += 1
            if calls > self._settings.calls + MOST_REFUSED:
                raise PipeBrokenError("The code makes too many requests")
            process.send(frame(self._checked(message, calls, answer)))

    def _checked(self, call: Called, number: int, answer: Answer) -> Answered | Refused:
        """Answer a call if it is a known one and within the limit."""
        most = self._settings.calls
        if number > most:
            return Refused(
                error=f"Number of requests exceeded the limit of {most}. "
                "This potentially means that you have an infinite loop in your code."
            )
        if call.app not in self._settings.apps:
            return Refused(error=f"No app named '{call.app}' found.")
        if call.api not in self._settings.apps[call.app]:
            return Refused(error=f"No API named '{call.api}' found in the {call.app} app.")
        return answer(call)

    def _ready_process(self) -> PipedProgram:
        """Return a process that has sealed itself. Raises SimulatorError."""
        self.start()
        process = self._process
        assert process is not None
        if self._ready:
            return process
        process.renew(START_S)
        try:
            started = _receive(process)
        except PipeBrokenError as error:
            raise self._not_started(error) from error
        assert isinstance(started, Started)
        self._ready = True
        return process

    def _launched(self) -> PipedProgram:
        settings = self._settings
        return self._sandbox.open(
            (str(settings.python), "-I", "-S", "-c", Path(program.__file__).read_text()),
            work=self._work.path,
            cwd=self._work.path,
            limits=StageLimits(
                cpu_s=settings.cpu_s,
                wall_s=START_S,
                memory_mb=settings.memory_mb,
                file_mb=1,
                processes=1,
                output_bytes=settings.calls * MAX_BYTES,
            ),
            environment={},
        )

    def _send_hello(self, process: PipedProgram) -> None:
        settings = self._settings
        hello = Hello(
            now=settings.now,
            apps=dict(settings.apps),
            modules=settings.modules,
            functions=settings.functions,
            guard=Path(guard.__file__).read_text(),
            folders=tuple(map(str, settings.folders)),
            seal=seccomp.seal().hex(),
            output_chars=settings.output_chars,
            block_s=settings.block_s,
        )
        try:
            process.send(frame(hello))
        except PipeBrokenError as error:
            raise self._not_started(error) from error

    def _not_started(self, error: PipeBrokenError) -> SimulatorError:
        """End the process, and return the error with its last words."""
        process = self._process
        self._end()
        words = process.close().words.strip()[-LAST_CHARS:] if process else ""
        return SimulatorError(f"the interpreter did not start: {error}: {words}")

    def _check_end(self, process: PipedProgram) -> None:
        """End a process that broke off. Raises SimulatorError if others killed it.

        The seal lets no code send a signal or exit with the status of a killed process.
        """
        status = process.own_end(END_S)
        cpu_s = process.close().cpu_s
        self._end()
        if status == -signal.SIGKILL and cpu_s < self._settings.cpu_s:
            raise SimulatorError("the interpreter was killed")

    def _end(self) -> None:
        if self._process:
            self.cpu_s += self._process.close().cpu_s
        self._process = None
        self._ready = False


def _receive(process: PipedProgram) -> FromProgram:
    """Return the next message. Raises PipeBrokenError."""
    size = int.from_bytes(process.receive(LENGTH_BYTES), "little")
    if size > MAX_BYTES:
        raise PipeBrokenError(f"The code sends more than {MAX_BYTES} bytes at once")
    try:
        return message_in(process.receive(size))
    except ValueError as error:
        raise PipeBrokenError("The code broke its connection to the apps") from error

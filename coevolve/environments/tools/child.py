"""The child process that holds sessions: ``python -m coevolve.environments.tools.child``.

It reads a batch of commands and answers all of them before it reads the next (`tools.frames`).

*What is covered.* The policy's text is parsed, never evaluated, and reaches only documented methods
(`tools.calls`). Counted sizes bound the cost of a call, equally on every machine
(`tools.session`); the limits below are the second defence. A step of a session is one call or one
comparison, also in a trial. A step that uses more than ``COMMAND_CPU_S`` of CPU time is interrupted
and ends only its own session; so does a step that gets no memory. A step that cannot be
interrupted, because it is inside a single C function, ends the process after ``HARD_CPU_S``, and
the parent learns which step it was. If the sessions together hold most of the memory, the session
that grew the most since it was opened ends. If no session grew, a MemoryError breaks only the
session that meets it, as an unforeseen exception does. The process has a limited address space,
dumps no core, and can write no file and start no process. When it is ready, it can open no
descriptor, so no file, socket or pipe. A simulator that tries to, or that imports a module that is
not loaded yet, breaks its session: a refusal of the sandbox never becomes an answer. Prints of
simulators go to standard error. The process ends with its parent, and of its environment variables
gets only the place of the cache.

*What is not covered.* The process runs as the same user in the same file system and may still make
system calls that need no descriptor (``kill``, ``unlink``); for root, Linux does not enforce the
limit on processes. Sessions share the interpreter: state that BFCL's simulators are known to share
by mistake is separated (`bfcl.stock.Shared`), other shared state is not. Which session ends
when memory is short depends on how much the other sessions hold.
"""

import argparse
import ast
import ctypes
import gc
import math
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import BinaryIO, TypeVar, assert_never

from coevolve.base.foreign import described, plain
from coevolve.environments.tools.commands import (
    Act,
    Broken,
    Command,
    Grade,
    Look,
    Looked,
    Ready,
    Release,
    Reply,
    Reset,
    Trial,
)
from coevolve.environments.tools.endings import (
    COMMAND_CPU_S,
    HOST_REACHED,
    OUT_OF_MEMORY,
    OUT_OF_TIME,
)
from coevolve.environments.tools.frames import (
    NUMBER_BYTES,
    Answer,
    command_decoder,
    frame,
    frame_bytes,
    number_in,
)
from coevolve.environments.tools.histories import MAX_SESSIONS
from coevolve.environments.tools.place import Place
from coevolve.environments.tools.session import Session
from coevolve.environments.tools.toolsets import tool_set
from coevolve.environments.tools.trial import TrialRun
from coevolve.environments.tools.weight import MAX_WEIGHT
from protocols.errors import CoevolveError

T = TypeVar("T")

HARD_CPU_S = 2
"""CPU seconds, rounded up to a whole second, after which a step ends the process."""

AGAIN_S = 0.05
"""CPU seconds after which a step that survived its interruption is interrupted again."""

MOST_USED = 0.75
"""Share of the address space in use above which the session that grew the most ends..."""

LEAST_GROWN = MAX_WEIGHT // 6
"""... if it grew by more than this. No reference of the benchmark grows by half of it."""

HOST = frozenset(
    {"open", "import", "os", "socket", "subprocess", "shutil", "ctypes", "glob", "pathlib", "mmap"}
)
"""First words of the audit events that Python code raises when it accesses the host."""

_PR_SET_PDEATHSIG = 1


class OutOfTime(BaseException):
    """A command used up its CPU time. This is no Exception, because simulators catch those."""


class NotOpenError(CoevolveError):
    """A command names a session that is not open here."""


class HostReachedError(BaseException):
    """A simulator tried to access the host. No Exception, because simulators catch those."""


class Sessions:
    """The open sessions of this process."""

    def __init__(self, memory_used: Callable[[], float], place: Place) -> None:
        """``memory_used`` returns the share of the address space in use, in [0, 1]."""
        self._memory_used = memory_used
        self._place = place
        self._used = memory_used()
        self._sessions: dict[str, Session] = {}
        self._lost: dict[str, str] = {}
        signal.signal(signal.SIGVTALRM, _interrupt)

    def carry_out(self, command: Command) -> Reply:
        """Answer one command; each of its steps has a CPU limit."""
        reply = self._reply(command)
        self._make_room()
        return reply

    def _reply(self, command: Command) -> Reply:
        try:
            return self._answer(command)
        except OutOfTime:
            reason = "the task takes too long to open"
        except HostReachedError as reached:
            reason = f"{HOST_REACHED}: {reached}"
        except MemoryError:
            reason = "the simulator ran out of memory"
        except CoevolveError as error:
            reason = str(error)
        # The simulator is foreign code; its errors end one session, not all.
        except BaseException as error:  # noqa: BLE001
            reason = f"the simulator raised {described(error)}"
        return self._give_up(command, reason.encode(errors="replace").decode())

    def _answer(self, command: Command) -> Reply:
        match command:
            case Reset(session=name, task=task):
                self._forget(name)
                if len(self._sessions) >= MAX_SESSIONS:
                    self._forget(next(iter(self._sessions)))
                self._sessions[name] = _limited(partial(Session, task))
                return Ready()
            case Act(session=name, text=text):
                session = self._use(name)
                return self._step(session, partial(session.act, text), text)
            case Grade(session=name, words=words):
                session = self._use(name)
                return self._step(session, partial(session.grade, words))
            case Look(session=name):
                session = self._use(name)
                return Looked(state=self._step(session, session.digest))
            case Release(session=name):
                self._forget(name)
                return Ready()
            case Trial(task=task, turns=turns, words=words):
                return _limited(partial(TrialRun, task, turns, words)).play(self._step)
            case _:
                assert_never(command)

    def _step(self, session: Session, step: Callable[[], T], call: str = "") -> T:
        """Run one step of a session; a step over a limit ends the session."""
        self._place.step = call
        try:
            return _limited(step)
        except OutOfTime:
            session.end(OUT_OF_TIME)
        except MemoryError:
            if self._used > MOST_USED:
                raise
            session.end(OUT_OF_MEMORY)
        return step()

    def _make_room(self) -> None:
        """If a command took memory and little is left, end the session that grew the most."""
        before, self._used = self._used, self._memory_used()
        if self._used <= max(before, MOST_USED) or not self._sessions:
            return
        grown = max(self._sessions.values(), key=Session.growth)
        if grown.growth() > LEAST_GROWN:
            grown.end(OUT_OF_MEMORY)

    def _use(self, name: str) -> Session:
        """Return a session and mark it as the most recently used. Raises NotOpenError."""
        if name not in self._sessions:
            unknown = f"no session {name} is open here; its process was replaced"
            raise NotOpenError(self._lost.get(name, unknown))
        self._sessions[name] = self._sessions.pop(name)
        return self._sessions[name]

    def _forget(self, name: str) -> None:
        self._sessions.pop(name, None)
        self._lost.pop(name, None)

    def _give_up(self, command: Command, reason: str) -> Broken:
        """End a command's session; later commands to it get the reason."""
        name = command.session
        if not isinstance(command, Trial):
            self._forget(name)
            if len(self._lost) >= MAX_SESSIONS:
                del self._lost[next(iter(self._lost))]
            self._lost[name] = reason
        return Broken(reason=reason)


def _limited(step: Callable[[], T]) -> T:
    """Run a step; raise OutOfTime in it if it uses too much CPU, then end the process."""
    _allow_cpu(HARD_CPU_S)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, COMMAND_CPU_S, AGAIN_S)
        return step()
    finally:
        # The timer is stopped first, so that it cannot interrupt the next step.
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        _allow_cpu(None)


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(
        prog="python -m coevolve.environments.tools.child", description=__doc__
    )
    parser.add_argument("--parent", type=int, required=True, help="process to die with")
    parser.add_argument("--memory-mb", type=int, required=True, help="address space")
    parser.add_argument("--place-fd", type=int, required=True, help="memory for the place")
    parser.add_argument("tool_sets", nargs="*", help="names of the tool sets to load")
    arguments = parser.parse_args()
    _die_with(arguments.parent)
    commands, answers = _take_streams()
    place = Place(arguments.place_fd)
    os.close(arguments.place_fd)
    _load(arguments.tool_sets)
    pages = os.open("/proc/self/statm", os.O_RDONLY)
    _confine(arguments.memory_mb)
    sys.addaudithook(_refuse_host)
    _serve(Sessions(partial(_memory_used, pages), place), commands, answers, place)


def _memory_used(pages: int) -> float:
    """Return the share of the address space in use; ``pages`` is open on /proc/self/statm."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return int(os.pread(pages, 100, 0).split()[0]) * resource.getpagesize() / limit


def _serve(sessions: Sessions, commands: BinaryIO, answers: BinaryIO, place: Place) -> None:
    answers.write(_answer_frame(Ready()))
    answers.flush()
    while count := commands.read(NUMBER_BYTES):
        for index in range(number_in(count)):
            content = commands.read(frame_bytes(commands.read(NUMBER_BYTES)))
            place.position, place.step = index, ""
            answers.write(_answer_frame(sessions.carry_out(command_decoder.decode(content))))
        place.position, place.step = 0, ""
        answers.flush()


def _answer_frame(reply: Reply) -> bytes:
    return frame(Answer(reply, time.process_time()))


def _allow_cpu(more_s: int | None) -> None:
    """Allow ``more_s`` more CPU seconds, after which SIGXCPU ends the process; None: no limit."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    limit = most if more_s is None else _at_most(math.ceil(time.process_time()) + more_s, most)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, most))


def _refuse_host(event: str, arguments: tuple[object, ...]) -> None:
    """Raise HostReachedError if Python code opens, imports or starts something."""
    if event.partition(".")[0] in HOST:
        name = arguments[0] if event in ("open", "import") else ""
        # without its folder: a message shows no path of the machine
        said = f" {plain(os.path.basename(name))}" if isinstance(name, str) and name else ""  # noqa: PTH119
        raise HostReachedError(f"{event}{said}")


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent ended before its child could start")


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return the two streams for frames, and close both for all other code."""
    commands, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return commands, answers


def _load(tool_sets: Sequence[str]) -> None:
    """Read every file that a session will need, because none can be opened later."""
    for name in tool_sets:
        tool_set(name).load()
    datetime.strptime("2024", "%Y").astimezone()  # loads a module and the time zone
    ast.parse("é")  # loads the tables of Unicode
    warnings.simplefilter("ignore")
    gc.collect()
    gc.freeze()


def _confine(memory_mb: int) -> None:
    for limit, value in (
        (resource.RLIMIT_AS, memory_mb * 2**20),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        _, most = resource.getrlimit(limit)
        resource.setrlimit(limit, (_at_most(value, most), _at_most(value, most)))


def _at_most(value: int, most: int) -> int:
    """Return the lower limit, because this process itself may have a lower maximum."""
    return value if most == resource.RLIM_INFINITY else min(value, most)


def _interrupt(_signal: int, _frame: object) -> None:
    raise OutOfTime


if __name__ == "__main__":
    main()

"""The child process that holds BFCL sessions: ``python -m coevolve.bfcl.child``.

It reads frames of commands and answers each before it reads the next (`coevolve.bfcl.frames`).

*What is covered.* The policy's text is parsed, never evaluated, and reaches nothing but documented
methods (`coevolve.bfcl.calls`). A command that uses more than ``COMMAND_CPU_S`` of CPU time is
interrupted and fails its own session alone: that much is the policy's doing, since honest calls
take microseconds, and CPU time does not depend on what else the machine does. One that cannot be
interrupted, inside of a single C function, ends the process after ``HARD_CPU_S``, and the parent
learns which it was. A command that wants more than half of the memory at once fails its session,
too; where less was left, a MemoryError breaks the session, as an unforeseen exception does, and not
the others. Of sessions whose worlds grow until little is left, the largest fails and is emptied.
The process has a limited address space, dumps no core, can write no file and start no process, and
once it is ready it can open no descriptor at all, so no file, socket or pipe. A simulator that
tries to, or that imports a module which is not loaded yet, breaks its session: what the sandbox
refuses never becomes an answer. What simulators print goes to standard error. The process ends with
its parent, and gets no environment from it.

*What is not covered.* It runs as the same user in the same file system and may still make system
calls that need no descriptor (``kill``, ``unlink``); for root, Linux does not enforce the limit on
processes. Sessions share the interpreter: what BFCL's simulators are known to share by mistake is
kept apart (`coevolve.bfcl.stock.Shared`), something unknown would not be. A call that takes about
as much CPU time as it may is cut short in one run and not in another.
"""

import argparse
import ast
import ctypes
import gc
import math
import mmap
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import BinaryIO, assert_never

from coevolve.bfcl import stock
from coevolve.bfcl.catalogue import tool_documents
from coevolve.bfcl.frames import (
    COMMAND_CPU_S,
    LENGTH_BYTES,
    OUT_OF_MEMORY,
    OUT_OF_TIME,
    POSITION_BYTES,
    TOO_LARGE,
    TOO_LONG,
    Answers,
    commands_decoder,
    frame,
    length,
)
from coevolve.bfcl.session import Session
from coevolve.bfcl.trial import TrialRun
from protocols.errors import CoevolveError
from protocols.simulation import (
    Act,
    Broken,
    Command,
    Failed,
    Grade,
    Observed,
    Ready,
    Release,
    Reply,
    Reset,
    Trial,
)

HARD_CPU_S = 2
"""CPU seconds, to the next whole one, after which a command ends the process."""

AGAIN_S = 0.05
"""CPU seconds after which a command that survived its interruption is interrupted again."""

MAX_SESSIONS = 2000
"""Beyond this the session that was idle longest is forgotten: its owner must have died."""

MOST_USED = 0.5
"""Share of the address space; a command that finds more in use and gets no more is not to blame."""

MOST_HELD = 0.75
"""Share of the address space in use beyond which the session that holds the most is ended..."""

MOST_HELD_ALONE = 1 / 16
"""... if it holds more than this. Honest sessions hold a thousandth."""

HOST = frozenset(
    {"open", "import", "os", "socket", "subprocess", "shutil", "ctypes", "glob", "pathlib", "mmap"}
)
"""First words of the audit events by which Python code reaches for what is outside of it."""

_PR_SET_PDEATHSIG = 1


class OutOfTime(BaseException):
    """A command used up its CPU time. No Exception, because simulators catch those."""


class HostReachedError(BaseException):
    """A simulator reached for the host. No Exception, because simulators catch those."""


class Sessions:
    """The open sessions of this process."""

    def __init__(self, memory_used: Callable[[], float]) -> None:
        """``memory_used`` returns the share of the address space that is in use, 0..1."""
        self._memory_used = memory_used
        self._used = memory_used()
        self._held: dict[str, float] = {}
        """Session -> share of the address space by which its calls made the process grow."""

        self._sessions: dict[str, Session] = {}
        self._lost: dict[str, str] = {}
        self._overspent: dict[str, Observed] = {}
        self._trial: TrialRun | None = None

    def carry_out(self, command: Command) -> Reply:
        """Answer one command, within its CPU time."""
        reply = self._within_its_time(command)
        self._charge(command.session)
        return reply

    def _within_its_time(self, command: Command) -> Reply:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, COMMAND_CPU_S, AGAIN_S)
            try:
                return self._answer(command)
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        except OutOfTime:
            return self._fail(command, OUT_OF_TIME, TOO_LONG)
        except HostReachedError as reached:
            reason = f"the simulator reached for the host: {reached}"
        except MemoryError:
            if self._memory_used() < MOST_USED:
                return self._fail(command, OUT_OF_MEMORY, TOO_LARGE)
            reason = "the simulator ran out of memory"
        except CoevolveError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 -- foreign code; one session is lost, not all
            reason = f"the simulator raised {error!r}"
        finally:
            self._trial = None
        return self._give_up(command, reason)

    def _answer(self, command: Command) -> Reply:
        match command:
            case Reset(session=name, task=task):
                self._forget(name)
                if len(self._sessions) >= MAX_SESSIONS:
                    self._forget(next(iter(self._sessions)))
                self._sessions[name] = Session(task)
                return Ready()
            case Act(session=name, text=text):
                session = self._use(name)
                if name in self._overspent:
                    return self._overspent[name]
                return session.act(text) if session else self._not_open(name)
            case Grade(session=name):
                session = self._use(name)
                return session.grade() if session else self._not_open(name)
            case Release(session=name):
                self._forget(name)
                return Ready()
            case Trial(task=task, turns=turns):
                self._trial = TrialRun(task, turns)
                return self._trial.play()
            case _:
                assert_never(command)

    def _charge(self, name: str) -> None:
        """Note what memory a command of ``name`` took; where little is left, free the most."""
        before, self._used = self._used, self._memory_used()
        if self._used <= before or name not in self._sessions:
            return
        self._held[name] = self._held.get(name, 0.0) + self._used - before
        most = max(self._held, key=self._held.__getitem__)
        if self._used > MOST_HELD and self._held[most] > MOST_HELD_ALONE:
            self._sessions[most].empty()
            self._end(most, OUT_OF_MEMORY, TOO_LARGE)
            del self._held[most]

    def _end(self, name: str, reason: str, answer: Observed) -> None:
        """Fail a session for good: it carries out no further call, and gives ``answer``."""
        self._sessions[name].fail(reason)
        self._overspent[name] = answer

    def _use(self, name: str) -> Session | None:
        """Return a session and make it the one used last."""
        session = self._sessions.pop(name, None)
        if session is not None:
            self._sessions[name] = session
        return session

    def _forget(self, name: str) -> None:
        self._sessions.pop(name, None)
        self._lost.pop(name, None)
        self._overspent.pop(name, None)
        self._held.pop(name, None)

    def _give_up(self, command: Command, reason: str) -> Broken:
        """Give a command's session up; whatever is asked of it later is told why."""
        name = command.session
        if isinstance(command, Trial):
            return Broken(reason=reason)
        self._forget(name)
        if len(self._lost) >= MAX_SESSIONS:
            del self._lost[next(iter(self._lost))]
        self._lost[name] = reason
        return Broken(reason=reason)

    def _not_open(self, name: str) -> Broken:
        unknown = f"no session {name} is open here; its process was replaced"
        return Broken(reason=self._lost.get(name, unknown))

    def _fail(self, command: Command, reason: str, answer: Observed) -> Reply:
        """Fail the session of a command that took more than one may."""
        if isinstance(command, Trial) and self._trial is not None:
            return self._trial.cut_short(reason, answer)
        if command.session not in self._sessions or isinstance(command, Reset | Release | Trial):
            return self._give_up(command, f"{reason} while it was opened")
        self._end(command.session, reason, answer)
        return Failed(reason=reason) if isinstance(command, Grade) else answer


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m coevolve.bfcl.child", description=__doc__)
    parser.add_argument("--parent", type=int, required=True, help="process to die with")
    parser.add_argument("--memory-mb", type=int, required=True, help="address space")
    parser.add_argument("--position-fd", type=int, required=True, help="memory for the position")
    arguments = parser.parse_args()
    _die_with(arguments.parent)
    commands, answers = _take_streams()
    position = mmap.mmap(arguments.position_fd, POSITION_BYTES)
    os.close(arguments.position_fd)
    _load()
    pages = os.open("/proc/self/statm", os.O_RDONLY)
    _confine(arguments.memory_mb)
    signal.signal(signal.SIGVTALRM, _interrupt)
    sys.addaudithook(_refuse_host)
    _serve(Sessions(partial(_memory_used, pages)), commands, answers, position)


def _memory_used(pages: int) -> float:
    """Return the share of the address space in use; ``pages`` is open on /proc/self/statm."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return int(os.pread(pages, 100, 0).split()[0]) * resource.getpagesize() / limit


def _serve(sessions: Sessions, commands: BinaryIO, answers: BinaryIO, position: mmap.mmap) -> None:
    _send(answers, ())
    while prefix := commands.read(LENGTH_BYTES):
        batch = commands_decoder.decode(commands.read(length(prefix)))
        replies: list[Reply] = []
        for index, command in enumerate(batch):
            position[:] = index.to_bytes(POSITION_BYTES, "little")
            _allow_cpu(HARD_CPU_S)
            replies.append(sessions.carry_out(command))
        _allow_cpu(None)
        position[:] = bytes(POSITION_BYTES)
        _send(answers, tuple(replies))


def _allow_cpu(more_s: int | None) -> None:
    """Let the process use ``more_s`` further CPU seconds, then SIGXCPU ends it; None: no limit."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    limit = most if more_s is None else _at_most(math.ceil(time.process_time()) + more_s, most)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, most))


def _refuse_host(event: str, _arguments: tuple[object, ...]) -> None:
    """Raise HostReachedError where Python code opens, imports or starts something."""
    if event.partition(".")[0] in HOST:
        raise HostReachedError(event)


def _send(answers: BinaryIO, replies: tuple[Reply, ...]) -> None:
    answers.write(frame(Answers(replies, time.process_time())))
    answers.flush()


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent ended before its child could begin")


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return the two ends for frames, and keep everybody else away from them."""
    commands, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return commands, answers


def _load() -> None:
    """Read every file that a session will need: none can be opened later."""
    stock.load()
    for name in stock.DOCUMENTS:
        tool_documents(name)
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
    """Return the lower limit: this process may itself have been given less."""
    return value if most == resource.RLIM_INFINITY else min(value, most)


def _interrupt(_signal: int, _frame: object) -> None:
    raise OutOfTime


if __name__ == "__main__":
    main()

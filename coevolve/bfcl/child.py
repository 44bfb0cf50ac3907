"""The child process that holds BFCL sessions: ``python -m coevolve.bfcl.child``.

It reads frames of commands and answers each before it reads the next (`coevolve.bfcl.frames`).

*What is covered.* The policy's text is parsed, never evaluated, and reaches nothing but documented
methods (`coevolve.bfcl.calls`). A command that uses more than ``COMMAND_CPU_S`` of CPU time is
interrupted and fails its own session alone: that much is the policy's doing, since honest calls
take microseconds, and CPU time does not depend on what else the machine does. A MemoryError or an
unforeseen exception breaks its session, not the others. The process has a limited address space,
dumps no core, can write no file and start no process, and once it is ready it can open no
descriptor at all, so no file, socket or pipe. A batch that uses more CPU time than wall clock is
allowed for it ends the process. What simulators print goes to standard error. The process ends with
its parent, and gets no environment from it.

*What is not covered.* It runs as the same user in the same file system and may still make system
calls that need no descriptor (``kill``, ``unlink``); for root, Linux does not enforce the limit on
processes. A single C call cannot be interrupted; then the parent kills the process, and every
session in it is void. Sessions share the interpreter: what BFCL's simulators are known to share by
mistake is kept apart (`coevolve.bfcl.stock.Shared`), something unknown would not be. ``TravelAPI``
compares birth dates with today's date.
"""

import argparse
import ctypes
import gc
import math
import os
import resource
import signal
import sys
import time
import warnings
from datetime import datetime
from typing import BinaryIO, assert_never

from coevolve.bfcl import stock
from coevolve.bfcl.catalogue import tool_documents
from coevolve.bfcl.frames import LENGTH_BYTES, Answers, commands_decoder, frame, length
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

COMMAND_CPU_S = 0.25
"""No honest command of the benchmark takes a tenth of it."""

AGAIN_S = 0.05
"""CPU seconds after which a command that survived its interruption is interrupted again."""

MAX_SESSIONS = 2000
"""Beyond this the session that was idle longest is forgotten: its owner must have died."""

OUT_OF_TIME = "out_of_time"

_TOO_LONG = Observed(
    result=f"Error during execution: more than {COMMAND_CPU_S} CPU seconds", failed=True
)

_PR_SET_PDEATHSIG = 1


class OutOfTime(BaseException):
    """A command used up its CPU time. No Exception, because simulators catch those."""


class Sessions:
    """The open sessions of this process."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._lost: dict[str, str] = {}
        self._trial: TrialRun | None = None

    def carry_out(self, command: Command) -> Reply:
        """Answer one command, within its CPU time."""
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, COMMAND_CPU_S, AGAIN_S)
            try:
                return self._answer(command)
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        except OutOfTime:
            return self._out_of_time(command)
        except MemoryError:
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
                    del self._sessions[next(iter(self._sessions))]
                self._sessions[name] = Session(task)
                return Ready()
            case Act(session=name, text=text):
                session = self._use(name)
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

    def _use(self, name: str) -> Session | None:
        """Return a session and make it the one used last."""
        session = self._sessions.pop(name, None)
        if session is not None:
            self._sessions[name] = session
        return session

    def _forget(self, name: str) -> None:
        self._sessions.pop(name, None)
        self._lost.pop(name, None)

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

    def _out_of_time(self, command: Command) -> Reply:
        if isinstance(command, Trial) and self._trial is not None:
            return self._trial.cut_short(OUT_OF_TIME, _TOO_LONG)
        session = self._sessions.get(command.session)
        if session is None or isinstance(command, Reset | Release | Trial):
            return self._give_up(command, f"more than {COMMAND_CPU_S} CPU seconds to open")
        session.fail(OUT_OF_TIME)
        return Failed(reason=OUT_OF_TIME) if isinstance(command, Grade) else _TOO_LONG


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m coevolve.bfcl.child", description=__doc__)
    parser.add_argument("--parent", type=int, required=True, help="process to die with")
    parser.add_argument("--memory-mb", type=int, required=True, help="address space")
    parser.add_argument("--batch-s", type=float, required=True, help="time for one batch")
    arguments = parser.parse_args()
    _die_with(arguments.parent)
    commands, answers = _take_streams()
    _load()
    _confine(arguments.memory_mb)
    signal.signal(signal.SIGVTALRM, _interrupt)
    _serve(commands, answers, math.ceil(arguments.batch_s))


def _serve(commands: BinaryIO, answers: BinaryIO, batch_s: int) -> None:
    sessions = Sessions()
    _send(answers, ())
    while prefix := commands.read(LENGTH_BYTES):
        batch = commands_decoder.decode(commands.read(length(prefix)))
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(
            resource.RLIMIT_CPU, (_at_most(int(time.process_time()) + batch_s + 1, most), most)
        )
        _send(answers, tuple(sessions.carry_out(command) for command in batch))


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

"""Asks pyslang about foreign text, in a separate process.

pyslang has no reliable limits for foreign text: its recursion on the stack grows with the nesting
of the text, and a small text can keep it busy for many seconds, in which it blocks all other
threads of its process. So a process with other work never parses a testbench, and parses a design
only after `check_design` has shown that a process with a smaller stack could.

`hdl.gate.answers` computes the answers.
"""

import contextlib
import re
import signal
from functools import lru_cache
from typing import Literal

import msgspec

from coevolve.environments.hdl.gate.fork_server import NO_MEMORY, TOO_DEEP, ForkServer, Limits
from coevolve.environments.hdl.simulate.messages import (
    CompileFailed,
    NotCovered,
    Rejected,
    TimedOut,
    Unit,
    Violation,
)
from protocols.errors import ConfigError, SimulatorError

TESTBENCH = "tb.sv"

LIMITS = Limits(cpu_s=2, memory_mb=1024, stack_kb=8192, wall_s=30)
"""Limits of reading a testbench of a small design."""

CHARACTERS_PER_S = 50_000
"""Characters of a design that allow one more second of CPU time, as far as `DESIGN_LIMITS`."""

DESIGN_LIMITS = Limits(cpu_s=10, memory_mb=1024, stack_kb=1024, wall_s=60)
"""Limits of reading a design. The stack is half of the smallest that threads have on Linux with
glibc, and an eighth of the usual one, because such a thread reads the accepted design again."""

TOO_MUCH = (
    "reading the testbench took more than {limits.cpu_s} s of CPU time or {limits.memory_mb} MB of "
    "memory; write it more simply"
)
NESTED = "the text is nested too deeply to be parsed; write it more simply"
UNREADABLE = "the text cannot be parsed; write it more simply"

_SPENT = (NO_MEMORY, -signal.SIGXCPU, -signal.SIGABRT)
_OVERFLOWN = (TOO_DEEP, -signal.SIGSEGV, -signal.SIGBUS)
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGALRM)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question about a design or a testbench."""

    about: Literal["complaints", "top", "parameters", "design", "reads", "use"]
    unit: Unit
    testbench: str = ""
    told_top: str = ""
    """The module to simulate, if the request names one."""

    instance: str = ""
    """The instance of the design that is meant, if the request names one."""

    trusted: bool = False
    """Whether sizes, other excesses, and further instances are left to the simulation."""


class BenchUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a testbench makes of a design."""

    parameters: dict[str, str] = {}
    """The values, as text, that it gives to the instance that is meant."""

    files: frozenset[str] = frozenset()
    """The files of all modules that it uses."""

    counted: tuple[str, ...] = ()
    """Paths of the instances with these values, the first that is meant before the others."""

    others: tuple[str, ...] = ()
    """Paths of the instances that do not count."""

    conflict: str = ""
    """Why the design cannot have these values without a change of the others; mostly empty."""


Refusal = Rejected | CompileFailed | NotCovered | TimedOut
"""Outcomes of a testbench that is not simulated."""

_SERVER = ForkServer("coevolve.environments.hdl.gate.answers")


def complaints(testbench: str, unit: Unit) -> tuple[str, ...]:
    """Return the errors in the testbench, each ``tb.sv:line:column: error: text``. Blocks.

    Empty if pyslang exceeds its limits or crashes.
    """
    question = Question(about="complaints", testbench=testbench, unit=unit)
    with contextlib.suppress(SimulatorError):
        status, answer = _ask_server(question, _limits(unit))
        return msgspec.json.decode(answer, type=tuple[str, ...]) if status == 0 else ()
    return ()


def find_top(testbench: str, unit: Unit, told: str = "", *, trusted: bool = False) -> str | Refusal:
    """Return the module to simulate, or the outcome if the testbench should not compile. Blocks.

    In a ``trusted`` text nothing else is checked.

    Raises SimulatorError on an infrastructure failure.
    """
    question = Question(about="top", testbench=testbench, unit=unit, told_top=told, trusted=trusted)
    limits = DESIGN_LIMITS if trusted else _limits(unit)
    status, answer = _ask_server(question, limits)
    if status in _SPENT:
        return TimedOut(stage="compile", message=TOO_MUCH.format(limits=limits))
    if status:
        message = NESTED if status in _OVERFLOWN else UNREADABLE
        return Rejected(violations=(Violation(line=1, column=1, message=message),))
    return msgspec.json.decode(answer, type=str | Refusal)


def reads(testbench: str, unit: Unit, told: str = "") -> tuple[tuple[int, int], ...]:
    """Return the places of references into the design that are proven to read only. Blocks.

    Empty if pyslang exceeds its limits. Raises SimulatorError on an infrastructure failure.
    """
    question = Question(about="reads", testbench=testbench, unit=unit, told_top=told)
    status, answer = _ask_server(question, _limits(unit))
    return () if status else msgspec.json.decode(answer, type=tuple[tuple[int, int], ...])


def bench_use(testbench: str, unit: Unit, told: str = "", instance: str = "") -> BenchUse:
    """Return what a testbench makes of the design. Blocks.

    Empty if it cannot be read. Raises SimulatorError on an infrastructure failure.
    """
    question = Question(
        about="use", testbench=testbench, unit=unit, told_top=told, instance=instance
    )
    status, answer = _ask_server(question, DESIGN_LIMITS)
    return BenchUse() if status else msgspec.json.decode(answer, type=BenchUse)


def without_parameters(testbench: str, unit: Unit, top: str, *, trusted: bool = False) -> str:
    """Return a testbench that `find_top` accepted, without the parameters of the design. Blocks.

    They have the design's own values, and Verilator takes some of these for others, such as -1 and
    arrays. Blanks stand in their place. In a ``trusted`` text, instances with other values keep
    theirs. Raises SimulatorError on an infrastructure failure.
    """
    if not re.search(rf"\b{re.escape(unit.top)}\s*#", testbench):
        return testbench
    question = Question(
        about="parameters", testbench=testbench, unit=unit, told_top=top, trusted=trusted
    )
    status, answer = _ask_server(question, _limits(unit))
    return msgspec.json.decode(answer, type=str) if status == 0 else testbench


@lru_cache(maxsize=1024)
def check_design(unit: Unit) -> None:
    """Check that this process can read the design safely. Blocks on the first check of a design.

    The check does not say whether the design compiles. Raises ConfigError where it cannot be read,
    and SimulatorError on an infrastructure failure.
    """
    status, answer = _ask_server(Question(about="design", unit=unit), DESIGN_LIMITS)
    if status in _SPENT:
        raise ConfigError(
            f"design {unit.name}: reading it needs to take at most {DESIGN_LIMITS.cpu_s} s of CPU "
            f"time and {DESIGN_LIMITS.memory_mb} MB of memory, took more; write it more simply"
        )
    if status:
        reason = NESTED if status in _OVERFLOWN else UNREADABLE
        words = f" ({answer.decode()})" if answer else ""
        raise ConfigError(f"design {unit.name}: {reason}{words}")


def _limits(unit: Unit) -> Limits:
    """Return the limits of reading a testbench of ``unit``, which is read with it."""
    more = sum(len(file.text) for file in unit.files) // CHARACTERS_PER_S
    cpu_s = min(LIMITS.cpu_s + more, DESIGN_LIMITS.cpu_s)
    return msgspec.structs.replace(LIMITS, cpu_s=cpu_s)


def _ask_server(question: Question, limits: Limits) -> tuple[int, bytes]:
    answered = _SERVER.ask(msgspec.msgpack.encode(question), limits)
    if answered.status in _FROM_OUTSIDE:
        raise SimulatorError(f"the process that read a text was ended by {answered.status}")
    return answered.status, answered.answer

"""Decides from a simulation whether the testbench, or an assertion of the design, found a fault.

The verdict is ``failed`` after ``$error``, a failed assertion of the testbench or the design, a
line of output that matches a pattern of the user, a ``$stop`` in a testbench that has a ``$finish``
too, or a run that is cut off. (`coevolve.environments.hdl.simulate.messages.verdict_of` adds
``$fatal``, other errors of the simulation, and limits of time and memory.) A testbench without
``$finish`` has only ``$stop`` to end by, so there it is no fault; nor is it at the end of the
stimulus, where only a watchdog has a ``$finish`` (`hdl.simulate.stops`).

A *check* is a place in the testbench that can fail the run: a call of ``$error`` or ``$fatal``, an
assertion, a ``$stop`` beside a ``$finish``, or a string that a pattern matches. They are read from
the translated model, so code that is not compiled has none. Whether a check is ever reached, or
says anything about the design, only mutants tell (`hdl.designs.mutants`). Assertions of the design
are no checks of the testbench: they can fail a run, but do not make one ``passed``.
"""

import re
from collections.abc import Iterator, Sequence

from coevolve.environments.hdl.gate.elaboration import TESTBENCH
from coevolve.environments.hdl.simulate.messages import SimulationLimits
from coevolve.environments.hdl.simulate.reported import REPORTED
from coevolve.environments.hdl.simulate.simulation import Ran
from coevolve.environments.hdl.simulate.stops import endings

MOST_QUOTED = 200
"""Maximum characters of a line of output in a fault."""

_FILE = re.escape(TESTBENCH)
_STOP = re.compile(rf'VL_STOP_MT\("{_FILE}", (\d+), "[^"]*"(, false)?\)')
_FINISH = f'VL_FINISH_MT("{TESTBENCH}"'
_ERROR = re.compile(rf'VL_WRITEF_NX\("\[%0t\] %%Error: {_FILE}:(\d+):')
_REPORTED = re.compile(r"^\[\d+\] %Error: (.*)$", re.MULTILINE)
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_CONVERSION = re.compile(r"%[-0-9.]*[a-zA-Z]")


def checks(model: str, testbench: str, fail_on: Sequence[str]) -> int:
    """Return the number of checks in ``testbench``, whose translation is ``model``."""
    stops = {match[1] for match in _STOP.finditer(model) if not match[2]}
    fatal = {match[1] for match in _STOP.finditer(model) if match[2]}
    if _FINISH not in model:
        stops &= {match[1] for match in _ERROR.finditer(model)}
    stops -= {str(line) for line in endings(testbench)}
    return len(stops | fatal) + _printed(testbench, fail_on)


def faults(ran: Ran, model: str, limits: SimulationLimits) -> tuple[str, ...]:
    """Return why the verdict on a simulation is failed; empty if it is not."""
    return tuple(_faults(ran, model, limits))


def matches(output: str, fail_on: Sequence[str]) -> Iterator[str]:
    """Yield a fault for each pattern that matches a line of the output."""
    for pattern in fail_on:
        for line in output.splitlines():
            if re.search(pattern, line):
                how = "reports a failure" if pattern == REPORTED else f"matches {pattern!r}"
                yield f"the output {how}: {line.strip()[:MOST_QUOTED]}"
                break


def _faults(ran: Ran, model: str, limits: SimulationLimits) -> Iterator[str]:
    if ran.errors:
        first = _REPORTED.search(ran.output)
        words = first[1][:MOST_QUOTED] if first else "beyond the maximum of the output"
        yield f"{ran.errors} error{'s' * (ran.errors > 1)}, the first: {words}"
    if ran.stopped and _FINISH in model:
        yield f"$stop of line {ran.stopped} ended it; end a run without a fault by $finish"
    if ran.ended == "slot_limit":
        yield f"cut off after {ran.slots} time slots; end it by $finish"
    yield from matches(ran.output, limits.fail_on)
    if limits.fail_on and len(ran.output.encode()) >= limits.log_bytes:
        yield (
            f"the output has more than {limits.log_bytes} bytes, and the patterns saw no more; "
            "print less"
        )


def _printed(testbench: str, fail_on: Sequence[str]) -> int:
    """Return the number of strings that a pattern matches, with numbers for conversions."""
    if not fail_on:
        return 0
    strings = (_CONVERSION.sub("1", match[1]) for match in _STRING.finditer(testbench))
    return sum(any(re.search(pattern, each) for pattern in fail_on) for each in strings)

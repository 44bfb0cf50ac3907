"""Explains why a testbench does not compile, as ``tb.sv:line:column: error: text``.

Verilator decides whether it compiles. Afterwards pyslang checks it too, because its messages are
closer to what has to change. Its complaints about lines that Verilator accepts are kept, since the
testbench fails anyway. Errors in files other than the testbench and the design are left out,
because they may quote those files.
"""

import re
from collections.abc import Iterator

from coevolve.environments.hdl.gate.elaboration import TESTBENCH, complaints
from coevolve.environments.hdl.simulate.messages import Unit

MOST_MESSAGES = 8

_PLACED = re.compile(
    r"%Error(?:-[A-Z0-9]+)?: (?P<crash>Internal Error: )?"
    r"(?P<file>[^\s:]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<text>.*)"
)
_NOISE = re.compile(r"Exiting due|Cannot continue|Command failed|Internal Error|Aborted|.*/")
"""Messages that say nothing about the testbench, or name a file of the machine."""

_UNPLACED = re.compile(r"%Error(?:-[A-Z0-9]+)?: (?P<text>.*)")


def explain(output: str, testbench: str, unit: Unit) -> str:
    """Return why Verilator, with the output ``output``, does not compile the testbench."""
    found = complaints(testbench, unit)
    lines = {_line(message) for message in found}
    further = [each for each in _verilator(output, unit) if _line(each) not in lines]
    messages = list(dict.fromkeys([*found, *further]))
    if not messages:
        return f"{TESTBENCH}: error: the simulator cannot compile this testbench"
    more = len(messages) - MOST_MESSAGES
    tail = [f"and {more} more"] if more > 0 else []
    return "\n".join([*messages[:MOST_MESSAGES], *tail])


def _line(message: str) -> str:
    return ":".join(message.split(":")[:2])


def _verilator(output: str, unit: Unit) -> Iterator[str]:
    known = {TESTBENCH, *(file.name for file in (*unit.files, *unit.plan))}
    for line in output.splitlines():
        placed, told = _PLACED.match(line), _UNPLACED.match(line)
        if placed and placed["file"] in known:
            text = "the simulator does not support this" if placed["crash"] else placed["text"]
            yield f"{placed['file']}:{placed['line']}:{placed['column'] or 1}: error: {text}"
        elif told and not placed and not _NOISE.match(told["text"]):
            yield f"{TESTBENCH}: error: {told['text']}"

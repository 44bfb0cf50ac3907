"""Finds the clock and the reset of a design, by the names of its inputs and their use."""

import re
from collections import Counter
from collections.abc import Sequence

from coevolve.environments.hdl.simulate.messages import Port, Reset, SourceFile

_CLOCK = re.compile(r"(?i)^(?:\w*_)?(?:\w?clk\w?|clock|ck)(?:_?[io]|_\w+)?$|\w*clk$|^clk\w*$")
_RESET = re.compile(
    r"(?i)^(?:\w*_)?(?:\w{0,3}re?se?t|\w?rst|clear|clr)_?(?:[nbl]|[io]|n[io]|\w)?(?:_\w+)?$"
    r"|^x?res_?n?$"
)
_LOW = re.compile(r"(?i)(?:_|re?se?t|res|rst|clr)n(?:_?i)?$|_[nb](?:_\w*)?$|_ni$|^n_?re?se?t|_l$")


def clock_and_reset(ports: Sequence[Port], files: Sequence[SourceFile]) -> tuple[str, Reset | None]:
    """Return the clock, empty if there is none, and the reset."""
    inputs = [port.name for port in ports if port.direction == "in" and port.width == 1]
    text = "\n".join(file.text for file in files)
    edges = Counter(re.findall(r"\b(?:posedge|negedge)\s+(\w+)", text))
    resets = [name for name in inputs if _RESET.match(name)]
    clocks = [name for name in inputs if _CLOCK.match(name) and name not in resets]
    clocks = clocks or [name for name in inputs if edges[name] and name not in resets]
    clock = max(clocks, key=lambda name: edges[name], default="")
    reset = max(resets, key=lambda name: _uses(name, text), default="")
    if not reset:
        return clock, None
    return clock, Reset(port=reset, active="low" if _is_low(reset, text) else "high")


def _uses(name: str, text: str) -> int:
    return len(re.findall(rf"\b{re.escape(name)}\b", text))


def _is_low(name: str, text: str) -> bool:
    """Return whether a reset is active while it is 0: its process tests that, or its name says."""
    tests = re.findall(rf"\bif\s*\(\s*([!~]?)\s*{re.escape(name)}\b(\s*==\s*(?:1'b)?0)?", text)
    ways = {bool(inverted or zero) for inverted, zero in tests}
    if len(ways) == 1:
        return ways.pop()
    if edge := re.search(rf"\b(posedge|negedge)\s+{re.escape(name)}\b", text):
        return edge[1] == "negedge"
    return bool(_LOW.search(name))

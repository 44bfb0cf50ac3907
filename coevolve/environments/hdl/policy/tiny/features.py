"""The tiny hardware policy's view of a design and the work on it so far, in about 50 tokens.

It has, for each input, its width and the state in which the program leaves it; for each kind of
coverage, the covered tenths; and the missed points: states and arcs by number, toggles of ports by
port, all others by their place in the design. The design's name is left out; its ports identify it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.policy.tiny.edits import design_pins
from coevolve.environments.hdl.policy.tiny.vocabulary import (
    IDS,
    INPUTS,
    LEAST_BITS,
    OUTPUTS,
    PLACES,
    STATES,
    TENTHS,
    Mode,
)
from coevolve.environments.hdl.simulate.messages import METRICS, Coverage, Metric, Point
from coevolve.environments.hdl.stimulus.program import (
    Chance,
    Change,
    Drive,
    Randomize,
    Repeat,
    Statement,
)

MOST_HINTS: Mapping[Metric, int] = {
    "fsm": 6,
    "line": 3,
    "branch": 3,
    "expr": 3,
    "toggle": 7,
    "plan": 6,
}


def modes(statements: Iterable[Statement]) -> dict[str, Mode]:
    """Return the modes in which statements leave the inputs that they drive."""
    found: dict[str, Mode] = {}
    for statement in statements:
        match statement:
            case Drive(port=port, word=word):
                found[port] = "held" if word else "zero"
            case Change(port=port):
                found[port] = "held"
            case Randomize(port=port):
                found[port] = "random"
            case Chance(port=port):
                found[port] = "chance"
            case Repeat(body=body):
                found |= modes(body)
            case _:
                pass
    return found


def of_ports(design: Design, statements: Iterable[Statement]) -> Iterator[int]:
    """Yield two tokens for each input: its slot, and its width with its mode."""
    inputs = design_pins(design).inputs
    left = modes(statements)
    for slot, port in zip(INPUTS, inputs, strict=False):
        least = max(bits for bits in LEAST_BITS if bits <= port.width)
        yield IDS[slot]
        yield IDS[f"{left.get(port.name, 'zero')}{least}"]


def of_coverage(coverage: Coverage | None) -> Iterator[int]:
    """Yield a token for each kind of coverage that the design has: covered tenths, rounded down."""
    for kind in coverage.kinds if coverage else ():
        yield IDS[f"{kind.metric}{TENTHS * kind.covered // kind.total}"]


def of_missed(
    hints: Sequence[int], points: Sequence[Point], coverage: Coverage, wanted: Iterable[int]
) -> Iterator[int]:
    """Yield the hints of missed points in ``wanted``, each once, at most `MOST_HINTS` a kind."""
    missed: dict[Metric, dict[int, None]] = {metric: {} for metric in METRICS}
    for index in wanted:
        if not coverage.hit(index):
            missed[points[index].metric][hints[index]] = None
    for metric, found in missed.items():
        yield from islice(sorted(found), MOST_HINTS[metric])


def hints_of(points: Sequence[Point], design: Design) -> tuple[int, ...]:
    """Return the hint token of each point, in the points' order."""
    pins = design_pins(design)
    slots = dict(zip((port.name for port in pins.inputs), INPUTS, strict=False))
    slots |= dict(zip((port.name for port in pins.outputs), OUTPUTS, strict=False))
    groups = [_group(point, slots) for point in points]
    counts = {name: groups.count(name) for name in set(groups)}
    seen = dict.fromkeys(counts, 0)
    made: list[int] = []
    for name in groups:
        made.append(IDS[_hint(name, seen[name], counts[name])])
        seen[name] += 1
    return tuple(made)


def _group(point: Point, slots: Mapping[str, str]) -> str:
    """Return a port's word for its toggles; else the group in which the point is counted."""
    match point.metric:
        case "fsm":
            return "arc" if "->" in point.name else "state"
        case "toggle":
            signal = point.name.partition(":")[0].partition("[")[0]
            return "toggle_at" if point.instance else slots.get(signal, "toggle_at")
        case metric:
            return f"{metric}_at"


def _hint(group: str, number: int, count: int) -> str:
    if group in ("state", "arc"):
        return f"{group}{number % STATES}"
    return f"{group}{number * PLACES // count}" if group.endswith("_at") else group

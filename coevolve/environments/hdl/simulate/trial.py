"""Tries a testbench, or a stimulus program, on the mutants of its design.

All mutants are in one switched design (`hdl.designs.switching`). A testbench is compiled with it
once and runs on the design and on each mutant, without coverage; a program runs on a harness that
is compiled once per design. A mutant is *noticed* if the verdict on it is failed and that on the
design is not, and *shown* if the outputs differ. A run on a mutant may have twice the time slots of
the run on the design; one that does not end by then is noticed.

What is known of a design is kept beside the runtime, by the hash of its text: the mutants that
compile with a switch, and those of them that change outputs under any program of the baselines. The
others count as equivalent and are left out, as in `hdl.evaluation.mutation`. A testbench that fails
on the switched design itself has noticed nothing.
"""

import hashlib
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from coevolve.environments.hdl.designs import mutating, switching
from coevolve.environments.hdl.designs.output_trace import Traced, traced, traced_outputs
from coevolve.environments.hdl.designs.rtl import elaborate, elaborate_here, ports_of
from coevolve.environments.hdl.designs.switching import Place, places, switched
from coevolve.environments.hdl.designs.wrapping import alone
from coevolve.environments.hdl.evaluation.baselines.probes import probes, with_clock
from coevolve.environments.hdl.gate.elaboration import without_parameters
from coevolve.environments.hdl.simulate.messages import (
    Covered,
    Evaluate,
    Port,
    SimulationFailed,
    SimulationLimits,
    StageCost,
    TimedOut,
    Unit,
)
from coevolve.environments.hdl.simulate.reward import MutantTrial, Noticed
from coevolve.environments.hdl.simulate.runtime import SOURCES
from coevolve.environments.hdl.simulate.simulation import (
    BLANK_TOP,
    Simulation,
    Stopped,
    Tools,
    simulation,
)
from coevolve.environments.hdl.stimulus.instructions import request as asked
from coevolve.environments.hdl.stimulus.outputs import TOLD_BYTES, is_told, output_server
from coevolve.environments.hdl.stimulus.program import Pins, Program
from coevolve.environments.hdl.stimulus.server import Server
from coevolve.environments.sdk import shared_folder
from protocols.errors import ConfigError, SimulatorError

MOST_BOARDS = 256
"""Maximum number of designs whose switched text is in memory."""

SPARE_SLOTS = 1000


@dataclass(frozen=True, kw_only=True)
class Switchboard:
    """A design with a switch for each of its mutants."""

    unit: Unit
    """The switched design."""

    ports: tuple[Port, ...]
    counted: tuple[int, ...]
    """Numbers of the mutants that are not equivalent."""


class Switchboards:
    """The switched designs of a simulator; threads may share it."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._folder = tools.runtime.folder / "mutants"
        self._known: OrderedDict[tuple[Unit, int], Switchboard] = OrderedDict()
        self._turn = threading.Lock()

    def of(self, unit: Unit, most: int) -> Switchboard:
        """Return the design with at most ``most`` mutants. Blocks.

        Raises SimulatorError on an infrastructure failure.
        """
        with self._turn:
            found = self._known.get((unit, most))
            if found is None:
                found = self._known[unit, most] = self._open(unit, most)
            self._known.move_to_end((unit, most))
            while len(self._known) > MOST_BOARDS:
                self._known.popitem(last=False)
        return found

    def _open(self, unit: Unit, most: int) -> Switchboard:
        rtl = elaborate(unit)
        every, found = places(rtl, most), ports_of(rtl)
        path = self._folder / _digest(unit, most)
        try:
            names, counted = msgspec.json.decode(path.read_bytes(), type=_Kept)
        except (OSError, msgspec.MsgspecError):
            usable = _usable(self._tools, unit, every)
            names = tuple(each.mutant.name for each in usable)
            counted = _counted(self._tools, switched(unit, usable), found, len(usable))
            _keep(path, (names, counted))
        usable = [each for each in every if each.mutant.name in names]
        return Switchboard(unit=switched(unit, usable), ports=found, counted=counted)


_Kept = tuple[tuple[str, ...], tuple[int, ...]]
"""Names of the mutants that take a switch, and the numbers of those that count."""


class ProgramTrial:
    """The switched design, compiled and running, for stimulus programs."""

    def __init__(self, tools: Tools, board: Switchboard) -> None:
        """Compile the design, or take it from the cache. Blocks.

        Raises ConfigError and SimulatorError.
        """
        self._counted = board.counted
        self._server, self._pins = output_server(
            board.unit, board.ports, tools.toolchain, tools.sandbox
        )
        self._turn = threading.Lock()

    def noticed(self, program: Program, seed: int) -> tuple[Noticed, StageCost]:
        """Return how many mutants the program shows, and the cost. Blocks.

        Raises SimulatorError.
        """
        started = time.monotonic()
        with self._turn:
            spent_s = self._server.cpu_s
            found = self._found(program, seed)
            cpu_s = self._server.cpu_s - spent_s
        cost = StageCost(stage="mutants", cpu_s=cpu_s, wall_s=time.monotonic() - started)
        return Noticed(found=found, counted=len(self._counted)), cost

    def _found(self, program: Program, seed: int) -> int:
        numbers = (0, *self._counted)
        try:
            answer = self._server.ask(
                asked([program], self._pins, seed, numbers), TOLD_BYTES * len(numbers)
            )
        except SimulatorError:  # a mutant died or hung: which one is known one by one
            return len(_shown(self._server, self._pins, [program], seed, self._counted))
        golden, *others = (answer[at : at + TOLD_BYTES] for at in range(0, len(answer), TOLD_BYTES))
        return sum(each != golden for each in others)

    def close(self) -> None:
        """End the child; a later trial starts another."""
        with self._turn:
            self._server.end()


def is_worth(outcome: Covered, trial: MutantTrial) -> bool:
    """Return whether the trial could find anything, and the coverage earns it."""
    able = outcome.checks > 0 or trial.counts == "shown"
    return able and not outcome.faults and outcome.coverage.overall_average > trial.above


def tried(
    tools: Tools, board: Switchboard, request: Evaluate, text: str, top: str
) -> tuple[Noticed, StageCost]:
    """Return the result for a testbench, and its cost. Raises SimulatorError."""
    assert request.trial is not None
    started = time.monotonic()
    with simulation(tools, board.unit, request.limits) as under_way:
        found = _tried(under_way, board, request, without_parameters(text, request.unit, top), top)
        cost = StageCost(
            stage="mutants",
            cpu_s=sum(each.cpu_s for each in under_way.costs),
            wall_s=time.monotonic() - started,
        )
    return Noticed(found=found, counted=len(board.counted)), cost


def _tried(
    under_way: Simulation, board: Switchboard, request: Evaluate, text: str, top: str
) -> int:
    assert request.trial is not None
    settings = traced_outputs(request.unit)
    try:
        under_way.translate(board.unit.files, text, top, settings=settings)
        model = under_way.model()
        under_way.compile(before_main=(SOURCES / "outputs.cpp").read_text())
        golden = traced(under_way, model, request.seed)
    except Stopped:
        return 0
    if golden.faults:
        return 0
    under_way.limits = msgspec.structs.replace(
        request.limits, slots=min(request.limits.slots, 2 * golden.slots + SPARE_SLOTS)
    )
    shown = request.trial.counts == "shown"
    return sum(
        _is_found(under_way, model, request.seed, number, golden, shown) for number in board.counted
    )


def _is_found(
    under_way: Simulation, model: str, seed: int, number: int, golden: Traced, shown: bool
) -> bool:
    under_way.started = time.monotonic()
    try:
        found = traced(under_way, model, seed, number)
    except Stopped as stopped:
        return isinstance(stopped.outcome, SimulationFailed | TimedOut)
    return bool(found.faults) or (shown and found.differs(golden))


def _usable(tools: Tools, unit: Unit, every: Sequence[Place]) -> list[Place]:
    """Return the places that compile with a switch, all together."""
    found = list(every)
    for compiles in (_elaborates, partial(_translates, tools)):
        if not compiles(switched(unit, found)):
            found = [each for each in found if compiles(switched(unit, [each]))]
            found = found if compiles(switched(unit, found)) else []
    return found


def _elaborates(unit: Unit) -> bool:
    try:
        elaborate_here(unit)
    except ConfigError:
        return False
    return True


def _translates(tools: Tools, unit: Unit) -> bool:
    around = alone(elaborate_here(unit), BLANK_TOP)
    with simulation(tools, unit, SimulationLimits()) as under_way:
        try:
            under_way.translate(unit.files, around, BLANK_TOP)
        except Stopped:
            return False
    return True


def _counted(tools: Tools, unit: Unit, found: Sequence[Port], mutants: int) -> tuple[int, ...]:
    """Return the numbers of the mutants whose outputs a program tells from the design's.

    All of them for a design whose outputs cannot be compared under programs.
    """
    everyone = tuple(range(1, mutants + 1))
    unit = with_clock(unit)
    if not is_told(found):
        return everyone
    try:
        server, design_pins = output_server(unit, found, tools.toolchain, tools.sandbox)
    except ConfigError:
        return everyone
    try:
        return _shown(server, design_pins, probes(unit, found), 1, everyone)
    finally:
        server.end()


def _shown(
    server: Server,
    design_pins: Pins,
    programs: Sequence[Program],
    seed: int,
    numbers: Sequence[int],
) -> tuple[int, ...]:
    """Return the numbers of the mutants under which any program has other outputs, or hangs."""

    def outputs(number: int) -> bytes:
        message = asked(programs, design_pins, seed, (number,))
        return server.ask(message, TOLD_BYTES * len(programs))

    golden = outputs(0)
    shown: list[int] = []
    for number in numbers:
        try:
            if outputs(number) != golden:
                shown.append(number)
        except SimulatorError:
            shown.append(number)
    return tuple(shown)


def _digest(unit: Unit, most: int) -> str:
    sources = (
        Path(each).read_bytes() for each in (mutating.__file__, switching.__file__, __file__)
    )
    content = msgspec.msgpack.encode((unit, most, *sources))
    return hashlib.sha256(content).hexdigest()[:24]


def _keep(path: Path, kept: _Kept) -> None:
    """Write what is known of a design; one rename, so that no process reads a part."""
    shared_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix="new_", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(kept))
    made = Path(name)
    made.chmod(0o644)
    made.replace(path)

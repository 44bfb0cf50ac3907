"""A `StepRenderer` for the tiny hardware policy: states as about 50 tokens, programs from edits.

    <ports> in0 zero1 in1 held4 ... <covered> round2 line7 branch5 ...
    <missed> state3 in1 ... <edit>

Steps are memoryless: the prompt depends on the design, the last program and its coverage. Work on
a design starts with a reset.
"""

from collections.abc import Mapping, Sequence

from coevolve.environments.hdl.coverage.holes import reachable
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.policy.task import CoverageTask
from coevolve.environments.hdl.policy.tiny import features
from coevolve.environments.hdl.policy.tiny.edits import RESET_CYCLES, edits, read_edit
from coevolve.environments.hdl.policy.tiny.vocabulary import IDS, LAST, ROUNDS
from coevolve.environments.hdl.policy.transition import Graded, coverage_of
from coevolve.environments.hdl.simulate.messages import Point, Stimulus
from coevolve.environments.hdl.stimulus.language import format as printed
from coevolve.environments.hdl.stimulus.language import parse
from coevolve.environments.hdl.stimulus.program import ApplyReset, Program
from protocols.generation import Grammar


class TinyStepRenderer:
    """Renders states as prompts, and appends edits to stimulus programs."""

    def __init__(self, designs: Mapping[str, Design]) -> None:
        """Render steps on ``designs``, by their ids."""
        self._designs = designs
        self._grammars: dict[str, Grammar] = {}
        self._hints: dict[str, tuple[int, ...]] = {}

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return LAST

    def grammar(self, task: CoverageTask) -> Grammar:
        """Return the grammar of the edits that the design allows."""
        if task.design not in self._grammars:
            self._grammars[task.design] = edits(self._designs[task.design])
        return self._grammars[task.design]

    def prompt(
        self, task: CoverageTask, design: Design, points: Sequence[Point]
    ) -> tuple[int, ...]:
        coverage = coverage_of(task.state)
        ids = [IDS["<ports>"], *features.of_ports(design, _base(task, design).statements)]
        ids += [IDS["<covered>"], IDS[f"round{min(task.round, ROUNDS - 1)}"]]
        ids += features.of_coverage(coverage)
        if coverage is not None:
            hints, wanted = self._hints_of(design, points), reachable(points, design.unit)
            ids += [IDS["<missed>"], *features.of_missed(hints, points, coverage, wanted)]
        return (*ids, IDS["<edit>"])

    def read(self, task: CoverageTask, token_ids: Sequence[int]) -> Stimulus:
        """Return the program with the edit appended.

        Raises ValueError if the tokens are no edit, or the program would exceed a limit.
        """
        design = self._designs[task.design]
        edit = read_edit(design, token_ids)
        program = Program(statements=(*_base(task, design).statements, *edit))
        return Stimulus(program=printed(program))

    def _hints_of(self, design: Design, points: Sequence[Point]) -> tuple[int, ...]:
        if design.design_id not in self._hints:
            self._hints[design.design_id] = features.hints_of(points, design)
        return self._hints[design.design_id]


def _base(task: CoverageTask, design: Design) -> Program:
    """Return the program that the step continues."""
    unit = design.unit
    if isinstance(task.state, Graded) and task.state.program:
        return parse(task.state.program, design.ports, unit.clock, unit.reset)
    return Program(statements=(ApplyReset(cycles=RESET_CYCLES),) if unit.reset else ())

"""A reader that knows what each of appworld's own instructions asks for."""

from collections.abc import Sequence

from coevolve.environments.tools.gates.trials import Trials, passes
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask
from protocols.evolution import Candidate, Reading


class KnowingReader:
    """A `tools.gates.instructions.InstructionReader` that makes no mistake.

    It confirms a reference that solves the task which the instruction belongs to, and refutes every
    other one. An instruction that differs by a word from those that it knows is another one.
    """

    def __init__(self, simulator: Simulator, tasks: Sequence[ToolTask]) -> None:
        self._simulator = simulator
        self._tasks = {(each.world, each.turns[0].instruction): each for each in tasks}

    async def read(self, candidate: Candidate, body: ToolTask, trials: Trials) -> Reading:
        """Return whether the reference does what the instruction asks for."""
        del trials
        known = self._tasks.get((body.world, body.turns[0].instruction))
        if known is None:
            return self._reading(right=False, found="nobody says that")
        name = f"{candidate.candidate_id}/read"
        tried = await self._simulator.trial(name, known, body.references)
        return self._reading(right=passes(tried), found="carried out")

    def _reading(self, *, right: bool, found: str) -> Reading:
        outcome = "confirmed" if right else "refuted"
        return Reading(reader="knowing", outcome=outcome, found=found, agreement=float(right))

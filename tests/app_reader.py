"""A reader that knows what each of appworld's own instructions asks for."""

from collections.abc import Sequence

from coevolve.environments.appworld.gates.contrast import among_blocks
from coevolve.environments.tools.gates.contrast import AskedReader
from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.gates.trials import passes
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.synthesis.answers import Pick, Rebuilt
from coevolve.environments.tools.task import ToolTask
from protocols.evolution import Candidate
from protocols.rollouts import Action


class Knowing:
    """A `tools.gates.contrast.AskedModel` that carries options out, and compares their ends.

    An instruction that differs by a word from one that it knows is another one for it: nothing fits
    it.
    """

    name = "knowing"

    def __init__(self, simulator: Simulator, tasks: Sequence[ToolTask]) -> None:
        self._simulator = simulator
        self._tasks = {(each.world, each.turns[0].instruction): each for each in tasks}

    def _known(self, body: ToolTask) -> ToolTask | None:
        return self._tasks.get((body.world, body.turns[0].instruction))

    async def pick(self, candidate: Candidate, body: ToolTask, options: Sequence[Turns]) -> Pick:
        """Return the options that solve the task that the instruction belongs to."""
        if (known := self._known(body)) is None:
            return Pick(picks=(), reason="nobody says that")
        name = f"{candidate.candidate_id}/picked"
        tried = [await self._simulator.trial(name, known, option) for option in options]
        fitting = [number for number, found in enumerate(tried, 1) if passes(found)]
        return Pick(picks=tuple(fitting), reason="it does what is asked for")

    async def rebuild(
        self, candidate: Candidate, body: ToolTask, number: int, seen: Sequence[Action]
    ) -> Rebuilt:
        """Return the reference of the task that the instruction belongs to."""
        del candidate, number, seen
        known = self._known(body)
        return Rebuilt(calls_by_turn=known.references if known else ((),))


def knowing_reader(simulator: Simulator, tasks: Sequence[ToolTask]) -> AskedReader:
    """Return the reader, which is asked for one reconstruction."""
    return AskedReader(Knowing(simulator, tasks), rebuilds=1, options=among_blocks)

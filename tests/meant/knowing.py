"""A model that knows what the instructions of some tasks ask for."""

from collections.abc import Iterable, Sequence

from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.gates.reading import read_call, tools_of, written
from coevolve.environments.tools.synthesis.answers import Pick, Rebuilt
from coevolve.environments.tools.task import ToolTask
from protocols.evolution import Candidate
from protocols.rollouts import Action


class KnowingModel:
    """A `gates.contrast.AskedModel`; by it, all other instructions ask for nothing."""

    name = "perfect"

    def __init__(self, bodies: Iterable[ToolTask]) -> None:
        self._asked = {_said(body): _normal(body) for body in bodies}

    async def pick(self, candidate: Candidate, body: ToolTask, options: Sequence[Turns]) -> Pick:
        asked = self._asked.get(_said(body))
        picks = [number for number, option in enumerate(options, 1) if option == asked]
        return Pick(picks=tuple(picks), reason="known")

    async def rebuild(
        self, candidate: Candidate, body: ToolTask, number: int, seen: Sequence[Action]
    ) -> Rebuilt:
        return Rebuilt(calls_by_turn=self._asked.get(_said(body), ((),) * len(body.turns)))


def _said(body: ToolTask) -> tuple[str, ...]:
    return body.world, *(turn.instruction for turn in body.turns)


def _normal(body: ToolTask) -> Turns:
    tools = tools_of(body.classes)
    return written([[read_call(call, tools) for call in turn.reference] for turn in body.turns])

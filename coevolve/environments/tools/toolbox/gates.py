"""The gates of a toolbox: the grammar of requests is known, so that nothing is left to judgment."""

from coevolve.environments.tools.commands import with_results
from coevolve.environments.tools.gates.executed import ExecutedGates
from coevolve.environments.tools.gates.refusal import RefusedError, refuse
from coevolve.environments.tools.gates.trials import Trials, passes
from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.task import ToolTask
from coevolve.environments.tools.toolbox.domain import (
    CLASS,
    Domain,
    cell_of,
    skills_of,
    use_of,
)
from coevolve.environments.tools.toolbox.words import OK, THINGS
from coevolve.validation.gates import Sound
from protocols.evolution import Candidate, Reading
from protocols.tasks import body_of


def toolbox_gates(simulator: Simulator, domain: Domain) -> ExecutedGates:
    """Return gates that execute the reference, and refuse what only held-out tasks may have."""

    async def check(body: ToolTask, trials: Trials) -> Sound:
        try:
            cell, thing = cell_of(body.turns[0].instruction)
        except ValueError as error:
            raise RefusedError("malformed", str(error)) from error
        if cell not in domain.cells or thing not in THINGS:
            raise RefusedError("malformed", f"not in this toolbox: {' '.join(cell)} on {thing}")
        if use_of(cell, thing) != "trained":
            raise RefusedError("contaminated", f"{' '.join(cell)} on {thing}")
        played = await trials.play(body.references)
        failed = [each.result for each in played.turns[0].observed if each.result != OK]
        refuse("replay_failed", "; ".join(failed))
        if passes(await trials.play(((),))):
            raise RefusedError("passes_without_acting", "no call")
        return Sound(body=body_of(with_results(body, played)), skills=skills_of(cell))

    return ExecutedGates(simulator, check, _GrammarReader(domain))


class _GrammarReader:
    """A `coevolve.environments.tools.gates.instructions.InstructionReader` that is never wrong."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    async def read(self, candidate: Candidate, body: ToolTask, trials: Trials) -> Reading:
        """Return whether the reference is that of the request."""
        asked = self._domain.task(*cell_of(body.turns[0].instruction))
        same = (body.world, body.references) == (asked.world, asked.references)
        return Reading(
            reader="grammar",
            outcome="confirmed" if same else "refuted",
            found=f"{CLASS}: {'; '.join(asked.references[0])}",
            agreement=float(same),
        )

"""The gate of meaning: a reader picks the calls that the instructions ask for.

The reader sees the instructions, the tools, the world, and several options in random order: the
reference among decoys that were made from it and do something else. It is not told which is which.
The candidate is confirmed if the reader picks the reference and nothing else. All options are
written in the same form, so that the form does not tell.
"""

from collections.abc import Sequence
from random import Random
from typing import Protocol

from coevolve.environments.tools.gates.decoys import decoys, written
from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.gates.reading import read_call, tools_of
from coevolve.environments.tools.gates.trials import Trials
from coevolve.environments.tools.synthesis.answers import Pick
from coevolve.environments.tools.task import ToolTask
from protocols.errors import AnswerError, OverBudgetError
from protocols.evolution import Candidate, Reading


class InstructionReader(Protocol):
    """Reads instructions."""

    name: str
    """The model."""

    async def pick(self, candidate: Candidate, body: ToolTask, options: Sequence[Turns]) -> Pick:
        """Return which options the instructions ask for.

        Raises EndpointError if no answer comes now, AnswerError if the answers are unusable, and
        OverBudgetError.
        """
        ...


async def contrasted(
    reader: InstructionReader, candidate: Candidate, body: ToolTask, trials: Trials
) -> Reading:
    """Return what ``reader`` finds; the choice and order of decoys follow from the candidate's id.

    Raises SimulatorError, and EndpointError if the reader gives no answer now.
    """
    tools = tools_of(body.classes)
    read = [[read_call(call, tools) for call in turn.reference] for turn in body.turns]
    rng = Random(candidate.candidate_id)  # noqa: S311
    reference = written(read)
    options = [reference, *await decoys(body, read, trials, rng)]
    rng.shuffle(options)
    try:
        pick = await reader.pick(candidate, body, options)
    except (AnswerError, OverBudgetError) as error:
        return Reading(reader=reader.name, outcome="unread", found=str(error))
    right = options.index(reference) + 1
    picked = ", ".join(map(str, sorted(set(pick.picks)))) or "none"
    return Reading(
        reader=reader.name,
        outcome="confirmed" if set(pick.picks) == {right} else "refuted",
        found=f"picked {picked} of {len(options)} options, the reference is {right}: {pick.reason}",
    )

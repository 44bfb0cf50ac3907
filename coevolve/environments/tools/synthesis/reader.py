"""An endpoint's model as a reader of instructions (`tools.gates.contrast`)."""

from collections.abc import Sequence
from functools import partial

from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.synthesis import prompts
from coevolve.environments.tools.synthesis.accounts import CandidateQuestions, FindAccount
from coevolve.environments.tools.synthesis.answers import Pick, read_pick
from coevolve.environments.tools.task import ToolTask
from coevolve.llm.breaker import Breaker
from protocols.errors import EndpointError
from protocols.evolution import Candidate
from protocols.synthesizers import EndpointModel

FIRST_ORDINAL = 2**42
"""Above the ordinals of any synthesis and of a judge."""


class EndpointReader:
    """Asks an endpoint as a `tools.gates.contrast.InstructionReader`."""

    def __init__(self, model: EndpointModel, *, account_of: FindAccount) -> None:
        """Ask ``model``; ``account_of`` finds where its calls are recorded."""
        self.name = model.model
        self._questions = CandidateQuestions(model, "read", FIRST_ORDINAL, account_of)
        self._breaker = Breaker()

    async def pick(self, candidate: Candidate, body: ToolTask, options: Sequence[Turns]) -> Pick:
        """Return which options the instructions ask for.

        Raises:
            EndpointError: The model does not answer, or rests because it failed repeatedly.
            AnswerError: Its answers are unusable.
            OverBudgetError: The call may exceed the budget; it was not made.
        """
        if reason := self._breaker.rests:
            raise EndpointError(f"the reader {self.name} rests: {reason}")
        try:
            picked = await self._questions.ask(
                candidate,
                prompts.contrast(body, options),
                partial(read_pick, options=len(options)),
            )
        except EndpointError as error:
            self._breaker.failed(error)
            raise
        self._breaker.answered()
        return picked

    async def close(self) -> None:
        """Close the connections."""
        await self._questions.close()

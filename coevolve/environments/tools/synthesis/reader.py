"""An endpoint's model that reads instructions (`tools.gates.contrast`)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from coevolve.environments.tools.gates.mutants import Turns
from coevolve.environments.tools.synthesis.accounts import CandidateQuestions, FindAccount
from coevolve.environments.tools.synthesis.answers import Pick, Rebuilt, read_pick
from coevolve.environments.tools.synthesis.questions import CALLS, Questions
from coevolve.environments.tools.task import ToolTask
from coevolve.llm.breaker import Breaker
from coevolve.llm.client import PromptMessage
from protocols.errors import EndpointError
from protocols.evolution import Candidate
from protocols.rollouts import Action
from protocols.synthesizers import EndpointModel

FIRST_ORDINAL = 2**42
"""Above the ordinals of any synthesis and of a judge."""

SPAN = 2**34
"""Ordinals from one question about candidates to the next."""

T = TypeVar("T")


class EndpointReader:
    """Asks an endpoint as a `tools.gates.contrast.AskedModel`."""

    def __init__(
        self, model: EndpointModel, *, account_of: FindAccount, questions: Questions = CALLS
    ) -> None:
        """Ask ``model``; ``account_of`` finds where its calls are recorded."""
        self.name = model.model
        self._questions = CandidateQuestions(model, "read", account_of)
        self._asks = questions
        self._breaker = Breaker()

    async def pick(self, candidate: Candidate, body: ToolTask, options: Sequence[Turns]) -> Pick:
        """Return which options the instructions ask for. Raises as `_ask` does."""
        read = partial(read_pick, options=len(options))
        return await self._ask(candidate, FIRST_ORDINAL, self._asks.contrast(body, options), read)

    async def rebuild(
        self, candidate: Candidate, body: ToolTask, number: int, seen: Sequence[Action]
    ) -> Rebuilt:
        """Return the calls that the instructions ask for. Raises as `_ask` does."""

        def read(answer: str) -> Rebuilt:
            return self._asks.read_rebuilt(answer, len(body.turns))

        first = FIRST_ORDINAL + SPAN * (number + 1)
        return await self._ask(candidate, first, self._asks.rebuild(body, seen), read)

    async def _ask(
        self,
        candidate: Candidate,
        first: int,
        messages: Sequence[PromptMessage],
        read: Callable[[str], T],
    ) -> T:
        """Return what ``read`` makes of the answer to ``messages``.

        Raises:
            EndpointError: The model does not answer, or rests because it failed repeatedly.
            AnswerError: Its answers are unusable.
            OverBudgetError: The call may exceed the budget; it was not made.
        """
        if reason := self._breaker.rests:
            raise EndpointError(f"the reader {self.name} rests: {reason}")
        try:
            answer = await self._questions.ask(candidate, first, messages, read)
        except EndpointError as error:
            self._breaker.failed(error)
            raise
        self._breaker.answered()
        return answer

    async def close(self) -> None:
        """Close the connections."""
        await self._questions.close()

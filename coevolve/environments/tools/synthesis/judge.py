"""A model's opinion on a candidate. It is recorded and decides nothing; the gates decide.

The five questions are those of CoEvolve's judge; see `tools.synthesis.prompts`. A model that fails
again and again is left alone for a while, so that it does not hold up the validation.
"""

import structlog

from coevolve.environments.tools.synthesis.accounts import CandidateQuestions, FindAccount
from coevolve.environments.tools.synthesis.answers import read_judgement
from coevolve.environments.tools.synthesis.questions import CALLS, Questions
from coevolve.llm.breaker import Breaker
from protocols.errors import AnswerError, EndpointError, OverBudgetError
from protocols.evolution import NO_OPINION, Candidate, Opinion
from protocols.synthesizers import EndpointModel

FIRST_ORDINAL = 2**40
"""Above the ordinals of any synthesis."""

log = structlog.get_logger()


class EndpointJudge:
    """Asks an endpoint's model whether a candidate is sound."""

    def __init__(
        self, model: EndpointModel, *, account_of: FindAccount, questions: Questions = CALLS
    ) -> None:
        self._name = model.model
        self._questions = CandidateQuestions(model, "judge", account_of)
        self._asks = questions
        self._breaker = Breaker()

    async def opinion(self, candidate: Candidate) -> Opinion:
        """Return the model's opinion, or `NO_OPINION` if its answer is not usable."""
        if reason := self._breaker.rests:
            log.info("no_opinion", candidate=candidate.candidate_id, reason=reason)
            return NO_OPINION
        try:
            judgement = await self._questions.ask(
                candidate, FIRST_ORDINAL, self._asks.judge(candidate), read_judgement
            )
        except (EndpointError, AnswerError, OverBudgetError) as error:
            if not isinstance(error, OverBudgetError):
                self._breaker.failed(error)
            log.warning("no_opinion", candidate=candidate.candidate_id, reason=str(error))
            return NO_OPINION
        self._breaker.answered()
        return Opinion(judge=self._name, success=judgement.success, reason=judgement.reason)

    async def close(self) -> None:
        """Close the connections."""
        await self._questions.close()

"""A model's opinion on a candidate. It is recorded and decides nothing; the gates decide.

The five questions are those of CoEvolve's judge; see `tools.synthesis.prompts`. A model that fails
again and again is left alone for a while, so that it does not hold up the validation.
"""

import structlog

from coevolve.environments.tools.synthesis import prompts
from coevolve.environments.tools.synthesis.accounts import FindAccount
from coevolve.environments.tools.synthesis.answers import read_judgement
from coevolve.environments.tools.synthesis.structured_call import StructuredCall, ordinal_of
from coevolve.llm.breaker import Breaker
from coevolve.llm.client import Chat
from protocols.errors import AnswerError, EndpointError, OverBudgetError
from protocols.evolution import NO_OPINION, Candidate, Opinion
from protocols.synthesizers import EndpointModel

FIRST_ORDINAL = 2**40
"""Above the ordinals of any synthesis."""

log = structlog.get_logger()


class EndpointJudge:
    """Asks an endpoint's model whether a candidate is sound."""

    def __init__(self, model: EndpointModel, *, account_of: FindAccount) -> None:
        self._model = model
        self._chat = Chat(model)
        self._account_of = account_of
        self._breaker = Breaker()

    async def opinion(self, candidate: Candidate) -> Opinion:
        """Return the model's opinion, or `NO_OPINION` if its answer is not usable."""
        if reason := self._breaker.rests:
            log.info("no_opinion", candidate=candidate.candidate_id, reason=reason)
            return NO_OPINION
        account = await self._account_of(candidate)
        try:
            async with account.calls as calls:
                structured = StructuredCall(
                    self._chat,
                    self._model,
                    calls,
                    signal_id=candidate.signal_id,
                    kind=account.kind,
                )
                judgement = await structured.ask(
                    ordinal_of(candidate.candidate_id, FIRST_ORDINAL),
                    "judge",
                    prompts.judge(candidate),
                    read_judgement,
                )
        except (EndpointError, AnswerError, OverBudgetError) as error:
            if not isinstance(error, OverBudgetError):
                self._breaker.failed(error)
            log.warning("no_opinion", candidate=candidate.candidate_id, reason=str(error))
            return NO_OPINION
        self._breaker.answered()
        return Opinion(judge=self._model.model, success=judgement.success, reason=judgement.reason)

    async def close(self) -> None:
        """Close the connections."""
        await self._chat.close()

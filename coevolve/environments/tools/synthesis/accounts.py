"""Questions about candidates: where their calls are recorded, and which budget they use."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeVar

from coevolve.environments.tools.synthesis.structured_call import (
    Purpose,
    StructuredCall,
    ordinal_of,
)
from coevolve.llm.client import Chat, PromptMessage
from protocols.evolution import Candidate, SignalKind
from protocols.interfaces import CallLog
from protocols.synthesizers import EndpointModel

T = TypeVar("T")


@dataclass(frozen=True)
class Account:
    """The record of calls about one candidate."""

    calls: AbstractAsyncContextManager[CallLog]
    """Opened for one question."""

    kind: SignalKind
    """The kind of the candidate's signal."""


FindAccount = Callable[[Candidate], Awaitable[Account]]


class CandidateQuestions:
    """Asks an endpoint's model about candidates, for a judge or a reader."""

    def __init__(self, model: EndpointModel, purpose: Purpose, account_of: FindAccount) -> None:
        """Ask ``model``; ``account_of`` finds where the calls are recorded."""
        self._model = model
        self._purpose: Purpose = purpose
        self._account_of = account_of
        self._chat = Chat(model)

    async def ask(
        self,
        candidate: Candidate,
        first_ordinal: int,
        messages: Sequence[PromptMessage],
        read: Callable[[str], T],
    ) -> T:
        """Return what ``read`` makes of the answer; its ordinal is ``first_ordinal`` or above.

        Raises EndpointError, AnswerError and OverBudgetError as `StructuredCall.ask` does.
        """
        account = await self._account_of(candidate)
        async with account.calls as calls:
            structured = StructuredCall(
                self._chat,
                self._model,
                calls,
                signal_id=candidate.signal_id,
                kind=account.kind,
            )
            ordinal = ordinal_of(candidate.candidate_id, first_ordinal)
            return await structured.ask(ordinal, self._purpose, messages, read)

    async def close(self) -> None:
        """Close the connections."""
        await self._chat.close()

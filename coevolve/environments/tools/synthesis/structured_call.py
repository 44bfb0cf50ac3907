"""Questions to an endpoint's model about one signal: recorded, budgeted, and retried once."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import msgspec
import structlog

from coevolve.environments.tools.synthesis.answers import UnusableAnswerError
from coevolve.environments.tools.synthesis.prompt_parts import again
from coevolve.llm.client import Chat, PromptMessage, cost_usd, most_prompt_tokens
from protocols.errors import AnswerError, EndpointError
from protocols.evolution import CallFailed, ModelCall, SignalKind
from protocols.interfaces import CallLog
from protocols.synthesizers import EndpointModel

T = TypeVar("T")

Purpose = Literal["reflect", "explore", "abstract", "judge", "read"]

ORDINALS = 2
"""Ordinals of one question: its own, and the next one for the retry."""

_SHOWN_CHARS = 200


def ordinal_of(candidate_id: str, first: int) -> int:
    """Return the ordinal of the one question about a candidate.

    It follows from the digest of the candidate's id; it is at least ``first``, and less than 2**33
    above it.
    """
    digest = hashlib.blake2b(candidate_id.encode(), digest_size=4).digest()
    return first + ORDINALS * int.from_bytes(digest)


log = structlog.get_logger()


class StructuredCall:
    """Asks the model's questions about one signal."""

    def __init__(
        self, chat: Chat, model: EndpointModel, calls: CallLog, *, signal_id: str, kind: SignalKind
    ) -> None:
        self._chat = chat
        self._model = model
        self._calls = calls
        self._signal_id = signal_id
        self._kind: SignalKind = kind

    async def ask(
        self,
        ordinal: int,
        purpose: Purpose,
        messages: Sequence[PromptMessage],
        read: Callable[[str], T],
    ) -> T:
        """Return the answer as parsed by ``read``; it uses `ORDINALS` ordinals from ``ordinal`` on.

        Raises:
            AnswerError: ``read`` raised UnusableAnswerError twice.
            EndpointError: The model does not answer.
            OverBudgetError: The call may exceed the budget; it was not made.
        """
        complaints: list[str] = []
        for attempt in range(ORDINALS):
            call = await self._call(ordinal + attempt, purpose, messages)
            try:
                return read(call.answer)
            except UnusableAnswerError as error:
                complaints.append(str(error))
                messages = again(messages, call.answer, str(error))
                shown = call.answer[:_SHOWN_CHARS]
                log.warning(
                    "unusable_answer", signal=self._signal_id, purpose=purpose, answer=shown
                )
        raise AnswerError(
            f"the model {self._model.model} at {self._model.base_url} was asked twice to {purpose} "
            f"for signal {self._signal_id} and gave no usable answer: "
            f"{'; then: '.join(complaints)}; "
            "a larger max_answer_tokens or a stronger model may help"
        )

    async def _call(
        self,
        ordinal: int,
        purpose: Purpose,
        messages: Sequence[PromptMessage],
    ) -> ModelCall:
        """Return the recorded call, or make the call and record it."""
        recorded = await self._calls.recorded(ordinal)
        if recorded is not None:
            return recorded
        most_prompt, most_answer = most_prompt_tokens(messages), self._model.max_answer_tokens
        most_usd = cost_usd(self._model, most_prompt, most_answer)
        await self._calls.allow(most_prompt, most_answer, most_usd)
        try:
            reply = await self._chat.ask(messages)
        except EndpointError as error:
            await self._calls.failed(
                CallFailed(
                    signal_id=self._signal_id,
                    ordinal=ordinal,
                    purpose=purpose,
                    model=self._model.model,
                    reason=str(error),
                )
            )
            raise
        call = ModelCall(
            signal_id=self._signal_id,
            ordinal=ordinal,
            purpose=purpose,
            kind=self._kind,
            model=self._model.model,
            prompt=msgspec.json.encode(messages).decode(),
            answer=reply.text,
            prompt_tokens=reply.prompt_tokens,
            answer_tokens=reply.answer_tokens,
            cost_usd=cost_usd(self._model, reply.prompt_tokens, reply.answer_tokens),
            wall_s=reply.wall_s,
        )
        await self._calls.note(call)
        return call


class Unrecorded:
    """A `protocols.interfaces.CallLog` of calls that belong to no signal; it keeps none."""

    async def recorded(self, ordinal: int) -> ModelCall | None:
        """Return None."""
        del ordinal

    async def allow(self, prompt_tokens: int, answer_tokens: int, cost_usd: float) -> None:
        """Allow every call."""

    async def note(self, call: ModelCall) -> None:
        """Keep nothing."""

    async def failed(self, call: CallFailed) -> None:
        """Keep nothing."""

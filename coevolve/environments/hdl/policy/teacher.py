"""A teacher: another model that writes testbenches from which the policy learns.

Guarantees: a teacher gets the policy's own prompt for the same state, with ``rules`` plus rules of
syntax (`hdl.policy.instructions`). The journal records, and training uses, the policy's prompt
without these rules, and the answer in the policy's tokens with its end. A teacher's reasoning is
left out. A call that is in the journal is not repeated, and no call exceeds the budget.

Source: the full-teacher and imitation stages of LLM4Cov (arXiv 2602.16953), section 3.

Deviation: an answer longer than the policy's maximum is cut there, like one of the policy's own.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Protocol

import msgspec

from coevolve.environments.hdl.config import LocalTeacher
from coevolve.environments.hdl.policy.steps import Step
from coevolve.environments.hdl.policy.transition import ChatText
from coevolve.environments.sdk import (
    Breaker,
    Chat,
    PromptMessage,
    Said,
    cost_usd,
    most_prompt_tokens,
    without_thoughts,
)
from protocols.errors import EndpointError
from protocols.evolution import CallFailed, ModelCall
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import CallLog, Generator
from protocols.synthesizers import EndpointModel

if TYPE_CHECKING:
    from coevolve.environments.hdl.policy.chat import ChatStepRenderer
    from coevolve.environments.sdk import ChatTemplate


class Teacher(Protocol):
    """A model that answers chats."""

    @property
    def name(self) -> str:
        """The model's name in records."""
        ...

    @property
    def max_answer_tokens(self) -> int:
        """Maximum length of an answer, in tokens."""
        ...

    async def answer(self, messages: Sequence[ChatText], *, seed: int) -> Said:
        """Return the answer; a model that cannot be seeded ignores ``seed``.

        Raises:
            EndpointError: The model gave no answer.
            GeneratorError: The engine failed.
        """
        ...

    def cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return the cost of a call with these tokens, in USD."""
        ...

    async def close(self) -> None:
        """Release the model."""
        ...


class EndpointTeacher:
    """A `Teacher` behind an OpenAI-compatible server."""

    def __init__(self, model: EndpointModel) -> None:
        self._model = model
        self._chat = Chat(model, form="text")
        self._breaker = Breaker()

    @property
    def name(self) -> str:
        return self._model.model

    @property
    def max_answer_tokens(self) -> int:
        return self._model.max_answer_tokens

    async def answer(self, messages: Sequence[ChatText], *, seed: int) -> Said:
        """Return the server's answer; the server chooses its own seed.

        Raises EndpointError, at once while the server rests after failures in a row.
        """
        del seed
        if reason := self._breaker.rests:
            raise EndpointError(f"the teacher {self._model.model} rests: {reason}")
        try:
            said = await self._chat.ask(_chat(messages))
        except EndpointError as error:
            self._breaker.failed(error)
            raise
        self._breaker.answered()
        return said

    def cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return the cost at the configured prices."""
        return cost_usd(self._model, prompt_tokens, answer_tokens)

    async def close(self) -> None:
        await self._chat.close()


class InProcessTeacher:
    """A `Teacher` whose weights are loaded in this process."""

    def __init__(
        self, settings: LocalTeacher, generator: Generator, template: "ChatTemplate"
    ) -> None:
        """Use ``generator``, which serves the model of ``settings``, with the model's ``template``.

        `close` closes the generator.
        """
        self._settings = settings
        self._generator = generator
        self._template = template
        self._numbers = count()

    @property
    def name(self) -> str:
        return self._settings.model

    @property
    def max_answer_tokens(self) -> int:
        return self._settings.max_answer_tokens

    async def answer(self, messages: Sequence[ChatText], *, seed: int) -> Said:
        """Sample the answer. Raises EndpointError if the prompt leaves no room for one."""
        started = monotonic()
        prompt_ids = self._template.opening(
            [{"role": each.role, "content": each.text} for each in messages]
        )
        generation = await self._sample(prompt_ids, seed)
        ends = int(generation.stopped)
        return Said(
            text=self._template.decode(generation.token_ids[: len(generation.token_ids) - ends]),
            prompt_tokens=len(prompt_ids),
            answer_tokens=len(generation.token_ids),
            wall_s=monotonic() - started,
        )

    def cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return 0: a local model has no price."""
        del prompt_tokens, answer_tokens
        return 0.0

    async def close(self) -> None:
        await self._generator.close()

    async def _sample(self, prompt_ids: tuple[int, ...], seed: int) -> Generation:
        room = self._settings.max_tokens - len(prompt_ids)
        if room < 1:
            raise EndpointError(
                f"the teacher {self.name} needs a prompt shorter than "
                f"environment.teacher.model.max_tokens = {self._settings.max_tokens}, found "
                f"{len(prompt_ids)} tokens; raise it, or lower environment.feedback_characters"
            )
        conversation = f"teacher-{next(self._numbers)}"
        try:
            return await self._generator.generate(
                GenerationRequest(
                    conversation_id=conversation,
                    prompt_ids=prompt_ids,
                    max_tokens=min(room, self.max_answer_tokens),
                    stop_ids=self._template.stop_ids,
                    temperature=self._settings.temperature,
                    seed=seed,
                )
            )
        finally:
            await self._generator.release(conversation)


OpenLog = Callable[[str], AbstractAsyncContextManager[CallLog]]
"""Opens the log of the calls for one rollout, which its task and seed identify."""


@dataclass(frozen=True, kw_only=True)
class TeacherWriter:
    """A teacher as a `hdl.policy.steps.StepWriter`, in the policy's tokens."""

    teacher: Teacher
    renderer: "ChatStepRenderer"
    """The policy's renderer."""

    rules: bool
    served: Callable[[], int]
    """Returns the served policy version. The teacher's tokens are recorded under it, so that they
    count as fresh as the policy's."""

    open_log: OpenLog

    async def write(self, step: Step, session: str, *, seed: int) -> Generation:
        del session
        messages = self.renderer.messages(step.task, step.design, step.points, rules=self.rules)
        call = await self._call(call_id(step.task.task_id, seed), messages, seed)
        whole = self.renderer.written(_without_reasoning(call.answer))
        ids = whole[: step.max_tokens]
        return Generation(
            token_ids=ids,
            logprobs=(0.0,) * len(ids),
            versions=(self.served(),) * len(ids),
            stopped=len(ids) == len(whole),
        )

    async def _call(self, rollout: str, messages: Sequence[ChatText], seed: int) -> ModelCall:
        """Return the recorded call, or make the call, record it and return it."""
        async with self.open_log(rollout) as log:
            recorded = await log.recorded(0)
            if recorded is not None:
                return recorded
            chat, most_answer = _chat(messages), self.teacher.max_answer_tokens
            most = most_prompt_tokens(chat)
            await log.allow(most, most_answer, self.teacher.cost_usd(most, most_answer))
            try:
                answer = await self.teacher.answer(messages, seed=seed)
            except EndpointError as error:
                await log.failed(
                    CallFailed(
                        signal_id=rollout,
                        ordinal=0,
                        purpose="teach",
                        model=self.teacher.name,
                        reason=str(error),
                    )
                )
                raise
            call = ModelCall(
                signal_id=rollout,
                ordinal=0,
                purpose="teach",
                kind="teaching",
                model=self.teacher.name,
                prompt=msgspec.json.encode(chat).decode(),
                answer=answer.text,
                prompt_tokens=answer.prompt_tokens,
                answer_tokens=answer.answer_tokens,
                cost_usd=self.teacher.cost_usd(answer.prompt_tokens, answer.answer_tokens),
                wall_s=answer.wall_s,
            )
            await log.note(call)
            return call


def call_id(task_id: str, seed: int) -> str:
    """Return the id under which a teacher's call is recorded: its task and its seed."""
    return f"{task_id}#{seed}"


def _chat(messages: Sequence[ChatText]) -> tuple[PromptMessage, ...]:
    return tuple(PromptMessage(role=each.role, content=each.text) for each in messages)


def _without_reasoning(answer: str) -> str:
    """Return an answer without its reasoning; empty if the reasoning does not end."""
    try:
        return without_thoughts(answer)
    except ValueError:
        return ""

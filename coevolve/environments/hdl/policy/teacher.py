"""A teacher: another model that writes testbenches, which the policy learns to write.

Promises: a teacher sees the policy's own prompt for the same state, with ``rules`` and rules of
syntax besides (`hdl.policy.instructions`); what is recorded, and trained on, is the policy's
prompt without them and the answer in the policy's tokens, its end included. What a teacher thought
is left out. A call that the journal has is not made again, and none beyond the budget.

Source: the full-teacher and imitation stages of LLM4Cov (arXiv 2602.16953), section 3.

Deviation: an answer longer than the policy may write ends the step as the policy's own would.
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
from coevolve.environments.tools.chat.calls import spoken
from coevolve.llm.client import Chat, Message, Said, cost_usd, most_prompt_tokens
from protocols.errors import EndpointError
from protocols.evolution import ModelCall
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import CallLog, Generator
from protocols.synthesizers import EndpointModel

if TYPE_CHECKING:
    from coevolve.environments.hdl.policy.chat import ChatStepRenderer
    from coevolve.models.chat_template import ChatTemplate


class Teacher(Protocol):
    """A model that answers chats."""

    @property
    def name(self) -> str:
        """How records call it."""
        ...

    @property
    def max_answer_tokens(self) -> int:
        """How long an answer may be."""
        ...

    async def answer(self, messages: Sequence[ChatText], *, seed: int) -> Said:
        """Return the answer; a model that cannot be seeded passes over ``seed``.

        Raises:
            EndpointError: There is none.
            GeneratorError: The engine broke.
        """
        ...

    def cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return what so many tokens cost."""
        ...

    async def close(self) -> None:
        """Let go of the model."""
        ...


class EndpointTeacher:
    """A `Teacher` behind an OpenAI-compatible server."""

    def __init__(self, model: EndpointModel) -> None:
        self._model = model
        self._chat = Chat(model, form="text")

    @property
    def name(self) -> str:
        """The server's name of the model."""
        return self._model.model

    @property
    def max_answer_tokens(self) -> int:
        """As configured."""
        return self._model.max_answer_tokens

    async def answer(self, messages: Sequence[ChatText], *, seed: int) -> Said:
        """Ask the server, which draws by itself. Raises EndpointError."""
        del seed
        return await self._chat.ask(_chat(messages))

    def cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return the cost at the configured prices."""
        return cost_usd(self._model, prompt_tokens, answer_tokens)

    async def close(self) -> None:
        """Close the connections."""
        await self._chat.close()


class InProcessTeacher:
    """A `Teacher` whose weights are here."""

    def __init__(
        self, settings: LocalTeacher, generator: Generator, template: "ChatTemplate"
    ) -> None:
        """Ask ``generator``, which serves the model of ``settings``, in the words of its template.

        It is closed with the teacher.
        """
        self._settings = settings
        self._generator = generator
        self._template = template
        self._numbers = count()

    @property
    def name(self) -> str:
        """The model, as configured."""
        return self._settings.model

    @property
    def max_answer_tokens(self) -> int:
        """As configured."""
        return self._settings.max_answer_tokens

    async def answer(self, messages: Sequence[ChatText], *, seed: int) -> Said:
        """Sample the answer. Raises EndpointError where the prompt leaves no room for one."""
        started = monotonic()
        chat = [{"role": m.role, "content": self._template.plain(m.text)} for m in messages]
        prompt_ids = self._template.encode(self._template.render(chat, prompts=True))
        generation = await self._sampled(prompt_ids, seed)
        ends = int(generation.stopped)
        return Said(
            text=self._template.decode(generation.token_ids[: len(generation.token_ids) - ends]),
            prompt_tokens=len(prompt_ids),
            answer_tokens=len(generation.token_ids),
            wall_s=monotonic() - started,
        )

    def cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return 0: nobody sends a bill."""
        del prompt_tokens, answer_tokens
        return 0.0

    async def close(self) -> None:
        """End the engine."""
        await self._generator.close()

    async def _sampled(self, prompt_ids: tuple[int, ...], seed: int) -> Generation:
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
"""Returns the calls that were made for one rollout, by its task and seed."""


@dataclass(frozen=True, kw_only=True)
class TeacherWriter:
    """A teacher as a `hdl.policy.steps.StepWriter`, in the policy's tokens."""

    teacher: Teacher
    renderer: "ChatStepRenderer"
    """The policy's."""

    rules: bool
    served: Callable[[], int]
    """Returns the policy version that is served: what the teacher's tokens are recorded under, so
    that they are as fresh as the policy's."""

    open_log: OpenLog

    async def write(self, step: Step, session: str, *, seed: int) -> Generation:
        """Ask the teacher; see `hdl.policy.steps.StepWriter`."""
        del session
        messages = self.renderer.messages(step.task, step.design, step.points, rules=self.rules)
        call = await self._call(call_id(step.task.task_id, seed), messages, seed)
        whole = self.renderer.written(_said(call.answer))
        ids = whole[: step.max_tokens]
        return Generation(
            token_ids=ids,
            logprobs=(0.0,) * len(ids),
            versions=(self.served(),) * len(ids),
            stopped=len(ids) == len(whole),
        )

    async def _call(self, rollout: str, messages: Sequence[ChatText], seed: int) -> ModelCall:
        """Return the recorded call, or make it and return when it is recorded."""
        async with self.open_log(rollout) as log:
            recorded = await log.recorded(0)
            if recorded is not None:
                return recorded
            chat, most_answer = _chat(messages), self.teacher.max_answer_tokens
            most = most_prompt_tokens(chat)
            await log.allow(most, most_answer, self.teacher.cost_usd(most, most_answer))
            said = await self.teacher.answer(messages, seed=seed)
            call = ModelCall(
                signal_id=rollout,
                ordinal=0,
                purpose="teach",
                kind="teaching",
                model=self.teacher.name,
                prompt=msgspec.json.encode(chat).decode(),
                answer=said.text,
                prompt_tokens=said.prompt_tokens,
                answer_tokens=said.answer_tokens,
                cost_usd=self.teacher.cost_usd(said.prompt_tokens, said.answer_tokens),
                wall_s=said.wall_s,
            )
            await log.note(call)
            return call


def call_id(task_id: str, seed: int) -> str:
    """Return what a teacher's call is recorded under: what is attempted, and by which draw."""
    return f"{task_id}#{seed}"


def _chat(messages: Sequence[ChatText]) -> tuple[Message, ...]:
    return tuple(Message(role=each.role, content=each.text) for each in messages)


def _said(answer: str) -> str:
    """Return an answer without its thinking; nothing where that does not end."""
    try:
        return spoken(answer, thinking=False)
    except ValueError:
        return ""

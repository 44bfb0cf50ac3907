"""A model behind an OpenAI-compatible server in a policy's place: an engine and its renderer.

An agent works with tokens (`coevolve.environments.tools.agent`). Here a token is a character of the
conversation or one of a few marks: who speaks next, and the end of a message. So the agent, its
limits and its grading are the same for an endpoint as for a policy, and a conversation is recorded
as what was said. Tools are listed as for ``policy.chat.tools: prompt``, and calls are lists of
Python calls, because servers differ in what they read of a model's own calls.
"""

from collections.abc import Sequence
from typing import Any, cast

from coevolve.environments.tools.chat.renderer import ChatRenderer
from coevolve.llm.client import Chat, PromptMessage
from coevolve.models.chat_template import Message
from protocols.config import ChatConfig
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest
from protocols.learning import PolicyVersion, ServedWeights
from protocols.synthesizers import EndpointModel

_FIRST_MARK = 0x110000
"""The first number that is no character."""

_ROLES = ("system", "user", "assistant")
_MARKS = {role: _FIRST_MARK + place for place, role in enumerate(_ROLES)}
END = _FIRST_MARK + len(_ROLES)


def endpoint_renderer(chat: ChatConfig, *, ends_turn: bool) -> ChatRenderer:
    """Return the renderer of an endpoint's conversations."""
    return ChatRenderer(cast("Any", _Characters()), chat, ends_turn=ends_turn)


class _Characters:
    """The part of a `coevolve.models.chat_template.ChatTemplate` that a renderer calls."""

    prompt = ""
    stop_ids = (END,)

    def opening(
        self, messages: Sequence[Message], tools: Sequence[Message] = ()
    ) -> tuple[int, ...]:
        del tools  # the system message lists them
        return (*(each for message in messages for each in _encoded(message)), _MARKS["assistant"])

    def after(self, messages: Sequence[Message], said: Sequence[int] = ()) -> tuple[int, ...]:
        del said
        return self.opening(messages)

    def written(self, message: Message) -> tuple[int, ...]:
        return (*map(ord, message["content"]), END)

    def said(self, token_ids: Sequence[int]) -> str:
        """Return the text of a complete message. Raises ValueError if it was cut."""
        if token_ids[-1] != END:
            raise ValueError("a message needs an end")
        return self.decode(token_ids[:-1])

    def decode(self, token_ids: Sequence[int]) -> str:
        return decoded(token_ids)

    def unmarked(self, text: str) -> str:
        return text

    def check_border(self, between: object, histories: object) -> None:
        """Do nothing: borders are marks."""


class EndpointEngine:
    """A `protocols.interfaces.Generator` that asks a server for each message."""

    def __init__(self, model: EndpointModel) -> None:
        self._chat = Chat(model, form="text")
        self.prompt_tokens = 0
        self.answer_tokens = 0

    async def generate(self, request: GenerationRequest) -> Generation:
        """Return the model's next message. Raises EndpointError."""
        said = await self._chat.ask(_messages(request.prompt_ids))
        self.prompt_tokens += said.prompt_tokens
        self.answer_tokens += said.answer_tokens
        ids = (*map(ord, said.text), END)[: request.max_tokens]
        return Generation(
            token_ids=ids,
            logprobs=(0.0,) * len(ids),
            versions=(0,) * len(ids),
            stopped=ids[-1] == END,
        )

    async def release(self, conversation_id: str) -> None:
        """Do nothing: a server keeps no conversation."""

    async def load(self, version: PolicyVersion) -> ServedWeights:
        """Refuse: an endpoint's weights are its own. Raises GeneratorError."""
        raise GeneratorError(f"an endpoint serves no version {version.version} of a policy")

    def cpu_s(self) -> float:
        return 0.0

    async def close(self) -> None:
        await self._chat.close()


def decoded(token_ids: Sequence[int]) -> str:
    """Return a conversation as text, with a line for each mark."""
    return "".join(_text(each) for each in token_ids)


def _text(token_id: int) -> str:
    if token_id < _FIRST_MARK:
        return chr(token_id)
    return "\n" if token_id == END else f"[{_ROLES[token_id - _FIRST_MARK]}]\n"


def _encoded(message: Message) -> tuple[int, ...]:
    return (_MARKS[message["role"]], *map(ord, message["content"]), END)


def _messages(token_ids: Sequence[int]) -> list[PromptMessage]:
    """Return the messages of a conversation that ends where the assistant is to speak."""
    found: list[tuple[int, list[str]]] = []
    for each in token_ids:
        if _FIRST_MARK <= each < END:
            found.append((each, []))
        elif each != END:
            found[-1][1].append(chr(each))
    return [
        PromptMessage(role=_ROLES[mark - _FIRST_MARK], content="".join(characters))
        for mark, characters in found[:-1]
    ]

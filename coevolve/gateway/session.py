"""One attempt at the policy's endpoint: its conversation, in the tokens that were sampled.

A client sends a conversation as messages, each time from its beginning. What is known of it is
never rendered or tokenized again: the request continues on the sampled tokens, and only what is new
is added (`coevolve.models.chat_template`). `coevolve.gateway.matching` recognizes sampled messages.

A session has one conversation. A request that does not continue it (an edited history, other tools,
a helper's own conversation) is refused, and the attempt has ended without a result
(`GatewaySession.branched`). Nothing is trained that was not sampled, and nothing twice.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from coevolve.gateway.matching import Notes, difference
from coevolve.gateway.messages import Call, Chat, Function, Message, RefusedError, Said
from coevolve.gateway.written import Written, read, shown
from coevolve.models.model_folder import model_folder
from coevolve.rollouts.agent import sampling_seed
from coevolve.rollouts.transcript import Transcript
from protocols.config import RolloutConfig, RunConfig
from protocols.errors import ConfigError, GeneratorError
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import Generator
from protocols.rollouts import Action

if TYPE_CHECKING:
    from coevolve.models.chat_template import ChatTemplate

TOKEN_CHARS = 256
"""Characters beyond which a text is not tokenized to find out that it is too long: no token has as
many."""

CHAR_BYTES = 6
"""Maximum bytes of a character in JSON, but for a few that take two such escapes."""

MARGIN_BYTES = 4 << 20
"""Bytes of a body besides the characters of its messages."""

LARGE_CHARS = 1 << 16
CALL_BYTES = 8
BRANCHED = "conversation_branched"
TOO_LONG = "context_length_exceeded"


NamedCall = tuple[str, dict[str, Any]]
"""Name and arguments of a call."""

CallReader = Callable[[str, Sequence[dict[str, Any]]], tuple[str, Sequence[NamedCall]]]
"""Returns the words and the calls of a message, for these tools. Raises ValueError if calls cannot
be read."""


class EndedError(Exception):
    """The attempt has ended, so that there is nobody to answer."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a session samples."""

    generator: Generator
    template: "ChatTemplate"
    limits: RolloutConfig
    temperature: float
    read_calls: CallReader | None = None
    """None where the model's template lists no tools."""

    @classmethod
    def load(cls, config: RunConfig, generator: Generator, temperature: float) -> "Sampling":
        """Return how the policy of a run is sampled. Raises ConfigError if it has no template."""
        from coevolve.models.chat_template import SENTINEL, ChatTemplate  # it imports transformers

        variables = {"enable_thinking": config.policy.chat.thinking}
        template = ChatTemplate.load(
            model_folder(config.policy.model), variables=variables, tools=True
        )
        first, following = ({"role": "user", "content": each} for each in ("a", "b"))
        talk, said = ({"role": "assistant", "content": each} for each in ("Done.", SENTINEL))
        template.check_border([following], ([first, said], [first, talk, following, said]))
        return cls(
            generator=generator,
            template=template,
            limits=config.rollout,
            temperature=temperature,
        )


@dataclass(kw_only=True)
class Counts:
    """What a session counts, each by name."""

    notes: Counter[str] = field(default_factory=Counter[str])
    """What the client changed in its history without effect."""

    refused: Counter[str] = field(default_factory=Counter[str])
    """Refused requests, by their code."""

    ignored: Counter[str] = field(default_factory=Counter[str])
    """Fields of requests that would have changed how is sampled."""

    retries: int = 0


@dataclass(frozen=True, kw_only=True)
class _Request:
    """The last request for which something was or is sampled."""

    content: bytes
    said: "asyncio.Task[Said]"


class GatewaySession:
    """The conversation of one attempt."""

    def __init__(self, name: str, sampling: Sampling, seed: int) -> None:
        """``name`` identifies the conversation in the engine; ``seed`` is the attempt's."""
        self._name = name
        self._sampling = sampling
        self._seed = seed
        self._transcript = Transcript()
        self._history: list[Message | Said] = []
        self._tools: Sequence[dict[str, Any]] = ()
        self._written: Generation | None = None
        """The last sampled message."""

        self._last: _Request | None = None
        self._is_ended = False
        self.counts = Counts()
        self.branched = ""
        """Why a request did not continue the conversation; empty if all did."""

        self.is_full = False
        """Whether a request found no room for a further token."""

        self.error: GeneratorError | None = None
        """The engine's failure."""

    def actions(self) -> tuple[Action, ...]:
        """Return the sampled messages, each with the message that followed it."""
        texts = [each.text for each in self._history[1:]]
        return tuple(
            Action(turn=0, text=said.written, result=result, failed=False)
            for said, result in zip(self._history, [*texts, ""], strict=True)
            if isinstance(said, Said)
        )

    @property
    def transcript(self) -> Transcript:
        """The conversation's tokens."""
        return self._transcript

    @property
    def said(self) -> int:
        """The number of sampled messages."""
        return sum(isinstance(each, Said) for each in self._history)

    def check_size(self, body_bytes: int) -> None:
        """Refuse a body that cannot fit before it is read. Raises RefusedError."""
        if body_bytes > MARGIN_BYTES + CHAR_BYTES * self._most_chars:
            raise self._too_long(f"a body of {body_bytes} bytes")

    @property
    def _most_chars(self) -> int:
        return TOKEN_CHARS * self._sampling.limits.max_tokens

    async def chat(self, chat: Chat, *, is_retry: bool) -> Said:
        """Return the policy's next message; a repeated request gets the same one.

        ``is_retry`` says that the client tries a request again. Raises RefusedError,
        GeneratorError, and EndedError.
        """
        if self._is_ended:
            raise EndedError
        if self.branched:
            raise self._branch(self.branched)
        content = msgspec.json.encode((chat.messages, chat.tools))
        if self._last and self._last.content == content and self._is_same(is_retry=is_retry):
            self.counts.retries += 1
        else:
            if self._last and not self._last.said.done():
                raise self._branch("another request came while the policy wrote")
            said = asyncio.ensure_future(self._answered(chat))
            self._last = _Request(content=content, said=said)
        # A client that hangs up does not undo what is sampled.
        return await asyncio.shield(self._last.said)

    async def end(self) -> None:
        """Let the engine forget the conversation; later requests get no answer."""
        self._is_ended = True
        await self._sampling.generator.release(self._name)
        if self._last is not None:
            await asyncio.wait([self._last.said])

    def _is_same(self, *, is_retry: bool) -> bool:
        """Return whether the last request, sent again, wants its answer and no further one."""
        return self._last is not None and (is_retry or not self._last.said.done())

    async def _answered(self, chat: Chat) -> Said:
        try:
            return await self._sampled(chat)
        except ConfigError as error:
            raise RefusedError(f"the model's chat template refuses: {error}", "template") from error
        except GeneratorError as error:
            if self._is_ended:
                raise EndedError from error
            self.error = error
            raise

    async def _sampled(self, chat: Chat) -> Said:
        known, notes = self._known(chat)
        fed = await self._fed(chat, known)
        if self._is_ended:
            raise EndedError
        generation = await self._sampling.generator.generate(self._generation_of(chat, fed))
        written = read(self._sampling.template, generation, chat.request.stops)
        said = self._said(chat, written, len(self._transcript.token_ids) + len(fed))
        self.counts.notes.update(notes)
        self.counts.ignored.update(chat.ignored)
        self._transcript.feed(fed)
        self._transcript.add(written.generation)
        self._written = written.generation
        self._history += (*chat.messages[known:], said)
        self._tools = chat.tools
        return said

    def _said(self, chat: Chat, written: Written, prompt_tokens: int) -> Said:
        """Return a message as the client gets it; calls that cannot be read stay text."""
        words, calls = written.text, ()
        reader, template = self._sampling.read_calls, self._sampling.template
        if reader and chat.tools and chat.request.tool_choice != "none" and written.is_whole:
            try:
                words, calls = reader(written.text, chat.tools)
            except ValueError:
                self.counts.notes["call that cannot be read"] += 1
        ending = "tool_calls" if calls else "stop"
        return Said(
            text=shown(template, words),
            calls=tuple(_call(*each) for each in calls),
            written=shown(template, written.text),
            finish_reason=ending if written.is_whole else "length",
            stops=chat.request.stops,
            prompt_tokens=prompt_tokens,
            sampled_tokens=len(written.generation.token_ids),
        )

    def _generation_of(self, chat: Chat, fed: Sequence[int]) -> GenerationRequest:
        """Return the request for a message after ``fed``. Raises RefusedError without room."""
        limits = self._sampling.limits
        prompt = (*self._transcript.token_ids, *fed)
        room = limits.max_tokens - len(prompt)
        if room < 1:
            raise self._too_long(f"{len(prompt)} tokens")
        most = limits.max_call_tokens
        return GenerationRequest(
            conversation_id=self._name,
            prompt_ids=prompt,
            max_tokens=min(room, most, chat.request.most_tokens or most),
            stop_ids=self._sampling.template.stop_ids,
            temperature=self._sampling.temperature,
            seed=sampling_seed(self._seed, len(prompt)),
        )

    def _known(self, chat: Chat) -> tuple[int, Notes]:
        """Return how many messages are known, and what is changed in them without effect.

        Raises RefusedError if the request does not continue the conversation.
        """
        if not self._history:
            return 0, ()
        if chat.tools != self._tools:
            raise self._branch("other tools")
        notes: list[str] = []
        for mine, yours in zip(self._history, chat.messages, strict=False):
            reason, changed = _compared(mine, yours)
            if reason:
                raise self._branch(reason)
            notes += changed
        known = len(self._history)
        if len(chat.messages) < known:
            is_last = len(chat.messages) == known - 1
            raise self._branch("the same request again" if is_last else "the history was cut")
        if any(each.role == "assistant" for each in chat.messages[known:]):
            raise self._branch("a message of the assistant that nobody sampled")
        return known, tuple(notes)

    async def _fed(self, chat: Chat, known: int) -> tuple[int, ...]:
        """Return the tokens of the new messages. Raises RefusedError, and ConfigError."""
        new = chat.messages[known:]
        if chat.tools and self._sampling.read_calls is None:
            raise RefusedError("tools need a model whose chat template lists them, found another")
        chars = sum(map(_chars, new))
        if self._written is None:
            chars += len(msgspec.json.encode(chat.tools))
        if chars > self._most_chars:
            raise self._too_long(f"{chars} characters")
        messages = [_plain(each) for each in new]
        if chars < LARGE_CHARS:
            return self._tokens(messages, chat.tools)
        return await asyncio.to_thread(self._tokens, messages, chat.tools)  # others go on meanwhile

    def _tokens(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]
    ) -> tuple[int, ...]:
        """Return the tokens of messages after the conversation so far. Raises ConfigError."""
        template = self._sampling.template
        if self._written is None:
            return template.opening(messages, tools)
        between = template.after(messages, self._written.token_ids)
        if self._written.stopped or not template.end:
            return between
        return (template.stop_ids[0], *between)

    def _too_long(self, found: str) -> RefusedError:
        self.is_full = True
        most = self._sampling.limits.max_tokens
        sentence = f"a conversation needs room within {most} tokens, found {found}"
        return RefusedError(sentence, TOO_LONG)

    def _branch(self, reason: str) -> RefusedError:
        self.branched = self.branched or reason
        return RefusedError(
            f"a request needs to continue the attempt's one conversation, found {reason}", BRANCHED
        )


def _compared(mine: Message | Said, yours: Message) -> tuple[str, Notes]:
    """Return why a message is not the one that is known, and its changes without effect."""
    if isinstance(mine, Said):
        return difference(mine, yours)
    is_same = (mine.speaker, mine.text, mine.calls) == (yours.speaker, yours.text, yours.calls)
    return "" if is_same else "the history was edited", ()


def _call(name: str, arguments: Mapping[str, Any]) -> Call:
    """Return a call with an id by which it is known again."""
    written = msgspec.json.encode(arguments).decode()
    number = secrets.token_hex(CALL_BYTES)
    return Call(id=f"call_{number}", function=Function(name=name, arguments=written))


def _chars(message: Message) -> int:
    return len(message.text) + sum(len(call.function.text) for call in message.calls)


def _plain(message: Message) -> dict[str, Any]:
    """Return a message as chat templates read it."""
    plain: dict[str, Any] = {"role": message.speaker, "content": message.text}
    if message.calls:
        plain["tool_calls"] = [
            {"type": "function", "function": {"name": each.name, "arguments": each.value}}
            for each in (call.function for call in message.calls)
        ]
    return plain

"""One attempt at the policy's endpoint: its conversations, in the tokens that were sampled.

A client sends a conversation as messages, each time from its beginning. What is known of it is
never rendered or tokenized again: the request continues on the sampled tokens, and only what is new
is added (`coevolve.models.chat_template`). `coevolve.gateway.matching` recognizes sampled messages.

A request that continues nothing (a helper's own conversation, a summary, an edited history, other
tools) begins a further conversation (`coevolve.gateway.conversations`), up to
``rollout.max_conversations``. Nothing is trained that was not sampled, and nothing twice.
"""

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from coevolve.gateway.conversations import (
    Branch,
    Found,
    MessageTree,
    Node,
    Sampled,
    TooManyError,
    token_ids_of,
)
from coevolve.gateway.messages import (
    NESTED,
    Call,
    Chat,
    Function,
    Message,
    RefusedError,
    Said,
)
from coevolve.gateway.tokens import check_known
from coevolve.gateway.written import Written, read, shown
from coevolve.models.model_folder import model_folder
from coevolve.rollouts.agent import sampling_seed, seed_of
from coevolve.rollouts.transcript import Transcript
from protocols.config import RolloutConfig, RunConfig
from protocols.errors import ConfigError, GeneratorError
from protocols.generation import GenerationRequest
from protocols.interfaces import Generator
from protocols.rollouts import Action, Traffic

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
CROWDED = "too_many_conversations"
TOO_LONG = "context_length_exceeded"

NamedCall = tuple[str, dict[str, Any]]
"""Name and arguments of a call."""

CallReader = Callable[[str, Sequence[dict[str, Any]]], tuple[str, Sequence[NamedCall]]]
"""Returns the words and the calls of a message, for these tools. Raises ValueError if calls cannot
be read."""

ToolWriter = Callable[[Sequence[dict[str, Any]], Sequence[dict[str, Any]]], list[dict[str, Any]]]
"""Returns messages with these tools, and with calls and answers, as words."""


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

    write_tools: ToolWriter | None = None
    """None where the template writes tools, calls and answers."""

    @classmethod
    def load(cls, config: RunConfig, generator: Generator, temperature: float) -> "Sampling":
        """Return how the policy of a run is sampled. Raises ConfigError if it has no template."""
        from coevolve.models.chat_template import SENTINEL, ChatTemplate  # it imports transformers

        variables = {"enable_thinking": config.policy.chat.thinking}
        template = ChatTemplate.load(
            model_folder(config.policy.model),
            variables=variables,
            tools=config.policy.chat.tools == "template",
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


@dataclass(kw_only=True)
class _Request:
    """A request for which something was or is sampled."""

    said: "asyncio.Task[Said]"
    is_heard: bool = False
    """Whether a client waited for the answer."""


class GatewaySession:
    """The conversations of one attempt."""

    def __init__(self, name: str, sampling: Sampling, seed: int) -> None:
        """``name`` identifies the attempt in the engine; ``seed`` is the attempt's."""
        self._name = name
        self._sampling = sampling
        self._seed = seed
        self._tree = MessageTree(sampling.limits.max_conversations)
        self._requests: dict[bytes, _Request] = {}
        """The last request of each content."""

        self._is_ended = False
        self.counts = Counts()
        self.is_full = False
        """Whether a request found no room for a further token."""

        self.is_crowded = False
        """Whether a request found no room for a further conversation."""

        self.error: GeneratorError | None = None
        """The engine's failure."""

    def actions(self) -> tuple[Action, ...]:
        """Return the sampled messages, each with a message that followed it."""
        return tuple(
            Action(
                turn=0,
                text=node.message.written,
                result=node.children[0].text if node.children else "",
                failed=False,
            )
            for node in self._tree.sampled
            if isinstance(node.message, Said)
        )

    def conversations(self) -> list[Transcript]:
        """Return the tokens of each conversation, in the order in which they began."""
        return self._tree.conversations()

    def traffic(self) -> Traffic:
        """Return what was counted."""
        return Traffic(
            branches=dict(self._tree.reasons),
            notes=dict(self.counts.notes),
            refused=dict(self.counts.refused),
            ignored=dict(self.counts.ignored),
            retries=self.counts.retries,
            broken_tokens=self._tree.broken_tokens(),
        )

    @property
    def said(self) -> int:
        """The number of sampled messages."""
        return len(self._tree.sampled)

    def check_size(self, body_bytes: int) -> None:
        """Refuse a body that cannot fit before it is read. Raises RefusedError."""
        if body_bytes > MARGIN_BYTES + CHAR_BYTES * self._most_chars:
            raise self._too_long(f"a body of {body_bytes} bytes")

    @property
    def _most_chars(self) -> int:
        return TOKEN_CHARS * self._sampling.limits.max_tokens

    async def chat(self, chat: Chat, *, is_retry: bool) -> Said:
        """Return the policy's next message.

        A request that is sent again gets the same one if ``is_retry`` says that the client tries
        again, while the first one is answered, and if no client waited for that answer. Otherwise
        it gets another sample. Raises RefusedError, GeneratorError, and EndedError.
        """
        if self._is_ended:
            raise EndedError
        if self.is_crowded:
            raise self._too_many()
        content = _content(chat)
        request = self._requests.get(content)
        if request and (is_retry or not request.said.done() or not request.is_heard):
            self.counts.retries += 1
        else:
            request = _Request(said=asyncio.ensure_future(self._answered(chat)))
            self._requests[content] = request
        try:
            # A client that hangs up does not undo what is sampled.
            said = await asyncio.shield(request.said)
        except (RefusedError, GeneratorError, EndedError):
            if self._requests.get(content) is request:
                del self._requests[content]
            raise
        request.is_heard = True
        return said

    async def end(self) -> None:
        """Let the engine forget the conversations; later requests get no answer."""
        self._is_ended = True
        for number in range(self._tree.begun):
            await self._sampling.generator.release(self._conversation_id(number))
        unfinished = [each.said for each in self._requests.values() if not each.said.done()]
        if unfinished:
            await asyncio.wait(unfinished)

    def _conversation_id(self, number: int) -> str:
        return f"{self._name}/{number}" if number else self._name

    async def _answered(self, chat: Chat) -> Said:
        try:
            return await self._sampled(chat)
        except ConfigError as error:
            raise RefusedError(f"the model's chat template refuses: {error}", "template") from error
        except RecursionError as error:
            raise RefusedError(NESTED) from error
        except TooManyError as error:
            raise self._too_many() from error
        except GeneratorError as error:
            if self._is_ended:
                raise EndedError from error
            self.error = error
            raise

    async def _sampled(self, chat: Chat) -> Said:
        template = self._sampling.template
        if chat.token_ids:
            check_known(chat.token_ids, template.vocabulary)
            found = self._tree.find_tokens(chat.token_ids)
            fed = chat.token_ids[len(token_ids_of(found.base)) :]
            messages = (Message(role="user", content=shown(template, template.decode(fed))),)
        else:
            messages = chat.messages
            found = self._tree.find(messages, chat.tools)
            fed = await self._fed(chat, found)
        if self._is_ended:
            raise EndedError
        prompt = (*token_ids_of(found.base), *fed)
        self._check_room(prompt)
        branch = self._tree.claim(found)
        try:
            request = self._generation_of(chat, prompt, branch)
            generation = await self._sampling.generator.generate(request)
        except BaseException:
            self._tree.give_up(branch)
            raise
        written = read(template, generation, chat.request.stops)
        said = self._said(chat, written, len(prompt))
        self.counts.notes.update(found.notes)
        self.counts.ignored.update(chat.ignored)
        sampled = Sampled(branch=branch, base=found.base, fed=fed, generation=written.generation)
        self._tree.add(found, messages, said, sampled)
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
            generation=written.generation,
        )

    def _check_room(self, prompt: Sequence[int]) -> None:
        """Raise RefusedError without room for a token after ``prompt``."""
        if len(prompt) >= self._sampling.limits.max_tokens:
            raise self._too_long(f"{len(prompt)} tokens")

    def _generation_of(
        self, chat: Chat, prompt: tuple[int, ...], branch: Branch
    ) -> GenerationRequest:
        limits = self._sampling.limits
        most = limits.max_call_tokens
        # Further conversations may have the same prompt, and need other samples of it.
        seed = seed_of(self._seed, -branch.number)
        return GenerationRequest(
            conversation_id=self._conversation_id(branch.number),
            prompt_ids=prompt,
            max_tokens=min(limits.max_tokens - len(prompt), most, chat.request.most_tokens or most),
            stop_ids=self._sampling.template.stop_ids,
            temperature=self._sampling.temperature,
            seed=sampling_seed(seed, len(prompt)),
        )

    async def _fed(self, chat: Chat, found: Found) -> tuple[int, ...]:
        """Return the tokens of the messages to add. Raises RefusedError, and ConfigError."""
        new = chat.messages[found.at :]
        if chat.tools and self._sampling.read_calls is None:
            needed = "tools need a model whose chat template lists them, found another"
            raise RefusedError(f"{needed}; set policy.chat.tools: signatures")
        chars = sum(map(_chars, new))
        if found.base is None:
            chars += len(msgspec.json.encode(chat.tools))
        if chars > self._most_chars:
            raise self._too_long(f"{chars} characters")
        messages = [each.plain() for each in new]
        if chars < LARGE_CHARS:
            return self._tokens(messages, chat.tools, found.base)
        # Others go on meanwhile.
        return await asyncio.to_thread(self._tokens, messages, chat.tools, found.base)

    def _tokens(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        base: Node | None,
    ) -> tuple[int, ...]:
        """Return the tokens of messages after those of ``base``. Raises ConfigError."""
        template, write = self._sampling.template, self._sampling.write_tools
        if base is None or base.sampled is None:
            messages, tools = (write(messages, tools), ()) if write else (messages, tools)
            return template.opening(messages, tools)
        messages = write(messages, ()) if write else messages
        generation = base.sampled.generation
        between = template.after(messages, generation.token_ids)
        if generation.stopped or not template.end:
            return between
        return (template.stop_ids[0], *between)

    def _too_long(self, found: str) -> RefusedError:
        self.is_full = True
        most = self._sampling.limits.max_tokens
        sentence = f"a conversation needs room within {most} tokens, found {found}"
        return RefusedError(sentence, TOO_LONG)

    def _too_many(self) -> RefusedError:
        self.is_crowded = True
        most = self._sampling.limits.max_conversations
        sentence = f"an attempt needs at most {most} conversations, found a further one"
        return RefusedError(sentence, CROWDED)


def _content(chat: Chat) -> bytes:
    """Return a digest of what a request asks for."""
    request = chat.request
    asked = (chat.messages, chat.tools, request.stops, request.most_tokens, request.tool_choice)
    return hashlib.sha256(msgspec.json.encode((asked, chat.token_ids))).digest()


def _call(name: str, arguments: Mapping[str, Any]) -> Call:
    """Return a call with an id by which it is known again."""
    written = msgspec.json.encode(arguments).decode()
    number = secrets.token_hex(CALL_BYTES)
    return Call(id=f"call_{number}", function=Function(name=name, arguments=written))


def _chars(message: Message) -> int:
    return len(message.text) + sum(len(call.function.text) for call in message.calls)

"""Client for one model behind an OpenAI-compatible server: messages in, its answer out.

Whatever a server sends or does is either an answer or an EndpointError, and one call with all its
tries and pauses takes at most ``timeout_s * tries``. `coevolve.llm.http` bounds the bytes of a
reply.

Only this module retries. It retries after a timeout, a lost connection, a truncated body, a body
that is not a chat completion, and errors that pass (`coevolve.llm.faults`): status 408, 409, 425,
429 and 5xx, unless the server says that the account has no credit. All others are final, and so is
a refusal.

Servers accept different settings. If a server refuses one (``response_format``, ``temperature``,
``max_tokens`` in favour of ``max_completion_tokens``, or a system message, whose text then begins
the user's first message), the client repeats the request without it. This does not count as a try.
After the server answers, the client omits that setting for good.

Not covered: tokens that the provider bills for a try whose answer never arrived.
"""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import msgspec

from coevolve.llm.completion import Completion, completion_in
from coevolve.llm.faults import Fault, ServerError, error_in, fault_of
from coevolve.llm.http import HttpClient, Reply, UnreadableReplyError
from coevolve.llm.keys import check_key, key_of, variable_of
from protocols.errors import EndpointError
from protocols.synthesizers import EndpointModel

FIRST_PAUSE_S = 0.5
"""Pause before the second try if the server gives no time; it doubles with each further try."""

REPLY_BYTES = 64 << 10
"""Size of a reply beside its text: names, counts, an error's message."""

BYTES_PER_TOKEN = 256
"""Maximum size of an answer's token in JSON. Thoughts, which some servers send beside the answer,
are part of its tokens."""

_NO_KEY = "none"
"""Placeholder key for servers that need none."""

_MESSAGE_TOKENS = 16
"""Allowance for the chat template's tokens around a message."""

_USUAL_BYTES_PER_TOKEN = 4
_REFUSING = (400, 415, 422)

_NO_SYSTEM = re.compile(
    r"system\W+(role|message|prompt|instruction)|roles?\b.{0,80}\b(system|alternate)"
    r"|only\b.{0,40}\broles|developer instruction",
    re.IGNORECASE | re.DOTALL,
)
"""How chat templates and servers refuse a system message; some do so with status 500."""

Setting = Literal["response_format", "temperature", "max_tokens", "system"]


class PromptMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The model's answer, with its token counts and duration."""

    text: str
    """Empty if the model spent its tokens on thinking only."""

    prompt_tokens: int
    answer_tokens: int
    """Both counted by the server; if it sends no counts, a quarter of the UTF-8 bytes."""

    wall_s: float
    """Seconds since the first try started."""


class Chat:
    """Sends requests to one model, any number of them concurrently."""

    def __init__(self, model: EndpointModel, *, form: Literal["json", "text"] = "json") -> None:
        """Request JSON objects from ``model``, or free text."""
        self._model = model
        self._key = key_of(model)
        self._http = HttpClient(model.base_url, self._key or _NO_KEY)
        self._refused = frozenset[Setting](() if form == "json" else ("response_format",))

    async def ask(self, messages: Sequence[PromptMessage], max_answer_tokens: int = 0) -> Said:
        """Return the answer to ``messages``, limited to ``max_answer_tokens`` (0: the model's own).

        Raises:
            DependencyError: The variable that the model names for its key is not set.
            EndpointError: No answer came. The message gives the request, the server, the result
                and the remedy.
        """
        check_key(self._model, f"key_variable of the model {self._model.model}")
        limit = max_answer_tokens or self._model.max_answer_tokens
        started = time.monotonic()
        give_up = started + self._model.timeout_s * self._model.tries
        pause_s = FIRST_PAUSE_S
        for tries in range(1, self._model.tries + 1):
            answer = await self._try(messages, limit, give_up - time.monotonic())
            if isinstance(answer, Completion):
                return _answer(messages, answer, time.monotonic() - started)
            wait_s = pause_s if answer.wait_s is None else answer.wait_s
            if not answer.passing or tries == self._model.tries:
                raise self._error(answer, tries)
            if time.monotonic() + wait_s >= give_up:
                raise self._error(answer, tries, f"; the next try would be {wait_s:.0f} s later")
            await asyncio.sleep(wait_s)
            pause_s *= 2
        raise AssertionError("an endpoint has at least one try")

    async def close(self) -> None:
        await self._http.close()

    async def _try(
        self, messages: Sequence[PromptMessage], limit: int, left_s: float
    ) -> Completion | Fault:
        timeout_s = min(self._model.timeout_s, left_s)
        try:
            async with asyncio.timeout(timeout_s):
                reply = await self._send(messages, limit)
        except TimeoutError:
            return Fault(
                f"no answer within {timeout_s:.3g} s",
                "raise timeout_s, or lower max_answer_tokens",
                passing=True,
            )
        except UnreadableReplyError as error:
            return Fault(error.found, error.remedy, passing=error.passing)
        error = error_in(reply.status, reply.body)
        if error is None:
            return completion_in(reply.body)
        return fault_of(error, self._key_state(), _seconds(reply.retry_after))

    async def _send(self, messages: Sequence[PromptMessage], limit: int) -> Reply:
        """Return the reply; omit the settings that the server refuses."""
        refused = self._refused
        most_bytes = REPLY_BYTES + BYTES_PER_TOKEN * limit
        while True:
            request = self._request(messages, limit, refused)
            reply = await self._http.post(request, most_bytes=most_bytes)
            error = error_in(reply.status, reply.body)
            setting = error and _refused_setting(error, messages, refused)
            if setting is None:
                if error is None:
                    self._refused = self._refused.union(refused)
                return reply
            refused = refused.union((setting,))

    def _request(
        self, messages: Sequence[PromptMessage], limit: int, refused: frozenset[Setting]
    ) -> Mapping[str, Any]:
        length = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
        sent = _without_system(messages) if "system" in refused else messages
        request: dict[str, Any] = {
            "model": self._model.model,
            "messages": msgspec.to_builtins(sent),
            length: limit,
        }
        if "temperature" not in refused:
            request["temperature"] = self._model.temperature
        if "response_format" not in refused:
            request["response_format"] = {"type": "json_object"}
        return request

    def _key_state(self) -> str:
        state = "is wrong" if self._key else "is not set"
        return f"the environment variable {variable_of(self._model)} {state}"

    def _error(self, fault: Fault, tries: int, why_no_more: str = "") -> EndpointError:
        found = fault.found.replace(self._key, "(the key)") if self._key else fault.found
        proxy = self._http.proxy
        way = f", through the proxy of {proxy.variable}," if proxy else ""
        return EndpointError(
            f"the model {self._model.model} at {self._model.base_url}{way} was asked for a chat "
            f"completion and gave none in {tries} {'try' if tries == 1 else 'tries'}: "
            f"{found}{why_no_more}; {fault.remedy}"
        )


def most_prompt_tokens(messages: Sequence[PromptMessage]) -> int:
    """Return an upper bound on the tokens of ``messages``: a token has at least one byte."""
    return sum(len(message.content.encode()) + _MESSAGE_TOKENS for message in messages)


def cost_usd(model: EndpointModel, prompt_tokens: int, answer_tokens: int) -> float:
    """Return the cost of these tokens at the configured prices."""
    return (
        prompt_tokens * model.usd_per_million_prompt_tokens
        + answer_tokens * model.usd_per_million_answer_tokens
    ) / 1e6


def _answer(messages: Sequence[PromptMessage], completion: Completion, wall_s: float) -> Said:
    text, usage = completion.text, completion.usage
    asked = "".join(message.content for message in messages)
    return Said(
        text=text,
        prompt_tokens=_count(usage.prompt_tokens, asked),
        answer_tokens=_count(usage.completion_tokens, text),
        wall_s=wall_s,
    )


def _count(counted: int | None, text: str) -> int:
    """Return the server's count, or an estimate if it sends none."""
    return -(-len(text.encode()) // _USUAL_BYTES_PER_TOKEN) if counted is None else counted


def _refused_setting(
    error: ServerError, messages: Sequence[PromptMessage], left_out: frozenset[Setting]
) -> Setting | None:
    """Return the setting that the server probably refuses; None if none is left to omit."""
    words, refuses = error.text, error.status in _REFUSING
    has_system = any(message.role == "system" for message in messages)
    probable: dict[Setting, bool] = {
        "max_tokens": refuses and "max_completion_tokens" in words,
        "temperature": refuses and "temperature" in words,
        "system": has_system and bool(_NO_SYSTEM.search(words)),
        # Each server words its refusal of this setting differently.
        "response_format": refuses,
    }
    return next((name for name, is_it in probable.items() if is_it and name not in left_out), None)


def _without_system(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """Return the messages with the text of system messages at the beginning of the first other."""
    texts = [message.content for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    if not others or others[0].role != "user":
        others.insert(0, PromptMessage(role="user", content=""))
    first = "\n\n".join(filter(None, (*texts, others[0].content)))
    return [PromptMessage(role="user", content=first), *others[1:]]


def _seconds(retry_after: str) -> float | None:
    """Return the seconds that a Retry-After header asks for; None if it is not usable."""
    try:
        wait_s = float(retry_after)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return wait_s if 0 <= wait_s < float("inf") else None

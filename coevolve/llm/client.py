"""Client for one model behind an OpenAI-compatible server: messages in, its answer out.

Whatever a server sends or does is either an answer or an EndpointError, and one call with all its
tries and pauses takes at most ``timeout_s * tries``. `coevolve.llm.http` bounds the bytes of a
reply.

Only this module retries. It retries after a timeout, a lost connection, a truncated body, a body
that is not a chat completion, and status 408, 409, 425, 429 and 5xx. All other server errors are
final.

Servers accept different settings. If a server refuses one (``response_format``, ``temperature``, or
``max_tokens`` in favour of ``max_completion_tokens``), the client repeats the request without it.
This does not count as a try. After the server answers, the client omits that setting for good.

Not covered: tokens that the provider bills for a try whose answer never arrived.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Literal

import msgspec

from coevolve.llm.http import HttpClient, Reply, UnreadableReplyError, shown
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
_PASSING = (408, 409, 425, 429)
_REFUSING = (400, 415, 422)

OK = 200

Setting = Literal["response_format", "temperature", "max_tokens"]


class Message(msgspec.Struct, frozen=True, kw_only=True):
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


class _Spoken(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Spoken


_Counted = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class _Usage(msgspec.Struct):
    prompt_tokens: _Counted | None = None
    completion_tokens: _Counted | None = None


class _Completion(msgspec.Struct):
    choices: Annotated[tuple[_Choice, ...], msgspec.Meta(min_length=1)]
    usage: _Usage | None = None


@dataclass(frozen=True)
class _Fault:
    """The reason why a try gave no answer."""

    found: str
    remedy: str
    passing: bool
    """Whether another try may succeed."""

    wait_s: float | None = None
    """Seconds to wait, as the server requests."""


class Chat:
    """Sends requests to one model, any number of them concurrently."""

    def __init__(self, model: EndpointModel, *, form: Literal["json", "text"] = "json") -> None:
        """Request JSON objects from ``model``, or free text."""
        self._model = model
        self._key = key_of(model)
        self._http = HttpClient(model.base_url, self._key or _NO_KEY)
        self._refused = frozenset[Setting](() if form == "json" else ("response_format",))

    async def ask(self, messages: Sequence[Message], max_answer_tokens: int = 0) -> Said:
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
            if isinstance(answer, _Completion):
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
        """Close the connections."""
        await self._http.close()

    async def _try(
        self, messages: Sequence[Message], limit: int, left_s: float
    ) -> _Completion | _Fault:
        timeout_s = min(self._model.timeout_s, left_s)
        try:
            async with asyncio.timeout(timeout_s):
                reply = await self._send(messages, limit)
        except TimeoutError:
            return _Fault(
                f"no answer within {timeout_s:.3g} s",
                "raise timeout_s, or lower max_answer_tokens",
                passing=True,
            )
        except UnreadableReplyError as error:
            return _Fault(error.found, error.remedy, passing=error.passing)
        return _decode(reply.body) if reply.status == OK else self._status_fault(reply)

    async def _send(self, messages: Sequence[Message], limit: int) -> Reply:
        """Return the reply; omit the settings that the server refuses."""
        refused = self._refused
        most_bytes = REPLY_BYTES + BYTES_PER_TOKEN * limit
        while True:
            request = self._request(messages, limit, refused)
            reply = await self._http.post(request, most_bytes=most_bytes)
            setting = _refused_setting(reply, refused)
            if setting is None:
                if reply.status == OK:
                    self._refused = self._refused.union(refused)
                return reply
            refused = refused.union((setting,))

    def _request(
        self, messages: Sequence[Message], limit: int, refused: frozenset[Setting]
    ) -> Mapping[str, Any]:
        length = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
        request: dict[str, Any] = {
            "model": self._model.model,
            "messages": msgspec.to_builtins(messages),
            length: limit,
        }
        if "temperature" not in refused:
            request["temperature"] = self._model.temperature
        if "response_format" not in refused:
            request["response_format"] = {"type": "json_object"}
        return request

    def _status_fault(self, reply: Reply) -> _Fault:
        found = f"status {reply.status}: {shown(reply.body)}"
        match reply.status:
            case 401 | 403:
                state = "is wrong" if self._key else "is not set"
                remedy = f"the environment variable {variable_of(self._model)} {state}; set it to a"
                return _Fault(found, f"{remedy} key that this server accepts", passing=False)
            case 404:
                remedy = "check that base_url is right and that the server has this model"
                return _Fault(found, remedy, passing=False)
            case code if code in _PASSING or code >= 500:
                remedy = "wait until the server has recovered, or raise tries"
                return _Fault(found, remedy, passing=True, wait_s=_seconds(reply.retry_after))
            case _:
                remedy = "read the server's message; a lower max_answer_tokens may help"
                return _Fault(found, remedy, passing=False)

    def _error(self, fault: _Fault, tries: int, why_no_more: str = "") -> EndpointError:
        found = fault.found.replace(self._key, "(the key)") if self._key else fault.found
        return EndpointError(
            f"the model {self._model.model} at {self._model.base_url} was asked for a chat "
            f"completion and gave none in {tries} {'try' if tries == 1 else 'tries'}: "
            f"{found}{why_no_more}; {fault.remedy}"
        )


def most_prompt_tokens(messages: Sequence[Message]) -> int:
    """Return an upper bound on the tokens of ``messages``: a token has at least one byte."""
    return sum(len(message.content.encode()) + _MESSAGE_TOKENS for message in messages)


def cost_usd(model: EndpointModel, prompt_tokens: int, answer_tokens: int) -> float:
    """Return the cost of these tokens at the configured prices."""
    return (
        prompt_tokens * model.usd_per_million_prompt_tokens
        + answer_tokens * model.usd_per_million_answer_tokens
    ) / 1e6


def _decode(body: bytes) -> _Completion | _Fault:
    try:
        return msgspec.json.decode(body, type=_Completion)
    except (ValueError, RecursionError) as error:
        return _Fault(
            f"its answer is not a chat completion ({error}): {shown(body)}",
            "check that base_url is that of an OpenAI-compatible server; it usually ends in /v1",
            passing=True,
        )


def _answer(messages: Sequence[Message], completion: _Completion, wall_s: float) -> Said:
    text = completion.choices[0].message.content or ""
    usage = completion.usage or _Usage()
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


def _refused_setting(reply: Reply, left_out: frozenset[Setting]) -> Setting | None:
    """Return the setting that the server probably refuses; None if none is left to omit."""
    if reply.status not in _REFUSING:
        return None
    words = reply.body
    if b"max_completion_tokens" in words and "max_tokens" not in left_out:
        return "max_tokens"
    if b"temperature" in words and "temperature" not in left_out:
        return "temperature"
    # Each server words its refusal of this setting differently.
    return None if "response_format" in left_out else "response_format"


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

"""The policy as an endpoint of OpenAI's interface, for agent programs that others wrote.

A rollout part opens a session for each attempt. Its random token is a client's key, or a part of
its base URL, because many frameworks read keys from environment variables alone; it is written
nowhere. A session is open as long as its attempt: before and after, and for any other token, the
answer is 401. A standing session (`coevolve.gateway.standing`) serves conversations without an
attempt.

*What is covered.* Whatever a program sends, it gets an answer, and neither its attempt nor the part
ends by it. *What is not covered.* A program that has its token can use up its own session.
"""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from coevolve.base.foreign import described
from coevolve.base.loopback import HOST
from coevolve.gateway.http import EVENTS, HttpServer, Request, Response
from coevolve.gateway.messages import (
    MODEL,
    Chat,
    RefusedError,
    Said,
    completion,
    events,
    read_chat,
)
from coevolve.gateway.responses import read_responses, response, response_events
from coevolve.gateway.session import Counts, EndedError, GatewaySession, Sampling
from coevolve.gateway.standing import StandingSession
from coevolve.gateway.tokens import generated, read_tokens
from protocols.errors import GeneratorError, SimulatorError

TOKEN_BYTES = 16
CHAT = "/chat/completions"
RESPONSES = "/responses"
GENERATE = "/inference/v1/generate"
"""vLLM's path for token ids; its clients use it at the server's root, without ``/v1`` before."""

MODELS = "/models"
RETRIES = "x-stainless-retry-count"
"""The header in which OpenAI's clients count their retries."""

log = structlog.get_logger()


class Talker(Protocol):
    """What answers the requests with one token."""

    counts: Counts

    @property
    def said(self) -> int:
        """The number of sampled messages."""
        ...

    def check_size(self, body_bytes: int) -> None:
        """Refuse a body that cannot fit before it is read. Raises RefusedError."""
        ...

    async def chat(self, chat: Chat, *, is_retry: bool) -> Said:
        """Return the policy's next message; ``is_retry``: the client tries a request again.

        Raises RefusedError, GeneratorError, and EndedError.
        """
        ...

    async def end(self) -> None:
        """Let the engine forget the conversations."""
        ...


@dataclass(frozen=True)
class Opened:
    """A session, and the base URL with which a client uses it; any key will do."""

    session: GatewaySession
    base_url: str


class Gateway:
    """Serves sessions on the loopback interface; it listens from the first one on."""

    def __init__(self, listener: socket.socket | None = None) -> None:
        """Serve on ``listener``; by default, on a free port."""
        self._listener = listener
        self._sessions: dict[str, Talker] = {}
        self._starting = asyncio.Lock()
        self._address = ""

    @contextlib.asynccontextmanager
    async def session(self, name: str, sampling: Sampling, seed: int) -> AsyncGenerator[Opened]:
        """Open a session for the block. Raises SimulatorError if no port is free."""
        session = GatewaySession(name, sampling, seed)
        async with self._open(session) as token:
            yield Opened(session, f"{self._address}/s/{token}/v1")

    @contextlib.asynccontextmanager
    async def standing(self, sampling: Sampling) -> AsyncGenerator[tuple[str, str]]:
        """Serve conversations without an attempt for the block; yield the base URL and the key.

        Raises SimulatorError if no port is free.
        """
        async with self._open(StandingSession(sampling, secrets.randbits(31))) as token:
            yield f"{self._address}/v1", token

    @contextlib.asynccontextmanager
    async def _open(self, session: Talker) -> AsyncGenerator[str]:
        """Let the token that it yields lead to the session, until the block ends."""
        await self._listen()
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self._sessions[token] = session
        try:
            yield token
        finally:
            del self._sessions[token]
            await session.end()

    async def _listen(self) -> None:
        async with self._starting:
            if self._address:
                return
            try:
                port = await HttpServer(self._answer, _failure).start(HOST, self._listener)
            except OSError as error:
                raise SimulatorError(f"the gateway cannot listen: {error.strerror}") from error
            self._address = f"http://{HOST}:{port}"

    async def _answer(self, request: Request) -> Response:
        token, path = _split(request)
        session = self._sessions.get(token)
        if session is None:
            return _stranger()
        try:
            return await _served(session, path, request)
        except RefusedError as error:
            session.counts.refused[error.code] += 1
            return _failure(400, str(error), error.code)
        except EndedError:
            return _stranger()
        except GeneratorError:
            return _failure(500, "the engine failed")
        except Exception as error:  # noqa: BLE001 -- what a program sends must not end the part
            log.warning("gateway_failed", reason=described(error))
            session.counts.refused["failed"] += 1
            return _failure(500, "the gateway failed")


async def _served(session: Talker, path: str, request: Request) -> Response:
    """Return the answer to a session's request. Raises what `GatewaySession.chat` raises."""
    if path == MODELS and request.method == "GET":
        return _json(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
    form = FORMS.get(path)
    if form is None:
        return _failure(404, f"the policy has {', '.join(FORMS)} and {MODELS}, and no other path")
    if request.method != "POST":
        return _failure(405, f"{path} needs POST")
    session.check_size(len(request.body))
    read, written = form
    chat = read(request.body)
    is_retry = request.headers.get(RETRIES, "0").strip() not in ("", "0")
    said = await session.chat(chat, is_retry=is_retry)
    return written(chat, said, session.said)


def _completed(chat: Chat, said: Said, number: int) -> Response:
    if not chat.request.stream:
        return _json(200, completion(said, number))
    usage = bool((chat.request.stream_options or {}).get("include_usage"))
    return Response(200, events(said, number, usage=usage), kind=EVENTS)


def _responded(chat: Chat, said: Said, number: int) -> Response:
    if not chat.request.stream:
        return _json(200, response(said, number))
    return Response(200, response_events(said, number), kind=EVENTS)


def _generated(chat: Chat, said: Said, number: int) -> Response:
    del chat
    return _json(200, generated(said, number))


def _split(request: Request) -> tuple[str, str]:
    """Return the token, and the path below ``/v1``."""
    token, path = request.headers.get("authorization", "").removeprefix("Bearer ").strip(), ""
    if request.path.startswith("/s/"):
        token, _, path = request.path.removeprefix("/s/").partition("/")
    else:
        path = request.path.removeprefix("/")
    return token, "/" + path.removeprefix("v1/").strip("/")


def _stranger() -> Response:
    """Return the answer to a request without a token, with a wrong one, or with an ended one."""
    needed = "the token of an attempt that goes on, or the key that `coevolve serve` printed"
    return _failure(401, f"a request needs {needed}")


FORMS: Mapping[str, tuple[Callable[[bytes], Chat], Callable[[Chat, Said, int], Response]]] = {
    CHAT: (read_chat, _completed),
    RESPONSES: (read_responses, _responded),
    GENERATE: (read_tokens, _generated),
}
"""Path -> what reads a request there, and what writes the answer."""


def _json(status: int, value: Mapping[str, object]) -> Response:
    return Response(status, msgspec.json.encode(value))


def _failure(status: int, sentence: str, code: str = "") -> Response:
    error = {"message": sentence, "type": "invalid_request_error", "code": code or None}
    return _json(status, {"error": {**error, "param": None}})

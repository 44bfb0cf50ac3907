"""One HTTP request to a model's server, within bounds: the only place that reads foreign bytes.

What is bounded: the body's size, before and while it is read; the size of headers, by the HTTP
library; the time, by the caller, who may cancel at any await. What is refused: redirects, because
they would send the key to another server, and compressed bodies, because a small one can unfold to
any size. Whatever else goes wrong is an `UnreadableReplyError`. The proxy, if one is used, is that
of `coevolve.llm.proxies`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx2

from coevolve.base.foreign import plain
from coevolve.llm.proxies import proxy_of

CONNECTIONS = 1000
"""Connections at a time; callers bound their requests themselves."""

_SHOWN_CHARS = 500


class Reply(NamedTuple):
    """What the server answered."""

    status: int
    retry_after: str
    """The header of this name; empty if there is none."""

    body: bytes


class UnreadableReplyError(Exception):
    """No reply came, or one that is not read; the message says what was found."""

    def __init__(self, found: str, remedy: str, *, passing: bool = True) -> None:
        """``passing`` says whether another try may succeed."""
        super().__init__(found)
        self.found = found
        self.remedy = remedy
        self.passing = passing


class HttpClient:
    """Sends requests to one server, any number of them concurrently."""

    def __init__(self, base_url: str, key: str) -> None:
        """Connect to nobody yet. Raises DependencyError if the server's proxy cannot be used."""
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self.proxy = proxy_of(base_url)
        self._client = httpx2.AsyncClient(
            headers={b"Authorization": f"Bearer {key}".encode(), b"Accept-Encoding": b"identity"},
            timeout=None,  # the caller's limit covers a whole try, however slowly bytes arrive
            follow_redirects=False,
            # With a transport of its own the library reads no variables for proxies.
            transport=httpx2.AsyncHTTPTransport(
                limits=httpx2.Limits(max_connections=CONNECTIONS),
                proxy=self.proxy.url if self.proxy else None,
            ),
        )

    async def post(self, request: Mapping[str, Any], *, most_bytes: int) -> Reply:
        """Send ``request`` as JSON; return a reply with a body of at most ``most_bytes``.

        Raises UnreadableReplyError.
        """
        try:
            async with self._client.stream("POST", self._url, json=request) as response:
                _refuse_unreadable(response)
                body = await _read(response, most_bytes)
                return Reply(response.status_code, response.headers.get("retry-after", ""), body)
        except UnreadableReplyError:
            raise
        except Exception as error:
            # The library raises errors of many classes for what a server can send.
            remedy = "check that the server runs and that base_url is right"
            if self.proxy:
                way_round = self.proxy.way_round
                remedy = f"check that the proxy of {self.proxy.told} runs, or {way_round}; {remedy}"
            raise UnreadableReplyError(
                f"the connection failed ({_cause(error)})", remedy
            ) from error

    async def close(self) -> None:
        await self._client.aclose()


def shown(body: bytes | str) -> str:
    """Return the beginning of a server's text on one line, escaped and without credentials."""
    text = body[: 4 * _SHOWN_CHARS]
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return plain(text, _SHOWN_CHARS)


def _refuse_unreadable(response: httpx2.Response) -> None:
    """Raise UnreadableReplyError for a redirect and for a compressed body."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise UnreadableReplyError(
            f"its answer is compressed ({shown(encoding)}), although the request asks for none",
            "let the server, or the proxy before it, send answers without Content-Encoding",
        )
    if 300 <= response.status_code < 400:
        target = shown(response.headers.get("location", "nowhere"))
        raise UnreadableReplyError(
            f"status {response.status_code}: a redirect to {target}",
            "redirects are not followed, because the key would go with them; correct base_url",
            passing=False,
        )


async def _read(response: httpx2.Response, most_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > most_bytes:
            raise UnreadableReplyError(
                f"its answer is longer than {most_bytes} bytes: {shown(bytes(body))}",
                "a larger max_answer_tokens allows longer answers",
            )
    return bytes(body)


def _cause(error: BaseException) -> str:
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {shown(str(cause))}" if str(cause) else type(cause).__name__

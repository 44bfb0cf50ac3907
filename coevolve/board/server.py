"""The board's server: on the loopback interface, read-only, and for its own user alone.

*What is covered.* The printed address holds a random key, as the first part of its path, and only
addresses below it get answers, because other users of the machine can connect too. No cookie holds
the key: browsers send cookies to every port of a host, so whoever listens on another port would get
it. A page of another site or port cannot ask, even with the key: the name in the Host header must
be the loopback interface's own, and what a browser tells of the asking page (Origin,
Sec-Fetch-Site) must be the board. Only GET and HEAD are answered.

*What is not covered.* Whoever reads the terminal, the browser's history, or the user's files, can
read what the board shows.
"""

import hmac
import secrets
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, urlsplit

from coevolve.base.loopback import HOST, LoopbackServer
from coevolve.board.answers import HTML, Answer, Answers
from coevolve.board.pages import failure_page
from protocols.errors import CoevolveError

NAMES = (HOST, "localhost")
OWN_SITES = ("same-origin", "none")
"""What Sec-Fetch-Site is for the board's own pages, and for an address that the user gave."""

PATIENCE_S = 30.0
MOST_FIELDS = 100

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Server(LoopbackServer):
    """Serves the answers. Close it after use."""

    def __init__(self, answers: Answers, port: int) -> None:
        """Listen on ``port``, or on a free one if it is 0. Raises RunError."""
        self.answers = answers
        self.key = secrets.token_urlsafe(24)
        super().__init__(port, _Handler)

    @property
    def address(self) -> str:
        """The address to open, with the key."""
        return f"http://{HOST}:{self.port}/{self.key}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that went away before it had its answer."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]


class _Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version = "coevolve"
    sys_version = ""
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        own = [f"{name}:{self.server.port}" for name in NAMES]
        key, slash, path = parts.path.removeprefix("/").partition("/")
        if self.headers.get("Host", "") not in own:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, f"Open {HOST}:{self.server.port} itself.")
        elif not self._is_own_page(own):
            told = "Another page asked. Enter the address that `coevolve board` printed yourself."
            self._refuse(HTTPStatus.FORBIDDEN, told)
        elif not (slash and self._is_key(key)):
            self._refuse(HTTPStatus.FORBIDDEN, "Open the address that `coevolve board` printed.")
        else:
            self._answer(path, parts.query)

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, path: str, query: str) -> None:
        try:
            answer = self.server.answers.to(path, parse_qsl(query, max_num_fields=MOST_FIELDS))
        except ValueError:
            self._fail(HTTPStatus.BAD_REQUEST, "The address has too many fields.")
            return
        except CoevolveError as error:
            self._fail(HTTPStatus.NOT_FOUND, str(error))
            return
        if answer is None:
            self._fail(HTTPStatus.NOT_FOUND, "There is no such page.")
        elif answer.tag and self.headers.get("If-None-Match") == answer.tag:
            self._send(HTTPStatus.NOT_MODIFIED, Answer(answer.kind, b"", answer.tag))
        else:
            self._send(HTTPStatus.OK, answer)

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        """Tell a stranger what is wrong, and nothing else."""
        self._send(status, Answer(HTML, failure_page(sentence).encode()))

    def _fail(self, status: HTTPStatus, sentence: str) -> None:
        page = failure_page(sentence, home=f"/{self.server.key}/")
        self._send(status, Answer(HTML, page.encode()))

    def _send(self, status: HTTPStatus, answer: Answer) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if answer.tag:
            self.send_header("ETag", answer.tag)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _is_own_page(self, own: list[str]) -> bool:
        """Return whether a page of the board asks, or the user; other programs say nothing."""
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        return site in OWN_SITES and origin in (None, *(f"http://{name}" for name in own))

    def _is_key(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.server.key.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal shows the address."""

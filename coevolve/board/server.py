"""The board's server: on the loopback interface, read-only, and for its own user alone.

*What is covered.* Only a browser that has opened the printed address once, which holds a random
key, gets answers, because other users of the machine can connect too. A page of another site
cannot ask: the name in the Host header must be the loopback interface's own, and the cookie with
the key is sent for requests of the board's own pages alone. Only GET and HEAD are answered.

*What is not covered.* Whoever reads the terminal, or the user's files, can read what the board
shows.
"""

import hmac
import secrets
import sys
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from coevolve.board.answers import HTML, Answer, Answers
from coevolve.board.pages import failure_page
from protocols.errors import CoevolveError, RunError

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
PATIENCE_S = 30.0
MOST_FIELDS = 100

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Server(ThreadingHTTPServer):
    """Serves the answers. Close it after use."""

    daemon_threads = True

    def __init__(self, answers: Answers, port: int) -> None:
        """Listen on ``port``, or on a free one if it is 0. Raises RunError."""
        self.answers = answers
        self.key = secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise RunError(
                f"--port {port}: cannot be listened on: {error.strerror}; give another one, or 0 "
                "for a free one"
            ) from error

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """The address to open, with the key."""
        return f"http://{HOST}:{self.port}/?key={self.key}"

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
        """Answer a request."""
        parts = urlsplit(self.path)
        if self.headers.get("Host", "") not in [f"{name}:{self.server.port}" for name in NAMES]:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, f"Open {HOST}:{self.server.port} itself.")
            return
        try:
            query = parse_qsl(parts.query, max_num_fields=MOST_FIELDS)
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "The address has too many fields.")
            return
        if parts.path == "/" and self._is_key(dict(query).get("key", "")):
            self._let_in()
        elif not self._is_known():
            self._refuse(HTTPStatus.FORBIDDEN, "Open the address that `coevolve board` printed.")
        else:
            self._answer(parts.path, query)

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, path: str, query: list[tuple[str, str]]) -> None:
        try:
            answer = self.server.answers.to(path, query)
        except CoevolveError as error:
            self._refuse(HTTPStatus.NOT_FOUND, str(error))
            return
        if answer is None:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
        elif answer.tag and self.headers.get("If-None-Match") == answer.tag:
            self._send(HTTPStatus.NOT_MODIFIED, Answer(answer.kind, b"", answer.tag))
        else:
            self._send(HTTPStatus.OK, answer)

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        self._send(status, Answer(HTML, failure_page(sentence).encode()))

    def _let_in(self) -> None:
        self.send_response(HTTPStatus.SEE_OTHER)
        cookie = f"{self._cookie}={self.server.key}; HttpOnly; SameSite=Strict; Path=/"
        self.send_header("Set-Cookie", cookie)
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self.end_headers()

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

    @property
    def _cookie(self) -> str:
        """The cookie's name; browsers send the cookies of all ports to each."""
        return f"coevolve-board-{self.server.port}"

    def _is_known(self) -> bool:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return found is not None and self._is_key(found.value)

    def _is_key(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.server.key.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal shows the address."""

"""A real HTTP server for ``/v1/chat/completions`` that behaves well or badly, as scripted.

`serving` starts one on the loopback interface. Each request gets the next scripted behaviour. If
none is left, a small scripted "model" answers, which knows BFCL's file system well enough for every
prompt of `tools.synthesis.prompts`. To run it by hand:

    python -m tests.chat_server --port 8099
"""

import argparse
import hashlib
import json
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Messages = Sequence[Mapping[str, str]]
Brain = Callable[[Messages], str]
"""Returns the model's answer to a chat."""


@dataclass(frozen=True)
class Received:
    """A request as it arrived."""

    path: str
    authorization: str
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The text of all its messages."""
        return "\n".join(message["content"] for message in self.body["messages"])


Behaviour = Callable[["_Exchange"], None]


@dataclass
class ChatServer:
    """The server, as a test uses it."""

    base_url: str
    brain: Brain
    refuses: tuple[str, ...] = ()
    """Settings that the server answers with status 400."""

    counts_tokens: bool = True
    key_digest: str = ""
    """SHA-256 of the key that it demands, in hexadecimal; empty if it demands none."""

    requests: list[Received] = field(default_factory=list[Received])
    closing: threading.Event = field(default_factory=threading.Event)
    _script: deque[Behaviour] = field(default_factory=deque[Behaviour])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def then(self, *behaviours: Behaviour) -> None:
        """Answer the next requests with these behaviours, one each."""
        self._script.extend(behaviours)

    def receive(self, request: Received) -> Behaviour:
        """Record the request and return the behaviour for it."""
        with self._lock:
            self.requests.append(request)
            if self.key_digest and digest_of(request.authorization) != self.key_digest:
                return fails(401, "wrong key")
            refused = [name for name in self.refuses if name in request.body]
            if refused:
                message = f"Unsupported parameter: '{refused[0]}'."
                if refused[0] == "max_tokens":
                    message += " Use 'max_completion_tokens' instead."
                return fails(400, message)
            return self._script.popleft() if self._script else answers


@dataclass(frozen=True)
class _Exchange:
    server: ChatServer
    request: Received
    handler: BaseHTTPRequestHandler

    def head(self, status: int, headers: Mapping[str, str], length: int) -> None:
        self.handler.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.handler.send_header(name, value)
        self.handler.send_header("Content-Length", str(length))
        self.handler.end_headers()

    def send(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.head(status, headers or {}, len(body))
        self.handler.wfile.write(body)

    def completion(self, text: str | None) -> bytes:
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text},
        }
        body: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": self.request.body["model"],
            "choices": [choice],
        }
        if self.server.counts_tokens:
            asked, said = len(self.request.prompt.split()), len((text or "").split())
            body["usage"] = {
                "prompt_tokens": asked,
                "completion_tokens": said,
                "total_tokens": asked + said,
            }
        return json.dumps(body).encode()


def answers(exchange: _Exchange) -> None:
    """Answer as the scripted model."""
    says(exchange.server.brain(exchange.request.body["messages"]))(exchange)


def says(text: str | None) -> Behaviour:
    """Return a behaviour: a completion with this text."""
    return lambda exchange: exchange.send(exchange.completion(text))


def fails(status: int, message: str = "no", headers: Mapping[str, str] | None = None) -> Behaviour:
    """Return a behaviour: an error in the API's format."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": None}}).encode()
    return lambda exchange: exchange.send(body, status, headers)


def replies(document: object, status: int = 200) -> Behaviour:
    """Return a behaviour: a reply with any JSON."""
    return lambda exchange: exchange.send(json.dumps(document).encode(), status)


def is_slow(exchange: _Exchange) -> None:
    """Send nothing until the server closes."""
    exchange.server.closing.wait(30.0)


def dribbles(exchange: _Exchange) -> None:
    """Send a byte now and then, so that no single read takes long."""
    exchange.head(200, {}, 10_000)
    while not exchange.server.closing.wait(0.05):
        exchange.handler.wfile.write(b" ")


def drops_half_way(exchange: _Exchange) -> None:
    """Send half of a good answer, then close the connection."""
    body = exchange.completion("{}")
    exchange.head(200, {}, len(body))
    exchange.handler.wfile.write(body[: len(body) // 2])
    exchange.handler.close_connection = True


def hangs_up(exchange: _Exchange) -> None:
    """Close the connection without a byte."""
    exchange.handler.close_connection = True


def is_no_json(exchange: _Exchange) -> None:
    """Send a body of the declared length whose JSON breaks off."""
    exchange.send(b'{"id": "chatcmpl-1", "choices": [')


def is_a_web_page(exchange: _Exchange) -> None:
    """Send a web page, as another server on this port might."""
    exchange.send(b"<html>It works!</html>", headers={"Content-Type": "text/html"})


def digest_of(authorization: str) -> str:
    """Return the SHA-256 of the key in an HTTP header, in hexadecimal."""
    return hashlib.sha256(authorization.removeprefix("Bearer ").encode()).hexdigest()


@contextmanager
def serving(
    brain: Brain | None = None,
    *,
    port: int = 0,
    refuses: tuple[str, ...] = (),
    counts_tokens: bool = True,
    key_digest: str = "",
) -> Generator[ChatServer]:
    """Serve on the loopback interface until the block ends."""
    listener = ThreadingHTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler)
    listener.daemon_threads = True
    server = ChatServer(
        base_url=f"http://127.0.0.1:{listener.server_address[1]}/v1",
        brain=brain or file_system_brain,
        refuses=refuses,
        counts_tokens=counts_tokens,
        key_digest=key_digest,
    )
    listener.RequestHandlerClass = _handler(server)
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        listener.shutdown()
        listener.server_close()
        thread.join(5.0)


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = Received(self.path, self.headers.get("Authorization", ""), body)
            behaviour = server.receive(request)
            if self.path != "/v1/chat/completions":
                behaviour = fails(404, "no such path")
            with suppress(ConnectionError):  # the client may have given up
                behaviour(_Exchange(server, request, self))

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


# The scripted model.

_LISTING = "current_directory_content"


def file_system_brain(messages: Messages) -> str:
    """Answer a prompt of the synthesizer about the file system."""
    task = messages[0]["content"]
    if '"failure_cause"' in task:
        return json.dumps(
            {
                "summary": "The agent was asked about files and did not always look first.",
                "failure_cause": "It guesses names.",
                "instability_pattern": "Reading succeeds only where the name was seen before.",
                "focus_pattern": ["reading files", "counting in files"],
                "avoid_pattern": ["naming files that are not there"],
            }
        )
    if '"action"' in task:
        return _explored(messages)
    if '"tasks"' in task:
        return _abstracted(messages[1]["content"])
    if '"calls_by_turn"' in task:
        return rebuilt(messages[1]["content"], _wanted)
    if '"picks"' in task:
        return picked(messages[1]["content"], _wanted)
    if '"success"' in task:
        return '{"success": true, "reason": "Every step answers its instruction."}'
    return '{"ok": true}'


def _explored(messages: Messages) -> str:
    """List the folder, then read every listed file, then finish."""
    calls = [
        json.loads(message["content"])["action"]
        for message in messages
        if message["role"] == "assistant" and message["content"].endswith('"}')
    ]
    if not calls:
        return _move("Look around first.", "ls()")
    for name in _listed_files(messages):
        for call in _looks(name):
            if call not in calls:
                return f"Let me go on.\n```json\n{_move(f'See what {name} is like.', call)}\n```"
    return '{"reason": "All files were looked at.", "done": true}'


def _move(reason: str, call: str) -> str:
    return json.dumps({"reason": reason, "action": call})


def _listed_files(messages: Messages) -> list[str]:
    said = "\n".join(message["content"] for message in messages if message["role"] == "user")
    found = re.search(rf'\{{"{_LISTING}": \[.*?\]\}}', said)
    names: list[str] = json.loads(found[0])[_LISTING] if found else []
    return [name for name in names if "." in name]


def _looks(name: str) -> tuple[str, ...]:
    return (
        f"cat(file_name='{name}')",
        f"wc(file_name='{name}', mode='l')",
        f"tail(file_name='{name}', lines=1)",
    )


_SAYINGS = (
    (r"cat\(file_name='(.+?)'\)", "Show me '{0}'."),
    (r"wc\(file_name='(.+?)', mode='l'\)", "Count the lines of '{0}'."),
    (r"tail\(file_name='(.+?)', lines=(\d+)\)", "Show the last {1} lines of '{0}'."),
)


def _abstracted(prompt: str) -> str:
    """Make a task of each call that worked, and a task of two turns of each two successive ones."""
    turns: list[dict[str, Any]] = []
    for line in re.findall(r'^\{"step".*\}$', prompt, flags=re.MULTILINE):
        step = json.loads(line)
        if not step["failed"] and (instruction := _saying(step["call"])):
            turns.append({"instruction": instruction, "calls": [step["call"]]})
    tasks = [{"description": "One look at a file.", "turns": [turn]} for turn in turns[:3]]
    tasks += [
        {"description": "Two looks in a row.", "turns": turns[index : index + 2]}
        for index in range(1, len(turns) - 1, 2)
    ]
    return f"Here are the tasks:\n{json.dumps({'tasks': tasks})}\nAll of them were carried out."


def _saying(call: str) -> str:
    for pattern, saying in _SAYINGS:
        if found := re.fullmatch(pattern, call):
            return saying.format(*found.groups())
    return ""


_ASKED = (
    (r"Show me '(.+?)'\.", "cat(file_name='{0}')"),
    (r"Count the lines of '(.+?)'\.", "wc(file_name='{0}', mode='l')"),
    (r"Show the last (\d+) lines of '(.+?)'\.", "tail(file_name='{1}', lines={0})"),
)


def picked(prompt: str, call_of: Callable[[str], str]) -> str:
    """Pick the options that make the call of each instruction; none if one has no call."""
    after = prompt.rpartition("The instructions:")[2]
    asked, *options = re.split(r"^Option \d+:$", after, flags=re.MULTILINE)
    wanted = [call_of(instruction) for instruction in _by_turn(asked)]
    picks = [number for number, option in enumerate(options, 1) if _by_turn(option) == wanted]
    return json.dumps({"reason": "It does this.", "picks": picks})


def rebuilt(prompt: str, call_of: Callable[[str], str]) -> str:
    """Write the call of each instruction."""
    wanted = map(call_of, _by_turn(prompt.rpartition("The instructions:")[2]))
    return json.dumps({"reason": "", "calls_by_turn": [[call] if call else [] for call in wanted]})


def _by_turn(text: str) -> list[str]:
    return re.findall(r"^turn \d+: (.*)$", text, flags=re.MULTILINE)


def _wanted(instruction: str) -> str:
    for pattern, call in _ASKED:
        if found := re.fullmatch(pattern, instruction):
            return call.format(*found.groups())
    return ""


def _main() -> None:
    parser = argparse.ArgumentParser(
        description="Serve a scripted model on the loopback interface."
    )
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--key-digest", default="", help="SHA-256 of the key that it demands.")
    given = parser.parse_args()
    with (
        serving(port=given.port, key_digest=given.key_digest) as server,
        suppress(KeyboardInterrupt),
    ):
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        server.closing.wait()


if __name__ == "__main__":
    _main()

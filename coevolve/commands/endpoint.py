"""Serves the scripted model: ``coevolve endpoint scripted``.

The server listens on the loopback interface alone, and answers requests for chat completions in
OpenAI's form. It reads no key, keeps nothing, and answers no model but `NAME`, so that what a run
records of its synthesizer says what it was.
"""

import shlex
import sys
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

import msgspec

from coevolve.base.loopback import HOST, LoopbackServer
from coevolve.base.user_code import exits_raised, told
from coevolve.commands.chosen import guard
from coevolve.commands.environment import configured, full_name
from coevolve.environments.findings import counted
from coevolve.environments.registry import environment_of
from coevolve.environments.tools.environment import ToolEnvironment
from coevolve.environments.tools.scripted.model import NAME, ScriptedModel
from coevolve.environments.tools.task import tool_task
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.tasks import Task

MOST_BYTES = 1 << 24
"""Maximum bytes of a request."""

PATIENCE_S = 60.0
CHARS_PER_TOKEN = 4


class Request(msgspec.Struct, frozen=True):
    """What is read of a request."""

    model: str
    messages: tuple[dict[str, str], ...]


class Server(LoopbackServer):
    """Serves one scripted model. Close it after use."""

    def __init__(self, model: ScriptedModel, port: int) -> None:
        """Listen on ``port``, or on a free one if it is 0. Raises RunError."""
        self.model = model
        super().__init__(port, _Handler)

    @property
    def base_url(self) -> str:
        """The setting ``base_url`` of a run that asks it."""
        return f"http://{HOST}:{self.port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._send({"object": "list", "data": [{"id": NAME, "object": "model"}]})
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}")

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > MOST_BYTES:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, f"needs a length of at most {MOST_BYTES}")
            return
        content = self.rfile.read(int(size))
        if self.path != "/v1/chat/completions":
            self._refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}")
            return
        try:
            request = msgspec.json.decode(content, type=Request)
        except msgspec.MsgspecError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"needs a chat: {error}")
            return
        if request.model != NAME:
            self._refuse(HTTPStatus.NOT_FOUND, f"the only model here is {NAME}")
        else:
            self._send(_completion(request, self.server.model.answer(request.messages)))

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True
        self._send({"error": {"message": why, "type": "invalid_request_error"}}, status)

    def _send(self, answer: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        body = msgspec.json.encode(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of a request: a run makes thousands."""


def _completion(request: Request, answer: str) -> Any:
    asked = sum(len(each.get("content", "")) for each in request.messages) // CHARS_PER_TOKEN
    said = len(answer) // CHARS_PER_TOKEN + 1
    message = {"role": "assistant", "content": answer}
    return {
        "id": NAME,
        "object": "chat.completion",
        "model": NAME,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
        },
    }


def scripted(use: str, settings: Sequence[str], port: int) -> None:
    """Serve until interrupted. Raises ConfigError and RunError."""
    with told(f"environment.use: {use!r} cannot be opened"), exits_raised():
        tasks = training_tasks(configured(use, settings))
    model = ScriptedModel([tool_task(task) for task in tasks])
    with Server(model, port) as server:
        sys.stdout.write(
            f"{server.base_url}\n"
            f"It is a script, not a model: it puts other values into "
            f"{counted(len(model.templates), 'wording')} of {counted(len(tasks), 'training task')}."
            " Held-out tasks are not read; give the run the same settings of the environment, or "
            f"they are others.\n{uses(use, settings, server.base_url)}"
        )
        sys.stdout.flush()
        server.serve_forever()


def training_tasks(config: RunConfig) -> Sequence[Task]:
    """Return the training tasks of a run that `coevolve start` prepares. Raises ConfigError."""
    prepared, _ = guard(config, _pool)
    return _pool(prepared)


def _pool(config: RunConfig) -> Sequence[Task]:
    environment = environment_of(config)
    if not isinstance(environment, ToolEnvironment):
        raise ConfigError(
            f"environment.use: the scripted model knows classes of tools, found {config.uses}; ask "
            "a real model"
        )
    return environment.source().pool()


def uses(use: str, settings: Sequence[str], base_url: str) -> str:
    """Return how runs name this server."""
    tasks = [each.partition("=")[2] for each in settings if each.startswith("tasks=")]
    others = [full_name(each) for each in settings if not each.startswith("tasks=")]
    words = ("coevolve", "start", use, *tasks, *others, "--synthesizer", base_url, NAME)
    start = f"In another terminal, in this folder:\n  {shlex.join(words)}\n" if tasks else ""
    return (
        f"{start}In a run file:\n"
        f"  synthesizer: {{model: {{kind: endpoint, base_url: '{base_url}', model: {NAME}}}}}\n"
    )

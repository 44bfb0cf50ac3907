"""A server that answers `huggingface_hub` as the Hub does when a small folder is uploaded."""

import base64
import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, cast

TOKEN = "hf_of_a_test"


class Hub(ThreadingHTTPServer):
    """The server, on a free port of loopback, and what users asked of it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.created: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        """``models/OWNER/NAME/PATH`` or ``datasets/OWNER/NAME/PATH`` -> content."""

        self.refuses = False
        """Whether it refuses commits."""

    def create(self, repository: dict[str, Any]) -> object:
        self.created.append(repository)
        kind = "datasets/" if repository["type"] == "dataset" else ""
        return {"url": f"{self.url}/{kind}{repository['organization']}/{repository['name']}"}

    def commit(self, path: str, lines: list[dict[str, Any]]) -> object:
        repository = path.removeprefix("/api/").removesuffix("/commit/main")
        files = [line["value"] for line in lines if line["key"] == "file"]
        self.files |= {
            f"{repository}/{file['path']}": base64.b64decode(file["content"]) for file in files
        }
        url = f"{self.url}/{repository.removeprefix('models/')}/commit/1"
        return {"commitUrl": url, "commitOid": "1"}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer({"name": "alice", "type": "user"})

    def do_POST(self) -> None:
        hub, body = cast(Hub, self.server), self.rfile.read(int(self.headers["Content-Length"]))
        match self.path.split("/")[-2:]:
            case ["repos", "create"]:
                self._answer(hub.create(json.loads(body)))
            case ["api", "validate-yaml"]:
                self._answer({"errors": [], "warnings": []})
            case ["preupload", "main"]:
                mode = {"uploadMode": "regular", "shouldIgnore": False}
                paths = [file["path"] for file in json.loads(body)["files"]]
                self._answer({"files": [{"path": path, **mode} for path in paths]})
            case ["commit", "main"] if not hub.refuses:
                self._answer(hub.commit(self.path, [json.loads(x) for x in body.splitlines()]))
            case _:
                self._answer({}, code=403)

    def _answer(self, answer: object, code: int = 200) -> None:
        known = self.headers["Authorization"] == f"Bearer {TOKEN}"
        self.send_response(code if known else 401)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@contextmanager
def serving_hub() -> Generator[Hub]:
    """Serve in a thread."""
    with Hub() as hub:
        Thread(target=hub.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            hub.shutdown()

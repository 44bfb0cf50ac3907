"""Tests of the scripted endpoint as a server."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coevolve.commands import endpoint
from coevolve.commands.endpoint import Server
from coevolve.commands.environment import configured
from coevolve.environments.tools.scripted.model import NAME, ScriptedModel
from coevolve.environments.tools.task import ToolTask, ToolTurn
from protocols.errors import ConfigError, RunError

TASK = ToolTask(
    classes=("GorillaFileSystem",),
    world='{"GorillaFileSystem":{}}',
    turns=(ToolTurn(instruction="Make 'a.txt'.", reference=("touch(file_name='a.txt')",)),),
)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(ScriptedModel([TASK]), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked(server: Server, method: str, path: str, request: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    try:
        body = None if request is None else json.dumps(request)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_it_is_a_server_of_chat_completions_on_this_machine_alone(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert asked(server, "GET", "/v1/models")[1]["data"][0]["id"] == NAME
    chat = {"model": NAME, "messages": [{"role": "user", "content": "Hello."}], "temperature": 1}
    status, answer = asked(server, "POST", "/v1/chat/completions", chat)
    assert (status, answer["model"]) == (200, NAME)
    assert json.loads(answer["choices"][0]["message"]["content"]) == {}
    assert answer["usage"]["total_tokens"] > 0


@pytest.mark.parametrize(
    ("path", "request_", "status", "words"),
    [
        ("/v1/chat/completions", {"model": "gpt", "messages": []}, 404, "the only model here is"),
        ("/v1/chat/completions", {"model": NAME}, 400, "needs a chat"),
        ("/v1/chat/completions", [1], 400, "needs a chat"),
        ("/v1/embeddings", {"model": NAME, "messages": []}, 404, "there is no /v1/embeddings"),
    ],
)
def test_what_it_does_not_answer_it_refuses_in_words(
    server: Server, path: str, request_: Any, status: int, words: str
) -> None:
    found, answer = asked(server, "POST", path, request_)
    assert found == status
    assert words in answer["error"]["message"]


def test_a_taken_port_and_an_environment_without_tools_are_refused(server: Server) -> None:
    with pytest.raises(RunError, match="cannot be listened on: Address already in use; give anot"):
        Server(server.model, int(server.server_address[1]))
    with pytest.raises(ConfigError, match="knows classes of tools, found hdl"):
        endpoint.scripted("hdl", (), 0)


def test_tasks_without_a_wording_are_refused_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "own")
    turn = {"instruction": "You know.", "reference": ["put(key='a', value='1')"]}
    lines = [{"id": f"{n}", "world": {"k": f"{n}"}, "turns": [turn]} for n in range(4)]
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ConfigError, match="needs training tasks whose instructions say values"):
        endpoint.scripted("keyvalue:KeyValue", (f"tasks={file}", "unearned=keep"), 0)


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        (("tasks=a b.jsonl",), "coevolve start store:Store 'a b.jsonl' --synthesizer URL scripted"),
        (
            ("tasks=t", "seeds=4", "policy.model=m"),
            "coevolve start store:Store t environment.seeds=4 policy.model=m --synthesizer URL",
        ),
        (("seeds=4",), "In a run file:"),
    ],
)
def test_it_says_how_runs_ask_it(settings: tuple[str, ...], command: str) -> None:
    said = endpoint.uses("store:Store", settings, "URL")
    assert command in said
    assert "base_url: 'URL', model: scripted" in said
    assert ("coevolve start" in said) == any(each.startswith("tasks=") for each in settings)


@pytest.mark.parametrize(("worlds", "known"), [(4, 4), (40, 40), (400, 150)])
def test_it_knows_all_tasks_that_a_start_trains_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worlds: int, known: int
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "own")
    file = tmp_path / "tasks.jsonl"
    lines = [
        {
            "id": f"{n}",
            "world": {"k": f"{n}"},
            "split": "held_out" if n == worlds else "train",
            "turns": [
                {"instruction": f"Set 'k' to 'x{n}'.", "reference": [f"put(key='k', value='x{n}')"]}
            ],
        }
        for n in range(worlds + 1)
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    config = configured("keyvalue:KeyValue", (f"tasks={file}",))
    assert len(endpoint.training_tasks(config)) == known

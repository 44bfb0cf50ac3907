"""An MCP server's tools, called by the policy, and the three kinds of verdict."""

import asyncio
import contextlib
import importlib
import json
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import types
from msgspec.structs import replace

from coevolve.environments.program.settings import EXAMPLES, ProgramConfig
from protocols.errors import SimulatorError
from tests.coevolve.environments.program.test_program import running
from tests.gateways import TEMPLATE

SERVER = str(Path(__file__).parents[3] / "mcp_notes.py")
SETTINGS = ProgramConfig(
    tasks="", command=("coevolve:mcp_worker.py", sys.executable, SERVER), patience_s=60
)


def call(name: str, **arguments: object) -> str:
    written = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{written}\n</tool_call>"


LISTED = {"tool": "list_notes", "arguments": {}}
PROBED: dict[str, Any] = {"prompt": "Note tea.", "probes": [LISTED | {"equals": "tea"}]}
REFERENCE: dict[str, Any] = {
    "prompt": "Note tea and milk.",
    "reference": [{"tool": "add-note", "arguments": {"text": each}} for each in ("tea", "milk")],
    "probes": [LISTED],
}
ANSWER: dict[str, Any] = {"prompt": "How many notes are there after tea?", "answer": "1"}
ADD = call("add_note", text="tea")
ATTEMPTS: dict[str, tuple[dict[str, Any], tuple[str, ...], float]] = {
    "probe, right": (PROBED, (ADD, "Done."), 1.0),
    "probe, wrong": (PROBED, (call("add_note", text="milk"), "Done."), 0.0),
    "reference, right": (REFERENCE, (f"{ADD}\n{call('add_note', text='milk')}", "Done."), 1.0),
    "reference, half": (REFERENCE, (ADD, "Done."), 0.0),
    "answer, right": (ANSWER, (ADD, "There is 1."), 1.0),
    "wrong calls": (PROBED, (call("drop"), call("add_note", words=5), ADD, "Done."), 1.0),
}


@pytest.mark.parametrize("kind", ATTEMPTS)
async def test_an_attempt_at_an_mcp_server_gets_its_verdict(kind: str) -> None:
    line, script, reward = ATTEMPTS[kind]
    async with running(SETTINGS, *script, max_tokens=4096) as it:
        episode = await it.attempt(**line)
        assert (episode.reward, episode.succeeded) == (reward, reward == 1.0)
        assert len(episode.actions) == len(script)
        shown = TEMPLATE.decode(it.engine.requests[0].prompt_ids)
        assert "Add a note; return its number." in shown


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no prompt": ({"answer": "1"}, "a task's prompt: Field required, found {'answer': '1'}"),
    "no verdict": ({"prompt": "Note tea."}, "a task needs an answer, or probes, found neither"),
    "an empty answer": (ANSWER | {"answer": ""}, "needs to be no blank text, found ''"),
    "nothing to equal": (PROBED | {"probes": [LISTED]}, "a probe of list_notes needs `equals`"),
    "a number to equal": (
        PROBED | {"probes": [LISTED | {"equals": 1}]},
        "a task's probes.0.equals: Input should be a valid string, found 1",
    ),
    "a wrong field": (
        REFERENCE | {"reference": [{"tool": "add-note", "argument": {}}]},
        "a task's reference.0.argument: Extra inputs are not permitted, found {}",
    ),
}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("mcp_worker")


@pytest.mark.parametrize("kind", REFUSED)
def test_a_task_that_every_attempt_or_none_would_solve_is_refused(kind: str, worker: Any) -> None:
    line, cause = REFUSED[kind]
    with pytest.raises(ValueError, match=re.escape(cause)):
        worker.task_of(line)


def test_a_task_names_tools_of_the_server(worker: Any) -> None:
    with pytest.raises(ValueError, match=r"found \['add-note'\] beside \['list_notes'\]"):
        worker.check(worker.task_of(REFERENCE), [worker.tool("list_notes", "", {})])


async def test_a_reference_that_the_server_refuses_is_no_verdict() -> None:
    wrong = {"tool": "add-note", "arguments": {"words": 5}}
    line: dict[str, Any] = REFERENCE | {"reference": [wrong]}
    async with running(SETTINGS, "Done.", max_tokens=4096) as it:
        with pytest.raises(SimulatorError, match="the reference's call of add-note is refused: "):
            await it.attempt(**line)


async def test_the_end_of_a_server_is_told_with_its_last_words() -> None:
    settings = replace(SETTINGS, command=(SETTINGS.command[0], "python", "nowhere.py"))
    async with running(settings, max_tokens=4096) as it:
        with pytest.raises(SimulatorError, match=r"Connection closed; it printed last: .*nowhere"):
            await it.attempt(**ANSWER)


class Session:
    """A server of two pages of tools, whose answers have all kinds of parts."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    async def list_tools(self, *, params: Any) -> types.ListToolsResult:
        name, following = ("b", None) if params else ("a", "second")
        listed = types.Tool(name=name, input_schema={"type": "object"})
        return types.ListToolsResult(tools=[listed], next_cursor=following)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        self.calls.append(arguments)
        if name == "structured":
            return types.CallToolResult(content=[], structured_content={"result": []})
        resource = types.TextResourceContents(uri="note://1", text="in /somewhere/x")
        parts = (
            types.TextContent(text=""),
            types.EmbeddedResource(resource=resource),
            types.ImageContent(data="", mime_type="image/png"),
        )
        return types.CallToolResult(content=[*parts], is_error=True)


async def test_all_tools_are_listed_and_all_answers_are_texts(worker: Any) -> None:
    session = Session()
    server = worker.Server(session, "/somewhere")
    assert [each["function"]["name"] for each in await server.tools()] == ["a", "b"]
    assert await server.answer("structured", {}) == ('{"result": []}', False)
    answer = await server.answer("parts", {"path": "{folder}/x", "depth": 2})
    assert answer == ("\nin {folder}/x\n(image)", True)
    assert session.calls[-1] == {"path": "/somewhere/x", "depth": 2}


async def test_a_server_without_last_page_or_answer_is_refused(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless(Session):
        async def list_tools(self, *, params: Any) -> types.ListToolsResult:
            return types.ListToolsResult(tools=[], next_cursor="again")

    with pytest.raises(ValueError, match="in at most 100 pages, found more; the last one needs"):
        await worker.Server(Endless(), "/somewhere").tools()

    class Silent:
        async def initialize(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(worker, "STARTED_S", 0.0)
    with pytest.raises(worker.MCPError, match="`initialize` within 0 s, found no answer"):
        await worker.initialized(Silent())


def test_a_header_may_hold_a_variable_that_is_set(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "s")
    line = "Authorization: Bearer {KEY}"
    assert worker.headers_of([line]) == {"Authorization": "Bearer s"}
    monkeypatch.delenv("KEY")
    with pytest.raises(ValueError, match=r"environment.variables, found \['KEY'\]"):
        worker.headers_of([line])


async def test_a_started_server_has_a_folder_and_the_variables_that_the_settings_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NOTES_KEY", "s")
    started = f"test $NOTES_KEY = s && test -d $0 && exec {sys.executable} {SERVER}"
    command = (SETTINGS.command[0], "sh", "-c", started, "{folder}")
    settings = replace(SETTINGS, command=command, variables=("NOTES_KEY",))
    async with running(settings, ADD, "1", max_tokens=4096) as it:
        assert (await it.attempt(**(ANSWER | PROBED))).reward == 1.0


async def test_a_server_at_a_url_is_used_as_it_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    process = await asyncio.create_subprocess_exec(sys.executable, SERVER, str(port))
    try:
        while True:
            with contextlib.suppress(OSError):
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                break
            await asyncio.sleep(0.05)
        url = f"http://127.0.0.1:{port}/mcp"
        settings = replace(SETTINGS, command=(SETTINGS.command[0], url))
        async with running(settings, ADD, "1", max_tokens=4096) as it:
            assert (await it.attempt(**ANSWER)).reward == 1.0
    finally:
        process.kill()
        await process.wait()

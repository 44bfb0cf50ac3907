"""An MCP server's tools, called by the policy, and the three kinds of verdict."""

import asyncio
import contextlib
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from coevolve.environments.program.settings import ProgramConfig
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
PROBED = {"prompt": "Note tea.", "probes": [LISTED | {"equals": "tea"}]}
REFERENCE = {
    "prompt": "Note tea and milk.",
    "reference": [{"tool": "add-note", "arguments": {"text": each}} for each in ("tea", "milk")],
    "probes": [LISTED],
}
ANSWER = {"prompt": "How many notes are there after tea?", "answer": "1"}
ADD = call("add_note", text="tea")
ATTEMPTS: dict[str, tuple[dict[str, Any], tuple[str, ...], float]] = {
    "probe, right": (PROBED, (ADD, "Done."), 1.0),
    "probe, wrong": (PROBED, (call("add_note", text="milk"), "Done."), 0.0),
    "reference, right": (REFERENCE, (f"{ADD}\n{call('add_note', text='milk')}", "Done."), 1.0),
    "reference, one at a time": (REFERENCE, (ADD, call("add_note", text="milk"), "So."), 1.0),
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
    "no verdict": ({"prompt": "Note tea."}, "needs a prompt, and an answer or probes"),
    "an empty answer": (ANSWER | {"answer": ""}, "needs to be a text that is not blank, found ''"),
    "an unknown tool": (
        REFERENCE | {"reference": [{"tool": "drop", "arguments": {}}]},
        r"needs tools that the server lists, found \['drop'\]",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_task_that_every_attempt_would_solve_is_refused(kind: str) -> None:
    line, cause = REFUSED[kind]
    async with running(SETTINGS, max_tokens=4096) as it:
        with pytest.raises(SimulatorError, match=cause):
            await it.attempt(**line)


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
            line: dict[str, Any] = ANSWER
            assert (await it.attempt(**line)).reward == 1.0
    finally:
        process.kill()
        await process.wait()

"""Lets the policy call the tools of an MCP server: a command that is started, or a URL.

usage: python mcp_worker.py COMMAND [ARGUMENT]...
       python mcp_worker.py URL

The command ``python`` is the interpreter that runs this program. Each attempt has a server of its
own, so that it begins in a fresh state; at a URL, it has a session of its own. A task has a
``prompt``, and one of three verdicts:

- ``answer``: a text that the policy's last message has to contain;
- ``probes``: calls ``{"tool", "arguments", "equals"}`` that are made afterwards, and must return
  the text ``equals``; they should only read;
- ``reference``: calls ``{"tool", "arguments"}`` that are carried out in a second server; then the
  probes must return the same in both.
"""

# The package is in another Python environment.
# pyright: basic, reportMissingImports=false

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from chat_loop import Asked, converse, serve, tool
from mcp import ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED

SERVERS = 16
"""Maximum number of attempts at once; each has a server, or two."""


@contextlib.asynccontextmanager
async def server() -> AsyncGenerator[ClientSession]:
    """Start a server for the block, or a session at a URL."""
    command, *arguments = sys.argv[1:]
    if command.startswith(("http://", "https://")):
        transport = streamable_http_client(command)
    else:
        command = sys.executable if command == "python" else command
        transport = stdio_client(StdioServerParameters(command=command, args=arguments))
    async with transport as (reads, writes, *_), ClientSession(reads, writes) as session:
        await session.initialize()
        yield session


async def tools_of(session: ClientSession) -> list[dict[str, Any]]:
    """Return the server's tools in OpenAI's format."""
    listed = (each.model_dump(by_alias=True) for each in (await session.list_tools()).tools)
    return [tool(each["name"], each.get("description"), each["inputSchema"]) for each in listed]


async def text_of(session: ClientSession, name: str, arguments: dict[str, Any]) -> str:
    """Call a tool; return the text of its answer, or what is wrong with the call."""
    try:
        answer = await session.call_tool(name, arguments)
    except MCPError as error:
        if error.error.code == CONNECTION_CLOSED:
            raise
        return f"error: {error}"
    return "\n".join(getattr(each, "text", f"({each.type})") for each in answer.content)


async def probed(session: ClientSession, probes: Sequence[dict[str, Any]]) -> list[str]:
    """Return what the probes say of a server's state."""
    return [await text_of(session, each["tool"], each["arguments"]) for each in probes]


def check(task: dict[str, Any], tools: Sequence[dict[str, Any]]) -> None:
    """Refuse a task that every attempt would solve, or none. Raises ValueError."""
    known = {each["function"]["name"] for each in tools}
    if not known:
        raise ValueError("the server needs to list tools, found none")
    if "prompt" not in task or not ("answer" in task or task.get("probes")):
        raise ValueError("a task needs a prompt, and an answer or probes")
    answer = task.get("answer", "unused")
    if not (isinstance(answer, str) and answer.strip()):
        raise ValueError(f"an answer needs to be a text that is not blank, found {answer!r}")
    calls = (*task.get("probes", ()), *task.get("reference", ()))
    if unknown := {each["tool"] for each in calls} - known:
        raise ValueError(f"a task needs tools that the server lists, found {sorted(unknown)}")


async def reward_of(asked: Asked) -> float:
    """Make an attempt; return its reward."""
    task = asked["task"]
    probes = task.get("probes", ())
    async with server() as session:
        tools = await tools_of(session)
        check(task, tools)

        async def call(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
            return await text_of(session, name, arguments), False

        opening = [{"role": "user", "content": task["prompt"]}]
        said = await converse(asked, opening, tools, call)
        if "answer" in task:
            return float(task["answer"] in said)
        found = await probed(session, probes)
    if "reference" not in task:
        return float(found == [each["equals"] for each in probes])
    async with server() as session:
        for each in task["reference"]:
            await text_of(session, each["tool"], each["arguments"])
        return float(found == await probed(session, probes))


async def attempt(asked: Asked) -> dict[str, Any]:
    """Return the reward of an attempt."""
    return {"reward": await reward_of(asked)}


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("usage: mcp_worker.py COMMAND [ARGUMENT]..., or mcp_worker.py URL")
    asyncio.run(serve(attempt, SERVERS))

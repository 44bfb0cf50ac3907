"""Lets the policy call the tools of an MCP server, which it reaches over standard input and output.

usage: python mcp_worker.py SERVER [ARGUMENT]...

Each attempt has a server of its own, so that it begins in a fresh state. A task has a ``prompt``,
and one of three verdicts:

- ``answer``: a text that the policy's last message has to contain;
- ``probes``: calls ``{"tool", "arguments", "equals"}`` that are made afterwards, and must return
  the text ``equals``; they should only read;
- ``reference``: calls ``{"tool", "arguments"}`` that are carried out in a second server; then the
  probes must return the same in both.
"""

import asyncio
import contextlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SERVERS = 16
"""Maximum number of attempts at once; each has a server, or two."""

MESSAGES = 16
"""Maximum number of the policy's messages in an attempt."""

TOO_LONG = "context_length_exceeded"

Asked = dict[str, Any]


@contextlib.asynccontextmanager
async def server() -> AsyncGenerator[ClientSession]:
    """Start a server for the block."""
    command, *arguments = sys.argv[1:]
    given = StdioServerParameters(command=command, args=arguments)
    async with stdio_client(given) as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        yield session


async def tools_of(session: ClientSession) -> list[dict[str, Any]]:
    """Return the server's tools in OpenAI's format."""
    found: list[dict[str, Any]] = []
    for tool in (await session.list_tools()).tools:
        each = tool.model_dump(by_alias=True)
        function = {"name": each["name"], "description": each.get("description") or ""}
        found.append(
            {"type": "function", "function": function | {"parameters": each["inputSchema"]}}
        )
    return found


async def text_of(session: ClientSession, tool: str, arguments: dict[str, Any]) -> str:
    """Call a tool; return the text of its answer."""
    answer = await session.call_tool(tool, arguments)
    return "\n".join(getattr(each, "text", f"({each.type})") for each in answer.content)


async def ask(asked: Asked, messages: Sequence[Any], tools: Sequence[Any]) -> dict[str, Any]:
    """Return the policy's next message; an empty one if there is no room for it."""
    body = {"model": asked["model"], "messages": messages, "tools": tools}
    request = urllib.request.Request(  # noqa: S310 -- the policy's own endpoint
        f"{asked['base_url']}/chat/completions", json.dumps(body).encode()
    )

    def send() -> dict[str, Any]:
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310 -- as above
                return json.load(answer)["choices"][0]["message"]
        except urllib.error.HTTPError as error:
            if json.load(error)["error"]["code"] == TOO_LONG:
                return {"content": ""}
            raise

    return await asyncio.to_thread(send)


async def converse(asked: Asked, session: ClientSession) -> str:
    """Let the policy call tools until it makes no call; return its last words."""
    tools = await tools_of(session)
    names = {tool["function"]["name"] for tool in tools}
    messages: list[Any] = [{"role": "user", "content": asked["task"]["prompt"]}]
    said: dict[str, Any] = {}
    for _ in range(MESSAGES):
        said = await ask(asked, messages, tools)
        messages.append(said)
        if not said.get("tool_calls"):
            break
        for call in said["tool_calls"]:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            known = name in names
            text = await text_of(session, name, arguments) if known else f"no tool {name}"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return said.get("content") or ""


async def probed(session: ClientSession, probes: Sequence[dict[str, Any]]) -> list[str]:
    """Return what the probes say of a server's state."""
    return [await text_of(session, each["tool"], each["arguments"]) for each in probes]


async def attempt(asked: Asked) -> float:
    """Make an attempt; return its reward."""
    task = asked["task"]
    probes = task.get("probes", ())
    async with server() as session:
        said = await converse(asked, session)
        if "answer" in task:
            return float(task["answer"] in said)
        found = await probed(session, probes)
    if "reference" not in task:
        return float(found == [each["equals"] for each in probes])
    async with server() as session:
        for call in task["reference"]:
            await text_of(session, call["tool"], call["arguments"])
        return float(found == await probed(session, probes))


async def main() -> None:
    """Make attempts until there are no further lines."""
    free = asyncio.Semaphore(SERVERS)

    async def answer(asked: Asked) -> None:
        try:
            async with free:
                result: dict[str, Any] = {"reward": await attempt(asked)}
        except Exception as error:  # noqa: BLE001 -- one attempt's, whatever it is
            result = {"error": repr(error)}
        print(json.dumps({"id": asked["id"], **result}))

    async with asyncio.TaskGroup() as group:
        while line := await asyncio.to_thread(sys.stdin.readline):
            group.create_task(answer(json.loads(line)))


if __name__ == "__main__":
    asyncio.run(main())

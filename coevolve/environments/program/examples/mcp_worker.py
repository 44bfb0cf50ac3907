"""Lets the policy call the tools of an MCP server: a command that is started, or a URL.

usage: python mcp_worker.py COMMAND [ARGUMENT]...
       python mcp_worker.py URL ['HEADER: TEXT']...

The command ``python`` is the interpreter that runs this program. Each attempt has a server of its
own, so that it begins in a fresh state; at a URL, it has a session of its own. A started server has
the environment variables of this program; ``{VARIABLE}`` in a header is one of them. ``{folder}``
in an argument is a new folder of the server, and in calls and answers, too. A URL that ends with
``/sse`` has that transport. `Task` is the form of a task.
"""

# The package is in another Python environment.
# pyright: basic, reportMissingImports=false

import asyncio
import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple, TextIO

from chat_loop import Asked, cause_of, converse, serve, tool
from httpx2 import AsyncClient, HTTPError, Timeout
from mcp import ClientSession, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT, PaginatedRequestParams
from pydantic import BaseModel, ValidationError

SERVERS = 16
"""Maximum number of attempts at once; each has a server, or two."""

STARTED_S = 120.0
"""Seconds that a server may take to start."""

PAGES = 100
"""Maximum number of pages of tools of a server."""

FOLDER = "{folder}"
VARIABLE = re.compile(r"\{(\w+)\}")
PATIENCE = Timeout(30.0, read=300.0)
"""Seconds to wait for a server at a URL; its tools may take longer than a connection."""


class Call(BaseModel, extra="forbid"):
    """A call of a tool."""

    tool: str
    arguments: dict[str, Any] = {}


class Probe(Call):
    """A call that is made afterwards; it should only read."""

    equals: str | None = None
    """The text that it must return, in a task without a reference."""


class Task(BaseModel):
    """A task; whatever verdicts it has must agree."""

    prompt: str
    answer: str | None = None
    """A text that the policy's last message has to contain."""

    probes: list[Probe] = []
    reference: list[Call] | None = None
    """Calls that are carried out in a second server; the probes must return the same in both."""


class Server(NamedTuple):
    """A server, or a session of one."""

    session: ClientSession
    folder: str

    async def tools(self) -> list[dict[str, Any]]:
        """Return all tools in OpenAI's format. Raises ValueError for too many pages."""
        listed, page = [], None
        for _ in range(PAGES):
            found = await self.session.list_tools(params=page)
            listed += [tool(each.name, each.description, each.input_schema) for each in found.tools]
            if not found.next_cursor:
                return listed
            page = PaginatedRequestParams(cursor=found.next_cursor)
        raise ValueError(
            f"the server needs to list its tools in at most {PAGES} pages, found more; "
            "the last one needs to have no nextCursor"
        )

    async def answer(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """Call a tool; return the text of its answer, and whether it refuses the call."""
        arguments = json.loads(json.dumps(arguments).replace(FOLDER, self.folder))
        try:
            answer = await self.session.call_tool(name, arguments)
        except MCPError as error:
            if error.error.code == CONNECTION_CLOSED:
                raise
            return f"error: {error}", True
        parts = [text_of(each) for each in answer.content]
        if not parts and answer.structured_content is not None:
            parts = [json.dumps(answer.structured_content)]
        return "\n".join(parts).replace(self.folder, FOLDER), bool(answer.is_error)

    async def probed(self, probes: Sequence[Probe]) -> list[str]:
        """Return what the probes say of the server's state."""
        return [(await self.answer(each.tool, each.arguments))[0] for each in probes]


def text_of(part: Any) -> str:
    """Return the text of a part, or the type of a part that has none, such as an image."""
    return getattr(getattr(part, "resource", part), "text", f"({part.type})")


@contextlib.asynccontextmanager
async def server() -> AsyncGenerator[Server]:
    """Start a server for the block, or a session at a URL."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile("w+", errors="replace") as log,
    ):
        try:
            async with (
                transport(folder, log) as (reads, writes, *_),
                ClientSession(reads, writes) as session,
            ):
                await initialized(session)
                yield Server(session, folder)
        except* (MCPError, HTTPError) as errors:
            cause = f"the server {sys.argv[1]} failed: {cause_of(errors)}{last_words(log)}"
            raise ConnectionError(cause) from errors


async def initialized(session: ClientSession) -> None:
    """Begin a session. Raises MCPError, also if the server does not answer."""
    try:
        async with asyncio.timeout(STARTED_S):
            await session.initialize()
    except TimeoutError as error:
        cause = f"it needs to answer `initialize` within {STARTED_S:g} s, found no answer"
        raise MCPError(REQUEST_TIMEOUT, cause) from error


@contextlib.asynccontextmanager
async def transport(folder: str, log: TextIO) -> AsyncGenerator[Sequence[Any]]:
    """Open the streams of a server for the block."""
    command, *arguments = sys.argv[1:]
    async with contextlib.AsyncExitStack() as stack:
        if not command.startswith(("http://", "https://")):
            command = sys.executable if command == "python" else command
            arguments = [each.replace(FOLDER, folder) for each in arguments]
            own = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
            link = stdio_client(own, log)
        elif command.endswith("/sse"):
            link = sse_client(command, headers_of(arguments))
        else:
            client = AsyncClient(headers=headers_of(arguments), timeout=PATIENCE)
            link = streamable_http_client(
                command, http_client=await stack.enter_async_context(client)
            )
        yield await stack.enter_async_context(link)


def headers_of(lines: Sequence[str]) -> dict[str, str]:
    """Return headers, with their variables filled in. Raises ValueError."""
    found: dict[str, str] = {}
    for line in lines:
        name, mark, text = line.partition(": ")
        unset = [each for each in VARIABLE.findall(text) if each not in os.environ]
        if not mark or unset:
            raise ValueError(
                f"header {name!r} needs a text after a colon and a blank, and variables that are "
                f"set and named by environment.variables, found {unset or 'no text'}"
            )
        found[name] = VARIABLE.sub(lambda each: os.environ[each[1]], text)
    return found


def last_words(log: TextIO) -> str:
    """Pass a server's log on; return its last line for an error."""
    log.seek(0)
    lines = log.read().splitlines()
    sys.stderr.writelines(f"{each}\n" for each in lines)
    return f"; it printed last: {lines[-1]}" if lines else ""


def task_of(line: dict[str, Any]) -> Task:
    """Read a task. Raises ValueError for one that every attempt would solve, or none."""
    try:
        task = Task.model_validate(line)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"a task's {place}: {first['msg']}, found {first['input']!r}") from None
    if task.answer is None and not task.probes:
        raise ValueError("a task needs an answer, or probes, found neither")
    if task.answer is not None and not task.answer.strip():
        raise ValueError(f"a task's answer needs to be no blank text, found {task.answer!r}")
    for each in task.probes:
        if (each.equals is None) == (task.reference is None):
            raise ValueError(f"a probe of {each.tool} needs `equals`, or its task a `reference`")
    return task


def check(task: Task, tools: Sequence[dict[str, Any]]) -> None:
    """Refuse a task with tools that a server does not list. Raises ValueError."""
    known = {each["function"]["name"] for each in tools}
    if not known:
        raise ValueError("the server needs to list tools, found none")
    calls = (*task.probes, *(task.reference or ()))
    if unknown := {each.tool for each in calls} - known:
        raise ValueError(
            f"a task needs tools that the server lists, found {sorted(unknown)} "
            f"beside {sorted(known)}"
        )


async def reward_of(asked: Asked) -> float:
    """Make an attempt; return its reward."""
    task = task_of(asked["task"])
    async with server() as own:
        tools = await own.tools()
        check(task, tools)

        async def call(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
            return (await own.answer(name, arguments))[0], False

        said = await converse(asked, [{"role": "user", "content": task.prompt}], tools, call)
        found = await own.probed(task.probes)
    expected = [each.equals for each in task.probes]
    if task.reference is not None:
        expected = await referred(task.reference, task.probes)
    return float((task.answer or "") in said and found == expected)


async def referred(calls: Sequence[Call], probes: Sequence[Probe]) -> list[str]:
    """Return what the probes say after a reference. Raises ValueError if a call is refused."""
    async with server() as own:
        for each in calls:
            text, is_refused = await own.answer(each.tool, each.arguments)
            if is_refused:
                raise ValueError(f"the reference's call of {each.tool} is refused: {text}")
        return await own.probed(probes)


async def attempt(asked: Asked) -> dict[str, Any]:
    """Return the reward of an attempt."""
    return {"reward": await reward_of(asked)}


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("usage: mcp_worker.py COMMAND [ARGUMENT]..., or mcp_worker.py URL [HEADER]...")
    asyncio.run(serve(attempt, SERVERS))

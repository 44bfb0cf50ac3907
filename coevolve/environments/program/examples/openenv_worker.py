"""Lets the policy act in an OpenEnv server: a command that is started, or a URL.

usage: python openenv_worker.py COMMAND [ARGUMENT]...
       python openenv_worker.py URL

The command ``python`` is the interpreter that runs this program, and ``{port}`` in an argument is a
free port. Each attempt has a session of the server. All fields of a task are optional: ``reset``
has arguments, ``prompt`` comes before the first observation, and ``total`` (last, sum, or max) says
how the rewards of the steps become one. The policy has the tool ``act``, with the schema of the
server's actions; at a server of MCP tools, it has these tools.
"""

# The package is in another Python environment.
# pyright: basic, reportMissingImports=false

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from typing import Any

from chat_loop import Asked, converse, serve, tool
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

SESSIONS = 64
"""Maximum number of attempts at once; a server may have a lower one."""

STARTED_S = 300.0
"""Seconds that a server may take to start."""

ENDED_S = 5.0
"""Seconds in which a server that closes a session may end, and this program with it: then nothing
is said of the attempt, and it is made again."""

WAIT_S = 0.2
FULL = "CAPACITY_REACHED"
TOTALS = {"last": lambda rewards: rewards[-1], "sum": sum, "max": max}
UNTOLD = ("metadata", "reward", "done")
"""Fields of observations and actions that are not the policy's."""


class ServerError(Exception):
    """The server cannot do what is asked."""


async def sent(link: ClientConnection, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return the server's answer to a message. Raises ServerError."""
    with contextlib.suppress(ConnectionClosed):  # what it said before can still be read
        await link.send(json.dumps({"type": kind, "data": data}))
    try:
        answer = json.loads(await link.recv())
    except ConnectionClosed as error:
        await asyncio.sleep(ENDED_S)
        raise ConnectionError(f"the server closed the session: {error}") from error
    if answer["type"] == "error":
        raise ServerError(json.dumps(answer["data"]))
    return answer["data"]


@contextlib.asynccontextmanager
async def session(url: str, reset: dict[str, Any]) -> AsyncGenerator[tuple[ClientConnection, str]]:
    """Open a session as soon as the server has room for it; yield it with the first observation."""
    while True:
        async with connect(f"ws{url.removeprefix('http')}/ws", max_size=None) as link:
            try:
                first = await sent(link, "reset", reset)
            except ServerError as error:
                if FULL not in str(error):
                    raise ServerError(f"the server refuses the task's reset: {error}") from error
            else:
                yield link, text_of(first["observation"])
                return
        await asyncio.sleep(WAIT_S)


def text_of(observation: dict[str, Any]) -> str:
    """Return an observation as a text."""
    shown = [each for each in observation.items() if each[0] not in UNTOLD]
    is_text = len(shown) == 1 and isinstance(shown[0][1], str)
    return shown[0][1] if is_text else json.dumps(dict(shown))


async def tools_of(link: ClientConnection, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tools of a server of MCP tools in OpenAI's format; empty for another one."""
    if "tool_name" not in schema["properties"]:
        return []
    listed = (await sent(link, "step", {"type": "list_tools"}))["observation"]["tools"]
    return [tool(each["name"], each.get("description"), each["input_schema"]) for each in listed]


async def attempt(asked: Asked, url: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the reward of an attempt."""
    task, rewards = asked["task"], [0.0]
    total = TOTALS.get(task.get("total", "last"))
    if total is None:
        raise ValueError(f"total needs to be one of {', '.join(TOTALS)}, found {task['total']!r}")
    properties = {name: each for name, each in schema["properties"].items() if name not in UNTOLD}
    act = tool("act", schema.get("description"), schema | {"properties": properties})
    async with session(url, task.get("reset", {})) as (link, first):
        tools = await tools_of(link, schema)

        async def call(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
            mcp = {"type": "call_tool", "tool_name": name, "arguments": arguments}
            try:
                found = await sent(link, "step", mcp if tools else arguments)
            except ServerError as error:  # the policy wrote the action
                return f"error: {error}", False
            reward, is_done = found.get("reward"), bool(found.get("done"))
            if is_done and reward is None and total is TOTALS["last"]:
                raise ValueError("the last step needs a reward, found none, as which NaN is sent")
            rewards.append(float(reward or 0.0))
            return text_of(found["observation"]), is_done

        opening = "\n\n".join(filter(None, (task.get("prompt"), first)))
        await converse(asked, [{"role": "user", "content": opening}], tools or [act], call)
    return {"reward": total(rewards)}


def started(command: list[str]) -> str:
    """Start a server; return its URL. This program ends with the server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    argv = [sys.executable if each == "python" else each for each in command]
    argv = [each.replace("{port}", port) for each in argv]
    process = subprocess.Popen(argv, stdout=sys.stderr)  # noqa: S603 -- the user's own

    def end() -> None:
        os._exit(abs(process.wait()) or 1)  # what it printed last is the cause

    threading.Thread(target=end, daemon=True).start()
    return f"http://127.0.0.1:{port}"


def answering(url: str, patience_s: float) -> dict[str, Any]:
    """Return the schema of a server's actions as soon as it answers. Ends this program without."""
    began_s = time.monotonic()
    while True:
        try:
            with urllib.request.urlopen(f"{url}/schema") as answer:  # noqa: S310 -- the user's
                return json.load(answer)["action"]
        except OSError as error:
            is_no_server = isinstance(error, urllib.error.HTTPError)
            if is_no_server or time.monotonic() - began_s > patience_s:
                sys.exit(f"an OpenEnv server needs to answer {url}/schema, found: {error}")
        time.sleep(WAIT_S)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    is_there = sys.argv[1].startswith(("http://", "https://"))
    url = sys.argv[1].rstrip("/") if is_there else started(sys.argv[1:])
    schema = answering(url, 0.0 if is_there else STARTED_S)
    asyncio.run(serve(lambda asked: attempt(asked, url, schema), SESSIONS))

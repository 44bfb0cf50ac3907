"""The loop of an agent that calls tools, and the lines between coevolve and an agent program.

The programs that coevolve carries share it, each in a Python with its own packages, so it needs the
standard library alone.
"""

import asyncio
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

MESSAGES = 16
"""Maximum number of the policy's messages in an attempt."""

TOO_LONG = "context_length_exceeded"
NO_NAME = re.compile(r"[^A-Za-z0-9_.]")
"""What the names of tools may not hold: calls are read as Python's."""

Asked = dict[str, Any]
"""A request for an attempt: ``id``, ``task``, ``base_url``, and ``model``."""

Call = Callable[[str, dict[str, Any]], Awaitable[tuple[str, bool]]]
"""Carries a call of a tool out; returns its result, and whether the attempt ends with it."""


def tool(name: str, description: str | None, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return a tool in OpenAI's format."""
    function = {"name": name, "description": description or "", "parameters": parameters}
    return {"type": "function", "function": function}


async def converse(
    asked: Asked, messages: list[Any], tools: Sequence[dict[str, Any]], call: Call
) -> str:
    """Let the policy call tools until it makes no call, or the attempt ends; return its last words.

    A character that a name may not hold, such as a hyphen, becomes an underscore for the policy.
    """
    names = {NO_NAME.sub("_", each["function"]["name"]): each["function"]["name"] for each in tools}
    if len(names) < len(tools):
        raise ValueError("tools need names that differ in more than hyphens and other marks")
    offered = [
        tool(name, each["function"]["description"], each["function"]["parameters"])
        for name, each in zip(names, tools, strict=True)
    ]
    said: dict[str, Any] = {}
    for _ in range(MESSAGES):
        said = await asyncio.to_thread(_asked, asked, messages, offered)
        messages.append(said)
        if not said.get("tool_calls"):
            break
        for each in said["tool_calls"]:
            name, arguments = each["function"]["name"], json.loads(each["function"]["arguments"])
            text, is_last = f"no tool {name}", False
            if name in names:
                text, is_last = await call(names[name], arguments)
            messages.append({"role": "tool", "tool_call_id": each["id"], "content": text})
            if is_last:
                return said.get("content") or ""
    return said.get("content") or ""


def _asked(asked: Asked, messages: Sequence[Any], tools: Sequence[Any]) -> dict[str, Any]:
    """Return the policy's next message; an empty one if there is no room for it."""
    body = {"model": asked["model"], "messages": messages, "tools": tools}
    url = f"{asked['base_url']}/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode())  # noqa: S310 -- the policy's
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 -- as above
            return json.load(answer)["choices"][0]["message"]
    except urllib.error.HTTPError as error:
        if json.load(error)["error"]["code"] == TOO_LONG:
            return {"content": ""}
        raise


async def serve(attempt: Callable[[Asked], Awaitable[dict[str, Any]]], at_once: int) -> None:
    """Make attempts until there are no further lines, at most ``at_once`` at the same time.

    ``attempt`` returns ``{"reward"}`` or ``{"error", "fault"}``; what it raises is a failure of the
    machine.
    """
    free, out = asyncio.Semaphore(at_once), sys.stdout
    sys.stdout = sys.stderr  # what a package prints is no answer
    # A thread for each attempt, and one that reads.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(at_once + 1))

    async def answer(asked: Asked) -> None:
        try:
            async with free:
                result = await attempt(asked)
        except Exception as error:  # noqa: BLE001 -- one attempt's, whatever it is
            cause = cause_of(error)
            result = {"error": f"{type(cause).__name__}: {cause}"[:300]}
        print(json.dumps({"id": asked["id"], **result}), file=out, flush=True)

    async with asyncio.TaskGroup() as group:
        while line := await asyncio.to_thread(sys.stdin.readline):
            group.create_task(answer(json.loads(line)))


def cause_of(error: BaseException) -> BaseException:
    """Return the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("Any", error).exceptions[0]
    return error

"""Lets the policy attempt the tasks of a task set of verifiers 0.4, with its reward.

usage: python verifiers_worker.py TASKSET [NAME=JSON]... [--tasks]

TASKSET is the id of a task set, or a module that exports one; NAME=JSON is a setting of it. The
agent talks and calls tools in this process: the harnesses of verifiers start a program for each
attempt. With --tasks, it prints the tasks and ends.
"""

# The package is in another Python environment.
# pyright: basic, reportMissingImports=false

import asyncio
import contextlib
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import httpx
import verifiers.v1 as vf
from chat_loop import MESSAGES, Asked, serve, tool
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from verifiers.v1.clients import EvalClientConfig
from verifiers.v1.runtimes import ProgramResult
from verifiers.v1.utils.loaders import load_taskset, taskset_config_type

ATTEMPTS = 64
"""Maximum number of attempts at once."""

HARNESS = "coevolve_harness"
"""Name of the module that verifiers finds `InProcess` in."""


class InProcess(vf.Harness[vf.HarnessConfig]):
    """An agent that calls tools until it makes no call."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx: Any, trace: Any, runtime: Any, *given: Any) -> ProgramResult:
        """Make an attempt through the endpoint of verifiers, which records the messages."""
        endpoint, secret, mcp_urls, data = given
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        messages += [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        async with contextlib.AsyncExitStack() as stack:
            http = await stack.enter_async_context(httpx.AsyncClient(timeout=None))  # noqa: S113
            http.headers["authorization"] = f"Bearer {secret}"
            tools, sessions = await tools_of(stack, mcp_urls)
            offered = {"tools": tools} if tools else {}
            for _ in range(MESSAGES):
                body = {"model": ctx.model, "messages": messages, **offered}
                answer = await http.post(f"{endpoint}/chat/completions", json=body)
                if not answer.is_success:
                    code = 0 if trace.stop_condition else 1
                    return ProgramResult(exit_code=code, stdout="", stderr=answer.text)
                said = answer.json()["choices"][0]["message"]
                messages.append(said)
                if not said.get("tool_calls"):
                    break
                messages += [await answered(sessions, call) for call in said["tool_calls"]]
        return ProgramResult(exit_code=0, stdout="", stderr="")


async def tools_of(stack: contextlib.AsyncExitStack, urls: dict[str, str]) -> tuple[Any, Any]:
    """Return the tools of servers in OpenAI's format, and each one's session."""
    tools, sessions = list[dict[str, Any]](), dict[str, Any]()
    for url in urls.values():
        reads, writes, *_ = await stack.enter_async_context(streamable_http_client(url))
        session = await stack.enter_async_context(ClientSession(reads, writes))
        await session.initialize()
        for listed in (await session.list_tools()).tools:
            each = listed.model_dump(by_alias=True)
            tools.append(tool(each["name"], each.get("description"), each["inputSchema"]))
            sessions[each["name"]] = session
    return tools, sessions


async def answered(sessions: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    """Carry a call out; return the message with its result, or with what is wrong with it."""
    name = call["function"]["name"]
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
        found = await sessions[name].call_tool(name, arguments)
        text = "".join(getattr(each, "text", f"({each.type})") for each in found.content)
    except Exception as error:  # noqa: BLE001 -- the policy wrote the call
        text = f"error: {name}: {error}"
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


async def attempted(asked: Asked, tasks: list[Any]) -> dict[str, Any]:
    """Return the reward of an attempt, or why there is none."""
    client = EvalClientConfig(base_url=asked["base_url"], api_key_var="OPENAI_API_KEY")
    here = {"type": "subprocess"}  # the default is a cloud
    settings = {"model": asked["model"], "client": client, "harness": {"id": HARNESS}}
    agent = vf.make_agent(vf.AgentConfig(**settings, runtime=here))
    trace = await agent.run(tasks[asked["task"]["index"]])
    if trace.ok:
        return {"reward": float(trace.reward)}
    return {"error": f"{trace.last_error}"[:300]}


def tasks_of(name: str, settings: list[str]) -> list[Any]:
    """Return the tasks of a task set; tool servers find its module, as this process does."""
    os.environ["PYTHONPATH"] = here = str(Path.cwd())
    sys.path.insert(0, here)
    given = {each.partition("=")[0]: json.loads(each.partition("=")[2]) for each in settings}
    return list(load_taskset(taskset_config_type(name)(id=name, **given)).load())


if __name__ == "__main__":
    harness = types.ModuleType(HARNESS)
    harness.__dict__.update(InProcess=InProcess, __all__=["InProcess"])
    sys.modules[HARNESS] = harness
    name, *settings = [each for each in sys.argv[1:] if each != "--tasks"]
    found = tasks_of(name, settings)
    if "--tasks" in sys.argv:
        for index, task in enumerate(found):
            line = {"id": f"{name}-{index}", "index": index, "prompt": f"{task.data.prompt}"}
            print(json.dumps(line))
    else:
        asyncio.run(serve(lambda asked: attempted(asked, found), ATTEMPTS))

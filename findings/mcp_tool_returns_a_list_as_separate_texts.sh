#!/usr/bin/env bash
# mcp 2.3.0, Python's SDK of the Model Context Protocol: a tool that returns a list answers with a text
# part for each element, so an empty list has no part at all.
#
# A guess that fails: who shows a model the texts of an answer, as most agents do, shows it nothing for
# `[]`, and the same two lines for `["tea", "milk"]` and for the one text "tea\nmilk". Only
# `structured_content` tells them apart. Seen:
#
#     nothing: texts [], structured {'result': []}
#     several: texts ['tea', 'milk'], structured {'result': ['tea', 'milk']}
#     lines: texts ['tea\nmilk'], structured {'result': 'tea\nmilk'}
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "mcp==2.3.0"
cd "$place"
cat > server.py <<'PYTHON'
from mcp.server.mcpserver import MCPServer

server = MCPServer("lists")


@server.tool()
def nothing() -> list[str]:
    return []


@server.tool()
def several() -> list[str]:
    return ["tea", "milk"]


@server.tool()
def lines() -> str:
    return "tea\nmilk"


server.run()
PYTHON
cat > client.py <<'PYTHON'
import asyncio
import sys
from importlib.metadata import version

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

EXPECTED = {
    "nothing": ([], {"result": []}),
    "several": (["tea", "milk"], {"result": ["tea", "milk"]}),
    "lines": (["tea\nmilk"], {"result": "tea\nmilk"}),
}


async def main() -> None:
    print("mcp", version("mcp"))
    parameters = StdioServerParameters(command=sys.executable, args=["server.py"])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        for name, expected in EXPECTED.items():
            answer = await session.call_tool(name, {})
            found = [part.text for part in answer.content], answer.structured_content
            print(f"{name}: texts {found[0]}, structured {found[1]}")
            if found != expected:
                raise SystemExit(f"{name} has changed: expected {expected}")


asyncio.run(main())
PYTHON
venv/bin/python client.py

#!/usr/bin/env bash
# mcp 2.3.0, Python's SDK of the Model Context Protocol: the text of what a tool raises does not reach the
# client.
#
# A guess that fails: a tool that raises `ValueError("no note 7")` tells the model what was wrong, as with
# mcp 1.26.0. The model reads the tool's name only, and cannot mend its call; what the server's tests of
# the plain function see is another text. A `ToolError` keeps its text, and so does a wrong type of an
# argument. Seen:
#
#     1.26.0: 'Error executing tool plain: no note 7', 'Error executing tool told: no note 7'
#     2.3.0: 'Error executing tool plain', 'Error executing tool told: no note 7'
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for version in 1.26.0 2.3.0; do
  python3 -m venv "$place/$version"
  "$place/$version/bin/pip" install --quiet "mcp==$version"
done
cd "$place"
cat > server.py <<'PYTHON'
try:
    from mcp.server.fastmcp import FastMCP as Server
    from mcp.server.fastmcp.exceptions import ToolError
except ImportError:
    from mcp.server.mcpserver import MCPServer as Server
    from mcp.server.mcpserver.exceptions import ToolError

server = Server("errors")


@server.tool()
def plain() -> str:
    raise ValueError("no note 7")


@server.tool()
def told() -> str:
    raise ToolError("no note 7")


server.run()
PYTHON
cat > client.py <<'PYTHON'
import asyncio
import sys
from importlib.metadata import version

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

EXPECTED = {"1.26.0": [": no note 7", ": no note 7"], "2.3.0": ["", ": no note 7"]}


async def main() -> None:
    found = []
    parameters = StdioServerParameters(command=sys.executable, args=["server.py"])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        for name in ("plain", "told"):
            found.append((await session.call_tool(name, {})).content[0].text)
    print(f"{version('mcp')}: {', '.join(map(repr, found))}")
    expected = EXPECTED[version("mcp")]
    if found != [f"Error executing tool {n}{t}" for n, t in zip(("plain", "told"), expected)]:
        raise SystemExit(f"it has changed: expected {expected}")


asyncio.run(main())
PYTHON
for version in 1.26.0 2.3.0; do
  "$version/bin/python" client.py 2> /dev/null
done

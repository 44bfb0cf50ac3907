#!/usr/bin/env bash
# mcp 2.3.0, Python's SDK of the Model Context Protocol: `stdio_client` starts the server in a session of
# its own.
#
# A guess that fails: who kills the client's process group, as job runners and `os.killpg` do, ends its
# servers too. A server that is busy in a tool, and so does not see its standard input close, lives on.
# End the server's own group as well, or be the subreaper of both.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "mcp==2.3.0" "psutil==7.1.3"
cd "$place"
cat > server.py <<'PYTHON'
import time

from mcp.server.mcpserver import MCPServer

server = MCPServer("busy")


@server.tool()
def work() -> str:
    time.sleep(60)
    return "done"


server.run()
PYTHON
cat > client.py <<'PYTHON'
import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main() -> None:
    parameters = StdioServerParameters(command=sys.executable, args=["server.py"])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        print("began", flush=True)
        await session.call_tool("work", {})


asyncio.run(main())
PYTHON
venv/bin/python - <<'PYTHON'
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version

import psutil

client = subprocess.Popen(
    [sys.executable, "client.py"], stdout=subprocess.PIPE, start_new_session=True
)
client.stdout.readline()
(server,) = psutil.Process(client.pid).children()
in_group = os.getpgid(server.pid) == os.getpgid(client.pid)
in_session = os.getsid(server.pid) == os.getsid(client.pid)
time.sleep(1)
os.killpg(client.pid, signal.SIGKILL)
client.wait()
time.sleep(2)
lives = server.is_running() and server.status() != psutil.STATUS_ZOMBIE
if lives:
    server.kill()
print(f"mcp {version('mcp')}: the server is in its client's group: {in_group}, session: {in_session}")
print(f"2 s after the client's group was killed, the busy server lives: {lives}")
sys.exit(0 if (in_group, in_session, lives) == (False, False, True) else 1)
PYTHON

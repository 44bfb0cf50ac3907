#!/usr/bin/env bash
# mcp 2.3.0, Python's SDK of the Model Context Protocol: `ctx.session` of a tool is another object at each
# call of one session, over HTTP and SSE.
#
# A guess that fails: a server that keeps state by session, in `WeakKeyDictionary()[ctx.session]` or by
# `id(ctx.session)`, as works with mcp 1.26.0, forgets it between two calls, or gives it to another
# session. Over HTTP, the lifespan no longer tells sessions apart either: it begins once for all of them.
# What is the same for all calls of a session, and no other's, is the header `mcp-session-id` of
# `ctx.request_context.request`, and over SSE its query parameter `session_id`. Seen, for two sessions with
# two calls each:
#
#     1.26.0 streamable-http: 2 session objects, 2 lifespans, 2 ids
#     1.26.0 sse: 2 session objects, 2 lifespans, 2 ids
#     2.3.0 streamable-http: 4 session objects, 1 lifespans, 2 ids
#     2.3.0 sse: 4 session objects, 2 lifespans, 2 ids
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for version in 1.26.0 2.3.0; do
  python3 -m venv "$place/$version"
  "$place/$version/bin/pip" install --quiet "mcp==$version"
done
cd "$place"
cat > server.py <<'PYTHON'
import itertools
import sys
from contextlib import asynccontextmanager

try:
    from mcp.server.fastmcp import Context, FastMCP as Server
except ImportError:
    from mcp.server.mcpserver import Context, MCPServer as Server

transport, port = sys.argv[1], int(sys.argv[2])
began = itertools.count()
sessions = []


@asynccontextmanager
async def lifespan(server):
    yield next(began)


at = {"port": port}
server = Server("who", lifespan=lifespan, **(at if "fastmcp" in Server.__module__ else {}))


@server.tool()
def who(ctx: Context) -> str:
    if not any(each is ctx.session for each in sessions):
        sessions.append(ctx.session)
    number = next(i for i, each in enumerate(sessions) if each is ctx.session)
    request = ctx.request_context.request
    name = request.query_params.get("session_id") or request.headers.get("mcp-session-id")
    return f"{number} {ctx.request_context.lifespan_context} {name}"


server.run(transport=transport, **({} if "fastmcp" in Server.__module__ else at))
PYTHON
cat > client.py <<'PYTHON'
import asyncio
import sys

from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client


async def main(url: str) -> None:
    for _ in range(2):
        open_streams = sse_client if url.endswith("/sse") else streamable_http_client
        async with open_streams(url) as (reads, writes, *_), ClientSession(reads, writes) as session:
            await session.initialize()
            for _ in range(2):
                print((await session.call_tool("who", {})).content[0].text)


asyncio.run(main(sys.argv[1]))
PYTHON
cat > check.py <<'PYTHON'
import socket
import subprocess
import time

EXPECTED = {
    ("1.26.0", "streamable-http"): (2, 2, 2),
    ("1.26.0", "sse"): (2, 2, 2),
    ("2.3.0", "streamable-http"): (4, 1, 2),
    ("2.3.0", "sse"): (4, 2, 2),
}
PATHS = {"streamable-http": "mcp", "sse": "sse"}

for (version, transport), expected in EXPECTED.items():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [f"{version}/bin/python", "server.py", transport, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            with socket.socket() as link:
                if link.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        url = f"http://127.0.0.1:{port}/{PATHS[transport]}"
        client = ["2.3.0/bin/python", "client.py", url]
        lines = subprocess.run(client, check=True, capture_output=True, text=True).stdout.splitlines()
    finally:
        server.kill()
    found = tuple(len(set(each)) for each in zip(*map(str.split, lines)))
    objects, lifespans, ids = found
    print(f"{version} {transport}: {objects} session objects, {lifespans} lifespans, {ids} ids")
    if found != expected:
        raise SystemExit(f"this has changed: expected {expected}, found {found}")
PYTHON
2.3.0/bin/python check.py

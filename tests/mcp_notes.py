"""A small MCP server: notes in memory; with a port, at a URL."""

import sys

from mcp.server.mcpserver import MCPServer

server, notes = MCPServer("notes"), list[str]()


@server.tool(name="add-note")
def add_note(text: str) -> str:
    """Add a note; return its number."""
    notes.append(text)
    return str(len(notes))


@server.tool()
def list_notes() -> str:
    """List the notes, one a line."""
    return "\n".join(notes) or "none"


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    server.run()

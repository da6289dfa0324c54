"""A server of tools made with the official SDK, and how it behaves when it does not: over lines where it is run, over HTTP
where it is imported."""

import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
import time

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations


def make(seen=None):
    """A server with a few tools. `seen` gets the name of each call and the headers that it came with."""
    server = MCPServer("tools", log_level="CRITICAL")

    def note(name, context=None):
        if seen is not None:
            seen.append((name, dict(context.headers or {}) if context else {}))

    @server.tool(name="get_weather", annotations=ToolAnnotations(read_only_hint=True))
    def get_weather(location: str, context: Context) -> str:
        """Get the current weather"""
        note("get_weather", context)
        return '{"temperature": 21, "sky": "sunny"}'

    @server.tool(name="pick.color", structured_output=False)
    def pick(color: str) -> str:
        """Picks a color."""
        note("pick.color")
        return f"picked {color}"

    @server.tool(structured_output=False)
    def fail() -> str:
        """Always fails."""
        note("fail")
        raise ValueError("nothing works")

    @server.tool(structured_output=False)
    def die() -> str:
        """Ends the program."""
        os._exit(3)

    @server.tool(structured_output=False)
    async def sleep() -> str:
        """Takes a minute."""
        note("sleep")
        await asyncio.sleep(60)
        return "awake"

    @server.tool(structured_output=False)
    def flood() -> str:
        """Says too much."""
        return "x" * (5 << 20)

    @server.tool(structured_output=False)
    def secret() -> str:
        """Tells a variable of the program."""
        return f"{os.environ.get('TOOL_SECRET')} {'MLXSERVE_API_KEY' in os.environ}"

    @server.prompt(name="Plan trip")
    def plan(place: str) -> str:
        """Plans a trip."""
        return f"Plan a trip to {place}."

    @server.resource("notes://packing", name="packing.md")
    def packing() -> str:
        """What to pack"""
        return "goggles and wax"

    @server.tool(structured_output=False)
    async def learn(context: Context) -> str:
        """Learns a new tool."""
        server.add_tool(lambda: "new", name="newcomer", description="Was not here before", structured_output=False)
        await context.session.send_tool_list_changed()
        return "learnt"

    return server


@contextlib.contextmanager
def over_http(seen=None, **options):
    """The URL of such a server on a free port of this machine."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    app = make(seen).streamable_http_app(**options)
    runner = uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    while not runner.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        runner.should_exit = True
        thread.join(10)


def config(**servers):
    """The text of a file as desktop programs have it."""
    return json.dumps({"mcpServers": servers})


def program(**more):
    """This file as a server over lines."""
    return {"command": sys.executable, "args": [os.path.abspath(__file__)], **more}


if __name__ == "__main__":
    make().run()

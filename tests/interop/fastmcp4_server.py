"""FastMCP 4.x with background tasks (the extension of 2026-07-28, in memory) and its event store for the stateful era.

Usage: python fastmcp4_server.py --port PORT [--journal FILE]
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import mcp_types
import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.server.event_store import EventStore
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from parts import Journal, arguments

# Its default is 5 s; nothing here needs to wait that long.
POLL = timedelta(milliseconds=500)
QUESTION = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "loud": {"type": "boolean", "default": False}},
    "required": ["name"],
}


def build(journal: Journal) -> FastMCP:
    """The server with its tools."""
    server: FastMCP = FastMCP("interop-fastmcp4")
    server.add_extension(TasksExtension(url="memory://"))

    async def count(steps: int, delay_ms: int, ctx: Context) -> str:
        async def tell(step: int) -> None:
            await ctx.report_progress(step, steps, f"step {step} of {steps}")

        return await journal.work(steps, delay_ms, tell)

    @server.tool(output_schema=None)
    async def slow_count(steps: int, delay_ms: int, ctx: Context) -> str:
        """Count to `steps`, waiting `delay_ms` before each; progress after every step; never a task."""
        return await count(steps, delay_ms, ctx)

    @server.tool(output_schema=None, task=TaskConfig(mode="optional", poll_interval=POLL))
    async def slow_task(steps: int, delay_ms: int, ctx: Context) -> str:
        """The same as a background task, where the client knows tasks."""
        return await count(steps, delay_ms, ctx)

    def ask(ctx: Context) -> Any:
        given = (ctx.input_responses or {}).get("who")
        if given is None:
            journal.note("asked")
            form = mcp_types.ElicitRequestFormParams(message="What is your name?", requested_schema=QUESTION)
            return mcp_types.InputRequiredResult(input_requests={"who": mcp_types.ElicitRequest(params=form)})
        with journal.run():
            if isinstance(given, mcp_types.ElicitResult) and given.action == "accept":
                return f"hello {(given.content or {}).get('name')}"
            return f"no name: {getattr(given, 'action', given)}"

    @server.tool(output_schema=None)
    async def ask_name(ctx: Context) -> Any:
        """Ask for a name, and greet."""
        return ask(ctx)

    @server.tool(output_schema=None, task=TaskConfig(mode="optional", poll_interval=POLL))
    async def ask_task(ctx: Context) -> Any:
        """The same as a background task, where the client knows tasks."""
        return ask(ctx)

    return server


def main() -> None:
    """Serve until killed."""
    options = arguments(__doc__ or "")
    server = build(Journal(options.journal))
    app = server.http_app(event_store=EventStore())
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="info")


if __name__ == "__main__":
    main()

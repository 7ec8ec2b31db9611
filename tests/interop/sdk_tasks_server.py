"""A server on the official Python SDK 1.x with its experimental tasks of 2025-11-25, which belong to their session.

Usage: python sdk_tasks_server.py --port PORT [--journal FILE]
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import mcp.types as types
import uvicorn
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from parts import Journal, MemoryStore, arguments
from starlette.applications import Starlette
from starlette.routing import Mount

STEPS = {
    "type": "object",
    "properties": {"steps": {"type": "integer"}, "delay_ms": {"type": "integer"}},
    "required": ["steps", "delay_ms"],
}
QUESTION = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "loud": {"type": "boolean", "default": False}},
    "required": ["name"],
}


def text(words: str) -> types.CallToolResult:
    """A result of one text."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)])


def build(journal: Journal) -> Server[Any, Any]:
    """The server with its two tools, which run only as tasks."""
    server: Server[Any, Any] = Server("interop-sdk-tasks")
    server.experimental.enable_tasks()
    execution = types.ToolExecution(taskSupport="required")

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return [
            types.Tool(name="slow_task", description="Count to `steps`", inputSchema=STEPS, execution=execution),
            types.Tool(
                name="ask_task", description="Ask for a name", inputSchema={"type": "object"}, execution=execution
            ),
        ]

    @server.call_tool()
    async def call_tool(name: str, given: dict[str, Any]) -> types.CreateTaskResult | types.CallToolResult:
        context = server.request_context
        context.experimental.validate_task_mode("required")

        async def count(task: ServerTaskContext) -> types.CallToolResult:
            async def tell(step: int) -> None:
                # The SDK gives the work no word of a cancel: it runs on to its end.
                await task.update_status(f"step {step} of {given['steps']}")

            return text(await journal.work(given["steps"], given["delay_ms"], tell))

        async def ask(task: ServerTaskContext) -> types.CallToolResult:
            with journal.run():
                journal.note("asked")
                answer = await task.elicit("What is your name?", QUESTION)
                if answer.action == "accept":
                    return text(f"hello {(answer.content or {}).get('name')}")
                return text(f"no name: {answer.action}")

        return await context.experimental.run_task(count if name == "slow_task" else ask)

    return server


def main() -> None:
    """Serve until killed."""
    options = arguments(__doc__ or "")
    sessions = StreamableHTTPSessionManager(build(Journal(options.journal)), event_store=MemoryStore())

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sessions.run():
            yield

    app = Starlette(routes=[Mount("/mcp", app=sessions.handle_request)], lifespan=lifespan)
    uvicorn.run(app, host="127.0.0.1", port=options.port)


if __name__ == "__main__":
    main()

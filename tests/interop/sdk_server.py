"""A server on the official Python SDK 1.x (mcp 1.30) with an event store in memory.

Stateful streamable HTTP on http://127.0.0.1:PORT/mcp; every event has an id, a GET with `Last-Event-ID` replays what
followed. The store dies with the process, as most do, and so does the server session. Its transport may also be the
one before (HTTP+SSE of 2024-11-05): `sdk_sse_server.py`.

    python sdk_server.py --port PORT [--journal FILE]
"""

from __future__ import annotations

from mcp.server.fastmcp import Context, FastMCP
from parts import Journal, MemoryStore, arguments
from pydantic import BaseModel


class Answer(BaseModel):
    """What `ask_name` wants to know."""

    name: str
    loud: bool = False


def build(port: int, journal: Journal) -> FastMCP:
    """The server with its tools."""
    server = FastMCP("interop-sdk", host="127.0.0.1", port=port, event_store=MemoryStore(), log_level="INFO")

    # Plain text only: with structured output the SDK would wrap the text a second time.
    @server.tool(structured_output=False)
    async def slow_count(steps: int, delay_ms: int, ctx: Context) -> str:
        """Count to `steps`, waiting `delay_ms` before each; progress and an info log line after every step."""

        async def tell(step: int) -> None:
            await ctx.report_progress(step, steps, f"step {step} of {steps}")
            await ctx.info(f"counted to {step}")

        return await journal.work(steps, delay_ms, tell)

    @server.tool(structured_output=False)
    async def count_beside(steps: int, delay_ms: int, ctx: Context) -> str:
        """The same, with progress that names no request, as FastMCP itself sent it up to 1.13: on the standalone stream."""
        token = ctx.request_context.meta.progressToken

        async def tell(step: int) -> None:
            await ctx.session.send_progress_notification(token, step, steps)
            await ctx.info(f"counted to {step}")

        return await journal.work(steps, delay_ms, tell)

    @server.tool(structured_output=False)
    async def ask_name(ctx: Context) -> str:
        """Ask for a name on the call's own stream, and greet."""
        with journal.run():
            journal.note("asked")
            answer = await ctx.elicit("What is your name?", Answer)
            return f"hello {answer.data.name}" if answer.action == "accept" else f"no name: {answer.action}"

    return server


def main() -> None:
    """Serve until killed."""
    options = arguments(__doc__ or "")
    build(options.port, Journal(options.journal)).run(transport="streamable-http")


if __name__ == "__main__":
    main()

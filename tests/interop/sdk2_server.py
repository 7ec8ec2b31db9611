"""A server on the official Python SDK 2.x (mcp 2.3): both eras on one URL, an event store for the stateful one.

Without sessions (2026-07-28) a call lives as long as its stream, there are no tasks, and a question is the answer of
the call, to be asked again with the answers (MRTR).

    python sdk2_server.py --port PORT [--journal FILE]
"""

# No postponed annotations: the SDK reads the question out of a parameter's, and would not find `ask` by name.
from typing import Annotated

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from parts import Journal, MemoryStore, arguments
from pydantic import BaseModel


class Answer(BaseModel):
    """What `ask_name` wants to know."""

    name: str
    loud: bool = False


def build(journal: Journal) -> MCPServer:
    """The server with its tools."""
    server = MCPServer("interop-sdk2")

    @server.tool(structured_output=False)
    async def slow_count(steps: int, delay_ms: int, ctx: Context) -> str:
        """Count to `steps`, waiting `delay_ms` before each; progress after every step."""

        async def tell(step: int) -> None:
            await ctx.report_progress(step, steps, f"step {step} of {steps}")

        return await journal.work(steps, delay_ms, tell)

    async def ask() -> Elicit[Answer]:
        journal.note("asked")
        return Elicit("What is your name?", Answer)

    @server.tool(structured_output=False)
    async def ask_name(answer: Annotated[ElicitationResult[Answer], Resolve(ask)]) -> str:
        """Ask for a name in the way of the era, and greet; the tool itself runs once it knows."""
        with journal.run():
            if isinstance(answer, AcceptedElicitation):
                return f"hello {answer.data.name}"
            return f"no name: {answer.action}"

    return server


def main() -> None:
    """Serve until killed."""
    options = arguments(__doc__ or "")
    server = build(Journal(options.journal))
    server.run("streamable-http", host="127.0.0.1", port=options.port, event_store=MemoryStore())


if __name__ == "__main__":
    main()

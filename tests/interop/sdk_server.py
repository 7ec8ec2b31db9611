"""A server on the official Python SDK (mcp 1.x) with an event store in memory.

Stateful streamable HTTP on http://127.0.0.1:PORT/mcp; every event has an id, a GET with `Last-Event-ID` replays what
followed. The store dies with the process, as most do, and so does the server session.

    python sdk_server.py --port PORT [--journal FILE]

The journal is the driver's own record of what really ran: one line `started RUN`, `step RUN N`, `ended RUN` or
`stopped RUN` each, flushed at once, which no fault of the network can hide.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import secrets
from pathlib import Path

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.types import JSONRPCMessage


class MemoryStore(EventStore):
    """Keeps every event of every stream; an id names its place but does not show it (clients must not count)."""

    def __init__(self) -> None:
        self._streams: dict[StreamId, list[tuple[EventId, JSONRPCMessage | None]]] = {}
        self._places: dict[EventId, tuple[StreamId, int]] = {}

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Append to the stream and return the new event's id; no message means a priming event."""
        event_id = secrets.token_urlsafe(9)
        events = self._streams.setdefault(stream_id, [])
        self._places[event_id] = (stream_id, len(events))
        events.append((event_id, message))
        return event_id

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send what followed this id on its own stream, and name the stream so that it can go on live."""
        place = self._places.get(last_event_id)
        if place is None:
            return None
        stream_id, index = place
        for event_id, message in list(self._streams[stream_id][index + 1 :]):
            if message is not None:
                await send_callback(EventMessage(message, event_id))
        return stream_id


def build(port: int, journal: Path | None) -> FastMCP:
    """The server with its one slow tool."""
    server = FastMCP("interop-sdk", host="127.0.0.1", port=port, event_store=MemoryStore(), log_level="INFO")
    runs = itertools.count(1)

    def note(line: str) -> None:
        if journal is not None:
            with journal.open("a") as file:
                file.write(line + "\n")

    # Plain text only: with structured output the SDK would wrap the text a second time.
    @server.tool(structured_output=False)
    async def slow_count(steps: int, delay_ms: int, ctx: Context) -> str:
        """Count to `steps`, waiting `delay_ms` before each; progress and an info log line after every step."""
        run = next(runs)
        note(f"started {run}")
        finished = False
        try:
            for step in range(1, steps + 1):
                await asyncio.sleep(delay_ms / 1000)  # sleep: the work of a step
                note(f"step {run} {step}")
                await ctx.report_progress(step, steps, f"step {step} of {steps}")
                await ctx.info(f"counted to {step}")
            finished = True
        finally:
            # Also on cancellation, which is no Exception.
            note(f"{'ended' if finished else 'stopped'} {run}")
        return f"counted {steps}"

    return server


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--journal", type=Path)
    options = parser.parse_args()
    build(options.port, options.journal).run(transport="streamable-http")


if __name__ == "__main__":
    main()

"""What the Python servers here have in common: a store of events in memory, and the driver's own record of what ran.

The journal is one line `started RUN`, `step RUN N`, `asked`, `ended RUN` or `stopped RUN` each, flushed at once, which
no fault of the network can hide.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mcp.server.streamable_http import EventMessage, EventStore

if TYPE_CHECKING:
    # Where the message type lives differs between the SDK's generations.
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Any

    from mcp.server.streamable_http import EventCallback, EventId, StreamId


class MemoryStore(EventStore):
    """Keeps every event of every stream; an id names its place but does not show it (clients must not count)."""

    def __init__(self) -> None:
        self._streams: dict[StreamId, list[tuple[EventId, Any]]] = {}
        self._places: dict[EventId, tuple[StreamId, int]] = {}

    async def store_event(self, stream_id: StreamId, message: Any) -> EventId:
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


class Journal:
    """Tells the driver what really ran."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._runs = itertools.count(1)

    def note(self, line: str) -> None:
        """Write one line."""
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(line + "\n")

    @contextmanager
    def run(self) -> Iterator[int]:
        """One run of a tool, from its start to its end or its being stopped."""
        number = next(self._runs)
        self.note(f"started {number}")
        finished = False
        try:
            yield number
            finished = True
        finally:
            # Also on cancellation, which is no Exception.
            self.note(f"{'ended' if finished else 'stopped'} {number}")

    async def work(self, steps: int, delay_ms: int, tell: Callable[[int], Awaitable[None]]) -> str:
        """What the slow tools do: every step, and word of it; the text of the result."""
        with self.run() as number:
            for step in range(1, steps + 1):
                await asyncio.sleep(delay_ms / 1000)  # sleep: the work of a step
                self.note(f"step {number} {step}")
                await tell(step)
        return f"counted {steps}"


def arguments(purpose: str) -> argparse.Namespace:
    """The command line of every server here."""
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--journal", type=Path)
    return parser.parse_args()

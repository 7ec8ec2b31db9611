"""An agent's host on the official Python SDK 1.x: `python python_host.py PROFILE`, with the profile as JSON.

`faults.py` says what a profile has, what a host reads on stdin, and what it prints.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import anyio
import mcp.types as types
from anyio.abc import TaskGroup
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client

PROFILE = json.loads(sys.argv[1])
# What the SDK's own timeout is reported as.
REQUEST_TIMEOUT = 408


def show(event: str, **more: Any) -> None:
    print(json.dumps({"event": event, **more}), flush=True)


class Host:
    """One connection to the server."""

    def __init__(self, session: ClientSession, tasks: TaskGroup) -> None:
        self.session = session
        self.tasks = tasks
        self.escapes: dict[int, anyio.CancelScope] = {}

    async def call(self, number: int, tool: str, arguments: dict[str, Any]) -> None:
        began = time.monotonic()

        def report(event: str, **more: Any) -> None:
            show(event, call=number, seconds=time.monotonic() - began, **more)

        async def progress(value: float, _total: float | None, _message: str | None) -> None:
            show("progress", value=value)

        limit = PROFILE["limit_ms"]
        options: dict[str, Any] = {"read_timeout_seconds": timedelta(milliseconds=limit) if limit else None}
        if PROFILE["progress_token"]:
            options["progress_callback"] = progress
        if key := PROFILE["call_id_key"]:
            options["meta"] = {key: f"call-{number}"}
        # The id that the SDK gives to its next request.
        request = self.session._request_id
        with anyio.CancelScope() as scope:
            self.escapes[number] = scope
            try:
                result = await self.session.call_tool(tool, arguments, **options)
            except McpError as error:
                if error.error.code == REQUEST_TIMEOUT:
                    await self.give_up(request, "at_timeout")
                    report("gave_up", why="timeout")
                else:
                    report("error", message=str(error))
            except Exception as error:
                # The server has gone.
                report("error", message=repr(error))
            else:
                text = getattr(result.content[0], "text", None) if result.content else None
                report("answer", text=text, is_error=bool(result.isError))
        if scope.cancelled_caught:
            await self.give_up(request, "at_esc")
            report("gave_up", why="esc")

    async def give_up(self, request: int, habit: str) -> None:
        """The SDK itself says nothing, so this host says what its profile has."""
        cancel = PROFILE[habit]
        if cancel is not None:
            params = types.CancelledNotificationParams(requestId=request, reason=cancel["reason"])
            await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))

    async def follow(self, steps: AsyncIterator[dict[str, Any]]) -> bool:
        """Does the steps until the next connection; false at the end."""
        async for step in steps:
            match step["do"]:
                case "call":
                    self.tasks.start_soon(self.call, step["call"], step["tool"], step["arguments"])
                case "esc":
                    self.escapes[step["call"]].cancel()
                case "connect":
                    return True
                case _:
                    return False
        return False


async def read_steps() -> AsyncIterator[dict[str, Any]]:
    """The lines on stdin."""
    async for line in anyio.wrap_file(sys.stdin):
        yield json.loads(line)


async def main() -> None:
    command = PROFILE["command"]
    server = StdioServerParameters(
        command=command[0], args=command[1:], env=PROFILE["environment"], cwd=PROFILE["directory"]
    )
    info = types.Implementation(**PROFILE["client"])
    steps = read_steps()
    goes_on = True
    while goes_on:
        async with (
            stdio_client(server) as (reader, writer),
            ClientSession(reader, writer, client_info=info) as session,
            anyio.create_task_group() as tasks,
        ):
            handshake = await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            show("connected", revision=handshake.protocolVersion, tools=tools)
            goes_on = await Host(session, tasks).follow(steps)
            tasks.cancel_scope.cancel()
    show("ended")


if __name__ == "__main__":
    anyio.run(main)

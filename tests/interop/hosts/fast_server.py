"""An MCP server on stdio that costs little, so that what is measured is longhaul: one thread for all calls.

    python3 fast_server.py [DONE]

Its tools:

- `work` answers after `seconds` (default 0) with its argument `number`.
- `hold` answers with its argument `number` once `release` is called.
- `running` answers with the number of calls that `hold`.
- `count` waits for `seconds`, reports progress `events` times, `rate` times a second, makes the file DONE, and answers.

Only the standard library.
"""

from __future__ import annotations

import gc
import heapq
import json
import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

STDIN, STDOUT = 0, 1
# At most so many writes a second; more events than that share a write.
WRITES_A_SECOND = 2000
Job = tuple[float, int, Callable[[], None]]


class Server:
    """Everything waits in one heap of jobs, ordered by time."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.next_job = 0
        self.held: list[tuple[object, object]] = []

    def later(self, at: float, run: Callable[[], None]) -> None:
        self.next_job += 1
        heapq.heappush(self.jobs, (at, self.next_job, run))

    def serve(self) -> None:
        unread = b""
        while True:
            timeout = max(0.0, self.jobs[0][0] - time.monotonic()) if self.jobs else None
            if select.select([STDIN], [], [], timeout)[0]:
                part = os.read(STDIN, 1 << 20)
                if not part:
                    return
                *lines, unread = (unread + part).split(b"\n")
                for line in lines:
                    self.received(json.loads(line))
            while self.jobs and self.jobs[0][0] <= time.monotonic():
                heapq.heappop(self.jobs)[2]()

    def received(self, message: dict) -> None:
        request, method = message.get("id"), message.get("method")
        if request is None:
            return
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "fast", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            say({"id": request, "result": result})
        elif method == "tools/list":
            names = ["work", "hold", "running", "release", "count"]
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            say({"id": request, "result": {"tools": tools}})
        elif method == "tools/call":
            self.call(request, message["params"])
        elif method == "ping":
            say({"id": request, "result": {}})
        else:
            say({"id": request, "error": {"code": -32601, "message": f"unknown method {method}"}})

    def call(self, request: object, params: dict) -> None:
        name, arguments = params["name"], params.get("arguments") or {}
        number, seconds = arguments.get("number"), arguments.get("seconds", 0)
        if name == "hold":
            self.held.append((request, number))
        elif name == "running":
            answer(request, len(self.held))
        elif name == "release":
            held, self.held = self.held, []
            answer(request, len(held))
            for waiting, its_number in held:
                answer(waiting, its_number)
        elif name == "count":
            token = params["_meta"]["progressToken"]
            begin = time.monotonic() + seconds
            self.later(begin, Count(self, request, token, begin, arguments).write)
        elif seconds:
            self.later(time.monotonic() + seconds, lambda: answer(request, number))
        else:
            answer(request, number)


class Count:
    """The progress of one call: encoded in advance, written at a steady rate."""

    def __init__(self, server: Server, request: object, token: object, begin: float, arguments: dict) -> None:
        self.server, self.request, self.begin, self.rate = server, request, begin, arguments["rate"]
        self.written = 0
        self.lines = [
            line({"method": "notifications/progress", "params": {"progressToken": token, "progress": number}})
            for number in range(1, arguments["events"] + 1)
        ]

    def write(self) -> None:
        due = min(len(self.lines), int((time.monotonic() - self.begin) * self.rate) + 1)
        write(b"".join(self.lines[self.written : due]))
        self.written = due
        if due < len(self.lines):
            next_write = max(self.begin + due / self.rate, time.monotonic() + 1 / WRITES_A_SECOND)
            self.server.later(next_write, self.write)
            return
        Path(sys.argv[1]).write_text("done")
        answer(self.request, len(self.lines))


def line(message: dict) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def write(data: bytes) -> None:
    while data:
        data = data[os.write(STDOUT, data) :]


def say(message: dict) -> None:
    write(line(message))


def answer(request: object, number: object) -> None:
    say({"id": request, "result": {"content": [{"type": "text", "text": json.dumps(number)}]}})


if __name__ == "__main__":
    # A pause for garbage would look like a slow call.
    gc.disable()
    Server().serve()

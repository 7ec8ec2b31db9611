"""An MCP server on stdio with one tool that works in steps, reports its progress, and stops if it is cancelled.

    python3 step_server.py JOURNAL

The journal is as in `parts.py`, with `pid PID` for each process, and the pid before the number of a run. Only the
standard library.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

JOURNAL = Path(sys.argv[1])
LOCK = threading.Lock()
RUNS = itertools.count(1)
WHOLE = {"type": "integer"}
TOOL = {
    "name": "slow_count",
    "description": "Count to `steps`, waiting `delay_ms` before each; progress after every step.",
    "inputSchema": {
        "type": "object",
        "properties": {"steps": WHOLE, "delay_ms": WHOLE},
        "required": ["steps", "delay_ms"],
    },
}


def note(line: str) -> None:
    with LOCK, JOURNAL.open("a") as journal:
        journal.write(line + "\n")


def send(message: dict[str, Any]) -> None:
    with LOCK:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def count(request: object, params: dict[str, Any], stop: threading.Event) -> None:
    steps, delay = params["arguments"]["steps"], params["arguments"]["delay_ms"] / 1000
    token = params.get("_meta", {}).get("progressToken")
    run = f"{os.getpid()}-{next(RUNS)}"
    note(f"started {run}")
    for step in range(1, steps + 1):
        if stop.wait(delay):
            note(f"stopped {run}")
            return
        note(f"step {run} {step}")
        if token is not None:
            progress = {"progressToken": token, "progress": step, "total": steps, "message": f"step {step} of {steps}"}
            send({"method": "notifications/progress", "params": progress})
    note(f"ended {run}")
    send({"id": request, "result": {"content": [{"type": "text", "text": f"counted {steps}"}]}})


def main() -> None:
    note(f"pid {os.getpid()}")
    stops: dict[object, threading.Event] = {}
    for line in sys.stdin:
        message = json.loads(line)
        request, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if method == "notifications/cancelled" and params.get("requestId") in stops:
            stops[params["requestId"]].set()
        if request is None:
            continue
        if method == "initialize":
            info = {"name": "steps", "version": "1"}
            version = params["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            send({"id": request, "result": result})
        elif method == "tools/list":
            send({"id": request, "result": {"tools": [TOOL]}})
        elif method == "tools/call":
            stops[request] = threading.Event()
            threading.Thread(target=count, args=(request, params, stops[request]), daemon=True).start()
        elif method == "ping":
            send({"id": request, "result": {}})
        else:
            send({"id": request, "error": {"code": -32601, "message": f"unknown method {method}"}})


if __name__ == "__main__":
    main()

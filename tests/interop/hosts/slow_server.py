"""An MCP server on stdio whose tool `work` takes a while. Each run is a line in the journal.

    python3 slow_server.py JOURNAL SECONDS

It handles requests side by side, as real servers do, and goes on with a call whose host has given up. Only the standard
library, so that any host can start it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

JOURNAL, SECONDS = Path(sys.argv[1]), float(sys.argv[2])
LOCK = threading.Lock()
TOOL = {
    "name": "work",
    "description": "Does slow work.",
    "inputSchema": {"type": "object", "properties": {}},
}


def say(message: dict[str, object]) -> None:
    with LOCK:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def work(request: object) -> None:
    with JOURNAL.open("a") as journal:
        journal.write("run\n")
    time.sleep(SECONDS)
    say({"id": request, "result": {"content": [{"type": "text", "text": "WORK-IS-DONE"}]}})


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        request, method = message.get("id"), message.get("method")
        if request is None:
            continue
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "slow", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            say({"id": request, "result": result})
        elif method == "tools/list":
            say({"id": request, "result": {"tools": [TOOL]}})
        elif method == "tools/call":
            threading.Thread(target=work, args=(request,), daemon=True).start()
        elif method == "ping":
            say({"id": request, "result": {}})
        else:
            say({"id": request, "error": {"code": -32601, "message": f"unknown method {method}"}})


if __name__ == "__main__":
    main()

"""A model endpoint on loopback that answers with a script, in the three dialects that hosts speak.

The script is what a model does: it calls the tool `work`, calls `longhaul_collect` with the id of a ticket, calls the
same tool again after anything else that is not the result, at most `TRIES` times, and then says what it got.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TRIES = 6
RESULT = "WORK-IS-DONE"
TICKET = re.compile(r"(?:Still running|Queued) as ([0-9a-z]+)")


class Model:
    """What the model has seen, and the next step."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.has_result = False
        self.lock = threading.Lock()

    def step(self, tools: list[str], outputs: list[str]) -> tuple[str, dict[str, str]] | str | None:
        """A tool and its arguments, or the last words; `None` for a request that is not about the tools."""
        work = next((name for name in tools if name.endswith("work")), None)
        if work is None:
            return None
        last = outputs[-1] if outputs else ""
        if RESULT in last:
            self.has_result = True
            return f"GOT {RESULT}"
        if len(outputs) >= TRIES:
            return "GAVE UP"
        ticket = TICKET.search(last)
        collect = next((name for name in tools if name.endswith("longhaul_collect")), None)
        with self.lock:
            self.calls.append("collect" if ticket and collect else "work")
        if ticket and collect:
            return collect, {"id": ticket.group(1)}
        return work, {}


def text_of(content: Any) -> str:
    """All text inside a message's content, whatever its shape."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(text_of(item) for item in content)
    if isinstance(content, dict):
        return " ".join(text_of(content[key]) for key in ("text", "content", "output") if key in content)
    return ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.send_json({"data": [], "object": "list"})

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        path = self.path.split("?")[0]
        if path.endswith("/messages"):
            self.as_anthropic(body)
        elif path.endswith("/responses"):
            self.as_responses(body)
        elif path.endswith("/chat/completions"):
            self.as_chat(body)
        else:
            self.send_json({"input_tokens": 1})

    def send_json(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_events(self, events: list[tuple[str | None, object]]) -> None:
        lines = []
        for name, data in events:
            if name:
                lines.append(f"event: {name}")
            lines.append("data: " + (data if isinstance(data, str) else json.dumps(data)) + "\n")
        data = ("\n".join(lines) + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def as_anthropic(self, body: dict[str, Any]) -> None:
        """The dialect of Claude Code."""
        tools = [tool.get("name", "") for tool in body.get("tools", [])]
        blocks = [
            block
            for message in body.get("messages", [])
            if isinstance(message.get("content"), list)
            for block in message["content"]
        ]
        outputs = [text_of(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
        step = self.model.step(tools, outputs)
        usage = {"input_tokens": 1, "output_tokens": 1}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model", "m")}
        if isinstance(step, tuple):
            name, arguments = step
            block = {"type": "tool_use", "id": f"toolu_{len(outputs)}", "name": name, "input": arguments}
            start: dict[str, Any] = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
            reason = "tool_use"
        else:
            block = {"type": "text", "text": step or "ok"}
            start = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
            reason = "end_turn"
        if not body.get("stream"):
            return self.send_json({**head, "content": [block], "stop_reason": reason, "stop_sequence": None, "usage": usage})
        message = {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        end = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
        self.send_events(
            [
                ("message_start", {"type": "message_start", "message": message}),
                ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": start}),
                ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}),
                ("content_block_stop", {"type": "content_block_stop", "index": 0}),
                ("message_delta", end),
                ("message_stop", {"type": "message_stop"}),
            ]
        )

    def as_responses(self, body: dict[str, Any]) -> None:
        """The dialect of Codex."""
        tools: list[str] = []
        spaces: dict[str, str] = {}
        for tool in body.get("tools", []):
            if tool.get("type") == "namespace":
                for inner in tool.get("tools", []):
                    tools.append(inner["name"])
                    spaces[inner["name"]] = tool["name"]
            elif "name" in tool:
                tools.append(tool["name"])
        kinds = ("function_call_output", "mcp_tool_call_output")
        outputs = [text_of(item.get("output")) for item in body.get("input", []) if item.get("type") in kinds]
        step = self.model.step(tools, outputs)
        if isinstance(step, tuple):
            name, arguments = step
            item: dict[str, Any] = {
                "type": "function_call",
                "id": f"fc_{len(outputs)}",
                "call_id": f"call_{len(outputs)}",
                "name": name,
                "arguments": json.dumps(arguments),
            }
            if name in spaces:
                item["namespace"] = spaces[name]
        else:
            content = [{"type": "output_text", "text": step or "ok", "annotations": []}]
            item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": usage}
        self.send_events(
            [
                ("response.created", {"type": "response.created", "response": {"id": "resp_1"}}),
                ("response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}),
                ("response.completed", {"type": "response.completed", "response": response}),
            ]
        )

    def as_chat(self, body: dict[str, Any]) -> None:
        """The dialect of opencode."""
        tools = [tool["function"]["name"] for tool in body.get("tools", [])]
        outputs = [text_of(message.get("content")) for message in body.get("messages", []) if message.get("role") == "tool"]
        step = self.model.step(tools, outputs)
        if isinstance(step, tuple):
            name, arguments = step
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": f"call_{len(outputs)}", "type": "function", "function": function}
            delta: dict[str, Any] = {"role": "assistant", "tool_calls": [call]}
            reason = "tool_calls"
        else:
            delta, reason = {"role": "assistant", "content": step or "ok"}, "stop"
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body.get("model", "m")}
        chunks = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        ]
        self.send_events([(None, chunk) for chunk in chunks] + [(None, "[DONE]")])


def serve() -> tuple[Model, str]:
    """Starts the endpoint; returns the model and the address."""
    model = Model()
    handler = type("ScriptedHandler", (Handler,), {"model": model})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return model, f"http://127.0.0.1:{server.server_address[1]}"

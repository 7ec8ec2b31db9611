"""A server on the official Python SDK 2.x that offers everything MCP has, in both eras, for `differential.py`.

    python differential_server.py [--port PORT]

Without a port it serves stdio. Results are plain JSON, so that rare members reach the host as well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

PAGE = 4
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NOTE = {"uri": "note://one", "mimeType": "text/plain", "text": "first note", "_meta": {"example.com/kept": 1}}
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 40, "default": "Ada"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 36},
        "share": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5},
        "loud": {"type": "boolean", "default": False},
        "color": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue"]}, "minItems": 1},
    },
    "required": ["name"],
}
PAGE_TO_VISIT = {"mode": "url", "message": "Do you agree?", "url": "https://example.com/terms?a=1&b=2"}
SAMPLING = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say hello"}}],
    "systemPrompt": "Be brief.",
    "maxTokens": 20,
    "temperature": 0.5,
    "modelPreferences": {"hints": [{"name": "small"}], "speedPriority": 0.9},
}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "form": ("elicitation/create", {"mode": "form", "message": "Who are you?", "requestedSchema": FORM}),
    "page": ("elicitation/create", PAGE_TO_VISIT),
    "sampling": ("sampling/createMessage", SAMPLING),
    "roots": ("roots/list", {}),
}
RESULTS = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}
ASKS = {
    "ask_form": ["form"],
    "ask_page": ["page"],
    "ask_model": ["sampling"],
    "ask_roots": ["roots"],
    "ask_twice": ["form", "form"],
    "ask_all": ["form", "page", "sampling", "roots"],
}
bus = InMemorySubscriptionBus()
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
levels: list[str] = []
subscribed: set[str] = set()


def is_modern(ctx: Any) -> bool:
    return ctx.protocol_version >= "2026"


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


TOOLS: list[dict[str, Any]] = [
    {
        "name": "contents",
        "title": "All kinds of content",
        "description": "Return every kind of content.",
        "inputSchema": {"type": "object", "additionalProperties": False},
        "annotations": {"title": "Contents", "readOnlyHint": True, "openWorldHint": False},
        "icons": [{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}],
        "_meta": {"example.com/kept": {"deep": [1, 2.5, None, "ü"]}},
    },
    {
        "name": "structured",
        "description": "Return structured content.",
        "inputSchema": schema(count={"type": "integer", "minimum": 1, "maximum": 3}),
        "outputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "title": "Points",
            "properties": {"points": {"type": "array", "items": {"$ref": "#/$defs/point"}}, "note": {"type": "string"}},
            "required": ["points"],
            "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
        },
    },
    {"name": "sees", "description": "Tell what the server got.", "inputSchema": {"type": "object"}},
    {"name": "fails", "description": "End with a tool error.", "inputSchema": {"type": "object"}},
    {"name": "refuses", "description": "End with a JSON-RPC error.", "inputSchema": schema(code={"type": "integer", "default": -32050})},
    {
        "name": "counts",
        "description": "Report progress and log messages in turn.",
        "inputSchema": schema(steps={"type": "integer", "default": 3}, delay_ms={"type": "integer", "default": 80}),
    },
    {"name": "logs", "description": "Log at every level.", "inputSchema": {"type": "object"}},
    {"name": "changes", "description": "Announce that all lists and a resource changed.", "inputSchema": {"type": "object"}},
    {"name": "region", "description": "Take an argument that is also a header.", "inputSchema": schema(region={"type": "string", "default": " eu ü ", "x-mcp-header": "Region"})},
    *({"name": name, "description": f"Ask for {', then '.join(asks)}.", "inputSchema": {"type": "object"}} for name, asks in ASKS.items()),
    {"name": "a.b/c-d_e ü", "description": "A name with rare characters.", "inputSchema": {"type": "object"}},
]
LIST_CONTENT = {"name": "structured_list", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array", "items": {"type": "integer"}}}
PROMPTS = [
    {"name": "plain", "title": "Plain", "description": "No arguments", "icons": [{"src": "data:image/png;base64,AA=="}]},
    {
        "name": "greeting",
        "description": "Has arguments",
        "arguments": [{"name": "name", "required": True, "description": "Who"}, {"name": "style", "title": "Style"}],
        "_meta": {"example.com/kept": True},
    },
    {"name": "rich", "description": "An image and a resource"},
    {"name": "asking", "description": "Asks first, where questions come in rounds"},
    {"name": "fifth", "description": "On the second page"},
]
RESOURCES = [
    {"uri": "note://one", "name": "one", "title": "One", "mimeType": "text/plain", "size": 10, "annotations": {"audience": ["user"], "priority": 0.5}},
    {"uri": "note://pixel", "name": "pixel", "mimeType": "image/png"},
    {"uri": "note://asking", "name": "asking"},
    *({"uri": f"note://more/{number}", "name": f"more {number}"} for number in range(3)),
]
TEMPLATES = [{"uriTemplate": f"note://{kind}/{{id}}", "name": kind, "description": f"A {kind}"} for kind in ("user", "team", "file", "page", "last")]


def page(items: list[dict[str, Any]], key: str, params: Any) -> dict[str, Any]:
    cursor = params.cursor if params else None
    if cursor is not None and not cursor.startswith("from "):
        raise MCPError(types.INVALID_PARAMS, "unknown cursor", {"cursor": cursor})
    begin = int(cursor.split()[1]) if cursor else 0
    result: dict[str, Any] = {key: items[begin : begin + PAGE], "_meta": {"example.com/page": begin // PAGE}}
    if begin + PAGE < len(items):
        result["nextCursor"] = f"from {begin + PAGE}"
    return result


async def list_tools(ctx: Any, params: Any) -> Any:
    return page(TOOLS + ([LIST_CONTENT] if is_modern(ctx) else []), "tools", params)


async def list_prompts(ctx: Any, params: Any) -> Any:
    return page(PROMPTS, "prompts", params)


async def list_resources(ctx: Any, params: Any) -> Any:
    return page(RESOURCES, "resources", params) | ({"ttlMs": 1500, "cacheScope": "public"} if is_modern(ctx) else {})


async def list_templates(ctx: Any, params: Any) -> Any:
    return page(TEMPLATES, "resourceTemplates", params)


def whole(handler: Any) -> Any:
    """What every result needs in 2026-07-28, unless it is there."""

    async def handle(ctx: Any, params: Any) -> Any:
        try:
            result = await handler(ctx, params)
        except (KeyError, TypeError, ValueError) as error:
            raise MCPError(types.INVALID_PARAMS, f"{type(error).__name__}: {error}") from None
        is_kept = ctx.method.endswith(("/list", "/read")) and result.get("resultType") != "input_required"
        more = {"resultType": "complete"} | ({"ttlMs": 0, "cacheScope": "private"} if is_kept else {})
        return (more | result) if is_modern(ctx) else result

    return handle


def plain(value: Any) -> Any:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True) if hasattr(value, "model_dump") else value


async def asked(ctx: Any, params: Any, names: list[str]) -> list[Any] | dict[str, Any]:
    """The answers to questions; where they come in rounds, and one is open, the result that asks."""
    if not is_modern(ctx):
        answers = []
        for name in names:
            method, told = QUESTIONS[name]
            kind, result = RESULTS[method]
            more = {"elicitationId": "id-1"} if name == "page" else {}
            request = kind.model_validate({"method": method, "params": told | more})
            metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
            try:
                answers.append(plain(await ctx.session.send_request(request, result, metadata=metadata)))
            except MCPError as error:
                answers.append({"code": error.error.code, "message": error.error.message})
        return answers
    before = json.loads(params.request_state) if params.request_state else []
    given = {key: plain(value) for key, value in (params.input_responses or {}).items()}
    if names == ["form", "form"]:
        # One question in each round.
        answers = before + [given[key] for key in given]
        if len(answers) == 2:
            return answers
        wanted, state = {f"round {len(answers)}": names[0]}, json.dumps(answers)
    else:
        if len(given) == len(names):
            return [given[name] for name in names]
        wanted, state = {name: name for name in names}, None
    requests = {key: {"method": QUESTIONS[name][0], "params": QUESTIONS[name][1]} for key, name in wanted.items()}
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": requests}
    return result | ({"requestState": state} if state else {})


async def log(ctx: Any, level: Any, data: Any, logger: str | None) -> None:
    """A log message of the call, from the level on that the host has set."""
    if is_modern(ctx) or not levels or LEVELS.index(level) >= LEVELS.index(levels[-1]):
        await ctx.session.send_log_message(level, data, logger, ctx.request_id)


def note(word: str) -> None:
    if options.journal:
        with options.journal.open("a") as journal:
            journal.write(f"{word}\n")


async def counts(ctx: Any, given: dict[str, Any]) -> dict[str, Any]:
    steps = int(given["steps"])
    try:
        for step in range(1, steps + 1):
            await asyncio.sleep(given.get("delay_ms", 80) / 1000)  # sleep: the work of a step
            await ctx.session.report_progress(step / 2, steps / 2, f"step {step}" if step % 2 else None)
            await log(ctx, "info", {"step": step}, "counter")
    except asyncio.CancelledError:
        note("stopped")
        raise
    return text(f"counted {steps}")


async def changes(ctx: Any) -> dict[str, Any]:
    if is_modern(ctx):
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged(), ResourceUpdated(uri="note://one")):
            await bus.publish(event)
    else:
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_prompt_list_changed()
        await ctx.session.send_resource_list_changed()
        for uri in sorted(subscribed):
            await ctx.session.send_resource_updated(uri)
    return text("announced")


def sees(ctx: Any, params: Any) -> dict[str, Any]:
    headers = dict(ctx.request.headers) if ctx.request is not None else {}
    client = ctx.session.client_params
    seen = {
        "params": dict(ctx.params or {}),
        "client": plain(client.client_info) if client else None,
        "capabilities": plain(ctx.session.client_capabilities),
        "protocol": ctx.protocol_version,
        "headers": headers,
        "levels": levels,
    }
    return text(json.dumps(seen), structuredContent=seen)


async def call_tool(ctx: Any, params: Any) -> Any:
    name, given = params.name, params.arguments or {}
    if name in ASKS:
        answers = await asked(ctx, params, ASKS[name])
        return answers if isinstance(answers, dict) else text(json.dumps(answers, sort_keys=True))
    match name:
        case "contents":
            annotations = {"audience": ["user", "assistant"], "priority": 1, "lastModified": "2026-01-02T03:04:05Z"}
            content = [
                {"type": "text", "text": "text\u0000 \u001b[1m\u2028 ü \U0001f600", "annotations": annotations, "_meta": {"example.com/a": 1}},
                {"type": "image", "data": PNG, "mimeType": "image/png"},
                {"type": "audio", "data": WAV, "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "note://one", "name": "one", "size": 10, "icons": [{"src": "https://example.com/i"}]},
                {"type": "resource", "resource": NOTE},
                {"type": "resource", "resource": {"uri": "note://pixel", "mimeType": "image/png", "blob": PNG}},
            ]
            return {"content": content, "isError": False, "_meta": {"example.com/kept": [1.0, 1e300, 0.1, -0.0, 9007199254740993]}}
        case "structured":
            points = [{"x": number / 3} for number in range(int(given["count"]))]
            return text(json.dumps(points), structuredContent={"points": points, "note": "n"})
        case "structured_list":
            return text("[1, 2]", structuredContent=[1, 2])
        case "sees" | "region":
            return sees(ctx, params)
        case "fails":
            return text("it failed", isError=True)
        case "refuses":
            raise MCPError(int(given["code"]), "refused, with \"quotes\" and ü", {"reason": ["a", {"b": None}]})
        case "counts":
            return await counts(ctx, given)
        case "logs":
            for level in LEVELS:
                data = {"level": level} if level != "info" else "a text"
                await log(ctx, level, data, "everything" if level != "notice" else None)
            return text("logged")
        case "changes":
            return await changes(ctx)
        case "a.b/c-d_e ü":
            return text("rare")
    raise MCPError(types.INVALID_PARAMS, f"unknown tool: {name}")


async def get_prompt(ctx: Any, params: Any) -> Any:
    def message(content: Any, role: str = "user") -> dict[str, Any]:
        return {"role": role, "content": content}

    match params.name:
        case "greeting":
            name = (params.arguments or {}).get("name")
            if name is None:
                raise MCPError(types.INVALID_PARAMS, "missing argument: name")
            return {"messages": [message({"type": "text", "text": f"Greet {name}"})], "description": "d", "_meta": {"example.com/m": 1}}
        case "rich":
            image = {"type": "image", "data": PNG, "mimeType": "image/png"}
            return {"messages": [message(image), message({"type": "resource", "resource": NOTE}, "assistant")]}
        case "asking" if is_modern(ctx):
            answers = await asked(ctx, params, ["form"])
            return answers if isinstance(answers, dict) else {"messages": [message({"type": "text", "text": json.dumps(answers, sort_keys=True)})]}
        case "plain" | "asking" | "fifth":
            await ctx.session.report_progress(1, 2, "half")
            return {"messages": [message({"type": "text", "text": params.name})]}
    raise MCPError(types.INVALID_PARAMS, f"unknown prompt: {params.name}")


async def read_resource(ctx: Any, params: Any) -> Any:
    uri = str(params.uri)
    more = {"ttlMs": 60_000, "cacheScope": "public"} if is_modern(ctx) else {}
    if uri == "note://asking" and is_modern(ctx):
        answers = await asked(ctx, params, ["form"])
        return answers if isinstance(answers, dict) else {"contents": [{"uri": uri, "text": json.dumps(answers, sort_keys=True)}]}
    if uri == "note://one":
        await ctx.session.report_progress(1, 2, "half")
        return {"contents": [NOTE, {"uri": "note://one/attachment", "blob": PNG}], **more}
    if uri == "note://pixel":
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": PNG}], **more}
    if uri.startswith(("note://more/", "note://user/", "note://team/", "note://asking")):
        return {"contents": [{"uri": uri, "text": uri}], **more}
    code = types.INVALID_PARAMS if is_modern(ctx) else -32002
    raise MCPError(code, "no such resource", {"uri": uri})


async def subscribe(ctx: Any, params: Any) -> Any:
    subscribed.add(str(params.uri))
    return {}


async def unsubscribe(ctx: Any, params: Any) -> Any:
    subscribed.discard(str(params.uri))
    return {}


async def set_level(ctx: Any, params: Any) -> Any:
    levels.append(params.level)
    return {}


async def complete(ctx: Any, params: Any) -> Any:
    given = plain(params)
    values = [f"{given['argument']['value']}{end}" for end in ("a", "b", json.dumps(given.get("context"), sort_keys=True))]
    return {"completion": {"values": values, "total": 7, "hasMore": True}, "_meta": {"example.com/ref": given["ref"]}}


def build() -> Server[Any]:
    server: Server[Any] = Server(
        "differential",
        version="1.2.3",
        title="Everything there is",
        instructions="Read this first.\nThen ask.",
        website_url="https://example.com",
        icons=[types.Icon(src="https://example.com/icon.svg", mime_type="image/svg+xml")],
        on_list_tools=whole(list_tools),
        on_call_tool=whole(call_tool),
        on_list_resources=whole(list_resources),
        on_list_resource_templates=whole(list_templates),
        on_read_resource=whole(read_resource),
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=whole(list_prompts),
        on_get_prompt=whole(get_prompt),
        on_completion=whole(complete),
        on_set_logging_level=set_level,
    )
    server.extensions = {"com.example/extra": {"x": 1}}
    return server


def options_of(server: Server[Any]) -> Any:
    changed = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    return server.create_initialization_options(changed, {"example": {"y": 2}})


async def serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, options_of(server))


def main() -> None:
    server = build()
    if options.port is None:
        asyncio.run(serve_stdio(server))
    else:
        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=options.port, log_level="error")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--port", type=int)
parser.add_argument("--journal", type=Path, help="where it notes which calls were stopped")
options = parser.parse_args()
# Log messages and roots are deprecated in 2026-07-28.
warnings.simplefilter("ignore")

if __name__ == "__main__":
    sys.exit(main())

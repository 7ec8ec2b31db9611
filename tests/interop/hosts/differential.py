"""Compare what a host gets from a server directly with what it gets through `longhaul proxy`, message by message.

    python3 tests/interop/hosts/differential.py [--longhaul PATH] [--only PATTERN]... [--keep DIR] [--list]

Each server is asked for everything that it offers: lists and their pages, tools with good and bad arguments, resources,
prompts, completions, log levels, errors, progress, cancellation, and what the server asks the host. The response to each
request, the notifications that come with it and the server's questions must be equal JSON both ways. That is tried in all
pairs of eras: host and server either use a handshake (2025-11-25) or speak 2026-07-28. If their eras differ, the direct
run is one in the server's era.

DIFFERENCES names what may differ; `--list` prints it. Everything else must be equal.

Prints a line for each server and pair of eras: `equal: N requests, M notifications`, or the differences: where, the direct
value, the proxied value. Exit code 0 if all are equal. Needs Python 3.11 and what `tests/interop` needs. The servers are
installed below `target/interop`; `--only` takes patterns such as `rmcp*` or `* host 2026*`.
"""

from __future__ import annotations

import argparse
import base64
import copy
import fnmatch
import http.client
import itertools
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(HERE.parent))

import driver  # noqa: E402
import servers  # noqa: E402

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
PROTOCOL = "io.modelcontextprotocol/"
SUBSCRIPTION = PROTOCOL + "subscriptionId"
SERVER_INFO = PROTOCOL + "serverInfo"
CLIENT = {"name": "differential-host", "title": "A host", "version": "1.0"}
CAPABILITIES = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": True}}
# Longer than any case takes, and shorter than the harness waits.
PATIENCE_SECONDS = 6
RESPONSE_SECONDS = 10.0
# Notifications that come on another stream than the response.
LATE_SECONDS = 1.5
QUIET_SECONDS = 0.3
AFTER_HANDSHAKE_SECONDS = 0.6
# At most 30 notifications of progress a second.
THINNED_SECONDS = 1 / 30

Json = dict[str, Any]


class NoAnswer(Exception):
    """Something did not come in time."""


# Connections: how messages get to a server and back.


class Connection:
    """What arrives, in order, with the time."""

    def __init__(self) -> None:
        self.arrived: queue.Queue[tuple[float, Json]] = queue.Queue()

    def receive(self, message: Any) -> None:
        """Takes one message in, or a batch."""
        for one in message if isinstance(message, list) else [message]:
            self.arrived.put((time.monotonic(), one))

    def send(self, message: Json) -> None:
        raise NotImplementedError

    def cancel(self, request: Json) -> None:
        params = {"requestId": request["id"], "reason": "The user pressed Esc"}
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def close(self) -> None:
        raise NotImplementedError


class StdioConnection(Connection):
    """A server, or the proxy, as a process of its own."""

    def __init__(self, command: list[str], place: Path, env: dict[str, str]) -> None:
        super().__init__()
        errors = (place / "stderr.txt").open("wb")
        self.sent = (place / "messages.jsonl").open("w")
        self.process = subprocess.Popen(
            command, cwd=place, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.sent.write(f"< {line.decode()}")
            self.receive(json.loads(line))

    def send(self, message: Json) -> None:
        assert self.process.stdin
        line = json.dumps(message, ensure_ascii=False)
        self.sent.write(f"> {line}\n")
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.sent.flush()


class HttpConnection(Connection):
    """A server on streamable HTTP. Each request has a connection of its own."""

    def __init__(self, port: int, era: str, place: Path) -> None:
        super().__init__()
        self.port, self.era = port, era
        self.session: str | None = None
        self.open: dict[Any, http.client.HTTPConnection] = {}
        self.sent = (place / "messages.jsonl").open("w")
        # The parameters of a tool that are headers as well.
        self.header_parameters: dict[str, dict[str, str]] = {}

    def receive(self, message: Any) -> None:
        self.sent.write(f"< {json.dumps(message)}\n")
        super().receive(message)

    def _headers(self, message: Json) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        method, params = message.get("method"), message.get("params", {})
        if method != "initialize":
            headers["MCP-Protocol-Version"] = self.era
        if self.era == MODERN and method:
            headers["Mcp-Method"] = method
            name = params.get("uri" if method == "resources/read" else "name")
            if method in ("tools/call", "prompts/get", "resources/read") and isinstance(name, str):
                headers["Mcp-Name"] = encoded(name)
            arguments = params.get("arguments")
            for key, header in self.header_parameters.get(str(name), {}).items():
                if isinstance(arguments, dict) and isinstance(arguments.get(key), str | int | bool):
                    headers[f"Mcp-Param-{header}"] = encoded(str(arguments[key]))
        return headers

    def send(self, message: Json) -> None:
        self.sent.write(f"> {json.dumps(message)}\n")
        if "method" in message and "id" in message and message["method"] != "initialize":
            threading.Thread(target=self._post, args=(message,), daemon=True).start()
        else:
            self._post(message)
        if message.get("method") == "notifications/initialized":
            threading.Thread(target=self._listen, daemon=True).start()

    def _post(self, message: Json) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.open[message.get("id")] = connection
        with suppress(OSError, http.client.HTTPException, ValueError):
            connection.request("POST", "/mcp", json.dumps(message), self._headers(message))
            response = connection.getresponse()
            if message.get("method") == "initialize":
                self.session = response.getheader("Mcp-Session-Id")
            kind = response.getheader("Content-Type") or ""
            if kind.startswith("text/event-stream"):
                self._read_events(response)
            elif body := response.read():
                self.receive(json.loads(body))
        connection.close()

    def _listen(self) -> None:
        """The stream for what belongs to no request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        self.open["listening"] = connection
        headers = self._headers({}) | {"Accept": "text/event-stream"}
        with suppress(OSError, http.client.HTTPException, ValueError):
            connection.request("GET", "/mcp", headers=headers)
            response = connection.getresponse()
            if response.status == 200:
                self._read_events(response)

    def _read_events(self, response: IO[bytes]) -> None:
        data: list[str] = []
        for raw in response:
            line = raw.decode().rstrip("\r\n")
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line:
                if text := "\n".join(data).strip():
                    self.receive(json.loads(text))
                data = []

    def cancel(self, request: Json) -> None:
        if self.era == MODERN:
            # The end of the stream is the cancel.
            end(self.open[request["id"]])
        else:
            super().cancel(request)

    def close(self) -> None:
        for connection in self.open.values():
            end(connection)
        self.sent.flush()


def end(connection: http.client.HTTPConnection) -> None:
    """Closes a connection that another thread may be reading."""
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(2)


def encoded(value: str) -> str:
    """A header's value, as 2026-07-28 encodes it."""
    is_plain = value == value.strip() and all(" " <= letter <= "~" for letter in value)
    if is_plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


# Cases: what a host does, and what came of it.


@dataclass
class Case:
    """One request, or something that takes several, and how the host behaves meanwhile."""

    name: str
    method: str
    params: Json = field(default_factory=dict)
    # The eras in which a host can do that.
    eras: tuple[str, ...] = (HANDSHAKE, MODERN)
    # What the host answers to questions: accept, decline, cancel or refuse (with an error).
    answers: str = "accept"
    # The progress after which the host cancels.
    cancels_after: int = 0
    # Notifications that come after the response, or on another stream.
    later: int = 0
    # Other requests at the same time.
    others: list[Json] = field(default_factory=list)
    has_token: bool = True
    # The level from which on the host wants log messages; `None`: it wants none.
    level: str | None = "debug"
    # Its place among the cases. It leads to the ids of the requests.
    number: int = 0


@dataclass
class Item:
    """A response, notification or question, and when it came."""

    kind: str
    body: Json
    at: float = 0.0
    # The arguments of the request.
    arguments: Json | None = None


Transcript = list[Item]


def answer(method: str, params: Json, how: str) -> Json:
    """The host's answer to a question, as result or error."""
    if how == "refuse" and method != "elicitation/create":
        return {"error": {"code": -1, "message": "User rejected the request", "data": {"why": "test"}}}
    if method == "elicitation/create":
        if how != "accept" or params.get("mode") == "url":
            # An error would leave the question to the person at longhaul's screen.
            return {"result": {"action": "decline" if how == "refuse" else how}}
        return {"result": {"action": "accept", "content": sample(params.get("requestedSchema", {}))}}
    if method == "sampling/createMessage":
        content = {"type": "text", "text": "hello from the model"}
        return {"result": {"role": "assistant", "content": content, "model": "m-1", "stopReason": "endTurn"}}
    if method == "roots/list":
        roots = [{"uri": "file:///srv/one", "name": "one"}, {"uri": "file:///srv/two"}]
        return {"result": {"roots": roots}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": f"unknown method {method}"}}


def sample(schema: Json) -> Any:
    """A value that a schema allows."""
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("oneOf", "anyOf", "allOf"):
        if key in schema:
            return sample(schema[key][0])
    match schema.get("type"):
        case "object":
            return {key: sample(inner) for key, inner in schema.get("properties", {}).items()}
        case "array":
            return [sample(schema.get("items", {}))]
        case "integer" | "number":
            return schema.get("minimum", 2)
        case "boolean":
            return True
        case "null":
            return None
    return {"email": "a@example.com", "uri": "https://example.com", "date": "2026-01-02"}.get(
        schema.get("format", ""), "sample"
    )


class Host:
    """A host of one era on a connection. It keeps the order of what it gets."""

    def __init__(self, connection: Connection, era: str) -> None:
        self.connection, self.era = connection, era
        self.case = Case("", "")
        self.numbers = itertools.count(1)
        self.listening: Json | None = None
        self.cancelled: set[Any] = set()

    def request(self, method: str, params: Json, has_token: bool = False) -> Json:
        """A request with an id of its own: a number, or text."""
        number = next(self.numbers)
        identity: Any = number if self.case.number % 2 else f"r-{number}"
        params = copy.deepcopy(params)
        meta = params.pop("_meta", {})
        if has_token:
            meta["progressToken"] = identity
        if self.era == MODERN:
            meta |= {
                PROTOCOL + "protocolVersion": MODERN,
                PROTOCOL + "clientInfo": CLIENT,
                PROTOCOL + "clientCapabilities": CAPABILITIES,
            } | ({PROTOCOL + "logLevel": self.case.level} if self.case.level else {})
        if meta:
            params["_meta"] = meta
        message = {"jsonrpc": "2.0", "id": identity, "method": method}
        return message | ({"params": params} if params else {})

    def play(self, case: Case, expected: int | None = None) -> Transcript:
        """What a case brings. `expected`: how many notifications came when it was played directly."""
        self.case, self.numbers = case, itertools.count(case.number * 10)
        if self.era == HANDSHAKE and case.level != "debug":
            self._set_level(case.level)
            try:
                return self.play(replace(case, level="debug"), expected)
            finally:
                self._set_level("debug")
        if case.method == "introduce":
            return self._introduce(expected)
        if case.method == "listen":
            return self._listen(case)
        if case.method.startswith("notifications/"):
            self.connection.send({"jsonrpc": "2.0", "method": case.method, "params": case.params})
            return self._exchange([self.request("ping", {})], case, expected)
        first = self.request(case.method, case.params, case.has_token)
        others = [self.request(case.method, params, case.has_token) for params in case.others]
        return self._exchange([first, *others], case, expected)

    def _set_level(self, level: str | None) -> None:
        """Sets the level; what comes of it is not compared."""
        self.numbers = itertools.count(self.case.number * 10 + 7 + (level == "debug"))
        self._exchange([self.request("logging/setLevel", {"level": level})], Case("", ""), None)

    def _introduce(self, expected: int | None) -> Transcript:
        if self.era == MODERN:
            return self._exchange([self.request("server/discover", {})], Case("", ""), None)
        params = {"protocolVersion": HANDSHAKE, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
        items = self._exchange([self.request("initialize", params)], Case("", ""), None)
        self.connection.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        # Some servers ask for the roots now.
        items += self.after_all(AFTER_HANDSHAKE_SECONDS)
        with suppress(NoAnswer):
            late = time.monotonic() + LATE_SECONDS
            while sum(item.kind == "notification" for item in items) < (expected or 0):
                self._take(late, items, {}, self.case)
        return items

    def _listen(self, case: Case) -> Transcript:
        self.listening = self.request("subscriptions/listen", case.params)
        self.connection.send(self.listening)
        items: Transcript = []
        deadline = time.monotonic() + RESPONSE_SECONDS
        while not any(item.body.get("method", "").endswith("acknowledged") or item.kind == "response" for item in items):
            self._take(deadline, items, {self.listening["id"]: self.listening}, case)
        return items

    def _exchange(self, requests: list[Json], case: Case, expected: int | None) -> Transcript:
        items: Transcript = []
        waiting = {request["id"]: request for request in requests}
        for request in requests:
            self.connection.send(request)
        deadline = time.monotonic() + RESPONSE_SECONDS
        try:
            while waiting:
                self._take(deadline, items, waiting, case)
                heard = sum(item.body.get("method") == "notifications/progress" for item in items)
                if case.cancels_after and heard >= case.cancels_after:
                    self._cancel(waiting)
                    items += self.after_all()
                    break
            wanted = case.later if expected is None else expected
            late = time.monotonic() + LATE_SECONDS
            after_response = 0 if expected is None else sum(item.kind == "notification" for item in items)
            while after_response < wanted:
                before = len(items)
                self._take(late, items, {}, case)
                after_response += len(items) - before
        except NoAnswer:
            for request in waiting.values():
                items.append(Item("no response", {"method": request["method"]}))
            self._cancel(waiting)
        return items

    def _cancel(self, waiting: dict[Any, Json]) -> None:
        for request in waiting.values():
            self.cancelled.add(request["id"])
            self.connection.cancel(request)

    def after_all(self, seconds: float = QUIET_SECONDS) -> Transcript:
        """What comes although nothing was asked, until it is quiet."""
        items: Transcript = []
        with suppress(NoAnswer):
            while True:
                self._take(time.monotonic() + seconds, items, {}, Case("", ""))
        return items

    def _take(self, deadline: float, items: Transcript, waiting: dict[Any, Json], case: Case) -> None:
        """Takes the next message in."""
        try:
            at, message = self.connection.arrived.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise NoAnswer from None
        method, identity = message.get("method"), message.get("id")
        if method and identity is not None:
            items.append(Item("question", {"method": method, "params": message.get("params", {})}, at))
            reply = answer(method, message.get("params", {}), case.answers)
            self.connection.send({"jsonrpc": "2.0", "id": identity, **reply})
        elif method:
            items.append(Item("notification", message, at))
        elif identity in waiting:
            request = waiting.pop(identity)
            result = message.get("result")
            if isinstance(result, dict) and result.get("resultType") == "input_required" and self.era == MODERN:
                self._next_round(request, result, items, waiting, case, at)
                return
            # It has the id of its request, or it would not be waited for.
            body = {key: value for key, value in message.items() if key != "id"}
            items.append(Item("response", body, at, request.get("params", {}).get("arguments")))
        elif identity not in self.cancelled:
            items.append(Item("stray response", message, at))

    def _next_round(
        self, request: Json, result: Json, items: Transcript, waiting: dict[Any, Json], case: Case, at: float
    ) -> None:
        """Answers the questions of one round and makes the request again."""
        responses = {}
        for key, question in result.get("inputRequests", {}).items():
            items.append(Item("question", {"key": key, **question, "params": question.get("params", {})}, at))
            reply = answer(question["method"], question.get("params", {}), case.answers)
            if "result" in reply:
                responses[key] = reply["result"]
        extra = {key: value for key, value in result.items() if key != "inputRequests"}
        items.append(Item("round", extra, at))
        params = {key: value for key, value in request["params"].items() if key not in ("requestState", "inputResponses")}
        params["inputResponses"] = responses
        if "requestState" in result:
            params["requestState"] = result["requestState"]
        again = self.request(request["method"], params, case.has_token)
        waiting[again["id"]] = again
        self.connection.send(again)


# What there is to ask for. A generator of cases gets the transcript of each, which tells it what comes next.

# Arguments that the schema does not lead to.
ARGUMENTS: dict[str, Json] = {
    "slow_count": {"steps": 3, "delay_ms": 80},
    "slow_task": {"steps": 2, "delay_ms": 80},
    "ask_server": {"times": 1, "delay_ms": 1},
    "ask_page": {"times": 1, "delay_ms": 1},
    "trigger-long-running-operation": {"duration": 0.4, "steps": 4},
    "gzip-file-as-resource": {"name": "a.txt.gz", "data": "data:text/plain,hello", "outputType": "resource"},
    "simulate-research-query": {"topic": "tides", "ambiguous": False},
}
# The arguments with which a tool can be cancelled.
CANCELLED: dict[str, Json] = {
    "slow_count": {"steps": 1000, "delay_ms": 60},
    "counts": {"steps": 1000, "delay_ms": 60},
    "trigger-long-running-operation": {"duration": 60, "steps": 1000},
}
# Notifications after the response, and how many: the server sends them on no call's stream.
LATER = {"changes": 3, "toggle-simulated-logging": 1, "toggle-subscriber-updates": 1}
ASKING = re.compile(r"^ask_|elicitation|sampling|roots")
LISTS = ("tools", "prompts", "resources", "resources/templates")
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
Cases = Generator[Case, Transcript, None]


def result_of(items: Transcript) -> Json:
    responses = [item.body for item in items if item.kind == "response"]
    return responses[-1].get("result", {}) if responses else {}


def cases_of(era: str) -> Cases:
    """Everything that a server of this era offers."""
    introduced = result_of((yield Case("introduction", "introduce")))
    offered = introduced.get("capabilities", {})
    if "logging" in offered:
        yield Case("set the log level", "logging/setLevel", {"level": "debug"}, (HANDSHAKE,))
    everything = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
    found: dict[str, list[Json]] = {}
    pages: list[Case] = []
    for kind in LISTS:
        found[kind] = []
        cursor: Json = {}
        for number in range(1, 20):
            result = result_of((yield Case(f"{kind}, page {number}", f"{kind}/list", cursor)))
            key = "resourceTemplates" if kind == "resources/templates" else kind
            found[kind] += result.get(key, [])
            if "nextCursor" not in result:
                break
            cursor = {"cursor": result["nextCursor"]}
        yield Case(f"{kind} after an unknown cursor", f"{kind}/list", {"cursor": "no such cursor"})
    uris = [resource["uri"] for resource in found["resources"]]
    wanted = everything | ({"resourceSubscriptions": uris[:1]} if uris else {})
    yield Case("listen", "listen", {"notifications": wanted}, (MODERN,))
    if uris:
        yield Case("subscribe", "resources/subscribe", {"uri": uris[0]}, (HANDSHAKE,))
    for tool in found["tools"]:
        yield from calls_of(tool, era)
    yield from bad_calls()
    if uris:
        yield Case("unsubscribe", "resources/unsubscribe", {"uri": uris[0]}, (HANDSHAKE,))
    yield from prompt_cases(found["prompts"])
    yield from resource_cases(uris, [it["uriTemplate"] for it in found["resources/templates"]])
    yield from other_requests()


def calls_of(tool: Json, era: str) -> Cases:
    name, schema = tool["name"], tool.get("inputSchema", {})
    good = ARGUMENTS.get(name) or sample(schema | {"type": "object"})
    meta = {"example.com/host": {"kept": [1, 2.5, None]}}
    if tool.get("execution", {}).get("taskSupport") == "required":
        # longhaul makes a task of it, which this host can't do directly.
        return
    call = Case(f"{name}", "tools/call", {"name": name, "arguments": good, "_meta": meta}, later=LATER.get(name, 0))
    items = yield call
    if any(item.kind == "question" for item in items) and ASKING.search(name):
        for how in ("decline", "cancel", "refuse"):
            # Rounds have no way to refuse.
            eras = (HANDSHAKE,) if how == "refuse" else call.eras
            if how != "refuse" or era == HANDSHAKE:
                yield replace(call, name=f"{name}, {how}", answers=how, eras=eras)
        return
    if name in LATER:
        yield replace(call, name=f"{name} again")
        return
    if name == "logs":
        yield replace(call, name="logs at level error", level="error")
        yield replace(call, name="logs for nobody", level=None, eras=(MODERN,))
    if name == "refuses":
        for code in (0, 1, 42, -1, -32000, -32603, -32800):
            yield replace(call, name=f"refuses with code {code}", params={"name": name, "arguments": {"code": code}})
    yield Case(f"{name} without progress", "tools/call", {"name": name, "arguments": good}, has_token=False)
    if name != "trigger-long-running-operation":
        # That one takes 10 s by default.
        yield Case(f"{name} without arguments", "tools/call", {"name": name})
        yield Case(f"{name} with empty arguments", "tools/call", {"name": name, "arguments": {}})
    yield Case(f"{name} with an unknown argument", "tools/call", {"name": name, "arguments": good | {"unknown": 1}})
    for key in list(good)[:2]:
        wrong = good | {key: {"not": ["this"]}}
        yield Case(f"{name} with a wrong {key}", "tools/call", {"name": name, "arguments": wrong})
    if name in CANCELLED:
        params = {"name": name, "arguments": CANCELLED[name]}
        yield Case(f"{name}, cancelled", "tools/call", params, cancels_after=2)
        other = good | ({"steps": good["steps"] + 1} if "steps" in good else {})
        others = [{"name": name, "arguments": other}]
        yield Case(f"two calls of {name} at a time", "tools/call", call.params, others=others)


def bad_calls() -> Cases:
    yield Case("unknown tool", "tools/call", {"name": "no such tool", "arguments": {}})
    yield Case("call without a name", "tools/call", {"arguments": {}})
    yield Case("call with a name that is a number", "tools/call", {"name": 7, "arguments": {}})
    yield Case("call with arguments that are a list", "tools/call", {"name": "echo", "arguments": [1]})


def prompt_cases(prompts: list[Json]) -> Cases:
    for prompt in prompts:
        name, names = prompt["name"], [it["name"] for it in prompt.get("arguments", [])]
        good = {it: "1" if "Id" in it else "Text" if "Type" in it else "sample" for it in names}
        yield Case(f"prompt {name}", "prompts/get", {"name": name, "arguments": good})
        yield Case(f"prompt {name} without arguments", "prompts/get", {"name": name})
        yield Case(f"prompt {name} with a wrong argument", "prompts/get", {"name": name, "arguments": {"x": 1}})
        for argument in names:
            ref = {"type": "ref/prompt", "name": name}
            params: Json = {"ref": ref, "argument": {"name": argument, "value": "e"}}
            yield Case(f"complete {argument} of {name}", "completion/complete", params)
            params = params | {"context": {"arguments": {"department": "Sales", "x": "y"}}}
            yield Case(f"complete {argument} of {name} in context", "completion/complete", params)
    yield Case("unknown prompt", "prompts/get", {"name": "no such prompt"})
    ref = {"type": "ref/prompt", "name": "no such prompt"}
    yield Case("complete an unknown prompt", "completion/complete", {"ref": ref, "argument": {"name": "a", "value": ""}})
    yield Case("complete nothing", "completion/complete", {})


def resource_cases(uris: list[str], templates: list[str]) -> Cases:
    meta = {"example.com/host": 1}
    for uri in uris:
        yield Case(f"read {uri}", "resources/read", {"uri": uri, "_meta": meta})
    for template in templates:
        yield Case(f"read {template}", "resources/read", {"uri": re.sub(r"\{[^}]*\}", "1", template)})
        for variable in re.findall(r"\{[^\w]*(\w+)[^}]*\}", template):
            ref = {"type": "ref/resource", "uri": template}
            params = {"ref": ref, "argument": {"name": variable, "value": "1"}}
            yield Case(f"complete {variable} of {template}", "completion/complete", params)
    yield Case("read an unknown resource", "resources/read", {"uri": "unknown://x"})
    yield Case("read no resource", "resources/read", {})
    yield Case("subscribe to an unknown resource", "resources/subscribe", {"uri": "unknown://x"}, (HANDSHAKE,))


def other_requests() -> Cases:
    yield Case("ping", "ping", {}, (HANDSHAKE,), has_token=False)
    yield Case("unknown method", "example/unknown", {"a": [1]})
    yield Case("unknown notification", "notifications/example", {"a": [1]}, (HANDSHAKE,))
    yield Case("roots changed", "notifications/roots/list_changed", {}, (HANDSHAKE,))
    for level in LEVELS:
        yield Case(f"log level {level}", "logging/setLevel", {"level": level}, (HANDSHAKE,))
    yield Case("unknown log level", "logging/setLevel", {"level": "loud"}, (HANDSHAKE,))
    for method in ("ping", "logging/setLevel", "resources/subscribe"):
        yield Case(f"{method}, which is gone", method, {}, (MODERN,), has_token=False)


# The differences that are meant.


@dataclass(frozen=True)
class Pair:
    """A server and the eras of host and server."""

    server: str
    host_era: str
    server_era: str

    @property
    def is_mixed(self) -> bool:
        return self.host_era != self.server_era

    def __str__(self) -> str:
        return f"{self.server}, host {self.host_era}, server {self.server_era}"


@dataclass
class Compared:
    """The two transcripts of one case. A difference that is meant changes them until it no longer shows."""

    pair: Pair
    case: Case
    direct: Transcript
    proxied: Transcript

    def both(self) -> Iterator[Json]:
        """The results of both."""
        for items in (self.direct, self.proxied):
            yield from results(items)


def results(items: Transcript) -> Iterator[Json]:
    for item in items:
        result = item.body.get("result")
        if item.kind == "response" and isinstance(result, dict):
            yield result


@dataclass(frozen=True)
class Difference:
    """Something that may differ."""

    name: str
    sentence: str
    hide: Callable[[Compared], None]


# Tools that their servers offer as tasks.
TASK_TOOLS = ("slow_task", "ask_task", "simulate-research-query")

DIFFERENCES: list[Difference] = []


def difference(name: str, sentence: str) -> Callable[[Callable[[Compared], None]], Callable[[Compared], None]]:
    """Names a difference; the function hides it."""

    def add(hide: Callable[[Compared], None]) -> Callable[[Compared], None]:
        DIFFERENCES.append(Difference(name, sentence, hide))
        return hide

    return add


def drop_meta(holder: Json, unwanted: Callable[[str], bool]) -> None:
    """Removes members of `_meta`, and `_meta` itself once it is empty."""
    meta = holder.get("_meta")
    if isinstance(meta, dict):
        for key in [key for key in meta if unwanted(key)]:
            del meta[key]
        if not meta:
            del holder["_meta"]


@difference("own tools", "The first page of the tools ends with longhaul_collect and longhaul_tasks.")
def hide_own_tools(it: Compared) -> None:
    if it.case.method == "tools/list" and "cursor" not in it.case.params:
        for result in results(it.proxied):
            names = [tool["name"] for tool in result["tools"][-2:]]
            if names == ["longhaul_collect", "longhaul_tasks"]:
                del result["tools"][-2:]


@difference("tools capability", "A server without tools offers tools through the proxy, which has its own.")
def hide_tools_capability(it: Compared) -> None:
    if it.case.method == "introduce":
        direct = [result["capabilities"] for result in results(it.direct)]
        for result in results(it.proxied):
            if direct and "tools" not in direct[0]:
                result["capabilities"].pop("tools", None)


@difference("output schema", "An output schema also allows a ticket.")
def hide_ticket_schema(it: Compared) -> None:
    for result in results(it.proxied):
        for tool in result.get("tools", []) if it.case.method == "tools/list" else []:
            wider = tool.get("outputSchema", {})
            choices = wider.get("anyOf", [])
            if len(choices) == 2 and choices[1].get("required") == ["longhaul_ticket"]:
                tool["outputSchema"] = choices[0] | {key: wider[key] for key in ("$defs", "definitions") if key in wider}


@difference("tasks", "The tasks are longhaul's, for every tool: `execution` and the capabilities say so.")
def hide_tasks(it: Compared) -> None:
    for result in it.both():
        for tool in result.get("tools", []) if it.case.method == "tools/list" else []:
            tool.pop("execution", None)
        if it.case.method == "introduce":
            result["capabilities"].pop("tasks", None)
            result["capabilities"].get("extensions", {}).pop(PROTOCOL + "tasks", None)
            if result["capabilities"].get("extensions") == {}:
                del result["capabilities"]["extensions"]


@difference("connection's _meta", "What MCP itself keeps in the `_meta` of a question belongs to longhaul's own connection.")
def hide_connection_meta(it: Compared) -> None:
    for item in it.direct + it.proxied:
        if item.kind == "question":
            drop_meta(item.body["params"], lambda key: key == "progressToken" or key.startswith(PROTOCOL))
            item.body["params"].pop("task", None)


@difference("subscription ids", "A notification names the host's own subscription.")
def hide_subscription_ids(it: Compared) -> None:
    for item in it.direct + it.proxied:
        meta = item.body.get("params", {}).get("_meta", {}) if item.kind == "notification" else {}
        if SUBSCRIPTION in meta:
            meta[SUBSCRIPTION] = "the host's"


@difference("progress", "Progress of a call comes at most 30 times a second; none is added or reordered.")
def hide_thinned_progress(it: Compared) -> None:
    if it.case.method != "tools/call":
        return
    if it.case.others:
        # Which of the calls a step belongs to is in their results.
        for items in (it.direct, it.proxied):
            items[:] = [item for item in items if item.body.get("method") != "notifications/progress"]
        return
    passed = [item.body for item in it.proxied]
    reported = [item for item in it.direct if item.body.get("method") == "notifications/progress"]
    for item, following in itertools.pairwise([*reported, it.direct[-1]] if reported else []):
        if following.at - item.at < THINNED_SECONDS and item.body not in passed:
            it.direct.remove(item)


@difference("request state", "The state of a round is longhaul's own.")
def hide_request_state(it: Compared) -> None:
    for item in it.direct + it.proxied:
        if item.kind == "round":
            item.body.pop("requestState", None)


@difference("streams", "What belongs to no call comes on a stream of its own over HTTP, in no order with responses.")
def hide_streams(it: Compared) -> None:
    def is_change(item: Item) -> bool:
        method = item.body.get("method", "")
        is_call = it.case.method == "tools/call"
        return method.endswith(("list_changed", "resources/updated")) or (item.kind == "question" and not is_call)

    for items in (it.direct, it.proxied):
        items.sort(key=is_change)
        if it.case.method == "introduce":
            items.sort(key=lambda item: item.kind)


@difference("cancelled requests", "A cancelled request gets no response, whatever the server would send.")
def hide_cancelled_response(it: Compared) -> None:
    if it.case.cancels_after:
        # How far it gets until then is a matter of time.
        for items in (it.direct, it.proxied):
            items[:] = [item for item in items if item.kind == "question"]


@difference("server's tasks", "A tool that longhaul runs as a task of the server has the task's errors, questions and notifications.")
def hide_server_tasks(it: Compared) -> None:
    if it.case.method == "tools/call" and it.case.params.get("name") in TASK_TOOLS:
        for items in (it.direct, it.proxied):
            items.clear()


@difference("undeclared changes", "A modern host hears only of changes that a server of the other era has declared.")
def hide_undeclared_changes(it: Compared) -> None:
    if it.pair.host_era == MODERN and it.pair.is_mixed:
        for items in (it.direct, it.proxied):
            items[:] = [item for item in items if not item.body.get("method", "").endswith("list_changed")]


@difference("subscriptions of servers", "A subscription is the proxy's own, also where the server has none.")
def hide_refused_subscriptions(it: Compared) -> None:
    if it.case.name == "listen" and not any(item.kind == "notification" for item in it.direct):
        it.direct.clear()
        it.proxied.clear()


@difference("no arguments", "A call without arguments has empty ones.")
def hide_missing_arguments(it: Compared) -> None:
    if it.case.method == "tools/call" and "arguments" not in it.case.params:
        for result in it.both():
            seen = result.get("structuredContent")
            if isinstance(seen, dict) and isinstance(seen.get("params"), dict):
                seen["params"].setdefault("arguments", {})


@difference("progress tokens", "A call always has a progress token, so a tool that fails without one does not fail.")
def hide_failure_without_token(it: Compared) -> None:
    fails = any("no attribute 'progressToken'" in json.dumps(result) for result in results(it.direct))
    if it.case.method == "tools/call" and not it.case.has_token and fails:
        it.direct[:] = it.proxied


@difference("malformed calls", "A call whose name is not a string, or whose arguments are not an object, is refused by longhaul itself.")
def hide_malformed_calls(it: Compared) -> None:
    if it.case.method != "tools/call":
        return
    name, arguments = it.case.params.get("name"), it.case.params.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        for item in it.direct + it.proxied:
            if "error" in item.body:
                item.body["error"] = "an error"


@difference("progress and log messages", "A log message can come before a progress notification that was sent earlier.")
def hide_order_of_progress(it: Compared) -> None:
    def is_progress(item: Item) -> bool:
        return item.body.get("method") == "notifications/progress"

    for items in (it.direct, it.proxied):
        ends = [place for place, item in enumerate(items) if item.kind == "response"]
        end = ends[0] if ends else len(items)
        items[:end] = sorted(items[:end], key=is_progress)


@difference("resources", "A modern host can't subscribe to resources, and gets no `resources/updated`.")
def hide_resource_subscriptions(it: Compared) -> None:
    if it.pair.host_era == MODERN:
        for items in (it.direct, it.proxied):
            items[:] = [item for item in items if item.body.get("method") != "notifications/resources/updated"]
            for item in items:
                if item.body.get("method") == "notifications/subscriptions/acknowledged":
                    item.body["params"]["notifications"].pop("resourceSubscriptions", None)


@difference("longhaul's own errors", "The error for a method that is gone has other words, and no data.")
def hide_own_errors(it: Compared) -> None:
    if it.case.name.endswith("which is gone"):
        for item in it.direct + it.proxied:
            error = item.body.get("error") or {}
            error.pop("data", None)
            error.pop("message", None)


@difference("revisions", "A modern host is offered one revision.")
def hide_revisions(it: Compared) -> None:
    if it.case.method == "introduce":
        for result in it.both():
            result.pop("supportedVersions", None)


@difference("name in rounds", "A round does not name the server.")
def hide_name_in_rounds(it: Compared) -> None:
    for item in it.direct + it.proxied:
        if item.kind == "round":
            drop_meta(item.body, lambda key: key == SERVER_INFO)


@difference("roots outside calls", "When a server asks for roots by itself is up to it, and a modern host is asked only during calls.")
def hide_roots(it: Compared) -> None:
    def is_by_itself(item: Item) -> bool:
        is_question = item.kind == "question" and item.body["method"] == "roots/list"
        is_update = "Roots updated" in str(item.body.get("params", {}).get("data"))
        return is_update or (is_question and (it.case.method != "tools/call" or it.pair.server.startswith("everything")))

    for items in (it.direct, it.proxied):
        items[:] = [item for item in items if not is_by_itself(item)]
    if it.pair.host_era == MODERN and it.case.method == "introduce":
        for items in (it.direct, it.proxied):
            items[:] = [item for item in items if item.kind == "response"]


@difference("the client", "The server sees the host's name with \"via longhaul\", longhaul's capabilities and its headers.")
def hide_client(it: Compared) -> None:
    for result in it.both():
        seen = result.get("structuredContent") if it.case.method == "tools/call" else None
        if isinstance(seen, dict) and "headers" in seen:
            result.pop("content")
            for key in ("client", "capabilities"):
                seen.pop(key, None)
            own = re.compile(r"host|user-agent|accept.*|connection|content-length|mcp-session-id|traceparent|content-type")
            seen["headers"] = {key: value for key, value in seen["headers"].items() if not own.fullmatch(key)}
            drop_meta(seen.get("params", {}), lambda key: key == "progressToken" or key.startswith(PROTOCOL))


@difference("environment", "A program that longhaul starts gets a small environment, so `get-env` shows another one.")
def hide_environment(it: Compared) -> None:
    if it.case.params.get("name") == "get-env":
        for result in it.both():
            if not result.get("isError"):
                result["content"] = "the environment"


@difference("secrets", "Known secrets are masked, such as the id of the session with the server.")
def hide_secrets(it: Compared) -> None:
    for item in it.proxied:
        item.body = json.loads(json.dumps(item.body).replace("[redacted:server-session]", "<id>"))


@difference("time and chance", "Some servers return the time of day, a random id or a random order.")
def hide_chance(it: Compared) -> None:
    patterns = {
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|\+00:00)": "<time>",
        r"\d{1,2}:\d\d:\d\d\s?[AP]M": "<time>",
        r'"level": "\w+", "data": "\w+[ -]level[ -]message': '"level": "<a level>", "data": "A message',
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}": "<id>",
    }
    def steady(text: str) -> str:
        for pattern, word in patterns.items():
            text = re.sub(pattern, word, text)
        return text

    for item in it.direct + it.proxied:
        item.body = json.loads(steady(json.dumps(item.body)))
        for content in (item.body.get("result") or {}).get("contents", []):
            with suppress(ValueError):
                content["blob"] = steady(base64.b64decode(content.get("blob", "")).decode()) or content.get("blob")


@difference("members of results", "Without a handshake, results have resultType, ttlMs and cacheScope, or get complete, 0 and private.")
def hide_modern_members(it: Compared) -> None:
    if it.pair.is_mixed:
        told = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        for items, is_modern in ((it.direct, it.pair.server_era == MODERN), (it.proxied, it.pair.host_era == MODERN)):
            for result in results(items):
                for key, value in told.items():
                    is_own = items is it.direct or result.get(key) == value
                    if is_modern and is_own:
                        result.pop(key, None)


@difference("server info", "Without a handshake, each result may name the server in its `_meta`.")
def hide_server_info(it: Compared) -> None:
    if it.pair.is_mixed and it.case.method != "introduce":
        for result in it.both():
            drop_meta(result, lambda key: key == SERVER_INFO)


@difference("introductions", "A handshake and `server/discover` say the same in two forms.")
def hide_introduction(it: Compared) -> None:
    if it.case.method == "introduce" and it.pair.is_mixed:
        for result in it.both():
            result.pop("protocolVersion", None)
            result.pop("supportedVersions", None)
            info = result.get("_meta", {}).get(SERVER_INFO)
            drop_meta(result, lambda key: key == SERVER_INFO)
            result.setdefault("serverInfo", info)
            result["capabilities"].get("resources", {}).pop("subscribe", None)


@difference("rounds", "A question of a handshake's server is a round of a modern host's call, and the other way round.")
def hide_rounds(it: Compared) -> None:
    if it.pair.is_mixed:
        for items in (it.direct, it.proxied):
            items[:] = [item for item in items if item.kind != "round"]
            for item in items:
                item.body.pop("key", None) if item.kind == "question" else None
                if item.kind == "question":
                    item.body["params"].pop("elicitationId", None)
            asked = [item for item in items if item.kind == "question"]
            rest = [item for item in items if item.kind != "question"]
            items[:] = sorted(asked, key=lambda item: json.dumps(item.body, sort_keys=True)) + rest


@difference("subscriptions", "Only a modern host's notifications of changes name a subscription.")
def hide_subscriptions(it: Compared) -> None:
    if it.pair.is_mixed:
        for item in it.direct + it.proxied:
            method = item.body.get("method", "") if item.kind == "notification" else ""
            if method.endswith("list_changed"):
                drop_meta(item.body.get("params", {}), lambda key: key == SUBSCRIPTION)
                if not item.body.get("params", True):
                    del item.body["params"]
        for items in (it.direct, it.proxied):
            items[:] = [item for item in items if item.body.get("method") != "notifications/resources/updated"]


# Comparing.


def unlike(path: str, direct: Any, proxied: Any) -> Iterator[tuple[str, Any, Any]]:
    """The paths at which two values differ."""
    if isinstance(direct, dict) and isinstance(proxied, dict):
        for key in [*direct, *(key for key in proxied if key not in direct)]:
            missing = object()
            ours, theirs = direct.get(key, missing), proxied.get(key, missing)
            if ours is missing or theirs is missing:
                yield f"{path}.{key}", "nothing" if ours is missing else ours, "nothing" if theirs is missing else theirs
            else:
                yield from unlike(f"{path}.{key}", ours, theirs)
    elif is_named(direct) and is_named(proxied):
        yield from unlike(path, {it["name"]: it for it in direct}, {it["name"]: it for it in proxied})
    elif isinstance(direct, list) and isinstance(proxied, list) and len(direct) == len(proxied):
        for index, (ours, theirs) in enumerate(zip(direct, proxied, strict=True)):
            yield from unlike(f"{path}[{index}]", ours, theirs)
    elif isinstance(direct, bool) != isinstance(proxied, bool) or direct != proxied:
        yield path, direct, proxied


def is_named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(it, dict) and "name" in it for it in value)


def brief(value: Any) -> str:
    text = value if value == "nothing" else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:110]} ... {text[-40:]}"


def label(item: Item) -> str:
    return f"{item.kind} {item.body.get('method', '')}".strip()


def call_of(item: Item) -> str:
    """What tells the messages of several calls apart."""
    token = item.body.get("params", {}).get("progressToken")
    return f"{item.kind} {token} {item.arguments}"


def compare(it: Compared) -> list[str]:
    """The differences that are not meant."""
    for meant in DIFFERENCES:
        meant.hide(it)
    found = []
    direct, proxied = it.direct, it.proxied
    if it.case.others:
        # What is ordered is each call's own messages.
        direct, proxied = sorted(direct, key=call_of), sorted(proxied, key=call_of)
    if [label(item) for item in direct] != [label(item) for item in proxied]:
        ours, theirs = [label(item) for item in direct], [label(item) for item in proxied]
        found.append(f"messages: {brief(counted(ours))} -> {brief(counted(theirs))}")
        # What is there on both sides is compared all the same.
        direct = [item for item in direct if item.kind == "response"]
        proxied = [item for item in proxied if item.kind == "response"]
    for ours, theirs in zip(direct, proxied, strict=False):
        for path, left, right in unlike(label(ours), ours.body, theirs.body):
            found.append(f"{path}: {brief(left)} -> {brief(right)}")
    return found


def counted(labels: list[str]) -> list[str]:
    """Equal neighbors as one, with their number."""
    groups = ((name, len(list(group))) for name, group in itertools.groupby(labels))
    return [f"{count} x {name}" if count > 1 else name for name, count in groups]


# Servers.


@dataclass(frozen=True)
class Server:
    """A server: how it starts, and the eras that it speaks."""

    name: str
    # What `servers.py` calls it.
    installed: str
    eras: tuple[str, ...]
    # Replaces the arguments of the installed command.
    arguments: tuple[str, ...] | None = None
    is_http: bool = True


BOTH = (HANDSHAKE, MODERN)
OWN = str(HERE / "differential_server.py")
EVERYTHING = servers.HERE / "node_everything"
SERVERS = [
    Server("differential http", "sdk2", BOTH, (OWN,)),
    Server("differential stdio", "sdk2", BOTH, (OWN,), is_http=False),
    Server("everything http", "everything", (HANDSHAKE,)),
    Server("everything stdio", "everything", (HANDSHAKE,), ("{1}", "stdio"), is_http=False),
    Server("python 1", "sdk", (HANDSHAKE,)),
    Server("python 2", "sdk2", BOTH),
    Server("typescript 1", "node_sdk1", (HANDSHAKE,)),
    Server("typescript 2", "node_sdk2", BOTH),
    Server("rmcp", "rmcp", BOTH),
    Server("fastmcp 4", "fastmcp4", BOTH),
]


@dataclass
class Stage:
    """Where one run takes place."""

    server: Server
    command: list[str]
    longhaul: Path
    place: Path
    stack: ExitStack

    def direct(self, era: str) -> Host:
        if not self.server.is_http:
            connection: Connection = StdioConnection(self._program(), self.place, driver.clean_environment())
        else:
            connection = HttpConnection(self._start(), era, self.place)
        self.stack.callback(connection.close)
        return Host(connection, era)

    def proxied(self, pair: Pair) -> Host:
        if self.server.is_http:
            lines = f'url = "http://127.0.0.1:{self._start()}/mcp"\n'
        else:
            command = self._program()
            lines = f'command = "{command[0]}"\nargs = {json.dumps(command[1:])}\n'
        # The path of a socket has to be short.
        state = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        config = self.place / "config.toml"
        config.write_text(f'[servers.it]\n{lines}protocol = "{pair.server_era}"\n')
        env = driver.clean_environment(
            HOME=str(state), LONGHAUL_STATE_DIR=str(state), LONGHAUL_CONFIG=str(config), NO_COLOR="1"
        )

        def run(*arguments: str) -> None:
            subprocess.run([str(self.longhaul), *arguments], env=env, capture_output=True, timeout=30, cwd=self.place)

        if not self.server.is_http:
            run("servers", "approve", "it", "--yes")
        command = [str(self.longhaul), "proxy", "it", "--patience", f"{PATIENCE_SECONDS}s"]
        connection = StdioConnection(command, self.place, env)
        self.stack.callback(run, "keeper", "stop")
        self.stack.callback(connection.close)
        return Host(connection, pair.host_era)

    def _program(self) -> list[str]:
        """The command of a server on stdio."""
        return [*self.command, "--journal", str(self.place / "journal.txt")]

    def _start(self) -> int:
        server = driver.Server(self.place, self.command, {})
        self.stack.callback(server.kill)
        server.start()
        return server.port


def is_in(case: Case, era: str) -> bool:
    return era in case.eras


@dataclass
class Trial:
    """All runs with one server."""

    server: Server
    command: list[str]
    longhaul: Path
    place: Path

    def stage(self, name: str, stack: ExitStack) -> Stage:
        place = self.place / f"{self.server.name} {name}".replace(" ", "-")
        place.mkdir(parents=True)
        return Stage(self.server, self.command, self.longhaul, place, stack)

    def direct(self, era: str) -> list[tuple[Case, Transcript]]:
        """All cases of a server, played directly."""
        played = []
        with ExitStack() as stack:
            stage = self.stage(f"{era} direct", stack)
            host = stage.direct(era)
            cases = cases_of(era)
            case = next(cases, None)
            for number in itertools.count(1):
                if case is None:
                    break
                case.number = number
                items = host.play(case) if is_in(case, era) else []
                if case.method == "tools/list" and isinstance(host.connection, HttpConnection):
                    note_header_parameters(host.connection, result_of(items))
                played.append((case, items))
                try:
                    case = cases.send(items)
                except StopIteration:
                    case = None
            played.append((Case("after everything", "after"), host.after_all()))
            played.append((Case("calls that the server stopped", "journal"), self.stopped(stage)))
        return played

    def stopped(self, stage: Stage) -> Transcript:
        """How many calls the server stopped, by its own journal."""
        journal = driver.Journal(stage.place / "journal.txt")
        return [Item("journal", {"stopped": journal.count("stopped")})]

    def proxied(self, pair: Pair, played: list[tuple[Case, Transcript]]) -> tuple[bool, str]:
        """Plays the same through the proxy. Returns whether all is equal, and the line about it."""
        found: dict[str, list[str]] = {}
        requests = notifications = 0
        with ExitStack() as stack:
            stage = self.stage(f"{pair.host_era} proxied {pair.server_era}", stack)
            host = stage.proxied(pair)
            for case, direct in played:
                if not is_in(case, pair.host_era):
                    continue
                expected = sum(item.kind == "notification" for item in direct)
                is_compared = is_in(case, pair.server_era)
                if case.method == "after":
                    items = host.after_all()
                elif case.method == "journal":
                    items = self.stopped(stage)
                else:
                    items = host.play(case, expected if is_compared else 0)
                if not is_compared:
                    continue
                requests += 1
                notifications += expected
                for line in compare(Compared(pair, case, copy.deepcopy(direct), items)):
                    found.setdefault(line, []).append(case.name)
        if not found:
            return True, f"{pair}: equal: {requests} requests, {notifications} notifications"
        lines = [f"{pair}: {sum(map(len, found.values()))} differences in {requests} requests"]
        for line, names in found.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            lines.append(f"    [{'; '.join(names[:3])}{more}] {line}")
        return False, "\n".join(lines)


def note_header_parameters(connection: HttpConnection, listed: Json) -> None:
    for tool in listed.get("tools", []):
        properties = tool.get("inputSchema", {}).get("properties", {})
        headers = {key: it["x-mcp-header"] for key, it in properties.items() if "x-mcp-header" in it}
        connection.header_parameters[tool["name"]] = headers


def command_of(server: Server) -> list[str]:
    command = servers.SERVERS[server.installed](servers.cache_at(ROOT / "target/interop"))
    if server.arguments is None:
        return command
    return [command[0], *(command[1] if word == "{1}" else word for word in server.arguments)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", type=Path, default=ROOT / "target/debug/longhaul", help="the program to test")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="only these servers and eras")
    parser.add_argument("--keep", type=Path, default=ROOT / "target/interop/hosts/differential", metavar="DIR", help="where the messages are kept")
    parser.add_argument("--list", action="store_true", help="list the differences that are meant")
    options = parser.parse_args()
    if options.list:
        for it in DIFFERENCES:
            print(f"{it.name:<20} {it.sentence}")
        return 0
    shutil.rmtree(options.keep, ignore_errors=True)
    wanted = options.only or ["*"]
    pairs = [Pair(it.name, host, era) for it in SERVERS for era in it.eras for host in BOTH]
    pairs = [pair for pair in pairs if any(fnmatch.fnmatch(str(pair), f"*{pattern}*") for pattern in wanted)]
    verdicts = []
    with ThreadPoolExecutor(2) as pool:
        begun = {}
        for server in SERVERS:
            for era in server.eras:
                mine = [pair for pair in pairs if (pair.server, pair.server_era) == (server.name, era)]
                if mine:
                    begun[server.name, era] = pool.submit(compare_all, server, era, mine, options.longhaul.resolve(), options.keep)
        for job in begun.values():
            for is_equal, line in job.result():
                verdicts.append(is_equal)
                print(line, flush=True)
    return 0 if all(verdicts) else 1


def compare_all(server: Server, era: str, pairs: list[Pair], longhaul: Path, keep: Path) -> list[tuple[bool, str]]:
    """The verdicts on one server in one era."""
    try:
        trial = Trial(server, command_of(server), longhaul, keep)
        played = trial.direct(era)
        return [trial.proxied(pair, played) for pair in pairs]
    except (servers.NotInstalled, driver.Failed, NoAnswer, OSError) as error:
        return [(False, f"{server.name}, {era}: {type(error).__name__} {error}")]


if __name__ == "__main__":
    sys.exit(main())

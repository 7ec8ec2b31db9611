"""Servers x faults: the same cases against every server, and what must come of each.

What must come of it is the design's table of what can be picked up again, by what the server offers in the era that is
spoken with it (`Way`). A row is a server, the era, and one of its tools; the cases are the same for all.
"""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from checks import check_given_up, check_once, check_same_history, check_seq, check_steps, outage_of, reason_of
from driver import SOON_SECONDS, START_SECONDS, Proxy, Run, Stage, need, until

# An outage, the work after it, and the slowest polling that a server makes us do.
BOUND_SECONDS = 120.0
ANSWER = ("--accept", "name=Ada")
MODERN = "2026-07-28"
HTTP_SSE = "2024-11-05"
STATEFUL = "2025-11-25"


class Way(Enum):
    """How a call can be picked up again."""

    IDS = "event ids"
    NO_IDS = "no event ids"
    TASK = "server task"
    MODERN = "modern, plain"


@dataclass(frozen=True)
class Row:
    """A server, an era, and its tools."""

    name: str
    server: str
    way: Way
    tool: str
    # The revision that must be spoken, and whether longhaul is told to or must choose it itself.
    era: str
    is_told: bool = False
    # The arguments of the slow tool, and what its result says.
    arguments: Callable[[int, int], list[str]] = lambda steps, delay_ms: [f"steps:={steps}", f"delay_ms:={delay_ms}"]
    result: Callable[[int], str] = lambda steps: f"counted {steps}"
    # What the server says while a task works.
    says: str = "step "
    # Whether the server tells that a cancelled call has been cancelled; some never answer.
    answers_cancel: bool = True
    # Whether a cancelled tool stops.
    stops: bool = True
    # Whether the server keeps a journal, so that we see what really ran.
    journal: bool = True
    # The tool that asks, its arguments, the answer, and what its result then says.
    ask: tuple[str, ...] = ()
    answer: tuple[str, ...] = ANSWER
    greeting: str = "hello Ada"
    declined: str = "no name: decline"


def seconds_and_steps(steps: int, delay_ms: int) -> list[str]:
    """The arguments of server-everything's long tool."""
    return [f"duration:={steps * delay_ms / 1000:g}", f"steps:={steps}"]


ROWS = [
    Row("fastmcp4-task", "fastmcp4", Way.TASK, "slow_task", MODERN, ask=("ask_task",)),
    Row("fastmcp4-modern", "fastmcp4", Way.MODERN, "slow_count", MODERN, is_told=True, ask=("ask_name",)),
    Row("fastmcp4-stateful", "fastmcp4", Way.IDS, "slow_count", STATEFUL),
    # It does not list which of its tools can be tasks, so only use tells.
    Row("rmcp-task", "rmcp", Way.TASK, "slow_task", MODERN, is_told=True, ask=("ask_task",)),
    Row("rmcp-modern", "rmcp", Way.MODERN, "slow_count", MODERN, is_told=True, ask=("ask_name",)),
    Row("rmcp-stateful", "rmcp", Way.IDS, "slow_count", STATEFUL, answers_cancel=False, ask=("ask_name",)),
    Row("rmcp_store-stateful", "rmcp_store", Way.IDS, "slow_count", STATEFUL, answers_cancel=False),
    Row("sdk-stateful", "sdk", Way.IDS, "slow_count", STATEFUL, ask=("ask_name",)),
    # Its session is the connection, so a call that loses it stops.
    Row("sdk_sse-http_sse", "sdk_sse", Way.NO_IDS, "slow_count", HTTP_SSE, ask=("ask_name",)),
    Row("sdk_tasks-task", "sdk_tasks", Way.TASK, "slow_task", STATEFUL, stops=False, ask=("ask_task",)),
    Row("sdk2-stateful", "sdk2", Way.IDS, "slow_count", STATEFUL, ask=("ask_name",)),
    Row("sdk2-modern", "sdk2", Way.MODERN, "slow_count", MODERN, is_told=True, ask=("ask_name",)),
    Row("node_sdk1-task", "node_sdk1", Way.TASK, "slow_task", STATEFUL, ask=("ask_task",)),
    Row("node_sdk1-stateful", "node_sdk1", Way.IDS, "slow_count", STATEFUL, answers_cancel=False, ask=("ask_name",)),
    # Its stateful side has no sessions: nothing can be picked up, asked or cancelled there.
    Row(
        "node_sdk2-stateful",
        "node_sdk2",
        Way.NO_IDS,
        "slow_count",
        STATEFUL,
        is_told=True,
        answers_cancel=False,
        stops=False,
    ),
    Row("node_sdk2-modern", "node_sdk2", Way.MODERN, "slow_count", MODERN, ask=("ask_name",)),
    Row(
        "everything-task",
        "everything",
        Way.TASK,
        "simulate-research-query",
        STATEFUL,
        # Always four stages of a second.
        arguments=lambda _steps, _delay_ms: ["topic=tariffs"],
        result=lambda _steps: "Research Report: tariffs",
        says="...",
        journal=False,
        ask=("simulate-research-query", "topic=python", "ambiguous:=true"),
        answer=("--accept", "interpretation=snake"),
        greeting="python (snake)",
        declined="User declined",
    ),
    Row(
        "everything-stateful",
        "everything",
        Way.IDS,
        "trigger-long-running-operation",
        STATEFUL,
        arguments=seconds_and_steps,
        result=lambda steps: f"Steps: {steps}.",
        answers_cancel=False,
        stops=False,
        journal=False,
    ),
]


def start(stage: Stage, row: Row, *words: str) -> tuple[Run, str]:
    """Start a call, which must go in the row's era."""
    stage.protocol = row.era if row.is_told else "auto"
    run = stage.start("call", *words)
    task = run.task()
    era = run.all("started")[0].get("era")
    need(era == row.era, f"the call went in {era} instead of {row.era}")
    return run, task


def begin(stage: Stage, row: Row, steps: int, delay_ms: int) -> tuple[Run, str]:
    """Start the slow tool."""
    return start(stage, row, row.tool, *row.arguments(steps, delay_ms))


def at_work(stage: Stage, row: Row, run: Run, step: int) -> None:
    """Wait until the tool works on the server, as far as this step, and longhaul has heard of it."""
    # What a polled task tells first is up to its server.
    news = ("progress", "status") if row.way is Way.TASK else ("progress",)
    run.wait_for("the first news", START_SECONDS, lambda event: event["event"] in news)
    if row.journal:

        def there() -> bool:
            need(run.process.poll() is None, f"{run.name} ended early; {run.tail()}")
            return stage.server.journal.count("step") >= step

        until(f"step {step} on the server", SOON_SECONDS, there)


def check_told(stage: Stage, row: Row, run: Run, steps: int) -> str:
    """The history: each step once, in order; a polled task tells only what was there when it was looked at."""
    if row.way is not Way.TASK:
        return check_steps(run, list(range(1, steps + 1)))
    check_seq(run)
    # What the server says of its task is a step where it says `step`, as progress or beside the status.
    said = [str(event.get("message") or event.get("reason")) for event in run.events if event["event"] != "settled"]
    heard = [words for words in said if row.says in words]
    again = [after for before, after in zip(heard, heard[1:], strict=False) if before == after]
    need(not again, f"told twice: {again}")
    steps_told = [int(found[1]) for words in heard if (found := re.search(r"step (\d+) of", words))]
    need(steps_told == sorted(set(steps_told)), f"steps out of order or twice: {steps_told}")
    return f"{len(heard)} of {steps} steps told"


def check_done(stage: Stage, row: Row, run: Run, task: str, steps: int) -> str:
    """It ended well, once, and its result can be asked for again."""
    run.exits(0, BOUND_SECONDS)
    settled = run.settled()
    need(settled.get("status") == "completed", f"settled as {settled.get('status')}: {json.dumps(settled)[:200]}")
    wanted = row.result(steps)
    need(wanted in json.dumps(settled.get("result")), f"wrong result {json.dumps(settled)[:200]}")
    code, out, err = stage.ask("result", task)
    need(code == 0 and wanted in out, f"`result` ended with {code}: {out[:100]!r} {err[-100:]!r}")
    ran_once(stage, row)
    return check_told(stage, row, run, steps)


def ran_once(stage: Stage, row: Row) -> None:
    """Nothing ran twice, as the server saw it."""
    if row.journal:
        check_once(stage, 1)


def check_lost(stage: Stage, row: Row, run: Run, task: str, *wanted: str) -> str:
    """The end in words, with exit code 5."""
    status = check_given_up(run, BOUND_SECONDS)
    need(status in wanted, f"{status} instead of {' or '.join(wanted)}: {reason_of(stage, task)}")
    ran_once(stage, row)
    return f"{status}, {reason_of(stage, task)}"


def check_picked_up(stage: Stage, row: Row, run: Run, task: str, steps: int) -> str:
    """What must come of a call whose stream broke: its end where it can be picked up, else words."""
    match row.way:
        case Way.IDS | Way.TASK:
            return check_done(stage, row, run, task, steps)
        case Way.NO_IDS:
            return check_lost(stage, row, run, task, "unknown")
        case Way.MODERN:
            said = check_lost(stage, row, run, task, "lost")
            # `lost` is a claim about the server; it must be true there.
            until("the tool to stop on the server", SOON_SECONDS, lambda: stage.server.journal.count("stopped"))
            return said


def run(stage: Stage, row: Row) -> str:
    """A call to the end."""
    stage.direct()
    call, task = begin(stage, row, 8, 250)
    told = check_done(stage, row, call, task, 8)
    need(not told.startswith("0 "), f"nothing told of what the server said of its task ({row.says!r})")
    way = json.dumps(stage.show(task).get("resumability"))
    wanted = {Way.IDS: "stream", Way.TASK: "task"}.get(row.way, "none")
    need(wanted in way, f"resumability is {way} instead of {wanted}")
    return f"{told}, resumability {way}"


def watch(stage: Stage, row: Row) -> str:
    """A second process follows the call of the first."""
    stage.direct()
    call, task = begin(stage, row, 16, 250)
    at_work(stage, row, call, 4)
    second = stage.start("watch", task)
    told = check_done(stage, row, call, task, 16)
    check_done(stage, row, second, task, 16)
    same = check_same_history(call, second)
    return f"both saw it end, {told}, {same} events alike"


def cut(stage: Stage, row: Row, outage: float, steps: int, delay_ms: int, kind: str = "cut") -> str:
    """The network breaks in the middle and comes back."""
    proxy = stage.through_proxy()
    call, task = begin(stage, row, steps, delay_ms)
    at_work(stage, row, call, 2)
    proxy.fault(kind, outage)
    proxy.expect("back", outage + SOON_SECONDS)
    told = check_picked_up(stage, row, call, task, steps)
    contact = outage_of(call)
    # Shorter than a poll, an outage may pass unseen.
    need(outage < 5 or "reconnecting" in contact, f"ten seconds without a network were not told: {contact}; {told}")
    return f"{told}, {contact}"


def cut_2s(stage: Stage, row: Row) -> str:
    """Two seconds without a network."""
    return cut(stage, row, 2, 24, 250)


def cut_10s(stage: Stage, row: Row) -> str:
    """Ten seconds without a network; few enough steps for the smallest store of events."""
    return cut(stage, row, 10, 15, 1000)


def hole(stage: Stage, row: Row) -> str:
    """A network that swallows everything for three seconds, and closes nothing."""
    return cut(stage, row, 3, 24, 250, "hole")


# How long a silent connection may hide that the stream goes on.
RECOVERY_SECONDS = 45.0


def recovers(run: Run, proxy: Proxy, step: int) -> float:
    """Silence every connection, let new ones work, and wait for a step that the old ones did not bring: its delay."""
    before = max((event.get("value") or 0 for event in run.all("progress")), default=0)
    need(proxy.fault("hole", 0) > 0, "no connection was hit")
    proxy.expect("back")
    began = time.monotonic()
    goal = max(step, before + 1)

    def is_new(event: dict[str, Any]) -> bool:
        return event["event"] == "settled" or event["event"] == "progress" and (event.get("value") or 0) >= goal

    run.wait_for("a step after the silence", RECOVERY_SECONDS, is_new)
    return time.monotonic() - began


def silence(stage: Stage, row: Row) -> str:
    """After seven steps the call's connection goes silent, and nothing says so."""
    proxy = stage.through_proxy()
    call, task = begin(stage, row, 20, 200)
    call.step(7)
    after = recovers(call, proxy, 8)
    return f"{check_done(stage, row, call, task, 20)}, recovered after {after:.1f} s"


def silence_twice(stage: Stage, row: Row) -> str:
    """The connection goes silent, and after the recovery the new one does too."""
    proxy = stage.through_proxy()
    call, task = begin(stage, row, 60, 1000)
    call.step(3)
    first = recovers(call, proxy, 4)
    second = recovers(call, proxy, 5)
    told = check_done(stage, row, call, task, 60)
    return f"{told}, recovered after {first:.1f} s and {second:.1f} s"


def silence_409(stage: Stage, row: Row) -> str:
    """The connection goes silent, and for 30 s the server believes in it and answers 409."""
    proxy = stage.through_proxy()
    call, task = begin(stage, row, 20, 200)
    call.step(7)
    proxy.fault("conflict", 30)
    after = recovers(call, proxy, 8)
    need(after > 25, f"recovered after {after:.1f} s although the server answered 409 for 30 s")
    return f"{check_done(stage, row, call, task, 20)}, recovered after {after:.1f} s"


def slow(stage: Stage, row: Row) -> str:
    """A tool that takes 90 s for each step: nothing is cut, and the requests are few."""
    proxy = stage.through_proxy()
    call, task = begin(stage, row, 3, 90_000)
    call.wait_for("the end", 330, lambda event: event["event"] == "settled")
    told = check_done(stage, row, call, task, 3)
    connections = proxy.count()
    need(connections <= 30, f"{connections} connections in 270 s")
    contact = outage_of(call)
    need("reconnecting" not in contact, f"a live stream was given up: {contact}")
    return f"{told}, {connections} connections, {contact}"


def kill_client(stage: Stage, row: Row) -> str:
    """kill -9 of longhaul; another process opens the session again."""
    stage.through_proxy()
    call, task = begin(stage, row, 24, 250)
    at_work(stage, row, call, 4)
    call.kill()
    # Nobody says the revision again: the call's own has to be known.
    stage.protocol = "auto"
    again = stage.start("watch", task)
    told = check_picked_up(stage, row, again, task, 24)
    same = check_same_history(call, again)
    return f"{told}, {same} events as printed before the kill"


def takeover(stage: Stage, row: Row) -> str:
    """kill -9 of the longhaul that drives, while a second one watches: it takes over."""
    stage.through_proxy()
    call, task = begin(stage, row, 24, 250)
    at_work(stage, row, call, 2)
    second = stage.start("watch", task)
    second.wait_for("the recorded history", START_SECONDS, lambda event: event["event"] in ("progress", "status"))
    call.kill()
    told = check_picked_up(stage, row, second, task, 24)
    return f"{told}, {check_same_history(call, second)} events as printed before the kill"


def kill_server(stage: Stage, row: Row) -> str:
    """kill -9 of the server; all of these keep everything in memory, so it must be said that it is gone."""
    stage.direct()
    call, task = begin(stage, row, 40, 250)
    at_work(stage, row, call, 4)
    stage.server.kill()
    stage.server.start()
    # Without a session nothing can prove it.
    wanted = ("unknown",) if row.way is Way.NO_IDS else ("lost",)
    return check_lost(stage, row, call, task, *wanted)


def cancel(stage: Stage, row: Row) -> str:
    """Cancelled where the server says so; where it never does, that is said instead."""
    stage.direct()
    call, task = begin(stage, row, 80, 250)
    at_work(stage, row, call, 4)
    code, out, err = stage.ask("cancel", task, seconds=90)
    words = (out + err).strip()
    if row.answers_cancel:
        need(code in (0, 8), f"`cancel` ended with {code}: {words[-200:]}")
        call.exits(8, BOUND_SECONDS)
        status = stage.show(task).get("status")
        need(status == "cancelled", f"status {status} after the cancel")
        if row.journal and row.stops:
            until("the tool to stop on the server", SOON_SECONDS, lambda: stage.server.journal.count("stopped"))
        ran_once(stage, row)
        return f"cancelled, `cancel` ended with {code}"
    shown = stage.show(task)
    said = " ".join([words, json.dumps(shown), json.dumps(call.events), call.tail()])
    need("did not respond" in said, f"nothing said that the server did not respond: {words[-200:]!r}")
    need(shown.get("status") != "cancelled", "said cancelled, but the server never did")
    if row.journal and row.stops:
        until("the tool to stop on the server", SOON_SECONDS, lambda: stage.server.journal.count("stopped"))
    ran_once(stage, row)
    return f"said that the server did not respond (`cancel` ended with {code}), status {shown.get('status')}"


def check_answered(stage: Stage, row: Row, run: Run, task: str, wanted: str) -> None:
    """The tool made this of the answer, and ran once."""
    run.exits(0, BOUND_SECONDS)
    settled = run.settled()
    need(settled.get("status") == "completed", f"settled as {settled.get('status')}: {json.dumps(settled)[:200]}")
    need(wanted in json.dumps(settled.get("result")), f"wrong result {json.dumps(settled)[:200]}")
    ran_once(stage, row)


def ask(stage: Stage, row: Row) -> str:
    """A question, answered from another process."""
    stage.direct()
    call, task = start(stage, row, *row.ask)
    asked = call.wait_for("the question", BOUND_SECONDS, lambda event: event["event"] == "input_required")
    need(asked.get("key") and "message" in (asked.get("request") or {}), f"no question in {json.dumps(asked)[:200]}")
    code, out, err = stage.ask("answer", task, *row.answer, seconds=60)
    need(code == 0, f"`answer` ended with {code}: {(out + err).strip()[-200:]}")
    # With nobody to ask, a call may leave with 6 and be followed again, or stay until the answer has come.
    follower = stage.start("watch", task) if call.ended(BOUND_SECONDS) == 6 else call
    check_answered(stage, row, follower, task, row.greeting)
    return f"answered {' '.join(row.answer)}, result {row.greeting!r}, seen by {follower.name}"


def ask_kill(stage: Stage, row: Row) -> str:
    """kill -9 of longhaul while the question waits; the answer comes from another process all the same."""
    stage.direct()
    call, task = start(stage, row, *row.ask)
    call.wait_for("the question", BOUND_SECONDS, lambda event: event["event"] == "input_required")
    call.kill()
    code, out, err = stage.ask("answer", task, *row.answer, seconds=60)
    need(code == 0, f"`answer` ended with {code}: {(out + err).strip()[-200:]}")
    follower = stage.start("watch", task)
    check_answered(stage, row, follower, task, row.greeting)
    same = check_same_history(call, follower)
    return f"answered after the kill, result {row.greeting!r}, {same} events as printed before"


def ask_decline(stage: Stage, row: Row) -> str:
    """A question that the call itself declines."""
    stage.direct()
    call, task = start(stage, row, *row.ask, "--on-input", "decline")
    check_answered(stage, row, call, task, row.declined)
    return f"declined, result says {row.declined!r}"


def adopt(stage: Stage, row: Row) -> str:
    """A task that somebody else started is taken over by its id."""
    stage.direct()
    arguments = {"steps": 16, "delay_ms": 250}
    answer = modern_request(stage.url, "tools/call", {"name": row.tool, "arguments": arguments}, row.tool)
    theirs = answer["result"]["taskId"]
    stage.protocol = row.era if row.is_told else "auto"
    # A server's id may begin with a dash.
    code, out, err = stage.ask("-s", stage.url, "adopt", "--", theirs, seconds=60)
    need(code == 0, f"`adopt` ended with {code}: {(out + err).strip()[-200:]}")
    listed = json.loads(stage.ask("ls", "--all", "--json")[1])
    tasks = listed.get("tasks", listed) if isinstance(listed, dict) else listed
    need(len(tasks) == 1, f"{len(tasks)} tasks after adopting one")
    need(tasks[0].get("server_task_id") == theirs, f"adopted as {tasks[0].get('server_task_id')} instead of {theirs}")
    task = str(tasks[0]["id"])
    told = check_done(stage, row, stage.start("watch", task), task, 16)
    return f"adopted as {task}, {told}"


def modern_request(url: str, method: str, params: dict[str, Any], name: str) -> dict[str, Any]:
    """One request of 2026-07-28 by hand, from somebody who is not longhaul."""
    own = "io.modelcontextprotocol/"
    capabilities: dict[str, Any] = {"extensions": {own + "tasks": {}}}
    meta = {own + "protocolVersion": MODERN, own + "clientCapabilities": capabilities}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": meta}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
        "Mcp-Name": name,
    }
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=SOON_SECONDS) as response:
        text = response.read().decode()
    # As one JSON document, or as the one event of a stream.
    return json.loads(text[text.index("{") :])


# Every case; the word before the first hyphen may need something of the row.
CASES: list[tuple[str, Callable[[Stage, Row], str]]] = [
    ("run", run),
    ("watch", watch),
    ("cut-2s", cut_2s),
    ("cut-10s", cut_10s),
    ("hole", hole),
    ("silence", silence),
    ("silence-twice", silence_twice),
    ("silence-409", silence_409),
    ("slow", slow),
    ("kill-client", kill_client),
    ("takeover", takeover),
    ("kill-server", kill_server),
    ("cancel", cancel),
    ("ask", ask),
    ("ask-kill", ask_kill),
    ("ask-decline", ask_decline),
    ("adopt", adopt),
]
# One row a way has the cases that only repeat what the way does.
QUICK_ONCE = {
    "hole": {"fastmcp4-task", "node_sdk1-task"},
    "silence": {"sdk-stateful", "node_sdk1-stateful", "rmcp_store-stateful"},
    "silence-twice": {"node_sdk1-stateful"},
    "silence-409": {"node_sdk1-stateful"},
    "slow": set(),
    "takeover": {"fastmcp4-task", "sdk2-stateful", "rmcp-stateful", "node_sdk2-modern"},
    "cut-10s": {"fastmcp4-task", "sdk2-stateful", "rmcp-modern", "node_sdk2-stateful"},
    "watch": {"rmcp-task", "node_sdk1-stateful", "sdk2-modern", "everything-task"},
    "kill-server": {"fastmcp4-task", "node_sdk1-task", "rmcp-stateful", "node_sdk2-modern"},
    "ask-kill": {"fastmcp4-task", "node_sdk2-modern", "node_sdk1-stateful", "everything-task"},
    "ask-decline": {"rmcp-task", "node_sdk1-task", "sdk2-modern", "sdk-stateful"},
}


def offers(row: Row, case: str) -> bool:
    """Whether the row has what the case needs."""
    if case.startswith("ask"):
        # Who asks on a stream that nobody can pick up again asks nobody once it broke.
        return bool(row.ask) and not (case == "ask-kill" and row.way is Way.NO_IDS)
    if case == "hole":
        return row.way is Way.TASK
    # Only a stream with ids can be requested again, and the journal shows what ran. The cache of rmcp forgets a call once
    # it has finished, so there is nothing to recover.
    if case == "slow" or case.startswith("silence"):
        return row.way is Way.IDS and row.journal and row.server != "rmcp"
    # A task of 2025-11-25 belongs to its session: nobody else can take it over.
    return case != "adopt" or (row.way is Way.TASK and row.era == MODERN)


def table() -> list[tuple[str, str, Callable[[Stage], str], bool]]:
    """Every case of every row: name, server, the play, whether it is quick."""

    def bound(play: Callable[[Stage, Row], str], row: Row) -> Callable[[Stage], str]:
        def play_row(stage: Stage) -> str:
            return play(stage, row)

        play_row.__doc__ = play.__doc__
        return play_row

    return [
        (
            f"{row.name}-{name}",
            row.server,
            bound(play, row),
            name not in QUICK_ONCE or row.name in QUICK_ONCE[name],
        )
        for row in ROWS
        for name, play in CASES
        if offers(row, name)
    ]

"""Hosts x faults x servers: what becomes of an agent's long call through `longhaul proxy`.

    python3 tests/interop/hosts/faults.py [--longhaul PATH] [--only HOST/FAULT/SERVER]... [--quick] [--slow] [--jobs N]
        [--without RULE] [--scale N] [--verbose]

Needs what `tests/interop/run.py` needs: Python 3.11, Node 20 with npm, cargo and, the first time, their package
registries. Each cell of the table has its own server, its own keeper and its own directory, below
`target/interop/hosts/faults`.

Hosts (`host_profiles.py`): Claude Code, Claude Desktop, Codex, VS Code, Gemini CLI, Goose, Zed, opencode and Cursor. A
client on an official SDK plays each, with the host's name, revision, limit and habits: `typescript_host.mjs`,
`python_host.py` or `rmcp_host.rs`. It starts `longhaul proxy` as its server, as the real host does.

Servers: sdk (Python SDK 1.x, event ids), fastmcp4 (tasks of 2026-07-28), rmcp_store (Rust SDK, event ids), node_sdk1
(tasks of 2025-11-25), node_sdk2 (2026-07-28 without tasks: nothing can be resumed) and stdio (`step_server.py`, a
program that the keeper runs). Their journals say how often the tool ran.

Faults, in the middle of a call:
    timeout         the host has a limit that longhaul does not know; it gives up, and makes the same call again
    esc             a person stops the call, and later lets the agent make it again
    esc-alone       the same, and nobody makes it again; only with --slow, for hosts whose reason is not clear
    kill-host       kill -9 of the host; a new one makes the same call
    kill-proxy      kill -9 of the proxy; the host starts a new one and makes the same call
    kill-keeper     kill -9 of the keeper
    network         no network between longhaul and the server for a while; not for the stdio server
    server-restart  kill -9 of the server, which is started again

The tool takes about 4 s, and a host with a limit waits 2 s (`--scale 2` doubles both). The proxy gets 80 % of that as
`--patience`, except in `timeout` and for hosts without a limit: what longhaul knows of these hosts is not scaled.

After the fault the host does what an agent does: for a ticket it calls `longhaul_collect`, and after anything else that
is not the result it makes the same call again. In the end it calls `longhaul_tasks`. What must hold:
    1. The host gets the result. If the fault destroys the work, it gets an honest "lost" or "unknown" first, and only
       where IF CUT said so before the fault, or the server itself was killed.
    2. The tool runs once, and once more for each such answer, after which the agent repeats the call.
    3. Each call is answered within the host's limit. The one exception is the first call in `timeout`.
    4. After Esc with a clear reason, the task ends as cancelled, or says that the server did not respond. The same call
       then runs anew. If the reason is not clear, the person lets the agent make the same call again, which attaches to the
       first. If nobody does that, the call is cancelled 30 s later.

--without switches one rule off, to see that the table then fails:
    patience  `--patience off`: a call is held until it ends
    learning  `--patience 60s` in `timeout`: a fixed time is not shortened by what the host did
    cancel    `--on-cancel continue`: a person's Esc does not count
    waiting   `--on-cancel stop`: each cancel counts at once
    resuming  servers don't see `Last-Event-ID` and requests about tasks, in `network` and `kill-keeper`
    keeper    `LONGHAUL_KEEPER=0`: the proxy makes the call itself
    proxy     no longhaul at all; only for the stdio server

One line for each cell that fails, then a table of the cells that passed. Exit code 0 if nothing failed, 1 otherwise, 2
if it could not start.

A host program gets its profile as JSON (`Cell.start_host`). It reads one step a line on stdin: `{"do": "call",
"call": 1, "tool": .., "arguments": ..}`, `{"do": "esc", "call": 1}`, `connect` (start the server again) and `end`. It prints one
event a line: `connected` with the tools, `progress`, `answer`, `error` or `gave_up` (because of `timeout` or `esc`) for
each call with the seconds it took, `stray` for what the SDK did not expect, and `ended`.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from driver import Failed, Journal, Proxy, Server, clean_environment, need  # noqa: E402
from host_profiles import PROFILES, Esc, Profile, Sdk  # noqa: E402
from scripted_host import ScriptedHost, gone, is_running, kill, until  # noqa: E402
from servers import SERVERS, NotInstalled, cache_at, example  # noqa: E402

ROOT = HERE.parent.parent.parent
STEPS = 20
RESULT = f"counted {STEPS}"
# Seconds at --scale 1.
STEP_SECONDS = 0.2
LIMIT_SECONDS = 2.0
PATIENCE = 0.8
OUTAGE_SECONDS = 1.5
# Equal calls that come within a second are meant to run side by side.
SIDE_BY_SIDE_SECONDS = 1.1
# In `esc-alone`, a step takes so long that the call outlives the 30 s of an unclear cancel.
SLOW_STEP_SECONDS = 3.0
UNCLEAR_SECONDS = (28.0, 45.0)
# The fault comes after this step.
FAULT_STEP = 2
SOON_SECONDS = 30.0
# An agent has its result by then; longhaul takes up to 20 s to be sure that a server's task is gone.
AGENT_SECONDS = 60.0

TICKET = re.compile(r"(?:Still running|Queued) as ([0-9a-z]+)")
LOST = re.compile(r"The result of ([0-9a-z]+) is (lost|unknown)")

TOOLS = {
    "sdk": "slow_count",
    "fastmcp4": "slow_task",
    "stdio": "slow_count",
    "rmcp_store": "slow_count",
    "node_sdk1": "slow_task",
    "node_sdk2": "slow_count",
}
# MCP lets a server answer a cancelled call, or not; these don't.
SILENT_AFTER_CANCEL = ("stdio", "rmcp_store")
DID_NOT_RESPOND = "did not respond to the cancel"
RULES = ["patience", "learning", "cancel", "waiting", "resuming", "keeper", "proxy"]
# What longhaul finds a call by after a cut: the header of an event stream, the methods of both kinds of server tasks.
HANDLES = ("last-event-id", "tasks/get", "tasks/result")


class StdioServer:
    """The server that the keeper starts."""

    def __init__(self, place: Path) -> None:
        self.journal = Journal(place / "journal.txt")
        self.command = [sys.executable, str(HERE / "step_server.py"), str(self.journal.path)]

    def start(self) -> None:
        """The keeper starts it."""

    def pids(self) -> list[int]:
        """The processes that run."""
        pids = [int(line[1]) for line in self.journal.lines() if line[0] == "pid"]
        return [pid for pid in pids if is_running(pid, str(self.journal.path))]

    def kill(self) -> None:
        """kill -9."""
        for pid in self.pids():
            kill(pid, "the server")
        self.journal.note("killed")


@dataclass
class Cell:
    """One host, one fault, one server."""

    profile: Profile
    fault: str
    kind: str
    options: argparse.Namespace
    hosts: list[ScriptedHost] = field(default_factory=list)
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    server: Any = None
    network: Proxy | None = None
    if_cut: str = ""
    if_cut_reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.profile.key}/{self.fault}/{self.kind}"

    @property
    def is_direct(self) -> bool:
        return self.options.without == "proxy"

    @property
    def place(self) -> Path:
        return self.options.runs / self.name.replace("/", "-")

    @property
    def limit(self) -> float | None:
        """How long the host waits."""
        has_limit = self.profile.has_limit or self.fault == "timeout"
        return LIMIT_SECONDS * self.options.scale if has_limit else None

    @property
    def step_seconds(self) -> float:
        return SLOW_STEP_SECONDS if self.fault == "esc-alone" else STEP_SECONDS * self.options.scale

    def note(self, line: str) -> None:
        with (self.place / "story.txt").open("a") as story:
            story.write(f"{time.monotonic() - self.began:7.3f} {line}\n")

    def prepare(self) -> None:
        """An empty directory, the server, and longhaul's configuration."""
        self.began = time.monotonic()
        shutil.rmtree(self.place, ignore_errors=True)
        self.work = self.place / "work"
        self.work.mkdir(parents=True)
        config = self.place / "config.toml"
        self.environment = clean_environment(
            HOME=str(self.place),
            XDG_CONFIG_HOME=str(self.place),
            XDG_STATE_HOME=str(self.place),
            NO_COLOR="1",
            LONGHAUL_STATE_DIR=str(self.place / "state"),
            LONGHAUL_CONFIG=str(config),
        )
        # Claude Code's limit, if this runs inside it.
        self.environment.pop("MCP_TOOL_TIMEOUT", None)
        if self.options.without == "keeper":
            self.environment["LONGHAUL_KEEPER"] = "0"
        if self.kind == "stdio":
            self.server = StdioServer(self.place)
            command, *arguments = self.server.command
            config.write_text(f"[servers.lab]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n")
            if not self.is_direct:
                self.longhaul("servers", "approve", "lab", "--yes")
        else:
            self.server = Server(self.place, self.options.commands[self.kind], {})
            self.server.start()
            port = self.server.port
            is_lost = self.options.without == "resuming"
            if self.fault == "network" or is_lost:
                self.network = Proxy(port, self.place / "sent.bin", HANDLES if is_lost else ())
                port = self.network.port
            config.write_text(f'[servers.lab]\nurl = "http://127.0.0.1:{port}/mcp"\n')

    def longhaul(self, *words: str) -> str:
        """What a short command prints."""
        command = [str(self.options.longhaul), *words]
        try:
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=SOON_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"`longhaul {' '.join(words)}` did not end within {SOON_SECONDS:.0f} s") from None
        with (self.place / "asked.txt").open("a") as asked:
            asked.write(f"$ {' '.join(words)}\n{done.stdout}{done.stderr}exit {done.returncode}\n")
        wrong = f"`longhaul {' '.join(words)}` ended with {done.returncode}: {done.stderr.strip()[-200:]}"
        need(done.returncode == 0, wrong)
        return done.stdout

    def tasks(self) -> list[dict[str, Any]]:
        """All tasks, oldest first."""
        tasks = sorted(json.loads(self.longhaul("ls", "--all", "--json")), key=lambda task: task["created_at"])
        shown = ("id", "status", "reason", "if_cut", "if_cut_reason")
        self.note(f"tasks: {[{key: task[key] for key in shown} for task in tasks]}")
        return tasks

    def keeper_pid(self) -> int:
        keeper = json.loads(self.longhaul("keeper", "status", "--json"))["keeper"]
        need(keeper, "no keeper runs")
        return int(keeper["pid"])

    def proxy_command(self) -> list[str]:
        """What the host starts as its server."""
        if self.is_direct:
            return self.server.command
        words = [str(self.options.longhaul), "proxy", "lab"]
        without = self.options.without
        if without == "patience":
            words += ["--patience", "off"]
        elif without == "learning" and self.fault == "timeout":
            words += ["--patience", "60s"]
        elif self.limit is not None and self.fault != "timeout":
            words += ["--patience", f"{self.limit * PATIENCE * 1000:.0f}ms"]
        if without in ("cancel", "waiting"):
            words += ["--on-cancel", "continue" if without == "cancel" else "stop"]
        return words

    def start_host(self) -> ScriptedHost:
        """Start the host, or a new one, and wait until it is connected."""
        profile = self.profile
        what = {
            "client": {"name": profile.client_name, "version": profile.version},
            "revision": profile.revision,
            "capabilities": profile.capabilities,
            "command": self.proxy_command(),
            "environment": self.environment,
            "directory": str(self.work),
            "limit_ms": None if self.limit is None else int(self.limit * 1000),
            "progress_token": profile.progress_token,
            # A limit that longhaul can't know is one that nothing extends.
            "progress_extends": profile.progress_extends and self.fault != "timeout",
            "at_timeout": profile.at_timeout,
            "at_esc": profile.at_esc,
            "call_id_key": profile.call_id_key,
            "ends_by_kill": profile.ends_by_kill,
        }
        host = ScriptedHost(self.options.clients[profile.sdk], what, self.place, len(self.hosts) + 1)
        self.hosts.append(host)
        connected = host.connected()
        self.note(f"host {len(self.hosts)} is connected: {connected}")
        if not self.is_direct:
            need("longhaul_collect" in connected["tools"], f"longhaul's own tools are missing in {connected['tools']}")
        return host

    def call(self) -> int:
        """The call that the agent makes, and makes again."""
        arguments = {"steps": STEPS, "delay_ms": int(self.step_seconds * 1000)}
        number = self.hosts[-1].call(TOOLS[self.kind], arguments)
        self.note(f"call {number}")
        return number

    def at_work(self) -> None:
        """Wait until the tool works, and note what longhaul says of a cut."""
        word, count = ("started", 1) if self.fault == SLOW else ("step", FAULT_STEP)
        until("the tool to work", SOON_SECONDS, lambda: self.server.journal.count(word) >= count)
        if self.is_direct:
            return
        tasks = self.tasks()
        need(len(tasks) == 1, f"{len(tasks)} tasks before the fault instead of 1")
        self.if_cut, self.if_cut_reason = str(tasks[0]["if_cut"]), str(tasks[0]["if_cut_reason"])

    def outcome(self, call: int) -> dict[str, Any]:
        """How a call ended for the host."""
        outcome = self.hosts[-1].outcome(call)
        self.note(f"{outcome}")
        return outcome

    def in_time(self, outcome: dict[str, Any]) -> None:
        """The host did not give up."""
        is_late = outcome["event"] == "gave_up" and outcome["why"] == "timeout"
        need(not is_late, f"call {outcome['call']} had no answer within the limit of {self.limit} s")
        self.outcomes.append(outcome)

    def finish(self, call: int) -> None:
        """What an agent does until it has the result."""
        end = time.monotonic() + AGENT_SECONDS * self.options.scale
        while time.monotonic() < end:
            outcome = self.outcome(call)
            self.in_time(outcome)
            words = str(outcome.get("text") or outcome.get("message") or "")
            if words == RESULT and not outcome["is_error"]:
                return
            if ticket := TICKET.search(words):
                call = self.hosts[-1].call("longhaul_collect", {"id": ticket.group(1)})
                self.note(f"call {call}: longhaul_collect {ticket.group(1)}")
            elif lost := LOST.search(words):
                self.lost.append(lost.group(2))
                call = self.call()
            else:
                raise Failed(f"call {outcome['call']} ended with {outcome['event']} {words[:200]!r}")
        raise Failed(f"no result after {len(self.outcomes)} answers")

    def check_runs(self) -> None:
        """Nothing runs twice, unless the work was lost or cancelled."""
        before = [*self.cancelled, *self.lost]
        runs, wanted = self.server.journal.count("started"), 1 + len(before)
        after = f" after {' and '.join(before)}" if before else ""
        need(runs == wanted, f"{runs} runs instead of {wanted}{after}")
        most = self.server.journal.most_at_once()
        need(most <= 1, f"{most} runs were at work at the same time")

    def check_losses(self) -> None:
        """A loss was announced by IF CUT, or the server itself was killed."""
        if not self.lost or self.fault == "server-restart":
            return
        need(self.fault in ("kill-keeper", "network"), f"the work was {self.lost[0]} after {self.fault}")
        said = f"{self.if_cut} ({self.if_cut_reason})"
        need(self.if_cut != "continues", f"the work is {self.lost[0]}, and IF CUT said {said}")

    def check_all_collected(self) -> None:
        """The host is told that nothing is open."""
        call = self.hosts[-1].call("longhaul_tasks", {})
        outcome = self.outcome(call)
        self.in_time(outcome)
        words = str(outcome.get("text") or outcome.get("message"))
        # What a person has stopped may be listed.
        open_calls = [] if words.startswith("No call is open") else words.splitlines()
        need(len(open_calls) <= len(self.cancelled), f"longhaul_tasks says {words[:200]!r}")

    def check_tasks(self) -> None:
        """What `longhaul ls` says of all calls."""
        states = [task["status"] for task in self.tasks()][len(self.cancelled) :]
        wanted = [*self.lost, "completed"]
        need(states == wanted, f"the tasks are {states} instead of {wanted}")

    def check_cancelled(self, after: float, within: float) -> None:
        """The first task ends as cancelled; if the server does not answer, longhaul says that."""
        began = time.monotonic()

        def ended() -> dict[str, Any] | None:
            task = self.tasks()[0]
            is_over = task["status"] != "running" or DID_NOT_RESPOND in str(task["notice"])
            return task if is_over else None

        task = until("the task to be cancelled", within, ended, pause=0.25)
        seconds = time.monotonic() - began
        need(seconds >= after, f"the task was cancelled after {seconds:.1f} s, and its reason is not clear")
        is_silent = self.kind in SILENT_AFTER_CANCEL and task["status"] == "running"
        need(is_silent or task["status"] == "cancelled", f"the task is {task['status']} after Esc")
        until("the tool to stop", SOON_SECONDS, lambda: self.server.journal.count("stopped"))
        self.cancelled.append("no reaction to the cancel" if is_silent else "cancelled")

    def check_no_stray(self) -> None:
        """No request is answered twice, or after its cancel."""
        stray = [event["message"] for host in self.hosts for event in host.events if event["event"] == "stray"]
        # The SDK may forget a call's progress token before it has handled the last notification.
        stray = [message for message in stray if "progress notification" not in message]
        need(not stray, f"the host did not expect {stray[:1]}")

    def said(self) -> str:
        """What the cell saw."""
        seconds = [outcome["seconds"] for outcome in self.outcomes]
        longest = f", answers within {max(seconds):.2f} s" if seconds else ""
        before = [*self.cancelled, *self.lost]
        lost = f", {' and '.join(before)} first" if before else ""
        cut = f", if cut: {self.if_cut} ({self.if_cut_reason})" if self.if_cut else ""
        return f"{self.server.journal.count('started')} runs{longest}{lost}{cut}"

    def close(self) -> None:
        """End what still runs."""
        for host in self.hosts:
            if host.process.poll() is None:
                host.kill()
        if not self.is_direct:
            try:
                self.longhaul("keeper", "stop")
            except Failed as failure:
                self.note(str(failure))
        if self.network:
            self.network.close()
        if self.server:
            self.server.kill()


# The faults: each begins with a call at work, and ends with the call whose outcome the agent waits for.


def timeout(cell: Cell, call: int) -> int:
    outcome = cell.outcome(call)
    need(outcome["event"] == "gave_up", f"the host did not give up: {outcome}")
    return cell.call()


def kill_host(cell: Cell, _: int) -> int:
    host = cell.hosts[-1]
    proxy = host.server_pid()
    host.kill()
    # The next call may come before it has noticed.
    cell.start_host()
    call = cell.call()
    gone(proxy, "the proxy after its host")
    return call


def kill_proxy(cell: Cell, call: int) -> int:
    host = cell.hosts[-1]
    kill(host.server_pid(), "the proxy")
    outcome = cell.outcome(call)
    need(outcome["event"] == "error", f"the host did not notice that its server died: {outcome}")
    if cell.profile.restarts_server:
        host.reconnect()
    else:
        host.kill()
        cell.start_host()
    return cell.call()


def kill_keeper(cell: Cell, call: int) -> int:
    first = set(cell.server.pids()) if isinstance(cell.server, StdioServer) else set()
    kill(cell.keeper_pid(), "the keeper")
    if isinstance(cell.server, StdioServer):
        until("the end of the server after its keeper", SOON_SECONDS, lambda: not first & set(cell.server.pids()))
        cell.server.journal.note("killed")
    return call


def network(cell: Cell, call: int) -> int:
    assert cell.network is not None
    outage = OUTAGE_SECONDS * cell.options.scale
    hit = cell.network.fault("cut", outage)
    need(hit > 0, "nobody was connected when the network broke")
    cell.network.expect("back", outage + SOON_SECONDS)
    return call


def server_restart(cell: Cell, call: int) -> int:
    cell.server.kill()
    cell.server.start()
    return call


def stop(cell: Cell, call: int) -> None:
    """A person stops the call."""
    cell.hosts[-1].step(do="esc", call=call)
    outcome = cell.outcome(call)
    need(outcome["event"] == "gave_up", f"the host did not give up: {outcome}")


def esc(cell: Cell, call: int) -> int:
    stop(cell, call)
    if cell.profile.esc is Esc.SILENT:
        # Longhaul tells a repeated call from one that is meant to run beside it by the time between them.
        stopped = time.monotonic()
        until("a person to ask again", SOON_SECONDS, lambda: time.monotonic() - stopped > SIDE_BY_SIDE_SECONDS)
    if cell.profile.esc is Esc.CLEAR and not cell.is_direct:
        cell.check_cancelled(0, SOON_SECONDS)
    return cell.call()


def esc_alone(cell: Cell, call: int) -> None:
    stop(cell, call)
    cell.check_cancelled(*UNCLEAR_SECONDS)
    runs = cell.server.journal.count("started")
    need(runs == 1, f"{runs} runs instead of 1")


# Each returns the call whose outcome the agent waits for, if there is one.
FAULTS: dict[str, Callable[[Cell, int], int | None]] = {
    "esc": esc,
    "timeout": timeout,
    "kill-host": kill_host,
    "kill-proxy": kill_proxy,
    "kill-keeper": kill_keeper,
    "network": network,
    "server-restart": server_restart,
    "esc-alone": esc_alone,
}
SLOW = "esc-alone"


def play(cell: Cell) -> str:
    """One cell, to what it saw."""
    try:
        cell.prepare()
        cell.start_host()
        call = cell.call()
        cell.at_work()
        cell.note(f"fault: {cell.fault}")
        again = FAULTS[cell.fault](cell, call)
        if again is not None:
            cell.finish(again)
            cell.check_runs()
            if not cell.is_direct:
                cell.check_losses()
                cell.check_all_collected()
                cell.check_tasks()
        cell.hosts[-1].end()
        cell.check_no_stray()
        return cell.said()
    finally:
        cell.close()


def why_not(cell: Cell) -> str | None:
    """Why a cell makes no sense."""
    without = cell.options.without
    if cell.fault == "network" and cell.kind == "stdio":
        return "a stdio server has no network"
    if without == "proxy" and cell.kind != "stdio":
        return "without the proxy, only the stdio server is played"
    if without == "proxy" and cell.fault in ("kill-proxy", "kill-keeper"):
        return "without the proxy, there is nothing to kill"
    if without == "resuming" and cell.fault not in ("network", "kill-keeper"):
        return "nothing has to be resumed"
    if without == "resuming" and cell.kind in ("stdio", "node_sdk2"):
        return "nothing can be resumed anyway"
    if without == "keeper" and cell.fault == "kill-keeper":
        return "there is no keeper to kill"
    if cell.fault == SLOW and (cell.profile.esc is not Esc.UNCLEAR or without == "proxy"):
        return f"{SLOW} is for reasons that are not clear"
    return None


def perform(cell: Cell) -> tuple[str, str]:
    """`ok`, `FAILED` or `skipped`, and what to say of it."""
    if reason := why_not(cell):
        return "skipped", reason
    began = time.monotonic()
    try:
        said, verdict = play(cell), "ok"
    except Failed as failure:
        ran = f"; the tool ran {cell.server.journal.count('started')} times" if cell.server else ""
        said, verdict = " ".join(str(failure).split()) + ran, "FAILED"
    except Exception as error:
        # A fault of this program must not end the other cells.
        said, verdict = f"the driver itself failed with {error!r}", "FAILED"
    cell.note(f"{verdict}: {said}")
    return verdict, f"{said} ({time.monotonic() - began:.1f} s)"


# Installing.


def typescript_client(cache: Path) -> list[str]:
    """It uses the packages of the server on the same SDK."""
    script = Path(SERVERS["node_sdk1"](cache)[1]).with_name("typescript_host.mjs")
    shutil.copy(HERE / script.name, script)
    return ["node", str(script)]


def python_client(cache: Path) -> list[str]:
    """It uses the packages of the server on the same SDK."""
    return [SERVERS["sdk"](cache)[0], str(HERE / "python_host.py")]


def rust_client(_: Path) -> list[str]:
    """The host on the Rust SDK."""
    return [example("interop-rmcp-host")]


CLIENTS = {
    Sdk.TYPESCRIPT: typescript_client,
    Sdk.PYTHON: python_client,
    Sdk.RUST: rust_client,
}


def install(options: argparse.Namespace, cells: list[Cell]) -> None:
    """What the cells need."""
    cache = cache_at(options.cache)
    options.runs = cache / "hosts/faults"
    options.clients = {sdk: CLIENTS[sdk](cache) for sdk in {cell.profile.sdk for cell in cells}}
    kinds = {cell.kind for cell in cells} - {"stdio"}
    options.commands = {kind: SERVERS[kind](cache) for kind in sorted(kinds)}


# The table.


def chosen(options: argparse.Namespace) -> list[Cell]:
    """The cells that are asked for."""
    kinds = list(TOOLS)
    faults = [fault for fault in FAULTS if options.slow or fault != SLOW]
    if options.quick:
        # Each host, each fault and each server at least once.
        return [
            Cell(profile, faults[index % len(faults)], kinds[index % len(kinds)], options)
            for index, profile in enumerate(PROFILES)
        ]
    cells = [Cell(profile, fault, kind, options) for profile in PROFILES for fault in faults for kind in kinds]
    if options.only:
        patterns = options.only
        return [cell for cell in cells if any(fnmatch.fnmatch(cell.name, pattern) for pattern in patterns)]
    return cells


def matrix(verdicts: dict[tuple[str, str], list[str]]) -> str:
    """How many servers passed, for each host and fault."""
    faults = [fault for fault in FAULTS if any(fault == column for _, column in verdicts)]
    rows = [["", *faults]]
    for profile in PROFILES:
        row = [profile.key]
        for fault in faults:
            of = [verdict for verdict in verdicts.get((profile.key, fault), []) if verdict != "skipped"]
            row.append(f"{of.count('ok')}/{len(of)}" if of else "-")
        if row[1:] != ["-"] * len(faults):
            rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", type=Path, help="the binary (default: target/release, else target/debug)")
    parser.add_argument("--only", action="append", metavar="HOST/FAULT/SERVER", help="cells, such as 'zed/*/stdio'")
    parser.add_argument("--quick", action="store_true", help="each host, each fault and each server once")
    parser.add_argument("--slow", action="store_true", help="also the fault that takes 30 s")
    parser.add_argument("--jobs", type=int, default=4, help="cells at a time (default 4; they mostly wait)")
    parser.add_argument("--scale", type=float, default=1, help="multiplies all times, for a slow machine")
    parser.add_argument("--without", choices=RULES, help="switch a rule off; cells must then fail")
    parser.add_argument("--cache", type=Path, default=ROOT / "target/interop", help="installed servers and runs")
    parser.add_argument("--verbose", action="store_true", help="a line for each cell")
    options = parser.parse_args()
    builds = [ROOT / "target" / build / "longhaul" for build in ("release", "debug")]
    binary = options.longhaul or next((build for build in builds if build.exists()), builds[0])
    options.longhaul = Path(os.path.abspath(binary))
    cells = chosen(options)
    if not binary.exists() or not cells:
        missing = f"no longhaul at {binary}; build it, or use --longhaul"
        wrong = "no cell has such a name" if binary.exists() else missing
        print(wrong, file=sys.stderr)
        return 2
    try:
        install(options, cells)
    except (NotInstalled, OSError) as error:
        print(f"could not install what the table needs: {error}", file=sys.stderr)
        return 2
    began = time.monotonic()
    verdicts: dict[tuple[str, str], list[str]] = {}
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        running = [pool.submit(perform, cell) for cell in cells]
        try:
            for cell, done in zip(cells, running, strict=True):
                verdict, said = done.result()
                verdicts.setdefault((cell.profile.key, cell.fault), []).append(verdict)
                counts[verdict] += 1
                kept = f", kept in {cell.place.relative_to(options.runs.parents[1])}" if verdict == "FAILED" else ""
                if verdict == "FAILED" or options.verbose:
                    print(f"{verdict} {cell.name}: {said}{kept}", flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            return 130
    print(matrix(verdicts))
    if counts["skipped"]:
        reasons = {reason for cell in cells if (reason := why_not(cell))}
        print(f"skipped {counts['skipped']} cells: {'; '.join(sorted(reasons))}")
    print(f"{counts['ok']} passed, {counts['FAILED']} failed ({time.monotonic() - began:.0f} s)")
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())

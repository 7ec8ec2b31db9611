"""Run the longhaul binary against MCP servers that were not written here, through cuts and kills.

    python3 tests/interop/run.py [--longhaul PATH] [--only NAME]... [--slow] [--jobs N] [--list]

Needs Python 3.11 and, the first time, a package index for pip: each server lives in a virtual environment of its own,
at the versions of `requirements-*.txt` beside this file. Nothing else is installed; without --longhaul the binary is
`target/release/longhaul`, else `target/debug/longhaul`.

Servers:
    sdk         the official Python SDK 1.x with an event store in memory (`sdk_server.py`): event ids, a session that
                dies with the process
    checkpoint  FastMCP 2.11.3 as in the checkpoint tutorial (`checkpoint_server.py`): no event ids at all, checkpoints
                on disk, and all of the original's faults

Each scenario has a server, a state directory and ports of its own; everything of it is kept below
`target/interop/runs/NAME` (what longhaul printed, the server's log, its journal, its database). Network faults come
from `proxy.py`; server kills are reached without it, so that a refused connection is a real one.

What must hold is the README's table of what can be picked up again: a result wherever the server can still give one, and otherwise an end in
words (`lost` or `unknown` with a reason, exit code 5), never a hang: every wait here has a bound, and running into it
is a failure that says what was waited for. The servers keep a journal of what really ran, so that "nothing runs twice"
is seen from their side. Where the checkpoint server writes rows twice by its own crash window, the line says so and
the expected number includes exactly those.

One line a scenario: `ok NAME: what was seen (figures)` or `FAILED NAME: ...`; the last line is `N passed, N failed`.
Exit code 0 when nothing failed, 1 otherwise, 2 when it could not start, 130 when interrupted.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import queue
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOOL = "resumable_data_processing"
# Long enough for an interpreter and its imports on a busy two-core machine.
START_SECONDS = 90.0
# For what should be at once; generous, because nothing here may depend on speed.
SOON_SECONDS = 30.0
# The checkpoint rule waits max(10 s, 3 x the longest step) before it calls again, then the rest of the work follows.
RULE_SECONDS = 120.0

Event = dict[str, Any]


class Failed(Exception):
    """What was expected and did not come; the text goes into the scenario's line."""


def need(truth: object, otherwise: str) -> None:
    """One expectation."""
    if not truth:
        raise Failed(otherwise)


def until(what: str, seconds: float, look: Callable[[], Any]) -> Any:
    """Ask until the answer is true; the bound makes it a failure in words."""
    end = time.monotonic() + seconds
    while True:
        if answer := look():
            return answer
        if time.monotonic() > end:
            raise Failed(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(0.02)  # sleep: another process is looked at, and cannot wake us


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without what would change the outcome on somebody's machine."""
    drop = re.compile(r"(?i)(.*_proxy|LONGHAUL_.*|CHECKPOINT_.*|PYTHONPATH)$")
    return {key: value for key, value in os.environ.items() if not drop.match(key)} | more


def environment_for(name: str, cache: Path) -> Path:
    """The Python of a server's virtual environment, built when its requirements changed."""
    wanted = (HERE / f"requirements-{name}.txt").read_bytes()
    place = cache / f"venv-{name}"
    stamp = place / "requirements.sha256"
    digest = hashlib.sha256(wanted).hexdigest()
    if not (stamp.exists() and stamp.read_text() == digest):
        shutil.rmtree(place, ignore_errors=True)
        print(f"installing the {name} server ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, timeout=300)
        pip = [str(place / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
        subprocess.run([*pip, "install", "-r", str(HERE / f"requirements-{name}.txt")], check=True, timeout=900)
        stamp.write_text(digest)
    return place / "bin/python"


class Journal:
    """What really ran on the server, in its own words and ours (`killed` is written by the driver)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def lines(self) -> list[list[str]]:
        """All complete lines, as words."""
        text = self.path.read_text()
        return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]

    def count(self, word: str) -> int:
        """How often something happened."""
        return sum(line[0] == word for line in self.lines())

    def note(self, line: str) -> None:
        """Add a line of our own."""
        with self.path.open("a") as file:
            file.write(line + "\n")

    def most_at_once(self) -> int:
        """The largest number of runs that were at work side by side."""
        now: set[str] = set()
        most = 0
        for word, *rest in self.lines():
            if word == "started":
                now.add(rest[0])
                most = max(most, len(now))
            elif word in ("ended", "stopped"):
                now.discard(rest[0])
            elif word == "killed":
                now.clear()
        return most


class Server:
    """One server process on a port that stays the same over restarts."""

    def __init__(self, place: Path, python: Path, script: str, settings: dict[str, str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.journal = Journal(place / "journal.txt")
        self.database = place / "checkpoints.db"
        self._log = (place / "server.log").open("ab")
        self._command = [str(python), str(HERE / script), "--port", str(self.port)]
        self._environment = clean_environment(CHECKPOINT_DB=str(self.database), **settings)
        self._environment["CHECKPOINT_JOURNAL"] = str(self.journal.path)
        if script == "sdk_server.py":
            self._command += ["--journal", str(self.journal.path)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, or start it again, and wait until it listens."""
        process = subprocess.Popen(
            self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        self._process = process

        def listens() -> bool:
            need(process.poll() is None, f"the server ended by itself with {process.poll()}, see server.log")
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        until("the server to listen", START_SECONDS, listens)

    def kill(self) -> None:
        """kill -9, and the truth about it into the journal."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None
            self.journal.note("killed")

    def rows(self) -> tuple[int, int]:
        """Rows of the checkpoint server's table, and how many of them are different records."""
        with closing(sqlite3.connect(self.database, timeout=10)) as db:
            return db.execute("select count(*), count(distinct record) from records").fetchone()

    def checkpoint(self) -> tuple[str, int]:
        """The checkpoint's status and step (there is one a scenario)."""
        with closing(sqlite3.connect(self.database, timeout=10)) as db:
            found = db.execute("select status, progress from checkpoints").fetchall()
        need(len(found) == 1, f"{len(found)} checkpoints on the server instead of 1")
        return found[0]


class Proxy:
    """The network between, with faults on command."""

    def __init__(self, target: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "proxy.py"), "--to", str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.port = int(self.expect("listening"))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def expect(self, word: str, seconds: float = SOON_SECONDS) -> str:
        """The rest of the next answer, which must begin with this word."""
        try:
            line = self._lines.get(timeout=seconds).split()
        except queue.Empty:
            raise Failed(f"the proxy did not say {word!r} within {seconds:.0f} s") from None
        need(line[:1] == [word], f"the proxy said {line} instead of {word!r}")
        return " ".join(line[1:])

    def fault(self, kind: str, seconds: float) -> int:
        """Begin an outage of `seconds`; the number of connections it hit."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {seconds}\n")
        self._process.stdin.flush()
        return int(self.expect(kind))

    def close(self) -> None:
        """The end of its stdin ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()


class Run:
    """One longhaul process that prints NDJSON."""

    def __init__(self, process: subprocess.Popen[str], name: str, copy: Path) -> None:
        self.process = process
        self.name = name
        self.events: list[Event] = []
        self.stray: list[str] = []
        self._copy = copy
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self._copy.open("w") as copy:
            for line in self.process.stdout:
                copy.write(line)
                copy.flush()
                try:
                    event = json.loads(line)
                    event["event"]
                except (ValueError, TypeError, KeyError):
                    # A kill -9 may cut the last line; anything else is a broken promise of --json.
                    self.stray.append(line)
                else:
                    self.events.append(event)

    def all(self, kind: str) -> list[Event]:
        """The events of one kind so far."""
        return [event for event in list(self.events) if event["event"] == kind]

    def wait_for(self, what: str, seconds: float, wanted: Callable[[Event], object]) -> Event:
        """The first event that is wanted, whether it came or is to come."""

        def look() -> Event | None:
            over = self.process.poll() is not None and not self._reader.is_alive()
            found = next((event for event in list(self.events) if wanted(event)), None)
            if found is None and over:
                raise Failed(f"{self.name} ended with {self.process.returncode} before {what}; {self.tail()}")
            return found

        return until(f"{what} from {self.name}", seconds, look)

    def task(self) -> str:
        """The id of the task that this process started."""
        return str(self.wait_for("`started`", START_SECONDS, lambda event: event["event"] == "started")["id"])

    def step(self, value: float) -> Event:
        """Wait until this step, or a later one, is shown."""

        def reached(event: Event) -> bool:
            return event["event"] == "progress" and (event.get("value") or 0) >= value

        return self.wait_for(f"progress {value:g}", SOON_SECONDS, reached)

    def ended(self, seconds: float) -> int:
        """Its exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not end within {seconds:.0f} s; {self.tail()}") from None
        self._reader.join(5)
        return code

    def exits(self, code: int, seconds: float) -> None:
        """It must end with this code."""
        got = self.ended(seconds)
        need(got == code, f"{self.name} ended with {got} instead of {code}; {self.tail()}")
        need(not self.stray, f"{self.name} printed what is no event: {self.stray[:1]}")

    def settled(self) -> Event:
        """The one `settled` event."""
        found = self.all("settled")
        need(len(found) == 1, f"{self.name} printed {len(found)} settled events instead of 1")
        return found[0]

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(10)
        self._reader.join(5)

    def tail(self) -> str:
        """The end of what it said, for a failure's line."""
        last = [event for event in self.events if event["event"] != "log"][-1:]
        errors = self._copy.with_suffix(".err").read_text(errors="replace").split("\n")
        words = " / ".join(line for line in errors[-4:] if line.strip())
        return f"last event {json.dumps(last[0])[:200] if last else 'none'}, stderr {words[-300:] or 'empty'}"


@dataclass
class Stage:
    """Everything that one scenario plays with."""

    binary: Path
    place: Path
    server: Server
    stack: ExitStack
    url: str = ""
    runs: list[Run] = field(default_factory=list)

    def direct(self) -> None:
        """Reach the server without the proxy."""
        self.url = f"http://127.0.0.1:{self.server.port}/mcp"

    def through_proxy(self) -> Proxy:
        """Reach the server through a network that can break."""
        proxy = Proxy(self.server.port)
        self.stack.callback(proxy.close)
        self.url = f"http://127.0.0.1:{proxy.port}/mcp"
        return proxy

    def _spawn(self, words: tuple[str, ...], errors: int | IO[str]) -> subprocess.Popen[str]:
        home = self.place / "home"
        home.mkdir(exist_ok=True)
        command = [str(self.binary), "--state-dir", str(self.place / "state"), *words]
        # A home of its own: no config of the person who runs this may change the outcome.
        mine = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_STATE_HOME": str(home), "NO_COLOR": "1"}
        return subprocess.Popen(
            command,
            env=clean_environment(**mine),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
        )

    def start(self, *words: str) -> Run:
        """Start a longhaul that prints events."""
        name = f"{len(self.runs) + 1}-{words[0]}"
        copy = self.place / f"{name}.ndjson"
        target = ("-s", self.url) if words[0] == "call" else ()
        with copy.with_suffix(".err").open("w") as errors:
            run = Run(self._spawn((*target, *words, "--json"), errors), words[0], copy)
        self.runs.append(run)
        return run

    def ask(self, *words: str, seconds: float = SOON_SECONDS) -> tuple[int, str, str]:
        """Run a short longhaul: exit code, stdout, stderr."""
        process = self._spawn(words, subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            raise Failed(f"`longhaul {' '.join(words)}` did not end within {seconds:.0f} s") from None
        with (self.place / "asked.txt").open("a") as file:
            file.write(f"$ {' '.join(words)}\n{out}{err}exit {process.returncode}\n")
        return process.returncode, out, err

    def show(self, task: str) -> dict[str, Any]:
        """The task as `show --json` gives it."""
        code, out, err = self.ask("show", task, "--json")
        need(code == 0, f"`show` ended with {code}: {err.strip()[-200:]}")
        try:
            found = json.loads(out)
        except ValueError:
            raise Failed(f"`show --json` is no JSON: {out[:100]!r}") from None
        return found.get("task", found)

    def count(self, steps: int, delay_ms: int) -> tuple[Run, str]:
        """Start slow_count."""
        run = self.start("call", "slow_count", f"steps:={steps}", f"delay_ms:={delay_ms}")
        return run, run.task()

    def process(self, total: int, batch: int) -> tuple[Run, str]:
        """Start the checkpoint tool."""
        run = self.start("call", TOOL, "dataset_name=customers", f"total_records:={total}", f"batch_size:={batch}")
        return run, run.task()

    def close(self) -> None:
        """End what still runs."""
        for run in self.runs:
            if run.process.poll() is None:
                run.kill()
        self.stack.close()
        self.server.kill()


# What every history must be.


def check_seq(run: Run) -> None:
    """Sequence numbers rise within the task."""
    numbers = [event["seq"] for event in run.events if isinstance(event.get("seq"), int)]
    need(numbers, f"{run.name} printed no seq")
    rising = all(before < after for before, after in zip(numbers, numbers[1:], strict=False))
    need(rising, f"seq of {run.name} does not rise: {numbers}")


def check_steps(run: Run, wanted: list[int]) -> None:
    """Exactly these steps, each once, in order."""
    check_seq(run)
    seen = [event["value"] for event in run.all("progress")]
    twice = sorted({value for value in seen if seen.count(value) > 1})
    missing = [value for value in wanted if value not in seen]
    need(not twice, f"steps shown twice: {twice}")
    need(not missing, f"steps missing in the history: {missing}")
    need(seen == wanted, f"steps out of order or foreign: {seen}")


def check_some_steps(run: Run, batch: int, total: int, *, all_told: bool = False) -> str:
    """
    Steps rise, each once; some may be missing where the server replays nothing and nobody listened, unless `all_told`
    says that it told every one. Where a new attempt began it tells the step it starts from, which may be shown again.
    """
    check_seq(run)
    seen = [event["value"] for event in run.all("progress")]
    again = [after for before, after in zip(seen, seen[1:], strict=False) if before == after]
    once = list(dict.fromkeys(seen))
    need(len(again) <= 1 and len(once) == len(seen) - len(again), f"steps shown twice: {seen}")
    need(once == sorted(once), f"steps out of order: {seen}")
    foreign = [value for value in once if value % batch and value != total]
    need(not foreign, f"steps that the server never reported: {foreign}")
    missing = [value for value in range(batch, total + 1, batch) if value not in once]
    need(not (all_told and missing), f"steps missing in the history: {missing}")
    words = f"{len(once)} steps in order"
    words += f", {len(missing)} passed unseen" if missing else ""
    return words + (f", start of attempt at {again[0]:g} shown again" if again else "")


def check_same_history(killed: Run, later: Run) -> int:
    """What was on stdout before the kill is in the later history under the same seq; the number of events compared."""
    kinds = ("started", "progress", "log", "settled")
    compared = ("event", "value", "total", "message", "level", "data")
    recorded = {event.get("seq"): event for event in later.events}
    checked = 0
    for event in killed.events:
        if event["event"] in kinds:
            other = recorded.get(event.get("seq"))
            need(other, f"{event['event']} with seq {event.get('seq')} was printed and is gone from the history")
            changed = [key for key in compared if event.get(key) != other.get(key)]
            need(not changed, f"seq {event.get('seq')} changed after the kill: {changed}")
            checked += 1
    return checked


def check_counted(stage: Stage, run: Run, task: str, steps: int, seconds: float) -> None:
    """slow_count ended well, once, and its result is there."""
    run.exits(0, seconds)
    settled = run.settled()
    need(settled.get("status") == "completed", f"settled as {settled.get('status')}: {json.dumps(settled)[:200]}")
    need(f"counted {steps}" in json.dumps(settled.get("result")), f"wrong result {json.dumps(settled)[:200]}")
    code, out, err = stage.ask("result", task)
    need(code == 0 and f"counted {steps}" in out, f"`result` ended with {code}: {out[:100]!r} {err[-100:]!r}")
    check_once(stage, 1)


def check_once(stage: Stage, runs: int) -> None:
    """The server saw this many runs, never two at once."""
    journal = stage.server.journal
    started = journal.count("started")
    need(started == runs, f"the server ran the tool {started} times instead of {runs}")
    need(journal.most_at_once() <= 1, f"{journal.most_at_once()} loops ran side by side on the server")


def check_processed(stage: Stage, run: Run, total: int, seconds: float, surplus: int = 0) -> str:
    """The checkpoint tool ended well; every record is there, as often as it is in our hands."""
    run.exits(0, seconds)
    settled = run.settled()
    need(settled.get("status") == "completed", f"settled as {settled.get('status')}: {json.dumps(settled)[:200]}")
    text = json.dumps(settled.get("result"))
    need(re.search(rf"records_processed\W+{total}\b", text), f"wrong result {text[:200]}")
    most = stage.server.journal.most_at_once()
    need(most == 1, f"{most} loops ran side by side on the server")
    rows, records = stage.server.rows()
    need(records == total, f"{records} records instead of {total}")
    need(rows == total + surplus, f"rows {rows} instead of {total + surplus}: a second loop ran beside the first")
    if surplus:
        return f"rows {rows} of {total}, {surplus} twice by the server's own crash window: not in our hands"
    return f"rows {rows} of {total}"


def check_given_up(run: Run, seconds: float) -> str:
    """The end in words: lost or unknown, with a reason, exit code 5."""
    run.exits(5, seconds)
    # `unknown` waits for a person, so it comes as a status and not as a settlement.
    last = [event for event in run.events if event.get("status") in ("lost", "unknown")][-1:]
    need(last, f"exit code 5 without a status lost or unknown; {run.tail()}")
    return str(last[0]["status"])


def reason_of(stage: Stage, task: str) -> str:
    """The reason that `show` gives, which must not be empty."""
    shown = stage.show(task)
    reason = shown.get("reason") or shown.get("error")
    need(reason, f"status {shown.get('status')} without a reason")
    return json.dumps(reason)[:120] if not isinstance(reason, str) else repr(reason[:120])


def outage_of(run: Run) -> str:
    """How the outage was told."""
    kinds = [str(event.get("contact") or event.get("state") or "?") for event in run.all("contact")]
    return f"contact {' > '.join(dict.fromkeys(kinds)) or 'not told'}"


# The official SDK with an event store.


def sdk_plain(stage: Stage) -> str:
    """A call to the end."""
    stage.direct()
    run, task = stage.count(10, 200)
    check_counted(stage, run, task, 10, SOON_SECONDS)
    check_steps(run, list(range(1, 11)))
    lines = [event.get("data") for event in run.all("log")]
    need(lines == [f"counted to {step}" for step in range(1, 11)], f"log lines are {lines}")
    listed = stage.ask("ls", "--all", "--json")[1]
    need(task in listed, f"`ls --all --json` does not list {task}")
    return "result, 10 steps and 10 log lines once each"


def sdk_cut(stage: Stage, kind: str, outage: float, steps: int, delay_ms: int, bound: float) -> str:
    """The network breaks in the middle; everything is caught up from the stream's cursor."""
    proxy = stage.through_proxy()
    run, task = stage.count(steps, delay_ms)
    run.step(4)
    hit = proxy.fault(kind, outage)
    need(hit > 0, "nobody was connected when the network broke")
    proxy.expect("back", outage + SOON_SECONDS)
    check_counted(stage, run, task, steps, bound)
    check_steps(run, list(range(1, steps + 1)))
    return f"{kind} {outage:g} s hit {hit} connections, all {steps} steps once, {outage_of(run)}"


def sdk_cut_2s(stage: Stage) -> str:
    """Two seconds without a network."""
    return sdk_cut(stage, "cut", 2, 32, 250, 60)


def sdk_cut_5s(stage: Stage) -> str:
    """Five seconds without a network."""
    return sdk_cut(stage, "cut", 5, 48, 250, 60)


def sdk_cut_past_end(stage: Stage) -> str:
    """The tool ends while nobody can hear it; the result comes by replay."""
    return sdk_cut(stage, "cut", 5, 12, 250, 60)


def sdk_hole(stage: Stage) -> str:
    """A half-open connection: nothing comes, nothing says so."""
    return sdk_cut(stage, "hole", 3, 24, 250, 240)


def sdk_kill_client(stage: Stage) -> str:
    """kill -9 of longhaul in the middle; another process goes on at once."""
    stage.direct()
    call, task = stage.count(32, 250)
    call.step(8)
    call.kill()
    watch = stage.start("watch", task)
    check_counted(stage, watch, task, 32, 60)
    check_steps(watch, list(range(1, 33)))
    same = check_same_history(call, watch)
    return f"killed at step 8, all 32 steps once, {same} events as printed before the kill"


def sdk_kill_client_late(stage: Stage) -> str:
    """kill -9 of longhaul; somebody looks only after the tool has ended."""
    stage.direct()
    call, task = stage.count(12, 250)
    call.step(4)
    call.kill()
    until("the tool to end", SOON_SECONDS, lambda: stage.server.journal.count("ended"))
    watch = stage.start("watch", task)
    check_counted(stage, watch, task, 12, 60)
    check_steps(watch, list(range(1, 13)))
    same = check_same_history(call, watch)
    return f"result by replay after the tool ended, all 12 steps once, {same} events as printed before the kill"


def sdk_kill_server(stage: Stage) -> str:
    """kill -9 of the server: its session and its store are gone, which must be said."""
    stage.direct()
    call, task = stage.count(40, 250)
    call.step(4)
    stage.server.kill()
    stage.server.start()
    status = check_given_up(call, 90)
    check_once(stage, 1)
    return f"{status}, {reason_of(stage, task)}, ran once"


def sdk_kill_both(stage: Stage) -> str:
    """Both die; the next longhaul says what is lost."""
    stage.direct()
    call, task = stage.count(40, 250)
    call.step(4)
    stage.server.kill()
    call.kill()
    stage.server.start()
    watch = stage.start("watch", task)
    status = check_given_up(watch, 90)
    same = check_same_history(call, watch)
    check_once(stage, 1)
    return f"{status}, {reason_of(stage, task)}, ran once, {same} events as printed before the kill"


def sdk_pause(stage: Stage) -> str:
    """The server has no pause tool: refused in words, and the work goes on."""
    stage.direct()
    call, task = stage.count(24, 250)
    call.step(2)
    code, out, err = stage.ask("pause", task)
    words = (out + err).strip()
    need(code == 2, f"`pause` ended with {code} instead of 2: {words[-200:]}")
    need("pause" in words.lower(), f"`pause` was refused without saying why: {words[-200:]!r}")
    check_counted(stage, call, task, 24, 60)
    check_steps(call, list(range(1, 25)))
    return f"refused ({words.splitlines()[-1][:100]!r}), the call went on to its end"


def cancelled(stage: Stage, call: Run, task: str) -> str:
    """Cancel a call that another process drives."""
    code, out, err = stage.ask("cancel", task)
    # Whether the command itself counts as done or tells the outcome is left open.
    need(code in (0, 8), f"`cancel` ended with {code}: {(out + err).strip()[-200:]}")
    call.exits(8, SOON_SECONDS)
    status = stage.show(task).get("status")
    need(status == "cancelled", f"status {status} after the cancel")
    until("the tool to stop on the server", SOON_SECONDS, lambda: stage.server.journal.count("stopped"))
    check_once(stage, 1)
    return f"cancelled, `cancel` ended with {code}, the tool stopped"


def sdk_cancel(stage: Stage) -> str:
    """The SDK answers a cancelled call with an error; that is the proof."""
    stage.direct()
    call, task = stage.count(80, 250)
    call.step(4)
    return cancelled(stage, call, task)


# The checkpoint server of the tutorial.


def checkpoint_plain(stage: Stage) -> str:
    """A call to the end."""
    stage.direct()
    run, task = stage.process(50, 5)
    rows = check_processed(stage, run, 50, 60)
    check_steps(run, list(range(5, 51, 5)))
    leaving = stage.show(task).get("resumability")
    need("checkpoint" in json.dumps(leaving), f"resumability is {leaving} instead of checkpoint")
    return f"{rows}, all 10 steps once"


def checkpoint_cut(stage: Stage, kind: str, outage: float, total: int, bound: float) -> str:
    """The stream is gone for ever; the old run must be followed, not doubled."""
    proxy = stage.through_proxy()
    run, _ = stage.process(total, 5)
    run.step(10)
    hit = proxy.fault(kind, outage)
    need(hit > 0, "nobody was connected when the network broke")
    proxy.expect("back", outage + SOON_SECONDS)
    rows = check_processed(stage, run, total, bound)
    check_once(stage, 1)
    steps = check_some_steps(run, 5, total)
    return f"{kind} {outage:g} s hit {hit} connections, {rows}, old run followed, {steps}, {outage_of(run)}"


def checkpoint_cut_2s(stage: Stage) -> str:
    """Two seconds without a network."""
    return checkpoint_cut(stage, "cut", 2, 50, RULE_SECONDS)


def checkpoint_cut_5s(stage: Stage) -> str:
    """Five seconds without a network."""
    return checkpoint_cut(stage, "cut", 5, 60, RULE_SECONDS)


def checkpoint_cut_past_end(stage: Stage) -> str:
    """The run ends during the cut; calling again brings its result at once."""
    return checkpoint_cut(stage, "cut", 5, 20, RULE_SECONDS)


def checkpoint_hole(stage: Stage) -> str:
    """A half-open connection on a server without ids."""
    return checkpoint_cut(stage, "hole", 3, 50, 300)


def checkpoint_kill_client(stage: Stage) -> str:
    """kill -9 of longhaul; the next one must follow the run that goes on."""
    stage.direct()
    call, task = stage.process(50, 5)
    call.step(15)
    call.kill()
    watch = stage.start("watch", task)
    rows = check_processed(stage, watch, 50, RULE_SECONDS)
    check_once(stage, 1)
    same = check_same_history(call, watch)
    return f"{rows}, old run followed, {check_some_steps(watch, 5, 50)}, {same} events as printed before the kill"


def checkpoint_kill_client_late(stage: Stage) -> str:
    """kill -9 of longhaul; somebody looks only after the run has ended."""
    stage.direct()
    call, task = stage.process(25, 5)
    call.step(10)
    call.kill()
    until("the run to end", SOON_SECONDS, lambda: stage.server.journal.count("ended"))
    watch = stage.start("watch", task)
    rows = check_processed(stage, watch, 25, RULE_SECONDS)
    check_once(stage, 1)
    same = check_same_history(call, watch)
    return f"{rows}, result kept by the server, {check_some_steps(watch, 5, 25)}, {same} events as before the kill"


def kill_at(stage: Stage, step: int, in_gap: bool) -> int:
    """Kill the server right after this checkpoint, or between the next rows and theirs; the rows it will double."""

    def there() -> bool:
        saved, (rows, _) = stage.server.checkpoint()[1], stage.server.rows()
        return saved >= step and (rows > saved if in_gap else rows == saved)

    until("the moment to kill the server", SOON_SECONDS, there)
    stage.server.kill()
    surplus = stage.server.rows()[0] - stage.server.checkpoint()[1]
    if in_gap:
        need(surplus == 5, f"the server was to die between rows and checkpoint, but the surplus is {surplus}")
    return surplus


def checkpoint_kill_server(stage: Stage, in_gap: bool = False) -> str:
    """The server dies and comes back: its list says `running` for ever, and only a new call goes on."""
    stage.direct()
    call, task = stage.process(50, 5)
    call.step(20)
    surplus = kill_at(stage, 20, in_gap)
    stage.server.start()
    rows = check_processed(stage, call, 50, RULE_SECONDS, surplus)
    check_once(stage, 2)
    resumed = [event.get("data") for event in call.all("log") if "Resuming" in json.dumps(event.get("data"))]
    need(len(resumed) == 1, f"{len(resumed)} log lines 'Resuming processing from record ...' instead of 1")
    attempts = stage.show(task).get("attempts")
    number = len(attempts) if isinstance(attempts, list) else attempts
    need(number == 2, f"attempts is {attempts} instead of 2")
    return f"{rows}, 2 attempts, {check_some_steps(call, 5, 50, all_told=True)}"


def checkpoint_kill_server_in_gap(stage: Stage) -> str:
    """The server dies between its two transactions: five rows come twice whatever a client does."""
    return checkpoint_kill_server(stage, in_gap=True)


def checkpoint_kill_both(stage: Stage) -> str:
    """Both die; longhaul comes back first and waits for the server."""
    stage.direct()
    call, task = stage.process(50, 5)
    call.step(20)
    surplus = kill_at(stage, 20, in_gap=False)
    call.kill()
    watch = stage.start("watch", task)
    watch.wait_for("the recorded history", SOON_SECONDS, lambda event: event["event"] == "progress")
    stage.server.start()
    rows = check_processed(stage, watch, 50, RULE_SECONDS, surplus)
    check_once(stage, 2)
    same = check_same_history(call, watch)
    steps = check_some_steps(watch, 5, 50, all_told=True)
    return f"{rows}, 2 attempts, {steps}, {same} events as printed before the kill"


def checkpoint_pause(stage: Stage) -> str:
    """The tutorial's pause does not pause: never say `paused` while it works, and say that it did not stop."""
    stage.direct()
    call, task = stage.process(100, 1)
    call.step(3)
    words: list[str] = []
    # The command may wait for proof; longhaul's own limit is 60 s.
    asker = ThreadPoolExecutor(1)
    asked = asker.submit(stage.ask, "pause", task, seconds=90)
    seen: list[str] = []
    claimed: int | None = None
    while call.process.poll() is None:
        rows = stage.server.rows()[0]
        shown = stage.show(task)
        state = f"{shown.get('status')}/{shown.get('asked')}"
        words.append(json.dumps(shown))
        seen += [state] if state not in seen else []
        paused = shown.get("status") == "paused"
        # One batch may be on its way when the word is given; the next one proves it wrong.
        claimed = (rows if claimed is None else claimed) if paused else None
        need(claimed is None or rows <= claimed + 1, f"said paused at {claimed} rows, now {rows}")
        need(len(words) < 4000, "the call did not end")
        time.sleep(0.3)  # sleep: another process is looked at, and cannot wake us
    done = check_processed(stage, call, 100, RULE_SECONDS)
    code, out, err = asked.result()
    asker.shutdown()
    check_once(stage, 1)
    said = " ".join([*words, out, err, json.dumps(call.events), call.tail()])
    need("did not stop" in said, f"nothing said that the server did not stop; states seen {seen}")
    return f"{done}, never paused while it worked, states {' > '.join(seen)}, said that it did not stop (exit {code})"


def checkpoint_pause_resume(stage: Stage) -> str:
    """The same server with that one fault taken out: paused, still, resumed as a second attempt."""
    stage.direct()
    call, task = stage.process(50, 5)
    call.step(10)
    code, out, err = stage.ask("pause", task, seconds=90)
    need(code == 0, f"`pause` ended with {code}: {(out + err).strip()[-200:]}")
    until("status paused", 60, lambda: stage.show(task).get("status") == "paused")
    rows = stage.server.rows()[0]
    time.sleep(3 * PACE_SECONDS)  # sleep: seeing that nothing happens takes time, three batches of it
    need(stage.server.rows()[0] == rows, f"paused, but rows grew from {rows} to {stage.server.rows()[0]}")
    stopped = call.process.poll() is not None
    code, out, err = stage.ask("resume", task)
    need(code == 0, f"`resume` ended with {code}: {(out + err).strip()[-200:]}")
    follower = stage.start("watch", task) if stopped else call
    done = check_processed(stage, follower, 50, RULE_SECONDS)
    check_once(stage, 2)
    steps = check_some_steps(follower, 5, 50, all_told=True)
    return f"paused at {rows} rows, still for three batches, {done}, {steps}"


def checkpoint_cancel(stage: Stage) -> str:
    """Cancelled by proof; the checkpoint stays, and no row comes after it."""
    stage.direct()
    call, task = stage.process(100, 5)
    call.step(10)
    words = cancelled(stage, call, task)
    rows = stage.server.rows()[0]
    time.sleep(3 * PACE_SECONDS)  # sleep: seeing that nothing happens takes time, three batches of it
    status, step = stage.server.checkpoint()
    need(stage.server.rows()[0] == rows, f"cancelled, but rows grew from {rows} to {stage.server.rows()[0]}")
    return f"{words}, rows stay at {rows}, the server keeps its checkpoint ({status}, step {step})"


def checkpoint_error(stage: Stage) -> str:
    """The tool fails without a word; we find some."""
    stage.direct()
    call, task = stage.process(50, 5)
    call.exits(1, 60)
    need(call.settled().get("status") == "failed", f"settled as {call.settled().get('status')}")
    shown = stage.show(task)
    need(shown.get("error") or shown.get("reason"), "failed without any words")
    check_once(stage, 1)
    rows = stage.server.rows()[0]
    need(rows == 20, f"rows {rows} instead of 20")
    return f"failed, {json.dumps(shown.get('error') or shown.get('reason'))[:120]}, rows 20 kept"


PACE_SECONDS = 1.0
REPAIRED = {"CHECKPOINT_PAUSE_WORKS": "1"}
GAP = {"CHECKPOINT_GAP_MS": "500"}
# Name, server, its settings, the play; slow ones run on --slow or when named.
SCENARIOS: list[tuple[str, str, dict[str, str], Callable[[Stage], str], bool]] = [
    ("sdk-plain", "sdk", {}, sdk_plain, False),
    ("sdk-cut-2s", "sdk", {}, sdk_cut_2s, False),
    ("sdk-cut-5s", "sdk", {}, sdk_cut_5s, False),
    ("sdk-cut-past-end", "sdk", {}, sdk_cut_past_end, False),
    ("sdk-kill-client", "sdk", {}, sdk_kill_client, False),
    ("sdk-kill-client-late", "sdk", {}, sdk_kill_client_late, False),
    ("sdk-kill-server", "sdk", {}, sdk_kill_server, False),
    ("sdk-kill-both", "sdk", {}, sdk_kill_both, False),
    ("sdk-pause", "sdk", {}, sdk_pause, False),
    ("sdk-cancel", "sdk", {}, sdk_cancel, False),
    ("sdk-hole", "sdk", {}, sdk_hole, True),
    ("checkpoint-plain", "checkpoint", {}, checkpoint_plain, False),
    ("checkpoint-cut-2s", "checkpoint", {}, checkpoint_cut_2s, False),
    ("checkpoint-cut-5s", "checkpoint", {}, checkpoint_cut_5s, False),
    ("checkpoint-cut-past-end", "checkpoint", {}, checkpoint_cut_past_end, False),
    ("checkpoint-kill-client", "checkpoint", {}, checkpoint_kill_client, False),
    ("checkpoint-kill-client-late", "checkpoint", {}, checkpoint_kill_client_late, False),
    ("checkpoint-kill-server", "checkpoint", {}, checkpoint_kill_server, False),
    ("checkpoint-kill-server-in-gap", "checkpoint", GAP, checkpoint_kill_server_in_gap, False),
    ("checkpoint-kill-both", "checkpoint", {}, checkpoint_kill_both, False),
    ("checkpoint-pause", "checkpoint", {}, checkpoint_pause, False),
    ("checkpoint-pause-resume", "checkpoint", REPAIRED, checkpoint_pause_resume, False),
    ("checkpoint-cancel", "checkpoint", {}, checkpoint_cancel, False),
    ("checkpoint-error", "checkpoint", {"CHECKPOINT_FAIL_AT": "20"}, checkpoint_error, False),
    ("checkpoint-hole", "checkpoint", {}, checkpoint_hole, True),
]


def perform(
    name: str,
    kind: str,
    settings: dict[str, str],
    play: Callable[[Stage], str],
    binary: Path,
    cache: Path,
    python: Path,
) -> tuple[bool, str]:
    """One scenario from an empty directory to its line."""
    place = cache / "runs" / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    began = time.monotonic()
    settings = {"CHECKPOINT_PACE_MS": str(int(PACE_SECONDS * 1000))} | settings
    stage = Stage(binary, place, Server(place, python, f"{kind}_server.py", settings), ExitStack())
    try:
        stage.server.start()
        said = play(stage)
        return True, f"ok {name}: {said} ({time.monotonic() - began:.1f} s)"
    except Failed as failure:
        return False, f"FAILED {name}: {failure} ({time.monotonic() - began:.1f} s, kept in {place.relative_to(cache)})"
    except Exception as error:
        # A fault of this driver must not end the other scenarios.
        (place / "driver-error.txt").write_text(repr(error))
        return False, f"FAILED {name}: the driver itself failed with {error!r}"
    finally:
        stage.close()


def main() -> int:
    """Build the environments, run what was asked for, count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--longhaul", type=Path, help="the binary (default: target/release, else target/debug)")
    parser.add_argument("--only", action="append", metavar="NAME", help="a scenario, or a pattern such as 'sdk-*'")
    parser.add_argument("--slow", action="store_true", help="also the scenarios that take minutes")
    parser.add_argument("--jobs", type=int, default=4, help="scenarios at a time (default 4; they mostly wait)")
    parser.add_argument("--cache", type=Path, default=ROOT / "target/interop", help="environments and runs")
    parser.add_argument("--list", action="store_true", help="print the names and what they are")
    options = parser.parse_args()
    if options.list:
        for name, _, _, play, slow in SCENARIOS:
            print(f"{name}: {(play.__doc__ or '').strip()}{' (slow)' if slow else ''}")
        return 0
    wanted = [
        row
        for row in SCENARIOS
        if (any(fnmatch.fnmatch(row[0], only) for only in options.only) if options.only else options.slow or not row[4])
    ]
    if not wanted:
        print(f"no scenario is called {options.only}; --list names them", file=sys.stderr)
        return 2
    builds = [ROOT / "target" / build / "longhaul" for build in ("release", "debug")]
    binary = options.longhaul or next((build for build in builds if build.exists()), None)
    if binary is None or not binary.exists():
        print(f"no longhaul at {binary or 'target/release or target/debug'}: build it, or --longhaul", file=sys.stderr)
        return 2
    # Made absolute without following links: an environment's python is one, and knows its place by it.
    cache = Path(os.path.abspath(options.cache))
    cache.mkdir(parents=True, exist_ok=True)
    try:
        pythons = {kind: environment_for(kind, cache) for kind in sorted({row[1] for row in wanted})}
    except (subprocess.SubprocessError, OSError) as error:
        print(f"could not install the servers: {error}", file=sys.stderr)
        return 2
    passed = 0
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        waiting = [
            pool.submit(perform, *row[:4], Path(os.path.abspath(binary)), cache, pythons[row[1]]) for row in wanted
        ]
        try:
            for done in waiting:
                good, line = done.result()
                passed += good
                print(line, flush=True)
        except KeyboardInterrupt:
            # What runs heard it too and ends; what waits need not begin.
            pool.shutdown(wait=False, cancel_futures=True)
            return 130
    print(f"{passed} passed, {len(wanted) - passed} failed")
    return 0 if passed == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())

"""What a play is made of: the server, the network between, the longhaul processes, and waits that have a bound."""

from __future__ import annotations

import itertools
import json
import os
import queue
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
# Long enough for an interpreter and its imports on a busy two-core machine.
START_SECONDS = 90.0
# For what should be at once; generous, because nothing here may depend on speed.
SOON_SECONDS = 30.0

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
            raise Failed(f"waited {seconds:.0f} s for {what}, which never came")
        time.sleep(0.02)  # sleep: another process is looked at, and can't wake us


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without what would change the outcome on somebody's machine."""
    drop = re.compile(r"(?i)(.*_proxy|LONGHAUL_.*|CHECKPOINT_.*|PYTHONPATH)$")
    return {key: value for key, value in os.environ.items() if not drop.match(key)} | more


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


# Below the ports that systems hand out: while a server is killed, nothing else may get its port.
PORTS = itertools.count(20_000 + os.getpid() % 5_000)


def own_port() -> int:
    """A free port that no other server of this run gets."""
    while True:
        port = next(PORTS)
        with socket.socket() as probe:
            # A connection to an earlier server may linger.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Server:
    """One server process on a port that stays the same over restarts."""

    def __init__(self, place: Path, command: list[str], settings: dict[str, str]) -> None:
        self.port = own_port()
        self.journal = Journal(place / "journal.txt")
        self.database = place / "checkpoints.db"
        self._log = (place / "server.log").open("ab")
        self._command = [*command, "--port", str(self.port), "--journal", str(self.journal.path)]
        # Those that are not ours know their port by the environment.
        self._environment = clean_environment(CHECKPOINT_DB=str(self.database), PORT=str(self.port), **settings)
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

    def __init__(self, target: int, record: Path, hidden: tuple[str, ...] = ()) -> None:
        hide = [f"--hide={word}" for word in hidden]
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "proxy.py"), "--to", str(target), "--record", str(record), *hide],
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

    def count(self) -> int:
        """Connections accepted since the start."""
        assert self._process.stdin is not None
        self._process.stdin.write("count\n")
        self._process.stdin.flush()
        return int(self.expect("count"))

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
        """The id of the task that this process started; a question can come before `started`."""
        return str(self.wait_for("the first event", START_SECONDS, lambda _: True)["id"])

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
    protocol: str = "auto"
    runs: list[Run] = field(default_factory=list)

    def direct(self) -> None:
        """Reach the server without the proxy."""
        self.url = f"http://127.0.0.1:{self.server.port}/mcp"

    def through_proxy(self) -> Proxy:
        """Reach the server through a network that can break."""
        proxy = Proxy(self.server.port, self.place / "sent.bin")
        self.stack.callback(proxy.close)
        self.url = f"http://127.0.0.1:{proxy.port}/mcp"
        return proxy

    def _spawn(self, words: tuple[str, ...], errors: int | IO[str]) -> subprocess.Popen[str]:
        home = self.place / "home"
        home.mkdir(exist_ok=True)
        command = [str(self.binary), "--state-dir", str(self.place / "state"), "--protocol", self.protocol, *words]
        # A home of its own: no config of the person who runs this may change the outcome.
        mine = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_STATE_HOME": str(home), "NO_COLOR": "1", "LONGHAUL_KEEPER": "0"}
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
            raise Failed(f"`show --json` is not valid JSON: {out[:100]!r}") from None
        return found.get("task", found)

    def close(self) -> None:
        """End what still runs."""
        for run in self.runs:
            if run.process.poll() is None:
                run.kill()
        self.stack.close()
        self.server.kill()

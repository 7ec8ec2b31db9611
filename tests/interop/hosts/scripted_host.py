"""A host process: its client program, its life, and what it saw."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driver import Failed, need

Event = dict[str, Any]

# A host and its server start within this time on a busy machine.
START_SECONDS = 60.0
# The longest that a host waits for an outcome; only a hang reaches it.
OUTCOME_SECONDS = 30.0
# A server ends within this time after its host.
ENDS_SECONDS = 10.0
OUTCOMES = ("answer", "error", "gave_up")


def until(what: str, seconds: float, look: Callable[[], Any], pause: float = 0.02) -> Any:
    """Ask until the answer is true, and return it."""
    end = time.monotonic() + seconds
    while not (answer := look()):
        need(time.monotonic() < end, f"waited {seconds:.0f} s for {what}")
        time.sleep(pause)  # sleep: another process is looked at, and can't wake us
    return answer


class ScriptedHost:
    """One host process that does one step after the other, and reports as JSON lines."""

    def __init__(self, program: list[str], profile: dict[str, Any], place: Path, number: int) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()
        self._calls = 0
        self._began = time.monotonic()
        self._copy = (place / f"host-{number}.ndjson").open("w")
        self._errors = place / f"host-{number}.err"
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*program, json.dumps(profile)],
                cwd=profile["directory"],
                env=profile["environment"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._keep(line)
            with self._changed:
                try:
                    self.events.append(json.loads(line))
                except ValueError:
                    # Killed while it wrote.
                    self.events.append({"event": "broken", "line": line})
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _keep(self, line: str) -> None:
        self._copy.write(f"{time.monotonic() - self._began:7.3f} {line.rstrip()}\n")
        self._copy.flush()

    def wait(self, what: str, seconds: float, wanted: Callable[[Event], object]) -> Event:
        """The first event that is wanted, whether it came or is to come."""
        end = time.monotonic() + seconds
        with self._changed:
            while True:
                if found := next((event for event in self.events if wanted(event)), None):
                    return found
                left = end - time.monotonic()
                if self.process.poll() is not None and not self._reader.is_alive():
                    raise Failed(f"the host ended with {self.process.returncode} before {what}: {self.last_error()}")
                if left <= 0:
                    raise Failed(f"the host waited {seconds:.0f} s for {what}: {self.last_error()}")
                self._changed.wait(min(left, 0.5))

    def last_error(self) -> str:
        """The last lines on its stderr and its server's."""
        lines = self._errors.read_text(errors="replace").split("\n")
        return " / ".join(line.strip() for line in lines[-5:] if line.strip())[-300:] or "nothing on stderr"

    def step(self, **step: Any) -> None:
        """Give it a step."""
        self._keep(f"> {json.dumps(step)}")
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(step) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"the host has ended: {self.last_error()}") from None

    def connected(self, times: int = 1) -> Event:
        """Wait until it is connected, for the first time or again."""

        def is_it(_: Event) -> bool:
            return sum(event["event"] == "connected" for event in self.events) >= times

        return self.wait("its server", START_SECONDS, is_it)

    def reconnect(self) -> None:
        """Start the server again."""
        before = sum(event["event"] == "connected" for event in self.events)
        self.step(do="connect")
        self.connected(before + 1)

    def call(self, tool: str, arguments: dict[str, Any]) -> int:
        """Make a call; the number that its outcome has."""
        self._calls += 1
        self.step(do="call", call=self._calls, tool=tool, arguments=arguments)
        return self._calls

    def outcome(self, call: int) -> Event:
        """How a call ended for the host."""
        wanted = lambda event: event["event"] in OUTCOMES and event["call"] == call  # noqa: E731
        return self.wait(f"the outcome of call {call}", OUTCOME_SECONDS, wanted)

    def outcomes(self) -> list[Event]:
        """How all calls ended so far."""
        with self._changed:
            return [event for event in self.events if event["event"] in OUTCOMES]

    def server_pid(self) -> int:
        """The process that it started as its server."""
        pids = []
        for children in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            pids += [int(pid) for pid in children.read_text().split()]
        need(len(pids) == 1, f"the host has {len(pids)} child processes instead of 1")
        return pids[0]

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(10)
        self._reader.join(5)

    def end(self) -> None:
        """Let it end in its own way; its server must end too."""
        server = self.server_pid()
        self.step(do="end")
        try:
            self.process.wait(ENDS_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed("the host did not end") from None
        gone(server, "the proxy after its host")


def is_running(pid: int, word: str = "") -> bool:
    """Whether a process runs, with this word on its command line. One that nobody has waited for does not."""
    process = Path(f"/proc/{pid}")
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" and word in (process / "cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid: int, what: str) -> None:
    """Wait until a process has ended."""
    until(f"the end of {what}", ENDS_SECONDS, lambda: not is_running(pid))


def kill(pid: int, what: str) -> None:
    """kill -9, and wait for the end."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    gone(pid, what)

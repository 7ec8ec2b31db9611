"""What `longhaul proxy` costs on this machine. Each figure is printed beside its target.

    python3 tests/interop/hosts/figures.py [latency|progress|crowd] [--longhaul PATH]

- `latency`: what the proxy adds to a short call: the same server called directly and through the proxy, by turns.
- `progress`: the CPU time that the proxy adds to each progress event that the server sends. Linux only.
- `crowd`: 50 hosts with 20 calls each on one keeper.

Without a name, all three run. Fails if a call got the result of another call, or no result. Only the standard library.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
PROTOCOL = "2025-11-25"

# latency
WARM_UP, BLOCKS, CALLS_A_BLOCK = 50, 20, 50
# progress: the rate, in events a second, and the number of events
RATES = {2_000: 20_000, 50_000: 100_000}
# How long a call is silent first, and how long everything has to come to rest afterwards, in seconds.
SILENT, REST = 1.5, 1.5
# crowd
HOSTS, CALLS_A_HOST = 50, 20
# The short calls, from so many hosts; fewer if they take more than so many seconds.
SHORT_CALLS, ASKING_HOSTS, SHORT_WITHIN = 500, 10, 20
# Nothing takes that long, in seconds.
STUCK = 120


@dataclass
class Home:
    """A session of longhaul's own with one server."""

    longhaul: str
    directory: Path
    env: dict[str, str]
    server: list[str]
    done: Path

    def proxy(self) -> Host:
        # However slow the machine is, no call gets a ticket.
        return Host([self.longhaul, "proxy", "fast", "--patience", "off"], self.env)

    def run(self, *args: str) -> str:
        done = subprocess.run([self.longhaul, *args], env=self.env, check=True, capture_output=True, text=True)
        return done.stdout

    def keeper(self) -> int:
        return int(json.loads(self.run("keeper", "status", "--json"))["keeper"]["pid"])


@contextmanager
def new_home(longhaul: Path) -> Iterator[Home]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        done = directory / "done"
        server = [sys.executable, str(HERE / "fast_server.py"), str(done)]
        config = directory / "config.toml"
        config.write_text(f'[servers.fast]\ncommand = "{server[0]}"\nargs = {json.dumps(server[1:])}\n')
        env = {**os.environ, "LONGHAUL_STATE_DIR": str(directory / "state"), "LONGHAUL_CONFIG": str(config)}
        home = Home(str(longhaul.resolve()), directory, env, server, done)
        home.run("servers", "approve", "fast", "--yes")
        try:
            yield home
        finally:
            subprocess.run([home.longhaul, "keeper", "stop"], env=env, capture_output=True)


@dataclass
class Results:
    """What came of some calls."""

    times: list[float] = field(default_factory=list)
    mixed_up: int = 0
    # What was no result: errors, tickets.
    others: list[str] = field(default_factory=list)

    def are_right(self, what: str) -> bool:
        if self.others:
            print(f"  {what}: {len(self.others)} without a result, such as {self.others[0]}")
        return not self.mixed_up and not self.others


@dataclass
class Call:
    """A call and its result."""

    expected: str
    begin: float
    results: Results
    text: str | None = None
    is_over: bool = False


class Host:
    """A host of one MCP server."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, bufsize=0)
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.unread = b""
        self.next_id = 0
        self.calls: dict[int, Call] = {}
        self.progress = 0
        info = {"name": "figures", "version": "1"}
        params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": info}
        self.greeting = self.send("initialize", params, Call("", 0, Results()))

    def send(self, method: str, params: dict[str, object], call: Call) -> Call:
        self.next_id += 1
        self.calls[self.next_id] = call
        os.write(self.stdin, line({"id": self.next_id, "method": method, "params": params}))
        return call

    def start(self, results: Results, tool: str, number: object, expected: object = None, **arguments: object) -> Call:
        """Sends a call; its result is its argument `number`, if nothing else is expected."""
        params: dict[str, object] = {"name": tool, "arguments": {"number": number, **arguments}}
        if tool == "count":
            params["_meta"] = {"progressToken": 7}
        call = Call(json.dumps(number if expected is None else expected), time.perf_counter(), results)
        return self.send("tools/call", params, call)

    def read(self) -> None:
        """Takes in what has come; waits for it if there is nothing."""
        part = os.read(self.stdout, 1 << 20)
        now = time.perf_counter()
        if not part:
            sys.exit("a server ended")
        *lines, self.unread = (self.unread + part).split(b"\n")
        for text in lines:
            message = json.loads(text)
            if message.get("method") == "notifications/progress":
                self.progress += 1
            elif "id" in message:
                self.ended(message, now)

    def ended(self, message: dict, now: float) -> None:
        call = self.calls.pop(message["id"], None)
        if call is None:
            sys.exit(f"a response to no request: {json.dumps(message)[:200]}")
        call.is_over = True
        if call is self.greeting:
            os.write(self.stdin, line({"method": "notifications/initialized"}))
            return
        call.results.times.append((now - call.begin) * 1e3)
        result = message.get("result") or {}
        texts = [part.get("text") for part in result.get("content", [])]
        if len(texts) != 1 or result.get("isError"):
            call.results.others.append(json.dumps(message.get("error") or result)[:200])
            return
        call.text = texts[0]
        call.results.mixed_up += call.text != call.expected

    def wait(self, call: Call) -> Call:
        while not call.is_over:
            self.read()
        return call

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def wait_for_all(hosts: list[Host]) -> None:
    """Waits until no call of any host is open."""
    with selectors.DefaultSelector() as selector:
        for host in hosts:
            if host.calls:
                selector.register(host.stdout, selectors.EVENT_READ, host)
        while selector.get_map():
            ready = selector.select(STUCK)
            if not ready:
                sys.exit(f"{sum(len(host.calls) for host in hosts)} calls have no result after {STUCK} s")
            for key, _ in ready:
                key.data.read()
                if not key.data.calls:
                    selector.unregister(key.fd)


def line(message: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def share(times: list[float], part: float) -> float:
    """The time within which this part of the calls ended."""
    return sorted(times)[int((len(times) - 1) * part)]


def shown(times: list[float]) -> str:
    return f"p50 {share(times, 0.5):.2f} ms, p99 {share(times, 0.99):.2f} ms"


def latency(home: Home) -> bool:
    hosts = {"direct": Host(home.server, home.env), "through": home.proxy()}
    results = {name: Results() for name in hosts}
    # By turns, so that other work on this machine disturbs both alike.
    for block in range(BLOCKS + 1):
        for name, host in hosts.items():
            for number in range(CALLS_A_BLOCK if block else WARM_UP):
                host.wait(host.start(results[name] if block else Results(), "work", number))
    for host in hosts.values():
        host.end()
    for name, of_host in results.items():
        print(f"  {name:<8} {shown(of_host.times)}")
    direct, through = results["direct"].times, results["through"].times
    added = [share(through, part) - share(direct, part) for part in (0.5, 0.99)]
    print(f"  added    p50 {added[0]:.2f} ms (target 0.5), p99 {added[1]:.2f} ms (target 2)")
    print(f"  of that, two waits for this disk: {shown(two_flushes(home.directory))}")
    return all([of_host.are_right(name) for name, of_host in results.items()])


def two_flushes(directory: Path) -> list[float]:
    """How long this disk takes to save a call before it is sent and then its result before it is returned."""
    times = []
    with open(directory / "flushed", "wb", buffering=0) as file:
        for _ in range(BLOCKS * CALLS_A_BLOCK):
            begin = time.perf_counter()
            for _ in range(2):
                file.write(bytes(4096))
                os.fsync(file.fileno())
            times.append((time.perf_counter() - begin) * 1000)
    return times


def cpu(pid: int) -> int:
    """The CPU time of a process and its threads, in nanoseconds; /proc/PID/stat has only hundredths of a second."""
    return time.clock_gettime_ns((~pid << 3) | 2)


@dataclass
class Spent:
    """The CPU time, in microseconds, that processes spend on one call of `count`."""

    by_process: list[float]
    seconds: float

    def each(self, idle: Spent, events: int) -> list[float]:
        """The same for each event, without what an idle call takes in that time."""
        scale = self.seconds / idle.seconds
        return [(busy - rest * scale) / events for busy, rest in zip(self.by_process, idle.by_process, strict=True)]


def spend(home: Home, pids: list[int]) -> Spent:
    """Measures from the silence before the first event until everything has come to rest."""
    time.sleep(SILENT / 3)
    begin, before = time.monotonic(), [cpu(pid) for pid in pids]
    while not home.done.exists():
        time.sleep(0.05)
    time.sleep(REST)
    after = [cpu(pid) for pid in pids]
    return Spent([(now - then) / 1e3 for then, now in zip(before, after, strict=True)], time.monotonic() - begin)


def progress(home: Home) -> bool:
    # The first call is silent for 6 seconds and sends one event: it shows what the processes spend in that time anyway.
    calls = [(1, 1, 6.0), *((rate, events, SILENT) for rate, events in RATES.items())]
    alone, through = [], []
    # Without the proxy first: the keeper publishes for every client that is connected.
    for rate, events, seconds in calls:
        home.done.unlink(missing_ok=True)
        arguments = json.dumps({"events": events, "rate": rate, "seconds": seconds})
        home.run("call", "count", "--server", "fast", "--args", arguments, "--detach")
        alone.append(spend(home, [home.keeper()]))
    host = home.proxy()
    wait_for_all([host])
    received = []
    results = Results()
    for rate, events, seconds in calls:
        home.done.unlink()
        host.progress = 0
        host.start(results, "count", 0, expected=events, events=events, rate=rate, seconds=seconds)
        # Nobody reads what the proxy writes meanwhile; it fits into its pipe.
        through.append(spend(home, [host.process.pid, home.keeper()]))
        wait_for_all([host])
        received.append(host.progress)
    host.end()
    for at, (rate, events, _) in enumerate(calls[1:], 1):
        (keeper_alone,) = alone[at].each(alone[0], events)
        proxy, keeper = through[at].each(through[0], events)
        print(f"  {events:,} events at {rate:,} a second; the host got {received[at]:,}")
        print(f"    proxy {proxy:.2f} us, keeper {keeper:.2f} us with the proxy, {keeper_alone:.2f} us without, each")
        print(f"    added {proxy + keeper - keeper_alone:.2f} us per event (target 3)")
    return results.are_right("progress")


def crowd(home: Home) -> bool:
    hosts = [home.proxy() for _ in range(HOSTS)]
    wait_for_all(hosts)
    total = HOSTS * CALLS_A_HOST
    long, probes, short, burst = Results(), Results(), Results(), Results()
    # All at the same time, until they are released.
    begin = time.perf_counter()
    for at, host in enumerate(hosts):
        for call in range(CALLS_A_HOST):
            host.start(long, "hold", f"held {at} {call}")
    asking = hosts[:: HOSTS // ASKING_HOSTS]
    while asking[0].wait(asking[0].start(Results(), "running", 0)).text != str(total):
        if time.perf_counter() - begin > STUCK:
            sys.exit(f"the {total:,} calls don't run after {STUCK} s")
        time.sleep(0.1)
    started = time.perf_counter() - begin
    until = time.perf_counter() + SHORT_WITHIN
    for number in range(SHORT_CALLS):
        if time.perf_counter() > until:
            break
        host = asking[number % len(asking)]
        host.wait(host.start(short, "work", f"short {number}"))
    begin = time.perf_counter()
    # Its result is the number of calls that ran up to now.
    asking[0].start(probes, "release", 0, expected=total)
    wait_for_all(hosts)
    ended = time.perf_counter() - begin
    print(f"  {total:,} calls of {HOSTS} hosts run after {started:.2f} s")
    print(f"  {len(short.times):,} short calls beside them: {shown(short.times)} (target p99 10)")
    print(f"  {len(long.times):,} results {ended:.2f} s after the calls end; mixed up: {long.mixed_up} (target 0)")
    # At the same moment.
    begin = time.perf_counter()
    for at, host in enumerate(hosts):
        for call in range(CALLS_A_HOST):
            host.start(burst, "work", f"at once {at} {call}")
    wait_for_all(hosts)
    seconds = time.perf_counter() - begin
    mixed_up = f"mixed up: {burst.mixed_up} (target 0)"
    print(f"  {total:,} short calls at once: all done after {seconds:.2f} s, {shown(burst.times)}; {mixed_up}")
    for host in hosts:
        host.end()
    parts = {"held": long, "release": probes, "short": short, "at once": burst}
    return all([results.are_right(name) for name, results in parts.items()])


def main() -> None:
    figures = {"latency": latency, "progress": progress, "crowd": crowd}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="?", choices=figures)
    parser.add_argument("--longhaul", type=Path, default=ROOT / "target/dist/longhaul")
    options = parser.parse_args()
    # A pause for garbage would look like a slow call.
    gc.disable()
    is_right = True
    for name in [options.figure] if options.figure else figures:
        print(name, flush=True)
        with new_home(options.longhaul) as home:
            is_right &= figures[name](home)
    if not is_right:
        sys.exit("calls got a wrong result or none")


if __name__ == "__main__":
    main()

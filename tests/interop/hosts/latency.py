"""What `longhaul proxy` adds to a short call: the same server called directly and through the proxy, on this machine.

    python3 tests/interop/hosts/latency.py [--longhaul PATH] [--calls N]

Prints the median and the 99th percentile of both, and the difference. Only the standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
WARM_UP = 50


class Host:
    """A host that calls one tool after the other."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self.next_id = 0
        info = {"name": "latency", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        self.send({"method": "notifications/initialized"})

    def send(self, message: dict[str, object]) -> None:
        assert self.server.stdin
        self.server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.server.stdin.flush()

    def request(self, method: str, params: dict[str, object]) -> None:
        self.next_id += 1
        self.send({"id": self.next_id, "method": method, "params": params})
        assert self.server.stdout
        while json.loads(self.server.stdout.readline()).get("id") != self.next_id:
            pass

    def times(self, count: int) -> list[float]:
        """How long each call took, in milliseconds, sorted."""
        times = []
        for number in range(count):
            begin = time.perf_counter()
            self.request("tools/call", {"name": "work", "arguments": {"number": number}})
            times.append((time.perf_counter() - begin) * 1e3)
        return sorted(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--longhaul", type=Path, default=ROOT / "target/release/longhaul")
    parser.add_argument("--calls", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        server = [sys.executable, str(HERE / "slow_server.py"), str(home / "journal"), "0"]
        config = home / "config.toml"
        config.write_text(f'[servers.slow]\ncommand = "{server[0]}"\nargs = {json.dumps(server[1:])}\n')
        env = {**os.environ, "LONGHAUL_STATE_DIR": str(home / "state"), "LONGHAUL_CONFIG": str(config)}
        longhaul = str(options.longhaul)
        subprocess.run([longhaul, "servers", "approve", "slow", "--yes"], env=env, check=True, capture_output=True)
        hosts = {"direct": Host(server, env), "through": Host([longhaul, "proxy", "slow"], env)}
        figures = {}
        for name, host in hosts.items():
            host.times(WARM_UP)
            times = host.times(options.calls)
            figures[name] = (times[len(times) // 2], times[int((len(times) - 1) * 0.99)])
            print(f"{name:<8} p50 {figures[name][0]:.2f} ms, p99 {figures[name][1]:.2f} ms")
        added = [through - direct for direct, through in zip(figures["direct"], figures["through"], strict=True)]
        print(f"added    p50 {added[0]:.2f} ms, p99 {added[1]:.2f} ms")
        subprocess.run([longhaul, "keeper", "stop"], env=env, capture_output=True)
        for host in hosts.values():
            host.server.kill()


if __name__ == "__main__":
    main()

"""Run agents' hosts against a slow tool, directly and through `longhaul proxy`.

    python3 tests/interop/hosts/run.py [--longhaul PATH] [--only HOST]... [--seconds N]

Needs Python 3.11, Node 20 with npm and, the first time, the package registry: the hosts are installed at the versions of
`package.json` beside this file, below `target/interop/hosts`. No account is needed: they talk to a model endpoint on
loopback that answers with a script (`model.py`): it calls the tool, calls it again after anything that is not the
result, and calls `longhaul_collect` for a ticket.

Hosts: Claude Code, Codex, opencode. Each has a limit of 5 s, and the tool (`slow_server.py`) takes 12 s. The server's
journal says how often it ran.

    direct     how the host does without longhaul: it gives up, and the tool runs again and again
    through    the result, after one run
    killed     the host is killed with -9 after 3 s and started again: the result, after the same one run

Exit code 0 if `through` and `killed` brought the result after one run for every host.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import model

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
CACHE = ROOT / "target/interop/hosts"
LIMIT_SECONDS = 5
GIVES_UP_AFTER = 240


@dataclass
class Trial:
    """A host in a directory of its own."""

    host: str
    how: str
    longhaul: Path
    seconds: float

    def __post_init__(self) -> None:
        self.home = CACHE / "runs" / f"{self.host}-{self.how}"
        shutil.rmtree(self.home, ignore_errors=True)
        self.work = self.home / "work"
        self.work.mkdir(parents=True)
        self.journal = self.home / "journal"
        self.env = {
            **os.environ,
            "HOME": str(self.home),
            "PWD": str(self.work),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "LONGHAUL_STATE_DIR": str(self.home / "state"),
            "LONGHAUL_CONFIG": str(self.home / "longhaul.toml"),
        }
        self.passed_on = {name: self.env[name] for name in ("LONGHAUL_STATE_DIR", "LONGHAUL_CONFIG")}

    def server(self) -> list[str]:
        """The command that the host starts."""
        slow = [sys.executable, str(HERE / "slow_server.py"), str(self.journal), str(self.seconds)]
        if self.how == "direct":
            return slow
        config = f'[servers.slow]\ncommand = "{slow[0]}"\nargs = {json.dumps(slow[1:])}\n'
        Path(self.env["LONGHAUL_CONFIG"]).write_text(config)
        self.run_longhaul("servers", "approve", "slow", "--yes")
        return [str(self.longhaul), "proxy", "slow"]

    def run_longhaul(self, *arguments: str) -> None:
        subprocess.run([str(self.longhaul), *arguments], env=self.env, check=True, capture_output=True)

    def command(self, url: str) -> list[str]:
        """The host's own command, after its configuration is written."""
        server = self.server()
        return getattr(self, self.host.replace("-", "_"))(server, url)

    def claude_code(self, server: list[str], url: str) -> list[str]:
        entry = {"command": server[0], "args": server[1:], "env": self.passed_on}
        config = self.home / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"slow": entry}}))
        self.env |= {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "MCP_TOOL_TIMEOUT": str(LIMIT_SECONDS * 1000),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
        }
        tools = "mcp__slow__work,mcp__slow__longhaul_collect"
        options = ["--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", tools]
        return [program("claude"), "-p", "do the work", *options]

    def codex(self, server: list[str], url: str) -> list[str]:
        home = self.home / "codex"
        home.mkdir()
        self.env |= {"CODEX_HOME": str(home), "OPENAI_API_KEY": "none"}
        env = "".join(f'{name} = "{value}"\n' for name, value in self.passed_on.items())
        (home / "config.toml").write_text(
            f'model = "m"\nmodel_provider = "loop"\n'
            f'[model_providers.loop]\nname = "loop"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
            f'[mcp_servers.slow]\ncommand = "{server[0]}"\nargs = {json.dumps(server[1:])}\n'
            f"tool_timeout_sec = {LIMIT_SECONDS}\n[mcp_servers.slow.env]\n{env}"
        )
        options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [program("codex"), "exec", *options, "do the work"]

    def opencode(self, server: list[str], url: str) -> list[str]:
        options = {"baseURL": f"{url}/v1", "apiKey": "none"}
        models = {"m": {"name": "m", "tool_call": True}}
        loop = {"npm": "@ai-sdk/openai-compatible", "name": "loop", "options": options, "models": models}
        slow = {
            "type": "local",
            "command": server,
            "enabled": True,
            "timeout": LIMIT_SECONDS * 1000,
            "environment": self.passed_on,
        }
        config = {"provider": {"loop": loop}, "mcp": {"slow": slow}, "permission": {"*": "allow"}}
        (self.work / "opencode.json").write_text(json.dumps(config))
        return [program("opencode"), "run", "-m", "loop/m", "do the work"]

    def run(self) -> tuple[bool, int, list[str]]:
        """Whether the host got the result, how often the tool ran, and what the model called."""
        scripted, url = model.serve()
        command = self.command(url)
        if self.how == "killed":
            host = self.start(command)
            until(lambda: self.runs() > 0)
            time.sleep(3)
            os.killpg(host.pid, signal.SIGKILL)
            host.wait()
        host = self.start(command)
        try:
            host.wait(GIVES_UP_AFTER)
        except subprocess.TimeoutExpired:
            os.killpg(host.pid, signal.SIGKILL)
        if self.how != "direct":
            self.run_longhaul("keeper", "stop")
        return scripted.has_result, self.runs(), scripted.calls

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.home / "host.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.work,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def runs(self) -> int:
        return len(self.journal.read_text().splitlines()) if self.journal.exists() else 0


def until(is_so: object) -> None:
    deadline = time.monotonic() + GIVES_UP_AFTER
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline, "the host never called the tool"
        time.sleep(0.1)


def program(name: str) -> str:
    return str(CACHE / "node_modules/.bin" / name)


def install() -> None:
    """Installs the hosts, unless they are there."""
    CACHE.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "package.json", CACHE)
    if not Path(program("codex")).exists():
        subprocess.run(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"], cwd=CACHE, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", type=Path, default=ROOT / "target/debug/longhaul")
    parser.add_argument("--only", action="append")
    parser.add_argument("--seconds", type=float, default=12)
    options = parser.parse_args()
    install()
    failures = 0
    for host in options.only or ["claude-code", "codex", "opencode"]:
        for how in ("direct", "through", "killed"):
            got, runs, calls = Trial(host, how, options.longhaul.resolve(), options.seconds).run()
            is_ok = how == "direct" or (got and runs == 1)
            failures += not is_ok
            verdict = "ok" if is_ok else "FAILED"
            result = "the result" if got else "no result"
            print(f"{verdict:<6} {host} {how}: {result}, {runs} runs, calls: {' '.join(calls)}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

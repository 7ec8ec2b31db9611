"""Run the longhaul binary against MCP servers that were not written here, through cuts and kills.

    python3 tests/interop/run.py [--longhaul PATH] [--only NAME]... [--quick] [--slow] [--jobs N] [--list] [--install]

Needs Python 3.11, Node 20 with npm, cargo and, the first time, their package registries: each server is installed at
the versions of its own requirements or lock file beside this one, below `target/interop` (`servers.py`). Nothing else
is installed; without --longhaul the binary is `target/release/longhaul`, else `target/debug/longhaul`.

Servers:
    sdk         the official Python SDK 1.x with an event store in memory (`sdk_server.py`): event ids, a session that
                dies with the process
    sdk_sse     the same on HTTP+SSE of 2024-11-05 (`sdk_sse_server.py`): nothing can be picked up
    checkpoint  FastMCP 2.11.3 as in the checkpoint tutorial (`checkpoint_server.py`): no event ids at all, checkpoints
                on disk, and all of the original's faults
    sdk_tasks   the same SDK with its experimental tasks of 2025-11-25 (`sdk_tasks_server.py`)
    sdk2        the official Python SDK 2.x (`sdk2_server.py`): both eras, no tasks
    fastmcp4    FastMCP 4.x (`fastmcp4_server.py`): both eras, background tasks (the extension of 2026-07-28)
    rmcp        the official Rust SDK 3.x (`rmcp_server/`): both eras, its task manager (the same extension)
    rmcp_store  the same with an event store in memory
    node_sdk1   the official TypeScript SDK 1.x (`node_sdk1/`): event ids, the experimental tasks of 2025-11-25
    node_sdk2   the official TypeScript SDK 2.x (`node_sdk2/`): both eras, the stateful one without sessions
    everything  server-everything as published: event ids that go silent, the experimental tasks of 2025-11-25

Each scenario has a server, a state directory and ports of its own; everything of it is kept below
`target/interop/runs/NAME` (what longhaul printed, the server's log, its journal, its database). Network faults come
from `proxy.py`; server kills are reached without it, so that a refused connection is a real one.

What must hold is the README's table of what can be picked up again: a result wherever the server can still give one,
and otherwise an end in words (`lost` or `unknown` with a reason, exit code 5), never a hang: every wait here has a
bound, and running into it is a failure that says what was waited for. The servers keep a journal of what really ran, so
that "nothing runs twice" is seen from their side. Where the checkpoint server writes rows twice by its own crash
window, the line says so and the expected number includes exactly those.

`--quick` is for `.ci/run`: every server and every fault, but not every pair of them. `--install` only installs the
servers, so that this can happen beside something else.

One line a scenario: `ok NAME: what was seen (figures)` or `FAILED NAME: ...`; the last line is `N passed, N failed`.
Exit code 0 when nothing failed, 1 otherwise, 2 when it could not start, 130 when interrupted.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import plays_both as both
import plays_checkpoint as checkpoint
import plays_sdk as sdk
import plays_standalone as standalone
from driver import HERE, Failed, Server, Stage
from plays_table import table
from servers import SERVERS, NotInstalled, cache_at

ROOT = HERE.parent.parent
PACED = {"CHECKPOINT_PACE_MS": str(int(checkpoint.PACE_SECONDS * 1000))}


@dataclass(frozen=True)
class Scenario:
    """One play on one server."""

    name: str
    server: str
    play: Callable[[Stage], str]
    # Part of --quick; slow ones run on --slow or when named.
    quick: bool = False
    slow: bool = False
    settings: dict[str, str] = field(default_factory=dict)


def of_sdk(name: str, play: Callable[[Stage], str], *, quick: bool = False, slow: bool = False) -> Scenario:
    """A play on the Python SDK 1.x."""
    return Scenario(f"sdk-{name}", "sdk", play, quick, slow)


def of_checkpoint(
    name: str, play: Callable[[Stage], str], *, quick: bool = False, slow: bool = False, **settings: str
) -> Scenario:
    """A play on the tutorial's server."""
    return Scenario(f"checkpoint-{name}", "checkpoint", play, quick, slow, PACED | settings)


SCENARIOS = [
    of_sdk("plain", sdk.sdk_plain, quick=True),
    of_sdk("cut-2s", sdk.sdk_cut_2s, quick=True),
    of_sdk("cut-5s", sdk.sdk_cut_5s),
    of_sdk("cut-fast", sdk.sdk_cut_fast),
    of_sdk("cut-past-end", sdk.sdk_cut_past_end, quick=True),
    of_sdk("kill-client", sdk.sdk_kill_client, quick=True),
    of_sdk("beside", sdk.sdk_beside, quick=True),
    of_sdk("kill-client-late", sdk.sdk_kill_client_late),
    of_sdk("kill-server", sdk.sdk_kill_server, quick=True),
    of_sdk("kill-both", sdk.sdk_kill_both),
    of_sdk("pause", sdk.sdk_pause),
    of_sdk("cancel", sdk.sdk_cancel, quick=True),
    of_sdk("hole", sdk.sdk_hole, slow=True),
    of_checkpoint("plain", checkpoint.checkpoint_plain, quick=True),
    of_checkpoint("cut-2s", checkpoint.checkpoint_cut_2s, quick=True),
    of_checkpoint("watch", checkpoint.checkpoint_watch),
    of_checkpoint("cut-10s", checkpoint.checkpoint_cut_10s),
    of_checkpoint("cut-5s", checkpoint.checkpoint_cut_5s),
    of_checkpoint("cut-past-end", checkpoint.checkpoint_cut_past_end),
    of_checkpoint("kill-client", checkpoint.checkpoint_kill_client, quick=True),
    of_checkpoint("kill-client-late", checkpoint.checkpoint_kill_client_late),
    of_checkpoint("kill-server", checkpoint.checkpoint_kill_server, quick=True),
    of_checkpoint("kill-server-in-gap", checkpoint.checkpoint_kill_server_in_gap, CHECKPOINT_GAP_MS="500"),
    of_checkpoint("kill-both", checkpoint.checkpoint_kill_both),
    of_checkpoint("pause", checkpoint.checkpoint_pause),
    of_checkpoint("pause-resume", checkpoint.checkpoint_pause_resume, quick=True, CHECKPOINT_PAUSE_WORKS="1"),
    of_checkpoint("cancel", checkpoint.checkpoint_cancel, quick=True),
    of_checkpoint("adopt-file", checkpoint.checkpoint_adopt_file, quick=True),
    of_checkpoint("error", checkpoint.checkpoint_error, CHECKPOINT_FAIL_AT="20"),
    of_checkpoint("hole", checkpoint.checkpoint_hole, slow=True),
    *(Scenario(name, server, play, quick=True) for name, server, play in both.table()),
    *(Scenario(name, server, play, quick) for name, server, play, quick in [*standalone.table(), *table()]),
]


def perform(scenario: Scenario, binary: Path, cache: Path, command: list[str]) -> tuple[bool, str]:
    """One scenario from an empty directory to its line."""
    name = scenario.name
    place = cache / "runs" / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    began = time.monotonic()
    stage = Stage(binary, place, Server(place, command, scenario.settings), ExitStack())
    try:
        stage.server.start()
        said = scenario.play(stage)
        return True, f"ok {name}: {said} ({time.monotonic() - began:.1f} s)"
    except Failed as failure:
        # One line, whatever a program said.
        words = " ".join(str(failure).split())
        return False, f"FAILED {name}: {words} ({time.monotonic() - began:.1f} s, kept in {place.relative_to(cache)})"
    except Exception as error:
        # A fault of this driver must not end the other scenarios.
        (place / "driver-error.txt").write_text(repr(error))
        return False, f"FAILED {name}: the driver itself failed with {error!r}"
    finally:
        stage.close()


def chosen(options: argparse.Namespace) -> list[Scenario]:
    """What to run."""
    if options.only:
        return [row for row in SCENARIOS if any(fnmatch.fnmatch(row.name, only) for only in options.only)]
    if options.quick:
        return [row for row in SCENARIOS if row.quick]
    return [row for row in SCENARIOS if options.slow or not row.slow]


def main() -> int:
    """Install the servers, run what was asked for, count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--longhaul", type=Path, help="the binary (default: target/release, else target/debug)")
    parser.add_argument("--only", action="append", metavar="NAME", help="a scenario, or a pattern such as 'sdk-*'")
    parser.add_argument("--quick", action="store_true", help="a part that still has every server and every fault")
    parser.add_argument("--slow", action="store_true", help="also the scenarios that take minutes")
    parser.add_argument("--jobs", type=int, default=4, help="scenarios at a time (default 4; they mostly wait)")
    parser.add_argument("--cache", type=Path, default=ROOT / "target/interop", help="installed servers and runs")
    parser.add_argument("--list", action="store_true", help="print the names and what they are")
    parser.add_argument("--install", action="store_true", help="install the servers and stop")
    options = parser.parse_args()
    if options.list:
        for row in SCENARIOS:
            marks = " (quick)" * row.quick + " (slow)" * row.slow
            print(f"{row.name}: {(row.play.__doc__ or '').strip().splitlines()[0]}{marks}")
        return 0
    wanted = chosen(options)
    if not wanted:
        print(f"no scenario is called {options.only}; --list names them", file=sys.stderr)
        return 2
    builds = [ROOT / "target" / build / "longhaul" for build in ("release", "debug")]
    binary = options.longhaul or next((build for build in builds if build.exists()), None)
    if not options.install and (binary is None or not binary.exists()):
        print(f"no longhaul at {binary or 'target/release or target/debug'}: build it, or --longhaul", file=sys.stderr)
        return 2
    cache = cache_at(options.cache)
    kinds = sorted({row.server for row in wanted})
    with ThreadPoolExecutor(3) as pool:
        installing = {kind: pool.submit(SERVERS[kind], cache) for kind in kinds}
        commands: dict[str, list[str]] = {}
        for kind, installed in installing.items():
            try:
                commands[kind] = installed.result()
            except (NotInstalled, OSError) as error:
                print(f"could not install the {kind} server: {error}", file=sys.stderr)
                pool.shutdown(wait=False, cancel_futures=True)
                return 2
    if options.install:
        return 0
    passed = 0
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        waiting = [
            pool.submit(perform, row, Path(os.path.abspath(binary)), cache, commands[row.server]) for row in wanted
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

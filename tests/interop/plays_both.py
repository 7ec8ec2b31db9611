"""A plain tool and a task tool of one server in one session, each in the era that it survives in, without any option."""

from __future__ import annotations

import json
from collections.abc import Callable

from checks import check_same_history, check_steps, outage_of
from driver import SOON_SECONDS, START_SECONDS, Run, Stage, need, until
from plays_table import BOUND_SECONDS, MODERN, STATEFUL

STEPS = 20
# rmcp 3.8 does not list which tools can be tasks: what nobody was told stays in the session, where streams carry ids.
TASK_ERAS = {"rmcp": STATEFUL, "fastmcp4": MODERN}


def begin(stage: Stage, tool: str, era: str, delay_ms: int) -> tuple[Run, str]:
    """Start a tool, which must go in this era."""
    run = stage.start("call", tool, f"steps:={STEPS}", f"delay_ms:={delay_ms}")
    task = run.task()
    started = run.all("started")[0].get("era")
    need(started == era, f"{tool} went in {started} instead of {era}")
    return run, task


def begin_both(stage: Stage, era: str, delay_ms: int) -> list[tuple[Run, str]]:
    """Start both and wait until both work; who drives ends last, so that nobody has to take over at the very end."""
    calls = [begin(stage, "slow_count", STATEFUL, delay_ms), begin(stage, "slow_task", era, delay_ms * 3 // 4)]
    calls[0][0].step(2)
    news = ("progress", "status")
    calls[1][0].wait_for("the first news of the task", START_SECONDS, lambda event: event["event"] in news)
    until("both at work", SOON_SECONDS, lambda: stage.server.journal.count("started") == 2)
    return calls


def check_both(stage: Stage, calls: list[tuple[Run, str]]) -> str:
    """All steps of the plain call, the result of both, one run each, and the reason for each era."""
    for run, task in calls:
        run.exits(0, BOUND_SECONDS)
        settled = run.settled()
        need(settled.get("status") == "completed", f"settled as {settled.get('status')}: {json.dumps(settled)[:200]}")
        need(f"counted {STEPS}" in json.dumps(settled.get("result")), f"wrong result {json.dumps(settled)[:200]}")
        reason = stage.show(task).get("era_reason")
        need(reason in ("may-give-ids", "event-ids", "can-be-task"), f"the era was chosen for {reason}")
    told = " and ".join(
        check_steps(run, list(range(1, STEPS + 1))) for run, _ in calls if run.all("started")[0]["era"] == STATEFUL
    )
    started = stage.server.journal.count("started")
    need(started == 2, f"the server ran the two tools {started} times")
    return f"{told}, both results, one run each"


def cut(stage: Stage, era: str, outage: float, delay_ms: int) -> str:
    """The network breaks under both."""
    proxy = stage.through_proxy()
    calls = begin_both(stage, era, delay_ms)
    proxy.fault("cut", outage)
    proxy.expect("back", outage + SOON_SECONDS)
    return f"{check_both(stage, calls)}, {outage_of(calls[0][0])}"


def cut_2s(stage: Stage, era: str) -> str:
    """A plain tool and a task tool through two seconds without a network."""
    return cut(stage, era, 2, 500)


def cut_10s(stage: Stage, era: str) -> str:
    """A plain tool and a task tool through ten seconds without a network."""
    return cut(stage, era, 10, 1000)


def kill_client(stage: Stage, era: str) -> str:
    """kill -9 of both longhauls over a plain tool and a task tool; others continue with them."""
    stage.through_proxy()
    calls = begin_both(stage, era, 500)
    for run, _ in calls:
        run.kill()
    again = [(stage.start("watch", task), task) for _, task in calls]
    told = check_both(stage, again)
    pairs = zip(calls, again, strict=True)
    same = sum(check_same_history(before, after) for (before, _), (after, _) in pairs)
    return f"{told}, {same} events as printed before the kill"


def table() -> list[tuple[str, str, Callable[[Stage], str]]]:
    """Every case on every server that speaks both eras with tasks: name, server, the play."""

    def bound(play: Callable[[Stage, str], str], era: str) -> Callable[[Stage], str]:
        def play_era(stage: Stage) -> str:
            return play(stage, era)

        play_era.__doc__ = play.__doc__
        return play_era

    cases = [("cut-2s", cut_2s), ("cut-10s", cut_10s), ("kill-client", kill_client)]
    return [
        (f"{server}-both-{name}", server, bound(play, era))
        for server, era in TASK_ERAS.items()
        for name, play in cases
    ]

"""The official Python SDK 1.x with an event store (`sdk_server.py`)."""

from __future__ import annotations

from checks import (
    cancelled,
    check_counted,
    check_given_up,
    check_once,
    check_same_history,
    check_steps,
    outage_of,
    reason_of,
)
from driver import SOON_SECONDS, Run, Stage, need, until


def count(stage: Stage, steps: int, delay_ms: int) -> tuple[Run, str]:
    """Start slow_count."""
    run = stage.start("call", "slow_count", f"steps:={steps}", f"delay_ms:={delay_ms}")
    return run, run.task()


def sdk_plain(stage: Stage) -> str:
    """A call to the end."""
    stage.direct()
    run, task = count(stage, 10, 200)
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
    run, task = count(stage, steps, delay_ms)
    run.step(4)
    hit = proxy.fault(kind, outage)
    need(hit > 0, "nobody was connected when the network broke")
    proxy.expect("back", outage + SOON_SECONDS)
    check_counted(stage, run, task, steps, bound)
    told = check_steps(run, list(range(1, steps + 1)))
    return f"{kind} {outage:g} s hit {hit} connections, {told}, {outage_of(run)}"


def sdk_cut_2s(stage: Stage) -> str:
    """Two seconds without a network."""
    return sdk_cut(stage, "cut", 2, 32, 250, 60)


def sdk_cut_5s(stage: Stage) -> str:
    """Five seconds without a network."""
    return sdk_cut(stage, "cut", 5, 48, 250, 60)


def sdk_cut_past_end(stage: Stage) -> str:
    """The tool ends while nobody can hear it; the result comes by replay."""
    return sdk_cut(stage, "cut", 5, 12, 250, 60)


def sdk_cut_fast(stage: Stage) -> str:
    """Forty steps a second: some fall into the moment in which the server replays, and it sends them only when asked again."""
    return sdk_cut(stage, "cut", 2, 300, 25, 60)


def sdk_hole(stage: Stage) -> str:
    """A half-open connection before the first keep-alive comment."""
    return sdk_cut(stage, "hole", 3, 24, 250, 420)


def sdk_kill_client(stage: Stage) -> str:
    """kill -9 of longhaul in the middle; another process continues at once."""
    stage.through_proxy()
    call, task = count(stage, 32, 250)
    call.step(8)
    call.kill()
    watch = stage.start("watch", task)
    check_counted(stage, watch, task, 32, 60)
    told = check_steps(watch, list(range(1, 33)))
    same = check_same_history(call, watch)
    return f"killed at step 8, {told}, {same} events as printed before the kill"


def sdk_beside(stage: Stage) -> str:
    """Steps come on the standalone stream, log lines on that of the call; longhaul is killed in the middle."""
    stage.direct()
    call = stage.start("call", "count_beside", "steps:=24", "delay_ms:=250")
    task = call.task()
    call.step(6)
    call.kill()
    watch = stage.start("watch", task)
    check_counted(stage, watch, task, 24, 60)
    return check_steps(watch, list(range(1, 25)))


def sdk_kill_client_late(stage: Stage) -> str:
    """kill -9 of longhaul; somebody looks only after the tool has ended."""
    stage.through_proxy()
    call, task = count(stage, 12, 250)
    call.step(4)
    call.kill()
    until("the tool to end", SOON_SECONDS, lambda: stage.server.journal.count("ended"))
    watch = stage.start("watch", task)
    check_counted(stage, watch, task, 12, 60)
    told = check_steps(watch, list(range(1, 13)))
    same = check_same_history(call, watch)
    return f"result by replay after the tool ended, {told}, {same} events as printed before the kill"


def sdk_kill_server(stage: Stage) -> str:
    """kill -9 of the server: its session and its store are gone, which must be said."""
    stage.direct()
    call, task = count(stage, 40, 250)
    call.step(4)
    stage.server.kill()
    stage.server.start()
    status = check_given_up(call, 90)
    check_once(stage, 1)
    return f"{status}, {reason_of(stage, task)}, ran once"


def sdk_kill_both(stage: Stage) -> str:
    """Both die; the next longhaul says what is lost."""
    stage.direct()
    call, task = count(stage, 40, 250)
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
    """The server has no pause tool: refused with a message, and the work continues."""
    stage.direct()
    call, task = count(stage, 24, 250)
    call.step(2)
    code, out, err = stage.ask("pause", task)
    words = (out + err).strip()
    need(code == 2, f"`pause` ended with {code} instead of 2: {words[-200:]}")
    need("pause" in words.lower(), f"`pause` was refused without saying why: {words[-200:]!r}")
    check_counted(stage, call, task, 24, 60)
    check_steps(call, list(range(1, 25)))
    return f"refused ({words.splitlines()[-1][:100]!r}), the call went on to its end"


def sdk_cancel(stage: Stage) -> str:
    """The SDK answers a cancelled call with an error; that is the proof."""
    stage.direct()
    call, task = count(stage, 80, 250)
    call.step(4)
    return cancelled(stage, call, task)

"""FastMCP 2.11.3 as in the checkpoint tutorial (`checkpoint_server.py`)."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

from checks import cancelled, check_once, check_same_history, check_seq, check_steps, outage_of
from driver import SOON_SECONDS, Run, Stage, need, until

TOOL = "resumable_data_processing"
# The checkpoint rule waits max(10 s, 3 x the longest step) before it calls again, then the rest of the work follows.
RULE_SECONDS = 120.0
PACE_SECONDS = 1.0


def process(stage: Stage, total: int, batch: int) -> tuple[Run, str]:
    """Start the checkpoint tool."""
    run = stage.start("call", TOOL, "dataset_name=customers", f"total_records:={total}", f"batch_size:={batch}")
    return run, run.task()


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


def checkpoint_plain(stage: Stage) -> str:
    """A call to the end."""
    stage.direct()
    run, task = process(stage, 50, 5)
    rows = check_processed(stage, run, 50, 60)
    check_steps(run, list(range(5, 51, 5)))
    leaving = stage.show(task).get("resumability")
    need("checkpoint" in json.dumps(leaving), f"resumability is {leaving} instead of checkpoint")
    return f"{rows}, all 10 steps once"


def checkpoint_cut(stage: Stage, kind: str, outage: float, total: int, bound: float) -> str:
    """The stream is gone for ever; the old run must be followed, not doubled."""
    proxy = stage.through_proxy()
    run, _ = process(stage, total, 5)
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


def checkpoint_cut_10s(stage: Stage) -> str:
    """Ten seconds without a network."""
    return checkpoint_cut(stage, "cut", 10, 100, RULE_SECONDS)


def checkpoint_watch(stage: Stage) -> str:
    """A second process follows the call of the first."""
    stage.direct()
    call, task = process(stage, 50, 5)
    call.step(10)
    second = stage.start("watch", task)
    rows = check_processed(stage, call, 50, RULE_SECONDS)
    check_processed(stage, second, 50, RULE_SECONDS)
    check_steps(second, list(range(5, 51, 5)))
    check_once(stage, 1)
    return f"{rows}, both saw it end, {check_same_history(call, second)} events alike"


def checkpoint_cut_past_end(stage: Stage) -> str:
    """The run ends during the cut; calling again brings its result at once."""
    return checkpoint_cut(stage, "cut", 5, 20, RULE_SECONDS)


def checkpoint_hole(stage: Stage) -> str:
    """A half-open connection on a server without ids."""
    return checkpoint_cut(stage, "hole", 3, 50, 420)


def checkpoint_kill_client(stage: Stage) -> str:
    """kill -9 of longhaul; the next one must follow the run that goes on."""
    stage.direct()
    call, task = process(stage, 50, 5)
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
    call, task = process(stage, 25, 5)
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
    call, task = process(stage, 50, 5)
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
    call, task = process(stage, 50, 5)
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
    call, task = process(stage, 100, 1)
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
        time.sleep(0.3)  # sleep: another process is looked at, and can't wake us
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
    call, task = process(stage, 50, 5)
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
    call, task = process(stage, 100, 5)
    call.step(10)
    words = cancelled(stage, call, task)
    rows = stage.server.rows()[0]
    time.sleep(3 * PACE_SECONDS)  # sleep: seeing that nothing happens takes time, three batches of it
    status, step = stage.server.checkpoint()
    need(stage.server.rows()[0] == rows, f"cancelled, but rows grew from {rows} to {stage.server.rows()[0]}")
    return f"{words}, rows stay at {rows}, the server keeps its checkpoint ({status}, step {step})"


def checkpoint_adopt_file(stage: Stage) -> str:
    """The state file of the tutorial's client names no arguments: nothing is called until they are given."""
    stage.direct()
    work = ("dataset_name=customers", "total_records=50", "batch_size=5")
    call = stage.start("call", TOOL, *work, "client_id=tutorial")
    call.step(25)
    surplus = kill_at(stage, 25, in_gap=False)
    call.kill()
    stage.server.start()
    rows = stage.server.rows()[0]
    state = stage.place / "session_state.json"
    task = {"tool": TOOL, "status": "running", "progress": rows}
    saved = {"client_id": "tutorial", "server_url": stage.url, "active_tasks": {"task_1": task}}
    state.write_text(json.dumps(saved))
    adopt = ("--session", "adopted", "adopt", "--from", str(state), "--yes")
    code, out, err = stage.ask(*adopt)
    need(code == 2 and " KEY=VALUE" in err, f"`adopt --from` ended with {code}: {(out + err).strip()[-200:]}")
    need(stage.server.journal.count("started") == 1, "a tool was called without arguments")
    code, out, err = stage.ask(*adopt, "task_1", *work)
    need(code == 0, f"`adopt --from` ended with {code}: {(out + err).strip()[-200:]}")
    taken = out.split()[0]
    code, out, err = stage.ask("--session", "adopted", "wait", taken, seconds=RULE_SECONDS)
    need(code == 0, f"`wait` ended with {code}: {(out + err).strip()[-200:]}")
    rows_after, records = stage.server.rows()
    need((rows_after, records) == (50 + surplus, 50), f"{rows_after} rows of {records} records instead of 50")
    most = stage.server.journal.most_at_once()
    need(most == 1, f"{most} loops ran side by side on the server")
    return f"asked for the arguments at {rows} rows, then rows {rows_after} of 50"


def checkpoint_error(stage: Stage) -> str:
    """The tool fails without a word; we find some."""
    stage.direct()
    call, task = process(stage, 50, 5)
    call.exits(1, 60)
    need(call.settled().get("status") == "failed", f"settled as {call.settled().get('status')}")
    shown = stage.show(task)
    need(shown.get("error") or shown.get("reason"), "failed without any words")
    check_once(stage, 1)
    rows = stage.server.rows()[0]
    need(rows == 20, f"rows {rows} instead of 20")
    return f"failed, {json.dumps(shown.get('error') or shown.get('reason'))[:120]}, rows 20 kept"

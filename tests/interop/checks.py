"""What every history and every end must be."""

from __future__ import annotations

import json

from driver import SOON_SECONDS, Run, Stage, need, until


def check_seq(run: Run) -> None:
    """Sequence numbers rise within the task."""
    numbers = [event["seq"] for event in run.events if isinstance(event.get("seq"), int)]
    need(numbers, f"{run.name} printed no seq")
    rising = all(before < after for before, after in zip(numbers, numbers[1:], strict=False))
    need(rising, f"seq of {run.name} does not rise: {numbers}")


def check_steps(run: Run, wanted: list[int]) -> str:
    """Exactly these steps, each once, in order: also those that the Python SDKs let fall while they replay."""
    check_seq(run)
    seen = [event["value"] for event in run.all("progress")]
    twice = sorted({value for value in seen if seen.count(value) > 1})
    missing = [value for value in wanted if value not in seen]
    need(not twice, f"steps shown twice: {twice}")
    need(not missing, f"steps missing in the history: {missing}")
    need(seen == wanted, f"steps out of order or foreign: {seen}")
    return f"all {len(seen)} steps once"


def check_same_history(killed: Run, later: Run) -> int:
    """What was on stdout before the kill is in the later history under the same seq; the number of events compared."""
    kinds = ("started", "progress", "log", "status", "input_required", "settled")
    compared = ("event", "value", "total", "message", "level", "data", "status", "reason", "key")
    recorded = {event["seq"]: event for event in later.events if "seq" in event}
    checked = 0
    for event in killed.events:
        if event["event"] in kinds:
            other = recorded.get(event.get("seq"), {})
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

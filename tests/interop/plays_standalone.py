"""Questions on the stream of a bare GET: `elicitInput()` of the TypeScript SDK 1.x, which relates them to no call."""

from __future__ import annotations

import json
from collections.abc import Callable

from checks import check_same_history
from driver import Event, Proxy, Run, Stage, need, until

BOUND_SECONDS = 60.0
FORM = ("ask_server", ("--accept", "name=Ada"), "hello Ada")
URL = ("ask_page", ("--accept",), "consent: accept")
Kind = tuple[str, tuple[str, ...], str]


def begin(stage: Stage, tool: str, *words: str) -> tuple[Run, str]:
    """Start a call."""
    run = stage.start("call", tool, *words)
    return run, run.task()


def question_of(run: Run) -> Event:
    """The question that a call waits for."""
    return run.wait_for("the question", BOUND_SECONDS, lambda event: event["event"] == "input_required")


def shared_with(stage: Stage, task: str) -> list[str]:
    """The other calls that may be meant by the question."""
    questions = stage.show(task).get("questions") or []
    need(len(questions) == 1, f"{len(questions)} open questions instead of 1")
    return list(questions[0]["shared_with"])


def answer(stage: Stage, task: str, words: tuple[str, ...]) -> None:
    """Answer it from another process."""
    code, out, err = stage.ask("answer", task, *words, seconds=60)
    need(code == 0, f"`answer` ended with {code}: {(out + err).strip()[-200:]}")


def check_end(stage: Stage, run: Run, task: str, wanted: str) -> Run:
    """The tool made this of the answer; with nobody to ask, the call itself may have left with 6."""
    follower = stage.start("watch", task) if run.ended(BOUND_SECONDS) in (6, -9) else run
    follower.exits(0, BOUND_SECONDS)
    settled = follower.settled()
    need(wanted in json.dumps(settled.get("result")), f"wrong result {json.dumps(settled)[:200]}")
    return follower


def check_asked_once(stage: Stage) -> None:
    """The tools ran once each, and the server asked once."""
    asked = stage.server.journal.count("asked")
    need(asked == 1, f"the server asked {asked} times")


def one(stage: Stage, kind: Kind) -> str:
    """Asked while one call runs."""
    tool, words, wanted = kind
    stage.direct()
    run, task = begin(stage, tool)
    question_of(run)
    shared = shared_with(stage, task)
    need(not shared, f"shared with {shared} although one call runs")
    answer(stage, task, words)
    follower = check_end(stage, run, task, wanted)
    check_asked_once(stage)
    return f"answered {' '.join(words)}, result {wanted!r}, seen by {follower.name}"


def two(stage: Stage, kind: Kind) -> str:
    """Asked while two calls run: the question names both, and one answer is enough."""
    tool, words, wanted = kind
    stage.direct()
    other, other_task = begin(stage, "slow_count", "steps:=40", "delay_ms:=250")
    other.step(2)
    run, task = begin(stage, tool)
    question_of(run)
    question_of(other)
    shared = shared_with(stage, task)
    need(shared == [other_task], f"shared with {shared} instead of {other_task}")
    # What both hold is one question.
    need(shared_with(stage, other_task) == [task], "the other call shares it with nobody")
    answer(stage, task, words)
    check_end(stage, run, task, wanted)
    check_end(stage, other, other_task, "counted 40")
    check_asked_once(stage)
    need(not stage.show(other_task).get("questions"), "the other call still asks")
    return "held by both calls, one answer, both results"


def cut(stage: Stage, kind: Kind) -> str:
    """The network breaks between the question and its answer."""
    tool, words, wanted = kind
    proxy: Proxy = stage.through_proxy()
    run, task = begin(stage, tool)
    question_of(run)
    run.ended(BOUND_SECONDS)
    # A `call` leaves where a question waits for somebody else; one that asked nothing stays, with the connections of all.
    other, other_task = begin(stage, "slow_count", "steps:=60", "delay_ms:=250")
    other.step(2)
    hit = proxy.fault("cut", 2)
    need(hit > 1, f"{hit} connections were hit")
    proxy.expect("back", 30)
    answer(stage, task, words)
    check_end(stage, run, task, wanted)
    check_end(stage, other, other_task, "counted 60")
    check_asked_once(stage)
    return f"cut {hit} connections between question and answer, both results"


def kill(stage: Stage, kind: Kind) -> str:
    """kill -9 of longhaul between the question and its answer."""
    tool, words, wanted = kind
    stage.direct()
    run, task = begin(stage, tool)
    question_of(run)
    run.kill()
    answer(stage, task, words)
    follower = stage.start("watch", task)
    check_end(stage, follower, task, wanted)
    check_asked_once(stage)
    return f"answered after the kill, {check_same_history(run, follower)} events as printed before"


def missed(stage: Stage, kind: Kind) -> str:
    """The server asks while nobody can hear it; its first question gave the stream an event id."""
    tool, _, _ = kind
    proxy: Proxy = stage.through_proxy()
    run, _ = begin(stage, tool, "times:=2", "delay_ms:=3000", "--on-input", "decline")
    question_of(run)
    need(proxy.fault("cut", 5) > 0, "nobody was connected when the network broke")
    until("the question on the server", BOUND_SECONDS, lambda: stage.server.journal.count("asked") == 2)
    proxy.expect("back", 30)
    run.exits(0, BOUND_SECONDS)
    need(": decline" in json.dumps(run.settled().get("result")), f"wrong result {json.dumps(run.settled())[:200]}")
    asked = len(run.all("input_required"))
    need(asked == 2, f"{asked} questions told instead of 2")
    return "asked during the cut, answered after it"


def defaults(stage: Stage, kind: Kind) -> str:
    """Nobody is there, and `--on-input` answers."""
    tool, _, _ = kind
    stage.direct()
    run, task = begin(stage, tool, "--on-input", "decline")
    check_end(stage, run, task, ": decline")
    check_asked_once(stage)
    return "declined by the option"


def table() -> list[tuple[str, str, Callable[[Stage], str], bool]]:
    """Every case with a form and with a page: name, server, the play, whether it is quick."""

    def bound(play: Callable[[Stage, Kind], str], kind: Kind) -> Callable[[Stage], str]:
        def play_kind(stage: Stage) -> str:
            return play(stage, kind)

        play_kind.__doc__ = play.__doc__
        return play_kind

    cases = [("one", one), ("two", two), ("cut", cut), ("kill", kill), ("missed", missed), ("decline", defaults)]
    return [
        (f"node_sdk1-standalone-{word}-{name}", "node_sdk1", bound(play, kind), word == "form" or name == "kill")
        for word, kind in (("form", FORM), ("url", URL))
        for name, play in cases
    ]

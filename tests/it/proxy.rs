//! `longhaul proxy`: an agent's calls are tasks, no result is lost, and nothing runs twice.

#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use longhaul::store::write_atomically;
use serde_json::{Value, json};

use crate::support::{
    agent_host::{AgentHost, text, ticket},
    kept::{Kept, finish_steps, programs, until},
    server,
};

/// How many times the tool `work` ran.
fn runs(kept: &Kept) -> usize {
    let runs = std::fs::read_to_string(kept.path().join("runs")).unwrap_or_default();
    runs.lines().count()
}

fn steps(kept: &Kept) -> String {
    programs(kept, 1).remove(0)
}

fn tasks(kept: &Kept) -> Vec<Value> {
    let tasks = kept.ok(&["ls", "--json"]).document();
    tasks.as_array().unwrap().clone()
}

#[test]
fn a_server_is_the_same_through_the_proxy() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let mut host = AgentHost::start(&kept, &[&server.url()], &json!({}));
    assert_eq!(host.handshake["serverInfo"]["name"], "longhaul-demo");
    assert_eq!(host.handshake["protocolVersion"], "2025-11-25");
    assert!(host.handshake["instructions"].is_string());
    let list = host.request("tools/list", &json!({}));
    let names: Vec<&str> = list["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"get_forecast"), "{names:?}");
    assert!(
        names.ends_with(&["longhaul_collect", "longhaul_tasks"]),
        "{names:?}"
    );
    let arguments = json!({"steps": 3, "step_ms": 1});
    let result = host.call("crunch", &arguments);
    let direct = kept.ok(&[
        "-s",
        &server.url(),
        "--json",
        "call",
        "crunch",
        "steps=3",
        "step_ms=1",
    ]);
    let direct = direct.events().pop().unwrap();
    assert_eq!(result["content"], direct["result"]["content"], "{direct}");
    // Its progress has the host's token, and rises.
    let progress = host.wait(|message| message["method"] == "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p");
    // Errors are the server's own.
    let unknown = host.request("tools/call", &json!({"name": "nothing"}));
    assert!(unknown["error"]["code"].as_i64() < Some(0), "{unknown}");
    let unknown = host.request("nonsense", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    assert_eq!(host.request("ping", &json!({}))["result"], json!({}));
    host.close();
}

#[test]
fn a_call_that_takes_longer_than_the_host_waits_gets_a_ticket() {
    let kept = Kept::new();
    let server = steps(&kept);
    let mut host = AgentHost::start(&kept, &[&server, "--patience", "200ms"], &json!({}));
    let id = ticket(&host.call("work", &json!({})));
    // It can be waited for, by its id and by the same call.
    assert_eq!(
        ticket(&host.call("longhaul_collect", &json!({"id": id}))),
        id
    );
    assert_eq!(ticket(&host.call("work", &json!({}))), id);
    let open = host.call("longhaul_tasks", &json!({}));
    assert!(text(&open).contains(&id), "{open}");
    finish_steps(&kept);
    kept.ok(&["wait", &id]);
    let result = host.call("longhaul_collect", &json!({"id": id}));
    assert!(text(&result).ends_with(" steps"), "{result}");
    assert_eq!(runs(&kept), 1);
    // A result that the host has is never given to another call.
    assert!(text(&host.call("longhaul_tasks", &json!({}))).contains("No call is open"));
    let again = host.call("work", &json!({}));
    assert!(text(&again).ends_with(" steps"), "{again}");
    assert_eq!(runs(&kept), 2);
    let wrong = host.call("longhaul_collect", &json!({"id": "nothing"}));
    assert_eq!(wrong["isError"], true);
    host.close();
}

#[test]
fn a_result_is_delivered_once_its_end_was_read() {
    let kept = Kept::new();
    let server = steps(&kept);
    let mut host = AgentHost::start(&kept, &[&server, "--patience", "200ms"], &json!({}));
    let id = ticket(&host.call("work", &json!({"number": 3})));
    finish_steps(&kept);
    kept.ok(&["wait", &id]);
    for (from, length) in [(0, 1), (2, 1000), (1000, 1)] {
        let part = json!({"id": id, "from": from, "length": length});
        let part = host.call("longhaul_collect", &part);
        assert!(part.to_string().contains("(characters "), "{part}");
        assert!(text(&host.call("longhaul_tasks", &json!({}))).contains(&id));
    }
    let call = host.start_call("work", &json!({"number": 3.0}));
    let result = host.response(call)["result"].clone();
    assert!(text(&result).ends_with(" steps"), "{result}");
    // The host gave up before it read this.
    let params = json!({"requestId": call, "reason": "Request timed out"});
    host.notify("notifications/cancelled", &params);
    let result = host.call("work", &json!({"number": 3}));
    assert!(text(&result).ends_with(" steps"), "{result}");
    assert_eq!(runs(&kept), 1);
    host.close();
}

#[test]
fn a_result_can_be_collected_again_and_again() {
    let kept = Kept::new();
    let server = steps(&kept);
    let mut host = AgentHost::start(&kept, &[&server, "--patience", "200ms"], &json!({}));
    let id = ticket(&host.call("work", &json!({})));
    finish_steps(&kept);
    kept.ok(&["wait", &id]);
    for _ in 0..300 {
        let result = host.call("longhaul_collect", &json!({"id": id}));
        assert!(text(&result).ends_with(" steps"), "{result}");
    }
    host.close();
}

#[test]
fn a_call_that_is_cancelled_and_repeated_at_once_runs_once() {
    let kept = Kept::new();
    let server = steps(&kept);
    // No ticket, although the host seems to give up early.
    let mut host = AgentHost::start(&kept, &[&server, "--patience", "off"], &json!({}));
    let call = host.start_call("work", &json!({}));
    // Before the host can know that the call has started.
    let params = json!({"requestId": call, "reason": "Request timed out"});
    host.notify("notifications/cancelled", &params);
    let mut again = host.start_call("work", &json!({}));
    host.wait(|message| message["method"] == "notifications/progress");
    // The same for its repeats, which get the task of the first call.
    for _ in 0..3 {
        let params = json!({"requestId": again, "reason": "Request timed out"});
        host.notify("notifications/cancelled", &params);
        again = host.start_call("work", &json!({}));
    }
    host.wait(|message| message["method"] == "notifications/progress");
    finish_steps(&kept);
    let result = host.response(again);
    assert!(text(&result["result"]).ends_with(" steps"), "{result}");
    assert_eq!(runs(&kept), 1);
    host.close();
}

#[test]
fn a_result_that_was_read_is_not_given_to_a_call_after_the_keeper_ends() {
    let kept = Kept::new();
    let server = steps(&kept);
    let mut host = AgentHost::start(&kept, &[&server], &json!({}));
    finish_steps(&kept);
    for run in 1..=3 {
        let result = host.call("work", &json!({}));
        assert!(text(&result).ends_with(" steps"), "{result}");
        assert_eq!(runs(&kept), run);
        match run {
            1 => drop(kept.ok(&["keeper", "stop"])),
            _ => kept.kill_keeper(),
        }
    }
    host.close();
}

#[test]
fn a_result_that_one_host_has_is_not_given_to_another_one() {
    let kept = Kept::new();
    let server = steps(&kept);
    let start = || AgentHost::start(&kept, &[&server], &json!({}));
    let (mut first, mut second) = (start(), start());
    finish_steps(&kept);
    first.call("work", &json!({}));
    kept.ok(&["keeper", "stop"]);
    second.call("work", &json!({}));
    assert_eq!(runs(&kept), 2);
    kept.kill_keeper();
    first.call("work", &json!({}));
    assert_eq!(runs(&kept), 3);
    first.close();
    second.close();
}

/// Two sessions of a host that made the same call: the first has its ticket, with the task's id, and the second waits.
fn ticket_and_waiting(
    kept: &Kept,
    start: impl Fn(&'static str) -> AgentHost,
) -> (AgentHost, String, AgentHost, u64) {
    let mut first = start("200ms");
    let id = ticket(&first.call("work", &json!({})));
    let mut second = start("off");
    let call = second.start_call("work", &json!({}));
    until("the second one waits too", || {
        tasks(kept)[0]["caller"]["repeats"] == 1
    });
    (first, id, second, call)
}

#[test]
fn a_host_that_gave_up_does_not_free_a_result_that_another_one_has() {
    let kept = Kept::new();
    let server = steps(&kept);
    let start = |patience| AgentHost::start(&kept, &[&server, "--patience", patience], &json!({}));
    let (mut first, id, mut second, call) = ticket_and_waiting(&kept, start);
    ticket(&first.call("longhaul_collect", &json!({"id": id})));
    finish_steps(&kept);
    second.response(call);
    assert_eq!(runs(&kept), 1);
    let mut third = start("off");
    third.call("work", &json!({}));
    assert_eq!(runs(&kept), 2);
    for host in [first, second, third] {
        host.close();
    }
}

#[test]
fn a_ticket_is_good_while_another_session_waits() {
    let kept = Kept::new();
    let server = steps(&kept);
    let start = |patience| AgentHost::start(&kept, &[&server, "--patience", patience], &json!({}));
    let (mut first, id, mut second, waiting) = ticket_and_waiting(&kept, start);
    assert_eq!(ticket(&first.call("work", &json!({}))), id);
    // The session is restarted, and its agent still has the ticket.
    first.kill();
    let mut first = start("200ms");
    assert_eq!(ticket(&first.call("work", &json!({}))), id);
    finish_steps(&kept);
    second.response(waiting);
    // From now on the second one has the result, but the first one does not.
    second.request("ping", &json!({}));
    let mut has_result = || text(&first.call("work", &json!({}))).ends_with(" steps");
    until("the first one has it too", &mut has_result);
    assert_eq!(runs(&kept), 1);
    second.call("work", &json!({}));
    until("a new call ends", &mut has_result);
    assert_eq!(runs(&kept), 3);
    first.close();
    second.close();
}

#[test]
fn a_cancel_ends_only_the_wait_of_its_own_session() {
    let kept = Kept::new();
    let server = steps(&kept);
    let start = || AgentHost::start(&kept, &[&server, "--patience", "off"], &json!({}));
    let (mut first, mut second) = (start(), start());
    let cancel = |host: &mut AgentHost, call: u64, reason: &str| {
        let params = json!({"requestId": call, "reason": reason});
        host.notify("notifications/cancelled", &params);
        text(&host.call("longhaul_tasks", &json!({}))).to_owned()
    };
    let call = first.start_call("work", &json!({}));
    until("it runs", || runs(&kept) == 1);
    cancel(&mut first, call, "Request timed out");
    let waiting = second.start_call("work", &json!({}));
    until("the second one waits", || {
        tasks(&kept)[0]["caller"]["repeats"] == 1
    });
    let task = tasks(&kept).remove(0);
    let collect = json!({"name": "longhaul_collect", "arguments": {"id": task["id"]}, "_meta": {"progressToken": "q"}});
    let collecting = first.ask("tools/call", &collect);
    first.wait(|message| message["params"]["progressToken"] == "q");
    cancel(&mut first, collecting, "The user interrupted");
    // For the host that stopped it, the next call is a new one.
    let other = first.start_call("work", &json!({}));
    until("a new call runs", || runs(&kept) == 2);
    finish_steps(&kept);
    for (host, call) in [(&mut first, other), (&mut second, waiting)] {
        let result = host.response(call);
        assert!(text(&result["result"]).ends_with(" steps"), "{result}");
    }
    assert!(!kept.was_cancelled(&task));
    first.close();
    second.close();
}

#[test]
fn a_host_that_closes_has_read_its_results() {
    let kept = Kept::new();
    let server = steps(&kept);
    let start = || AgentHost::start(&kept, &[&server], &json!({}));
    finish_steps(&kept);
    for run in 1..=2 {
        let mut host = start();
        host.call("work", &json!({}));
        assert_eq!(runs(&kept), run);
        host.close();
    }
}

#[test]
fn a_host_that_is_killed_gets_its_last_result_again() {
    let kept = Kept::new();
    let server = steps(&kept);
    finish_steps(&kept);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": modern(json!({"name": "work"}))});
    let mut command = kept.command(&["proxy", &server]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut proxy = command.current_dir(kept.path()).spawn().unwrap();
    let (mut input, output) = (proxy.stdin.take().unwrap(), proxy.stdout.take().unwrap());
    writeln!(input, "{call}").unwrap();
    let mut lines = BufReader::new(output).lines();
    let is_result = |line: Result<String, _>| line.unwrap().contains("\"result\"");
    assert!(lines.by_ref().any(is_result));
    drop((input, lines));
    assert!(proxy.wait().unwrap().success());
    let mut host = AgentHost::connect(&kept, &[&server]);
    let again = modern(json!({"name": "work"}));
    let result = host.request("tools/call", &again)["result"].take();
    assert!(text(&result).ends_with(" steps"), "{result}");
    assert_eq!(runs(&kept), 1);
    host.close();
}

#[test]
fn a_call_made_just_before_the_host_closes_is_run() {
    let kept = Kept::new();
    let server = steps(&kept);
    for number in 1..=5 {
        let mut host = AgentHost::start(&kept, &[&server], &json!({}));
        host.start_call("work", &json!({"number": number}));
        host.close();
        assert_eq!(tasks(&kept).len(), number);
    }
    finish_steps(&kept);
    for task in tasks(&kept) {
        kept.ok(&["wait", task["id"].as_str().unwrap()]);
    }
    assert_eq!(runs(&kept), 5);
}

#[test]
fn a_host_that_is_killed_finds_its_call_again() {
    let kept = Kept::new();
    let server = steps(&kept);
    let mut first = AgentHost::start(&kept, &[&server], &json!({}));
    first.start_call("work", &json!({"a": 1, "b": [2]}));
    first.wait(|message| message["method"] == "notifications/progress");
    let id = tasks(&kept)[0]["id"].as_str().unwrap().to_owned();
    first.kill();
    let mut second = AgentHost::start(&kept, &[&server], &json!({}));
    // Other arguments are another call.
    let other = second.start_call("work", &json!({"a": 2}));
    let same = second.start_call("work", &json!({"b": [2], "a": 1}));
    until("the other call runs", || runs(&kept) == 2);
    finish_steps(&kept);
    second.response(same);
    second.response(other);
    assert_eq!(runs(&kept), 2);
    assert_eq!(tasks(&kept).len(), 2);
    let shown = kept.ok(&["show", &id, "--json"]).document();
    assert_eq!(shown["status"], "completed", "{shown}");
    second.close();
}

#[test]
fn a_result_that_nobody_collected_is_kept() {
    let kept = Kept::new();
    let server = steps(&kept);
    let mut first = AgentHost::start(&kept, &[&server], &json!({}));
    first.start_call("work", &json!({}));
    first.wait(|message| message["method"] == "notifications/progress");
    let id = tasks(&kept)[0]["id"].as_str().unwrap().to_owned();
    first.kill();
    let rm = || kept.command(&["rm", &id]).output().unwrap().status.code();
    assert_eq!(rm(), Some(2), "it asks first");
    finish_steps(&kept);
    kept.ok(&["wait", &id]);
    assert_eq!(rm(), Some(2), "it asks first");
    let cleaned = kept.ok(&["clean", "--json"]).document();
    assert_eq!(cleaned, json!({"removed": [], "kept": [id]}));
    let mut second = AgentHost::start(&kept, &[&server], &json!({}));
    let open = second.call("longhaul_tasks", &json!({}));
    assert!(text(&open).contains(&id), "{open}");
    let result = second.call("work", &json!({}));
    assert!(text(&result).ends_with(" steps"), "{result}");
    assert_eq!(runs(&kept), 1);
    second.close();
}

#[test]
fn a_host_that_gave_up_once_gets_its_tickets_earlier() {
    let kept = Kept::new();
    let server = steps(&kept);
    let mut host = AgentHost::start(&kept, &[&server], &json!({}));
    let call = host.start_call("work", &json!({}));
    host.wait(|message| message["method"] == "notifications/progress");
    // The same reason for a timeout and for a person, as one host writes it.
    let reason = "MCP request cancelled by caller";
    let params = json!({"requestId": call, "reason": reason});
    host.notify("notifications/cancelled", &params);
    // Made again at once, so it was a timeout: the patience is at most what the host has shown.
    let id = ticket(&host.call("work", &json!({})));
    host.close();
    let mut host = AgentHost::start(&kept, &[&server], &json!({}));
    assert_eq!(ticket(&host.call("work", &json!({}))), id);
    assert_eq!(runs(&kept), 1);
    finish_steps(&kept);
    host.close();
}

#[test]
fn two_equal_calls_at_the_same_time_are_two_calls() {
    let kept = Kept::new();
    let server = steps(&kept);
    let mut host = AgentHost::start(&kept, &[&server], &json!({}));
    let ids = [1, 2].map(|_| host.start_call("work", &json!({})));
    until("both run", || runs(&kept) == 2);
    finish_steps(&kept);
    for id in ids {
        assert!(text(&host.response(id)["result"]).ends_with(" steps"));
    }
    host.close();
}

#[test]
fn many_large_calls_at_once_do_not_block_each_other() {
    const CALLS: u64 = 200;
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let mut host = AgentHost::start(&kept, &[&server.url()], &json!({}));
    // More in each direction than the sockets in between hold.
    let padding = "x".repeat(20_000);
    let arguments =
        |number| json!({"steps": 1, "step_ms": 0, "number": number, "padding": padding});
    let ids: Vec<u64> = (0..CALLS)
        .map(|number| host.start_call("crunch", &arguments(number)))
        .collect();
    for id in ids {
        let response = host.response(id);
        assert!(text(&response["result"]).contains("1 step"), "{response}");
    }
    host.close();
}

#[test]
fn a_cancel_counts_if_the_host_exits_right_after_it() {
    let kept = Kept::new();
    let name = steps(&kept);
    for number in 1..=10 {
        let mut host = AgentHost::start(&kept, &[&name], &json!({}));
        let call = host.start_call("work", &json!({"number": number}));
        host.wait(|message| message["method"] == "notifications/progress");
        let cancel = json!({"requestId": call, "reason": "User pressed Esc"});
        host.notify("notifications/cancelled", &cancel);
        host.close();
    }
    let tasks = tasks(&kept);
    assert_eq!(tasks.len(), 10);
    for task in tasks {
        until("the call is cancelled", || kept.was_cancelled(&task));
    }
}

#[test]
fn a_cancel_ends_the_call_only_if_a_person_stopped_it() {
    let kept = Kept::new();
    let server = steps(&kept);
    let mut host = AgentHost::start(&kept, &[&server], &json!({}));
    let cancelled = |host: &mut AgentHost, reason: &str, number: usize| {
        let id = host.start_call("work", &json!({"number": number}));
        until("it runs", || runs(&kept) == number);
        let params = json!({"requestId": id, "reason": reason});
        host.notify("notifications/cancelled", &params);
    };
    cancelled(
        &mut host,
        "McpError: MCP error -32001: Request timed out",
        1,
    );
    cancelled(&mut host, "the user pressed Esc", 2);
    let tasks = tasks(&kept);
    let (second, first) = (&tasks[0], &tasks[1]);
    until("the second one is cancelled", || kept.was_cancelled(second));
    assert!(!kept.was_cancelled(first), "{first}");
    finish_steps(&kept);
    kept.ok(&["wait", first["id"].as_str().unwrap()]);
    let result = host.call("work", &json!({"number": 1}));
    assert!(text(&result).ends_with(" steps"), "{result}");
    assert_eq!(runs(&kept), 2);
    host.close();
}

#[test]
fn a_call_outlives_the_keeper_as_if_cut_says() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let mut host = AgentHost::start(&kept, &[&server.url()], &json!({}));
    let arguments = json!({"city": "Rome", "stations": 20, "delay_ms": 50});
    let id = host.start_call("get_forecast", &arguments);
    host.wait(|message| message["method"] == "notifications/progress");
    kept.kill_keeper();
    let result = host.response(id);
    assert!(text(&result["result"]).starts_with("Rome"), "{result}");
    assert_eq!(tasks(&kept).len(), 1);
    host.close();
}

#[test]
fn a_call_that_a_stopped_keeper_ended_is_answered() {
    let kept = Kept::new();
    let server = steps(&kept);
    let mut host = AgentHost::start(&kept, &[&server, "--patience", "off"], &json!({}));
    let id = host.start_call("work", &json!({}));
    host.wait(|message| message["method"] == "notifications/progress");
    kept.ok(&["keeper", "stop"]);
    // Nothing is asked meanwhile, so no keeper runs again.
    let result = host.response(id);
    assert!(text(&result["result"]).contains("is lost"), "{result}");
    assert_eq!(kept.keeper(), None);
    host.close();
}

#[test]
fn a_question_goes_to_the_host_and_to_the_screen() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let forms = json!({"elicitation": {"form": {}}});
    let mut host = AgentHost::start(&kept, &[&server.url()], &forms);
    let asks = |message: &Value| message["method"] == "elicitation/create";
    let deploy = |env: &str| json!({"env": env, "steps": 2, "step_ms": 1});
    let by_host = host.start_call("deploy", &deploy("lab"));
    let question = host.wait(asks);
    let release = json!({"version": "1.2.3", "strategy": "rolling"});
    let answer = json!({"action": "accept", "content": release});
    host.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    let result = host.response(by_host);
    assert!(text(&result["result"]).contains("1.2.3"), "{result}");
    let by_person = host.start_call("deploy", &deploy("prod"));
    let question = host.wait(asks);
    let task = tasks(&kept)[0]["id"].as_str().unwrap().to_owned();
    kept.ok(&["answer", &task, "--decline"]);
    let withdrawn = host.wait(|message| message["method"] == "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    host.response(by_person);
    host.close();
}

/// Parameters of the modern era, from a host that shows forms.
fn modern(mut params: Value) -> Value {
    let key = |name: &str| format!("io.modelcontextprotocol/{name}");
    params["_meta"] = json!({
        key("protocolVersion"): "2026-07-28",
        key("clientInfo"): {"name": "modern-host", "version": "2"},
        key("clientCapabilities"): {"elicitation": {"form": {}}},
    });
    params
}

#[test]
fn a_host_without_a_handshake_is_served_too() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let mut host = AgentHost::connect(&kept, &[&server.url()]);
    let mut ask = |method: &str, params: Value| host.request(method, &modern(params));
    let found = ask("server/discover", json!({}))["result"].take();
    assert_eq!(found["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(
        (&found["resultType"], &found["ttlMs"]),
        (&json!("complete"), &json!(0))
    );
    let name = found.pointer("/_meta/io.modelcontextprotocol~1serverInfo/name");
    assert_eq!(name, Some(&json!("longhaul-demo")), "{found}");
    let list = ask("tools/list", json!({}))["result"].take();
    assert_eq!(list["cacheScope"], "private");
    assert!(list["tools"].as_array().unwrap().len() > 2);
    let call = json!({"name": "crunch", "arguments": {"steps": 1, "step_ms": 1}});
    let result = ask("tools/call", call)["result"].take();
    assert_eq!(result["resultType"], "complete", "{result}");
    // A question comes as a result; the call is made again with the answer.
    let arguments = json!({"env": "lab", "steps": 2, "step_ms": 1});
    let call = json!({"name": "deploy", "arguments": arguments});
    let mut again = call.clone();
    let asked = ask("tools/call", call)["result"].take();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let requests = asked["inputRequests"].as_object().unwrap();
    let release = json!({"version": "1.2.3", "strategy": "rolling"});
    let answer = json!({"action": "accept", "content": release});
    let answers = requests.keys().map(|key| (key.clone(), answer.clone()));
    again["inputResponses"] = Value::Object(answers.collect());
    again["requestState"] = asked["requestState"].clone();
    let result = ask("tools/call", again)["result"].take();
    assert!(text(&result).contains("1.2.3"), "{result}");
    assert_eq!(tasks(&kept).len(), 2);
    let id = host.ask(
        "subscriptions/listen",
        &modern(json!({"notifications": {"toolsListChanged": true, "other": 1}})),
    );
    let accepted =
        host.wait(|message| message["method"] == "notifications/subscriptions/acknowledged");
    // The demo's tools never change.
    assert_eq!(accepted["params"]["notifications"], json!({}));
    let subscription = accepted.pointer("/params/_meta/io.modelcontextprotocol~1subscriptionId");
    assert_eq!(subscription, Some(&json!(id)));
    let mut old = modern(json!({}));
    old["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let refused = host.request("tools/list", &old);
    assert_eq!(refused["error"]["code"], -32022);
    host.close();
}

#[test]
fn a_result_that_nobody_collects_expires() {
    let kept = Kept::new();
    let server = steps(&kept);
    let config = kept.path().join("config.toml");
    let servers = std::fs::read_to_string(&config).unwrap();
    write_atomically(
        &config,
        format!("[proxy]\nkeep = \"1ms\"\n{servers}").as_bytes(),
    )
    .unwrap();
    finish_steps(&kept);
    let mut host = AgentHost::start(&kept, &[&server], &json!({}));
    host.start_call("work", &json!({}));
    host.wait(|message| message["method"] == "notifications/progress");
    host.kill();
    let id = tasks(&kept)[0]["id"].as_str().unwrap().to_owned();
    kept.ok(&["wait", &id]);
    let mut host = AgentHost::start(&kept, &[&server], &json!({}));
    let collected = host.call("longhaul_collect", &json!({"id": id}));
    let why = text(&collected);
    assert!(why.contains("nobody collected the result"), "{why}");
    assert!(text(&host.call("longhaul_tasks", &json!({}))).starts_with("No call is open"));
    let again = host.call("work", &json!({}));
    assert!(text(&again).ends_with(" steps"), "{again}");
    assert_eq!(runs(&kept), 2);
    host.close();
}

#[test]
fn a_ticket_says_why_a_call_is_not_sent() {
    let kept = Kept::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", free.local_addr().unwrap());
    drop(free);
    let mut host = AgentHost::connect(&kept, &[&url, "--patience", "200ms"]);
    let call = modern(json!({"name": "work"}));
    until("the server can't be reached", || {
        let ticket = host.request("tools/call", &call);
        text(&ticket["result"]).contains("not sent to the server yet: connection refused")
    });
    let listed = kept.ok(&["ls"]).out;
    assert!(listed.contains("refused"), "{listed}");
    let why = tasks(&kept)[0]["contact_reason"].clone();
    assert!(why.to_string().contains("refused"), "{why}");
    host.close();
}

#[test]
fn a_tool_that_never_attaches_runs_again() {
    let kept = Kept::new();
    let server = steps(&kept);
    let config = kept.path().join("config.toml");
    let servers = std::fs::read_to_string(&config).unwrap();
    let setting = format!("[servers.{server}.proxy.attach]\nwork = \"never\"\n");
    write_atomically(&config, format!("{servers}\n{setting}").as_bytes()).unwrap();
    let mut host = AgentHost::start(&kept, &[&server], &json!({}));
    host.start_call("work", &json!({}));
    host.wait(|message| message["method"] == "notifications/progress");
    host.kill();
    let mut host = AgentHost::start(&kept, &[&server], &json!({}));
    let second = host.start_call("work", &json!({}));
    host.wait(|message| message["method"] == "notifications/progress");
    finish_steps(&kept);
    host.response(second);
    assert_eq!(runs(&kept), 2);
    host.close();
}

#[test]
fn a_call_that_a_person_stopped_is_not_attached_to() {
    let kept = Kept::new();
    let mut host = AgentHost::start(&kept, &[&steps(&kept)], &json!({}));
    let first = host.start_call("work", &json!({}));
    host.wait(|message| message["method"] == "notifications/progress");
    // The server does not answer a call that was cancelled.
    let cancel = json!({"requestId": first, "reason": "the user pressed Esc"});
    host.notify("notifications/cancelled", &cancel);
    finish_steps(&kept);
    let again = host.call("work", &json!({}));
    assert!(text(&again).ends_with(" steps"), "{again}");
    assert_eq!(runs(&kept), 2);
    host.close();
}

#[test]
fn a_silent_host_that_calls_again_is_attached() {
    // The second name is that of the Python SDK.
    for name in ["gemini-cli-mcp-client", "mcp"] {
        let kept = Kept::new();
        let mut host = AgentHost::connect(&kept, &[&steps(&kept)]);
        let info = json!({"name": name, "version": "1"});
        let handshake =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        host.request("initialize", &handshake);
        host.notify("notifications/initialized", &json!({}));
        let first = host.start_call("work", &json!({}));
        let progress = |message: &Value| message["method"] == "notifications/progress";
        // A step comes every second.
        for _ in 0..5 {
            host.wait(progress);
        }
        let second = host.start_call("work", &json!({}));
        finish_steps(&kept);
        let (first, second) = (host.response(first), host.response(second));
        assert!(text(&first["result"]).ends_with(" steps"), "{first}");
        // It may have got a ticket, because this host has just shown how long it waits.
        let is_ticket = text(&second["result"]).contains("longhaul_collect");
        assert!(is_ticket && name == "mcp" || first["result"] == second["result"]);
        assert_eq!(runs(&kept), 1);
        host.close();
    }
}

#[test]
fn a_call_that_is_removed_is_answered() {
    let kept = Kept::new();
    let mut host = AgentHost::start(&kept, &[&steps(&kept)], &json!({}));
    let call = host.start_call("work", &json!({}));
    host.wait(|message| message["method"] == "notifications/progress");
    let id = tasks(&kept)[0]["id"].as_str().unwrap().to_owned();
    kept.ok(&["rm", "--yes", &id]);
    let result = host.response(call);
    let why = text(&result["result"]);
    assert!(why.contains("was removed"), "{why}");
    host.close();
}

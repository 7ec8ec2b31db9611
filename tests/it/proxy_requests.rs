//! `longhaul proxy`: what a server asks its host for.

#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::{StreamExt as _, stream};
use longhaul::store::write_atomically;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{
    agent_host::{AgentHost, text},
    kept::{Kept, approve_script, until},
    server,
};

/// What `stdio_host.sh` has heard.
fn heard(kept: &Kept) -> String {
    std::fs::read_to_string(kept.path().join("heard")).unwrap_or_default()
}

fn respond(host: &mut AgentHost, request: &Value, result: &Value) {
    host.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
}

fn asks_for(method: &'static str) -> impl Fn(&Value) -> bool {
    move |message| message["method"] == method
}

#[test]
fn sampling_goes_to_the_host_that_made_the_call() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let mut host = AgentHost::start(&kept, &["asking"], &json!({"sampling": {}}));
    let call = host.start_call("sample", &json!({}));
    let request = host.wait(asks_for("sampling/createMessage"));
    assert_eq!(request["params"], json!({"messages": [], "maxTokens": 7}));
    let message =
        json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"});
    respond(&mut host, &request, &message);
    let result = host.response(call);
    assert_eq!(text(&result["result"]), "the model said hi");
    // A refusal gets through too.
    let call = host.start_call("sample", &json!({}));
    let request = host.wait(asks_for("sampling/createMessage"));
    let error = json!({"code": -1, "message": "no"});
    host.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    let result = host.response(call);
    assert_eq!(text(&result["result"]), "refused with -1");
    let heard = heard(&kept);
    assert!(heard.contains("test-host via longhaul"), "{heard}");
    assert!(heard.contains(r#""sampling":{}"#), "{heard}");
    host.close();
}

#[test]
fn each_of_many_requests_at_once_is_answered() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let mut host = AgentHost::start(&kept, &["asking"], &json!({"sampling": {}}));
    host.start_call("many", &json!({}));
    until("the server hears of the refusals", || {
        heard(&kept).matches("too many requests at once").count() == 44
    });
    for _ in 0..16 {
        let request = host.wait(asks_for("sampling/createMessage"));
        respond(&mut host, &request, &json!({"model": "m"}));
    }
    until("the server has the answers", || {
        heard(&kept).matches(r#""model":"m""#).count() == 16
    });
    let heard = heard(&kept);
    let has_answer = |n: &u32| heard.contains(&format!(r#""id":"m{n}""#));
    assert_eq!((1..=60).filter(has_answer).count(), 60, "{heard}");
    host.close();
}

#[test]
fn a_host_without_a_model_is_not_asked() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let mut host = AgentHost::start(&kept, &["asking"], &json!({}));
    let result = host.call("sample", &json!({}));
    assert_eq!(text(&result), "refused with -32601");
    assert!(!heard(&kept).contains("sampling"));
    host.close();
}

#[test]
fn a_server_hears_the_roots_of_all_hosts() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let roots = json!({"roots": {"listChanged": true}});
    let mut first = AgentHost::start(&kept, &["asking"], &roots);
    let root = |name: &str| json!({"roots": [{"uri": format!("file:///{name}")}]});
    let request = first.wait(asks_for("roots/list"));
    respond(&mut first, &request, &root("first"));
    until("the server hears of the first", || {
        heard(&kept).contains(r#""result":{"roots":[{"uri":"file:///first"}]}"#)
    });
    let mut second = AgentHost::start(&kept, &["asking"], &roots);
    let request = first.wait(asks_for("roots/list"));
    respond(&mut first, &request, &root("first"));
    let request = second.wait(asks_for("roots/list"));
    respond(&mut second, &request, &root("second"));
    let both = r#"[{"uri":"file:///first"},{"uri":"file:///second"}]"#;
    until("the server hears of both", || heard(&kept).contains(both));
    first.notify("notifications/roots/list_changed", &json!({}));
    let request = first.wait(asks_for("roots/list"));
    respond(&mut first, &request, &root("moved"));
    let request = second.wait(asks_for("roots/list"));
    respond(&mut second, &request, &root("second"));
    until("the server hears of the move", || {
        heard(&kept).contains("file:///moved")
    });
    first.close();
    second.close();
}

#[test]
fn an_idle_host_does_not_keep_the_keeper() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let mut host = AgentHost::start(&kept, &[&server.url()], &json!({}));
    let arguments = json!({"steps": 1, "step_ms": 1});
    host.call("crunch", &arguments);
    host.request("ping", &json!({}));
    until("the keeper exits", || kept.keeper().is_none());
    // The next call starts another one.
    let result = host.call("crunch", &arguments);
    assert!(text(&result).contains("1 step"), "{result}");
    assert!(kept.keeper().is_some());
    host.close();
}

/// What a server has received: each method with its session, and `ended` for the end of one.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<String>>>);

impl Received {
    #[track_caller]
    fn has(&self, lines: &[&str]) {
        let received = self.0.lock().unwrap();
        for line in lines {
            assert!(
                received.iter().any(|one| one == line),
                "{line}: {received:?}"
            );
        }
    }
}

/// A server with sessions `s1`, `s2`; it refuses the first `prompts/list` as of an unknown one.
fn server_with_sessions() -> (Received, String) {
    let received = Received::default();
    let list = Arc::clone(&received.0);
    let handle = async move |head: HeaderMap, body: String| -> Response {
        let message: Value = serde_json::from_str(&body).unwrap();
        let session = head.get("mcp-session-id");
        let session = session.map_or("-", |id| id.to_str().unwrap());
        let method = message["method"].as_str().unwrap_or_default();
        let count = {
            let mut received = list.lock().unwrap();
            let of = |method: &str| {
                received
                    .iter()
                    .filter(|one| one.starts_with(method))
                    .count()
            };
            let is_expired = method == "prompts/list" && of("prompts/list") == 0;
            let count = of("initialize ") + 1;
            received.push(format!("{method} {session}"));
            if is_expired {
                return StatusCode::NOT_FOUND.into_response();
            }
            count
        };
        let mut response = server::answer_with_one_tool("slow", "work", &message);
        if method == "initialize" {
            let id = format!("s{count}").parse().unwrap();
            response.headers_mut().insert("mcp-session-id", id);
        }
        response
    };
    let list = Arc::clone(&received.0);
    let ended = async move || list.lock().unwrap().push("ended".to_owned());
    let routes = post(handle).delete(ended);
    let addr = server::serve(Router::new().route("/mcp", routes));
    (received, format!("http://{addr}/mcp"))
}

#[test]
fn the_next_keeper_continues_the_session_of_an_idle_host() {
    let kept = Kept::new();
    let (received, url) = server_with_sessions();
    let mut host = AgentHost::start(&kept, &[&url], &json!({}));
    host.request("resources/list", &json!({}));
    until("the keeper exits", || kept.keeper().is_none());
    host.request("resources/read", &json!({"uri": "x:1"}));
    received.has(&["resources/list s1", "resources/read s1"]);
    let received = received.0.lock().unwrap();
    assert!(!received.contains(&"ended".to_owned()), "{received:?}");
    drop(received);
    host.close();
}

#[test]
fn a_host_reads_the_lists_again_after_the_server_was_restarted() {
    let kept = Kept::new();
    approve_script(&kept, "lists", "stdio28.sh");
    let mut host = AgentHost::start(&kept, &["lists"], &json!({}));
    host.call("count", &json!({}));
    let events = std::fs::read_to_string(kept.path().join("events")).unwrap();
    assert!(events.contains("listen"), "{events}");
    host.call("die", &json!({}));
    host.call("count", &json!({}));
    host.wait(|message| message["method"] == "notifications/tools/list_changed");
    host.close();
}

#[test]
fn a_keeper_stays_while_a_host_has_subscribed_to_a_resource() {
    let kept = Kept::new();
    let (_, url) = server_with_sessions();
    let mut host = AgentHost::start(&kept, &[&url], &json!({}));
    host.request("resources/subscribe", &json!({"uri": "x:1"}));
    let keeper = kept.keeper();
    // Longer than a keeper without work stays.
    until("the keeper is old", || {
        kept.keeper_age() > Duration::from_secs(12)
    });
    assert_eq!(kept.keeper(), keeper);
    host.request("resources/unsubscribe", &json!({"uri": "x:1"}));
    until("the keeper exits", || kept.keeper().is_none());
    host.close();
}

#[test]
fn a_restarted_server_hears_again_what_a_host_watches() {
    let kept = Kept::new();
    // Of the server's session, and of the one in which the host has subscribed.
    let (restart, restarts) = watch::channel(1);
    let (subscribe, subscribed) = watch::channel(0);
    let is_of = |head: &HeaderMap, session: u32| {
        let id = head.get("mcp-session-id");
        id.is_some_and(|id| id == format!("s{session}").as_str())
    };
    let now = restarts.clone();
    let handle = async move |head: HeaderMap, body: String| -> Response {
        let message: Value = serde_json::from_str(&body).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        let session = *now.borrow();
        let mut response = server::answer_with_one_tool("slow", "work", &message);
        if method == "initialize" {
            let id = format!("s{session}").parse().unwrap();
            response.headers_mut().insert("mcp-session-id", id);
        } else if !is_of(&head, session) {
            return StatusCode::NOT_FOUND.into_response();
        } else if method == "resources/subscribe" {
            subscribe.send_replace(session);
        }
        response
    };
    let when_subscribed = subscribed.clone();
    // Ends when the server is restarted.
    let stream = async move |head: HeaderMap| -> Response {
        let (mut now, mut subscribed) = (restarts.clone(), when_subscribed.clone());
        let session = *now.borrow_and_update();
        if !is_of(&head, session) {
            return StatusCode::NOT_FOUND.into_response();
        }
        let first = stream::once(async move {
            let _ = subscribed.wait_for(|it| *it == session).await;
            let changed = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                "params": {"uri": "x:1"}});
            Ok(format!("data: {changed}\n\n"))
        });
        let end = stream::once(async move {
            let _ = now.wait_for(|newest| *newest != session).await;
            Err::<String, _>(std::io::Error::other("restarted"))
        });
        let head = [("content-type", "text/event-stream")];
        (head, Body::from_stream(first.chain(end))).into_response()
    };
    let addr = server::serve(Router::new().route("/mcp", post(handle).get(stream)));
    let mut host = AgentHost::start(&kept, &[&format!("http://{addr}/mcp")], &json!({}));
    host.request("resources/subscribe", &json!({"uri": "x:1"}));
    host.wait(|message| message["method"] == "notifications/resources/updated");
    restart.send_replace(2);
    until("the new session has the subscription", || {
        *subscribed.borrow() == 2
    });
    host.close();
}

#[test]
fn a_request_that_an_expired_session_refuses_is_sent_again() {
    let kept = Kept::new();
    let (received, url) = server_with_sessions();
    let mut host = AgentHost::start(&kept, &[&url], &json!({}));
    host.request("prompts/list", &json!({}));
    received.has(&["prompts/list s1", "prompts/list s2"]);
    host.close();
}

#[test]
fn a_keeper_stays_until_a_request_of_a_host_is_answered() {
    let kept = Kept::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let (answer, answered) = watch::channel(false);
    let count = Arc::clone(&asked);
    let handle = async move |body: String| {
        let message: Value = serde_json::from_str(&body).unwrap();
        if message["method"] == "resources/read" {
            count.fetch_add(1, Ordering::Relaxed);
            answered.clone().wait_for(|is_so| *is_so).await.unwrap();
        }
        server::answer_with_one_tool("slow", "work", &message)
    };
    let addr = server::serve(Router::new().route("/mcp", post(handle)));
    let mut host = AgentHost::start(&kept, &[&format!("http://{addr}/mcp")], &json!({}));
    let read = host.ask("resources/read", &json!({"uri": "x://y"}));
    until("the server has the request", || {
        asked.load(Ordering::Relaxed) == 1
    });
    let keeper = kept.keeper();
    // Longer than a keeper without work stays.
    until("the keeper is old", || {
        kept.keeper_age() > Duration::from_secs(12)
    });
    assert_eq!(kept.keeper(), keeper);
    answer.send_replace(true);
    assert_eq!(host.response(read)["result"], json!({}));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    host.close();
}

#[test]
fn only_what_has_no_effect_is_repeated_after_the_keeper_dies() {
    let kept = Kept::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let (answer, answered) = watch::channel(false);
    let count = Arc::clone(&asked);
    let handle = async move |body: String| {
        let message: Value = serde_json::from_str(&body).unwrap();
        if matches!(
            message["method"].as_str(),
            Some("custom/deploy" | "resources/read")
        ) {
            count.fetch_add(1, Ordering::Relaxed);
            answered.clone().wait_for(|is_so| *is_so).await.unwrap();
        }
        server::answer_with_one_tool("slow", "work", &message)
    };
    let addr = server::serve(Router::new().route("/mcp", post(handle)));
    let mut host = AgentHost::start(&kept, &[&format!("http://{addr}/mcp")], &json!({}));
    let deploy = host.ask("custom/deploy", &json!({}));
    let read = host.ask("resources/read", &json!({"uri": "x://y"}));
    until("the server has both", || asked.load(Ordering::Relaxed) == 2);
    kept.kill_keeper();
    let refused = host.response(deploy);
    let why = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("may have run"), "{refused}");
    until("the server has the other one again", || {
        asked.load(Ordering::Relaxed) == 3
    });
    answer.send_replace(true);
    assert_eq!(host.response(read)["result"], json!({}));
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    // The next one is sent.
    assert_eq!(
        host.request("custom/deploy", &json!({}))["result"],
        json!({})
    );
    host.close();
}

#[test]
fn a_program_runs_in_the_directory_of_its_host() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let directories = ["one/app", "two/app"].map(|name| kept.path().join(name));
    // Both start before either server was reached.
    for directory in &directories {
        std::fs::create_dir_all(directory).unwrap();
    }
    let mut second = AgentHost::start_in(&directories[1], &kept, &["asking"]);
    let mut names = Vec::new();
    for directory in &directories {
        let mut hosts = [(); 2].map(|()| AgentHost::start_in(directory, &kept, &["asking"]));
        for host in &mut hosts {
            let result = host.call("where", &json!({}));
            let canonical = directory.canonicalize().unwrap();
            assert_eq!(text(&result), canonical.display().to_string());
        }
        let tasks = kept.ok(&["ls", "--all", "--json"]).document();
        names.push(tasks[0]["server"].as_str().unwrap().to_owned());
        kept.ok(&["keeper", "stop"]);
        let result = hosts[0].call("where", &json!({"after": "a restart"}));
        assert!(text(&result).ends_with("app"), "{result}");
        hosts.into_iter().for_each(AgentHost::close);
    }
    let result = second.call("where", &json!({"now": 1}));
    assert!(text(&result).ends_with("two/app"), "{result}");
    second.close();
    assert!(
        names[0] != names[1] && names[0].starts_with("asking@app-"),
        "{names:?}"
    );
    // All share what the user allows for the entry, and a command without a server means that one.
    let shown = kept.ok(&["servers", "test", &names[0]]);
    assert!(
        shown.out.starts_with(&format!("{}: answers in", names[0])),
        "{shown:?}"
    );
    kept.ok(&["tools"]);
    kept.ok(&["keeper", "stop"]);
    kept.ok(&["servers", "remove", "asking"]);
    assert_eq!(
        kept.ok(&["servers", "list", "--json"]).document(),
        json!([])
    );
}

#[test]
fn a_request_that_only_a_lost_host_can_answer_is_refused() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let mut host = AgentHost::start(&kept, &["asking"], &json!({"sampling": {}}));
    host.start_call("sample", &json!({}));
    host.wait(asks_for("sampling/createMessage"));
    host.kill();
    // After half a minute, in which the host could have come back.
    let tasks = kept.ok(&["ls", "--json"]).document();
    let id = tasks[0]["id"]
        .as_str()
        .map(str::to_owned)
        .unwrap_or_default();
    kept.ok(&["wait", &id]);
    let result = kept.ok(&["result", &id]);
    assert!(result.out.contains("refused with -1"), "{}", result.out);
}

#[test]
fn a_host_does_not_see_what_belongs_to_another_one() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let mut host = AgentHost::start(&kept, &["asking"], &json!({"sampling": {}}));
    let call = host.start_call("sample", &json!({}));
    let request = host.wait(asks_for("sampling/createMessage"));
    let tasks = kept.ok(&["ls", "--json"]).document();
    let id = json!({"id": tasks[0]["id"]});
    let sampling = json!({"sampling": {}});
    let mut other = AgentHost::start_as("other-host", &kept, &["asking"], &sampling);
    let collected = other.call("longhaul_collect", &id);
    assert!(
        text(&collected).starts_with("this host has no call"),
        "{collected}"
    );
    let list = other.call("longhaul_tasks", &json!({}));
    assert!(text(&list).starts_with("No call is open"), "{list}");
    let task = json!({"taskId": id["id"]});
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let refused = other.request(method, &task);
        assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
    }
    other.close();
    let message =
        json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"});
    respond(&mut host, &request, &message);
    assert_eq!(text(&host.response(call)["result"]), "the model said hi");
    host.close();
}

#[test]
fn hosts_that_share_a_server_keep_their_subscriptions_and_log_levels() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let mut first = AgentHost::start(&kept, &["asking"], &json!({}));
    let mut second = AgentHost::start(&kept, &["asking"], &json!({}));
    // What the server was told since it started, without ids.
    let told = || {
        let heard = heard(&kept);
        let heard = heard.rsplit(r#""method":"initialize""#).next();
        let lines = heard.unwrap_or_default().lines().skip(1);
        let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines = lines.filter(|line| line["method"].is_string());
        let told = lines.map(|line| {
            let params = &line["params"];
            let about = params["uri"].as_str().or_else(|| params["level"].as_str());
            let method = line["method"].as_str().unwrap_or_default();
            format!("{method} {}", about.unwrap_or_default())
        });
        told.collect::<Vec<_>>()
    };
    for host in [&mut first, &mut second] {
        host.request("resources/subscribe", &json!({"uri": "file:///a"}));
    }
    second.request("resources/subscribe", &json!({"uri": "file:///b"}));
    first.request("logging/setLevel", &json!({"level": "debug"}));
    // The other host still wants more.
    second.request("logging/setLevel", &json!({"level": "error"}));
    let response = first.request("resources/unsubscribe", &json!({"uri": "file:///a"}));
    assert_eq!(response["result"], json!({}));
    let before = [
        "resources/subscribe file:///a",
        "resources/subscribe file:///a",
        "resources/subscribe file:///b",
        "logging/setLevel debug",
        "logging/setLevel debug",
    ];
    assert_eq!(told(), before);
    // A new process knows nothing of it.
    let pid = std::fs::read_to_string(kept.path().join("pid")).unwrap_or_default();
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process id"), Signal::KILL).unwrap();
    until("the server was told again", || {
        first.request("tools/list", &json!({}));
        told().len() == 3
    });
    let after = [
        "logging/setLevel debug",
        "resources/subscribe file:///a",
        "resources/subscribe file:///b",
    ];
    assert_eq!(told(), after);
    second.request("resources/unsubscribe", &json!({"uri": "file:///a"}));
    assert_eq!(told()[3..], ["resources/unsubscribe file:///a"]);
    // What only a host wanted that has gone is dropped.
    first.close();
    until("the level of the other", || {
        told()[4..] == ["logging/setLevel error"]
    });
    second.close();
    until("no subscription is left", || {
        told()[5..] == ["resources/unsubscribe file:///b"]
    });
}

#[test]
fn progress_and_cancels_of_requests_that_are_not_calls_pass() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let mut first = AgentHost::start(&kept, &["asking"], &json!({}));
    let mut second = AgentHost::start(&kept, &["asking"], &json!({}));
    // Both use the same token; the server sees others.
    let params = json!({"name": "slow", "_meta": {"progressToken": 7}});
    let request = first.ask("prompts/get", &params);
    let step = first.wait(asks_for("notifications/progress"));
    assert_eq!(step["params"], json!({"progressToken": 7, "progress": 1}));
    first.notify(
        "notifications/cancelled",
        &json!({"requestId": request, "reason": "enough"}),
    );
    until("the server hears of the cancel", || {
        heard(&kept).contains(r#""reason":"enough""#)
    });
    let request = second.ask("prompts/get", &params);
    second.wait(asks_for("notifications/progress"));
    first.request("ping", &json!({}));
    assert!(!first.got("notifications/progress"));
    second.notify("notifications/cancelled", &json!({"requestId": request}));
    // What MCP doesn't define passes too, with all its digits.
    let wei = r#"{"jsonrpc":"2.0","method":"notifications/x/saved","params":{"wei":1180591620717411303424}}"#;
    first.send(&wei);
    until("the server hears of it", || heard(&kept).contains(wei));
    assert!(!heard(&kept).contains(r#""progressToken":7"#));
    first.close();
    second.close();
}

#[test]
fn a_question_about_a_prompt_is_for_the_host_that_asked_for_it() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let capabilities = json!({"elicitation": {}});
    let mut first = AgentHost::start(&kept, &["asking"], &capabilities);
    let prompt = first.ask("prompts/get", &json!({"name": "asks"}));
    let question = first.wait(asks_for("elicitation/create"));
    assert_eq!(question["params"]["message"], "Sure?");
    respond(
        &mut first,
        &question,
        &json!({"action": "accept", "content": {}, "_meta": {"a": 1}}),
    );
    assert_eq!(first.response(prompt)["result"], json!({"messages": []}));
    assert!(heard(&kept).contains(r#""_meta":{"a":1}"#));
    // While another host has a call, the question may be about that: only the person is asked.
    let mut other = AgentHost::start_as("other", &kept, &["asking"], &capabilities);
    let id = start_waiting(&kept, &mut other);
    let prompt = first.ask("prompts/get", &json!({"name": "asks"}));
    until("the person is asked", || {
        let listed = kept.run(&["ls", "--needs-you", "--json"]).document();
        listed[0]["status"] == "input-required"
    });
    let task = kept.run(&["ls", "--json"]).document()[0]["id"].clone();
    let answered = kept.run(&["answer", task.as_str().unwrap(), "--decline"]);
    assert_eq!(answered.code, Some(0), "{answered:#?}");
    assert_eq!(first.response(prompt)["result"], json!({"messages": []}));
    for host in [&mut first, &mut other] {
        host.request("ping", &json!({}));
        assert!(!host.got("elicitation/create"));
    }
    other.notify(
        "notifications/cancelled",
        &json!({"requestId": id, "reason": "user"}),
    );
    until("the call is cancelled", || {
        heard(&kept).contains("cancelled by the user")
    });
    // The request of a host that is gone is cancelled, and stands in nobody's way.
    first.ask("prompts/get", &json!({"name": "asks"}));
    first.wait(asks_for("elicitation/create"));
    first.kill();
    until("the server hears of it", || {
        heard(&kept).contains("the host has exited")
    });
    let call = other.start_call("ask", &json!({}));
    let question = other.wait(asks_for("elicitation/create"));
    respond(&mut other, &question, &json!({"action": "decline"}));
    assert_eq!(text(&other.response(call)["result"]), "answered");
    other.close();
}

/// Starts a call that does not end, and waits until it was sent.
fn start_waiting(kept: &Kept, host: &mut AgentHost) -> u64 {
    let call = host.start_call("wait", &json!({}));
    until("the call was sent", || {
        let running = kept.ok(&["ls", "--status", "running", "--json"]);
        running
            .document()
            .as_array()
            .is_some_and(|it| !it.is_empty())
    });
    call
}

#[test]
fn a_question_that_may_be_about_the_call_of_another_host_is_for_the_screen() {
    // The second one is another process of the same host in the same directory.
    for other in ["other-host", "test-host"] {
        let kept = Kept::new();
        approve_script(&kept, "asking", "stdio_host.sh");
        let forms = json!({"elicitation": {}, "sampling": {}});
        let mut host = AgentHost::start(&kept, &["asking"], &forms);
        let mut other = AgentHost::start_as(other, &kept, &["asking"], &forms);
        // Alone, a host answers itself.
        let call = host.start_call("ask", &json!({}));
        let request = host.wait(asks_for("elicitation/create"));
        let accept = json!({"action": "accept", "content": {}});
        respond(&mut host, &request, &accept);
        assert_eq!(text(&host.response(call)["result"]), "answered");
        start_waiting(&kept, &mut other);
        let call = host.start_call("ask", &json!({}));
        let mut asked = Vec::new();
        until("both calls show the question", || {
            let tasks = kept.ok(&["ls", "status:input-required", "--json"]);
            let tasks = tasks.document().as_array().cloned().unwrap_or_default();
            asked = tasks.into_iter().map(|task| task["id"].clone()).collect();
            asked.len() == 2
        });
        let id = asked[0].as_str().unwrap_or_default();
        kept.ok(&["answer", id, "--accept"]);
        assert_eq!(text(&host.response(call)["result"]), "answered");
        // Nobody at the screen can answer for a model.
        let refused = host.call("sample", &json!({}));
        assert!(text(&refused).starts_with("refused with -"), "{refused}");
        other.request("ping", &json!({}));
        for host in [&host, &other] {
            assert!(!host.got("elicitation/create") && !host.got("sampling/createMessage"));
        }
        host.close();
        other.close();
    }
}

#[test]
fn a_cancelled_call_of_another_host_does_not_stand_in_the_way() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let sampling = json!({"sampling": {}});
    let mut other = AgentHost::start_as("other-host", &kept, &["asking"], &sampling);
    let waiting = start_waiting(&kept, &mut other);
    let cancel = json!({"requestId": waiting, "reason": "the user pressed Esc"});
    other.notify("notifications/cancelled", &cancel);
    let tasks = kept.ok(&["ls", "--json"]).document();
    until("it is being cancelled", || kept.was_cancelled(&tasks[0]));
    let mut host = AgentHost::start(&kept, &["asking"], &sampling);
    let call = host.start_call("sample", &json!({}));
    let request = host.wait(asks_for("sampling/createMessage"));
    let message =
        json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"});
    respond(&mut host, &request, &message);
    assert_eq!(text(&host.response(call)["result"]), "the model said hi");
    host.close();
    other.close();
}

#[test]
fn a_page_that_has_to_be_visited_first_is_for_the_host() {
    let kept = Kept::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let page = json!({"mode": "url", "elicitationId": "e", "url": "https://pay.example/", "message": "Pay"});
    let error = json!({"code": -32042, "message": "pay first", "data": {"elicitations": [page]}});
    let sent = error.clone();
    let handle = async move |body: String| {
        let message: Value = serde_json::from_str(&body).unwrap();
        if message["method"] != "tools/call" {
            return server::answer_with_one_tool("shop", "buy", &message);
        }
        count.fetch_add(1, Ordering::Relaxed);
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "error": sent});
        ([("content-type", "application/json")], answer.to_string()).into_response()
    };
    let addr = server::serve(Router::new().route("/mcp", post(handle)));
    let pages = json!({"elicitation": {"url": {}}});
    let mut host = AgentHost::start(&kept, &[&format!("http://{addr}/mcp")], &pages);
    let call = host.start_call("buy", &json!({}));
    assert_eq!(host.response(call)["error"], error);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    host.close();
}

/// Waits until a call asks something, and returns its id.
fn asks(kept: &Kept) -> String {
    let mut id = None;
    until("it asks", || {
        let tasks = kept.ok(&["ls", "status:input-required", "--json"]);
        id = tasks.document()[0]["id"].as_str().map(str::to_owned);
        id.is_some()
    });
    id.unwrap()
}

#[test]
fn a_changed_command_applies_once_its_program_is_not_in_use() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let mut host = AgentHost::start(&kept, &["asking"], &json!({}));
    host.request("resources/subscribe", &json!({"uri": "file:///a"}));
    let asking = host.start_call("ask", &json!({}));
    let id = asks(&kept);
    let pid = || std::fs::read_to_string(kept.path().join("pid")).unwrap();
    let before = pid();
    let config = kept.path().join("config.toml");
    let entry = std::fs::read_to_string(&config).unwrap() + "env = { NEW = \"1\" }\n";
    write_atomically(&config, entry.as_bytes()).unwrap();
    kept.ok(&["servers", "approve", "asking", "--yes"]);
    assert_eq!(pid(), before);
    kept.ok(&["answer", &id, "--accept"]);
    assert_eq!(text(&host.response(asking)["result"]), "answered");
    let old = Pid::from_raw(before.trim().parse().unwrap()).unwrap();
    until("the old one has ended", || test_kill_process(old).is_err());
    // The host's subscription needs the new one.
    until("it subscribes again", || {
        heard(&kept).matches("resources/subscribe").count() == 2
    });
    assert_ne!(pid(), before);
    // Without any command, from the next request on.
    let newest = pid();
    let approved = std::fs::read_to_string(&config).unwrap();
    let entry = approved.replace("NEW = \"1\"", "NEW = \"2\"");
    write_atomically(&config, entry.as_bytes()).unwrap();
    let waiting = host.start_call("where", &json!({}));
    until("it waits for approval", || {
        let tasks = kept.ok(&["ls", "status:queued", "--json"]).document();
        tasks[0]["contact"] == "needs-login"
    });
    write_atomically(&config, approved.as_bytes()).unwrap();
    kept.ok(&["servers", "approve", "asking", "--yes"]);
    host.response(waiting);
    assert_ne!(pid(), newest);
    host.close();
}

#[test]
fn what_a_host_can_do_is_declared_once_the_server_is_idle() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let mut host = AgentHost::start(&kept, &["asking"], &json!({}));
    host.start_call("ask", &json!({}));
    let id = asks(&kept);
    let mut other = AgentHost::start(&kept, &["asking"], &json!({"sampling": {}}));
    host.close();
    assert!(!heard(&kept).contains("sampling"));
    kept.ok(&["answer", &id, "--accept"]);
    until("the server has the answer", || {
        other.request("resources/unsubscribe", &json!({"uri": "file:///a"}));
        heard(&kept).contains("sampling")
    });
    other.close();
}

#[test]
fn a_request_is_answered_although_the_keeper_is_stopped() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let mut host = AgentHost::start(&kept, &["asking"], &json!({}));
    let read = host.ask("resources/read", &json!({"uri": "file:///a"}));
    until("the server has it", || {
        heard(&kept).contains("resources/read")
    });
    std::fs::File::create(kept.path().join("readable")).unwrap();
    kept.ok(&["keeper", "stop"]);
    assert_eq!(host.response(read)["result"], json!({"contents": []}));
    host.close();
}

#[test]
fn numbers_that_are_none_become_null() {
    let kept = Kept::new();
    approve_script(&kept, "asking", "stdio_host.sh");
    let mut host = AgentHost::start(&kept, &["asking"], &json!({}));
    let result = host.call("nan", &json!({}));
    assert_eq!(
        result,
        json!({"content": [], "structuredContent": {"n": null}})
    );
    host.close();
}

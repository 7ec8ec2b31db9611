//! `keeper upgrade`: the keeper becomes another program, and every call continues.

#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use futures_util::{StreamExt as _, stream};
use longhaul::store::{CONTRACT, write_atomically};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use crate::support::{
    kept::{Kept, finish_steps, programs, until},
    program::Running,
    pty::{self, TestEnv},
    server,
};

const WIDE: (u16, u16) = (120, 36);

fn pids(kept: &Kept) -> Vec<Pid> {
    let pids = std::fs::read_to_string(kept.path().join("pids")).unwrap();
    let pid = |line: &str| Pid::from_raw(line.parse().unwrap()).unwrap();
    pids.lines().map(pid).collect()
}

/// A program that is run in place of longhaul.
fn program(kept: &Kept, name: &str, lines: &str) -> PathBuf {
    let path = kept.path().join(name);
    write_atomically(&path, format!("#!/bin/sh\n{lines}\n").as_bytes()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

/// Every step of the call came once, and its result says how many there were.
fn check_steps(kept: &Kept, id: &str) {
    let ended = kept.ok(&["wait", id, "--json"]).document();
    assert_eq!(ended["status"], "completed", "{ended}");
    let result = kept.ok(&["result", id]).out;
    let count: u32 = result.split(' ').next().unwrap().trim().parse().unwrap();
    let all: Vec<f64> = (1..=count).map(f64::from).collect();
    assert_eq!(kept.steps(id), all, "{id}: {result}");
}

#[test]
fn every_call_and_every_program_continues() {
    let kept = Kept::new();
    let lab = server::demo(kept.path().join("server"));
    let names = programs(&kept, 5);
    let mut ids: Vec<String> = Vec::new();
    for name in &names {
        for _ in 0..3 {
            ids.push(kept.detach(&["-s", name, "work"]));
        }
    }
    // It asks at once, which the exit code says.
    let asks = kept.run(&["-s", &names[0], "call", "--detach", "ask"]);
    let asks = asks.out.trim().to_owned();
    let weather = ["get_forecast", "city=Oslo", "stations=100", "delay_ms=100"];
    let stream = kept.detach(
        &[
            &["-s", &lab.url(), "--protocol", "2025-11-25"],
            &weather[..],
        ]
        .concat(),
    );
    let movie = ["render_movie", "scene=1", "frames=100", "frame_ms=100"];
    let task = kept.detach(&[&["-s", &lab.url()], &movie[..]].concat());
    for id in ids.iter().chain([&stream]) {
        until("it has made a step", || !kept.steps(id).is_empty());
    }
    let (keeper, before) = (kept.keeper().unwrap(), pids(&kept));
    for _ in 0..3 {
        let upgraded = kept.ok(&["keeper", "upgrade", "--json"]).document();
        assert_eq!(
            upgraded["keeper"]["unfinished"],
            ids.len() + 3,
            "{upgraded}"
        );
        assert_eq!(kept.keeper(), Some(keeper));
    }
    let at_once = || Running::start(&mut kept.command(&["keeper", "upgrade"]));
    for upgrade in [at_once(), at_once()] {
        let ran = upgrade.end();
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
    // Nothing was started again, and nothing has ended.
    assert_eq!(pids(&kept), before);
    assert!(before.iter().all(|pid| test_kill_process(*pid).is_ok()));
    kept.ok(&["answer", &asks, "--accept", "colour=red"]);
    kept.ok(&["wait", &asks]);
    assert_eq!(kept.ok(&["result", &asks]).out.trim(), "you said red");
    finish_steps(&kept);
    for id in &ids {
        check_steps(&kept, id);
    }
    for id in [&stream, &task] {
        let ended = kept.ok(&["wait", id, "--json"]).document();
        assert_eq!(ended["status"], "completed", "{ended}");
    }
    let all: Vec<f64> = (1..=100).map(f64::from).collect();
    assert_eq!(kept.steps(&stream), all);
}

#[test]
fn a_broken_program_changes_nothing() {
    let kept = Kept::new();
    let names = programs(&kept, 1);
    let id = kept.detach(&["-s", &names[0], "work"]);
    let longhaul = pty::program();
    let broken = [
        ("exits", "exit 3".to_owned()),
        ("talks", "echo hello >&0".to_owned()),
        (
            "forgets",
            r#"echo '{"contract":5,"version":"9","capabilities":[]}' >&0; head -c 16 > /dev/null"#
                .to_owned(),
        ),
        ("does something else", format!("exec {longhaul} paths")),
    ];
    for (name, lines) in broken {
        let program = program(&kept, name, &lines);
        let ran = kept.upgrade_to(&program);
        assert_eq!(ran.code, Some(2), "{name}: {ran:#?}");
        assert!(ran.err.contains("nothing has changed"), "{name}: {ran:#?}");
    }
    let ran = kept.upgrade_to(Path::new("/nowhere/longhaul"));
    assert!(ran.err.contains("No such file"), "{ran:#?}");
    finish_steps(&kept);
    check_steps(&kept, &id);
}

#[test]
fn a_newer_contract_serves_its_clients_and_the_older_ones() {
    let kept = Kept::new();
    let names = programs(&kept, 1);
    let id = kept.detach(&["-s", &names[0], "work"]);
    let env = TestEnv::at(kept.path().to_owned());
    let mut screen = env.open_with(&[("LONGHAUL_KEEPER", "1")], pty::program(), &[], WIDE);
    screen.wait_for_line(&["running", "work", "LOST"]);
    let newer = CONTRACT + 1;
    let lines = format!("LONGHAUL_CONTRACT={newer} exec {} \"$@\"", pty::program());
    let program = program(&kept, "newer", &lines);
    let ran = kept.upgrade_to(&program);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    // Older clients: a command, and the screen that was open all along.
    let status = kept.ok(&["keeper", "status", "--json"]).document();
    assert_eq!(status["keeper"]["contract"], newer, "{status}");
    let second = kept.detach(&["-s", &names[0], "work"]);
    screen.wait_for_line(&["running", &second]);
    // A newer one.
    let mut command = kept.command(&["-s", &names[0], "--json", "call", "work"]);
    let mut client = Running::start(command.env("LONGHAUL_CONTRACT", newer.to_string()));
    client.prints(|event| event["event"] == "progress");
    screen.press("q");
    assert_eq!(screen.end().0, 0);
    finish_steps(&kept);
    let ended = client.end();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    check_steps(&kept, &id);
    check_steps(&kept, &second);
    assert_eq!(pids(&kept).len(), 1);
}

#[test]
fn a_call_without_a_handle_holds_it_back() {
    let kept = Kept::new();
    let lab = server::demo(kept.path().join("server"));
    let plain = ["-s", &lab.url(), "--protocol", "2026-07-28", "crunch"];
    // It never makes a step, so it could still become a task.
    let endless = ["steps=2", "step_ms=600000"];
    let short = ["steps=20", "step_ms=100"];
    let id = kept.detach(&[&plain[..], &short[..]].concat());
    let waits = kept.ok(&["keeper", "upgrade"]);
    assert!(
        waits
            .err
            .contains("Waiting, because the upgrade would lose"),
        "{waits:#?}"
    );
    assert!(waits.err.contains(&id), "{waits:#?}");
    let shown = kept.ok(&["show", &id, "--json"]).document();
    assert_eq!(shown["status"], "completed", "{shown}");

    let id = kept.detach(&[&plain[..], &endless[..]].concat());
    let asked = kept.run(&["keeper", "upgrade", "--now"]);
    assert_eq!(asked.code, Some(2), "nobody said yes: {asked:#?}");
    let forced = kept.ok(&["keeper", "upgrade", "--now", "--yes"]);
    assert!(forced.err.contains(&id), "{forced:#?}");
    let ended = kept.run(&["wait", &id, "--json"]).document();
    assert_eq!(
        ended["status"], "unknown",
        "it might have become a task: {ended}"
    );
}

/// A server that wants a key with every request. A call makes a step, and its stream is then silent; asked for again, it
/// brings the result.
fn keyed_server() -> String {
    let call = Arc::new(Mutex::new(Value::Null));
    let has_key = |headers: &HeaderMap| headers.get("x-api-key").is_some_and(|it| it == "hunter22");
    let called = Arc::clone(&call);
    let answer = async move |headers: HeaderMap, body: String| -> Response {
        let message: Value = serde_json::from_str(&body).unwrap();
        if !has_key(&headers) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        if message["method"] != "tools/call" {
            return server::answer_with_one_tool("keyed", "work", &message);
        }
        let token = &message["params"]["_meta"]["progressToken"];
        let step = json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 1}});
        *called.lock().unwrap() = message["id"].clone();
        let step = format!("id: 1\ndata: {step}\n\n");
        let parts = stream::once(async { Ok::<_, std::io::Error>(step) }).chain(stream::pending());
        (
            [("content-type", "text/event-stream")],
            Body::from_stream(parts),
        )
            .into_response()
    };
    let resume = async move |headers: HeaderMap| -> Response {
        if !has_key(&headers) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        if headers.get("last-event-id").is_none() {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        let id = call.lock().unwrap().clone();
        let result = json!({"jsonrpc": "2.0", "id": id,
            "result": {"content": [{"type": "text", "text": "done"}]}});
        let event = format!("id: 2\ndata: {result}\n\n");
        ([("content-type", "text/event-stream")], event).into_response()
    };
    let router = Router::new().route("/mcp", post(answer).get(resume));
    format!("http://{}/mcp", server::serve(router))
}

#[test]
fn values_that_only_a_client_has_continue_too() {
    let kept = Kept::new();
    let url = keyed_server();
    let config =
        format!("[servers.lab]\nurl = {url:?}\nheaders = {{ X-Api-Key = \"${{LAB_KEY}}\" }}\n");
    write_atomically(&kept.path().join("config.toml"), config.as_bytes()).unwrap();
    kept.ok(&["servers", "approve", "lab", "--yes"]);
    let mut call = kept.command(&["-s", "lab", "call", "--detach", "work"]);
    let ran = crate::support::program::finish(call.env("LAB_KEY", "hunter22"));
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let id = ran.out.trim();
    let shown = kept.ok(&["show", id, "--json"]).document();
    assert_eq!(shown["status"], "running", "{shown}");
    kept.ok(&["keeper", "upgrade"]);
    let ended = kept.ok(&["wait", id, "--json"]).document();
    assert_eq!(ended["status"], "completed", "{ended}");
}

#[test]
fn a_killed_keeper_takes_inherited_programs_along() {
    let kept = Kept::new();
    let names = programs(&kept, 2);
    for name in &names {
        kept.detach(&["-s", name, "work"]);
    }
    kept.ok(&["keeper", "upgrade"]);
    let before = pids(&kept);
    kept.kill_keeper();
    for pid in before {
        until("the program has ended", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            test_kill_process(pid).is_err() || stat.contains(") Z ")
        });
    }
}

#[test]
fn an_inherited_program_that_ends_is_noticed() {
    let kept = Kept::new();
    let names = programs(&kept, 1);
    let id = kept.detach(&["-s", &names[0], "work"]);
    kept.ok(&["keeper", "upgrade"]);
    let pid = pids(&kept)[0];
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let ended = kept.run(&["wait", &id, "--json"]).document();
    assert_eq!(ended["status"], "lost", "{ended}");
    assert!(
        ended["reason"]
            .as_str()
            .unwrap()
            .contains("killed by signal 9"),
        "{ended}"
    );
    // The next call starts it again.
    let again = kept.detach(&["-s", &names[0], "work"]);
    finish_steps(&kept);
    check_steps(&kept, &again);
    assert_eq!(pids(&kept).len(), 2);
}

#[test]
fn says_that_there_is_nothing_to_upgrade() {
    let kept = Kept::new();
    let ran = kept.ok(&["keeper", "upgrade"]);
    assert!(ran.out.contains("no keeper is running"), "{ran:#?}");
}

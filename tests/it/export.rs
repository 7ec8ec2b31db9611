//! `export`: a trace for strangers. What is attacked is that a secret, or a handle that is as good as one, is in it, and
//! that a page of it runs or loads anything.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::path::Path;

use crate::support::{
    program::{Ran, finish, program, run},
    server,
};
use axum::{
    Router,
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// What the server calls its session, as long as such names are.
const SESSION: &str = "canary-session-9f31c0a4e7b2";
/// What must be in no trace, whatever was asked for.
const CANARIES: [&str; 8] = [
    SESSION,
    "canary-header",
    "canary-bearer",
    "canary-of-a-scheme",
    "canary-query",
    "canary-path-of-the-url",
    "canary-event-id",
    "canary-password",
];
const HOSTILE: &str = "<script>alert(1)</script>]]>\u{1b}[2J\u{202e}\u{0}\"'&</td>";

/// A server that says back whatever it was told, in every place where it can say something.
async fn loud(method: Method, headers: HeaderMap, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap_or_default();
    let of = |name: &str| {
        headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
            .to_owned()
    };
    let heard = format!(
        "{HOSTILE} {} {} {} {SESSION} heard-it",
        of("x-key"),
        of("authorization"),
        of("x-scheme").trim_start_matches("Key ")
    );
    let json = |result: &Value| {
        let headers = [
            ("content-type", "application/json"),
            ("mcp-session-id", SESSION),
        ];
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        (headers, answer.to_string()).into_response()
    };
    match message["method"].as_str() {
        Some("initialize") => json(
            &json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": HOSTILE, "version": "1"}}),
        ),
        Some("tools/list") => {
            let property = json!({"type": "string", "description": HOSTILE});
            let schema = json!({"type": "object", "properties": {"topic": property, "api_key": {"type": "string"}}});
            json(&json!({"tools": [{"name": "say", "inputSchema": schema}]}))
        }
        Some("tools/call") => {
            let token = &message["params"]["_meta"]["progressToken"];
            let step = |done: u32| {
                json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": done, "total": 3, "message": heard}})
            };
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "logger": HOSTILE, "data": heard}});
            let result = json!({"content": [{"type": "text", "text": heard}], "password": "canary-password"});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            let events = [step(1), log, step(2), answer];
            let event = |(number, event): (usize, &Value)| {
                format!("id: canary-event-id-{number}\ndata: {event}\n\n")
            };
            let body: String = events.iter().enumerate().map(event).collect();
            ([("content-type", "text/event-stream")], body).into_response()
        }
        None if method == Method::GET => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

/// A call whose every word is a canary or hostile; its state directory and id.
fn called() -> (tempfile::TempDir, String) {
    let addr = server::serve(Router::new().fallback(loud));
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{addr}/mcp/canary-path-of-the-url?key=canary-query");
    let words = [
        "-s",
        &url,
        "--protocol",
        "2025-06-18",
        "-H",
        "X-Key: canary-header",
        "-H",
        "X-Scheme: Key canary-of-a-scheme",
        "--bearer-env",
        "TOKEN",
        "call",
        "say",
        "topic=the subject <b>",
        "api_key=canary-password",
        "--name",
        "the name <i>",
        "--tag",
        "nightly",
        "--json",
    ];
    let ran = finish(program(dir.path(), &words).env("TOKEN", "canary-bearer"));
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let id = ran.events()[0]["id"].as_str().unwrap().to_owned();
    (dir, id)
}

/// The export with or without the environment of the call.
fn export(state: &Path, words: &[&str]) -> Ran {
    let global = [
        "-H",
        "X-Key: canary-header",
        "-H",
        "X-Scheme: Key canary-of-a-scheme",
        "--bearer-env",
        "TOKEN",
        "export",
    ];
    let words = [&global[..], words].concat();
    let ran = finish(program(state, &words).env("TOKEN", "canary-bearer"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:#?}");
    ran
}

#[test]
fn exports_no_secrets_and_content_only_on_request() {
    let (dir, id) = called();
    let state = dir.path();
    let plain = export(state, &[&id]);
    let later = run(state, &["export", &id]);
    let with_content = export(state, &[&id, "--with-content"]);
    for ran in [&plain, &later, &with_content] {
        for canary in CANARIES {
            assert!(!ran.out.contains(canary), "{canary} in {}", ran.out);
        }
    }
    let words = ["the subject", "the name", "nightly", "heard-it"];
    for ran in [&plain, &later] {
        for words in words {
            assert!(!ran.out.contains(words), "{words} in {}", ran.out);
        }
    }
    for words in words {
        assert!(
            with_content.out.contains(words),
            "{words} in {}",
            with_content.out
        );
    }

    let trace = plain.document();
    assert_eq!(
        (&trace["format"], &trace["has_content"]),
        (&json!(1), &json!(false))
    );
    let task = &trace["task"];
    assert_eq!(
        (&task["tool"], &task["status"]),
        (&json!("say"), &json!("completed"))
    );
    assert!(task["result"]["bytes"].as_u64().unwrap() > 50, "{task}");
    assert!(task["arguments"]["bytes"].as_u64().unwrap() > 20, "{task}");
    assert!(trace["server"]["has_session"].is_boolean());
    assert!(
        trace["server"]["origin"]
            .as_str()
            .unwrap()
            .starts_with("http://127.0.0.1:")
    );
    let events: Vec<&str> = trace["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["event"].as_str().unwrap())
        .collect();
    assert_eq!(
        events,
        ["started", "progress", "log", "progress", "settled"]
    );
    let step = &trace["history"][1];
    assert_eq!(
        (&step["value"], &step["total"], &step["has_event_id"]),
        (&json!(1.0), &json!(3.0), &json!(true))
    );
    let told = with_content.document();
    assert_eq!(
        told["task"]["arguments"],
        json!({"topic": "the subject <b>", "api_key": "[redacted]"})
    );
    // What only looks like a key of the schema is none.
    assert_eq!(
        told["server"]["tool"]["input_schema"]["properties"]["api_key"],
        json!({"type": "string"})
    );
}

#[test]
fn reports_a_missing_task_or_an_unwritable_path() {
    let (dir, id) = called();
    let none = run(dir.path(), &["export", "zzzzzz"]);
    assert_eq!((none.code, none.out.as_str()), (Some(2), ""), "{none:#?}");
    let nowhere = run(dir.path(), &["export", &id, "--out", "/dev/null/nowhere"]);
    assert_eq!(nowhere.code, Some(2), "{nowhere:#?}");
    assert!(nowhere.err.contains("could not write"), "{nowhere:#?}");
}

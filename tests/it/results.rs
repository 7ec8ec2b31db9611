//! Results that are more than text, saved byte for byte.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, its helpers too, and writes a script of its own"
)]

use std::{fs, net::SocketAddr, path::Path};

use crate::support::pty::TestEnv;
use crate::support::{
    program::{Ran, Running, program, run},
    server,
};
use axum::{Router, http::StatusCode, response::IntoResponse as _};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\xff\0end";

/// A server whose one tool gives a text, a picture, a link and a page that says it is a picture.
fn gallery() -> SocketAddr {
    server::one_tool("gallery", |call| {
        let picture = longhaul::domain::base64(PNG);
        let page = longhaul::domain::base64(b"<html>");
        let result = json!({"content": [
            {"type": "text", "text": "Two pictures."},
            {"type": "image", "mimeType": "image/png", "data": picture},
            {"type": "resource_link", "uri": "https://a.example/x", "name": "x", "mimeType": "text/csv"},
            {"type": "image", "mimeType": "image/png", "data": page},
        ]});
        stream::iter([call.answer(&result)])
    })
}

fn called(state: &Path) -> String {
    let url = format!("http://{}/mcp", gallery());
    let ran = run(state, &["-s", &url, "call", "gallery", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let started = ran.events().into_iter().next().unwrap();
    started.get("id").unwrap().as_str().unwrap().to_owned()
}

fn refused(ran: &Ran, words: &str) {
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains(words), "{ran:?}");
}

#[test]
fn a_part_of_a_result_is_named_and_saved_byte_for_byte() {
    let env = TestEnv::new();
    let state = env.path();
    let id = called(state);
    let ran = run(state, &["result", &id]);
    assert_eq!(
        ran.out,
        "Two pictures.\n[image/png, 30 B]\n[link https://a.example/x, x, text/csv]\n[image/png, 6 B]\n"
    );
    assert!(
        ran.err
            .contains(&format!("longhaul result {id} --block 2 --out FILE")),
        "{ran:?}"
    );
    let out = state.join("a picture.png");
    let ran = run(
        state,
        &[
            "result",
            &id,
            "--block",
            "2",
            "--out",
            out.to_str().unwrap(),
        ],
    );
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(fs::read(&out).unwrap(), PNG);
    let piped = env
        .command(&["result", &id, "--block", "2"])
        .output()
        .unwrap();
    assert_eq!(piped.stdout, PNG);
    let ran = run(state, &["result", &id, "--block", "1"]);
    assert_eq!(ran.out, "Two pictures.");
    let ran = run(state, &["--json", "result", &id, "--block", "3"]);
    assert_eq!(ran.document()["uri"], "https://a.example/x");
    refused(
        &run(state, &["result", &id, "--block", "3"]),
        "this is a link",
    );
    refused(
        &run(state, &["result", &id, "--block", "9"]),
        "has no block 9",
    );
    refused(&run(state, &["result", &id, "--block", "0"]), "0");
}

#[test]
fn saves_a_block_from_the_screen() {
    let env = TestEnv::new();
    called(env.path());
    let mut tui = env.open(&[], (100, 30));
    tui.wait_for("gallery");
    tui.press("\r");
    tui.wait_for("[image/png, 30 B]");
    tui.press("j");
    let file = env.path().join("a picture.png");
    // The second time, the file is there and stays.
    for reply in ["saved 30 B to", "could not write"] {
        tui.press("s");
        tui.wait_for("save to");
        tui.press(&format!("\u{15}{}\r", file.display()));
        tui.wait_for(reply);
        assert_eq!(fs::read(&file).unwrap(), PNG);
    }
    tui.press("qq");
    assert_eq!(tui.end().0, 0);
}

/// A server that cuts every text of its own inside an emoji; its one tool answers with `result` as it is written here.
fn cut_inside_emoji(result: &'static str) -> SocketAddr {
    let handle = async move |body: String| -> axum::response::Response {
        let message: Value = serde_json::from_str(&body).unwrap();
        let (id, method) = (&message["id"], message["method"].as_str().unwrap());
        let version = &message["params"]["protocolVersion"];
        let token = &message["params"]["_meta"]["progressToken"];
        let result = match method {
            "initialize" => format!(
                r#"{{"protocolVersion":{version},"capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"lab \ud83d","version":"1"}}}}"#
            ),
            "tools/list" => r#"{"tools":[{"name":"cut","title":"T\ude00","description":"About \ud83d it",
                "inputSchema":{"type":"object","properties":{"size":{"type":"integer","description":"How \ud83d big"}}}}]}"#
                .replace('\n', ""),
            "tools/call" if message["params"]["arguments"]["size"] == 7 => {
                let error = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-5,"message":"no \ud83d more"}}}}"#
                );
                return ([("content-type", "application/json")], error).into_response();
            }
            "tools/call" => {
                let events = [
                    format!(r#"{{"method":"notifications/progress","params":{{"progressToken":{token},"progress":1,"message":"step \uD83D"}}}}"#),
                    r#"{"method":"notifications/message","params":{"level":"info","data":"line \udc00"}}"#.to_owned(),
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
                ];
                let events = events.map(|event| format!("data: {event}\n\n")).concat();
                return ([("content-type", "text/event-stream")], events).into_response();
            }
            _ if id.is_null() => return StatusCode::ACCEPTED.into_response(),
            _ => "{}".to_owned(),
        };
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        ([("content-type", "application/json")], answer).into_response()
    };
    server::serve(Router::new().route("/mcp", axum::routing::post(handle)))
}

#[test]
fn replaces_a_lone_surrogate_and_keeps_the_rest() {
    const RESULT: &str = r#"{"content":[{"type":"text","text":"good first block"},{"type":"text","text":"cut \ud83d off \ud83d\ude00 C:\\ud83d"}]}"#;
    const SHOWN: &str = "good first block\ncut \u{fffd} off \u{1f600} C:\\ud83d\n";
    let env = TestEnv::new();
    let state = env.path();
    let url = format!("http://{}/mcp", cut_inside_emoji(RESULT));
    let ran = run(state, &["-s", &url, "--json", "call", "cut"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let events = ran.events();
    let of = |kind: &str| {
        let mut found = events.iter().filter(|event| event["event"] == kind);
        found
            .next()
            .unwrap_or_else(|| panic!("{kind} in {ran:?}"))
            .clone()
    };
    assert_eq!(of("progress")["message"], "step \u{fffd}");
    assert_eq!(of("log")["data"], "line \u{fffd}");
    assert_eq!(
        of("settled")["result"]["content"][0]["text"],
        "good first block"
    );
    let id = of("started")["id"].as_str().unwrap().to_owned();

    let shown = run(state, &["result", &id]);
    assert_eq!(shown.out, SHOWN);
    assert_eq!(run(state, &["result", &id, "--raw"]).out, SHOWN.trim_end());
    let document = run(state, &["--json", "result", &id]).document();
    assert_eq!(
        document["content"].as_array().map(Vec::len),
        Some(2),
        "{document}"
    );

    let tools = run(state, &["-s", &url, "tools", "--json"]);
    for words in ["About \u{fffd} it", "How \u{fffd} big"] {
        assert!(tools.out.contains(words), "{tools:?}");
    }
    let servers = run(state, &["servers", "test", &url]);
    assert_eq!(servers.code, Some(0), "{servers:?}");
    assert!(servers.out.contains("lab \u{fffd} 1"), "{servers:?}");
    let failed = run(state, &["-s", &url, "call", "cut", "size=7"]);
    assert!(failed.err.contains("no \u{fffd} more"), "{failed:?}");
}

#[test]
fn asks_a_question_with_a_lone_surrogate_in_each_text() {
    const QUESTION: &str = r#"{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"Which \ud83d?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"Na\ude00me"}},"required":["name"]}}}"#;
    let addr = server::one_tool("ask", |_| {
        stream::iter([format!("data: {QUESTION}\n\n")]).chain(stream::pending())
    });
    let env = TestEnv::new();
    let url = format!("http://{addr}/mcp");
    let mut ran = Running::start(&mut program(
        env.path(),
        &["-s", &url, "--json", "call", "ask"],
    ));
    let asked = ran.prints(|event| event["event"] == "input_required");
    ran.signal(rustix::process::Signal::TERM);
    ran.end();
    let request = asked.to_string();
    for words in ["Which \u{fffd}?", "Na\u{fffd}me"] {
        assert!(request.contains(words), "{request}");
    }
}

#[test]
fn reads_lone_surrogates_of_a_program() {
    let env = TestEnv::new();
    let script = r#"while read -r line; do
        id=$(printf %s "$line" | sed -n 's/.*"id":\("[^"]*"\).*/\1/p')
        case "$line" in
        *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"p","version":"1"}}}\n' "$id";;
        *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"cut","inputSchema":{"type":"object"}}]}}\n' "$id";;
        *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"cut \\ud83d"}]}}\n' "$id";;
        *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id";;
        esac
    done"#;
    let script_file = env.path().join("server.sh");
    fs::write(&script_file, script).unwrap();
    let config = format!("[servers.p]\ncommand = \"/bin/sh\"\nargs = [{script_file:?}]\n");
    fs::write(env.path().join("config.toml"), config).unwrap();
    let approved = run(env.path(), &["servers", "approve", "p", "--yes"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let ran = run(env.path(), &["-s", "p", "call", "cut"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "cut \u{fffd}\n"),
        "{ran:?}"
    );
}

#[test]
fn shows_a_result_of_unknown_shape_as_json() {
    for (result, shown) in [
        ("7", "7\n"),
        ("\"done\"", "\"done\"\n"),
        ("{\"rows\":3}", "{\n  \"rows\": 3\n}\n"),
        ("{\"content\":\"done\"}", "{\n  \"content\": \"done\"\n}\n"),
    ] {
        let env = TestEnv::new();
        let url = format!("http://{}/mcp", cut_inside_emoji(result));
        let ran = run(env.path(), &["-s", &url, "call", "cut"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), shown), "{ran:?}");
        let list = run(env.path(), &["ls", "--all", "--json"]).document();
        let id = list[0]["id"].as_str().unwrap();
        let document = run(env.path(), &["--json", "result", id]).document();
        assert_eq!(document.to_string(), result);
        let listed = run(env.path(), &["ls", "--all"]).out;
        assert!(listed.contains(result), "{listed}");
    }
}

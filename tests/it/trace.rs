//! The record of what goes over the wire: the real binary, real HTTP, a real program, real files.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use crate::support::{
    program::{Ran, Running, finish, program, run},
    server,
};
use axum::{
    Router,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::oneshot;

const SESSION: &str = "canary-session-4d1b";
const COOKIE: &str = "canary-cookie-a80f";

fn ok(ran: Ran) -> Ran {
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    ran
}

/// A server with a session and a cookie that says in its results whatever it was told in headers and query. Its tool
/// `long` has a long result.
fn echo() -> SocketAddr {
    async fn answer(uri: Uri, headers: HeaderMap, body: String) -> Response {
        let message: Value = serde_json::from_str(&body).unwrap_or_default();
        let (id, params) = (&message["id"], &message["params"]);
        let result = match message["method"].as_str() {
            Some("server/discover") | None => return StatusCode::BAD_REQUEST.into_response(),
            Some("initialize") => json!({"protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}}),
            Some("tools/list") => {
                let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
                json!({"tools": [tool("say"), tool("long")]})
            }
            Some("tools/call") => {
                let heard = match params["name"].as_str() {
                    Some("long") => format!("begins {} ends", "x".repeat(200_000)),
                    _ => format!("{headers:?} {uri} Caf\u{e9} \u{1b}[2J\u{202e}"),
                };
                let result = json!({"content": [{"type": "text", "text": heard}]});
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                let media = [("content-type", "text/event-stream")];
                let event = format!("id: e-1\nretry: 700\ndata: {answer}\n\n");
                return (media, event).into_response();
            }
            _ if id.is_null() => return StatusCode::ACCEPTED.into_response(),
            _ => json!({}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let head = [
            ("content-type", "application/json"),
            ("mcp-session-id", SESSION),
            ("set-cookie", COOKIE),
        ];
        (head, answer).into_response()
    }
    server::serve(Router::new().fallback(answer))
}

/// The files of the record.
fn files(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state.join("sessions/default.trace"));
    let mut files: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .map(|it| it.unwrap().path())
        .collect();
    files.sort();
    files
}

fn assert_nowhere(state: &Path, secrets: &[&str]) {
    let files = files(state);
    assert!(!files.is_empty());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

fn kinds(entries: &[Value]) -> Vec<&str> {
    let kinds = entries.iter().map(|entry| entry["kind"].as_str());
    kinds.map(Option::unwrap).collect()
}

#[test]
fn records_nothing_by_default_and_tells_how_to_start() {
    let state = tempfile::tempdir().unwrap();
    let url = format!("http://{}/mcp", echo());
    ok(run(state.path(), &["-s", &url, "call", "say"]));
    assert!(!state.path().join("sessions/default.trace").exists());
    let told = ok(run(state.path(), &["trace"]));
    assert_eq!(told.out, "");
    for way in ["--trace", "trace = true", ":trace"] {
        assert!(told.err.contains(way), "{told:#?}");
    }
    let config = format!("[servers.lab]\nurl = \"{url}\"\ntrace = true\n");
    longhaul::store::write_atomically(&state.path().join("config.toml"), config.as_bytes())
        .unwrap();
    ok(run(state.path(), &["-s", "lab", "call", "say"]));
    let told = ok(run(state.path(), &["trace", "lab", "--json"]));
    assert!(kinds(&told.events()).contains(&"event"), "{told:#?}");
}

#[test]
fn records_all_traffic_without_secrets() {
    const HEADER: &str = "canary-header-51c7";
    const BEARER: &str = "canary-bearer-77d0";
    // As the URL has it; a server may say it again so.
    const QUERY: &str = "canary%2Dquery-2b90";
    const VARIABLE: &str = "canary-variable-19aa";
    let state = tempfile::tempdir().unwrap();
    let url = format!("http://{}/mcp?key={QUERY}", echo());
    let config =
        format!("[servers.lab]\nurl = \"{url}\"\nheaders = {{ X-Of-Mine = \"${{VARIABLE}}\" }}\n");
    longhaul::store::write_atomically(&state.path().join("config.toml"), config.as_bytes())
        .unwrap();
    let header = format!("X-Plain: {HEADER}");
    let words = [
        "-s",
        "lab",
        "--trace",
        "-H",
        &header,
        "--bearer-env",
        "TOKEN",
        "call",
        "say",
    ];
    let mut command = program(state.path(), &words);
    command.env("TOKEN", BEARER).env("VARIABLE", VARIABLE);
    let said = ok(finish(&mut command));
    for name in [
        "x-plain",
        "authorization",
        "url.key",
        "x-of-mine",
        "server-session",
    ] {
        assert!(
            said.out.contains(&format!("[redacted:{name}]")),
            "the server does not say it: {said:#?}"
        );
    }
    let shown = [HEADER, BEARER, QUERY, VARIABLE, SESSION];
    assert!(
        !shown.iter().any(|secret| said.out.contains(secret)),
        "{said:#?}"
    );
    let nowhere = [HEADER, BEARER, QUERY, VARIABLE, SESSION, COOKIE];
    assert_nowhere(state.path(), &nowhere);

    let all = ok(run(state.path(), &["trace", "--json"])).events();
    let id = ok(run(state.path(), &["ls", "--all", "--json"])).document()[0]["id"].clone();
    let id = id.as_str().unwrap();
    let own = ok(run(state.path(), &["trace", id, "--json"])).events();
    assert_eq!(kinds(&own), ["request", "answer", "event", "end"]);
    assert!(all.len() > own.len());
    let [request, answer, event, end] = &own[..] else {
        panic!("{own:#?}");
    };
    assert_eq!((&request["dir"], &event["dir"]), (&json!(">"), &json!("<")));
    assert_eq!(request["path"], "/mcp?key=[redacted]");
    let header = |of: &Value, name: &str| -> Option<String> {
        let mut headers = of["headers"].as_array()?.iter();
        let found = headers.find(|pair| pair[0] == name)?;
        Some(found[1].as_str().unwrap().to_owned())
    };
    let is_gone = |value: Option<String>| value.as_deref() == Some("[redacted]");
    for name in ["authorization", "x-plain", "x-of-mine", "mcp-session-id"] {
        assert!(is_gone(header(request, name)), "{name}: {request:#}");
    }
    let version = header(request, "mcp-protocol-version");
    assert_eq!(version.as_deref(), Some("2025-06-18"));
    let sent: Value = serde_json::from_str(request["data"].as_str().unwrap()).unwrap();
    assert_eq!(sent["method"], "tools/call");
    assert_eq!(answer["status"], 200);
    assert_eq!(
        (&event["id"], &event["retry"]),
        (&json!("e-1"), &json!(700))
    );
    assert!(
        event["data"]
            .as_str()
            .unwrap()
            .contains("[redacted:x-plain]"),
        "{event:#}"
    );
    assert!(!end["why"].as_str().unwrap().is_empty());
    let mut cookies = all.iter().filter_map(|entry| header(entry, "set-cookie"));
    assert!(is_gone(cookies.next()), "{all:#?}");
}

#[test]
fn records_server_tests_on_request() {
    const BEARER: &str = "canary-bearer-0d3e";
    let state = tempfile::tempdir().unwrap();
    let url = format!("http://{}/mcp", echo());
    let config = |more: &str| {
        let text = format!("[servers.lab]\nurl = \"{url}\"\n{more}");
        let path = state.path().join("config.toml");
        longhaul::store::write_atomically(&path, text.as_bytes()).unwrap();
    };
    config("");
    let asked = |words: &[&str]| {
        let mut command = program(state.path(), words);
        ok(finish(command.env("TOKEN", BEARER)))
    };
    let recorded = |of: &str| {
        let all = run(state.path(), &["trace", "lab", "--json"]).events();
        let has = |entry: &&Value| entry["data"].as_str().is_some_and(|data| data.contains(of));
        all.iter().filter(has).count()
    };
    asked(&["-s", "lab", "doctor"]);
    asked(&["servers", "test", "lab"]);
    assert_eq!(files(state.path()), [] as [PathBuf; 0]);

    let bearer = ["-s", "lab", "--trace", "--bearer-env", "TOKEN"];
    asked(&[&bearer[..], &["servers", "test"]].concat());
    let listed = recorded("\"tools/list\"");
    assert!(listed > 0);
    assert_nowhere(state.path(), &[BEARER, SESSION, COOKIE]);

    config("trace = true\n");
    asked(&["servers", "test", "lab"]);
    assert!(recorded("\"tools/list\"") > listed);
}

#[test]
fn searches_and_sanitizes_records_and_cuts_long_bodies() {
    let state = tempfile::tempdir().unwrap();
    let url = format!("http://{}/mcp", echo());
    let call = |tool: &str| {
        let ran = run(
            state.path(),
            &["-s", &url, "--trace", "call", tool, "--json"],
        );
        ok(ran).events()[0]["id"].as_str().unwrap().to_owned()
    };
    let (said, long) = (call("say"), call("long"));
    let trace = |words: &[&str]| ok(run(state.path(), &[&["trace"], words].concat()));

    let found = trace(&["--grep", "cAFÉ"]);
    assert_eq!(found.out.lines().count(), 1, "{found:#?}");
    assert!(
        found.out.contains(&said) && found.out.contains(" < "),
        "{found:#?}"
    );
    let none = trace(&["--grep", "no such words"]);
    assert_eq!(none.out, "");
    assert!(
        none.err.contains("no recorded message matches"),
        "{none:#?}"
    );

    for words in [&["--full"][..], &["--json"], &[]] {
        let shown = trace(words).out;
        let is_hostile =
            |letter: char| letter != '\n' && longhaul::domain::text::is_hostile(letter);
        assert!(!shown.contains(is_hostile), "{words:?}: {shown:?}");
    }
    let full = trace(&[&said, "--full"]).out;
    assert!(
        full.contains("    content-type: application/json"),
        "{full}"
    );
    assert!(full.contains("      \"method\": \"tools/call\""), "{full}");

    let newest = trace(&["-n", "2"]).out;
    assert_eq!(newest.lines().count(), 2, "{newest}");
    let cut = trace(&[&long, "--grep", "begins", "--json"]).events();
    let (data, left_out) = (cut[0]["data"].as_str().unwrap(), &cut[0]["left_out"]);
    assert_eq!(data.len(), 64 * 1024);
    let whole = data.len() as u64 + left_out.as_u64().unwrap();
    assert!((200_000..201_000).contains(&whole), "{whole}");
    assert!(
        trace(&[&long]).out.contains("kB more)"),
        "what is missing is said"
    );

    let unknown = run(state.path(), &["trace", "nobody"]);
    assert_eq!(unknown.code, Some(2), "{unknown:#?}");
    assert!(
        unknown.err.contains("no server or task \"nobody\""),
        "{unknown:#?}"
    );

    ok(run(state.path(), &["sessions", "rm", "default"]));
    assert_eq!(
        fs::read_dir(state.path().join("sessions")).unwrap().count(),
        0
    );
}

#[test]
fn records_the_lines_of_a_program_without_its_secrets() {
    let state = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stdio.sh");
    let config = format!(
        "[servers.files]\ncommand = \"/bin/sh\"\nargs = [\"{}\", \"{}\"]\n\
         env = {{ GIVEN = \"given-canary\", SECRET = \"of ${{MY_SECRET}}\" }}\n",
        script.display(),
        state.path().display()
    );
    longhaul::store::write_atomically(&state.path().join("config.toml"), config.as_bytes())
        .unwrap();
    ok(run(state.path(), &["servers", "approve", "files", "--yes"]));
    let words = ["-s", "files", "--trace", "call", "noise", "--json"];
    let mut command = program(state.path(), &words);
    command.env("MY_SECRET", "hunter22");
    let said = ok(finish(&mut command)).events();
    let id = said[0]["id"].as_str().unwrap();
    let environment = fs::read_to_string(state.path().join("environment")).unwrap();
    assert!(
        environment.contains("hunter22"),
        "it has the secret: {environment}"
    );
    assert_nowhere(state.path(), &["hunter22", "given-canary"]);

    let all = ok(run(state.path(), &["trace", "files", "--json"])).events();
    let lines = |sign: &str| {
        let of = all
            .iter()
            .filter(|entry| entry["kind"] == "line" && entry["dir"] == sign);
        of.map(|entry| entry["data"].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    let (sent, came) = (lines(">"), lines("<"));
    assert!(
        sent[0].contains("\"method\":\"server/discover\""),
        "{sent:#?}"
    );
    assert!(
        came.contains(&"{\"half\":"),
        "as it stands there: {came:#?}"
    );
    assert!(
        came.contains(&"Loading the model with of [redacted:secret] ..."),
        "{came:#?}"
    );
    // The answers of all calls come on one stream.
    let own = ok(run(state.path(), &["trace", id, "--json"])).events();
    let signs: Vec<&Value> = own.iter().map(|entry| &entry["dir"]).collect();
    assert_eq!(signs, [">", "<"], "{own:#?}");
    assert!(own[1]["data"].as_str().unwrap().contains("after the noise"));
    let why = all.last().unwrap()["why"].as_str();
    assert!(why.is_some(), "the end is told: {:#?}", all.last());
}

#[test]
fn the_driver_records_for_every_client() {
    // The first call runs until the test releases it.
    let (let_go, waiting) = oneshot::channel::<()>();
    let waiting = Arc::new(Mutex::new(Some(waiting)));
    let addr = server::one_tool("wait", move |call: &server::Call| {
        let last = call.result("done");
        let waiting = waiting.lock().unwrap().take();
        let rest = stream::once(async move {
            if let Some(waiting) = waiting {
                let _ = waiting.await;
            }
            last
        });
        stream::iter([call.step(1)]).chain(rest)
    });
    let state = tempfile::tempdir().unwrap();
    let url = format!("http://{addr}/mcp");
    let words = ["-s", &url, "call", "wait", "--json"];
    let mut first = Running::start(&mut program(state.path(), &words));
    let started = first.prints(|event| event["event"] == "started");
    first.prints(|event| event["event"] == "progress");
    assert!(files(state.path()).is_empty());

    let second = ok(run(state.path(), &["--trace", "call", "wait", "--json"])).events();
    let mut follower = Running::start(&mut program(state.path(), &["trace", "-f", "--json"]));
    let second = second[0]["id"].as_str().unwrap();
    follower.prints(|entry| entry["kind"] == "request" && entry["task"] == second);
    let_go.send(()).unwrap();
    // Sent before anything was recorded, and known all the same.
    let first_id = started["id"].as_str().unwrap();
    follower.prints(|entry| entry["kind"] == "event" && entry["task"] == first_id);
    // A server that begins after it, too.
    let url = format!("http://{}/mcp", echo());
    ok(run(state.path(), &["-s", &url, "--trace", "call", "say"]));
    let other = url::Url::parse(&url).unwrap().port().unwrap().to_string();
    follower.prints(|entry| entry["server"].as_str().unwrap().ends_with(&other));
    drop(follower);
    ok(first.end());
}

#[test]
fn reports_a_recording_failure_once_and_calls_continue() {
    let state = tempfile::tempdir().unwrap();
    let url = format!("http://{}/mcp", echo());
    ok(run(state.path(), &["-s", &url, "--trace", "call", "say"]));
    for file in files(state.path()) {
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
    }
    let ran = ok(run(state.path(), &["-s", &url, "--trace", "call", "say"]));
    let said = "is no longer recorded: could not";
    assert_eq!(ran.err.matches(said).count(), 1, "{ran:#?}");
    assert!(ran.err.contains("it is a directory"), "{ran:#?}");
    assert!(!ran.out.is_empty());
}

//! `servers`: the configuration is edited without harm to what else stands in it, and a test says what a server can do.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    convert::Infallible,
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    sync::mpsc,
    time::Duration,
};

use crate::support::{
    program::{Ran, Running, finish, program, run},
    server,
};
use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode},
    routing::post,
};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

const FILE: &str = r#"# My servers.

# The lab's own machine.
[servers.lab]   # do not touch
url = "http://127.0.0.1:8931/mcp"

# Everything else.

# Nights only.
[servers.nightly]
url = "http://127.0.0.1:8932/mcp"
trace = true

[defaults]   # as I like it
ascii = true
# the end
"#;

fn config(state: &Path) -> std::path::PathBuf {
    state.join("config.toml")
}

fn write(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
    fs::File::create(path)
        .unwrap()
        .write_all(text.as_ref())
        .unwrap();
}

fn written(state: &Path) -> String {
    fs::read_to_string(config(state)).unwrap()
}

fn ok(ran: Ran) -> Ran {
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    ran
}

fn refused(ran: &Ran, words: &str) {
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:#?}");
    assert!(ran.err.contains(words), "{ran:#?}");
}

#[test]
fn an_edit_changes_only_its_own_lines() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    write(config(state), FILE);
    let add = |name: &str, more: &[&str]| {
        let words = ["servers", "add", name, "https://build.example/mcp"];
        run(state, &[&words[..], more].concat())
    };
    ok(add(
        "build box",
        &[
            "--header",
            "Authorization: Bearer ${BUILD_TOKEN}",
            "--protocol",
            "2025-06-18",
        ],
    ));
    let added = r#"
[servers."build box"]
url = "https://build.example/mcp"
headers = { Authorization = "Bearer ${BUILD_TOKEN}" }
protocol = "2025-06-18"
"#;
    let place = FILE.find("\n[defaults]").unwrap();
    let (before, after) = FILE.split_at(place);
    assert_eq!(written(state), format!("{before}{added}{after}"));
    let mode = fs::metadata(config(state)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    refused(&add("build box", &[]), "is already in the configuration");
    refused(&add("a\u{202e}b", &[]), "is not a valid server name");
    let hidden = add("secret", &["-H", "Authorization: Bearer hunter2"]);
    refused(&hidden, "'Authorization: Bearer ${SECRET_TOKEN}'");
    assert!(!hidden.err.contains("hunter2"), "{hidden:#?}");
    let url = run(state, &["servers", "add", "x", "https://${HOST}.example/"]);
    refused(&url, "the URL contains a variable");
    refused(&run(state, &["servers", "add", "x", "ftp://h/"]), "http://");

    ok(run(state, &["servers", "rm", "build box"]));
    assert_eq!(written(state), FILE, "there and back");
    ok(run(state, &["servers", "remove", "nightly"]));
    let rest = FILE.replace(
        "\n# Nights only.\n[servers.nightly]\nurl = \"http://127.0.0.1:8932/mcp\"\ntrace = true\n",
        "",
    );
    assert_eq!(written(state), rest);
    ok(run(state, &["servers", "remove", "lab"]));
    let left = written(state);
    for kept in [
        "# My servers.",
        "# Everything else.",
        "[defaults]   # as I like it",
        "# the end",
    ] {
        assert!(left.contains(kept), "{left}");
    }
    assert!(!left.contains("lab"), "{left}");
    refused(
        &run(state, &["servers", "remove", "lab"]),
        "no server named \"lab\" in the configuration or this session",
    );
}

#[test]
fn an_ignored_entry_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let file = "# mine\n[servers.lab]\nurl = \"htps://lab.example/mcp\"\nmax_time = \"2h\"\n";
    write(config(state), file);
    let added = run(state, &["servers", "add", "lab", "https://lab.example/mcp"]);
    refused(&added, "ignored because of an error");
    let client = state.join("mcp.json");
    write(
        &client,
        r#"{"mcpServers": {"lab": {"url": "https://other.example/mcp"}}}"#,
    );
    let imported = ok(run(state, &["servers", "import", client.to_str().unwrap()]));
    assert!(imported.out.contains("lab as lab-2"), "{imported:#?}");
    assert!(written(state).starts_with(file), "{}", written(state));

    write(config(state), "servers = 3\n");
    let added = run(state, &["servers", "add", "lab", "https://lab.example/mcp"]);
    refused(&added, "`servers` must be a table");
    assert_eq!(written(state), "servers = 3\n");
}

#[test]
fn a_comment_before_an_empty_line_stays_with_any_line_end() {
    for end in ["\n", "\r\n"] {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path();
        let file = "# keep this\n\n# Nights.\n[servers.lab]\nurl = \"https://lab.example/mcp\"\n";
        write(config(state), file.replace('\n', end));
        ok(run(state, &["servers", "remove", "lab"]));
        let left = written(state);
        assert!(left.contains("# keep this"), "{left:?}");
        assert!(!left.contains("Nights"), "{left:?}");
    }
}

#[test]
fn removes_what_the_list_shows() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let server = server::demo(state.join("demo"));
    let listed = || {
        let list = run(state, &["servers", "list", "--json"]).document();
        list.as_array().unwrap().len()
    };
    // One that only the session knows, then one that both know.
    for is_configured in [false, true] {
        let url = server.url();
        if is_configured {
            ok(run(state, &["servers", "add", "lab", &url]));
        }
        let name = if is_configured {
            "lab".to_owned()
        } else {
            server.addr().to_string()
        };
        let place = if is_configured { "lab" } else { &url };
        let call = [
            "-s",
            place,
            "call",
            "get_forecast",
            "city=Oslo",
            "delay_ms=1",
        ];
        ok(run(state, &call));
        assert_eq!(listed(), 1);
        let removed = ok(run(state, &["servers", "remove", &name]));
        assert!(removed.err.contains("session default"), "{removed:#?}");
        assert_eq!(listed(), 0);
        refused(
            &run(state, &["servers", "remove", &name]),
            "in the configuration or this session",
        );
    }
    let all = run(state, &["ls", "--json"]).document();
    assert_eq!(all.as_array().unwrap().len(), 2, "the tasks stay");
}

#[test]
fn keeps_a_server_of_the_session_whose_tasks_are_unsettled() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let server = server::demo(state.join("demo"));
    let call = [
        "-s",
        &server.url(),
        "call",
        "get_forecast",
        "city=Oslo",
        "--detach",
    ];
    let call = [&["--protocol", "2025-06-18"], &call[..]].concat();
    ok(run(state, &call));
    let kept = run(
        state,
        &["servers", "remove", &server.addr().to_string(), "--yes"],
    );
    refused(&kept, "has 1 unfinished task in session default");
}

#[test]
fn creates_a_missing_config_and_keeps_symlinks() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    let real = dir.path().join("dotfiles.toml");
    write(&real, "# kept\n");
    symlink(&real, config(&state)).unwrap();
    ok(run(
        &state,
        &["servers", "add", "lab", "http://127.0.0.1:1/mcp"],
    ));
    assert!(config(&state).symlink_metadata().unwrap().is_symlink());
    let text = fs::read_to_string(&real).unwrap();
    assert!(
        text.contains("# kept") && text.contains("[servers.lab]"),
        "{text}"
    );

    fs::remove_file(config(&state)).unwrap();
    symlink(dir.path().join("nowhere"), config(&state)).unwrap();
    let broken = run(&state, &["servers", "add", "lab", "http://127.0.0.1:1/mcp"]);
    refused(&broken, "could not follow the link");
    assert!(!dir.path().join("nowhere").exists());

    fs::remove_file(config(&state)).unwrap();
    ok(run(
        &state,
        &["servers", "add", "lab", "http://127.0.0.1:1/mcp"],
    ));
    assert!(written(&state).starts_with("# longhaul configuration"));
    let listed = ok(run(&state, &["servers", "list", "--json"])).document();
    assert_eq!(listed[0]["name"], "lab");

    write(config(&state), "[servers.lab\n");
    let no_toml = run(&state, &["servers", "add", "x", "http://127.0.0.1:1/mcp"]);
    refused(&no_toml, "config.toml:1: ");
    assert_eq!(written(&state), "[servers.lab\n");
    let readonly = run(&state, &["--readonly", "servers", "remove", "lab"]);
    refused(&readonly, "--readonly");
}

#[test]
fn list_reports_blockers_without_contacting_servers() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    write(
        config(state),
        r#"
[servers.imported]
url = "https://i.example/mcp?key=hunter2"
headers = { Authorization = "Bearer ${I_TOKEN}" }
imported_from = ".mcp.json"
[servers.wants]
url = "http://127.0.0.1:1/mcp"
headers = { X-Key = "${W_KEY}" }
max_time = "1h"
[servers.files]
command = "npx"
args = ["-y", "a b"]
"#,
    );
    let list = |key: Option<&str>| {
        let mut command = program(state, &["servers", "list", "--json"]);
        if let Some(key) = key {
            command.env("W_KEY", key);
        }
        let document = ok(finish(&mut command)).document();
        let states: Vec<(String, String)> = document
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                let text = |key: &str| it[key].as_str().unwrap().to_owned();
                (text("name"), text("state"))
            })
            .collect();
        assert!(!document.to_string().contains("hunter2"), "{document}");
        states
    };
    let expected = |wants: &str| {
        [
            ("files", "needs-approval"),
            ("imported", "needs-approval"),
            ("wants", wants),
        ]
        .map(|(name, state)| (name.to_owned(), state.to_owned()))
    };
    assert_eq!(list(None), expected("needs-variable"));
    assert_eq!(list(Some("k")), expected("ready"));
    let lines = ok(run(state, &["servers", "list"])).out;
    assert!(lines.contains("npx -y 'a b'"), "{lines}");
    assert!(lines.contains("needs $W_KEY (not set here)"), "{lines}");

    let asked = run(state, &["servers", "approve", "imported"]);
    assert_eq!(asked.code, Some(2), "{asked:#?}");
    let words = "I_TOKEN would be sent to https://i.example in the Authorization header";
    assert!(asked.err.contains(words), "{asked:#?}");
    ok(run(state, &["servers", "approve", "imported", "--yes"]));
    assert_eq!(list(Some("k"))[1].1, "needs-variable");
    let moved = written(state).replace("i.example", "evil.example");
    write(config(state), moved);
    assert_eq!(list(Some("k"))[1].1, "needs-approval");
}

#[test]
fn adding_a_stdio_server_approves_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/stdio.sh");
    let here = state.to_str().unwrap();
    let add = ["servers", "add", "files", "--env", "GIVEN=a b", "--"];
    ok(run(state, &[&add[..], &["sh", script, here]].concat()));
    ok(run(state, &["-s", "files", "call", "count"]));
    let environment = std::fs::read_to_string(state.join("environment")).unwrap();
    assert!(environment.starts_with(" a b "), "{environment}");
    let before = written(state);
    for (wrong, words) in [
        (&["add", "x"][..], "NAME URL"),
        (&["add", "x", "sh", script], "unexpected argument"),
        (&["add", "x", script], "longhaul servers add x -- COMMAND"),
        (&["add", "x", "--env", "A=b"], "--env"),
        (&["add", "x", "--env", "secret", "--", "sh"], "NAME=VALUE"),
        (
            &["add", "x", "--env", "API_KEY=hunter2", "--", "sh"],
            "--env 'NAME=${VARIABLE}'",
        ),
        (
            &["add", "x", "--", "sh", "--token", "hunter2"],
            "looks like a secret",
        ),
        (
            &["add", "x", "--", "sh", "postgresql://app:hunter2@db/prod"],
            "looks like a secret",
        ),
        (
            &[
                "add",
                "x",
                "--",
                "sh",
                "--url=postgresql://app:hunter2@db/prod",
            ],
            "looks like a secret",
        ),
    ] {
        let ran = run(state, &[&["servers"], wrong].concat());
        refused(&ran, words);
        assert!(!ran.err.contains("hunter2"), "{ran:#?}");
    }
    assert_eq!(written(state), before);
}

#[test]
fn calls_the_default_server_when_none_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let server = crate::support::server::demo(state.join("server"));
    let two = format!(
        "[servers.here]\nurl = {:?}\n[servers.there]\nurl = \"http://127.0.0.1:1/mcp\"\n",
        server.url()
    );
    write(config(state), &two);
    refused(&run(state, &["tools"]), "which server?");
    write(
        config(state),
        format!("{two}[defaults]\nserver = \"here\"\n"),
    );
    assert!(ok(run(state, &["tools"])).out.contains("send_burst"));
    write(
        config(state),
        format!("{two}[defaults]\nserver = \"gone\"\n"),
    );
    refused(
        &run(state, &["tools"]),
        "names server gone, which longhaul does not know",
    );
}

#[test]
fn a_blocked_server_does_not_hide_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let server = crate::support::server::demo(state.join("server"));
    let url = server.url();
    write(
        config(state),
        format!(
            "[servers.good]\nurl = \"{url}\"\n\
             [servers.loud]\nurl = \"http://loud.example/mcp\"\nheaders = {{ X-Key = \"${{KEY}}\" }}\n"
        ),
    );
    let ran = |words: &[&str]| finish(program(state, words).env("KEY", "k"));
    let tested = ran(&["servers", "test"]);
    assert_eq!(tested.code, Some(2), "{tested:#?}");
    assert!(tested.out.contains("good: answers in"), "{tested:#?}");
    assert!(
        tested.out.contains("loud: refusing to send headers"),
        "{tested:#?}"
    );
    let looked = ran(&["doctor"]);
    assert!(looked.out.contains("plain http"), "{looked:#?}");
    assert!(looked.out.contains("server good"), "{looked:#?}");
    let good = ran(&["-s", "good", "doctor"]);
    assert_eq!(good.code, Some(0), "{good:#?}");
    assert!(!good.out.contains("loud"), "{good:#?}");
}

#[test]
fn test_reports_the_era_and_the_effect_of_leaving() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let server = server::demo(state.join("server"));
    ok(run(
        state,
        &[
            "servers",
            "add",
            "lab",
            &server.url(),
            "--protocol",
            "2025-11-25",
        ],
    ));
    let document = ok(run(state, &["servers", "test", "lab", "--json"])).document();
    let lab = &document[0];
    assert_eq!(lab["ok"], true, "{lab}");
    assert_eq!(lab["era"], "2025-11-25");
    assert!(
        lab["took_ms"].is_u64() && lab["tools"].as_u64() > Some(3),
        "{lab}"
    );
    let calls = lab["calls"].as_array().unwrap();
    let leaving: Vec<&Value> = calls.iter().map(|call| &call["if_cut"]).collect();
    assert!(leaving.contains(&&Value::from("continues")), "{lab}");

    let if_cut = |revision: &str| {
        let words = ["-s", "lab", "--protocol", revision, "tools", "--json"];
        let tools = ok(run(state, &words)).document();
        let mut tools = tools.as_array().unwrap().iter();
        let forecast = tools.find(|tool| tool["name"] == "get_forecast");
        forecast.unwrap()["if_cut"].as_str().unwrap().to_owned()
    };
    let of_revisions = ["2025-11-25", "2026-07-28"].map(if_cut);
    assert_eq!(of_revisions, ["likely", "lost"]);

    ok(run(
        state,
        &["servers", "add", "dead", "http://127.0.0.1:1/mcp"],
    ));
    let all = run(state, &["servers", "test"]);
    assert_eq!(all.code, Some(4), "{all:#?}");
    assert!(all.out.contains("lab: answers in"), "{all:#?}");
    assert!(all.out.contains("  if cut: continues ("), "{all:#?}");
    assert!(all.out.contains("dead: could not reach dead"), "{all:#?}");
}

/// A server whose checkpoint tools have names of their own; each call of a tool comes out of the channel.
fn of_other_names() -> (std::net::SocketAddr, mpsc::Receiver<Value>) {
    let (send, calls) = mpsc::channel();
    let serve = move |body: String| {
        let message: Value = serde_json::from_str(&body).unwrap_or_default();
        let text = |name: &str| {
            json!({"name": name, "inputSchema": {"type": "object", "properties":
            {"run_key": {"type": "string"}}}})
        };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "other", "version": "1"}}),
            Some("tools/list") => json!({"tools": [text("work"), text("jobs"), text("hold")]}),
            Some("tools/call") => {
                let params = message["params"].clone();
                let name = params["name"].as_str().unwrap_or_default().to_owned();
                send.send(params).unwrap();
                let jobs = json!([{"task_id": "j1", "tool": "work", "status": "running"}]);
                match name.as_str() {
                    "jobs" => json!({"content": [{"type": "text", "text": jobs.to_string()}]}),
                    "hold" => json!({"content": []}),
                    _ => Value::Null,
                }
            }
            Some("server/discover") => {
                return (StatusCode::BAD_REQUEST, HeaderMap::new(), Body::empty());
            }
            Some("ping") => json!({}),
            _ => return (StatusCode::ACCEPTED, HeaderMap::new(), Body::empty()),
        };
        let mut headers = HeaderMap::new();
        if result.is_null() {
            // The work continues as long as a client polls.
            headers.insert(
                "content-type",
                HeaderValue::from_static("text/event-stream"),
            );
            let begin = stream::once(async { Ok::<_, Infallible>("id: 1\ndata:\n\n") });
            let body = Body::from_stream(begin.chain(stream::pending()));
            return (StatusCode::OK, headers, body);
        }
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        (StatusCode::OK, headers, Body::from(answer.to_string()))
    };
    let router = Router::new().route("/mcp", post(async move |body: String| serve(body)));
    (server::serve(router), calls)
}

#[test]
fn uses_the_configured_checkpoint_tool_names() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let (addr, calls) = of_other_names();
    let lab = format!("[servers.lab]\nurl = \"http://{addr}/mcp\"\n");
    let leaving = || {
        let document = run(state, &["servers", "test", "lab", "--json"]).document();
        document[0]["calls"].to_string()
    };
    write(config(state), &lab);
    assert!(!leaving().contains("checkpoint"), "{}", leaving());
    let names =
        r#"checkpoint = { client_id = "run_key", list = "jobs", pause = "hold", task_id = "job" }"#;
    write(config(state), format!("{lab}{names}\n"));
    assert!(
        leaving().contains("the tool keeps a checkpoint"),
        "{}",
        leaving()
    );

    let next = |name: &str| loop {
        let call = calls.recv_timeout(Duration::from_secs(60)).unwrap();
        if call["name"] == name {
            return call["arguments"].clone();
        }
    };
    let mut call = Running::start(&mut program(state, &["call", "work", "--json"]));
    let id = call.prints(|event| event["event"] == "started")["id"].clone();
    let key = next("work")["run_key"].clone();
    assert!(key.as_str().unwrap().starts_with("longhaul-"), "{key}");
    let pause = Running::start(&mut program(state, &["pause", id.as_str().unwrap()]));
    assert_eq!(next("jobs"), json!({"run_key": key}));
    assert_eq!(next("hold"), json!({"job": "j1"}));
    drop((pause, call));
}

#[test]
fn a_server_with_unsettled_tasks_is_not_removed_in_passing() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let server = server::demo(state.join("server"));
    ok(run(state, &["servers", "add", "lab", &server.url()]));
    let movie = [
        "call",
        "--detach",
        "render_movie",
        "scene=1",
        "frames=2000",
        "frame_ms=60",
    ];
    let id = ok(run(state, &movie)).out;
    let kept = run(state, &["servers", "remove", "lab"]);
    refused(&kept, "1 unfinished task in session default");
    assert!(written(state).contains("[servers.lab]"));
    ok(run(state, &["servers", "remove", "lab", "--yes"]));
    // The session knows the way.
    let cancelled = run(state, &["cancel", id.trim()]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:#?}");
}

#[test]
fn refuses_headers_that_cannot_be_sent() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let server = server::demo(state.join("server"));
    let url = server.url();
    let accept = ["-H", "Accept: application/json"];
    let ran = run(
        state,
        &[&["-s", &url], &accept[..], &["call", "x"]].concat(),
    );
    refused(&ran, "longhaul sets the header Accept itself");
    let ran = run(
        state,
        &[&["servers", "add", "lab", &url], &accept[..]].concat(),
    );
    refused(&ran, "longhaul sets the header Accept itself");
    assert_eq!(written(state), "");

    let headers = "{ Mcp-Session-Id = \"x\", X-Key = \"${KEY}\" }";
    write(
        config(state),
        format!("[servers.lab]\nurl = {url:?}\nheaders = {headers}\n"),
    );
    let with_key = |key: &str, words: &[&str]| finish(program(state, words).env("KEY", key));
    let notice = "config.toml:3: Mcp-Session-Id in headers is ignored: longhaul sets the header";
    let tools = ok(with_key("k", &["tools"]));
    assert!(tools.err.contains(notice), "{tools:#?}");
    let doctor = with_key("k", &["doctor"]);
    assert!(doctor.out.contains(notice), "{doctor:#?}");
    let ran = with_key("canary\ncanary", &["tools"]);
    refused(&ran, "lab: the value of X-Key contains a control character");
    assert!(!ran.err.contains("canary"), "{ran:#?}");
}

/// A command that stands between backticks, as a shell would be given it.
fn pasted(words: &str) -> Vec<&str> {
    let command = words.split('`').nth(1).unwrap_or_default();
    command.split_whitespace().skip(1).collect()
}

#[test]
fn names_rejected_credentials_and_prints_a_usable_hint() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let app = Router::new().fallback(|| async { (StatusCode::UNAUTHORIZED, "invalid token") });
    let addr = server::serve(app);
    let url = format!("http://{addr}/mcp");
    write(
        config(state),
        format!(
            "[servers.lab]\nurl = {url:?}\nheaders = {{ Authorization = \"Bearer ${{LAB_TOKEN}}\" }}\n"
        ),
    );
    let with_token = |words: &[&str]| {
        let ran = finish(program(state, words).env("LAB_TOKEN", "canary"));
        assert_eq!(ran.code, Some(3), "{ran:#?}");
        assert!(
            !ran.err.contains("canary") && !ran.out.contains("canary"),
            "{ran:#?}"
        );
        ran
    };
    let sent = "rejected the header Authorization from $LAB_TOKEN (HTTP 401";
    let next = "correct $LAB_TOKEN ";
    for words in [&["tools"][..], &["call", "train"]] {
        let ran = with_token(words);
        assert!(ran.err.contains(&format!("lab {sent}")), "{ran:#?}");
        assert!(ran.err.contains(next), "{ran:#?}");
    }
    let tested = with_token(&["servers", "test"]);
    assert!(
        tested.out.starts_with(&format!("lab: {sent}")),
        "{tested:#?}"
    );

    // Nobody knows a server by its name of which nothing came yet, and no session but the one that was meant.
    write(config(state), "");
    let refused = run(state, &["--session", "n", "-s", &url, "tools"]);
    assert_eq!(refused.code, Some(3), "{refused:#?}");
    let command = pasted(&refused.err);
    assert_eq!(command, ["login", &url, "--session", "n"], "{refused:#?}");
}

//! `doctor`: the real binary on whole and broken ground. What it says, how it ends, and what it never prints.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use crate::support::{
    program::{Ran, Running, finish, program, run},
    server,
};
use longhaul::store::write_atomically;
use serde_json::{Value, json};

/// The checks of one thing: how each stands, and its words with what to do next.
fn of(ran: &Ran, thing: &str) -> Vec<(String, String)> {
    let document = ran.document();
    let checks = document.as_array().unwrap().iter();
    let words = |check: &Value| {
        let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
        (
            text("verdict"),
            format!("{}; {}", text("message"), text("next")),
        )
    };
    checks
        .filter(|check| check["of"] == thing)
        .map(words)
        .collect()
}

fn has(checks: &[(String, String)], verdict: &str, words: &str) -> bool {
    checks
        .iter()
        .any(|(it, said)| it == verdict && said.contains(words))
}

fn doctor(state: &Path, words: &[&str]) -> Ran {
    run(state, &[words, &["doctor", "--json"]].concat())
}

/// The arguments of a forecast call.
fn forecast<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let call = ["-s", url, "call", "get_forecast", "city=Oslo"];
    [&call[..], more].concat()
}

#[test]
fn passes_in_a_good_environment_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let demo = server::demo(dir.path().join("demo"));
    let url = demo.url();
    let call = forecast(&url, &["delay_ms=1"]);
    assert_eq!(run(&state, &call).code, Some(0));
    let before = run(&state, &["ls", "--all", "--json"]).document();

    let ran = doctor(&state, &[]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:#?}");
    assert!(has(&of(&ran, "disk"), "ok", "free"), "{ran:#?}");
    assert!(
        has(&of(&ran, "session default"), "ok", "intact"),
        "{ran:#?}"
    );
    assert!(
        has(
            &of(&ran, "session default"),
            "ok",
            "no process is running its calls"
        ),
        "{ran:#?}"
    );
    let name = format!(
        "server {}",
        demo.url()
            .trim_start_matches("http://")
            .trim_end_matches("/mcp")
    );
    let server = of(&ran, &name);
    assert!(
        has(&server, "ok", "configured; `longhaul servers test "),
        "{ran:#?}"
    );
    assert_eq!(run(&state, &["ls", "--all", "--json"]).document(), before);

    let ran = doctor(&state, &["-s", "http://127.0.0.1:9/mcp"]);
    let server = of(&ran, "server 127.0.0.1:9");
    let advice = "add it with `longhaul servers add 127.0.0.1:9 URL`";
    assert!(has(&server, "warning", advice), "{ran:#?}");

    let lines = run(&state, &["doctor"]);
    assert_eq!(lines.code, Some(0), "{lines:#?}");
    assert!(
        lines
            .out
            .lines()
            .all(|line| line.starts_with("ok  ") || line.starts_with("warning ")),
        "{lines:#?}"
    );
}

#[test]
fn reports_each_problem_with_a_fix() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let demo = server::demo(dir.path().join("demo"));
    let url = demo.url();
    let call = forecast(&url, &["delay_ms=1"]);
    for session in ["default", "broken", "driven"] {
        assert_eq!(
            run(state, &[&["--session", session], &call[..]].concat()).code,
            Some(0)
        );
    }
    // A page in the middle of the file goes bad.
    let db = state.join("sessions/broken.db");
    let mut bytes = fs::read(&db).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 2048] {
        *byte = 0xa5;
    }
    write_atomically(&db, &bytes).unwrap();
    // One that no process opens.
    let elsewhere = state.join("sessions/elsewhere.db");
    std::os::unix::fs::symlink("/nowhere", elsewhere).unwrap();
    // Others may look.
    let open = state.join("sessions/default.db");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    // Somebody holds a lock and takes no connection.
    let lock = state.join("sessions/driven.lock");
    write_atomically(&lock, std::process::id().to_string().as_bytes()).unwrap();
    let _held = fs::File::open(&lock).unwrap();
    write_atomically(
        &state.join("config.toml"),
        b"flavour = 1\n[servers.gone]\nurl = 'http://127.0.0.1:9/mcp'\n",
    )
    .unwrap();

    let ran = doctor(state, &[]);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(
        has(
            &of(&ran, "session broken"),
            "error",
            "moves the damaged file aside"
        ),
        "{ran:#?}"
    );
    let refused = of(&ran, "session elsewhere");
    assert!(has(&refused, "error", "symbolic link"), "{ran:#?}");
    assert!(!ran.out.contains("moves it aside"), "{ran:#?}");
    assert!(
        has(
            &of(&ran, "session driven"),
            "error",
            "does not accept connections"
        ),
        "{ran:#?}"
    );
    assert!(
        has(&of(&ran, "paths"), "warning", "chmod go-rwx"),
        "{ran:#?}"
    );
    assert!(has(&of(&ran, "config"), "warning", "flavour"), "{ran:#?}");

    write_atomically(&state.join("config.toml"), b"no TOML").unwrap();
    let ran = doctor(state, &[]);
    assert!(
        has(&of(&ran, "config"), "error", "config.toml:1"),
        "{ran:#?}"
    );
}

#[test]
fn reports_what_it_cannot_open_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::File::create(&file).unwrap();
    let mut command = program(dir.path(), &["doctor", "-v", "--json"]);
    command.env("LONGHAUL_STATE_DIR", &file);
    let ran = finish(&mut command);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    let state = of(&ran, "state");
    assert!(has(&state, "error", "could not"), "{ran:#?}");
    assert!(!of(&ran, "config").is_empty(), "{ran:#?}");
}

#[test]
fn leaves_a_driven_session_alone() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let demo = server::demo(dir.path().join("demo"));
    let url = demo.url();
    let call = forecast(&url, &["stations=1000", "--json"]);
    let mut driver = Running::start(&mut program(&state, &call));
    driver.prints(|event| event["event"] == "progress");
    let ran = doctor(&state, &[]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let is_driven = |(verdict, said): &(String, String)| {
        verdict == "ok" && said.starts_with("process ") && said.ends_with(" is running its calls; ")
    };
    assert!(
        of(&ran, "session default").iter().any(is_driven),
        "{ran:#?}"
    );
    driver.prints(|event| event["event"] == "progress");
}

#[test]
fn reports_the_required_first_step_for_each_server() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let config = r#"
[defaults]
server = "nope"
[servers.lab]
url = "https://lab.example/mcp"
headers = { Authorization = "Bearer ${LAB_TOKEN}" }
[servers.expired]
url = "https://expired.example/mcp"
[servers.renewable]
url = "https://renewable.example/mcp"
[servers.imported]
url = "https://lab.example/mcp"
headers = { X-Key = "${API_KEY}" }
imported_from = ".mcp.json"
[servers.notes]
command = "no-such-program-anywhere"
[servers.wants]
command = "/bin/sh"
env = { KEY = "${UNSET_HERE}" }
[servers.fine]
command = "/bin/sh"
[servers.new]
command = "/bin/sh"
"#;
    write_atomically(&state.join("config.toml"), config.as_bytes()).unwrap();
    let login = |refresh: Option<&str>| {
        json!({"issuer": "https://issuer.example", "resource": "https://lab.example/mcp",
            "token_endpoint": "https://issuer.example/token", "access": "canary", "refresh": refresh, "expires_at": 1,
            "client": {"id": "one", "auth": "none"}})
    };
    let logins = json!({"version": 1, "logins": {"https://expired.example/mcp": login(None),
        "https://renewable.example/mcp": login(Some("canary"))}});
    write_atomically(&state.join("logins.json"), logins.to_string().as_bytes()).unwrap();
    for name in ["notes", "wants", "fine"] {
        assert_eq!(
            run(state, &["servers", "approve", name, "--yes"]).code,
            Some(0)
        );
    }
    let mut command = program(state, &["--session", "other", "doctor", "--json"]);
    let ran = finish(command.env("PATH", "/usr/bin:/bin"));
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    for (of_what, verdict, words) in [
        ("config", "warning", "server = \"nope\""),
        ("server lab", "error", "needs $LAB_TOKEN (not set here)"),
        (
            "server expired",
            "warning",
            "`longhaul login expired --session other`",
        ),
        ("server renewable", "ok", "`longhaul servers test renewable"),
        (
            "server imported",
            "warning",
            "`longhaul servers approve imported --session other`",
        ),
        ("server imported", "warning", "needs approval, so"),
        (
            "server notes",
            "error",
            "no-such-program-anywhere is not in PATH",
        ),
        ("server wants", "error", "needs $UNSET_HERE (not set here)"),
        ("server fine", "ok", "`longhaul servers test fine"),
        ("server new", "warning", "needs approval"),
    ] {
        assert!(
            has(&of(&ran, of_what), verdict, words),
            "{of_what}: {ran:#?}"
        );
    }
    let with_token =
        finish(program(state, &["-s", "lab", "doctor", "--json"]).env("LAB_TOKEN", "canary-token"));
    assert!(
        has(&of(&with_token, "server lab"), "ok", "configured"),
        "{with_token:#?}"
    );
    assert!(
        !with_token.out.contains("canary") && !ran.out.contains("canary"),
        "{with_token:#?}"
    );
    assert!(of(&with_token, "server new").is_empty(), "{with_token:#?}");

    let tools = run(state, &["tools"]);
    assert_eq!(tools.code, Some(2), "{tools:#?}");
    assert!(
        tools
            .err
            .contains("names server nope, which longhaul does not know"),
        "{tools:#?}"
    );
}

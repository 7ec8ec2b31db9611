//! The file of configuration: what it says holds, and what is wrong in it is named.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{io::Write as _, path::Path};

use crate::support::pty::TestEnv;
use crate::support::{
    program::{Ran, Running, finish, program, run},
    server,
};
use rustix::process::Signal;

/// Writes the file that the program reads in this state directory.
fn configure(state: &Path, text: &str) {
    let mut file = std::fs::File::create(state.join("config.toml")).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// The revision in which a call was sent.
fn era(ran: &Ran) -> String {
    let events = ran.events();
    let started = events.iter().find(|event| event["event"] == "started");
    started.unwrap_or_else(|| panic!("{ran:#?}"))["era"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn calls_a_configured_server_by_name_with_its_settings() {
    let env = TestEnv::new();
    let server = server::demo(env.path().join("server"));
    let url = server.url();
    let burst = ["--json", "call", "send_burst", "count=1"];
    let call = |flags: &[&str]| run(env.path(), &[flags, &burst].concat());
    let lab = |more: &str| {
        let table = format!("[servers.lab]\nurl = {url:?}\n{more}");
        configure(env.path(), &table);
    };
    lab("");
    assert_eq!(
        era(&call(&["-s", "lab", "--protocol", "2025-06-18"])),
        "2025-06-18"
    );
    assert_eq!(
        era(&call(&[])),
        "2025-11-25",
        "it is the only one, and --protocol does not stick"
    );
    lab("protocol = \"2026-07-28\"");
    assert_eq!(
        era(&call(&[])),
        "2026-07-28",
        "the configuration wins over the session"
    );
    let by_flag = call(&["--protocol", "2025-11-25"]);
    assert_eq!(
        era(&by_flag),
        "2025-11-25",
        "the command line wins over both"
    );
    lab("protocol = \"auto\"");
    assert_eq!(era(&call(&[])), "2025-11-25", "a plain tool survives there");

    // Another place under the same name: nothing of the old one is kept, and nothing is sent there.
    configure(
        env.path(),
        "[servers.lab]\nurl = \"http://127.0.0.1:1/mcp\"",
    );
    let moved = run(env.path(), &["-s", "lab", "tools"]);
    assert_eq!(moved.code, Some(4), "{moved:#?}");
    let unknown = run(env.path(), &["-s", "lap", "tools"]);
    assert!(
        unknown.err.contains("lab (http://127.0.0.1:1/mcp)"),
        "{unknown:#?}"
    );
    assert!(!run(env.path(), &["paths"]).out.is_empty());
}

#[test]
fn reports_config_errors_and_still_lists_tasks() {
    let env = TestEnv::new();
    let server = server::demo(env.path().join("server"));
    let url = server.url();
    let file = env.path().join("config.toml");
    let place = file.to_str().unwrap();
    let is_told = run(env.path(), &["paths"]).out.contains(place);
    assert!(is_told, "paths shows the file before it is there");
    configure(
        env.path(),
        &format!("[servers.lab]\nurl = {url:?}\nspeed = 9\n[servers.bad]\nurl = 7\n"),
    );
    let tools = run(env.path(), &["-s", "lab", "tools"]);
    assert_eq!(tools.code, Some(0), "{tools:#?}");
    for line in [3, 5] {
        assert!(
            tools.err.contains(&format!("{place}:{line}: ")),
            "{tools:#?}"
        );
    }

    configure(env.path(), "[defaults]\nsession = \"A B\"\n");
    let notice = format!("{place}:2: invalid session name");
    assert_eq!(run(env.path(), &["ls"]).code, Some(2));
    let doctor = run(env.path(), &["doctor"]);
    assert!(doctor.out.contains(&notice), "{doctor:#?}");

    configure(env.path(), "[servers.lab]\nurl = \"http\n");
    let refused = run(env.path(), &["-s", &url, "tools"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    let says_where = refused.err.contains(&format!("{place}:2: "));
    assert!(
        says_where && refused.err.contains("fix that line"),
        "{refused:#?}"
    );
    let listed = run(env.path(), &["ls"]);
    assert_eq!(
        listed.code,
        Some(0),
        "reading needs no configuration: {listed:#?}"
    );
    let mut screen = env.open(&[], (120, 36));
    screen.wait_for("could not read the configuration");
    screen.press("4");
    screen.wait_for("config.toml:2: ");
    screen.press("qq");
    let (code, _) = screen.end();
    assert_eq!(code, 0);
}

#[test]
fn custom_keys_work_and_conflicts_are_reported() {
    let env = TestEnv::new();
    configure(
        env.path(),
        "[keys]\nhelp = \"f2\"\nquit = [\"Q\"]\npause = \"esc\"\nmark-all = \"i\"\n",
    );
    let listed = run(env.path(), &["ls"]);
    assert_eq!(listed.code, Some(0), "{listed:#?}");
    let mut screen = env.open(&[], (120, 36));
    screen.wait_for_line(&["F2", "all keys"]);
    screen.press("?");
    screen.wait_for("? does nothing here; press F2 for the keys");
    screen.press("\u{1b}OQ");
    screen.wait_for("In the list and most panes");
    // Typing searches there.
    screen.press("\u{1b}");
    screen.wait_until("the page is closed", |screen| {
        !screen.contents().contains("In the list and most panes")
    });
    screen.press("4");
    screen.wait_for("config.toml:4: pause is ignored: Esc can't be rebound");
    screen.wait_for("config.toml:5: i now means `mark-all`; `import`");
    screen.press("q");
    screen.wait_for("q does nothing here");
    screen.press("QQ");
    let (code, _) = screen.end();
    assert_eq!(code, 0);
}

#[test]
fn defaults_apply_below_flags_and_server_settings() {
    let env = TestEnv::new();
    let server = server::demo(env.path().join("server"));
    let url = server.url();
    configure(
        env.path(),
        &format!(
            "[defaults]\nsession = \"nightly\"\nidle_timeout = \"1h\"\nmax_time = \"2h\"\n\
             [servers.lab]\nurl = {url:?}\nidle_timeout = \"10m\"\n"
        ),
    );
    let limits = |flags: &[&str]| {
        let burst = ["--json", "-s", "lab", "call", "send_burst", "count=1"];
        let ran = run(env.path(), &[&burst[..], flags].concat());
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        let id = ran.events()[0]["id"].as_str().unwrap().to_owned();
        let task = run(env.path(), &["show", &id, "--json"]).document();
        ["idle_timeout_s", "max_time_s"].map(|key| task[key].as_f64())
    };
    assert_eq!(limits(&[]), [Some(600.0), Some(7200.0)]);
    assert_eq!(
        limits(&["--idle-timeout", "off", "--max-time", "1m"]),
        [None, Some(60.0)]
    );
    let listed = |flags: &[&str]| {
        let ran = run(env.path(), &[flags, &["ls", "--json"]].concat());
        ran.document().as_array().unwrap().len()
    };
    assert_eq!(listed(&["--session", "nightly"]), 2);
    assert_eq!(listed(&[]), 2);
    assert_eq!(listed(&["--session", "default"]), 0);
}

#[test]
fn does_not_read_an_oversized_configuration() {
    let env = TestEnv::new();
    configure(env.path(), &"# more\n".repeat(200_000));
    let refused = run(env.path(), &["-s", "http://127.0.0.1:1/mcp", "tools"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.err.contains("too large"), "{refused:#?}");

    let state = env.path().join("state.json");
    let tasks = format!(r#"{{"active_tasks": []{}}}"#, " ".repeat(5 << 20));
    std::fs::File::create(&state)
        .unwrap()
        .write_all(tasks.as_bytes())
        .unwrap();
    configure(env.path(), "");
    let refused = run(env.path(), &["adopt", "--from", state.to_str().unwrap()]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.err.contains("too large"), "{refused:#?}");
}

/// A call that is as long as the test.
const LONG: [&str; 5] = [
    "call",
    "resumable_data_processing",
    "dataset_name=eu",
    "total_records=100000",
    "delay_ms=1000",
];

#[test]
fn removing_a_server_keeps_its_running_call() {
    let env = TestEnv::new();
    let server = server::demo(env.path().join("server"));
    let url = server.url();
    let table = format!("[servers.lab]\nurl = {url:?}\nprotocol = \"2025-06-18\"\n");
    configure(env.path(), &table);
    let long = [&["-s", "lab", "--json"], &LONG[..]].concat();
    let mut driver = Running::start(&mut program(env.path(), &long));
    driver.prints(|event| event["event"] == "progress");
    let mut screen = env.open(&[], (120, 36));
    screen.wait_for_line(&["running", "resumable_d"]);
    screen.press("3");
    screen.wait_for_line(&["lab", "live"]);

    let removed = run(env.path(), &["servers", "remove", "lab", "--yes"]);
    assert_eq!(removed.code, Some(0), "{removed:#?}");
    screen.wait_for_line(&["removed from", "config.toml"]);
    let burst = ["-s", "lab", "call", "send_burst", "count=1"];
    let refused = run(env.path(), &burst);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.err.contains("it gets no new calls"), "{refused:#?}");
    driver.prints(|event| event["event"] == "progress");

    let added = run(env.path(), &["servers", "add", "lab", &url]);
    assert_eq!(added.code, Some(0), "{added:#?}");
    screen.wait_until("the server is named again", |screen| {
        !screen.contents().contains("removed from")
    });
    let called = run(env.path(), &burst);
    assert_eq!(called.code, Some(0), "{called:#?}");
    driver.prints(|event| event["event"] == "progress");
    driver.signal(Signal::INT);
    driver.end();
    screen.press("qq");
    screen.end();
}

#[test]
fn a_client_config_does_not_change_the_drivers() {
    let env = TestEnv::new();
    let server = server::demo(env.path().join("server"));
    let url = server.url();
    let table = |name: &str, url: &str| {
        format!("[servers.{name}]\nurl = {url:?}\nprotocol = \"2025-06-18\"\n")
    };
    configure(env.path(), &table("lab", &url));
    let long = [&["-s", "lab", "--json"], &LONG[..]].concat();
    let mut driver = Running::start(&mut program(env.path(), &long));
    driver.prints(|event| event["event"] == "progress");
    // Another file, in which the same name is another place, and another name is this one.
    let dir = env.path().join("other");
    std::fs::create_dir(&dir).unwrap();
    let nowhere = table("lab", "http://127.0.0.1:1/mcp");
    configure(&dir, &[nowhere, table("new", &url)].concat());
    let other = |arguments: &[&str]| {
        let mut command = program(env.path(), arguments);
        command.env("LONGHAUL_CONFIG", dir.join("config.toml"));
        finish(&mut command)
    };
    let refused = other(&["-s", "lab", "call", "send_burst", "count=1"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    let of_driver = env.path().join("config.toml").display().to_string();
    for words in ["lab in ", "not used", &of_driver, "--session"] {
        assert!(refused.err.contains(words), "{words}: {refused:#?}");
    }
    let called = other(&["-s", "new", "call", "send_burst", "count=1"]);
    assert_eq!(called.code, Some(0), "{called:#?}");
    assert!(
        called.err.contains("lab in ") && called.err.contains("not used"),
        "said, and no failure: {called:#?}"
    );
    // What the driver has is what it had; and who reads the same file as he hears nothing.
    driver.prints(|event| event["event"] == "progress");
    let called = run(env.path(), &["-s", "lab", "call", "send_burst", "count=1"]);
    assert_eq!(called.code, Some(0), "{called:#?}");
    assert!(!called.err.contains("not used"), "{called:#?}");
    driver.signal(Signal::INT);
    driver.end();
}

#[test]
fn an_open_screen_rereads_its_configuration() {
    let env = TestEnv::new();
    let server = |name: &str| format!("[servers.{name}]\nurl = \"http://127.0.0.1:1/{name}\"\n");
    configure(env.path(), &server("lab"));
    let mut screen = env.open(&[], (120, 36));
    screen.wait_for("lab");
    // With the focus.
    configure(env.path(), &[server("lab"), server("build")].concat());
    screen.press("\u{1b}[I");
    screen.wait_for("config.toml: 2 servers");
    // With the servers.
    configure(env.path(), &[server("build"), server("ci")].concat());
    screen.press("3");
    screen.wait_for_line(&["ci", "http://127.0.0.1:1/ci"]);
    screen.wait_for_line(&["removed from", "config.toml"]);
    // A file that is no TOML is named with its line, once, and what was there stays.
    configure(env.path(), &[server("lab"), "x = \"\n".to_owned()].concat());
    screen.press("\u{1b}[I");
    screen.wait_for("could not read the configuration");
    screen.wait_for_line(&["ci", "http://127.0.0.1:1/ci"]);
    screen.press("4");
    screen.wait_for("config.toml:3: ");
    screen.wait_for("stays in use");
    configure(
        env.path(),
        &[server("lab"), "[keys]\nhelp = \"f2\"\n".to_owned()].concat(),
    );
    screen.press(":reload\r");
    screen.wait_for("config.toml: 1 server");
    screen.press("3?");
    screen.wait_for("press F2 for the keys");
    screen.wait_until(
        "the last is gone from the file, and the first is back",
        |screen| {
            let text = screen.contents();
            text.matches("removed from").count() == 2
        },
    );
    screen.press("qq");
    screen.end();
}

//! The whole program against a server that means harm: what it sends reaches no terminal as anything but
//! words, whatever way out it takes, and what is taken away leaves a mark.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test fails by panicking, its helpers too"
)]

mod ink;
mod server;

use std::collections::BTreeMap;

use crate::support::program::{Ran, run};
use crate::support::pty::{TestEnv, Tui};
use ink::Ink;
use longhaul::store::write_atomically;
use serde_json::Value;
use server::{HostileServer, hostile};

/// A terminal as most are.
const USUAL: (u16, u16) = (120, 36);

/// The tasks of a session, by how they were meant to end.
type Tasks = BTreeMap<&'static str, String>;

/// Calls the tool once in each way, with what goes to a pipe checked on the way.
fn fill(env: &TestEnv, server: &HostileServer) -> Tasks {
    let mut tasks = Tasks::new();
    for (mode, code) in [
        ("end", 0),
        ("fail", 1),
        ("error", 1),
        ("ask", 6),
        ("url", 6),
        ("stay", 0),
    ] {
        let argument = format!("mode={mode}");
        let mut arguments = vec!["-s", &server.url(), "--json", "call", "chat", &argument]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        arguments.push("--name".to_owned());
        arguments.push(format!("task-{mode}"));
        if mode == "stay" {
            arguments.push("--detach".to_owned());
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ran = piped(env, &arguments);
        assert_eq!(ran.code, Some(code), "{mode}: {ran:#?}");
        let id = ran.events()[0]["id"].as_str().unwrap().to_owned();
        tasks.insert(mode, id);
    }
    let ran = piped(
        env,
        &["-s", &server.url(), "--json", "call", "slow", "--detach"],
    );
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let id = ran.events()[0]["id"].as_str().unwrap().to_owned();
    tasks.insert("slow", id);
    tasks
}

/// Runs a command with both its ways out in pipes, and looks at what came.
fn piped(env: &TestEnv, arguments: &[&str]) -> Ran {
    let ran = run(env.path(), arguments);
    for text in [&ran.out, &ran.err] {
        let foreign = ink::foreign_in(text);
        assert!(foreign.is_empty(), "{arguments:?}: {foreign:?} in {text}");
    }
    if arguments.contains(&"--json") {
        let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
        let is_valid = is_json(&ran.out) || ran.out.lines().all(is_json);
        assert!(is_valid, "{arguments:?}: {}", ran.out);
    }
    ran
}

/// Runs a command on a terminal, and looks at what came.
fn shown(env: &TestEnv, arguments: &[&str]) -> (String, Ink) {
    let mut tui = env.open(arguments, USUAL);
    tui.end();
    let ink = clean(&tui);
    (String::from_utf8(tui.raw().to_vec()).unwrap(), ink)
}

/// Everything that the program wrote to this terminal, none of it foreign.
fn clean(tui: &Tui) -> Ink {
    let ink = ink::read(tui.raw());
    let few: Vec<&String> = ink.foreign.iter().take(8).collect();
    assert!(ink.foreign.is_empty(), "{few:#?}\n{}", tui.text());
    ink
}

#[test]
fn no_command_lets_a_server_write_to_the_terminal() {
    let env = TestEnv::new();
    let server = HostileServer::start();
    let tasks = fill(&env, &server);
    let (done, failed, asks) = (&tasks["end"][..], &tasks["fail"][..], &tasks["ask"][..]);
    let (refused, visit, slow) = (&tasks["error"][..], &tasks["url"][..], &tasks["slow"][..]);
    let url = server.url();
    let commands: [&[&str]; 18] = [
        &["ls"],
        &["ls", "--all"],
        &["tools", "-s", &url],
        &["show", done],
        &["show", failed],
        &["show", asks],
        &["show", slow],
        &["result", done],
        &["result", failed],
        &["result", refused],
        &["logs", done],
        &["logs", asks, "-n", "50"],
        &["watch", done],
        &["watch", failed],
        &["answer", asks],
        &["answer", visit],
        &["call", "-s", &url, "chat", "mode=fail"],
        &["call", "-s", &url, "chat", "mode=refuse"],
    ];
    let tags = [
        "TOOLDESC",
        "ARGNAME",
        "TOOLNAME",
        "LOGDATA",
        "LOGKEY",
        "PROGRESS",
        "RESULT",
        "RESULTTWO",
        "MIME",
        "LINK",
        "KIND",
        "TOOLFAIL",
        "RPCERROR",
        "REFUSAL",
        "QUESTION",
        "FIELDTITLE",
        "FIELDENUM",
        "FIELDNAME",
        "VISIT",
        "URLPATH",
        "TASKID",
        "DEFAULT",
        "CONST",
        "ENUM",
    ];
    let (mut in_pipes, mut on_terminals) = (String::new(), String::new());
    for arguments in commands {
        let ran = piped(&env, arguments);
        in_pipes.push_str(&ran.out);
        in_pipes.push_str(&ran.err);
        let json: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        piped(&env, &json);
        let (text, _) = shown(&env, arguments);
        on_terminals.push_str(&text);
        // Never coloured, never marked: a script gets on a terminal what it gets in a pipe.
        let (text, ink) = shown(&env, &json);
        assert!(!text.contains('\u{1b}'), "{json:?}: {text}");
        // Bytes that are no UTF-8 came as that sign already.
        let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
        let out: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("longhaul"))
            .collect();
        let is_valid = is_json(&out.join("\n")) || out.iter().all(|line| is_json(line));
        assert!(is_valid, "{json:?} ({} marks): {text}", ink.marks);
    }
    for (what, text) in [("a pipe", in_pipes), ("a terminal", on_terminals)] {
        assert!(
            text.matches('\u{fffd}').count() > 1000,
            "no marks in {what}"
        );
        for tag in tags {
            assert!(text.contains(tag), "{tag} never came to {what}");
        }
    }
}

#[test]
fn json_is_faithful_and_raw_bytes_reach_no_terminal() {
    let env = TestEnv::new();
    let server = HostileServer::start();
    let tasks = fill(&env, &server);
    let done = &tasks["end"][..];
    // Written with escapes, read back the same but for what was no text.
    let sent = |tag: &str| hostile(tag).split("@RAW@").next().unwrap().to_owned();
    let document = piped(&env, &["result", done, "--json"]).document();
    let text = document["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with(&sent("RESULT")), "{text}");
    assert!(text.contains(&"\u{301}".repeat(10_000)));

    let raw = run(env.path(), &["result", done, "--raw"]);
    assert!(raw.out.starts_with(&sent("RESULT")), "{raw:?}");
    let file = env.path().join("out");
    let out = run(
        env.path(),
        &["result", done, "--out", file.to_str().unwrap()],
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), raw.out, "{out:?}");
    for json in [false, true] {
        let mut arguments = vec!["result", done, "--raw"];
        arguments.extend(json.then_some("--json"));
        let (text, ink) = shown(&env, &arguments);
        assert!(text.contains("RESULT") && ink.marks > 10, "{text}");
        assert!(text.contains("--out FILE"), "{text}");
    }
}

#[test]
fn the_log_file_holds_no_sequence_of_a_server() {
    let env = TestEnv::new();
    let server = HostileServer::start();
    for mode in ["end", "refuse", "error"] {
        let mode = format!("mode={mode}");
        piped(&env, &["-vvv", "-s", &server.url(), "call", "chat", &mode]);
    }
    let paths = longhaul::store::Paths::resolve(Some(env.path().to_owned()), "default").unwrap();
    let log = std::fs::read_to_string(paths.log()).unwrap();
    assert_eq!(ink::foreign_in(&log), Vec::<String>::new());
}

/// Shows only the row of this task, with the cursor on it.
fn select(tui: &mut Tui, id: &str) {
    // Ctrl-U takes out what the filter was before.
    tui.press(&format!("/\u{15}{id}\r"));
    tui.wait_until("the task's detail", |screen| {
        let text = screen.contents();
        let has_cursor = |line: &str| line.contains('▸') && line.contains(id);
        text.lines().any(has_cursor) && text.contains("filter:")
    });
}

/// Opens a tab of the detail pane by its name.
fn tab(tui: &mut Tui, name: &str) {
    const TABS: [&str; 6] = ["Now", "Log", "Result", "Arguments", "Trace", "Resume"];
    let open = |name: &str| format!("[{name}]");
    let wanted = TABS.iter().position(|tab| *tab == name).unwrap();
    let text = tui.text();
    let mut at = TABS
        .iter()
        .position(|tab| text.contains(&open(tab)))
        .unwrap();
    while at != wanted {
        let (key, next) = if at < wanted {
            ("]", at + 1)
        } else {
            ("[", at - 1)
        };
        tui.press(key);
        tui.wait_for(&open(TABS[next]));
        at = next;
    }
}

/// No text of the server stands where only a row of ours begins, and none pushes a frame out of its place.
fn is_in_its_place(tui: &Tui) {
    let text = tui.text();
    for line in text.lines() {
        // Further right, a long text wraps within its column.
        let start: String = line.chars().take(4).collect();
        assert!(!start.trim_start().starts_with("SP"), "{text}");
    }
    let screen = tui.screen();
    let sign = |row, column| {
        let cell = screen.cell(row, column);
        cell.map_or(String::new(), |cell| cell.contents().to_owned())
    };
    let (rows, columns): (u16, u16) = (screen.size().0.into(), screen.size().1.into());
    for row in 0..rows {
        let Some(left) = (0..3).find(|column| sign(row, *column) == "│") else {
            continue;
        };
        let right = (0..columns)
            .rev()
            .find(|column| !sign(row, *column).trim().is_empty());
        let right = right.unwrap_or(0);
        assert_eq!(sign(row, right), "│", "row {row} from {left}:\n{text}");
        assert!(right + 2 >= columns, "row {row} ends at {right}:\n{text}");
    }
}

#[test]
fn no_key_leads_to_a_place_where_a_server_writes_to_the_screen() {
    let env = TestEnv::new();
    let server = HostileServer::start();
    let tasks = fill(&env, &server);
    let mut tui = env.open(&["-s", &server.url()], USUAL);
    tui.wait_for("task-end");
    tui.wait_for_line(&["task-ask", "asking"]);
    is_in_its_place(&tui);
    let mut marks = 0;
    let mut looked = |tui: &Tui, tags: &[&str]| {
        let text = tui.text();
        for tag in tags {
            assert!(text.contains(tag), "no {tag} in:\n{text}");
        }
        // As which the terminal of the test shows the mark.
        marks += usize::from(text.contains('\u{bf}'));
        is_in_its_place(tui);
    };

    for (mode, seen) in [
        (
            "end",
            &[("Result", "RESULT"), ("Log", "LOGDATA"), ("Trace", "c1/")][..],
        ),
        ("fail", &[("Result", "TOOLFAIL")]),
        ("error", &[("Result", "RPCERROR")]),
        (
            "stay",
            &[
                ("Now", "PROGRESS"),
                ("Log", "RESUMED"),
                ("Resume", "Last-Event-ID"),
            ],
        ),
        ("slow", &[("Now", "STATUSMSG"), ("Resume", "TASKID")]),
    ] {
        select(&mut tui, &tasks[mode]);
        for (name, tag) in seen {
            tab(&mut tui, name);
            tui.wait_for(tag);
            looked(&tui, &[tag]);
        }
        tui.press("z");
        tui.wait_until("the zoomed pane", |screen| {
            !screen.contents().contains("PROGRESS  ")
        });
        looked(&tui, &[]);
        tui.press("z");
        tui.wait_for("PROGRESS  ");
    }

    select(&mut tui, &tasks["end"]);
    tab(&mut tui, "Result");
    tui.press("y");
    tui.wait_for("arguments as JSON");
    looked(&tui, &[]);
    tui.press("r");
    tui.wait_for("sent to the terminal's clipboard");
    tui.press("Y");
    tui.wait_for("(press Enter to return)");
    tui.press("\r");
    tui.wait_for("filter:");
    tui.press("R");
    tui.wait_for("CHOICE");
    looked(&tui, &[]);
    for _ in 0..4 {
        let before = tui.text();
        tui.press("\t");
        tui.wait_until("the next field", |screen| screen.contents() != before);
        looked(&tui, &[]);
    }
    tui.press("\u{1b}");
    tui.wait_for("Enter open");

    for (mode, tags) in [
        ("ask", ["QUESTION", "FIELDTITLE"]),
        ("url", ["VISIT", "URLPATH"]),
    ] {
        select(&mut tui, &tasks[mode]);
        tui.press("\r");
        // The last line of the dialog: a look at half a frame proves nothing.
        tui.wait_for("Esc later");
        looked(&tui, &tags);
        tui.press("\u{1b}");
        tui.wait_until("the question closed", |screen| {
            !screen.contents().contains("Esc later")
        });
    }

    tui.press("2");
    tui.wait_for("TOOLDESC");
    looked(&tui, &["chat"]);
    tui.press("j");
    tui.wait_for("SECOND");
    tui.press("3");
    tui.wait_for("SERVERNAME");
    looked(&tui, &[]);
    // Its end is shown in a toast, a title and a notification.
    let ran = piped(&env, &["-s", &server.url(), "call", "chat", "mode=fail"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    tui.press("4");
    tui.wait_for("TOOLFAIL");
    looked(&tui, &[]);
    for size in [(80, 24), (61, 17), (40, 10), USUAL] {
        tui.resize(size);
        tui.wait_until("the new size", |screen| {
            screen.contents().lines().count() > 3
        });
        tui.press("1");
        tui.press("2");
        tui.press("1");
    }
    tui.press("\u{3}\u{3}");
    tui.end();

    let ink = clean(&tui);
    assert!(marks > 8 && ink.marks > 1000, "{marks} screens with a mark");
    assert!(!ink.titles.is_empty());
    println!("notifications: {:?}", ink.notices);
    assert!(ink.copies.iter().any(|copy| copy.contains("RESULTTWO")));
    for copy in &ink.copies {
        assert_eq!(ink::foreign_in(copy), Vec::<String>::new());
    }
}

#[test]
fn ascii_mode_prints_only_seven_bit_bytes() {
    let env = TestEnv::new();
    let server = HostileServer::start();
    let tasks = fill(&env, &server);
    let mut tui = env.open(&["--ascii", "-s", &server.url()], USUAL);
    tui.wait_for("task-end");
    for (mode, tag) in [
        ("end", "RESULT"),
        ("fail", "TOOLFAIL"),
        ("slow", "STATUSMSG"),
    ] {
        tui.press(&format!("/\u{15}{}\r", tasks[mode]));
        tui.wait_for(tag);
    }
    tui.press("2");
    tui.wait_for("TOOLDESC");
    tui.press("3");
    tui.wait_for("SERVERNAME");
    // Told in a toast, a title and a notification.
    let ran = piped(&env, &["-s", &server.url(), "call", "chat", "mode=fail"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    tui.press("4");
    tui.wait_for("TOOLFAIL");
    tui.press("\u{3}\u{3}");
    tui.end();
    clean(&tui);
    let raw = tui.raw();
    let foreign = raw.iter().position(|byte| !byte.is_ascii());
    let around = foreign.map(|at| String::from_utf8_lossy(&raw[at.saturating_sub(60)..at + 8]));
    assert_eq!(around, None);
}

#[test]
fn sanitizes_server_text_in_scripts_and_files() {
    let env = TestEnv::new();
    let words = hostile("PASSED").replace(['\0', '\u{7f}'], "");
    let name = words.replace("://", "");
    let flag = format!("--{words}");
    let file = env.path().join("state.json");
    let unreachable = env.path().join("unreachable.json");
    let mut state = serde_json::json!({"client_id": words, "server_url": format!("http://127.0.0.1:1/{words}"),
        "tasks": [{"id": words, "tool": words, "arguments": {}, "status": words, "progress": words}]});
    write_atomically(&unreachable, state.to_string().as_bytes()).unwrap();
    let server = HostileServer::start();
    state["server_url"] = format!("http://{}/kept", server.addr).into();
    write_atomically(&file, state.to_string().as_bytes()).unwrap();
    let configured = serde_json::json!(words);
    let config = format!("{configured} = 1\n[servers.lab]\nurl = {configured}\n{configured} = 2\n");
    write_atomically(&env.path().join("config.toml"), config.as_bytes()).unwrap();
    let commands: [&[&str]; 7] = [
        &[&flag],
        &["show", &words],
        &["ls", "--status", &words],
        &["-s", &name, "tools"],
        &["call", "-s", "http://127.0.0.1:1/mcp", &words, &words],
        &["adopt", "--from", unreachable.to_str().unwrap()],
        &["adopt", "--from", file.to_str().unwrap()],
    ];
    for arguments in commands {
        let ran = piped(&env, arguments);
        assert_ne!(ran.code, Some(0), "{ran:#?}");
        assert!(ran.err.contains("PASSED"), "{ran:#?}");
        let mut tui = env.open(arguments, USUAL);
        if arguments.last() == file.to_str().as_ref() {
            tui.wait_for("import them? y/N");
            tui.press("n\r");
        }
        tui.end();
        assert!(clean(&tui).marks > 0, "{arguments:?}");
    }
}

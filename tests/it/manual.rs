//! Help, completions and manual pages: the form of all, and as a shell uses them. `docs/command-line.md` has the help texts.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{fs, path::Path, process::Command};

use crate::support::{
    program::{Ran, finish, program, run},
    server,
};
use longhaul::store::write_atomically;
use tempfile::TempDir;

fn state() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn said(state: &Path, arguments: &[&str]) -> String {
    let Ran { code, out, err } = run(state, arguments);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?}");
    // The next release is no reason to read all of it again.
    out.replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

/// The commands by the names of their manual pages, the program itself first.
fn commands(state: &Path) -> Vec<Vec<String>> {
    let dir = state.join("man1");
    said(state, &["man", "--dir", dir.to_str().unwrap()]);
    let mut names: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let path = |name: &String| {
        let name = name.strip_suffix(".1").unwrap();
        name.split('-').skip(1).map(str::to_owned).collect()
    };
    names.iter().map(path).collect()
}

#[test]
fn the_help_of_every_command() {
    let state = state();
    for command in commands(state.path()) {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = said(state.path(), &[&words[..], &["--help"]].concat());
        let (options, notes) = help.split_once("\nExamples:\n").unwrap();
        let examples = notes.split_once("\n\nExit codes:").unwrap().0;
        if !words.is_empty() {
            let own = options.find("\nOptions:").unwrap();
            assert!(own < options.find("\nGlobal options:").unwrap(), "{help}");
        }
        assert!(examples.starts_with("  longhaul"), "{help}");
        assert!(!help.contains("{}"), "{help}");
        if words == ["ls"] {
            assert!(help.contains("  running?  "), "{help}");
        }
    }
    let usage = run(state.path(), &["show"]);
    assert_eq!(usage.code, Some(2));
    assert!(!usage.err.contains("--state-dir"), "{usage:#?}");
}

#[test]
fn the_manual_pages() {
    let state = state();
    let whole = said(state.path(), &["man"]);
    assert!(whole.contains("longhaul\\-servers(1)"), "{whole}");
    snapshot("man_call", &said(state.path(), &["man", "call"]));
    let deep = said(state.path(), &["man", "servers", "add"]);
    assert!(deep.contains("longhaul-servers-add"), "{deep}");
    // What is copied from a page is what a shell has to get.
    assert!(
        deep.contains("\\(aqAuthorization: Bearer ${BUILD_TOKEN}\\(aq"),
        "{deep}"
    );
    let wrong = run(state.path(), &["man", "servers", "fly"]);
    assert_eq!(wrong.code, Some(2), "{wrong:#?}");
    assert!(wrong.err.contains("longhaul --help"), "{wrong:#?}");
}

#[test]
fn hidden_commands_appear_nowhere() {
    let state = state();
    let hidden = "--background";
    let accepted = run(state.path(), &["demo", hidden]);
    assert!(
        accepted.err.contains("--serve"),
        "{hidden} is an option: {accepted:#?}"
    );
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let found = candidates(state.path(), shell, &["longhaul", "demo", "--"]);
        assert!(
            found.contains("reset") && !found.contains("background"),
            "{shell}: {found}"
        );
    }
    let page = said(state.path(), &["man", "demo"]);
    assert!(
        page.contains("reset") && !page.contains("background"),
        "{page}"
    );
}

/// What the program tells a shell that asks, a line each.
fn candidates(state: &Path, shell: &str, words: &[&str]) -> String {
    let mut command = program(state, &[&["--"], words].concat());
    command.env("LONGHAUL_COMPLETE", shell);
    let ran = finish(&mut command);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}");
    ran.out
}

#[test]
fn each_shell_gets_what_makes_it_ask() {
    let state = state();
    for (shell, begins) in [
        ("bash", "_longhaul() {"),
        ("zsh", "#compdef longhaul"),
        (
            "fish",
            "complete --keep-order --exclusive --command longhaul",
        ),
        ("powershell", "\nRegister-ArgumentCompleter"),
        ("elvish", "\nset edit:completion"),
    ] {
        let script = said(state.path(), &["completions", shell]);
        assert!(script.starts_with(begins), "{shell}: {script:.200}");
        assert!(script.contains("LONGHAUL_COMPLETE"), "{shell}: {script}");
    }
    let wrong = run(state.path(), &["completions", "tcsh"]);
    assert_eq!(wrong.code, Some(2), "{wrong:#?}");
    assert!(wrong.err.contains("powershell"), "{wrong:#?}");
}

/// What bash offers for a line, its last word being the one that is typed.
fn offered(state: &Path, line: &[&str]) -> Vec<String> {
    let script = said(state, &["completions", "bash"]);
    let file = state.join("longhaul.bash");
    write_atomically(&file, script.as_bytes()).unwrap();
    // Bash takes a word apart at these signs, and completes what stands behind the last of them.
    let mut parts: Vec<String> = Vec::new();
    for word in line {
        let mut rest = *word;
        while let Some(at) = rest.find(['=', ':']) {
            let (part, sign) = rest.split_at(at);
            parts.extend((!part.is_empty()).then(|| part.to_owned()));
            let (sign, behind) = sign.split_at(1);
            parts.push(sign.to_owned());
            rest = behind;
        }
        parts.extend((!rest.is_empty() || word.is_empty()).then(|| rest.to_owned()));
    }
    let typed = match parts.last().map(String::as_str) {
        Some("=" | ":") | None => "",
        Some(last) => last,
    };
    let ask = r#"source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; typed=$3; shift 3
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _longhaul longhaul "$typed" "${@: -2:1}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let built = program(state, &[]);
    let beside = Path::new(built.get_program()).parent().unwrap();
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", ask, "bash"])
        .arg(&file)
        .args([&line.join(" "), typed])
        .args(&parts)
        .env("PATH", format!("{}:/usr/bin:/bin", beside.display()))
        .env("LONGHAUL_STATE_DIR", state)
        .env("LONGHAUL_CONFIG", state.join("config.toml"));
    bash.stdout(std::process::Stdio::piped());
    bash.stderr(std::process::Stdio::piped());
    let ran = finish(&mut bash);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:#?}");
    ran.out.lines().map(str::to_owned).collect()
}

#[test]
fn bash_offers_what_fits() {
    let state = state();
    let of = |line: &[&str]| offered(state.path(), line);
    assert_eq!(of(&["longhaul", "canc"]), ["cancel"]);
    assert_eq!(of(&["longhaul", "servers", "tes"]), ["test"]);
    assert_eq!(of(&["longhaul", "call", "--idle"]), ["--idle-timeout"]);
    assert_eq!(of(&["longhaul", "--color", "al"]), ["always"]);
    assert_eq!(
        of(&["longhaul", "ls", "--status", "input"]),
        ["input-required"]
    );
    assert!(of(&["longhaul", "demo", "--ba"]).concat().is_empty());
}

#[test]
fn bash_offers_tasks_servers_tools_and_their_arguments() {
    let state = state();
    let server = server::demo(state.path().join("demo"));
    let url = server.url();
    let call = [
        "-s",
        &url,
        "--session",
        "show",
        "call",
        "get_forecast",
        "city=Oslo",
        "delay_ms=1",
        "--json",
    ];
    let events = run(state.path(), &call).events();
    let id = events.first().unwrap()["id"].as_str().unwrap().to_owned();
    // A session whose name is that of a command leads nowhere else.
    let of = |line: &[&str]| {
        let line = [&["longhaul", "--session", "show"], line].concat();
        offered(state.path(), &line)
    };
    assert_eq!(of(&["result", id.split_at(2).0]), [id.as_str()]);
    assert_eq!(of(&["call", "get_fore"]), ["get_forecast"]);
    assert_eq!(of(&["run", "get_fore"]), ["get_forecast"]);
    assert_eq!(
        of(&["call", "get_forecast", "delay_ms=1", ""]),
        ["city=", "stations="]
    );
    assert_eq!(of(&["again", &id, "city="]), ["Oslo"]);
    assert_eq!(of(&["help", "servers"]), ["servers"]);
    // What bash keeps of a name that it takes apart is not offered twice.
    let addr = server.addr().to_string();
    let (host, port) = addr.split_once(':').unwrap();
    assert_eq!(of(&["-s", &format!("{host}:")]), [port]);
    assert_eq!(of(&["--session", "sh"]), ["show"]);
    let open = of(&["cancel", ""]);
    assert!(!open.contains(&id), "nothing is unsettled: {open:?}");
    // Other shells show what each of them is.
    let fish = candidates(
        state.path(),
        "fish",
        &["longhaul", "--session=show", "show", ""],
    );
    assert!(
        fish.contains(&format!("{id}\tcompleted  get_forecast")),
        "{fish}"
    );
    // Nothing was opened, made or said where there is nothing.
    let nowhere = state.path().join("nowhere");
    let mut command = program(state.path(), &["--", "longhaul", "show", ""]);
    command.env("LONGHAUL_COMPLETE", "zsh");
    command.env("LONGHAUL_STATE_DIR", &nowhere);
    let ran = finish(&mut command);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:#?}");
    assert!(!nowhere.exists());
}

#[test]
fn both_are_there_for_scripts_too() {
    let state = state();
    let page = run(state.path(), &["man", "call", "--json"]).document();
    assert_eq!(page["name"], "longhaul-call.1");
    assert!(page["page"].as_str().unwrap().contains(".SH EXAMPLES"));
    let completions = run(state.path(), &["completions", "zsh", "--json"]).document();
    assert_eq!(completions["shell"], "zsh");
    let mut reader = program(state.path(), &["man", "--dir", "/dev/null/nowhere"]);
    let refused = finish(&mut reader);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
}

//! Help, completions and manual pages: as they were read by a person once, and as a shell uses them.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

mod support;

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path, process::Command};

use longhaul::store::write_atomically;
use support::program::{Ran, finish, program, run};
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
    let mut text = String::new();
    for command in commands(state.path()) {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = said(state.path(), &[&words[..], &["--help"]].concat());
        // What is the same for every command stands under the first.
        let (own, _) = help.split_once("\nGlobal options:").unwrap_or((&help, ""));
        let notes = help.split_once("\nExamples:\n").unwrap().1;
        let examples = notes.split_once("\n\nExit codes:").unwrap().0;
        let whole = match words.as_slice() {
            [] => help.clone(),
            _ => format!("{own}\nExamples:\n{examples}\n"),
        };
        writeln!(text, "$ longhaul {}\n{whole}", words.join(" ")).unwrap();
    }
    snapshot("help", &text);
}

#[test]
fn the_manual_pages() {
    let state = state();
    snapshot("man", &said(state.path(), &["man"]));
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
fn what_is_hidden_is_offered_nowhere() {
    let state = state();
    let hidden = "--background";
    let accepted = run(state.path(), &["demo", hidden]);
    assert!(
        accepted.err.contains("--serve"),
        "{hidden} is an option: {accepted:#?}"
    );
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = said(state.path(), &["completions", shell]);
        assert!(
            script.contains("reset") && !script.contains("background"),
            "{shell}"
        );
    }
    let page = said(state.path(), &["man", "demo"]);
    assert!(
        page.contains("reset") && !page.contains("background"),
        "{page}"
    );
}

#[test]
fn the_completions_of_each_shell() {
    let state = state();
    // One of them is read as a whole; what is the same for every command stands in it once.
    let fish = said(state.path(), &["completions", "fish"]);
    let option = |line: &'_ str| Some(line.split_once("\" -")?.1.to_owned());
    let is_of_all = |line: &&str| line.contains("needs_command\" -");
    let global: BTreeSet<String> = fish.lines().filter(is_of_all).filter_map(option).collect();
    let is_own =
        |line: &&str| is_of_all(line) || option(line).is_none_or(|it| !global.contains(&it));
    let own: Vec<&str> = fish.lines().filter(is_own).collect();
    snapshot("completions_fish", &own.join("\n"));
    for (shell, begins) in [
        ("bash", "_longhaul() {"),
        ("zsh", "#compdef longhaul"),
        (
            "powershell",
            "\nusing namespace System.Management.Automation",
        ),
    ] {
        let script = said(state.path(), &["completions", shell]);
        assert!(script.starts_with(begins), "{shell}: {script:.200}");
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
    let ask = r#"source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _longhaul longhaul "${@: -1}" "${@: -2:1}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", ask, "bash"])
        .arg(&file)
        .args(line);
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

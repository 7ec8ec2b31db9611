//! The script in `docs/scripting.md`, run as it is written there.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::string_slice,
    reason = "a test fails by panicking, and marks are ASCII"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use crate::support::{
    program::{Ran, finish, program},
    server,
};
use longhaul::store::write_atomically;
use serde_json::Value;

const PAGE: &str = include_str!("../../docs/scripting.md");

/// The script in the section "A nightly script".
fn script() -> &'static str {
    let section = &PAGE[PAGE.find("\n## A nightly script\n").unwrap()..];
    let begin = section.find("```sh\n#!/bin/sh\n").unwrap() + "```sh\n".len();
    let rest = &section[begin..];
    rest.split_once("```").unwrap().0
}

/// Runs it on the datasets, and gives its end and what it collected.
fn run_script(dir: &Path, server: &str, datasets: &[&str]) -> (Ran, Vec<Value>) {
    let file = dir.join("nightly.sh");
    write_atomically(&file, script().as_bytes()).unwrap();
    // As in a crontab: the program is found by the path, and the directory is some other.
    let state = dir.join("state");
    let built = program(&state, &[]);
    let beside = Path::new(built.get_program()).parent().unwrap();
    let mut config = fs::OpenOptions::new();
    let config = config.create(true).append(true);
    config.open(dir.join("config.toml")).unwrap();
    let mut sh = Command::new("sh");
    sh.arg(&file)
        .args(datasets)
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", beside.display()))
        .env("LONGHAUL_KEEPER", "0")
        .env("LONGHAUL_STATE_DIR", &state)
        .env("LONGHAUL_CONFIG", dir.join("config.toml"))
        .env("SERVER", server)
        .env("TAG", "nightly-2026-11-22")
        .env("RESULTS", dir.join("results.ndjson"))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .current_dir(dir);
    let ran = finish(&mut sh);
    assert!(!dir.join("results.ndjson.new").exists());
    let text = fs::read_to_string(dir.join("results.ndjson")).unwrap();
    let results = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (ran, results.collect())
}

fn by_name(results: &[Value]) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    results
        .iter()
        .map(|task| (text(&task["name"]), text(&task["status"])))
        .collect()
}

#[test]
fn the_script_collects_ten_good_calls_and_exits_zero() {
    let dir = tempfile::tempdir().unwrap();
    let server = server::demo(dir.path().join("demo"));
    let (ran, results) = run_script(dir.path(), &server.url(), &[]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:#?}");
    let statuses = by_name(&results);
    assert_eq!(statuses.len(), 10, "{statuses:?}");
    assert!(
        statuses.values().all(|status| status == "completed"),
        "{statuses:?}"
    );
    for task in &results {
        let result = task["result"]["content"].to_string();
        assert!(result.contains("completed"), "{task}");
    }
    // Run again, it starts nothing, and collects the same.
    let ids = |results: &[Value]| -> BTreeSet<String> {
        let id = |task: &Value| task["id"].as_str().unwrap().to_owned();
        results.iter().map(id).collect()
    };
    let (ran, again) = run_script(dir.path(), &server.url(), &[]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:#?}");
    assert_eq!(ids(&again), ids(&results));
}

#[test]
fn the_hook_runs_once_for_each_of_ten_calls() {
    let dir = tempfile::tempdir().unwrap();
    let left = dir.path().join("left");
    fs::create_dir(&left).unwrap();
    let shown = left.display();
    let config = format!(
        "[notify]\nhook = 'f={shown}/part.$$ && cat > $f && mv $f {shown}/ran.$LONGHAUL_TASK.$$'\nhook_on = \"all\"\n"
    );
    write_atomically(&dir.path().join("config.toml"), config.as_bytes()).unwrap();
    let server = server::demo(dir.path().join("demo"));
    let (ran, results) = run_script(dir.path(), &server.url(), &[]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:#?}");
    let names = || -> Vec<String> {
        let entries = fs::read_dir(&left).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        entries.map(|it| name(it).into_string().unwrap()).collect()
    };
    // Every hook was started before its longhaul left. A minute for them to end, which only a hang reaches.
    let is_whole = |name: &String| name.starts_with("ran.");
    for _ in 0..6000 {
        if names().iter().filter(|name| is_whole(name)).count() >= 10 {
            break;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    }
    let (ran, _) = run_script(dir.path(), &server.url(), &[]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let mut tasks: Vec<String> = names()
        .iter()
        .map(|name| name.split('.').nth(1).unwrap().to_owned())
        .collect();
    tasks.sort();
    let mut ids: Vec<&str> = results
        .iter()
        .map(|task| task["id"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(tasks, ids);
}

#[test]
fn the_script_reports_a_failed_call_and_exits_with_its_code() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> = (1..=9).map(|number| format!("eu-{number}=10")).collect();
    // More records than the server takes.
    let mut datasets: Vec<&str> = names.iter().map(String::as_str).collect();
    datasets.insert(4, "huge=99999999");
    let server = server::demo(dir.path().join("demo"));
    let (ran, results) = run_script(dir.path(), &server.url(), &datasets);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    let statuses = by_name(&results);
    assert_eq!(statuses.len(), 10, "{statuses:?}");
    let good = statuses
        .values()
        .filter(|status| *status == "completed")
        .count();
    assert_eq!(
        (good, statuses["huge"].as_str()),
        (9, "failed"),
        "{statuses:?}"
    );
    let failed = results.iter().find(|task| task["name"] == "huge").unwrap();
    assert!(
        failed["error"]["message"]
            .as_str()
            .unwrap()
            .contains("total_records"),
        "{failed}"
    );
}

#[test]
fn the_script_reports_a_down_server_and_keeps_results() {
    let dir = tempfile::tempdir().unwrap();
    let earlier = dir.path().join("results.ndjson");
    write_atomically(&earlier, b"{\"name\": \"earlier\"}\n").unwrap();
    let (ran, results) = run_script(dir.path(), "http://127.0.0.1:1/mcp", &["eu-1=1", "eu-2=1"]);
    assert_eq!(ran.code, Some(4), "{ran:#?}");
    assert_eq!(results[0]["name"], "earlier");
}

#[test]
fn the_worst_code_is_kept_whichever_comes_last() {
    let begin = script().find("worst=0").unwrap();
    let end = script().find("for dataset").unwrap();
    let keeps = &script()[begin..end];
    for (codes, worst) in [
        ("0 0", "0"),
        ("4 6", "4"),
        ("6 4", "4"),
        ("2 4 1 8", "1"),
        ("5 1", "5"),
        ("5 73 1", "73"),
    ] {
        let words = format!("{keeps}\nfor code in {codes}; do keep_worse $code; done\necho $worst");
        let out = Command::new("sh").arg("-c").arg(words).output().unwrap();
        assert_eq!(
            String::from_utf8(out.stdout).unwrap().trim(),
            worst,
            "{codes}"
        );
    }
}

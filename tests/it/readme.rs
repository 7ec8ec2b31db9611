//! The README names files; each of them is there, and each promise names one that attacks it.

#![expect(
    clippy::unwrap_used,
    clippy::string_slice,
    reason = "a test may fail loudly, and marks are ASCII"
)]

use std::path::Path;

use longhaul::app::Keymap;

const README: &str = include_str!("../../README.md");

/// The part of the text under this heading.
fn section(heading: &str) -> &'static str {
    let begin = README.find(&format!("\n## {heading}")).unwrap() + 1;
    let rest = &README[begin..];
    rest.find("\n## ").map_or(rest, |end| &rest[..end])
}

/// What stands between `open` and `close`, as often as it does.
fn between<'t>(text: &'t str, open: &'static str, close: char) -> impl Iterator<Item = &'t str> {
    let parts = text.split(open).skip(1);
    parts.filter_map(move |part| part.split_once(close).map(|(inner, _)| inner))
}

/// What is written as code and names a place in this repository.
fn places(text: &str) -> Vec<&str> {
    let is_place = |code: &&str| {
        ["src", "tests", "benches", "assets", ".ci"]
            .iter()
            .any(|dir| {
                code.strip_prefix(dir)
                    .is_some_and(|rest| rest.starts_with('/'))
            })
            || code.starts_with(".deny")
    };
    // Code stands at every second place between the marks.
    let codes = text.split('`').skip(1).step_by(2);
    codes.filter(is_place).collect()
}

fn is_there(place: &str) -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(place).exists()
}

#[test]
fn every_file_that_the_readme_names_is_there() {
    // Blocks of commands are somebody else's files.
    let prose: String = README.split("```").step_by(2).collect();
    let links = between(&prose, "](", ')').filter(|link| !link.contains("://"));
    let named: Vec<&str> = places(&prose).into_iter().chain(links).collect();
    assert!(named.len() > 40, "{named:?}");
    for place in named {
        let file = place.split(['#', ' ']).next().unwrap();
        assert!(is_there(file), "{place}");
    }
}

#[test]
fn every_promise_names_a_test_that_is_there() {
    let rows = section("Promises")
        .lines()
        .filter(|line| line.starts_with("| "));
    let promises: Vec<&str> = rows.skip(1).collect();
    let lines = section("Security").split("\n- ").skip(1);
    let last = |line: &'static str| line.split("\n\n").next().unwrap();
    let all: Vec<&str> = promises.into_iter().chain(lines.map(last)).collect();
    assert!(all.len() >= 16, "{}", all.len());
    for promise in all {
        let tests: Vec<&str> = places(promise)
            .into_iter()
            .filter(|place| place.starts_with("tests/"))
            .collect();
        assert!(!tests.is_empty(), "{promise}");
        for test in tests {
            assert!(is_there(test), "{test} of {promise}");
        }
    }
}

/// Every key of the program where the user changed none, under the place where it holds.
fn keys() -> String {
    let row = |(keys, words): (String, String)| match (keys.as_str(), words.as_str()) {
        ("", "") => None,
        ("", place) => Some(format!("| **{place}** | |\n")),
        (keys, words) => {
            let keys: Vec<String> = keys.split(' ').map(|key| format!("`{key}`")).collect();
            Some(format!("| {} | {words} |\n", keys.join(" ")))
        }
    };
    let rows = Keymap::default().help_lines().into_iter().filter_map(row);
    std::iter::once("| key | does |\n|---|---|\n".to_owned())
        .chain(rows)
        .collect()
}

#[test]
fn the_table_of_keys_is_that_of_the_program() {
    let written = section("Keys");
    let begin = written.find("| key | does |").unwrap();
    let table = written[begin..].split("\n\n").next().unwrap();
    let keys = keys();
    if std::env::var_os("LONGHAUL_README").is_some_and(|what| what == "write") {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let whole = README.replacen(table, keys.trim_end(), 1);
        longhaul::store::write_atomically(&path, whole.as_bytes()).unwrap();
        return;
    }
    // Line by line, so that a failure names the key.
    for (written, key) in table.lines().zip(keys.lines()) {
        assert_eq!(written, key, "LONGHAUL_README=write writes the table anew");
    }
    assert_eq!(table.lines().count(), keys.lines().count());
}

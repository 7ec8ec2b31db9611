//! The doors between the rooms: each room may use what stands here and nothing else.

#![expect(
    clippy::unwrap_used,
    clippy::string_slice,
    reason = "a test may fail loudly, and our code is ASCII"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A room, and the rooms that it may use.
const DOORS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("protocol", &["domain"]),
    ("transport", &["domain", "protocol"]),
    ("link", &["domain", "protocol"]),
    ("store", &["domain"]),
    ("auth", &["domain", "protocol", "transport", "store"]),
    (
        "engine",
        &["auth", "domain", "protocol", "transport", "link", "store"],
    ),
    ("app", &["domain"]),
    ("ui", &["domain", "app"]),
    ("term", &["domain"]),
    (
        "shell",
        &["domain", "app", "ui", "engine", "store", "term", "demo"],
    ),
    (
        "cli",
        &[
            "domain",
            "auth",
            "engine",
            "link",
            "store",
            "term",
            "app",
            "shell",
            "transport",
            "demo",
        ],
    ),
    ("demo", &[]),
];

/// Rooms that are values and functions only.
const PURE: &[&str] = &["domain", "protocol", "link", "app", "ui"];

/// What a pure room must not name: IO, clocks, the environment, dice without a seed.
const IMPURE: &[&str] = &[
    "tokio",
    "reqwest",
    "rusqlite",
    "crossterm",
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    "Instant",
    "SystemTime",
    "fastrand::u64(",
    "fastrand::u32(",
    "Rng::new(",
    "TimeZone::system",
    "Zoned::now",
    "Timestamp::now",
];

fn files(room: &str) -> Vec<(PathBuf, String)> {
    fn walk(path: &Path, found: &mut Vec<PathBuf>) {
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                walk(&entry.unwrap().path(), found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path.to_owned());
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&src.join(room), &mut found);
    let single = src.join(format!("{room}.rs"));
    if single.exists() {
        found.push(single);
    }
    assert!(
        !found.is_empty(),
        "no room {room}: the table of doors is out of date"
    );
    found
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect()
}

/// The code of a file: without comments, and without the tests at its end, which may use anything.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The rooms that code names, as `crate::room` or inside `use crate::{room::..}`.
fn rooms_named(code: &str) -> Vec<String> {
    let mut named = Vec::new();
    for (place, _) in code.match_indices("crate::") {
        let rest = &code[place + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            for letter in group.chars() {
                match letter {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    _ => {}
                }
                if depth == 0 && (letter.is_alphanumeric() || letter == '_') {
                    word.push(letter);
                } else if depth == 0 && letter == ':' && !word.is_empty() {
                    named.push(std::mem::take(&mut word));
                    depth += 0;
                } else if letter == ',' || letter.is_whitespace() {
                    word.clear();
                }
            }
        } else {
            named.push(
                rest.chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect(),
            );
        }
    }
    named
}

#[test]
fn no_room_uses_a_back_door() {
    let rooms: Vec<&str> = DOORS.iter().map(|(room, _)| *room).collect();
    let mut back_doors = Vec::new();
    for (room, may_use) in DOORS {
        for (path, text) in files(room) {
            for named in rooms_named(&code(&text)) {
                let named = named.as_str();
                if rooms.contains(&named) && named != *room && !may_use.contains(&named) {
                    back_doors.push(format!("{} uses {named}", path.display()));
                }
            }
        }
    }
    assert!(
        back_doors.is_empty(),
        "back doors:\n{}",
        back_doors.join("\n")
    );
}

#[test]
fn pure_rooms_touch_nothing() {
    let mut touches = Vec::new();
    for room in PURE {
        for (path, text) in files(room) {
            let code = code(&text);
            let named = IMPURE.iter().filter(|impure| code.contains(**impure));
            touches.extend(named.map(|impure| format!("{} names {impure}", path.display())));
        }
    }
    assert!(touches.is_empty(), "not pure:\n{}", touches.join("\n"));
}

#[test]
fn the_reader_of_doors_sees_them() {
    let code =
        "use crate::{app, domain::{Task, TaskId}, link::Link};\nlet x = crate::store::Paths;";
    let named = rooms_named(code);
    for room in ["domain", "link", "store"] {
        assert!(
            named.iter().any(|found| found == room),
            "{room} in {named:?}"
        );
    }
}

#[test]
fn every_room_stands_in_the_map() {
    let map = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let docs: String = map.lines().filter(|line| line.starts_with("//!")).collect();
    for (room, _) in DOORS {
        assert!(
            docs.contains(room),
            "{room} is missing in the map at the top of src/lib.rs"
        );
    }
}

//! Dependencies between modules: each module may use only the modules listed here. And the sizes that a reader can take.

#![expect(
    clippy::unwrap_used,
    clippy::string_slice,
    clippy::indexing_slicing,
    reason = "a test may fail loudly, and our code is ASCII"
)]

mod source;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A module, and the modules that it may use.
const DEPENDENCIES: &[(&str, &[&str])] = &[
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
    ("proxy", &["domain"]),
    ("term", &["domain"]),
    ("config", &["domain", "app", "engine", "store"]),
    (
        "shell",
        &[
            "domain", "app", "ui", "engine", "store", "config", "term", "demo",
        ],
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
            "config",
            "proxy",
            "shell",
            "transport",
            "demo",
        ],
    ),
    ("demo", &[]),
];

/// Modules without side effects.
const PURE: &[&str] = &["domain", "protocol", "link", "app", "ui", "proxy"];

/// What a pure module must not name: IO, clocks, the environment, random numbers without a seed.
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

fn files(module: &str) -> Vec<(PathBuf, String)> {
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
    walk(&src.join(module), &mut found);
    let single = src.join(format!("{module}.rs"));
    if single.exists() {
        found.push(single);
    }
    assert!(
        !found.is_empty(),
        "no module {module}: the table of dependencies is out of date"
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

/// The modules that code names, as `crate::module` or inside `use crate::{module::..}`.
fn modules_named(code: &str) -> Vec<String> {
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
fn modules_use_only_their_dependencies() {
    let modules: Vec<&str> = DEPENDENCIES.iter().map(|(module, _)| *module).collect();
    let mut forbidden = Vec::new();
    for (module, may_use) in DEPENDENCIES {
        for (path, text) in files(module) {
            for named in modules_named(&code(&text)) {
                let named = named.as_str();
                if modules.contains(&named) && named != *module && !may_use.contains(&named) {
                    forbidden.push(format!("{} uses {named}", path.display()));
                }
            }
        }
    }
    assert!(
        forbidden.is_empty(),
        "forbidden dependencies:\n{}",
        forbidden.join("\n")
    );
}

#[test]
fn pure_modules_have_no_side_effects() {
    let mut touches = Vec::new();
    for module in PURE {
        for (path, text) in files(module) {
            let code = code(&text);
            let named = IMPURE.iter().filter(|impure| code.contains(**impure));
            touches.extend(named.map(|impure| format!("{} names {impure}", path.display())));
        }
    }
    assert!(touches.is_empty(), "not pure:\n{}", touches.join("\n"));
}

#[test]
fn finds_dependencies_in_use_lines() {
    let code =
        "use crate::{app, domain::{Task, TaskId}, link::Link};\nlet x = crate::store::Paths;";
    let named = modules_named(code);
    for module in ["domain", "link", "store"] {
        assert!(
            named.iter().any(|found| found == module),
            "{module} in {named:?}"
        );
    }
}

#[test]
fn overview_lists_every_module() {
    let map = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let docs: String = map.lines().filter(|line| line.starts_with("//!")).collect();
    for (module, _) in DEPENDENCIES {
        assert!(
            docs.contains(module),
            "{module} is missing in the overview at the top of src/lib.rs"
        );
    }
}

/// Measures the source and compares it with the limits: `cargo test --test it -- architecture::figures --nocapture`.
#[test]
fn figures() {
    let figures = source::Source::read().figures();
    println!("{} lines of code in src", figures.code_lines);
    for (what, sizes, limit) in [
        ("lines in a file", &figures.files, 600),
        ("lines in a function", &figures.functions, 80),
        ("fields in a struct", &figures.structs, 25),
        ("parameters", &figures.parameters, 6),
    ] {
        let over = sizes.iter().filter(|it| it.size > limit);
        let largest = sizes.first().map_or(0, |it| it.size);
        println!(
            "at most {largest} {what} (limit {limit}); {} over it:",
            over.clone().count()
        );
        for it in over {
            println!("    {:>5} {}", it.size, it.name);
        }
    }
    println!(
        "{} groups of files that use each other:",
        figures.cycles.len()
    );
    for cycle in &figures.cycles {
        println!("    {}", cycle.join(" "));
    }
    println!(
        "{} names of more than one public type:",
        figures.duplicate_names.len()
    );
    for name in &figures.duplicate_names {
        println!("    {name}");
    }
    println!("{} errors that are only text:", figures.text_errors.len());
    for place in &figures.text_errors {
        println!("    {place}");
    }
    // No figure gets worse. Lower these as the code gets better, until they are the limits that are printed.
    let largest = |sizes: &[source::Sized]| sizes.first().map_or(0, |it| it.size);
    let over =
        |sizes: &[source::Sized], limit: usize| sizes.iter().filter(|it| it.size > limit).count();
    for (what, size, limit) in [
        ("lines of code", figures.code_lines, 70_942),
        ("lines in a file", largest(&figures.files), 600),
        ("lines in a function", largest(&figures.functions), 80),
        ("fields in a struct", largest(&figures.structs), 25),
        (
            "structs with more than 25 fields",
            over(&figures.structs, 25),
            0,
        ),
        ("parameters", largest(&figures.parameters), 6),
        (
            "groups of files that use each other",
            figures.cycles.len(),
            0,
        ),
        (
            "names of more than one public type",
            figures.duplicate_names.len(),
            0,
        ),
        ("errors that are only text", figures.text_errors.len(), 0),
    ] {
        let advice = match what {
            "lines of code" => {
                "delete something, or raise the limit (CONTRIBUTING.md, \"Keep it small\")"
            }
            _ => "the list above shows where",
        };
        assert!(
            size <= limit,
            "{size} {what}, and this test allows {limit}: {advice}"
        );
    }
}

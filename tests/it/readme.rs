//! The README and the pages under `docs/`: what they name exists, and what they list is what the program has.
//!
//! `LONGHAUL_README=write cargo test --test it readme::` writes the generated parts again.

#![expect(
    clippy::unwrap_used,
    clippy::string_slice,
    reason = "a test may fail loudly, and marks are ASCII"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use longhaul::app::{HelpLine, Keymap};

/// The most lines that the README may have.
const README_LINES: usize = 200;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page, by its path from the root of the repository.
fn pages() -> Vec<String> {
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> = docs
        .filter(|name| Path::new(name).extension().is_some_and(|it| it == "md"))
        .map(|name| format!("docs/{name}"))
        .collect();
    let top = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ];
    pages.extend(top.map(str::to_owned));
    pages.sort();
    pages
}

/// The text without its blocks of commands, which name files of others.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The part of the text under this heading.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let begin = text.find(&format!("\n## {heading}\n")).unwrap() + 1;
    let rest = &text[begin..];
    rest.find("\n## ").map_or(rest, |end| &rest[..end])
}

/// Every text between `open` and `close`.
fn between<'t>(text: &'t str, open: &'static str, close: char) -> impl Iterator<Item = &'t str> {
    let parts = text.split(open).skip(1);
    parts.filter_map(move |part| part.split_once(close).map(|(inner, _)| inner))
}

/// What is written as code.
fn codes(prose: &str) -> impl Iterator<Item = &str> {
    prose.split('`').skip(1).step_by(2)
}

/// What is written as code and names a file in this repository.
fn named_files(prose: &str) -> Vec<&str> {
    let dirs = [
        "src", "tests", "benches", "assets", "docs", ".ci", ".github",
    ];
    let is_file = |code: &&str| {
        let is_in = |dir: &&str| {
            code.strip_prefix(*dir)
                .is_some_and(|it| it.starts_with('/'))
        };
        dirs.iter().any(is_in) || code.starts_with(".deny")
    };
    codes(prose).filter(is_file).collect()
}

fn exists(path: &str) -> bool {
    let path = path.split(' ').next().unwrap();
    root().join(path).exists()
}

/// The anchors that the headings of a page have.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    let slug = |heading: &str| -> String {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            letter => letter.is_alphanumeric().then_some(letter),
        });
        kept.collect()
    };
    headings.map(slug).collect()
}

#[test]
fn readme_is_short() {
    let lines = page("README.md").lines().count();
    assert!(lines <= README_LINES, "{lines} lines");
}

#[test]
fn every_file_and_heading_that_a_page_names_exists() {
    let mut count = 0;
    for path in pages() {
        let text = page(&path);
        let prose = prose(&text);
        for file in named_files(&prose) {
            assert!(exists(file), "{file} in {path}");
            count += 1;
        }
        for link in between(&prose, "](", ')').filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => root().join(&path),
                file => root().join(&path).parent().unwrap().join(file),
            };
            assert!(target.exists(), "{link} in {path}");
            if !anchor.is_empty() {
                let anchors = anchors(&fs::read_to_string(target).unwrap());
                assert!(anchors.iter().any(|it| it == anchor), "{link} in {path}");
            }
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn readme_links_every_page() {
    let readme = page("README.md");
    for path in pages() {
        let is_linked = readme.contains(&format!("]({path})"));
        assert!(is_linked || path == "README.md", "{path}");
    }
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let (testing, security) = (page("docs/testing.md"), page("docs/security.md"));
    let rows = section(&testing, "Promises").lines();
    let rows = rows.filter(|line| line.starts_with("| ")).skip(1);
    let points = section(&security, "Guarantees").split("\n- ").skip(1);
    let all: Vec<&str> = rows.chain(points).collect();
    assert!(all.len() >= 16, "{}", all.len());
    for promise in all {
        let tests: Vec<&str> = named_files(promise)
            .into_iter()
            .filter(|file| file.starts_with("tests/"))
            .collect();
        assert!(!tests.is_empty(), "{promise}");
        for test in tests {
            assert!(exists(test), "{test} of {promise}");
        }
    }
}

/// All code of the program.
fn source(dir: &Path) -> String {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| {
        if path.is_dir() {
            source(&path)
        } else {
            fs::read_to_string(&path).unwrap_or_default()
        }
    };
    entries.map(text).collect()
}

#[test]
fn every_name_in_the_architecture_page_is_in_the_code() {
    let (text, source) = (page("docs/ARCHITECTURE.md"), source(&root().join("src")));
    let prose = prose(&text);
    let is_name = |name: &&str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        !name.is_empty() && name.chars().all(is_letter)
    };
    let names = codes(&prose).filter(|code| !code.contains([' ', '/', '.', '-']));
    for name in names.flat_map(|code| code.split("::")).filter(is_name) {
        assert!(source.contains(name), "{name}");
    }
}

fn is_writing() -> bool {
    std::env::var_os("LONGHAUL_README").is_some_and(|what| what == "write")
}

/// Compares a part of a page with what the program has, or writes it.
fn check(path: &str, text: &str, part: &str, generated: &str) {
    if is_writing() {
        let whole = text.replacen(part, generated, 1);
        return longhaul::store::write_atomically(&root().join(path), whole.as_bytes()).unwrap();
    }
    // Line by line, so that a failure shows which one.
    for (written, line) in part.lines().zip(generated.lines()) {
        assert_eq!(written, line, "LONGHAUL_README=write writes {path} again");
    }
    assert_eq!(part.lines().count(), generated.lines().count(), "{path}");
}

/// Every default key, under the place where it works.
fn keys() -> String {
    let row = |line: HelpLine| match (line.keys.as_str(), line.text.as_str()) {
        ("", "") => None,
        ("", place) => Some(format!("| **{place}** | |\n")),
        (keys, words) => {
            let keys: Vec<String> = keys.split(' ').map(|key| format!("`{key}`")).collect();
            Some(format!("| {} | {words} |\n", keys.join(" ")))
        }
    };
    let rows = Keymap::default().help_all().into_iter().filter_map(row);
    let table: String = std::iter::once("| key | does |\n|---|---|\n".to_owned())
        .chain(rows)
        .collect();
    table.trim_end().to_owned()
}

#[test]
fn key_table_is_that_of_the_program() {
    let text = page("docs/keys.md");
    let begin = text.find("| key | does |").unwrap();
    let table = text[begin..].split("\n\n").next().unwrap();
    check("docs/keys.md", &text, table, &keys());
}

#[cfg(feature = "demo")]
mod command_line {
    use std::{fmt::Write as _, fs, path::Path, process::Command};

    /// Runs the program with a clean environment.
    fn run(home: &Path, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let output = command
            .args(arguments)
            .env_clear()
            .env("HOME", home)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n")
    }

    /// The words of every command, the program itself first.
    fn commands(home: &Path) -> Vec<Vec<String>> {
        let dir = home.join("man1");
        run(home, &["man", "--dir", dir.to_str().unwrap()]);
        let names = fs::read_dir(&dir).unwrap();
        let mut names: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_by_key(|name| name.replace(".1", ""));
        let words = |name: &String| {
            let name = name.strip_suffix(".1").unwrap();
            name.split('-').skip(1).map(str::to_owned).collect()
        };
        names.iter().map(words).collect()
    }

    /// The parts of a help text by their headings; the one before all headings has none.
    fn parts(help: &str) -> Vec<(&str, String)> {
        let mut parts: Vec<(&str, String)> = vec![("", String::new())];
        for paragraph in help.split("\n\n") {
            let first = paragraph.lines().next().unwrap_or_default();
            let heading = first.strip_suffix(':').filter(|it| !it.starts_with(' '));
            if let Some(heading) = heading {
                parts.push((heading, String::new()));
            }
            let (_, text) = parts.last_mut().unwrap();
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(paragraph);
        }
        parts
    }

    fn block(text: &str) -> String {
        format!("```text\n{}\n```\n", text.trim_matches('\n'))
    }

    fn generated() -> String {
        let home = tempfile::tempdir().unwrap();
        let help = run(home.path(), &["--help"]);
        let of = |parts: &[(&str, String)], heading: &str| -> String {
            let (_, text) = parts.iter().find(|(it, _)| *it == heading).unwrap();
            let (_, text) = text.split_once('\n').unwrap();
            block(text)
        };
        let whole = parts(&help);
        let mut page = format!(
            "## Commands\n\n{}\n## Global options\n\n{}\n## Exit codes\n\n{}",
            of(&whole, "Commands"),
            of(&whole, "Global options"),
            of(&whole, "Exit codes"),
        );
        for command in commands(home.path()).into_iter().skip(1) {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let help = run(home.path(), &[&words[..], &["--help"]].concat());
            let parts = parts(&help);
            // The same for every command, and above.
            let own = parts
                .iter()
                .filter(|(heading, _)| !["Global options", "Exit codes"].contains(heading));
            let own: Vec<&str> = own.map(|(_, text)| text.trim_matches('\n')).collect();
            let name = words.join(" ");
            let own = block(&own.join("\n\n"));
            write!(page, "\n## longhaul {name}\n\n{own}").unwrap();
        }
        page
    }

    #[test]
    fn command_reference_is_that_of_the_program() {
        let path = "docs/command-line.md";
        let text = super::page(path);
        let begin = text.find("\n## Commands\n").unwrap() + 1;
        super::check(path, &text, &text[begin..], &generated());
    }
}

//! The script of the recording: what stands in `assets/recording.txt`, done on a real terminal.

use std::{collections::BTreeMap, time::Duration};

use vt100::Screen;

use super::{cast::Cast, svg};
use crate::support::pty::{TestEnv, Tui, program};

/// More than the list has.
const ROWS: u16 = 20;

/// One line of the script; `assets/recording.txt` says what each does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Open,
    Type(String),
    Press(String),
    Look(Duration),
    Wait(Vec<String>),
    Move(String),
    Call(String, Vec<String>),
    Run(Vec<String>),
    Close,
    Picture,
}

/// Reads the script; panics with the number of a line that is not one.
pub(crate) fn read(text: &str) -> Vec<Step> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let step = |(number, line): (usize, &str)| {
        step(line).unwrap_or_else(|| panic!("line {number} is no step: {line}"))
    };
    lines.map(step).collect()
}

fn step(line: &str) -> Option<Step> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    // What only the plain words take, and what only the others.
    if matches!(word, "open" | "close" | "picture") != rest.is_empty() {
        return None;
    }
    Some(match word {
        "open" => Step::Open,
        "type" => Step::Type(rest.to_owned()),
        "press" => Step::Press(rest.replace("Enter", "\r").replace("Esc", "\u{1b}")),
        "look" => Step::Look(Duration::from_secs_f32(rest.parse().ok()?)),
        "wait" => Step::Wait(rest.split('|').map(|part| part.trim().to_owned()).collect()),
        "move" => Step::Move(rest.to_owned()),
        "call" => {
            let (name, arguments) = rest.split_once(':')?;
            Step::Call(name.to_owned(), words(arguments))
        }
        "run" => Step::Run(words(rest)),
        "close" => Step::Close,
        "picture" => Step::Picture,
        _ => return None,
    })
}

/// The words of a command; `"` holds several together.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, part) in text.split('"').enumerate() {
        if place % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Whether a line of the screen has all of this in it.
pub(crate) fn is_shown(screen: &Screen, words: &[String]) -> bool {
    let text = screen.contents();
    let mut lines = text.lines();
    lines.any(|line| words.iter().all(|word| line.contains(word.as_str())))
}

/// What came of it.
pub(crate) struct Played {
    pub(crate) picture: Option<String>,
    pub(crate) recording: String,
}

/// Plays the script on a demo of its own.
pub(crate) fn play(steps: &[Step], size: (u16, u16)) -> Played {
    let env = TestEnv::serving();
    let bin = std::path::Path::new(program()).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let mut cast = Cast::new(size, "longhaul demo");
    let mut tui: Option<Tui> = None;
    let mut picture = None;
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    for step in steps {
        if let Step::Open = step {
            let mut opened = env.open_with(&[("PATH", &path)], "/bin/sh", &[], size);
            opened.wait_for("$");
            tui = Some(opened);
            continue;
        }
        let Some(terminal) = tui.as_mut() else {
            panic!("{step:?} comes before a terminal is open");
        };
        match step {
            Step::Open => {}
            Step::Type(text) => {
                for letter in text.chars().map(String::from).chain(["\r".to_owned()]) {
                    terminal.press(&letter);
                    terminal.watch_for(Duration::from_millis(45));
                }
            }
            Step::Press(keys) => terminal.press(keys),
            Step::Look(span) => terminal.watch_for(*span),
            Step::Wait(words) => {
                terminal.wait_until(&format!("{words:?}"), |screen| is_shown(screen, words));
            }
            Step::Move(name) => {
                let on = ["▸".to_owned(), name.clone()];
                for _ in 0..ROWS {
                    terminal.watch_for(Duration::from_millis(250));
                    if is_shown(terminal.screen(), &on) {
                        break;
                    }
                    terminal.press("j");
                }
                assert!(is_shown(terminal.screen(), &on), "{}", terminal.text());
            }
            Step::Call(name, arguments) => {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                ids.insert(name.clone(), env.call(&arguments));
            }
            Step::Run(arguments) => {
                let named = |word: &String| {
                    let name = word.strip_prefix('$');
                    name.map_or(word, |name| &ids[name]).clone()
                };
                let arguments: Vec<String> = arguments.iter().map(named).collect();
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                // A tool that fails is part of what is to be seen.
                env.run(&arguments);
            }
            Step::Close => {
                terminal.hang_up();
                cast.add(terminal.raw(), terminal.came());
                tui = None;
            }
            Step::Picture => picture = Some(svg::draw(terminal.screen(), "longhaul demo")),
        }
    }
    if let Some(tui) = tui {
        cast.add(tui.raw(), tui.came());
    }
    Played {
        picture,
        recording: cast.into_text(),
    }
}

//! The script of the recording (`assets/recording.txt`), played on a real terminal.

use std::{collections::BTreeMap, time::Duration};

use vt100::Screen;

use super::svg::Recording;
use crate::support::pty::{TestEnv, Tui, program};

/// More rows than the task list has.
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

/// Reads the script; panics with the number of an invalid line.
pub(crate) fn read(text: &str) -> Vec<Step> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let step = |(number, line): (usize, &str)| {
        step(line).unwrap_or_else(|| panic!("line {number} is not a step: {line}"))
    };
    lines.map(step).collect()
}

fn step(line: &str) -> Option<Step> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    // Only the other steps have arguments.
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

/// The words of a command; double quotes keep several together.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in text.split('"').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Whether one line of the screen contains all of these.
fn is_shown(screen: &Screen, words: &[String]) -> bool {
    let text = screen.contents();
    let mut lines = text.lines();
    lines.any(|line| words.iter().all(|word| line.contains(word.as_str())))
}

/// As users have it; the other tests run without a keeper.
const KEEPER: (&str, &str) = ("LONGHAUL_KEEPER", "1");

/// Plays the script on a demo server of its own; returns the picture.
pub(crate) fn play(steps: &[Step], size: (u16, u16)) -> String {
    let env = TestEnv::serving();
    let bin = std::path::Path::new(program()).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let mut recording = Recording::new(size);
    let mut tui: Option<Tui> = None;
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    for step in steps {
        if let Step::Open = step {
            let mut opened = env.open_with(&[("PATH", &path), KEEPER], "/bin/sh", &[], size);
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
                // Failing tools are part of the show.
                env.run(&arguments);
            }
            Step::Close => {
                terminal.hang_up();
                recording.add(terminal.raw(), terminal.arrivals());
                tui = None;
            }
            Step::Picture => {
                let now = terminal
                    .arrivals()
                    .last()
                    .map_or(Duration::ZERO, |(at, _)| *at);
                recording.mark_poster(now);
            }
        }
    }
    if let Some(tui) = tui {
        recording.add(tui.raw(), tui.arrivals());
    }
    env.run(&["keeper", "stop"]);
    recording.into_svg()
}

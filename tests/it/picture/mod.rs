//! The animation in the README: the real program on the demo, as `assets/recording.txt` plays it.
//!
//! `LONGHAUL_PICTURE=write cargo test --test it picture::` makes `assets/demo.svg`. Without the variable, the tests only
//! check that the picture and the script belong together.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

mod script;
mod svg;

use std::{io::Write as _, time::Duration};

use crate::support::pty::assets;

use self::script::Step;

/// Columns and rows of the terminal.
const SIZE: (u16, u16) = (120, 30);

#[test]
fn picture_shows_what_its_script_waits_for() {
    let script = std::fs::read_to_string(assets().join("recording.txt")).unwrap();
    let steps: Vec<Step> = script::read(&script);
    let picture = assets().join("demo.svg");
    if std::env::var_os("LONGHAUL_PICTURE").is_some_and(|value| value == "write") {
        let mut file = std::fs::File::create(&picture).unwrap();
        file.write_all(script::play(&steps, SIZE).as_bytes())
            .unwrap();
    }
    let texts = svg::texts(&std::fs::read_to_string(picture).unwrap());
    for step in &steps {
        if let Step::Wait(words) = step {
            for word in words {
                let is_shown = texts.iter().any(|text| text.contains(word));
                assert!(is_shown, "the picture does not show {word:?}");
            }
        }
    }
}

#[test]
fn rejects_a_script_line_by_its_number() {
    let rejected = std::panic::catch_unwind(|| script::read("# fine\npress j\nlook around"));
    let message = rejected.unwrap_err().downcast::<String>().unwrap();
    assert!(message.starts_with("line 3"), "{message}");
}

#[test]
fn shows_each_text_while_it_is_on_screen() {
    let mut recording = svg::Recording::new((20, 2));
    let second = Duration::from_secs;
    let bytes = "a<b> &\x1b[1;31;44mred\x1b[0m\r\n木 ●\x1b[1;1Hnew\x1b[K".as_bytes();
    let split = bytes.len() - "\x1b[1;1Hnew\x1b[K".len();
    recording.mark_poster(second(2));
    recording.add(bytes, &[(second(1), split), (second(3), bytes.len())]);
    let svg = recording.into_svg();
    assert_eq!(svg::texts(&svg), ["", "a<b> &", "red", "new", "木 ●"]);
    let piece = |text: &str| {
        let mut lines = svg.lines().filter(|line| line.contains("<animate"));
        lines.find(|line| line.contains(text)).unwrap()
    };
    let shown = "values=\"none;inline;none\" keyTimes=\"0;0.1667;0.5000\"";
    assert!(piece("&amp;").contains(shown), "{svg}");
    assert!(!piece("&amp;").contains("display=\"none\""), "{svg}");
    assert!(piece(">new<").contains("display=\"none\""), "{svg}");
    assert!(
        svg.contains("fill=\"#ef6b73\" font-weight=\"bold\">red<"),
        "{svg}"
    );
}

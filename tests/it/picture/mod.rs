//! The picture and the recording of the README: the real program on the demo, as `assets/recording.txt` plays it.
//!
//! `LONGHAUL_PICTURE=write cargo test --test it picture::` makes `assets/screen.svg` and `assets/demo.cast` again. Without the
//! variable those that are there are only looked at, and the script is only read.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail by panic, as the test does"
)]

mod cast;
mod script;
mod svg;

use std::{io::Write as _, path::Path};

use crate::support::pty::assets;

use self::script::Step;

/// Columns and rows of both.
const SIZE: (u16, u16) = (120, 36);

#[test]
fn the_picture_and_the_recording_of_the_readme_are_there_and_can_be_made_again() {
    let script = std::fs::read_to_string(assets().join("recording.txt")).unwrap();
    let steps: Vec<Step> = script::read(&script);
    let (picture, recording) = (assets().join("screen.svg"), assets().join("demo.cast"));
    if std::env::var_os("LONGHAUL_PICTURE").is_some_and(|value| value == "write") {
        let played = script::play(&steps, SIZE);
        keep(&picture, &played.picture.unwrap());
        keep(&recording, &played.recording);
    }
    let text = svg::text_of(&std::fs::read_to_string(picture).unwrap()).unwrap();
    for words in ["longhaul demo", "STATE", "LEAVE", "back after"] {
        assert!(text.contains(words), "no {words:?} in the picture: {text}");
    }
    // Whoever plays it sees each thing that the script waited for.
    let mut replay = cast::Replay::of(&std::fs::read_to_string(recording).unwrap());
    for step in &steps {
        if let Step::Wait(words) = step {
            replay.until(words);
        }
    }
}

fn keep(path: &Path, text: &str) {
    let mut temporary = tempfile::NamedTempFile::new_in(assets()).unwrap();
    temporary.write_all(text.as_bytes()).unwrap();
    let kept = temporary.persist(path).unwrap();
    // Temporary files are for their owner alone; this one is for everybody.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    kept.set_permissions(mode).unwrap();
}

#[test]
fn a_script_that_cannot_be_read_is_refused_by_its_line() {
    let refused = std::panic::catch_unwind(|| script::read("# fine\npress j\nlook around"));
    let words = refused.unwrap_err().downcast::<String>().unwrap();
    assert!(words.starts_with("line 3"), "{words}");
}

#[test]
fn a_picture_is_well_formed_whatever_is_on_the_screen() {
    let mut parser = vt100::Parser::new(3.try_into().unwrap(), 20.try_into().unwrap(), 0);
    parser.process("a<b> & \"c\"\u{1b}[1;31;44mred\u{1b}[7mback\u{1b}[0m\r\n".as_bytes());
    parser.process(
        "█▓▒░▁▆─━╍│┌┐└┘ 木 ●\r\n\u{1b}[2;38;2;1;2;3mdim\u{1b}[48;5;200m \u{1b}[0m".as_bytes(),
    );
    let svg = svg::draw(parser.screen(), "<title>");
    let text = svg::text_of(&svg).unwrap();
    for words in ["a<b>", "& \"c\"", "red", "木", "dim", "<title>"] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    for broken in [
        "<svg><g></svg>",
        "<svg>",
        "<svg>a & b</svg>",
        "<svg a=\"<\"></svg>",
        "<svg a></svg>",
    ] {
        assert_eq!(svg::text_of(broken), None, "{broken}");
    }
}

//! The bytes of a terminal, read by a list of everything that longhaul itself may write there.

/// What is drawn as nothing, or draws what stands around it in another order, by the Unicode standard
/// (`Default_Ignorable_Code_Point`, `Bidi_Control`, the separators of lines and paragraphs). A list of its own: what the
/// program forgot must not be forgotten here too.
const UNSEEN: [(char, char); 17] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a character could steer a terminal or hide what is read on it.
fn steers(letter: char) -> bool {
    let is_unseen = |(first, last): &(char, char)| (*first..=*last).contains(&letter);
    letter.is_control() || UNSEEN.iter().any(is_unseen)
}

/// Marks on one letter that run over the lines above and below it.
const MARKS: usize = 12;

/// What a run wrote.
#[derive(Debug, Default)]
pub(crate) struct Ink {
    /// What is not on the list, each with what stood around it.
    pub(crate) foreign: Vec<String>,
    /// The window titles (OSC 2).
    pub(crate) titles: Vec<String>,
    /// The notifications (OSC 9).
    pub(crate) notices: Vec<String>,
    /// What went to the clipboard (OSC 52), decoded.
    pub(crate) copies: Vec<String>,
    /// How many signs stand for something that was removed.
    pub(crate) marks: usize,
}

/// Reads the bytes of a whole run.
pub(crate) fn read(bytes: &[u8]) -> Ink {
    let mut ink = Ink::default();
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to();
            ink.foreign.push(format!("bytes that are no text at {at}"));
            return ink;
        }
    };
    let mut is_screen = false;
    let mut marks_here = 0;
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if letter == '\u{1b}' {
            match sequence(rest) {
                Some((whole, kind)) => {
                    match kind {
                        Kind::Screen(on) => is_screen = on,
                        Kind::Title(words) => ink.titles.push(words),
                        Kind::Notice(words) => ink.notices.push(words),
                        Kind::Copy(words) => ink.copies.push(words),
                        Kind::Other => {}
                    }
                    rest = &rest[whole..];
                    continue;
                }
                None => ink.foreign.push(format!("a sequence: {}", around(rest))),
            }
        } else if ('\u{300}'..='\u{36f}').contains(&letter) {
            marks_here += 1;
            if marks_here == MARKS {
                ink.foreign
                    .push(format!("a tower of marks before {}", around(rest)));
            }
            rest = &rest[letter.len_utf8()..];
            continue;
        } else if letter == '\u{fffd}' {
            ink.marks += 1;
        } else if !is_ours(letter, is_screen) {
            let code = u32::from(letter);
            ink.foreign
                .push(format!("U+{code:04X} in {}", around(rest)));
        }
        marks_here = 0;
        rest = &rest[letter.len_utf8()..];
    }
    ink
}

/// Whether nothing in a text that goes to a pipe could steer a terminal.
pub(crate) fn foreign_in(text: &str) -> Vec<String> {
    // Tabs and the joiner in emoji are data that a script needs, and steer nothing.
    let is_data = |letter: char| matches!(letter, '\n' | '\t' | '\u{200D}');
    let is_foreign = |letter: &char| !is_data(*letter) && !is_ours(*letter, true);
    text.chars()
        .filter(is_foreign)
        .map(|letter| format!("U+{:04X}", u32::from(letter)))
        .collect()
}

/// A character that no sequence is made of.
fn is_ours(letter: char, is_screen: bool) -> bool {
    match letter {
        // Our bell.
        '\u{7}' => true,
        // Only the plain terminal has lines; the screen is written cell by cell.
        '\r' | '\n' => !is_screen,
        _ => !steers(letter),
    }
}

enum Kind {
    Screen(bool),
    Title(String),
    Notice(String),
    Copy(String),
    Other,
}

/// The sequence of ours that `text` begins with, and its length; `None` if it begins with another.
fn sequence(text: &str) -> Option<(usize, Kind)> {
    if let Some(inner) = text.strip_prefix("\u{1b}[") {
        let end = inner.find(|letter: char| ('@'..='~').contains(&letter))?;
        let (parameters, action) = (&inner[..end], &inner[end..=end]);
        let is_list = parameters
            .chars()
            .all(|letter| letter.is_ascii_digit() || letter == ';');
        let kind = match (parameters, action) {
            ("?1049", "h") => Kind::Screen(true),
            ("?1049", "l") => Kind::Screen(false),
            ("?25" | "?1004" | "?2004" | "?2026", "h" | "l")
            | ("22;2" | "23;2", "t")
            | ("2", "J")
            | ("", "K") => Kind::Other,
            // The place of the cursor, and colours.
            (_, "H" | "m") if is_list => Kind::Other,
            _ => return None,
        };
        return Some((2 + end + 1, kind));
    }
    let inner = text.strip_prefix("\u{1b}]")?;
    let end = inner.find('\u{1b}')?;
    inner[end..].strip_prefix("\u{1b}\\")?;
    let said = &inner[..end];
    let is_clean = foreign_in(said).is_empty() && !said.contains(['\n', '\u{7}']);
    let kind = if let Some(words) = said.strip_prefix("2;") {
        Kind::Title(words.to_owned())
    } else if let Some(words) = said.strip_prefix("9;longhaul: ") {
        Kind::Notice(words.to_owned())
    } else if said.starts_with("9;4;") {
        Kind::Other
    } else {
        Kind::Copy(decoded(said.strip_prefix("52;c;")?)?)
    };
    is_clean.then_some((2 + end + 2, kind))
}

/// What Base64 stands for, if it is text.
fn decoded(base64: &str) -> Option<String> {
    let digits = base64.trim_end_matches('=');
    let mut bytes = Vec::new();
    let (mut held, mut bits) = (0_u32, 0);
    for digit in digits.chars() {
        const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        held = held << 6 | u32::try_from(DIGITS.find(digit)?).ok()?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits & 0xff) as u8);
        }
    }
    String::from_utf8(bytes).ok()
}

fn around(text: &str) -> String {
    format!("{:?}", text.chars().take(24).collect::<String>())
}

/// The parser must not be kinder than a terminal is.
#[test]
fn allowed_sequences_exclude_those_a_server_could_send() {
    for foreign in [
        "\u{1b}]0;title\u{7}",
        "\u{1b}]2;title\u{7}",
        "\u{1b}]8;;http://x\u{1b}\\",
        "\u{1b}]9;words\u{1b}\\",
        "\u{1b}]777;notify;a;b\u{1b}\\",
        "\u{1b}]52;c;?\u{1b}\\",
        "\u{1b}P+q\u{1b}\\",
        "\u{1b}_x\u{1b}\\",
        "\u{1b}c",
        "\u{1b}[6n",
        "\u{1b}[3J",
        "\u{1b}[?1000h",
        "\u{9b}2J",
        "\u{90}q\u{9c}",
        "\u{8}",
        "\u{202e}",
        "\u{e0041}",
        "\u{200d}",
        "\u{fe0f}",
        "\u{1b}[?1049ha\nb",
        &format!("e{}", "\u{301}".repeat(12)),
    ] {
        assert!(!read(foreign.as_bytes()).foreign.is_empty(), "{foreign:?}");
    }
    assert!(!read(b"\x9b2J").foreign.is_empty());
    let ours = "\u{1b}[?1049h\u{1b}[3;4H\u{1b}[1;38;5;4mé\u{1b}]2;a b\u{1b}\\\u{1b}]52;c;aGk=\u{1b}\\\u{fffd}";
    let ink = read(ours.as_bytes());
    assert!(ink.foreign.is_empty(), "{:?}", ink.foreign);
    assert_eq!((ink.copies, ink.marks), (vec!["hi".to_owned()], 1));
}

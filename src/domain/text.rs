//! The one way from server text to a person: sanitise, cut to columns, count, and say durations.

use std::{borrow::Cow, fmt::Write as _, time::Duration};

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stands where something was removed, so that a removal is seen.
const MARK: char = '\u{FFFD}';
/// Combining marks kept on one letter; real scripts need at most four.
pub const MAX_MARKS_PER_GRAPHEME: usize = 8;
/// One of them says whether the sign before it is drawn as text or in colours: a sign of one column or of two, as each
/// terminal likes. Without it they agree, and nothing is hidden by its going.
const SELECTORS: [char; 2] = ['\u{FE0E}', '\u{FE0F}'];

/// Bytes kept of a text that a server writes for people: more than a screen holds, little enough that every row, log
/// line and error of a session may be as long.
pub const SERVER_TEXT_BYTES: usize = 16 * 1024;

/// Bytes kept of a name that a server gives, of a logger or a title; no column shows a tenth of it.
pub const NAME_BYTES: usize = 1024;

/// Whether a character could move the cursor, reorder text, hide or start a control sequence.
pub fn is_hostile(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}')
}

/// Whether a character is drawn over the one before it.
pub fn is_mark(letter: char) -> bool {
    letter.width() == Some(0)
}

/// Keeps the first `limit` bytes of a text and says in it how much is left out.
pub fn bounded(text: Cow<'_, str>, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return text;
    }
    let is_end = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=limit).rev().find(is_end).unwrap_or_default();
    let (kept, rest) = text.split_at_checked(end).unwrap_or_default();
    let rest = bytes(u64::try_from(rest.len()).unwrap_or(u64::MAX));
    Cow::Owned(format!("{kept}\u{2026} ({rest} more were left out)"))
}

/// Makes server text safe to show on one line: whatever ends a line becomes a space.
pub fn clean_line(text: &str) -> Cow<'_, str> {
    clean(text, false)
}

/// Makes server text safe to show on several lines: line ends stay, tabs become spaces.
pub fn clean_block(text: &str) -> Cow<'_, str> {
    clean(text, true)
}

fn clean(text: &str, keep_lines: bool) -> Cow<'_, str> {
    let is_plain = |letter: char| {
        // Frames and bars are our own and on every screen.
        matches!(letter, ' '..='~' | '\u{2500}'..='\u{25FF}' | '\u{2026}')
            || (keep_lines && letter == '\n')
    };
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for grapheme in text.graphemes(true) {
        let (begin, mut drawn) = (out.len(), 0);
        for (place, letter) in grapheme.chars().enumerate() {
            match letter {
                '\n' if keep_lines => out.push('\n'),
                // A grapheme "\r\n" is one line end.
                '\r' if grapheme.len() > 1 => {}
                '\n' | '\r' if !keep_lines => out.push(' '),
                '\t' => out.push_str(if keep_lines { "    " } else { " " }),
                _ if place > MAX_MARKS_PER_GRAPHEME => {
                    out.push(MARK);
                    break;
                }
                _ if SELECTORS.contains(&letter) && place == 1 && drawn > 0 => {}
                _ if is_hostile(letter) => {
                    out.push(MARK);
                    drawn += 1;
                }
                _ => {
                    let columns = letter.width().unwrap_or(0);
                    let end = out.len();
                    out.push(letter);
                    // Many terminals draw the parts of a joined sign side by side, over what stands next to it.
                    if drawn > 0
                        && columns > 0
                        && width(out.get(begin..).unwrap_or_default()) < drawn + columns
                    {
                        out.truncate(end);
                        out.push(MARK);
                        break;
                    }
                    drawn += columns;
                }
            }
        }
    }
    Cow::Owned(out)
}

/// Columns that clean text takes on the terminal: one character of a person after the other, as cells are filled.
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// Cuts clean text to `columns`, ending it with `…` where something is missing.
pub fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    cut(text, columns, "…")
}

/// As [`truncate`], with an ending of the caller's (`~` in ASCII mode).
pub fn cut<'t>(text: &'t str, columns: usize, ending: &str) -> Cow<'t, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let room = columns.saturating_sub(width(ending));
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        used += UnicodeWidthStr::width(grapheme);
        if used > room {
            break;
        }
        out.push_str(grapheme);
    }
    if columns >= width(ending) {
        out.push_str(ending);
    }
    Cow::Owned(out)
}

/// Cuts clean names to `columns` so that no two that differ look the same: at the end, else in the middle, else before
/// where they begin to differ; what is still alike gets its number.
pub fn cut_distinct(names: &[&str], columns: usize, ending: &str) -> Vec<String> {
    let whole: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut shown: Vec<String> = names
        .iter()
        .map(|name| cut(name, columns, ending).into_owned())
        .collect();
    for way in [Apart::Middle, Apart::Difference, Apart::Number] {
        let alike = |one: usize| -> Vec<usize> {
            let is_alike = |other: &usize| {
                shown.get(one) == shown.get(*other) && whole.get(one) != whole.get(*other)
            };
            (0..shown.len()).filter(is_alike).collect()
        };
        let next: Vec<Option<String>> = names
            .iter()
            .enumerate()
            .map(|(one, name)| {
                let others: Vec<&str> = alike(one)
                    .iter()
                    .filter_map(|it| names.get(*it).copied())
                    .collect();
                (!others.is_empty()).then(|| way.cut((one, name), &others, columns, ending))
            })
            .collect();
        for (shown, next) in shown.iter_mut().zip(next) {
            if let Some(next) = next {
                *shown = next;
            }
        }
    }
    shown
}

/// A way to cut names that look the same once their ends are cut off.
#[derive(Clone, Copy)]
enum Apart {
    Middle,
    Difference,
    Number,
}

impl Apart {
    fn cut(
        self,
        (number, name): (usize, &str),
        others: &[&str],
        columns: usize,
        ending: &str,
    ) -> String {
        let letters: Vec<&str> = name.graphemes(true).collect();
        let room = columns.saturating_sub(width(ending));
        let head = |columns: usize| cut(name, columns, "").into_owned();
        match self {
            Self::Middle => {
                let end = tail(&letters, room.div_ceil(2));
                format!("{}{ending}{end}", head(room / 2))
            }
            Self::Difference => {
                let same = |other: &&str| {
                    let pairs = other.graphemes(true).zip(&letters);
                    pairs.take_while(|(one, two)| one == *two).count()
                };
                let same = others.iter().map(same).min().unwrap_or(0);
                let rest: String = letters.iter().skip(same).copied().collect();
                // As much of the beginning as the rest leaves.
                let begin = head(room.saturating_sub(width(&rest)).max(room / 4));
                let left = columns.saturating_sub(width(&begin) + width(ending));
                format!("{begin}{ending}{}", cut(&rest, left, ending))
            }
            Self::Number => {
                let number = format!("{ending}{}", number + 1);
                let left = columns.saturating_sub(width(&number));
                format!("{}{number}", head(left))
            }
        }
    }
}

/// The end of a text in at most `columns`.
fn tail(letters: &[&str], columns: usize) -> String {
    let mut used = 0;
    let fits = |letter: &&&str| {
        used += width(letter);
        used <= columns
    };
    let kept: Vec<&str> = letters.iter().rev().take_while(fits).copied().collect();
    kept.into_iter().rev().collect()
}

/// `1 task`, `2 tasks`.
pub fn plural(count: u64, one: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {one}{s}", grouped(count))
}

/// A word as a POSIX shell takes it.
pub fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@=+,%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The one of `known` that `typed` was probably meant to be: few letters differ.
pub fn nearest<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Longer words than this are no slips of a finger.
    const LONGEST: usize = 64;
    let letters = typed.chars().count();
    if letters > LONGEST {
        return None;
    }
    let slips = (letters / 3).clamp(1, 3);
    known
        .into_iter()
        .filter(|word| word.chars().count() <= LONGEST)
        .map(|word| (distance(typed, word), word))
        .filter(|(distance, _)| (1..=slips).contains(distance))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// How many letters have to be put in, taken out or changed to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut before = line + 1;
        let mut next = vec![before];
        for ((stays, above), with) in row.iter().zip(row.iter().skip(1)).zip(other.chars()) {
            let changed = stays + usize::from(letter != with);
            before = changed.min(above + 1).min(before + 1);
            next.push(before);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

/// Words that others follow: with a full stop where they end with nothing of the kind.
pub fn with_period(words: &str) -> Cow<'_, str> {
    let words = words.trim_end();
    match words.chars().next_back() {
        Some(last) if last.is_alphanumeric() || ")]\"'`".contains(last) => {
            Cow::Owned(format!("{words}."))
        }
        _ => Cow::Borrowed(words),
    }
}

/// A whole number with thousands set apart: `1,320`.
pub fn grouped(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A progress number with every digit, thousands set apart; fractions with at most two digits.
pub fn exact(value: f64) -> String {
    if (10_000.0..=9_007_199_254_740_992.0).contains(&value) && value.fract().abs() < f64::EPSILON {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 10,000 to 2^53 and whole"
        )]
        return grouped(value as u64);
    }
    if value >= 10_000.0 {
        return format!("{value:.2}");
    }
    amount(value)
}

/// A progress number: whole ones with thousands set apart, fractions with at most two digits, big ones short (`21.0k`).
pub fn amount(value: f64) -> String {
    if let Some((size, sign)) = [(1e15, 'P'), (1e12, 'T'), (1e9, 'G')]
        .into_iter()
        .find(|(size, _)| value >= *size)
    {
        format!("{:.1}{sign}", value / size)
    } else if value.abs() < 0.005 {
        // Written out it would be a zero with a sign.
        "0".to_owned()
    } else if value >= 1e6 {
        format!("{:.1}M", value / 1e6)
    } else if value >= 10_000.0 {
        format!("{:.1}k", value / 1e3)
    } else if value >= 0.0 && value.fract().abs() < f64::EPSILON {
        // The range is checked, so nothing is cut off.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to 10,000 and whole"
        )]
        grouped(value as u64)
    } else {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = write!(out, "{value:.2}");
        out.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// How long, for a table cell: `7 s`, `2m 3s`, `51 m`, `1h12m`, `8 h`, `3 d`.
pub fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..600 => format!("{minutes}m {}s", seconds % 60),
        600..3600 => format!("{minutes} m"),
        3600..21_600 => format!("{hours}h{:02}m", minutes % 60),
        21_600..172_800 => format!("{hours} h"),
        _ => format!("{} d", hours / 24),
    }
}

/// Time left, rounded so that it does not flicker: `~4 s`, `~40 s`, `~3 min`, `~2 h`.
pub fn time_left(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("~{} s", seconds.max(1)),
        10..90 => format!("~{} s", seconds.next_multiple_of(5)),
        90..5400 => format!("~{} min", (seconds + 30) / 60),
        _ => format!("~{} h", (seconds + 1800) / 3600),
    }
}

/// Reads `90s`, `10m`, `2h`, `7d`, `500ms`. A bare number is refused: who means days must not get seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write it as 90s, 10m, 2h or 7d");
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end).ok_or_else(wrong)?;
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let unit_ms = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    match number.checked_mul(unit_ms) {
        Some(0) => Err("it must be more than nothing".to_owned()),
        // A hundred years: what is longer overflows clocks.
        Some(ms) if ms <= 3_155_760_000_000 => Ok(Duration::from_millis(ms)),
        _ => Err(wrong()),
    }
}

/// A length of time as [`parse_duration`] takes it, whole: `90s`, `10m`, `500ms`.
pub fn duration(length: Duration) -> String {
    let ms = length.as_millis();
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1000, "s"),
    ];
    let fits = |(unit_ms, _): &(u128, &str)| ms > 0 && ms.is_multiple_of(*unit_ms);
    match units.into_iter().find(fits) {
        Some((unit_ms, unit)) => format!("{}{unit}", ms / unit_ms),
        None => format!("{ms}ms"),
    }
}

/// A size: `312 B`, `1.4 kB`, `8.0 MB`, `76.7 GB`.
pub fn bytes(count: u64) -> String {
    match count {
        0..1000 => format!("{count} B"),
        1000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2^53, the most that is taken for progress.
    const LARGEST: f64 = 9_007_199_254_740_992.0;

    #[test]
    fn names_are_cut_so_that_they_differ() {
        for (names, columns, shown) in [
            (&["lab", "build-box"][..], 9, &["lab", "build-box"][..]),
            (
                &["production-eu-1", "production-eu-2", "lab"],
                9,
                &["prod…eu-1", "prod…eu-2", "lab"],
            ),
            (
                &["prod-eu-1-api-gateway", "prod-eu-2-api-gateway"],
                9,
                &["pr…1-api…", "pr…2-api…"],
            ),
            (&["production", "staging"], 6, &["produ…", "stagi…"]),
        ] {
            assert_eq!(cut_distinct(names, columns, "…"), shown);
        }
    }

    #[test]
    fn a_slip_is_told_from_another_word() {
        let known = ["model", "dataset_name", "epochs"];
        for (typed, meant) in [
            ("modell", Some("model")),
            ("mdoel", None),
            ("datset_name", Some("dataset_name")),
            ("Epochs", Some("epochs")),
            ("model", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known), meant, "{typed}");
        }
    }

    #[test]
    fn words_that_others_follow_end_like_a_with_period() {
        assert_eq!(with_period("Which release"), "Which release.");
        assert_eq!(with_period("Deploy (all)  "), "Deploy (all).");
        for whole in ["Roll out?", "Now!", "So it is.", "pick one:", ""] {
            assert_eq!(with_period(whole), whole);
        }
    }

    #[test]
    fn a_length_of_time_is_written_as_it_is_read() {
        for (ms, words) in [
            (500, "500ms"),
            (1500, "1500ms"),
            (90_000, "90s"),
            (300_000, "5m"),
            (604_800_000, "7d"),
        ] {
            let length = Duration::from_millis(ms);
            assert_eq!(duration(length), words);
            assert_eq!(parse_duration(words), Ok(length));
        }
    }

    #[test]
    fn what_could_steer_the_terminal_leaves_a_mark() {
        for (hostile, shown) in [
            ("a\u{1b}[2Jb", "a\u{FFFD}[2Jb"),
            ("a\u{9b}2Jb", "a\u{FFFD}2Jb"),
            ("x\u{202e}y", "x\u{FFFD}y"),
            ("tag\u{E0041}", "tag\u{FFFD}"),
            ("one\r\ntwo\tx", "one two x"),
            ("zero\u{200b}width", "zero\u{FFFD}width"),
            // Joined signs are drawn side by side by many a terminal, over their neighbours.
            ("\u{1F469}\u{200D}\u{1F4BB}!", "\u{1F469}\u{FFFD}\u{1F4BB}!"),
            ("\u{1F44D}\u{1F3FD}!", "\u{1F44D}\u{FFFD}!"),
            ("a\u{200D}b", "a\u{FFFD}b"),
            // One selector is how a sign is drawn, more of them are a hidden text.
            ("\u{26A0}\u{FE0F} hot", "\u{26A0} hot"),
            ("\u{26A0}\u{FE0F}\u{FE01} hot", "\u{26A0}\u{FFFD} hot"),
            ("x\u{FE01}\u{E0100}", "x\u{FFFD}\u{FFFD}"),
            ("\u{1F44A}\u{FE0E}\u{1F3FB}!", "\u{1F44A}\u{FFFD}!"),
            (
                "\u{1F44A}\u{FE0E}\u{1F3FB}\u{FE0E}\u{1F3FB}!",
                "\u{1F44A}\u{FFFD}!",
            ),
        ] {
            assert_eq!(clean_line(hostile), shown);
        }
        assert_eq!(clean_block("one\r\ntwo\rx"), "one\ntwo\u{FFFD}x");
        assert_eq!(clean_line("21 °C — naïve 日本"), "21 °C — naïve 日本");
    }

    #[test]
    fn a_tower_of_combining_marks_is_cut() {
        let tower = format!("e{}", "\u{301}".repeat(10_000));
        assert!(clean_line(&tower).chars().count() < 20);
    }

    #[test]
    fn what_is_kept_of_a_long_text_says_how_much_is_missing() {
        let long = "é".repeat(10_000);
        let kept = bounded(Cow::Borrowed(&long), 1001);
        assert_eq!(
            kept.strip_prefix(&"é".repeat(500)),
            Some("… (19.0 kB more were left out)")
        );
        assert_eq!(bounded(Cow::Borrowed("short"), 5), "short");
    }

    #[test]
    fn text_is_cut_by_columns_not_bytes() {
        assert_eq!(truncate("resumable_data", 8), "resumab…");
        assert_eq!(truncate("日本語テキスト", 5), "日本…");
        assert_eq!(cut("resumable", 4, "~"), "res~");
        assert_eq!(truncate("short", 8), "short");
    }

    #[test]
    fn numbers_and_durations_read_well() {
        assert_eq!(plural(1, "task"), "1 task");
        assert_eq!(plural(1320, "update"), "1,320 updates");
        assert_eq!(
            (amount(30.0), amount(2.5), amount(21_000.0)),
            ("30".into(), "2.5".into(), "21.0k".into())
        );
        assert_eq!(
            (amount(-0.0), amount(-0.001), amount(LARGEST)),
            ("0".into(), "0".into(), "9.0P".into())
        );
        assert_eq!(exact(LARGEST), "9,007,199,254,740,992");
        let spans = [
            (7, "7 s"),
            (123, "2m 3s"),
            (3060, "51 m"),
            (4320, "1h12m"),
            (28_800, "8 h"),
            (260_000, "3 d"),
        ];
        for (seconds, shown) in spans {
            assert_eq!(span(Duration::from_secs(seconds)), shown);
        }
        assert_eq!(time_left(Duration::from_secs(170)), "~3 min");
    }

    #[test]
    fn lengths_of_time_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("2h", 7200), ("7d", 604_800)] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1.5h",
            "1 y",
            "0s",
            "99999999999999999999s",
            "9999999999d",
            "é",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    /// Text with what is rare in `any` text and dear to an attacker.
    fn attacks() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            any::<char>(),
            prop::char::range('\u{0}', '\u{A0}'),
            prop::char::range('\u{200B}', '\u{206F}'),
            prop::char::range('\u{FE00}', '\u{FE0F}'),
            prop::char::range('\u{1F3F0}', '\u{1F4FF}'),
            prop::char::range('\u{300}', '\u{36F}'),
            prop::char::range('\u{1780}', '\u{17DF}'),
        ];
        prop::collection::vec(piece, 0..60).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn different_names_look_different_and_fit(
            names in prop::collection::btree_set("[ab木]{1,14}", 1..8),
            columns in 5_usize..12,
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let shown = cut_distinct(&names, columns, "~");
            let mut apart = shown.clone();
            apart.sort();
            apart.dedup();
            prop_assert_eq!(apart.len(), names.len(), "{:?} {:?}", names, shown);
            prop_assert!(shown.iter().all(|name| width(name) <= columns));
        }

        #[test]
        fn nothing_hostile_survives_any_text(text in attacks()) {
            prop_assert!(!clean_line(&text).chars().any(is_hostile));
            prop_assert!(!clean_block(&text).chars().any(|letter| letter != '\n' && is_hostile(letter)));
        }

        #[test]
        fn no_terminal_draws_clean_text_wider_than_it_is_counted(text in attacks()) {
            let clean = clean_line(&text);
            let side_by_side: usize = clean.chars().filter_map(UnicodeWidthChar::width).sum();
            prop_assert!(side_by_side <= width(&clean), "{clean:?}");
            prop_assert_eq!(clean_line(&clean), clean.as_ref());
        }

        #[test]
        fn cut_text_never_exceeds_its_columns(text in any::<String>(), columns in 0_usize..60) {
            let clean = clean_line(&text);
            prop_assert!(width(&truncate(&clean, columns)) <= columns);
        }
    }
}

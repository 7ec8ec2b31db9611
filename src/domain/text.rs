//! Sanitizes server text for display, cuts text to columns, and formats numbers, sizes and durations.

use std::{borrow::Cow, fmt::Write as _, time::Duration};

use itertools::Itertools as _;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Replaces removed characters, so that the removal is visible.
const MARK: char = '\u{FFFD}';

/// Combining marks kept per character; real scripts need at most four.
pub const MAX_MARKS_PER_GRAPHEME: usize = 8;

/// Variation selectors that choose between text and emoji style. Terminals disagree about the width that results, so
/// they are dropped; nothing visible is lost.
const SELECTORS: [char; 2] = ['\u{FE0E}', '\u{FE0F}'];

/// Bytes of the longest emoji sequence in use: a family of four, each with a skin tone.
const JOINED_EMOJI_BYTES: usize = 4 * 8 + 3 * 3;

/// Bytes kept of a server's message: more than fits a screen, and small enough even if every task, log line and error
/// has such a message.
pub const SERVER_TEXT_BYTES: usize = 16 * 1024;

/// Bytes kept of a server's name, logger or title; no column shows more than a tenth of that.
pub const NAME_BYTES: usize = 1024;

/// Whether a character could move the cursor, reorder text, be invisible or start a control sequence.
pub fn is_hostile(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}')
}

/// Whether a character is drawn over the previous one.
pub fn is_mark(letter: char) -> bool {
    letter.width() == Some(0)
}

/// Whether a header name may contain this character (a token; RFC 9110, section 5.6.2).
pub fn is_token(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter)
}

/// Keeps at most `limit` bytes of a text, followed by a note about how much is missing.
pub fn bounded(text: Cow<'_, str>, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return text;
    }
    let kept = head(&text, limit);
    let rest = bytes(text.len() - kept.len());
    Cow::Owned(format!("{kept}\u{2026} ({rest} omitted)"))
}

/// The whole characters in the first `limit` bytes of a text.
pub fn head(text: &str, limit: usize) -> &str {
    let is_end = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=limit.min(text.len())).rev().find(is_end);
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// An error message of the operating system, without the error number and what follows it.
pub fn os_error(error: &impl ToString) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

/// Sanitizes server text for display on one line: line ends become spaces.
pub fn clean_line(text: &str) -> Cow<'_, str> {
    clean(text, false)
}

/// Sanitizes server text for display on several lines: line ends stay, tabs become spaces.
pub fn clean_block(text: &str) -> Cow<'_, str> {
    clean(text, true)
}

/// Sanitizes server text for a file or a pipe, which a terminal may show later: only control and invisible characters are
/// replaced, except for tabs, line ends and the joiner in emoji.
pub fn clean_data(text: &str) -> String {
    // Most results, some of them large.
    let is_plain = |byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.bytes().all(is_plain) {
        return text.to_owned();
    }
    let mut letters = text.chars().peekable();
    let mut out = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        let is_line_end = letter == '\n' || letter == '\r' && letters.peek() == Some(&'\n');
        let is_kept = is_line_end || matches!(letter, '\t' | '\u{200D}') || !is_hostile(letter);
        out.push(if is_kept { letter } else { MARK });
    }
    out
}

fn clean(text: &str, keep_lines: bool) -> Cow<'_, str> {
    let is_plain = |letter: char| {
        // Includes the box and bar characters of longhaul's own screen.
        matches!(letter, ' '..='~' | '\u{2500}'..='\u{25FF}' | '\u{2026}')
            || (keep_lines && letter == '\n')
    };
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for grapheme in text.graphemes(true) {
        if let Some(emoji) = joined_emoji(grapheme) {
            out.push(emoji);
            continue;
        }
        let (begin, mut drawn) = (out.len(), 0);
        for (index, letter) in grapheme.chars().enumerate() {
            match letter {
                '\n' if keep_lines => out.push('\n'),
                // A grapheme "\r\n" is one line end.
                '\r' if grapheme.len() > 1 => {}
                '\n' | '\r' if !keep_lines => out.push(' '),
                '\t' => out.push_str(if keep_lines { "    " } else { " " }),
                // A flag, as its two letters: terminals and tmux disagree about its cells, and leave parts behind.
                '\u{1F1E6}'..='\u{1F1FF}' => {
                    out.extend(('A'..='Z').nth(letter as usize - 0x1F1E6));
                    drawn += 1;
                }
                _ if index > MAX_MARKS_PER_GRAPHEME => {
                    out.push(MARK);
                    break;
                }
                _ if SELECTORS.contains(&letter) && index == 1 && drawn > 0 => {}
                _ if is_hostile(letter) => {
                    out.push(MARK);
                    drawn += 1;
                }
                _ => {
                    let columns = letter.width().unwrap_or(0);
                    let end = out.len();
                    out.push(letter);
                    // Many terminals draw the parts of a joined emoji side by side and overwrite the next cells.
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

/// The first emoji of several joined ones, or the one that a skin tone follows. Many terminals draw the parts side by side
/// and overwrite the next cells, so only the first is shown.
fn joined_emoji(grapheme: &str) -> Option<char> {
    let is_emoji = |letter| matches!(letter, '\u{2190}'..='\u{2BFF}' | '\u{1F000}'..='\u{1FAFF}');
    let is_part = |part: &str| {
        let part = part.trim_end_matches(|letter| matches!(letter, '\u{1F3FB}'..='\u{1F3FF}'));
        let mut letters = part.strip_suffix('\u{FE0F}').unwrap_or(part).chars();
        letters.next().is_some_and(is_emoji) && letters.next().is_none()
    };
    let first = grapheme.chars().next().filter(|letter| is_emoji(*letter))?;
    let side_by_side: usize = grapheme.chars().filter_map(UnicodeWidthChar::width).sum();
    let is_joined = UnicodeWidthStr::width(grapheme) < side_by_side;
    (is_joined && grapheme.len() <= JOINED_EMOJI_BYTES && grapheme.split('\u{200D}').all(is_part))
        .then_some(first)
}

/// JSON with `\\u` escapes for some letters, which are all inside its strings.
pub fn json_with_escapes(json: &str, mut is_escaped: impl FnMut(char) -> bool) -> String {
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        if is_escaped(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// The columns that sanitized text takes on the terminal, summed over its graphemes.
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// The parts of a grapheme that a terminal puts into cells of their own, each with its columns. More than one if the
/// grapheme has several spacing characters, as in Devanagari; an emoji sequence or a flag is one part.
pub fn cells(grapheme: &str) -> Vec<(&str, usize)> {
    let columns = UnicodeWidthStr::width(grapheme);
    let spacing = || {
        let letters = grapheme.char_indices();
        letters.filter_map(|(at, letter)| Some((at, letter.width().filter(|width| *width > 0)?)))
    };
    let is_flag = grapheme.starts_with(|letter| matches!(letter, '\u{1f1e6}'..='\u{1f1ff}'));
    if is_flag || spacing().map(|(_, width)| width).sum::<usize>() != columns {
        return vec![(grapheme, columns)];
    }
    // A mark before the first spacing character belongs to it.
    let ends = spacing().skip(1).map(|(at, _)| at).chain([grapheme.len()]);
    let mut begin = 0;
    let parts = spacing().zip(ends).filter_map(|((_, width), end)| {
        let part = grapheme.get(std::mem::replace(&mut begin, end)..end)?;
        Some((part, width))
    });
    parts.collect()
}

/// Cuts sanitized text to `columns`, with `…` at the end if something is missing.
pub fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    cut(text, columns, "…")
}

/// Like [`truncate`], with a custom ending (`~` in ASCII mode).
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

/// Cuts a sanitized name to `columns` in the middle: similar names mostly differ at their ends.
pub fn cut_middle<'t>(name: &'t str, columns: usize, ending: &str) -> Cow<'t, str> {
    if width(name) <= columns {
        return Cow::Borrowed(name);
    }
    let room = columns.saturating_sub(width(ending));
    let mut left = room.div_ceil(2);
    let mut tail = name.len();
    for (at, grapheme) in name.grapheme_indices(true).rev() {
        match left.checked_sub(width(grapheme)) {
            Some(rest) => (left, tail) = (rest, at),
            None => break,
        }
    }
    let begin = cut(name, room / 2, "");
    let end = name.get(tail..).unwrap_or_default();
    Cow::Owned(cut(&format!("{begin}{ending}{end}"), columns, "").into_owned())
}

/// What this many tasks do: `needs you` or `need you`.
pub fn needs_you(count: usize) -> &'static str {
    if count == 1 { "needs you" } else { "need you" }
}

/// `1 task`, `2 tasks`.
pub fn plural(count: impl TryInto<u64>, one: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let s = if count == 1 { "" } else { "s" };
    format!("{} {one}{s}", grouped(count))
}

/// Quotes a word for a POSIX shell if needed.
pub fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@=+,%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The entry of `known` that `typed` is probably a typo of; `None` if none is close.
pub fn nearest<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Words longer than this are never taken for typos.
    const LONGEST: usize = 64;
    let letters = typed.chars().count();
    if letters > LONGEST {
        return None;
    }
    let max_distance = (letters / 3).clamp(1, 3);
    known
        .into_iter()
        .filter(|word| word.chars().count() <= LONGEST)
        .map(|word| (strsim::levenshtein(typed, word), word))
        .filter(|(distance, _)| (1..=max_distance).contains(distance))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// The text with a period at the end, unless it ends with other punctuation.
pub fn with_period(text: &str) -> Cow<'_, str> {
    let text = text.trim_end();
    match text.chars().next_back() {
        Some(last) if last.is_alphanumeric() || ")]\"'`".contains(last) => {
            Cow::Owned(format!("{text}."))
        }
        _ => Cow::Borrowed(text),
    }
}

/// A whole number with thousands separators: `1,320`.
pub fn grouped(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The first names, separated by commas, and how many more there are: `a, b and 3 more`.
pub fn first_of(names: &[&str], most: usize) -> String {
    let (shown, more) = names.split_at(most.min(names.len()));
    match more.len() {
        0 => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), grouped(more)),
    }
}

/// The whole part of a number, within the bounds of its type.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a float stays within the bounds of the whole number"
)]
pub fn whole_part(value: f64) -> u64 {
    value as u64
}

/// A progress number with all digits and thousands separators; at most two decimals.
pub fn exact(value: f64) -> String {
    if (10_000.0..=9_007_199_254_740_992.0).contains(&value) && value.fract().abs() < f64::EPSILON {
        return grouped(whole_part(value));
    }
    if value >= 10_000.0 {
        return format!("{value:.2}");
    }
    amount(value)
}

/// A progress number for display: thousands separators, at most two decimals, large numbers abbreviated (`21.0k`).
pub fn amount(value: f64) -> String {
    // What would be rounded to a thousand of one unit is one of the next.
    let reaches = |size: f64| value >= size * 0.999_95;
    if let Some((size, sign)) = [(1e15, 'P'), (1e12, 'T'), (1e9, 'G')]
        .into_iter()
        .find(|(size, _)| reaches(*size))
    {
        format!("{:.1}{sign}", value / size)
    } else if value.abs() < 0.005 {
        // It would print as 0 or -0.
        "0".to_owned()
    } else if reaches(1e6) {
        format!("{:.1}M", value / 1e6)
    } else if value >= 10_000.0 {
        format!("{:.1}k", value / 1e3)
    } else if value >= 0.0 && value.fract().abs() < f64::EPSILON {
        grouped(whole_part(value))
    } else {
        let out = format!("{value:.2}");
        out.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A duration in a sentence: `7 s`, `2 min 3 s`, `51 min`, `1 h 12 min`, `8 h`, `3 d`.
pub fn span(duration: Duration) -> String {
    span_with(duration, [" s", " min", " h", " d"], " ")
}

/// The same for a table cell: `7s`, `2m3s`, `51m`, `1h12m`, `8h`, `3d`.
pub fn short_span(duration: Duration) -> String {
    span_with(duration, ["s", "m", "h", "d"], "")
}

fn span_with(duration: Duration, [s, m, h, d]: [&str; 4], gap: &str) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let and = |count: u64, unit: &str| match count {
        0 => String::new(),
        count => format!("{gap}{count}{unit}"),
    };
    match seconds {
        0..60 => format!("{seconds}{s}"),
        60..600 => format!("{minutes}{m}{}", and(seconds % 60, s)),
        600..3600 => format!("{minutes}{m}"),
        3600..21_600 => format!("{hours}{h}{}", and(minutes % 60, m)),
        21_600..172_800 => format!("{hours}{h}"),
        _ => format!("{}{d}", hours / 24),
    }
}

/// Time left, rounded so that it doesn't flicker: `~4 s`, `~40 s`, `~3 min`, `~2 h`.
pub fn time_left(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("~{} s", seconds.max(1)),
        10..90 => format!("~{} s", seconds.next_multiple_of(5)),
        90..5400 => format!("~{} min", (seconds + 30) / 60),
        _ => format!("~{} h", (seconds + 1800) / 3600),
    }
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a number with a unit, or far too long.
    #[error("invalid duration {0:?}; write it as 90s, 10m, 2h or 7d")]
    Notation(String),
    /// The same of a limit.
    #[error("invalid duration {0:?}; write it as 90s, 10m, 2h or off")]
    Limit(String),
    /// Nothing lasts 0 s.
    #[error("it must be more than zero")]
    Zero,
}

/// Parses `90s`, `10m`, `2h`, `7d` or `500ms`. A number without a unit is an error, because users may mean any unit.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError::Notation(text.to_owned());
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end).ok_or_else(error)?;
    let number: u64 = digits.parse().map_err(|_| error())?;
    let unit_ms = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(error()),
    };
    match number.checked_mul(unit_ms) {
        Some(0) => Err(DurationError::Zero),
        // A hundred years; longer durations could overflow.
        Some(ms) if ms <= 3_155_760_000_000 => Ok(Duration::from_millis(ms)),
        _ => Err(error()),
    }
}

/// Parses a time limit: a duration, or `off`, which is `None`.
pub fn parse_limit(text: &str) -> Result<Option<Duration>, DurationError> {
    match text.trim() {
        "off" => Ok(None),
        text => parse_duration(text).map(Some).map_err(|error| match error {
            DurationError::Notation(text) => DurationError::Limit(text),
            other => other,
        }),
    }
}

/// A duration in the notation of [`parse_duration`], exactly: `90s`, `10m`, `500ms`.
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
pub fn bytes(count: impl TryInto<u64>) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        count @ 0..1000 => format!("{count} B"),
        count @ 1000..999_950 => format!("{:.1} kB", count as f64 / 1e3),
        count @ 999_950..999_950_000 => format!("{:.1} MB", count as f64 / 1e6),
        count => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// `2 paused, 1 new`: the counts that are not 0.
pub fn counts(parts: &[(usize, &str)]) -> String {
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let mut parts = parts.map(|(count, word)| format!("{} {word}", grouped(*count)));
    parts.join(", ")
}

/// Adds `flags` to the longhaul commands between backticks that work on a session and name none. With `server_url`,
/// `longhaul login` gets the URL instead of a name that may not be stored yet.
pub fn add_flags(message: &str, flags: &str, server_url: Option<&str>) -> String {
    /// Commands for which neither machine nor session matters, or that have their own.
    const FREE: [&str; 2] = ["--help", "demo"];
    let pieces: Vec<&str> = message.split('`').collect();
    let last = pieces.len().saturating_sub(1);
    let piece = |(index, piece): (usize, &&str)| {
        let command = piece.strip_prefix("longhaul ");
        let command = command.filter(|_| index % 2 == 1 && index < last);
        let is_free = |command: &str| FREE.iter().any(|it| command.starts_with(it));
        match server_url {
            _ if command.is_none_or(|it| is_free(it) || piece.contains(" --session ")) => {
                (*piece).to_owned()
            }
            Some(url) if piece.starts_with("longhaul login ") => {
                format!("longhaul login {}{flags}", shell_word(url))
            }
            // What follows is the command line of a program.
            _ => match piece.split_once(" -- ") {
                Some((command, program)) => format!("{command}{flags} -- {program}"),
                None => format!("{piece}{flags}"),
            },
        }
    };
    pieces.iter().enumerate().map(piece).join("`")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2^53, the largest accepted progress value.
    const LARGEST: f64 = 9_007_199_254_740_992.0;

    #[test]
    fn data_keeps_tabs_line_ends_and_joined_emoji() {
        let data = "a\tb\r\n\u{1F469}\u{200D}\u{1F467}\n";
        assert_eq!(clean_data(data), data);
        let hostile = "\u{1b}[2J\r\u{202e}";
        assert_eq!(clean_data(hostile), "\u{fffd}[2J\u{fffd}\u{fffd}");
    }

    #[test]
    fn adds_flags_to_commands_between_backticks() {
        let flags = " --session n";
        for (message, expected) in [
            ("plain", "plain"),
            ("`longhaul ls`", "`longhaul ls --session n`"),
            (
                "a `longhaul again x` and `longhaul rm x`",
                "a `longhaul again x --session n` and `longhaul rm x --session n`",
            ),
            (
                "`fg`, `longhaul demo` and `longhaul servers add NAME -- COMMAND`",
                "`fg`, `longhaul demo` and `longhaul servers add NAME --session n -- COMMAND`",
            ),
            ("an odd ` and longhaul ls", "an odd ` and longhaul ls"),
            ("odd `longhaul ls", "odd `longhaul ls"),
            ("`longhaul ls --session m`", "`longhaul ls --session m`"),
        ] {
            assert_eq!(add_flags(message, flags, None), expected);
        }
        let message = add_flags("`longhaul login a:1`, or", "", Some("http://a:1/mcp"));
        assert_eq!(message, "`longhaul login http://a:1/mcp`, or");
    }

    #[test]
    fn names_are_cut_in_the_middle() {
        for (name, shown) in [
            ("build-box", "build-box"),
            ("production-eu-1", "prod…eu-1"),
            ("木木木木木木", "木木…木木"),
        ] {
            assert_eq!(cut_middle(name, 9, "…"), shown);
        }
        assert_eq!(cut_middle("abc", 0, "…"), "");
    }

    #[test]
    fn tells_typos_from_other_words() {
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
    fn adds_a_period_only_where_needed() {
        assert_eq!(with_period("Which release"), "Which release.");
        assert_eq!(with_period("Deploy (all)  "), "Deploy (all).");
        for whole in ["Roll out?", "Now!", "So it is.", "pick one:", ""] {
            assert_eq!(with_period(whole), whole);
        }
    }

    #[test]
    fn durations_round_trip() {
        for (ms, text) in [
            (500, "500ms"),
            (1500, "1500ms"),
            (90_000, "90s"),
            (300_000, "5m"),
            (604_800_000, "7d"),
        ] {
            let length = Duration::from_millis(ms);
            assert_eq!(duration(length), text);
            assert_eq!(parse_duration(text), Ok(length));
        }
    }

    #[test]
    fn replaces_characters_that_could_control_the_terminal() {
        for (hostile, shown) in [
            ("a\u{1b}[2Jb", "a\u{FFFD}[2Jb"),
            ("a\u{9b}2Jb", "a\u{FFFD}2Jb"),
            ("x\u{202e}y", "x\u{FFFD}y"),
            ("tag\u{E0041}", "tag\u{FFFD}"),
            ("one\r\ntwo\tx", "one two x"),
            ("zero\u{200b}width", "zero\u{FFFD}width"),
            // Many terminals draw the parts of a joined emoji side by side.
            ("\u{1F469}\u{200D}\u{1F4BB}!", "\u{1F469}!"),
            ("\u{1F44D}\u{1F3FD}!", "\u{1F44D}!"),
            ("\u{2764}\u{FE0F}\u{200D}\u{1F525}!", "\u{2764}!"),
            ("\u{1F469}\u{200D}a", "\u{1F469}\u{FFFD}a"),
            ("a\u{200D}b", "a\u{FFFD}b"),
            ("\u{1F1E9}\u{1F1EA}!", "DE!"),
            // One selector only chooses a style; more of them could hide text.
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
    fn limits_combining_marks() {
        let tower = format!("e{}", "\u{301}".repeat(10_000));
        assert!(clean_line(&tower).chars().count() < 20);
    }

    #[test]
    fn bounded_text_shows_how_much_is_missing() {
        let long = "é".repeat(10_000);
        let kept = bounded(Cow::Borrowed(&long), 1001);
        assert_eq!(
            kept.strip_prefix(&"é".repeat(500)),
            Some("… (19.0 kB omitted)")
        );
        assert_eq!(bounded(Cow::Borrowed("short"), 5), "short");
    }

    #[test]
    fn cuts_by_columns_not_bytes() {
        assert_eq!(truncate("resumable_data", 8), "resumab…");
        assert_eq!(truncate("日本語テキスト", 5), "日本…");
        assert_eq!(cut("resumable", 4, "~"), "res~");
        assert_eq!(truncate("short", 8), "short");
    }

    #[test]
    fn formats_numbers_and_durations() {
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
            (123, "2 min 3 s"),
            (3060, "51 min"),
            (4320, "1 h 12 min"),
            (28_800, "8 h"),
            (260_000, "3 d"),
        ];
        for (seconds, shown) in spans {
            assert_eq!(span(Duration::from_secs(seconds)), shown);
        }
        assert_eq!(short_span(Duration::from_secs(4320)), "1h12m");
        assert_eq!(time_left(Duration::from_secs(170)), "~3 min");
    }

    #[test]
    fn parses_durations() {
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

    /// Text with characters that are useful for attacks and rare in `any` text.
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
        fn clean_text_has_no_hostile_characters(text in attacks()) {
            prop_assert!(!clean_line(&text).chars().any(is_hostile));
            prop_assert!(!clean_block(&text).chars().any(|letter| letter != '\n' && is_hostile(letter)));
        }

        #[test]
        fn terminals_never_draw_clean_text_wider_than_counted(text in attacks()) {
            let clean = clean_line(&text);
            let side_by_side: usize = clean.chars().filter_map(UnicodeWidthChar::width).sum();
            prop_assert!(side_by_side <= width(&clean), "{clean:?}");
            prop_assert_eq!(clean_line(&clean), clean.as_ref());
        }

        #[test]
        fn cut_text_fits_its_columns(text in any::<String>(), columns in 0_usize..60) {
            let clean = clean_line(&text);
            prop_assert!(width(&truncate(&clean, columns)) <= columns);
            prop_assert!(width(&cut_middle(&clean, columns, "…")) <= columns);
        }
    }
}

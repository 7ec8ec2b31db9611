//! A light Markdown renderer: styles one line at a time.
//!
//! Handles headings, emphasis, inline code, lists, quotes and links; fenced code does not come here. Invariant: only
//! markup characters are hidden. The target of a link is always shown, and nothing is clickable.

use crate::ui::{Glyphs, Role};

/// Splits a line into styled pieces.
pub(super) fn pieces(line: &str, glyphs: &Glyphs) -> Vec<(String, Role)> {
    let text = line.trim_start();
    let (indent, _) = line
        .split_at_checked(line.len() - text.len())
        .unwrap_or_default();
    let title = text.trim_start_matches('#');
    let level = text.len() - title.len();
    if (1..=6).contains(&level) && title.starts_with(' ') {
        let mut out = Vec::new();
        // The heading level stays visible, because a terminal has no larger letters.
        push(&mut out, text.get(..level).unwrap_or_default(), Role::Dim);
        for (part, role) in inline_pieces(title) {
            let role = if role == Role::Plain {
                Role::Strong
            } else {
                role
            };
            push(&mut out, &part, role);
        }
        return out;
    }
    let signs = text.trim_end();
    let is_rule = ["-", "*", "_"]
        .iter()
        .any(|sign| signs.len() >= 3 && signs.replace([' '], "").replace(sign, "").is_empty());
    if is_rule {
        return vec![(glyphs.line.repeat(12), Role::Dim)];
    }
    let mut out = Vec::new();
    push(&mut out, indent, Role::Plain);
    let mut rest = text;
    while let Some(quoted) = rest.strip_prefix('>') {
        let bar = format!("{} ", glyphs.frame.vertical_left);
        push(&mut out, &bar, Role::Dim);
        rest = quoted.trim_start();
    }
    if let Some(item) = ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| rest.strip_prefix(mark))
    {
        push(&mut out, &format!("{} ", glyphs.new), Role::Key);
        rest = item;
    }
    out.extend(inline_pieces(rest));
    if out.is_empty() {
        push(&mut out, line, Role::Plain);
    }
    out
}

fn push(out: &mut Vec<(String, Role)>, text: &str, role: Role) {
    match out.last_mut() {
        Some((last, last_role)) if *last_role == role => last.push_str(text),
        _ if text.is_empty() => {}
        _ => out.push((text.to_owned(), role)),
    }
}

/// Splits text with emphasis, code and links into styled pieces.
fn inline_pieces(text: &str) -> Vec<(String, Role)> {
    let mut out = Vec::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let after = rest.get(first.len_utf8()..).unwrap_or_default();
        let parsed = match first {
            '\\' => parse_escaped(after).map(|ch| {
                push(&mut out, ch, Role::Plain);
                (ch.len() + 1, ch)
            }),
            // Keeps its backticks, which are all that marks code without colors.
            '`' => parse_code(rest).map(|whole| {
                push(&mut out, whole, Role::Running);
                (whole.len(), whole)
            }),
            '*' | '_' => parse_emphasis(rest, first, before).map(|(inner, length)| {
                push(&mut out, inner, Role::Strong);
                (length, inner)
            }),
            '!' | '[' => parse_link(rest).map(|(label, target, length)| {
                if first == '!' {
                    push(&mut out, "[image] ", Role::Dim);
                }
                push(&mut out, label, Role::Strong);
                if label != target {
                    push(&mut out, &format!(" <{target}>"), Role::Running);
                }
                (length, target)
            }),
            _ => None,
        };
        if let Some((length, last)) = parsed {
            rest = rest.get(length..).unwrap_or_default();
            before = last.chars().next_back().unwrap_or(' ');
        } else {
            push(&mut out, first.encode_utf8(&mut [0; 4]), Role::Plain);
            rest = after;
            before = first;
        }
    }
    out
}

/// The character after an escaping backslash.
fn parse_escaped(after: &str) -> Option<&str> {
    let character = after.get(..1)?;
    let is_mark = character.chars().all(|ch| ch.is_ascii_punctuation());
    is_mark.then_some(character)
}

/// Parses `` `code` ``, delimited by the same number of backticks on both sides.
fn parse_code(text: &str) -> Option<&str> {
    let inner = text.trim_start_matches('`');
    let marks = text.get(..text.len() - inner.len())?;
    let end = inner.find(marks).filter(|end| *end > 0)?;
    text.get(..marks.len() * 2 + end)
}

/// Parses `*text*` and `**text**`, also with `_` unless inside a word, into the text and the total length in bytes.
fn parse_emphasis(text: &str, mark: char, before: char) -> Option<(&str, usize)> {
    if mark == '_' && before.is_alphanumeric() {
        return None;
    }
    let inner = text.trim_start_matches(mark);
    let marks = text
        .get(..text.len() - inner.len())
        .filter(|marks| marks.len() <= 3)?;
    let end = inner.find(marks)?;
    let content = inner.get(..end)?;
    let next = inner.get(end + marks.len()..)?.chars().next();
    // Not markup: a character between blanks, as in 2 * 3 * 4, or an underscore inside a word, as in snake_case.
    let is_tight = !content.is_empty() && content.trim() == content;
    let is_end = mark != '_' || !next.is_some_and(char::is_alphanumeric);
    (is_tight && is_end).then_some((content, marks.len() * 2 + end))
}

/// Parses a link `[text](target)` or an image `![text](target)` into text, target and total length in bytes.
fn parse_link(text: &str) -> Option<(&str, &str, usize)> {
    let inner = text.strip_prefix('!').unwrap_or(text).strip_prefix('[')?;
    let (label, rest) = inner.split_once("](")?;
    if label.contains('[') {
        return None;
    }
    let (target, _) = rest.split_once(')')?;
    let start = text.len() - inner.len();
    Some((label, target, start + label.len() + 2 + target.len() + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::app::Look;

    fn shown(line: &str) -> String {
        let roles = |role: Role| match role {
            Role::Strong => "*",
            Role::Running => "$",
            Role::Dim => "~",
            Role::Key => "!",
            _ => "",
        };
        let mut out = String::new();
        for (text, role) in pieces(line, Glyphs::of(Look::default())) {
            let sign = roles(role);
            out.extend([sign, &text, sign]);
        }
        out
    }

    #[test]
    fn styles_markup_and_shows_every_link_target() {
        for (line, wanted) in [
            ("plain words", "plain words"),
            ("## Head `x`", "~##~* Head *$`x`$"),
            ("#no heading", "#no heading"),
            ("  - an *item*", "  !• !an *item*"),
            ("3. third", "3. third"),
            ("> > deep", "~│ │ ~deep"),
            ("---", "~────────────~"),
            ("**bold** and __so__, ***too***", "*bold* and *so*, *too*"),
            (
                "2 * 3 * 4 and snake_case_name",
                "2 * 3 * 4 and snake_case_name",
            ),
            ("``a ` b`` and `open", "$``a ` b``$ and `open"),
            (
                "[here](https://a.example/x?y)",
                "*here*$ <https://a.example/x?y>$",
            ),
            (
                "[https://good.example](http://bad.example)",
                "*https://good.example*$ <http://bad.example>$",
            ),
            ("![a map](m.png)", "~[image] ~*a map*$ <m.png>$"),
            (r"\*as it is\* [x] (y)", "*as it is* [x] (y)"),
            ("", ""),
        ] {
            assert_eq!(shown(line), wanted, "{line}");
        }
    }

    proptest! {
        #[test]
        fn hides_nothing_but_markup(line in "[a-c \\[\\]()!*_`\\\\#>é-]{0,30}") {
            let marks = |ch: &char| ch.is_alphabetic();
            let text: String = pieces(&line, Glyphs::of(Look::default()))
                .into_iter()
                .map(|(text, _)| text)
                .collect();
            let shown: String = text.replace("[image]", "").chars().filter(marks).collect();
            let mut kept = shown.chars();
            let all: Vec<char> = line.chars().filter(marks).collect();
            prop_assert!(all.iter().all(|ch| kept.any(|other| other == *ch)), "{} of {}", shown, line);
        }
    }
}

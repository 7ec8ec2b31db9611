//! Breaks text into lines.

use super::text;

/// Cleans text and wraps it to `columns`, at blanks if possible.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    wrap_hanging(text, columns, 0)
}

/// Like [`wrap`], to at most `rows` lines; `more` marks what is left out.
pub fn wrap_to(all: &str, columns: usize, rows: usize, more: &str) -> Vec<String> {
    let mut lines = wrap(all, columns);
    let left_out = lines.get(rows).cloned();
    lines.truncate(rows);
    if let (Some(last), Some(left_out)) = (lines.last_mut(), left_out) {
        *last = text::cut(&format!("{last} {left_out}"), columns, more).into_owned();
    }
    lines
}

/// Like [`wrap`], with continuation lines shorter by `indent`.
pub fn wrap_hanging(content: &str, columns: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    let mut available = columns.max(1);
    let content = text::clean_line(content);
    for word in content.split_inclusive(' ') {
        let width = text::width(word.trim_end());
        if used > 0 && used + width > available {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            used = 0;
            available = columns.saturating_sub(indent).max(1);
        }
        if width <= available {
            line.push_str(word);
            used += text::width(word);
            continue;
        }
        // A word longer than a line is broken anywhere.
        for ch in word.chars() {
            let width = text::width(ch.encode_utf8(&mut [0; 4]));
            if used > 0 && used + width > available {
                lines.push(std::mem::take(&mut line));
                used = 0;
                available = columns.saturating_sub(indent).max(1);
            }
            line.push(ch);
            used += width;
        }
    }
    if !line.trim().is_empty() || lines.is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_at_blanks_and_breaks_long_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
    }

    #[test]
    fn marks_lines_that_are_left_out() {
        let cut = |rows| wrap_to("one two three four", 9, rows, "…");
        assert_eq!(cut(1), ["one two …"]);
        assert_eq!(cut(2), ["one two", "three fo…"]);
        assert_eq!(cut(3), ["one two", "three", "four"]);
    }
}

//! Breaks text into lines.

use crate::domain::text;

/// Wraps clean text to `columns`, at blanks if possible.
pub(in crate::ui) fn wrap(text: &str, columns: usize) -> Vec<String> {
    wrap_hanging(text, columns, 0)
}

/// Like [`wrap`], with continuation lines shorter by `indent`.
pub(in crate::ui) fn wrap_hanging(content: &str, columns: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    let mut available = columns.max(1);
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

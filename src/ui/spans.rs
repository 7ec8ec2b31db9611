//! Lines of styled text: cutting and highlighting.

use core::ops::Range;

use ratatui::{
    style::Style,
    text::{Line, Span},
};

use crate::{
    app::Search,
    domain::text::{cut, width},
};

/// Cuts a line to `columns`; `more` shows where.
pub(crate) fn fit<'t>(line: Line<'t>, columns: usize, more: &str) -> Line<'t> {
    let mut left = columns;
    let mut spans = Vec::with_capacity(line.spans.len());
    for span in line.spans {
        let wide = width(&span.content);
        if wide > left {
            if left > 0 {
                let part = cut(&span.content, left, more).into_owned();
                spans.push(Span::styled(part, span.style));
            }
            break;
        }
        left -= wide;
        spans.push(span);
    }
    Line::from(spans)
}

/// Fills a line up with blanks to `columns`.
pub(crate) fn pad_to(line: &mut Line<'_>, columns: usize) {
    let blanks = columns.saturating_sub(line.width());
    line.push_span(" ".repeat(blanks));
}

/// The text of a line without its styles.
pub(crate) fn plain(spans: &[Span<'_>]) -> String {
    spans.iter().map(|span| span.content.as_ref()).collect()
}

/// A byte range of the line that the spans make.
pub(crate) fn slice<'t>(spans: &[Span<'t>], bytes: Range<usize>) -> Vec<Span<'t>> {
    let mut begin = 0;
    let mut parts = Vec::new();
    for span in spans {
        let end = begin + span.content.len();
        let from = bytes.start.clamp(begin, end) - begin;
        let to = bytes.end.clamp(begin, end) - begin;
        let part = span.content.get(from..to).unwrap_or_default();
        if !part.is_empty() {
            parts.push(Span::styled(part.to_owned(), span.style));
        }
        begin = end;
    }
    parts
}

/// Highlights the matches of a search in a line that contains one; if it is beyond these spans, all of them.
pub(crate) fn highlight<'t>(spans: Vec<Span<'t>>, search: &Search, found: Style) -> Vec<Span<'t>> {
    let patch = |span: Span<'t>| span.patch_style(found);
    let text = plain(&spans);
    if !search.is_in(&text) {
        return spans.into_iter().map(patch).collect();
    }
    let mut out = Vec::new();
    let mut past = 0;
    for found in search.matches_in(&text) {
        out.extend(slice(&spans, past..found.start));
        past = found.end;
        out.extend(slice(&spans, found).into_iter().map(patch));
    }
    out.extend(slice(&spans, past..text.len()));
    out
}

#[cfg(test)]
mod tests {
    use ratatui::style::{Color, Modifier};

    use super::*;

    fn line() -> Vec<Span<'static>> {
        let red = Style::new().fg(Color::Red);
        vec![Span::raw("ab"), Span::styled("cdé", red), Span::raw("日本")]
    }

    #[test]
    fn cuts_at_any_width() {
        let cut = |columns| plain(&fit(line().into(), columns, "…").spans);
        assert_eq!(cut(9), "abcdé日本");
        assert_eq!(cut(8), "abcdé日…");
        assert_eq!(cut(6), "abcdé…");
        assert_eq!(cut(5), "abcdé");
        assert_eq!(cut(0), "");
    }

    #[test]
    fn highlights_matches_across_styles() {
        let found = Style::new().add_modifier(Modifier::REVERSED);
        let text = |searched| Search::new(searched).unwrap();
        let shown = |searched| {
            let spans = highlight(line(), &text(searched), found).into_iter();
            let is_found = |span: &Span<'_>| span.style.add_modifier.contains(Modifier::REVERSED);
            let marked: Vec<Span<'_>> = spans.filter(is_found).collect();
            plain(&marked)
        };
        assert_eq!(shown("BC"), "bc");
        assert_eq!(shown("é日"), "é日");
        // A match beyond these spans.
        assert_eq!(shown("x"), "abcdé日本");
        assert_eq!(plain(&highlight(line(), &text("c"), found)), "abcdé日本");
    }
}

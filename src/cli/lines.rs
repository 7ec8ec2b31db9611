//! What people read: history as lines, results as text, tasks as tables. Every server text is cleaned here.

use serde_json::Value;

use crate::domain::{
    ContentBlock, HistoryEntry, HistoryEvent, HistoryLine, Progress, TaskId, Wall, text,
};

/// Local time of day; the date too where it is another day than `today`.
pub(super) fn clock(at: Wall, now: Wall) -> String {
    let zone = jiff::tz::TimeZone::system();
    let local = |wall: Wall| {
        jiff::Timestamp::from_millisecond(wall.0)
            .ok()
            .map(|time| time.to_zoned(zone.clone()))
    };
    match (local(at), local(now)) {
        (Some(at), Some(now)) if at.date() == now.date() => at.strftime("%H:%M:%S").to_string(),
        (Some(at), _) => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        (None, _) => at.rfc3339(),
    }
}

/// `30/50 60 %`, or `41` without a total.
pub(super) fn amount(progress: &Progress) -> String {
    let total = progress
        .total
        .map_or(String::new(), |total| format!("/{}", text::amount(total)));
    format!(
        "{}{total}{}",
        text::amount(progress.value),
        percent(progress)
    )
}

/// ` 60 %`; nothing without a total, and nothing at its end: a hundred is for the answer to say, and less is wrong.
fn percent(progress: &Progress) -> String {
    match progress.percent() {
        Some(percent) if progress.ratio() < Some(1.0) => format!(" {percent} %"),
        _ => String::new(),
    }
}

/// One line of history.
pub(super) fn entry(id: &TaskId, entry: &HistoryEntry, now: Wall) -> String {
    let HistoryLine { kind, lead, text } = entry.message();
    let lead = match &entry.what {
        HistoryEvent::Started { .. } => format!("{id},"),
        HistoryEvent::Progress { value, total, .. } => {
            let step = Progress {
                value: *value,
                total: *total,
                message: None,
            };
            format!("{lead}{} ", percent(&step))
        }
        // One task is one server's here, and who of it speaks matters little.
        HistoryEvent::Log { .. } => String::new(),
        _ => lead,
    };
    let gap = if lead.is_empty() { "" } else { " " };
    let line = format!("{} {kind:<8} {lead}{gap}{text}", clock(entry.at, now));
    line.trim_end().to_owned()
}

/// The text of a result (a CallToolResult); what is no text is named with its type and size. A result of another shape is
/// shown as what it is.
pub(super) fn result(json: &str) -> String {
    let value = super::json::parsed(json);
    let blocks = value.get("content").and_then(Value::as_array);
    let structured = value.get("structuredContent");
    match (
        blocks,
        structured.filter(|_| blocks.is_none_or(Vec::is_empty)),
    ) {
        (_, Some(structured)) => super::json::pretty(structured),
        (Some(blocks), None) => blocks.iter().map(block).collect::<Vec<_>>().join("\n"),
        // Also JSON that cannot be read, as when it is nested too deep.
        (None, None) if value.is_string() => text::clean_block(json).into_owned(),
        (None, None) => super::json::pretty(&value),
    }
}

/// The first block that is neither text nor a link, from 1.
pub(super) fn first_media(json: &str) -> Option<usize> {
    let value = super::json::parsed(json);
    let blocks = value.get("content").and_then(Value::as_array)?;
    let place = blocks
        .iter()
        .position(|block| matches!(ContentBlock::parse(block), ContentBlock::Media(_)))?;
    Some(place + 1)
}

/// As [`result`], the text blocks byte for byte.
pub(super) fn raw_result(json: &str) -> String {
    let value = super::json::parsed(json);
    let blocks = value.get("content").and_then(Value::as_array);
    let texts: Vec<&str> = blocks
        .into_iter()
        .flatten()
        .filter_map(|block| block.get("text").and_then(Value::as_str))
        .collect();
    if texts.is_empty() {
        json.to_owned()
    } else {
        texts.join("\n")
    }
}

fn block(block: &Value) -> String {
    match ContentBlock::parse(block) {
        ContentBlock::Text { text: words, .. } => {
            text::clean_block(words).trim_end_matches('\n').to_owned()
        }
        other => format!("[{}]", other.message()),
    }
}

/// Rows as aligned columns; the widest column among `gives` narrows until `columns` are not exceeded.
pub(super) fn table(
    rows: &[Vec<String>],
    columns: Option<usize>,
    gives: usize,
    ending: &str,
) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..count)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| text::width(cell))
                .max()
                .unwrap_or(0)
        })
        .collect();
    if let Some(columns) = columns {
        let gaps = 2 * count.saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(columns);
        if let Some(width) = widths.get_mut(gives) {
            let less = over.min(width.saturating_sub(8));
            *width -= less;
            over -= less;
        }
        // Still too wide: the right-most columns give what they have.
        for width in widths.iter_mut().rev() {
            let less = over.min(*width);
            *width -= less;
            over -= less;
        }
    }
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                let cell = text::cut(cell, *width, ending);
                line.push_str(&cell);
                line.extend(std::iter::repeat_n(
                    ' ',
                    width.saturating_sub(text::width(&cell)),
                ));
            }
            match columns {
                Some(columns) => text::cut(line.trim_end(), columns, ending).into_owned(),
                None => line.trim_end().to_owned(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_result_is_its_text_and_names_what_is_none() {
        let json = r#"{"content":[{"type":"text","text":"a\u001b[31m\nb"},
            {"type":"image","mimeType":"image/png","data":"AAAAAAAA"},
            {"type":"resource_link","uri":"file:///x"}]}"#;
        assert_eq!(
            result(json),
            "a\u{fffd}[31m\nb\n[image/png, 6 B]\n[link file:///x]"
        );
        assert_eq!(raw_result(json), "a\u{1b}[31m\nb");
        assert_eq!(
            result(r#"{"structuredContent":{"a":1}}"#),
            "{\n  \"a\": 1\n}"
        );
        for (json, shown) in [
            (r#"{"content":[]}"#, ""),
            ("7", "7"),
            ("null", "null"),
            ("{}", "{}"),
            ("\"done\"", "\"done\""),
            ("no json", "no json"),
            (r#"{"content":"done"}"#, "{\n  \"content\": \"done\"\n}"),
        ] {
            assert_eq!(result(json), shown);
        }
    }

    #[test]
    fn a_hundred_percent_is_for_the_server_to_say() {
        let step = |value, total| {
            amount(&Progress {
                value,
                total,
                message: None,
            })
        };
        assert_eq!(step(50.0, Some(50.0)), "50/50");
        assert_eq!(step(30.0, Some(50.0)), "30/50 60 %");
        assert_eq!(step(41.0, None), "41");
    }

    proptest! {
        #[test]
        fn a_table_is_never_wider_than_the_terminal(
            cells in prop::collection::vec(prop::collection::vec("[a-z日é ]{0,30}", 5), 1..5),
            columns in 1_usize..120,
        ) {
            for line in table(&cells, Some(columns), 2, "…") {
                prop_assert!(text::width(&line) <= columns, "{line:?}");
            }
        }
    }
}

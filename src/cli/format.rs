//! Text output: history entries as lines, results as text, rows as tables. Server text is cleaned here, except for results.

use crate::domain::{
    ContentBlock, HistoryEntry, HistoryEvent, HistoryLine, Progress, TaskId, Wall, text, unquoted,
};
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

/// What a server needs before its calls are sent or continued.
pub(super) const WAITS: &str = "needs sign-in, credentials or approval";

/// The local time zone. Without `TZ` it is read from the system's file, because the library would first read the names of
/// all time zones, which takes longer than anything else before the first frame.
pub(super) fn time_zone() -> TimeZone {
    let of_system = || TimeZone::tzif("local", &std::fs::read("/etc/localtime").ok()?).ok();
    let of_system = std::env::var_os("TZ").map_or_else(of_system, |_| None);
    of_system.unwrap_or_else(TimeZone::system)
}

/// Local time of day, with the date unless it is the same day as `now`.
pub(super) fn clock(at: Wall, now: Wall) -> String {
    let zone = time_zone();
    let local = |wall: Wall| {
        let time = jiff::Timestamp::from_millisecond(wall.0).ok()?;
        Some(time.to_zoned(zone.clone()))
    };
    match (local(at), local(now)) {
        (Some(at), Some(now)) if at.date() == now.date() => at.strftime("%H:%M:%S").to_string(),
        (Some(at), _) => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        (None, _) => at.rfc3339(),
    }
}

/// `30/50 60%`, or `41` without a total.
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

/// ` 60%`. Empty without a total, and at the total: only the result proves 100%, and less would be wrong.
fn percent(progress: &Progress) -> String {
    match progress.percent() {
        Some(percent) if progress.ratio() < Some(1.0) => format!(" {percent}%"),
        _ => String::new(),
    }
}

/// A history entry as one line.
pub(super) fn entry(id: &TaskId, entry: &HistoryEntry, now: Wall) -> String {
    let HistoryLine { kind, lead, text } = entry.message();
    let lead = match &entry.what {
        HistoryEvent::Started { .. } => format!("{id},"),
        HistoryEvent::Progress(step) => format!("{lead}{} ", percent(step)),
        // The logger's name is left out: all entries are of one server.
        HistoryEvent::Log { .. } => String::new(),
        _ => lead,
    };
    let gap = if lead.is_empty() { "" } else { " " };
    let line = format!("{} {kind:<8} {lead}{gap}{text}", clock(entry.at, now));
    line.trim_end().to_owned()
}

/// The text of a `CallToolResult`, as the server wrote it. Other blocks are shown as type and size, and a result of another
/// shape as JSON.
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
        // A JSON string, or text that is not readable JSON, e.g. because it is nested too deep.
        (None, None) if value.is_string() => json.to_owned(),
        (None, None) => super::json::pretty(&value),
    }
}

/// The number of the first media block, counting from 1.
pub(super) fn first_media_block(json: &str) -> Option<usize> {
    let value = super::json::parsed(json);
    let blocks = value.get("content").and_then(Value::as_array)?;
    let index = blocks
        .iter()
        .position(|block| matches!(ContentBlock::parse(block), ContentBlock::Media(_)))?;
    Some(index + 1)
}

/// As [`result`], without the other blocks.
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
        ContentBlock::Text { text: words, .. } => words.trim_end_matches('\n').to_owned(),
        other => format!("[{}]", other.message()),
    }
}

/// Rows as aligned columns. If they exceed `columns`, the column with index `shrinks` narrows first.
pub(super) fn table(
    rows: &[Vec<String>],
    columns: Option<usize>,
    shrinks: usize,
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
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(columns);
        if let Some(width) = widths.get_mut(shrinks) {
            let less = excess.min(width.saturating_sub(8));
            *width -= less;
            excess -= less;
        }
        // Still too wide: narrow the other columns from the right.
        for width in widths.iter_mut().rev() {
            let less = excess.min(*width);
            *width -= less;
            excess -= less;
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
                line += &" ".repeat(width.saturating_sub(text::width(&cell)));
            }
            match columns {
                Some(columns) => text::cut(line.trim_end(), columns, ending).into_owned(),
                None => line.trim_end().to_owned(),
            }
        })
        .collect()
}

/// The title of a task in lists: the user's name for it, else tool and arguments.
pub(super) fn task_title(task: &crate::domain::Task) -> String {
    if let Some(name) = &task.name {
        return text::clean_line(name).into_owned();
    }
    let arguments: Map<String, Value> = serde_json::from_str(&task.arguments).unwrap_or_default();
    let arguments: Vec<String> = arguments
        .iter()
        .map(|(key, value)| format!("{key}={}", unquoted(value)))
        .collect();
    let line = format!("{} {}", task.tool, arguments.join(" "));
    text::clean_line(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shows_result_text_and_summarizes_other_blocks() {
        let json = r#"{"content":[{"type":"text","text":"a\u001b[31m\nb"},
            {"type":"image","mimeType":"image/png","data":"AAAAAAAA"},
            {"type":"resource_link","uri":"file:///x"}]}"#;
        assert_eq!(
            result(json),
            "a\u{1b}[31m\nb\n[image/png, 6 B]\n[link file:///x]"
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
    fn never_shows_a_hundred_percent() {
        let step = |value, total| {
            amount(&Progress {
                value,
                total,
                message: None,
            })
        };
        assert_eq!(step(50.0, Some(50.0)), "50/50");
        assert_eq!(step(30.0, Some(50.0)), "30/50 60%");
        assert_eq!(step(41.0, None), "41");
    }

    proptest! {
        #[test]
        fn table_fits_the_terminal(
            cells in prop::collection::vec(prop::collection::vec("[a-z日é ]{0,30}", 5), 1..5),
            columns in 1_usize..120,
        ) {
            for line in table(&cells, Some(columns), 2, "…") {
                prop_assert!(text::width(&line) <= columns, "{line:?}");
            }
        }
    }
}

//! What people read: history as lines, results as text, tasks as tables. Every server text is cleaned here.

use serde_json::Value;

use crate::domain::{Elicitation, Entry, Happening, Progress, TaskId, Wall, text};

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
    match (progress.total, progress.percent()) {
        (Some(total), Some(percent)) => format!(
            "{}/{} {percent} %",
            text::amount(progress.value),
            text::amount(total)
        ),
        _ => text::amount(progress.value),
    }
}

/// One line of history.
pub(super) fn entry(id: &TaskId, entry: &Entry, now: Wall) -> String {
    let when = clock(entry.at, now);
    let (word, rest) = match &entry.what {
        Happening::Started { era, resumability } => {
            let number = entry.attempt;
            (
                "started",
                format!("{id}, attempt {number}, MCP {era}, resumable by {resumability}"),
            )
        }
        Happening::Progress {
            value,
            total,
            message,
        } => {
            let step = Progress {
                value: *value,
                total: *total,
                message: None,
            };
            let message = message.as_deref().unwrap_or_default();
            (
                "progress",
                format!("{}  {}", amount(&step), text::clean_line(message)),
            )
        }
        Happening::Log {
            level,
            logger: _,
            data,
        } => (level.word(), text::clean_line(data).into_owned()),
        Happening::Contact { state, why } => {
            ("contact", format!("{state}: {}", text::clean_line(why)))
        }
        Happening::Status { status, reason } | Happening::Settled { status, reason } => {
            let reason = reason
                .as_deref()
                .map(|reason| format!(": {}", text::clean_line(reason)));
            ("status", format!("{status}{}", reason.unwrap_or_default()))
        }
        Happening::InputRequired { request, .. } => ("asks", Elicitation::message_of(request)),
    };
    format!("{when} {word:<8} {rest}").trim_end().to_owned()
}

/// The text of a result (a CallToolResult); what is no text is named with its type and size.
pub(super) fn result(json: &str) -> String {
    let value = super::json::parsed(json);
    let blocks = value.get("content").and_then(Value::as_array);
    let mut out: Vec<String> = blocks.into_iter().flatten().map(block).collect();
    if out.is_empty()
        && let Some(structured) = value.get("structuredContent")
    {
        out.push(super::json::pretty(structured));
    }
    out.join("\n")
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
    let word = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = word("type");
    // Base64 takes four characters for three bytes.
    let size = |data: &str| text::bytes(u64::try_from(data.len() / 4 * 3).unwrap_or(u64::MAX));
    let line = match kind {
        "text" => {
            return text::clean_block(word("text"))
                .trim_end_matches('\n')
                .to_owned();
        }
        "image" | "audio" => format!("[{kind} {} {}]", word("mimeType"), size(word("data"))),
        "resource_link" => format!("[link {} {}]", word("uri"), word("mimeType")),
        "resource" => {
            let inner = block.get("resource").unwrap_or(&Value::Null);
            let word = |key: &str| inner.get(key).and_then(Value::as_str).unwrap_or_default();
            let size = match inner.get("text").and_then(Value::as_str) {
                Some(text) => text::bytes(u64::try_from(text.len()).unwrap_or(u64::MAX)),
                None => size(word("blob")),
            };
            format!("[resource {} {} {size}]", word("uri"), word("mimeType"))
        }
        _ => {
            let length = u64::try_from(block.to_string().len()).unwrap_or(u64::MAX);
            format!("[{kind} {}]", text::bytes(length))
        }
    };
    text::clean_line(&line).into_owned()
}

/// One clean line of a text that may be long.
pub(super) fn short(line: &str) -> String {
    const COLUMNS: usize = 200;
    text::truncate(&text::clean_line(line.trim_end()), COLUMNS).into_owned()
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
            "a\u{fffd}[31m\nb\n[image image/png 6 B]\n[link file:///x ]"
        );
        assert_eq!(raw_result(json), "a\u{1b}[31m\nb");
        assert_eq!(
            result(r#"{"structuredContent":{"a":1}}"#),
            "{\n  \"a\": 1\n}"
        );
        assert_eq!(result("no json"), "");
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
        assert_eq!(step(50.0, Some(50.0)), "50/50 99 %");
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

//! An export as a self-contained HTML page: no scripts, no other files, the timeline as SVG.
//!
//! Invariant: all text goes through [`escaped`], which removes HTML syntax, terminal control characters and text direction
//! overrides; the page's Content-Security-Policy forbids loading and running anything.

use std::fmt::Write as _;

use serde_json::Value;

use crate::domain::{HistoryEntry, HistoryEvent, Period, Task, Wall, milestone, periods, text};

/// The most history entries on a page, half from the beginning and half from the end.
const MAX_ENTRIES: usize = 2_000;
// Coordinates of the timeline in SVG units.
const WIDTH: f64 = 1_000.0;
const BAR_TOP: f64 = 34.0;
const BAR: f64 = 18.0;
const CURVE_TOP: f64 = 70.0;
const CURVE: f64 = 90.0;
const HEIGHT: f64 = 186.0;
/// The most points of the progress curve; more could not be told apart.
const MAX_POINTS: usize = 1_000;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\
table{border-collapse:collapse;width:100%}\
td,th{text-align:left;vertical-align:top;padding:.15rem .8rem .15rem 0;border-bottom:1px solid #8884}\
td{overflow-wrap:anywhere;white-space:pre-wrap}\
.n{white-space:nowrap;font-variant-numeric:tabular-nums}\
svg{width:100%;height:auto;font:12px system-ui,sans-serif}\
svg text{fill:currentColor}\
.running{fill:#2a9d5c}.paused{fill:#3a7bd5}.asking{fill:#e0a030}.cut{fill:#d1495b}.unwatched{fill:#8886}.waiting{fill:#8883}\
.curve{fill:none;stroke:#3a7bd5;stroke-width:2}.axis{stroke:currentColor;stroke-opacity:.4}\
.mark{stroke:currentColor;stroke-dasharray:2 3}";

/// Renders the page. `task` and `entries` are used only for times and numbers, never for text.
pub(super) fn page(export: &Value, task: &Task, entries: &[HistoryEntry]) -> String {
    let of_task = |key: &str| export.pointer(&format!("/task/{key}"));
    let title = of_task("tool").map(display).unwrap_or_default();
    let title = format!("{title} ({})", task.id);
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<h1>{0}</h1>\n",
        escaped(&title)
    );
    let note = match export.get("has_content") {
        Some(Value::Bool(true)) => {
            "Contains names, arguments, messages and results; review it before you share it."
        }
        _ => "Names, arguments, messages and results are replaced by their sizes.",
    };
    let field = |key: &str| export.get(key).map(display).unwrap_or_default();
    let _ = writeln!(
        out,
        "<p>{} longhaul {} on {}, {}.</p>",
        escaped(note),
        escaped(&field("longhaul")),
        escaped(&field("system")),
        escaped(&field("exported_at"))
    );
    out.push_str("<h2>Timeline</h2>\n");
    timeline(&mut out, task, entries);
    for (heading, key) in [("Task", "task"), ("Server", "server")] {
        section(&mut out, heading, export.get(key));
    }
    for (heading, key) in [("Attempts", "attempts"), ("Questions", "questions")] {
        let list = export.get(key).and_then(Value::as_array);
        for (number, item) in list.into_iter().flatten().enumerate() {
            section(&mut out, &format!("{heading}: {}", number + 1), Some(item));
        }
    }
    let history = export.get("history").and_then(Value::as_array);
    history_table(&mut out, history.map_or(&[], Vec::as_slice));
    out.push_str("</body>\n</html>");
    out
}

/// Sanitizes text and escapes it for HTML.
fn escaped(text: &str) -> String {
    text::clean_block(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// A value as text for people.
fn display(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(object) if object.len() == 1 && object.contains_key("bytes") => {
            let bytes = object.get("bytes").and_then(Value::as_u64).unwrap_or(0);
            format!("({}, omitted)", text::bytes(bytes))
        }
        Value::Object(_) | Value::Array(_) => {
            serde_json::to_string_pretty(value).unwrap_or_default()
        }
        other => other.to_string(),
    }
}

fn section(out: &mut String, heading: &str, value: Option<&Value>) {
    let Some(Value::Object(object)) = value else {
        return;
    };
    let _ = write!(out, "<h2>{}</h2>\n<table>\n", escaped(heading));
    for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        let _ = writeln!(
            out,
            "<tr><th>{}</th><td>{}</td></tr>",
            escaped(&key.replace('_', " ")),
            escaped(&display(value))
        );
    }
    out.push_str("</table>\n");
}

fn history_table(out: &mut String, history: &[Value]) {
    out.push_str(
        "<h2>History</h2>\n<table>\n<tr><th>seq</th><th>at</th><th>event</th><th></th></tr>\n",
    );
    let omitted = history.len().saturating_sub(MAX_ENTRIES);
    let begin = if omitted > 0 {
        MAX_ENTRIES / 2
    } else {
        history.len()
    };
    for (index, entry) in history.iter().enumerate() {
        if index == begin {
            let _ = writeln!(
                out,
                "<tr><td></td><td></td><td></td><td>… {} more lines, only in the JSON export …</td></tr>",
                text::grouped(omitted)
            );
        }
        if index >= begin && index < begin + omitted {
            continue;
        }
        let of = |key: &str| entry.get(key).map(display).unwrap_or_default();
        let rest: Vec<String> = entry
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| {
                !["seq", "at", "event", "has_event_id"].contains(&key.as_str()) && !value.is_null()
            })
            .map(|(key, value)| format!("{key} {}", display(value)))
            .collect();
        let _ = writeln!(
            out,
            "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            escaped(&of("seq")),
            escaped(&of("at")),
            escaped(&of("event")),
            escaped(&rest.join(", "))
        );
    }
    out.push_str("</table>\n");
}

/// The task's life as the timeline of the screen shows it, up to the newest entry.
fn life(task: &Task, entries: &[HistoryEntry]) -> Vec<Period> {
    let newest = entries.last().map_or(task.updated_at, |entry| entry.at);
    let end = task.end.settled_at.unwrap_or(newest);
    periods(task.created_at, end, entries.iter().filter_map(milestone))
}

fn timeline(out: &mut String, task: &Task, entries: &[HistoryEntry]) {
    let life = life(task, entries);
    let (Some(first), Some(last)) = (life.first(), life.last()) else {
        return;
    };
    let (begin, end) = (first.from, last.to);
    let whole = end.since(begin).as_secs_f64().max(0.001);
    let x = |at: Wall| at.clamp(begin, end).since(begin).as_secs_f64() / whole * WIDTH;
    let _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Activity and progress over time\">"
    );
    for period in &life {
        let (left, right) = (x(period.from), x(period.to));
        let (kind, lasted) = (
            period.activity.label(),
            text::span(period.to.since(period.from)),
        );
        let _ = writeln!(
            out,
            "<rect class=\"{0}\" x=\"{left:.2}\" y=\"{BAR_TOP}\" width=\"{1:.2}\" height=\"{BAR}\">\
             <title>{0} for {2}, from {3}</title></rect>",
            kind,
            (right - left).max(1.0),
            escaped(&lasted),
            escaped(&period.from.rfc3339())
        );
        // Labeled if there is room, so that color is not the only sign.
        if right - left > 70.0 {
            let _ = writeln!(
                out,
                "<text x=\"{:.2}\" y=\"{:.2}\">{}</text>",
                left + 6.0,
                BAR_TOP + 13.0,
                kind
            );
        }
    }
    for entry in entries {
        let mark = match &entry.what {
            HistoryEvent::Started { .. } => format!("{}", entry.attempt),
            HistoryEvent::InputRequired { .. } => "?".to_owned(),
            _ => continue,
        };
        let at = x(entry.at);
        let _ = writeln!(
            out,
            "<line class=\"mark\" x1=\"{at:.2}\" x2=\"{at:.2}\" y1=\"18\" y2=\"{0}\"/>\
             <text x=\"{at:.2}\" y=\"14\">{1}</text>",
            CURVE_TOP + CURVE,
            escaped(&mark)
        );
    }
    curve(out, entries, x);
    let base = CURVE_TOP + CURVE;
    let _ = writeln!(
        out,
        "<line class=\"axis\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{base}\" y2=\"{base}\"/>\n\
         <text x=\"0\" y=\"{0}\">{1}</text>\n\
         <text x=\"{WIDTH}\" y=\"{0}\" text-anchor=\"end\">{2}, after {3}</text>\n</svg>\n\
         <p>The bar shows what the task was doing: running, paused, disconnected, asking (a question was open), \
         unwatched (no longhaul process was running) or waiting (not sent yet). A number above the bar marks an attempt, \
         a ? marks a question. The curve shows the progress.</p>",
        base + 18.0,
        escaped(&begin.rfc3339()),
        escaped(&end.rfc3339()),
        escaped(&text::span(end.since(begin)))
    );
}

/// Draws progress as a curve, scaled to the largest value or total.
fn curve(out: &mut String, entries: &[HistoryEntry], x: impl Fn(Wall) -> f64) {
    let step = |entry: &HistoryEntry| match entry.what {
        HistoryEvent::Progress { value, total, .. } => Some((entry.at, value, total)),
        _ => None,
    };
    let steps: Vec<(Wall, f64, Option<f64>)> = entries.iter().filter_map(step).collect();
    let most = |most: f64, (_, value, total): &(Wall, f64, Option<f64>)| {
        most.max(*value).max(total.unwrap_or(0.0))
    };
    let most = steps.iter().fold(0.0, most);
    if steps.len() < 2 || !most.is_finite() || most <= 0.0 {
        return;
    }
    let every = steps.len().div_ceil(MAX_POINTS);
    let last = steps.len() - 1;
    let points: Vec<String> = steps
        .iter()
        .enumerate()
        .filter(|(index, _)| index.is_multiple_of(every) || *index == last)
        .map(|(_, (at, value, _))| {
            let height = (value / most).clamp(0.0, 1.0) * CURVE;
            format!("{:.2},{:.2}", x(*at), CURVE_TOP + CURVE - height)
        })
        .collect();
    let _ = writeln!(
        out,
        "<polyline class=\"curve\" points=\"{}\"/>",
        points.join(" ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_html_and_control_characters() {
        let hostile = "<script>alert('x')</script>]]>&\"\u{1b}[2J\u{202e}\u{0}\u{2028}";
        assert_eq!(
            escaped(hostile),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;]]&gt;&amp;&quot;\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}"
        );
    }
}

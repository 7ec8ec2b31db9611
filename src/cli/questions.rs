//! A server's question as text.

use crate::{
    cli::format,
    domain::{ArgumentSpec, Elicitation, ElicitationMode, Question, Task, Wall, text},
};

/// The title of a field, its description and its constraints.
pub(super) fn field_help(field: &ArgumentSpec) -> String {
    let clean = |text: &str| text::clean_line(text).into_owned();
    let title = field.title.iter().chain(&field.description);
    let about: Vec<String> = title.map(|text| clean(text)).collect();
    let constraint = clean(&field.expected_with_titles());
    match about.as_slice() {
        [] => constraint,
        about => format!("{}; {constraint}", about.join(": ")),
    }
}

/// Who asks, since when, and the message; the fields of a form are not included.
pub(super) fn question_lines(
    now: Wall,
    task: &Task,
    question: &Question,
    elicitation: &Elicitation,
) -> Vec<String> {
    let clean = |text: &str| text::clean_line(text).into_owned();
    let mut out = vec![format!(
        "question from {} for {} ({})",
        clean(task.server.as_str()),
        clean(task.title()),
        task.id
    )];
    let mut timing = format!("asked {} ago", text::span(now.since(question.asked_at)));
    if let Some(asked_for) = question.asked_for(&task.id) {
        timing = format!("{asked_for}, {timing}");
    }
    if let Some(deadline) = deadline(task) {
        timing = format!("{timing}, answer by {}", format::clock(deadline, now));
    }
    out.push(timing);
    out.push(String::new());
    let message = text::clean_block(&elicitation.message).into_owned();
    let message = message.trim_end();
    out.extend(message.lines().map(|line| format!("  {line}")));
    match &elicitation.mode {
        ElicitationMode::Form { warnings, .. } => {
            let warnings = warnings.iter();
            out.extend(warnings.map(|warning| format!("  {}", clean(warning))));
        }
        ElicitationMode::Url { .. } => {
            if let Some(link) = elicitation.url_preview() {
                out.push(String::new());
                out.push(format!("  {}", link.full_url()));
                if !link.host.is_empty() {
                    out.push(format!("  host: {}", link.host));
                }
                out.extend(link.warnings.iter().map(|it| format!("  warning: {it}")));
            }
        }
    }
    out
}

/// When the server's task expires, if it said so.
pub(super) fn deadline(task: &Task) -> Option<Wall> {
    task.server_task.as_ref()?.expires_at()
}

//! How a followed task ended, as text and exit code.

use std::sync::Arc;

use crate::{
    cli::{
        CliError, CliResult, Context, HistoryPrinter, LiveSession, OutputStyle, code,
        error::exit_code_of, format, live_session::SAVED_WITHIN,
    },
    domain::{
        Connectivity, Elicitation, LinkState, LostReason, OnInput, Phase, ServerName,
        SessionRequest, Status, Task, TaskErrorKind, TaskId, TaskView, text,
    },
};

/// Why a server needs a person first, and what to do about it.
pub(super) fn sign_in_needed(
    context: &Context<'_>,
    live: &LiveSession,
    server: &ServerName,
) -> (String, String) {
    let state = live.servers.get(server).map(|server| &server.state);
    let sign_in_hint = format!(
        "Sign in with `longhaul login {}`, or pass credentials with -H or --bearer-env",
        text::shell_word(server.as_str())
    );
    match state {
        Some(LinkState::NeedsLogin {
            why,
            takes_sign_in: false,
        }) => (why.clone(), credentials_hint(context, server)),
        Some(LinkState::NeedsLogin { why, .. }) => (why.clone(), sign_in_hint),
        Some(LinkState::NotStarted { why, .. }) => (why.clone(), "Do that first".to_owned()),
        _ => (format!("{server} needs credentials"), sign_in_hint),
    }
}

/// How to pass credentials to a server that has no sign-in.
fn credentials_hint(context: &Context<'_>, server: &ServerName) -> String {
    let server = context.configured(server);
    if server.is_some_and(|server| server.is_withheld) {
        return "Do that first".to_owned();
    }
    match server.map(|server| server.variables()).as_deref() {
        None | Some([]) => "Pass credentials with -H or --bearer-env".to_owned(),
        Some(variables) => format!(
            "Check ${}, or pass credentials with -H or --bearer-env",
            variables.join(", $")
        ),
    }
}

/// Prints the outcome and returns the exit code, once the task's end is on disk.
pub(super) async fn exit_code_if_ended(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    printer: &mut HistoryPrinter,
    view: &Arc<TaskView>,
) -> CliResult<Option<u8>> {
    let id = printer.id.clone();
    if view.contact == Connectivity::NeedsLogin {
        let (why, hint) = sign_in_needed(context, live, &view.task.server);
        if view
            .task
            .attempt()
            .is_some_and(|attempt| attempt.phase == Phase::Queued && attempt.number == 1)
        {
            // Queued, it would be sent some day, in addition to the call that the user is about to start again. The request
            // may have been sent and rejected with 401, so the message says "run", not "sent".
            let cancel = SessionRequest::Cancel(id.clone());
            let _ = live.request(context, cancel).await;
            let status = |live: &LiveSession| live.tasks.get(&id).map(|it| it.task.status.clone());
            let has_ended = |live: &LiveSession| status(live).is_none_or(|it| it.is_settled());
            live.wait_until(context, SAVED_WITHIN, has_ended).await?;
            if status(live).is_some_and(|status| status != Status::Cancelled) {
                // Another command has had it sent meanwhile.
                return Ok(None);
            }
            printer.catch_up(context)?;
            let message = format!("{why}; nothing was run. {hint}");
            return Err(CliError::new(code::NEEDS_LOGIN, message));
        }
        let message = format!(
            "{why}; {id} stays in the session. {hint}; then follow it: `longhaul watch {id}`"
        );
        return Err(CliError::new(code::NEEDS_LOGIN, message));
    }
    if !view.task.status.ends_waiting() || view.is_unsaved || view.saved_seq < view.task.seq {
        return Ok(None);
    }
    finish_if_ended(context, printer)
}

/// If the saved task has ended, prints the rest of its history and returns its exit code.
pub(super) fn finish_if_ended(
    context: &mut Context<'_>,
    printer: &mut HistoryPrinter,
) -> CliResult<Option<u8>> {
    let task = printer.task()?;
    if !task.status.ends_waiting() {
        return Ok(None);
    }
    printer.catch_up(context)?;
    print_outcome(context, printer, &task)?;
    Ok(Some(exit_code_of(&task)))
}

/// Prints the result or the reason, after the history.
pub(super) fn print_outcome(
    context: &mut Context<'_>,
    printer: &mut HistoryPrinter,
    task: &Task,
) -> CliResult<()> {
    let id = &task.id;
    let result = match printer.style {
        OutputStyle::Json => None,
        OutputStyle::Lines | OutputStyle::Call => printer.reader.result(id)?,
    };
    if let Some(result) = &result {
        let text = format::result(result);
        let is_error = task.status == Status::Failed && printer.style == OutputStyle::Call;
        match (text.is_empty(), is_error) {
            (true, _) => {}
            (false, true) => context.terminal.report_text(&text),
            (false, false) => context.terminal.print_result(&text)?,
        }
    }
    let reason = task.status.reason().unwrap_or_default();
    let failed = task.end.error.as_ref();
    let error = failed.map_or(String::new(), crate::domain::TaskError::message);
    let is_busy = failed.is_some_and(|error| matches!(error.code, Some(429 | 503)));
    let message = match &task.status {
        Status::Completed => match &task.notice {
            Some(notice) => format!("{id}: {notice}"),
            None => return Ok(()),
        },
        Status::Failed => match failed.map(|error| error.kind) {
            // The server's whole text is printed above.
            Some(TaskErrorKind::Tool) if result.is_some() => {
                format!("{} failed ({id})", task.title())
            }
            Some(TaskErrorKind::Refused) if is_busy => {
                format!("{error}. Run it again: `longhaul again {id}`")
            }
            Some(TaskErrorKind::Refused | TaskErrorKind::Unreachable) => error,
            _ => format!("{} failed ({id}): {error}", task.title()),
        },
        Status::Cancelled => format!("{id} was cancelled"),
        Status::Lost(LostReason::TooMuch { .. }) => {
            format!("{id} is lost: {reason}. Ask the tool for less data per call")
        }
        Status::Lost(_) => {
            format!("{id} is lost: {reason}. Run it again: `longhaul again {id}`")
        }
        Status::Unknown(_) => {
            // Without a checkpoint or an event id there is nothing to look for.
            let has_cursor = task
                .attempt()
                .is_some_and(|attempt| attempt.cursors.newest.is_some());
            let look = if task.resumability.checkpoint || has_cursor {
                format!("Find it: `longhaul resume {id}`; run it again")
            } else {
                "Run it again".to_owned()
            };
            format!(
                "{id} is unknown: {reason}. {look}: `longhaul again {id}`; remove it: `longhaul rm {id}`"
            )
        }
        Status::InputRequired => {
            let open = task.open_question();
            let asks = open.map_or(String::new(), |open| Elicitation::message_of(&open.request));
            let asks = text::with_period(&asks);
            let asked_for = open.and_then(|open| open.asked_for(id));
            let asked_for = asked_for.map_or(String::new(), |asked_for| format!(" ({asked_for})"));
            let no_defaults = match task.options.on_input {
                OnInput::Defaults => " (a required field has no default)",
                OnInput::Ask | OnInput::Decline => "",
            };
            format!("{id} asks{asked_for}{no_defaults}: {asks} Answer it: `longhaul answer {id}`")
        }
        Status::Running | Status::Paused => return Ok(()),
    };
    context.warn(&message);
    Ok(())
}

/// The error for a task that `rm` has hidden.
pub(super) fn forgotten_error(id: &TaskId) -> CliError {
    CliError::usage(format!(
        "{id} was removed; `longhaul rm --undo {id}` restores it"
    ))
}

//! Why an action is not available.

use crate::domain::{ActionRefusal, ControlKind, ServerView, Status, Task, text};

use super::{
    Document, Pane, ResultPart, State, Tab, TaskRow,
    detail::tab_document,
    keymap::{Action, BINDINGS, Binding},
    open_calls::other_driver,
    question,
};

/// The reply to actions in a read-only window.
pub(super) const READ_ONLY: &str = "not available on a read-only screen";

/// Whether a read-only window refuses an action.
pub(super) fn is_read_only(state: &State, action: Action) -> bool {
    state.setup.readonly && is_any_binding(action, |it| it.is_change)
}

fn is_any_binding(action: Action, is: impl Fn(&Binding) -> bool) -> bool {
    BINDINGS.iter().any(|it| it.action == action && is(it))
}

/// Why an action is not available right now; `None` if it is.
pub fn why_not(state: &State, action: Action) -> Option<String> {
    if is_read_only(state, action) {
        return Some(READ_ONLY.to_owned());
    }
    match state.selected() {
        Some(task_row) => why_not_on(state, task_row, action),
        None if !is_any_binding(action, |it| it.is_of_task) => why_not_anywhere(state, action),
        None if state.tasks.is_empty() => {
            let key = state.key(Action::NewCall);
            Some(format!("no tasks yet; press {key} to start one"))
        }
        None => Some("no matching tasks; Esc clears the filter".to_owned()),
    }
}

/// Why an action is not available on the task under the cursor.
fn why_not_on(state: &State, task_row: &TaskRow, action: Action) -> Option<String> {
    let key = |action| state.key(action);
    let task = &task_row.view.task;
    let (id, word) = (&task.id, task.status.label());
    let is_alone = state.list.marks.is_empty();
    match action {
        Action::Pause if is_alone => {
            task.refusal(ControlKind::Pausing)
                .map(|refusal| match refusal {
                    ActionRefusal::AlreadyPaused => format!(
                        "{id} is already paused; press {} to resume it",
                        key(Action::Resume)
                    ),
                    ActionRefusal::Unknown => format!(
                        "{id} is unknown; press {} for recovery options",
                        key(Action::Open)
                    ),
                    ActionRefusal::NotStarted => format!(
                        "{id} has not started yet; press {} to cancel it",
                        key(Action::Cancel)
                    ),
                    ActionRefusal::WaitsForAnswer => {
                        format!("{id} is waiting for an answer; nothing to pause")
                    }
                    _ => format!("{id} has ended ({word}); nothing to pause"),
                })
        }
        Action::Resume if is_alone && state.pane == Pane::Tasks => task
            .refusal(ControlKind::Resuming)
            .map(|refusal| match refusal {
                ActionRefusal::WaitsForAnswer => {
                    format!("{id} is waiting for an answer; nothing to resume")
                }
                _ => format!(
                    "{id} has ended ({word}); press {} to run it again",
                    key(Action::RunAgain)
                ),
            }),
        Action::RunAgain if task.tool == Task::NO_TOOL => {
            let server = text::clean_line(task.server.as_str());
            Some(format!(
                "can't run {id} again: {server} does not say which tool the task runs"
            ))
        }
        Action::Answer => match question::next(task_row, None) {
            Some(_) if !task_row.view.task.status.is_settled() => None,
            _ if task_row.view.task.status == Status::InputRequired => {
                Some(format!("{id}: the server has not sent its question yet"))
            }
            _ => Some(format!("{id} has no question (status: {word})")),
        },
        Action::Cancel if is_alone && task.refusal(ControlKind::Cancelling).is_some() => {
            Some(format!("{id} has ended ({word}); nothing to cancel"))
        }
        _ => why_not_anywhere(state, action),
    }
}

fn has_result(state: &State) -> bool {
    let selected = state.selected();
    selected.is_some_and(|it| it.view.task.end.result_bytes.is_some())
}

fn why_not_anywhere(state: &State, action: Action) -> Option<String> {
    match action {
        Action::Import if state.setup.is_demo => {
            Some("not available in the demo; use `longhaul servers import`".to_owned())
        }
        Action::Reload if state.setup.is_demo => Some("not available in the demo".to_owned()),
        Action::Import | Action::Reload | Action::StopKeeper | Action::SignIn
            if state.setup.host.is_some() =>
        {
            let host = state.setup.host.as_deref().unwrap_or_default();
            let host = crate::domain::text::clean_line(host);
            Some(format!("not available from here; use longhaul on {host}"))
        }
        Action::StopKeeper
            if state.setup.readonly && other_driver(state).is_some_and(|it| it.is_keeper) =>
        {
            Some(READ_ONLY.to_owned())
        }
        Action::InjectFault if !state.setup.is_demo => {
            Some("only available in the demo".to_owned())
        }
        Action::SignIn => to_sign_in(state).err().map(|error| error.to_string()),
        Action::Undo if state.list.undo.is_empty() => {
            let flags = &state.setup.flags;
            let hint = format!("`longhaul rm --undo ID{flags}` restores a task removed elsewhere");
            Some(format!("nothing was removed on this screen; {hint}"))
        }
        Action::FindNext | Action::FindPrevious if state.detail.search.is_none() => {
            let key = state.key(Action::Search);
            Some(format!("no search yet; press {key} to search"))
        }
        Action::Search if state.detail.tab == Tab::Now => {
            let key = state.key(Action::NextTab);
            Some(format!(
                "the Now tab can't be searched; press {key} for the log"
            ))
        }
        Action::SaveOrOpenPart if part_here(state).is_none() => Some(
            match state.detail.tab {
                Tab::Result if !has_result(state) => "there is no result to save",
                Tab::Result => "the cursor is not on a block of a result",
                _ => "only blocks of a result can be saved or opened",
            }
            .to_owned(),
        ),
        Action::FoldHere | Action::FoldAll if !has_folds(state) => Some(
            match state.detail.tab {
                Tab::Result => "nothing to fold here; only JSON objects and arrays fold",
                _ => "only JSON results can be folded",
            }
            .to_owned(),
        ),
        // With an empty list, the key for marking adds a server instead.
        Action::MarkAll if state.tasks.is_empty() => why_not(state, Action::AddServer),
        Action::MarkAll if state.list.rows.is_empty() => {
            Some("no matching tasks; Esc clears the filter".to_owned())
        }
        _ => None,
    }
}

/// Whether the current tab shows something that can be folded.
pub(super) fn has_folds(state: &State) -> bool {
    shown_document(state).is_some_and(Document::has_folds)
}

/// The part of the result under the cursor.
pub(super) fn part_here(state: &State) -> Option<&ResultPart> {
    let number = shown_document(state)?.part_here()?;
    let result = state.detail.results.get(state.list.cursor.as_ref()?)?;
    result.parts.get(number)
}

/// The document in the current tab, if it shows a result.
fn shown_document(state: &State) -> Option<&Document> {
    tab_document(state, state.selected()?)
}

/// No server waits for a sign-in or approval.
#[derive(Debug, thiserror::Error)]
#[error("no server needs a sign-in or approval")]
pub(super) struct NoSignInNeeded;

/// The server that the sign-in key applies to: the one under the cursor, else the only one that waits for sign-in or
/// approval; `None` if several wait.
pub(super) fn to_sign_in(state: &State) -> Result<Option<&ServerView>, NoSignInNeeded> {
    let waits = |server: &&ServerView| server.waits_for_user();
    let mut waiting = state.servers.iter().filter(waits);
    let of_task = || {
        let task = &state.selected()?.view.task;
        state.server(&task.server).filter(waits)
    };
    let under_cursor = match state.pane {
        // Even if it does not wait for the user yet: it may only be idle so far.
        Pane::Servers => state.servers.get(state.cursors[1]),
        _ => of_task(),
    };
    match (under_cursor, waiting.next(), waiting.next()) {
        (Some(server), ..) | (None, Some(server), None) => Ok(Some(server)),
        (None, Some(_), Some(_)) => Ok(None),
        (None, None, _) => Err(NoSignInNeeded),
    }
}

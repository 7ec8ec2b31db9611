//! The dialog of a question from a server: its keys, the answers that they send, and when it closes on its own.

use crate::{
    app::{
        Action, Button, Command, KeyPress, Overlay, QuestionForm, State, TaskRow, question,
        requests::request_for, session::RequestPurpose,
    },
    domain::{
        Answer, NoticeLevel, ServerTask, SessionOutcome, SessionRequest, Stamp, Task, TaskId,
        UrlPreview, text, wrap::wrap,
    },
};

use super::keys::{fill, ignore_early_key};

/// The number of a question among its task's questions, from 1, and how many there are.
pub fn position_of(state: &State, form: &QuestionForm) -> (usize, usize) {
    let task = state.task(&form.task).map(|task_row| &task_row.view.task);
    let open = || task.into_iter().flat_map(Task::open_questions);
    let before = open().take_while(|question| question.key != form.key);
    (
        form.answered + before.count() + 1,
        form.answered + open().count(),
    )
}

/// How long a question has been open and when it expires: `asked 3 h ago, expires Fri 09:30`.
pub fn waits(state: &State, task: &Task, key: &str, now: Stamp) -> String {
    let question = task.questions.iter().find(|question| question.key == key);
    let since = question.map_or(task.updated_at, |question| question.asked_at);
    let waits = format!("asked {} ago", text::span(now.wall.since(since)));
    let waits = match question.and_then(|question| question.asked_for(&task.id)) {
        Some(asked_for) => format!("{asked_for}; {waits}"),
        None => waits,
    };
    let until = task.server_task.as_ref().and_then(ServerTask::expires_at);
    match until {
        Some(until) => format!("{waits}, answer by {}", state.clock_day(until)),
        None => format!("{waits}, no deadline"),
    }
}

/// Opens the oldest question of the task under the cursor.
pub(in crate::app) fn open_question(state: &mut State) {
    let id = state
        .selected()
        .map(|task_row| task_row.view.task.id.clone());
    if let Some(form) = id.and_then(|id| form_of(state, &id, None, 0)) {
        state.dialogs.stack.push(Overlay::Question(Box::new(form)));
    }
}

/// The form of the next question, with what was typed before it was postponed.
fn form_of(
    state: &mut State,
    id: &TaskId,
    but: Option<&str>,
    answered: usize,
) -> Option<QuestionForm> {
    let next = question::next(state.task(id)?, but)?;
    let mut form = QuestionForm::new(id, next, answered);
    let postponed = (id.clone(), form.key.clone());
    if let Some(fields) = state.dialogs.postponed.remove(&postponed) {
        form.fields = fields;
    }
    Some(form)
}

pub(in crate::app) fn question_key(
    state: &mut State,
    form: &mut QuestionForm,
    key: KeyPress,
) -> bool {
    let is_close = key.action == Some(Action::Back);
    if form.drawn.is_none() || !is_close && !form.is_read(state.now()) {
        ignore_early_key(state, key.chord);
        return true;
    }
    if is_close {
        let postponed = (form.task.clone(), form.key.clone());
        let fields = std::mem::take(&mut form.fields);
        state.dialogs.postponed.insert(postponed, fields);
        let open = state.key(Action::Open);
        state.reply(format!(
            "the question stays open; press {open} to answer it"
        ));
        return false;
    }
    if form.is_sent {
        state.reply("saving the answer");
        return true;
    }
    let is_opening = std::mem::take(&mut form.is_opening);
    let last = form.last();
    match key.action {
        Some(Action::NextField) => form.at = Some(form.at.map_or(0, |at| (at + 1).min(last))),
        Some(Action::PreviousField) => {
            form.at = Some(form.at.map_or(last, |at| at.saturating_sub(1)));
        }
        Some(Action::OpenPage) => open_page(state, form, is_opening),
        Some(Action::PageDown) => {
            let link = form.link.as_ref().map(UrlPreview::full_url);
            let message = text::clean_block(&form.elicitation.message);
            let lines = message.lines().map(str::to_owned).chain(link);
            // The page scrolls by lines, so none may be longer than a row.
            let columns = usize::from(state.size.0.min(92)).saturating_sub(8).max(1);
            let rows = lines.flat_map(|line| wrap(&line, columns)).collect();
            state.dialogs.open_page("Question".to_owned(), rows);
        }
        Some(Action::CopyPage) => {
            if let Some(link) = &form.link {
                state.copy(link.full_url());
            }
        }
        _ if form.at.is_none() => {
            state.reply("nothing is focused yet; press Tab to start, Esc to answer later");
        }
        Some(Action::Send) => send(state, form, Button::Accept),
        Some(Action::Accept) => match form.button() {
            Some(button) => send(state, form, button),
            None => form.at = form.at.map(|at| at + 1),
        },
        _ if form.button().is_some() => match key.action {
            Some(Action::NextChoice) => form.at = form.at.map(|at| (at + 1).min(last)),
            Some(Action::PreviousChoice) => {
                let first = form.fields.len();
                form.at = form.at.map(|at| at.saturating_sub(1).max(first));
            }
            _ => state.reply("press Enter for this button, Tab or the arrows for another"),
        },
        _ => {
            form.errors.clear();
            if let Some(field) = form.field() {
                fill(state, field, key.action, key.chord);
            }
        }
    }
    true
}

/// Opens the question's page. The first press only announces what the second one does.
fn open_page(state: &mut State, form: &mut QuestionForm, is_opening: bool) {
    let Some(link) = &form.link else { return };
    if !link.can_open {
        let why = link.warnings.first().cloned().unwrap_or_default();
        return state.reply(why);
    }
    if is_opening {
        state.command(Command::OpenPage(link.full_url()));
        state.reply("opening in your browser; Accept tells the server that you agree");
    } else {
        let message = format!("press o again to open {} in your browser", link.host);
        state.reply(message);
        form.is_opening = true;
    }
}

fn send(state: &mut State, form: &mut QuestionForm, button: Button) {
    form.errors.clear();
    let answer = match button {
        Button::Accept => match form.accept() {
            Some(answer) => answer,
            None => return,
        },
        Button::Decline => Answer::Decline,
        Button::Dismiss => Answer::Dismiss,
    };
    let choice = answer.outcome();
    form.is_sent = true;
    let (task, key) = (form.task.clone(), form.key.clone());
    let what = SessionRequest::Answer {
        id: task.clone(),
        key: Some(key.clone()),
        answer,
    };
    request_for(state, what, RequestPurpose::Answer { task, key, choice });
}

/// Handles the response to an answer: replaces the dialog with the next question, or shows the error.
pub(in crate::app) fn on_answer_saved(
    state: &mut State,
    task: &TaskId,
    key: &str,
    choice: &str,
    response: SessionOutcome,
) {
    let is_it = |overlay: &Overlay| matches!(overlay, Overlay::Question(form) if form.task == *task && form.key == *key);
    let index = state.dialogs.stack.iter().position(is_it);
    if let Err(error) = response {
        let message = error.to_string();
        match index.and_then(|index| state.dialogs.stack.get_mut(index)) {
            Some(Overlay::Question(form)) => {
                form.is_sent = false;
                form.errors = vec![message.clone()];
                state.log_message(NoticeLevel::Error, &message);
            }
            _ => state.show_toast(NoticeLevel::Error, &message),
        }
        return;
    }
    state.show_toast(
        NoticeLevel::Info,
        &format!("{task}: answer saved ({choice})"),
    );
    let Some(index) = index else { return };
    let Overlay::Question(form) = state.dialogs.stack.remove(index) else {
        return;
    };
    let is_settled = |task_row: &TaskRow| task_row.view.task.status.is_settled();
    if !state.task(task).is_some_and(is_settled)
        && let Some(next) = form_of(state, task, Some(key), form.answered + 1)
    {
        state
            .dialogs
            .stack
            .insert(index, Overlay::Question(Box::new(next)));
    }
}

/// Closes the dialog of a question that is no longer open.
pub(in crate::app) fn close_withdrawn_question(state: &mut State, id: &TaskId) {
    let Some(task) = state.tasks.get(id).map(|task_row| &task_row.view.task) else {
        return;
    };
    let is_settled = task.status.is_settled();
    let asks = |key: &str| task.open_questions().any(|question| question.key == key);
    let postponed = &mut state.dialogs.postponed;
    postponed.retain(|(of, key), _| of != id || asks(key));
    // The response to our own answer closes it otherwise.
    let is_gone = |overlay: &Overlay| {
        matches!(overlay, Overlay::Question(form)
            if form.task == *id && !asks(&form.key) && (is_settled || !form.is_sent))
    };
    let Some(index) = state.dialogs.stack.iter().position(is_gone) else {
        return;
    };
    let message = if is_settled {
        format!("{id} is {}; its question was closed", task.status.label())
    } else {
        format!("{id}: the question was answered elsewhere or withdrawn")
    };
    state.dialogs.stack.remove(index);
    state.show_toast(NoticeLevel::Warning, &message);
}

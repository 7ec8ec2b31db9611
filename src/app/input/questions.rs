//! The keys of a question, what they send, and when its dialog goes by itself.

use crate::domain::{
    Answer, Chord, NoticeLevel, RequestError, SessionRequest, SessionResponse, Stamp, TaskId, text,
};

use super::{
    super::{
        Button, Command, Overlay, QuestionForm, State, TaskRow, keymap::Action, question,
        state::Pending,
    },
    ask,
    forms::fill,
    too_soon,
};

/// Opens the oldest question of the task under the cursor.
pub(super) fn open_question(state: &mut State) {
    let form = state
        .selected()
        .and_then(|task_row| form_of(task_row, None, 0));
    if let Some(form) = form {
        state.overlays.push(Overlay::Question(Box::new(form)));
    }
}

fn form_of(task_row: &TaskRow, but: Option<&str>, answered: usize) -> Option<QuestionForm> {
    let next = question::next(task_row, but)?;
    Some(QuestionForm::new(&task_row.view.task.id, next, answered))
}

pub(super) fn question_key(
    state: &mut State,
    mut form: Box<QuestionForm>,
    action: Option<Action>,
    chord: Chord,
    now: Stamp,
    todo: &mut Vec<Command>,
) -> Option<Overlay> {
    let is_close = action == Some(Action::Back);
    if form.drawn.is_none() || !is_close && !form.is_read(now) {
        too_soon(state, chord);
        return Some(Overlay::Question(form));
    }
    if is_close {
        state.answer("later: the question stays");
        return None;
    }
    if form.is_sent {
        state.answer("the answer is being saved");
        return Some(Overlay::Question(form));
    }
    let is_opening = std::mem::take(&mut form.is_opening);
    let last = form.last();
    match action {
        Some(Action::NextField) => form.at = Some(form.at.map_or(0, |at| (at + 1).min(last))),
        Some(Action::FieldBefore) => {
            form.at = Some(form.at.map_or(last, |at| at.saturating_sub(1)));
        }
        Some(Action::OpenPage) => open_page(state, &mut form, is_opening, todo),
        Some(Action::CopyPage) => {
            if let Some(link) = &form.link {
                todo.push(Command::Copy(link.full_url()));
                state.say(NoticeLevel::Info, "sent to the terminal's clipboard", now);
            }
        }
        _ if form.at.is_none() => {
            state.answer("nothing is focused yet: Tab to start, Esc to answer later");
        }
        Some(Action::Send) => send(state, &mut form, Button::Accept, todo),
        Some(Action::Accept) => match form.button() {
            Some(button) => send(state, &mut form, button, todo),
            None => form.at = form.at.map(|at| at + 1),
        },
        _ if form.button().is_some() => match action {
            Some(Action::ChoiceAfter) => form.at = form.at.map(|at| (at + 1).min(last)),
            Some(Action::ChoiceBefore) => {
                let first = form.fields.len();
                form.at = form.at.map(|at| at.saturating_sub(1).max(first));
            }
            _ => state.answer("Enter takes this button; Tab and the arrows go to another"),
        },
        _ => {
            form.complaints.clear();
            if let Some(field) = form.field() {
                fill(state, field, action, chord);
            }
        }
    }
    Some(Overlay::Question(form))
}

/// The first time only says what the second will do.
fn open_page(
    state: &mut State,
    form: &mut QuestionForm,
    is_opening: bool,
    todo: &mut Vec<Command>,
) {
    let Some(link) = &form.link else { return };
    if !link.can_open {
        let why = link.warnings.first().cloned().unwrap_or_default();
        return state.answer(why);
    }
    if is_opening {
        todo.push(Command::OpenPage(link.full_url()));
        state.answer("your browser was asked to open it; Accept tells the server that you agreed");
    } else {
        let words = format!("o once more opens {} in your browser", link.host);
        state.answer(words);
        form.is_opening = true;
    }
}

fn send(state: &mut State, form: &mut QuestionForm, button: Button, todo: &mut Vec<Command>) {
    form.complaints.clear();
    let answer = match button {
        Button::Accept => match form.accept() {
            Ok(answer) => answer,
            Err(complaints) => {
                form.complaints = complaints;
                return;
            }
        },
        Button::Decline => Answer::Decline,
        Button::Dismiss => Answer::Dismiss,
    };
    let word = answer.outcome();
    form.is_sent = true;
    let (task, key) = (form.task.clone(), form.key.clone());
    let what = SessionRequest::Answer {
        id: task.clone(),
        key: Some(key.clone()),
        answer,
    };
    ask(state, what, Pending::Answer { task, key, word }, todo);
}

/// An answer is saved, or was refused: its dialog gives way to the next question, or says why.
pub(in crate::app) fn took_answer(
    state: &mut State,
    task: &TaskId,
    key: &str,
    word: &str,
    outcome: Result<SessionResponse, RequestError>,
    now: Stamp,
) {
    let is_it = |overlay: &Overlay| matches!(overlay, Overlay::Question(form) if form.task == *task && form.key == *key);
    let place = state.overlays.iter().position(is_it);
    if let Err(refused) = outcome {
        let words = refused.to_string();
        match place.and_then(|place| state.overlays.get_mut(place)) {
            Some(Overlay::Question(form)) => {
                form.is_sent = false;
                form.complaints = vec![words.clone()];
                state.note(NoticeLevel::Error, &words, now.wall);
            }
            _ => state.say(NoticeLevel::Error, &words, now),
        }
        return;
    }
    state.say(NoticeLevel::Info, &format!("{task}: {word}"), now);
    let Some(place) = place else { return };
    let Overlay::Question(form) = state.overlays.remove(place) else {
        return;
    };
    let next = state
        .task(task)
        .filter(|task_row| !task_row.view.task.status.is_settled())
        .and_then(|task_row| form_of(task_row, Some(key), form.answered + 1));
    if let Some(next) = next {
        state
            .overlays
            .insert(place, Overlay::Question(Box::new(next)));
    }
}

/// Closes the dialog of a question that a task does not ask any more.
pub(in crate::app) fn close_gone(state: &mut State, id: &TaskId, now: Stamp) {
    let Some(task) = state.task(id).map(|task_row| &task_row.view.task) else {
        return;
    };
    let is_settled = task.status.is_settled();
    let asks = |key: &str| !is_settled && task.open_questions().any(|question| question.key == key);
    // Our own answer closes it when it is saved.
    let is_gone = |overlay: &Overlay| {
        matches!(overlay, Overlay::Question(form)
            if form.task == *id && !asks(&form.key) && (is_settled || !form.is_sent))
    };
    let Some(place) = state.overlays.iter().position(is_gone) else {
        return;
    };
    let words = if is_settled {
        format!("{id} is {}; its question is gone", task.status.label())
    } else {
        format!("{id}: the question was answered elsewhere, or taken back")
    };
    state.overlays.remove(place);
    state.say(NoticeLevel::Warning, &text::clean_line(&words), now);
}

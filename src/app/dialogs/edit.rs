//! The form for a task's name, note and limits.

use core::time::Duration;

use crate::{
    app::{Action, EditForm, Field, KeyPress, Overlay, State, requests::request},
    domain::{
        SessionRequest, TaskChange,
        text::{self, DurationError},
    },
};

use super::keys::walk;

/// Opens the form for the task under the cursor.
pub(in crate::app) fn open(state: &mut State) {
    let Some(task_row) = state.selected() else {
        return;
    };
    let task = &task_row.view.task;
    let limit =
        |limit: Option<Duration>| Field::prefilled(limit.map_or("off".to_owned(), text::duration));
    let fields = [
        Field::new(task.name.clone().unwrap_or_default()),
        Field::new(task.note.clone().unwrap_or_default()),
        limit(task.options.limits.idle),
        limit(task.options.limits.hard),
    ];
    let form = EditForm {
        task: task.id.clone(),
        before: fields.each_ref().map(|field| field.text().to_owned()),
        fields,
        at: 0,
        error: None,
    };
    state.dialogs.stack.push(Overlay::Edit(Box::new(form)));
}

pub(in crate::app) fn edit_key(state: &mut State, form: &mut EditForm, key: KeyPress) -> bool {
    if let Some(at) = walk(key.action, form.at, form.fields.len() - 1) {
        form.at = at;
        return true;
    }
    match key.action {
        Some(Action::Back) => return false,
        Some(Action::Accept | Action::Send) => {
            let [name, note, idle, hard] = &form.fields;
            match (read_limit(idle.text()), read_limit(hard.text())) {
                (Ok(idle), Ok(hard)) => {
                    let some = |field: &Field| {
                        let text = field.text().trim();
                        (!text.is_empty()).then(|| text.to_owned())
                    };
                    let values = [
                        TaskChange::Name(some(name)),
                        TaskChange::Note(some(note)),
                        TaskChange::Idle(idle),
                        TaskChange::Hard(hard),
                    ];
                    // Others may have changed the rest while the form was open.
                    let fields = form.fields.iter().zip(&form.before);
                    let is_changed = fields.map(|(field, before)| field.text() != before);
                    let changes = values.into_iter().zip(is_changed);
                    let changes =
                        changes.filter_map(|(value, is_changed)| is_changed.then_some(value));
                    let edit = SessionRequest::Edit {
                        id: form.task.clone(),
                        changes: changes.collect(),
                    };
                    request(state, edit);
                    return false;
                }
                (Err(error), _) => form.error = Some(format!("idle timeout: {error}")),
                (_, Err(error)) => form.error = Some(format!("max time: {error}")),
            }
        }
        _ => {
            form.error = None;
            if let Some(field) = form.fields.get_mut(form.at) {
                field.key(key.chord);
            }
        }
    }
    true
}

/// Parses a duration; `off` and an empty text mean no limit.
fn read_limit(typed: &str) -> Result<Option<Duration>, DurationError> {
    match typed.trim() {
        "" => Ok(None),
        typed => text::parse_limit(typed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_as_people_write_them() {
        assert_eq!(read_limit("off"), Ok(None));
        assert_eq!(read_limit(""), Ok(None));
        assert_eq!(read_limit("90s"), Ok(Some(Duration::from_secs(90))));
        assert_eq!(read_limit("5 m"), Ok(Some(Duration::from_secs(300))));
        assert_eq!(read_limit("2h"), Ok(Some(Duration::from_secs(7_200))));
        for wrong in ["0", "5x", "abc", "-3s", "99999999999999999999h"] {
            assert!(read_limit(wrong).is_err(), "{wrong}");
        }
        for seconds in [1, 90, 300, 7_200] {
            let limit = Duration::from_secs(seconds);
            assert_eq!(read_limit(&text::duration(limit)), Ok(Some(limit)));
        }
    }
}

//! The line with the path to save a part of a result to.

use crate::{
    app::{Action, Command, Field, KeyPress, State},
    domain::TaskId,
};

pub(in crate::app) fn save_key(
    state: &mut State,
    field: &mut Field,
    (task, part): (&TaskId, usize),
    key: KeyPress,
) -> bool {
    match key.action {
        Some(Action::Accept) => {
            let path = field.text().trim().to_owned();
            if path.is_empty() {
                state.reply("not saved: no file name given");
            } else {
                let task = task.clone();
                state.command(Command::SavePart { task, part, path });
            }
        }
        Some(Action::Back) => state.reply("not saved"),
        _ => {
            field.key(key.chord);
            return true;
        }
    }
    false
}

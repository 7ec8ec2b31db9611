//! The last lines: what wants attention, the keys that work here, and what leaving would do.

use crate::{
    app::{Action, Attention, State, attention, footer_keys, leave_line},
    domain::Stamp,
};

use super::super::{canvas::Canvas, theme::Role};

/// The one thing that wants attention, or the answer to the last key.
pub(in crate::ui) fn attention_line(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    let room = usize::from(canvas.columns().saturating_sub(1));
    let (words, weight) = attention(state, now, room);
    let role = match weight {
        Attention::Calm => Role::Dim,
        Attention::Reply => Role::Strong,
        Attention::Pressing => Role::Cut,
    };
    canvas.put(1, 0, &words, role);
}

/// The keys that work here, now: as many as fit.
pub(in crate::ui) fn footer(canvas: &mut Canvas<'_>, state: &State) {
    let keys = footer_keys(state);
    let mut x = 1;
    // The last two, commands and keys, are the way to all others: they always have their place.
    let always = keys.len().saturating_sub(2);
    let wide = |(key, label): &(String, String)| {
        u16::try_from(crate::domain::text::width(key) + crate::domain::text::width(label) + 3)
            .unwrap_or(u16::MAX)
    };
    let reserved: u16 = keys.iter().skip(always).map(wide).sum();
    for (place, key) in keys.iter().enumerate() {
        let room = if place < always {
            canvas.columns().saturating_sub(reserved)
        } else {
            canvas.columns()
        };
        if x + wide(key).saturating_sub(2) > room {
            continue;
        }
        x = canvas.put(x, 0, &key.0, Role::Key);
        x = canvas.put(x + 1, 0, &key.1, Role::Plain) + 2;
    }
}

/// What leaving would do.
pub(in crate::ui) fn leave(canvas: &mut Canvas<'_>, state: &State) {
    let x = canvas.put(1, 0, &state.key(Action::Leave), Role::Key);
    let room = usize::from(canvas.columns().saturating_sub(10));
    let line = leave_line(state, room);
    let role = if line.contains("DIES") {
        Role::Cut
    } else {
        Role::Dim
    };
    canvas.put(x + 1, 0, &format!("leave: {line}"), role);
}

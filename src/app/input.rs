//! Handles keys, pasted text and the mouse. A key that has no effect gets a reply with the reason.

pub(super) mod actions;
pub(super) mod command_line;
mod mouse;
pub(super) mod moves;
pub(super) mod open;

use crate::domain::{Chord, Stamp};

use super::{
    Command, Overlay, State, UserInput,
    alerts::WindowFocus,
    call::call_key,
    dialogs::{
        edit::edit_key,
        filter::{apply_filter, filter_key},
        help::help_key,
        menu_keys::menu_key,
        page::page_key,
        palette::palette_key,
        question::question_key,
        save_as::save_key,
        search::search_key,
    },
    key_press::KeyPress,
    keymap::{Action, pretty},
    quit::interrupt,
    requests::check_config,
    seen::mark_seen_rows,
    select,
    status::scope,
};

use actions::perform;
use mouse::on_mouse;

/// Applies an input event.
pub(super) fn apply(state: &mut State, input: UserInput, now: Stamp, effects: &mut Vec<Command>) {
    match input {
        UserInput::Key(chord) => on_key(state, chord.normalized(), now, effects),
        UserInput::Mouse(action, column, row) => {
            let key = on_mouse(state, action, (column, row), now, effects);
            if let Some(chord) = key {
                on_key(state, chord, now, effects);
            }
        }
        UserInput::Paste(pasted) => paste(state, &pasted, now),
        UserInput::Resize(columns, rows) => {
            state.size = (columns, rows);
            select::keep_in_sight(state);
        }
        UserInput::FocusGained => {
            state.window = WindowFocus::Focused;
            check_config(state, false, effects);
        }
        UserInput::FocusLost => state.window = WindowFocus::Lost,
    }
}

fn paste(state: &mut State, pasted: &str, now: Stamp) {
    match state.dialogs.stack.last_mut() {
        Some(Overlay::Palette { field, cursor } | Overlay::Help { field, cursor }) => {
            field.paste(pasted);
            *cursor = 0;
        }
        Some(Overlay::Filter(field)) => {
            field.paste(pasted);
            let typed = field.text().to_owned();
            apply_filter(state, &typed);
        }
        Some(Overlay::Search(field) | Overlay::SaveAs { field, .. }) => field.paste(pasted),
        Some(Overlay::Edit(form)) => {
            let at = form.at;
            if let Some(field) = form.fields.get_mut(at) {
                field.paste(pasted);
            }
        }
        Some(Overlay::Call(form)) => {
            form.clear_errors();
            if let Some(field) = form.text_field() {
                field.paste(pasted);
            }
        }
        Some(Overlay::Question(form)) => {
            let is_read = form.is_read(now);
            match form.text_field().filter(|_| is_read) {
                Some(field) => field.paste(pasted),
                None => state.reply("press Tab to focus a field, then paste"),
            }
        }
        Some(Overlay::Page { .. } | Overlay::Menu { .. }) => {}
        None => {
            let keys = [Action::Filter, Action::NewCall, Action::Palette].map(|it| state.key(it));
            let keys = keys.join(" ");
            state.reply(format!(
                "pasted text isn't read as keys; open a field first ({keys} )"
            ));
        }
    }
}

fn on_key(state: &mut State, chord: Chord, now: Stamp, effects: &mut Vec<Command>) {
    mark_seen_rows(state, now, effects);
    state.last_key = Some(now.mono);
    state.list.cursor_still_since = Some(now.mono);
    state.messages.reply = None;
    let scope = scope(state);
    let action = state.setup.keys.lookup(scope, chord);
    match action {
        Some(Action::Interrupt) => return interrupt(state, now, effects),
        Some(Action::Suspend) => return effects.push(Command::Suspend),
        Some(Action::Redraw) => return effects.push(Command::Redraw),
        _ => {}
    }
    // The top layer handles the key; it is put back unless it closes itself.
    if let Some(overlay) = state.dialogs.stack.pop() {
        let key = KeyPress { chord, action, now };
        if let Some(overlay) = overlay_key(state, overlay, key, effects) {
            state.dialogs.stack.push(overlay);
        }
        return;
    }
    match action {
        Some(action) => perform(state, action, now, effects),
        None => state.reply(format!(
            "{} does nothing here; press {} for the keys",
            pretty(chord),
            state.key(Action::Help)
        )),
    }
}

/// Gives a key to a layer; `None` if that closes it.
fn overlay_key(
    state: &mut State,
    overlay: Overlay,
    key: KeyPress,
    effects: &mut Vec<Command>,
) -> Option<Overlay> {
    match overlay {
        Overlay::Help { field, cursor } => help_key(state, field, cursor, key, effects),
        Overlay::Page {
            title,
            lines,
            scroll,
        } => page_key(state, title, lines, scroll, key),
        Overlay::Menu {
            menu,
            cursor,
            drawn,
        } => menu_key(state, menu, (cursor, drawn), key, effects),
        Overlay::Palette { field, cursor } => palette_key(state, field, cursor, key, effects),
        Overlay::Filter(field) => filter_key(state, field, key),
        Overlay::Search(field) => search_key(state, field, key),
        Overlay::SaveAs { field, tasks, what } => {
            save_key(state, (field, tasks, what), key, effects)
        }
        Overlay::Call(form) => call_key(state, form, key, effects),
        Overlay::Edit(form) => edit_key(state, form, key, effects),
        Overlay::Question(form) => question_key(state, form, key, effects),
    }
}

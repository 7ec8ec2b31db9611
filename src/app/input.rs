//! Handles keys and pasted text. A key that has no effect gets a reply with the reason.

pub(super) mod actions;
pub(super) mod command_line;
pub(super) mod moves;
pub(super) mod open;

use crate::domain::{Chord, text};

use super::{
    Overlay, State, TerminalCommand, UserInput,
    alerts::WindowFocus,
    call::{Stage, call_key},
    dialogs::{
        commands::commands_key,
        edit::edit_key,
        filter::{apply_filter, filter_key},
        menu_keys::menu_key,
        page::page_key,
        question::question_key,
        save_as::save_key,
        search::search_key,
    },
    keymap::{Action, KeyPress, pretty},
    layout::is_large_enough,
    quit::interrupt,
    requests::check_config,
    seen::note_presence,
    select,
    status::scope,
};

use actions::perform;

/// Applies an input event.
pub(super) fn apply(state: &mut State, input: UserInput) {
    let is_drawn = is_large_enough(state.size);
    match input {
        UserInput::Key(chord) => on_key(state, chord.normalized(), is_drawn),
        UserInput::Paste(_) if !is_drawn => {}
        UserInput::Paste(pasted) => paste(state, &pasted),
        UserInput::Resize(columns, rows) => {
            state.size = (columns, rows);
            select::keep_in_sight(state);
        }
        UserInput::FocusGained => {
            state.window = WindowFocus::Focused;
            check_config(state, false);
        }
        UserInput::FocusLost => state.window = WindowFocus::Lost,
    }
}

fn paste(state: &mut State, pasted: &str) {
    let now = state.now();
    let fits = match state.dialogs.stack.last_mut() {
        Some(Overlay::Commands { field, cursor }) => {
            *cursor = 0;
            field.paste(pasted)
        }
        Some(Overlay::Filter(field)) => {
            let fits = field.paste(pasted);
            let typed = field.text().to_owned();
            apply_filter(state, &typed);
            fits
        }
        Some(Overlay::Search(field) | Overlay::SaveAs { field, .. }) => field.paste(pasted),
        Some(Overlay::Edit(form)) => {
            let field = form.fields.get_mut(form.at);
            field.is_none_or(|field| field.paste(pasted))
        }
        Some(Overlay::Call(form)) => {
            form.clear_errors();
            if form.stage == Stage::Form
                && let Some(argument) = form.argument()
            {
                argument.paste(pasted)
            } else {
                form.text_field().is_none_or(|field| field.paste(pasted))
            }
        }
        Some(Overlay::Question(form)) => {
            let is_read = form.is_read(now);
            match form.field().filter(|_| is_read) {
                Some(field) => field.paste(pasted),
                None => return state.reply("press Tab to focus a field, then paste"),
            }
        }
        Some(Overlay::Page { .. } | Overlay::Menu { .. }) => true,
        None => {
            let keys = [Action::Filter, Action::NewCall, Action::Palette].map(|it| state.key(it));
            let keys = keys.join(" ");
            return state.reply(format!(
                "pasted text isn't read as keys; first open a field with {keys}"
            ));
        }
    };
    if !fits {
        let size = text::bytes(u64::try_from(pasted.len()).unwrap_or(u64::MAX));
        state.reply(format!("not pasted: {size} is too long for this field"));
    }
}

fn on_key(state: &mut State, chord: Chord, is_drawn: bool) {
    note_presence(state);
    let scope = scope(state);
    let action = state.setup.settings.keys.lookup(scope, chord);
    match action {
        Some(Action::Interrupt) => return interrupt(state),
        Some(Action::Suspend) => return state.command(TerminalCommand::Suspend),
        Some(Action::Redraw) => return state.command(TerminalCommand::Redraw),
        // On a screen that is too small, nobody sees what another key does.
        _ if !is_drawn => return,
        _ => {}
    }
    // The top layer handles the key; it is put back, below what the key opened, unless it closes itself.
    if let Some(mut overlay) = state.dialogs.stack.pop() {
        let depth = state.dialogs.stack.len();
        if overlay_key(state, &mut overlay, KeyPress { chord, action }) {
            state.dialogs.stack.insert(depth, overlay);
        }
        return;
    }
    match action {
        Some(action) => perform(state, action),
        None => state.reply(format!(
            "{} does nothing here; press {} for the keys",
            pretty(chord),
            state.key(Action::Help)
        )),
    }
}

/// Gives a key to a layer; returns `false` to close it.
fn overlay_key(state: &mut State, overlay: &mut Overlay, key: KeyPress) -> bool {
    match overlay {
        Overlay::Page { lines, scroll, .. } => page_key(state, lines, scroll, key),
        Overlay::Menu {
            menu,
            selected,
            drawn,
        } => menu_key(state, menu, selected, *drawn, key),
        Overlay::Commands { field, cursor } => commands_key(state, field, cursor, key),
        Overlay::Filter(field) => filter_key(state, field, key),
        Overlay::Search(field) => search_key(state, field, key),
        Overlay::SaveAs { field, task, part } => save_key(state, field, (task, *part), key),
        Overlay::Call(form) => call_key(state, form, key),
        Overlay::Edit(form) => edit_key(state, form, key),
        Overlay::Question(form) => question_key(state, form, key),
    }
}

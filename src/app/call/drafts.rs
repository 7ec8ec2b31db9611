//! Forms that were filled in but not sent.

use crate::{
    app::{CallForm, State},
    domain::text,
};

/// Saves the form as a draft until it is sent; closing an unchanged draft discards it.
pub(super) fn keep_draft(state: &mut State, form: &CallForm) {
    if form.sent.is_some() {
        return;
    }
    let key = form.draft_key();
    if let Some(draft) = state.dialogs.drafts.remove(&key)
        && draft.has_same_input(form)
    {
        return state.reply("draft discarded");
    }
    if form.has_input() {
        let tool = text::clean_line(&form.tool_name).into_owned();
        state.dialogs.drafts.insert(key, form.clone());
        state.reply(format!("draft of {tool} kept until you send it"));
    }
}

/// Takes over the draft of this call, if there is one.
pub(in crate::app) fn restore_draft(state: &mut State, form: &mut CallForm) {
    let draft = state.dialogs.drafts.get(&form.draft_key());
    // If the tool has changed since, the draft does not apply.
    let Some(draft) = draft.filter(|it| form.tool.is_none() || it.tool == form.tool) else {
        return;
    };
    form.clone_from(draft);
    form.at = 0;
    form.clear_errors();
    state.reply("draft restored; Esc discards it");
}

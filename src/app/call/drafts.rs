//! Forms that were filled in but not sent.

use crate::{
    app::{CallForm, State},
    domain::text,
};

/// Saves the form as a draft until it is sent; closing an unchanged draft discards it.
pub(super) fn keep_draft(state: &mut State, form: &CallForm) {
    let key = form.draft_key();
    if form.sent.is_some() {
        // Needed only if the call can't be saved.
        state.dialogs.drafts.insert(key, form.clone());
        return;
    }
    let draft = state.dialogs.drafts.get(&key);
    if draft.is_some_and(|draft| draft.has_same_input(form)) {
        state.dialogs.drafts.remove(&key);
        return state.reply("draft discarded");
    }
    if form.has_input() {
        let tool = text::clean_line(&form.tool_name).into_owned();
        state.dialogs.drafts.insert(key, form.clone());
        state.reply(format!("draft of {tool} kept until you send it or quit"));
    }
}

/// Takes over the draft of this call, if there is one.
pub(in crate::app) fn restore_draft(state: &mut State, form: &mut CallForm) {
    let Some(draft) = state.dialogs.drafts.get(&form.draft_key()) else {
        return;
    };
    let tool = std::mem::replace(form, draft.clone()).tool;
    if let Some(tool) = tool.filter(|tool| form.tool.as_ref() != Some(tool)) {
        form.change_tool(tool);
    }
    (form.at, form.sent) = (0, None);
    form.clear_errors();
    state.reply("draft restored; Esc discards it");
}

//! The keys in the footer: those that work here, now.

use crate::domain::{ServerView, Status};

use super::{
    Document, Overlay, State, Tab, TaskRow,
    availability::{is_read_only, why_not},
    keymap::{Action, Action as Do, Binding, Scope},
    status::scope,
    tab_document,
};

/// The keys for the footer, as key and label. The keys of all commands come last.
pub fn footer_keys(state: &State) -> Vec<(String, String)> {
    let scope = scope(state);
    let is_of_task = matches!(scope, Scope::List | Scope::Detail);
    // A server can only pause what keeps a checkpoint.
    let task = state.selected().map(|task_row| &task_row.view.task);
    let can_pause =
        !state.list.marks.is_empty() || task.is_some_and(|task| task.resumability.checkpoint);
    let can = |action: &Action| match action {
        Do::Pause if !can_pause => false,
        _ if is_of_task || *action == Do::Import => why_not(state, *action).is_none(),
        _ => !is_read_only(state, *action),
    };
    let wanted = wanted(state, scope).into_iter().filter(can);
    let bound = wanted.filter_map(|action| state.setup.settings.keys.key_of(scope, action));
    let mut keys: Vec<(String, String)> = bound
        .map(|(binding, key)| (key, label(state, scope, binding).to_owned()))
        .collect();
    if scope == Scope::List && state.tasks.is_empty() {
        for (action, label) in [(Do::Import, "import"), (Do::MarkAll, "add a server")] {
            if can(&action) {
                keys.insert(0, (state.key(action), label.to_owned()));
            }
        }
    }
    for action in [Do::Palette, Do::Help] {
        if let Some((binding, key)) = state.setup.settings.keys.key_of(scope, action) {
            keys.push((key, binding.label.to_owned()));
        }
    }
    keys
}

/// The actions to show, most important first.
fn wanted(state: &State, scope: Scope) -> Vec<Action> {
    match scope {
        Scope::List => on_list(state),
        Scope::Detail => on_detail(state),
        Scope::Tools if state.setup.readonly => vec![Do::FindTool, Do::Back],
        Scope::Tools => vec![Do::Open, Do::FindTool, Do::AddServer, Do::Back],
        Scope::Servers => on_servers(state),
        Scope::Timeline => vec![Do::Open, Do::ZoomIn, Do::ZoomOut, Do::Back],
        Scope::Messages => vec![Do::Down, Do::Up, Do::Back],
        Scope::Menu => vec![Do::Accept, Do::Back, Do::Down, Do::Up],
        Scope::Form => match state.dialogs.stack.last() {
            Some(Overlay::Call(_)) => vec![Do::NextField, Do::Send, Do::Raw, Do::Back],
            Some(Overlay::Question(form)) if form.at.is_none() => vec![Do::NextField, Do::Back],
            _ => vec![Do::NextField, Do::Send, Do::Back],
        },
        Scope::Page => {
            let mut keys = vec![Do::NextField, Do::OpenPage, Do::CopyPage, Do::Back];
            if matches!(state.dialogs.stack.last(), Some(Overlay::Question(form)) if form.at.is_some())
            {
                keys.insert(0, Do::Accept);
            }
            keys
        }
        Scope::Text => vec![Do::Accept, Do::Back],
    }
}

/// The status of the task under the cursor.
fn selected_status(state: &State) -> Option<&Status> {
    state.selected().map(|task_row| &task_row.view.task.status)
}

fn on_list(state: &State) -> Vec<Action> {
    let mut keys = Vec::new();
    match selected_status(state) {
        None => keys.extend([Do::NewCall]),
        Some(Status::Running) => {
            keys.extend([Do::Open, Do::Pause]);
            if !state.selected().is_some_and(TaskRow::runs_undisturbed) {
                keys.push(Do::Resume);
            }
            keys.extend([Do::Cancel, Do::RunAgain, Do::NewCall]);
        }
        Some(Status::Paused) => {
            keys.extend([Do::Open, Do::Resume, Do::Cancel, Do::RunAgain, Do::NewCall]);
        }
        Some(Status::InputRequired) => {
            keys.extend([Do::Open, Do::Cancel, Do::RunAgain, Do::NewCall]);
        }
        Some(_) => keys.extend([Do::Open, Do::RunAgain, Do::NewCall, Do::Forget]),
    }
    if state.setup.is_demo {
        keys.push(Do::InjectFault);
    }
    keys.extend([Do::Filter, Do::NeedsOnly, Do::CopyMenu]);
    keys
}

fn on_detail(state: &State) -> Vec<Action> {
    let mut keys = vec![Do::Back, Do::NextTab];
    if selected_status(state) == Some(&Status::InputRequired) {
        keys.insert(0, Do::Answer);
    }
    if state.detail.tab != Tab::Now {
        keys.push(Do::Search);
    }
    let document = state
        .selected()
        .and_then(|task_row| tab_document(state, task_row));
    if document.is_some_and(Document::has_folds) {
        keys.push(Do::FoldHere);
    }
    if document.is_some_and(|it| it.has_non_text) {
        keys.push(Do::SaveOrOpenPart);
    }
    if state.detail.search.is_some() {
        keys.extend([Do::FindNext, Do::FindPrevious]);
    }
    if state.detail.tab == Tab::Log {
        keys.push(Do::Follow);
    }
    keys.extend([Do::Wrap, Do::CopyMenu, Do::Print]);
    keys
}

fn on_servers(state: &State) -> Vec<Action> {
    let mut keys = vec![
        Do::Open,
        Do::Back,
        Do::Resume,
        Do::AddServer,
        Do::Import,
        Do::Adopt,
    ];
    let server = state.servers.get(state.cursors[1]);
    if server.is_some_and(ServerView::waits_for_user) {
        keys.insert(0, Do::SignIn);
    }
    keys
}

/// What a key does here, in a word or two.
fn label(state: &State, scope: Scope, binding: &Binding) -> &'static str {
    match (
        binding.action,
        state.dialogs.stack.last(),
        selected_status(state),
    ) {
        (Do::Back, Some(Overlay::Question(_)), _) => "later",
        (Do::Send, Some(Overlay::Edit(_)), _) => "save",
        (Do::Resume, None, _) if scope == Scope::Servers => "retry now",
        (Do::Resume, None, Some(Status::Running)) => "retry now",
        (Do::Open, None, Some(Status::InputRequired))
            if scope == Scope::List && !state.setup.readonly =>
        {
            "answer"
        }
        _ => binding.label,
    }
}

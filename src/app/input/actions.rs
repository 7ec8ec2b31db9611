//! The actions of the panes, and why an action is not available.

use core::time::Duration;

use crate::domain::{
    ActionRefusal, ControlKind, LinkState, NoticeLevel, ServerName, ServerView, SessionRequest,
    Stamp, Status, TaskId, text,
};

use super::{
    super::{
        CallForm, Command, Document, EditForm, Field, Filter, Focus, Frozen, Group, LeaveImpacts,
        Leaving, ListRow, Menu, Overlay, Pane, ResultPart, Stage, State, Tab, TypedArgument,
        detail::{print_text, tab_document},
        keymap::Action,
        leave::is_viewer,
        select::{self, chosen, hidden_among_marked},
        session::RequestPurpose,
        update::{apply_task, quit},
    },
    check_config,
    forms::with_draft,
    mark_seen,
    moves::{
        find, fold_all, fold_here, next_pane, page, show, show_tab, show_tools, step, to_tasks,
        turn_tab,
    },
    open_menu,
    questions::open_question,
    request, request_tools,
};

/// A second Ctrl-C within this time quits at once.
const TWICE: Duration = Duration::from_secs(2);

pub(super) fn interrupt(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
    let is_second = match state.leave.when {
        Leaving::Asked(at) => {
            now.mono.since(at) <= TWICE
                || state.dialogs.stack.iter().any(|overlay| {
                    matches!(
                        overlay,
                        Overlay::Menu {
                            menu: Menu::Leave,
                            ..
                        }
                    )
                })
        }
        Leaving::OnceSafe | Leaving::OnceCancelled(_) => true,
        Leaving::No => false,
    };
    if is_second {
        return quit(state, effects);
    }
    leave(state, now, effects);
}

/// Quits if every call survives that, else opens the dialog that shows the impact.
pub(super) fn leave(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
    // The dialog must show the current impact, not the frozen one.
    if state.frozen.is_some() {
        freeze(state, now);
    }
    if is_viewer(state) || LeaveImpacts::of(state).is_all_safe() {
        return quit(state, effects);
    }
    state.leave.when = Leaving::Asked(now.mono);
    state.dialogs.stack.retain(|overlay| {
        !matches!(
            overlay,
            Overlay::Menu {
                menu: Menu::Leave,
                ..
            }
        )
    });
    open_menu(state, Menu::Leave);
}

/// The reply to actions in a read-only window.
pub(super) const READ_ONLY: &str = "read only: tasks can't be started, changed or stopped";

/// Why an action is not available right now; `None` if it is.
pub fn why_not(state: &State, action: Action) -> Option<String> {
    let acts = matches!(
        action,
        Action::NewCall
            | Action::RunAgain
            | Action::Pause
            | Action::Resume
            | Action::Cancel
            | Action::Edit
            | Action::Answer
            | Action::Adopt
            | Action::Forget
            | Action::Undo
            | Action::InjectFault
            | Action::AddServer
            | Action::Import
            | Action::Reload
            | Action::Drive
            | Action::SignIn
            | Action::Trace
    );
    if acts && state.setup.readonly {
        return Some(READ_ONLY.to_owned());
    }
    let needs_task = matches!(
        action,
        Action::RunAgain
            | Action::Pause
            | Action::Cancel
            | Action::Edit
            | Action::Answer
            | Action::Forget
            | Action::CopyMenu
            | Action::Export
            | Action::Print
            | Action::Zoom
            | Action::PreviousTab
            | Action::NextTab
            | Action::Mark
            | Action::Follow
            | Action::Search
            | Action::FoldHere
            | Action::FoldAll
            | Action::Markdown
            | Action::SaveOrOpenPart
            | Action::Trace
    );
    let key = |action| state.key(action);
    let Some(task_row) = state.selected() else {
        if needs_task {
            return Some(if state.tasks.is_empty() {
                format!("no tasks yet; press {} to start one", key(Action::NewCall))
            } else {
                "no matching tasks; Esc clears the filter".to_owned()
            });
        }
        return why_not_anywhere(state, action);
    };
    let task = &task_row.view.task;
    let (id, word) = (&task.id, task.status.label());
    let is_alone = state.list.marks.is_empty();
    match action {
        Action::Pause if is_alone => {
            task.refusal(ControlKind::Pausing)
                .map(|refusal| match refusal {
                    ActionRefusal::AlreadyPaused => format!(
                        "{id} is already paused; press {} to resume it",
                        key(Action::Resume)
                    ),
                    ActionRefusal::Unknown => format!(
                        "{id} is unknown; press {} for recovery options",
                        key(Action::Open)
                    ),
                    ActionRefusal::NotStarted => format!(
                        "{id} has not started yet; press {} to cancel it",
                        key(Action::Cancel)
                    ),
                    _ => format!("{id} is {word}; nothing to pause"),
                })
        }
        Action::Resume if is_alone && state.pane == Pane::Tasks => task
            .refusal(ControlKind::Resuming)
            .map(|refusal| match refusal {
                ActionRefusal::WaitsForAnswer => format!(
                    "{id} is waiting for an answer, not for {}",
                    key(Action::Resume)
                ),
                _ => format!(
                    "{id} is {word}; press {} to run it again",
                    key(Action::RunAgain)
                ),
            }),
        Action::Answer => match super::super::question::next(task_row, None) {
            Some(_) if !task_row.view.task.status.is_settled() => None,
            _ if task_row.view.task.status == Status::InputRequired => {
                Some(format!("{id}: the server has not sent its question yet"))
            }
            _ => Some(format!("{id} has no question; it is {word}")),
        },
        Action::Cancel if is_alone && task.refusal(ControlKind::Cancelling).is_some() => {
            Some(format!("{id} is {word}; nothing to cancel"))
        }
        _ => why_not_anywhere(state, action),
    }
}

pub(super) fn why_not_anywhere(state: &State, action: Action) -> Option<String> {
    match action {
        Action::Import if state.setup.is_demo => {
            Some("not available in the demo; use `longhaul servers import`".to_owned())
        }
        Action::Drive
            if matches!(state.session.driver, Some((_, true))) && !state.session.is_driverless =>
        {
            Some("this window is already the driver".to_owned())
        }
        Action::Reload if state.setup.is_demo => {
            Some("not available in the demo, which ignores your configuration".to_owned())
        }
        Action::InjectFault if !state.setup.is_demo => {
            Some("only available in longhaul demo".to_owned())
        }
        Action::SignIn => to_sign_in(state).err(),
        Action::Undo if state.list.undo.is_empty() => Some("nothing to restore".to_owned()),
        Action::FindNext | Action::FindPrevious if state.detail.search.is_none() => {
            let key = state.key(Action::Search);
            Some(format!("no search yet; press {key} to search"))
        }
        Action::Search if state.detail.tab == Tab::Now => {
            let key = state.key(Action::NextTab);
            Some(format!(
                "the Now tab can't be searched; press {key} for the log"
            ))
        }
        Action::SaveOrOpenPart if part_here(state).is_none() => Some(
            match state.detail.tab {
                Tab::Result => "the cursor is not on a part of the content",
                _ => "only parts of a result can be saved or opened",
            }
            .to_owned(),
        ),
        Action::Markdown if !shown_document(state).is_some_and(Document::has_markdown) => {
            Some("no Markdown here".to_owned())
        }
        Action::FoldHere | Action::FoldAll if !has_folds(state) => Some(
            match state.detail.tab {
                Tab::Result => "nothing to fold here; only JSON objects and arrays fold",
                _ => "only JSON results can be folded",
            }
            .to_owned(),
        ),
        Action::MarkAll if state.list.rows.is_empty() && !state.tasks.is_empty() => {
            Some("no matching tasks; Esc clears the filter".to_owned())
        }
        _ => None,
    }
}

/// Whether the current tab shows something that can be folded.
fn has_folds(state: &State) -> bool {
    shown_document(state).is_some_and(Document::has_folds)
}

/// The part of the result under the cursor.
fn part_here(state: &State) -> Option<&ResultPart> {
    let number = shown_document(state)?.part_here()?;
    let result = state.detail.results.get(state.list.cursor.as_ref()?)?;
    result.parts.get(number)
}

/// The document in the current tab, if it shows a result.
fn shown_document(state: &State) -> Option<&Document> {
    tab_document(state, state.selected()?)
}

/// Performs an action, or replies why it is not available.
pub(super) fn perform(state: &mut State, action: Action, now: Stamp, effects: &mut Vec<Command>) {
    if let Some(reason) = why_not(state, action) {
        return state.reply(reason);
    }
    let is_of_one = matches!(
        action,
        Action::RunAgain | Action::CopyMenu | Action::Edit | Action::Print
    );
    if is_of_one
        && let Some(id) = &state.list.cursor
        && !state.list.marks.is_empty()
    {
        let count = u64::try_from(state.list.marks.len()).unwrap_or(u64::MAX);
        let marked = text::plural(count, "marked task");
        state.reply(format!(
            "applies to {id} under the cursor only, not to {marked}"
        ));
    }
    match action {
        Action::Down => step(state, 1),
        Action::Up => step(state, -1),
        Action::PageDown => step(state, page(state)),
        Action::PageUp => step(state, -page(state)),
        Action::First => {
            // The user wants the real top of the list, so rows move to their groups first.
            if (state.pane, state.detail.focus) == (Pane::Tasks, Focus::List) {
                select::arrange(state);
            }
            step(state, isize::MIN / 2);
        }
        Action::Last => step(state, isize::MAX / 2),
        Action::Open => open(state, effects),
        Action::Back => back(state, now),
        Action::NextPane => next_pane(state),
        Action::PreviousTab => turn_tab(state, -1),
        Action::NextTab => turn_tab(state, 1),
        Action::Zoom => {
            state.detail.is_zoomed = !state.detail.is_zoomed;
            state.detail.focus = if state.detail.is_zoomed {
                Focus::Detail
            } else {
                Focus::List
            };
            select::keep_in_sight(state);
        }
        Action::Filter => {
            let typed = Field::new(state.list.filter.text());
            state.dialogs.stack.push(Overlay::Filter(typed));
        }
        Action::FindTool => find_tool(state, effects),
        Action::Search => {
            let typed = Field::new(state.detail.search.clone().unwrap_or_default());
            state.dialogs.stack.push(Overlay::Search(typed));
        }
        Action::FindNext => find(state, true),
        Action::FindPrevious => find(state, false),
        Action::NeedsOnly => {
            state.list.needs_only = !state.list.needs_only;
            select::arrange(state);
            if state.list.rows.is_empty() && state.list.needs_only {
                let key = state.key(Action::NeedsOnly);
                state
                    .reply_until_rows(&format!("nothing needs you; press {key} to show all tasks"));
            }
        }
        Action::Fold => {
            state.list.is_folded = !state.list.is_folded;
            select::arrange(state);
        }
        Action::Views => open_menu(state, Menu::Views),
        Action::Group => {
            state.list.grouping = state.list.grouping.next();
            select::arrange(state);
            state.reply(format!("grouped by {}", state.list.grouping.label()));
        }
        Action::FoldHere => fold_here(state),
        Action::FoldAll => fold_all(state),
        Action::Sort => {
            state.list.sort = state.list.sort.next();
            select::arrange(state);
            state.reply(format!("sorted by {}", state.list.sort.label()));
        }
        Action::Reverse => {
            state.list.is_reversed = !state.list.is_reversed;
            select::arrange(state);
            let order = if state.list.is_reversed {
                "reversed"
            } else {
                "not reversed"
            };
            state.reply(format!("sorted by {}, {order}", state.list.sort.label()));
        }
        Action::Mark => {
            if let Some(id) = state.list.cursor.clone() {
                if !state.list.marks.remove(&id) {
                    state.list.marks.insert(id);
                }
                select::move_by(state, 1);
            }
        }
        Action::MarkAll => mark_all(state),
        Action::ShowTasks => show(state, Pane::Tasks, effects),
        Action::ShowTools => show(state, Pane::Tools, effects),
        Action::ShowServers => show(state, Pane::Servers, effects),
        Action::ShowMessages => show(state, Pane::Messages, effects),
        Action::NewCall => new_call(state, effects),
        Action::RunAgain => {
            if let Some(id) = state.list.cursor.clone() {
                run_again(state, &id, Vec::new(), effects);
            }
        }
        Action::Pause => pause(state, now, effects),
        Action::Resume => resume(state, effects),
        Action::Cancel => cancel(state),
        Action::Edit => edit(state),
        Action::Answer => open_question(state),
        Action::Adopt => adopt(state, effects),
        Action::CopyMenu => {
            if let Some(id) = state.list.cursor.clone() {
                open_menu(state, Menu::Copy(id));
            }
        }
        Action::Export => open_menu(state, Menu::Export(chosen(state))),
        Action::Print => {
            if let Some(task_row) = state.selected() {
                effects.push(Command::Print(print_text(state, task_row)));
            }
        }
        Action::Forget => {
            let tasks = chosen(state);
            forget(state, tasks, now, effects);
        }
        Action::Undo => undo(state, now, effects),
        Action::Follow => {
            state.detail.is_following = !state.detail.is_following;
            if state.detail.is_following {
                state.detail.scroll = 0;
            }
            let word = if state.detail.is_following {
                "following"
            } else {
                "not following"
            };
            state.reply(format!("the log is {word}"));
        }
        Action::Wrap => {
            state.detail.text.is_wrapping = !state.detail.text.is_wrapping;
            let word = if state.detail.text.is_wrapping {
                "wrapped"
            } else {
                "cut off"
            };
            state.reply(format!("long lines are {word}"));
        }
        Action::Markdown => {
            state.detail.text.is_raw = !state.detail.text.is_raw;
            let word = if state.detail.text.is_raw {
                "as raw text"
            } else {
                "rendered"
            };
            state.reply(format!("Markdown is shown {word}"));
        }
        Action::SaveOrOpenPart => {
            if let (Some(task), Some(part)) = (state.list.cursor.clone(), part_here(state).cloned())
            {
                let part = Box::new(part);
                open_menu(state, Menu::Part { task, part });
            }
        }
        Action::Times => state.detail.text.has_times = !state.detail.text.has_times,
        Action::Freeze => freeze(state, now),
        Action::AddServer => add_server(state),
        Action::SignIn => sign_in(state, effects),
        Action::Trace => trace(state, effects),
        Action::Import => {
            effects.push(Command::FindServers);
            state.reply("looking for servers in other MCP clients");
        }
        Action::Reload => {
            state.reply("reloading the configuration");
            check_config(state, true, effects);
        }
        Action::Drive => drive(state, effects),
        Action::Palette => state.dialogs.stack.push(Overlay::Palette {
            field: Field::default(),
            cursor: 0,
        }),
        Action::Help => state.dialogs.stack.push(Overlay::Help {
            field: Field::default(),
            cursor: 0,
        }),
        Action::InjectFault => open_menu(state, Menu::InjectFault),
        Action::Leave => close_or_quit(state, now, effects),
        Action::Interrupt => interrupt(state, now, effects),
        Action::Suspend => effects.push(Command::Suspend),
        Action::Redraw => effects.push(Command::Redraw),
        // Only layers handle these.
        Action::Accept
        | Action::NextField
        | Action::PreviousField
        | Action::Send
        | Action::Raw
        | Action::Earlier
        | Action::CopyCommand
        | Action::OpenPage
        | Action::CopyPage
        | Action::PreviousChoice
        | Action::NextChoice => {}
    }
}

/// Asks the driver to hand the session over to this window.
pub(in crate::app) fn drive(state: &mut State, effects: &mut Vec<Command>) {
    let hand_over = SessionRequest::HandOver { is_forced: false };
    request(state, hand_over, RequestPurpose::Drive, effects);
    if let Some((pid, false)) = state.session.driver {
        state.reply(format!("asked process {pid} to hand over to this window"));
    }
}

/// `q`: goes back one step, and quits from the list.
pub(super) fn close_or_quit(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
    if state.pane != Pane::Tasks {
        to_tasks(state);
    } else if state.detail.is_zoomed || state.detail.focus == Focus::Detail {
        state.detail.is_zoomed = false;
        state.detail.focus = Focus::List;
        select::keep_in_sight(state);
    } else {
        leave(state, now, effects);
    }
}

pub(super) fn open(state: &mut State, effects: &mut Vec<Command>) {
    match state.pane {
        Pane::Tasks => {
            let Some(task_row) = state.selected() else {
                let key = state.key(Action::NewCall);
                return state.reply(format!("nothing to open; press {key} to start a call"));
            };
            let id = task_row.view.task.id.clone();
            let status = task_row.view.task.status.clone();
            let is_pressing = task_row.group() == Group::NeedsYou;
            if !is_pressing {
                mark_seen(state, &id, effects);
            }
            match status {
                Status::Unknown(_) | Status::Lost(_) => open_menu(state, Menu::WhatNow(id)),
                Status::InputRequired if why_not(state, Action::Answer).is_none() => {
                    open_question(state);
                }
                // The user has read its error by now.
                Status::Failed
                    if is_pressing
                        && state.detail.focus == Focus::Detail
                        && state.detail.is_zoomed =>
                {
                    open_menu(state, Menu::WhatNow(id));
                }
                _ if state.detail.focus == Focus::Detail
                    && state.detail.is_zoomed
                    && has_folds(state) =>
                {
                    fold_here(state);
                }
                _ if state.detail.focus == Focus::Detail && state.detail.is_zoomed => {
                    state.reply("nothing more to open; Esc goes back");
                }
                status => {
                    if matches!(status, Status::Completed | Status::Failed) {
                        show_tab(state, Tab::Result);
                    }
                    if status == Status::Failed && is_pressing {
                        let key = state.key(Action::Open);
                        state.reply(format!(
                            "press {key} for recovery options; it needs you until you choose one"
                        ));
                    }
                    if status == Status::InputRequired
                        && let Some(reason) = why_not(state, Action::Answer)
                    {
                        state.reply(reason);
                    }
                    state.detail.focus = Focus::Detail;
                    state.detail.is_zoomed = true;
                }
            }
        }
        Pane::Tools => {
            let chosen = state.tools_of.clone().and_then(|server| {
                let tools = state.tools.get(&server)?;
                Some((server, tools.list.get(state.cursors[0])?.clone()))
            });
            let Some((server, tool)) = chosen else {
                let key = state.key(Action::ShowServers);
                return state.reply(format!("no tool to call; press {key} for the servers"));
            };
            if let Some(reason) = why_not(state, Action::NewCall) {
                return state.reply(reason);
            }
            let mut form = CallForm::new(state);
            form.server = Some(server);
            form.set_tool(tool, None);
            let form = with_draft(state, form);
            state.dialogs.stack.push(Overlay::Call(Box::new(form)));
        }
        Pane::Servers => match state.servers.get(state.cursors[1]) {
            Some(server) => {
                let name = server.name.clone();
                show_tools(state, name, effects);
            }
            None => no_server(state),
        },
        Pane::Messages => {
            let key = state.key(Action::Print);
            state.reply(format!(
                "messages can't be opened; press {key} on a task to print it"
            ));
        }
    }
}

/// Opens the tool search over all servers. Requests the tools of connected servers only; opens no connection.
fn find_tool(state: &mut State, effects: &mut Vec<Command>) {
    let is_unasked = |server: &&ServerView| {
        let is_known = state.tools.get(&server.name).is_some_and(|it| it.is_known);
        !is_known && matches!(server.state, LinkState::Live)
    };
    let servers = state.servers.iter().filter(is_unasked);
    let names: Vec<ServerName> = servers.map(|server| server.name.clone()).collect();
    for name in &names {
        request_tools(state, name, effects);
    }
    let mut form = CallForm::new(state);
    (form.server, form.stage, form.is_any_server) = (None, Stage::Tool, true);
    state.dialogs.stack.push(Overlay::Call(Box::new(form)));
}

/// Esc: goes back one step, but never quits.
pub(super) fn back(state: &mut State, now: Stamp) {
    if state.pane != Pane::Tasks {
        to_tasks(state);
    } else if state.detail.focus == Focus::Detail || state.detail.is_zoomed {
        // The search ends when its pane closes.
        state.detail.search = None;
        state.detail.focus = Focus::List;
        state.detail.is_zoomed = false;
    } else if matches!(
        state.leave.when,
        Leaving::OnceSafe | Leaving::OnceCancelled(_)
    ) {
        state.leave.when = Leaving::No;
        state.reply("staying");
    } else if state.away.take().is_some() {
        // The banner is closed.
    } else if !state.list.marks.is_empty() {
        state.list.marks.clear();
    } else if !state.list.filter.is_empty() {
        apply_filter(state, "");
    } else if state.list.needs_only {
        state.list.needs_only = false;
        select::arrange(state);
    } else if state.frozen.is_some() {
        freeze(state, now);
    } else if !state.messages.toasts.is_empty() {
        state.messages.toasts.clear();
    } else {
        let key = state.key(Action::Leave);
        state.reply(format!("nothing to close; press {key} to quit"));
    }
    select::keep_in_sight(state);
}

pub(super) fn mark_all(state: &mut State) {
    if state.tasks.is_empty() {
        return add_server(state);
    }
    let shown: Vec<TaskId> = state
        .list
        .rows
        .iter()
        .filter_map(|line| match line {
            ListRow::Task(id) => Some(id.clone()),
            ListRow::Heading(..) => None,
        })
        .collect();
    if shown.iter().all(|id| state.list.marks.contains(id)) {
        state.list.marks.clear();
    } else {
        state.list.marks.extend(shown);
    }
}

pub(super) fn freeze(state: &mut State, now: Stamp) {
    match state.frozen.take() {
        Some(frozen) => {
            for view in frozen.held.into_values() {
                apply_task(state, view, now);
            }
        }
        None => {
            state.frozen = Some(Frozen {
                at: now,
                held: std::collections::BTreeMap::new(),
            });
        }
    }
}

pub(super) fn pause(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
    let tasks = chosen(state);
    // A second pause while the task is still running: offer to stop it now.
    if let [id] = tasks.as_slice()
        && let Some(task_row) = state.task(id)
        && let Some(asked) = task_row.view.task.control
        && asked.what == ControlKind::Pausing
    {
        let age = text::span(now.wall.since(asked.at));
        if task_row.view.task.resumability.checkpoint {
            let id = id.clone();
            return open_menu(state, Menu::StopNow(id));
        }
        return state.reply(format!(
            "pause requested {age} ago; press {} to cancel the call",
            state.key(Action::Cancel)
        ));
    }
    act_on(
        state,
        tasks,
        ControlKind::Pausing,
        SessionRequest::Pause,
        effects,
    );
}

pub(super) fn resume(state: &mut State, effects: &mut Vec<Command>) {
    if state.pane == Pane::Servers || state.list.cursor.is_none() {
        request(
            state,
            SessionRequest::RetryNow,
            RequestPurpose::Other,
            effects,
        );
        return state.reply("retrying every server that is down");
    }
    let tasks = chosen(state);
    act_on(
        state,
        tasks,
        ControlKind::Resuming,
        SessionRequest::Resume,
        effects,
    );
}

/// Sends the same request for each task that it applies to.
pub(super) fn act_on(
    state: &mut State,
    tasks: Vec<TaskId>,
    what: ControlKind,
    make: impl Fn(TaskId) -> SessionRequest,
    effects: &mut Vec<Command>,
) {
    let word = match what {
        ControlKind::Pausing => "pause",
        ControlKind::Resuming => "resume",
        ControlKind::Cancelling => "cancel",
    };
    let fitting: Vec<TaskId> = tasks
        .into_iter()
        .filter(|id| {
            state
                .task(id)
                .is_some_and(|task_row| task_row.view.task.refusal(what).is_none())
        })
        .collect();
    for id in &fitting {
        request(state, make(id.clone()), RequestPurpose::Other, effects);
    }
    if fitting.is_empty() && state.list.marks.is_empty() {
        return state.reply(format!("nothing to {word}"));
    }
    report_requested(state, &fitting, word);
}

/// Unmarks the tasks that got a request and replies with their number, how many are hidden, and which marked tasks were
/// skipped; those stay marked.
pub(super) fn report_requested(state: &mut State, asked: &[TaskId], word: &str) {
    let what = match asked {
        [] => format!("nothing to {word}"),
        [one] => format!("requested: {word} {one}"),
        many => {
            let count = u64::try_from(many.len()).unwrap_or(u64::MAX);
            format!("requested: {word} {}", text::plural(count, "task"))
        }
    };
    let hidden = match hidden_among_marked(state, asked) {
        0 => String::new(),
        count => format!(", {count} of them hidden"),
    };
    for id in asked {
        state.list.marks.remove(id);
    }
    let passed = skipped_marks(state);
    state.reply_until_changed(format!("{what}{hidden}{passed}"), asked);
}

/// The rest of a reply: how many marked tasks were skipped, and their statuses.
fn skipped_marks(state: &State) -> String {
    let left = state.list.marks.iter().filter_map(|id| state.task(id));
    let statuses: Vec<&Status> = left.map(|task_row| &task_row.view.task.status).collect();
    let have = match statuses.len() {
        0 => return String::new(),
        1 => "it has",
        _ => "they have",
    };
    let why = if statuses.iter().all(|status| status.is_settled()) {
        format!("{have} ended")
    } else {
        let mut message: Vec<&str> = statuses.iter().map(|status| status.row_label()).collect();
        message.sort_unstable();
        message.dedup();
        message.join(", ")
    };
    format!("; {} skipped, still marked: {why}", statuses.len())
}

pub(super) fn cancel(state: &mut State) {
    let tasks: Vec<TaskId> = chosen(state)
        .into_iter()
        .filter(|id| {
            state.task(id).is_some_and(|task_row| {
                task_row
                    .view
                    .task
                    .refusal(ControlKind::Cancelling)
                    .is_none()
            })
        })
        .collect();
    if tasks.is_empty() {
        return state.reply("all of these have ended; nothing to cancel");
    }
    open_menu(state, Menu::Cancel(tasks));
}

pub(super) fn forget(
    state: &mut State,
    tasks: Vec<TaskId>,
    now: Stamp,
    effects: &mut Vec<Command>,
) {
    let (ended, going): (Vec<TaskId>, Vec<TaskId>) = tasks.into_iter().partition(|id| {
        state.task(id).is_some_and(|task_row| {
            let status = &task_row.view.task.status;
            status.is_settled() || matches!(status, Status::Unknown(_))
        })
    });
    if ended.is_empty() {
        return if let [one] = going.as_slice() {
            // The driver only stops following it if a cancel was requested and ignored; it replies if not.
            request(
                state,
                SessionRequest::GiveUp(one.clone()),
                RequestPurpose::Other,
                effects,
            );
            let message = format!("asked to stop following {one}");
            state.reply_until_changed(message, std::slice::from_ref(one));
        } else {
            let key = state.key(Action::Cancel);
            state.reply(format!(
                "these are still running; press {key} to cancel them first"
            ));
        };
    }
    let hidden = hidden_among_marked(state, &ended);
    for id in &ended {
        request(
            state,
            SessionRequest::Forget(id.clone()),
            RequestPurpose::Other,
            effects,
        );
        state.list.marks.remove(id);
    }
    let key = state.key(Action::Undo);
    let mut message = match ended.as_slice() {
        [one] => format!("{one} removed from the list; {key} restores it"),
        many => format!(
            "{} tasks removed from the list; {key} restores them",
            many.len()
        ),
    };
    if hidden > 0 {
        message = format!("{message} ({hidden} of them were hidden)");
    }
    if !going.is_empty() {
        message = format!(
            "{message}; {} skipped (still running), still marked",
            going.len()
        );
    }
    state.list.undo.push(ended);
    state.show_toast(NoticeLevel::Info, &message, now);
}

pub(super) fn undo(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
    let Some(tasks) = state.list.undo.pop() else {
        return;
    };
    let count = u64::try_from(tasks.len()).unwrap_or(u64::MAX);
    state.list.wanted = tasks.first().cloned();
    state.list.returning.extend(tasks.iter().cloned());
    for id in tasks {
        request(
            state,
            SessionRequest::Unforget(id),
            RequestPurpose::Other,
            effects,
        );
    }
    let message = format!("{} restored", text::plural(count, "task"));
    state.show_toast(NoticeLevel::Info, &message, now);
}

pub(super) fn new_call(state: &mut State, effects: &mut Vec<Command>) {
    let form = CallForm::new(state);
    if let (Stage::Tool, Some(server)) = (form.stage, form.server.clone()) {
        request_tools(state, &server, effects);
    }
    state.dialogs.stack.push(Overlay::Call(Box::new(form)));
}

pub(super) fn adopt(state: &mut State, effects: &mut Vec<Command>) {
    let of_cursor = state.servers.get(state.cursors[1]);
    let of_task = || state.selected().map(|task_row| &task_row.view.task.server);
    let server = match state.pane {
        Pane::Servers => of_cursor.map(|server| &server.name),
        _ => of_task().or(state.servers.first().map(|server| &server.name)),
    };
    match server.cloned() {
        Some(server) => adopt_from(state, server, effects),
        None => no_server(state),
    }
}

fn no_server(state: &mut State) {
    let key = state.key(Action::AddServer);
    state.reply(format!("no servers yet; press {key} to add one by URL"));
}

/// The server that the sign-in key applies to: the one under the cursor, else the only one that waits for sign-in or
/// consent; `None` if several wait.
fn to_sign_in(state: &State) -> Result<Option<&ServerView>, String> {
    let waits = |server: &&ServerView| server.waits_for_consent();
    let mut waiting = state.servers.iter().filter(waits);
    let of_task = || {
        let task = &state.selected()?.view.task;
        state.server(&task.server).filter(waits)
    };
    let under_cursor = match state.pane {
        // Even if it does not wait for the user yet: it may only be idle so far.
        Pane::Servers => state.servers.get(state.cursors[1]),
        _ => of_task(),
    };
    match (under_cursor, waiting.next(), waiting.next()) {
        (Some(server), ..) | (None, Some(server), None) => Ok(Some(server)),
        (None, Some(_), Some(_)) => Ok(None),
        (None, None, _) => Err("no server needs a sign-in or consent".to_owned()),
    }
}

fn sign_in(state: &mut State, effects: &mut Vec<Command>) {
    match to_sign_in(state) {
        Ok(Some(server)) => sign_in_at(state, &server.name.clone(), effects),
        Ok(None) => {
            show(state, Pane::Servers, effects);
            let waits = ServerView::waits_for_consent;
            state.cursors[1] = state.servers.iter().position(waits).unwrap_or(0);
            let key = state.key(Action::SignIn);
            state.reply(format!(
                "several servers need you; press {key} on one of them"
            ));
        }
        Err(_) => {}
    }
}

/// Starts the sign-in at a server, or looks up what it needs the user to approve.
pub(super) fn sign_in_at(state: &mut State, name: &ServerName, effects: &mut Vec<Command>) {
    let Some(server) = state.server(name) else {
        return;
    };
    let takes_sign_in = matches!(
        server.state,
        LinkState::NeedsLogin {
            takes_sign_in: true,
            ..
        }
    );
    let name = server.name.clone();
    let shown = text::clean_line(name.as_str()).into_owned();
    if takes_sign_in {
        state.reply(format!("requesting the sign-in page of {shown}"));
        let sign_in = SessionRequest::SignIn(name.clone());
        request(state, sign_in, RequestPurpose::SignIn(name), effects);
    } else {
        state.reply(format!("checking the configuration of {shown}"));
        effects.push(Command::ReadConsent(name));
    }
}

/// Asks the driver to start or stop recording traffic.
fn trace(state: &mut State, effects: &mut Vec<Command>) {
    let server = state
        .selected()
        .map(|task_row| task_row.view.task.server.clone());
    if server.is_some() {
        let is_on = None;
        request(
            state,
            SessionRequest::Trace { server, is_on },
            RequestPurpose::Other,
            effects,
        );
    }
}

/// Imports tasks that exist on a server but not in this session.
pub(super) fn adopt_from(state: &mut State, server: ServerName, effects: &mut Vec<Command>) {
    let message = format!("asked {} for its tasks", text::clean_line(server.as_str()));
    let adopt = SessionRequest::Adopt {
        server: server.clone(),
        server_task: None,
    };
    request(state, adopt, RequestPurpose::Adopt(server), effects);
    state.reply(message);
}

fn add_server(state: &mut State) {
    let mut form = CallForm::new(state);
    form.stage = Stage::Server;
    form.server = None;
    form.server_at = state.servers.len();
    state.dialogs.stack.push(Overlay::Call(Box::new(form)));
}

pub(super) fn run_again(
    state: &mut State,
    id: &TaskId,
    changed: Vec<TypedArgument>,
    effects: &mut Vec<Command>,
) {
    let Some(task_row) = state.task(id) else {
        return;
    };
    let task = task_row.view.task.clone();
    let is_changed = !changed.is_empty();
    let mut form = CallForm::from_task(state, &task, changed);
    if form.tool.is_none() {
        request_tools(state, &task.server, effects);
    }
    if !is_changed {
        form = with_draft(state, form);
    }
    state.dialogs.stack.push(Overlay::Call(Box::new(form)));
}

pub(super) fn edit(state: &mut State) {
    let Some(task_row) = state.selected() else {
        return;
    };
    let task = &task_row.view.task;
    let limit =
        |limit: Option<Duration>| Field::prefilled(limit.map_or("off".to_owned(), text::duration));
    let form = EditForm {
        task: task.id.clone(),
        fields: [
            Field::new(task.name.clone().unwrap_or_default()),
            Field::new(task.note.clone().unwrap_or_default()),
            limit(task.limits.idle),
            limit(task.limits.hard),
        ],
        at: 0,
        error: None,
    };
    state.dialogs.stack.push(Overlay::Edit(Box::new(form)));
}

pub(super) fn apply_filter(state: &mut State, typed: &str) {
    state.list.filter = Filter::parse(typed);
    select::arrange(state);
}

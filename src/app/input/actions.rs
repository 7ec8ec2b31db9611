//! What each action of the panes does.

use super::{
    super::{
        Command, Field, Focus, Grouping, ListRow, Menu, Overlay, Pane, Search, SearchStep, SortKey,
        State, TerminalCommand,
        availability::{part_here, why_not},
        dialogs::{edit, inject_fault, part, question::open_question},
        grouping::next_of,
        keymap::{Action, Binding},
        lanes,
        quit::{interrupt, stop_keeper},
        requests::check_config,
        select::{self, chosen},
        servers::{adopt, sign_in},
        state::pane_scope,
        task_actions::{cancel, forget, pause, resume, run_again, trace, undo},
        tasks::freeze,
    },
    moves::{find, fold_all, fold_here, next_pane, page, show, step, to_selected_task, turn_tab},
    open::{add_server, back, close_or_quit, find_tool, new_call, open},
};

/// Performs an action that was chosen by its name. One of the tasks applies to the task that the pane shows as selected.
pub(in crate::app) fn perform_named(state: &mut State, binding: &Binding) {
    let is_bound_here = binding.scopes.contains(&pane_scope(state));
    if binding.acts_on_tasks()
        && !is_bound_here
        && let Err(error) = to_selected_task(state)
    {
        return state.reply(error.to_string());
    }
    perform(state, binding.action);
}

/// Performs an action, or replies why it is not available.
pub(in crate::app) fn perform(state: &mut State, action: Action) {
    if let Some(reason) = why_not(state, action) {
        return state.reply(reason);
    }
    let is_done = navigate(state, action)
        || change_list(state, action)
        || change_text(state, action)
        || open_layer(state, action);
    if is_done {
        return;
    }
    match action {
        Action::Open => open(state),
        Action::Back => back(state),
        Action::Pause => pause(state),
        Action::Resume => resume(state),
        Action::Adopt => adopt(state),
        Action::Print => {
            state.detail.prints = state.selected().map(|it| it.view.task.id.clone());
        }
        Action::Forget => {
            let tasks = chosen(state);
            forget(state, tasks);
        }
        Action::Undo => undo(state),
        Action::Freeze => freeze(state),
        Action::SignIn => sign_in(state),
        Action::Trace => trace(state),
        Action::Import => {
            state.command(Command::FindServers);
            state.reply("looking for servers in other MCP clients");
        }
        Action::Reload => {
            state.reply("reloading the configuration");
            check_config(state, true);
        }
        Action::Quit => close_or_quit(state),
        Action::StopKeeper => stop_keeper(state),
        Action::Interrupt => interrupt(state),
        Action::Suspend => state.command(TerminalCommand::Suspend),
        Action::Redraw => state.command(TerminalCommand::Redraw),
        // Only layers handle the others.
        _ => {}
    }
}

/// Moves the cursor or changes what is shown; returns `false` for other actions.
fn navigate(state: &mut State, action: Action) -> bool {
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
        Action::NextPane => next_pane(state),
        Action::PreviousTab => turn_tab(state, -1),
        Action::NextTab => turn_tab(state, 1),
        Action::Zoom => {
            let panes = [Focus::Detail, Focus::List];
            state.detail.focus = toggle(&mut state.detail.is_zoomed, panes);
            select::keep_in_sight(state);
        }
        Action::FindNext => find(state, SearchStep::Next),
        Action::FindPrevious => find(state, SearchStep::Previous),
        Action::FoldHere => fold_here(state),
        Action::FoldAll => fold_all(state),
        Action::ShowTasks => show(state, Pane::Tasks),
        Action::ShowTools => show(state, Pane::Tools),
        Action::ShowServers => show(state, Pane::Servers),
        Action::ShowMessages => show(state, Pane::Messages),
        Action::ShowTimeline => show(state, Pane::Timeline),
        Action::ZoomIn => lanes::zoom(state, true),
        Action::ZoomOut => lanes::zoom(state, false),
        _ => return false,
    }
    true
}

/// Changes what the list shows and in which order, and its marks; returns `false` for other actions.
fn change_list(state: &mut State, action: Action) -> bool {
    match action {
        Action::NeedsOnly => {
            state.list.needs_only = !state.list.needs_only;
            select::arrange(state);
        }
        Action::Fold => {
            state.list.is_folded = !state.list.is_folded;
            select::arrange(state);
        }
        Action::Group => {
            state.list.grouping = next_of(Grouping::ALL, state.list.grouping);
            select::arrange(state);
            state.reply(format!("grouped by {}", state.list.grouping.label()));
        }
        Action::Sort => {
            state.list.sort = next_of(SortKey::ALL, state.list.sort);
            sort(state);
        }
        Action::Reverse => {
            state.list.is_reversed = !state.list.is_reversed;
            sort(state);
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
        _ => return false,
    }
    true
}

fn sort(state: &mut State) {
    select::arrange(state);
    let order = if state.list.is_reversed {
        ", reversed"
    } else {
        ""
    };
    state.reply(format!("sorted by {}{order}", state.list.sort.label()));
}

/// Turns an option on or off; returns what belongs to its new value.
fn toggle<T>(option: &mut bool, [on, off]: [T; 2]) -> T {
    *option = !*option;
    if *option { on } else { off }
}

/// Changes how the text in the detail pane is shown; returns `false` for other actions.
fn change_text(state: &mut State, action: Action) -> bool {
    match action {
        Action::Follow => {
            let words = ["following", "no longer following"];
            let word = toggle(&mut state.detail.is_following, words);
            if state.detail.is_following {
                state.detail.scroll = 0;
            }
            state.reply(format!("{word} new log lines"));
        }
        Action::Wrap => {
            let word = toggle(&mut state.detail.text.is_wrapping, ["wrapped", "cut off"]);
            state.reply(format!("long lines are {word}"));
        }
        Action::Times => state.detail.text.has_times = !state.detail.text.has_times,
        _ => return false,
    }
    true
}

/// Opens a dialog or a form; returns `false` for other actions.
fn open_layer(state: &mut State, action: Action) -> bool {
    match action {
        Action::Filter => {
            let typed = Field::new(state.list.filter.text());
            state.dialogs.stack.push(Overlay::Filter(typed));
        }
        Action::FindTool => find_tool(state),
        Action::Search => {
            let typed = state.detail.search.as_ref().map_or("", Search::text);
            state
                .dialogs
                .stack
                .push(Overlay::Search(Field::prefilled(typed)));
        }
        Action::NewCall => new_call(state),
        Action::RunAgain => {
            if let Some(id) = state.list.cursor.clone() {
                run_again(state, &id, Vec::new());
            }
        }
        Action::Cancel => cancel(state),
        Action::Edit => edit::open(state),
        Action::Answer => open_question(state),
        Action::CopyMenu => {
            if let Some(id) = state.list.cursor.clone() {
                state.dialogs.open_menu(Menu::Copy(id));
            }
        }
        Action::SaveOrOpenPart => {
            if let (Some(task), Some(part)) = (state.list.cursor.clone(), part_here(state).cloned())
            {
                part::open(state, task, &part);
            }
        }
        Action::AddServer => add_server(state),
        Action::Palette | Action::Help => state.dialogs.stack.push(Overlay::Commands {
            field: Field::default(),
            cursor: 0,
        }),
        Action::InjectFault => {
            let dialog = inject_fault::dialog();
            state.dialogs.open_menu(Menu::Fixed(Box::new(dialog)));
        }
        _ => return false,
    }
    true
}

fn mark_all(state: &mut State) {
    if state.tasks.is_empty() {
        return add_server(state);
    }
    let shown = state.list.rows.iter().filter_map(ListRow::task);
    if shown.clone().all(|id| state.list.marks.contains(id)) {
        state.list.marks.clear();
    } else {
        state.list.marks.extend(shown.cloned());
    }
}

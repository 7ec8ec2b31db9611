//! Typed commands with arguments. They are those of the command line.

use itertools::Itertools as _;

use crate::domain::{ServerName, TaskId, server_url};

use super::{
    super::{
        CallForm, Field, Focus, Grouping, Overlay, SortKey, Stage, State, Tab,
        availability::{READ_ONLY, why_not},
        dialogs::filter::apply_filter,
        keymap::Action,
        requests::request_tools,
        select,
        servers::{add_url, adopt_from, invalid_url, named, sign_in_at, unknown_server},
        task_actions::run_again,
        typed_line::{self, TypedCall, TypedLineError},
    },
    actions::perform,
    moves::{show_tab, show_tools, to_selected_task, to_tasks},
};

/// Runs a typed command with an argument; returns `false` if the line is no such command.
pub(in crate::app) fn run_line(state: &mut State, typed: &str) -> bool {
    let (word, rest) = typed
        .split_once(char::is_whitespace)
        .map_or((typed, ""), |(word, rest)| (word, rest.trim()));
    let is_read = matches!(word, "attach" | "show" | "watch" | "result" | "logs");
    if is_read || !rest.is_empty() && of_tasks(word).is_some() {
        let words = typed_line::split_words(rest);
        if let Err(error) = on_tasks(state, word, &words) {
            state.reply(error.to_string());
        }
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    let action = match word {
        "filter" => Action::Filter,
        "call" | "run" => Action::NewCall,
        "add" => Action::AddServer,
        "group" => Action::Group,
        "sort" => Action::Sort,
        "adopt" => Action::Adopt,
        "tools" => Action::ShowTools,
        "login" => Action::SignIn,
        _ => return false,
    };
    // With a named server it doesn't matter which servers wait.
    match why_not(state, action).filter(|_| action != Action::SignIn) {
        Some(reason) => state.reply(reason),
        None => run_action(state, rest, action),
    }
    true
}

/// Does this with the server of this name, or replies that there is none.
fn on_server(state: &mut State, name: &str, act: impl FnOnce(&mut State, ServerName)) {
    match named(state, name) {
        Some(server) => act(state, server),
        None => state.reply(unknown_server(state, name)),
    }
}

/// Runs a command that takes the rest of the line.
fn run_action(state: &mut State, rest: &str, action: Action) {
    match action {
        Action::Filter => apply_filter(state, rest),
        Action::NewCall => match typed_line::parse_call(&typed_line::split_words(rest)) {
            Ok(call) => call_line(state, call),
            Err(error) => state.reply(error.to_string()),
        },
        Action::SignIn if state.setup.readonly => {
            state.reply(READ_ONLY);
        }
        Action::SignIn => on_server(state, rest, |state, server| sign_in_at(state, &server)),
        Action::ShowTools => {
            let name = rest.strip_prefix("-s ").unwrap_or(rest).trim();
            on_server(state, name, show_tools);
        }
        Action::AddServer => {
            if let Err(error) = add_url(state, rest) {
                state.reply(invalid_url(state, &error));
            }
        }
        Action::Adopt => on_server(state, rest, adopt_from),
        Action::Group => {
            if let Some(by) = Grouping::ALL.iter().find(|by| by.name() == rest) {
                state.list.grouping = *by;
                select::arrange(state);
            } else {
                let names = Grouping::ALL.iter().map(|by| by.name()).join(", ");
                state.reply(format!("can't group by {rest:?}; expected one of: {names}"));
            }
        }
        Action::Sort => {
            if let Some(key) = SortKey::ALL.iter().find(|key| key.label() == rest) {
                state.list.sort = *key;
                select::arrange(state);
            } else {
                let keys = SortKey::ALL.iter().map(|key| key.label()).join(", ");
                state.reply(format!("can't sort by {rest:?}; expected one of: {keys}"));
            }
        }
        _ => {}
    }
}

/// Opens the form of a typed call, or the tool search if no tool has that name.
fn call_line(state: &mut State, call: TypedCall) {
    let wanted = match call.server.as_deref() {
        Some(name) => match named(state, name) {
            Some(server) => Some(server),
            None if server_url::is_url(name) => match add_url(state, name) {
                Ok(server) => Some(server),
                Err(error) => return state.reply(invalid_url(state, &error)),
            },
            None => return state.reply(unknown_server(state, name)),
        },
        None => None,
    };
    let tools = |name: &ServerName| state.tools.get(name);
    let has = |name: &ServerName| {
        tools(name).is_some_and(|it| it.list.iter().any(|tool| tool.name == call.tool))
    };
    let of_cursor = state.selected_server();
    let mut names = state.servers.iter().map(|server| server.name.clone());
    let server = (wanted.clone())
        .or_else(|| of_cursor.clone().filter(has))
        .or_else(|| names.clone().find(has))
        .or(of_cursor)
        .or_else(|| names.next());
    let mut form = CallForm::new(state);
    let Some(server) = server else {
        form.filter = Field::new(call.tool);
        return state.dialogs.stack.push(Overlay::Call(Box::new(form)));
    };
    let is_unknown = tools(&server).is_none_or(|it| !it.is_known);
    let is_meant = wanted.is_some() || !call.arguments.is_empty();
    if has(&server) || is_unknown && is_meant && !call.tool.is_empty() {
        if !has(&server) {
            request_tools(state, &server);
        }
        form = CallForm::from_line(state, server, call);
    } else {
        request_tools(state, &server);
        form.server = Some(server);
        form.stage = Stage::Tool;
        form.filter = Field::new(call.tool);
        form.name = Field::new(call.name);
        form.typed = call.arguments;
    }
    state.dialogs.stack.push(Overlay::Call(Box::new(form)));
}

/// The action of a command that takes task ids.
fn of_tasks(word: &str) -> Option<Action> {
    Some(match word {
        "open" => Action::Open,
        "pause" => Action::Pause,
        "resume" => Action::Resume,
        "cancel" => Action::Cancel,
        "rm" => Action::Forget,
        "answer" => Action::Answer,
        "edit" => Action::Edit,
        "copy" => Action::CopyMenu,
        "print" => Action::Print,
        "again" | "rerun" => Action::RunAgain,
        _ => return None,
    })
}

/// Looks up a task by an unambiguous prefix of its id.
fn task_named(state: &State, name: &str) -> Result<TaskId, TypedLineError> {
    let ids = state.kept_tasks().map(|task_row| &task_row.view.task.id);
    let mut fitting = ids.filter(|id| id.as_str().starts_with(name));
    match (fitting.next(), fitting.next()) {
        (Some(id), None) => Ok(id.clone()),
        (Some(_), Some(_)) => Err(TypedLineError::AmbiguousTask(name.to_owned())),
        (None, _) if name.starts_with('-') => Err(TypedLineError::NotATask(name.to_owned())),
        (None, _) => Err(TypedLineError::UnknownTask(name.to_owned())),
    }
}

/// Goes to the named tasks and performs the command's action on them.
fn on_tasks(state: &mut State, word: &str, names: &[String]) -> Result<(), TypedLineError> {
    let is_again = of_tasks(word) == Some(Action::RunAgain);
    let (names, pairs) = names.split_at(if is_again {
        names.len().min(1)
    } else {
        names.len()
    });
    let tasks: Vec<TaskId> = match names {
        [] => {
            to_selected_task(state)?;
            state.list.cursor.iter().cloned().collect()
        }
        [all] if all == "--all" && word == "cancel" => state.totals.open.iter().cloned().collect(),
        names => {
            let found = names.iter().map(|name| task_named(state, name));
            found.collect::<Result<_, _>>()?
        }
    };
    let first = tasks.first().ok_or(TypedLineError::NoTask)?;
    let is_of_marked = matches!(word, "pause" | "resume" | "cancel" | "rm");
    if tasks.len() > 1 && !is_of_marked {
        return Err(TypedLineError::OneTask(word.to_owned()));
    }
    let are_marked = tasks.len() > 1 || names.iter().any(|name| name == "--all");
    to_tasks(state);
    if !select::move_to_task(state, first) && !are_marked {
        return Err(TypedLineError::HiddenTask(first.clone()));
    }
    let tab = match word {
        "result" => Some(Tab::Result),
        "logs" => Some(Tab::Log),
        _ => None,
    };
    if let Some(tab) = tab {
        show_tab(state, tab);
        (state.detail.focus, state.detail.is_zoomed) = (Focus::Detail, true);
        return Ok(());
    }
    let Some(action) = of_tasks(word) else {
        return Ok(());
    };
    if is_again && why_not(state, action).is_none() {
        let pairs = pairs.iter().map(|word| {
            typed_line::parse_argument(word)?
                .ok_or_else(|| TypedLineError::NotAnArgument(word.clone()))
        });
        let pairs = pairs.collect::<Result<_, _>>()?;
        run_again(state, &first.clone(), pairs);
        return Ok(());
    }
    // The action applies to the named tasks, not to the marked ones.
    let several = if are_marked { tasks } else { Vec::new() };
    let marks = std::mem::replace(&mut state.list.marks, several.into_iter().collect());
    perform(state, action);
    state.list.marks = marks;
    Ok(())
}

//! `ls`: the tasks of the session.

use crate::{
    app::Filter,
    cli::{
        CliError, CliResult, Context, Targets,
        args::LsArgs,
        code,
        format::{self, task_title},
        task_document::{DriverInfo, document_with},
    },
    domain::{Connectivity, Elicitation, IfCut, ServerName, Status, Task, Wall, text},
    store::ListFilter,
};

/// The maximum width of a cell with free text.
const MAX_CELL_COLS: usize = 48;
/// The same in a pipe. All rows are as wide as the widest; `--json` has everything.
const MAX_PIPED_COLS: usize = 200;

/// Where FROM goes, after SERVER.
const FROM_COLUMN: usize = 4;

/// `ls`.
pub(in crate::cli) fn ls(context: &mut Context<'_>, ls: &LsArgs) -> CliResult {
    let mut reader = context.reader()?;
    let listed = ListFilter {
        all: ls.all,
        limit: None,
    };
    let tasks = reader.tasks(listed)?;
    if let Some(notice) = reader.notice() {
        context.warn(&notice);
    }
    let is_empty = tasks.is_empty();
    // Reading needs no config, except for a server name that only it has.
    let servers = match context.global.server.as_slice() {
        [] => None,
        _ => Some(Targets::of(context, &mut reader)?),
    };
    let servers = servers.as_ref().map_or_else(Vec::new, Targets::names);
    let since = ls.since.map(|since| since.at(context.clock.now().wall));
    let driver = DriverInfo::of(context, &tasks);
    let wanted = Wanted {
        servers: &servers,
        since,
        ls,
    };
    let tasks = wanted.select(tasks, &driver)?;
    if context.global.json {
        let documents = tasks
            .iter()
            .map(|task| document_with(context, &mut reader, task, &driver))
            .collect::<Result<Vec<_>, _>>()?;
        return context.print_document(documents);
    }
    if tasks.is_empty() {
        let hint = is_empty
            .then(|| other_session_hint(context, listed))
            .flatten();
        context.info(&hint.unwrap_or_else(|| {
            if is_empty {
                "no tasks to show; `longhaul call TOOL` starts one".to_owned()
            } else {
                "no task matches; `longhaul ls` lists all".to_owned()
            }
        }));
        return Ok(code::OK);
    }
    print_table(context, &tasks, &driver)?;
    Ok(code::OK)
}

/// The tasks to list.
struct Wanted<'w> {
    /// Those on these servers, if there are any.
    servers: &'w [&'w ServerName],
    since: Option<Wall>,
    ls: &'w LsArgs,
}

impl Wanted<'_> {
    fn select(&self, mut tasks: Vec<Task>, driver: &DriverInfo) -> CliResult<Vec<Task>> {
        let typed = self.ls.filter.join(" ");
        if let Some(error) = Filter::invalid_reason(&typed) {
            return Err(CliError::usage(error));
        }
        tasks.retain(|task| self.has(task, driver));
        let filter = Filter::parse(&typed);
        if filter.is_empty() {
            return Ok(tasks);
        }
        // The filter language is the screen's and can refer to the connection.
        tasks.retain(|task| filter.matches_task(task, &driver.contact(task)));
        Ok(tasks)
    }

    fn has(&self, task: &Task, driver: &DriverInfo) -> bool {
        let ls = self.ls;
        let has_status = |label: &&str| *label == task.state_label();
        // An agent host made the call whose name begins like this.
        let is_from = |host: &String| {
            let caller = task.caller.as_ref();
            caller.is_some_and(|caller| caller.host.starts_with(host))
        };
        let needs_you = || {
            task.status.needs_you(task.end.is_seen)
                || driver.contact(task) == Connectivity::NeedsLogin
        };
        (ls.status.is_empty() || ls.status.iter().any(has_status))
            && (!ls.needs_you || needs_you())
            && (!ls.new || task.status.is_settled() && !task.end.is_seen)
            && (ls.tag.is_none() || task.tag == ls.tag)
            && (ls.from.as_ref().is_none_or(is_from))
            && (self.since.is_none_or(|since| task.created_at >= since))
            && (self.servers.is_empty() || self.servers.contains(&&task.server))
    }
}

fn print_table(context: &mut Context<'_>, tasks: &[Task], driver: &DriverInfo) -> CliResult<()> {
    let now = context.clock.now().wall;
    let has_callers = tasks.iter().any(|task| task.caller.is_some());
    let head = [
        "STATE", "ID", "TASK", "SERVER", "PROGRESS", "TIME", "IF CUT",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let ending = context.terminal.ending;
    let columns = context.terminal.out_columns;
    let cell = columns.map_or(MAX_PIPED_COLS, |_| MAX_CELL_COLS);
    for task in tasks {
        let contact = driver.contact(task);
        rows.push(row(task, &contact, now, (cell, ending)));
    }
    if has_callers {
        let from = tasks.iter().map(|task| from(task, now));
        let from = std::iter::once("FROM".to_owned()).chain(from);
        for (row, from) in rows.iter_mut().zip(from) {
            row.insert(FROM_COLUMN, from);
        }
    }
    context.print_lines(format::table(&rows, columns, 2, ending))
}

/// Who made an agent's call, and whether the result waits for it.
fn from(task: &Task, now: Wall) -> String {
    task.caller.as_ref().map_or_else(String::new, |caller| {
        let owed = if task.is_owed(now) {
            " (not collected)"
        } else {
            ""
        };
        format!("{}{owed}", text::clean_line(&caller.label()))
    })
}

/// Names another session that has tasks, for an empty one.
fn other_session_hint(context: &Context<'_>, listed: ListFilter) -> Option<String> {
    let (name, count) = context
        .other_sessions()
        .into_iter()
        .find_map(|(name, mut reader)| {
            let count = reader.tasks(listed).ok()?.len();
            (count > 0).then_some((name, count))
        })?;
    let flags = context.flags_to(&name, "");
    Some(format!(
        "no tasks in session {}; session {name} has {count}: `longhaul{flags} ls`",
        &context.paths.session
    ))
}

fn row(
    task: &Task,
    contact: &Connectivity,
    now: Wall,
    (cell, ending): (usize, &str),
) -> Vec<String> {
    let label = task.state_label();
    let state = match (task.control, contact) {
        (Some(asked), _) => asked.what.label().to_owned(),
        // No process watches it, so it may have changed.
        (None, Connectivity::Unwatched { .. }) => format!("{label}?"),
        (
            None,
            Connectivity::Quiet { .. }
            | Connectivity::Reconnecting { .. }
            | Connectivity::Offline { .. },
        ) => {
            format!("{label}, {}", contact.label())
        }
        (None, Connectivity::NeedsLogin) => format!("{label}, needs you"),
        _ => label.to_owned(),
    };
    let state = match task.forgotten_at {
        Some(_) => format!("{state}, removed"),
        None => state,
    };
    let progress = match (&task.status, &task.progress) {
        (Status::Completed, _) => task.result_summary().unwrap_or_default().into_owned(),
        (Status::Failed | Status::Lost(_) | Status::Unknown(_), _) => {
            task.why().unwrap_or_default()
        }
        (Status::InputRequired, _) => task
            .open_question()
            .map(|question| Elicitation::message_of(&question.request))
            .unwrap_or_default(),
        (_, Some(progress)) => format::amount(progress),
        _ if *contact == Connectivity::NeedsLogin => format::WAITS.to_owned(),
        (Status::Running, None) if task.is_queued() => contact.why().unwrap_or_default().to_owned(),
        _ => task.status_message().unwrap_or_default().to_owned(),
    };
    // As on the screen: how long it has run, or took.
    let age = task.end.settled_at.unwrap_or(now).since(task.created_at);
    let if_cut = IfCut::of_task(task);
    vec![
        state,
        task.id.to_string(),
        text::cut(&task_title(task), cell, ending).into_owned(),
        text::clean_line(task.server.as_str()).into_owned(),
        text::cut(&text::clean_line(&progress), cell, ending).into_owned(),
        text::short_span(age),
        if_cut.as_ref().map_or("", IfCut::label).to_owned(),
    ]
}

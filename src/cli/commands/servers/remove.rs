//! `servers remove`.

use serde_json::json;

use crate::{
    cli::{
        CliError, CliResult, Context, context::must_confirm, live_session::notify_drivers,
        server_args::RemoveServerArgs,
    },
    config::{self, ConfigEdit},
    domain::{ServerName, Task, text},
    engine::stop_unused_keeper,
    store::{DriverLock, ListFilter, Writer},
};

/// `servers remove`: from the configuration, and from this session if it has no unfinished tasks there.
pub(in crate::cli) fn remove(context: &mut Context<'_>, args: &RemoveServerArgs) -> CliResult {
    context.may_act()?;
    let name = args.name.as_str();
    let mut edit = ConfigEdit::open(config::path())?;
    let is_configured = edit.remove(name);
    let links = context.reader()?.links()?;
    let links = links.iter().map(|link| &link.name);
    let in_session: Vec<&ServerName> = links.filter(|link| is_named(link, name)).collect();
    if !is_configured && in_session.is_empty() {
        return Err(CliError::usage(format!(
            "no server named \"{name}\" in the configuration or this session; `longhaul servers list` lists the servers"
        )));
    }
    let unfinished = unfinished_tasks(context, name)?;
    let here = &context.paths.session;
    let has_tasks = unfinished.iter().any(|(session, _)| session == here);
    if let Some((session, count)) = unfinished.first().filter(|_| is_configured || has_tasks) {
        let tasks = text::plural(*count, "unfinished task");
        if !is_configured {
            return Err(CliError::usage(format!(
                "not removed: {name} has {tasks} in session {session}; wait until it has none, or cancel them with \
                 `longhaul cancel ID`"
            )));
        }
        let warning = format!(
            "{name} has {tasks} in session {session}; if you remove it, the session keeps the server but loses its \
             configured headers and limits"
        );
        context.report(&warning);
        let refusal = "not removed; rerun with --yes to remove it";
        must_confirm(context, args.yes, "remove it? y/N", refusal)?;
    }
    let path = edit.path.display().to_string();
    if is_configured {
        edit.save()?;
        notify_drivers(context);
    }
    let mut from: Vec<String> = is_configured.then_some(path.clone()).into_iter().collect();
    if !in_session.is_empty() && !has_tasks {
        match remove_from_session(context, name, &in_session) {
            Ok(()) => from.push(format!("session {}", &context.paths.session)),
            Err(fail) if is_configured => {
                let line = format!("longhaul: {}", fail.message());
                context.info(&line);
            }
            Err(fail) => return Err(fail),
        }
    }
    let file = is_configured.then_some(path);
    let message = format!("removed {name} from {}", from.join(" and "));
    let document = json!({"removed": name, "file": file});
    context.finish(&document, &message)
}

/// Whether this is the server of that name, or the same server in a host's directory.
fn is_named(server: &ServerName, name: &str) -> bool {
    server.as_str() == name || server.entry() == name
}

/// Removes a server from the session file, under all its names; fails while a driver has it open.
fn remove_from_session(
    context: &mut Context<'_>,
    name: &str,
    names: &[&ServerName],
) -> CliResult<()> {
    let mut lock = DriverLock::try_take(&context.paths)?;
    // The next command starts another one.
    if lock.is_none() && stop_unused_keeper(&context.paths, false).is_ok() {
        lock = DriverLock::try_take(&context.paths)?;
    }
    let Some(lock) = lock else {
        return Err(CliError::usage(format!(
            "session {} still lists the server {name}, because longhaul is running in the background or in another \
             window; run `longhaul keeper stop`, or close that window, then run this again",
            &context.paths.session
        )));
    };
    let mut writer = Writer::open(&context.paths, context.clock.now().wall)?.writer;
    for link in names {
        writer.remove_link(link)?;
    }
    drop((writer, lock));
    Ok(())
}

/// The sessions with unfinished tasks on a server, and the number of those tasks in each.
fn unfinished_tasks(context: &Context<'_>, name: &str) -> CliResult<Vec<(String, usize)>> {
    let here = (context.paths.session.clone(), context.reader()?);
    let is_unfinished = |task: &&Task| is_named(&task.server, name) && task.is_open();
    let mut found = Vec::new();
    for (session, mut reader) in std::iter::once(here).chain(context.other_sessions()) {
        let tasks = reader.tasks(ListFilter::ALL).unwrap_or_default();
        let count = tasks.iter().filter(is_unfinished).count();
        if count > 0 {
            found.push((session, count));
        }
    }
    Ok(found)
}

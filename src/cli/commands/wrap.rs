//! `wrap` and `unwrap`: put `longhaul proxy` in place of servers in the configuration of agents' hosts, and take it out.

use std::{path::PathBuf, time::Duration};

use itertools::Itertools as _;
use serde_json::{Value, json};

use crate::{
    cli::{
        CliError, CliResult, Context,
        args::{STATE_DIR, WrapArgs},
        code,
        context::confirm,
        live_session::notify_drivers,
    },
    config::{
        self, ConfigEdit,
        import::{EntryReport, ExistingServers, PassedVariables, import_entry},
        wrap::{
            Backup, HostFile, ProxyCommand, Replaced, WrapError, WrapFile, WrappableEntry,
            files_of, host_names, seen_entries,
        },
    },
    domain::text,
    proxy::patience_before,
};

/// `wrap`.
pub(in crate::cli) fn wrap(context: &mut Context<'_>, args: &WrapArgs) -> CliResult {
    change(context, args, "wrap", wrap_file)
}

/// `unwrap`.
pub(in crate::cli) fn unwrap(context: &mut Context<'_>, args: &WrapArgs) -> CliResult {
    change(context, args, "unwrap", unwrap_file)
}

/// Changes each file of the host with `in_file`, which returns the servers that it found to change.
fn change(
    context: &mut Context<'_>,
    args: &WrapArgs,
    verb: &str,
    in_file: fn(&mut Context<'_>, &WrapArgs, WrapFile) -> CliResult<Vec<String>>,
) -> CliResult {
    if args.list || args.agent_host.is_none() {
        return list(context, args.agent_host.as_deref());
    }
    context.may_act()?;
    let mut found = Vec::new();
    let mut broken = None;
    for file in files(args)? {
        let read = WrapFile::read(file.clone());
        match read.and_then(|read| read.entries().map(|_| read)) {
            Ok(file) => found.extend(in_file(context, args, file)?),
            Err(error) => {
                broken.get_or_insert(failed(&file, &error));
            }
        }
    }
    let missing = args.servers.iter().find(|name| !found.contains(*name));
    if let Some(error) = broken {
        if args.servers.is_empty() || missing.is_some() {
            return Err(error);
        }
        context.warn(error.message());
    }
    if found.is_empty() && args.servers.is_empty() {
        let message = format!("nothing to {verb}; `longhaul wrap --list` lists the servers");
        context.info(&message);
    }
    match missing {
        Some(name) => Err(CliError::usage(format!(
            "no server named \"{name}\" to {verb}; `longhaul wrap --list` lists the servers and shows which are wrapped"
        ))),
        None => Ok(code::OK),
    }
}

/// Restores the entries of one file.
fn unwrap_file(
    context: &mut Context<'_>,
    args: &WrapArgs,
    mut file: WrapFile,
) -> CliResult<Vec<String>> {
    let host_file = file.file.clone();
    let fail = |error: WrapError| failed(&host_file, &error);
    let mut backup = Backup::of(&file.target).map_err(fail)?;
    let mut kept = Vec::new();
    let mut restored = Vec::new();
    for replaced in std::mem::take(&mut backup.replaced) {
        let is_meant = replaced.project == file.file.project
            && (args.servers.is_empty() || args.servers.contains(&replaced.server));
        match file.restored(&replaced).filter(|_| is_meant) {
            Some(text) => {
                file.text = text;
                restored.push(replaced.server);
            }
            None if is_meant => {
                let message = format!(
                    "{}: kept the entry of {}, which was changed after it was wrapped; undo that change and run this again, or \
                     copy the original entry from {}",
                    file.file.shown(),
                    replaced.server,
                    Backup::path(&file.target).display()
                );
                context.warn(&message);
                kept.push(replaced);
            }
            None => kept.push(replaced),
        }
    }
    let is_kept = |entry: &&WrappableEntry| {
        let is_meant = args.servers.is_empty() || args.servers.contains(&entry.name);
        let has_backup = kept
            .iter()
            .any(|it| it.server == entry.name && it.project == file.file.project);
        is_meant && entry.is_wrapped() && !has_backup
    };
    // Of the file as restored: what is still wrapped in it has no backup.
    for entry in file.entries().unwrap_or_default().iter().filter(is_kept) {
        let message = format!(
            "{}: kept the entry of {}, because {} has no copy of the original; restore the entry by hand",
            file.file.shown(),
            entry.name,
            Backup::path(&file.target).display()
        );
        context.warn(&message);
    }
    let change = vec![format!("  restores {}", restored.join(", "))];
    if restored.is_empty() || !agrees(context, &file.file, &change, args.yes)? {
        return Ok(Vec::new());
    }
    file.save().map_err(fail)?;
    backup.replaced = kept;
    backup.save(&file.target).map_err(fail)?;
    let names = restored.join(", ");
    let line = format!("{}: unwrapped {names}", file.file.shown());
    context.print(&line)?;
    Ok(restored)
}

fn files(args: &WrapArgs) -> CliResult<Vec<HostFile>> {
    let host = args.agent_host.as_deref().unwrap_or_default();
    let files = files_of(Some(host));
    if files.is_empty() {
        let message = if host_names().any(|known| known == host) {
            format!("no {host} configuration found (start {host} once to create one)")
        } else {
            let known = host_names().join(", ");
            format!("unknown agent host {host:?}; expected one of: {known}")
        };
        return Err(CliError::usage(message));
    }
    Ok(files)
}

fn failed(file: &HostFile, error: &WrapError) -> CliError {
    let message = format!("could not edit {}: {error}", file.shown());
    CliError::usage(message)
}

/// Replaces the entries of one file, and adds their servers to the configuration.
fn wrap_file(
    context: &mut Context<'_>,
    args: &WrapArgs,
    mut file: WrapFile,
) -> CliResult<Vec<String>> {
    let host_file = file.file.clone();
    let fail = |error: WrapError| failed(&host_file, &error);
    let entries = file.entries().map_err(fail)?;
    let backup = Backup::of(&file.target).map_err(fail)?;
    let is_ours = |entry: &WrappableEntry| {
        let mut replaced = backup.replaced.iter();
        let stands = |it: &Replaced| it.server == entry.name && file.restored(it).is_some();
        entry.is_wrapped() || replaced.any(stands)
    };
    let is_meant = |entry: &&WrappableEntry| {
        !is_ours(entry) && (args.servers.is_empty() || args.servers.contains(&entry.name))
    };
    let meant: Vec<WrappableEntry> = entries.iter().filter(is_meant).cloned().collect();
    let mut edit = ConfigEdit::open(config::path())?;
    // Read again, because the file before may have added servers.
    let config = config::read(config::path().as_deref())?;
    let mut known = ExistingServers::of(&config, &context.paths);
    let others = seen_entries();
    let (mut replaced, mut needs) = (Vec::new(), Vec::new());
    // From the end, so that the places of the others stay.
    for entry in meant.iter().rev() {
        if let Some(why) = entry.obstacle(file.file.host) {
            context.warn(format!("skipped {}: {why}", entry.name));
            continue;
        }
        let fields = Value::Object(entry.fields.clone());
        let own = file.entries().unwrap_or_default();
        let is_taken = |name: &str, variables: &PassedVariables| {
            let args = proxy_args(context, name.to_owned());
            let differs = |it: &WrappableEntry| it.is_wrapped() && it.differs(&args, variables);
            let is_taken = |others: &Vec<WrappableEntry>| others.iter().chain(&own).any(differs);
            others.as_ref().is_none_or(is_taken)
        };
        let entry_of_file = (entry.name.as_str(), &fields);
        let (report, passed) =
            import_entry(&mut edit, &mut known, &file.file, entry_of_file, is_taken)?;
        let Some(name) = announce(context, &entry.name, &report) else {
            continue;
        };
        needs.extend(report.needs.iter().map(|need| format!("{name}: {need}")));
        let command = ProxyCommand {
            program: program()?,
            args: [
                proxy_args(context, name),
                patience_args(file.file.host, entry),
            ]
            .concat(),
            env: passed,
            forwarded: report.variables.clone(),
        };
        let (original, wrapped) = file.wrap(entry, &command).map_err(fail)?;
        replaced.push(Replaced {
            server: entry.name.clone(),
            project: host_file.project.clone(),
            original,
            wrapped,
        });
    }
    let found = replaced.iter().map(|it| it.server.clone()).collect();
    if !replaced.is_empty() && save(context, &file, edit, replaced, args.yes)? {
        needs.extend(own_variables(context, host_file.host));
        for need in needs {
            context.warn(&need);
        }
    }
    Ok(found)
}

/// Tells the user what happens to an entry. Returns its server's name in the configuration; `None` if it is skipped.
fn announce(context: &mut Context<'_>, entry: &str, report: &EntryReport) -> Option<String> {
    let notes = &report.notes;
    let Some(name) = report.known_as.clone() else {
        let line = format!("skipped {entry}: {}", notes.join("; "));
        context.warn(&line);
        return None;
    };
    let is_new = report.is_imported();
    if is_new || name != entry {
        let verb = if is_new {
            "will be added to"
        } else {
            "is already in"
        };
        let mut note = format!("{entry} {verb} longhaul's configuration");
        if name != entry {
            note = format!("{note} as {name}");
        }
        context.warn(&note);
    }
    for note in notes.iter().filter(|_| is_new) {
        context.warn(format!("{name}: {note}"));
    }
    Some(name)
}

/// The path of this program: a host that was started from a menu may not find it by its name. A link stays a link, because
/// an installer may let it lead to the next version.
fn program() -> CliResult<String> {
    let called = std::env::args_os().next().map(PathBuf::from);
    let called = called.and_then(|called| {
        if called.components().count() > 1 {
            return std::path::absolute(called).ok();
        }
        let path = std::env::var_os("PATH")?;
        let mut places = std::env::split_paths(&path).map(|place| place.join(&called));
        places.find(|place| place.is_file())
    });
    if let Some(path) = called.filter(|path| path.is_file()) {
        return Ok(path.display().to_string());
    }
    let path = std::env::current_exe().map_err(CliError::bug("find the path of this program"))?;
    Ok(path.display().to_string())
}

/// What to do about the variables that lead this process to its files, which the host may not have.
fn own_variables<'c>(context: &'c Context<'_>, host: &'c str) -> impl Iterator<Item = String> + 'c {
    let is_used = |name: &&str| {
        let has_option = *name == STATE_DIR && context.global.state_dir.is_some();
        !has_option && std::env::var_os(name).is_some_and(|it| !it.is_empty())
    };
    let names = [config::PATH_VARIABLE, STATE_DIR].into_iter();
    names.filter(is_used).map(move |name| {
        format!("{name} is set in this shell; set it in {host}'s environment too, or longhaul will use other files there")
    })
}

fn proxy_args(context: &Context<'_>, server: String) -> Vec<String> {
    let session = context.global.session.iter();
    let session = session.flat_map(|name| ["--session".to_owned(), name.clone()]);
    let state_dir = context.global.state_dir.iter().flat_map(|dir| {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        ["--state-dir".to_owned(), dir.display().to_string()]
    });
    let proxy = ["proxy".to_owned(), server];
    session.chain(state_dir).chain(proxy).collect()
}

/// `--patience`, if the entry sets how long its host waits for a call: the proxy can't see that.
fn patience_args(host: &str, entry: &WrappableEntry) -> Vec<String> {
    let (key, unit) = match host {
        "codex" => ("tool_timeout_sec", 1.0),
        "goose" => ("timeout", 1.0),
        "claude-code" | "gemini" | "opencode" => ("timeout", 0.001),
        _ => return Vec::new(),
    };
    // In a TOML file, numbers are read as text.
    let seconds = |it: &Value| it.as_f64().or_else(|| it.as_str()?.parse().ok());
    let limit = entry.fields.get(key).and_then(seconds);
    let limit = limit.and_then(|limit| Duration::try_from_secs_f64(limit * unit).ok());
    // Claude Code ignores shorter ones.
    let limit = limit.filter(|limit| host != "claude-code" || limit.as_secs() > 0);
    let patience = limit.map(|limit| text::duration(patience_before(limit)));
    let patience = patience.filter(|patience| text::parse_duration(patience).is_ok());
    patience.map_or_else(Vec::new, |patience| vec!["--patience".to_owned(), patience])
}

/// Shows the changes and asks.
fn agrees(
    context: &mut Context<'_>,
    file: &HostFile,
    changes: &[String],
    yes: bool,
) -> CliResult<bool> {
    if yes {
        return Ok(true);
    }
    let path = file.shown();
    context.report(&format!("{path}:"));
    for line in changes {
        context.report(line);
    }
    if !context.terminal.is_for_people() {
        let message = "not changed; rerun with --yes to change it";
        return Err(CliError::new(code::REFUSED, message));
    }
    confirm(context, "change it? y/N")
}

fn save(
    context: &mut Context<'_>,
    file: &WrapFile,
    edit: ConfigEdit,
    wrapped: Vec<Replaced>,
    yes: bool,
) -> CliResult<bool> {
    let fail = |error: WrapError| failed(&file.file, &error);
    // Before anything else is written.
    file.check().map_err(fail)?;
    let changes: Vec<String> = wrapped.iter().flat_map(|it| file.change(it)).collect();
    if !agrees(context, &file.file, &changes, yes)? {
        return Ok(false);
    }
    edit.save()?;
    notify_drivers(context);
    let names: Vec<String> = wrapped.iter().map(|it| it.server.clone()).collect();
    let mut backup = Backup::of(&file.target).map_err(fail)?;
    let project = &file.file.project;
    let is_replaced = |it: &Replaced| it.project == *project && names.contains(&it.server);
    backup.replaced.retain(|it| !is_replaced(it));
    backup.replaced.extend(wrapped);
    // First, so that no original is lost whatever happens in between.
    backup.save(&file.target).map_err(fail)?;
    file.save().map_err(fail)?;
    let line = format!(
        "{}: wrapped {}; restart {} to see its calls in longhaul",
        file.file.shown(),
        names.join(", "),
        file.file.host
    );
    context.print(&line)?;
    Ok(true)
}

fn list(context: &mut Context<'_>, host: Option<&str>) -> CliResult {
    let mut documents = Vec::new();
    let files = files_of(host);
    if files.is_empty() {
        context.info("no agent host configuration found; start an agent host, such as Claude Code, once, then run this again");
    }
    for file in files {
        let entries = WrapFile::read(file.clone()).and_then(|file| file.entries());
        let path = file.shown();
        let (entries, error) = match entries {
            Ok(entries) => (entries, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        if file.project.is_some() && entries.is_empty() {
            continue;
        }
        if context.global.json {
            for entry in &entries {
                documents.push(json!({"host": file.host, "file": path, "server": entry.name, "is_wrapped": entry.is_wrapped()}));
            }
            continue;
        }
        context.print(&format!("{} ({path})", file.host))?;
        if let Some(error) = error {
            context.print(&format!("  {error}"))?;
        }
        for entry in &entries {
            let state = if entry.is_wrapped() {
                "wrapped"
            } else {
                "direct"
            };
            let line = format!("  {state:<8} {}", entry.name);
            context.print(&line)?;
        }
    }
    if context.global.json {
        context.terminal.print_pretty(documents)?;
    }
    Ok(code::OK)
}

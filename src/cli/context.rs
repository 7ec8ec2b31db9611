//! What every command shares: options, paths, output, configuration, and finding a task.

use std::{
    ffi::OsString,
    fmt::{self, Write as _},
    io::BufRead as _,
    path::{Path, PathBuf},
};

use itertools::Itertools as _;
use serde_json::Value;

use crate::{
    auth::Logins,
    cli::{
        CliError, CliResult,
        args::{GlobalArgs, STATE_DIR},
        code,
        host::REACHED_AS,
        terminal::Terminal,
    },
    config::{self, Config, ConfigError, FileMark},
    domain::{ServerConfig, ServerName, Task, TaskId, server_url, text},
    engine::{Clock, KeeperCommand, ProcessRole, USUAL_ENVIRONMENT},
    store::{DriverLock, Lookup, Paths, Reader, StoreError, Writer, replace_atomically},
};

/// Shared state of a command: global options, session paths, output and configuration.
pub(super) struct Context<'o> {
    pub(super) global: GlobalArgs,
    pub(super) paths: Paths,
    pub(super) terminal: Terminal<'o>,
    pub(super) clock: Clock,
    /// The user's configuration; `Err` says why it cannot be read.
    pub(super) config: Result<Config, ConfigError>,
    /// State of the configuration file before it was read, to notice later changes.
    pub(super) config_mark: FileMark,
    /// The session used without `--session`.
    pub(super) default_session: String,
    /// The name by which the user's machine reaches that of the session, if it is another one.
    pub(super) reached_as: Option<String>,
    pub(super) logins: Logins,
}

impl Context<'_> {
    /// Prints a line on stdout.
    pub(super) fn print(&mut self, line: &str) -> CliResult<()> {
        self.terminal.print(line)
    }

    /// [`Self::print`] for each line.
    pub(super) fn print_lines(
        &mut self,
        lines: impl IntoIterator<Item: AsRef<str>>,
    ) -> CliResult<()> {
        let mut lines = lines.into_iter();
        lines.try_for_each(|line| self.print(line.as_ref()))
    }

    /// Prints a line on stderr unless `--quiet` is set.
    pub(super) fn info(&mut self, line: &str) {
        self.terminal.info(line);
    }

    /// Prints a line on stderr.
    pub(super) fn report(&mut self, line: &str) {
        self.terminal.report(line);
    }

    /// Prints a line on stderr that the user is asked to agree to, exactly as it is.
    pub(super) fn propose(&mut self, line: &str) {
        self.terminal.report_text(&text::clean_line(line));
    }

    /// Prints a message with the program's name on stderr.
    pub(super) fn warn(&mut self, message: impl fmt::Display) {
        self.terminal.warn(message);
    }

    /// Ends a command that did what it was asked: prints the document with `--json`, otherwise the message.
    pub(super) fn finish(&mut self, document: &Value, message: &str) -> CliResult {
        if self.global.json {
            self.terminal.print_json(document)?;
        } else {
            self.terminal.info(message);
        }
        Ok(code::OK)
    }

    /// As [`Self::finish`], for a command whose answer is the line: it goes to stdout.
    pub(super) fn answer(&mut self, document: &Value, line: &str) -> CliResult {
        if self.global.json {
            self.terminal.print_json(document)?;
        } else {
            self.terminal.print(line)?;
        }
        Ok(code::OK)
    }

    /// Prints the JSON document of a command, indented.
    pub(super) fn print_document(&mut self, document: impl Into<Value>) -> CliResult {
        self.terminal.print_pretty(document)?;
        Ok(code::OK)
    }

    /// The configuration, for a command that needs it; fails if it cannot be read.
    pub(super) fn config(&self) -> CliResult<&Config> {
        self.config.as_ref().map_err(|error| error.clone().into())
    }

    /// The configured server named `name`; none if the configuration cannot be read.
    pub(super) fn configured(&self, name: &ServerName) -> Option<&ServerConfig> {
        self.config.as_ref().ok()?.entry(name)
    }

    /// Options that a suggested command needs to find this session, e.g. ` --session nightly`. Messages on stderr get them
    /// from [`Terminal::report`].
    pub(super) fn flags(&self) -> String {
        self.flags_to(&self.paths.session, &self.default_session)
    }

    /// Options that select `session` in a command whose default session is `default`.
    pub(super) fn flags_to(&self, session: &str, default: &str) -> String {
        // Writing to a string cannot fail.
        let mut flags = String::new();
        if let Some(host) = &self.reached_as {
            let _ = write!(flags, " --host {}", text::shell_word(host));
        }
        let from_environment = std::env::var_os(STATE_DIR).map(PathBuf::from);
        let state_dir = self.global.state_dir.as_ref();
        if let Some(dir) = state_dir.filter(|dir| from_environment.as_ref() != Some(dir)) {
            let dir = dir.to_string_lossy();
            let _ = write!(flags, " --state-dir {}", text::shell_word(&dir));
        }
        if session != default {
            let _ = write!(flags, " --session {}", text::shell_word(session));
        }
        flags
    }

    /// Tells the terminal which options the commands in its messages need.
    pub(super) fn complete_suggestions(&mut self) {
        self.terminal.flags = self.flags();
        self.terminal.server_url = match self.global.server.as_slice() {
            // As typed, but never a URL that may contain a secret.
            [text] if text.contains('/') && server_url::redacted(text) == *text => {
                Some(text.clone())
            }
            _ => None,
        };
    }

    /// Every other session that can be read, with its name; used only for hints.
    pub(super) fn other_sessions(&self) -> Vec<(String, Reader)> {
        let all = self.paths.all().unwrap_or_default().into_iter();
        let others = all.filter(|it| it.session != self.paths.session);
        let open = |paths: Paths| Some((paths.session.clone(), Reader::open(&paths).ok()?));
        others.filter_map(open).collect()
    }

    /// The message for a task that is not in this session; names the session that has it, if any.
    fn task_not_found(&self, prefix: &str) -> String {
        let here = &self.paths.session;
        let has_it =
            |reader: &mut Reader| !matches!(reader.task(prefix), Ok(Lookup::None) | Err(_));
        let found = self
            .other_sessions()
            .into_iter()
            .find_map(|(name, mut reader)| has_it(&mut reader).then_some(name));
        match found {
            Some(there) => format!(
                "no task {prefix:?} in session {here}, but session {there} has it; add --session {there}"
            ),
            None => {
                format!("no task {prefix:?} in session {here}; `longhaul ls --all` lists its tasks")
            }
        }
    }

    /// What this process does for the session.
    pub(super) fn role(&self) -> CliResult<ProcessRole> {
        if self.global.readonly {
            return Ok(ProcessRole::Watch);
        }
        let is_off = std::env::var_os("LONGHAUL_KEEPER").is_some_and(|it| it == "0");
        let is_configured = self.config.as_ref().is_ok_and(|it| it.defaults.no_keeper);
        if self.global.no_keeper || is_off || is_configured {
            return Ok(ProcessRole::Drive);
        }
        let program = std::env::current_exe().map_err(|error| {
            CliError::new(
                code::BUG,
                format!(
                    "could not find the longhaul executable ({error}); --no-keeper works without it"
                ),
            )
        })?;
        // Without a host, whatever the configuration says: it runs on this machine.
        let words = ["--host=", "keeper", "run", "--background", "--session"];
        let words = words.map(OsString::from);
        let session = OsString::from(&self.paths.session);
        let dir = [OsString::from("--state-dir"), self.paths.dir.clone().into()];
        Ok(ProcessRole::Client(KeeperCommand {
            program,
            args: words.into_iter().chain([session]).chain(dir).collect(),
            env: keeper_environment(std::env::vars_os()),
        }))
    }

    pub(super) fn reader(&self) -> CliResult<Reader> {
        Ok(Reader::open(&self.paths)?)
    }

    /// Opens the session file for a command that may become the driver.
    ///
    /// Sets a damaged file aside first, as the driver does; otherwise no command could get that far.
    pub(super) fn reader_to_act(&mut self) -> CliResult<Reader> {
        let (reader, notices) = self.reader_to_show()?;
        for notice in &notices {
            self.terminal.warn(notice);
        }
        Ok(reader)
    }

    /// As [`Self::reader_to_act`], but returns the notices, which the screen shows itself.
    pub(super) fn reader_to_show(&mut self) -> CliResult<(Reader, Vec<String>)> {
        // Reads something, because opening alone does not notice all damage.
        let open = |paths: &Paths| {
            let mut reader = Reader::open(paths)?;
            reader.links().map(|_| reader)
        };
        match open(&self.paths) {
            Err(StoreError::Damaged { .. }) if !self.global.readonly => {}
            other => return Ok((other?, Vec::new())),
        }
        let mut notices = Vec::new();
        if let Some(lock) = DriverLock::try_take(&self.paths)? {
            let opened = Writer::open(&self.paths, self.clock.now().wall)?;
            notices = opened.notices;
            drop((opened.writer, lock));
        }
        Ok((self.reader()?, notices))
    }

    /// The only task whose id starts with `prefix`.
    pub(super) fn find(&self, reader: &mut Reader, prefix: &str) -> CliResult<Task> {
        match reader.task(prefix)? {
            Lookup::One(task) => Ok(*task),
            Lookup::None => Err(CliError::usage(self.task_not_found(prefix))),
            Lookup::Many(ids) => {
                let ids: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
                Err(CliError::usage(format!(
                    "{prefix} matches several tasks: {}; use a longer prefix",
                    ids.join(", ")
                )))
            }
        }
    }

    /// The tasks whose ids start with `prefixes`, each once.
    pub(super) fn find_each(
        &self,
        reader: &mut Reader,
        prefixes: &[String],
    ) -> CliResult<Vec<Task>> {
        let tasks = prefixes.iter().map(|prefix| self.find(reader, prefix));
        let tasks: Vec<Task> = tasks.try_collect()?;
        Ok(tasks
            .into_iter()
            .unique_by(|task| task.id.clone())
            .collect())
    }

    /// Prints what is wrong in the configuration, once.
    pub(super) fn report_config_notices(&mut self) {
        let notices = self.config.as_mut();
        let notices = notices.map(|it| std::mem::take(&mut it.notices));
        for notice in notices.unwrap_or_default() {
            self.terminal.warn(&notice);
        }
    }

    /// Fails with `--readonly`.
    pub(super) fn may_act(&self) -> CliResult<()> {
        if self.global.readonly {
            return Err(CliError::usage(
                "refused: --readonly is set; run the command without it",
            ));
        }
        Ok(())
    }
}

/// The part of a client's environment that a keeper gets. What a server needs comes from its client by name.
fn keeper_environment(
    all: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    const NAMES: [&str; 8] = [
        "DBUS_SESSION_BUS_ADDRESS",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "ALL_PROXY",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "RUST_BACKTRACE",
    ];
    let is_kept = |name: &OsString| {
        let name = name.to_string_lossy();
        let is_it = |known: &&str| name.eq_ignore_ascii_case(known);
        name.starts_with("LONGHAUL_") && name != REACHED_AS
            || name.starts_with("XDG_")
            || name.starts_with("LC_")
            || USUAL_ENVIRONMENT.iter().chain(&NAMES).any(is_it)
    };
    let absolute = |(name, value): (OsString, OsString)| {
        // The keeper runs in another directory.
        let is_path = name == config::PATH_VARIABLE || name == STATE_DIR;
        let path = std::path::absolute(&value).ok().filter(|_| is_path);
        (name, path.map_or(value, Into::into))
    };
    all.filter(|(name, _)| is_kept(name))
        .map(absolute)
        .collect()
}

/// Writes a file for the user. A failure is not `CANNOT_SAVE`, because the session is unaffected.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> CliResult<()> {
    replace_atomically(path, bytes).map_err(|error| {
        let why = text::os_error(&error);
        CliError::usage(format!("could not write {}: {why}", path.display()))
    })
}

/// Asks a yes-or-no question; without a terminal the answer is no.
pub(super) fn confirm(context: &mut Context<'_>, question: &str) -> CliResult<bool> {
    if !context.terminal.is_for_people() {
        return Ok(false);
    }
    context.report(question);
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Asks a yes-or-no question unless `--yes` answered it; `refusal` is the error if the answer is no.
pub(super) fn must_confirm(
    context: &mut Context<'_>,
    is_sure: bool,
    question: &str,
    refusal: &str,
) -> CliResult<()> {
    if is_sure || confirm(context, question)? {
        return Ok(());
    }
    Err(CliError::usage(refusal))
}

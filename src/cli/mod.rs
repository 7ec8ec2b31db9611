//! The command line: arguments in, lines and exit codes out.
//!
//! Owns the commands, their output and their exit codes, and is the only module that reads environment variables. Must
//! not know of wire formats or SQL: it sends requests to the engine and reads through the store. Invariants: data goes to
//! stdout and everything else to stderr; history is printed from committed entries, once and in order; text from a server
//! is sanitized before it is printed, except with `--raw`.

mod adopt;
mod answer;
mod args;
mod call;
mod checkpoints;
mod client_state;
mod complete;
mod config;
mod controls;
#[cfg(feature = "demo")]
mod demo;
mod doctor;
mod error;
mod export;
mod follow;
mod format;
mod import;
mod inspect;
mod json;
mod live_session;
mod login;
mod manual;
mod prompt;
mod screen;
mod servers;
mod sessions;
mod target;
mod terminal;
mod trace;

use std::{
    ffi::OsString,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};

use clap::Parser as _;

use self::{
    args::{Cli, CliCommand, GlobalArgs, ServersCommand, SessionsCommand},
    error::{CliError, code},
    terminal::{StdoutLoss, Terminal},
};
#[doc(hidden)]
pub use self::{
    client_state::{ClientState, ClientTask},
    config::Config,
    import::Imported,
};
use crate::{
    auth::{Keychain, Logins},
    domain::{Task, TaskId},
    engine::Clock,
    shell::real::FileMark,
    store::{DriverLock, Lookup, Paths, Reader, StoreError, Writer, survive_file_size_limit},
    term::{guard, interruptible::InterruptibleWriter},
};

/// Shared state of a command: global options, session paths, output and configuration.
struct Context<'o> {
    global: GlobalArgs,
    paths: Paths,
    terminal: Terminal<'o>,
    clock: Clock,
    /// The user's configuration; `Err` is the message why it cannot be read.
    config: Result<Config, String>,
    /// State of the configuration file before it was read, to notice later changes.
    config_mark: FileMark,
    /// The session used without `--session`.
    default_session: String,
    logins: Logins,
}

impl Context<'_> {
    /// The configuration, for a command that needs it; fails if it cannot be read.
    fn config(&self) -> Result<&Config, CliError> {
        self.config
            .as_ref()
            .map_err(|message| CliError::usage(message.clone()))
    }

    /// Options that a suggested command needs to find this session, e.g. ` --session nightly`.
    fn flags(&self) -> String {
        self.flags_with_default(&self.default_session)
    }

    /// As [`Self::flags`], for a command whose default session is `default`.
    fn flags_with_default(&self, default: &str) -> String {
        self.flags_to(self.paths.session(), default)
    }

    /// Options that select `session` in a command whose default session is `default`.
    fn flags_to(&self, session: &str, default: &str) -> String {
        let mut flags = String::new();
        let from_environment = std::env::var_os(args::STATE_DIR).map(std::path::PathBuf::from);
        if let Some(dir) = self
            .global
            .state_dir
            .as_ref()
            .filter(|dir| from_environment.as_ref() != Some(dir))
        {
            flags.push_str(" --state-dir ");
            flags.push_str(&quoted(&dir.to_string_lossy()));
        }
        if session != default {
            flags.push_str(" --session ");
            flags.push_str(&quoted(session));
        }
        flags
    }

    /// Completes the commands between backticks in a message from the engine, which does not know the options that they
    /// need to find this session or server.
    fn with_flags(&self, message: &str) -> String {
        let server_url = match self.global.server.as_slice() {
            // As typed, but never a URL that may contain a secret.
            [text] if text.contains('/') && crate::domain::server_url::redacted(text) == *text => {
                Some(text)
            }
            _ => None,
        };
        add_flags(message, &self.flags(), server_url.map(String::as_str))
    }

    /// Every other session that can be read, with its name; used only for hints.
    fn other_sessions(&self) -> Vec<(String, Reader)> {
        let all = self.paths.all().unwrap_or_default().into_iter();
        let others = all.filter(|it| it.session() != self.paths.session());
        let open = |paths: Paths| Some((paths.session().to_owned(), Reader::open(&paths).ok()?));
        others.filter_map(open).collect()
    }

    /// The message for a task that is not in this session; names the session that has it, if any.
    fn task_not_found(&self, prefix: &str) -> String {
        let here = self.paths.session();
        let has_it =
            |reader: &mut Reader| !matches!(reader.task(prefix), Ok(Lookup::None) | Err(_));
        let found = self
            .other_sessions()
            .into_iter()
            .find_map(|(name, mut reader)| has_it(&mut reader).then_some(name));
        match found {
            Some(there) => format!(
                "could not find a task {prefix:?} in session {here}, but session {there} has it; add --session {there}"
            ),
            None => format!(
                "could not find a task {prefix:?} in session {here}; `longhaul ls --all{}` lists its tasks",
                self.flags()
            ),
        }
    }

    fn reader(&self) -> Result<Reader, CliError> {
        Ok(Reader::open(&self.paths)?)
    }

    /// Opens the session file for a command that may become the driver.
    ///
    /// Sets a damaged file aside first, as the driver does; otherwise no command could get that far.
    fn reader_to_act(&mut self) -> Result<Reader, CliError> {
        let (reader, notices) = self.reader_to_show()?;
        for notice in &notices {
            let line = format!("longhaul: {}", crate::domain::text::clean_line(notice));
            self.terminal.report(&line);
        }
        Ok(reader)
    }

    /// As [`Self::reader_to_act`], but returns the notices, which the screen shows itself.
    fn reader_to_show(&mut self) -> Result<(Reader, Vec<String>), CliError> {
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
            notices = opened.remarks;
            drop((opened.writer, lock));
        }
        Ok((self.reader()?, notices))
    }

    /// The only task whose id starts with `prefix`.
    fn find(&self, reader: &mut Reader, prefix: &str) -> Result<Task, CliError> {
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

    /// Fails with `--readonly`.
    fn may_act(&self) -> Result<(), CliError> {
        if self.global.readonly {
            return Err(CliError::usage(
                "not done, because --readonly is set; run the command without it",
            ));
        }
        Ok(())
    }
}

/// Runs the program. `args` begins with the program name; data goes to `out`, everything else to stderr.
pub fn run(args: impl IntoIterator<Item = OsString>, out: &mut dyn Write) -> ExitCode {
    if let Some(shell) = std::env::var_os(complete::VARIABLE).filter(|it| !it.is_empty()) {
        complete::print_candidates(&shell, args.into_iter().collect(), out);
        return ExitCode::from(code::OK);
    }
    let help_of = |cli: Cli| match &cli.command {
        Some(CliCommand::Help(help)) => Cli::try_parse_from(help.as_help_flag()),
        _ => Ok(cli),
    };
    let cli = match Cli::try_parse_from(args).and_then(help_of) {
        Ok(cli) => cli,
        Err(error) => {
            let is_error = error.use_stderr();
            let text = error.render().to_string();
            let written = if is_error {
                // The error repeats the arguments, which a script may have received from a server.
                let text = crate::domain::text::clean_block(&text);
                write!(std::io::stderr().lock(), "{text}")
            } else {
                write!(out, "{text}").and_then(|()| out.flush())
            };
            // A closed stdout is not an error for help.
            let _ = written;
            return ExitCode::from(if is_error { code::REFUSED } else { code::OK });
        }
    };
    let mut err = InterruptibleWriter::new(std::io::stderr());
    let mut terminal = Terminal::new(out, &mut err, cli.global.quiet, cli.global.ascii);
    guard::install_panic_hook();
    // If this fails, a write beyond the limit ends the process, which is the default.
    let _ = survive_file_size_limit();
    let outcome = catch_unwind(AssertUnwindSafe(|| dispatch(cli, &mut terminal)));
    terminal.clear_bar();
    let Ok(outcome) = outcome else {
        return ExitCode::from(code::BUG);
    };
    let code = match outcome {
        Ok(code) => code,
        // The reader has enough, as in `longhaul ls | head`.
        Err(CliError::StdoutUnread(StdoutLoss::Closed)) => ExitCode::from(code::OK),
        Err(CliError::StdoutUnread(StdoutLoss::Stalled)) => ExitCode::from(code::INTERRUPTED),
        Err(CliError::Message { code, text: words }) => {
            terminal.report(&format!("longhaul: {words}"));
            ExitCode::from(code)
        }
    };
    // A background thread panicked.
    if guard::has_panicked() {
        return ExitCode::from(code::BUG);
    }
    code
}

/// The stored sign-ins of this state directory.
fn logins(paths: &Paths, defaults: Option<&config::Defaults>) -> Logins {
    Logins::new(&paths.logins(), keychain(defaults))
}

/// The desktop keychain, unless it is switched off or cannot exist here.
fn keychain(defaults: Option<&config::Defaults>) -> Keychain {
    if defaults.is_some_and(|it| it.no_keychain) {
        return Keychain::none("the configuration says keychain = false");
    }
    let bus = || {
        let address = std::env::var_os("DBUS_SESSION_BUS_ADDRESS").filter(|it| !it.is_empty());
        // Without an existing bus the library would start one.
        address.is_some()
            || std::env::var_os("XDG_RUNTIME_DIR")
                .is_some_and(|dir| std::path::Path::new(&dir).join("bus").exists())
    };
    if !cfg!(target_os = "macos") && !bus() {
        return Keychain::none("no keychain, because there is no D-Bus session");
    }
    Keychain::desktop()
}

fn dispatch(cli: Cli, terminal: &mut Terminal<'_>) -> Result<ExitCode, CliError> {
    let Cli {
        mut global,
        command,
    } = cli;
    let config_mark = config::mark();
    let config = match config::missing() {
        Some(message) if matches!(command, Some(CliCommand::Doctor(_))) => Err(message),
        Some(message) if !ignores_missing_config(command.as_ref()) => {
            return Err(CliError::usage(message));
        }
        _ => config::read(config::path().as_deref()),
    };
    let defaults = config.as_ref().map(|it| &it.defaults).ok();
    let default_session = defaults
        .and_then(|it| it.session.clone())
        .unwrap_or_else(|| args::DEFAULT_SESSION.to_owned());
    if let Some(defaults) = defaults {
        global.color = global.color.or(defaults.color);
        global.ascii |= defaults.ascii;
        global.no_motion |= defaults.no_motion;
        terminal.use_ascii(global.ascii);
    }
    let command_default = match &command {
        // The demo has its own session.
        #[cfg(feature = "demo")]
        Some(CliCommand::Demo(_)) => args::DEMO_SESSION,
        _ => &default_session,
    };
    let session = global.session.as_deref().unwrap_or(command_default);
    let from_environment = || {
        std::env::var_os(args::STATE_DIR)
            .filter(|dir| !dir.is_empty())
            .map(std::path::PathBuf::from)
    };
    let state_dir = global.state_dir.clone().or_else(from_environment);
    let mut startup_errors = Vec::new();
    let is_doctor = matches!(command, Some(CliCommand::Doctor(_)));
    let paths = match Paths::resolve(state_dir.clone(), session) {
        // `doctor` reports what cannot be opened instead of failing.
        Err(error) if is_doctor && !matches!(error, StoreError::BadName(_)) => {
            startup_errors.push(format!("could not {error}"));
            Paths::unopened(state_dir, session)?
        }
        paths => paths?,
    };
    match start_log(&global, &paths) {
        Err(fail) if is_doctor => startup_errors.push(fail.into_message()),
        started => started?,
    }
    let logins = logins(&paths, defaults);
    let mut context = Context {
        logins,
        global,
        paths,
        terminal: terminal.reborrow(),
        clock: Clock::start(),
        config,
        config_mark,
        default_session,
    };
    let context = &mut context;
    let code = match command {
        None => return screen::open(context, None, false),
        Some(CliCommand::Attach(attach)) => {
            return screen::open(context, attach.id.as_deref(), attach.drive);
        }
        #[cfg(feature = "demo")]
        Some(CliCommand::Demo(demo)) => return demo::run(context, &demo),
        Some(CliCommand::Tools) => call::tools(context),
        Some(CliCommand::Call(call)) => call::call(context, call),
        Some(CliCommand::Again(again)) => call::again(context, again),
        Some(CliCommand::Ls(ls)) => inspect::ls(context, &ls),
        Some(CliCommand::Show(one)) => inspect::show(context, &one.id),
        Some(CliCommand::Result(result)) => inspect::result(context, &result),
        Some(CliCommand::Logs(logs)) => inspect::logs(context, &logs),
        Some(CliCommand::Watch(watch)) => follow::watch(context, &watch.id, watch.new),
        Some(CliCommand::Wait(wait)) => controls::wait(context, &wait),
        Some(CliCommand::Pause(which)) => {
            controls::control(context, controls::TaskAction::Pause, &which)
        }
        Some(CliCommand::Resume(which)) => {
            controls::control(context, controls::TaskAction::Resume, &which)
        }
        Some(CliCommand::Cancel(which)) => {
            controls::control(context, controls::TaskAction::Cancel, &which)
        }
        Some(CliCommand::Answer(args)) => answer::answer(context, &args),
        Some(CliCommand::Adopt(args)) => adopt::adopt(context, &args),
        Some(CliCommand::Edit(edit)) => controls::edit(context, edit),
        Some(CliCommand::Rm(rm)) => controls::rm(context, &rm),
        Some(CliCommand::Clean(clean)) => controls::clean(context, &clean),
        Some(CliCommand::Servers { command }) => match command {
            ServersCommand::List => servers::list(context),
            ServersCommand::Add(add) => servers::add(context, &add),
            ServersCommand::Remove(remove) => servers::remove(context, &remove),
            ServersCommand::Test(test) => servers::test(context, &test),
            ServersCommand::Import(import) => import::import(context, &import),
            ServersCommand::Consent(consent) => servers::consent(context, &consent),
            ServersCommand::Approve(approve) => servers::approve(context, &approve),
        },
        Some(CliCommand::Doctor(doctor)) => doctor::doctor(context, &doctor, startup_errors),
        Some(CliCommand::Export(which)) => export::export(context, &which),
        Some(CliCommand::Trace(args)) => trace::trace(context, &args),
        Some(CliCommand::Sessions { command }) => match command {
            SessionsCommand::List => sessions::list(context),
            SessionsCommand::Rm(remove) => sessions::remove(context, &remove),
        },
        Some(CliCommand::Completions { shell }) => manual::completions(context, shell),
        Some(CliCommand::Man(man)) => manual::man(context, &man),
        // `run` has printed the help text already.
        Some(CliCommand::Help(_)) => Ok(code::OK),
        Some(CliCommand::Login(args)) => login::login(context, &args),
        Some(CliCommand::Logout(args)) => login::logout(context, &args),
        Some(CliCommand::Paths) => inspect::paths(context),
    }?;
    Ok(ExitCode::from(code))
}

/// Whether a command runs although the configuration file is missing, because it creates or does not use that file.
fn ignores_missing_config(command: Option<&CliCommand>) -> bool {
    matches!(
        command,
        Some(
            CliCommand::Paths
                | CliCommand::Man(_)
                | CliCommand::Completions { .. }
                | CliCommand::Servers {
                    command: ServersCommand::Add(_) | ServersCommand::Import(_)
                }
        )
    )
}

/// Runs a command that uses the engine, on a runtime of its own.
fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(code::BUG, format!("could not start a runtime: {error}")))?;
    runtime.block_on(work)
}

/// Starts the log file if `--verbose` is set.
fn start_log(global: &GlobalArgs, paths: &Paths) -> Result<(), CliError> {
    let level = match global.verbose {
        0 => return Ok(()),
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    let file = paths.open_log()?;
    // Fails on the second call in one process, as in tests; the first log file stays.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(CleanFile(file)))
        .try_init();
    Ok(())
}

/// A log file without control characters, so that `cat` is safe whatever a server sent.
struct CleanFile(std::fs::File);

impl Write for CleanFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Each write is a complete event, so no UTF-8 sequence is split.
        let text = String::from_utf8_lossy(bytes);
        self.0
            .write_all(crate::domain::text::clean_block(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// The trimmed value of an environment variable that may be sent to a server; `None` if it is unset or blank.
fn env_secret(name: &str) -> Option<secrecy::SecretString> {
    let value = std::env::var_os(name)?.into_string().ok()?;
    let value = value.trim();
    (!value.is_empty()).then(|| secrecy::SecretString::from(value))
}

/// Random bits from the operating system, for ids and jitter.
fn random_bits() -> u64 {
    // The standard library seeds every new `RandomState` from the system.
    RandomState::new().build_hasher().finish()
}

/// Where the crash tests end the process, from `LONGHAUL_DIE_AFTER`; debug builds only.
#[cfg(debug_assertions)]
fn die_after() -> Option<u64> {
    std::env::var_os("LONGHAUL_DIE_AFTER")?
        .to_str()?
        .parse()
        .ok()
}

#[cfg(not(debug_assertions))]
fn die_after() -> Option<u64> {
    None
}

/// Adds `flags` to the longhaul commands between backticks that work on a session. With `server_url`, `longhaul login` gets
/// the URL instead of a name that may not be stored yet.
fn add_flags(message: &str, flags: &str, server_url: Option<&str>) -> String {
    let pieces: Vec<&str> = message.split('`').collect();
    let last = pieces.len().saturating_sub(1);
    let piece = |(index, piece): (usize, &&str)| {
        let is_command = index % 2 == 1 && index < last && piece.starts_with("longhaul ");
        let needs_no_flags = piece.starts_with("longhaul servers") || piece.contains(" --session ");
        match server_url {
            _ if !is_command || needs_no_flags => (*piece).to_owned(),
            Some(url) if piece.starts_with("longhaul login ") => {
                format!("longhaul login {}{flags}", quoted(url))
            }
            _ => format!("{piece}{flags}"),
        }
    };
    let pieces: Vec<String> = pieces.iter().enumerate().map(piece).collect();
    pieces.join("`")
}

/// Quotes a word for a shell, if it needs quotes.
fn quoted(word: &str) -> String {
    crate::domain::text::shell_word(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_flags_to_commands_between_backticks() {
        let flags = " --session n";
        for (message, expected) in [
            ("plain", "plain"),
            ("`longhaul ls`", "`longhaul ls --session n`"),
            (
                "a `longhaul again x` and `longhaul rm x`",
                "a `longhaul again x --session n` and `longhaul rm x --session n`",
            ),
            (
                "`fg` and `longhaul servers add`",
                "`fg` and `longhaul servers add`",
            ),
            ("an odd ` and longhaul ls", "an odd ` and longhaul ls"),
            ("odd `longhaul ls", "odd `longhaul ls"),
            ("`longhaul ls --session m`", "`longhaul ls --session m`"),
        ] {
            assert_eq!(add_flags(message, flags, None), expected);
        }
        let message = add_flags("`longhaul login a:1`, or", "", Some("http://a:1/mcp"));
        assert_eq!(message, "`longhaul login http://a:1/mcp`, or");
    }

    #[test]
    fn log_contains_no_control_characters() {
        let mut file = tempfile::tempfile().unwrap();
        let line = "a\u{1b}[2J\u{9b}\u{202e}\n".as_bytes();
        let mut log = CleanFile(file.try_clone().unwrap());
        assert_eq!(log.write(line).unwrap(), line.len());
        let mut written = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        std::io::Read::read_to_string(&mut file, &mut written).unwrap();
        assert_eq!(written, "a\u{fffd}[2J\u{fffd}\u{fffd}\n");
    }
}

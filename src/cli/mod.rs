//! The command line: arguments in, lines and exit codes out.
//!
//! Owns the words of the commands, what they print and how they end; the only room that reads the environment. Must not
//! know of wires or of statements: it asks the engine and reads through the store. Invariants: data goes to stdout and
//! everything else to stderr; history is printed from what is committed, once and in order; nothing that a server sent
//! is printed before it was cleaned, except where `--raw` asks for it.

mod act;
mod adopt;
mod answer;
mod args;
mod calls;
mod checkpoints;
mod complete;
mod config;
#[cfg(feature = "demo")]
mod demo;
mod doctor;
mod export;
mod fail;
mod follow;
mod import;
mod json;
mod lines;
mod live;
mod login;
mod manual;
mod prompt;
mod read;
mod saved;
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
    args::{Cli, Command, Global, ServersCommand, SessionsCommand},
    fail::{Fail, code},
    terminal::{Terminal, Unread},
};
#[doc(hidden)]
pub use self::{
    config::Config,
    import::Imported,
    saved::{Saved, SavedTask},
};
use crate::{
    auth::{Keychain, Logins},
    domain::{Task, TaskId},
    engine::Clock,
    shell::real::FileMark,
    store::{DriverLock, Lookup, Paths, Reader, StoreError, Writer, survive_file_size_limit},
    term::{guard, interruptible::InterruptibleWriter},
};

/// What every command works with.
struct Context<'o> {
    global: Global,
    paths: Paths,
    terminal: Terminal<'o>,
    clock: Clock,
    /// What the user's file says; `Err` says in words why it cannot be read.
    config: Result<Config, String>,
    /// The mark of that file before it was read.
    config_mark: FileMark,
    /// The session that is used when none is named.
    usual_session: String,
    /// Who is signed in where.
    logins: Logins,
}

impl Context<'_> {
    /// What is configured, for a command that speaks to servers.
    fn config(&self) -> Result<&Config, Fail> {
        self.config
            .as_ref()
            .map_err(|words| Fail::usage(words.clone()))
    }

    /// Flags that a command needs to find this session again, e.g. ` --session nightly`.
    fn flags(&self) -> String {
        self.flags_beside(&self.usual_session)
    }

    /// As [`Self::flags`], for a command that takes the session `own` by itself.
    fn flags_beside(&self, own: &str) -> String {
        self.flags_to(self.paths.session(), own)
    }

    /// Flags that lead to `session` from a command that takes the session `own` by itself.
    fn flags_to(&self, session: &str, own: &str) -> String {
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
        if session != own {
            flags.push_str(" --session ");
            flags.push_str(&quoted(session));
        }
        flags
    }

    /// Words of the engine, which knows nothing of flags: its commands between backticks, with those that they need to find
    /// this session again, or the server.
    fn whole(&self, words: &str) -> String {
        let by_url = match self.global.server.as_slice() {
            // As it was written; what may hold a secret is not said again.
            [text] if text.contains('/') && crate::domain::place::shown(text) == *text => {
                Some(text)
            }
            _ => None,
        };
        whole(words, &self.flags(), by_url.map(String::as_str))
    }

    /// The other sessions beside this one, by name; what cannot be read is left out, as it is only for a hint.
    fn other_sessions(&self) -> Vec<(String, Reader)> {
        let all = self.paths.all().unwrap_or_default().into_iter();
        let others = all.filter(|it| it.session() != self.paths.session());
        let open = |paths: Paths| Some((paths.session().to_owned(), Reader::open(&paths).ok()?));
        others.filter_map(open).collect()
    }

    /// The words for a task that is not in this session, and where it is if another one has it.
    fn not_found(&self, prefix: &str) -> String {
        let here = self.paths.session();
        let has_it =
            |reader: &mut Reader| !matches!(reader.task(prefix), Ok(Lookup::None) | Err(_));
        let found = self
            .other_sessions()
            .into_iter()
            .find_map(|(name, mut reader)| has_it(&mut reader).then_some(name));
        match found {
            Some(there) => format!(
                "could not find a task {prefix:?} in session {here}; session {there} has it: add --session {there}"
            ),
            None => format!(
                "could not find a task {prefix:?} in session {here}; `longhaul ls --all{}` lists what it has",
                self.flags()
            ),
        }
    }

    /// The session file, for reading.
    fn reader(&self) -> Result<Reader, Fail> {
        Ok(Reader::open(&self.paths)?)
    }

    /// The session file, for reading, before this process perhaps drives the session.
    ///
    /// A damaged file is set aside first, as whoever drives would do: otherwise no command would come as far as that.
    fn reader_to_act(&mut self) -> Result<Reader, Fail> {
        let (reader, remarks) = self.reader_to_show()?;
        for remark in &remarks {
            let line = format!("longhaul: {}", crate::domain::text::clean_line(remark));
            self.terminal.say(&line);
        }
        Ok(reader)
    }

    /// As [`Self::reader_to_act`], for a screen, which says itself what a person should hear of.
    fn reader_to_show(&mut self) -> Result<(Reader, Vec<String>), Fail> {
        let whole = |paths: &Paths| {
            let mut reader = Reader::open(paths)?;
            reader.links().map(|_| reader)
        };
        match whole(&self.paths) {
            Err(StoreError::Damaged { .. }) if !self.global.readonly => {}
            other => return Ok((other?, Vec::new())),
        }
        let mut remarks = Vec::new();
        if let Some(lock) = DriverLock::try_take(&self.paths)? {
            let opened = Writer::open(&self.paths, self.clock.now().wall)?;
            remarks = opened.remarks;
            drop((opened.writer, lock));
        }
        Ok((self.reader()?, remarks))
    }

    /// The one task whose id begins so.
    fn find(&self, reader: &mut Reader, prefix: &str) -> Result<Task, Fail> {
        match reader.task(prefix)? {
            Lookup::One(task) => Ok(*task),
            Lookup::None => Err(Fail::usage(self.not_found(prefix))),
            Lookup::Many(ids) => {
                let ids: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
                Err(Fail::usage(format!(
                    "{prefix} begins more than one id: {}; write more of it",
                    ids.join(", ")
                )))
            }
        }
    }

    /// Ends a command that would change something, with `--readonly`.
    fn may_act(&self) -> Result<(), Fail> {
        if self.global.readonly {
            return Err(Fail::usage(
                "not done: --readonly only looks; leave it out to act",
            ));
        }
        Ok(())
    }
}

/// Runs the program: arguments with the program's name first, stdout as a writer.
pub fn run(args: impl IntoIterator<Item = OsString>, out: &mut dyn Write) -> ExitCode {
    if let Some(shell) = std::env::var_os(complete::VARIABLE).filter(|it| !it.is_empty()) {
        complete::answer(&shell, args.into_iter().collect(), out);
        return ExitCode::from(code::OK);
    }
    let help_of = |cli: Cli| match &cli.command {
        Some(Command::Help(help)) => Cli::try_parse_from(help.line()),
        _ => Ok(cli),
    };
    let cli = match Cli::try_parse_from(args).and_then(help_of) {
        Ok(cli) => cli,
        Err(error) => {
            let is_error = error.use_stderr();
            let text = error.render().to_string();
            let written = if is_error {
                // It repeats what was given, which a script may have from a server.
                let text = crate::domain::text::clean_block(&text);
                write!(std::io::stderr().lock(), "{text}")
            } else {
                write!(out, "{text}").and_then(|()| out.flush())
            };
            // Help that nobody reads is no error.
            let _ = written;
            return ExitCode::from(if is_error { code::REFUSED } else { code::OK });
        }
    };
    let mut err = InterruptibleWriter::new(std::io::stderr());
    let mut terminal = Terminal::new(out, &mut err, cli.global.quiet, cli.global.ascii);
    guard::install_panic_hook();
    // Without it such a write ends the program, as it did before.
    let _ = survive_file_size_limit();
    let outcome = catch_unwind(AssertUnwindSafe(|| dispatch(cli, &mut terminal)));
    terminal.clear_bar();
    let Ok(outcome) = outcome else {
        return ExitCode::from(code::BUG);
    };
    let code = match outcome {
        Ok(code) => code,
        // That is no error.
        Err(Fail::Unread(Unread::Closed)) => ExitCode::from(code::OK),
        Err(Fail::Unread(Unread::Untaken)) => ExitCode::from(code::INTERRUPTED),
        Err(Fail::Said { code, words }) => {
            terminal.say(&format!("longhaul: {words}"));
            ExitCode::from(code)
        }
    };
    // Whatever came of it, a thread of ours met a bug.
    if guard::has_panicked() {
        return ExitCode::from(code::BUG);
    }
    code
}

/// Who is signed in where.
fn logins(paths: &Paths, defaults: Option<&config::Defaults>) -> Logins {
    Logins::new(&paths.logins(), keychain(defaults))
}

/// The keychain of this desktop, if it is to be used and there may be one.
fn keychain(defaults: Option<&config::Defaults>) -> Keychain {
    if defaults.is_some_and(|it| it.no_keychain) {
        return Keychain::none("the configuration says keychain = false");
    }
    let bus = || {
        let address = std::env::var_os("DBUS_SESSION_BUS_ADDRESS").filter(|it| !it.is_empty());
        // Without either the library would start a bus of its own.
        address.is_some()
            || std::env::var_os("XDG_RUNTIME_DIR")
                .is_some_and(|dir| std::path::Path::new(&dir).join("bus").exists())
    };
    if !cfg!(target_os = "macos") && !bus() {
        return Keychain::none("no keychain is here, as there is no D-Bus session");
    }
    Keychain::desktop()
}

fn dispatch(cli: Cli, terminal: &mut Terminal<'_>) -> Result<ExitCode, Fail> {
    let Cli {
        mut global,
        command,
    } = cli;
    let config_mark = config::mark();
    let config = match config::missing() {
        Some(words) if matches!(command, Some(Command::Doctor(_))) => Err(words),
        Some(words) if !needs_no_config(command.as_ref()) => return Err(Fail::usage(words)),
        _ => config::read(config::path().as_deref()),
    };
    let defaults = config.as_ref().map(|it| &it.defaults).ok();
    let usual_session = defaults
        .and_then(|it| it.session.clone())
        .unwrap_or_else(|| args::DEFAULT_SESSION.to_owned());
    if let Some(defaults) = defaults {
        global.color = global.color.or(defaults.color);
        global.ascii |= defaults.ascii;
        global.no_motion |= defaults.no_motion;
        terminal.use_ascii(global.ascii);
    }
    let own = match &command {
        // The demo has a session of its own.
        #[cfg(feature = "demo")]
        Some(Command::Demo(_)) => args::DEMO_SESSION,
        _ => &usual_session,
    };
    let session = global.session.as_deref().unwrap_or(own);
    let from_environment = || {
        std::env::var_os(args::STATE_DIR)
            .filter(|dir| !dir.is_empty())
            .map(std::path::PathBuf::from)
    };
    let state_dir = global.state_dir.clone().or_else(from_environment);
    let mut trouble = Vec::new();
    let is_doctor = matches!(command, Some(Command::Doctor(_)));
    let paths = match Paths::resolve(state_dir.clone(), session) {
        // What it cannot open is what it is asked about.
        Err(error) if is_doctor && !matches!(error, StoreError::BadName(_)) => {
            trouble.push(format!("could not {error}"));
            Paths::unopened(state_dir, session)?
        }
        paths => paths?,
    };
    match start_log(&global, &paths) {
        Err(fail) if is_doctor => trouble.push(fail.into_words()),
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
        usual_session,
    };
    let context = &mut context;
    let code = match command {
        None => return screen::open(context, None, false),
        Some(Command::Attach(attach)) => {
            return screen::open(context, attach.id.as_deref(), attach.drive);
        }
        #[cfg(feature = "demo")]
        Some(Command::Demo(demo)) => return demo::run(context, &demo),
        Some(Command::Tools) => calls::tools(context),
        Some(Command::Call(call)) => calls::call(context, call),
        Some(Command::Again(again)) => calls::again(context, again),
        Some(Command::Ls(ls)) => read::ls(context, &ls),
        Some(Command::Show(one)) => read::show(context, &one.id),
        Some(Command::Result(result)) => read::result(context, &result),
        Some(Command::Logs(logs)) => read::logs(context, &logs),
        Some(Command::Watch(watch)) => follow::watch(context, &watch.id, watch.new),
        Some(Command::Wait(wait)) => act::wait(context, &wait),
        Some(Command::Pause(which)) => act::act(context, act::TaskAction::Pause, &which),
        Some(Command::Resume(which)) => act::act(context, act::TaskAction::Resume, &which),
        Some(Command::Cancel(which)) => act::act(context, act::TaskAction::Cancel, &which),
        Some(Command::Answer(args)) => answer::answer(context, &args),
        Some(Command::Adopt(args)) => adopt::adopt(context, &args),
        Some(Command::Edit(edit)) => act::edit(context, edit),
        Some(Command::Rm(rm)) => act::rm(context, &rm),
        Some(Command::Clean(clean)) => act::clean(context, &clean),
        Some(Command::Servers { what }) => match what {
            ServersCommand::List => servers::list(context),
            ServersCommand::Add(add) => servers::add(context, &add),
            ServersCommand::Remove(remove) => servers::remove(context, &remove),
            ServersCommand::Test(test) => servers::test(context, &test),
            ServersCommand::Import(import) => import::import(context, &import),
            ServersCommand::Consent(of) => servers::consent(context, &of),
            ServersCommand::Approve(of) => servers::approve(context, &of),
        },
        Some(Command::Doctor(doctor)) => doctor::doctor(context, &doctor, trouble),
        Some(Command::Export(which)) => export::export(context, &which),
        Some(Command::Trace(args)) => trace::trace(context, &args),
        Some(Command::Sessions { what }) => match what {
            SessionsCommand::List => sessions::list(context),
            SessionsCommand::Rm(remove) => sessions::remove(context, &remove),
        },
        Some(Command::Completions { shell }) => manual::completions(context, shell),
        Some(Command::Man(man)) => manual::man(context, &man),
        // Its text was printed in place of this.
        Some(Command::Help(_)) => Ok(code::OK),
        Some(Command::Login(args)) => login::login(context, &args),
        Some(Command::Logout(args)) => login::logout(context, &args),
        Some(Command::Paths) => read::paths(context),
    }?;
    Ok(ExitCode::from(code))
}

/// Whether a command does its work without the configuration that was named: it makes it, or does not use it.
fn needs_no_config(command: Option<&Command>) -> bool {
    matches!(
        command,
        Some(
            Command::Paths
                | Command::Man(_)
                | Command::Completions { .. }
                | Command::Servers {
                    what: ServersCommand::Add(_) | ServersCommand::Import(_)
                }
        )
    )
}

/// Runs a command that speaks to the engine.
fn block_on<T>(work: impl Future<Output = Result<T, Fail>>) -> Result<T, Fail> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Fail::new(code::BUG, format!("could not start a runtime: {error}")))?;
    runtime.block_on(work)
}

/// What longhaul does goes to a file, and only if asked for.
fn start_log(global: &Global, paths: &Paths) -> Result<(), Fail> {
    let level = match global.verbose {
        0 => return Ok(()),
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    let file = paths.open_log()?;
    // A second call in one process, as in tests, keeps the first file.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(CleanFile(file)))
        .try_init();
    Ok(())
}

/// A log that can be shown on a terminal whatever a server made us write into it.
struct CleanFile(std::fs::File);

impl Write for CleanFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // An event comes whole, so no character is cut in two.
        let text = String::from_utf8_lossy(bytes);
        self.0
            .write_all(crate::domain::text::clean_block(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// What a variable of the environment holds, for whoever sends it to a server; nothing where it is empty.
fn variable(name: &str) -> Option<secrecy::SecretString> {
    let value = std::env::var_os(name)?.into_string().ok()?;
    let value = value.trim();
    (!value.is_empty()).then(|| secrecy::SecretString::from(value))
}

/// Random bits of the operating system, for ids and jitter; the one place where dice are thrown.
fn dice() -> u64 {
    // The standard library seeds this hasher from the system, anew for every one.
    RandomState::new().build_hasher().finish()
}

/// The kill tests' way to hit each window; not in a released program.
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

/// Adds `flags` to the commands of longhaul between backticks that go to a session; a sign-in goes to the server `by_url`,
/// whose name may be known to nobody yet.
fn whole(words: &str, flags: &str, by_url: Option<&str>) -> String {
    let pieces: Vec<&str> = words.split('`').collect();
    let last = pieces.len().saturating_sub(1);
    let piece = |(place, piece): (usize, &&str)| {
        let is_command = place % 2 == 1 && place < last && piece.starts_with("longhaul ");
        let is_of_all = piece.starts_with("longhaul servers") || piece.contains(" --session ");
        match by_url {
            _ if !is_command || is_of_all => (*piece).to_owned(),
            Some(url) if piece.starts_with("longhaul login ") => {
                format!("longhaul login {}{flags}", quoted(url))
            }
            _ => format!("{piece}{flags}"),
        }
    };
    let pieces: Vec<String> = pieces.iter().enumerate().map(piece).collect();
    pieces.join("`")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    crate::domain::text::shell_word(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_between_backticks_find_their_session_again() {
        let flags = " --session n";
        for (words, expected) in [
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
            assert_eq!(whole(words, flags, None), expected);
        }
        let words = whole("`longhaul login a:1`, or", "", Some("http://a:1/mcp"));
        assert_eq!(words, "`longhaul login http://a:1/mcp`, or");
    }

    #[test]
    fn the_log_can_be_shown_on_a_terminal() {
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

//! Terminal, files, disk, configuration and sessions.

use std::{
    fs,
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::{Path, PathBuf},
};

use crate::{
    auth::AuthError,
    cli::{
        Context,
        commands::doctor::report::{Checks, Severity},
        screen::capabilities,
    },
    config,
    domain::text,
    engine::ProcessRole,
    store::{DriverLock, Paths, Reader},
};
#[cfg(target_os = "linux")]
use crate::{cli::environment::systemd, engine::AtLogout};

/// With less free space than this, a session may soon fail to save.
const LOW_DISK_BYTES: u64 = 200_000_000;

/// With less free space than this, results are not saved.
const DISK_FULL_BYTES: u64 = 5_000_000;

/// The largest session file to check for damage; takes about a second.
const MAX_CHECKED_BYTES: u64 = 1_000_000_000;

pub(super) fn terminal(context: &Context<'_>, checks: &mut Checks) {
    checks.about("terminal");
    if !context.terminal.is_for_people() {
        checks.ok("none; commands work, but the screen needs a terminal");
        return;
    }
    let term = std::env::var_os("TERM").unwrap_or_default();
    let term = term.to_string_lossy();
    let capabilities = capabilities(context);
    if capabilities.has_cursor {
        checks.ok(format!("TERM is {term}"));
    } else {
        checks.wrong(
            format!("TERM is {term:?}, which can't move the cursor, so the screen does not work"),
            "set TERM to the type of your terminal, e.g. xterm-256color",
        );
    }
    if capabilities.is_unicode {
        checks.ok("UTF-8");
    } else {
        let message = "the locale is not UTF-8, so only ASCII is shown";
        checks.warning(message, "set LANG, e.g. to C.UTF-8");
    }
}

/// Owner and mode of our directories and files.
pub(super) fn files(context: &Context<'_>, checks: &mut Checks) {
    checks.about("paths");
    let paths = &context.paths;
    let mut check = |path: PathBuf, is_secret: bool| {
        let Ok(found) = fs::symlink_metadata(&path) else {
            return;
        };
        let shown = path.display().to_string();
        let mode = found.mode() & 0o777;
        let others = if is_secret { 0o077 } else { 0o022 };
        if found.uid() != rustix::process::geteuid().as_raw() {
            let next = format!("change its owner (`chown`), or use another directory: {shown}");
            checks.wrong(format!("{shown} belongs to another user"), next);
        } else if mode & others != 0 {
            let next = format!("chmod go-rwx {}", text::shell_word(&shown));
            let message = format!("other users have access to {shown} (mode {mode:o})");
            checks.warning(message, next);
        } else {
            checks.ok(format!("{shown} (mode {mode:o})"));
        }
    };
    check(paths.sessions_dir(), true);
    check(paths.db(), true);
    check(paths.log(), true);
    check(paths.logins(), true);
    if let Some(path) = config::path() {
        check(path, false);
    }
}

/// The file of sign-ins, which all sessions share.
pub(super) fn logins(context: &Context<'_>, checks: &mut Checks) {
    checks.about("sign-ins");
    let logins = &context.logins;
    match logins.read() {
        Ok(file) if file.logins.is_empty() => {}
        Ok(file) => {
            let protection = match logins.check_sealed() {
                Ok(()) => "encrypted with a key from the keychain".to_owned(),
                Err(why) => format!("not encrypted, readable only by you (mode 0600): {why}"),
            };
            let count = text::plural(file.logins.len(), "server");
            let message = format!("{count}, {protection}");
            checks.ok(message);
        }
        Err(error @ AuthError::Damaged { .. }) => {
            let next = "the next `longhaul login` moves it aside and starts a new one";
            checks.wrong(error.to_string(), next);
        }
        Err(error) => checks.wrong(
            error.to_string(),
            "saved sign-ins are not used until this is fixed",
        ),
    }
}

pub(super) fn disk(dir: &Path, checks: &mut Checks) {
    checks.about("disk");
    let free = match rustix::fs::statvfs(dir) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => {
            let message = format!("could not get the free space in {}: {error}", dir.display());
            return checks.warning(message, "check it with df");
        }
    };
    if rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_err() {
        let message = format!("{} is not writable", dir.display());
        return checks.wrong(message, "make it writable; until then nothing can be saved");
    }
    let message = format!("{} free in the state directory", text::bytes(free));
    if free < DISK_FULL_BYTES {
        let next = "free some space; tasks are not shown as done until they are saved";
        checks.wrong(message, next);
    } else if free < LOW_DISK_BYTES {
        checks.warning(message, "free some space before a long task");
    } else {
        checks.ok(message);
    }
}

pub(super) fn configuration(context: &Context<'_>, checks: &mut Checks) {
    checks.about("config");
    match &context.config {
        Err(message) => checks.wrong(
            message.to_string(),
            "no server can be used until this is fixed",
        ),
        Ok(config) => {
            for notice in &config.notices {
                checks.add(Severity::Warning, notice.clone(), None);
            }
            let count = text::plural(config.servers.len(), "server");
            checks.ok(format!("{count} configured"));
            let links = Reader::open(&context.paths).and_then(|mut reader| reader.links());
            let is_known = |name: &str| {
                config.servers.iter().any(|it| it.name.as_str() == name)
                    // An unreadable session is reported by its own check.
                    || links.as_ref().map_or(true, |links| links.iter().any(|it| it.name.as_str() == name))
            };
            let default = config.defaults.server.as_deref();
            if let Some(default) = default.filter(|name| !is_known(name)) {
                checks.warning(
                    format!("[defaults] has server = {default:?}, but no such server is known"),
                    format!(
                        "correct it, or add the server: `longhaul servers add {} URL`",
                        text::shell_word(default)
                    ),
                );
            }
        }
    }
}

/// Whether calls outlive the user's login and this machine's container.
pub(super) fn keeper(context: &Context<'_>, checks: &mut Checks) {
    checks.about("keeper");
    if !matches!(context.role(), Ok(ProcessRole::Client(_))) {
        checks.ok("off, so calls lose their connection when the process that runs them exits");
        return;
    }
    if is_in_container() {
        checks.ok(
            "in a container: the keeper ends when the container does; put the state directory on a volume",
        );
    }
    #[cfg(target_os = "linux")]
    logout(checks);
}

fn is_in_container() -> bool {
    // Written by Docker, by Podman, and by systemd for every kind that it knows.
    let marks = [
        "/.dockerenv",
        "/run/.containerenv",
        "/run/systemd/container",
    ];
    marks.iter().any(|mark| Path::new(mark).exists())
}

/// What a logout does to the keeper, as logind says.
#[cfg(target_os = "linux")]
fn logout(checks: &mut Checks) {
    let ends = match systemd().at_logout() {
        Ok(AtLogout::KeepsRunning | AtLogout::KeepsRunningInScope) => {
            return checks.ok("keeps running after you log out");
        }
        Err(_) => {
            let message = "no systemd-logind here; logging out should not stop the keeper";
            return checks.ok(message);
        }
        Ok(AtLogout::EndsWithUserServices) => "Linger=no",
        Ok(AtLogout::EndsWithSession) => "KillUserProcesses=yes, Linger=no",
    };
    let message = format!("ends when you log out, because of systemd settings ({ends})");
    checks.warning(message, "loginctl enable-linger");
}

pub(super) fn sessions(context: &Context<'_>, checks: &mut Checks) {
    checks.about("sessions");
    let all = match context.paths.all() {
        Ok(all) => all,
        Err(error) => {
            let message = format!("could not {error}");
            return checks.add(Severity::Wrong, message, None);
        }
    };
    for paths in all {
        checks.about(format!("session {}", &paths.session));
        driver(&paths, checks);
        integrity(&paths, checks);
    }
    checks.about("sessions");
    for name in context.paths.quarantined().into_iter().flatten() {
        let message = format!("{name}.db was damaged and moved aside");
        let next =
            "once you no longer need it, delete it along with the -wal and -shm files next to it";
        checks.warning(message, next);
    }
}

/// Which process is the driver, and whether it accepts connections.
fn driver(paths: &Paths, checks: &mut Checks) {
    let Some(pid) = DriverLock::holder(paths) else {
        return checks.ok("no process is running its calls");
    };
    match UnixStream::connect(paths.socket()) {
        Ok(_) => checks.ok(format!("process {pid} is running its calls")),
        Err(error) => checks.wrong(
            format!("process {pid} holds its lock but does not accept connections ({error})"),
            format!("if this persists, run `kill {pid}`; saved data is safe"),
        ),
    }
}

fn integrity(paths: &Paths, checks: &mut Checks) {
    let size = paths.size();
    let next = "the next longhaul process moves it aside and starts a new one";
    let found = Reader::open(paths).and_then(|mut reader| {
        if size > MAX_CHECKED_BYTES {
            reader.links().map(|_| None)
        } else {
            reader.check().map(Some)
        }
    });
    let is_empty = size == 0;
    let size = text::bytes(size);
    match found {
        // The error says what to do or what happens next.
        Err(error) => checks.add(Severity::Wrong, format!("could not {error}"), None),
        Ok(_) if is_empty => checks.wrong(
            "empty file (0 B); any tasks in it are lost",
            "look for a backup, or for a copy that was moved aside",
        ),
        Ok(None) => checks.ok(format!("readable ({size}, too large to check for damage)")),
        Ok(Some(found)) if found.is_empty() => checks.ok(format!("intact ({size})")),
        Ok(Some(found)) => checks.wrong(format!("damaged: {}", found.join("; ")), next),
    }
}

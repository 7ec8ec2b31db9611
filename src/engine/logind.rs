//! Whether a keeper survives the user's logout on Linux, and the systemd scope in which it does.
//!
//! systemd-logind decides, not a file: `KillUserProcesses` and its lists of users, `Linger` of the user, and the cgroup
//! in which a process runs (logind.conf(5), loginctl(1), org.freedesktop.login1(5)).

use std::time::Duration;

use dbus::{
    arg::{RefArg, Variant},
    blocking::{Connection, Proxy, stdintf::org_freedesktop_dbus::Properties as _},
};

/// How long D-Bus may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

const LOGIND: &str = "org.freedesktop.login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const USER: &str = "org.freedesktop.login1.User";
const SYSTEMD: &str = "org.freedesktop.systemd1";

/// Where systemd can be asked, and where it has put this process.
#[derive(Clone, Debug)]
pub struct Systemd {
    /// The D-Bus address of the system bus, on which logind answers.
    pub system_bus: String,
    /// The D-Bus address of the bus on which the user's own systemd answers.
    pub user_bus: String,
    /// The text of `/proc/self/cgroup`; empty if there is none.
    pub cgroups: String,
}

/// What happens to a keeper when its user logs out for the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLogout {
    /// It keeps running where it is.
    KeepsRunning,
    /// It keeps running in a scope of its own, where every keeper moves that is started in the background.
    KeepsRunningInScope,
    /// It is ended, because systemd ends the user's services (`Linger=no`).
    EndsWithUserServices,
    /// It is ended, because logind ends all processes of the user (`KillUserProcesses=yes`, `Linger=no`).
    EndsWithSession,
}

/// Logind cannot be asked: there is no system bus, or no logind on it.
#[derive(Debug, thiserror::Error)]
#[error("systemd-logind does not answer: {0}")]
pub struct LogindError(String);

impl From<dbus::Error> for LogindError {
    fn from(error: dbus::Error) -> Self {
        let message = error.message().or(error.name());
        Self(message.unwrap_or("no reason given").to_owned())
    }
}

/// Where systemd has put a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Under `user@UID.service`: desktop programs, user services and user scopes.
    UserServices,
    /// In `session-N.scope`: logins on a console and over ssh.
    Session,
    /// Outside both: a system service, a container, or no systemd.
    Elsewhere,
}

/// What logind knows about the user and about logouts.
#[derive(Clone, Debug, Default)]
struct LogindSettings {
    kills_user_processes: bool,
    kill_only: Vec<String>,
    kill_exclude: Vec<String>,
    user: String,
    has_linger: bool,
}

impl LogindSettings {
    /// Asks logind on the system bus.
    fn read(system_bus: &str) -> Result<Self, LogindError> {
        let bus = Connection::new_address(system_bus)?;
        let manager = bus.with_proxy(LOGIND, "/org/freedesktop/login1", ANSWER_WITHIN);
        let uid = rustix::process::geteuid().as_raw();
        let kills_user_processes = manager.get(MANAGER, "KillUserProcesses")?;
        // A user without any login is unknown to logind.
        let user: Result<(dbus::Path<'static>,), _> =
            manager.method_call(MANAGER, "GetUser", (uid,));
        let (user, has_linger) = match user {
            Ok((path,)) => {
                let user = Proxy::new(LOGIND, path, ANSWER_WITHIN, &bus);
                (user.get(USER, "Name")?, user.get(USER, "Linger")?)
            }
            Err(_) => (String::new(), false),
        };
        Ok(Self {
            kills_user_processes,
            kill_only: manager.get(MANAGER, "KillOnlyUsers")?,
            kill_exclude: manager.get(MANAGER, "KillExcludeUsers")?,
            user,
            has_linger,
        })
    }

    /// As logind decides it: exceptions first, then the list of those concerned, where an empty list means everybody.
    fn kills(&self) -> bool {
        self.kills_user_processes
            && !self.kill_exclude.contains(&self.user)
            && (self.kill_only.is_empty() || self.kill_only.contains(&self.user))
    }

    fn at_logout(&self, place: Place) -> AtLogout {
        match place {
            Place::Elsewhere => AtLogout::KeepsRunning,
            Place::UserServices if self.has_linger => AtLogout::KeepsRunningInScope,
            Place::UserServices => AtLogout::EndsWithUserServices,
            Place::Session if !self.kills() => AtLogout::KeepsRunning,
            Place::Session if self.has_linger => AtLogout::KeepsRunningInScope,
            Place::Session => AtLogout::EndsWithSession,
        }
    }
}

/// Where a process runs, from the text of its `/proc/PID/cgroup`.
fn place_of(cgroups: &str) -> Place {
    let parts = cgroups.lines().flat_map(|line| line.split('/'));
    let is_below = |unit: &str| parts.clone().any(|part| part.starts_with(unit));
    if is_below("user@") {
        Place::UserServices
    } else if is_below("session-") {
        Place::Session
    } else {
        Place::Elsewhere
    }
}

impl Systemd {
    /// What happens at the last logout to a keeper that this process would start.
    pub fn at_logout(&self) -> Result<AtLogout, LogindError> {
        Ok(LogindSettings::read(&self.system_bus)?.at_logout(place_of(&self.cgroups)))
    }

    /// Moves this process to a scope of its own below the user's services, if it survives a logout only there.
    pub fn enter_own_scope(&self) {
        match self.at_logout() {
            Ok(AtLogout::KeepsRunningInScope) => match self.start_scope() {
                Ok(scope) => tracing::info!(scope, "the keeper has its own systemd scope"),
                Err(error) => {
                    tracing::warn!("no systemd scope, so a logout may end the keeper: {error}");
                }
            },
            Ok(other) => {
                tracing::info!(at_logout = ?other, "a systemd scope is not needed or would not help");
            }
            Err(error) => tracing::info!("no systemd scope: {error}"),
        }
    }

    /// Asks the user's systemd to put this process into a new scope. Returns the scope's name.
    fn start_scope(&self) -> Result<String, dbus::Error> {
        let bus = Connection::new_address(&self.user_bus)?;
        let name = format!("longhaul-keeper-{}.scope", std::process::id());
        let pids: Box<dyn RefArg> = Box::new(vec![std::process::id()]);
        let description: Box<dyn RefArg> = Box::new("longhaul keeper".to_owned());
        let properties = vec![
            ("PIDs", Variant(pids)),
            ("Description", Variant(description)),
        ];
        let auxiliary: Vec<(String, Properties)> = Vec::new();
        let manager = bus.with_proxy(SYSTEMD, "/org/freedesktop/systemd1", ANSWER_WITHIN);
        let (_job,): (dbus::Path<'static>,) = manager.method_call(
            "org.freedesktop.systemd1.Manager",
            "StartTransientUnit",
            (name.as_str(), "fail", properties, auxiliary),
        )?;
        Ok(name)
    }
}

/// Properties of a unit, as D-Bus carries them.
type Properties = Vec<(String, Variant<Box<dyn RefArg>>)>;

#[cfg(test)]
mod tests {
    use super::{
        AtLogout::{EndsWithSession, EndsWithUserServices, KeepsRunning, KeepsRunningInScope},
        *,
    };

    #[test]
    fn finds_where_systemd_put_a_process() {
        let desktop = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope\n";
        let ssh = "0::/user.slice/user-1000.slice/session-4.scope\n";
        let hybrid =
            "4:memory:/docker\n1:name=systemd:/user.slice/user-0.slice/session-c2.scope\n0::/\n";
        let service = "0::/system.slice/ssh.service\n";
        assert_eq!(place_of(desktop), Place::UserServices);
        assert_eq!(place_of(ssh), Place::Session);
        assert_eq!(place_of(hybrid), Place::Session);
        assert_eq!(place_of(service), Place::Elsewhere);
        assert_eq!(place_of(""), Place::Elsewhere);
    }

    #[test]
    fn decides_as_logind_does() {
        let ann = |kills_user_processes, has_linger| LogindSettings {
            kills_user_processes,
            user: "ann".to_owned(),
            has_linger,
            ..LogindSettings::default()
        };
        // By whether logind kills, whether the user lingers: in user services, in a session, elsewhere.
        let table = [
            (false, false, EndsWithUserServices, KeepsRunning),
            (false, true, KeepsRunningInScope, KeepsRunning),
            (true, false, EndsWithUserServices, EndsWithSession),
            (true, true, KeepsRunningInScope, KeepsRunningInScope),
        ];
        for (kills, lingers, in_services, in_session) in table {
            let settings = ann(kills, lingers);
            assert_eq!(settings.at_logout(Place::UserServices), in_services);
            assert_eq!(settings.at_logout(Place::Session), in_session);
            assert_eq!(settings.at_logout(Place::Elsewhere), KeepsRunning);
        }
        let excluded = LogindSettings {
            kill_exclude: vec!["root".to_owned(), "ann".to_owned()],
            ..ann(true, false)
        };
        let others_only = LogindSettings {
            kill_only: vec!["bob".to_owned()],
            ..ann(true, false)
        };
        for spared in [excluded, others_only] {
            assert_eq!(spared.at_logout(Place::Session), KeepsRunning);
        }
        let listed = LogindSettings {
            kill_only: vec!["ann".to_owned()],
            ..ann(true, false)
        };
        assert_eq!(listed.at_logout(Place::Session), EndsWithSession);
    }
}

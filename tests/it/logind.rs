//! What a logout does to the keeper: a service on a real D-Bus daemon answers as systemd-logind does.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use dbus::{
    Message, MessageType,
    arg::{RefArg, Variant},
    blocking::Connection,
    channel::{MatchingReceiver as _, Sender as _},
    message::MatchRule,
};
use longhaul::engine::{
    AtLogout::{self, EndsWithSession, EndsWithUserServices, KeepsRunning, KeepsRunningInScope},
    Systemd,
};

const DESKTOP: &str = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope\n";
const SSH: &str = "0::/user.slice/user-1000.slice/session-4.scope\n";
const CONTAINER: &str = "0::/docker/4f1e\n";

/// A scope that was asked for: its name and its processes.
type Scope = (String, Vec<u32>);

/// What the machine's logind is set to.
#[derive(Clone, Copy, Default)]
struct Settings {
    kills: bool,
    spares_ann: bool,
    /// `None` for a user without a login.
    lingers: Option<bool>,
}

/// A D-Bus daemon on which a logind and a user's systemd answer.
struct Bus {
    daemon: Child,
    address: String,
    settings: Arc<Mutex<Settings>>,
    scopes: Arc<Mutex<Vec<Scope>>>,
    is_over: Arc<AtomicBool>,
    services: Option<thread::JoinHandle<()>>,
}

impl Bus {
    /// `None` on a machine without a D-Bus daemon; `.ci/run` installs one.
    fn start() -> Option<Self> {
        let mut daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut address = String::new();
        let mut lines = BufReader::new(daemon.stdout.take().unwrap());
        lines.read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        let settings = Arc::<Mutex<Settings>>::default();
        let scopes = Arc::<Mutex<Vec<Scope>>>::default();
        let is_over = Arc::<AtomicBool>::default();
        let (ready, is_ready) = mpsc::channel();
        let services = thread::spawn({
            let (address, settings) = (address.clone(), Arc::clone(&settings));
            let (scopes, is_over) = (Arc::clone(&scopes), Arc::clone(&is_over));
            move || {
                let bus = Connection::new_address(&address).unwrap();
                for name in ["org.freedesktop.login1", "org.freedesktop.systemd1"] {
                    bus.request_name(name, false, false, true).unwrap();
                }
                let answer = move |call: Message, bus: &Connection| {
                    let answer = reply(&call, *settings.lock().unwrap(), &scopes);
                    bus.send(answer).unwrap();
                    true
                };
                bus.start_receive(MatchRule::new_method_call(), Box::new(answer));
                ready.send(()).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    bus.process(Duration::from_millis(20)).unwrap();
                }
            }
        });
        is_ready.recv().unwrap();
        Some(Self {
            daemon,
            address,
            settings,
            scopes,
            is_over,
            services: Some(services),
        })
    }

    fn systemd(&self, cgroups: &str) -> Systemd {
        Systemd {
            system_bus: self.address.clone(),
            user_bus: self.address.clone(),
            cgroups: cgroups.to_owned(),
        }
    }

    fn at_logout(&self, settings: Settings, cgroups: &str) -> AtLogout {
        *self.settings.lock().unwrap() = settings;
        self.systemd(cgroups).at_logout().unwrap()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.services.take().map(thread::JoinHandle::join);
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        if !thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

/// The answer of logind or of the user's systemd.
fn reply(call: &Message, settings: Settings, scopes: &Mutex<Vec<Scope>>) -> Message {
    assert_eq!(call.msg_type(), MessageType::MethodCall);
    let answer = call.method_return();
    let users = |is_listed: bool| {
        if is_listed {
            vec!["ann".to_owned()]
        } else {
            Vec::new()
        }
    };
    match call.member().as_deref() {
        Some("Get") => match call.read2::<&str, &str>().unwrap() {
            (_, "KillUserProcesses") => answer.append1(Variant(settings.kills)),
            (_, "KillOnlyUsers") => answer.append1(Variant(users(false))),
            (_, "KillExcludeUsers") => answer.append1(Variant(users(settings.spares_ann))),
            (_, "Name") => answer.append1(Variant("ann")),
            (_, "Linger") => answer.append1(Variant(settings.lingers == Some(true))),
            (_, other) => panic!("logind was asked for {other}"),
        },
        Some("GetUser") if settings.lingers.is_none() => call.error(
            &"org.freedesktop.login1.NoSuchUser".into(),
            c"User is not logged in or lingering",
        ),
        Some("GetUser") => {
            let uid: u32 = call.read1().unwrap();
            assert_eq!(uid, rustix::process::geteuid().as_raw());
            answer.append1(dbus::Path::from("/org/freedesktop/login1/user/_1000"))
        }
        Some("StartTransientUnit") => {
            type Properties = Vec<(String, Variant<Box<dyn RefArg>>)>;
            let (name, mode, properties): (String, String, Properties) = call.read3().unwrap();
            assert_eq!(mode, "fail");
            let (_, pids) = properties.iter().find(|(name, _)| name == "PIDs").unwrap();
            let pids = pids.0.as_iter().unwrap();
            let pids = pids.map(|pid| u32::try_from(pid.as_u64().unwrap()).unwrap());
            scopes.lock().unwrap().push((name, pids.collect()));
            answer.append1(dbus::Path::from("/org/freedesktop/systemd1/job/7"))
        }
        other => panic!("nobody answers {other:?}"),
    }
}

#[test]
fn says_what_a_logout_does_to_the_keeper() {
    let Some(bus) = Bus::start() else { return };
    let of = |kills, lingers| Settings {
        kills,
        lingers,
        spares_ann: false,
    };
    let (usual, kills) = (of(false, Some(false)), of(true, Some(false)));
    let (lingers, both) = (of(false, Some(true)), of(true, Some(true)));
    let unknown = of(true, None);
    let spared = Settings {
        spares_ann: true,
        ..kills
    };
    for (settings, cgroups, expected) in [
        (usual, SSH, KeepsRunning),
        (usual, DESKTOP, EndsWithUserServices),
        (kills, SSH, EndsWithSession),
        (kills, DESKTOP, EndsWithUserServices),
        (lingers, DESKTOP, KeepsRunningInScope),
        (both, SSH, KeepsRunningInScope),
        (spared, SSH, KeepsRunning),
        (unknown, CONTAINER, KeepsRunning),
        (both, CONTAINER, KeepsRunning),
    ] {
        assert_eq!(bus.at_logout(settings, cgroups), expected, "in {cgroups}");
    }
}

#[test]
fn a_keeper_moves_to_a_scope_only_where_it_survives_there() {
    let Some(bus) = Bus::start() else { return };
    let scopes = |settings: Settings, cgroups: &str| {
        *bus.settings.lock().unwrap() = settings;
        bus.systemd(cgroups).enter_own_scope();
        std::mem::take(&mut *bus.scopes.lock().unwrap())
    };
    let lingers = Settings {
        kills: true,
        lingers: Some(true),
        ..Settings::default()
    };
    let own = std::process::id();
    let scope = (format!("longhaul-keeper-{own}.scope"), vec![own]);
    assert_eq!(scopes(lingers, SSH), std::slice::from_ref(&scope));
    assert_eq!(scopes(lingers, DESKTOP), [scope]);
    assert_eq!(scopes(lingers, CONTAINER), []);
    // Its login session keeps it; the user's services would end.
    assert_eq!(scopes(Settings::default(), SSH), []);
}

#[test]
fn a_machine_without_logind_is_no_error() {
    let systemd = Systemd {
        system_bus: "unix:path=/nonexistent/bus".to_owned(),
        user_bus: "unix:path=/nonexistent/bus".to_owned(),
        cgroups: String::new(),
    };
    let error = systemd.at_logout().unwrap_err().to_string();
    assert!(error.contains("systemd-logind does not answer"), "{error}");
    systemd.enter_own_scope();
}

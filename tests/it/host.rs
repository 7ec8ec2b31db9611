//! `--host`: commands and the screen on the session of another machine. The other machine is a directory of its own behind
//! a script that does what ssh does, and behind a real sshd where there is one.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, its helpers too, and after a deadline"
)]

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use longhaul::store::write_atomically;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    program::{Ran, finish, program},
    pty::{self, TestEnv, Tui},
    server,
};

const SIZE: (u16, u16) = (120, 36);

/// Long enough for a busy machine; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// This machine, and another one that ssh knows as `box`.
struct Machines {
    dir: tempfile::TempDir,
    sshd: Option<Child>,
}

impl Drop for Machines {
    fn drop(&mut self) {
        let _ = self.command(&["keeper", "stop"]).output();
        if let Some(sshd) = &mut self.sshd {
            let _ = sshd.kill();
            let _ = sshd.wait();
        }
    }
}

impl Machines {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["here", "far", "bin"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        write_atomically(&dir.path().join("far/config.toml"), b"").unwrap();
        let program = env!("CARGO_BIN_EXE_longhaul");
        std::os::unix::fs::symlink(program, dir.path().join("bin/longhaul")).unwrap();
        Self { dir, sshd: None }
    }

    /// ssh is a script that takes options and a host, and runs the rest in a shell with another environment.
    fn with_script() -> Self {
        let machines = Self::new();
        machines.write_ssh(&format!(
            "while [ \"$1\" != -- ]; do shift; done\n[ \"$2\" = box ] || {{ echo \"ssh: unknown host $2\" >&2; exit 255; }}\n\
             shift 2\nexec env -i PATH={bin}:/usr/bin:/bin HOME={far} LONGHAUL_CONFIG={far}/config.toml sh -c \"exec $*\"\n",
            bin = machines.path("bin").display(),
            far = machines.path("far").display(),
        ));
        machines
    }

    /// `None` on a machine without sshd; `.ci/run` installs one.
    fn with_sshd() -> Option<Self> {
        let sshd = ["/usr/sbin/sshd", "/usr/bin/sshd"]
            .into_iter()
            .find(|path| Path::new(path).exists())?;
        let mut machines = Self::new();
        // As root it wants this directory, which is there once the service has run.
        let _ = fs::create_dir("/run/sshd");
        for key in ["hostkey", "id"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(machines.path(key))
                .status();
            assert!(made.ok()?.success());
        }
        // Free a moment ago; sshd cannot choose one itself.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let dir = machines.dir.path().display();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {dir}/hostkey\nPidFile none\nAuthorizedKeysFile {dir}/id.pub\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n\
             SetEnv PATH={dir}/bin:/usr/bin:/bin LONGHAUL_CONFIG={dir}/far/config.toml\n"
        );
        write_atomically(&machines.path("sshd_config"), config.as_bytes()).unwrap();
        let config = format!(
            "Host box\nHostName 127.0.0.1\nPort {port}\nIdentityFile {dir}/id\nStrictHostKeyChecking no\n\
             UserKnownHostsFile {dir}/known\nLogLevel ERROR\n"
        );
        write_atomically(&machines.path("ssh_config"), config.as_bytes()).unwrap();
        machines.write_ssh(&format!("exec /usr/bin/ssh -F {dir}/ssh_config \"$@\"\n"));
        let child = Command::new(sshd)
            .args(["-D", "-e", "-f"])
            .arg(machines.path("sshd_config"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        machines.sshd = Some(child);
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < DEADLINE, "sshd does not listen");
            crate::support::pause();
        }
        Some(machines)
    }

    fn write_ssh(&self, lines: &str) {
        let ssh = self.path("ssh");
        write_atomically(&ssh, format!("#!/bin/sh\n{lines}").as_bytes()).unwrap();
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o700)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A command on the other machine.
    fn command(&self, arguments: &[&str]) -> Command {
        let far = self.text("far/state");
        let all = [&["--host", "box", "--state-dir", &far][..], arguments].concat();
        let mut command = program(&self.path("here"), &all);
        command
            .env("LONGHAUL_SSH", self.path("ssh"))
            .env("PATH", "/usr/bin:/bin");
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        finish(&mut self.command(arguments))
    }

    /// The screen on the other machine's session.
    fn open(&self) -> Tui {
        let env = TestEnv::at(self.path("here"));
        let variables = [("LONGHAUL_SSH", self.text("ssh"))];
        let variables = variables
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let far = self.text("far/state");
        let arguments = ["--host", "box", "--state-dir", &far];
        env.open_with(&variables, pty::program(), &arguments, SIZE)
    }
}

/// The process that is this machine's end of the screen's tunnel.
fn tunnel(screen: &Tui) -> Pid {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < DEADLINE, "the screen has no tunnel");
        let children = format!("/proc/{0}/task", screen.pid().as_raw_nonzero());
        let tasks = fs::read_dir(children).unwrap();
        let children =
            tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
        let pid = children
            .flat_map(|text| {
                text.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .filter(|pid| {
                // A killed one may not have been waited for yet.
                let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
                stat.is_ok_and(|stat| !stat.contains(") Z "))
            })
            .find_map(|pid| Pid::from_raw(pid.parse().ok()?));
        if let Some(pid) = pid {
            return pid;
        }
        crate::support::pause();
    }
}

/// Commands, the screen, a killed tunnel and a stopped one.
fn works(machines: &Machines) {
    let server = server::demo(machines.path("far/server"));
    let url = server.url();
    let ran = machines.run(&[
        "-s",
        &url,
        "call",
        "get_forecast",
        "city=O'slo; $(exit 3)",
        "delay_ms=1",
    ]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.out.contains("O'slo; $(exit 3)"), "{ran:#?}");
    let ran = machines.run(&["result", "zzzzzz"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    let far = machines.text("far/state");
    let advice = format!("`longhaul ls --all --host box --state-dir {far}`");
    assert!(ran.err.contains(&advice), "{ran:#?}");
    // Nothing else than its connection leads back to this call.
    let plain = ["-s", &url, "--protocol", "2026-07-28"];
    let call = ["call", "--detach", "crunch", "steps=100000", "step_ms=50"];
    let ran = machines.run(&[&plain[..], &call].concat());
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let id = ran.out.trim().to_owned();
    assert!(!machines.path("here/sessions/default.db").exists());

    let mut screen = machines.open();
    screen.wait_for_line(&["running", &id, "crunch", "LOST"]);
    screen.wait_for(" on box");
    // Its history is read on the other machine.
    screen.press("g");
    screen.wait_for_line(&["step", "/100,000"]);
    for signal in [Signal::KILL, Signal::STOP] {
        let broken = tunnel(&screen);
        kill_process(broken, signal).unwrap();
        let begin = Instant::now();
        while tunnel(&screen) == broken {
            assert!(
                begin.elapsed() < DEADLINE,
                "no new tunnel after {signal:?}: {}",
                screen.text()
            );
            screen.watch_for(Duration::from_millis(20));
        }
        // News comes through the new tunnel.
        let name = format!("after-{signal:?}");
        let ran = machines.run(&[
            "-s",
            &url,
            "call",
            "get_forecast",
            "city=Rome",
            "delay_ms=1",
            "--name",
            &name,
        ]);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        screen.wait_for(&name);
        screen.wait_for_line(&["running", &id, "crunch"]);
    }
    let ran = machines.run(&["cancel", &id]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    screen.wait_for_line(&["cancelled", &id]);
    screen.press("q");
    screen.end();
}

#[test]
fn works_through_a_script() {
    works(&Machines::with_script());
}

#[test]
fn works_through_sshd() {
    if let Some(machines) = Machines::with_sshd() {
        works(&machines);
    }
}

#[test]
fn says_what_is_wrong_with_the_other_machine() {
    let machines = Machines::with_script();
    let mut command = machines.command(&["ls"]);
    command.env("LONGHAUL_HOST", "ignored");
    assert_eq!(finish(&mut command).code, Some(0));
    let ran = machines.run(&["servers", "test"]);
    let far = machines.text("far/state");
    let advice = format!("`longhaul servers add NAME URL --host box --state-dir {far}`");
    assert!(ran.err.contains(&advice), "{ran:#?}");

    let here = machines.path("here");
    let ssh = |arguments: &[&str]| {
        let mut command = program(&here, arguments);
        finish(command.env("LONGHAUL_SSH", machines.path("ssh")))
    };
    let ran = ssh(&["--host", "elsewhere", "ls"]);
    assert_eq!(ran.code, Some(4), "{ran:#?}");
    assert!(
        ran.err.contains("could not connect to elsewhere"),
        "{ran:#?}"
    );
    let ran = ssh(&["--host=-oProxyCommand=x", "ls"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert!(ran.err.contains("is not a host name"), "{ran:#?}");

    fs::remove_file(machines.path("bin/longhaul")).unwrap();
    let ran = machines.run(&["ls"]);
    assert_eq!(ran.code, Some(4), "{ran:#?}");
    assert!(
        ran.err.contains("longhaul was not found on box"),
        "{ran:#?}"
    );
    let mut screen = machines.open();
    screen.wait_for("longhaul was not found on box");
    screen.press("q");
    assert_eq!(screen.end().0, 75);
}

#[test]
fn says_which_side_is_older() {
    let machines = Machines::with_script();
    let far = machines.path("bin/longhaul");
    for (contract, expected) in [
        (4, "is older than this one"),
        (99, "is newer than this one"),
    ] {
        let _ = fs::remove_file(&far);
        let hello = format!("{{\"contract\":{contract},\"version\":\"9.8.7\"}}");
        let script = format!("#!/bin/sh\necho '{hello}'\nexec cat\n");
        write_atomically(&far, script.as_bytes()).unwrap();
        fs::set_permissions(&far, fs::Permissions::from_mode(0o700)).unwrap();
        let mut screen = machines.open();
        screen.wait_for(&format!("longhaul 9.8.7 there {expected}"));
        screen.press("q");
        assert_eq!(screen.end().0, 75);
    }
}

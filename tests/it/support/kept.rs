//! A state directory with a keeper, as the tests of keepers use it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, its helpers too, and after a deadline"
)]

use std::{
    fmt::Write as _,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use longhaul::store::{DriverLock, Paths, write_atomically};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::program::{Ran, Running, finish, program};

/// Long enough for a busy machine; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// A state directory whose keeper, if one runs in the end, is stopped.
pub(crate) struct Kept(tempfile::TempDir);

impl Kept {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn paths(&self) -> Paths {
        Paths::resolve(Some(self.path().to_owned()), "default").unwrap()
    }

    /// A command that uses a keeper.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(self.path(), arguments);
        command.env_remove("LONGHAUL_KEEPER");
        command
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::start(&mut self.command(arguments))
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        finish(&mut self.command(arguments))
    }

    pub(crate) fn ok(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:#?}");
        ran
    }

    /// Starts a call and returns its id.
    pub(crate) fn detach(&self, arguments: &[&str]) -> String {
        let ran = self.ok(&[&["call", "--detach"], arguments].concat());
        ran.out.trim().to_owned()
    }

    /// Makes the keeper this program.
    pub(crate) fn upgrade_to(&self, program: &Path) -> Ran {
        let program = program.display().to_string();
        self.run(&["keeper", "upgrade", "--to", &program])
    }

    pub(crate) fn keeper(&self) -> Option<Pid> {
        let status = self.ok(&["keeper", "status", "--json"]).document();
        let pid = status["keeper"]["pid"].as_i64()?;
        Pid::from_raw(i32::try_from(pid).unwrap())
    }

    /// How long the keeper has run.
    pub(crate) fn keeper_age(&self) -> Duration {
        let status = self.ok(&["keeper", "status", "--json"]).document();
        let since = status["keeper"]["since"].as_str().unwrap();
        let since: jiff::Timestamp = since.parse().unwrap();
        jiff::Timestamp::now().duration_since(since).unsigned_abs()
    }

    /// Ends the keeper and waits until it is gone.
    pub(crate) fn kill_keeper(&self) {
        let keeper = self.keeper().unwrap();
        kill_process(keeper, Signal::KILL).unwrap();
        until("the keeper is gone", || {
            DriverLock::holder(&self.paths()).is_none()
        });
    }

    /// Whether the server was told to cancel the call of this row. A pending cancel is shown only for a while.
    pub(crate) fn was_cancelled(&self, row: &Value) -> bool {
        let exported = self.ok(&["export", row["id"].as_str().unwrap()]);
        exported.document()["attempts"][0]["was_cancelled"] == true
    }

    /// The values of the steps in a task's history.
    pub(crate) fn steps(&self, id: &str) -> Vec<f64> {
        let history = self.ok(&["logs", "--json", id]).events();
        let steps = history.iter().filter(|event| event["event"] == "progress");
        steps
            .map(|event| event["value"].as_f64().unwrap())
            .collect()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.command(&["keeper", "stop"]).output();
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < DEADLINE, "never: {what}");
        super::pause_after(begin.elapsed());
    }
}

/// Configures a server that runs a script of the fixtures, and approves it.
pub(crate) fn approve_script(kept: &Kept, name: &str, script: &str) {
    approve_scripts(kept, &[name.to_owned()], script);
}

/// Configures this many servers that run `stdio_steps.sh`, and approves them.
pub(crate) fn programs(kept: &Kept, count: usize) -> Vec<String> {
    let names: Vec<String> = (1..=count).map(|number| format!("files{number}")).collect();
    approve_scripts(kept, &names, "stdio_steps.sh");
    names
}

fn approve_scripts(kept: &Kept, names: &[String], script: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(script);
    let mut config = String::new();
    for name in names {
        let args = [
            script.display().to_string(),
            kept.path().display().to_string(),
        ];
        writeln!(
            config,
            "[servers.{name}]\ncommand = \"/bin/sh\"\nargs = {args:?}"
        )
        .unwrap();
    }
    write_atomically(&kept.path().join("config.toml"), config.as_bytes()).unwrap();
    for name in names {
        kept.ok(&["servers", "approve", name, "--yes"]);
    }
}

/// Ends the calls of `stdio_steps.sh`.
pub(crate) fn finish_steps(kept: &Kept) {
    write_atomically(&kept.path().join("finish"), b"").unwrap();
}

//! The real binary on a state directory of its own.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    fs::{DirBuilder, File},
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

/// Long enough for a busy machine; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The one JSON document on stdout.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }

    /// The JSON objects on stdout, one per line.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
            })
            .collect()
    }
}

/// The configuration of `state`: an empty one where a test wrote none, unless the command makes it.
fn config(state: &Path, arguments: &[&str]) -> PathBuf {
    let config = state.join("config.toml");
    let makes_it = arguments.iter().any(|it| ["add", "import"].contains(it));
    if !makes_it && !config.exists() {
        // If that fails, the program has to report it.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(state);
        let _ = File::create(&config);
    }
    config
}

/// The binary with its arguments, for `state`, without the environment of the tester.
pub(crate) fn program(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command
        .args(arguments)
        .env_clear()
        .env("LONGHAUL_STATE_DIR", state)
        .env("LONGHAUL_CONFIG", config(state, arguments))
        .env("LONGHAUL_KEEPER", "0")
        .env("TERM", "xterm-256color")
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub(crate) fn run(state: &Path, arguments: &[&str]) -> Ran {
    finish(&mut program(state, arguments))
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Ran {
    Running::start(command).end()
}

/// A running program whose output is read line by line.
pub(crate) struct Running {
    child: Child,
    out: mpsc::Receiver<String>,
    err: mpsc::Receiver<String>,
    seen: [String; 2],
}

impl Running {
    /// Starts a command made by [`program`].
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        // A test may have put a pipe of its own there.
        let out = match child.stdout.take() {
            Some(out) => lines(out),
            None => mpsc::channel().1,
        };
        let err = lines(child.stderr.take().unwrap());
        Self {
            child,
            out,
            err,
            seen: [String::new(), String::new()],
        }
    }

    /// Its stdin, if that is a pipe.
    pub(crate) fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The next line of stdout; `None` at its end.
    pub(crate) fn line(&mut self) -> Option<String> {
        let line = next(&self.out, "a line on stdout", &self.seen)?;
        self.seen[0].push_str(&line);
        Some(line)
    }

    /// The next line of stderr; `None` at its end.
    pub(crate) fn err_line(&mut self) -> Option<String> {
        let line = next(&self.err, "a line on stderr", &self.seen)?;
        self.seen[1].push_str(&line);
        Some(line)
    }

    /// Waits for a line of stderr that has `words` in it.
    pub(crate) fn says(&mut self, words: &str) {
        while let Some(line) = next(&self.err, words, &self.seen) {
            self.seen[1].push_str(&line);
            if line.contains(words) {
                return;
            }
        }
        panic!("it ended without {words:?}: {:#?}", self.seen);
    }

    /// Waits for a line of stdout that `wanted` accepts.
    pub(crate) fn prints(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        while let Some(line) = self.line() {
            let value: Value = serde_json::from_str(&line).unwrap();
            if wanted(&value) {
                return value;
            }
        }
        panic!("it ended without the line: {:#?}", self.seen);
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Ran {
        while let Some(line) = next(&self.out, "the end of stdout", &self.seen) {
            self.seen[0].push_str(&line);
        }
        while let Some(line) = next(&self.err, "the end of stderr", &self.seen) {
            self.seen[1].push_str(&line);
        }
        let code = self.child.wait().unwrap().code();
        let [out, err] = std::mem::take(&mut self.seen);
        Ran { code, out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that fails leaves no process behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines on a separate thread, so that waiting for one has a deadline.
fn lines(pipe: impl std::io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        loop {
            let mut line = Vec::new();
            match pipe.by_ref().read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if send
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
    receive
}

fn next(lines: &mpsc::Receiver<String>, what: &str, seen: &[String; 2]) -> Option<String> {
    match lines.recv_timeout(DEADLINE) {
        Ok(line) => Some(line),
        Err(mpsc::RecvTimeoutError::Disconnected) => None,
        Err(mpsc::RecvTimeoutError::Timeout) => {
            panic!("timed out waiting for {what}; so far: {seen:#?}")
        }
    }
}

//! A state directory, the processes of a measurement, and the program on a terminal.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use longhaul::{
    domain::{Row, Task, TaskId, Wall},
    store::{DriverLock, Durability, Opened, Paths, Reader, Writer},
};
use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::{
    disk::shim,
    support::{cpu_of, now, pass},
};

/// Only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(120);

/// A process that is measured; it ends with this value.
pub(crate) struct Process {
    child: Child,
    lines: Option<BufReader<std::process::ChildStdout>>,
}

impl Process {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = child.stdout.take().map(BufReader::new);
        Self { child, lines }
    }

    /// This benchmark again, in another part.
    pub(crate) fn this(arguments: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(arguments);
        Self::start(command)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn cpu(&self) -> f64 {
        precise_cpu(self.pid())
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its first line.
    pub(crate) fn wait_for_line(&mut self) {
        let mut line = String::new();
        self.lines.as_mut().unwrap().read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "it said nothing");
    }

    /// Waits for its end and gives what it printed.
    pub(crate) fn output(mut self) -> String {
        let mut said = String::new();
        let mut lines = self.lines.take().unwrap();
        lines.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }

    /// Waits for its end and gives the CPU seconds that it used.
    pub(crate) fn end(mut self) -> f64 {
        let mut said = String::new();
        self.lines
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        // Not reaped yet, so that what it used can still be read.
        waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .unwrap();
        let spent = cpu_of(self.pid());
        assert!(self.child.wait().unwrap().success(), "{said}");
        spent
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The CPU seconds of all living threads of a process, to the nanosecond.
fn precise_cpu(pid: u32) -> f64 {
    threads(pid)
        .iter()
        .map(|thread| thread_cpu(pid, thread))
        .sum()
}

fn threads(pid: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn thread_cpu(pid: u32, thread: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat"));
    let spent = stat.unwrap_or_default();
    let spent = spent.split(' ').next().and_then(|word| word.parse().ok());
    spent.unwrap_or(0.0) / 1e9
}

/// A process by its number.
#[derive(Clone, Copy)]
pub(crate) struct Running(u32);

impl Running {
    pub(crate) fn pid(self) -> u32 {
        self.0
    }

    pub(crate) fn cpu(self) -> f64 {
        precise_cpu(self.0)
    }

    pub(crate) fn cpu_of_thread(self, name: &str) -> f64 {
        let is_it = |thread: &&String| {
            let comm = std::fs::read_to_string(format!("/proc/{}/task/{thread}/comm", self.0));
            comm.is_ok_and(|comm| comm.trim() == name)
        };
        let threads = threads(self.0);
        threads
            .iter()
            .filter(is_it)
            .map(|thread| thread_cpu(self.0, thread))
            .sum()
    }

    /// How often its threads went to sleep so far.
    pub(crate) fn wakes(self) -> f64 {
        let of = |thread: &String| -> f64 {
            let status = std::fs::read_to_string(format!("/proc/{}/task/{thread}/status", self.0));
            let status = status.unwrap_or_default();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.and_then(|count| count.trim().parse().ok())
                .unwrap_or(0.0)
        };
        threads(self.0).iter().map(of).sum()
    }
}

/// The fsyncs of a process while something goes on; `None` without `strace`.
pub(crate) fn fsyncs(pid: u32, seconds: u64, meanwhile: impl FnOnce()) -> Option<f64> {
    let out = tempfile::NamedTempFile::new().unwrap();
    let child = Command::new("timeout")
        .args(["-s", "INT", &seconds.to_string(), "strace", "-f", "-qq"])
        .args(["-e", "trace=fsync,fdatasync", "-o"])
        .arg(out.path())
        .args(["-p", &pid.to_string()])
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.ok()?;
    meanwhile();
    let code = child.wait().ok()?.code();
    // 127: there is none.
    (code != Some(127)).then(|| {
        let seen = std::fs::read_to_string(out.path()).unwrap_or_default();
        seen.lines().filter(|line| line.contains("sync(")).count() as f64
    })
}

/// A server in a process of its own.
pub(crate) struct Server {
    pub(crate) url: String,
    child: Child,
    orders: ChildStdin,
    lines: mpsc::Receiver<String>,
    said: VecDeque<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let orders = child.stdin.take().unwrap();
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let url = lines.recv_timeout(DEADLINE).unwrap();
        Self {
            url,
            child,
            orders,
            lines,
            said: VecDeque::new(),
        }
    }

    /// Opens the gate.
    pub(crate) fn go(&mut self) {
        writeln!(self.orders, "go").unwrap();
    }

    /// Sends an event on each stream at the gate.
    pub(crate) fn tick(&mut self) {
        writeln!(self.orders, "tick").unwrap();
    }

    /// Waits for a line that begins so.
    pub(crate) fn wait_for(&mut self, word: &str) {
        drop(self.take(1, word));
    }

    /// Whether so many such lines have come.
    pub(crate) fn has(&mut self, count: usize, word: &str) -> bool {
        self.said.extend(self.lines.try_iter());
        self.said
            .iter()
            .filter(|line| line.starts_with(word))
            .count()
            >= count
    }

    /// Waits for so many such lines and takes them.
    pub(crate) fn take(&mut self, count: usize, word: &str) -> Vec<String> {
        while !self.has(count, word) {
            self.said
                .push_back(self.lines.recv_timeout(DEADLINE).unwrap());
        }
        let (taken, rest) = self
            .said
            .drain(..)
            .partition::<Vec<_>, _>(|line| line.starts_with(word));
        let mut taken = taken.into_iter();
        let found = taken.by_ref().take(count).collect();
        self.said = taken.chain(rest).collect();
        found
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A state directory; it is gone with this value.
pub(crate) struct TestEnv {
    dir: tempfile::TempDir,
    /// Whether its programs write through `tests/it/support/disk.c`.
    can_fail: bool,
    /// Whether its programs use a keeper; it is stopped with this value.
    has_keeper: bool,
    /// What its programs run in place of ssh.
    ssh: Option<String>,
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        if self.has_keeper {
            let _ = self.command(&["keeper", "stop"]).output();
        }
    }
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            dir,
            can_fail: false,
            has_keeper: false,
            ssh: None,
        }
    }

    /// One whose programs use a keeper.
    pub(crate) fn with_keeper() -> Self {
        let mut env = Self::new();
        env.has_keeper = true;
        env
    }

    /// One whose programs reach other machines through this program.
    pub(crate) fn with_ssh(mut self, program: &str) -> Self {
        self.ssh = Some(program.to_owned());
        self
    }

    /// Writes the configuration of its programs.
    pub(crate) fn configure(&self, config: &str) {
        let path = self.dir.path().join(".config/longhaul");
        std::fs::create_dir_all(&path).unwrap();
        longhaul::store::write_atomically(&path.join("config.toml"), config.as_bytes()).unwrap();
    }

    /// The keeper that runs.
    pub(crate) fn keeper(&self) -> Running {
        Running(DriverLock::holder(&self.paths()).unwrap())
    }

    /// The driver's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.paths().socket()
    }

    /// How many tasks have completed.
    pub(crate) fn completed(&self) -> usize {
        let mut reader = Reader::open(&self.paths()).unwrap();
        let all = longhaul::store::ListFilter::ALL;
        let tasks = reader.tasks(all).unwrap();
        let is_completed = |task: &&Task| task.status == longhaul::domain::Status::Completed;
        tasks.iter().filter(is_completed).count()
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// One whose disk can be told to fail.
    pub(crate) fn that_can_fail() -> Self {
        let mut env = Self::new();
        env.can_fail = true;
        env
    }

    /// From now on nothing can be written there, or everything again.
    pub(crate) fn fails(&self, fails: bool) {
        let order: &[u8] = if fails { b"errors" } else { b"well" };
        longhaul::store::write_atomically(&self.dir.path().join("state.orders"), order).unwrap();
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let mut variables = vec![
            ("LONGHAUL_KEEPER", u8::from(self.has_keeper).to_string()),
            ("LONGHAUL_STATE_DIR", text(&self.state())),
            ("HOME", text(self.dir.path())),
            ("TERM", "xterm-256color".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TZ", "UTC".to_owned()),
        ];
        if let Some(ssh) = &self.ssh {
            variables.push(("LONGHAUL_SSH", ssh.clone()));
        }
        if self.can_fail {
            variables.push(("LD_PRELOAD", text(shim())));
            variables.push(("LONGHAUL_TEST_DISK", text(&self.state())));
        }
        variables
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command
            .args(arguments)
            .env_clear()
            .envs(self.environment())
            .stderr(Stdio::null());
        command
    }

    /// The program without a screen.
    pub(crate) fn start(&self, arguments: &[&str]) -> Process {
        Process::start(self.command(arguments))
    }

    /// Starts a call and leaves it to whoever drives.
    pub(crate) fn call(&self, url: &str, arguments: &str) {
        let words = ["-s", url, "call", "--detach", "blast", "--args", arguments];
        self.start(&words).end();
    }

    fn paths(&self) -> Paths {
        Paths::resolve(Some(self.state()), "default").unwrap()
    }

    /// Waits until a screen drives the session.
    pub(crate) fn wait_for_driver(&self) {
        let begin = now();
        while !matches!(DriverLock::try_take(&self.paths()), Ok(None)) || !self.has_socket() {
            assert!(begin.elapsed() < DEADLINE, "nobody drives");
            pass(Duration::from_millis(20));
        }
    }

    fn has_socket(&self) -> bool {
        self.paths().socket().exists()
    }

    /// Fills the session with settled tasks: one real call, copied.
    pub(crate) fn settled(&self, count: usize) {
        let mut server = Server::start();
        server.go();
        self.start(&["-q", "-s", &server.url, "call", "blast", "count:=3"])
            .end();
        let mut reader = Reader::open(&self.paths()).unwrap();
        let all = longhaul::store::ListFilter::ALL;
        let task = reader.tasks(all).unwrap().into_iter().next().unwrap();
        drop(reader);
        let lock = DriverLock::try_take(&self.paths()).unwrap();
        let Opened { mut writer, .. } = Writer::open(&self.paths(), task.updated_at).unwrap();
        let mut dice = fastrand::Rng::with_seed(1);
        let rows: Vec<Row> = (1..count)
            .map(|place| {
                let mut copy: Task = task.clone();
                copy.id = TaskId::from_bits(dice.u64(..));
                copy.created_at = Wall(task.created_at.0 - i64::try_from(place).unwrap() * 1000);
                Row::Task(Box::new(copy))
            })
            .collect();
        writer
            .save(&rows, Durability::Full, task.updated_at)
            .unwrap();
        drop(lock);
    }

    /// The screen.
    pub(crate) fn open(&self, arguments: &[&str], size: (u16, u16)) -> Tui {
        self.open_program(env!("CARGO_BIN_EXE_longhaul"), arguments, size)
    }

    /// This benchmark on a terminal, in another part.
    pub(crate) fn open_this(&self, arguments: &[&str], size: (u16, u16)) -> Tui {
        let this = std::env::current_exe().unwrap();
        self.open_program(this.to_str().unwrap(), arguments, size)
    }

    fn open_program(&self, program: &str, arguments: &[&str], (columns, rows): (u16, u16)) -> Tui {
        let size = PtySize {
            rows,
            cols: columns,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env_clear();
        for (name, value) in self.environment() {
            command.env(name, value);
        }
        command.cwd(self.dir.path());
        let begin = now();
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let (sender, bytes) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Tui {
            child,
            _master: pair.master,
            keys,
            bytes,
            begin,
            screen: vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0),
        }
    }
}

/// A program on a terminal; it is killed with this value.
pub(crate) struct Tui {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    _master: Box<dyn MasterPty + Send>,
    keys: Box<dyn std::io::Write + Send>,
    bytes: mpsc::Receiver<Vec<u8>>,
    begin: std::time::Instant,
    screen: vt100::Parser,
}

impl Tui {
    /// The program itself.
    pub(crate) fn process(&self) -> Running {
        Running(self.child.process_id().unwrap())
    }

    fn read(&mut self, within: Duration) -> usize {
        match self.bytes.recv_timeout(within) {
            Ok(bytes) => {
                self.screen.process(&bytes);
                bytes.len()
            }
            Err(mpsc::RecvTimeoutError::Timeout) => 0,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                panic!("it ended:\n{}", self.screen.screen().contents())
            }
        }
    }

    /// Reads whatever comes for so long; gives the bytes.
    pub(crate) fn read_for(&mut self, span: Duration) -> usize {
        let begin = now();
        let mut seen = 0;
        while begin.elapsed() < span {
            seen += self.read(span.saturating_sub(begin.elapsed()));
        }
        seen
    }

    /// Reads until something else has happened.
    pub(crate) fn read_until(&mut self, mut is_over: impl FnMut() -> bool) {
        while !is_over() {
            self.read(Duration::from_millis(5));
        }
    }

    /// Reads until the screen is as wanted.
    pub(crate) fn wait_until(&mut self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let begin = now();
        while !wanted(self) {
            let left = DEADLINE.saturating_sub(begin.elapsed());
            assert!(
                !left.is_zero(),
                "waited in vain for {what}:\n{}",
                self.screen.screen().contents()
            );
            self.read(left);
        }
    }

    /// Reads until the screen shows this; gives the seconds since the program was started.
    pub(crate) fn wait_for(&mut self, text: &str) -> f64 {
        self.wait_until(text, |tui| tui.shows(text));
        self.begin.elapsed().as_secs_f64()
    }

    pub(crate) fn shows(&self, text: &str) -> bool {
        self.screen.screen().contents().contains(text)
    }

    /// The row that the cursor of the list stands on.
    pub(crate) fn marked_row(&self) -> Option<usize> {
        let screen = self.screen.screen();
        let is_marked = |line: &str| line.chars().take(4).any(|letter| letter == '▸');
        screen.contents().lines().position(is_marked)
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }
}

impl Drop for Tui {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

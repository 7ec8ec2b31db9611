//! The real program on a real pseudo-terminal, with a state directory and a demo server of its own.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    fs::OpenOptions,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use longhaul::store::{DriverLock, Paths};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal};

/// Longer than anything takes on a busy machine; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// A state directory, and whatever demo server works in it; both are gone with this value, after a failure too.
#[derive(Debug)]
pub(crate) struct TestEnv {
    dir: PathBuf,
    /// Removes the directory if the environment created it.
    own: Option<tempfile::TempDir>,
    server: Option<std::process::Child>,
    addr: Option<SocketAddr>,
}

impl TestEnv {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let own = tempfile::tempdir().unwrap();
        let mut env = Self::at(own.path().to_owned());
        env.own = Some(own);
        env
    }

    /// One whose state is kept in this directory.
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self {
            dir,
            own: None,
            server: None,
            addr: None,
        }
    }

    /// One in which a demo server is at work as a child of this test.
    pub(crate) fn serving() -> Self {
        let mut env = Self::new();
        env.serve();
        env
    }

    /// Starts the demo server and waits for its address.
    pub(crate) fn serve(&mut self) {
        let mut child = self
            .command(&["demo", "--serve"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let out = child.stdout.take().unwrap();
        self.server = Some(child);
        BufReader::new(out).read_line(&mut url).unwrap();
        let addr = url
            .strip_prefix("http://")
            .and_then(|url| url.split_once('/'));
        let addr = addr.and_then(|(addr, _)| addr.parse().ok());
        self.addr = Some(addr.unwrap_or_else(|| panic!("no address in {url:?}")));
    }

    /// Where the demo server listens.
    pub(crate) fn server_addr(&self) -> SocketAddr {
        self.addr.expect("no server was started")
    }

    /// Ends the demo server as `kill -9` does.
    pub(crate) fn kill_server(&mut self) {
        let mut server = self.server.take().expect("no server was started");
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// The state directory.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// The program for this state directory; nothing of the tester's environment reaches it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).env_clear();
        for (name, value) in self.environment() {
            command.env(name, value);
        }
        command.stdin(Stdio::null());
        command
    }

    fn environment(&self) -> [(&'static str, String); 7] {
        let dir = self.path().to_str().unwrap().to_owned();
        let config = self.path().join("config.toml");
        if !config.exists() {
            // Where that is not possible, the program has to say so.
            let _ = std::fs::File::create(&config);
        }
        [
            ("LONGHAUL_CONFIG", format!("{dir}/config.toml")),
            ("LONGHAUL_KEEPER", "0".to_owned()),
            ("LONGHAUL_STATE_DIR", dir.clone()),
            ("HOME", dir),
            ("TERM", "xterm-256color".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TZ", "UTC".to_owned()),
        ]
    }

    /// Runs a command of the demo's session to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(&["--session", "demo"]);
        command.args(arguments).output().unwrap()
    }

    /// Starts a call on the demo server in the background and gives its id.
    pub(crate) fn call(&self, arguments: &[&str]) -> String {
        self.detached(&["-s", "demo", "call", "--detach"], arguments)
    }

    /// Like [`Self::call`], on this server, in a revision with resumable streams and without tasks.
    pub(crate) fn call_on(&self, server: &str, arguments: &[&str]) -> String {
        let stateful = ["-s", server, "--protocol", "2025-06-18"];
        self.detached(&[&stateful[..], &["call", "--detach"]].concat(), arguments)
    }

    fn detached(&self, call: &[&str], arguments: &[&str]) -> String {
        let ran = self.run(&[call, arguments].concat());
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    /// Opens a program on a terminal of this size.
    pub(crate) fn open_program(&self, program: &str, arguments: &[&str], size: (u16, u16)) -> Tui {
        self.open_with(&[], program, arguments, size)
    }

    /// Opens the screen on a terminal whose other side nobody reads.
    pub(crate) fn open_unread(
        &self,
        arguments: &[&str],
    ) -> (Box<dyn Child + Send + Sync>, Box<dyn MasterPty + Send>) {
        let size = PtySize {
            rows: 50,
            cols: 200,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(program());
        command.args(arguments);
        command.env_clear();
        for (name, value) in self.environment() {
            command.env(name, value);
        }
        (pair.slave.spawn_command(command).unwrap(), pair.master)
    }

    /// As [`Self::open_program`], with more in its environment.
    pub(crate) fn open_with(
        &self,
        variables: &[(&str, &str)],
        program: &str,
        arguments: &[&str],
        (columns, rows): (u16, u16),
    ) -> Tui {
        let size = PtySize {
            rows,
            cols: columns,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let modes = modes(&*pair.master);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env_clear();
        for (name, value) in self.environment() {
            command.env(name, value);
        }
        command.env("PATH", "/usr/bin:/bin");
        command.env("PS1", "$ ");
        for (name, value) in variables {
            command.env(name, value);
        }
        command.cwd(self.path());
        let child = pair.slave.spawn_command(command).unwrap();
        let (sender, bytes) = mpsc::channel();
        let is_closing = Arc::new(AtomicBool::new(false));
        std::thread::spawn({
            let is_closing = Arc::clone(&is_closing);
            move || {
                let mut buffer = [0; 16_384];
                while let Ok(count @ 1..) = reader.read(&mut buffer) {
                    let is_unheard = sender.send(buffer.get(..count).unwrap().to_vec()).is_err();
                    if is_unheard || is_closing.load(Ordering::SeqCst) {
                        break;
                    }
                }
            }
        });
        Tui {
            master: Some(pair.master),
            child,
            keys: Some(keys),
            bytes,
            is_closing,
            screen: vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0),
            opened: now(),
            raw: Vec::new(),
            came: Vec::new(),
            drawn: 0,
            modes,
        }
    }

    /// Opens the screen.
    pub(crate) fn open(&self, arguments: &[&str], size: (u16, u16)) -> Tui {
        self.open_program(program(), arguments, size)
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        // It may not be running, or not any more.
        let _ = self
            .command(&["demo", "--stop"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// The program under test; `LONGHAUL_TEST_PROGRAM` names another build of it.
pub(crate) fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "a test's own switch")]
    PROGRAM.get_or_init(|| {
        std::env::var("LONGHAUL_TEST_PROGRAM")
            .unwrap_or_else(|_| env!("CARGO_BIN_EXE_longhaul").to_owned())
    })
}

/// The program on a terminal, and what it painted there. Dropping it ends the program.
pub(crate) struct Tui {
    master: Option<Box<dyn MasterPty + Send>>,
    child: Box<dyn Child + Send + Sync>,
    keys: Option<Box<dyn std::io::Write + Send>>,
    bytes: mpsc::Receiver<Vec<u8>>,
    /// Tells the reading thread to let go of the terminal.
    is_closing: Arc<AtomicBool>,
    screen: vt100::Parser,
    opened: Instant,
    /// Every byte that came, as it came.
    raw: Vec<u8>,
    /// Up to which of them had come so long after the terminal was opened.
    came: Vec<(Duration, usize)>,
    /// How many of them the screen has.
    drawn: usize,
    /// The modes that the terminal had before.
    modes: String,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a deadline is the one thing here that knows the time"
)]
fn now() -> Instant {
    Instant::now()
}

fn modes(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios().unwrap())
}

impl Tui {
    /// What stands on the screen.
    pub(crate) fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// The screen with its colours.
    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    /// Every byte that the program wrote so far, as it came out of the terminal.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// How many bytes of [`Self::raw`] had arrived at which time after the terminal was opened.
    pub(crate) fn arrivals(&self) -> &[(Duration, usize)] {
        &self.came
    }

    fn take(&mut self, bytes: &[u8]) {
        // The parser passes over the sign for what was removed, which terminals show in a column of its own.
        const MARK: &[u8] = "\u{fffd}".as_bytes();
        self.raw.extend_from_slice(bytes);
        self.came.push((self.opened.elapsed(), self.raw.len()));
        while let Some(left) = self.raw.get(self.drawn..).filter(|left| !left.is_empty()) {
            if left.starts_with(MARK) {
                self.screen.process("\u{bf}".as_bytes());
                self.drawn += MARK.len();
            } else if MARK.starts_with(left) {
                // Its other half is in the next chunk.
                return;
            } else {
                let next = left
                    .iter()
                    .skip(1)
                    .position(|byte| Some(byte) == MARK.first());
                let end = next.map_or(left.len(), |next| next + 1);
                self.screen.process(left.get(..end).unwrap_or_default());
                self.drawn += end;
            }
        }
    }

    /// Whether the frame that the program is drawing has not come whole; no terminal shows it before.
    fn is_mid_frame(&self) -> bool {
        const SIGN: &[u8] = b"\x1b[?2026";
        let last = self
            .raw
            .windows(SIGN.len())
            .rposition(|bytes| bytes == SIGN);
        let end = last.and_then(|last| self.raw.get(last + SIGN.len()));
        last.is_some() && end != Some(&b'l')
    }

    /// Reads until the screen is as wanted, and tells how long that took.
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        wanted: impl Fn(&vt100::Screen) -> bool,
    ) -> Duration {
        let begin = now();
        while self.is_mid_frame() || !wanted(self.screen.screen()) {
            let left = DEADLINE.saturating_sub(begin.elapsed());
            match self.bytes.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(why) => panic!("no {what} ({why}) in:\n{}", self.text()),
            }
        }
        begin.elapsed()
    }

    /// Reads until the screen shows this.
    pub(crate) fn wait_for(&mut self, text: &str) -> Duration {
        self.wait_until(text, |screen| screen.contents().contains(text))
    }

    /// Reads until a line of the screen has all of this in it.
    pub(crate) fn wait_for_line(&mut self, parts: &[&str]) -> Duration {
        self.wait_until(&format!("line with {parts:?}"), |screen| {
            let text = screen.contents();
            text.lines()
                .any(|line| parts.iter().all(|part| line.contains(part)))
        })
    }

    /// Reads whatever comes for so long.
    pub(crate) fn watch_for(&mut self, span: Duration) {
        let begin = now();
        while let Ok(bytes) = self
            .bytes
            .recv_timeout(span.saturating_sub(begin.elapsed()))
        {
            self.take(&bytes);
        }
    }

    /// Types.
    pub(crate) fn press(&mut self, keys: &str) {
        let to = self.keys.as_mut().expect("the terminal is closed");
        to.write_all(keys.as_bytes()).unwrap();
        to.flush().unwrap();
    }

    /// Changes the size of the terminal.
    pub(crate) fn resize(&mut self, (columns, rows): (u16, u16)) {
        let size = PtySize {
            rows,
            cols: columns,
            ..PtySize::default()
        };
        self.screen
            .screen_mut()
            .set_size(rows.try_into().unwrap(), columns.try_into().unwrap());
        self.master.as_ref().unwrap().resize(size).unwrap();
    }

    /// Tells the program that its terminal has 65,535 columns and as many rows.
    pub(crate) fn grow_without_end(&mut self) {
        let size = PtySize {
            rows: u16::MAX,
            cols: u16::MAX,
            ..PtySize::default()
        };
        self.master.as_ref().unwrap().resize(size).unwrap();
    }

    /// Waits until this process drives the session "default" of a state directory. The first frame comes before that.
    pub(crate) fn wait_until_it_drives(&mut self, state: &Path) {
        let paths = Paths::resolve(Some(state.to_owned()), "default").unwrap();
        let begin = now();
        while DriverLock::holder(&paths) != self.child.process_id() {
            assert!(begin.elapsed() < DEADLINE, "never drives:\n{}", self.text());
            self.watch_for(Duration::from_millis(10));
        }
    }

    /// The process.
    pub(crate) fn pid(&self) -> Pid {
        let pid = i32::try_from(self.child.process_id().unwrap()).unwrap();
        Pid::from_raw(pid).unwrap()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    /// Closes the terminal, as closing its window does.
    pub(crate) fn hang_up(&mut self) {
        self.is_closing.store(true, Ordering::SeqCst);
        // The reading thread looks up with the next byte; no program need have anything to say.
        let terminal = self.master.as_ref().unwrap().tty_name().unwrap();
        let mut terminal = OpenOptions::new()
            .write(true)
            .custom_flags(rustix::fs::OFlags::NOCTTY.bits().cast_signed())
            .open(terminal)
            .unwrap();
        terminal.write_all(b"\0").unwrap();
        drop(terminal);
        while self.bytes.recv_timeout(DEADLINE).is_ok() {}
        self.keys = None;
        self.master = None;
    }

    /// Waits for the end; gives the code and how long it took.
    pub(crate) fn end(&mut self) -> (u32, Duration) {
        let begin = now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let took = begin.elapsed();
                self.read_out();
                return (status.exit_code(), took);
            }
            assert!(begin.elapsed() < DEADLINE, "no end:\n{}", self.text());
            // The terminal has to be read, or the program waits for it.
            match self.bytes.recv_timeout(Duration::from_millis(10)) {
                Ok(bytes) => self.take(&bytes),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    std::thread::park_timeout(Duration::from_millis(10));
                }
            }
        }
    }

    /// Reads what an ended program left behind, until no process has the terminal open.
    fn read_out(&mut self) {
        while let Ok(bytes) = self.bytes.recv_timeout(DEADLINE) {
            self.take(&bytes);
        }
    }

    /// Whether the program has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Whether the terminal is as it was before the program came.
    pub(crate) fn is_given_back(&self) -> bool {
        let screen = self.screen.screen();
        modes(&**self.master.as_ref().unwrap()) == self.modes
            && !screen.alternate_screen()
            && !screen.hide_cursor()
            && !screen.bracketed_paste()
    }
}

impl Drop for Tui {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the picture of the screen is kept.
pub(crate) fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets")
}

// Each test crate uses a part of this only; being named here counts as a use of the rest.

//! The server as a process: one for each directory, on a port that it keeps, in the background if asked.
//!
//! Owns the lock, the file that names port, pid and control socket, and the ways to start and to end. Must not know what
//! the server does. Invariant: who holds the lock file is the server; everything else in the directory may be stale.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::{
        fs::{OpenOptionsExt, PermissionsExt},
        net::UnixListener,
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::{self, JoinHandle},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    DemoError, Options, control,
    disk::private_dir,
    life::{Boot, End, nonblocking},
};

/// A path longer than this does not fit into a socket address (108 bytes, of which one ends it).
const LONGEST_SOCKET_PATH: usize = 107;
/// Between two looks at something that another process does.
const LOOK: Duration = Duration::from_millis(20);
/// Looks before we give up: ten seconds.
const LOOKS: u32 = 500;
/// How socket directories outside the data directory are named.
const SOCKET_DIR: &str = "longhaul-demo-";

/// A demo server that runs in some process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its MCP endpoint.
    pub url: String,
    /// Its process id.
    pub pid: u32,
}

/// What the directory says of its server. It stays when the server ends: the port is kept for the next time.
#[derive(Debug, Serialize, Deserialize)]
struct Card {
    port: u16,
    pid: u32,
    socket: PathBuf,
}

impl Card {
    fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join("server.json")).ok()?).ok()
    }

    fn write(&self, dir: &Path) -> Result<(), DemoError> {
        let what = || DemoError::io(format!("write {}", dir.join("server.json").display()));
        // A temporary file has mode 0600, and readers see the old card or the new one.
        let mut file = tempfile::NamedTempFile::new_in(dir).map_err(what())?;
        serde_json::to_writer(&mut file, self).map_err(|error| what()(error.into()))?;
        file.persist(dir.join("server.json"))
            .map_err(|error| what()(error.error))?;
        Ok(())
    }
}

/// The endpoint at a port.
pub(super) fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/mcp")
}

/// Where the server of `dir` listens for commands, if one ever ran there.
pub(super) fn control_socket(dir: &Path) -> Option<PathBuf> {
    Card::read(dir).map(|card| card.socket)
}

/// Looks again and again until `look` sees something, for at most ten seconds.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that looks at another process again and again"
)]
pub(super) fn patiently<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..LOOKS {
        if let Some(seen) = look() {
            return Some(seen);
        }
        thread::sleep(LOOK); // sleep: another process cannot wake us
    }
    None
}

/// The right to be the server of a directory, and its port.
struct Post {
    options: Options,
    addr: SocketAddr,
    /// Held as long as the post is.
    _lock: File,
    /// The first listener; later boots bind the same address again.
    http: Option<TcpListener>,
}

impl Post {
    fn take(options: Options) -> Result<Self, DemoError> {
        let dir = &options.dir;
        private_dir(dir)?;
        let path = dir.join("lock");
        let what = || DemoError::io(format!("lock {}", path.display()));
        let lock = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(what())?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => DemoError::AlreadyRunning { dir: dir.clone() },
            TryLockError::Error(error) => what()(error),
        })?;
        let kept = Card::read(dir).map(|card| card.port);
        let http = match (options.port, kept) {
            (Some(port), _) => bind(port),
            (None, Some(kept)) => bind(kept).or_else(|_| bind(0)),
            (None, None) => bind(0),
        }?;
        let addr = http
            .local_addr()
            .map_err(DemoError::io("read the server's address"))?;
        Ok(Self {
            options,
            addr,
            _lock: lock,
            http: Some(http),
        })
    }

    /// Runs boots until one ends that is not a restart. `again` may take over at a restart.
    fn hold(
        mut self,
        kill: &CancellationToken,
        ready: impl FnOnce(),
        again: impl Fn(),
    ) -> Result<End, DemoError> {
        let mut ready = Some(ready);
        loop {
            let http = match self.http.take() {
                Some(http) => http,
                None => patiently(|| bind(self.addr.port()).ok())
                    .map_or_else(|| bind(self.addr.port()), Ok)?,
            };
            let (socket, path) = self.open_socket()?;
            Card {
                port: self.addr.port(),
                pid: std::process::id(),
                socket: path.clone(),
            }
            .write(&self.options.dir)?;
            let boot = Boot {
                dir: self.options.dir.clone(),
                http: nonblocking(http).map_err(DemoError::io("use the server's port"))?,
                control: socket,
                cross_stream_replay: self.options.cross_stream_replay,
                idle_exit: self.options.idle_exit,
                kill: kill.clone(),
            };
            let end = boot.run(|| {
                if let Some(ready) = ready.take() {
                    ready();
                }
            })?;
            match end {
                End::Restart => again(),
                End::Stop | End::Idle => {
                    forget_socket(&path);
                    return Ok(end);
                }
                End::Kill => return Ok(end),
            }
        }
    }

    /// Opens the control socket, in the directory if its path is short enough.
    fn open_socket(&self) -> Result<(UnixListener, PathBuf), DemoError> {
        let what = || DemoError::io("open the control socket");
        if let Some(stale) = control_socket(&self.options.dir) {
            forget_socket(&stale);
        }
        let mut path = self.options.dir.join("control.sock");
        if path.as_os_str().len() > LONGEST_SOCKET_PATH {
            let near = dirs::runtime_dir().unwrap_or_else(|| PathBuf::from("/tmp"));
            // Made with mode 0700.
            let made = tempfile::Builder::new()
                .prefix(SOCKET_DIR)
                .tempdir_in(near)
                .map_err(what())?;
            path = made.keep().join("control.sock");
        }
        let socket = UnixListener::bind(&path).map_err(what())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(what())?;
        socket.set_nonblocking(true).map_err(what())?;
        Ok((socket, path))
    }
}

/// Removes a control socket that nobody listens on any more, and its directory if it was made for it alone.
fn forget_socket(path: &Path) {
    let _ = fs::remove_file(path);
    if let Some(dir) = path.parent()
        && dir
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(SOCKET_DIR))
    {
        let _ = fs::remove_dir(dir);
    }
}

fn bind(port: u16) -> Result<TcpListener, DemoError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map_err(DemoError::io(format!("listen on 127.0.0.1:{port}")))
}

/// A demo server in this process, on a thread of its own. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    kill: CancellationToken,
    thread: Option<JoinHandle<()>>,
    done: oneshot::Receiver<()>,
}

/// Starts a demo server in this process and returns once it answers.
pub async fn serve(options: Options) -> Result<Server, DemoError> {
    let post = Post::take(options)?;
    let addr = post.addr;
    let kill = CancellationToken::new();
    let (ready, is_ready) = oneshot::channel();
    let (finished, done) = oneshot::channel();
    let (failed, failure) = oneshot::channel();
    let token = kill.clone();
    let thread = thread::Builder::new()
        .name("demo-server".to_owned())
        .spawn(move || {
            let ready = || {
                let _ = ready.send(());
            };
            if let Err(error) = post.hold(&token, ready, || ()) {
                tracing::error!(%error, "the demo server has ended");
                let _ = failed.send(error);
            }
            let _ = finished.send(());
        })
        .map_err(DemoError::io("start the server's thread"))?;
    if is_ready.await.is_err() {
        return Err(failure
            .await
            .unwrap_or_else(|_| DemoError::NotStarted("it ended at once".to_owned())));
    }
    Ok(Server {
        addr,
        kill,
        thread: Some(thread),
        done,
    })
}

impl Server {
    /// The MCP endpoint, `http://127.0.0.1:PORT/mcp`.
    pub fn url(&self) -> String {
        url(self.addr.port())
    }

    /// The address of the TCP listener.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns once the server has ended by itself or by a command.
    pub async fn finished(mut self) {
        let _ = (&mut self.done).await;
    }

    /// Ends the server abruptly, as `kill -9` would, and returns once nothing of it is left.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs a demo server on this thread until it ends; the first line of `out` is its URL.
///
/// At a restart the process replaces itself by a fresh one with the same pid and arguments.
pub fn run_blocking(options: Options, out: &mut dyn Write) -> Result<(), DemoError> {
    // The lock of a server that was killed this moment falls when the system has buried it; one that answers keeps it.
    let taken = patiently(|| match Post::take(options.clone()) {
        Err(DemoError::AlreadyRunning { dir }) => {
            find_running(&dir).map(|_| Err(DemoError::AlreadyRunning { dir }))
        }
        other => Some(other),
    });
    let dir = options.dir;
    let post = taken.unwrap_or(Err(DemoError::AlreadyRunning { dir }))?;
    let url = url(post.addr.port());
    let ready = || {
        // Nobody may listen any more, above all after a restart; the server goes on all the same.
        let _ = writeln!(out, "{url}");
        let _ = out.flush();
    };
    post.hold(&CancellationToken::new(), ready, replace_process)?;
    Ok(())
}

/// Becomes a fresh process; returns only where that is impossible (the program's file was replaced meanwhile).
fn replace_process() {
    if let Ok(exe) = std::env::current_exe() {
        let error = Command::new(exe).args(std::env::args_os().skip(1)).exec();
        tracing::warn!(%error, "the server restarts inside its process");
    }
}

/// The server of `dir`, if one answers there.
pub fn find_running(dir: &Path) -> Option<Running> {
    control::status(dir).ok().map(|status| status.running())
}

/// Starts `exe` with `args` as a server of `dir` that outlives this process, and returns once it answers.
///
/// The child has no terminal and must call [`detach`] itself; what it says on stderr goes to `server.log` in `dir`.
/// If a server runs there already, that one is returned.
pub fn start_in_background(
    dir: &Path,
    exe: &Path,
    args: &[OsString],
) -> Result<Running, DemoError> {
    if let Some(running) = find_running(dir) {
        return Ok(running);
    }
    private_dir(dir)?;
    let what = || DemoError::io(format!("start {}", exe.display()));
    let log = File::options()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(dir.join("server.log"))
        .map_err(what())?;
    let mut child = Command::new(exe)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::from(log))
        .spawn()
        .map_err(what())?;
    let mut ended = None;
    let running = patiently(|| {
        let running = find_running(dir);
        if running.is_none() {
            ended = child.try_wait().ok().flatten();
        }
        // A child that has ended may have found another server that was just starting: one more look decides.
        running
            .or_else(|| ended.and_then(|_| find_running(dir)))
            .map(Some)
            .or(ended.map(|_| None))
    });
    let Some(Some(running)) = running else {
        let said = fs::read_to_string(dir.join("server.log")).unwrap_or_default();
        let status =
            ended.map_or_else(|| "no answer for ten seconds".to_owned(), |s| s.to_string());
        return Err(DemoError::NotStarted(format!("{status}: {}", said.trim())));
    };
    // Reaps the child if it ends before we do.
    let _ = thread::Builder::new()
        .name("demo-child".to_owned())
        .spawn(move || child.wait());
    Ok(running)
}

/// Leaves the terminal's session, so that its hang-up does not reach this process.
pub fn detach() -> io::Result<()> {
    match rustix::process::setsid() {
        // It leads a session already: a restarted server does.
        Ok(_) | Err(rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

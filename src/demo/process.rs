//! The server process: at most one per directory, on a stable port, optionally in the background.
//!
//! Invariant: the holder of the lock file is the server. Everything else in the directory, such as `server.json` with
//! port, pid and control socket, may be stale.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::{
        fs::{OpenOptionsExt, PermissionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use tokio_util::sync::CancellationToken;

use super::{boot::Boot, control, database::private_dir};
use crate::demo::{
    activity::ShutdownReason,
    error::DemoError,
    options::DemoOptions,
    running::{
        MAX_SOCKET_PATH, RunningServer, SOCKET_DIR_PREFIX, ServerFile, control_socket,
        poll_until_some, url,
    },
};

/// The locked data directory and bound port of a server.
#[derive(Debug)]
pub struct ServerLock {
    options: DemoOptions,
    /// The address of the TCP listener.
    pub addr: SocketAddr,
    _lock: File,
    /// The first listener; later boots bind the same address again.
    http: Option<TcpListener>,
}

impl ServerLock {
    /// Locks the directory and binds the port, the previous one if possible.
    pub fn acquire(options: DemoOptions) -> Result<Self, DemoError> {
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
        let previous_port = ServerFile::read(dir).map(|file| file.port);
        let http = match (options.port, previous_port) {
            (Some(port), _) => bind(port),
            (None, Some(previous)) => bind(previous).or_else(|_| bind(0)),
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

    /// Boots the server on this thread until a boot ends for good, as if by `kill -9` once `kill` is cancelled.
    pub fn run(mut self, kill: &CancellationToken, ready: impl FnOnce()) -> Result<(), DemoError> {
        let mut ready = Some(ready);
        loop {
            let http = match self.http.take() {
                Some(http) => http,
                None => poll_until_some(|| bind(self.addr.port()).ok())
                    .map_or_else(|| bind(self.addr.port()), Ok)?,
            };
            let (socket, path) = self.open_socket()?;
            ServerFile {
                port: self.addr.port(),
                pid: std::process::id(),
                socket: path.clone(),
            }
            .write(&self.options.dir)?;
            http.set_nonblocking(true)
                .map_err(DemoError::io("use the server's port"))?;
            let boot = Boot {
                options: self.options.clone(),
                http,
                control: socket,
                kill: kill.clone(),
            };
            let end = boot.run(|| {
                if let Some(ready) = ready.take() {
                    ready();
                }
            })?;
            match end {
                ShutdownReason::Restart => {}
                ShutdownReason::Stop | ShutdownReason::Idle => {
                    remove_socket(&path);
                    return Ok(());
                }
                ShutdownReason::Kill => return Ok(()),
            }
        }
    }

    /// Opens the control socket, in the data directory if its path is short enough.
    fn open_socket(&self) -> Result<(UnixListener, PathBuf), DemoError> {
        let what = || DemoError::io("open the control socket");
        if let Some(stale) = control_socket(&self.options.dir) {
            remove_socket(&stale);
        }
        let mut path = self.options.dir.join("control.sock");
        if path.as_os_str().len() > MAX_SOCKET_PATH {
            let parent = dirs::runtime_dir().unwrap_or_else(|| PathBuf::from("/tmp"));
            // Created with mode 0700.
            let socket_dir = tempfile::Builder::new()
                .prefix(SOCKET_DIR_PREFIX)
                .tempdir_in(parent)
                .map_err(what())?;
            path = socket_dir.keep().join("control.sock");
        }
        let socket = UnixListener::bind(&path).map_err(what())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(what())?;
        socket.set_nonblocking(true).map_err(what())?;
        Ok((socket, path))
    }
}

/// Removes an unused control socket, and its directory if that was created for the socket.
fn remove_socket(path: &Path) {
    let _ = fs::remove_file(path);
    if let Some(dir) = path.parent()
        && dir
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(SOCKET_DIR_PREFIX))
    {
        let _ = fs::remove_dir(dir);
    }
}

fn bind(port: u16) -> Result<TcpListener, DemoError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => DemoError::PortInUse(port),
        _ => DemoError::io(format!("listen on 127.0.0.1:{port}"))(error),
    })
}

/// Runs a demo server on this thread until it ends, and writes its URL as the first line of `out`.
pub fn run_blocking(options: DemoOptions, out: &mut dyn Write) -> Result<(), DemoError> {
    // A server that was just killed may hold its lock until the kernel has cleaned up; only one that responds is running.
    let lock = poll_until_some(|| match ServerLock::acquire(options.clone()) {
        Err(DemoError::AlreadyRunning { dir }) => {
            find_running(&dir).map(|_| Err(DemoError::AlreadyRunning { dir }))
        }
        other => Some(other),
    });
    let dir = options.dir;
    let lock = lock.unwrap_or(Err(DemoError::AlreadyRunning { dir }))?;
    let url = url(lock.addr.port());
    let ready = || {
        // The reader of stdout may be gone; the server runs on without it.
        let _ = writeln!(out, "{url}");
        let _ = out.flush();
    };
    lock.run(&CancellationToken::new(), ready)
}

/// The server of `dir`, if one responds.
pub fn find_running(dir: &Path) -> Option<RunningServer> {
    control::status(dir).ok().map(|(server, _)| server)
}

/// Starts `exe` with `args` as a background server of `dir` and returns once it responds, or returns the server that
/// already runs there.
///
/// The child must call [`detach`] itself. Its stderr goes to `server.log` in `dir`.
pub fn start_in_background(
    dir: &Path,
    exe: &Path,
    args: &[OsString],
) -> Result<RunningServer, DemoError> {
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
    let running = poll_until_some(|| {
        let running = find_running(dir);
        if running.is_none() {
            ended = child.try_wait().ok().flatten();
        }
        // The child may have exited because another server was just starting; check once more.
        running
            .or_else(|| ended.and_then(|_| find_running(dir)))
            .map(Some)
            .or(ended.map(|_| None))
    });
    let Some(Some(running)) = running else {
        let log = fs::read_to_string(dir.join("server.log")).unwrap_or_default();
        let status = ended.map_or_else(|| "no response within 10 s".to_owned(), |s| s.to_string());
        return Err(DemoError::NotStarted(format!("{status}: {}", log.trim())));
    };
    // Reaps the child if it ends before we do.
    let _ = thread::Builder::new()
        .name("demo-child".to_owned())
        .spawn(move || child.wait());
    Ok(running)
}

/// Leaves the terminal's session, so that this process gets no SIGHUP when the terminal closes.
pub fn detach() -> io::Result<()> {
    match rustix::process::setsid() {
        // Already a process group leader, as a command that a shell started is.
        Ok(_) | Err(rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

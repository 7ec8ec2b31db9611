//! The demo server on a thread of the test, and what it has in its database.

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::Path,
    thread::{self, JoinHandle},
};

use longhaul::demo::{DemoError, DemoOptions, ServerLock};
use rusqlite::Connection;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// A demo server on its own thread in this process. Dropping it kills the server.
#[derive(Debug)]
pub(crate) struct DemoServer {
    addr: SocketAddr,
    kill: CancellationToken,
    thread: Option<JoinHandle<Result<(), DemoError>>>,
    /// Ends with the thread.
    done: oneshot::Receiver<Infallible>,
}

/// Starts a demo server in this process and returns once it accepts requests.
pub(crate) async fn serve(options: DemoOptions) -> Result<DemoServer, DemoError> {
    let lock = ServerLock::acquire(options)?;
    let addr = lock.addr;
    let kill = CancellationToken::new();
    let (ready, is_ready) = oneshot::channel();
    let (finished, done) = oneshot::channel();
    let token = kill.clone();
    let thread = thread::spawn(move || {
        // Dropping it tells `DemoServer::finished`.
        let _finished = finished;
        let ready = || {
            let _ = ready.send(());
        };
        lock.run(&token, ready)
    });
    if is_ready.await.is_err() {
        return Err(match thread.join() {
            Ok(Err(error)) => error,
            _ => DemoError::NotStarted("it exited immediately".to_owned()),
        });
    }
    Ok(DemoServer {
        addr,
        kill,
        thread: Some(thread),
        done,
    })
}

impl DemoServer {
    /// The MCP endpoint, `http://127.0.0.1:PORT/mcp`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// The address of the TCP listener.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns once the server exits on its own or on a command.
    pub(crate) async fn finished(mut self) {
        let _ = (&mut self.done).await;
    }

    /// Stops the server abruptly, as `kill -9` would, and returns once its thread has ended.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        self.kill.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Counts the records processed for a client id, from the database in `dir`; works with or without a running server.
pub(crate) fn rows(dir: &Path, client_id: &str) -> rusqlite::Result<u64> {
    let connection = Connection::open(dir.join("demo.db"))?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    let count: i64 = connection.query_row(
        "SELECT count(*) FROM processed WHERE client_id = ?1",
        [client_id],
        |row| row.get(0),
    )?;
    Ok(count.unsigned_abs())
}

//! The driver's socket: other longhauls on the same session ask over it and see what the driver publishes.
//!
//! One JSON value a line. A client sends [`ToDriver`], the driver sends [`News`]. The socket is 0600 in a directory of the
//! user's own; whoever can open it may do what the user may.

use std::{os::unix::fs::PermissionsExt as _, sync::Arc};

use futures_util::{SinkExt, StreamExt as _};
use serde::{Deserialize, Serialize};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
    task::AbortHandle,
};
use tokio_util::codec::{Framed, LinesCodec};

use super::{
    board::Board,
    session::{Asked, Ending, OpenAsks, Options},
};
use crate::{
    domain::{Ask, AskId, News, exit},
    store::Paths,
};

/// The longest line on the socket: a call's arguments, or a task with its attempts.
const LINE_BYTES: usize = 64 * 1024 * 1024;

/// Said of a driver whose news cannot be read.
const FOREIGN: &str =
    "the longhaul that drives this session is of another version; end it and start again";

/// What a client sends.
#[derive(Debug, Serialize, Deserialize)]
struct ToDriver {
    ask: AskId,
    what: Ask,
}

/// The listening socket; dropping it closes and removes it.
pub(super) struct Listener {
    accepting: AbortHandle,
    path: std::path::PathBuf,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
        // A socket that stays behind is replaced by the next driver.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Opens the socket; the caller holds the lock, so a socket in its place is a dead driver's.
pub(super) fn listen(
    paths: &Paths,
    board: &Arc<Board>,
    asks: mpsc::Sender<Asked>,
) -> Result<Listener, String> {
    let path = paths.socket();
    let fail = |error: std::io::Error| {
        format!(
            "could not open {} ({error}); other terminals cannot join this session",
            path.display()
        )
    };
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(fail)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(fail)?;
    let board = Arc::clone(board);
    let accepting = tokio::task::spawn_local(async move {
        let mut clients = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            clients.spawn_local(serve(stream, Arc::clone(&board), asks.clone()));
            while clients.try_join_next().is_some() {}
        }
    });
    Ok(Listener {
        accepting: accepting.abort_handle(),
        path: path.clone(),
    })
}

/// One client: his asks in, the newest of everything out.
async fn serve(stream: UnixStream, board: Arc<Board>, asks: mpsc::Sender<Asked>) {
    let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LINE_BYTES));
    let subscription = board.subscribe();
    loop {
        tokio::select! {
            line = lines.next() => {
                let Some(Ok(line)) = line else { return };
                let Ok(ToDriver { ask, what }) = serde_json::from_str(&line) else { return };
                if asks.send(Asked { reader: subscription.id, ask, what }).await.is_err() {
                    return;
                }
            }
            () = subscription.changed() => {
                for news in subscription.take() {
                    let news = match news {
                        News::Driver { pid, .. } => News::Driver { pid, is_us: false },
                        other => other,
                    };
                    let Ok(line) = serde_json::to_string(&news) else { continue };
                    if lines.feed(line).await.is_err() {
                        return;
                    }
                }
                if SinkExt::<String>::flush(&mut lines).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Follows the driver as its client until it goes or we do; `None` if it does not answer.
pub(super) async fn follow(
    options: &mut Options,
    board: &Arc<Board>,
    asks: &mut mpsc::Receiver<Asked>,
    leaving: &mut oneshot::Receiver<()>,
    open: &mut OpenAsks,
) -> Option<Ending> {
    let stream = UnixStream::connect(options.paths.socket()).await.ok()?;
    let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LINE_BYTES));
    // Servers of our own command line are made known first; nobody waits for these answers.
    let servers = options
        .servers
        .iter()
        .map(|server| (0, Ask::Server(server.clone())));
    for (ask, what) in servers.chain(open.all()) {
        let line = serde_json::to_string(&ToDriver { ask, what }).ok()?;
        lines.send(line).await.ok()?;
    }
    let mut has_heard = false;
    let mut is_foreign = false;
    loop {
        tokio::select! {
            line = lines.next() => {
                let ended = if has_heard { Some(Ending::DriverGone) } else { None };
                let Some(Ok(line)) = line else { return ended };
                has_heard = true;
                let Ok(news) = serde_json::from_str::<News>(&line) else {
                    // Said once; asking again and again would only be heard again and again.
                    if !std::mem::replace(&mut is_foreign, true) {
                        let words = FOREIGN.to_owned();
                        board.publish(News::Trouble { words, exit: exit::DRIVER_SILENT });
                        open.refuse_all(board, FOREIGN);
                    }
                    continue;
                };
                if is_foreign {
                    continue;
                }
                match news {
                    News::Answer { ask, outcome } => open.answer(board, ask, outcome),
                    other => board.publish(other),
                }
            }
            asked = asks.recv() => {
                let Some(asked) = asked else { return Some(Ending::Left) };
                let what = asked.what.clone();
                let ask = open.add(asked);
                if is_foreign {
                    open.refuse_all(board, FOREIGN);
                    continue;
                }
                let line = serde_json::to_string(&ToDriver { ask, what }).ok()?;
                if lines.send(line).await.is_err() {
                    return Some(Ending::DriverGone);
                }
            }
            _ = &mut *leaving => return Some(Ending::Left),
        }
    }
}

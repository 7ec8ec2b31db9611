//! The far end of a tunnel: connects standard input and output with the keeper's socket, starts a keeper if there is none,
//! and reads the session file for the screen at the other end.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::{net::UnixStream, time::Instant};
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec, LinesCodecError};

use super::{
    keeper::{KeeperCommand, StartError},
    saved::read_saved,
    socket::ToDriver,
    tunnel::LINE_BYTES,
};
use crate::{
    domain::{RequestError, SessionEvent, SessionRequest, SessionResponse},
    store::Paths,
};

/// A client pings every 2 s. Without a line for so long, it is gone, or the connection is half-open.
const SILENT_FOR: Duration = Duration::from_secs(15);

/// How long the other end may take to accept bytes.
const WRITE_WITHIN: Duration = Duration::from_secs(15);

/// Why the far end of a tunnel cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// There is no keeper, and none can be started.
    #[error(transparent)]
    Keeper(#[from] StartError),
    /// The keeper cannot be reached.
    #[error("could not connect to the keeper: {0}")]
    Socket(#[from] std::io::Error),
}

/// Relays until either end hangs up or the client is silent.
pub async fn relay(paths: &Paths, keeper: &KeeperCommand) -> Result<(), RelayError> {
    let mut stream = UnixStream::connect(paths.socket()).await;
    if stream.is_err() {
        keeper.start(paths).await?;
        stream = UnixStream::connect(paths.socket()).await;
    }
    let stream = stream?;
    let (from_keeper, to_keeper) = stream.into_split();
    let codec = || LinesCodec::new_with_max_length(LINE_BYTES);
    let mut from_keeper = FramedRead::new(from_keeper, codec());
    let mut to_keeper = FramedWrite::new(to_keeper, codec());
    let mut from_client = FramedRead::new(tokio::io::stdin(), codec());
    // Not tokio's own: this process holds the lock of the standard library's.
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)
        .map_err(std::io::Error::from)?;
    let output = tokio::fs::File::from_std(std::fs::File::from(output));
    let mut to_client = FramedWrite::new(output, codec());
    let mut heard_at = Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(heard_at + SILENT_FOR) => return Ok(()),
            line = from_keeper.next() => {
                let Some(Ok(line)) = line else { return Ok(()) };
                if !is_sent(to_client.send(line)).await {
                    return Ok(());
                }
            }
            line = from_client.next() => {
                let Some(Ok(line)) = line else { return Ok(()) };
                heard_at = Instant::now();
                match serde_json::from_str(&line) {
                    Ok(ToDriver { ask, what: SessionRequest::Read(read) }) => {
                        let paths = paths.clone();
                        let outcome = tokio::task::spawn_blocking(move || read_saved(&paths, &read)).await;
                        let outcome = match outcome {
                            Ok(Ok(saved)) => Ok(SessionResponse::Read(saved)),
                            Ok(Err(error)) => Err(RequestError::CannotSave(error.to_string())),
                            Err(_) => Err(RequestError::CannotSave("could not read it".to_owned())),
                        };
                        let answer = SessionEvent::Response { request: ask, outcome };
                        let Ok(answer) = serde_json::to_string(&answer) else { continue };
                        if !is_sent(to_client.send(answer)).await {
                            return Ok(());
                        }
                    }
                    _ => {
                        if !is_sent(to_keeper.send(line)).await {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }
}

async fn is_sent(sending: impl Future<Output = Result<(), LinesCodecError>>) -> bool {
    matches!(
        tokio::time::timeout(WRITE_WITHIN, sending).await,
        Ok(Ok(()))
    )
}

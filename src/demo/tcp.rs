//! The TCP layer with network faults: a listener that closes during a cut, and connections that can be reset, stalled
//! or dropped after an event.
//!
//! A cut resets connections (RST) and refuses new ones. A drop closes a connection only after its pending bytes were
//! written, as a terminating proxy would.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{Instant, Sleep, sleep, sleep_until},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::faults::Faults;
use crate::demo::activity::{ActivityGuard, ActivityTracker};

/// The delay before binding or accepting is tried again.
const RETRY: Duration = Duration::from_millis(20);

/// The HTTP listener of one boot.
pub(super) struct FaultyListener {
    addr: SocketAddr,
    listener: Option<TcpListener>,
    faults: Arc<Faults>,
    cuts: watch::Receiver<Option<Instant>>,
    activity: Arc<ActivityTracker>,
}

impl FaultyListener {
    pub(super) fn new(
        listener: TcpListener,
        faults: Arc<Faults>,
        activity: Arc<ActivityTracker>,
    ) -> io::Result<Self> {
        let addr = listener.local_addr()?;
        let cuts = faults.cut_until.subscribe();
        Ok(Self {
            addr,
            listener: Some(listener),
            faults,
            cuts,
            activity,
        })
    }

    async fn bind(&mut self) -> &TcpListener {
        loop {
            // Another process may hold the port for a moment. Clients know this address, so keep trying.
            match TcpListener::bind(self.addr).await {
                Ok(listener) => {
                    self.faults.is_listening.send_replace(true);
                    return self.listener.insert(listener);
                }
                Err(error) => {
                    tracing::debug!(%error, "port still in use");
                    sleep(RETRY).await; // sleep: the system does not signal when the port is free
                }
            }
        }
    }
}

impl Listener for FaultyListener {
    type Io = FaultyConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let until = *self.cuts.borrow_and_update();
            if let Some(until) = until.filter(|until| *until > Instant::now()) {
                // With the listener closed, the kernel refuses new connections; also if a child process that is being
                // started holds a copy of it.
                if let Some(listener) = self.listener.take() {
                    let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
                }
                self.faults.is_listening.send_replace(false);
                tokio::select! {
                    () = sleep_until(until) => {}
                    _ = self.cuts.changed() => {}
                }
                continue;
            }
            let mut cuts = self.cuts.clone();
            // Taken before accept, so that a cut between the two also resets the new connection.
            let cut_token = self.faults.cut_token();
            let listener = match self.listener.take() {
                Some(listener) => self.listener.insert(listener),
                None => self.bind().await,
            };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = cuts.changed() => continue,
            };
            match accepted {
                Ok((tcp, addr)) => {
                    let _ = tcp.set_nodelay(true);
                    let connection = FaultyConnection {
                        tcp,
                        faults: Arc::clone(&self.faults),
                        cut: Some(Box::pin(cut_token.cancelled_owned())),
                        stall: None,
                        handle: ConnectionHandle::default(),
                        _activity: ActivityTracker::start(&self.activity),
                    };
                    return (connection, addr);
                }
                Err(error) => {
                    tracing::debug!(%error, "accept failed");
                    sleep(RETRY).await; // sleep: errors such as EMFILE pass without a signal
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.addr)
    }
}

/// Lets an event stream close the TCP connection that carries it; the axum connect info of its requests.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionHandle(CancellationToken);

impl ConnectionHandle {
    /// Closes the connection after the bytes written so far are flushed.
    pub(super) fn drop_after_flush(&self) {
        self.0.cancel();
    }
}

impl Connected<IncomingStream<'_, FaultyListener>> for ConnectionHandle {
    fn connect_info(stream: IncomingStream<'_, FaultyListener>) -> Self {
        stream.io().handle.clone()
    }
}

/// A TCP connection that cuts, stalls and drops act on.
pub(super) struct FaultyConnection {
    tcp: TcpStream,
    faults: Arc<Faults>,
    cut: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    stall: Option<Pin<Box<Sleep>>>,
    handle: ConnectionHandle,
    _activity: ActivityGuard,
}

impl FaultyConnection {
    /// Ready when bytes may flow, pending during a stall, an error after a cut.
    fn poll_faults(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let cut = self.cut.as_mut();
        if cut.is_none_or(|cut| cut.as_mut().poll(cx).is_ready()) {
            // Reset rather than close: a cut network sends no FIN.
            let _ = self.tcp.set_zero_linger();
            // A finished future must not be polled again, and hyper may poll once more.
            self.cut = None;
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        while let Some(until) = self.faults.stall.until() {
            let sleep = self.stall.insert(Box::pin(sleep_until(until)));
            ready!(sleep.as_mut().poll(cx));
        }
        self.stall = None;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for FaultyConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_faults(cx))?;
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for FaultyConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_faults(cx))?;
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_faults(cx))?;
        ready!(Pin::new(&mut self.tcp).poll_flush(cx))?;
        if self.handle.0.is_cancelled() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

//! TCP: the listener that a cut closes, and connections that can be reset, stalled or dropped after an event.
//!
//! Must not know HTTP. A cut connection is reset (RST) and the port refuses; a dropped one ends after the bytes that were
//! already handed to it, as a proxy that goes away would end it.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
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
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{
    faults::Faults,
    life::{Presence, Present},
};

/// How long to wait before the port is asked for again, or after an accept that failed.
const RETRY: Duration = Duration::from_millis(20);

/// The listener of one boot.
pub(super) struct Door {
    addr: SocketAddr,
    listener: Option<TcpListener>,
    faults: Arc<Faults>,
    cuts: watch::Receiver<Option<Instant>>,
    presence: Arc<Presence>,
}

impl Door {
    /// Takes over a bound listener.
    pub(super) fn new(
        listener: TcpListener,
        faults: Arc<Faults>,
        presence: Arc<Presence>,
    ) -> io::Result<Self> {
        let addr = listener.local_addr()?;
        let cuts = faults.cuts();
        Ok(Self {
            addr,
            listener: Some(listener),
            faults,
            cuts,
            presence,
        })
    }

    async fn bind(&mut self) -> &TcpListener {
        loop {
            // Somebody else may hold the port for a moment; the server's address is a promise, so we keep asking.
            match TcpListener::bind(self.addr).await {
                Ok(listener) => {
                    self.faults.door_is(true);
                    return self.listener.insert(listener);
                }
                Err(error) => {
                    tracing::debug!(%error, "the port is not free yet");
                    sleep(RETRY).await; // sleep: the system does not say when it is free
                }
            }
        }
    }
}

impl Listener for Door {
    type Io = Wire;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let until = *self.cuts.borrow_and_update();
            if let Some(until) = until.filter(|until| *until > Instant::now()) {
                // Closing the listener is what makes the port refuse.
                self.listener = None;
                self.faults.door_is(false);
                tokio::select! {
                    () = sleep_until(until) => {}
                    _ = self.cuts.changed() => {}
                }
                continue;
            }
            let mut cuts = self.cuts.clone();
            // Taken before the connection is: a cut that falls between the two must reach it.
            let cutter = self.faults.cutter();
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
                    let wire = Wire {
                        tcp,
                        faults: Arc::clone(&self.faults),
                        cut: Box::pin(cutter.cancelled_owned()),
                        stall: None,
                        hook: Arc::default(),
                        present: Presence::connection(&self.presence),
                    };
                    return (wire, addr);
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection was not taken");
                    sleep(RETRY).await; // sleep: the system does not say when it is free
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.addr)
    }
}

/// What a stream holds of the connection that carries it.
#[derive(Debug, Default)]
pub(super) struct Hook {
    /// End the connection once what was handed to it so far has been written.
    drop_after_flush: AtomicBool,
}

impl Hook {
    pub(super) fn drop_after_flush(&self) {
        self.drop_after_flush.store(true, Ordering::SeqCst);
    }
}

/// The connection of a request, as a request extension.
#[derive(Debug, Clone)]
pub(super) struct Line(pub(super) Arc<Hook>);

impl Connected<IncomingStream<'_, Door>> for Line {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self(Arc::clone(&stream.io().hook))
    }
}

/// One TCP connection.
pub(super) struct Wire {
    tcp: TcpStream,
    faults: Arc<Faults>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    stall: Option<Pin<Box<Sleep>>>,
    hook: Arc<Hook>,
    present: Present,
}

impl Wire {
    /// Ready when bytes may flow; an error when the connection is cut.
    fn gate(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.cut.as_mut().poll(cx).is_ready() {
            // A cut network says nothing politely: reset instead of an orderly end.
            let _ = self.tcp.set_zero_linger();
            // A finished future must not be polled again, and hyper may ask once more.
            self.cut = Box::pin(already_cut());
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        while let Some(until) = self.faults.stalled_until() {
            let sleep = self.stall.insert(Box::pin(sleep_until(until)));
            ready!(sleep.as_mut().poll(cx));
        }
        self.stall = None;
        Poll::Ready(Ok(()))
    }
}

/// A cut that has happened.
fn already_cut() -> WaitForCancellationFutureOwned {
    let token = tokio_util::sync::CancellationToken::new();
    token.cancel();
    token.cancelled_owned()
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.gate(cx))?;
        let before = buf.filled().len();
        let read = Pin::new(&mut self.tcp).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.present.spoke();
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.gate(cx))?;
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.gate(cx))?;
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.gate(cx))?;
        ready!(Pin::new(&mut self.tcp).poll_flush(cx))?;
        if self.hook.drop_after_flush.load(Ordering::SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

//! The queue from the exchanges to the driver: many arrivals, one wake-up.
//!
//! A job on the network thread reads each exchange, because the HTTP library returns one chunk at a time; if the driver
//! read them itself, every event would cost a turn of its loop. Invariant: all arrivals stay in order, also those of
//! different exchanges, because the steps of a call can come on another stream than its result; and the queue is bounded
//! in number and in bytes.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use futures_util::Stream;
use tokio::sync::Notify;

use crate::{domain::locked, link::ExchangeId, protocol::ExchangeEvent};

/// The maximum number of waiting arrivals; a reader that finds this many yields to the driver.
const WAITING: usize = 4096;
/// The maximum for one exchange, so that a flood leaves room for others. The first arrival of each always has room.
const WAITING_OF_ONE: usize = WAITING / 4;
/// The maximum bytes of waiting events; a single event may be larger.
const WAITING_BYTES: usize = 4 * 1024 * 1024;

/// An arrival, with the link and the exchange that it is of.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) link: usize,
    pub(super) exchange: ExchangeId,
    pub(super) event: ExchangeEvent,
}

/// The arrivals that wait for the driver.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    queue: Mutex<Queue>,
    /// Signals that arrivals are waiting.
    filled: Notify,
    /// Signals that the driver took everything.
    emptied: Notify,
    /// Reading is suspended: data stays in the sockets.
    is_shut: AtomicBool,
    /// The same for connections to other machines; server processes are read.
    is_network_shut: AtomicBool,
    opened: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    arrivals: Vec<Arrival>,
    bytes: usize,
    is_awaited: bool,
    /// How often the driver took everything.
    turn: u64,
}

/// How many arrivals an exchange has put into the queue since the driver last took everything.
#[derive(Debug, Default)]
struct Share {
    turn: u64,
    count: usize,
}

/// Where an exchange comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A connection.
    Network,
    /// The pipes of a server process.
    Process,
}

/// The job that reads an exchange; dropping this ends the job and the exchange.
#[derive(Debug)]
pub(super) struct Reading(tokio::task::AbortHandle);

impl Reading {
    /// Whether the exchange has ended.
    pub(super) fn is_over(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Inbox {
    /// Reads an exchange until it ends or the handle is dropped.
    pub(super) fn read(
        self: &Arc<Self>,
        link: usize,
        exchange: ExchangeId,
        from: Source,
        arrivals: impl Stream<Item = ExchangeEvent> + Send + 'static,
    ) -> Reading {
        let inbox = Arc::clone(self);
        let job = tokio::spawn(async move {
            let mut arrivals = std::pin::pin!(arrivals);
            let mut share = Share::default();
            loop {
                // Checked whenever bytes have arrived: a reader that waited for them must not queue them while the
                // inbox is shut.
                let next = poll_fn(|cx| {
                    if inbox.is_shut(from) {
                        return Poll::Ready(None);
                    }
                    arrivals.as_mut().poll_next(cx).map(Some)
                });
                match next.await {
                    Some(Some(event)) => {
                        let arrival = Arrival {
                            link,
                            exchange,
                            event,
                        };
                        inbox.put(arrival, &mut share).await;
                    }
                    Some(None) => break,
                    None => inbox.opened(from).await,
                }
            }
        });
        Reading(job.abort_handle())
    }

    async fn put(&self, arrival: Arrival, share: &mut Share) {
        loop {
            let emptied = {
                let mut queue = locked(&self.queue);
                if share.turn != queue.turn {
                    (share.turn, share.count) = (queue.turn, 0);
                }
                let has_room = queue.arrivals.len() < WAITING
                    && queue.bytes < WAITING_BYTES
                    && share.count < WAITING_OF_ONE;
                if has_room || share.count == 0 {
                    share.count += 1;
                    if queue.arrivals.is_empty() {
                        self.filled.notify_one();
                    }
                    queue.bytes += size(&arrival.event);
                    queue.arrivals.push(arrival);
                    return;
                }
                queue.is_awaited = true;
                // Under the lock, so that an emptying in between is not missed.
                self.emptied.notified()
            };
            emptied.await;
        }
    }

    /// Lets the readers read, or leaves the data in the sockets.
    pub(super) fn read_on(&self, does: bool) {
        if self.is_shut.swap(!does, Ordering::Relaxed) && does {
            self.opened.notify_waiters();
        }
    }

    /// Lets the connections to other machines be read, or leaves their data in the sockets.
    pub(super) fn read_network(&self, does: bool) {
        if self.is_network_shut.swap(!does, Ordering::Relaxed) && does {
            self.opened.notify_waiters();
        }
    }

    fn is_shut(&self, from: Source) -> bool {
        self.is_shut.load(Ordering::Relaxed)
            || from == Source::Network && self.is_network_shut.load(Ordering::Relaxed)
    }

    async fn opened(&self, from: Source) {
        loop {
            // Before the check, so that an opening in between is not missed.
            let opened = self.opened.notified();
            if !self.is_shut(from) {
                return;
            }
            opened.await;
        }
    }

    /// Waits until there is an arrival. Cancel-safe.
    pub(super) async fn filled(&self) {
        while locked(&self.queue).arrivals.is_empty() {
            self.filled.notified().await;
        }
    }

    /// Takes everything into `into`, which has to be empty and whose capacity is reused.
    pub(super) fn take(&self, into: &mut Vec<Arrival>) {
        let mut queue = locked(&self.queue);
        std::mem::swap(&mut queue.arrivals, into);
        queue.bytes = 0;
        queue.turn += 1;
        if std::mem::take(&mut queue.is_awaited) {
            self.emptied.notify_waiters();
        }
    }
}

fn size(arrival: &ExchangeEvent) -> usize {
    match arrival {
        ExchangeEvent::Event { data, .. } => data.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};

    use super::*;

    fn event(data: String) -> ExchangeEvent {
        ExchangeEvent::Event {
            id: None,
            retry_ms: None,
            data,
        }
    }

    /// Reads until this many arrivals have come and returns each with its exchange.
    async fn take_all(
        inbox: &Inbox,
        count: usize,
        mut each: impl FnMut(ExchangeId, ExchangeEvent),
    ) {
        let (mut taken, mut seen) = (Vec::new(), 0);
        while seen < count {
            inbox.filled().await;
            inbox.take(&mut taken);
            assert!(taken.len() <= WAITING, "{} waited", taken.len());
            for arrival in taken.drain(..) {
                each(arrival.exchange, arrival.event);
                seen += 1;
            }
        }
    }

    #[tokio::test]
    async fn bounds_waiting_events_and_keeps_their_order() {
        let inbox = Arc::new(Inbox::default());
        let many = |of: u64| {
            let events = stream::iter((0..5000).map(move |number| event(format!("{of}:{number}"))));
            // As from the wire: one event, then another stream's.
            events.then(|arrival| async {
                tokio::task::yield_now().await;
                arrival
            })
        };
        let _readings: Vec<Reading> = (0..3)
            .map(|of| inbox.read(0, of, Source::Network, many(of)))
            .collect();
        let mut seen = [0; 3];
        take_all(&inbox, 15_000, |exchange, arrival| {
            let of = usize::try_from(exchange).unwrap();
            assert_eq!(arrival, event(format!("{exchange}:{}", seen[of])));
            seen[of] += 1;
        })
        .await;
        assert_eq!(seen, [5000; 3]);
    }

    #[tokio::test]
    async fn a_flood_leaves_room_for_others() {
        let inbox = Arc::new(Inbox::default());
        let flood = || stream::repeat_with(|| event("flood".repeat(4_000)));
        let _floods: Vec<Reading> = (2..7)
            .map(|of| inbox.read(0, of, Source::Process, flood()))
            .collect();
        let mut taken = Vec::new();
        inbox.filled().await;
        let _other = inbox.read(
            0,
            1,
            Source::Process,
            stream::iter([event("other".to_owned())]),
        );
        for _ in 0..3 {
            inbox.filled().await;
            tokio::task::yield_now().await;
            inbox.take(&mut taken);
            assert!(taken.len() <= WAITING, "{}", taken.len());
            if taken.drain(..).any(|it| it.exchange == 1) {
                return;
            }
        }
        panic!("the other stream was not heard");
    }

    #[tokio::test]
    async fn events_of_several_streams_stay_in_order() {
        let inbox = Arc::new(Inbox::default());
        for number in 0..40 {
            let (link, exchange) = (0, 9 - number % 10);
            let event = event(number.to_string());
            let arrival = Arrival {
                link,
                exchange,
                event,
            };
            inbox.put(arrival, &mut Share::default()).await;
        }
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        let expected = (0..40).map(|number: u64| event(number.to_string()));
        assert!(taken.into_iter().map(|it| it.event).eq(expected));
    }

    #[tokio::test]
    async fn large_events_wait_by_their_bytes() {
        let inbox = Arc::new(Inbox::default());
        let large = stream::iter((0..64).map(|_| event("x".repeat(1024 * 1024))));
        let _reading = inbox.read(0, 7, Source::Network, large);
        let (mut taken, mut seen) = (Vec::new(), 0);
        while seen < 64 {
            inbox.filled().await;
            inbox.take(&mut taken);
            assert!(taken.len() <= 4, "{} waited", taken.len());
            seen += taken.drain(..).len();
        }
    }

    #[tokio::test]
    async fn holds_events_while_shut_and_delivers_them_later() {
        let inbox = Arc::new(Inbox::default());
        let (write, mut read) = tokio::sync::mpsc::channel::<u32>(16);
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let asks = Arc::clone(&asked);
        let numbers = stream::poll_fn(move |cx| {
            asks.fetch_add(1, Ordering::Relaxed);
            read.poll_recv(cx)
                .map(|it| it.map(|it| event(it.to_string())))
        });
        let _reading = inbox.read(0, 7, Source::Network, numbers);
        write.try_send(0).unwrap();
        take_all(&inbox, 1, |_, arrival| {
            assert_eq!(arrival, event("0".to_owned()));
        })
        .await;
        // The rest waits for the next take.
        tokio::task::yield_now().await;
        inbox.read_on(false);
        let before = asked.load(Ordering::Relaxed);
        (1..=9).for_each(|number| write.try_send(number).unwrap());
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(asked.load(Ordering::Relaxed), before);
        inbox.read_on(true);
        let mut expected = 1..=9;
        take_all(&inbox, 9, |_, arrival| {
            assert_eq!(arrival, event(expected.next().unwrap().to_string()));
        })
        .await;
    }

    #[tokio::test]
    async fn dropping_the_handle_ends_the_exchange() {
        let inbox = Arc::new(Inbox::default());
        let (held, gone) = tokio::sync::oneshot::channel::<()>();
        let endless = stream::once(async move {
            let _held = held;
            std::future::pending::<ExchangeEvent>().await
        });
        let reading = inbox.read(0, 7, Source::Network, endless);
        drop(reading);
        assert!(gone.await.is_err());
    }
}

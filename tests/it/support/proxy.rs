//! A TCP proxy on this machine that breaks the network on demand.
//!
//! A URL may carry orders for its own exchanges in its query, so that thousands of calls meet each a fault of their own on
//! one proxy: `call=N` ends the connection of the first `tools/call` to that URL after N bytes of its response, `get=N` that of each GET,
//! `end=rst` by a reset instead of an end in order, `hold=N` passes a response on only N bytes at a time, as a buffering
//! proxy does. A connection carries one exchange only, as longhaul makes them.
//!
//! It runs on a thread of its own, so it works below any runtime and below none. Every method returns only once what it
//! asks for holds: after `cut` the next connection is refused, after `half_open` no further byte passes. Nothing waits for
//! a time.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a tool of tests: where it can't go on, the test has to fail"
)]

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc as std_mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// How long a test waits for something that must happen before it fails.
const DEADLINE: Duration = Duration::from_secs(60);

/// A whole request as it came by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenRequest {
    /// The connection that carried it, counted from 1.
    pub(crate) connection: u64,
    /// Its head, without the blank line.
    pub(crate) head: String,
    /// Its body.
    pub(crate) body: String,
}

impl SeenRequest {
    /// Whether it is a POST of this JSON-RPC method.
    pub(crate) fn calls(&self, method: &str) -> bool {
        let quoted = format!("\"{method}\"");
        self.head.starts_with("POST ")
            && self.body.split("\"method\"").skip(1).any(|rest| {
                rest.trim_start()
                    .strip_prefix(':')
                    .is_some_and(|v| v.trim_start().starts_with(&quoted))
            })
    }

    /// The value of an order in the query of its URL.
    fn order(&self, name: &str) -> Option<&str> {
        let target = self.head.split(' ').nth(1)?;
        let (_, query) = target.split_once('?')?;
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    /// The value of a header, by its name in any case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// The proxy; it ends, with all its connections, when it is dropped.
pub(crate) struct FaultProxy {
    addr: SocketAddr,
    orders: mpsc::Sender<(Order, std_mpsc::SyncSender<()>)>,
    shared: Arc<Shared>,
    changes: watch::Receiver<u64>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Cut,
    Heal,
    CutAfter(u64),
    HalfOpen,
    Chunk(Option<usize>),
    RefusePolls(usize),
    SwallowPoll,
    Stop,
}

/// What the connections have to keep to.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    is_half_open: bool,
    chunk: Option<usize>,
    /// How many polls of a server task are still refused.
    refused_polls: usize,
    swallows_poll: bool,
    /// Identifies the `cut_after`, so that each connection counts from zero.
    budget: Option<(u64, u64)>,
}

#[derive(Default)]
struct Log {
    /// URLs whose first call was ended as ordered.
    cut: HashSet<String>,
    requests: Vec<SeenRequest>,
    connections: u64,
    open: u64,
    response_bytes: u64,
}

struct Shared {
    log: Mutex<Log>,
    change: watch::Sender<u64>,
}

impl Shared {
    fn note(&self, change: impl FnOnce(&mut Log)) {
        change(&mut self.log());
        self.change.send_modify(|count| *count += 1);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultProxy {
    /// Starts a proxy before `target` on a free port of 127.0.0.1; it passes everything on until told otherwise.
    pub(crate) fn start(target: SocketAddr) -> Self {
        let (change, changes) = watch::channel(0);
        let shared = Arc::new(Shared {
            log: Mutex::default(),
            change,
        });
        let (orders, incoming) = mpsc::channel(16);
        let (tell, told) = std_mpsc::sync_channel(1);
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                // Never listens: it keeps the port ours while the listener is away.
                let holder = socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
                let addr = holder.local_addr().unwrap();
                let listener = listen(addr).unwrap();
                tell.send(addr).unwrap();
                Proxy::new(target, addr, for_thread)
                    .run(listener, incoming)
                    .await;
                drop(holder);
            });
        });
        let addr = told.recv().expect("the proxy has a port");
        Self {
            addr,
            orders,
            shared,
            changes,
            thread: Some(thread),
        }
    }

    /// Where clients connect to.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Resets all connections and refuses new ones (a real "connection refused") until [`Self::heal`].
    pub(crate) fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Ends a cut and a half-open state, and takes back a pending [`Self::cut_after`].
    pub(crate) fn heal(&self) {
        self.order(Order::Heal);
    }

    /// Resets the first connection that passes this many bytes from the server, counted on each from now on; once. Exactly
    /// that many pass.
    pub(crate) fn cut_after(&self, bytes_from_server: u64) {
        self.order(Order::CutAfter(bytes_from_server));
    }

    /// Passes nothing on any more, in both directions, and keeps all sockets open; new connections are accepted too.
    pub(crate) fn half_open(&self) {
        self.order(Order::HalfOpen);
    }

    /// Passes bytes on in pieces of at most `bytes` from now on; 0 takes that back.
    pub(crate) fn chunk(&self, bytes: usize) {
        self.order(Order::Chunk((bytes > 0).then_some(bytes)));
    }

    /// Answers the next polls of server tasks (`tasks/get`) with 503, this many.
    pub(crate) fn refuse_polls(&self, count: usize) {
        self.order(Order::RefusePolls(count));
    }

    /// Never answers the next poll of a server task, and keeps its connection open.
    pub(crate) fn swallow_poll(&self) {
        self.order(Order::SwallowPoll);
    }

    /// How many connections were accepted.
    pub(crate) fn connections(&self) -> u64 {
        self.shared.log().connections
    }

    /// How many connections are open now.
    pub(crate) fn open_connections(&self) -> u64 {
        self.shared.log().open
    }

    /// How many bytes of responses were passed on.
    pub(crate) fn response_bytes(&self) -> u64 {
        self.shared.log().response_bytes
    }

    /// All whole requests that came by, in order.
    pub(crate) fn requests(&self) -> Vec<SeenRequest> {
        self.shared.log().requests.clone()
    }

    /// How many POSTs of this JSON-RPC method came by.
    pub(crate) fn calls(&self, method: &str) -> usize {
        self.shared
            .log()
            .requests
            .iter()
            .filter(|request| request.calls(method))
            .count()
    }

    /// Waits until `holds`; asks again after each connection, request and passed byte.
    pub(crate) async fn until<F: Fn(&Self) -> bool>(&self, what: &str, holds: F) {
        let mut changes = self.changes.clone();
        let waiting = async {
            loop {
                changes.borrow_and_update();
                if holds(self) {
                    return;
                }
                changes.changed().await.expect("the proxy lives");
            }
        };
        let outcome = tokio::time::timeout(DEADLINE, waiting).await;
        assert!(
            outcome.is_ok(),
            "timed out waiting for the proxy: {what}; {:#?}",
            self.requests()
        );
    }

    /// As [`Self::until`], for tests without a runtime.
    pub(crate) fn wait_until<F: Fn(&Self) -> bool>(&self, what: &str, holds: F) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(self.until(what, holds));
    }

    fn order(&self, order: Order) {
        let (done, is_done) = std_mpsc::sync_channel(1);
        self.orders
            .try_send((order, done))
            .expect("the proxy takes orders");
        is_done
            .recv_timeout(DEADLINE)
            .expect("the proxy follows orders");
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        let (done, _) = std_mpsc::sync_channel(1);
        let _ = self.orders.try_send((Order::Stop, done));
        if let Some(thread) = self.thread.take() {
            // A panic of the proxy has failed its test already.
            let _ = thread.join();
        }
    }
}

/// A socket on `addr`; both options, because the holder and the listener share the port.
fn socket(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    socket(addr)?.listen(1024)
}

/// The side of the proxy that lives on its thread.
struct Proxy {
    target: SocketAddr,
    addr: SocketAddr,
    shared: Arc<Shared>,
    rules: watch::Sender<Rules>,
    budgets: u64,
    pumps: JoinSet<()>,
}

impl Proxy {
    fn new(target: SocketAddr, addr: SocketAddr, shared: Arc<Shared>) -> Self {
        let rules = watch::channel(Rules::default()).0;
        Self {
            target,
            addr,
            shared,
            rules,
            budgets: 0,
            pumps: JoinSet::new(),
        }
    }

    async fn run(
        mut self,
        listener: TcpListener,
        mut orders: mpsc::Receiver<(Order, std_mpsc::SyncSender<()>)>,
    ) {
        let mut listener = Some(listener);
        // Told to the pumps by its end; a new one for the connections after a heal.
        let mut cut = watch::channel(()).0;
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => {
                    let Some((order, done)) = order else { return };
                    match order {
                        Order::Cut => {
                            if let Some(listener) = listener.take() {
                                // A program that another test is starting may hold a copy, which would go on listening.
                                let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
                            }
                            cut = watch::channel(()).0;
                            while self.pumps.join_next().await.is_some() {}
                        }
                        Order::Heal => {
                            self.rules.send_modify(|rules| {
                                rules.is_half_open = false;
                                rules.budget = None;
                            });
                            if listener.is_none() {
                                listener = Some(listen(self.addr).expect("the port was kept"));
                            }
                        }
                        Order::CutAfter(bytes) => {
                            self.budgets += 1;
                            let budget = (self.budgets, bytes);
                            self.rules.send_modify(|rules| rules.budget = Some(budget));
                        }
                        Order::HalfOpen => self.rules.send_modify(|rules| rules.is_half_open = true),
                        Order::Chunk(bytes) => self.rules.send_modify(|rules| rules.chunk = bytes),
                        Order::RefusePolls(count) => {
                            self.rules.send_modify(|rules| rules.refused_polls = count);
                        }
                        Order::SwallowPoll => self.rules.send_modify(|rules| rules.swallows_poll = true),
                        Order::Stop => return,
                    }
                    let _ = done.send(());
                }
                Some(_) = self.pumps.join_next() => {}
                accepted = accept(listener.as_ref()) => {
                    let Ok(client) = accepted else { continue };
                    let mut number = 0;
                    self.shared.note(|log| {
                        log.connections += 1;
                        log.open += 1;
                        number = log.connections;
                    });
                    let pump = Pump {
                        number,
                        shared: Arc::clone(&self.shared),
                        rules: self.rules.clone(),
                        orders: Arc::default(),
                    };
                    self.pumps.spawn(pump.serve(client, self.target, cut.subscribe()));
                }
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(client, _)| client),
        None => std::future::pending().await,
    }
}

/// Counts a connection as closed however its pump ends.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.note(|log| log.open -= 1);
    }
}

/// What the URL of a request orders for its response.
#[derive(Clone, Copy, Debug, Default)]
struct Orders {
    cut_after: Option<usize>,
    is_reset: bool,
    hold: usize,
}

impl Orders {
    fn of(request: &SeenRequest, log: &mut Log) -> Self {
        let number = |name: &str| request.order(name).map(|value| value.parse().unwrap());
        let target = request.head.split(' ').nth(1).unwrap_or_default();
        let cut_after = if request.calls("tools/call") {
            number("call").filter(|_| log.cut.insert(target.to_owned()))
        } else if request.head.starts_with("GET ") {
            number("get")
        } else {
            None
        };
        Self {
            cut_after,
            is_reset: request.order("end") == Some("rst"),
            hold: number("hold").unwrap_or(0),
        }
    }
}

/// How a connection ended.
enum End {
    /// One side closed it in order.
    Closed,
    /// It is to be torn down.
    Torn,
    /// Its request is answered with 503.
    Refused,
}

#[derive(Clone)]
struct Pump {
    number: u64,
    shared: Arc<Shared>,
    rules: watch::Sender<Rules>,
    orders: Arc<Mutex<Orders>>,
}

impl Pump {
    async fn serve(self, mut client: TcpStream, target: SocketAddr, mut cut: watch::Receiver<()>) {
        // Dropped last: who sees the count go down sees the sockets gone.
        let _open = Open(Arc::clone(&self.shared));
        let server = tokio::select! {
            _ = cut.changed() => Err(io::ErrorKind::ConnectionReset.into()),
            connected = TcpStream::connect(target) => connected,
        };
        let Ok(mut server) = server else {
            let _ = client.set_zero_linger();
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let end = {
            let (client_read, client_write) = client.split();
            let (server_read, server_write) = server.split();
            tokio::select! {
                biased;
                // The sender is gone: this connection is cut.
                _ = cut.changed() => End::Torn,
                end = self.requests(client_read, server_write) => end,
                end = self.responses(server_read, client_write) => end,
            }
        };
        match end {
            End::Closed => {
                let _ = client.shutdown().await;
                let _ = server.shutdown().await;
            }
            End::Refused => {
                let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 1\r\n\r\n";
                let _ = client.write_all(head.as_bytes()).await;
                let _ = client.shutdown().await;
            }
            End::Torn => {
                let _ = (client.set_zero_linger(), server.set_zero_linger());
            }
        }
    }

    async fn requests(&self, mut from: ReadHalf<'_>, to: WriteHalf<'_>) -> End {
        let mut recorder = Recorder::new(self.number);
        let mut buffer = [0; 16 * 1024];
        loop {
            self.open_ways().await;
            let count = match from.read(&mut buffer).await {
                Ok(0) => return End::Closed,
                Ok(count) => count,
                Err(_) => return End::Torn,
            };
            let bytes = &buffer[..count];
            self.open_ways().await;
            // First the log, then the server: who sees an answer sees its request in the log.
            let seen = recorder.read(bytes);
            if let Some(request) = seen.last() {
                *self.orders.lock().unwrap() = Orders::of(request, &mut self.shared.log());
                let is_poll = request.calls("tasks/get");
                self.shared.note(|log| log.requests.extend(seen));
                let takes =
                    |take: fn(&mut Rules) -> bool| is_poll && self.rules.send_if_modified(take);
                if takes(|rules| std::mem::take(&mut rules.swallows_poll)) {
                    std::future::pending::<()>().await;
                }
                if takes(|rules| {
                    let left = rules.refused_polls.checked_sub(1);
                    left.map(|left| rules.refused_polls = left).is_some()
                }) {
                    return End::Refused;
                }
            }
            if self.pass(bytes, &to, |_| {}).await.is_err() {
                return End::Torn;
            }
        }
    }

    async fn responses(&self, mut from: ReadHalf<'_>, to: WriteHalf<'_>) -> End {
        let mut passed: HashMap<u64, u64> = HashMap::new();
        let (mut buffer, mut held) = ([0; 16 * 1024], Vec::new());
        let mut total = 0;
        loop {
            self.open_ways().await;
            let count = match from.read(&mut buffer).await {
                Ok(0) => {
                    let _ = self.pass(&held, &to, |_| {}).await;
                    return End::Closed;
                }
                Ok(count) => count,
                Err(_) => return End::Torn,
            };
            let orders = *self.orders.lock().unwrap();
            held.extend_from_slice(&buffer[..count]);
            let is_end = held.ends_with(b"0\r\n\r\n");
            if held.len() < orders.hold && !is_end {
                continue;
            }
            let ready = std::mem::take(&mut held);
            let left = orders
                .cut_after
                .map_or(usize::MAX, |cut| cut.saturating_sub(total));
            total += ready.len();
            let mut bytes = &ready[..left.min(ready.len())];
            let is_over = left <= ready.len();
            while !bytes.is_empty() {
                self.open_ways().await;
                let budget = self.rules.borrow().budget;
                let (is_last, now) = match budget {
                    Some((which, limit)) => {
                        let left = limit.saturating_sub(passed.get(&which).copied().unwrap_or(0));
                        let left = usize::try_from(left).unwrap_or(usize::MAX);
                        (left <= bytes.len(), &bytes[..left.min(bytes.len())])
                    }
                    None => (false, bytes),
                };
                let noted = |count: isize| {
                    let count = count as i64;
                    let add = |bytes: u64| bytes.saturating_add_signed(count);
                    self.shared
                        .note(|log| log.response_bytes = add(log.response_bytes));
                };
                if self.pass(now, &to, noted).await.is_err() {
                    return End::Torn;
                }
                if let Some((which, _)) = budget {
                    *passed.entry(which).or_default() += now.len() as u64;
                    if is_last {
                        // Once: only if no other connection was first, and no newer order came.
                        let mut is_ours = false;
                        self.rules.send_if_modified(|rules| {
                            is_ours = rules.budget.is_some_and(|(current, _)| current == which);
                            if is_ours {
                                rules.budget = None;
                            }
                            is_ours
                        });
                        if is_ours {
                            return End::Torn;
                        }
                    }
                }
                bytes = &bytes[now.len()..];
            }
            if is_over {
                return if orders.is_reset {
                    End::Torn
                } else {
                    End::Closed
                };
            }
        }
    }

    /// Passes all of `bytes` on, and looks at the rules before each write.
    async fn pass(
        &self,
        mut bytes: &[u8],
        to: &WriteHalf<'_>,
        passed: impl Fn(isize),
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            to.writable().await?;
            self.open_ways().await;
            let piece = self
                .rules
                .borrow()
                .chunk
                .unwrap_or(bytes.len())
                .min(bytes.len());
            // Counted first, because the reader may have read it all before this goes on.
            let length = isize::try_from(piece).unwrap_or(isize::MAX);
            passed(length);
            let written = to.try_write(&bytes[..piece]);
            let count = *written.as_ref().unwrap_or(&0);
            passed(isize::try_from(count).unwrap_or(isize::MAX) - length);
            match written {
                Ok(count) => {
                    bytes = &bytes[count..];
                    // Lets the reader see this piece on its own.
                    tokio::task::yield_now().await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns at once, or when the half-open state has ended.
    async fn open_ways(&self) {
        let mut rules = self.rules.subscribe();
        // The sender is ours, so it cannot be gone.
        let _ = rules.wait_for(|rules| !rules.is_half_open).await;
    }
}

/// Finds the requests in the bytes of a client.
struct Recorder {
    connection: u64,
    bytes: Vec<u8>,
}

impl Recorder {
    fn new(connection: u64) -> Self {
        Self {
            connection,
            bytes: Vec::new(),
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Vec<SeenRequest> {
        self.bytes.extend_from_slice(bytes);
        let mut seen = Vec::new();
        while let Some(end) = self.bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
            let mut request = SeenRequest {
                connection: self.connection,
                head,
                body: String::new(),
            };
            let length = request
                .header("content-length")
                .map_or(0, |value| value.parse().unwrap());
            if self.bytes.len() < end + 4 + length {
                break;
            }
            let rest = self.bytes.split_off(end + 4 + length);
            request.body = String::from_utf8_lossy(&self.bytes[end + 4..]).into_owned();
            self.bytes = rest;
            seen.push(request);
        }
        seen
    }
}

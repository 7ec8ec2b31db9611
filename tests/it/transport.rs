//! The transport against servers that write every byte by hand, so that every oddity is possible.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "also the helpers of a test may fail it"
)]

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::proxy::{FaultProxy, SeenRequest};
use futures_util::{FutureExt, Stream, StreamExt, future};
use longhaul::domain::{ProtocolVersion, SharedByteCount};
use longhaul::protocol::{Body, ExchangeEvent, HttpError, Method, Request, RpcError};
use longhaul::transport::{DEFAULT_CAP_BYTES, Http, HttpOptions};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Long enough for the slowest machine; nothing waits for it when all is well.
const DEADLINE: Duration = Duration::from_secs(60);

/// A server that reads one request a connection and hands it to a handler.
struct Server {
    addr: SocketAddr,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    job: JoinHandle<()>,
}

impl Server {
    async fn start<F, SessionResponse>(handle: F) -> Self
    where
        F: Fn(TcpStream, SeenRequest) -> SessionResponse + Send + Sync + 'static,
        SessionResponse: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let handle = Arc::new(handle);
        let job = tokio::spawn(async move {
            for connection in 1.. {
                let (mut client, _) = listener.accept().await.unwrap();
                let (log, handle) = (Arc::clone(&log), Arc::clone(&handle));
                tokio::spawn(async move {
                    // More than one request may come on a connection, though we never send a second.
                    if let Some(request) = read_request(&mut client, connection).await {
                        log.lock().unwrap().push(request.clone());
                        handle(client, request).await;
                    }
                });
            }
        });
        Self { addr, seen, job }
    }

    /// A server that answers every request with the same bytes and closes.
    async fn saying(bytes: impl AsRef<[u8]>) -> Self {
        let bytes = Arc::new(bytes.as_ref().to_vec());
        Self::start(move |mut client, _| {
            let bytes = Arc::clone(&bytes);
            async move {
                client.write_all(&bytes).await.unwrap();
                client.shutdown().await.unwrap();
            }
        })
        .await
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    fn http(&self) -> Http {
        Http::new(HttpOptions::new(self.url())).unwrap()
    }

    fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.job.abort();
    }
}

async fn read_request(client: &mut TcpStream, connection: u64) -> Option<SeenRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if client.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    // Header values of ours may be any UTF-8.
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut request = SeenRequest {
        connection,
        head,
        body: String::new(),
    };
    let length: usize = request
        .header("content-length")
        .map_or(0, |value| value.parse().unwrap());
    while bytes.len() < end + 4 + length {
        assert_ne!(client.read_buf(&mut bytes).await.unwrap(), 0);
    }
    request.body = String::from_utf8(bytes[end + 4..].to_vec()).unwrap();
    Some(request)
}

fn post(body: &str) -> Request {
    Request {
        method: Method::post(body.to_owned()),
        session: None,
        version: None,
        target: None,
    }
}

fn get(cursor: &str) -> Request {
    let cursor = Some(cursor.to_owned());
    Request {
        method: Method::Get {
            cursor: cursor.map(Into::into),
        },
        session: None,
        version: None,
        target: None,
    }
}

/// The events of an exchange but `Sent`: whether that comes before the head of a quick answer depends on speed.
fn events(http: &Http, request: Request) -> impl Stream<Item = ExchangeEvent> + Unpin {
    let is_kept = |event: &ExchangeEvent| future::ready(*event != ExchangeEvent::Sent);
    http.exchange_for(None, request).filter(is_kept)
}

async fn all(http: &Http, request: Request) -> Vec<ExchangeEvent> {
    tokio::time::timeout(DEADLINE, events(http, request).collect())
        .await
        .unwrap()
}

async fn only(http: &Http, request: Request) -> ExchangeEvent {
    let mut arrivals = all(http, request).await;
    assert_eq!(arrivals.len(), 1, "{arrivals:?}");
    arrivals.remove(0)
}

async fn refusal(answer: impl AsRef<[u8]>) -> HttpError {
    let server = Server::saying(answer).await;
    match only(&server.http(), post("{}")).await {
        ExchangeEvent::Refused(refusal) => *refusal,
        other => panic!("{other:?}"),
    }
}

fn opened(body: Body) -> ExchangeEvent {
    ExchangeEvent::Opened {
        body,
        session: None,
    }
}

fn event(id: Option<&str>, data: &str) -> ExchangeEvent {
    ExchangeEvent::Event {
        id: id.map(Into::into),
        retry_ms: None,
        data: data.to_owned(),
    }
}

const SSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

#[tokio::test]
async fn a_json_answer_is_one_event_and_every_header_goes_out() {
    let server = Server::saying(
        "HTTP/1.1 200 OK\r\nmcp-SESSION-id: s1\r\nContent-Type: Application/JSON; charset=utf-8\r\n\
         Content-Length: 8\r\n\r\n{\"id\":1}",
    )
    .await;
    let mut options = HttpOptions::new(server.url());
    options
        .headers
        .push(("X-Team".to_owned(), SecretString::from("blue")));
    options.headers.push((
        "Authorization".to_owned(),
        SecretString::from("Bearer t0ken"),
    ));
    let http = Http::new(options).unwrap();
    let request = Request {
        session: Some("abc".to_owned()),
        version: Some(ProtocolVersion::V20250618),
        ..post("{\"x\":\"ü\"}")
    };
    assert_eq!(
        all(&http, request).await,
        [
            ExchangeEvent::Opened {
                body: Body::Json,
                session: Some("s1".to_owned())
            },
            event(None, "{\"id\":1}"),
            ExchangeEvent::Ended
        ]
    );
    let seen = server.seen();
    let [request] = seen.as_slice() else {
        panic!("{seen:?}")
    };
    assert!(request.head.starts_with("POST /mcp HTTP/1.1\r\n"));
    assert_eq!(request.body, "{\"x\":\"ü\"}");
    for (name, value) in [
        ("accept", Some("application/json, text/event-stream")),
        ("content-type", Some("application/json")),
        ("mcp-session-id", Some("abc")),
        ("mcp-protocol-version", Some("2025-06-18")),
        ("authorization", Some("Bearer t0ken")),
        ("x-team", Some("blue")),
        ("last-event-id", None),
        // What is packed is never unpacked, so nobody is to pack it.
        ("accept-encoding", Some("identity")),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
}

#[tokio::test]
async fn every_event_of_a_stream_is_an_item_and_pieces_do_not_matter() {
    let server = Server::start(|mut client, _| async move {
        client.set_nodelay(true).unwrap();
        let body = "\u{FEFF}: hi\r\n\r\nid: 1/0\r\nretry: 500\r\ndata: \r\n\r\nid: 1/1\r\nevent: \
                    message\r\ndata: {\"n\":1}\r\n\r\ndata: {\"n\":2}\r\n\r\nid: 9\r\ndata: cut off";
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        for byte in body.bytes() {
            client.write_all(&[b"1\r\n".as_slice(), &[byte], b"\r\n"].concat()).await.unwrap();
        }
        client.write_all(b"0\r\n\r\n").await.unwrap();
    })
    .await;
    let mut arrivals = all(&server.http(), get("1/ü")).await;
    arrivals.retain(|arrival| *arrival != ExchangeEvent::Alive);
    assert_eq!(
        arrivals,
        [
            opened(Body::Stream),
            ExchangeEvent::Event {
                id: Some("1/0".into()),
                retry_ms: Some(500),
                data: String::new()
            },
            event(Some("1/1"), "{\"n\":1}"),
            event(None, "{\"n\":2}"),
            ExchangeEvent::Ended
        ]
    );
    let request = server.seen().remove(0);
    assert!(request.head.starts_with("GET /mcp "));
    assert_eq!(request.header("accept"), Some("text/event-stream"));
    assert_eq!(request.header("last-event-id"), Some("1/ü"));
    assert_eq!(request.header("content-type"), None);
}

#[tokio::test]
async fn a_keep_alive_comment_shows_life_but_is_no_event() {
    let server = Server::saying(format!("{SSE}: ping\n\n")).await;
    assert_eq!(
        all(&server.http(), get("1")).await,
        [
            opened(Body::Stream),
            ExchangeEvent::Alive,
            ExchangeEvent::Ended
        ]
    );
}

#[tokio::test]
async fn an_accepted_message_has_no_body() {
    for (status, answer) in [
        (202, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"),
        (
            202,
            "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nnull",
        ),
        (204, "HTTP/1.1 204 No Content\r\n\r\n"),
        (200, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ] {
        let server = Server::saying(answer).await;
        assert_eq!(
            all(&server.http(), post("{}")).await,
            [opened(Body::Empty(status)), ExchangeEvent::Ended],
            "{answer}"
        );
    }
}

#[tokio::test]
async fn another_kind_of_body_is_read_and_dropped() {
    let server =
        Server::saying("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>welcome").await;
    assert_eq!(
        all(&server.http(), get("1")).await,
        [
            opened(Body::Other {
                media: Some("text/html".to_owned())
            }),
            ExchangeEvent::Ended
        ]
    );
}

#[tokio::test]
async fn takes_json_under_the_media_types_that_servers_use() {
    for kind in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/json-rpc\r\n",
        "Content-Type: application/vnd.mcp+json; charset=utf-8\r\n",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{kind}\r\n{{\"id\":1}}");
        let server = Server::saying(&answer).await;
        let arrivals = all(&server.http(), post("{}")).await;
        assert_eq!(arrivals.first(), Some(&opened(Body::Json)), "{kind}");
        assert_eq!(arrivals.len(), 3, "{kind}: {arrivals:?}");
    }
}

fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
}

#[tokio::test]
async fn follows_a_same_origin_redirect_with_body_and_headers() {
    for status in [307, 308] {
        let server = Server::start(move |mut client, request| async move {
            let answer = if request.head.starts_with("POST /mcp/ ") {
                "HTTP/1.1 202 Accepted\r\n\r\n".to_owned()
            } else {
                redirect(status, "/mcp/")
            };
            client.write_all(answer.as_bytes()).await.unwrap();
        })
        .await;
        let mut options = HttpOptions::new(server.url());
        options.headers.push((
            "Authorization".to_owned(),
            SecretString::from("Bearer t0ken"),
        ));
        let http = Http::new(options).unwrap();
        assert_eq!(
            all(&http, post("{\"a\":1}")).await,
            [
                ExchangeEvent::MoreRequests(1),
                opened(Body::Empty(202)),
                ExchangeEvent::Ended
            ]
        );
        let seen = server.seen();
        assert_eq!(seen.len(), 2);
        for request in seen {
            assert_eq!(request.body, "{\"a\":1}");
            assert_eq!(request.header("authorization"), Some("Bearer t0ken"));
        }
    }
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_named_and_never_followed() {
    let other = Server::saying("HTTP/1.1 202 Accepted\r\n\r\n").await;
    let there = format!("http://user:hunter2@{}/steal?token=hunter2#x", other.addr);
    for status in [301, 302, 303, 307, 308] {
        let server = Server::saying(redirect(status, &there)).await;
        let delete = Request {
            method: Method::Delete,
            ..post("")
        };
        let to_endpoint = Request {
            target: Some(format!("http://{}/messages?session=1", server.addr)),
            ..post("{}")
        };
        for request in [post("{}"), get("1"), delete, to_endpoint] {
            let mut options = HttpOptions::new(server.url());
            options.headers.push((
                "Authorization".to_owned(),
                SecretString::from("Bearer t0ken"),
            ));
            let arrival = only(&Http::new(options).unwrap(), request).await;
            let ExchangeEvent::Refused(refusal) = arrival else {
                panic!("{arrival:?}")
            };
            assert_eq!(refusal.status, status);
            let said = refusal.server_text.unwrap();
            assert!(
                said.contains(&format!("http://{}/steal", other.addr)),
                "{said}"
            );
            assert!(
                said.contains("another origin") && said.contains("not followed"),
                "{said}"
            );
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn posts_nothing_to_an_endpoint_of_another_origin() {
    let other = Server::saying("HTTP/1.1 202 Accepted\r\n\r\n").await;
    let server = Server::saying("HTTP/1.1 202 Accepted\r\n\r\n").await;
    let request = Request {
        target: Some(format!("http://{}/messages?hunter2", other.addr)),
        ..post("{}")
    };
    let arrival = only(&server.http(), request).await;
    let ExchangeEvent::NotSent { why, .. } = arrival else {
        panic!("{arrival:?}")
    };
    assert!(
        why.contains("another origin") && !why.contains("hunter2"),
        "{why}"
    );
    assert!(other.seen().is_empty() && server.seen().is_empty());
}

#[tokio::test]
async fn does_not_follow_lossy_or_endless_redirects() {
    for (status, requests) in [(302, 1), (303, 1), (307, 4)] {
        let server = Server::saying(redirect(status, "/on?key=hunter2")).await;
        let mut arrivals = all(&server.http(), post("{}")).await;
        let Some(ExchangeEvent::Refused(refusal)) = arrivals.pop() else {
            panic!("{arrivals:?}")
        };
        let hops = requests - 1;
        let told = (hops > 0).then(|| ExchangeEvent::MoreRequests(u32::try_from(hops).unwrap()));
        assert_eq!(arrivals, Vec::from_iter(told));
        assert_eq!(refusal.status, status);
        let said = refusal.server_text.unwrap();
        assert!(
            said.contains("not followed") && !said.contains("hunter2"),
            "{said}"
        );
        assert_eq!(server.seen().len(), requests, "{status}");
    }
}

#[tokio::test]
async fn a_closed_port_is_reported_as_not_sent_and_refused() {
    let proxy = FaultProxy::start("127.0.0.1:9".parse().unwrap());
    proxy.cut();
    let http = Http::new(HttpOptions::new(format!(
        "http://{}/mcp?k=hunter2",
        proxy.addr()
    )))
    .unwrap();
    assert_eq!(
        only(&http, post("{}")).await,
        ExchangeEvent::NotSent {
            why: "connection refused".to_owned(),
            is_refused: true
        }
    );
}

#[tokio::test]
async fn an_id_that_no_header_can_carry_is_not_sent() {
    let server = Server::saying("HTTP/1.1 202 Accepted\r\n\r\n").await;
    let bad_session = Request {
        session: Some("a\r\nEvil: 1".to_owned()),
        ..post("{}")
    };
    for request in [get("1\n2"), get("\u{7f}"), bad_session] {
        let arrival = only(&server.http(), request).await;
        let ExchangeEvent::NotSent {
            why,
            is_refused: false,
        } = arrival
        else {
            panic!("{arrival:?}")
        };
        assert!(!why.contains("Evil"), "{why}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_reset_in_the_body_is_reported_after_the_earlier_events() {
    let server = Server::start(|mut client, _| async move {
        client
            .write_all(format!("{SSE}id: 1\ndata: a\n\nid: 2\nda").as_bytes())
            .await
            .unwrap();
        client.set_zero_linger().unwrap();
    })
    .await;
    let arrivals = all(&server.http(), post("{}")).await;
    let why = "connection reset by peer".to_owned();
    assert_eq!(
        arrivals,
        [
            opened(Body::Stream),
            event(Some("1"), "a"),
            ExchangeEvent::Broken { why }
        ]
    );
}

#[tokio::test]
async fn a_body_that_ends_before_its_length_is_broken() {
    let json = "Content-Type: application/json\r\n";
    for answer in [
        format!("HTTP/1.1 200 OK\r\n{json}Content-Length: 100\r\n\r\n{{\"id\""),
        format!("HTTP/1.1 200 OK\r\n{json}Transfer-Encoding: chunked\r\n\r\n5\r\nab"),
    ] {
        let server = Server::saying(&answer).await;
        let why = "the response was cut off".to_owned();
        assert_eq!(
            all(&server.http(), post("{}")).await,
            [opened(Body::Json), ExchangeEvent::Broken { why }],
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_missing_or_invalid_head_is_no_response() {
    for (answer, expected) in [
        ("", "the server closed the connection without a response"),
        (
            "HTTP/1.1 200 O",
            "the server closed the connection without a response",
        ),
        ("SSH-2.0-OpenSSH_9.6\r\n", "the response is not HTTP"),
    ] {
        let server = Server::saying(answer).await;
        let arrival = only(&server.http(), post("{}")).await;
        let ExchangeEvent::NoAnswer { why } = arrival else {
            panic!("{answer:?}: {arrival:?}")
        };
        assert!(why.starts_with(expected), "{answer:?}: {why}");
    }
}

#[tokio::test]
async fn a_post_is_seen_exactly_once_when_the_server_closes_on_it() {
    // Keeps the first connection alive, as if more could come on it; reads every later request and closes.
    let server = Server::start(|mut client, request| async move {
        if request.body == "first" {
            let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: keep-alive\r\n\
                          Content-Length: 2\r\n\r\n{}";
            client.write_all(answer.as_bytes()).await.unwrap();
            let second = read_request(&mut client, request.connection).await;
            assert_eq!(second, None, "a second request came on a used connection");
        }
    })
    .await;
    let http = server.http();
    assert_eq!(all(&http, post("first")).await.len(), 3);
    for number in 0..5 {
        let arrival = only(&http, post(&format!("call {number}"))).await;
        assert!(
            matches!(arrival, ExchangeEvent::NoAnswer { .. }),
            "{arrival:?}"
        );
    }
    let bodies: Vec<String> = server
        .seen()
        .into_iter()
        .map(|request| request.body)
        .collect();
    assert_eq!(
        bodies,
        ["first", "call 0", "call 1", "call 2", "call 3", "call 4"]
    );
}

#[tokio::test]
async fn waits_for_a_silent_server_until_the_stream_is_dropped() {
    let (asked, mut is_asked) = mpsc::channel(4);
    let (gone, mut is_gone) = mpsc::channel(4);
    let (speak, may_speak) = oneshot::channel::<()>();
    let may_speak = Arc::new(Mutex::new(Some(may_speak)));
    let server = Server::start(move |mut client, request| {
        let (asked, gone, may_speak) = (asked.clone(), gone.clone(), Arc::clone(&may_speak));
        async move {
            if request.body == "in body" {
                client.write_all(SSE.as_bytes()).await.unwrap();
            }
            asked.send(()).await.unwrap();
            if request.body == "later" {
                let may_speak = may_speak.lock().unwrap().take().unwrap();
                may_speak.await.unwrap();
                client
                    .write_all(b"HTTP/1.1 202 Accepted\r\n\r\n")
                    .await
                    .unwrap();
                return;
            }
            let read = client.read(&mut [0; 1]).await;
            assert!(!matches!(read, Ok(1..)), "{read:?}");
            gone.send(()).await.unwrap();
        }
    })
    .await;
    let http = server.http();

    // Silent before the head, and silent inside the body.
    for body in ["before head", "in body"] {
        let mut exchange = events(&http, post(body));
        if body == "in body" {
            assert_eq!(exchange.next().await, Some(opened(Body::Stream)));
        }
        tokio::select! {
            arrival = exchange.next() => panic!("{arrival:?}"),
            _ = is_asked.recv() => {}
        }
        assert_eq!(exchange.next().now_or_never(), None);
        drop(exchange);
        tokio::time::timeout(DEADLINE, is_gone.recv())
            .await
            .expect("the server sees the end");
    }

    let mut exchange = events(&http, post("later"));
    tokio::select! {
        arrival = exchange.next() => panic!("{arrival:?}"),
        _ = is_asked.recv() => {}
    }
    speak.send(()).unwrap();
    assert_eq!(exchange.next().await, Some(opened(Body::Empty(202))));
    assert_eq!(exchange.next().await, Some(ExchangeEvent::Ended));
    assert_eq!(exchange.next().await, None);
}

#[tokio::test]
async fn an_oversized_event_ends_the_exchange_as_too_large() {
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let tail = "x".repeat(100);
    for (answer, body) in [
        (format!("{SSE}data: {tail}\n\ndata: b\n\n"), Body::Stream),
        (
            format!("{json}Content-Length: 5000000000\r\n\r\n"),
            Body::Json,
        ),
        (format!("{json}\r\n{tail}"), Body::Json),
        (
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{tail}"),
            Body::Other {
                media: Some("text/html".to_owned()),
            },
        ),
    ] {
        let server = Server::saying(&answer).await;
        let mut options = HttpOptions::new(server.url());
        options.cap_bytes = 64;
        let arrivals = all(&Http::new(options).unwrap(), post("{}")).await;
        assert_eq!(
            arrivals,
            [opened(body), ExchangeEvent::TooLarge { cap: 64 }]
        );
    }
}

#[tokio::test]
async fn bounds_unfinished_events_across_servers() {
    let (small, large) = ("x".repeat(1_000), "x".repeat(2 << 20));
    // Small enough to be waited for, and too large to come in one piece.
    let piecewise = "x".repeat(900_000);
    let server = Server::saying(format!("{SSE}data: {piecewise}\n\n")).await;
    let mut options = HttpOptions::new(server.url());
    let mut others = options.buffered.share();
    others.add(17 * DEFAULT_CAP_BYTES);
    options.cap_bytes = DEFAULT_CAP_BYTES;
    let arrivals = all(&Http::new(options).unwrap(), post("{}")).await;
    assert!(arrivals.contains(&event(None, &piecewise)));
    for (kind, body) in [
        (
            "text/event-stream",
            format!("data: {small}\n\ndata: {large}\n\n"),
        ),
        ("application/json", large),
    ] {
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
        let server = Server::saying(head + &body).await;
        let unread = SharedByteCount::default();
        let mut others = unread.share();
        others.add(16 * DEFAULT_CAP_BYTES);
        let mut options = HttpOptions::new(server.url());
        options.buffered = unread.clone();
        let http = Http::new(options).unwrap();
        let arrivals = all(&http, post("{}")).await;
        let is_small = |arrival: &ExchangeEvent| *arrival == event(None, &small);
        assert_eq!(arrivals.iter().any(is_small), kind.ends_with("stream"));
        let Some(ExchangeEvent::Broken { why }) = arrivals.last() else {
            panic!("{kind}: {:?}", arrivals.last())
        };
        assert!(why.contains("unfinished events"), "{why}");
        drop(others);
        assert_eq!(
            all(&http, post("{}")).await.last(),
            Some(&ExchangeEvent::Ended)
        );
        assert_eq!(unread.sum(), 0);
    }
}

#[tokio::test]
async fn a_refusal_has_a_status_a_text_and_an_error() {
    let error = RpcError {
        code: -32001,
        message: "Session not found".to_owned(),
        data: None,
    };
    let json =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
    for (answer, status, error, said) in [
        (
            format!("404 Not Found\r\nContent-Type: text/plain\r\n\r\n{json}"),
            404,
            Some(error),
            Some("Session not found"),
        ),
        (
            "404 Not Found\r\n\r\nSession not found".to_owned(),
            404,
            None,
            Some("Session not found"),
        ),
        (
            "401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_owned(),
            401,
            None,
            None,
        ),
        (
            "500 Oh\r\nContent-Type: text/html\r\n\r\n<html><title>Down</title>".to_owned(),
            500,
            None,
            Some("Down"),
        ),
        (
            "500 Oh\r\nContent-Length: 99\r\n\r\ncut off".to_owned(),
            500,
            None,
            Some("cut off"),
        ),
        (
            "409 Conflict\r\nContent-Type: application/json\r\n\r\n{}".to_owned(),
            409,
            None,
            Some("{}"),
        ),
    ] {
        let expected = HttpError {
            status,
            error,
            server_text: said.map(str::to_owned),
            ..HttpError::default()
        };
        assert_eq!(
            refusal(format!("HTTP/1.1 {answer}")).await,
            expected,
            "{answer}"
        );
    }
}

#[tokio::test]
async fn retry_after_is_understood_in_both_forms() {
    let unavailable = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n";
    let seconds = refusal(format!("{unavailable}Retry-After: 7\r\n\r\n")).await;
    assert_eq!(seconds.retry_after, Some(Duration::from_secs(7)));
    let date = refusal(format!(
        "{unavailable}Date: Fri, 20 Nov 2026 23:59:50 GMT\r\nRetry-After: Sat, 21 Nov 2026 00:00:05 \
         GMT\r\n\r\n"
    ))
    .await;
    assert_eq!(date.retry_after, Some(Duration::from_secs(15)));
}

#[tokio::test]
async fn the_body_of_a_refusal_is_not_read_for_ever() {
    let server = Server::start(|mut client, _| async move {
        client.write_all(b"HTTP/1.1 500 No\r\n\r\n").await.unwrap();
        // Ends when the reader has had enough and closes.
        while client.write_all(&[b'x'; 1024]).await.is_ok() {}
    })
    .await;
    let arrival = only(&server.http(), post("{}")).await;
    let ExchangeEvent::Refused(refusal) = arrival else {
        panic!("{arrival:?}")
    };
    assert_eq!(refusal.server_text, Some("x".repeat(300)));
}

#[tokio::test]
async fn reads_only_the_start_of_an_error_body() {
    let error = |length: usize| {
        let words = "x".repeat(length);
        let body = format!(r#"{{"jsonrpc":"2.0","error":{{"code":7,"message":"{words}"}}}}"#);
        let length = body.len();
        format!("HTTP/1.1 400 No\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    assert_eq!(refusal(error(1_000)).await.error.unwrap().code, 7);
    assert_eq!(refusal(error(100_000)).await.error, None);
}

/// A TLS server on a thread that answers every connection with 202.
fn tls_server(pem: &[u8]) -> (SocketAddr, CertificateDer<'static>) {
    let certificate = CertificateDer::from_pem_slice(pem).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pem).unwrap();
    longhaul::transport::ensure_provider();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, client.unwrap());
            // A client that does not trust us hangs up in the handshake.
            let mut head = [0; 4096];
            if stream.read(&mut head).is_ok() {
                let _ = stream.write_all(b"HTTP/1.1 202 Accepted\r\n\r\n");
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    (addr, certificate)
}

const SELF_SIGNED: &[u8] = include_bytes!("support/self-signed.pem");

#[tokio::test]
async fn a_self_signed_certificate_is_untrusted() {
    let ca = include_bytes!("support/self-signed-ca.pem");
    for (pem, words) in [
        (SELF_SIGNED, "certificate"),
        (ca, "its certificate is a CA certificate"),
    ] {
        let (addr, _) = tls_server(pem);
        let http = Http::new(HttpOptions::new(format!("https://{addr}/mcp"))).unwrap();
        let arrival = only(&http, post("{}")).await;
        let ExchangeEvent::Untrusted { why } = arrival else {
            panic!("{arrival:?}")
        };
        assert!(why.contains(words), "{why}");
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_is_untrusted() {
    let (addr, certificate) = tls_server(SELF_SIGNED);
    for (host, is_trusted) in [("127.0.0.1", true), ("localhost", false)] {
        let mut options = HttpOptions::new(format!("https://{host}:{}/mcp", addr.port()));
        options.extra_roots.push(certificate.clone());
        let arrivals = all(&Http::new(options).unwrap(), post("{}")).await;
        if is_trusted {
            assert_eq!(arrivals, [opened(Body::Empty(202)), ExchangeEvent::Ended]);
        } else {
            let [ExchangeEvent::Untrusted { why }] = arrivals.as_slice() else {
                panic!("{arrivals:?}")
            };
            let expected = "its certificate is not valid for localhost, only for 127.0.0.1";
            assert_eq!(why, expected);
        }
    }
}

#[tokio::test]
async fn a_server_without_tls_under_an_https_url_is_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let job = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        assert_ne!(client.read(&mut [0; 1024]).await.unwrap(), 0);
        client
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
    });
    let http = Http::new(HttpOptions::new(format!("https://{addr}/mcp"))).unwrap();
    let arrival = only(&http, post("{}")).await;
    let ExchangeEvent::NotSent {
        why,
        is_refused: false,
    } = arrival
    else {
        panic!("{arrival:?}")
    };
    assert!(why.contains("http://"), "{why}");
    job.await.unwrap();
}

/// A server that sends `data: 0` and then one more event for each permit.
async fn ticking() -> (Server, mpsc::Sender<()>) {
    let (tick, ticks) = mpsc::channel::<()>(16);
    let ticks = Arc::new(tokio::sync::Mutex::new(ticks));
    let server = Server::start(move |mut client, _| {
        let ticks = Arc::clone(&ticks);
        async move {
            client
                .write_all(format!("{SSE}data: 0\n\n").as_bytes())
                .await
                .unwrap();
            let mut ticks = ticks.lock().await;
            for number in 1.. {
                let tick = tokio::select! {
                    tick = ticks.recv() => tick,
                    _ = client.readable() => None,
                };
                if tick.is_none()
                    || client
                        .write_all(format!("data: {number}\n\n").as_bytes())
                        .await
                        .is_err()
                {
                    return;
                }
            }
        }
    })
    .await;
    (server, tick)
}

fn through(proxy: &FaultProxy) -> Http {
    Http::new(HttpOptions::new(format!("http://{}/mcp", proxy.addr()))).unwrap()
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":"a-1","method": "tools/call","params":{}}"#;

#[tokio::test]
async fn the_proxy_cuts_refuses_and_heals_on_the_same_port() {
    let (server, _tick) = ticking().await;
    let proxy = FaultProxy::start(server.addr);
    let http = through(&proxy);
    for round in 1..=20 {
        let mut exchange = events(&http, post(CALL));
        assert_eq!(exchange.next().await, Some(opened(Body::Stream)));
        assert_eq!(exchange.next().await, Some(event(None, "0")));
        proxy.cut();
        assert_eq!(proxy.open_connections(), 0);
        let why = "connection reset by peer".to_owned();
        assert_eq!(exchange.next().await, Some(ExchangeEvent::Broken { why }));
        let refused = only(&http, post(CALL)).await;
        assert!(
            matches!(
                refused,
                ExchangeEvent::NotSent {
                    is_refused: true,
                    ..
                }
            ),
            "{refused:?}"
        );
        proxy.heal();
        assert_eq!(proxy.calls("tools/call"), round);
        assert_eq!(proxy.connections(), round as u64);
    }
    assert_eq!(proxy.calls("tools/list"), 0);
    assert_eq!(
        proxy.requests()[0].header("Content-Type"),
        Some("application/json")
    );
}

#[tokio::test]
async fn the_proxy_cuts_after_exactly_so_many_bytes_once() {
    let body = format!("{SSE}data: 0\n\n");
    let (server, tick) = ticking().await;
    let proxy = FaultProxy::start(server.addr);
    let http = through(&proxy);
    proxy.chunk(3);
    proxy.cut_after(body.len() as u64 + 5);
    tick.send(()).await.unwrap();
    let mut arrivals = all(&http, post(CALL)).await;
    arrivals.retain(|arrival| *arrival != ExchangeEvent::Alive);
    let why = "connection reset by peer".to_owned();
    assert_eq!(
        arrivals,
        [
            opened(Body::Stream),
            event(None, "0"),
            ExchangeEvent::Broken { why }
        ]
    );
    assert_eq!(proxy.response_bytes(), body.len() as u64 + 5);

    // The next connection lives, and the order is used up.
    let mut exchange = events(&http, post(CALL));
    assert_eq!(exchange.next().await, Some(opened(Body::Stream)));
    for number in 0..10 {
        while exchange.next().await != Some(event(None, &number.to_string())) {}
        tick.send(()).await.unwrap();
    }
}

#[tokio::test]
async fn the_proxy_goes_half_open_and_comes_back() {
    let (server, tick) = ticking().await;
    let proxy = FaultProxy::start(server.addr);
    let http = through(&proxy);
    let mut exchange = events(&http, post(CALL));
    assert_eq!(exchange.next().await, Some(opened(Body::Stream)));
    assert_eq!(exchange.next().await, Some(event(None, "0")));
    proxy.half_open();
    let before = proxy.response_bytes();
    tick.send(()).await.unwrap();
    // A second exchange gets a connection and nothing else.
    let mut second = events(&http, post(CALL));
    tokio::select! {
        arrival = second.next() => panic!("{arrival:?}"),
        arrival = exchange.next() => panic!("{arrival:?}"),
        () = proxy.until("the second connection", |proxy| proxy.connections() == 2) => {}
    }
    // Each order is a turn of the proxy, in which it would pass on what it has.
    for _ in 0..100 {
        proxy.chunk(0);
        assert_eq!(exchange.next().now_or_never(), None);
        assert_eq!(second.next().now_or_never(), None);
        tokio::task::yield_now().await;
    }
    assert_eq!(
        (proxy.response_bytes(), proxy.calls("tools/call")),
        (before, 1)
    );
    assert_eq!(proxy.open_connections(), 2);
    proxy.heal();
    assert_eq!(exchange.next().await, Some(event(None, "1")));
    drop(exchange);
    assert_eq!(second.next().await, Some(opened(Body::Stream)));
}

#[test]
fn the_proxy_can_be_waited_for_without_a_runtime() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap());
    let mut client = std::net::TcpStream::connect(proxy.addr()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client
        .write_all(
            format!(
                "POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{CALL}",
                CALL.len()
            )
            .as_bytes(),
        )
        .unwrap();
    proxy.wait_until("the call", |proxy| proxy.calls("tools/call") == 1);
    // What is left unread would turn the close below into a reset.
    let mut request = Vec::new();
    while !request.ends_with(CALL.as_bytes()) {
        let mut byte = [0];
        server.read_exact(&mut byte).unwrap();
        request.extend(byte);
    }
    server.write_all(b"HTTP/1.1 202 Accepted\r\n\r\n").unwrap();
    let mut status = [0; 12];
    client.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 202");
    drop(server);
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 13);
}

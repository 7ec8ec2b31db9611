//! What the program is compared with, each a process of its own.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, future::join_all};
use longhaul::{
    protocol::{self, ExchangeEvent},
    transport::{DEFAULT_CAP_BYTES, Sse},
};
use rmcp::{
    ClientHandler, RoleClient, ServiceExt as _,
    model::{CallToolRequestParams, ProgressNotificationParam},
    service::NotificationContext,
    transport::StreamableHttpClientTransport,
};

use crate::{scan::Scan, support::say};

fn block_on<F: Future>(work: F) -> F::Output {
    longhaul::transport::ensure_provider();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

fn bare() -> reqwest::Client {
    // No certificates: every URL here is plain http.
    let tls = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .build()
        .unwrap()
}

/// What is done with the bytes of a stream.
#[derive(Clone, Copy)]
pub(crate) enum Reader {
    /// The bare scan.
    Scan,
    /// Our splitter, `eventsource-stream` and our parse.
    Ours,
}

/// Calls the tool so many times and reads the streams.
pub(crate) fn read(reader: Reader, url: &str, calls: usize, arguments: &str) {
    block_on(async {
        let client = bare();
        let reads = (0..calls).map(|number| {
            let body = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":\"3fa9c1d2-{number}\",\"method\":\"tools/call\",\"params\":{{\"name\":\"blast\",\
                 \"arguments\":{arguments},\"_meta\":{{\"progressToken\":\"3fa9c1d2-{number}\"}}}}}}"
            );
            let sending = client
                .post(url)
                .header("accept", "application/json, text/event-stream")
                .header("content-type", "application/json")
                .body(body)
                .send();
            async {
                let mut bytes = sending.await.unwrap().bytes_stream();
                let mut scan = Scan::default();
                let mut sse = Sse::new(DEFAULT_CAP_BYTES);
                let mut seen = 0;
                while let Some(Ok(chunk)) = bytes.next().await {
                    match reader {
                        Reader::Scan => seen += scan.read(&chunk),
                        Reader::Ours => {
                            sse.feed(chunk);
                            while let Some(arrival) = sse.take() {
                                if let ExchangeEvent::Event { data, .. } = &arrival {
                                    seen += black_box(protocol::decode(data)).len();
                                }
                            }
                        }
                    }
                }
                seen
            }
        });
        let seen: usize = join_all(reads).await.into_iter().sum();
        say(&seen.to_string());
    });
}

/// Resumes the first stream and reads 10,000 events of it; says so.
pub(crate) fn get(url: &str) {
    block_on(async {
        let answer = bare()
            .get(url)
            .header("accept", "text/event-stream")
            .header("last-event-id", "0/1")
            .send();
        let mut bytes = answer.await.unwrap().bytes_stream();
        // Three line ends an event; a longer sign could be cut in two by the chunks.
        let mut seen = 0;
        while seen < 3 * 10_000 {
            let chunk = bytes.next().await.unwrap().unwrap();
            seen += memchr::memchr_iter(b'\n', &chunk).count();
        }
        say("read");
        // As the program does, it stays on the stream.
        while bytes.next().await.is_some() {}
    });
}

struct Counter(Arc<AtomicU64>);

impl ClientHandler for Counter {
    async fn on_progress(&self, _: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Calls the tool with the client of the official SDK.
pub(crate) fn rmcp(url: &str, arguments: &str) {
    block_on(async {
        let seen = Arc::new(AtomicU64::new(0));
        let transport = StreamableHttpClientTransport::with_client(
            bare(),
            rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig::with_uri(
                url,
            ),
        );
        let client = Counter(Arc::clone(&seen)).serve(transport).await.unwrap();
        let mut call = CallToolRequestParams::new("blast");
        call.arguments = serde_json::from_str(arguments).ok();
        client.call_tool(call).await.unwrap();
        // Notifications are handled beside the answer.
        tokio::time::sleep(Duration::from_millis(10)).await;
        say(&seen.load(Ordering::Relaxed).to_string());
        let _ = client.cancel().await;
    });
}

/// The least that ratatui can paint.
pub(crate) fn smallest() {
    use crossterm::{execute, terminal};
    let mut out = std::io::stdout();
    terminal::enable_raw_mode().unwrap();
    execute!(out, terminal::EnterAlternateScreen).unwrap();
    let backend = ratatui::backend::CrosstermBackend::new(out);
    let mut terminal = ratatui::Terminal::new(backend).unwrap();
    terminal
        .draw(|frame| frame.render_widget("the smallest", frame.area()))
        .unwrap();
    // It is killed once it was seen.
    let _ = std::io::stdin().read_line(&mut String::new());
}

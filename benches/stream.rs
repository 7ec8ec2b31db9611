//! From bytes in memory to a typed event: the splitter, `eventsource-stream` behind it and the parse, against the least
//! that any reader has to do: a memchr scan for the line ends and one borrowed serde pass.
//!
//! `cargo bench --bench stream`. CPU time of the thread, medians of alternated rounds. Rows 1 and 2 count what comes over
//! HTTP (`benches/program.rs`); what they cost without it is printed here for comparison.

#[path = "support/scan.rs"]
mod scan;
#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;

use bytes::Bytes;
use longhaul::{protocol, protocol::ExchangeEvent, transport};
use support::{duel, is_wanted, median, row, say, thread_cpu};

const EVENTS: usize = 50_000;
const ROUNDS: usize = 15;

/// One progress event as the servers of the official SDKs write it.
fn event(number: usize) -> String {
    format!(
        "id: 0/{number}\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":\
         \"3fa9c1d2-7\",\"progress\":{number},\"total\":100000,\"message\":\"Processed {number}/100000 records\"}}}}\n\n"
    )
}

/// The result of a call with this much text in it.
fn result(bytes: usize) -> String {
    let text = "It was a bright cold day in April, and the clocks were striking thirteen. "
        .repeat(bytes / 74);
    format!(
        "id: 0/1\ndata: {{\"jsonrpc\":\"2.0\",\"id\":\"3fa9c1d2-7\",\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n\n"
    )
}

/// Our way; gives the events seen.
fn ours(chunks: &[Bytes]) -> usize {
    let mut sse = transport::Sse::new(transport::DEFAULT_CAP_BYTES);
    let mut seen = 0;
    for chunk in chunks {
        sse.feed(chunk.clone());
        while let Some(arrival) = sse.take() {
            if let ExchangeEvent::Event { data, .. } = &arrival {
                seen += black_box(protocol::decode(data)).len();
            }
        }
    }
    seen
}

fn theirs(chunks: &[Bytes]) -> usize {
    let mut scan = scan::Scan::default();
    chunks.iter().map(|chunk| scan.read(chunk)).sum()
}

/// CPU seconds of one pass, which has to see so many events.
fn time(read: impl Fn(&[Bytes]) -> usize, chunks: &[Bytes], events: usize) -> f64 {
    let begin = thread_cpu();
    assert_eq!(black_box(read(black_box(chunks))), events);
    thread_cpu() - begin
}

fn cut(bytes: &Bytes, size: usize) -> Vec<Bytes> {
    (0..bytes.len())
        .step_by(size)
        .map(|from| bytes.slice(from..bytes.len().min(from + size)))
        .collect()
}

fn main() {
    let each: Vec<Bytes> = (0..EVENTS).map(|number| event(number).into()).collect();
    let large = cut(&each.concat().into(), 64 * 1024);
    if is_wanted(1) || is_wanted(2) {
        let (mine, other) = duel(
            ROUNDS,
            || time(ours, &each, EVENTS),
            || time(theirs, &each, EVENTS),
        );
        let us = 1e6 / EVENTS as f64;
        say(&format!(
            "       one event a chunk: ours {:.3} us, the scan {:.3} us",
            mine * us,
            other * us
        ));
        say(&format!(
            "       against the scan in memory: {:.2} x",
            mine / other
        ));
        let mine = (0..ROUNDS).map(|_| time(ours, &large, EVENTS));
        let mine = median(&mine.collect::<Vec<_>>());
        say(&format!("       64 KiB chunks: ours {:.3} us", mine * us));
    }
    if is_wanted(3) {
        let one: Bytes = result(8_000_000).into();
        let chunks = cut(&one, 64 * 1024);
        let (mine, other) = duel(
            ROUNDS,
            || time(ours, &chunks, 1),
            || time(theirs, &chunks, 1),
        );
        say(&format!(
            "       one event of 8 MB: ours {:.2} ms, the scan {:.2} ms",
            mine * 1e3,
            other * 1e3
        ));
        row(
            3,
            "one event of 8 MB against the scan",
            mine / other,
            " x",
            2.5,
        );
    }
}

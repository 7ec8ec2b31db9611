//! The least that a reader of such a stream does: find the line ends, and one borrowed serde pass over each data line.
//! No limits, no event ids, no bad bytes, no other line ends.

use std::{borrow::Cow, hint::black_box};

use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<Step<'a>>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step<'a> {
    #[serde(borrow)]
    progress_token: Cow<'a, str>,
    progress: f64,
    total: Option<f64>,
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

/// The part of a line whose end has not come.
#[derive(Default)]
pub(crate) struct Scan {
    held: Vec<u8>,
}

impl Scan {
    /// Reads a chunk; gives the messages in it.
    pub(crate) fn read(&mut self, mut chunk: &[u8]) -> usize {
        let mut seen = 0;
        while let Some(end) = memchr(b'\n', chunk) {
            let (line, rest) = chunk.split_at(end);
            if self.held.is_empty() {
                seen += message(line);
            } else {
                self.held.extend_from_slice(line);
                seen += message(&self.held);
                self.held.clear();
            }
            chunk = rest.get(1..).unwrap_or_default();
        }
        self.held.extend_from_slice(chunk);
        seen
    }
}

fn message(line: &[u8]) -> usize {
    let Some(data) = line.strip_prefix(b"data: ") else {
        return 0;
    };
    let Ok(read) = serde_json::from_slice::<Message<'_>>(data) else {
        return 0;
    };
    let params = read
        .params
        .map(|step| (step.progress_token, step.progress, step.total, step.message));
    black_box((read.id, read.method, params, read.result));
    1
}

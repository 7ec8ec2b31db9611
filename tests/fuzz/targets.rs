//! What is fuzzed: for each way in, what has to hold for any bytes whatever. Shared by the fuzzer (`fuzz_targets/`, which
//! finds new inputs) and by `tests/corpus.rs` (which replays the kept ones in every `cargo test`).

use bytes::Bytes;
use longhaul::{
    domain::{
        Chord, Elicitation, Entry, LinkRecord, Task, Tool,
        text::{clean_block, clean_line, is_hostile, read_duration, truncate, width},
    },
    protocol::{self, Arrival, Incoming},
    term::keys::Keys,
    transport::Sse,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// A way in: bytes that came from outside.
pub(crate) type Target = fn(&[u8]);

/// Every way in, by the name of its corpus.
pub(crate) const TARGETS: [(&str, Target); 7] = [
    ("splitter", splitter),
    ("message", message),
    ("shapes", shapes),
    ("rows", rows),
    ("form", form),
    ("text", text),
    ("keys", keys),
];

/// Small enough that the fuzzer finds its way to the cap.
const CAP_BYTES: usize = 512;

/// An event stream. The first two bytes say how the rest is cut into chunks, which must not matter.
pub(crate) fn splitter(data: &[u8]) {
    let Some((sizes, body)) = data.split_first_chunk::<2>() else {
        return;
    };
    let whole = arrivals(std::iter::once(body));
    let mut rest = body;
    let mut turn = 0;
    let chunks = std::iter::from_fn(|| {
        let size = usize::from(if turn % 2 == 0 { sizes[0] } else { sizes[1] })
            .clamp(1, rest.len().max(1));
        turn += 1;
        let (chunk, later) = rest.split_at_checked(size)?;
        rest = later;
        Some(chunk)
    });
    assert_eq!(whole, arrivals(chunks), "the cut of the chunks matters");
}

fn arrivals<'c>(chunks: impl Iterator<Item = &'c [u8]>) -> Vec<Arrival> {
    let mut sse = Sse::new(CAP_BYTES);
    let mut all = Vec::new();
    for chunk in chunks {
        sse.feed(Bytes::copy_from_slice(chunk));
        while let Some(arrival) = sse.take() {
            if let Arrival::Event { data, .. } = &arrival {
                assert!(data.len() <= CAP_BYTES * 3, "{} bytes", data.len());
            }
            // A sign of life for each chunk is the only thing that may differ.
            if arrival != Arrival::Alive {
                all.push(arrival);
            }
        }
    }
    all
}

/// The text of an event.
pub(crate) fn message(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for incoming in protocol::decode(&text) {
        match incoming {
            Incoming::Response {
                outcome: Ok(result),
                ..
            } => shapes(result.get().as_bytes()),
            Incoming::Request { params, .. } => questions(params),
            Incoming::TaskStatus(json) | Incoming::Acknowledged(json) => {
                let _ = protocol::task_shape(json);
            }
            Incoming::Log { data, .. } => {
                let _ = clean_block(&data);
            }
            _ => {}
        }
    }
}

/// The result of any request.
pub(crate) fn shapes(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = protocol::handshake(&text);
    let _ = protocol::discovery(&text);
    let _ = protocol::task_shape(&text);
    let _ = protocol::task_list(&text);
    let _ = protocol::call_result(&text);
    for asked_for_task in [false, true] {
        let _ = protocol::call_outcome(&text, asked_for_task);
    }
    let (tools, _) = protocol::tools(&text);
    for tool in &tools {
        fields(tool, "1");
        let _ = tool.keeps_checkpoint(&tools);
        for (name, value) in tool.header_values(&Map::new()) {
            assert!(!name.is_empty() && value.is_ascii(), "{name}: {value}");
        }
    }
}

fn fields(tool: &Tool, typed: &str) {
    let _ = tool.header_fault();
    let _ = tool.complaints(&Map::new());
    for field in tool.arguments() {
        let _ = (field.label(0), field.wanted());
        if let Ok(value) = field.read(typed) {
            let complaint = field.complaint(&value);
            assert_eq!(complaint, None, "{typed} was taken as {value}");
        }
    }
}

fn questions(params: &str) {
    let question = Elicitation::read(params);
    let _ = (Elicitation::message_of(params), question.link());
    for field in question.fields() {
        let _ = field.wanted();
    }
    if let Ok(content) = question.defaults() {
        let given = serde_json::from_str::<Map<String, Value>>(&content).unwrap_or_default();
        assert!(question.content(&given).is_ok(), "{content}");
    }
}

/// A row of the session file: what can be read is written as the same.
pub(crate) fn rows(data: &[u8]) {
    same_again::<Task>(data);
    same_again::<LinkRecord>(data);
    same_again::<Vec<Entry>>(data);
}

fn same_again<Row: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(data: &[u8]) {
    if let Ok(row) = serde_json::from_slice::<Row>(data) {
        let again = serde_json::to_vec(&row).and_then(|json| serde_json::from_slice::<Row>(&json));
        assert_eq!(again.ok().as_ref(), Some(&row));
    }
}

/// A schema and, in the last line, what somebody types into each field.
pub(crate) fn form(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (schema, typed) = text.rsplit_once('\n').unwrap_or((&text, ""));
    if let Ok(schema) = serde_json::from_str::<Value>(schema) {
        let tool = serde_json::json!({"tools": [{"name": "t", "inputSchema": schema}]});
        for tool in protocol::tools(&tool.to_string()).0 {
            fields(&tool, typed);
        }
        let params = serde_json::json!({"message": typed, "requestedSchema": schema});
        questions(&params.to_string());
    }
    questions(schema);
}

/// Words of a server on their way to the screen.
pub(crate) fn text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = read_duration(&text);
    let (line, block) = (clean_line(&text), clean_block(&text));
    assert!(!line.chars().any(is_hostile), "{line:?}");
    assert!(
        !block.replace('\n', "").chars().any(is_hostile),
        "{block:?}"
    );
    assert_eq!(clean_line(&line), line);
    assert_eq!(clean_block(&block), block);
    for columns in [0, 1, 2, 7, 40] {
        let cut = truncate(&line, columns);
        assert!(width(&cut) <= columns, "{cut:?} in {columns}");
    }
}

/// The bytes of a keyboard, and the name of a key.
pub(crate) fn keys(data: &[u8]) {
    let mut keys = Keys::default();
    for chunk in data.split(|byte| *byte == 0) {
        let _ = keys.take(chunk);
    }
    let _ = (keys.patience(), keys.give_up());
    assert_eq!(keys.patience(), None, "nothing is held any more");
    if let Ok(chord) = String::from_utf8_lossy(data).parse::<Chord>() {
        assert_eq!(chord.to_string().parse::<Chord>().ok(), Some(chord));
    }
}

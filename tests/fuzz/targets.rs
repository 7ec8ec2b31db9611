//! What is fuzzed: for each way in, what has to hold for any bytes whatever. Shared by the fuzzer (`fuzz_targets/`, which
//! finds new inputs) and by `tests/it/corpus.rs` (which replays the kept ones in every `cargo test`).

use std::{collections::HashSet, fmt::Write as _, path::Path};

use bytes::Bytes;
use longhaul::{
    ClientState, ClientTask, Config,
    domain::{
        CheckpointConvention, Chord, Elicitation, Era, HistoryEntry, LinkRecord, Task, Tool,
        text::{clean_block, clean_line, duration, is_hostile, parse_duration, truncate, width},
    },
    imported,
    protocol::{self, ExchangeEvent, Incoming},
    term::keys::KeyDecoder,
    transport::Sse,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};
use unicode_width::UnicodeWidthChar;

/// A way in: bytes that came from outside.
pub(crate) type Target = fn(&[u8]);

/// Every way in, by the name of its corpus.
pub(crate) const TARGETS: [(&str, Target); 10] = [
    ("splitter", splitter),
    ("message", message),
    ("shapes", shapes),
    ("rows", rows),
    ("form", form),
    ("text", text),
    ("keys", keys),
    ("config", config),
    ("import", import),
    ("saved", saved),
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

fn arrivals<'c>(chunks: impl Iterator<Item = &'c [u8]>) -> Vec<ExchangeEvent> {
    let mut sse = Sse::new(CAP_BYTES);
    let mut all = Vec::new();
    for chunk in chunks {
        sse.feed(Bytes::copy_from_slice(chunk));
        while let Some(arrival) = sse.take() {
            if let ExchangeEvent::Event { data, .. } = &arrival {
                assert!(data.len() <= CAP_BYTES * 3, "{} bytes", data.len());
            }
            // A sign of life for each chunk is the only thing that may differ.
            if arrival != ExchangeEvent::Alive {
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
                let _ = protocol::parse_task_object(json);
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
    let _ = protocol::parse_initialize_result(&text);
    let _ = protocol::parse_discover_result(&text);
    let _ = protocol::parse_task_object(&text);
    let _ = protocol::parse_task_page(&text);
    let _ = protocol::parse_call_result(&text);
    for asked_for_task in [false, true] {
        for era in [Era::Stateful, Era::Modern] {
            let _ = protocol::classify_call_result(&text, asked_for_task, era);
        }
    }
    let (tools, _) = protocol::parse_tool_page(&text);
    for tool in &tools {
        fields(tool, "1");
        let _ = tool.keeps_checkpoint(&tools, &CheckpointConvention::default());
        for (name, value) in tool.header_values(&Map::new()) {
            assert!(!name.is_empty() && value.is_ascii(), "{name}: {value}");
        }
    }
}

fn fields(tool: &Tool, typed: &str) {
    let _ = tool.header_error();
    let _ = tool.argument_errors(&Map::new());
    let _ = (tool.check(&Map::new()), tool.hints());
    for field in tool.arguments() {
        let _ = (field.label(0), field.expected());
        if let Some(value) = field.parse(typed) {
            let _ = field.violation(&value);
        }
    }
}

fn questions(params: &str) {
    let question = Elicitation::parse(params);
    let _ = (Elicitation::message_of(params), question.url_preview());
    for field in question.fields() {
        let _ = field.expected();
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
    same_again::<Vec<HistoryEntry>>(data);
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
        let tool = json!({"tools": [{"name": "t", "inputSchema": schema}]});
        for tool in protocol::parse_tool_page(&tool.to_string()).0 {
            fields(&tool, typed);
        }
        let params = json!({"message": typed, "requestedSchema": schema});
        questions(&params.to_string());
    }
    questions(schema);
}

/// Words of a server on their way to the screen.
pub(crate) fn text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = parse_duration(&text);
    let (line, block) = (clean_line(&text), clean_block(&text));
    assert!(!line.chars().any(is_hostile), "{line:?}");
    assert!(
        !block.replace('\n', "").chars().any(is_hostile),
        "{block:?}"
    );
    // As wide as many a terminal draws it: one character beside the other.
    let drawn: usize = line.chars().filter_map(UnicodeWidthChar::width).sum();
    assert!(drawn <= width(&line), "{line:?}");
    assert_eq!(clean_line(&line), line);
    assert_eq!(clean_block(&block), block);
    for columns in [0, 1, 2, 7, 40] {
        let cut = truncate(&line, columns);
        assert!(width(&cut) <= columns, "{cut:?} in {columns}");
    }
}

/// The bytes of a keyboard, and the name of a key.
pub(crate) fn keys(data: &[u8]) {
    let mut keys = KeyDecoder::default();
    for chunk in data.split(|byte| *byte == 0) {
        let _ = keys.take(chunk);
    }
    let _ = (keys.timeout(), keys.flush());
    assert_eq!(keys.timeout(), None, "nothing is pending");
    if let Ok(chord) = String::from_utf8_lossy(data).parse::<Chord>() {
        assert_eq!(chord.to_string().parse::<Chord>().ok(), Some(chord));
    }
}

/// The file of configuration: each thing that it says is taken or told, and what was taken can be said again.
pub(crate) fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = 1..=text.matches('\n').count() + 1;
    let config = match Config::parse("f", &text) {
        Ok(config) => config,
        Err((line, why)) => return assert!(lines.contains(&line) && !why.is_empty(), "{why}"),
    };
    for notice in &config.notices {
        let told = notice.strip_prefix("f:").and_then(|it| it.split_once(": "));
        let (line, words) = told.unwrap_or_default();
        assert!(line.parse().is_ok_and(|line| lines.contains(&line)));
        assert!(!words.is_empty() && !words.chars().any(is_hostile));
    }
    let table = DeTable::parse(&text).expect("it was read");
    let said = table.get_ref();
    let of_servers = said.get("servers").map(Spanned::get_ref);
    let of_servers = match of_servers {
        Some(DeValue::Table(servers)) => servers.len(),
        other => usize::from(other.is_some()),
    };
    let is_silent = |key: &str| ["servers", "defaults", "theme", "keys", "notify"].contains(&key);
    let others = said.keys().filter(|key| !is_silent(key.get_ref())).count();
    let heard = config.servers.len() + config.notices.len();
    assert!(heard >= of_servers + others, "{config:?}");

    let mut again = String::new();
    for server in &config.servers {
        let is_hostile = server.name.as_str().contains(is_hostile);
        assert!(!is_hostile && !server.name.as_str().is_empty());
        // A text of JSON is one of TOML too.
        let quoted = |text: &str| json!(text).to_string();
        let _ = writeln!(again, "[servers.{}]", quoted(server.name.as_str()));
        let _ = writeln!(again, "trace = {}", server.trace);
        match (&server.program, &server.url) {
            (Some(program), _) => {
                let _ = writeln!(again, "command = {}", quoted(&program.command));
                let args: Vec<String> = program.args.iter().map(|arg| quoted(arg)).collect();
                let _ = writeln!(again, "args = [{}]", args.join(", "));
                if let Some(cwd) = &program.cwd {
                    let _ = writeln!(again, "cwd = {}", quoted(cwd));
                }
            }
            (None, Some(url)) => {
                let _ = writeln!(again, "url = {}", quoted(url));
            }
            (None, None) => {}
        }
        if let Some(protocol) = server.protocol {
            let word = protocol.0.map_or("auto", |version| version.label());
            let _ = writeln!(again, "protocol = {}", quoted(word));
        }
        let limits = [
            ("idle_timeout", server.limits.idle),
            ("max_time", server.limits.hard),
        ];
        for (key, limit) in limits {
            if let Some(limit) = limit {
                let _ = writeln!(again, "{key} = {}", quoted(&duration(limit)));
            }
        }
        let checkpoint = &server.checkpoint;
        for (key, name) in [
            ("client_id", &checkpoint.client_id),
            ("list", &checkpoint.list),
            ("pause", &checkpoint.pause),
            ("task_id", &checkpoint.task_id),
        ] {
            let _ = writeln!(again, "checkpoint.{key} = {}", quoted(name));
        }
        let (table, values) = match &server.program {
            Some(program) => ("env", &program.env),
            None => ("headers", &server.headers),
        };
        let _ = writeln!(again, "[servers.{}.{table}]", quoted(server.name.as_str()));
        for (name, value) in values {
            let _ = writeln!(again, "{} = {}", quoted(name), quoted(value.as_str()));
        }
    }
    let again = Config::parse("f", &again).expect("it is TOML");
    // Where it came from was not said again, and the approval neither.
    let (mut servers, mut again_servers) = (config.servers, again.servers);
    for server in servers.iter_mut().chain(&mut again_servers) {
        server.is_withheld = false;
    }
    assert_eq!((again_servers, again.notices), (servers, vec![]));
}

/// The file of another program, in one of its three languages: whatever is taken can be shown, goes into no address, and
/// is no secret.
pub(crate) fn import(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for path in [
        "mcp.json",
        ".gemini/settings.json",
        "config.toml",
        "config.yaml",
    ] {
        let entries = match imported(Path::new(path), &text) {
            Ok(entries) => entries,
            Err(error) => {
                let why = error.to_string();
                assert!(!why.is_empty() && !why.chars().any(is_hostile), "{why:?}");
                continue;
            }
        };
        for (name, outcome) in entries {
            match outcome {
                Ok(kept) => {
                    assert!(!name.chars().any(is_hostile) && !name.trim().is_empty());
                    assert!(!kept.is_empty());
                    for word in kept {
                        assert!(!word.chars().any(is_hostile), "{word:?}");
                        assert!(!word.contains("ghp_canary"), "{word:?}");
                    }
                }
                Err(why) => assert!(!why.to_string().is_empty()),
            }
        }
    }
}

/// The state file of a tutorial's client: each of its tasks is read or counted, and none stands for another.
pub(crate) fn saved(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let saved = match ClientState::read(&text) {
        Ok(saved) => saved,
        Err(why) => return assert!(!why.to_string().is_empty()),
    };
    let file: Value = serde_json::from_str(&text).expect("it was read");
    let listed = file.get("active_tasks").or(file.get("tasks"));
    let count = match listed.expect("it was read") {
        Value::Array(tasks) => tasks.len(),
        other => other.as_object().map_or(0, Map::len),
    };
    assert_eq!(saved.tasks.len() + saved.skipped, count);
    let key = |task: &ClientTask| (task.client_id.clone(), task.id.clone());
    let keys: HashSet<_> = saved.tasks.iter().map(key).collect();
    assert_eq!(keys.len(), saved.tasks.len(), "two tasks count as one");
    let tasks = saved.tasks.iter().map(|task| {
        json!({"id": task.id, "tool": task.tool, "arguments": task.arguments,
            "client_id": task.client_id})
    });
    let again = json!({"url": saved.url, "tasks": tasks.collect::<Vec<_>>()}).to_string();
    let again = ClientState::read(&again).expect("it is such a file");
    assert_eq!((again.url, again.tasks), (saved.url, saved.tasks));
}

//! Many server tasks on the bare machine, for as long as a minute: what asking for them costs.

use std::collections::VecDeque;

use longhaul::{
    domain::{
        LinkRecord, ModernSupport, Mono, NewCall, ProtocolVersion, ServerName, SessionRequest,
        Stamp, TaskCapability, TaskId, TaskKind, Wall,
    },
    link::{Choice, ExchangeId, Input, Link, Output},
    protocol::{Body, ExchangeEvent, Method},
};
use serde_json::{Value, json};

const START: i64 = 1_700_000_000_000;
/// How long the server takes to answer, in milliseconds.
const LATENCY: u64 = 5;

/// What a minute came to.
pub(crate) struct Minute {
    pub(crate) polls: usize,
    /// Requests that were no polls, in that minute.
    pub(crate) others: usize,
}

/// A call of the one tool.
pub(crate) fn call(id: TaskId) -> NewCall {
    NewCall::new(
        id,
        ServerName::new("lab"),
        "steps".to_owned(),
        "{}".to_owned(),
    )
}

struct Crowd {
    link: Link,
    now: u64,
    poll_ms: u64,
    answers: VecDeque<(u64, ExchangeId, String)>,
    polls: usize,
    others: usize,
    made: usize,
}

/// A known modern server with tasks.
pub(crate) fn modern() -> LinkRecord {
    let mut record = LinkRecord::new(ServerName::new("lab"), "http://lab/mcp");
    (record.session_number, record.is_initialized) = (1, true);
    record.version = Some(ProtocolVersion::V20260728);
    record.modern = ModernSupport::Offered { has_tasks: true };
    record.refuses_session = true;
    record.tasks = Some(TaskCapability {
        kind: TaskKind::Extension,
        can_list: false,
    });
    record.tools_at = Some(Wall(START));
    record.tools = longhaul::protocol::parse_tool_page(r#"{"tools":[{"name":"steps"}]}"#).0;
    record
}

/// Lets so many tasks of this pace be followed for a minute.
pub(crate) fn minute(tasks: u64, poll_ms: u64) -> Minute {
    let stamp = Stamp {
        mono: Mono(0),
        wall: Wall(START),
    };
    let mut crowd = Crowd {
        link: Link::new(modern(), Choice::default(), 7, stamp),
        now: 0,
        poll_ms,
        answers: VecDeque::new(),
        polls: 0,
        others: 0,
        made: 0,
    };
    for number in 0..tasks {
        // Made over the time of one pace, as a person or a script would.
        crowd.run_to(number * poll_ms / tasks);
        let what = SessionRequest::Start(Box::new(call(TaskId::from_bits(number + 1))));
        crowd.feed(Input::Ask { ask: number, what });
    }
    crowd.run_to(2 * poll_ms + 2000);
    (crowd.polls, crowd.others) = (0, 0);
    crowd.run_to(2 * poll_ms + 62_000);
    Minute {
        polls: crowd.polls,
        others: crowd.others,
    }
}

impl Crowd {
    fn run_to(&mut self, end: u64) {
        loop {
            let wake = self.link.next_wake().map(|wake| wake.0.max(self.now));
            let answer = self.answers.front().map(|(at, ..)| *at);
            let Some(at) = wake.into_iter().chain(answer).min().filter(|at| *at <= end) else {
                break;
            };
            self.now = at;
            if answer == Some(at) {
                if let Some((_, exchange, data)) = self.answers.pop_front() {
                    let opened = ExchangeEvent::Opened {
                        body: Body::Json,
                        session: None,
                    };
                    let event = ExchangeEvent::Event {
                        id: None,
                        retry_ms: None,
                        data,
                    };
                    for arrival in [opened, event, ExchangeEvent::Ended] {
                        self.feed(Input::Arrived { exchange, arrival });
                    }
                }
            } else {
                self.feed(Input::Timer);
            }
        }
        self.now = end;
    }

    fn feed(&mut self, input: Input) {
        let stamp = Stamp {
            mono: Mono(self.now),
            wall: Wall(START + i64::try_from(self.now).unwrap_or(0)),
        };
        self.link.handle(stamp, input);
        let mut saved = Vec::new();
        for output in self.link.take_outputs() {
            match output {
                Output::Save { token, .. } => saved.push(token),
                Output::Send {
                    exchange, request, ..
                } => {
                    if let Method::Post { body, .. } = request.method {
                        self.sent(exchange, &body);
                    }
                }
                Output::Close { .. } | Output::Answer { .. } => {}
            }
        }
        let _ = (self.link.take_views(), self.link.take_server_view());
        for token in saved {
            self.feed(Input::Saved(token));
        }
    }

    fn sent(&mut self, exchange: ExchangeId, body: &str) {
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        let shape =
            |id: &Value| json!({"taskId": id, "status": "working", "pollIntervalMs": self.poll_ms});
        let mut result = match message.get("method").and_then(Value::as_str) {
            Some("tasks/get") => {
                self.polls += 1;
                shape(message.pointer("/params/taskId").unwrap_or(&Value::Null))
            }
            Some("tools/call") => {
                self.made += 1;
                let mut made = shape(&json!(format!("t{}", self.made)));
                if let Some(fields) = made.as_object_mut() {
                    fields.insert("resultType".to_owned(), json!("task"));
                }
                made
            }
            _ => {
                self.others += 1;
                Value::Null
            }
        };
        let outcome = if result.is_null() {
            ("error", json!({"code": -32601, "message": "no"}))
        } else {
            ("result", result.take())
        };
        let data = json!({"jsonrpc": "2.0", "id": message.get("id"), outcome.0: outcome.1});
        self.answers
            .push_back((self.now + LATENCY, exchange, data.to_string()));
    }
}

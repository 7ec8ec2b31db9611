//! A link machine on real HTTP without a driver and without a disk: what it wants saved counts as saved at once. It takes
//! far less than a session, so that a test can run thousands of calls, and its clock may run faster than the world's.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{sync::Arc, time::Duration};

use futures_util::{
    StreamExt as _,
    stream::{AbortHandle, Abortable, BoxStream, SelectAll},
};
use longhaul::{
    domain::{
        HistoryEntry, HistoryEvent, LinkRecord, Mono, NewCall, Progress, ProtocolVersion, Row,
        ServerName, SessionRequest, Stamp, Task, TaskId, Wall,
    },
    link::{Choice, ExchangeId, Input, Link, Output},
    protocol::{ExchangeEvent, Method},
    transport::{Http, HttpOptions},
};

/// Longer than anything here takes on a busy machine; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(120);
const START: i64 = 1_700_000_000_000;

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) task: Task,
    pub(crate) history: Vec<HistoryEntry>,
    pub(crate) result: Option<String>,
    /// How many GETs with an event id went out.
    pub(crate) gets: usize,
    /// How often the tool was called.
    pub(crate) calls: usize,
    /// The server as it was known in the end.
    pub(crate) record: LinkRecord,
}

impl Ran {
    /// The steps of its history.
    pub(crate) fn steps(&self) -> Vec<f64> {
        self.history
            .iter()
            .filter_map(|entry| match entry.what {
                HistoryEvent::Progress(Progress { value, .. }) => Some(value),
                _ => None,
            })
            .collect()
    }

    /// The texts of its log lines.
    pub(crate) fn logs(&self) -> Vec<&str> {
        self.history
            .iter()
            .filter_map(|entry| match &entry.what {
                HistoryEvent::Log { data, .. } => Some(data.as_str()),
                _ => None,
            })
            .collect()
    }
}

/// A server that was never contacted.
pub(crate) fn unknown(url: &str) -> LinkRecord {
    LinkRecord::new(ServerName::new("lab"), url)
}

/// Runs one call to where nobody waits for it any more; the clock of the machine runs `speed` times as fast as the world's.
pub(crate) async fn run(record: LinkRecord, tool: &str, arguments: &str, speed: u32) -> Ran {
    let mut wire = Wire::new(record, speed);
    let tool = tool.to_owned();
    let id = TaskId::from_bits(fastrand::u64(..));
    let server = ServerName::new("lab");
    let call = NewCall::new(id.clone(), server, tool.clone(), arguments.to_owned());
    wire.feed(Input::Ask {
        ask: 1,
        what: SessionRequest::Start(Box::new(call)),
    });
    let ending = tokio::time::timeout(DEADLINE, wire.until_over());
    assert!(ending.await.is_ok(), "hangs: {wire:#?}");
    let quoted = format!("\"name\":\"{tool}\"");
    let is_call = |body: &&String| body.contains("\"tools/call\"") && body.contains(&quoted);
    Ran {
        calls: wire.posts.iter().filter(is_call).count(),
        gets: wire.gets,
        history: wire.history,
        result: wire.result,
        record: wire.link.record().clone(),
        task: wire.task.unwrap(),
    }
}

struct Wire {
    link: Link,
    http: Http,
    began: tokio::time::Instant,
    speed: u32,
    exchanges: SelectAll<BoxStream<'static, (ExchangeId, ExchangeEvent)>>,
    open: std::collections::BTreeMap<ExchangeId, AbortHandle>,
    task: Option<Task>,
    history: Vec<HistoryEntry>,
    result: Option<String>,
    gets: usize,
    posts: Vec<String>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire")
            .field("task", &self.task)
            .field("history", &self.history)
            .field("gets", &self.gets)
            .finish_non_exhaustive()
    }
}

impl Wire {
    fn new(record: LinkRecord, speed: u32) -> Self {
        let choice = Choice {
            version: Some(ProtocolVersion::V20251125),
            ..Choice::default()
        };
        let stamp = Stamp {
            mono: Mono(0),
            wall: Wall(START),
        };
        let http = Http::new(HttpOptions::new(record.url.clone())).unwrap();
        Self {
            link: Link::new(record, choice, fastrand::u64(..), stamp),
            http,
            began: tokio::time::Instant::now(),
            speed,
            exchanges: SelectAll::new(),
            open: std::collections::BTreeMap::new(),
            task: None,
            history: Vec::new(),
            result: None,
            gets: 0,
            posts: Vec::new(),
        }
    }

    fn stamp(&self) -> Stamp {
        let spent = u64::try_from((self.began.elapsed() * self.speed).as_millis()).unwrap();
        Stamp {
            mono: Mono(spent),
            wall: Wall(START + i64::try_from(spent).unwrap()),
        }
    }

    async fn until_over(&mut self) {
        while self
            .task
            .as_ref()
            .is_none_or(|task| !task.status.ends_waiting())
        {
            let wake = self.link.next_wake().map(|wake| {
                let spent = Duration::from_millis(wake.0) / self.speed;
                self.began + spent + Duration::from_millis(1)
            });
            let timer = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some((exchange, arrival)) = self.exchanges.next() => {
                    self.feed(Input::Arrived { exchange, arrival });
                }
                () = timer => self.feed(Input::Timer),
            }
        }
    }

    fn feed(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let now = self.stamp();
            self.link.handle(now, input);
            for output in self.link.take_outputs() {
                match output {
                    Output::Save { token, rows, .. } => {
                        self.save(Arc::unwrap_or_clone(rows));
                        inputs.push(Input::Saved(token));
                    }
                    Output::Send {
                        exchange, request, ..
                    } => {
                        match &request.method {
                            Method::Post { body, .. } => self.posts.push(body.clone()),
                            // Without an event id it is the standalone stream.
                            Method::Get { cursor } => self.gets += usize::from(cursor.is_some()),
                            Method::Delete => {}
                        }
                        let (handle, registration) = AbortHandle::new_pair();
                        self.open.insert(exchange, handle);
                        let arrivals = self
                            .http
                            .exchange_for(None, request)
                            .map(move |arrival| (exchange, arrival));
                        self.exchanges
                            .push(Abortable::new(arrivals, registration).boxed());
                    }
                    Output::Close { exchange } => {
                        if let Some(handle) = self.open.remove(&exchange) {
                            handle.abort();
                        }
                    }
                    Output::Answer { outcome, .. } => {
                        outcome.unwrap();
                    }
                }
            }
        }
    }

    fn save(&mut self, rows: Vec<Row>) {
        for row in rows {
            match row {
                Row::Task(task) => self.task = Some(*task),
                Row::History { entries, .. } => self.history.extend(entries),
                Row::Result { json, .. } => self.result = Some(json),
                Row::Link(_) | Row::Erase(_) => {}
            }
        }
    }
}

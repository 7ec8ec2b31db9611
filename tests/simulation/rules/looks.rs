//! Whatever a look at a server task is answered with for a while: the task is followed to its end, at a bounded pace.

use super::{
    faults::{STATUSES, locked, refusals},
    *,
};
use crate::simulation::crowd;

/// The looks are refused from here ...
const FROM: u64 = 30_000;
/// ... to here, and the task ends.
const UNTIL: u64 = 150_000;
const ENDS: u64 = 600_000;
const POLL: u64 = 10_000;

struct PollServer {
    kind: TaskKind,
    refusal: HttpError,
    /// When it was asked for the task.
    looks: Vec<u64>,
    calls: usize,
    /// Handshakes and discoveries: a poll follows them soon.
    greetings: usize,
}

impl PollServer {
    fn bench(&self) -> Bench {
        match self.kind {
            TaskKind::Core => Bench::core("required", Some(false)),
            TaskKind::Extension => Bench::with(crowd::modern(), Choice::default()),
        }
    }

    fn shape(&self, now: u64) -> Value {
        let status = if now < ENDS { "working" } else { "completed" };
        let done = json!({"content": [{"type": "text", "text": "done"}]});
        match self.kind {
            TaskKind::Core => {
                json!({"taskId": "t", "status": status, "ttl": null, "pollInterval": POLL,
                "createdAt": "2026-01-01T00:00:00Z"})
            }
            TaskKind::Extension if now < ENDS => {
                json!({"taskId": "t", "status": status, "pollIntervalMs": POLL})
            }
            TaskKind::Extension => json!({"taskId": "t", "status": status, "result": done}),
        }
    }

    fn take(&mut self, bench: &mut Bench, exchange: ExchangeId, request: &Request) {
        let Method::Post { body, .. } = &request.method else {
            return bench.bring(exchange, refused(405));
        };
        let message: Value = serde_json::from_str(body).unwrap();
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                self.greetings += 1;
                let offer = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
                let result =
                    json!({"protocolVersion": "2025-11-25", "capabilities": {"tasks": offer}});
                let session = Some(format!("s{}", self.greetings));
                let body = Body::Json;
                bench.bring(exchange, ExchangeEvent::Opened { body, session });
                let data = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                let (id, retry_ms, data) = (None, None, data.to_string());
                bench.bring(exchange, ExchangeEvent::Event { id, retry_ms, data });
                bench.bring(exchange, ExchangeEvent::Ended);
            }
            "server/discover" => {
                self.greetings += 1;
                let offer =
                    json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
                let found = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": offer});
                bench.answer_on(exchange, body, &found);
            }
            "tools/call" => {
                self.calls += 1;
                let mut made = self.shape(bench.now);
                if self.kind == TaskKind::Core {
                    made = json!({"task": made});
                } else {
                    made["resultType"] = json!("task");
                }
                bench.answer_on(exchange, body, &made);
            }
            "tasks/get" => {
                self.looks.push(bench.now);
                if (FROM..UNTIL).contains(&bench.now) {
                    bench.bring(
                        exchange,
                        ExchangeEvent::Refused(Box::new(self.refusal.clone())),
                    );
                } else {
                    bench.answer_on(exchange, body, &self.shape(bench.now));
                }
            }
            "tasks/result" => {
                let done = json!({"content": [{"type": "text", "text": "done"}]});
                bench.answer_on(exchange, body, &done);
            }
            "tools/list" => {
                let tool = json!({"name": "steps", "execution": {"taskSupport": "required"}});
                bench.answer_on(exchange, body, &json!({"tools": [tool]}));
            }
            "ping" => bench.answer_on(exchange, body, &json!({})),
            method if method.starts_with("notifications/") => {
                let opened = ExchangeEvent::Opened {
                    body: Body::Empty(202),
                    session: None,
                };
                bench.bring(exchange, opened);
                bench.bring(exchange, ExchangeEvent::Ended);
            }
            _ => bench.bring(exchange, refused(404)),
        }
    }

    fn serve(&mut self, bench: &mut Bench, until: u64) {
        while bench.now < until && !bench.view().task.status.ends_waiting() {
            bench.wait(Duration::from_millis(250));
            while let Some((_, exchange, request)) = bench.sent.get(bench.seen).cloned() {
                bench.seen += 1;
                self.take(bench, exchange, &request);
            }
        }
    }
}

fn poll_server(kind: TaskKind, refusal: HttpError) -> (Bench, PollServer) {
    let poll_server = PollServer {
        kind,
        refusal,
        looks: Vec::new(),
        calls: 0,
        greetings: 0,
    };
    let mut bench = poll_server.bench();
    bench.start("steps", Limits::default());
    (bench, poll_server)
}

#[test]
fn any_poll_response_keeps_following_the_task() {
    for kind in [TaskKind::Core, TaskKind::Extension] {
        for mut refusal in refusals(&STATUSES) {
            // Longer than the task wants to be left alone anyway.
            refusal.retry_after = refusal.retry_after.map(|_| Duration::from_secs(25));
            let words = format!("{kind:?} {refusal:?}");
            let least = refusal.retry_after.unwrap_or_default();
            let (mut bench, mut poll_server) = poll_server(kind, refusal);
            poll_server.serve(&mut bench, 3_600_000);
            assert_eq!(bench.status(), &Status::Completed, "{words}");
            assert_eq!(poll_server.calls, 1, "{words}");
            let most = usize::try_from(ENDS / POLL).unwrap() + 8;
            assert!(
                poll_server.looks.len() <= most,
                "{words}: {:?}",
                poll_server.looks
            );
            let early = poll_server.looks.windows(2).find(|pair| {
                (FROM..UNTIL).contains(&pair[0])
                    && u128::from(pair[1] - pair[0]) < least.as_millis()
            });
            assert!(
                early.is_none() || poll_server.greetings > 0,
                "{words}: {early:?}"
            );
            assert!(
                bench.sent.len() <= 200,
                "{words}: {} requests",
                bench.sent.len()
            );
        }
    }
}

#[test]
fn polls_refused_with_401_wait_for_a_login() {
    for kind in [TaskKind::Core, TaskKind::Extension] {
        for refusal in locked() {
            let words = format!("{kind:?} {refusal:?}");
            let (mut bench, mut poll_server) = poll_server(kind, refusal);
            poll_server.serve(&mut bench, 8 * 3_600_000);
            assert_eq!(bench.view().contact, Connectivity::NeedsLogin, "{words}");
            let refused = poll_server.looks.iter().filter(|at| **at >= FROM).count();
            assert_eq!(refused, 1, "{words}: {:?}", poll_server.looks);
            bench.ask(SessionRequest::RetryNow);
            let until = bench.now + 3_600_000;
            poll_server.serve(&mut bench, until);
            assert_eq!(bench.status(), &Status::Completed, "{words}");
            assert_eq!(poll_server.calls, 1, "{words}");
        }
    }
}

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Effect, Proxy, ProxyInput, ProxyOptions};
use crate::domain::{
    Answer, Attempt, Collected, Forwarded, Introduction, Mono, NewCall, Progress, ProtocolVersion,
    Question, QuestionKind, QuestionSource, RequestError, ServerName, SessionEvent, SessionRequest,
    SessionRequestId, SessionResponse, Stamp, Status, Task, TaskId, TaskView, Wall,
};

/// A proxy before the server `lab`, and what it has done so far.
struct Bench {
    proxy: Proxy,
    now: Stamp,
}

impl Bench {
    fn new() -> Self {
        let options = ProxyOptions {
            server: ServerName::new("lab"),
            ..ProxyOptions::default()
        };
        let now = Stamp::default();
        let proxy = Proxy::new(options, now);
        Self { proxy, now }
    }

    /// After the handshake of a host with a server of this revision.
    fn connected(server: ProtocolVersion) -> Self {
        Self::connected_with(server, &json!({}))
    }

    fn connected_with(server: ProtocolVersion, capabilities: &Value) -> Self {
        let mut bench = Self::new();
        let info = json!({"name": "test-host", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let (number, _) = bench.asks(&request(1, "initialize", &params.to_string()));
        bench.introduce(number, server);
        bench.hears(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        bench
    }

    fn takes(&mut self, input: ProxyInput) -> Vec<Effect> {
        self.proxy.handle(self.now, input)
    }

    /// What follows from a line of the host.
    fn hears(&mut self, line: &str) -> Vec<Effect> {
        self.takes(ProxyInput::FromHost(line.to_owned()))
    }

    /// The only request to the session that follows from a line of the host.
    fn asks(&mut self, line: &str) -> (SessionRequestId, SessionRequest) {
        let effects = self.hears(line);
        match <[Effect; 1]>::try_from(effects) {
            Ok([Effect::Ask(number, request)]) => (number, request),
            other => panic!("{other:?}"),
        }
    }

    /// The host calls `slow` in request 2.
    fn calls_slow(&mut self) -> (SessionRequestId, Box<NewCall>) {
        match self.asks(&request(2, "tools/call", r#"{"name":"slow"}"#)) {
            (number, SessionRequest::Start(call)) => (number, call),
            other => panic!("{other:?}"),
        }
    }

    fn introduce(&mut self, number: SessionRequestId, version: ProtocolVersion) -> Vec<Effect> {
        let capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
        let introduction = Introduction {
            version,
            result: json!({"capabilities": capabilities}).to_string(),
            timeout_ms: None,
        };
        self.answer(number, SessionResponse::Introduced(introduction))
    }

    /// The session responds to a request.
    fn answer(&mut self, request: SessionRequestId, response: SessionResponse) -> Vec<Effect> {
        let outcome = Ok(response);
        self.takes(ProxyInput::Session(SessionEvent::Response {
            request,
            outcome,
        }))
    }

    /// The line that the host gets for a request which the server answers with this result.
    fn passes_on(&mut self, line: &str, result: &str) -> String {
        let (number, _) = self.asks(line);
        let result = Forwarded::Result(result.to_owned());
        line_of(self.answer(number, SessionResponse::Forwarded(result)))
    }

    fn notifies(&mut self, message: &str) -> Vec<Effect> {
        self.takes(ProxyInput::Session(SessionEvent::Notification {
            server: ServerName::new("lab"),
            message: message.to_owned(),
        }))
    }
}

fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// Parameters as a host of the modern era sends them.
fn modern(mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test-host", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params.to_string()
}

fn question(kind: QuestionKind, request: &str) -> Question {
    Question {
        key: kind.method().to_owned(),
        earlier: Vec::new(),
        kind,
        source: QuestionSource::TaskInput,
        request: request.to_owned(),
        asked_at: Wall(0),
        answer: None,
        is_delivered: false,
        is_unsent: false,
        shared_with: Vec::new(),
        only_for: None,
    }
}

/// The only line for the host.
fn line_of(effects: Vec<Effect>) -> String {
    match <[Effect; 1]>::try_from(effects) {
        Ok([Effect::ToHost(line)]) => line,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_of_a_server_becomes_one_line() {
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    let forged = "{\"contents\":[],\"x\":\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\r\n,\"a\":\"b\\nc\"}";
    let line = bench.passes_on(&request(2, "resources/read", "{}"), forged);
    assert!(!line.contains(['\n', '\r']), "{line}");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["result"]["a"], "b\nc");
    let note = "{\"jsonrpc\":\"2.0\",\n\"method\":\"notifications/tools/list_changed\"\r}";
    let line = line_of(bench.notifies(note));
    assert!(!line.contains(['\n', '\r']), "{line}");
    let listen = modern(json!({"notifications": {"toolsListChanged": true}}));
    bench.hears(&request(3, "subscriptions/listen", &listen));
    let line = line_of(bench.notifies(note));
    assert!(
        line.contains("list_changed") && !line.contains(['\n', '\r']),
        "{line}"
    );
}

#[test]
fn arguments_that_are_null_are_none() {
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    for (id, line) in [
        (
            2,
            request(2, "tools/call", r#"{"name":"slow","arguments":null}"#),
        ),
        (
            3,
            format!(
                "[{}]",
                request(3, "tools/call", r#"{"name":"slow","arguments":null}"#)
            ),
        ),
    ] {
        let (_, asked) = bench.asks(&line);
        assert!(
            matches!(&asked, SessionRequest::Start(call) if call.arguments == "{}"),
            "{id}: {asked:?}"
        );
    }
}

#[test]
fn a_call_that_is_none_is_refused() {
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    for params in [
        r#"{"name":"slow","arguments":[]}"#,
        r#"{"name":"slow","arguments":"{}"}"#,
        r#"{"name":7,"arguments":{}}"#,
        r#"{"arguments":{}}"#,
    ] {
        let line = line_of(bench.hears(&request(2, "tools/call", params)));
        assert!(line.contains("-32602"), "{params}: {line}");
    }
}

#[test]
fn numbers_keep_all_their_digits() {
    const WEI: &str = "1180591620717411303424";
    let with_wei = format!(r#"{{"a":{{"wei":{WEI}}}}}"#);
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    let (_, asked) = bench.asks(&request(2, "custom/method", &with_wei));
    assert!(
        matches!(&asked, SessionRequest::Forward { request, .. } if request.params == with_wei),
        "{asked:?}"
    );
    let line = format!(r#"{{"jsonrpc":"2.0","id":{WEI},"method":"ping"}}"#);
    let line = line_of(bench.hears(&line));
    assert!(line.contains(&format!(r#""id":{WEI},"#)), "{line}");
    let batch = format!(r#"[{{"jsonrpc":"2.0","id":{WEI},"method":"ping"}}]"#);
    assert_eq!(line_of(bench.hears(&batch)), line);
    // A request that is cancelled by such an id is not answered any more.
    let read = format!(r#"{{"jsonrpc":"2.0","id":{WEI},"method":"resources/read","params":{{}}}}"#);
    let (number, _) = bench.asks(&read);
    bench.hears(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{WEI}}}}}"#
    ));
    let result = Forwarded::Result("{}".to_owned());
    assert_eq!(bench.answer(number, SessionResponse::Forwarded(result)), []);
}

#[test]
fn numbers_of_calls_and_questions_keep_all_their_digits() {
    const WEI: &str = r#"{"wei":1180591620717411303424}"#;
    let capabilities = json!({"sampling": {}, "elicitation": {"form": {}}});
    let mut bench = Bench::connected_with(ProtocolVersion::V20251125, &capabilities);
    let token = "123456789012345678901234567890";
    let params = format!(
        r#"{{"name":"slow","_meta":{{"progressToken":{token},"a":{WEI}}},"task":null,"later":{WEI}}}"#
    );
    let (number, asked) = bench.asks(&request(2, "tools/call", &params));
    let SessionRequest::Start(call) = asked else {
        panic!("{asked:?}")
    };
    let caller = call.caller.clone().unwrap();
    assert!(caller.meta.unwrap().contains(WEI));
    assert_eq!(caller.other_params, Some(format!(r#"{{"later":{WEI}}}"#)));
    bench.answer(number, SessionResponse::Started(call.id.clone()));
    let mut view = TaskView::unwatched(Task::new(Wall(0), *call), None);
    view.task.progress = Progress::reported(1.0, None, None);
    let published =
        |view: &TaskView| ProxyInput::Session(SessionEvent::Task(Arc::new(view.clone())));
    let line = line_of(bench.takes(published(&view)));
    assert!(
        line.contains(&format!(r#""progressToken":{token},"#)),
        "{line}"
    );
    for (kind, answer) in [
        (QuestionKind::Sampling, WEI.to_owned()),
        (
            QuestionKind::Elicitation,
            format!(r#"{{"action":"accept","content":{WEI}}}"#),
        ),
    ] {
        view.task.questions = vec![question(kind, &format!(r#"{{"most":{WEI}}}"#))];
        let line = line_of(bench.takes(published(&view)));
        assert!(line.contains(WEI), "{line}");
        let asked: Value = serde_json::from_str(&line).unwrap();
        let (id, params) = (&asked["id"], &asked["params"]);
        assert!(params["most"].is_object(), "{line}");
        let (_, given) = bench.asks(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{answer}}}"#
        ));
        let SessionRequest::Answer { answer, .. } = given else {
            panic!("{given:?}")
        };
        let json = match answer {
            Answer::Result { json } => json,
            Answer::Accept { content } => content.unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(json, WEI);
    }
}

#[test]
fn an_id_that_is_used_again_does_not_get_the_first_result() {
    let cancel = |reason: &str| {
        let params = json!({"requestId": 2, "reason": reason});
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
    };
    for reason in ["Request timed out", "the user pressed Esc"] {
        let mut bench = Bench::connected(ProtocolVersion::V20251125);
        let (first, call) = bench.calls_slow();
        bench.hears(&cancel(reason));
        let (second, _) = bench.asks(&request(2, "tools/call", r#"{"name":"other"}"#));
        let mut view = TaskView::unwatched(Task::new(Wall(0), *call), None);
        bench.answer(first, SessionResponse::Started(view.task.id.clone()));
        view.task.status = Status::Completed;
        let event = SessionEvent::Task(Arc::new(view));
        assert_eq!(bench.takes(ProxyInput::Session(event)), []);
        // The second one is cancelled for itself.
        bench.hears(&cancel("the user pressed Esc"));
        let task = TaskId::from_bits(7);
        let effects = bench.answer(second, SessionResponse::Started(task.clone()));
        let is_cancel = Effect::Ask(0, SessionRequest::Cancel(task));
        let same = |it: &Effect| matches!((it, &is_cancel), (Effect::Ask(_, a), Effect::Ask(_, b)) if a == b);
        assert!(effects.iter().any(same), "{effects:?}");
    }
    // Nor its error.
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    let (request_number, _) = bench.calls_slow();
    bench.hears(&cancel("Request timed out"));
    bench.asks(&request(2, "tools/call", r#"{"name":"other"}"#));
    let event = SessionEvent::Response {
        request: request_number,
        outcome: Err(RequestError::Usage("no server".to_owned())),
    };
    assert_eq!(bench.takes(ProxyInput::Session(event)), []);
}

#[test]
fn a_modern_host_gets_notifications_without_discovering_the_server() {
    let mut bench = Bench::new();
    let listen = modern(json!({"notifications": {"toolsListChanged": true}}));
    let (number, asked) = bench.asks(&request(1, "subscriptions/listen", &listen));
    assert!(
        matches!(asked, SessionRequest::Introduce { .. }),
        "{asked:?}"
    );
    let list = request(2, "tools/list", &modern(json!({})));
    let (_, asked) = bench.asks(&list);
    assert!(matches!(asked, SessionRequest::Forward { .. }), "{asked:?}");
    let accepted = bench.introduce(number, ProtocolVersion::V20251125);
    let line = line_of(accepted);
    assert!(
        line.contains(r#""notifications":{"toolsListChanged":true}"#),
        "{line}"
    );
    let note = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    assert!(line_of(bench.notifies(note)).contains("list_changed"));
    // A call does too.
    let mut bench = Bench::new();
    let effects = bench.hears(&list);
    let is_introduction =
        |effect: &Effect| matches!(effect, Effect::Ask(_, SessionRequest::Introduce { .. }));
    assert_eq!(effects.len(), 2, "{effects:?}");
    assert!(is_introduction(&effects[0]), "{effects:?}");
}

#[test]
fn a_host_gets_the_revision_that_it_asks_for() {
    for (asked, expected) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2023-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let mut bench = Bench::new();
        let params = json!({"protocolVersion": asked, "capabilities": {}});
        let (number, _) = bench.asks(&request(1, "initialize", &params.to_string()));
        let line = line_of(bench.introduce(number, ProtocolVersion::V20251125));
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["result"]["protocolVersion"], expected);
    }
}

#[test]
fn members_that_are_null_are_absent() {
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    let list = request(2, "tools/list", r#"{"cursor":null}"#);
    let line = bench.passes_on(&list, r#"{"tools":[]}"#);
    assert!(line.contains("longhaul_collect"), "{line}");
    bench.hears(&request(
        3,
        "tools/call",
        r#"{"name":"slow","_meta":{"progressToken":null}}"#,
    ));
    assert!(
        bench
            .proxy
            .calls
            .values()
            .all(|call| call.progress_token.is_none())
    );
    let (_, asked) = bench.asks(&request(4, "tasks/list", r#"{"cursor":null}"#));
    assert!(matches!(asked, SessionRequest::Calls { .. }), "{asked:?}");
}

#[test]
fn a_task_is_cancelled_only_once() {
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    let (number, call) = bench.calls_slow();
    let task = call.id.clone();
    bench.answer(number, SessionResponse::Started(task.clone()));
    let mut view = TaskView::unwatched(Task::new(Wall(0), *call), None);
    let published =
        |view: &TaskView| ProxyInput::Session(SessionEvent::Task(Arc::new(view.clone())));
    bench.takes(published(&view));
    let esc = |id: u64| {
        let params = json!({"requestId": id, "reason": "the user pressed Esc"});
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
    };
    let cancels = |effects: &[Effect]| {
        let is_it = |it: &&Effect| matches!(it, Effect::Ask(_, SessionRequest::Cancel(_)));
        effects.iter().filter(is_it).count()
    };
    assert_eq!(cancels(&bench.hears(&esc(2))), 1);
    let collect = json!({"name": "longhaul_collect", "arguments": {"id": task.as_str()}});
    // Another session waited for it too, so nothing was cancelled.
    let (number, _) = bench.asks(&request(3, "tools/call", &collect.to_string()));
    bench.answer(number, SessionResponse::Accepted);
    assert_eq!(cancels(&bench.hears(&esc(3))), 1);
    view.task.attempts.push(Attempt {
        was_cancelled: true,
        ..Attempt::default()
    });
    bench.takes(published(&view));
    // A second cancel would end the server's process, which other hosts use too.
    let (number, _) = bench.asks(&request(4, "tools/call", &collect.to_string()));
    bench.answer(number, SessionResponse::Accepted);
    assert_eq!(cancels(&bench.hears(&esc(4))), 0);
    let params = json!({"taskId": task.as_str()}).to_string();
    let (number, _) = bench.asks(&request(5, "tasks/cancel", &params));
    assert_eq!(cancels(&bench.answer(number, SessionResponse::Accepted)), 0);
}

#[test]
fn two_equal_waits_in_a_row_show_the_limit_of_a_host() {
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    let call = |id: u64| request(id, "tools/call", r#"{"name":"slow"}"#);
    let started = |effects: &[Effect]| {
        effects.iter().find_map(|effect| match effect {
            Effect::Ask(number, SessionRequest::Start(call)) => Some((*number, call.clone())),
            _ => None,
        })
    };
    let (number, first) = started(&bench.hears(&call(2))).unwrap();
    let task = first.id.clone();
    bench.answer(number, SessionResponse::Started(task.clone()));
    let view = TaskView::unwatched(Task::new(Wall(0), *first), None);
    bench.takes(ProxyInput::Session(SessionEvent::Task(Arc::new(view))));
    let mut is_learned = Vec::new();
    for (id, waited) in [(2, 2_000), (3, 60_000), (4, 60_500)] {
        bench.now.mono.0 += waited;
        let params = json!({ "requestId": id });
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        bench.hears(&cancel.to_string());
        let (number, _) = started(&bench.hears(&call(id + 1))).unwrap();
        let effects = bench.answer(number, SessionResponse::Started(task.clone()));
        is_learned.push(effects.iter().any(|effect| {
            let Effect::Ask(_, SessionRequest::Collected { how, .. }) = effect else {
                return false;
            };
            matches!(how, Collected::TimedOut { .. })
        }));
    }
    assert_eq!(is_learned, [false, false, true]);
}

#[test]
fn a_question_ends_with_its_call() {
    let forms = json!({"elicitation": {"form": {}}});
    let mut bench = Bench::connected_with(ProtocolVersion::V20251125, &forms);
    let (number, call) = bench.calls_slow();
    bench.answer(number, SessionResponse::Started(call.id.clone()));
    let mut view = TaskView::unwatched(Task::new(Wall(0), *call), None);
    let asked = question(QuestionKind::Elicitation, r#"{"message":"go on?"}"#);
    view.task.questions.push(asked);
    let mut sent = |view: &TaskView, method: &str| {
        let event = SessionEvent::Task(Arc::new(view.clone()));
        let effects = bench.takes(ProxyInput::Session(event));
        let is_it = |it: &&Effect| matches!(it, Effect::ToHost(line) if line.contains(method));
        effects.iter().filter(is_it).count()
    };
    assert_eq!(sent(&view, "elicitation/create"), 1);
    // The server gave up on it and ended the call.
    view.task.status = Status::Completed;
    assert_eq!(sent(&view, "notifications/cancelled"), 1);
    assert_eq!(sent(&view, "elicitation/create"), 0);
}

#[test]
fn a_host_that_still_reads_when_its_input_ends_has_its_results() {
    for is_reading in [false, true] {
        let mut bench = Bench::connected(ProtocolVersion::V20251125);
        let (number, call) = bench.calls_slow();
        let task = call.id.clone();
        bench.answer(number, SessionResponse::Started(task.clone()));
        let mut view = TaskView::unwatched(Task::new(Wall(0), *call), None);
        view.task.status = Status::Completed;
        bench.takes(ProxyInput::Session(SessionEvent::Task(Arc::new(view))));
        // A script may have closed its end before the result was there.
        assert_eq!(bench.takes(ProxyInput::EndOfInput { is_reading }), []);
        let result = Ok(Some("{}".to_owned()));
        bench.takes(ProxyInput::Result { task, result });
        let notes = bench.takes(ProxyInput::EndOfInput { is_reading });
        let is_delivered = |effect: &Effect| {
            let Effect::Ask(_, SessionRequest::Collected { how, .. }) = effect else {
                return false;
            };
            *how == Collected::Delivered
        };
        assert_eq!(notes.iter().any(is_delivered), is_reading, "{notes:?}");
    }
}

#[test]
fn a_call_that_has_ended_gets_its_result_not_a_ticket() {
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    let (number, call) = bench.calls_slow();
    let task = call.id.clone();
    let mut view = TaskView::unwatched(Task::new(Wall(0), *call), None);
    let published =
        |view: &TaskView| ProxyInput::Session(SessionEvent::Task(Arc::new(view.clone())));
    bench.answer(number, SessionResponse::Started(task.clone()));
    bench.now.mono = Mono(3_600_000);
    let ticket = format!("{:?}", bench.takes(published(&view)));
    assert!(ticket.contains("Still running"), "{ticket}");
    view.task.status = Status::Completed;
    bench.takes(published(&view));
    let collect = json!({"name": "longhaul_collect", "arguments": {"id": task.as_str()}});
    let (number, _) = bench.asks(&request(3, "tools/call", &collect.to_string()));
    bench.answer(number, SessionResponse::Accepted);
    // The session is slower than the host.
    bench.now.mono = Mono(7_200_000);
    let effects = bench.takes(ProxyInput::Timer);
    assert_eq!(effects, [Effect::ReadResult(task)]);
}

#[test]
fn a_repeated_call_is_told_that_its_result_is_old() {
    for (minutes, is_told) in [(0, false), (2, true)] {
        let mut bench = Bench::connected(ProtocolVersion::V20251125);
        let (number, call) = bench.calls_slow();
        let mut view = TaskView::unwatched(Task::new(Wall(0), *call), None);
        view.task.id = TaskId::from_bits(7);
        (view.task.status, view.task.end.settled_at) = (Status::Completed, Some(Wall(0)));
        let task = view.task.id.clone();
        bench.now.wall = Wall(minutes * 60_000);
        bench.answer(number, SessionResponse::Started(task.clone()));
        bench.takes(ProxyInput::Session(SessionEvent::Task(Arc::new(view))));
        let result = Ok(Some(r#"{"content":[]}"#.to_owned()));
        let line = line_of(bench.takes(ProxyInput::Result { task, result }));
        assert_eq!(
            line.contains("did not run this call again"),
            is_told,
            "{line}"
        );
    }
}

#[test]
fn open_requests_are_counted_until_the_server_answers_although_cancelled() {
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    let read = |id| request(id, "resources/read", r#"{"uri":"x:1"}"#);
    let mut first = None;
    for id in 100..300 {
        let (number, _) = bench.asks(&read(id));
        first.get_or_insert(number);
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id}});
        let (_, told) = bench.asks(&cancel.to_string());
        assert!(
            matches!(told, SessionRequest::CancelForward { .. }),
            "{told:?}"
        );
    }
    let refused = line_of(bench.hears(&read(300)));
    assert!(refused.contains("too many requests are open"), "{refused}");
    // The host hears nothing of what it cancelled, but it makes room.
    let result = Forwarded::Result("{}".to_owned());
    let answered = bench.answer(first.unwrap(), SessionResponse::Forwarded(result));
    assert!(answered.is_empty(), "{answered:?}");
    bench.asks(&read(301));
}

#[test]
fn a_result_that_is_not_on_disk_is_waited_for() {
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    let (number, call) = bench.calls_slow();
    let mut view = TaskView::unwatched(Task::new(Wall(0), *call), None);
    (view.task.status, view.task.end.settled_at) = (Status::Completed, Some(Wall(0)));
    view.is_unsaved = true;
    bench.answer(number, SessionResponse::Started(view.task.id.clone()));
    let published =
        |view: &TaskView| ProxyInput::Session(SessionEvent::Task(Arc::new(view.clone())));
    assert_eq!(bench.takes(published(&view)), []);
    view.is_unsaved = false;
    let effects = bench.takes(published(&view));
    assert_eq!(effects, [Effect::ReadResult(view.task.id)]);
}

#[test]
fn a_host_of_a_server_without_tools_gets_our_own() {
    let unknown = r#"{"code":-32601,"message":"Method not found"}"#;
    let other = r#"{"code":-32000,"message":"no"}"#;
    for (capabilities, error, are_ours) in [
        (json!({"tools": {}}), Some(unknown), true),
        (json!({"tools": {}}), Some(other), false),
        (json!({"prompts": {}}), Some(other), true),
        (json!({"prompts": {}}), None, true),
        (json!({"tools": {}}), None, false),
    ] {
        let mut bench = Bench::connected(ProtocolVersion::V20251125);
        let result = json!({"capabilities": capabilities}).to_string();
        bench.proxy.introduction.as_mut().unwrap().result = result;
        let (request, _) = bench.asks(&request(2, "tools/list", "{}"));
        let failed = || RequestError::Unreachable("lab did not answer".to_owned());
        let forwarded = |error: &str| Forwarded::Error(error.to_owned());
        let outcome = error.map(|error| SessionResponse::Forwarded(forwarded(error)));
        let outcome = outcome.ok_or_else(failed);
        let line = line_of(bench.takes(ProxyInput::Session(SessionEvent::Response {
            request,
            outcome,
        })));
        let has_ours = line.contains("longhaul_collect") && line.contains("longhaul_tasks");
        assert_eq!(has_ours, are_ours, "{line}");
        assert_eq!(!line.contains("\"error\""), are_ours, "{line}");
    }
}

#[test]
fn any_notification_has_the_token_of_the_host() {
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    let named = |token: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"progressToken":"{token}"}}}}"#
        )
    };
    let params = r#"{"name":"slow","_meta":{"progressToken":7}}"#;
    let (_, asked) = bench.asks(&request(2, "prompts/get", params));
    let SessionRequest::Forward { request: sent, .. } = asked else {
        panic!("{asked:?}")
    };
    let line = line_of(bench.notifies(&named(&sent.key)));
    assert!(line.contains(r#""progressToken":7"#), "{line}");
    let params = r#"{"name":"slow","_meta":{"progressToken":"p"}}"#;
    let (number, asked) = bench.asks(&request(3, "tools/call", params));
    let SessionRequest::Start(call) = asked else {
        panic!("{asked:?}")
    };
    let mut task = Task::new(Wall(0), *call);
    task.attempts.push(Attempt {
        token: "own-1".to_owned(),
        ..Attempt::default()
    });
    let view = Arc::new(TaskView::unwatched(task, None));
    bench.answer(number, SessionResponse::Started(view.task.id.clone()));
    bench.takes(ProxyInput::Session(SessionEvent::Task(view)));
    let line = line_of(bench.notifies(&named("own-1")));
    assert!(line.contains(r#""progressToken":"p""#), "{line}");
    let others = named("own-2");
    assert_eq!(line_of(bench.notifies(&others)), others);
}

#[test]
fn a_call_on_another_server_is_collected_there() {
    let mut bench = Bench::connected(ProtocolVersion::V20251125);
    let (_, call) = bench.calls_slow();
    let (mut task, id) = (Task::new(Wall(0), *call), TaskId::from_bits(9));
    (task.id, task.server) = (id.clone(), ServerName::new("docs@app-3f9c"));
    let mut others = task.clone();
    others.caller.as_mut().unwrap().directory = "/elsewhere".to_owned();
    let collect = json!({"name": "longhaul_collect", "arguments": {"id": id.as_str()}});
    for (task, expected) in [
        (task, "call longhaul_collect on server docs"),
        (others, "no call with that id on the server lab"),
    ] {
        let (number, _) = bench.asks(&request(3, "tools/call", &collect.to_string()));
        let view = Arc::new(TaskView::unwatched(task, None));
        bench.takes(ProxyInput::Session(SessionEvent::Task(view)));
        let line = line_of(bench.answer(number, SessionResponse::Accepted));
        assert!(line.contains(expected), "{line}");
    }
}

//! The standalone stream, which belongs to no request: open while anything runs, and never relied on.

use longhaul::domain::{Answer, HostProfile, OnInput, StandaloneStream};

use super::*;
use crate::simulation::crowd;

/// A call that a core server made a task of, asked for every ten seconds; its token.
fn core_task() -> (Bench, String) {
    let mut bench = listening(&Bench::core("required", None), Standalone::Opens);
    let (call, token) = bench.call("steps");
    let made =
        json!({"jsonrpc": "2.0", "id": token, "result": {"task": shape("working", "queued")}});
    bench.bring(call, event("made", &made));
    bench.secs(2);
    (bench, token)
}

fn shape(status: &str, words: &str) -> Value {
    json!({"taskId": "t", "status": status, "statusMessage": words, "ttl": 3_600_000, "pollInterval": 10_000,
        "createdAt": "2026-01-01T00:00:00Z"})
}

fn status_event(status: &str, words: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": shape(status, words)})
}

/// Answers every look at the task as long as seconds pass.
fn pass(bench: &mut Bench, seconds: u64) {
    for _ in 0..seconds {
        bench.secs(1);
        while let Some((_, exchange, request)) = bench.sent.get(bench.seen).cloned() {
            bench.seen += 1;
            if let Method::Post { body, .. } = &request.method
                && body.contains("tasks/get")
            {
                bench.answer_on(exchange, body, &shape("working", "queued"));
            }
        }
    }
}

#[test]
fn shows_task_notifications_before_the_next_poll() {
    let (mut bench, token) = core_task();
    let (get, cursor) = bench.last_get();
    assert_eq!((cursor.as_str(), bench.gets().len()), ("", 1));
    bench.bring(get, opened());
    bench.bring(get, event("1", &status_event("working", "half way")));
    bench.step(get, "2", &token, 5);
    assert_eq!(bench.count("tasks/get"), 0);
    let task = &bench.view().task;
    assert_eq!(
        task.progress.as_ref().map(|progress| progress.value),
        Some(5.0)
    );
    let words = task
        .server_task
        .as_ref()
        .and_then(|task| task.message.clone());
    assert_eq!(words.as_deref(), Some("half way"));
    let asks = json!({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": {"message": "who?",
        "requestedSchema": {"type": "object", "properties": {}},
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}}});
    bench.bring(get, event("3", &asks));
    assert_eq!(bench.status(), &Status::InputRequired);
    bench.bring(get, event("4", &status_event("completed", "done")));
    assert_eq!(bench.count("tasks/result"), 1, "fetched at once");
    let fetched = json!({"content": [{"type": "text", "text": "done"}]});
    bench.answer("tasks/result", &fetched);
    assert_eq!(bench.status(), &Status::Completed);
    bench.secs(1);
    assert!(bench.closed.contains(&get), "nothing is at work any more");
}

#[test]
fn polling_keeps_the_servers_interval_beside_the_stream() {
    let (mut bench, _) = core_task();
    let (get, _) = bench.last_get();
    bench.bring(get, opened());
    pass(&mut bench, 300);
    assert!(
        (26..=31).contains(&bench.count("tasks/get")),
        "{}",
        bench.count("tasks/get")
    );
}

#[test]
fn resumes_an_ended_standalone_stream_without_a_storm() {
    let (mut bench, _) = core_task();
    let (get, _) = bench.last_get();
    bench.bring(get, opened());
    bench.bring(get, event("7", &status_event("working", "half way")));
    bench.bring(get, ExchangeEvent::Ended);
    pass(&mut bench, 2);
    assert_eq!(bench.last_get().1, "7");
    // An unknown cursor is refused, the stream is not.
    let (get, _) = bench.last_get();
    bench.bring(get, refused(400));
    pass(&mut bench, 4);
    assert_eq!(bench.last_get().1, "");
    for _ in 0..3600 {
        let (get, _) = bench.last_get();
        bench.bring(get, opened());
        bench.bring(get, ExchangeEvent::Ended);
        pass(&mut bench, 1);
    }
    assert!(
        (50..90).contains(&bench.gets().len()),
        "{}",
        bench.gets().len()
    );
}

/// A known server whose standalone stream the test answers.
fn known() -> Bench {
    listening(&Bench::known(), Standalone::Waits)
}

/// The same server with a standalone stream.
fn listening(bench: &Bench, standalone: Standalone) -> Bench {
    let mut record = bench.link.record().clone();
    record.standalone = StandaloneStream::default();
    let mut bench = Bench::new(record);
    bench.standalone = standalone;
    bench
}

#[test]
fn a_new_driver_resumes_the_standalone_stream_of_the_last_one() {
    let mut record = known().link.record().clone();
    record.standalone.session_number = 1;
    record.standalone.cursors.data = Some("e5".into());
    let mut bench = Bench::new(record);
    bench.standalone = Standalone::Opens;
    // For a moment nothing wants it.
    bench.secs(5);
    assert_eq!(bench.gets().len(), 0);
    bench.start("steps", Limits::default());
    assert_eq!(bench.last_get().1, "e5");
    // Once it is closed here, it starts afresh.
    bench.ask(SessionRequest::Cancel(id()));
    bench.secs(60);
    bench.start_as(TaskId::from_bits(8), "steps", Limits::default());
    assert_eq!(bench.last_get().1, "");
}

#[test]
fn a_call_is_not_given_the_roots_of_other_hosts() {
    let mut bench = listening(&Bench::known(), Standalone::Opens);
    let with_roots = HostProfile {
        name: "other".to_owned(),
        capabilities: serde_json::from_value(json!({"roots": {}})).unwrap(),
        ..HostProfile::default()
    };
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.link.set_hosts(vec![with_roots]);
    let asks = json!({"jsonrpc": "2.0", "id": 9, "method": "roots/list"});
    bench.bring(call, event("b", &asks));
    bench.secs(1);
    let answers: Vec<String> = bench
        .sent
        .iter()
        .filter_map(|(_, _, request)| match &request.method {
            Method::Post { body, .. } if body.contains("-32601") => Some(body.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
}

/// Two calls at work, and their standalone stream.
fn two_calls(policies: [OnInput; 2]) -> (Bench, ExchangeId) {
    let mut bench = listening(&Bench::known(), Standalone::Opens);
    for (number, on_input) in policies.into_iter().enumerate() {
        let id = TaskId::from_bits(7 + number as u64);
        bench.ask(SessionRequest::Start(Box::new(NewCall {
            on_input,
            ..crowd::call(id)
        })));
        let (call, token) = bench.last_post("tools/call");
        bench.bring(call, opened());
        bench.step(call, &format!("a{number}"), &token, 1);
    }
    let get = bench.last_get().0;
    (bench, get)
}

fn asks(id: u32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
        "params": {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}})
}

/// The answers that went out: on which exchange, to which request.
fn replies(bench: &Bench) -> Vec<(ExchangeId, Value)> {
    let read = |(_, exchange, request): &(u64, ExchangeId, Request)| match &request.method {
        Method::Post { body, .. } if body.contains("\"action\"") => {
            let message: Value = serde_json::from_str(body).unwrap();
            Some((*exchange, message["id"].clone()))
        }
        _ => None,
    };
    bench.sent.iter().filter_map(read).collect()
}

fn taken(bench: &mut Bench, exchange: ExchangeId) {
    let session = None;
    let body = Body::Empty(202);
    bench.bring(exchange, ExchangeEvent::Opened { body, session });
    bench.bring(exchange, ExchangeEvent::Ended);
}

/// A task as it was saved last.
fn saved_of(bench: &Bench, of: &TaskId) -> Task {
    let task = bench.rows.iter().rev().find_map(|row| match row {
        Row::Task(task) if task.id == *of => Some(task.as_ref().clone()),
        _ => None,
    });
    task.unwrap()
}

fn accept(id: &TaskId) -> SessionRequest {
    let content = Some("{}".to_owned());
    SessionRequest::Answer {
        id: id.clone(),
        key: None,
        answer: Answer::Accept { content },
    }
}

#[test]
fn requests_an_unsupported_standalone_stream_once() {
    let mut bench = known();
    bench.start("steps", Limits::default());
    let (get, _) = bench.last_get();
    assert_eq!(
        bench.count("tools/call"),
        0,
        "what is asked before may be lost"
    );
    bench.bring(get, refused(405));
    let (call, token) = bench.last_post("tools/call");
    bench.bring(call, opened());
    for minute in 0..120 {
        bench.step(call, &format!("e{minute}"), &token, minute);
        bench.secs(60);
    }
    bench.start_as(TaskId::from_bits(8), "steps", Limits::default());
    let is_bare = |(.., cursor): &&(u64, ExchangeId, String)| cursor.is_empty();
    assert_eq!(bench.gets().iter().filter(is_bare).count(), 1);
    assert_eq!(bench.count("tools/call"), 2);
    // The next process knows it too.
    let record = bench.link.record().clone();
    let mut next = Bench::new(record);
    next.standalone = Standalone::Waits;
    next.start("steps", Limits::default());
    assert_eq!((next.gets().len(), next.count("tools/call")), (0, 1));
}

#[test]
fn retries_the_standalone_stream_without_delaying_calls() {
    for status in [409, 429, 503] {
        let mut bench = known();
        bench.start("steps", Limits::default());
        let (get, _) = bench.last_get();
        bench.bring(get, refused(status));
        let (call, token) = bench.last_post("tools/call");
        bench.bring(call, opened());
        let mut seen = 0;
        for second in 0..3600 {
            bench.step(call, &format!("e{second}"), &token, second);
            bench.secs(1);
            for (_, get, _) in bench.gets().split_off(seen) {
                seen += 1;
                bench.bring(get, refused(status));
            }
        }
        assert!((20..150).contains(&seen), "{status}: {seen}");
    }
}

#[test]
fn a_call_waits_a_second_for_a_stream_whose_head_does_not_come() {
    let mut bench = known();
    bench.start("steps", Limits::default());
    bench.wait(Duration::from_millis(900));
    assert_eq!(bench.count("tools/call"), 0);
    bench.wait(Duration::from_millis(200));
    assert_eq!((bench.count("tools/call"), bench.gets().len()), (1, 1));
}

#[test]
fn the_stream_is_open_only_while_something_runs() {
    let mut bench = known();
    bench.ask(SessionRequest::Tools(ServerName::new("lab")));
    bench.secs(600);
    assert_eq!(bench.gets().len(), 0);
    bench.standalone = Standalone::Opens;
    let (call, token) = bench.call("steps");
    let (get, _) = bench.last_get();
    bench.bring(call, event("b", &result(&token)));
    bench.secs(1);
    assert!(bench.closed.contains(&get));
    bench.secs(600);
    assert_eq!(bench.gets().len(), 1);
}

#[test]
fn reopens_the_standalone_stream_while_a_call_is_silent() {
    let silent = || {
        let mut bench = listening(&Bench::known(), Standalone::Opens);
        let (call, token) = bench.call("steps");
        bench.step(call, "a", &token, 1);
        let (first, _) = bench.last_get();
        bench.standalone = Standalone::Waits;
        bench.secs(21);
        let is_bare = |(.., cursor): &&(u64, ExchangeId, String)| cursor.is_empty();
        let bare = bench.gets();
        let bare: Vec<_> = bare.iter().filter(is_bare).collect();
        assert_eq!(bare.len(), 2);
        let second = bare[1].1;
        assert!(!bench.closed.contains(&first));
        (bench, first, second)
    };
    // The new one opens: what is asked comes there.
    let (mut bench, first, second) = silent();
    bench.bring(second, opened());
    assert!(bench.closed.contains(&first));
    bench.bring(second, event("s1", &asks(4)));
    assert_eq!(bench.status(), &Status::InputRequired);
    // The server believes in the old one, or the new connection fails: the old one is still heard.
    let broken = ExchangeEvent::Broken {
        why: "reset".to_owned(),
    };
    for arrival in [refused(409), refused(404), broken, ExchangeEvent::Ended] {
        let (mut bench, first, second) = silent();
        bench.bring(second, arrival);
        assert!(!bench.closed.contains(&first));
        bench.bring(first, event("s1", &asks(4)));
        assert_eq!(bench.status(), &Status::InputRequired);
    }
    // What comes on the old one says that it is not dead.
    let (mut bench, first, second) = silent();
    bench.bring(first, event("s1", &asks(4)));
    assert_eq!(bench.status(), &Status::InputRequired);
    assert!(bench.closed.contains(&second) && !bench.closed.contains(&first));
    // The server ends the old one as it opens the new one.
    let (mut bench, first, second) = silent();
    bench.bring(first, ExchangeEvent::Ended);
    bench.bring(second, opened());
    bench.bring(second, event("s1", &asks(4)));
    assert_eq!(bench.status(), &Status::InputRequired);
    bench.secs(120);
    assert!(!bench.closed.contains(&second));
}

#[test]
fn the_only_call_that_runs_is_asked_what_comes_beside_it() {
    let mut bench = listening(&Bench::known(), Standalone::Opens);
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    let (get, _) = bench.last_get();
    let line = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": "a line beside"}});
    bench.bring(get, event("s1", &line));
    bench.bring(get, event("s1", &line));
    bench.bring(get, event("s2", &asks(4)));
    assert_eq!(bench.status(), &Status::InputRequired);
    assert!(bench.view().task.questions[0].shared_with.is_empty());
    // What the event changed and the cursor behind it are one save.
    let at = |is_it: &dyn Fn(&Row) -> bool| bench.rows.iter().rposition(is_it);
    let question = at(&|row| matches!(row, Row::Task(task) if !task.questions.is_empty()));
    let cursor = at(
        &|row| matches!(row, Row::Link(of) if of.standalone.cursors.data.as_deref() == Some("s2")),
    );
    assert!(question.is_some() && cursor.is_some());
    let lines = bench.rows.iter().filter(|row| match row {
        Row::History { entries, .. } => entries
            .iter()
            .any(|entry| matches!(&entry.what, HistoryEvent::Log { .. })),
        _ => false,
    });
    assert_eq!(lines.count(), 1, "once, in the log of the call");
    bench.ask(accept(&id()));
    let (reply, to) = replies(&bench).pop().unwrap();
    assert_eq!(to, 4);
    taken(&mut bench, reply);
    bench.secs(1);
    assert!(bench.saved().questions[0].is_delivered);
}

#[test]
fn a_question_beside_two_calls_is_on_both_and_answered_once() {
    let (mut bench, get) = two_calls([OnInput::Ask; 2]);
    bench.bring(get, event("s1", &asks(4)));
    let (one, other) = (TaskId::from_bits(7), TaskId::from_bits(8));
    for (of, with) in [(&one, &other), (&other, &one)] {
        let task = saved_of(&bench, of);
        assert_eq!(task.status, Status::InputRequired);
        assert_eq!(task.questions[0].shared_with, std::slice::from_ref(with));
        let words = task.questions[0].asked_for(of).unwrap();
        assert_eq!(words, format!("asked by the server for {of} or {with}"));
    }
    // A replay repeats no question, whichever calls run by then.
    bench.start_as(TaskId::from_bits(9), "steps", Limits::default());
    bench.bring(get, event("s1b", &asks(4)));
    assert!(saved_of(&bench, &TaskId::from_bits(9)).questions.is_empty());
    bench.ask(accept(&other));
    bench.secs(90);
    let sent = replies(&bench);
    assert_eq!(sent.len(), 3, "expired twice, and never twice at a time");
    taken(&mut bench, sent[2].0);
    bench.secs(600);
    assert_eq!(replies(&bench).len(), 3);
    for of in [&one, &other] {
        let task = saved_of(&bench, of);
        assert_eq!(task.status, Status::Running);
        assert!(task.questions[0].is_delivered);
    }
}

#[test]
fn a_question_is_about_a_call_that_was_cancelled_only_if_no_other_runs() {
    let (mut bench, get) = two_calls([OnInput::Ask; 2]);
    let (one, other) = (TaskId::from_bits(7), TaskId::from_bits(8));
    bench.ask(SessionRequest::Cancel(one.clone()));
    bench.bring(get, event("s1", &asks(4)));
    assert!(saved_of(&bench, &one).questions.is_empty());
    assert!(saved_of(&bench, &other).questions[0].shared_with.is_empty());
    bench.ask(SessionRequest::Cancel(other.clone()));
    bench.bring(get, event("s2", &asks(5)));
    for of in [&one, &other] {
        assert_eq!(
            saved_of(&bench, of)
                .questions
                .last()
                .map(|it| it.shared_with.len()),
            Some(1)
        );
    }
}

#[test]
fn a_shared_answer_goes_out_again_after_its_first_call_ended() {
    let (mut bench, get) = two_calls([OnInput::Ask; 2]);
    bench.bring(get, event("s1", &asks(4)));
    bench.ask(accept(&TaskId::from_bits(7)));
    let (_, call, body) = bench.posts("tools/call").swap_remove(0);
    bench.bring(call, event("a9", &result(body["id"].as_str().unwrap())));
    assert!(saved_of(&bench, &TaskId::from_bits(7)).status.is_settled());
    let sent = replies(&bench);
    assert_eq!(sent.len(), 1);
    bench.broken(sent[0].0);
    bench.secs(10);
    let sent = replies(&bench);
    assert_eq!(sent.len(), 2);
    taken(&mut bench, sent[1].0);
    bench.secs(10);
    assert_eq!(replies(&bench).len(), 2);
    assert!(saved_of(&bench, &TaskId::from_bits(8)).questions[0].is_delivered);
}

#[test]
fn a_policy_answers_beside_two_calls_only_where_both_have_it() {
    let (mut bench, get) = two_calls([OnInput::Defaults; 2]);
    bench.bring(get, event("s1", &asks(4)));
    assert_eq!(replies(&bench).len(), 1);
    let (mut bench, get) = two_calls([OnInput::Defaults, OnInput::Ask]);
    bench.bring(get, event("s1", &asks(4)));
    bench.secs(5);
    assert_eq!(replies(&bench).len(), 0);
    assert_eq!(bench.status(), &Status::InputRequired);
}

#[test]
fn a_stream_cut_after_its_question_resumes_at_its_cursor() {
    let (mut bench, get) = two_calls([OnInput::Ask; 2]);
    bench.bring(get, event("s1", &asks(4)));
    bench.bring(get, event("prime", &Value::Null));
    bench.broken(get);
    bench.secs(1);
    let (again, cursor) = bench.last_get();
    assert_eq!((again != get, cursor.as_str()), (true, "s1"));
    bench.bring(again, opened());
    bench.ask(accept(&id()));
    assert_eq!(replies(&bench).len(), 1);
}

/// A call whose stream broke after its question, with the answer, and the request for its stream.
fn answered_without_stream() -> (Bench, ExchangeId) {
    let mut bench = Bench::known();
    let (call, _) = bench.call("steps");
    bench.bring(call, event("1", &asks(4)));
    bench.broken(call);
    bench.ask(accept(&id()));
    bench.secs(1);
    let (again, _) = bench.last_get();
    assert_eq!(replies(&bench).len(), 0);
    (bench, again)
}

#[test]
fn an_answer_waits_for_the_stream_of_its_call() {
    // rmcp drops a result that no stream takes.
    let (mut bench, again) = answered_without_stream();
    bench.bring(again, opened());
    assert_eq!(replies(&bench).len(), 1);
}

#[test]
fn an_answer_does_not_wait_for_long() {
    // TypeScript servers may send no head before there is an event.
    let (mut bench, _) = answered_without_stream();
    bench.secs(2);
    assert_eq!(replies(&bench).len(), 1);
}

#[test]
fn an_answer_waits_a_bounded_time_where_the_stream_is_refused() {
    let (mut bench, again) = answered_without_stream();
    bench.bring(again, refused(500));
    bench.secs(8);
    assert_eq!(replies(&bench).len(), 1);
}

#[test]
fn an_answer_waits_for_the_stream_after_an_outage_too() {
    let (mut bench, mut later) = answered_without_stream();
    for _ in 0..5 {
        bench.bring(later, ExchangeEvent::not_sent("refused"));
        while bench.last_get().0 == later {
            bench.wait(Duration::from_millis(100));
        }
        later = bench.last_get().0;
        assert_eq!(replies(&bench).len(), 0);
    }
    bench.bring(later, opened());
    assert_eq!(replies(&bench).len(), 1);
}

#[test]
fn the_next_process_has_the_question_and_the_cursor() {
    let (mut bench, get) = two_calls([OnInput::Ask; 2]);
    bench.bring(get, event("s1", &asks(4)));
    let record = bench.link.record().clone();
    assert_eq!(record.standalone.cursors.data.as_deref(), Some("s1"));
    let tasks = [7, 8].map(|bits| (saved_of(&bench, &TaskId::from_bits(bits)), Vec::new()));
    let mut next = Bench::new(record);
    next.standalone = Standalone::Waits;
    next.feed(restored(tasks.into()));
    next.secs(1);
    let cursors: Vec<String> = next.gets().into_iter().map(|(.., cursor)| cursor).collect();
    assert!(cursors.contains(&"s1".to_owned()), "{cursors:?}");
    for (_, get, _) in next.gets() {
        next.bring(get, opened());
    }
    next.ask(accept(&id()));
    assert_eq!(replies(&next).len(), 1, "in the same server session");
    // In another session nothing of it holds.
    let mut record = bench.link.record().clone();
    record.session_number += 1;
    let mut other = Bench::new(record);
    other.standalone = Standalone::Waits;
    other.start("steps", Limits::default());
    assert_eq!(other.last_get().1, "");
    assert_eq!(
        other.link.record().standalone,
        StandaloneStream {
            session_number: 2,
            ..StandaloneStream::default()
        }
    );
}

#[test]
fn a_stream_that_ends_per_message_does_not_affect_calls() {
    let mut bench = listening(&Bench::known(), Standalone::Opens);
    let (call, token) = bench.call("steps");
    let mut seen = 0;
    for step in 0..36_000_u32 {
        if step % 100 == 0 {
            bench.step(call, &format!("e{step}"), &token, step);
        }
        bench.wait(Duration::from_millis(100));
        for (_, get, _) in bench.gets().split_off(seen) {
            seen += 1;
            let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            bench.bring(get, event(&format!("s{step}"), &changed));
            bench.bring(get, ExchangeEvent::Ended);
        }
    }
    assert!((100..150).contains(&seen), "{seen}");
}

#[test]
fn a_call_is_checked_against_changed_tools() {
    let mut bench = listening(&Bench::known(), Standalone::Opens);
    bench.call("steps");
    let get = bench.last_get().0;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    bench.bring(get, event("s1", &changed));
    bench.start_as(TaskId::from_bits(9), "steps", Limits::default());
    assert_eq!(
        (bench.count("tools/list"), bench.count("tools/call")),
        (1, 1)
    );
    let schema =
        json!({"type": "object", "properties": {"zz": {"type": "string"}}, "required": ["zz"]});
    let tools = json!({"tools": [{"name": "steps", "inputSchema": schema}]});
    bench.answer("tools/list", &tools);
    bench.secs(1);
    assert_eq!(bench.count("tools/call"), 1, "nothing was sent");
}

#[test]
fn the_answer_to_an_unknown_call_goes_out_while_its_session_lives() {
    let answers_once_unknown = |session_lives: bool| {
        let mut bench = Bench::known();
        let (call, _) = bench.call("steps");
        bench.bring(call, ExchangeEvent::message(asks(7).to_string()));
        let why = "reset".to_owned();
        bench.bring(call, ExchangeEvent::Broken { why });
        bench.secs(1);
        let is_unknown = matches!(bench.status(), Status::Unknown(_));
        assert!(is_unknown, "{:?}", bench.status());
        if !session_lives {
            let mut record = bench.link.record().clone();
            (record.session, record.session_number) = (Some("next".to_owned()), 2);
            let saved = bench.saved();
            bench = Bench::new(record);
            bench.feed(restored(vec![(saved, Vec::new())]));
        }
        bench.ask(accept(&id()));
        bench.secs(1);
        if session_lives {
            let (reply, _) = *replies(&bench).first().expect("it was sent");
            taken(&mut bench, reply);
        }
        bench.secs(60);
        let question = &bench.view().task.questions[0];
        assert!(question.is_delivered, "{question:?}");
        let is_unknown = matches!(bench.status(), Status::Unknown(_));
        assert!(is_unknown, "{:?}", bench.status());
        replies(&bench).len()
    };
    assert_eq!(answers_once_unknown(true), 1);
    assert_eq!(answers_once_unknown(false), 0, "nobody waits for it");
}

#[test]
fn an_id_of_the_standalone_stream_hides_no_event_of_a_call() {
    let mut bench = listening(&Bench::known(), Standalone::Opens);
    let (call, token) = bench.call("steps");
    let (get, _) = bench.last_get();
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": "beside"}});
    bench.bring(get, event("7", &log));
    bench.bring(call, event("7", &result(&token)));
    bench.secs(1);
    assert_eq!(bench.status(), &Status::Completed);
}

/// Several SDKs send progress there if the tool names no request.
#[test]
fn steps_on_the_standalone_stream_count_unless_the_call_has_its_own() {
    for own_steps in [false, true] {
        let mut bench = listening(&Bench::known(), Standalone::Opens);
        let (call, token) = bench.call("steps");
        let (get, _) = bench.last_get();
        bench.bring(call, opened());
        bench.bring(call, event("0/0", &Value::Null));
        if own_steps {
            bench.step(call, "0/1", &token, 1);
        }
        bench.step(get, "7", &token, 2);
        bench.secs(1);
        let shown = bench.view().task.progress.as_ref();
        let shown = shown.map(|progress| progress.value);
        assert_eq!(shown, Some(if own_steps { 1.0 } else { 2.0 }));
    }
}

/// Several SDKs bring nothing but the replay on a stream that was opened from a cursor, whether it stays open or not.
#[test]
fn a_bare_stream_follows_a_replay() {
    let with_call = || {
        let mut bench = listening(&Bench::known(), Standalone::Opens);
        let (call, token) = bench.call("steps");
        let (get, _) = bench.last_get();
        bench.bring(call, opened());
        bench.step(get, "7", &token, 1);
        bench.standalone = Standalone::Waits;
        bench.broken(get);
        bench.secs(1);
        assert_eq!(bench.last_get().1, "7");
        (bench, call, token)
    };
    // It ends after the replay.
    let (mut bench, ..) = with_call();
    let (replay, _) = bench.last_get();
    bench.bring(replay, opened());
    bench.bring(replay, ExchangeEvent::Ended);
    bench.secs(1);
    assert_eq!(bench.last_get().1, "");
    // It stays open, and the server serves no other beside it.
    let (mut bench, ..) = with_call();
    let (replay, _) = bench.last_get();
    bench.bring(replay, opened());
    bench.secs(1);
    let (bare, cursor) = bench.last_get();
    assert_eq!(cursor, "");
    assert!(!bench.closed.contains(&replay));
    bench.bring(bare, refused(409));
    bench.secs(5);
    assert_eq!(bench.last_get().0, bare, "asked once");
    // It stays open, and another one takes its place.
    let (mut bench, call, token) = with_call();
    let (replay, _) = bench.last_get();
    bench.bring(replay, opened());
    bench.secs(1);
    let (bare, _) = bench.last_get();
    bench.bring(bare, opened());
    assert!(bench.closed.contains(&replay));
    bench.step(bare, "8", &token, 2);
    bench.bring(call, event("0/1", &result(&token)));
    bench.secs(1);
    assert!(bench.closed.contains(&bare), "nothing runs any more");
    // What it brings next begins with the next call.
    bench.call("steps");
    assert_eq!(bench.last_get().1, "");
}

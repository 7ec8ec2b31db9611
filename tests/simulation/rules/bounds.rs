//! What a server can make us keep, send and show: each bound is met by more than it allows.

use longhaul::domain::{Answer, OnInput, Row, SessionResponse, TaskCapability, TaskKind};

use super::*;
use crate::simulation::crowd;

/// A server of the stateful era whose tasks can be listed.
fn lister() -> Bench {
    let mut record = Bench::known().link.record().clone();
    record.tasks = Some(TaskCapability {
        kind: TaskKind::Core,
        can_list: true,
    });
    Bench::new(record)
}

fn adopt(bench: &mut Bench) {
    bench.ask(SessionRequest::Adopt {
        server: ServerName::new("lab"),
        server_task: None,
    });
}

/// A page of tasks from this number, and the next cursor.
fn page(first: usize, count: usize, next: Option<&str>) -> Value {
    let tasks: Vec<Value> = (first..first + count)
        .map(|task| json!({"taskId": format!("t{task}"), "status": "working"}))
        .collect();
    json!({"tasks": tasks, "nextCursor": next})
}

fn adopted(bench: &mut Bench) -> usize {
    match bench.answers.pop() {
        Some(Ok(SessionResponse::Adopted(ids))) => ids.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn adopts_at_most_ten_thousand_tasks_per_request() {
    let mut bench = lister();
    adopt(&mut bench);
    bench.answer("tasks/list", &page(0, 6_000, Some("more")));
    bench.answer("tasks/list", &page(6_000, 6_000, Some("still more")));
    assert_eq!(adopted(&mut bench), 10_000);
    assert_eq!(bench.count("tasks/list"), 2);
    adopt(&mut bench);
    bench.secs(1);
    bench.answer("tasks/list", &page(0, 12_000, None));
    assert_eq!(adopted(&mut bench), 2_000);
}

#[test]
fn two_adoptions_of_one_task_at_once_make_one_task() {
    let mut bench = lister();
    for _ in 0..2 {
        bench.ask(SessionRequest::Adopt {
            server: ServerName::new("lab"),
            server_task: Some("t1".to_owned()),
        });
    }
    for (_, exchange, message) in bench.posts("tasks/get") {
        let working = json!({"taskId": "t1", "status": "working"});
        bench.answer_on(exchange, &message.to_string(), &working);
    }
    let tasks: Vec<TaskId> = std::mem::take(&mut bench.answers)
        .into_iter()
        .flat_map(|answer| match answer {
            Ok(SessionResponse::Adopted(ids)) => ids,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(tasks.len(), 2);
    assert_eq!(tasks[0], tasks[1]);
}

#[test]
fn a_list_that_goes_round_in_circles_is_read_once() {
    let mut bench = lister();
    adopt(&mut bench);
    bench.answer("tasks/list", &page(0, 2, Some("again")));
    bench.answer("tasks/list", &page(2, 2, Some("again")));
    assert_eq!(adopted(&mut bench), 4);
    assert_eq!(bench.count("tasks/list"), 2);

    let mut bench = Bench::known();
    bench.ask(SessionRequest::Tools(ServerName::new("lab")));
    for name in ["t", "u"] {
        let tools = json!({"tools": [{"name": "t"}, {"name": name}], "nextCursor": "again"});
        bench.answer("tools/list", &tools);
    }
    assert_eq!(bench.count("tools/list"), 2);
    let tools = &bench.link.record().tools;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        ["t", "t", "u"],
        "none of them twice by a second page"
    );
}

#[test]
fn a_huge_page_cursor_ends_the_list_with_a_notice() {
    let book = "x".repeat(100_000);
    let mut bench = lister();
    adopt(&mut bench);
    bench.answer("tasks/list", &page(0, 2, Some(&book)));
    assert_eq!(adopted(&mut bench), 2);
    bench.ask(SessionRequest::Tools(ServerName::new("lab")));
    let tools = json!({"tools": [{"name": "t"}], "nextCursor": book});
    bench.answer("tools/list", &tools);
    assert_eq!(bench.count("tools/list"), 1);
    let last = bench.link.record().tools.last().unwrap();
    assert_eq!(last.name, "more tools");
}

#[test]
fn keeps_eight_megabytes_of_tools_and_counts_the_rest() {
    let mut bench = Bench::known();
    bench.ask(SessionRequest::Tools(ServerName::new("lab")));
    let about = "x".repeat(16_000);
    let tools: Vec<Value> = (0..800)
        .map(|tool| json!({"name": format!("t{tool}"), "description": about}))
        .collect();
    bench.answer("tools/list", &json!({"tools": tools}));
    let (last, kept) = bench.link.record().tools.split_last().unwrap();
    let bytes: usize = kept
        .iter()
        .map(|tool| tool.description.as_ref().map_or(0, String::len))
        .sum();
    assert!((7 << 20..=8 << 20).contains(&bytes), "{bytes}");
    assert!(
        last.name.starts_with("at least ") && last.name.ends_with(" further tools"),
        "{last:?}"
    );
}

/// A question on the stream of the call.
fn asks(bench: &mut Bench, call: ExchangeId, id: usize, message: &str) {
    bench.bring(call, event(&format!("q{id}"), &question(id, message)));
}

fn question(id: usize, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
        "params": {"message": message, "requestedSchema": {"type": "object", "properties": {}}}})
}

/// The answers that went out.
fn replies(bench: &Bench) -> usize {
    let is_reply = |(_, _, request): &&(u64, ExchangeId, Request)| match &request.method {
        Method::Post { body, .. } => body.contains("\"action\""),
        _ => false,
    };
    bench.sent.iter().filter(is_reply).count()
}

#[test]
fn each_call_may_number_its_questions_from_0() {
    let mut bench = Bench::known();
    for number in 0..2 {
        let id = TaskId::from_bits(7 + number);
        bench.ask(SessionRequest::Start(Box::new(NewCall {
            on_input: OnInput::Decline,
            ..crowd::call(id)
        })));
        let (call, request_id) = bench.last_post("tools/call");
        bench.bring(call, opened());
        bench.bring(call, event(&format!("q{number}"), &question(0, "yes?")));
        let reply = bench.sent.last().unwrap().1;
        bench.bring(reply, opened());
        bench.bring(reply, ExchangeEvent::Ended);
        bench.bring(call, event(&format!("r{number}"), &result(&request_id)));
        bench.bring(call, ExchangeEvent::Ended);
    }
    assert_eq!(replies(&bench), 2);
}

#[test]
fn remembers_a_bounded_number_of_auto_answered_questions() {
    let mut bench = Bench::known();
    bench.start("steps", Limits::default());
    let (call, _) = bench.last_post("tools/call");
    bench.bring(call, opened());
    for number in 0..700 {
        asks(&mut bench, call, number, "yes?");
        bench.ask(SessionRequest::Answer {
            id: id(),
            key: None,
            answer: Answer::Decline,
        });
        bench.secs(15);
        // Each answer is taken.
        let exchange = bench.sent.last().map(|(_, on, _)| *on).unwrap();
        bench.bring(
            exchange,
            ExchangeEvent::Opened {
                body: Body::Empty(202),
                session: None,
            },
        );
        bench.bring(exchange, ExchangeEvent::Ended);
    }
    assert!(replies(&bench) >= 600, "{}", replies(&bench));
    let remembered = bench.saved().questions.len();
    assert!((200..=256).contains(&remembered), "{remembered}");
}

#[test]
fn a_question_that_is_a_book_is_declined_and_counted() {
    let mut bench = Bench::known();
    let (call, _) = bench.call("steps");
    asks(&mut bench, call, 1, &"x".repeat(70_000));
    bench.secs(1);
    assert_eq!(replies(&bench), 1);
    assert_eq!(bench.saved().questions.len(), 0);
    let notice = bench.saved().notice.unwrap();
    assert!(notice.contains("not recorded: 1 message"), "{notice}");
}

/// A modern call that asks, answered by the machine itself.
fn round(bench: &mut Bench, state: &str) {
    let who = json!({"who": {"method": "elicitation/create",
        "params": {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}}});
    let asks = json!({"resultType": "input_required", "requestState": state, "inputRequests": who});
    bench.answer("tools/call", &asks);
    bench.secs(1);
}

fn modern_call() -> Bench {
    let mut bench = Bench::with(crowd::modern(), Choice::default());
    bench.ask(SessionRequest::Start(Box::new(NewCall {
        on_input: OnInput::Decline,
        ..crowd::call(id())
    })));
    bench
}

#[test]
fn stores_the_servers_request_state_once_and_bounded() {
    let mut bench = modern_call();
    let state = "x".repeat(200_000);
    for _ in 0..5 {
        round(&mut bench, &state);
    }
    let task = bench.saved();
    assert_eq!(task.attempts.len(), 6);
    let text = serde_json::to_string(&task).unwrap();
    assert!(text.len() < 250_000, "{} bytes of a record", text.len());
    let (_, _, last) = bench.posts("tools/call").pop().unwrap();
    assert_eq!(last["params"]["requestState"], state);

    round(&mut bench, &"x".repeat(300_000));
    assert_eq!(bench.status(), &Status::Failed);
    assert_eq!(bench.count("tools/call"), 6);
}

#[test]
fn a_call_that_asks_the_same_for_ever_is_given_up() {
    let mut bench = modern_call();
    for _ in 0..150 {
        if bench.status() == &Status::Failed {
            break;
        }
        round(&mut bench, "s");
    }
    assert_eq!(bench.status(), &Status::Failed);
    assert_eq!(bench.count("tools/call"), 101);
}

#[test]
fn counts_a_flood_instead_of_keeping_it_while_saves_stall() {
    let mut bench = Bench::known();
    let (call, _) = bench.call("steps");
    bench.saves_at_once = false;
    let line = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": "x".repeat(16_000)}});
    for number in 0..6_000 {
        bench.bring(call, event(&format!("l{number}"), &line));
    }
    let before = bench.rows.len();
    bench.saves_at_once = true;
    let waiting = std::mem::take(&mut bench.pending);
    for token in waiting {
        bench.feed(Input::Saved(token));
    }
    bench.secs(5);
    let kept: usize = bench.rows[before..]
        .iter()
        .map(|row| match row {
            Row::History { entries, .. } => entries.len(),
            _ => 0,
        })
        .sum();
    // Of 96 MB a third.
    assert!((1_500..2_500).contains(&kept), "{kept} lines");
    let notice = bench.saved().notice.unwrap();
    assert!(notice.contains("not recorded: "), "{notice}");
    assert!(bench.saved().gap_at.is_some());
}

#[test]
fn takes_the_first_of_two_responses_in_one_event() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.saves_at_once = false;
    let step = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 9}});
    let mut other = result(&token);
    other["result"]["content"][0]["text"] = json!("another");
    bench.bring(call, event("b", &json!([result(&token), other, step])));
    bench.saves_at_once = true;
    for token in std::mem::take(&mut bench.pending) {
        bench.feed(Input::Saved(token));
    }
    bench.secs(5);
    let results: Vec<&String> = bench
        .rows
        .iter()
        .filter_map(|row| match row {
            Row::Result { json, .. } => Some(json),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 1, "{results:?}");
    assert!(results[0].contains("done"), "{results:?}");
    let task = bench.saved();
    assert_eq!(task.status, Status::Completed);
    assert_eq!(task.progress.unwrap().value.to_string(), "1");
}

#[test]
fn a_repeated_question_keeps_a_bounded_set_of_earlier_ids() {
    let mut bench = Bench::core("required", None);
    bench.start("steps", Limits::default());
    let (call, request_id) = bench.last_post("tools/call");
    bench.bring(call, opened());
    let shape = json!({"taskId": "t", "status": "input_required", "pollInterval": 1000});
    let made = json!({"jsonrpc": "2.0", "id": request_id, "result": {"task": shape}});
    bench.bring(call, event("m", &made));
    for number in 0..30 {
        let (fetch, _) = bench.last_post("tasks/result");
        bench.bring(fetch, opened());
        let ask = json!({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": {"message": "sure?",
            "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}}});
        bench.bring(fetch, event(&format!("q{number}"), &ask));
        bench.broken(fetch);
        let asked = bench.count("tasks/result");
        while bench.count("tasks/result") == asked {
            bench.secs(1);
            if bench.count("tasks/get") > 0 {
                bench.answer("tasks/get", &shape);
            }
        }
    }
    let questions = &bench.view().task.questions;
    assert_eq!(questions.len(), 1, "{questions:?}");
    assert_eq!(questions[0].earlier.len(), 8, "{questions:?}");
}

#[test]
fn silence_is_ignored_while_buffers_are_full() {
    let mut bench = Bench::known();
    let (silent, token) = bench.call("steps");
    bench.step(silent, "a", &token, 1);
    bench.start_as(TaskId::from_bits(8), "steps", Limits::default());
    let (call, request_id) = bench.last_post("tools/call");
    bench.bring(call, opened());
    bench.secs(1);
    bench.saves_at_once = false;
    let words = "x".repeat(64 << 20);
    let content = json!([{"type": "text", "text": words}]);
    let data = json!({"jsonrpc": "2.0", "id": request_id, "result": {"content": content}});
    bench.bring(call, event("z", &data));
    let sent = bench.sent.len();
    bench.secs(3600);
    assert_eq!(bench.sent.len(), sent, "nothing can be heard");
    assert_eq!(bench.closed, [call], "the silent one is left alone");
    let token = bench.pending.pop().unwrap();
    bench.saves_at_once = true;
    bench.feed(Input::Saved(token));
    bench.secs(1);
    assert_eq!(bench.last_get().1, "a");
}

/// What a server makes of the answers to its questions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Taken,
    /// Its head comes, and the body breaks off.
    Cut,
    /// No head comes before the connection breaks.
    Reset,
    Refused(u16),
    /// Nothing comes at all.
    Silent,
}

/// An hour of a server that asks every `pace` milliseconds and makes this of each answer, by so many hops; the requests
/// that it got, and how often each question was answered.
fn storm(fate: Fate, pace: u64, hops: u32) -> (usize, Vec<usize>) {
    let mut bench = Bench::known();
    bench.ask(SessionRequest::Start(Box::new(NewCall {
        on_input: OnInput::Decline,
        ..crowd::call(id())
    })));
    let (call, token) = bench.last_post("tools/call");
    bench.bring(call, opened());
    let (mut requests, seen) = (0, bench.sent.len());
    let mut answered = std::collections::BTreeMap::new();
    let mut number = 0;
    while bench.now < 3_600_000 {
        number += 1;
        let question = usize::try_from(bench.now / pace).unwrap();
        asks(&mut bench, call, question, "yes?");
        bench.step(call, &format!("e{number}"), &token, number);
        bench.wait(Duration::from_millis(pace));
        for (_, exchange, request) in bench.sent.split_off(seen) {
            requests += 1 + hops as usize;
            let Method::Post { body, .. } = &request.method else {
                continue;
            };
            let message: Value = serde_json::from_str(body).unwrap();
            if !body.contains("\"action\"") {
                bench.answer_on(exchange, body, &json!({}));
                continue;
            }
            *answered.entry(message["id"].to_string()).or_insert(0) += 1;
            if hops > 0 {
                bench.bring(exchange, ExchangeEvent::MoreRequests(hops));
            }
            let opened = ExchangeEvent::Opened {
                body: Body::Empty(202),
                session: None,
            };
            let reset = "reset".to_owned();
            let arrivals = match fate {
                Fate::Taken => vec![opened, ExchangeEvent::Ended],
                Fate::Cut => vec![opened, ExchangeEvent::Broken { why: reset }],
                Fate::Reset => vec![ExchangeEvent::NoAnswer { why: reset }],
                Fate::Refused(status) => vec![refused(status)],
                Fate::Silent => vec![],
            };
            for arrival in arrivals {
                bench.bring(exchange, arrival);
            }
        }
    }
    (requests, answered.into_values().collect())
}

#[test]
fn a_question_storm_makes_under_1000_requests_per_hour() {
    for (fate, most) in [
        (Fate::Taken, 1),
        (Fate::Cut, 2),
        (Fate::Reset, 80),
        (Fate::Refused(403), 80),
        (Fate::Refused(503), 80),
        (Fate::Silent, 80),
    ] {
        for hops in [0, 3] {
            let (requests, answered) = storm(fate, 1000, hops);
            assert!(requests <= 1000, "{fate:?} by {hops} hops: {requests}");
            let times = answered.iter().max().unwrap();
            assert!(*times <= most, "{fate:?} by {hops} hops: {times} times");
            assert!(requests >= 100, "{fate:?} by {hops} hops: {requests}");
        }
    }
}

/// A call whose question was just declined.
fn declined() -> (Bench, ExchangeId, String) {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    asks(&mut bench, call, 1, "yes?");
    bench.ask(SessionRequest::Answer {
        id: id(),
        key: None,
        answer: Answer::Decline,
    });
    (bench, call, token)
}

#[test]
fn resends_an_answer_that_met_a_fault_of_the_server() {
    let (mut bench, ..) = declined();
    bench.secs(1);
    for copies in [2, 2] {
        let exchange = bench.sent.last().map(|(_, on, _)| *on).unwrap();
        bench.bring(exchange, refused(500));
        bench.secs(5);
        assert_eq!(replies(&bench), copies);
    }
    let notice = bench.view().task.notice.clone().unwrap_or_default();
    assert!(notice.contains("did not reach the server"), "{notice}");
}

#[test]
fn resends_an_answer_once_after_its_response_was_cut() {
    let (mut bench, call, token) = declined();
    for step in 0..3000 {
        let before = replies(&bench);
        bench.step(call, &format!("e{step}"), &token, step);
        bench.wait(Duration::from_millis(10));
        if step == 0 || replies(&bench) > before {
            let exchange = bench.sent.last().map(|(_, on, _)| *on).unwrap();
            bench.bring(exchange, opened());
            bench.broken(exchange);
        }
        assert!(replies(&bench) == 1 || step >= 99, "at once, at {step}");
    }
    assert_eq!(replies(&bench), 2);
    assert!(bench.saved().questions[0].is_delivered);
}

#[test]
fn answers_queue_when_full_and_the_row_reports_it() {
    let mut bench = Bench::known();
    bench.ask(SessionRequest::Start(Box::new(NewCall {
        on_input: OnInput::Decline,
        ..crowd::call(id())
    })));
    let (call, _) = bench.last_post("tools/call");
    bench.bring(call, opened());
    let seen = bench.sent.len();
    for number in 0..200 {
        asks(&mut bench, call, number, "yes?");
        for (_, exchange, _) in bench.sent.split_off(seen) {
            bench.bring(exchange, opened());
            bench.bring(exchange, ExchangeEvent::Ended);
        }
    }
    let waiting = bench
        .view()
        .task
        .questions
        .iter()
        .filter(|it| !it.is_delivered);
    let keys: Vec<usize> = waiting
        .map(|question| {
            question
                .key
                .split('.')
                .next_back()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    assert_eq!(keys.len(), 32, "no more than that");
    let notice = bench.view().task.notice.clone().unwrap();
    assert!(
        notice.contains("oldest first") || notice.contains("not recorded"),
        "{notice}"
    );
    bench.secs(6);
    let first = bench
        .sent
        .last()
        .map(|(.., request)| request.clone())
        .unwrap();
    let Method::Post { body, .. } = first.method else {
        panic!("{first:?}");
    };
    let message: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(message["id"], keys[0], "the oldest goes first");
}

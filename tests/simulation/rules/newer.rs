//! Rules of the eras, of server tasks and of questions.

use longhaul::domain::{Answer, OnInput, ServerConfig, TaskCapability, TaskKind};

use super::*;
use crate::simulation::crowd;

/// A known modern server with tasks.
fn modern() -> Bench {
    Bench::with(crowd::modern(), Choice::default())
}

fn task(id: &str, status: &str, poll_ms: Option<u64>) -> Value {
    json!({"resultType": "task", "taskId": id, "status": status, "pollIntervalMs": poll_ms})
}

/// A machine whose one call became a task.
fn with_task(poll_ms: Option<u64>) -> Bench {
    let mut bench = modern();
    bench.start("steps", Limits::default());
    bench.answer("tools/call", &task("t", "working", poll_ms));
    bench
}

fn error(status: u16, code: i64, data: Option<Value>) -> ExchangeEvent {
    ExchangeEvent::Refused(Box::new(HttpError {
        status,
        error: Some(longhaul::protocol::RpcError {
            code,
            message: "no".to_owned(),
            data: data.map(|data| data.to_string()),
        }),
        ..HttpError::default()
    }))
}

/// The server begins to tell of the task; returns where.
fn told_of(bench: &mut Bench) -> ExchangeId {
    bench.secs(2);
    let (listen, request_id) = bench.last_post("subscriptions/listen");
    acknowledge(bench, listen, &request_id);
    listen
}

/// The server takes a subscription and says what it will tell of.
fn acknowledge(bench: &mut Bench, listen: ExchangeId, request_id: &str) {
    bench.bring(listen, opened());
    let ack = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": {"notifications": {"taskIds": ["t"]}, "_meta": {"id": request_id}}});
    bench.bring(
        listen,
        ExchangeEvent::Event {
            id: None,
            retry_ms: None,
            data: ack.to_string(),
        },
    );
}

/// When each look at the task went out, over a time in which every one is answered at once.
fn looks(bench: &mut Bench, seconds: u64, poll_ms: Option<u64>) -> Vec<u64> {
    let (mut seen, end) = (bench.count("tasks/get"), bench.now + seconds * 1000);
    while let Some(wake) = bench.link.next_wake().filter(|wake| wake.0 <= end) {
        bench.now = bench.now.max(wake.0);
        bench.feed(Input::Timer);
        if bench.count("tasks/get") > seen {
            seen += 1;
            bench.answer("tasks/get", &task("t", "working", poll_ms));
        }
    }
    bench.now = end;
    bench
        .posts("tasks/get")
        .iter()
        .map(|(at, ..)| *at)
        .collect()
}

/// What a server answers to a greeting.
type Brings = Box<dyn Fn(&mut Bench)>;

#[test]
fn polls_a_task_at_its_interval_plus_up_to_an_eighth() {
    for (poll_ms, pace, seconds) in [
        (Some(1000), 1000, 60),
        (None, 5000, 120),
        (Some(1), 250, 20),
        (Some(86_400_000), 60_000, 600),
    ] {
        let mut bench = with_task(poll_ms);
        let looks = looks(&mut bench, seconds, poll_ms);
        assert!(looks.len() > 6, "{poll_ms:?}: {looks:?}");
        for pair in looks.windows(2) {
            let gap = pair[1] - pair[0];
            assert!(
                (pace..=pace + pace / 8 + 1).contains(&gap),
                "{poll_ms:?}: {gap}"
            );
        }
    }
}

#[test]
fn polls_a_notified_task_a_quarter_as_often() {
    let mut bench = with_task(Some(1000));
    let _ = told_of(&mut bench);
    bench.answer("tasks/get", &task("t", "working", Some(1000)));
    let first = bench.count("tasks/get");
    let looks = looks(&mut bench, 60, Some(1000));
    for pair in looks[first..].windows(2).skip(1) {
        assert!((4000..=4501).contains(&(pair[1] - pair[0])), "{looks:?}");
    }
    assert!(looks.len() - first > 10, "{looks:?}");
}

#[test]
fn backs_off_from_a_subscription_that_ends_at_once() {
    let mut bench = with_task(Some(60_000));
    for _ in 0..3600 {
        bench.secs(1);
        let (listen, id) = bench.last_post("subscriptions/listen");
        if bench.closed.contains(&listen) {
            continue;
        }
        bench.closed.push(listen);
        acknowledge(&mut bench, listen, &id);
        bench.bring(listen, ExchangeEvent::Ended);
    }
    let count = bench.count("subscriptions/listen");
    assert!((10..80).contains(&count), "{count}");
}

#[test]
fn a_task_whose_result_is_too_large_is_lost() {
    let mut bench = with_task(Some(1000));
    bench.secs(2);
    let (poll, _) = bench.last_post("tasks/get");
    bench.bring(poll, opened());
    bench.bring(poll, ExchangeEvent::TooLarge { cap: 1 << 24 });
    let lost = Status::Lost(LostReason::TooMuch { cap: 1 << 24 });
    assert_eq!(bench.status(), &lost);
}

#[test]
fn a_task_that_is_made_completed_is_asked_for_its_result() {
    let mut bench = modern();
    bench.start("steps", Limits::default());
    bench.answer("tools/call", &task("t", "completed", Some(1000)));
    bench.secs(2);
    let mut end = task("t", "completed", Some(1000));
    end["result"] = json!({"content": []});
    bench.answer("tasks/get", &end);
    assert_eq!(bench.status(), &Status::Completed);
}

#[test]
fn a_completed_task_without_its_result_has_failed() {
    let mut bench = with_task(Some(1000));
    bench.secs(2);
    bench.answer("tasks/get", &task("t", "completed", None));
    assert_eq!(bench.status(), &Status::Failed);
}

#[test]
fn failed_polls_back_off_to_a_minute_and_keep_the_task() {
    let mut bench = with_task(Some(500));
    for _ in 0..600 {
        bench.secs(1);
        let (poll, _) = bench.last_post("tasks/get");
        bench.bring(poll, refused(500));
    }
    assert_eq!(bench.status(), &Status::Running);
    let looks: Vec<u64> = bench
        .posts("tasks/get")
        .iter()
        .map(|(at, ..)| *at)
        .collect();
    let gaps: Vec<u64> = looks.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (gap, expected) in gaps
        .iter()
        .zip([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000])
    {
        assert!(
            (expected..=expected + expected / 4 + 1000).contains(gap),
            "{gaps:?}"
        );
    }
    assert!(gaps.iter().all(|gap| *gap <= 76_000), "{gaps:?}");
}

/// The look that is in flight is answered with an error.
fn refuse_look(bench: &mut Bench, code: i64) {
    let (poll, request_id) = bench.last_post("tasks/get");
    let data =
        json!({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": "no"}});
    let (id, retry_ms, data) = (None, None, data.to_string());
    bench.bring(poll, opened());
    bench.bring(poll, ExchangeEvent::Event { id, retry_ms, data });
}

#[test]
fn a_task_is_gone_only_after_refusals_over_ten_seconds() {
    let mut bench = with_task(Some(1000));
    let mut answered = 0;
    let mut next_look = |bench: &mut Bench| {
        while bench.count("tasks/get") == answered {
            bench.secs(1);
        }
        answered = bench.count("tasks/get");
        bench.now
    };
    // Of two replicas, one knows the task: never is it refused each time.
    for _ in 0..60 {
        let _ = next_look(&mut bench);
        refuse_look(&mut bench, -32602);
        assert_eq!(bench.status(), &Status::Running);
        let _ = next_look(&mut bench);
        bench.answer("tasks/get", &task("t", "working", Some(1000)));
    }
    let first = next_look(&mut bench);
    let mut refusals = 0;
    let mut at = first;
    while bench.status() == &Status::Running {
        refuse_look(&mut bench, -32602);
        refusals += 1;
        if bench.status() == &Status::Running {
            at = next_look(&mut bench);
        }
    }
    let server_text = Some("no".to_owned());
    let gone = Status::Lost(LostReason::TaskGone { server_text });
    assert_eq!(bench.status(), &gone);
    assert!(refusals >= 4, "{refusals}");
    assert!((10_000..30_000).contains(&(at - first)), "{}", at - first);
}

#[test]
fn an_error_unrelated_to_the_task_counts_as_a_failed_poll() {
    for code in [-32700, -32603, -32000, 0, 1] {
        let mut bench = with_task(Some(500));
        let mut answered = 0;
        for _ in 0..600 {
            bench.secs(1);
            if bench.count("tasks/get") > answered {
                answered = bench.count("tasks/get");
                refuse_look(&mut bench, code);
            }
            assert_eq!(bench.status(), &Status::Running, "{code}");
        }
        assert!(answered > 5, "{code}: {answered}");
        while bench.count("tasks/get") == answered {
            bench.secs(1);
        }
        let mut done = task("t", "completed", None);
        done["result"] = json!({"content": [{"type": "text", "text": "done"}]});
        bench.answer("tasks/get", &done);
        assert_eq!(bench.status(), &Status::Completed, "{code}");
    }
}

#[test]
fn no_response_repeats_a_modern_call() {
    for status in [
        300, 302, 408, 409, 413, 425, 429, 500, 501, 502, 503, 504, 599,
    ] {
        let mut bench = modern();
        bench.start("steps", Limits::default());
        let (call, _) = bench.last_post("tools/call");
        bench.bring(call, refused(status));
        bench.secs(3600);
        assert_eq!(bench.count("tools/call"), 1, "{status}");
        let is_known = matches!(status, 300 | 302 | 409 | 413 | 429);
        let word = if is_known { "failed" } else { "unknown" };
        assert_eq!(bench.status().label(), word, "{status}");
    }
}

#[test]
fn failed_polls_are_no_outage_if_notifications_arrive() {
    for is_told in [true, false] {
        let mut bench = with_task(Some(1000));
        let listen = told_of(&mut bench);
        for second in 0..60 {
            let (poll, _) = bench.last_post("tasks/get");
            bench.bring(poll, refused(503));
            if is_told {
                let mut shape = task("t", "working", Some(1000));
                shape["statusMessage"] = json!(format!("{second}"));
                let told =
                    json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": shape});
                bench.bring(listen, event("n", &told));
            }
            bench.secs(1);
        }
        let is_cut = |entry: &&longhaul::domain::HistoryEntry| {
            matches!(entry.what, HistoryEvent::Contact { .. })
        };
        let lines = bench.rows.iter().map(|row| match row {
            Row::History { entries, .. } => entries.iter().filter(is_cut).count(),
            _ => 0,
        });
        assert_eq!(lines.sum::<usize>(), usize::from(!is_told));
    }
}

#[test]
fn polls_at_most_sixteen_tasks_at_once() {
    let mut bench = modern();
    for number in 0..40_u64 {
        bench.start_as(TaskId::from_bits(number), "steps", Limits::default());
        bench.answer(
            "tools/call",
            &task(&format!("t{number}"), "working", Some(1000)),
        );
    }
    bench.secs(10);
    assert_eq!(bench.count("tasks/get"), 16);
    bench.answer("tasks/get", &task("t0", "working", Some(1000)));
    assert_eq!(bench.count("tasks/get"), 17);
}

#[test]
fn polls_a_task_only_after_its_id_is_saved() {
    let mut bench = modern();
    bench.start("steps", Limits::default());
    bench.saves_at_once = false;
    bench.answer("tools/call", &task("t", "working", Some(250)));
    bench.secs(3);
    assert_eq!(bench.count("tasks/get"), 0);
    while let Some(token) = bench.pending.pop() {
        bench.feed(Input::Saved(token));
    }
    bench.secs(1);
    assert_eq!(bench.count("tasks/get"), 1);
}

#[test]
fn the_cancel_of_a_task_is_watched_for_thirty_seconds() {
    let mut bench = with_task(Some(1000));
    bench.ask(SessionRequest::Cancel(id()));
    bench.answer("tasks/cancel", &json!({"resultType": "complete"}));
    looks(&mut bench, 28, Some(1000));
    assert!(bench.view().task.control.is_some());
    looks(&mut bench, 4, Some(1000));
    assert!(bench.view().task.control.is_none());
    let notice = bench.view().task.notice.clone().unwrap_or_default();
    assert!(notice.contains("did not respond"), "{notice}");
    assert_eq!(bench.status(), &Status::Running);
}

#[test]
fn disconnects_a_call_cancelled_before_its_intent_is_saved() {
    let mut bench = modern();
    bench.saves_at_once = false;
    bench.start("steps", Limits::default());
    bench.ask(SessionRequest::Cancel(id()));
    for _ in 0..2 {
        while let Some(token) = bench.pending.pop() {
            bench.feed(Input::Saved(token));
        }
        bench.secs(1);
    }
    assert_eq!(bench.status(), &Status::Cancelled);
}

#[test]
fn the_discover_response_decides_the_next_handshake_step() {
    let answered =
        |result: Value| move |bench: &mut Bench| bench.answer("server/discover", &result);
    let met = |arrival: ExchangeEvent| {
        move |bench: &mut Bench| {
            let (discover, _) = bench.last_post("server/discover");
            bench.bring(discover, arrival.clone());
        }
    };
    let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let with_tasks = json!({"supportedVersions": ["2026-07-28"], "capabilities": extension});
    let versions = |all: &[&str]| Some(json!({"supported": all}));
    let table: Vec<(&str, Brings, Option<&str>)> = vec![
        (
            "modern with tasks",
            Box::new(answered(with_tasks)),
            Some("initialize"),
        ),
        (
            "modern without tasks",
            Box::new(answered(
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}),
            )),
            Some("initialize"),
        ),
        (
            "another result",
            Box::new(answered(json!({}))),
            Some("initialize"),
        ),
        (
            "only stateful versions",
            Box::new(met(error(400, -32022, versions(&["2025-11-25"])))),
            Some("initialize"),
        ),
        (
            "no version that we know",
            Box::new(met(error(400, -32022, versions(&["2031-01-01"])))),
            None,
        ),
        (
            "headers do not fit",
            Box::new(met(error(400, -32020, None))),
            None,
        ),
        (
            "404 and no such method",
            Box::new(met(error(404, -32601, None))),
            Some("initialize"),
        ),
        (
            "200 and no such method",
            Box::new(met(error(200, -32601, None))),
            Some("initialize"),
        ),
        (
            "400 without a word",
            Box::new(met(refused(400))),
            Some("initialize"),
        ),
        (
            "400 and a code of no meaning",
            Box::new(met(error(400, -32001, None))),
            Some("initialize"),
        ),
        ("401", Box::new(met(refused(401))), None),
        ("403", Box::new(met(refused(403))), None),
        ("503", Box::new(met(refused(503))), None),
        (
            "nobody there",
            Box::new(met(ExchangeEvent::NotSent {
                why: "no route".to_owned(),
                is_refused: true,
            })),
            None,
        ),
    ];
    for (name, brings, follows) in table {
        let record = LinkRecord::new(ServerName::new("lab"), "http://lab/mcp");
        let mut bench = Bench::with(record, Choice::default());
        bench.ask(SessionRequest::Tools(ServerName::new("lab")));
        brings(&mut bench);
        let (_, _, last) = bench.sent.last().cloned().expect("a request");
        let Method::Post { body, .. } = last.method else {
            panic!("a POST")
        };
        let message: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            message["method"],
            follows.unwrap_or("server/discover"),
            "{name}"
        );
        if follows.is_none() {
            assert!(
                bench.answers.pop().is_some_and(|answer| answer.is_err()),
                "{name}"
            );
        }
    }
}

#[test]
fn repeats_a_refused_version_once_and_then_gives_up() {
    let refused = || error(400, -32022, Some(json!({"supported": ["2026-07-28"]})));
    let fresh = || {
        let record = LinkRecord::new(ServerName::new("lab"), "http://lab/mcp");
        let mut bench = Bench::with(record, Choice::default());
        bench.ask(SessionRequest::Tools(ServerName::new("lab")));
        let (discover, _) = bench.last_post("server/discover");
        bench.bring(discover, refused());
        assert_eq!(bench.count("server/discover"), 2, "it is repeated");
        bench
    };
    let mut served = fresh();
    let found = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
    served.answer("server/discover", &found);
    let (initialize, _) = served.last_post("initialize");
    served.bring(initialize, refused());
    assert_eq!(served.count("initialize"), 1, "2026-07-28 takes none");
    served.answer("tools/list", &json!({"tools": []}));
    assert!(matches!(
        served.answers.pop(),
        Some(Ok(SessionResponse::Tools(_)))
    ));

    let mut stubborn = fresh();
    let (discover, _) = stubborn.last_post("server/discover");
    stubborn.bring(discover, refused());
    let Some(Err(RequestError::Usage(words))) = stubborn.answers.pop() else {
        panic!("{:?}", stubborn.answers);
    };
    assert!(words.contains("rejected MCP 2026-07-28 twice"), "{words}");

    // The list of tools and a call are repeated as well.
    let mut known = modern();
    known.start("steps", Limits::default());
    let (call, _) = known.last_post("tools/call");
    known.bring(call, refused());
    known.answer("tools/list", &json!({"tools": [{"name": "steps"}]}));
    let (call, _) = known.last_post("tools/call");
    assert_eq!(known.count("tools/call"), 2);
    known.bring(call, refused());
    assert_eq!(known.status(), &Status::Failed);
}

#[test]
fn a_handshake_without_a_session_prefers_the_modern_era() {
    for session in [None, Some("s2".to_owned())] {
        let record = LinkRecord::new(ServerName::new("lab"), "http://lab/mcp");
        let mut bench = Bench::with(record, Choice::default());
        bench.ask(SessionRequest::Tools(ServerName::new("lab")));
        let found = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
        bench.answer("server/discover", &found);
        let (initialize, request_id) = bench.last_post("initialize");
        let has_session = session.is_some();
        bench.bring(
            initialize,
            ExchangeEvent::Opened {
                body: Body::Json,
                session,
            },
        );
        let data = json!({"jsonrpc": "2.0", "id": request_id, "result": {"protocolVersion": "2025-11-25"}});
        bench.bring(
            initialize,
            ExchangeEvent::Event {
                id: None,
                retry_ms: None,
                data: data.to_string(),
            },
        );
        let version = bench.link.record().version.map(ProtocolVersion::era);
        let is_modern = version == Some(longhaul::domain::Era::Modern);
        assert_eq!(is_modern, !has_session);
    }
}

#[test]
fn an_unanswered_initialize_does_not_block_modern_calls() {
    let found = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
    let nothing = |bench: &mut Bench| {
        let (initialize, _) = bench.last_post("initialize");
        let (body, session) = (Body::Empty(202), None);
        bench.bring(initialize, ExchangeEvent::Opened { body, session });
        bench.bring(initialize, ExchangeEvent::Ended);
    };
    let record = LinkRecord::new(ServerName::new("lab"), "http://lab/mcp");
    let mut fresh = Bench::with(record, Choice::default());
    fresh.start("steps", Limits::default());
    fresh.answer("server/discover", &found);
    nothing(&mut fresh);
    fresh.answer("tools/list", &json!({"tools": [{"name": "steps"}]}));
    assert_eq!(fresh.count("tools/call"), 1);
    assert_eq!(fresh.count("initialize"), 1);

    // It was known to be modern, and nobody had asked for a session yet.
    let mut record = modern().link.record().clone();
    record.refuses_session = false;
    let mut known = Bench::with(record, Choice::default());
    known.start("steps", Limits::default());
    nothing(&mut known);
    known.answer("server/discover", &found);
    nothing(&mut known);
    known.answer("tools/list", &json!({"tools": [{"name": "steps"}]}));
    assert_eq!(known.count("tools/call"), 1);
}

#[test]
fn the_reason_for_a_revision_survives_a_restart() {
    for (choice, kept) in [(None, true), (Some(ProtocolVersion::V20251125), false)] {
        let mut record = LinkRecord::new(ServerName::new("lab"), "http://lab/mcp");
        record.version = Some(ProtocolVersion::V20251125);
        record.era_why = Some("it was found out".to_owned());
        let mut bench = Bench::with(
            record,
            Choice {
                version: choice,
                ..Choice::default()
            },
        );
        bench.ask(SessionRequest::Tools(ServerName::new("lab")));
        bench.shake_hands();
        let why = bench.link.record().era_why.clone();
        assert_eq!(why.as_deref() == Some("it was found out"), kept, "{why:?}");
    }
}

#[test]
fn retries_an_initialize_that_a_modern_server_refused() {
    let mut bench = modern();
    bench.ask(SessionRequest::Tools(ServerName::new("lab")));
    let (list, _) = bench.last_post("tools/list");
    bench.bring(list, refused(404));
    for _ in 0..60 {
        if let Some((_, exchange, _)) = bench.sent.last().cloned() {
            bench.bring(exchange, refused(400));
        }
        bench.secs(1);
    }
    let before = bench.sent.len();
    bench.ask(SessionRequest::RetryNow);
    bench.ask(SessionRequest::Tools(ServerName::new("lab")));
    bench.secs(60);
    assert!(bench.sent.len() > before, "the door is not stuck");
}

#[test]
fn a_header_mismatch_refreshes_tools_and_resends_once() {
    let mut bench = modern();
    bench.start("steps", Limits::default());
    for round in 1..=2 {
        assert_eq!(bench.count("tools/call"), round);
        let (call, _) = bench.last_post("tools/call");
        bench.bring(call, error(400, -32020, None));
        if round == 1 {
            bench.answer("tools/list", &json!({"tools": [{"name": "steps"}]}));
        }
    }
    assert_eq!(
        (bench.count("tools/list"), bench.count("tools/call")),
        (1, 2)
    );
    assert_eq!(bench.status(), &Status::Failed);
}

#[test]
fn a_call_with_empty_input_requests_ends_after_ten_rounds() {
    let mut bench = modern();
    bench.start("steps", Limits::default());
    for _ in 0..30 {
        if bench.status() == &Status::Failed {
            break;
        }
        bench.answer(
            "tools/call",
            &json!({"resultType": "input_required", "requestState": "s"}),
        );
        bench.secs(1);
    }
    assert_eq!(bench.status(), &Status::Failed);
    assert_eq!(bench.count("tools/call"), 11);
}

#[test]
fn returns_the_request_state_unchanged_with_the_answer() {
    let state = "a\"\\\u{1}é\u{2028}/ ";
    let mut bench = modern();
    bench.start("steps", Limits::default());
    let asks = json!({"who": {"method": "elicitation/create", "params": {"message": "who?"}}});
    bench.answer(
        "tools/call",
        &json!({"resultType": "input_required", "requestState": state, "inputRequests": asks}),
    );
    assert_eq!(bench.status(), &Status::InputRequired);
    bench.ask(SessionRequest::Answer {
        id: id(),
        key: None,
        answer: Answer::Decline,
    });
    bench.secs(1);
    let posts = bench.posts("tools/call");
    assert_eq!(posts.len(), 2);
    let (first, second) = (&posts[0].2, &posts[1].2);
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second["params"]["requestState"], state);
    assert_eq!(
        second["params"]["inputResponses"]["who"]["action"],
        "decline"
    );
}

#[test]
fn an_answer_that_was_only_saved_goes_out_with_the_next_process() {
    let mut bench = modern();
    bench.start("steps", Limits::default());
    let asks = json!({"who": {"method": "elicitation/create", "params": {"message": "who?"}}});
    bench.answer(
        "tools/call",
        &json!({"resultType": "input_required", "inputRequests": asks}),
    );
    let mut saved = bench.saved();
    // As the process left it that was killed before it could send anything.
    saved.questions[0].answer = Some(Answer::Decline);
    saved.questions[0].is_unsent = true;
    saved.status = Status::Running;
    let mut next = modern();
    next.feed(restored(vec![(saved, Vec::new())]));
    next.secs(1);
    let posts = next.posts("tools/call");
    assert_eq!(posts.len(), 1, "{:?}", next.status());
    let responses = &posts[0].2["params"]["inputResponses"];
    assert_eq!(responses["who"]["action"], "decline");
}

#[test]
fn tries_the_other_task_mode_once() {
    let mut bench = Bench::known();
    let mut record = bench.link.record().clone();
    record.tasks = Some(TaskCapability {
        kind: TaskKind::Core,
        can_list: false,
    });
    bench = Bench::new(record);
    bench.start("steps", Limits::default());
    for _ in 0..3 {
        let (call, request_id) = bench.last_post("tools/call");
        bench.bring(call, opened());
        let data =
            json!({"jsonrpc": "2.0", "id": request_id, "error": {"code": -32601, "message": "no"}});
        bench.bring(
            call,
            ExchangeEvent::Event {
                id: None,
                retry_ms: None,
                data: data.to_string(),
            },
        );
        if bench.count("tools/list") == 1 && bench.count("tools/call") == 1 {
            bench.answer("tools/list", &json!({"tools": [{"name": "steps"}]}));
        }
        bench.secs(1);
    }
    let posts = bench.posts("tools/call");
    let with_task: Vec<bool> = posts
        .iter()
        .map(|(_, _, message)| message["params"]["task"].is_object())
        .collect();
    assert_eq!(with_task, [false, true]);
    assert_eq!(bench.status(), &Status::Failed);
}

#[test]
fn a_request_of_a_modern_server_is_not_answered() {
    let mut bench = modern();
    let (call, _) = bench.call("steps");
    let before = bench.sent.len();
    for method in ["ping", "elicitation/create"] {
        let data = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {}});
        bench.bring(
            call,
            ExchangeEvent::Event {
                id: None,
                retry_ms: None,
                data: data.to_string(),
            },
        );
    }
    bench.secs(5);
    assert_eq!(bench.sent.len(), before);
}

#[test]
fn an_answer_whose_save_failed_is_sent_after_the_next_save() {
    let mut bench = with_task(Some(1000));
    bench.secs(1);
    let asks = json!({"k": {"method": "elicitation/create", "params": {"message": "sure?"}}});
    let mut asking = task("t", "input_required", Some(1000));
    asking["inputRequests"] = asks;
    bench.secs(1);
    bench.answer("tasks/get", &asking);
    assert_eq!(bench.status(), &Status::InputRequired);
    bench.saves_at_once = false;
    bench.ask(SessionRequest::Answer {
        id: id(),
        key: Some("k".to_owned()),
        answer: Answer::Decline,
    });
    let token = bench.pending.pop().expect("a save");
    bench.awaiting_save.clear();
    assert_eq!(bench.count("tasks/update"), 0);
    bench.saves_at_once = true;
    bench.feed(Input::SaveFailed {
        token,
        why: "disk full".to_owned(),
    });
    bench.secs(3);
    assert_eq!(bench.count("tasks/update"), 1);
    let view = bench.link.take_server_view();
    let is_down =
        view.is_some_and(|view| matches!(view.state, longhaul::domain::LinkState::Down { .. }));
    assert!(!is_down);
}

#[test]
fn a_look_from_before_a_question_does_not_take_it_back() {
    let mut bench = with_task(Some(1000));
    bench.secs(2);
    assert_eq!(bench.count("tasks/get"), 1, "a look is out");
    let mut asking = task("t", "input_required", Some(1000));
    asking["inputRequests"] =
        json!({"k": {"method": "elicitation/create", "params": {"message": "sure?"}}});
    let (listen, _) = bench.last_post("subscriptions/listen");
    bench.bring(listen, opened());
    let told = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": asking});
    bench.bring(listen, event("q", &told));
    assert_eq!(bench.status(), &Status::InputRequired);
    bench.answer("tasks/get", &task("t", "working", Some(1000)));
    assert_eq!(bench.status(), &Status::InputRequired);
    // One that was sent since is believed: somebody else answered.
    bench.secs(2);
    bench.answer("tasks/get", &task("t", "working", Some(1000)));
    assert_eq!(bench.status(), &Status::Running);
}

#[test]
fn a_possible_task_is_not_lost_with_its_session() {
    for (binds, support, is_lost) in [
        (None, "optional", false),
        (Some(true), "optional", true),
        (None, "forbidden", true),
    ] {
        let mut bench = Bench::core(support, binds);
        let (call, token) = bench.call("steps");
        bench.step(call, "a", &token, 1);
        bench.broken(call);
        bench.secs(1);
        bench.refuse_session(404);
        let status = bench.status();
        assert_eq!(
            matches!(status, Status::Lost(LostReason::SessionGone { .. })),
            is_lost,
            "{binds:?} {support}: {status:?}"
        );
        assert_eq!(status.label() == "unknown", !is_lost);
    }
}

/// A core task that waits for an answer; its result is being fetched.
fn core_task_that_asks() -> Bench {
    let mut bench = Bench::core("required", None);
    bench.start("steps", Limits::default());
    let (call, request_id) = bench.last_post("tools/call");
    bench.bring(call, opened());
    let made = json!({"jsonrpc": "2.0", "id": request_id, "result": {"task": {"taskId": "t",
        "status": "input_required", "pollInterval": 1000}}});
    bench.bring(call, event("m", &made));
    bench
}

/// Lets time pass while a completed core task is asked for. `knows` says for each request, by its number from 0 and its
/// method, whether the replica that gets it knows the task. Returns the number of requests.
fn ask_replicas(bench: &mut Bench, seconds: u64, knows: impl Fn(usize, &str) -> bool) -> usize {
    let (mut seen, mut asked) = (0, 0);
    for _ in 0..seconds * 10 {
        while let Some((_, exchange, request)) = bench.sent.get(seen).cloned() {
            seen += 1;
            let Method::Post { body, .. } = &request.method else {
                continue;
            };
            let message: Value = serde_json::from_str(body).unwrap();
            let method = message["method"].as_str().unwrap_or_default();
            let result = match method {
                "tasks/get" => {
                    json!({"taskId": "t", "status": "completed", "pollInterval": 1000})
                }
                "tasks/result" => json!({"content": []}),
                _ => continue,
            };
            if knows(asked, method) {
                bench.answer_on(exchange, body, &result);
            } else {
                let unknown = json!({"jsonrpc": "2.0", "id": message["id"],
                    "error": {"code": -32602, "message": "unknown task"}});
                bench.bring(exchange, opened());
                bench.bring(exchange, event("e", &unknown));
            }
            asked += 1;
        }
        bench.wait(Duration::from_millis(100));
    }
    asked
}

#[test]
fn a_cancel_before_the_task_id_reaches_the_task() {
    let mut bench = Bench::core("required", None);
    bench.start("steps", Limits::default());
    let (call, request_id) = bench.last_post("tools/call");
    bench.bring(call, opened());
    bench.ask(SessionRequest::Cancel(id()));
    assert_eq!(bench.count("notifications/cancelled"), 1);
    let made = json!({"jsonrpc": "2.0", "id": request_id, "result": {"task": {"taskId": "t",
        "status": "working", "pollInterval": 1000}}});
    bench.bring(call, event("m", &made));
    bench.secs(1);
    assert_eq!(bench.count("tasks/cancel"), 1);
}

#[test]
fn a_task_ends_although_the_time_stamp_of_its_end_is_older() {
    let mut bench = with_task(Some(1000));
    for (status, second) in [("working", 2), ("completed", 1)] {
        bench.secs(2);
        let mut shape = task("t", status, Some(1000));
        shape["lastUpdatedAt"] = json!(format!("2026-01-01T00:00:0{second}Z"));
        shape["result"] = json!({"content": []});
        bench.answer("tasks/get", &shape);
    }
    assert_eq!(bench.status(), &Status::Completed);
}

#[test]
fn a_result_comes_through_replicas_that_take_turns() {
    for first in [0, 1] {
        let mut bench = core_task_that_asks();
        ask_replicas(&mut bench, 20, |number, _| number % 2 == first);
        assert_eq!(bench.status(), &Status::Completed, "{first}");
    }
}

#[test]
fn a_result_that_is_always_refused_is_asked_for_less_and_less_often() {
    let mut bench = core_task_that_asks();
    let asked = ask_replicas(&mut bench, 3600, |_, method| method == "tasks/get");
    assert!(asked < 250, "{asked}");
    let contact = &bench.view().contact;
    let Connectivity::Reconnecting { why, .. } = contact else {
        panic!("{contact:?}");
    };
    assert_eq!(why, "the server did not send the result: unknown task");
}

/// The requests of the server that were declined, by their ids.
fn declined(bench: &Bench) -> Vec<Value> {
    let bodies = bench
        .sent
        .iter()
        .filter_map(|(_, _, request)| match &request.method {
            Method::Post { body, .. } => serde_json::from_str::<Value>(body).ok(),
            Method::Get { .. } | Method::Delete => None,
        });
    let declined = bodies.filter(|body| body["result"]["action"] == "decline");
    declined.map(|body| body["id"].clone()).collect()
}

#[test]
fn a_question_repeated_on_another_stream_counts_once() {
    let mut bench = core_task_that_asks();
    let asks = |number: u64, message: &str| {
        json!({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": {"message": message,
            "_meta": {"progressToken": number, "io.modelcontextprotocol/related-task": {"taskId": "t"}}}})
    };
    for number in [0, 2] {
        let (fetch, _) = bench.last_post("tasks/result");
        bench.bring(fetch, opened());
        bench.bring(fetch, event(&format!("q{number}"), &asks(number, "sure?")));
        if number == 0 {
            bench.broken(fetch);
            bench.secs(2);
            bench.answer(
                "tasks/get",
                &json!({"taskId": "t", "status": "input_required"}),
            );
        }
    }
    let view = bench.view();
    assert_eq!(view.task.questions.len(), 1, "{:?}", view.task.questions);
    // The name that it had first is still its name, and the answer goes to where it was asked last.
    let key = view.task.questions[0].earlier[0].clone();
    bench.ask(SessionRequest::Answer {
        id: id(),
        key: Some(key),
        answer: Answer::Decline,
    });
    assert_eq!(declined(&bench), [json!(2)]);
    // Another question is another one.
    let (fetch, _) = bench.last_post("tasks/result");
    bench.bring(fetch, event("q3", &asks(3, "really?")));
    assert_eq!(bench.view().task.questions.len(), 2);
}

#[test]
fn an_offline_answer_goes_to_the_question_when_it_is_asked_again() {
    for (is_asked_again, expected) in [(true, 2), (false, 0)] {
        let mut bench = core_task_that_asks();
        let asks = |number: u64| {
            json!({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": {"message": "sure?",
                "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}}})
        };
        let (fetch, _) = bench.last_post("tasks/result");
        bench.bring(fetch, opened());
        bench.bring(fetch, event("q0", &asks(0)));
        let why = "Connection refused".to_owned();
        bench.broken(fetch);
        bench.secs(3);
        let (poll, _) = bench.last_post("tasks/get");
        bench.bring(poll, ExchangeEvent::not_sent(why));
        bench.ask(SessionRequest::Answer {
            id: id(),
            key: None,
            answer: Answer::Decline,
        });
        let asked = bench.count("tasks/result");
        while bench.count("tasks/result") == asked {
            bench.secs(1);
            let input = json!({"taskId": "t", "status": "input_required", "pollInterval": 1000});
            bench.answer("tasks/get", &input);
        }
        if is_asked_again {
            let (fetch, _) = bench.last_post("tasks/result");
            bench.bring(fetch, opened());
            bench.bring(fetch, event("q2", &asks(2)));
        }
        bench.secs(15);
        let questions = &bench.view().task.questions;
        assert_eq!(questions.len(), 1, "{questions:?}");
        assert!(!questions[0].is_open(), "nobody is asked twice");
        let replies = declined(&bench);
        assert_eq!(replies, [json!(expected)], "{is_asked_again}");
    }
}

#[test]
fn polls_hundreds_of_tasks_at_their_interval() {
    let minute = crowd::minute(300, 5000);
    let wanted = 300 * 60_000 / 5000;
    assert!(
        (wanted * 85 / 100..=wanted * 105 / 100).contains(&minute.polls),
        "{} of {wanted}",
        minute.polls
    );
    assert!(minute.others < 10, "{}", minute.others);
}

#[test]
fn declines_questions_when_the_call_says_so() {
    let mut bench = modern();
    bench.ask(SessionRequest::Start(Box::new(NewCall {
        on_input: OnInput::Decline,
        ..crowd::call(id())
    })));
    let asks = json!({"who": {"method": "elicitation/create", "params": {}}});
    bench.answer(
        "tools/call",
        &json!({"resultType": "input_required", "inputRequests": asks}),
    );
    bench.secs(1);
    let posts = bench.posts("tools/call");
    assert_eq!(
        posts[1].2["params"]["inputResponses"]["who"]["action"],
        "decline"
    );
}

#[test]
fn a_question_that_comes_on_two_streams_is_asked_once() {
    let mut bench = Bench::known();
    let (first, token) = bench.call("steps");
    bench.step(first, "a", &token, 1);
    bench.start_as(TaskId::from_bits(8), "steps", Limits::default());
    let (second, token) = bench.last_post("tools/call");
    bench.bring(second, opened());
    bench.step(second, "b", &token, 1);
    let asks = json!({"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {}});
    bench.bring(first, event("q", &asks));
    bench.bring(second, event("q", &asks));
    let is_asked = |row: &&Row| matches!(row, Row::History { entries, .. } if entries.iter().any(|entry| matches!(entry.what, HistoryEvent::InputRequired { .. })));
    assert_eq!(bench.rows.iter().filter(is_asked).count(), 1);
}

#[test]
fn a_new_url_applies_while_only_a_subscription_is_open() {
    let mut bench = with_task(Some(1000));
    let listen = told_of(&mut bench);
    let moved = ServerConfig {
        url: Some("http://elsewhere/mcp".to_owned()),
        ..ServerConfig::new(ServerName::new("lab"))
    };
    bench.link.configure(&moved);
    assert!(bench.link.waiting_config().is_some(), "a task runs there");
    let mut end = task("t", "completed", Some(1000));
    end["result"] = json!({"content": []});
    bench.answer("tasks/get", &end);
    assert!(bench.status().is_settled(), "{:?}", bench.status());
    bench.link.configure(&moved);
    assert_eq!(bench.link.waiting_config(), None);
    bench.secs(1);
    assert!(bench.closed.contains(&listen));
    assert_eq!(bench.link.record().url, "http://elsewhere/mcp");
}

#[test]
fn a_subscription_ends_with_the_last_task() {
    let mut bench = with_task(Some(1000));
    let listen = told_of(&mut bench);
    let mut end = task("t", "completed", Some(1000));
    end["result"] = json!({"content": []});
    bench.answer("tasks/get", &end);
    assert!(!bench.closed.contains(&listen));
    bench.secs(3);
    assert!(bench.closed.contains(&listen));
    assert_eq!(bench.count("subscriptions/listen"), 1);
}

/// Lets time pass while a core task is asked for: polls show `status`, and `tasks/result` gets `outcome`. Returns how many
/// of the latter were sent.
fn withhold_result(
    bench: &mut Bench,
    seconds: u64,
    status: &str,
    outcome: impl Fn(&mut Bench, ExchangeId),
) -> usize {
    let (mut seen, mut fetches) = (0, 0);
    for _ in 0..seconds * 10 {
        while let Some((_, exchange, request)) = bench.sent.get(seen).cloned() {
            seen += 1;
            let Method::Post { body, .. } = &request.method else {
                continue;
            };
            if body.contains("tasks/get") || body.contains("tasks/cancel") {
                let shape = json!({"taskId": "t", "status": status, "pollInterval": 1000});
                bench.answer_on(exchange, body, &shape);
            } else if body.contains("tasks/result") {
                fetches += 1;
                outcome(bench, exchange);
            }
        }
        bench.wait(Duration::from_millis(100));
    }
    fetches
}

#[test]
fn a_result_that_does_not_come_is_asked_for_less_and_less_often() {
    let refuse = |bench: &mut Bench, exchange| bench.bring(exchange, refused(500));
    let end = |bench: &mut Bench, exchange| {
        bench.bring(exchange, opened());
        bench.bring(exchange, ExchangeEvent::Ended);
    };
    for status in ["completed", "input_required"] {
        let mut bench = core_task_that_asks();
        let fetches = if status == "completed" {
            withhold_result(&mut bench, 3600, status, refuse)
        } else {
            withhold_result(&mut bench, 3600, status, end)
        };
        assert!((30..80).contains(&fetches), "{status}: {fetches}");
        assert!(
            bench.view().task.seq < 40,
            "{status}: its history is flooded"
        );
        let notice = bench.view().task.notice.clone().unwrap_or_default();
        let says_so = notice.contains("did not send the result");
        assert_eq!(says_so, status == "completed", "{status}: {notice}");
    }
}

#[test]
fn a_cancelled_task_that_the_server_lets_fail_is_cancelled() {
    let mut bench = core_task_that_asks();
    bench.ask(SessionRequest::Cancel(id()));
    let error = |bench: &mut Bench, exchange| {
        let (_, request_id) = bench.last_post("tasks/result");
        let data = json!({"jsonrpc": "2.0", "id": request_id,
            "error": {"code": -32603, "message": "aborted"}});
        bench.bring(exchange, opened());
        bench.bring(exchange, event("e", &data));
    };
    let fetches = withhold_result(&mut bench, 20, "failed", error);
    assert_eq!(bench.status(), &Status::Cancelled);
    assert!(fetches < 4, "{fetches}");
}

#[test]
fn an_answer_does_not_wait_for_a_result_that_asks_and_ends() {
    let mut bench = core_task_that_asks();
    let ask = |bench: &mut Bench, exchange| {
        let question = json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create",
            "params": {"message": "go on?"}});
        bench.bring(exchange, opened());
        bench.bring(exchange, event("q", &question));
        bench.bring(exchange, ExchangeEvent::Ended);
    };
    let fetches = withhold_result(&mut bench, 300, "input_required", ask);
    assert!(fetches > 60, "{fetches}");
    assert_eq!(bench.view().task.notice, None);
}

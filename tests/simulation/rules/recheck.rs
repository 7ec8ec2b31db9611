//! Silent streams with event ids: requested again on a new connection while the old one stays, and one 404 is not proof.

use longhaul::domain::{CutReason, IfCut};

use super::*;

/// A call with one step, whose connection then brings nothing more.
fn silent_after_step() -> (Bench, ExchangeId, String) {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    (bench, call, token)
}

/// When streams were requested, in whole seconds.
fn requested_at(bench: &Bench) -> Vec<u64> {
    bench.gets().iter().map(|(at, ..)| at / 1000).collect()
}

/// Lets seconds pass; each resume is answered by `answer`, and each ping is answered.
fn pass(bench: &mut Bench, seconds: u64, mut answer: impl FnMut(&mut Bench, ExchangeId)) {
    let mut pinged = bench.count("ping");
    for _ in 0..seconds {
        let asked = bench.gets().len();
        bench.secs(1);
        for (_, ping, message) in bench.posts("ping").split_off(pinged) {
            bench.answer_on(ping, &message.to_string(), &json!({}));
            pinged += 1;
        }
        for (_, get, _) in bench.gets().split_off(asked) {
            answer(bench, get);
        }
    }
}

/// As a server does that believes in the old connection: it replays nothing new and closes.
fn replays_and_closes(bench: &mut Bench, get: ExchangeId) {
    bench.bring(get, opened());
    bench.bring(get, ExchangeEvent::Ended);
}

#[test]
fn a_half_open_stream_recovers_on_a_new_connection() {
    let (mut bench, call, token) = silent_after_step();
    bench.secs(19);
    assert_eq!(bench.gets().len(), 0);
    bench.secs(1);
    let (get, cursor) = bench.last_get();
    assert_eq!(cursor, "a");
    bench.bring(get, opened());
    assert!(!bench.closed.contains(&call), "the tool may be slow");
    bench.step(get, "b", &token, 2);
    assert!(bench.closed.contains(&call), "now it is known to be dead");
    bench.bring(get, event("c", &result(&token)));
    assert_eq!(bench.status(), &Status::Completed);
    assert_eq!(
        contact(&bench),
        ["no data for 20 s", "reconnected after 20.0 s"]
    );
}

/// What the history says of the connection.
fn contact(bench: &Bench) -> Vec<String> {
    let rows = bench.rows.iter().filter_map(|row| match row {
        Row::History { entries, .. } => Some(entries),
        _ => None,
    });
    let lines = rows.flatten().filter_map(|entry| match &entry.what {
        HistoryEvent::Contact { why, .. } => Some(why.clone()),
        _ => None,
    });
    lines.collect()
}

#[test]
fn a_connection_that_stays_alive_is_not_called_lost() {
    let (mut bench, call, token) = silent_after_step();
    for _ in 0..5 {
        bench.secs(5);
        bench.bring(call, ExchangeEvent::Alive);
    }
    let (get, _) = bench.last_get();
    bench.bring(get, opened());
    bench.step(get, "b", &token, 2);
    assert!(bench.closed.contains(&call));
    assert_eq!(contact(&bench), Vec::<String>::new());
}

#[test]
fn a_connection_that_missed_nothing_is_not_called_lost() {
    let (mut bench, call, token) = silent_after_step();
    bench.secs(20);
    let (get, _) = bench.last_get();
    bench.bring(get, opened());
    bench.secs(3);
    bench.step(get, "b", &token, 2);
    assert!(bench.closed.contains(&call));
    assert_eq!(contact(&bench), Vec::<String>::new());
}

#[test]
fn a_slow_tool_does_not_notice_the_rechecks() {
    for closes in [true, false] {
        let (mut bench, call, token) = silent_after_step();
        for step in 2..5 {
            pass(&mut bench, 90, |bench, get| {
                bench.bring(get, opened());
                if closes {
                    bench.bring(get, ExchangeEvent::Ended);
                }
            });
            assert_eq!(bench.view().contact.label(), "live");
            bench.step(call, &format!("e{step}"), &token, step);
        }
        // 20 s after the first step, then the schedule; after the second step 90 s are known to be usual.
        let asked = requested_at(&bench);
        assert_eq!(asked.len(), 4, "{asked:?}");
        for (asked, expected) in asked.iter().zip([20_u64, 25, 35, 55]) {
            assert!(asked.abs_diff(expected) <= 3, "{asked:?}");
        }
        assert!(!bench.closed.contains(&call));
        bench.bring(call, event("z", &result(&token)));
        assert_eq!(bench.status(), &Status::Completed);
        let is_cut = |row: &Row| {
            matches!(row, Row::History { entries, .. } if entries.iter()
            .any(|entry| matches!(entry.what, HistoryEvent::Contact { .. })))
        };
        assert!(!bench.rows.iter().any(is_cut), "nothing was cut");
    }
}

#[test]
fn an_hour_of_silence_stays_within_the_budget() {
    let (mut bench, call, _) = silent_after_step();
    pass(&mut bench, 3600, replays_and_closes);
    let sent = bench.sent.len();
    assert!((50..=80).contains(&sent), "{sent} requests");
    assert!(!bench.closed.contains(&call));
    assert_eq!(bench.status(), &Status::Running);
}

#[test]
fn a_409_for_a_dead_connection_closes_it_and_is_retried_soon() {
    let (mut bench, call, token) = silent_after_step();
    let mut recovered = None;
    pass(&mut bench, 45, |bench, get| {
        if bench.now < 30_000 {
            return bench.bring(get, refused(409));
        }
        bench.bring(get, opened());
        bench.bring(get, event("b", &result(&token)));
        recovered.get_or_insert(bench.now);
    });
    assert!(bench.closed.contains(&call));
    assert_eq!(bench.status(), &Status::Completed);
    assert!(recovered.is_some_and(|at| at < 40_000), "{recovered:?}");
}

#[test]
fn a_409_beside_keep_alive_comments_closes_nothing() {
    let (mut bench, call, token) = silent_after_step();
    for second in 1..=600 {
        pass(&mut bench, 1, |bench, get| bench.bring(get, refused(409)));
        if second % 15 == 0 {
            bench.bring(call, ExchangeEvent::Alive);
        }
    }
    assert!(!bench.closed.contains(&call));
    assert!(bench.gets().len() < 20, "{:?}", requested_at(&bench));
    bench.bring(call, event("b", &result(&token)));
    assert_eq!(bench.status(), &Status::Completed);
}

#[test]
fn a_second_silence_is_found_like_the_first() {
    let (mut bench, call, token) = silent_after_step();
    bench.secs(20);
    let (first, _) = bench.last_get();
    bench.bring(first, opened());
    for step in 2..=6 {
        bench.step(first, &format!("e{step}"), &token, step);
        bench.secs(3);
    }
    assert!(bench.closed.contains(&call));
    let silent_from = bench.now;
    bench.secs(22);
    let (second, cursor) = bench.last_get();
    assert_eq!(cursor, "e6");
    assert!(second != first && bench.now - silent_from <= 45_000);
    bench.bring(second, opened());
    bench.bring(second, event("z", &result(&token)));
    assert_eq!(bench.status(), &Status::Completed);
    assert!(bench.closed.contains(&first));
}

#[test]
fn data_on_the_old_connection_ends_the_recheck() {
    let (mut bench, call, token) = silent_after_step();
    bench.secs(20);
    let (get, _) = bench.last_get();
    bench.bring(get, opened());
    bench.step(call, "b", &token, 2);
    assert!(bench.closed.contains(&get) && !bench.closed.contains(&call));
    bench.bring(call, event("c", &result(&token)));
    assert_eq!(bench.status(), &Status::Completed);
}

#[test]
fn a_recheck_that_fails_leaves_the_old_connection() {
    let not_sent = || ExchangeEvent::NotSent {
        why: "no route".to_owned(),
        is_refused: false,
    };
    for answer in [refused(500), refused(400), refused(405), not_sent()] {
        let (mut bench, call, token) = silent_after_step();
        pass(&mut bench, 300, |bench, get| {
            bench.bring(get, answer.clone());
        });
        assert_eq!(bench.status(), &Status::Running, "{answer:?}");
        assert!(!bench.closed.contains(&call), "{answer:?}");
        bench.bring(call, event("b", &result(&token)));
        assert_eq!(bench.status(), &Status::Completed, "{answer:?}");
    }
}

#[test]
fn with_an_open_connection_an_empty_replay_is_never_proof() {
    let (mut bench, call, token) = silent_after_step();
    bench.step(call, "b", &token, 2);
    pass(&mut bench, 1200, replays_and_closes);
    assert_eq!(bench.status(), &Status::Running);
    bench.broken(call);
    pass(&mut bench, 1200, replays_and_closes);
    assert_eq!(
        bench.status().label(),
        "lost",
        "now there is only the replay"
    );
}

#[test]
fn a_step_of_the_wall_clock_keeps_the_live_stream() {
    let (mut bench, call, token) = silent_after_step();
    bench.jumped = 3_600_000;
    bench.feed(Input::Timer);
    let (get, cursor) = bench.last_get();
    assert_eq!(cursor, "a", "and asks on a new connection");
    bench.bring(get, refused(405));
    assert!(!bench.closed.contains(&call));
    bench.step(call, "b", &token, 2);
    bench.bring(call, event("c", &result(&token)));
    assert_eq!(bench.status(), &Status::Completed);
    assert_eq!(bench.gets().len(), 1);
}

#[test]
fn one_404_is_not_proof() {
    let (mut bench, call, token) = silent_after_step();
    bench.broken(call);
    pass(&mut bench, 5, |bench, get| bench.bring(get, refused(404)));
    assert_eq!(bench.status(), &Status::Running);
    assert!(bench.count("ping") > 0, "the session is asked for too");
    pass(&mut bench, 10, |bench, get| {
        bench.bring(get, opened());
        bench.bring(get, event("b", &result(&token)));
    });
    assert_eq!(bench.status(), &Status::Completed);
    assert_eq!(bench.count("initialize"), 0);
}

#[test]
fn a_404_every_time_for_ten_seconds_is_proof() {
    let (mut bench, call, _) = silent_after_step();
    bench.broken(call);
    bench.secs(1);
    bench.refuse_session(404);
    let lost = bench
        .views
        .iter()
        .find(|view| view.task.status.is_settled());
    let lost_at = lost.and_then(|view| view.task.end.settled_at).unwrap().0 - START;
    assert!((10_000..16_000).contains(&lost_at), "{lost_at}");
    assert!(matches!(
        bench.status(),
        Status::Lost(LostReason::SessionGone { .. })
    ));
}

#[test]
fn a_call_that_waits_for_the_check_of_the_session_says_so() {
    let (mut bench, call, _) = silent_after_step();
    bench.broken(call);
    bench.secs(1);
    bench.refuse_since(0, 404);
    let second = TaskId::from_bits(1);
    let contact = |bench: &Bench| {
        let mut views = bench.views.iter().rev();
        let view = views.find(|view| view.task.id == second);
        view.map(|view| view.contact.clone())
    };
    bench.start_as(second.clone(), "steps", Limits::default());
    let Some(Connectivity::Reconnecting { why, .. }) = contact(&bench) else {
        panic!("{:?}", contact(&bench));
    };
    assert_eq!(
        why,
        "checking whether the server still knows the MCP session"
    );
    bench.secs(1);
    bench.answer("ping", &json!({}));
    let contact = contact(&bench);
    assert!(
        matches!(contact, Some(Connectivity::Live { .. })),
        "{contact:?}"
    );
}

#[test]
fn a_saved_call_shows_that_its_session_is_gone() {
    let (mut bench, ..) = silent_after_step();
    bench.start_as(TaskId::from_bits(1), "steps", Limits::default());
    let (_, second, _) = bench.posts("tools/call").pop().unwrap();
    bench.bring(second, refused_by_server(404));
    bench.refuse_session(404);
    assert_eq!(bench.status(), &Status::Running);
    let saved = bench.rows.iter().rev().find_map(|row| match row {
        Row::Task(task) if task.id == id() => Some(task),
        _ => None,
    });
    let if_cut = IfCut::of_task(saved.unwrap());
    assert_eq!(if_cut, Some(CutReason::SessionGone.into()));
    assert_eq!(bench.view().if_cut, if_cut);
}

/// Refuses every GET, ping and `initialize` sent since as a proxy does that does not find its server.
fn refuse_as_proxy(bench: &mut Bench, seen: usize) {
    let late: Vec<ExchangeId> = bench.sent[seen..]
        .iter()
        .filter(|(.., request)| match &request.method {
            Method::Post { body, .. } => {
                body.contains("\"ping\"") || body.contains("\"initialize\"")
            }
            method => matches!(method, Method::Get { .. }),
        })
        .map(|(_, exchange, _)| *exchange)
        .collect();
    for exchange in late {
        bench.bring(exchange, refused(404));
    }
}

#[test]
fn a_404_by_no_mcp_server_proves_nothing() {
    let (mut bench, call, token) = silent_after_step();
    bench.broken(call);
    let mut seen = 0;
    for _ in 0..900 {
        let sent = bench.sent.len();
        refuse_as_proxy(&mut bench, seen);
        seen = sent;
        bench.secs(1);
        assert_eq!(bench.status(), &Status::Running);
    }
    let count = bench.count("initialize");
    assert!((10..100).contains(&count), "{count} times initialize");
    refuse_as_proxy(&mut bench, seen);
    // The server is back, and still knows its session.
    let asked = bench.gets().len();
    while bench.gets().len() == asked {
        bench.secs(1);
    }
    let (get, cursor) = bench.last_get();
    assert_eq!(cursor, "a");
    bench.bring(get, opened());
    bench.bring(get, event("b", &result(&token)));
    assert_eq!(bench.status(), &Status::Completed);
}

#[test]
fn a_404_is_proof_once_an_mcp_server_answers() {
    let (mut bench, call, _) = silent_after_step();
    bench.broken(call);
    let mut seen = 0;
    while bench.count("initialize") == 0 {
        let sent = bench.sent.len();
        refuse_as_proxy(&mut bench, seen);
        seen = sent;
        bench.secs(1);
        assert_eq!(bench.status(), &Status::Running);
    }
    bench.greet();
    assert_eq!(
        bench.status(),
        &Status::Running,
        "it may just have come back"
    );
    for _ in 0..20 {
        let sent = bench.sent.len();
        refuse_as_proxy(&mut bench, seen);
        seen = sent;
        bench.secs(1);
    }
    assert!(matches!(
        bench.status(),
        Status::Lost(LostReason::SessionGone { .. })
    ));
}

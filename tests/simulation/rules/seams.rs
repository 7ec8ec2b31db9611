//! The seam of a resumed stream: what falls between the replay and what is live is read a second time, and no more.

use longhaul::domain::HistoryEntry;

use super::*;

/// The progress values in the history of the one task.
fn values(bench: &Bench) -> Vec<f64> {
    let entries = bench.rows.iter().filter_map(|row| match row {
        Row::History { entries, .. } => Some(entries),
        _ => None,
    });
    let values = entries.flatten().filter_map(|entry| match entry.what {
        HistoryEvent::Progress(longhaul::domain::Progress { value, .. }) => Some(value),
        _ => None,
    });
    values.collect()
}

#[test]
fn a_count_that_starts_over_is_recorded_until_the_stream_is_resumed() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    for (at, value) in [1, 2, 3, 1, 2].into_iter().enumerate() {
        bench.step(call, &format!("e{at}"), &token, value);
    }
    bench.broken(call);
    bench.secs(1);
    let (get, _) = bench.last_get();
    bench.bring(get, opened());
    // What a resumed stream repeats under other ids is not new.
    for (at, value) in [1, 2, 3].into_iter().enumerate() {
        bench.step(get, &format!("f{at}"), &token, value);
    }
    bench.secs(2);
    assert_eq!(values(&bench), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
}

fn log_line(words: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": words}})
}

fn history(bench: &Bench) -> Vec<HistoryEntry> {
    bench
        .rows
        .iter()
        .filter_map(|row| match row {
            Row::History { entries, .. } => Some(entries.iter()),
            _ => None,
        })
        .flatten()
        .cloned()
        .collect()
}

fn steps(bench: &Bench) -> Vec<f64> {
    history(bench)
        .iter()
        .filter_map(|entry| match entry.what {
            HistoryEvent::Progress(longhaul::domain::Progress { value, .. }) => Some(value),
            _ => None,
        })
        .collect()
}

fn gaps(bench: &Bench) -> Vec<String> {
    history(bench)
        .into_iter()
        .filter_map(|entry| match entry.what {
            HistoryEvent::Contact { why, .. } if why.starts_with("gap") => Some(why),
            _ => None,
        })
        .collect()
}

#[test]
fn counts_an_outage_from_the_cut_even_while_unwatched() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.broken(call);
    bench.wait(Duration::from_millis(300));
    let mut next = Bench::known();
    next.jumped = 60_000;
    next.feed(restored(vec![(bench.saved(), vec!["a".into()])]));
    next.secs(2);
    let (get, _) = next.last_get();
    next.bring(get, opened());
    next.step(get, "b", &token, 2);
    next.secs(1);
    let is_unwatched = |entry: &&HistoryEntry| matches!(&entry.what, HistoryEvent::Contact { state, .. } if state == "unwatched");
    let entries = history(&next);
    let unwatched = entries.iter().find(is_unwatched).unwrap();
    assert_eq!(unwatched.at, bench.saved().updated_at, "when it began");
    let told: Vec<String> = entries
        .into_iter()
        .filter_map(|entry| match entry.what {
            HistoryEvent::Contact { why, .. } => Some(why),
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [
            "longhaul was not running for up to 1 min",
            "reconnected after 1 min 2 s"
        ]
    );
}

fn up_to(last: u32) -> Vec<f64> {
    (1..=last).map(f64::from).collect()
}

/// A call at step 4 whose stream broke and was resumed, with the replay of step 5; its exchange and its token.
fn resumed(bench: &mut Bench) -> (ExchangeId, String) {
    let (call, token) = bench.call("steps");
    for step in 1..=4 {
        bench.step(call, &format!("a{step}"), &token, step);
    }
    let get = cut(bench, call, "a4");
    bench.step(get, "a5", &token, 5);
    (get, token)
}

/// Cuts the stream and opens the resumed one, which has to be asked for from `cursor`.
fn cut(bench: &mut Bench, stream: ExchangeId, cursor: &str) -> ExchangeId {
    bench.broken(stream);
    bench.secs(1);
    let (get, from) = bench.last_get();
    assert_eq!(from, cursor);
    bench.bring(get, opened());
    get
}

#[test]
fn rereads_a_replay_gap_and_stores_it_in_order() {
    let mut bench = Bench::known();
    let (get, token) = resumed(&mut bench);
    bench.bring(get, event("p", &Value::Null));
    bench.step(get, "a9", &token, 9);
    bench.step(get, "a10", &token, 10);
    let (again, cursor) = bench.last_get();
    assert_eq!((cursor.as_str(), bench.gets().len()), ("a5", 2));
    bench.secs(1);
    assert_eq!(steps(&bench), up_to(5), "what is live waits its turn");
    bench.bring(again, opened());
    bench.step(again, "a6", &token, 6);
    bench.bring(again, event("l", &log_line("between")));
    bench.step(again, "a7", &token, 7);
    bench.bring(again, event("p", &Value::Null));
    bench.step(again, "a8", &token, 8);
    bench.step(again, "a9", &token, 9);
    assert!(bench.closed.contains(&again), "both readings have met");
    bench.bring(get, event("l", &log_line("between")));
    bench.step(get, "a11", &token, 11);
    bench.bring(get, event("r", &result(&token)));
    assert_eq!(bench.status(), &Status::Completed);
    assert_eq!(steps(&bench), up_to(11));
    let lines = history(&bench);
    let logs = lines
        .iter()
        .filter(|entry| matches!(entry.what, HistoryEvent::Log { .. }));
    assert_eq!(logs.count(), 1, "known by its event id");
    assert_eq!((gaps(&bench).len(), bench.gets().len()), (0, 2));
}

/// A second reading under way: what is live has come to `a9`, what is missing begins with `a6`.
fn rereading(bench: &mut Bench) -> (ExchangeId, ExchangeId, String) {
    let (get, token) = resumed(bench);
    bench.bring(get, event("p", &Value::Null));
    bench.step(get, "a9", &token, 9);
    let (again, _) = bench.last_get();
    bench.bring(again, opened());
    (get, again, token)
}

#[test]
fn the_cursor_stays_before_the_gap_until_it_is_filled() {
    let mut bench = Bench::known();
    let (get, again, token) = rereading(&mut bench);
    bench.step(again, "a6", &token, 6);
    bench.broken(get);
    assert!(bench.closed.contains(&again), "one network carries both");
    bench.secs(1);
    assert_eq!(bench.last_get().1, "a6");
}

#[test]
fn a_broken_reread_does_not_move_the_cursor() {
    let mut bench = Bench::known();
    let (get, again, _) = rereading(&mut bench);
    // The way is down, and another call is its prober when the machine wakes from sleep.
    bench.start_as(TaskId::from_bits(1), "steps", Limits::default());
    let why = "no route".to_owned();
    let (call, _) = bench.last_post("tools/call");
    let is_refused = false;
    bench.bring(call, ExchangeEvent::NotSent { why, is_refused });
    bench.slept += 60_000;
    bench.feed(Input::Timer);
    assert!(bench.closed.contains(&get) && !bench.closed.contains(&again));
    bench.broken(again);
    let (call, _) = bench.last_post("tools/call");
    bench.bring(call, opened());
    bench.secs(1);
    assert_eq!(bench.last_get().1, "a5");
    assert_eq!(steps(&bench), up_to(5));
}

#[test]
fn rarely_rereads_a_priming_server_that_loses_nothing() {
    let mut bench = Bench::known();
    let (mut stream, token) = bench.call("steps");
    bench.step(stream, "a0", &token, 1);
    let mut asked = 0;
    for round in 1..=40_u32 {
        stream = cut(&mut bench, stream, &format!("a{}", round - 1));
        let before = bench.gets().len();
        bench.bring(stream, event(&format!("p{round}"), &Value::Null));
        bench.step(stream, &format!("a{round}"), &token, 1 + round);
        if bench.gets().len() > before {
            asked += 1;
            let (again, _) = bench.last_get();
            bench.bring(again, opened());
            bench.step(again, &format!("a{round}"), &token, 1 + round);
        }
    }
    bench.secs(1);
    assert_eq!(asked, 8);
    assert_eq!((steps(&bench), gaps(&bench).len()), (up_to(41), 0));
}

#[test]
fn never_rereads_a_resumed_stream_without_loss() {
    let mut bench = Bench::known();
    let (mut stream, token) = bench.call("steps");
    bench.bring(stream, event("p", &Value::Null));
    for round in 1..=40_u32 {
        let three = 3 * round;
        for step in three - 2..=three {
            bench.step(stream, &format!("a{step}"), &token, step);
        }
        stream = cut(&mut bench, stream, &format!("a{three}"));
        // One server brings its first event back with each replay, another the one that was named.
        bench.bring(stream, event("p", &Value::Null));
        bench.step(stream, &format!("a{three}"), &token, three);
    }
    assert_eq!(bench.gets().len(), 40);
}

#[test]
fn checks_a_long_step_after_a_replay_without_priming() {
    let mut bench = Bench::known();
    let (get, token) = resumed(&mut bench);
    bench.step(get, "a8", &token, 8);
    let (again, cursor) = bench.last_get();
    assert_eq!((cursor.as_str(), bench.gets().len()), ("a5", 2));
    bench.bring(again, opened());
    for step in 6..=8 {
        bench.step(again, &format!("a{step}"), &token, step);
    }
    bench.step(get, "a12", &token, 12);
    assert_eq!(bench.gets().len(), 2, "one reading a seam");
    let expected: Vec<f64> = up_to(8).into_iter().chain([12.0]).collect();
    bench.secs(1);
    assert_eq!(steps(&bench), expected);
    assert!(gaps(&bench).is_empty(), "behind its seam a tool may jump");
}

#[test]
fn what_a_reread_cannot_recover_is_a_history_gap() {
    let ends = [
        refused(409),
        refused(400),
        ExchangeEvent::NoAnswer {
            why: "reset".to_owned(),
        },
    ];
    for end in ends.into_iter().map(Some).chain([None]) {
        let mut bench = Bench::known();
        let (get, token) = resumed(&mut bench);
        bench.bring(get, event("p", &Value::Null));
        bench.step(get, "a9", &token, 9);
        let (again, _) = bench.last_get();
        match end {
            Some(end) => bench.bring(again, end),
            None => bench.secs(6),
        }
        bench.step(get, "a10", &token, 10);
        bench.secs(1);
        let expected: Vec<f64> = up_to(5).into_iter().chain([9.0, 10.0]).collect();
        assert_eq!(steps(&bench), expected);
        assert_eq!(
            gaps(&bench),
            ["gap: the steps between 5 and 9 were not replayed"]
        );
        bench.bring(get, event("r", &result(&token)));
        assert_eq!(bench.status(), &Status::Completed);
    }
}

#[test]
fn an_answer_that_waits_is_not_lost_with_either_stream() {
    for (again_brings, last) in [(true, 9), (false, 5)] {
        let mut bench = Bench::known();
        let (get, token) = resumed(&mut bench);
        bench.bring(get, event("p", &Value::Null));
        bench.step(get, "a9", &token, 9);
        bench.bring(get, event("r", &result(&token)));
        let (again, _) = bench.last_get();
        bench.bring(get, ExchangeEvent::Ended);
        assert_eq!(bench.status(), &Status::Running);
        bench.bring(again, opened());
        if again_brings {
            for step in 6..=9 {
                bench.step(again, &format!("a{step}"), &token, step);
            }
        } else {
            bench.secs(6);
        }
        assert_eq!(bench.status(), &Status::Completed);
        let all: Vec<f64> = up_to(last);
        assert!(steps(&bench).starts_with(&all), "{:?}", steps(&bench));
        assert_eq!(steps(&bench).last(), Some(&9.0));
        assert_eq!(bench.gets().len(), 2);
    }
}

#[test]
fn a_reread_replaces_the_stream_that_the_server_closed() {
    for is_open in [true, false] {
        let mut bench = Bench::known();
        let (get, token) = resumed(&mut bench);
        bench.bring(get, event("p", &Value::Null));
        bench.step(get, "a9", &token, 9);
        let (again, _) = bench.last_get();
        if is_open {
            bench.bring(again, opened());
        }
        bench.bring(get, ExchangeEvent::Ended);
        if !is_open {
            bench.bring(again, opened());
        }
        bench.secs(1);
        for step in 6..=10 {
            bench.step(again, &format!("a{step}"), &token, step);
        }
        bench.bring(again, event("r", &result(&token)));
        assert_eq!(bench.status(), &Status::Completed);
        assert_eq!(steps(&bench), up_to(10));
        assert_eq!(bench.gets().len(), 2);
    }
}

#[test]
fn a_flood_after_a_replay_gap_is_bounded() {
    let mut bench = Bench::known();
    let (get, token) = resumed(&mut bench);
    bench.bring(get, event("p", &Value::Null));
    for step in 9..3000 {
        bench.step(get, &format!("a{step}"), &token, step);
    }
    bench.secs(1);
    assert_eq!(steps(&bench).last(), Some(&2999.0));
    assert_eq!(gaps(&bench).len(), 1);
}

#[test]
fn a_second_reading_is_left_where_requests_are_short() {
    let mut bench = Bench::known();
    let (mut stream, token) = bench.call("steps");
    bench.step(stream, "a0", &token, 1);
    let mut twice = 0;
    // A server that hangs up at once, primes each time and always loses something: 20 resumes a second.
    for round in 1..4000_u32 {
        bench.bring(stream, ExchangeEvent::Ended);
        bench.wait(Duration::from_millis(100));
        let Some((_, get, from)) = bench.gets().pop().filter(|(_, get, _)| *get != stream) else {
            continue;
        };
        stream = get;
        bench.bring(stream, opened());
        let before = bench.gets().len();
        bench.bring(stream, event(&format!("p{round}"), &Value::Null));
        bench.step(stream, &format!("b{round}"), &token, 2 * round + 1);
        if bench.gets().len() > before {
            twice += 1;
            let (again, cursor) = bench.last_get();
            assert_eq!(cursor, from);
            bench.bring(again, opened());
            bench.step(again, &format!("a{round}"), &token, 2 * round);
            bench.step(again, &format!("b{round}"), &token, 2 * round + 1);
        }
    }
    assert!((50..200).contains(&twice), "{twice}");
    assert!(bench.gets().len() < 450, "{}", bench.gets().len());
}

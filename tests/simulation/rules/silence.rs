//! Streams that are open and silent: which are doubted, by what, and which are waited for.

use super::*;

fn looks(bench: &Bench) -> Vec<u64> {
    bench
        .posts("tools/call")
        .into_iter()
        .filter(|(_, _, call)| call["params"]["name"] == "list_session_tasks")
        .map(|(at, _, _)| at / 1000)
        .collect()
}

fn works(bench: &Bench) -> usize {
    let calls = bench.posts("tools/call");
    let is_work = |call: &&(u64, ExchangeId, Value)| call.2["params"]["name"] == "work";
    calls.iter().filter(is_work).count()
}

/// A step on a stream without event ids.
fn bare_step(bench: &mut Bench, exchange: ExchangeId, token: &str, value: u32) {
    let data = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": value}});
    let arrival = ExchangeEvent::Event {
        id: None,
        retry_ms: None,
        data: data.to_string(),
    };
    bench.bring(exchange, arrival);
}

/// A checkpoint tool on a server without ids that told five steps, one a second, and then fell silent.
fn silent() -> (Bench, ExchangeId) {
    let mut bench = Bench::known();
    let (call, token) = bench.call("work");
    for step in 1..=5 {
        bench.secs(1);
        bare_step(&mut bench, call, &token, step);
    }
    (bench, call)
}

/// Lets seconds pass; each look at the list is answered with what `list` says then.
fn pass(bench: &mut Bench, seconds: u32, mut list: impl FnMut(u32) -> (&'static str, u32)) {
    for second in 0..seconds {
        bench.secs(1);
        while let Some((_, exchange, request)) = bench.sent.get(bench.seen).cloned() {
            bench.seen += 1;
            let Method::Post { body, .. } = request.method else {
                continue;
            };
            if body.contains("\"ping\"") {
                bench.answer_on(exchange, &body, &json!({}));
            } else if body.contains("list_session_tasks") {
                let (status, progress) = list(second);
                bench.answer_on(exchange, &body, &listed(status, progress));
            }
        }
    }
}

#[test]
fn leaves_a_silent_stream_once_its_checkpoint_progresses() {
    let (mut bench, call) = silent();
    pass(&mut bench, 100, |second| ("running", 5 + second));
    assert!(bench.closed.contains(&call));
    assert_eq!((bench.status(), works(&bench)), (&Status::Running, 1));
    let value = |bench: &Bench| bench.view().task.progress.as_ref().unwrap().value;
    assert!(value(&bench) > 50.0, "the list tells the steps now");
    // It stands still: a step may take as long as the silence did, so it is not called again soon.
    pass(&mut bench, 120, |_| ("running", 500));
    assert_eq!(works(&bench), 1);
    pass(&mut bench, 120, |_| ("completed", 500));
    assert_eq!(works(&bench), 2, "its result is fetched");
}

#[test]
fn a_long_step_on_a_stream_without_ids_is_waited_for() {
    let (mut bench, call) = silent();
    pass(&mut bench, 8 * 3600, |_| ("running", 5));
    assert!(!bench.closed.contains(&call));
    assert_eq!((bench.status(), works(&bench)), (&Status::Running, 1));
    let hour: Vec<u64> = looks(&bench)
        .into_iter()
        .filter(|at| (3600..7200).contains(at))
        .collect();
    assert!((30..80).contains(&hour.len()), "{}", hour.len());
    let (_, token) = bench.last_post("tools/call");
    assert!(!token.is_empty());
}

#[test]
fn a_stream_that_comes_back_to_life_is_doubted_no_longer() {
    let (mut bench, call) = silent();
    pass(&mut bench, 70, |_| ("running", 5));
    let before = looks(&bench).len();
    assert!(before > 0);
    let token = bench.view().task.attempts[0].token.clone();
    bare_step(&mut bench, call, &token, 6);
    pass(&mut bench, 60, |_| ("running", 6));
    assert!(looks(&bench).len() <= before + 1);
    let data = result(&token).to_string();
    bench.bring(
        call,
        ExchangeEvent::Event {
            id: None,
            retry_ms: None,
            data,
        },
    );
    assert_eq!((bench.status(), works(&bench)), (&Status::Completed, 1));
}

#[test]
fn fetches_a_listed_result_when_the_stream_stays_silent() {
    for over in ["completed", "failed", "interrupted"] {
        let (mut bench, call) = silent();
        pass(&mut bench, 110, |_| (over, 5));
        assert!(bench.closed.contains(&call), "{over}");
        assert_eq!(works(&bench), 2, "{over}");
    }
}

#[test]
fn a_failed_list_poll_respects_retry_after() {
    let (mut bench, call) = silent();
    bench.broken(call);
    let mut asked: Vec<u64> = Vec::new();
    for _ in 0..600 {
        bench.secs(1);
        while let Some((at, exchange, request)) = bench.sent.get(bench.seen).cloned() {
            bench.seen += 1;
            if matches!(&request.method, Method::Post { body, .. } if body.contains("list_session_tasks"))
            {
                asked.push(at / 1000);
                let (status, retry_after) = (503, Some(Duration::from_secs(30)));
                let refusal = HttpError {
                    status,
                    retry_after,
                    ..HttpError::default()
                };
                bench.bring(exchange, ExchangeEvent::Refused(Box::new(refusal)));
            }
        }
    }
    assert!(asked.len() > 10, "{asked:?}");
    let early = asked.windows(2).find(|pair| pair[1] - pair[0] < 29);
    assert_eq!(early, None, "{asked:?}");
    assert_eq!((bench.status(), works(&bench)), (&Status::Running, 1));
    pass(&mut bench, 120, |_| ("completed", 50));
    assert_eq!(works(&bench), 2, "its result is fetched");
}

#[test]
fn list_progress_does_not_contradict_a_tool_without_steps() {
    let mut bench = Bench::known();
    let (call, _) = bench.call("work");
    pass(&mut bench, 1800, |second| ("running", second));
    assert!(!bench.closed.contains(&call));
    assert_eq!(works(&bench), 1);
}

#[test]
fn waits_for_a_plain_call_without_ids_and_shows_quiet() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bare_step(&mut bench, call, &token, 1);
    pass(&mut bench, 8 * 3600, |_| unreachable!("it has no list"));
    assert_eq!((bench.status(), bench.gets().len()), (&Status::Running, 0));
    assert!(!bench.closed.contains(&call));
    assert_eq!(bench.view().contact.at(bench.stamp()).label(), "quiet");
}

/// Lets seconds pass on a server that still replays the two known events of a call and closes each stream.
fn pass_replaying(bench: &mut Bench, seconds: u32, list: impl Fn(u32) -> (&'static str, u32)) {
    let token = bench.view().task.attempts[0].token.clone();
    let mut answered =
        bench.gets().len() - usize::from(bench.link.task_of(bench.last_get().0).is_some());
    for second in 0..seconds {
        pass(bench, 1, |_| list(second));
        for (_, get, cursor) in bench.gets().split_off(answered) {
            answered += 1;
            bench.bring(get, opened());
            if cursor == "a" {
                bench.step(get, "b", &token, 2);
            }
            bench.bring(get, ExchangeEvent::Ended);
        }
    }
}

#[test]
fn a_checkpoint_behind_a_replay_without_news_follows_the_checkpoint_rule() {
    let ended = |is_refused| {
        let mut bench = Bench::known();
        let (call, token) = bench.call("work");
        bench.step(call, "a", &token, 1);
        bench.step(call, "b", &token, 2);
        bench.bring(call, ExchangeEvent::Ended);
        bench.secs(1);
        let (get, _) = bench.last_get();
        let why = "connection refused".to_owned();
        bench.bring(get, ExchangeEvent::NotSent { why, is_refused });
        bench.secs(5);
        bench
    };
    let mut bench = ended(true);
    pass_replaying(&mut bench, 120, |_| ("running", 2));
    assert_eq!(
        works(&bench),
        2,
        "its server was restarted, and its checkpoint has not moved"
    );
    let mut bench = ended(false);
    pass_replaying(&mut bench, 600, |_| ("running", 2));
    assert_eq!(works(&bench), 1, "it may be a slow step");
    pass_replaying(&mut bench, 600, |_| ("running", 2));
    assert_eq!(
        works(&bench),
        2,
        "its checkpoint has not moved for 15 minutes"
    );
    let mut bench = ended(false);
    pass_replaying(&mut bench, 120, |second| ("running", second));
    assert_eq!(works(&bench), 1, "it moves, so it is followed");
    let mut bench = ended(false);
    pass_replaying(&mut bench, 120, |_| ("completed", 2));
    assert_eq!(works(&bench), 2, "its result is fetched");
}

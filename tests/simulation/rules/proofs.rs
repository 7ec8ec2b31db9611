//! What a look that fails proves: nothing. And a live stream needs no look at all.

use super::*;

/// How a probe fails.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Broken,
    NoAnswer,
    Refused(u16),
}

/// A call with two steps whose stream ended.
fn ended() -> (Bench, String) {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.step(call, "b", &token, 2);
    bench.bring(call, ExchangeEvent::Ended);
    (bench, token)
}

/// Waits for the next GET; its exchange and its cursor.
fn next_get(bench: &mut Bench, asked: usize) -> (ExchangeId, String) {
    for _ in 0..180 {
        if bench.gets().len() > asked {
            return bench.last_get();
        }
        bench.secs(1);
    }
    panic!("no further GET: {:?}", bench.gets());
}

/// The next GET is answered with a stream that has nothing on it.
fn brings_nothing(bench: &mut Bench, asked: usize, cursor: &str) {
    let (get, from) = next_get(bench, asked);
    assert_eq!(from, cursor);
    bench.bring(get, opened());
    bench.bring(get, ExchangeEvent::Ended);
}

#[test]
fn a_failed_probe_proves_nothing_beside_empty_resumes() {
    for failure in [
        Failure::Broken,
        Failure::NoAnswer,
        Failure::Refused(503),
        Failure::Refused(400),
        Failure::Refused(405),
    ] {
        let (mut bench, token) = ended();
        let mut probes = 0;
        for asked in 0..40 {
            let (get, cursor) = next_get(&mut bench, asked);
            if cursor == "b" {
                bench.bring(get, opened());
                bench.bring(get, ExchangeEvent::Ended);
            } else {
                probes += 1;
                match failure {
                    Failure::Broken => {
                        bench.bring(get, opened());
                        bench.broken(get);
                    }
                    Failure::NoAnswer => {
                        let why = "reset".to_owned();
                        bench.bring(get, ExchangeEvent::NoAnswer { why });
                    }
                    Failure::Refused(status) => bench.bring(get, refused(status)),
                }
            }
            assert_eq!(bench.status(), &Status::Running, "{failure:?} {asked}");
        }
        assert!(probes > 0, "{failure:?}");
        let (get, _) = next_get(&mut bench, 40);
        bench.bring(get, opened());
        bench.step(get, "b", &token, 2);
        bench.bring(get, event("c", &result(&token)));
        assert_eq!(bench.status(), &Status::Completed, "{failure:?}");
    }
}

#[test]
fn a_broken_resume_after_an_empty_probe_proves_nothing() {
    let (mut bench, _) = ended();
    for (asked, cursor) in ["b", "b", "a"].into_iter().enumerate() {
        brings_nothing(&mut bench, asked, cursor);
    }
    let (get, cursor) = next_get(&mut bench, 3);
    assert_eq!(cursor, "b");
    bench.bring(get, opened());
    bench.broken(get);
    assert_eq!(bench.status(), &Status::Running);
    brings_nothing(&mut bench, 4, "b");
    assert_eq!(bench.status().label(), "lost");
}

#[test]
fn one_silent_probe_may_have_met_a_dead_connection() {
    let (mut bench, token) = ended();
    for asked in 0..2 {
        brings_nothing(&mut bench, asked, "b");
    }
    let (get, cursor) = next_get(&mut bench, 2);
    assert_eq!(cursor, "a");
    bench.bring(get, opened());
    let (get, cursor) = next_get(&mut bench, 3);
    assert_eq!(cursor, "a", "another one first");
    bench.bring(get, opened());
    bench.step(get, "b", &token, 2);
    bench.bring(get, ExchangeEvent::Ended);
    brings_nothing(&mut bench, 4, "b");
    assert_eq!(bench.status(), &Status::Running);
}

#[test]
fn does_not_reopen_a_stream_that_delivers_data() {
    for (is_resumed, apart) in [
        (false, 40_000),
        (false, 1_500),
        (true, 1_500),
        (true, 4_000),
    ] {
        let mut bench = Bench::known();
        let (mut stream, token) = bench.call("steps");
        bench.step(stream, "e0", &token, 1);
        if is_resumed {
            bench.broken(stream);
            stream = next_get(&mut bench, 0).0;
            bench.bring(stream, opened());
        }
        bench.wait(Duration::from_millis(apart));
        bench.step(stream, "e2", &token, 2);
        // Until the second step nobody knows that the tool is slow.
        let asked = bench.gets().len();
        for step in 3..400 {
            bench.wait(Duration::from_millis(apart));
            bench.step(stream, &format!("e{step}"), &token, step);
        }
        let words = format!("resumed {is_resumed}, a step every {apart} ms");
        assert_eq!(bench.gets().len(), asked, "{words}");
        assert!(!bench.closed.contains(&stream), "{words}");
    }
}

/// When requests of a kind went out, each of them refused with a time to wait, in seconds.
fn refused_for_a_while(bench: &mut Bench, method: &str, wait: u64) -> Vec<u64> {
    for _ in 0..1800 {
        while let Some((_, exchange, request)) = bench.sent.get(bench.seen).cloned() {
            bench.seen += 1;
            let Method::Post { body, .. } = &request.method else {
                continue;
            };
            if body.contains(method) {
                let mut refusal = HttpError {
                    status: 503,
                    ..HttpError::default()
                };
                refusal.retry_after = Some(Duration::from_secs(wait));
                bench.bring(exchange, ExchangeEvent::Refused(Box::new(refusal)));
            } else if body.contains("tasks/get") {
                let done = json!({"taskId": "t", "status": "completed", "pollInterval": 1000});
                bench.answer_on(exchange, body, &done);
            }
        }
        bench.secs(1);
    }
    let asked = bench.sent.iter().filter_map(|(at, _, request)| {
        let is_it = |body: &String| body.contains(method);
        let Method::Post { body, .. } = &request.method else {
            return None;
        };
        is_it(body).then_some(at / 1000)
    });
    asked.collect()
}

#[test]
fn respects_retry_after_for_every_request() {
    for method in ["\"initialize\"", "tools/list", "tasks/result"] {
        let mut bench = if method == "tasks/result" {
            Bench::core("required", Some(false))
        } else {
            let mut record = Bench::known().link.record().clone();
            record.is_initialized = method != "\"initialize\"";
            record.tools_at = None;
            Bench::new(record)
        };
        bench.start("steps", Limits::default());
        if method == "tasks/result" {
            let shape = json!({"taskId": "t", "status": "working", "pollInterval": 1000});
            bench.answer("tools/call", &json!({"task": shape}));
        }
        let asked = refused_for_a_while(&mut bench, method, 200);
        assert!((5..=10).contains(&asked.len()), "{method}: {asked:?}");
        let early = asked.windows(2).find(|pair| pair[1] - pair[0] < 199);
        assert_eq!(early, None, "{method}: {asked:?}");
        assert_eq!(bench.status(), &Status::Running, "{method}");
    }
}

#[test]
fn a_retry_after_in_an_outage_delays_every_stream() {
    let mut bench = Bench::known();
    for bits in [7, 8] {
        bench.start_as(TaskId::from_bits(bits), "steps", Limits::default());
        let (call, token) = bench.last_post("tools/call");
        bench.bring(call, opened());
        bench.step(call, "a", &token, 1);
        bench.broken(call);
    }
    bench.secs(1);
    let asked: Vec<ExchangeId> = bench.gets().iter().map(|(_, get, _)| *get).collect();
    assert_eq!(asked.len(), 2);
    for get in asked {
        let why = "no route".to_owned();
        let is_refused = true;
        bench.bring(get, ExchangeEvent::NotSent { why, is_refused });
    }
    let (prober, _) = next_get(&mut bench, 2);
    let refusal = HttpError {
        status: 502,
        retry_after: Some(Duration::from_secs(200)),
        ..HttpError::default()
    };
    bench.bring(prober, ExchangeEvent::Refused(Box::new(refusal)));
    bench.secs(190);
    assert_eq!(bench.gets().len(), 3, "{:?}", bench.gets());
    next_get(&mut bench, 3);
}

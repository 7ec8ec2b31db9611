//! The stream of the session, which belongs to no request: open while core tasks are at work, and never relied on.

use super::*;

/// A call that a core server made a task of, asked for every ten seconds; its token.
fn core_task() -> (Bench, String) {
    let mut bench = Bench::core("required", None);
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
fn what_a_core_task_tells_on_the_stream_of_the_session_is_shown_before_the_next_look() {
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
fn looking_goes_on_at_the_pace_of_the_server_beside_the_stream() {
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
fn a_stream_of_the_session_that_ends_is_asked_for_again_from_its_cursor_without_a_storm() {
    let (mut bench, _) = core_task();
    let (get, _) = bench.last_get();
    bench.bring(get, opened());
    bench.bring(get, event("7", &status_event("working", "half way")));
    bench.bring(get, Arrival::Ended);
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
        bench.bring(get, Arrival::Ended);
        pass(&mut bench, 1);
    }
    assert!(
        (50..90).contains(&bench.gets().len()),
        "{}",
        bench.gets().len()
    );
}

#[test]
fn a_server_without_the_stream_is_asked_for_it_once() {
    let (mut bench, _) = core_task();
    let (get, _) = bench.last_get();
    bench.bring(get, refused(405));
    pass(&mut bench, 1800);
    assert_eq!(bench.gets().len(), 1);
    // Another process of the session has it: later it may be free.
    let (mut bench, _) = core_task();
    let (get, _) = bench.last_get();
    bench.bring(get, refused(409));
    pass(&mut bench, 120);
    assert!((2..9).contains(&bench.gets().len()));
}

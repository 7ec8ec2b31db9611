//! Every fault of the network that we know, for an hour each: the requests of any hour stay within their bound, the tool
//! runs once, and what can be had is had, once and in order.

use longhaul::domain::LinkState;

use super::*;

const STEPS: u32 = 30;
/// A step every 15 seconds, which is no silence yet: the tool ends long before an hour of trouble does.
const PACE: u64 = 15_000;
/// The trouble begins.
const FROM: u64 = 30_000;
const HOUR: u64 = 3_600_000;

/// What is wrong, from [`FROM`] on.
#[derive(Clone, Debug)]
enum Fault {
    /// Connections that stand bring nothing more, new ones work.
    HalfOpen,
    /// As before, and new ones bring nothing either.
    Hole,
    /// No connection comes about.
    Refused,
    /// Each connection ends before an answer.
    NoAnswer,
    /// Each GET, or each POST, or both, is answered with this.
    Status { on: On, refusal: HttpError },
    /// Each GET is answered with a body of this kind.
    Body(Body),
    /// Each stream ends at once, with nothing on it.
    Empty,
    /// The server hangs up after each event, with this wish.
    Retry(u64),
    /// Each connection ends after each event, also those of resumed streams: in order, or by a reset.
    Cut { is_clean: bool },
    /// Each resumed stream brings something new at once and ends: each is worth the next, and only the budget holds.
    Drip,
    /// A replay is followed by silence for ever.
    SilentAfterReplay,
    /// Each event comes twice.
    Twice,
    /// The same without ids: only the value tells that a step is no new one.
    TwiceUnnamed,
    /// An event of a replay comes after the one that followed it.
    Swapped,
    /// Words that are no message come between the events.
    Garbage,
    /// Events have no ids any more.
    NoIds,
    /// The server has another session than it had.
    NewSession,
    /// The wall clock jumps by so much, to and fro, every minute.
    Clock(i64),
    /// The machine sleeps so long.
    Sleep(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Get,
    Post,
    Both,
}

/// How a call must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With its result and every step.
    Whole,
    /// In words: lost, or unknown.
    InWords,
    /// One or the other: the server may have been cut off for good.
    Either,
}

/// A server with one long call, behind a network with one fault.
struct Lab {
    fault: Fault,
    from: u64,
    until: u64,
    session: String,
    events: Vec<(String, String)>,
    next: u64,
    token: String,
    calls: usize,
    conn: Option<ExchangeId>,
    has_struck: bool,
    log: Vec<u64>,
}

fn refusal(status: u16, retry_after: Option<u64>, said: Option<&str>) -> HttpError {
    let error = said
        .filter(|said| said.starts_with('{'))
        .map(|_| longhaul::protocol::RpcError {
            code: -32000,
            message: "not now".to_owned(),
            data: None,
        });
    HttpError {
        status,
        retry_after: retry_after.map(Duration::from_secs),
        error,
        server_text: said.map(str::to_owned),
        ..HttpError::default()
    }
}

impl Lab {
    fn is_faulty(&self, now: u64) -> bool {
        (self.from..self.until).contains(&now)
    }

    /// A request has come, or has not.
    fn take(&mut self, bench: &mut Bench, exchange: ExchangeId, request: &Request) {
        self.log.push(bench.now);
        let is_get = matches!(request.method, Method::Get { .. });
        if self.is_faulty(bench.now) {
            let no_way = |is_refused| ExchangeEvent::NotSent {
                why: "no route".to_owned(),
                is_refused,
            };
            let answer = match &self.fault {
                Fault::Hole => return,
                Fault::Refused => vec![no_way(true)],
                Fault::NoAnswer => vec![ExchangeEvent::NoAnswer {
                    why: "reset".to_owned(),
                }],
                Fault::Status { on, refusal } if *on == On::Both || (*on == On::Get) == is_get => {
                    vec![ExchangeEvent::Refused(Box::new(refusal.clone()))]
                }
                Fault::Body(body) if is_get => vec![
                    ExchangeEvent::Opened {
                        body: body.clone(),
                        session: None,
                    },
                    ExchangeEvent::Ended,
                ],
                Fault::Empty if is_get => vec![opened(), ExchangeEvent::Ended],
                Fault::Drip if is_get => {
                    let line = json!({"jsonrpc": "2.0", "method": "notifications/message",
                        "params": {"level": "info", "data": "still there"}});
                    let drop = event(&format!("drop-{}", self.log.len()), &line);
                    vec![opened(), drop, ExchangeEvent::Ended]
                }
                _ => Vec::new(),
            };
            if !answer.is_empty() {
                return answer
                    .into_iter()
                    .for_each(|arrival| bench.bring(exchange, arrival));
            }
        }
        let Method::Post { body, .. } = &request.method else {
            return self.resume(bench, exchange, request);
        };
        let message: Value = serde_json::from_str(body).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        if method == "initialize" {
            bench.bring(
                exchange,
                ExchangeEvent::Opened {
                    body: Body::Json,
                    session: Some(self.session.clone()),
                },
            );
            let data = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"protocolVersion": "2025-11-25"}});
            return bench.bring(
                exchange,
                ExchangeEvent::Event {
                    id: None,
                    retry_ms: None,
                    data: data.to_string(),
                },
            );
        }
        if request.session.as_ref() != Some(&self.session) {
            return bench.bring(exchange, refused(404));
        }
        match method {
            "tools/call" => {
                self.calls += 1;
                self.token = message["id"].as_str().unwrap().to_owned();
                self.next = bench.now + PACE;
                self.conn = Some(exchange);
                bench.bring(exchange, opened());
                self.tell(bench, &Value::Null);
            }
            "tools/list" => {
                bench.answer_on(exchange, body, &json!({"tools": [{"name": "steps"}]}));
            }
            "ping" => bench.answer_on(exchange, body, &json!({})),
            _ => {
                let empty = Body::Empty(202);
                bench.bring(
                    exchange,
                    ExchangeEvent::Opened {
                        body: empty,
                        session: None,
                    },
                );
                bench.bring(exchange, ExchangeEvent::Ended);
            }
        }
    }

    fn resume(&mut self, bench: &mut Bench, exchange: ExchangeId, request: &Request) {
        if request.session.as_ref() != Some(&self.session) {
            return bench.bring(exchange, refused(404));
        }
        let Method::Get {
            cursor: Some(cursor),
        } = &request.method
        else {
            return bench.bring(exchange, refused(405));
        };
        bench.bring(exchange, opened());
        let known = self.events.iter().position(|(id, _)| id == cursor);
        let mut missed = self.events[known.map_or(self.events.len(), |at| at + 1)..].to_vec();
        if matches!(self.fault, Fault::Swapped) && missed.len() > 2 {
            missed.swap(0, 1);
        }
        for (id, data) in missed {
            self.send(bench, exchange, &id, &data);
        }
        let is_silent = matches!(self.fault, Fault::SilentAfterReplay) && self.is_faulty(bench.now);
        if self.is_done() && !is_silent {
            bench.bring(exchange, ExchangeEvent::Ended);
        } else if !is_silent {
            self.conn = Some(exchange);
        }
    }

    fn is_done(&self) -> bool {
        self.events.len() > usize::try_from(STEPS).unwrap() + 1
    }

    fn tell(&mut self, bench: &mut Bench, data: &Value) {
        let id = format!("e{:x}", self.events.len() * 7919 % 4093);
        let data = if data.is_null() {
            String::new()
        } else {
            data.to_string()
        };
        self.events.push((id.clone(), data.clone()));
        if let Some(conn) = self.conn {
            self.send(bench, conn, &id, &data);
        }
    }

    /// One event down one connection, as the network lets it through.
    fn send(&mut self, bench: &mut Bench, conn: ExchangeId, id: &str, data: &str) {
        let event = |id: Option<&str>, retry_ms, data: &str| ExchangeEvent::Event {
            id: id.map(Into::into),
            retry_ms,
            data: data.to_owned(),
        };
        if !self.is_faulty(bench.now) {
            return bench.bring(conn, event(Some(id), None, data));
        }
        match &self.fault {
            Fault::Hole | Fault::Refused | Fault::NoAnswer => {}
            Fault::Twice => {
                bench.bring(conn, event(Some(id), None, data));
                bench.bring(conn, event(Some(id), None, data));
            }
            Fault::TwiceUnnamed => {
                bench.bring(conn, event(None, None, data));
                bench.bring(conn, event(None, None, data));
            }
            Fault::Garbage => {
                for words in [
                    "{",
                    "[]",
                    "null",
                    "<html>",
                    "{\"jsonrpc\":\"2.0\"}",
                    "\u{0}",
                ] {
                    let id = format!("{id}-{}", words.len());
                    bench.bring(conn, event(Some(&id), None, words));
                }
                bench.bring(conn, event(Some(id), None, data));
            }
            Fault::NoIds => bench.bring(conn, event(None, None, data)),
            Fault::Retry(retry) => {
                bench.bring(conn, event(Some(id), Some(*retry), data));
                bench.bring(conn, ExchangeEvent::Ended);
                self.conn = None;
            }
            Fault::Cut { is_clean } => {
                bench.bring(conn, event(Some(id), None, data));
                if *is_clean {
                    bench.bring(conn, ExchangeEvent::Ended);
                } else {
                    bench.broken(conn);
                }
                self.conn = None;
            }
            _ => bench.bring(conn, event(Some(id), None, data)),
        }
    }

    fn tick(&mut self, bench: &mut Bench) {
        if self.calls > 0 && bench.now >= self.next && !self.is_done() {
            self.next += PACE;
            let step = self.events.len();
            let token = self.token.clone();
            if step <= usize::try_from(STEPS).unwrap() {
                let data = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": step}});
                self.tell(bench, &data);
            } else {
                self.tell(bench, &result(&token));
                if let Some(conn) = self.conn.take() {
                    bench.bring(conn, ExchangeEvent::Ended);
                }
            }
        }
        if bench.now >= FROM && !self.has_struck {
            self.has_struck = true;
            self.strike(bench);
        }
        if let Fault::Clock(by) = self.fault
            && self.is_faulty(bench.now)
            && bench.now.is_multiple_of(60_000)
        {
            let is_even = bench.now.is_multiple_of(120_000);
            bench.jumped += if is_even { by } else { -by };
        }
    }

    /// Serves until the call is decided, or it is long past the time for that.
    fn serve(&mut self, bench: &mut Bench) {
        let end = bench.now.max(self.until) + u64::from(STEPS) * PACE + HOUR;
        while bench.now < end && !bench.view().task.status.ends_waiting() {
            bench.wait(Duration::from_millis(250));
            while let Some((_, exchange, request)) = bench.sent.get(bench.seen).cloned() {
                bench.seen += 1;
                self.take(bench, exchange, &request);
            }
            self.tick(bench);
        }
    }

    /// The trouble begins: what stands is cut, stalls or is forgotten.
    fn strike(&mut self, bench: &mut Bench) {
        match &self.fault {
            Fault::HalfOpen | Fault::Hole => self.conn = None,
            Fault::NewSession => {
                self.session = "another".to_owned();
                if let Some(conn) = self.conn.take() {
                    bench.broken(conn);
                }
            }
            Fault::Sleep(time) => {
                self.conn = None;
                bench.slept += time;
                self.next = self.next.saturating_sub(*time);
            }
            Fault::Twice
            | Fault::TwiceUnnamed
            | Fault::Garbage
            | Fault::NoIds
            | Fault::Clock(_) => {}
            _ => {
                if let Some(conn) = self.conn.take() {
                    bench.broken(conn);
                }
            }
        }
    }
}

/// Runs a call through a fault that lasts so long and to its end.
fn through(fault: Fault, lasts: u64) -> (Bench, Lab) {
    run(fault, FROM, lasts)
}

/// The same with a fault that begins then.
fn run(fault: Fault, from: u64, lasts: u64) -> (Bench, Lab) {
    let mut bench = Bench::known();
    let mut lab = Lab {
        fault,
        from,
        until: from + lasts,
        session: "s".to_owned(),
        events: Vec::new(),
        next: u64::MAX,
        token: String::new(),
        calls: 0,
        conn: None,
        has_struck: false,
        log: Vec::new(),
    };
    bench.start("steps", Limits::default());
    lab.serve(&mut bench);
    (bench, lab)
}

/// The most requests in any hour.
fn busiest_hour(log: &[u64]) -> usize {
    let in_hour = |from: &u64| {
        log.iter()
            .filter(|at| (*from..from + HOUR).contains(at))
            .count()
    };
    log.iter().map(in_hour).max().unwrap_or(0)
}

/// The steps that were saved, in order.
fn steps(bench: &Bench) -> Vec<f64> {
    let entries = bench.rows.iter().filter_map(|row| match row {
        Row::History { entries, .. } => Some(entries.iter()),
        _ => None,
    });
    let value = |entry: longhaul::domain::HistoryEntry| match entry.what {
        HistoryEvent::Progress(longhaul::domain::Progress { value, .. }) => Some(value),
        _ => None,
    };
    entries.flatten().cloned().filter_map(value).collect()
}

fn all_steps() -> Vec<f64> {
    (1..=STEPS).map(f64::from).collect()
}

/// The requests of any hour with one stream, under any of this.
fn check_bound(lab: &Lab, words: &str) {
    let requests = busiest_hour(&lab.log);
    assert!(requests <= 1150, "{words}: {requests} requests in an hour");
}

fn check(fault: &Fault, lasts: u64, end: End) {
    let (bench, lab) = through(fault.clone(), lasts);
    let words = format!("{fault:?} for {} s", lasts / 1000);
    let task = &bench.view().task;
    check_bound(&lab, &words);
    assert_eq!(lab.calls, 1, "{words}: the tool ran once");
    let steps = steps(&bench);
    assert!(
        steps.windows(2).all(|pair| pair[0] < pair[1]),
        "{words}: {steps:?}"
    );
    let is_whole = task.status == Status::Completed;
    let is_in_words = matches!(task.status, Status::Lost(_) | Status::Unknown(_))
        && task.status.reason().is_some();
    let is_right = match end {
        End::Whole => is_whole,
        End::InWords => is_in_words,
        End::Either => is_whole || is_in_words,
    };
    assert!(is_right, "{words}: {:?}, {:#?}", task.status, bench.gets());
    // Swapped steps cannot both be taken: within an attempt only a higher value is one.
    if is_whole && !matches!(fault, Fault::Swapped) {
        assert_eq!(steps, all_steps(), "{words}");
    }
}

#[test]
fn an_outage_loses_nothing_and_causes_no_retry_storm() {
    for lasts in [2000, 60_000, HOUR, 8 * HOUR] {
        for fault in [
            Fault::Refused,
            Fault::NoAnswer,
            Fault::Hole,
            Fault::HalfOpen,
        ] {
            check(&fault, lasts, End::Whole);
        }
    }
}

#[test]
fn contact_comes_back_soon_after_a_network_that_was_away() {
    for (lasts, within) in [(2000, 1500), (5000, 3000), (60_000, 7000), (HOUR, 39_000)] {
        let (bench, lab) = through(Fault::Refused, lasts);
        let back = lab.log.iter().find(|at| **at >= lab.until).unwrap() - lab.until;
        assert!(back <= within, "{lasts} ms: reconnected after {back} ms");
        assert_eq!(bench.status(), &Status::Completed);
    }
}

/// The statuses that a server or a gateway may refuse with; [`locked`] ones only a person can get past.
pub(super) const STATUSES: [u16; 19] = [
    302, 307, 400, 403, 404, 405, 406, 408, 409, 410, 413, 415, 425, 429, 431, 500, 502, 503, 504,
];

/// Each status with a page, with an error of JSON-RPC or with nothing, with and without a time to wait.
pub(super) fn refusals(statuses: &[u16]) -> Vec<HttpError> {
    let page = "<html><body>Bad gateway</body></html>";
    let json = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"not now"},"id":null}"#;
    let mut all = Vec::new();
    for status in statuses {
        for said in [None, Some(page), Some(json)] {
            for retry_after in [None, Some(7)] {
                all.push(refusal(*status, retry_after, said));
            }
        }
    }
    all
}

/// Refusals that ask for a sign-in: 401, and 403 for lack of a scope.
pub(super) fn locked() -> Vec<HttpError> {
    let mut all = refusals(&[401, 403]);
    for refusal in &mut all {
        refusal.lacks_scope = refusal.status == 403;
    }
    all
}

#[test]
fn any_response_to_a_resume_waits_or_ends_with_a_reason() {
    for refusal in refusals(&STATUSES) {
        for on in [On::Get, On::Both] {
            let end = match refusal.status {
                302 | 307 | 403 | 408 | 409 | 425 | 429 | 500..=504 => End::Whole,
                _ => End::Either,
            };
            let refusal = refusal.clone();
            check(&Fault::Status { on, refusal }, 120_000, end);
        }
    }
    for status in [403, 409, 429, 500, 502, 503, 504] {
        for on in [On::Get, On::Both] {
            let refusal = refusal(status, None, None);
            check(&Fault::Status { on, refusal }, HOUR, End::Whole);
        }
    }
}

/// Checks that the link waits for a sign-in because of `words`, and sends nothing until then.
fn check_locked(bench: &mut Bench, words: &str) {
    assert_eq!(bench.view().contact, Connectivity::NeedsLogin, "{words}");
    let server = bench.link.take_server_view().map(|view| view.state);
    let status = words.split(' ').next().unwrap();
    assert!(
        matches!(&server, Some(LinkState::NeedsLogin { why, .. }) if why.contains(status)),
        "{words}: {server:?}"
    );
    let sent = bench.sent.len();
    bench.secs(8 * 3600);
    assert_eq!(bench.sent.len(), sent, "{words}: only a person can help");
}

#[test]
fn a_401_pauses_requests_until_login_and_loses_nothing() {
    for refusal in locked() {
        for on in [On::Get, On::Both] {
            let words = format!("{} on {on:?} {:?}", refusal.status, refusal.server_text);
            let refusal = refusal.clone();
            let (mut bench, mut lab) = through(Fault::Status { on, refusal }, 120_000);
            check_locked(&mut bench, &words);
            bench.ask(SessionRequest::RetryNow);
            lab.serve(&mut bench);
            assert_eq!(bench.status(), &Status::Completed, "{words}");
            assert_eq!((lab.calls, steps(&bench)), (1, all_steps()), "{words}");
            check_bound(&lab, &words);
        }
    }
}

#[test]
fn a_call_that_is_not_let_in_waits_and_goes_out_once() {
    for refusal in locked() {
        let words = format!("{} {:?}", refusal.status, refusal.server_text);
        let on = On::Post;
        let again = refusal.clone();
        let (mut bench, mut lab) = run(Fault::Status { on, refusal }, 0, 120_000);
        assert_eq!(lab.calls, 0, "{words}");
        check_locked(&mut bench, &words);
        bench.ask(SessionRequest::RetryNow);
        lab.serve(&mut bench);
        assert_eq!(bench.status(), &Status::Completed, "{words}");
        assert_eq!((lab.calls, steps(&bench)), (1, all_steps()), "{words}");

        // A retry shows that the refusal is from before, also while the next state waits for its save.
        let refusal = again;
        let (mut bench, _) = run(Fault::Status { on, refusal }, 0, 120_000);
        bench.saves_at_once = false;
        bench.ask(SessionRequest::RetryNow);
        assert_ne!(bench.view().contact, Connectivity::NeedsLogin, "{words}");
    }
}

#[test]
fn a_call_that_is_denied_fails_alone() {
    for modern in [false, true] {
        for refusal in refusals(&[403]) {
            let words = format!("{:?} {:?}", refusal.server_text, refusal.retry_after);
            let mut bench = if modern {
                Bench::with(crowd::modern(), Choice::default())
            } else {
                Bench::known()
            };
            bench.start("steps", Limits::default());
            let (call, _) = bench.last_post("tools/call");
            bench.bring(call, ExchangeEvent::Refused(Box::new(refusal)));
            bench.ask(SessionRequest::RetryNow);
            bench.secs(8 * 3600);
            assert_eq!(bench.status(), &Status::Failed, "{words}");
            let why = bench.view().task.why().unwrap_or_default();
            assert!(why.contains("403"), "{words}: {why}");
            assert_eq!(bench.count("tools/call"), 1, "{words}");
            // Other calls go on.
            bench.start_as(TaskId::from_bits(8), "steps", Limits::default());
            assert_eq!(bench.count("tools/call"), 2, "{words}");
        }
    }
}

#[test]
fn no_response_repeats_a_call_and_each_ends_with_a_reason() {
    for refusal in refusals(&STATUSES) {
        let words = format!("{refusal:?}");
        let status = refusal.status;
        let on = On::Post;
        let (bench, lab) = run(Fault::Status { on, refusal }, 0, 120_000);
        check_bound(&lab, &words);
        let tries = bench.count("tools/call");
        let task = &bench.view().task;
        match (&task.status, status) {
            // Whether it ran nobody can know: not all that stands before a server says so only when it did not.
            (Status::Unknown(UnknownReason::HttpStatus(said)), 408 | 425 | 500 | 502..=504) => {
                assert_eq!((*said, tries), (status, 1), "{words}");
            }
            // Its session is gone, so it did not run: it goes out again in the next one.
            (Status::Completed, 400 | 404 | 410) => {
                assert!(lab.calls == 1 && tries <= 5, "{words}: {tries}");
            }
            (Status::Failed, _) => {
                let may_try_again = matches!(status, 400 | 404 | 410);
                assert!(tries == 1 || may_try_again, "{words}: {tries}");
                assert_eq!((lab.calls, task.end.result_bytes), (0, None), "{words}");
                let why = task.why().unwrap_or_default();
                assert!(why.contains(&status.to_string()), "{words}: {why}");
            }
            (other, _) => panic!("{words}: {other:?}"),
        }
    }
}

#[test]
fn a_call_that_is_denied_leaves_the_open_streams_of_others_alone() {
    let mut bench = Bench::known();
    let (first, token) = bench.call("steps");
    bench.step(first, "a", &token, 1);
    let other = TaskId::from_bits(8);
    bench.start_as(other.clone(), "steps", Limits::default());
    let (second, _) = bench.last_post("tools/call");
    let denied = refusal(403, None, None);
    bench.bring(second, ExchangeEvent::Refused(Box::new(denied)));
    bench.secs(1);
    let contact = &bench.view().contact;
    assert!(matches!(contact, Connectivity::Live { .. }), "{contact:?}");
    let mut views = bench.views.iter().rev();
    let denied = views.find(|view| view.task.id == other).unwrap();
    assert_eq!(denied.task.status, Status::Failed);
    // Its cancel may be let in, and what is refused needs the sign-in.
    bench.ask(SessionRequest::Cancel(id()));
    bench.secs(1);
    let (cancel, _) = bench.last_post("notifications/cancelled");
    let denied = refusal(403, None, None);
    bench.bring(cancel, ExchangeEvent::Refused(Box::new(denied)));
    let contact = &bench.view().contact;
    assert!(matches!(contact, Connectivity::Live { .. }), "{contact:?}");
    bench.secs(5);
    let (cancel, _) = bench.last_post("notifications/cancelled");
    let refused = refusal(401, None, None);
    bench.bring(cancel, ExchangeEvent::Refused(Box::new(refused)));
    bench.secs(1);
    assert_eq!(bench.view().contact, Connectivity::NeedsLogin);
}

#[test]
fn a_cancelled_call_that_is_refused_is_not_sent_again() {
    for status in [401, 403, 404, 405, 410, 413, 429] {
        let mut bench = Bench::known();
        bench.start("steps", Limits::default());
        bench.ask(SessionRequest::Cancel(id()));
        bench.secs(1);
        let (call, _) = bench.last_post("tools/call");
        bench.bring(
            call,
            ExchangeEvent::Refused(Box::new(refusal(status, None, None))),
        );
        bench.secs(1);
        bench.ask(SessionRequest::RetryNow);
        bench.secs(60);
        assert_eq!(bench.status(), &Status::Cancelled, "{status}");
        assert_eq!(bench.count("tools/call"), 1, "{status}");
    }
}

#[test]
fn a_cancel_that_a_gateway_stops_is_sent_again_less_and_less_often() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.ask(SessionRequest::Cancel(id()));
    let mut refused = 0;
    for seconds in 0..60 {
        while bench.count("notifications/cancelled") > refused {
            let (cancel, _) = bench.last_post("notifications/cancelled");
            bench.bring(
                cancel,
                ExchangeEvent::Refused(Box::new(refusal(503, None, None))),
            );
            refused += 1;
        }
        bench.secs(1);
        let task = &bench.view().task;
        let told = task.notice.as_deref().unwrap_or_default();
        assert!(
            seconds < 6 || told.contains("has not accepted the request"),
            "{told}"
        );
        assert!(task.control.is_some());
    }
    let sent = bench.count("notifications/cancelled");
    assert!((5..=10).contains(&sent), "{sent}");
}

#[test]
fn a_server_that_names_a_time_is_not_asked_before_it() {
    for (status, wait) in [(429, 90), (503, 90), (503, 600), (500, 90)] {
        let refusal = refusal(status, Some(wait), None);
        let fault = Fault::Status {
            on: On::Get,
            refusal,
        };
        let (bench, lab) = through(fault, 1800 * 1000);
        let gets: Vec<u64> = bench.gets().iter().map(|(at, _, _)| *at).collect();
        let early = gets
            .windows(2)
            .find(|pair| pair[0] < lab.until && pair[1] - pair[0] < wait * 1000);
        assert_eq!(early, None, "{status}: {gets:?}");
        assert_eq!(bench.status(), &Status::Completed);
    }
}

#[test]
fn a_ping_or_a_handshake_that_is_refused_does_not_end_a_call() {
    for refusal in refusals(&STATUSES) {
        let status = refusal.status;
        let on = On::Post;
        let end = if matches!(status, 400 | 404 | 410) {
            End::Either
        } else {
            End::Whole
        };
        check(&Fault::Status { on, refusal }, HOUR, end);
    }
}

#[test]
fn a_resume_without_a_stream_ends_with_a_reason() {
    let media = Some("text/html".to_owned());
    let page = Fault::Body(Body::Other { media });
    check(&page, HOUR, End::InWords);
    // A proxy may show it in the server's place for a while.
    check(&page, 60_000, End::Whole);
    check(&Fault::Body(Body::Empty(202)), HOUR, End::InWords);
    check(&Fault::Empty, HOUR, End::InWords);
    check(&Fault::Empty, 2000, End::Whole);
}

#[test]
fn follows_the_retry_delay_of_a_server_that_hangs_up() {
    for retry in [0, 1, 500, 30_000] {
        check(&Fault::Retry(retry), HOUR, End::Whole);
    }
    for is_clean in [true, false] {
        check(&Fault::Cut { is_clean }, HOUR, End::Whole);
    }
    check(&Fault::Drip, HOUR, End::Either);
    // A wish of a day is kept, and nobody has to wait for it.
    let (mut bench, mut lab) = through(Fault::Retry(86_400_000), HOUR);
    assert_eq!((bench.status(), bench.gets().len()), (&Status::Running, 1));
    bench.ask(SessionRequest::RetryNow);
    let (_, exchange, request) = bench.sent.last().cloned().unwrap();
    lab.take(&mut bench, exchange, &request);
    assert_eq!(bench.status(), &Status::Completed);
}

#[test]
fn stores_each_step_once_whatever_separates_the_events() {
    check(&Fault::Twice, HOUR, End::Whole);
    check(&Fault::TwiceUnnamed, HOUR, End::Whole);
    check(&Fault::Garbage, HOUR, End::Whole);
    check(&Fault::Swapped, 120_000, End::Whole);
    check(&Fault::NoIds, HOUR, End::Whole);
    check(&Fault::SilentAfterReplay, HOUR, End::Whole);
}

#[test]
fn a_changed_session_ends_the_call_with_a_reason() {
    check(&Fault::NewSession, HOUR, End::InWords);
}

#[test]
fn clock_steps_and_suspend_cost_nothing() {
    for by in [-3_600_000, -1000, 1000, 9_000, 3_600_000, 86_400_000] {
        check(&Fault::Clock(by), HOUR, End::Whole);
    }
    for time in [60_000, 8 * HOUR] {
        check(&Fault::Sleep(time), 1000, End::Whole);
    }
}

#[test]
fn a_json_body_that_is_not_the_response_says_so() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#;
    let bad = |is_json| Status::Unknown(UnknownReason::BadResponse { is_json });
    for (data, expected) in [
        (error, Status::Failed),
        (r#"{"jsonrpc":"2.0","id":"#, bad(false)),
        (r#"{"jsonrpc":"2.0","id":"other","result":{}}"#, bad(true)),
        (r#"{"error":"upstream timeout"}"#, bad(true)),
        (r#"{"jsonrpc":"2.0","id":null,"error":null}"#, bad(true)),
    ] {
        let mut bench = Bench::known();
        bench.start("steps", Limits::default());
        let (call, _) = bench.last_post("tools/call");
        let body = Body::Json;
        bench.bring(
            call,
            ExchangeEvent::Opened {
                body,
                session: None,
            },
        );
        let data = data.to_owned();
        let (id, retry_ms) = (None, None);
        bench.bring(call, ExchangeEvent::Event { id, retry_ms, data });
        bench.bring(call, ExchangeEvent::Ended);
        bench.secs(1);
        assert_eq!(bench.status(), &expected);
    }
}

#[test]
fn a_response_without_a_result_ends_its_call_as_unknown() {
    let bad = Status::Unknown(UnknownReason::BadResponse { is_json: true });
    let empty = |id: &str| event("", &json!({"jsonrpc": "2.0", "id": id}));
    for is_followed in [false, true] {
        let mut bench = Bench::known();
        let (call, id) = bench.call("steps");
        bench.bring(call, empty(&id));
        assert_eq!(bench.status(), &Status::Running);
        let end = if is_followed {
            bench.bring(call, event("", &result(&id)));
            &Status::Completed
        } else {
            bench.bring(call, ExchangeEvent::Ended);
            &bad
        };
        bench.secs(1);
        assert_eq!(bench.status(), end);
    }
    let (mut bench, pipe) = Bench::process();
    let (_, id) = bench.call("steps");
    bench.bring(pipe, empty(&id));
    bench.secs(1);
    assert_eq!(bench.status(), &bad);
}

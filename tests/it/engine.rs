//! The engine end to end: a real session file, real HTTP through the fault proxy, the embedded demo server.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{path::Path, sync::Arc, time::Duration};

use crate::support::{alone::ran_alone, demo_server, proxy::FaultProxy};
use longhaul::{
    auth::{Keychain, Logins},
    demo,
    domain::{
        HistoryEntry, HistoryEvent, NewCall, Progress, ProtocolVersion, RequestError, ServerName,
        ServerRef, SessionDriver, SessionEvent, SessionRequest, SessionResponse, Status,
        TaskChange, TaskId, TaskView,
    },
    engine::{Clock, Options, ProcessRole, Session, SessionPurpose, Subscription},
    store::{CONTRACT, DriverLock, Lookup, Paths, Reader},
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

/// Longer than anything here takes on a busy machine; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

struct Bench {
    _dir: tempfile::TempDir,
    paths: Paths,
    server: demo_server::DemoServer,
    proxy: FaultProxy,
}

async fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), None).await;
    let proxy = FaultProxy::start(server.addr());
    let paths = Paths::resolve(Some(dir.path().join("state")), "default").unwrap();
    Bench {
        _dir: dir,
        paths,
        server,
        proxy,
    }
}

async fn serve(dir: &Path, port: Option<u16>) -> demo_server::DemoServer {
    let options = demo::DemoOptions {
        dir: dir.join("demo"),
        port,
        cross_stream_replay: false,
        idle_exit: None,
    };
    demo_server::serve(options).await.unwrap()
}

impl Bench {
    fn open(&self) -> Session {
        let url = Some(format!("http://{}/mcp", self.proxy.addr()));
        let server = ServerRef {
            name: ServerName::new("lab"),
            url,
            headers: Vec::new(),
            config_headers: Vec::new(),
            // Its streams can be resumed, and it has no tasks.
            protocol: Some("2025-06-18".to_owned()),
        };
        Session::open(Options {
            paths: self.paths.clone(),
            servers: vec![server],
            config: longhaul::domain::ServerConfigs::default(),
            read_config: || None,
            role: ProcessRole::Drive,
            purpose: SessionPurpose::Screen,
            logins: Logins::new(&self.paths.logins(), Keychain::none("a test")),
            traces: false,
            protocol: None,
            seed: 7,
            clock: Clock::start(),
            hook: None,
            args: Vec::new(),
            inherited: longhaul::engine::Inherited::default(),
            guard: longhaul::transport::ProcessGuard::default(),
        })
    }

    fn history(&self, id: &TaskId) -> Vec<HistoryEntry> {
        Reader::open(&self.paths)
            .unwrap()
            .history(id, 0, 100_000)
            .unwrap()
    }
}

fn call(tool: &str, arguments: &str) -> (TaskId, SessionRequest) {
    let id = TaskId::from_bits(fastrand::u64(..));
    let (tool, arguments) = (tool.to_owned(), arguments.to_owned());
    let call = NewCall::new(id.clone(), ServerName::new("lab"), tool, arguments);
    (id, SessionRequest::Start(Box::new(call)))
}

/// Waits until `found` sees what it looks for in the news.
async fn until<T>(
    what: &str,
    subscription: &Subscription,
    mut found: impl FnMut(&SessionEvent) -> Option<T>,
) -> T {
    let mut last = None;
    let wait = async {
        loop {
            for news in subscription.take() {
                if let Some(value) = found(&news) {
                    return value;
                }
                last = Some(news);
            }
            subscription.changed().await;
        }
    };
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(value) => value,
        Err(elapsed) => {
            panic!("timed out waiting for {what} ({elapsed}); the last news was {last:#?}")
        }
    }
}

async fn settled(subscription: &Subscription, id: &TaskId) -> Arc<TaskView> {
    until("the task to settle", subscription, |news| match news {
        SessionEvent::Task(view) if view.task.id == *id && view.task.status.ends_waiting() => {
            Some(view.clone())
        }
        _ => None,
    })
    .await
}

async fn step(subscription: &Subscription, id: &TaskId, value: f64) {
    until("a step", subscription, |news| match news {
        SessionEvent::Task(view) if view.task.id == *id => view
            .task
            .progress
            .as_ref()
            .filter(|p| p.value >= value)
            .map(|_| ()),
        _ => None,
    })
    .await;
}

fn steps(history: &[HistoryEntry]) -> Vec<f64> {
    history
        .iter()
        .filter_map(|entry| match entry.what {
            HistoryEvent::Progress(Progress { value, .. }) => Some(value),
            _ => None,
        })
        .collect()
}

/// ExitWhen waits for the server, which runs on this thread too.
async fn close(session: Session) {
    tokio::task::spawn_blocking(|| session.close())
        .await
        .unwrap();
}

const FIFTY: &str = r#"{"dataset_name":"eu","total_records":50,"batch_size":5,"delay_ms":100}"#;

fn by_fives() -> Vec<f64> {
    (1..=10).map(|batch| f64::from(batch * 5)).collect()
}

#[tokio::test]
async fn a_call_runs_to_its_result_and_every_step_is_on_disk_once() {
    let bench = bench().await;
    let session = bench.open();
    let reader = session.subscribe();
    let (id, start) = call("resumable_data_processing", FIFTY);
    session.ask(&reader, start);
    let started = until("the answer", &reader, |news| match news {
        SessionEvent::Response { outcome, .. } => Some(outcome.clone()),
        _ => None,
    })
    .await;
    assert_eq!(started, Ok(SessionResponse::Started(id.clone())));
    let view = settled(&reader, &id).await;
    assert_eq!(view.task.status, Status::Completed, "{view:#?}");
    close(session).await;
    let history = bench.history(&id);
    assert_eq!(steps(&history), by_fives());
    let seqs: Vec<u64> = history.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, (1..=history.len() as u64).collect::<Vec<_>>());
    let result = Reader::open(&bench.paths)
        .unwrap()
        .result(&id)
        .unwrap()
        .unwrap();
    assert!(result.contains("50"), "{result}");
    bench.server.kill();
}

#[tokio::test]
async fn a_cut_in_the_middle_costs_no_step_and_shows_as_one_line() {
    let bench = bench().await;
    let session = bench.open();
    let reader = session.subscribe();
    let (id, start) = call("resumable_data_processing", FIFTY);
    session.ask(&reader, start);
    step(&reader, &id, 15.0).await;
    bench.proxy.cut();
    until("offline", &reader, |news| match news {
        SessionEvent::Task(view) if view.contact.label() == "offline" => Some(()),
        _ => None,
    })
    .await;
    bench.proxy.heal();
    let view = settled(&reader, &id).await;
    assert_eq!(view.task.status, Status::Completed, "{view:#?}");
    assert_eq!(bench.proxy.calls("tools/call"), 1);
    close(session).await;
    let history = bench.history(&id);
    assert_eq!(steps(&history), by_fives());
    let cuts = history.iter().filter(
        |entry| matches!(&entry.what, HistoryEvent::Contact { state, .. } if state == "reconnecting"),
    );
    assert_eq!(cuts.count(), 1, "{history:#?}");
}

#[tokio::test]
async fn a_restart_resumes_checkpoints_and_loses_plain_calls() {
    if ran_alone("engine::a_restart_resumes_checkpoints_and_loses_plain_calls") {
        return;
    }
    let bench = bench().await;
    let session = bench.open();
    let reader = session.subscribe();
    let (id, start) = call("resumable_data_processing", FIFTY);
    session.ask(&reader, start);
    let (plain, start) = call("get_forecast", r#"{"city":"Lisbon","delay_ms":60000}"#);
    session.ask(&reader, start);
    step(&reader, &id, 15.0).await;
    let Bench {
        _dir: dir,
        paths,
        server,
        proxy,
    } = bench;
    let port = server.addr().port();
    server.kill();
    let again = serve(dir.path(), Some(port)).await;
    let mut ended: Vec<Arc<TaskView>> = Vec::new();
    until("both to end", &reader, |news| {
        if let SessionEvent::Task(view) = news
            && view.task.status.ends_waiting()
            && !ended.iter().any(|known| known.task.id == view.task.id)
        {
            ended.push(view.clone());
        }
        (ended.len() == 2).then_some(())
    })
    .await;
    close(session).await;
    let of = |id: &TaskId| {
        ended
            .iter()
            .find(|view| view.task.id == *id)
            .unwrap()
            .task
            .clone()
    };
    assert_eq!(of(&id).status, Status::Completed, "{:#?}", of(&id));
    assert!(
        matches!(of(&plain).status, Status::Lost(_)),
        "{:#?}",
        of(&plain)
    );
    let history = Reader::open(&paths)
        .unwrap()
        .history(&id, 0, 100_000)
        .unwrap();
    assert_eq!(steps(&history), by_fives());
    let client_id = of(&id).client_id.unwrap();
    assert_eq!(
        demo_server::rows(&dir.path().join("demo"), &client_id).unwrap(),
        50
    );
    drop((again, proxy));
}

#[tokio::test]
async fn a_client_takes_over_when_the_driver_leaves() {
    let bench = bench().await;
    let first = bench.open();
    let reader = first.subscribe();
    let (id, start) = call("resumable_data_processing", FIFTY);
    first.ask(&reader, start);
    step(&reader, &id, 5.0).await;
    let second = bench.open();
    let other = second.subscribe();
    until("the driver", &other, |news| match news {
        SessionEvent::Driver(SessionDriver { is_us, .. }) => {
            assert!(!is_us);
            Some(())
        }
        _ => None,
    })
    .await;
    step(&other, &id, 10.0).await;
    close(first).await;
    until("the take-over", &other, |news| match news {
        SessionEvent::Driver(SessionDriver { is_us: true, .. }) => Some(()),
        _ => None,
    })
    .await;
    let view = settled(&other, &id).await;
    assert_eq!(view.task.status, Status::Completed, "{view:#?}");
    close(second).await;
    assert_eq!(steps(&bench.history(&id)), by_fives());
    assert_eq!(bench.proxy.calls("tools/call"), 1);
}

#[tokio::test]
async fn two_calls_with_one_key_in_one_moment_are_one_task() {
    let bench = bench().await;
    let session = bench.open();
    let reader = session.subscribe();
    // Something was just shown, so that what follows waits to be.
    session.ask(&reader, call("get_forecast", "{}").1);
    let asks: Vec<_> = (0..2)
        .map(|_| {
            let (_, SessionRequest::Start(mut start)) = call("get_forecast", "{}") else {
                panic!("a call is a start");
            };
            start.once = Some("nightly".to_owned());
            session.ask(&reader, SessionRequest::Start(start))
        })
        .collect();
    let mut started = Vec::new();
    until("both answers", &reader, |news| {
        if let SessionEvent::Response {
            request: ask,
            outcome: Ok(SessionResponse::Started(id)),
        } = news
            && asks.contains(ask)
        {
            started.push(id.clone());
        }
        (started.len() == 2).then_some(())
    })
    .await;
    assert_eq!(started.first(), started.last());
    session.close();
}

#[tokio::test]
async fn a_call_with_the_id_of_another_task_is_refused() {
    let bench = bench().await;
    let session = bench.open();
    let reader = session.subscribe();
    let (id, start) = call("get_forecast", r#"{"city":"Oslo"}"#);
    session.ask(&reader, start.clone());
    until("the task", &reader, |news| match news {
        SessionEvent::Task(view) if view.task.id == id => Some(()),
        _ => None,
    })
    .await;
    let answer = async |start| {
        let asked = session.ask(&reader, start);
        until("the answer", &reader, |news| match news {
            SessionEvent::Response { request, outcome } if *request == asked => {
                Some(outcome.clone())
            }
            _ => None,
        })
        .await
    };
    // The same request again starts nothing, and another call must not take the place of the first.
    assert_eq!(
        answer(start).await,
        Ok(SessionResponse::Started(id.clone()))
    );
    let other = NewCall::new(
        id.clone(),
        ServerName::new("lab"),
        "get_forecast".to_owned(),
        r#"{"city":"Rome"}"#.to_owned(),
    );
    let Err(RequestError::Usage(words)) = answer(SessionRequest::Start(Box::new(other))).await
    else {
        panic!("the second call was not refused");
    };
    assert!(words.contains("is the id of another task"), "{words}");
    session.close();
}

#[tokio::test]
async fn the_view_of_a_server_comes_before_its_tools() {
    let bench = bench().await;
    let session = bench.open();
    let reader = session.subscribe();
    let asked = session.ask(&reader, SessionRequest::Tools(ServerName::new("lab")));
    let mut version = None;
    until("the tools", &reader, |news| match news {
        SessionEvent::Server(view) => {
            version = view.capabilities.version;
            None
        }
        SessionEvent::Response { request, .. } => (*request == asked).then_some(()),
        _ => None,
    })
    .await;
    assert_eq!(version, Some(ProtocolVersion::V20250618));
    session.close();
}

#[tokio::test]
async fn headers_that_cannot_be_sent_replace_no_others() {
    let bench = bench().await;
    let session = bench.open();
    let reader = session.subscribe();
    let mut server = ServerRef::new(ServerName::new("lab"), None);
    server.headers = vec![("Content-Type".to_owned(), "text/plain".to_owned())];
    let asked = session.ask(&reader, SessionRequest::Server(server));
    let refused = until("the refusal", &reader, |news| match news {
        SessionEvent::Response { request, outcome } if *request == asked => Some(outcome.clone()),
        _ => None,
    });
    let Err(RequestError::Usage(words)) = refused.await else {
        panic!("the headers were not refused");
    };
    assert_eq!(words, "longhaul sets the header Content-Type itself");
    let (id, start) = call("get_forecast", r#"{"city":"Oslo"}"#);
    session.ask(&reader, start);
    assert_eq!(settled(&reader, &id).await.task.status, Status::Completed);
    session.close();
}

#[tokio::test]
async fn concurrent_edits_of_a_settled_task_keep_each_other() {
    let bench = bench().await;
    let session = bench.open();
    let reader = session.subscribe();
    let (id, start) = call("get_forecast", r#"{"city":"Oslo","delay_ms":1}"#);
    session.ask(&reader, start);
    settled(&reader, &id).await;
    close(session).await;
    let session = bench.open();
    let reader = session.subscribe();
    until("the driver", &reader, |news| {
        matches!(
            news,
            SessionEvent::Driver(SessionDriver { is_us: true, .. })
        )
        .then_some(())
    })
    .await;
    // Whatever is to be saved waits.
    let other = rusqlite::Connection::open(bench.paths.db()).unwrap();
    other.busy_timeout(DEADLINE).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let edit = SessionRequest::Edit {
        id: id.clone(),
        changes: vec![TaskChange::Name(Some("new".to_owned()))],
    };
    let asks = [
        edit,
        SessionRequest::Seen(id.clone()),
        SessionRequest::Forget(id.clone()),
    ];
    let asks = asks.map(|ask| session.ask(&reader, ask));
    // This one is refused at once, and shows that the others were heard.
    let last = session.ask(&reader, SessionRequest::Pause(id.clone()));
    until("the refusal", &reader, |news| match news {
        SessionEvent::Response { request: ask, .. } if *ask == last => Some(()),
        _ => None,
    })
    .await;
    other.execute_batch("COMMIT").unwrap();
    let mut saved = 0;
    until("the answers", &reader, |news| {
        if let SessionEvent::Response {
            request: ask,
            outcome,
        } = news
            && asks.contains(ask)
        {
            assert_eq!(outcome, &Ok(SessionResponse::Accepted));
            saved += 1;
        }
        (saved == asks.len()).then_some(())
    })
    .await;
    close(session).await;
    let mut reader = Reader::open(&bench.paths).unwrap();
    let Lookup::One(task) = reader.task(id.as_str()).unwrap() else {
        panic!("it is gone");
    };
    assert_eq!(task.name.as_deref(), Some("new"));
    assert!(task.end.is_seen && task.forgotten_at.is_some(), "{task:#?}");
}

#[tokio::test]
async fn reports_a_driver_of_another_version_once() {
    let bench = bench().await;
    let _lock = DriverLock::try_take(&bench.paths).unwrap().unwrap();
    let driver = tokio::net::UnixListener::bind(bench.paths.socket()).unwrap();
    let session = bench.open();
    let reader = session.subscribe();
    let (mut stream, _) = driver.accept().await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"{\"news_of_tomorrow\":1}\n")
        .await
        .unwrap();
    until("the trouble", &reader, |news| {
        matches!(news, SessionEvent::Failed { exit: 75, .. }).then_some(())
    })
    .await;
    let asked = session.ask(&reader, SessionRequest::RetryNow);
    until("the refusal", &reader, |news| match news {
        SessionEvent::Response {
            request: ask,
            outcome,
        } if *ask == asked => Some(outcome.clone().unwrap_err()),
        SessionEvent::Failed { message: words, .. } => panic!("said again: {words}"),
        _ => None,
    })
    .await;
    session.close();
}

#[tokio::test]
async fn a_response_of_another_version_is_an_error() {
    let bench = bench().await;
    let _lock = DriverLock::try_take(&bench.paths).unwrap().unwrap();
    let driver = tokio::net::UnixListener::bind(bench.paths.socket()).unwrap();
    let session = bench.open();
    let reader = session.subscribe();
    let asked = session.ask(&reader, SessionRequest::RetryNow);
    let (stream, _) = driver.accept().await.unwrap();
    let (requests, mut to_client) = stream.into_split();
    let hello = json!({"contract": CONTRACT, "version": "9.9.9"}).to_string();
    to_client
        .write_all(format!("{hello}\n").as_bytes())
        .await
        .unwrap();
    let mut requests = tokio::io::BufReader::new(requests).lines();
    let number = loop {
        let line = requests.next_line().await.unwrap().unwrap();
        let request: Value = serde_json::from_str(&line).unwrap();
        if request["what"] == "retry_now" {
            break request["ask"].clone();
        }
    };
    let answer = json!({"answer": {"ask": number, "outcome": {"Ok": {"tea": 1}}}}).to_string();
    to_client
        .write_all(format!("{answer}\n").as_bytes())
        .await
        .unwrap();
    let error = until("the error", &reader, |news| match news {
        SessionEvent::Response { request, outcome } if *request == asked => {
            Some(outcome.clone().unwrap_err())
        }
        _ => None,
    })
    .await;
    assert!(
        error.to_string().contains("longhaul keeper upgrade"),
        "{error}"
    );
    session.close();
}

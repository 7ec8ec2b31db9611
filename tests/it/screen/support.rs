//! What the tests of the screen share: a morning's worth of tasks, a program to press keys on, and a way to
//! print what it draws.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use longhaul::{
    app::{Command, Event, Look, Setup, State, UserInput, update},
    domain::{
        Attempt, Chord, Connectivity, ControlKind, ControlRequest, Cursors, CutReason, Direction,
        HistoryEntry, HistoryEvent, IfCut, LinkState, LogLevel, LostReason, Milestone, Mono,
        NewCall, Phase, Progress, Question, QuestionSource, RequestError, Resumability, Saved,
        SavedRead, ServerName, ServerTask, ServerView, SessionEvent, SessionRequest,
        SessionResponse, Stamp, Status, Task, TaskError, TaskErrorKind, TaskId, TaskKind,
        TaskState, TaskView, Tool, TrafficEntry, TrafficKind, Turn, Wall,
    },
    ui,
};
use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::Buffer,
    style::{Color, Modifier},
};

/// 2026-11-20, a Friday, 06:52:00 UTC.
pub(crate) const NOW: i64 = 1_795_157_520_000;
pub(crate) const SECOND: i64 = 1_000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;

pub(crate) fn at(millis: i64) -> Stamp {
    Stamp {
        mono: Mono(u64::try_from(10_000_000 + millis).unwrap()),
        wall: Wall(NOW + millis),
    }
}

/// The answer to a read of a task's history.
pub(crate) fn history_read(task: TaskId, entries: Vec<HistoryEntry>) -> Event {
    let after_seq = 0;
    let saved = Saved::History {
        entries,
        dropped: 0,
    };
    Event::Read(SavedRead::History { task, after_seq }, Some(saved))
}

/// The answer to a read of a task's result.
pub(crate) fn result_read(task: TaskId, json: impl Into<String>) -> Event {
    let saved = Saved::Result(Some(json.into()));
    Event::Read(SavedRead::Result(task), Some(saved))
}

/// The answer to a read of a task's traffic.
pub(crate) fn traffic_read(task: TaskId, entries: Vec<TrafficEntry>) -> Event {
    let server = ServerName::new("build-box");
    let saved = Saved::Traffic(entries);
    Event::Read(SavedRead::Traffic { task, server }, Some(saved))
}

pub(crate) fn ago(millis: i64) -> Wall {
    Wall(NOW - millis)
}

pub(crate) fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

pub(crate) fn task(name: &str, server: &str, tool: &str, arguments: &str, age: i64) -> TaskView {
    TaskView {
        task: Task {
            resumability: Resumability {
                task: false,
                checkpoint: false,
                stream: Some(true),
            },
            updated_at: ago(0),
            attempts: vec![Attempt {
                number: 1,
                request_id: "k3f9-1".to_owned(),
                token: "k3f9-t1".to_owned(),
                phase: Phase::Open,
                session_number: 1,
                cursors: Cursors {
                    first: Some("s1_0".into()),
                    newest: Some("s1_31".into()),
                    data: Some("s1_30".into()),
                    before: Some("s1_29".into()),
                    is_session_gone: false,
                },
                retry_ms: Some(500),
                last_value: Some(30.0),
                started_at: ago(age),
                ..Attempt::default()
            }],
            seq: 14,
            ..Task::new(
                ago(age),
                NewCall::new(
                    id(name),
                    ServerName::new(server),
                    tool.to_owned(),
                    arguments.to_owned(),
                ),
            )
        },
        contact: Connectivity::Live {
            last_byte: ago(200),
        },
        if_cut: Some(CutReason::Checkpoint { step: Some(30.0) }.into()),
        saved_seq: 14,
        is_unsaved: false,
        unsaved_why: None,
    }
}

pub(crate) fn settled(mut view: TaskView, status: Status, when: i64) -> TaskView {
    view.task.status = status;
    view.task.end.settled_at = Some(ago(when));
    view.contact = Connectivity::Idle;
    view.if_cut = None;
    view
}

pub(crate) fn progress(value: f64, total: Option<f64>, message: Option<&str>) -> Option<Progress> {
    Progress::reported(value, total, message.map(Into::into))
}

/// What was recorded of a call, with a hostile line.
pub(crate) fn recorded(server: &str, task: &str) -> Vec<TrafficEntry> {
    let passed = [
        TrafficKind::Request {
            method: "POST".to_owned(),
            path: "/mcp".to_owned(),
            headers: Vec::new(),
            data: r#"{"jsonrpc":"2.0","id":"k3f9-1","method":"tools/call"}"#.to_owned(),
            left_out: 0,
        },
        TrafficKind::Answer {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
        },
        TrafficKind::Event {
            event: None,
            id: Some("s1_30".to_owned()),
            retry: None,
            data: "{\"method\":\"notifications/progress\"}\u{1b}[2J\u{202e}".to_owned(),
            left_out: 2_500,
        },
        TrafficKind::Lost { count: 3 },
        TrafficKind::End {
            why: "connection reset by peer".to_owned(),
        },
    ];
    let entry = |(place, what): (i64, TrafficKind)| TrafficEntry {
        at: ago(7 * SECOND - 120 * place),
        dir: if place == 0 {
            Direction::Sent
        } else {
            Direction::Received
        },
        exchange: 12,
        server: ServerName::new(server),
        task: Some(id(task)),
        what,
    };
    (0..).zip(passed).map(entry).collect()
}

/// A question that came so long ago.
pub(crate) fn question(key: &str, request: &str, age: i64) -> Question {
    Question {
        earlier: Vec::new(),
        kind: longhaul::domain::QuestionKind::Elicitation,
        key: key.to_owned(),
        source: QuestionSource::TaskInput,
        request: request.to_owned(),
        asked_at: ago(age),
        answer: None,
        is_delivered: false,
        is_unsent: false,
        shared_with: Vec::new(),
        only_for: None,
    }
}

/// The task that asks, with these questions.
pub(crate) fn asking(requests: &[&str]) -> TaskView {
    let mut view = morning().remove(0);
    let questions = requests.iter().enumerate();
    view.task.questions = questions
        .map(|(place, request)| question(&format!("q{place}"), request, 3 * HOUR))
        .collect();
    view
}

/// A server task that is so old and is kept so long.
pub(crate) fn server_task(age: i64, ttl: i64) -> ServerTask {
    ServerTask {
        id: "786512e2-9e0d".to_owned(),
        kind: TaskKind::Extension,
        state: TaskState::Working,
        message: Some("Comparing 41 sources".to_owned()),
        since: ago(age),
        ttl_ms: Some(u64::try_from(ttl).unwrap()),
        poll_ms: None,
        is_bound: None,
        updated: None,
    }
}

/// A form with a field of every kind.
pub(crate) const ROLLOUT: &str = r#"{"message":"Approve the rollout?\nThree hosts are drained at a time.","requestedSchema":{
    "type":"object","required":["hosts","reason"],"properties":{
    "hosts":{"type":"integer","minimum":1,"maximum":9,"default":3,"description":"how many at a time"},
    "reason":{"type":"string","title":"Why now","minLength":3,"description":"goes into the log of changes"},
    "mode":{"type":"string","oneOf":[{"const":"s","title":"Slowly"},{"const":"f","title":"At once"}],"default":"s"},
    "zones":{"type":"array","items":{"type":"string","enum":["eu","us","ap"]},"default":["eu"]},
    "tell":{"type":"boolean","default":true}}}}"#;

/// A page to open, with a host that looks like another.
pub(crate) const VISIT: &str = r#"{"mode":"url","message":"Sign in to the billing system, please.",
    "url":"https://bank.example@xn--pypal-4ve.com:8443/a/very/long/path/that/does/not/fit/into/one/line/of/a/small/screen?state=0123456789abcdef"}"#;

/// The tasks of a morning after: every state that a row can be in.
pub(crate) fn morning() -> Vec<TaskView> {
    let mut asks = task("k3v9ra", "lab", "deploy", r#"{"env":"prod"}"#, 5 * HOUR);
    asks.task.status = Status::InputRequired;
    asks.task.updated_at = ago(3 * HOUR);
    asks.task.questions = vec![question("1.4", ROLLOUT, 3 * HOUR)];
    asks.task.server_task = Some(server_task(3 * HOUR, 5 * HOUR + 38 * MINUTE));
    asks.contact = Connectivity::Idle;
    let mut failed = task("8fw2mc", "build-box", "nightly-eu", "{}", 2 * HOUR);
    failed.task.end.error = Some(TaskError {
        kind: TaskErrorKind::Tool,
        code: None,
        message: "quota exceeded\nsee the console".to_owned(),
        data: None,
    });
    failed.task.progress = progress(620.0, Some(1000.0), None);
    let failed = settled(failed, Status::Failed, 12 * MINUTE);
    let mut lost = task(
        "w4ud2e",
        "lab",
        "render_movie",
        r#"{"scene":12}"#,
        11 * HOUR,
    );
    lost.task.progress = progress(62.0, Some(100.0), None);
    let lost = settled(
        lost,
        Status::Lost(LostReason::SessionGone {
            after_restart: true,
            server_text: None,
        }),
        9 * HOUR,
    );
    let mut running = task(
        "q7m2xk",
        "build-box",
        "resumable_data_processing",
        r#"{"dataset_name":"eu-2026","total_records":50,"batch_size":5}"#,
        7 * SECOND,
    );
    running.task.resumability.checkpoint = true;
    running.task.client_id = Some("c-5p2wq8".to_owned());
    running.task.progress = progress(30.0, Some(50.0), None);
    let mut cut = task(
        "m2hn5t",
        "lab",
        "render_movie",
        r#"{"scene":13}"#,
        123 * SECOND,
    );
    cut.task.progress = progress(140.0, Some(1000.0), None);
    cut.contact = Connectivity::Reconnecting {
        attempt: 1,
        next: Wall(NOW + 4 * SECOND),
        why: "connection reset by peer".to_owned(),
    };
    cut.if_cut = Some(IfCut {
        reason: CutReason::EventStore,
        until: Some(Wall(NOW + 28 * MINUTE)),
    });
    let mut pausing = task(
        "t9x4gz",
        "build-box",
        "reindex",
        r#"{"shard":4}"#,
        51 * MINUTE,
    );
    pausing.task.progress = progress(2100.0, Some(4600.0), None);
    pausing.task.resumability.checkpoint = true;
    pausing.task.control = Some(ControlRequest {
        what: ControlKind::Pausing,
        at: ago(8 * SECOND),
    });
    let mut moving = task(
        "pd6xw8",
        "ci",
        "ask_research",
        r#"{"topic":"tariffs"}"#,
        72 * MINUTE,
    );
    moving.task.progress = progress(41.0, None, Some("sources"));
    moving.task.resumability.stream = Some(false);
    moving.if_cut = Some(CutReason::NoEventIds.into());
    let mut done = task(
        "c5b8yp",
        "build-box",
        "get_forecast",
        r#"{"city":"Lisbon"}"#,
        100 * MINUTE + 6 * SECOND,
    );
    done.task.end.result_line = Some("Sunny, 21 °C".to_owned());
    done.task.end.result_bytes = Some(312);
    let done = settled(done, Status::Completed, 100 * MINUTE);
    let mut seen = task("h7r2dd", "ci", "lint", r#"{"branch":"main"}"#, 9 * HOUR);
    seen.task.end.is_seen = true;
    let seen = settled(seen, Status::Cancelled, 8 * HOUR);
    vec![
        asks, failed, lost, running, cut, pausing, moving, done, seen,
    ]
}

/// What some tasks of that morning were doing when.
pub(crate) fn lives() -> Vec<(TaskId, Vec<Milestone>)> {
    let turns = |name: &str, turns: &[(i64, Turn)]| {
        let turns = turns.iter().map(|(before, turn)| (ago(*before), *turn));
        (id(name), turns.collect())
    };
    vec![
        turns(
            "k3v9ra",
            &[
                (8 * HOUR, Turn::Sent),
                (5 * HOUR, Turn::Disconnected),
                (5 * HOUR - 6 * MINUTE, Turn::Connected),
                (3 * HOUR, Turn::Asking),
            ],
        ),
        turns(
            "w4ud2e",
            &[
                (9 * HOUR, Turn::Sent),
                (7 * HOUR, Turn::Unwatched),
                (4 * HOUR, Turn::Connected),
            ],
        ),
        turns(
            "t9x4gz",
            &[
                (51 * MINUTE, Turn::Sent),
                (40 * MINUTE, Turn::Paused),
                (20 * MINUTE, Turn::Running),
            ],
        ),
        turns("pd6xw8", &[(72 * MINUTE, Turn::Sent)]),
        turns(
            "q7m2xk",
            &[
                (7 * SECOND, Turn::Sent),
                (4 * SECOND, Turn::Disconnected),
                (2 * SECOND, Turn::Connected),
            ],
        ),
    ]
}

pub(crate) fn server(name: &str, state: LinkState) -> ServerView {
    ServerView {
        name: ServerName::new(name),
        url: format!("http://127.0.0.1:8931/{name}"),
        state,
        obstacle: None,
        era: "2025-11-25".to_owned(),
        era_why: "the server supports no newer revision".to_owned(),
        server_info: Some("demo 0.1.0".to_owned()),
        tools: Some(8),
        capabilities: longhaul::domain::ServerCapabilities {
            gives_ids: Some(name != "ci"),
            ..Default::default()
        },
        requests: 42,
        gone_from: None,
        waiting_config: None,
        latency: Some(Duration::from_millis(12)),
    }
}

pub(crate) fn servers() -> Vec<ServerView> {
    vec![
        server("build-box", LinkState::Live),
        server(
            "lab",
            LinkState::Down {
                since: ago(12 * SECOND),
                tries: 1,
                next: Wall(NOW + 4 * SECOND),
                why: "connection refused".to_owned(),
            },
        ),
        server("ci", LinkState::Live),
    ]
}

pub(crate) fn tools() -> Vec<Tool> {
    let tool = |name: &str, description: &str, schema: &str| Tool {
        name: name.to_owned(),
        title: None,
        description: Some(description.to_owned()),
        input_schema: schema.to_owned(),
        read_only: None,
        destructive: None,
        idempotent: None,
        task_support: longhaul::domain::TaskSupport::Forbidden,
        fault: None,
    };
    vec![
        tool(
            "resumable_data_processing",
            "Processes a dataset in batches and keeps a checkpoint after each.",
            r#"{"type":"object","required":["dataset_name"],"properties":{
                "dataset_name":{"type":"string","description":"what to process"},
                "total_records":{"type":"integer","default":100},
                "batch_size":{"type":"integer","default":10},
                "speed":{"enum":["slow","fast"],"default":"slow"},
                "verbose":{"type":"boolean"},
                "client_id":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}}}"#,
        ),
        tool(
            "get_forecast",
            "The weather of a city, after six seconds.",
            r#"{"type":"object","required":["city"],"properties":{"city":{"type":"string"}}}"#,
        ),
        tool("pause_task", "Asks a run to stop after its batch.", "{}"),
        tool(
            "list_session_tasks",
            "Lists the checkpoints of a client.",
            "{}",
        ),
    ]
}

pub(crate) fn history() -> Vec<HistoryEntry> {
    let entry = |seq: u64, ago_s: i64, what: HistoryEvent| HistoryEntry {
        seq,
        at: ago(ago_s * SECOND),
        attempt: 1,
        event_id: None,
        what,
    };
    let log = |data: &str| HistoryEvent::Log {
        level: LogLevel::Info,
        logger: None,
        data: data.to_owned(),
    };
    let step = |value: f64| {
        HistoryEvent::Progress(Progress {
            value,
            total: Some(50.0),
            message: None,
        })
    };
    vec![
        entry(
            1,
            9,
            HistoryEvent::Started {
                era: "2025-11-25".to_owned(),
                resumability: "checkpoint".to_owned(),
            },
        ),
        entry(2, 8, log("Resuming processing from record 15")),
        entry(3, 7, log("Processed 15/50 records")),
        entry(4, 7, step(15.0)),
        entry(
            5,
            6,
            HistoryEvent::Contact {
                state: "reconnecting".to_owned(),
                why: "connection reset by peer".to_owned(),
            },
        ),
        entry(
            6,
            4,
            HistoryEvent::Contact {
                state: "live".to_owned(),
                why: "reconnected after 2.1 s: 3 events replayed, 0 missing".to_owned(),
            },
        ),
        entry(7, 3, step(20.0)),
        entry(8, 3, log("Processed 25/50 records")),
        entry(9, 2, step(25.0)),
        entry(10, 2, log("Processed 30/50 records")),
        entry(11, 2, step(30.0)),
        entry(
            12,
            1,
            HistoryEvent::Log {
                level: LogLevel::Warning,
                logger: Some("disk".to_owned()),
                data: "nearly full: a long line that goes on and on until it has to be cut or wrapped somewhere, which is what w is for".to_owned(),
            },
        ),
        entry(
            13,
            1,
            HistoryEvent::Log {
                level: LogLevel::Debug,
                logger: None,
                data: "\u{1b}[31mhostile\u{7} bytes".to_owned(),
            },
        ),
        entry(14, 0, log("Processed 31/50 records")),
    ]
}

/// The program in a test: a state, the time, and what it asked for.
pub(crate) struct Screen {
    pub(crate) state: State,
    pub(crate) now: Stamp,
    pub(crate) size: (u16, u16),
    pub(crate) todo: Vec<Command>,
}

impl Screen {
    pub(crate) fn new(size: (u16, u16), look: Look) -> Self {
        let mut screen = Self {
            state: State::new(Setup {
                look,
                seed: 7,
                ..Setup::default()
            }),
            now: at(0),
            size,
            todo: Vec::new(),
        };
        screen.event(Event::Input(UserInput::Resize(size.0, size.1)));
        screen
    }

    /// The morning after, with the cursor on the running task and its history read.
    pub(crate) fn morning(size: (u16, u16), look: Look) -> Self {
        let mut screen = Self::new(size, look);
        screen.now = at(-3 * SECOND);
        // Restored first, so that the banner has something to count from.
        let views = morning()
            .into_iter()
            .map(|mut view| {
                view.task.seq = 1;
                if !view.task.status.is_settled() {
                    view.contact = Connectivity::Unwatched {
                        as_of: ago(6 * HOUR + 21 * MINUTE),
                    };
                }
                Arc::new(view)
            })
            .collect();
        screen.event(Event::Restored {
            watched_at: Some(ago(6 * HOUR + 21 * MINUTE)),
            views,
            servers: servers(),
            saved_at: Some(ago(6 * HOUR + 21 * MINUTE)),
        });
        // Two steps before the present one, so that there is a rate.
        for (before, value) in [(3, 15.0), (2, 20.0), (1, 25.0)] {
            screen.now = at(-before * SECOND);
            let mut view = morning().remove(3);
            view.task.progress = progress(value, Some(50.0), None);
            screen.event(Event::Session(SessionEvent::Task(Arc::new(view))));
            let cut = morning().remove(4);
            screen.event(Event::Session(SessionEvent::Task(Arc::new(cut))));
        }
        screen.now = at(0);
        for view in morning() {
            screen.event(Event::Session(SessionEvent::Task(Arc::new(view))));
        }
        screen.go_to("q7m2xk");
        screen.event(history_read(id("q7m2xk"), history()));
        screen
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.todo.extend(update(&mut self.state, event, self.now));
    }

    pub(crate) fn keys(&mut self, keys: &str) -> &mut Self {
        for key in keys.split_whitespace() {
            let chord: Chord = key.parse().unwrap();
            self.event(Event::Input(UserInput::Key(chord)));
        }
        self
    }

    pub(crate) fn type_in(&mut self, words: &str) -> &mut Self {
        self.event(Event::Input(UserInput::Paste(words.to_owned())));
        self
    }

    /// What the shell does: a frame is drawn, and time to read it passes.
    pub(crate) fn read(&mut self) -> &mut Self {
        self.state.drawn(self.now);
        self.wait(1_000)
    }

    /// The news of a task.
    pub(crate) fn news(&mut self, view: TaskView) -> &mut Self {
        self.event(Event::Session(SessionEvent::Task(Arc::new(view))));
        self
    }

    /// The morning after with the question of `k3v9ra` open, read, and its answers still to give.
    pub(crate) fn asked(size: (u16, u16), look: Look, requests: &[&str]) -> Self {
        let mut screen = Self::morning(size, look);
        screen.news(asking(requests));
        screen.go_to("k3v9ra").keys("enter").read();
        screen.todo.clear();
        screen
    }

    /// Time passes, once what came before is on the screen.
    pub(crate) fn wait(&mut self, millis: i64) -> &mut Self {
        self.state.drawn(self.now);
        let wait = Duration::from_millis(u64::try_from(millis).unwrap());
        self.now = Stamp {
            mono: self.now.mono.after(wait),
            wall: self.now.wall.after(wait),
        };
        self.event(Event::Tick);
        self
    }

    pub(crate) fn go_to(&mut self, name: &str) -> &mut Self {
        self.keys("g");
        for _ in 0..40 {
            if self.state.list.cursor == Some(id(name)) {
                break;
            }
            self.keys("j");
        }
        assert_eq!(self.state.list.cursor, Some(id(name)));
        self
    }

    /// Takes what some tasks were doing when, as if it had been read from the session file.
    pub(crate) fn read_lives(&mut self) -> &mut Self {
        self.read_milestones(lives())
    }

    pub(crate) fn read_milestones(&mut self, read: Vec<(TaskId, Vec<Milestone>)>) -> &mut Self {
        let asked = SavedRead::Milestones(Vec::new());
        self.event(Event::Read(asked, Some(Saved::Milestones(read))));
        self
    }

    /// Answers the newest ask for tools.
    pub(crate) fn answer_tools(&mut self) -> &mut Self {
        self.answer_with(tools())
    }

    /// Answers the newest ask for tools with these.
    pub(crate) fn answer_with(&mut self, tools: Vec<Tool>) -> &mut Self {
        self.answer_tools_with(Ok(SessionResponse::Tools(tools)))
    }

    /// The answer is this refusal.
    pub(crate) fn refuse_tools(&mut self, words: &str) -> &mut Self {
        self.answer_tools_with(Err(RequestError::NeedsLogin(words.to_owned())))
    }

    fn answer_tools_with(&mut self, outcome: Result<SessionResponse, RequestError>) -> &mut Self {
        let ask = self.todo.iter().rev().find_map(|command| match command {
            Command::Request(ask, SessionRequest::Tools(_)) => Some(*ask),
            _ => None,
        });
        self.event(Event::Session(SessionEvent::Response {
            request: ask.unwrap(),
            outcome,
        }));
        self
    }

    /// The text alone, which is quicker.
    pub(crate) fn draw_text(&self) -> String {
        let mut terminal = Terminal::new(TestBackend::new(self.size.0, self.size.1)).unwrap();
        let frame = terminal
            .draw(|frame| ui::view(frame, &self.state, self.now))
            .unwrap();
        frame
            .buffer
            .content()
            .iter()
            .map(ratatui::buffer::Cell::symbol)
            .collect()
    }

    pub(crate) fn draw(&self) -> String {
        let mut terminal = Terminal::new(TestBackend::new(self.size.0, self.size.1)).unwrap();
        terminal
            .draw(|frame| ui::view(frame, &self.state, self.now))
            .unwrap();
        picture(terminal.backend().buffer())
    }
}

/// The text of a buffer, then its style runs, one line a row.
pub(crate) fn picture(buffer: &Buffer) -> String {
    let area = buffer.area;
    let mut text = String::new();
    let mut styles = String::new();
    for y in 0..area.height {
        let mut line = String::new();
        let mut runs: Vec<(u16, u16, String)> = Vec::new();
        let mut skip = 0;
        for x in 0..area.width {
            let cell = &buffer[(x, y)];
            if skip > 0 {
                skip -= 1;
            } else {
                line.push_str(cell.symbol());
                skip = longhaul::domain::text::width(cell.symbol()).saturating_sub(1);
            }
            let style = style_word(cell.fg, cell.bg, cell.modifier);
            match runs.last_mut() {
                Some((_, end, word)) if *word == style && *end + 1 == x => *end = x,
                _ => runs.push((x, x, style)),
            }
        }
        let _ = writeln!(text, "{}", line.trim_end());
        let runs: Vec<String> = runs
            .into_iter()
            .filter(|(_, _, word)| !word.is_empty())
            .map(|(from, to, word)| format!("{from}-{to} {word}"))
            .collect();
        if !runs.is_empty() {
            let _ = writeln!(styles, "{y:>3}: {}", runs.join(", "));
        }
    }
    format!("{text}--- styles\n{styles}")
}

pub(crate) fn style_word(fg: Color, bg: Color, modifier: Modifier) -> String {
    let mut words = Vec::new();
    if fg != Color::Reset {
        words.push(format!("{fg:?}").to_lowercase());
    }
    if bg != Color::Reset {
        words.push(format!("on-{bg:?}").to_lowercase());
    }
    for (flag, word) in [
        (Modifier::BOLD, "bold"),
        (Modifier::DIM, "dim"),
        (Modifier::UNDERLINED, "underlined"),
        (Modifier::REVERSED, "reversed"),
    ] {
        if modifier.contains(flag) {
            words.push(word.to_owned());
        }
    }
    words.join("+")
}

pub(crate) const WIDE: (u16, u16) = (120, 36);
pub(crate) const USUAL: (u16, u16) = (80, 24);
pub(crate) const SMALL: (u16, u16) = (60, 15);

pub(crate) fn colour() -> Look {
    Look::default()
}

pub(crate) fn mono() -> Look {
    Look {
        no_color: true,
        ..Look::default()
    }
}

pub(crate) fn ascii() -> Look {
    Look {
        no_color: true,
        ascii: true,
        no_motion: true,
        ..Look::default()
    }
}

/// What was asked of the session.
pub(crate) fn asks(screen: &Screen) -> Vec<SessionRequest> {
    screen
        .todo
        .iter()
        .filter_map(|command| match command {
            Command::Request(_, ask) => Some(ask.clone()),
            _ => None,
        })
        .collect()
}

/// The reply to the last key.
pub(crate) fn answer(screen: &Screen) -> String {
    screen
        .state
        .messages
        .reply
        .as_ref()
        .map_or(String::new(), |reply| reply.text.clone())
}

/// The form of a call, which is on top.
pub(crate) fn call_form(screen: &Screen) -> &longhaul::app::CallForm {
    match screen.state.dialogs.stack.last() {
        Some(longhaul::app::Overlay::Call(form)) => form,
        other => panic!("{other:?}"),
    }
}

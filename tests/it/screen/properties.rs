//! Any events on any size.

use std::sync::Arc;

use longhaul::{
    app::{Event, Look, UserInput, keymap},
    domain::{
        Chord, Connectivity, CutOutcome, HistoryEntry, HistoryEvent, Key, LinkState, LogLevel,
        LostReason, Notice, NoticeLevel, Progress, Saved, SavedRead, SessionDriver, SessionEvent,
        SessionResponse, Status, TaskId, UnknownReason, Wall,
    },
};
use proptest::prelude::*;

use super::support::*;

#[derive(Clone, Debug)]
enum Step {
    Key(Chord),
    Paste(String),
    Resize(u16, u16),
    Task {
        number: u64,
        status: u8,
        contact: u8,
        text: String,
        value: f64,
        total: Option<f64>,
    },
    Erased(u64),
    Server(u8, String),
    Tools,
    Notice(String),
    History(u64, String),
    Result(u64, String),
    Wire(u64, String),
    Wait(i64),
    Driver(bool),
    Restored(String),
}

fn any_chord() -> impl Strategy<Value = Chord> {
    let bound: Vec<Chord> = keymap::BINDINGS
        .iter()
        .flat_map(|binding| binding.chords)
        .map(|chord| chord.parse().unwrap())
        // ExitWhen ends the test early; it is tried less often, below.
        .filter(|chord| *chord != Chord::ctrl('c') && *chord != Chord::char('q'))
        .collect();
    prop_oneof![
        12 => prop::sample::select(bound),
        3 => any::<char>().prop_map(Chord::char),
        1 => Just(Chord::plain(Key::Backspace)),
        1 => Just(Chord::char('q')),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => any_chord().prop_map(Step::Key),
        1 => ".{0,40}".prop_map(Step::Paste),
        2 => (0_u16..=300, 0_u16..=200).prop_map(|(columns, rows)| Step::Resize(columns, rows)),
        6 => (0_u64..12, any::<u8>(), any::<u8>(), ".{0,60}", -1.0..1e17_f64, prop::option::of(-1.0..1e17_f64))
            .prop_map(|(number, status, contact, text, value, total)| Step::Task {
                number, status, contact, text, value, total
            }),
        1 => (0_u64..12).prop_map(Step::Erased),
        1 => (any::<u8>(), ".{0,30}").prop_map(|(state, text)| Step::Server(state, text)),
        1 => Just(Step::Tools),
        1 => ".{0,90}".prop_map(Step::Notice),
        2 => (0_u64..12, ".{0,90}").prop_map(|(number, text)| Step::History(number, text)),
        1 => (0_u64..12, ".{0,90}").prop_map(|(number, text)| Step::Result(number, text)),
        1 => (0_u64..12, ".{0,90}").prop_map(|(number, text)| Step::Wire(number, text)),
        2 => (0_i64..100_000).prop_map(Step::Wait),
        1 => any::<bool>().prop_map(Step::Driver),
        1 => ".{0,20}".prop_map(Step::Restored),
    ]
}

fn name_of(number: u64) -> TaskId {
    TaskId::from_bits(number)
}

fn view(number: u64, status: u8, contact: u8, text: &str) -> longhaul::domain::TaskView {
    let mut view = morning().remove(usize::try_from(number).unwrap() % 9);
    view.task.id = name_of(number);
    text.clone_into(&mut view.task.tool);
    view.task.notice = Some(text.to_owned());
    view.task.arguments = serde_json::json!({ text: text, "n": number }).to_string();
    view.task.forgotten_at = (status == 17).then_some(Wall(NOW));
    view.is_unsaved = status == 18;
    view.task.status = match status % 9 {
        0 => Status::InputRequired,
        1 => Status::Paused,
        2 => Status::Completed,
        3 => Status::Failed,
        4 => Status::Cancelled,
        5 => Status::Lost(LostReason::GivenUp),
        6 => Status::Unknown(UnknownReason::NoIds),
        _ => Status::Running,
    };
    view.task.end.settled_at = view.task.status.is_settled().then_some(Wall(NOW));
    view.contact = match contact % 7 {
        0 => Connectivity::Idle,
        1 => Connectivity::NeedsLogin,
        2 => Connectivity::Reconnecting {
            attempt: 3,
            next: Wall(NOW + 5),
            why: text.to_owned(),
        },
        3 => Connectivity::Offline {
            since: Wall(NOW),
            next: Wall(NOW + 9),
            why: text.to_owned(),
        },
        4 => Connectivity::Unwatched { as_of: Wall(NOW) },
        5 => Connectivity::Quiet {
            last_byte: Wall(NOW),
        },
        _ => Connectivity::Live {
            last_byte: Wall(NOW),
        },
    };
    view
}

fn take(screen: &mut Screen, step: &Step) {
    let event = match step {
        Step::Key(chord) => Event::Input(UserInput::Key(*chord)),
        Step::Paste(text) => Event::Input(UserInput::Paste(text.clone())),
        Step::Resize(columns, rows) => {
            screen.size = (*columns, *rows);
            Event::Input(UserInput::Resize(*columns, *rows))
        }
        Step::Task {
            number,
            status,
            contact,
            text,
            value,
            total,
        } => {
            let mut view = view(*number, *status, *contact, text);
            view.task.progress = progress(*value, *total, Some(text));
            Event::Session(SessionEvent::Task(Arc::new(view)))
        }
        Step::Erased(number) => Event::Session(SessionEvent::Erased(name_of(*number))),
        Step::Server(state, text) => {
            let state = match state % 5 {
                0 => LinkState::Idle,
                1 => LinkState::Connecting,
                2 => LinkState::Live,
                3 => LinkState::NeedsLogin {
                    why: text.clone(),
                    takes_sign_in: true,
                },
                _ => LinkState::Down {
                    since: Wall(NOW),
                    tries: u32::MAX,
                    next: Wall(NOW + 1),
                    why: text.clone(),
                },
            };
            Event::Session(SessionEvent::Server(Arc::new(server(text, state))))
        }
        Step::Tools => {
            let ask = screen.todo.iter().rev().find_map(|command| match command {
                longhaul::app::Command::Request(
                    ask,
                    longhaul::domain::SessionRequest::Tools(_),
                ) => Some(*ask),
                _ => None,
            });
            Event::Session(SessionEvent::Response {
                request: ask.unwrap_or(0),
                outcome: Ok(SessionResponse::Tools(tools())),
            })
        }
        Step::Notice(text) => Event::Session(SessionEvent::Notice(Notice {
            at: Wall(NOW),
            level: NoticeLevel::Warning,
            text: text.clone(),
        })),
        Step::History(number, text) => {
            let task = name_of(*number);
            let entries = (1..60)
                .map(|seq| HistoryEntry {
                    seq,
                    at: Wall(NOW),
                    attempt: 1,
                    event_id: None,
                    what: match seq % 3 {
                        0 => HistoryEvent::Contact {
                            state: "live".to_owned(),
                            why: text.clone(),
                        },
                        1 => HistoryEvent::Progress(Progress {
                            value: 1.0,
                            total: None,
                            message: Some(text.as_str().into()),
                        }),
                        _ => HistoryEvent::Log {
                            level: LogLevel::Error,
                            logger: None,
                            data: text.clone(),
                        },
                    },
                })
                .collect();
            let saved = Saved::History {
                entries,
                dropped: 7,
            };
            Event::Read(SavedRead::History { task, after_seq: 0 }, Some(saved))
        }
        Step::Result(number, text) => result_read(
            name_of(*number),
            serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string(),
        ),
        Step::Wire(number, text) => {
            let task = name_of(*number);
            let mut entries = recorded(text, task.as_str());
            for entry in &mut entries {
                if let longhaul::domain::TrafficKind::Event { data, .. } = &mut entry.what {
                    data.clone_from(text);
                }
            }
            traffic_read(task, entries)
        }
        Step::Wait(millis) => {
            screen.wait(*millis);
            return;
        }
        Step::Driver(is_us) => Event::Session(SessionEvent::Driver(SessionDriver {
            pid: 1,
            is_us: *is_us,
            is_keeper: false,
            since: Wall(0),
        })),
        Step::Restored(text) => Event::Restored {
            watched_at: None,
            views: (0..5)
                .map(|number| Arc::new(view(number, 8, 4, text)))
                .collect(),
            servers: servers(),
            saved_at: Some(ago(HOUR)),
        },
    };
    screen.event(event);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_at_any_size_draw_with_a_valid_cursor(
        steps in prop::collection::vec(any_step(), 0..60),
        columns in 0_u16..=300,
        rows in 0_u16..=120,
        is_ascii: bool,
    ) {
        let look = Look { no_color: true, ascii: is_ascii, ..Look::default() };
        let mut screen = Screen::new((columns, rows), look);
        screen.state.setup.is_demo = is_ascii;
        for step in &steps {
            take(&mut screen, step);
            if let Some(cursor) = &screen.state.list.cursor {
                let task_row = screen.state.tasks.get(cursor);
                prop_assert!(task_row.is_some_and(|task_row| task_row.view.task.forgotten_at.is_none())
                    || screen.state.list.rows.is_empty(), "the cursor is on {cursor}");
                let line = screen.state.list.rows.get(screen.state.list.cursor_row);
                prop_assert_eq!(line, Some(&longhaul::app::ListRow::Task(cursor.clone())));
            } else {
                let has_row = screen.state.list.rows.iter().any(|line| matches!(line, longhaul::app::ListRow::Task(_)));
                prop_assert!(!has_row, "rows without a cursor");
            }
            prop_assert!(screen.state.messages.toasts.len() <= 3);
            let drawn = screen.draw_text();
            if is_ascii {
                prop_assert!(drawn.is_ascii());
            }
            for letter in drawn.chars() {
                prop_assert!(letter == '\n' || !letter.is_control(), "{letter:?} reached the screen");
            }
        }
    }

    #[test]
    fn the_counts_agree_with_counting(steps in prop::collection::vec(any_step(), 0..80)) {
        let mut screen = Screen::new((100, 30), colour());
        for step in &steps {
            take(&mut screen, step);
        }
        let living = || screen.state.kept_tasks();
        let open = living().filter(|task_row| !task_row.view.task.status.is_settled()).count();
        prop_assert_eq!(screen.state.open_tasks().count(), open);
        let counts = screen.state.totals.counts;
        prop_assert_eq!(counts.needs + counts.running + counts.queued + counts.paused + counts.finished, living().count());
        let unsaved = living().filter(|task_row| task_row.view.is_unsaved).count();
        prop_assert_eq!(counts.unsaved, unsaved);
        let calls = |outcome| longhaul::app::open_calls(&screen.state, outcome);
        let (lost, continues) = (calls(CutOutcome::Lost), calls(CutOutcome::Continues));
        let line = longhaul::app::quit_lines(&screen.state).remove(0).1;
        if longhaul::app::other_driver(&screen.state).is_none() {
            prop_assert_eq!(line.contains("LOST"), !lost.is_empty(), "{}", line);
            let words = format!("{} continue", continues.len());
            prop_assert_eq!(line.contains(&words), !continues.is_empty(), "{}", line);
        }
    }
}

#[test]
fn every_size_draws_the_full_screen_and_every_dialog() {
    for keys in [
        "",
        "q",
        "x",
        "?",
        ":",
        "y",
        "e",
        "esc n",
        "esc n enter",
        "R",
        "z",
        "2",
        "3",
        "4",
    ] {
        let mut screen = Screen::morning(WIDE, mono());
        screen.keys(keys);
        at_every_size(&mut screen);
    }
    let long = format!(
        r#"{{"message":"{}","mode":"url","url":"https://h/{}"}}"#,
        "word \\n".repeat(200),
        "x".repeat(3000)
    );
    for (request, keys) in [
        (ROLLOUT, ""),
        (ROLLOUT, "tab tab tab tab right ctrl-s"),
        (VISIT, "o"),
        (&long, "tab"),
        ("no json", "tab right"),
    ] {
        let mut screen = Screen::asked(WIDE, mono(), &[request]);
        screen.keys(keys);
        at_every_size(&mut screen);
    }
}

fn at_every_size(screen: &mut Screen) {
    for columns in (0..=300).step_by(13).chain(0..12) {
        for rows in (0..=90).step_by(7).chain(0..12) {
            screen.size = (columns, rows);
            screen.event(Event::Input(UserInput::Resize(columns, rows)));
            screen.draw_text();
        }
    }
}

//! The loop in process: the real loop, state and picture; terminal, engine, session file and clock are made up here.
//!
//! Time moves only when the loop sleeps, and then to whatever comes first: the loop's own timer or the next line of the
//! script. So a minute takes no time, and a loop that does not sleep is seen.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test fail by panic, as the test does"
)]

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use longhaul::{
    app::{Command, Event, Setup, State, TerminalCommand, UserInput},
    domain::{
        Chord, Connectivity, CutReason, HistoryEntry, HistoryEvent, IfCut, Key, LogLevel, Mono,
        NewCall, Progress, Question, QuestionSource, Saved, SavedRead, ServerName, SessionDriver,
        SessionEvent, SessionRequest, Stamp, Status, Task, TaskEnd, TaskId, TaskView, Wall,
    },
    shell::{self, Outcome, Services, TerminalEvent, TerminalSurface, Time},
    ui,
};
use ratatui::{Terminal, backend::TestBackend};

/// Turns that the loop may take while time stands still.
const TURNS_AT_ONCE: u32 = 1_000;
/// When the script begins; some time after the start of the process.
const BEGIN: u64 = 60_000;
/// 2026-11-20T06:52:00Z, at the full minute.
const WALL: i64 = 1_795_157_520_000;

/// A line of the script.
#[derive(Clone, Debug)]
enum Line {
    TerminalEvent(TerminalEvent),
    News(Event),
}

/// How the terminal behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Screen {
    #[default]
    Whole,
    Gone,
    GivenBack,
    Panics,
}

#[derive(Debug, Default)]
struct World {
    mono: u64,
    script: VecDeque<(u64, Line)>,
    inputs: VecDeque<TerminalEvent>,
    news: Vec<Event>,
    /// Until when the loop sleeps.
    timer: Option<u64>,
    /// Every time at which the loop woke by its own timer.
    wakes: Vec<u64>,
    /// How often it looked for news.
    looks: usize,
    draws: Vec<(u64, String)>,
    commands: Vec<TerminalCommand>,
    asks: Vec<SessionRequest>,
    reads: Vec<(TaskId, u64)>,
    history: Vec<HistoryEntry>,
    is_file_broken: bool,
    screen: Screen,
}

type Shared = Rc<RefCell<World>>;

struct FakeTerminal(Shared, Terminal<TestBackend>);
struct FakeServices(Shared);
struct FakeTime(Shared);

impl TerminalSurface for FakeTerminal {
    async fn next(&mut self) -> TerminalEvent {
        poll_fn(|_| match self.0.borrow_mut().inputs.pop_front() {
            Some(outside) => Poll::Ready(outside),
            None => Poll::Pending,
        })
        .await
    }

    fn drain(&mut self, limit: usize) -> Vec<UserInput> {
        let mut world = self.0.borrow_mut();
        let mut inputs = Vec::new();
        while inputs.len() < limit
            && let Some(TerminalEvent::Input(input)) = world.inputs.front()
        {
            inputs.push(input.clone());
            world.inputs.pop_front();
        }
        inputs
    }

    fn draw(&mut self, state: &State, now: Stamp) -> io::Result<bool> {
        let screen = self.0.borrow().screen;
        match screen {
            Screen::Whole => {}
            Screen::Gone => return Err(io::Error::from_raw_os_error(5)),
            Screen::GivenBack => return Err(io::ErrorKind::NotConnected.into()),
            Screen::Panics => panic!("on purpose"),
        }
        self.1.draw(|frame| ui::view(frame, state, now)).unwrap();
        let picture = self.1.backend().to_string();
        let mut world = self.0.borrow_mut();
        let has_changed = world.draws.last().is_none_or(|(_, last)| *last != picture);
        world.draws.push((now.mono.0, picture));
        Ok(has_changed)
    }

    async fn carry_out(&mut self, command: TerminalCommand) -> io::Result<Option<Event>> {
        self.0.borrow_mut().commands.push(command);
        Ok(None)
    }
}

impl Services for FakeServices {
    async fn changed(&mut self) {
        poll_fn(|_| {
            if self.0.borrow().news.is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    fn take(&mut self) -> Vec<Event> {
        let mut world = self.0.borrow_mut();
        world.looks += 1;
        std::mem::take(&mut world.news)
    }

    fn carry_out(&mut self, command: Command) -> Vec<Event> {
        let mut world = self.0.borrow_mut();
        match command {
            Command::Request(_, what) => world.asks.push(what),
            Command::Read(SavedRead::History { task, after_seq }) => {
                world.reads.push((task.clone(), after_seq));
                let failed = world.is_file_broken.then(|| {
                    Event::Failed("could not read the session: the disk is gone".to_owned())
                });
                let is_new = |entry: &&HistoryEntry| failed.is_none() && entry.seq > after_seq;
                let saved = Saved::History {
                    entries: world.history.iter().filter(is_new).cloned().collect(),
                    dropped: 0,
                };
                let read = SavedRead::History { task, after_seq };
                let history = Event::Read(read, Some(saved));
                return std::iter::once(history).chain(failed.clone()).collect();
            }
            _ => {}
        }
        Vec::new()
    }
}

impl Time for FakeTime {
    fn now(&self) -> Stamp {
        stamp(self.0.borrow().mono)
    }

    async fn sleep_until(&self, at: Mono) {
        poll_fn(|_| {
            let mut world = self.0.borrow_mut();
            if world.mono >= at.0 {
                let now = world.mono;
                world.wakes.push(now);
                return Poll::Ready(());
            }
            world.timer = Some(at.0);
            Poll::Pending
        })
        .await;
    }
}

fn stamp(mono: u64) -> Stamp {
    Stamp {
        mono: Mono(mono),
        wall: Wall(WALL + i64::try_from(mono - BEGIN).unwrap()),
    }
}

/// What the loop did.
struct Played {
    world: World,
    outcome: Outcome,
}

impl Played {
    /// The frames of a span, in milliseconds of the script.
    fn draws(&self, span: std::ops::Range<u64>) -> Vec<&str> {
        let is_in = |at: u64| span.contains(&(at - BEGIN));
        let draws = self.world.draws.iter().filter(|(at, _)| is_in(*at));
        draws.map(|(_, picture)| picture.as_str()).collect()
    }

    fn last(&self) -> &str {
        &self.world.draws.last().unwrap().1
    }
}

/// Plays a script to the end of the program.
fn play(script: Vec<(u64, Line)>) -> Played {
    play_in(World::default(), script)
}

fn play_in(world: World, script: Vec<(u64, Line)>) -> Played {
    let mut script = script;
    script.sort_by_key(|(at, _)| *at);
    let world = World {
        mono: BEGIN,
        script: script
            .into_iter()
            .map(|(at, line)| (BEGIN + at, line))
            .collect(),
        ..world
    };
    let world = Rc::new(RefCell::new(world));
    let terminal = Terminal::new(TestBackend::new(120, 36)).unwrap();
    let mut terminal = FakeTerminal(Rc::clone(&world), terminal);
    let mut services = FakeServices(Rc::clone(&world));
    let time = FakeTime(Rc::clone(&world));
    let mut state = State::new(Setup::default());
    let todo = longhaul::app::update(
        &mut state,
        Event::Input(UserInput::Resize(120, 36)),
        stamp(BEGIN),
    );
    assert!(
        todo.iter()
            .all(|command| matches!(command, Command::Terminal(TerminalCommand::SetTitle(_))))
    );
    let outcome = {
        let mut turns = pin!(shell::run(&mut terminal, &mut services, &time, &mut state));
        let mut context = Context::from_waker(Waker::noop());
        let mut stood_still = 0;
        loop {
            world.borrow_mut().timer = None;
            if let Poll::Ready(outcome) = turns.as_mut().poll(&mut context) {
                break outcome;
            }
            let before = world.borrow().mono;
            let is_moving = pass_time(&mut world.borrow_mut());
            assert!(is_moving, "the script ended and the program did not");
            stood_still = if world.borrow().mono == before {
                stood_still + 1
            } else {
                0
            };
            assert!(stood_still < TURNS_AT_ONCE, "the loop does not sleep");
        }
    };
    drop((terminal, services, time));
    let world = Rc::into_inner(world).unwrap().into_inner();
    Played { world, outcome }
}

/// Moves time to whatever comes first; false if nothing will come.
fn pass_time(world: &mut World) -> bool {
    let next_line = world.script.front().map(|(at, _)| *at);
    let Some(next) = [next_line, world.timer].into_iter().flatten().min() else {
        return false;
    };
    world.mono = world.mono.max(next);
    while let Some((at, _)) = world.script.front()
        && *at <= world.mono
    {
        match world.script.pop_front().unwrap().1 {
            Line::TerminalEvent(outside) => world.inputs.push_back(outside),
            Line::News(event) => world.news.push(event),
        }
    }
    // A finished script can't end the loop; its timers would run forever.
    world.mono < BEGIN + 3_600_000
}

fn chord(chord: Chord) -> Line {
    Line::TerminalEvent(TerminalEvent::Input(UserInput::Key(chord)))
}

fn key(letter: char) -> Line {
    chord(Chord::char(letter))
}

fn end(at: u64) -> (u64, Line) {
    (at, Line::TerminalEvent(TerminalEvent::Signal(15)))
}

fn news(news: SessionEvent) -> Line {
    Line::News(Event::Session(news))
}

#[test]
fn a_question_counts_keys_only_once_its_frame_was_drawn() {
    let mut asking = task(1, Status::InputRequired);
    asking.questions = vec![Question {
        earlier: Vec::new(),
        kind: longhaul::domain::QuestionKind::Elicitation,
        key: "q".to_owned(),
        source: QuestionSource::Round,
        request: r#"{"message":"Go on?"}"#.to_owned(),
        asked_at: Wall(WALL),
        answer: None,
        is_delivered: false,
        is_unsent: false,
        shared_with: Vec::new(),
        only_for: None,
    }];
    let view = TaskView {
        task: asking,
        contact: Connectivity::Idle,
        if_cut: None,
        saved_seq: 0,
        is_unsaved: false,
        unsaved_why: None,
    };
    let asks = |keys_at: u64| {
        let keys = [Key::Enter, Key::Tab, Key::Enter].map(Chord::plain);
        let mut script = vec![
            (0, news(SessionEvent::Task(Arc::new(view.clone())))),
            end(5_000),
        ];
        // The first opens the dialog.
        for (place, key) in keys.into_iter().enumerate() {
            let at = 1_000 + if place == 0 { 0 } else { keys_at };
            script.push((at, chord(key)));
        }
        let played = play(script);
        let is_answer = |ask: &&SessionRequest| matches!(ask, SessionRequest::Answer { .. });
        played.world.asks.iter().filter(is_answer).count()
    };
    // Typed ahead in one turn, and faster than anybody reads.
    assert_eq!((asks(0), asks(100)), (0, 0));
    assert_eq!(asks(1_000), 1);
}

fn id(number: u64) -> TaskId {
    TaskId::from_bits(number)
}

fn task(number: u64, status: Status) -> Task {
    let is_settled = status.is_settled();
    Task {
        name: Some(format!("work {number}")),
        status,
        updated_at: Wall(WALL),
        end: TaskEnd {
            settled_at: is_settled.then_some(Wall(WALL)),
            is_seen: is_settled,
            ..TaskEnd::default()
        },
        ..Task::new(
            Wall(WALL - 60_000),
            NewCall::new(
                id(number),
                ServerName::new("lab"),
                "work".to_owned(),
                "{}".to_owned(),
            ),
        )
    }
}

fn settled(number: u64) -> Line {
    let view = TaskView {
        task: task(number, Status::Completed),
        contact: Connectivity::Idle,
        if_cut: None,
        saved_seq: 0,
        is_unsaved: false,
        unsaved_why: None,
    };
    news(SessionEvent::Task(Arc::new(view)))
}

fn running(number: u64, if_cut: IfCut, value: u32, saved_seq: u64) -> Line {
    let progress = Progress::reported(f64::from(value), Some(100_000.0), None);
    let view = TaskView {
        task: Task {
            progress,
            seq: saved_seq,
            ..task(number, Status::Running)
        },
        contact: Connectivity::Live {
            last_byte: Wall(WALL),
        },
        if_cut: Some(if_cut),
        saved_seq,
        is_unsaved: false,
        unsaved_why: None,
    };
    news(SessionEvent::Task(Arc::new(view)))
}

fn safe() -> IfCut {
    CutReason::Checkpoint { step: Some(30.0) }.into()
}

fn dies() -> IfCut {
    CutReason::NoEventIds.into()
}

fn drives() -> Line {
    news(SessionEvent::Driver(SessionDriver {
        pid: 1,
        is_us: true,
        is_keeper: false,
        since: Wall(0),
    }))
}

fn said(seq: u64) -> HistoryEntry {
    HistoryEntry {
        seq,
        at: Wall(WALL),
        attempt: 1,
        event_id: None,
        what: HistoryEvent::Log {
            level: LogLevel::Info,
            logger: None,
            data: format!("line {seq}"),
        },
    }
}

#[test]
fn a_key_is_answered_by_a_frame_at_once() {
    let played = play(vec![
        (0, drives()),
        (0, settled(1)),
        (100, settled(2)),
        // Just after a frame, when news would have to wait.
        (105, key('?')),
        end(1_000),
    ]);
    assert_eq!(played.draws(100..105).len(), 1);
    let answer = played.draws(105..106);
    assert_eq!(answer.len(), 1, "no frame in the millisecond of the key");
    assert_ne!(answer, played.draws(100..105));
}

#[test]
fn a_burst_of_keys_is_one_frame_and_every_key_counts() {
    let mut script = vec![(0, drives()), (10, key(':'))];
    script.extend("resume".chars().map(|letter| (500, key(letter))));
    script.push(end(1_000));
    let played = play(script);
    let frames = played.draws(500..501);
    assert_eq!(frames.len(), 1);
    assert!(frames[0].contains("resume"), "{}", frames[0]);
}

#[test]
fn a_flood_draws_30_frames_per_second_and_the_last_value() {
    let mut script = vec![(0, drives())];
    script.extend((0..20_000).map(|n| (1_000 + u64::from(n) / 10, running(1, safe(), n, 0))));
    script.push(end(3_500));
    let played = play(script);
    // It may begin with a burst.
    let first = played.draws(1_000..2_000).len();
    assert!((25..=39).contains(&first), "{first} frames in a second");
    let frames = played.draws(2_000..3_000).len();
    assert!((25..=31).contains(&frames), "{frames} frames in a second");
    assert!(
        played.draws(3_000..3_100).concat().contains("19,999") || played.last().contains("20k")
    );
    // The news in between are taken with the next frame, not one by one.
    let looks = played.world.looks;
    assert!(looks < 200, "{looks} looks for 20,000 news");
}

#[test]
fn keys_respond_during_a_flood_of_updates() {
    let mut script = vec![(0, drives())];
    script.extend((0..1_000).map(|n| (1_000 + u64::from(n), running(1, safe(), n, 0))));
    script.extend([(1_503, key('?')), end(2_500)]);
    let played = play(script);
    assert_eq!(played.draws(1_503..1_504).len(), 1);
}

#[test]
fn the_loop_sleeps_when_all_tasks_are_settled() {
    let minutes = 5;
    let played = play(vec![
        (0, drives()),
        (0, settled(1)),
        (0, settled(2)),
        end(60_000 * minutes + 500),
    ]);
    let is_later = |at: &&u64| **at > BEGIN + 1_000;
    let wakes = played.world.wakes.iter().filter(is_later).count();
    let minutes = usize::try_from(minutes).unwrap();
    assert!(wakes <= minutes, "woke {wakes} times in {minutes} minutes");
    assert!(played.draws(1_000..u64::MAX - BEGIN).len() <= minutes);
}

#[test]
fn with_something_running_it_wakes_about_once_a_second() {
    let played = play(vec![
        (0, drives()),
        (0, running(1, safe(), 10, 0)),
        end(60_500),
    ]);
    let wakes = played.world.wakes.len();
    assert!((55..=70).contains(&wakes), "woke {wakes} times in a minute");
    let frames = played.draws(1_000..60_000).len();
    assert!((55..=70).contains(&frames), "{frames} frames in a minute");
}

#[test]
fn quitting_with_only_safe_tasks_asks_nothing() {
    let played = play(vec![
        (0, drives()),
        (0, running(1, safe(), 10, 0)),
        (500, key('q')),
    ]);
    assert_eq!(played.outcome.exit, 0);
    let line = &played.outcome.note.line;
    assert!(
        line.contains("1 continues") && line.contains("longhaul"),
        "{line}"
    );
    assert_eq!(played.world.mono, BEGIN + 500, "it took time to leave");
}

#[test]
fn leaving_what_dies_asks_first() {
    let played = play(vec![
        (0, drives()),
        (0, running(1, safe(), 10, 0)),
        (0, running(2, dies(), 10, 0)),
        (500, key('q')),
        (2_000, chord(Chord::plain(longhaul::domain::Key::Esc))),
        end(3_000),
    ]);
    assert_eq!(played.outcome.exit, 143, "it left although somebody stayed");
    let asked = played.draws(500..501).concat();
    assert!(asked.contains("Quit?") && asked.contains("LOST"), "{asked}");
    assert!(asked.contains("events have no ids"), "{asked}");
    assert!(!played.last().contains("Quit?"), "{}", played.last());
}

#[test]
fn ctrl_c_twice_quits_regardless_of_running_calls() {
    let interrupt = || chord(Chord::ctrl('c'));
    let played = play(vec![
        (0, drives()),
        (0, running(2, dies(), 10, 0)),
        (500, interrupt()),
        (900, interrupt()),
    ]);
    assert_eq!(played.outcome.exit, 0);
    assert!(played.draws(500..501).concat().contains("LOST"));
    assert!(played.outcome.note.line.contains("1 LOST"));
    assert_eq!(played.world.mono, BEGIN + 900);
}

#[test]
fn reads_only_new_history_from_disk() {
    let world = World {
        history: (1..=7).map(said).collect(),
        ..World::default()
    };
    let played = play_in(
        world,
        vec![
            (0, drives()),
            (0, running(1, safe(), 10, 3)),
            (500, running(1, safe(), 11, 3)),
            (1_000, running(1, safe(), 12, 7)),
            end(2_000),
        ],
    );
    // What the first read brought was more than was known to be there.
    assert_eq!(played.world.reads, [(id(1), 0)]);
    assert!(played.last().contains("line 7"), "{}", played.last());
}

#[test]
fn reports_a_failed_history_read_and_retries() {
    let world = World {
        is_file_broken: true,
        ..World::default()
    };
    let played = play_in(
        world,
        vec![
            (0, drives()),
            (0, running(1, safe(), 10, 3)),
            (1_000, running(1, safe(), 12, 7)),
            end(2_000),
        ],
    );
    assert_eq!(played.world.reads, [(id(1), 0), (id(1), 0)]);
    assert!(
        played.last().contains("the disk is gone"),
        "{}",
        played.last()
    );
}

#[test]
fn a_terminal_that_cannot_be_painted_on_ends_the_program() {
    for (screen, exit) in [
        (Screen::Gone, 129),
        (Screen::GivenBack, 70),
        (Screen::Panics, 70),
    ] {
        let world = World {
            screen,
            ..World::default()
        };
        let outcome = play_in(world, vec![(0, drives())]).outcome;
        assert_eq!(
            (outcome.exit, outcome.note.line.as_str()),
            (exit, ""),
            "{screen:?}"
        );
    }
}

#[test]
fn each_external_end_has_its_exit_code_and_a_resume_hint() {
    for (outside, exit, says) in [
        (TerminalEvent::Signal(2), 130, true),
        (TerminalEvent::Signal(3), 131, true),
        (TerminalEvent::Signal(15), 143, true),
        (TerminalEvent::HungUp, 129, false),
        (TerminalEvent::Panic, 70, true),
    ] {
        let played = play(vec![
            (0, drives()),
            (0, running(1, safe(), 10, 0)),
            (50, Line::TerminalEvent(outside.clone())),
        ]);
        assert_eq!(played.outcome.exit, exit, "{outside:?}");
        let line = played.outcome.note.line;
        assert_eq!(
            line.contains("to open the list again: `longhaul"),
            says,
            "{outside:?}: {line}"
        );
    }
}

#[test]
fn an_unusable_session_sets_the_exit_code() {
    let trouble = || {
        news(SessionEvent::Failed {
            message: "could not write the session file: read-only file system".to_owned(),
            exit: 73,
        })
    };
    let played = play(vec![(0, trouble()), (500, key('q'))]);
    assert!(
        played
            .draws(0..500)
            .concat()
            .contains("read-only file system")
    );
    assert_eq!(played.outcome.exit, 73);
    assert!(played.outcome.note.line.contains("read-only file system"));
    // Once somebody drives again it is over.
    let played = play(vec![(0, trouble()), (100, drives()), (500, key('q'))]);
    assert_eq!(played.outcome.exit, 0);
}

#[test]
fn coming_back_from_a_stop_paints_again() {
    let played = play(vec![
        (0, drives()),
        (20_500, Line::TerminalEvent(TerminalEvent::Continued)),
        end(21_000),
    ]);
    assert_eq!(played.draws(20_500..20_501).len(), 1);
}

#[test]
fn requests_of_the_screen_reach_the_engine() {
    let played = play(vec![
        (0, drives()),
        (0, running(1, safe(), 10, 0)),
        (500, key('p')),
        end(1_000),
    ]);
    assert!(
        played.world.asks.contains(&SessionRequest::Pause(id(1))),
        "{:?}",
        played.world.asks
    );
}

//! What a frame costs when the list is long, and what goes to the terminal when one row moves.
//!
//! `cargo bench --bench frame`. CPU time of the thread, medians of alternated rounds.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

#[path = "support/mod.rs"]
mod support;

use std::{cell::RefCell, hint::black_box, io, rc::Rc, sync::Arc};

use longhaul::{
    app::{Event, Setup, State, update},
    domain::{
        Attempt, Connectivity, CutReason, Mono, NewCall, Phase, Progress, Resumability, ServerName,
        SessionEvent, Stamp, Task, TaskId, TaskView, Wall,
    },
    ui,
};
use ratatui::{Terminal, Viewport, backend::CrosstermBackend, backend::TestBackend, layout::Rect};
use support::{duel, row, say, thread_cpu};

const NOW: i64 = 1_795_157_520_000;
const FRAMES: usize = 50;
/// What the screen puts around each frame, so that the terminal shows it at once.
const AROUND: usize = "\u{1b}[?2026h\u{1b}[?2026l".len();

fn at(millis: u32) -> Stamp {
    Stamp {
        mono: Mono(10_000_000 + u64::from(millis)),
        wall: Wall(NOW + i64::from(millis)),
    }
}

/// A running task; the number makes its id.
fn view(number: u64, value: f64) -> Arc<TaskView> {
    let began = Wall(NOW - 60_000 - i64::try_from(number % 1000).unwrap());
    Arc::new(TaskView {
        task: Task {
            resumability: Resumability {
                task: false,
                checkpoint: false,
                stream: Some(true),
            },
            progress: Progress::reported(value, Some(1000.0), None),
            updated_at: Wall(NOW),
            attempts: vec![Attempt {
                number: 1,
                request_id: "k3f9-1".to_owned(),
                token: "k3f9-1".to_owned(),
                phase: Phase::Open,
                session_number: 1,
                last_value: Some(value),
                started_at: began,
                ..Attempt::default()
            }],
            seq: 14,
            ..Task::new(
                began,
                NewCall::new(
                    TaskId::from_bits(number),
                    ServerName::new("build-box"),
                    "resumable_data_processing".to_owned(),
                    format!("{{\"dataset_name\":\"eu-{number}\"}}"),
                ),
            )
        },
        contact: Connectivity::Live {
            last_byte: Wall(NOW),
        },
        if_cut: Some(CutReason::Checkpoint { step: Some(30.0) }.into()),
        saved_seq: 14,
        is_unsaved: false,
        unsaved_why: None,
    })
}

/// A screen with so many tasks.
fn state(tasks: u64) -> State {
    let mut state = State::new(Setup::default());
    let views = (1..=tasks).map(|number| view(number, 100.0)).collect();
    let restored = Event::Restored {
        watched_at: None,
        views,
        servers: Vec::new(),
        saved_at: None,
    };
    update(&mut state, restored, at(0));
    state
}

/// CPU seconds of a frame; with `moves`, of the news that made it due as well.
fn frame(state: &mut State, moves: bool) -> f64 {
    let mut terminal = Terminal::new(TestBackend::new(120, 36)).unwrap();
    terminal
        .draw(|frame| ui::view(frame, state, at(0)))
        .unwrap();
    let news: Vec<_> = (0..FRAMES)
        .map(|step| view(3, 101.0 + step as f64))
        .collect();
    let begin = thread_cpu();
    for news in news {
        if moves {
            update(state, Event::Session(SessionEvent::Task(news)), at(10));
        }
        terminal
            .draw(|frame| ui::view(frame, black_box(state), at(10)))
            .unwrap();
    }
    (thread_cpu() - begin) / FRAMES as f64
}

/// Counts what is written.
#[derive(Clone, Default)]
struct Ink(Rc<RefCell<usize>>);

impl io::Write for Ink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        *self.0.borrow_mut() += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes that go out when one row moves by a step.
fn bytes() -> usize {
    let mut state = state(100);
    let ink = Ink::default();
    let options = ratatui::TerminalOptions {
        viewport: Viewport::Fixed(Rect::new(0, 0, 120, 36)),
    };
    let mut terminal = Terminal::with_options(CrosstermBackend::new(ink.clone()), options).unwrap();
    for step in 0..2 {
        let news = Event::Session(SessionEvent::Task(view(3, 500.0 + f64::from(step))));
        update(&mut state, news, at(0));
        *ink.0.borrow_mut() = 0;
        terminal
            .draw(|frame| ui::view(frame, &state, at(0)))
            .unwrap();
    }
    *ink.0.borrow() + AROUND
}

fn main() {
    let (mut few, mut many) = (state(100), state(100_000));
    for (moves, what) in [
        (false, "a frame at 100,000 tasks against one at 100"),
        (true, "the same with the news of a step before each"),
    ] {
        let (mine, other) = duel(9, || frame(&mut many, moves), || frame(&mut few, moves));
        say(&format!(
            "       100,000 tasks: {:.3} ms, 100 tasks: {:.3} ms",
            mine * 1e3,
            other * 1e3
        ));
        row(9, what, mine / other, " x", 1.1);
    }
    row(
        9,
        "one row moved by a step, in one write",
        bytes() as f64,
        " bytes",
        120.0,
    );
}

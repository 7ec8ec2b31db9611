//! The loop: the only place where clock, terminal, session file and engine meet.
//!
//! One turn: wait for input, news or the next wake; read the clock once; update the state with everything that came;
//! carry out what it asks for; draw once if something changed and a frame is due. Nothing here waits for the network.

pub mod real;

use std::{collections::VecDeque, future::Future, io, time::Duration};

use crate::{
    app::{self, Command, Event, Input, LeaveNote, State},
    domain::{Ask, AskId, Entry, Mono, Stamp, TaskId},
};

/// A frame at most this often, unless a key was pressed: no eye sees more, and the engine needs the time.
const FRAME_EVERY: Duration = Duration::from_millis(33);
/// Inputs taken in one turn; a paste is one input.
const INPUTS_A_TURN: usize = 256;

/// The terminal, as the loop sees it; the tests bring their own.
pub trait Surface {
    /// The next thing that comes from outside. Dropping the wait loses nothing.
    fn next(&mut self) -> impl Future<Output = Outside>;
    /// Inputs that wait already.
    fn drain(&mut self, limit: usize) -> Vec<Input>;
    /// Paints a frame; a failure means that the terminal is gone.
    fn draw(&mut self, state: &State, now: Stamp) -> io::Result<()>;
    /// Carries out a command that only concerns the terminal; gives back an event if one follows.
    fn carry_out(&mut self, command: Command) -> impl Future<Output = io::Result<Option<Event>>>;
}

/// What the loop needs of the engine and the session file.
pub trait Backstage {
    /// Waits until [`Self::take`] has something. Dropping the wait loses nothing.
    fn changed(&mut self) -> impl Future<Output = ()>;
    /// Everything new since the last call.
    fn take(&mut self) -> Vec<Event>;
    /// Asks the engine; the answer is news.
    fn ask(&mut self, ask: AskId, what: Ask);
    /// A task's history after an entry, at most the newest that the screen holds, and how many were left out.
    fn history(&mut self, task: &TaskId, after_seq: u64) -> Result<(Vec<Entry>, u64), String>;
    /// A task's result.
    fn result(&mut self, task: &TaskId) -> Result<Option<String>, String>;
    /// Breaks something on the demo server; what came of it is an event later.
    fn break_demo(&mut self, what: &str);
}

/// The time, as the loop sees it.
pub trait Time {
    /// Reads the clock.
    fn now(&self) -> Stamp;
    /// Sleeps until then.
    fn sleep_until(&self, at: Mono) -> impl Future<Output = ()>;
}

/// What comes from outside the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The user did something.
    Input(Input),
    /// The terminal is gone.
    HungUp,
    /// A signal that ends the program, by its number; the exit code is 128 more.
    Signal(u8),
    /// A panic in some thread; it was reported.
    Panic,
    /// The program goes on after a stop.
    Continued,
}

/// How the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What to say on stderr once the terminal is back.
    pub note: LeaveNote,
    /// The exit code.
    pub exit: u8,
}

/// Decides when a frame is due: at once after a key, else at a pace.
#[derive(Debug, Default)]
struct Pacer {
    drawn_at: Option<Mono>,
    has_key: bool,
}

impl Pacer {
    fn next(&self, is_dirty: bool) -> Option<Mono> {
        match self.drawn_at {
            _ if !is_dirty => None,
            Some(at) if !self.has_key => Some(at.after(FRAME_EVERY)),
            _ => Some(Mono(0)),
        }
    }

    fn is_due(&self, is_dirty: bool, now: Stamp) -> bool {
        self.next(is_dirty).is_some_and(|at| now.mono >= at)
    }

    fn drawn(&mut self, now: Stamp) {
        (self.drawn_at, self.has_key) = (Some(now.mono), false);
    }
}

/// Runs the screen until the user leaves, the terminal is gone or a signal ends it.
pub async fn run<S: Surface, B: Backstage, T: Time>(
    surface: &mut S,
    backstage: &mut B,
    time: &T,
    state: &mut State,
) -> Outcome {
    let mut pacer = Pacer::default();
    loop {
        let now = time.now();
        if pacer.is_due(state.is_dirty(), now) {
            state.take_dirty();
            if surface.draw(state, now).is_err() {
                return gone();
            }
            pacer.drawn(now);
        }
        let wake = [app::next_wake(state, now), pacer.next(state.is_dirty())]
            .into_iter()
            .flatten()
            .min();
        let timer = async {
            match wake {
                Some(at) => time.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let mut events = Vec::new();
        tokio::select! {
            biased;
            outside = surface.next() => match outside {
                Outside::Input(input) => {
                    pacer.has_key = true;
                    events.push(Event::Input(input));
                    events.extend(surface.drain(INPUTS_A_TURN).into_iter().map(Event::Input));
                }
                Outside::HungUp => return gone(),
                Outside::Signal(number) => {
                    return Outcome { note: app::leave_note(state), exit: number.saturating_add(128) };
                }
                Outside::Panic => return Outcome { note: app::leave_note(state), exit: 70 },
                Outside::Continued => events.push(Event::Resumed),
            },
            () = backstage.changed() => {}
            () = timer => events.push(Event::Tick),
        }
        events.extend(backstage.take());
        let now = time.now();
        for event in events {
            let todo = app::update(state, event, now);
            if follow_up(surface, backstage, state, todo, now)
                .await
                .is_err()
            {
                return gone();
            }
        }
        if let Some(note) = state.is_over() {
            return Outcome {
                note: note.clone(),
                exit: 0,
            };
        }
    }
}

/// The terminal is gone; nobody is there to read a note.
fn gone() -> Outcome {
    Outcome {
        note: LeaveNote {
            line: String::new(),
        },
        exit: 129,
    }
}

/// Carries out what an update asks for, and what follows from that.
async fn follow_up<S: Surface, B: Backstage>(
    surface: &mut S,
    backstage: &mut B,
    state: &mut State,
    todo: Vec<Command>,
    now: Stamp,
) -> io::Result<()> {
    let mut todo = VecDeque::from(todo);
    while let Some(command) = todo.pop_front() {
        if let Some(event) = carry_out(surface, backstage, command).await? {
            todo.extend(app::update(state, event, now));
        }
    }
    Ok(())
}

async fn carry_out<S: Surface, B: Backstage>(
    surface: &mut S,
    backstage: &mut B,
    command: Command,
) -> io::Result<Option<Event>> {
    Ok(match command {
        Command::Ask(ask, what) => {
            backstage.ask(ask, what);
            None
        }
        Command::ReadHistory { task, after_seq } => {
            Some(match backstage.history(&task, after_seq) {
                Ok((entries, dropped)) => Event::History {
                    task,
                    entries,
                    dropped,
                },
                Err(words) => Event::Failed(words),
            })
        }
        Command::ReadResult(task) => Some(match backstage.result(&task) {
            Ok(json) => Event::ResultRead { task, json },
            Err(words) => Event::Failed(words),
        }),
        Command::Break(what) => {
            backstage.break_demo(&what);
            None
        }
        Command::Quit(_) => None,
        other => surface.carry_out(other).await?,
    })
}

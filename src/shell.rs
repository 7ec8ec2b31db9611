//! The loop: the only place where clock, terminal, session file and engine meet.
//!
//! One turn: wait for input, news or the next wake; read the clock once; update the state with everything that came;
//! carry out what it asks for; draw once if something changed and a frame is due. Nothing here waits for the network.

mod open;
mod services;
mod tty;

pub use open::{Opening, open};
pub use services::ServiceOptions;

use std::{collections::VecDeque, future::Future, io, panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt as _;

use crate::{
    app::{self, Command, Event, ExitNote, State, TerminalCommand, UserInput},
    domain::{Mono, RateLimit, SessionEvent, Stamp},
};

/// The pace of frames, except after a key and in short bursts: no eye sees more, and the engine needs the time.
const FRAME_EVERY: Duration = Duration::from_millis(33);
/// Inputs taken in one turn; a paste is one input.
const INPUTS_A_TURN: usize = 256;

/// The exit code of a panic.
const BUG: u8 = crate::domain::exit::BUG;
/// The exit code of a hang-up, 128 and the number of SIGHUP.
const HUNG_UP: u8 = 129;

/// The terminal, as the loop sees it; the tests bring their own.
pub trait TerminalSurface {
    /// The next thing that comes from outside. Dropping the wait loses nothing.
    fn next(&mut self) -> impl Future<Output = TerminalEvent>;
    /// Inputs that wait already.
    fn drain(&mut self, limit: usize) -> Vec<UserInput>;
    /// Paints a frame. Returns whether anything on the terminal has changed.
    ///
    /// A failure means that the terminal is gone; [`io::ErrorKind::NotConnected`], that a panic has given it back.
    fn draw(&mut self, state: &State, now: Stamp) -> io::Result<bool>;
    /// Carries out a command; gives back an event if one follows. Fails as
    /// [`Self::draw`] does.
    fn carry_out(
        &mut self,
        command: TerminalCommand,
    ) -> impl Future<Output = io::Result<Option<Event>>>;
}

/// What the loop needs of the engine and the session file.
pub trait Services {
    /// Waits until [`Self::take`] has something. Dropping the wait loses nothing.
    fn changed(&mut self) -> impl Future<Output = ()>;
    /// Everything new since the last call.
    fn take(&mut self) -> Vec<Event>;
    /// Carries out a command that has nothing to do with the terminal. What follows is returned, or is an event later.
    fn carry_out(&mut self, command: Command) -> Vec<Event>;
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
pub enum TerminalEvent {
    /// The user did something.
    Input(UserInput),
    /// The terminal is gone.
    HungUp,
    /// A signal that ends the program, by its number; the exit code is 128 more.
    Signal(u8),
    /// A panic in some thread; it was reported.
    Panic,
    /// SIGTSTP: the program should suspend itself.
    Stop,
    /// The program continues after it was suspended.
    Continued,
}

/// How the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What to say on stderr once the terminal is back.
    pub note: ExitNote,
    /// The exit code.
    pub exit: u8,
}

/// Decides when a frame is due: at once after a key, else at a pace.
#[derive(Debug, Default)]
struct Pacer {
    frames: RateLimit,
    has_key: bool,
}

impl Pacer {
    /// When the next frame is due; `None` while there is nothing to draw.
    fn next(&self, is_dirty: bool, now: Stamp) -> Option<Mono> {
        match self.frames.next() {
            _ if !is_dirty => None,
            Some(at) if !self.has_key => Some(at),
            _ => Some(now.mono),
        }
    }

    fn is_due(&self, is_dirty: bool, now: Stamp) -> bool {
        self.next(is_dirty, now).is_some_and(|at| now.mono >= at)
    }

    /// A frame was drawn. One that changed nothing doesn't delay the next.
    fn drawn(&mut self, now: Stamp, has_changed: bool) {
        self.has_key = false;
        if has_changed {
            self.frames.done(now.mono, FRAME_EVERY);
        }
    }
}

/// Runs the screen until the user leaves, the terminal is gone, a signal ends it or something panics.
pub async fn run<S: TerminalSurface, B: Services, T: Time>(
    surface: &mut S,
    backstage: &mut B,
    time: &T,
    state: &mut State,
) -> Outcome {
    // A panic in the loop itself takes the same way out as one in any other thread.
    let turns = AssertUnwindSafe(turns(surface, backstage, time, state)).catch_unwind();
    let ended = turns.await.unwrap_or_else(|_| Ok(Outcome::silent(BUG)));
    ended.unwrap_or_else(|error| gone(&error))
}

async fn turns<S: TerminalSurface, B: Services, T: Time>(
    surface: &mut S,
    backstage: &mut B,
    time: &T,
    state: &mut State,
) -> io::Result<Outcome> {
    let mut pacer = Pacer::default();
    // Why the session cannot be used; printed on stderr at the exit.
    let mut trouble = None;
    loop {
        let now = time.now();
        if pacer.is_due(state.is_dirty, now) {
            state.is_dirty = false;
            let has_changed = surface.draw(state, now)?;
            // Not the time before: keys that came while the terminal took its time were typed blind.
            state.drawn(time.now());
            pacer.drawn(now, has_changed);
        }
        let is_dirty = state.is_dirty;
        let wake = [app::next_wake(state, now), pacer.next(is_dirty, now)]
            .into_iter()
            .flatten()
            .min();
        let mut events = Vec::new();
        tokio::select! {
            biased;
            outside = surface.next() => match outside {
                TerminalEvent::Input(input) => {
                    pacer.has_key = true;
                    events.push(Event::Input(input));
                    events.extend(surface.drain(INPUTS_A_TURN).into_iter().map(Event::Input));
                }
                TerminalEvent::HungUp => return Ok(Outcome::silent(HUNG_UP)),
                TerminalEvent::Signal(number) => {
                    let note = app::exit_note(state);
                    return Ok(Outcome { note, exit: number.saturating_add(128) });
                }
                TerminalEvent::Panic => {
                    return Ok(Outcome { note: app::exit_note(state), exit: BUG });
                }
                TerminalEvent::Stop => {
                    // Here, because the wait for what comes next may be dropped.
                    let todo = vec![TerminalCommand::Suspend.into()];
                    follow_up(surface, backstage, state, todo, now).await?;
                }
                TerminalEvent::Continued => events.push(Event::Resumed),
            },
            // While a frame is due already, more news can wait for it: in its slots the newest replaces the older.
            () = backstage.changed(), if !is_dirty => {}
            () = time.sleep_until(wake.unwrap_or_default()), if wake.is_some() => events.push(Event::Tick),
        }
        let news = backstage.take();
        let now = time.now();
        for event in events {
            let todo = app::update(state, event, now);
            follow_up(surface, backstage, state, todo, now).await?;
        }
        note_trouble(&mut trouble, &news);
        let todo = app::update_all(state, news, now);
        follow_up(surface, backstage, state, todo, now).await?;
        if let Some(note) = state.exit.note.as_ref() {
            return Ok(trouble.unwrap_or_else(|| Outcome {
                note: note.clone(),
                exit: 0,
            }));
        }
    }
}

/// Keeps why the session cannot be used until a driver begins.
fn note_trouble(trouble: &mut Option<Outcome>, news: &[Event]) {
    for event in news {
        match event {
            Event::Session(SessionEvent::Failed { message, exit }) => {
                *trouble = Some(Outcome {
                    note: ExitNote {
                        line: message.clone(),
                        stops_keeper: false,
                    },
                    exit: *exit,
                });
            }
            Event::Session(SessionEvent::Driver(_)) => *trouble = None,
            _ => {}
        }
    }
}

impl Outcome {
    /// An exit without a message, because nobody could read one or there is nothing to say.
    fn silent(exit: u8) -> Self {
        let note = ExitNote::default();
        Self { note, exit }
    }
}

/// The terminal cannot be painted on any more.
fn gone(error: &io::Error) -> Outcome {
    Outcome::silent(match error.kind() {
        io::ErrorKind::NotConnected => BUG,
        _ => HUNG_UP,
    })
}

/// Carries out what an update asks for, and what follows from that.
async fn follow_up<S: TerminalSurface, B: Services>(
    surface: &mut S,
    backstage: &mut B,
    state: &mut State,
    todo: Vec<Command>,
    now: Stamp,
) -> io::Result<()> {
    let mut todo = VecDeque::from(todo);
    while let Some(command) = todo.pop_front() {
        let events = match command {
            Command::Terminal(command) => surface.carry_out(command).await?.into_iter().collect(),
            command => backstage.carry_out(command),
        };
        for event in events {
            todo.extend(app::update(state, event, now));
        }
    }
    Ok(())
}

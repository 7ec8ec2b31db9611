//! Opens the screen: the loop on the real terminal, session and session file.

use std::{io, time::Duration};

use super::{
    BUG, Outcome, TerminalSurface as _, Time, follow_up, gone, run,
    services::{ServiceOptions, SessionServices, saved},
    tty::Terminal,
};
use crate::{
    app::{self, Event, Setup, State, UserInput},
    domain::{Mono, SessionEvent, SessionRequest, Stamp, TaskId, exit},
    engine::{Clock, Options, ProcessRole, Session, stop_keeper},
    store::Paths,
    term::{
        caps::NotificationSupport,
        guard, input,
        signals::{self, Signal, Signals},
    },
};

/// How often the file says that a screen shows the session.
const WATCHED_EVERY: Duration = Duration::from_secs(60);

/// How long a panicking thread may take to report it.
const REPORT_WITHIN: Duration = Duration::from_secs(1);

/// How to open the screen.
pub struct Opening {
    /// The session and its servers.
    pub engine: Options,
    /// What the screen has to know.
    pub setup: Setup,
    /// Bell, notifications and the like.
    pub notifications: NotificationSupport,
    /// The task to select.
    pub attach: Option<TaskId>,
    /// What the services need besides the session.
    pub services: ServiceOptions,
    /// Problems found before the screen was open.
    pub notices: Vec<String>,
    /// Sent at once, e.g. the demo's first calls.
    pub asks: Vec<SessionRequest>,
}

/// Opens the screen on stdout's terminal, runs it until the user quits, restores the terminal and closes the session.
///
/// Fails if stdout is no usable terminal; then nothing was changed.
pub fn open(opening: Opening) -> io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(show(opening));
    // A background task may still wait for a demo server that does not answer.
    runtime.shutdown_background();
    outcome
}

async fn show(opening: Opening) -> io::Result<Outcome> {
    let mut terminal = Terminal::take(opening.notifications)?;
    let clock = opening.engine.clock;
    let paths = opening.engine.paths.clone();
    let session_paths = paths.clone();
    let mut state = State::new(opening.setup);
    let (columns, rows) = input::size(&terminal.guard.tty);
    let is_remote = matches!(opening.engine.role, ProcessRole::Remote(_));
    let resize = Event::Input(UserInput::Resize(columns, rows));
    // On another machine, nothing is known before its keeper answers.
    let first = if is_remote {
        Event::Session(SessionEvent::Undriven)
    } else {
        saved(&paths)
    };
    let events = [resize, first];
    let mut todo = Vec::new();
    for event in events
        .into_iter()
        .chain(opening.attach.map(Event::Attached))
        .chain(opening.notices.into_iter().map(Event::Failed))
    {
        todo.extend(app::update(&mut state, event, clock.now()));
    }
    // The first frame comes before the engine, its HTTP client and the rest of the session.
    if let Err(error) = terminal.draw(&state, clock.now()) {
        return Ok(gone(&error));
    }
    let session = Session::open(opening.engine);
    let services = opening.services;
    let mut engine = SessionServices::new(session, paths, services, is_remote);
    for what in opening.asks {
        engine.ask_for_opening(what);
    }
    let begun = follow_up(&mut terminal, &mut engine, &mut state, todo, clock.now()).await;
    let note = note_watched(session_paths.clone(), clock);
    let watching = (!is_remote).then(|| tokio::spawn(note));
    let mut outcome = match begun {
        Ok(()) => run(&mut terminal, &mut engine, &clock, &mut state).await,
        Err(error) => gone(&error),
    };
    if let Some(watching) = watching {
        watching.abort();
        // Only for the next welcome, so a failure does not matter.
        let _ = session_paths.note_watched(clock.now().wall);
    }
    // The terminal first: the user should not wait for the network.
    let signals = terminal.give_back();
    close(engine.session, &session_paths, signals, &mut outcome).await;
    if guard::has_panicked() {
        outcome.exit = BUG;
    }
    Ok(outcome)
}

/// Saves, and stops the keeper if the user wants that; shorter if the user is impatient.
async fn close(session: Session, paths: &Paths, mut signals: Signals, outcome: &mut Outcome) {
    if outcome.exit == BUG {
        // The thread that panicked may still be reporting it.
        let _ = tokio::time::timeout(REPORT_WITHIN, guard::panicked()).await;
    }
    let closing = tokio::task::spawn_blocking(move || session.close());
    tokio::select! {
        // A panic in there was reported.
        _ = closing => {}
        // What is not saved by now is as after a kill.
        () = ending(&mut signals) => {}
    }
    if outcome.note.stops_keeper {
        let paths = paths.clone();
        let stopping = tokio::task::spawn_blocking(move || stop_keeper(&paths));
        tokio::select! {
            stopped = stopping => if let Ok(Err(error)) = stopped {
                outcome.note.line = format!("could not stop the keeper: {error}");
                outcome.exit = exit::DRIVER_SILENT;
            },
            () = ending(&mut signals) => {}
        }
    }
}

/// Notes from time to time that a screen shows the session.
async fn note_watched(paths: Paths, clock: Clock) {
    loop {
        // Only for the next welcome, so a failure does not matter.
        let _ = paths.note_watched(clock.now().wall);
        tokio::time::sleep(WATCHED_EVERY).await; // sleep: a kill must not lose more than this
    }
}

/// Waits for a signal that ends the program.
async fn ending(signals: &mut Signals) {
    loop {
        match signals.next().await {
            // If that fails, the user waits a moment for the end.
            Signal::Stop => drop(signals::stop_group()),
            signal if signal.is_fatal() => return,
            _ => {}
        }
    }
}

impl Time for Clock {
    fn now(&self) -> Stamp {
        Clock::now(self)
    }

    async fn sleep_until(&self, at: Mono) {
        tokio::time::sleep_until(self.instant(at)).await;
    }
}

//! The loop on the real terminal, engine and session file.

use std::{
    fs::{File, Permissions},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use secrecy::SecretString;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::{BUG, Outcome, Services, TerminalEvent, TerminalSurface, Time, follow_up, gone, run};
use crate::{
    app::{
        self, Command, ConfigReread, Consent, Event, SaveContent, ServerFindings, Setup, State,
        UserInput, View,
    },
    config::FileMark,
    domain::{
        ContentBlock, HistoryEntry, Key, LinkState, Mono, ServerName, ServerView, SessionEvent,
        SessionRequest, SessionRequestId, Stamp, TaskId, TaskView, TrafficEntry, Wall,
        content_element, exit, server_url, text,
    },
    engine::{Clock, FailPoint, Options, PanicIn, Session, Subscription, stop_keeper},
    store::{ListFilter, Paths, Reader, StoreError, TraceReader, create_atomically},
    term::{
        browser::Browser,
        caps::NotificationSupport,
        guard::{self, Guard},
        input::{self, InputStream},
        osc,
        screen::Screen,
        signals::{self, Signal, Signals},
        viewer::Viewer,
    },
    ui,
};

/// Entries of a task's history that the screen takes at once; older ones are counted.
const HISTORY_AT_ONCE: usize = 2000;

/// Recorded messages that the screen takes at once, out of the last bytes of a record.
const WIRE_AT_ONCE: usize = 200;

const WIRE_BYTES: usize = 512 * 1024;

/// Settled tasks of the first paint; the engine brings the rest.
const FIRST_PAINT: usize = 200;

/// Words of demo faults that may wait.
const WORDS_WAITING: usize = 16;

/// How long a panicking thread may take to say what happened.
const REPORT_WITHIN: Duration = Duration::from_secs(1);

/// Makes the trace of a task as of a time, without the secrets that it is given beside those that it finds.
pub type MakeTrace =
    fn(&Paths, &TaskId, SaveContent, Wall, &[SecretString]) -> Result<String, String>;

/// What the screen has done by the rooms that know the configuration and the traces.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    /// Finds the servers of other programs, and writes those that this session does not know into it if told so.
    pub import: fn(&Paths, bool) -> Result<ServerFindings, String>,
    /// Writes a view into it, and says so in words.
    pub save_view: fn(&View) -> Result<String, String>,
    /// What it says now, where its mark is another one than this or it is read anyway.
    pub look: fn(&mut FileMark, bool) -> Option<Result<ConfigReread, String>>,
    /// What happened to a task as of now, as a page or JSON; the secrets of the command line are not in it either.
    pub export: MakeTrace,
    /// What it has for a server, agreed to where that is what was shown.
    pub consent: fn(&ServerName, Option<&str>) -> Result<Consent, String>,
}

/// How to open the screen.
#[derive(Debug)]
pub struct Opening {
    /// The session and its servers.
    pub engine: Options,
    /// What the screen has to know.
    pub setup: Setup,
    /// What reaches the user beside the picture.
    pub notifications: NotificationSupport,
    /// The task to stand on.
    pub attach: Option<TaskId>,
    /// Where the demo server keeps its data, on the demo.
    pub demo_dir: Option<PathBuf>,
    /// What is done by the rooms that know the configuration and the traces.
    pub configuration: Configuration,
    /// The mark of the file of configuration when it was read.
    pub config_mark: FileMark,
    /// The secrets of the command line, for whoever has to leave them out.
    pub given: Vec<SecretString>,
    /// Opens pages, where there is one.
    pub browser: Option<Browser>,
    /// Opens files, where there is one.
    pub viewer: Option<Viewer>,
    /// What went wrong before there was a screen to say it on.
    pub remarks: Vec<String>,
    /// Asked at once, e.g. the demo's first calls.
    pub asks: Vec<SessionRequest>,
}

/// Opens the screen on the terminal of stdout, runs it to its end, gives the terminal back and leaves the session.
///
/// Fails if stdout is no terminal, or none that can be painted on; then nothing was changed.
pub fn open(opening: Opening) -> io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(show(opening));
    // Somebody may wait for a demo server that does not answer; nobody has to wait for him.
    runtime.shutdown_background();
    outcome
}

async fn show(opening: Opening) -> io::Result<Outcome> {
    let fuse = opening.engine.fuse.clone();
    let mut terminal = Terminal::take(fuse.clone(), opening.notifications)?;
    let clock = opening.engine.clock;
    let paths = opening.engine.paths.clone();
    let paths_of_keeper = paths.clone();
    terminal.guard.report_mouse(opening.setup.takes_mouse)?;
    let mut state = State::new(opening.setup);
    let (columns, rows) = input::size(terminal.guard.tty());
    let events = [
        Event::Input(UserInput::Resize(columns, rows)),
        saved(&paths),
    ];
    let mut todo = Vec::new();
    for event in events
        .into_iter()
        .chain(opening.attach.map(Event::Attached))
        .chain(opening.remarks.into_iter().map(Event::Failed))
    {
        todo.extend(app::update(&mut state, event, clock.now()));
    }
    // The first frame comes before the engine, its HTTP client and the rest of the session.
    if let Err(error) = terminal.draw(&state, clock.now()) {
        return Ok(gone(&error));
    }
    let session = Session::open(opening.engine);
    let mut engine = Engine::new(
        session,
        paths,
        opening.demo_dir,
        opening.configuration,
        clock,
        fuse,
    );
    (engine.browser, engine.viewer) = (opening.browser, opening.viewer);
    engine.config_mark = Arc::new(Mutex::new(opening.config_mark));
    engine.given = opening.given;
    for what in opening.asks {
        engine.ask_for_opening(what);
    }
    let begun = follow_up(&mut terminal, &mut engine, &mut state, todo, clock.now()).await;
    let mut outcome = match begun {
        Ok(()) => run(&mut terminal, &mut engine, &clock, &mut state).await,
        Err(error) => gone(&error),
    };
    // The terminal first: whoever waits for it should not wait for the network.
    let mut signals = terminal.give_back();
    if outcome.exit == BUG {
        // The thread that panicked may still be at its report; without it the code would say nothing.
        let _ = tokio::time::timeout(REPORT_WITHIN, guard::panicked()).await;
    }
    let closing = tokio::task::spawn_blocking(move || engine.session.close());
    tokio::select! {
        // A panic in there was reported.
        _ = closing => {}
        // Impatience; what is not saved by now is as after a kill, which costs nothing but the next start.
        () = ending(&mut signals) => {}
    }
    if outcome.note.stops_keeper {
        let stopping = tokio::task::spawn_blocking(move || stop_keeper(&paths_of_keeper));
        tokio::select! {
            stopped = stopping => if let Ok(Err(error)) = stopped {
                outcome.note.line = format!("could not stop the keeper: {error}");
                outcome.exit = exit::DRIVER_SILENT;
            },
            () = ending(&mut signals) => {}
        }
    }
    if guard::has_panicked() {
        outcome.exit = BUG;
    }
    Ok(outcome)
}

/// Waits for a signal that ends the program.
async fn ending(signals: &mut Signals) {
    loop {
        match signals.next().await {
            // If it does not work, the user waits a moment for the end.
            Signal::Stop => drop(signals::stop_group()),
            signal if signal.is_fatal() => return,
            _ => {}
        }
    }
}

/// What the session file shows before anybody drives.
fn saved(paths: &Paths) -> Event {
    let read = || -> Result<Event, StoreError> {
        let mut reader = Reader::open(paths)?;
        let saved_at = reader.saved_at()?;
        let tasks = reader.tasks(ListFilter {
            all: false,
            limit: Some(FIRST_PAINT),
        })?;
        let views = tasks
            .into_iter()
            .map(|task| Arc::new(TaskView::unwatched(task, saved_at)))
            .collect();
        let servers = reader
            .links()?
            .into_iter()
            .map(|record| ServerView {
                capabilities: record.capabilities(),
                name: record.name,
                url: server_url::redacted(&record.url).into_owned(),
                state: LinkState::Idle,
                obstacle: None,
                era: record
                    .version
                    .map_or(String::new(), |version| version.label().to_owned()),
                era_why: record.era_why.unwrap_or_default(),
                server_info: record.server_info,
                tools: record.tools_at.map(|_| record.tools.len()),
                requests: 0,
                gone_from: None,
                latency: None,
            })
            .collect();
        Ok(Event::Restored {
            views,
            servers,
            saved_at,
        })
    };
    read().unwrap_or_else(|error| Event::Failed(format!("could not {error}")))
}

/// The real terminal.
struct Terminal {
    screen: Screen,
    inputs: InputStream,
    signals: Signals,
    pending: Option<Signal>,
    notifications: NotificationSupport,
    // Last, so that the terminal is given back after everything that paints on it is gone.
    guard: Guard,
}

impl Terminal {
    fn take(fuse: FailPoint, notifications: NotificationSupport) -> io::Result<Self> {
        // Before the terminal is taken: a signal in between would leave it painted.
        let signals = Signals::catch()?;
        let guard = Guard::enter(io::stdout())?;
        let inputs = InputStream::open(guard.tty(), move || fuse.burn(PanicIn::Input))?;
        let mut screen = Screen::new(&guard)?;
        // A process that was killed on this terminal left its picture there, and we would paint only what differs.
        screen.clear()?;
        Ok(Self {
            screen,
            inputs,
            signals,
            pending: None,
            notifications,
            guard,
        })
    }

    fn give_back(self) -> Signals {
        self.signals
    }

    /// Shows text on the plain terminal, where the mouse can take it, until Enter or Ctrl-C.
    async fn print(&mut self, text: &str) -> io::Result<()> {
        self.guard.leave();
        let mut out = io::stdout();
        out.write_all(osc::page(text).as_bytes())?;
        out.flush()?;
        loop {
            tokio::select! {
                biased;
                () = guard::panicked() => return Err(io::ErrorKind::NotConnected.into()),
                signal = self.signals.next() => match signal {
                    Signal::Continue => {}
                    Signal::Stop => {
                        self.pending = signals::stop(&self.guard, &mut self.signals).await?;
                        if self.pending.is_some() {
                            return Ok(());
                        }
                    }
                    // Ctrl-C: here the terminal makes a signal of it.
                    Signal::Interrupt => break,
                    Signal::Terminate | Signal::HangUp | Signal::Quit | Signal::Other(_) => {
                        self.pending = Some(signal);
                        return Ok(());
                    }
                },
                input = self.inputs.next() => match input {
                    Some(UserInput::Key(chord)) if chord.key == Key::Enter => break,
                    Some(_) => {}
                    None => return Err(io::ErrorKind::BrokenPipe.into()),
                },
            }
        }
        self.guard.reenter()?;
        self.screen.clear()
    }
}

impl TerminalSurface for Terminal {
    async fn next(&mut self) -> TerminalEvent {
        let signal = if let Some(signal) = self.pending.take() {
            signal
        } else {
            tokio::select! {
                biased;
                () = guard::panicked() => return TerminalEvent::Panic,
                signal = self.signals.next() => signal,
                input = self.inputs.next() => {
                    return input.map_or(TerminalEvent::HungUp, TerminalEvent::Input);
                }
            }
        };
        match signal {
            Signal::HangUp => TerminalEvent::HungUp,
            Signal::Interrupt => TerminalEvent::Signal(2),
            Signal::Quit => TerminalEvent::Signal(3),
            Signal::Terminate => TerminalEvent::Signal(15),
            Signal::Other(number) => TerminalEvent::Signal(number),
            Signal::Stop => TerminalEvent::Stop,
            Signal::Continue => {
                // Stopped by somebody else; its modes may have changed meanwhile.
                let is_back = self.guard.reenter().and_then(|()| self.screen.clear());
                if is_back.is_err() {
                    TerminalEvent::HungUp
                } else {
                    TerminalEvent::Continued
                }
            }
        }
    }

    fn drain(&mut self, limit: usize) -> Vec<UserInput> {
        self.inputs.drain(limit)
    }

    fn draw(&mut self, state: &State, now: Stamp) -> io::Result<()> {
        // The program ends, and the terminal was given back for a stop before.
        if self.pending.is_some() {
            return Ok(());
        }
        self.screen.draw(|frame| ui::view(frame, state, now))
    }

    async fn carry_out(&mut self, command: Command) -> io::Result<Option<Event>> {
        match command {
            Command::Copy(text) => match osc::copy(&text) {
                Ok(sequence) => self.screen.send(&sequence)?,
                Err(error) => return Ok(Some(Event::Failed(error.to_string()))),
            },
            Command::Print(text) => {
                self.print(&text).await?;
                return Ok(Some(Event::Resumed));
            }
            Command::Suspend => {
                self.pending = signals::suspend(&self.guard, &mut self.signals).await?;
                if self.pending.is_none() {
                    self.screen.clear()?;
                }
                return Ok(Some(Event::Resumed));
            }
            _ if self.pending.is_some() => {}
            Command::Redraw => self.screen.clear()?,
            Command::ReportMouse(is_on) => self.guard.report_mouse(is_on)?,
            Command::SetTitle(title) => self.screen.send(&osc::title(&title))?,
            Command::Bell => self.screen.send(osc::BELL)?,
            Command::Notify(words) => {
                let NotificationSupport {
                    desktop,
                    multiplexer,
                    ..
                } = self.notifications;
                let sequence = desktop.and_then(|by| osc::notify(&words, by, multiplexer));
                if let Some(sequence) = sequence {
                    self.screen.send(&sequence)?;
                }
            }
            Command::Progress(overall) if self.notifications.has_progress => {
                self.screen
                    .progress(overall, self.notifications.multiplexer)?;
            }
            Command::Progress(_)
            | Command::Request(..)
            | Command::ReadHistory { .. }
            | Command::ReadResult(_)
            | Command::ReadTraffic { .. }
            | Command::InjectFault(_)
            | Command::OpenPage(_)
            | Command::Save { .. }
            | Command::OpenPart { .. }
            | Command::FindServers
            | Command::ImportServers
            | Command::SaveView(_)
            | Command::CheckConfig { .. }
            | Command::ReadConsent(_)
            | Command::Approve { .. }
            | Command::Quit(_) => {}
        }
        Ok(None)
    }
}

/// The real engine, session file and demo server.
struct Engine {
    session: Session,
    subscription: Subscription,
    paths: Paths,
    demo_dir: Option<PathBuf>,
    configuration: Configuration,
    /// When that was read; whoever looks at it holds this, so that one look follows the other.
    config_mark: Arc<Mutex<FileMark>>,
    clock: Clock,
    given: Vec<SecretString>,
    browser: Option<Browser>,
    viewer: Option<Viewer>,
    /// Where the copies are that other programs were given; it goes with this.
    copies: Option<TempDir>,
    /// How many of them were made.
    copied: u64,
    words: mpsc::Sender<Event>,
    said: mpsc::Receiver<Event>,
    heard: Vec<Event>,
    /// Asks that came with the opening, which the screen knows nothing of.
    opening: Vec<SessionRequestId>,
    fuse: FailPoint,
}

impl Engine {
    fn new(
        session: Session,
        paths: Paths,
        demo_dir: Option<PathBuf>,
        configuration: Configuration,
        clock: Clock,
        fuse: FailPoint,
    ) -> Self {
        let subscription = session.subscribe();
        let (words, said) = mpsc::channel(WORDS_WAITING);
        Self {
            session,
            subscription,
            paths,
            demo_dir,
            configuration,
            config_mark: Arc::default(),
            clock,
            given: Vec::new(),
            browser: None,
            viewer: None,
            copies: None,
            copied: 0,
            words,
            said,
            heard: Vec::new(),
            opening: Vec::new(),
            fuse,
        }
    }

    /// Asks for something that only has to be said if it is refused. The screen counts its own asks from below.
    fn ask_for_opening(&mut self, what: SessionRequest) {
        let ask = SessionRequestId::MAX - self.opening.len() as SessionRequestId;
        self.opening.push(ask);
        self.session.ask_as(&self.subscription, ask, what);
    }

    fn event(&self, news: SessionEvent) -> Event {
        match news {
            SessionEvent::Response {
                request: ask,
                outcome: Err(refused),
            } if self.opening.contains(&ask) => Event::Failed(refused.to_string()),
            news => Event::Session(news),
        }
    }

    /// Does something that may take its time, and says what came of it.
    fn behind<E: IntoIterator<Item = Event>>(&self, work: impl FnOnce() -> E + Send + 'static) {
        let words = self.words.clone();
        tokio::task::spawn_blocking(move || {
            for event in work() {
                // The screen may be gone by now.
                let _ = words.blocking_send(event);
            }
        });
    }

    /// The same, of what comes to words.
    fn behind_in_words(&self, work: impl FnOnce() -> Result<String, String> + Send + 'static) {
        self.behind(move || [work().map_or_else(Event::Failed, Event::Succeeded)]);
    }

    fn reader(&self) -> Result<Reader, String> {
        Reader::open(&self.paths).map_err(|error| format!("could not {error}"))
    }
}

/// The bytes of a part of a result on disk, and the ending of the file that another program may be given.
fn part_of(
    paths: &Paths,
    task: &TaskId,
    part: usize,
) -> Result<(Vec<u8>, Result<&'static str, String>), String> {
    let mut reader = Reader::open(paths).map_err(|error| format!("could not {error}"))?;
    let result = reader
        .result(task)
        .map_err(|error| format!("could not {error}"))?;
    let block = result
        .as_deref()
        .and_then(|json| content_element(json, part));
    let block = block.ok_or("it no longer exists")?;
    let block = ContentBlock::parse(&block);
    let extension = match &block {
        ContentBlock::Media(media) => media.opens_as().map_err(|error| error.to_string()),
        _ => Err("this type cannot be opened; save it instead".to_owned()),
    };
    let contents = block.contents().map_err(|error| error.to_string())?;
    Ok((contents.into_owned(), extension))
}

impl Services for Engine {
    async fn changed(&mut self) {
        tokio::select! {
            () = self.subscription.changed() => {}
            Some(event) = self.said.recv() => self.heard.push(event),
        }
    }

    fn take(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.heard);
        let news = self.subscription.take();
        self.fuse.burn(PanicIn::Screen);
        events.extend(news.into_iter().map(|news| self.event(news)));
        events
    }

    fn ask(&mut self, ask: SessionRequestId, what: SessionRequest) {
        self.session.ask_as(&self.subscription, ask, what);
    }

    fn history(
        &mut self,
        task: &TaskId,
        after_seq: u64,
    ) -> Result<(Vec<HistoryEntry>, u64), String> {
        let mut reader = self.reader()?;
        let mut read = || {
            // Mostly only a few are new, and reading all that the screen can hold would be in vain.
            let entries = reader.history(task, after_seq, HISTORY_AT_ONCE)?;
            if entries.len() < HISTORY_AT_ONCE {
                return Ok(entries);
            }
            reader.history_tail(task, HISTORY_AT_ONCE)
        };
        let mut entries = read().map_err(|error: StoreError| format!("could not {error}"))?;
        entries.retain(|entry| entry.seq > after_seq);
        let dropped = entries
            .first()
            .map_or(0, |first| first.seq.saturating_sub(after_seq + 1));
        Ok((entries, dropped))
    }

    fn result(&mut self, task: &TaskId) -> Result<Option<String>, String> {
        self.reader()?
            .result(task)
            .map_err(|error| format!("could not {error}"))
    }

    fn wire(&mut self, task: TaskId, server: ServerName) {
        let paths = self.paths.clone();
        self.behind(move || {
            let reader = TraceReader::of_servers(&paths, [&server]);
            let is_ours = |entry: &TrafficEntry| entry.task.as_ref().is_none_or(|of| *of == task);
            let entries = reader.newest(WIRE_AT_ONCE, WIRE_BYTES, is_ours);
            let failed = entries
                .as_ref()
                .err()
                .map(|error| Event::Failed(format!("could not {error}")));
            let entries = entries.unwrap_or_default();
            std::iter::once(Event::TrafficRead { task, entries }).chain(failed)
        });
    }

    fn open_page(&mut self, url: &str) {
        let page = url.to_owned();
        let browser = self.browser.clone();
        self.behind(move || {
            let opened = browser
                .ok_or_else(|| "no browser was found".to_owned())
                .and_then(|browser| {
                    browser
                        .open_and_wait(&page)
                        .map_err(|error| error.to_string())
                });
            let error = opened.err()?;
            let why = format!("could not open it: {error}; y copies the URL");
            Some(Event::Failed(why))
        });
    }

    fn save(&mut self, task: &TaskId, what: SaveContent, path: &str) {
        let (paths, task) = (self.paths.clone(), task.clone());
        let (configuration, given) = (self.configuration, self.given.clone());
        let now = self.clock.now().wall;
        let file = match path.strip_prefix("~/") {
            Some(rest) => dirs::home_dir().unwrap_or_default().join(rest),
            None => PathBuf::from(path),
        };
        // Whole, so that whoever reads where it is finds it.
        let file = std::path::absolute(&file).unwrap_or(file);
        self.behind_in_words(move || {
            let bytes = match what {
                SaveContent::Part(part) => part_of(&paths, &task, part)?.0,
                trace => (configuration.export)(&paths, &task, trace, now, &given)?.into_bytes(),
            };
            // What is there stays: a name that a key left standing must not cost a file.
            let written = create_atomically(&file, &bytes);
            written.map_err(|error| format!("could not write {}: {error}", file.display()))?;
            let size = text::bytes(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            Ok(format!("saved {size} to {}", file.display()))
        });
    }

    fn open_part(&mut self, task: &TaskId, part: usize) {
        let (paths, task) = (self.paths.clone(), task.clone());
        // Only its owner may look into the directory.
        let make = || {
            tempfile::Builder::new()
                .prefix("longhaul-")
                .permissions(Permissions::from_mode(0o700))
                .tempdir()
        };
        let dir = match self.copies.take().map_or_else(make, Ok) {
            Ok(dir) => dir,
            Err(error) => {
                return self
                    .behind_in_words(move || Err(format!("could not make a copy: {error}")));
            }
        };
        self.copied += 1;
        let copy = dir.path().join(format!("{task}-{}", self.copied));
        self.copies = Some(dir);
        let viewer = self.viewer.clone();
        self.behind_in_words(move || {
            let viewer = viewer.ok_or("no desktop was found")?;
            let (bytes, extension) = part_of(&paths, &task, part)?;
            // Asked once more of what is on the disk: it is that which is given away.
            let copy = copy.with_extension(extension?);
            let write = || File::create_new(&copy)?.write_all(&bytes);
            write().map_err(|error| format!("could not make a copy: {error}"))?;
            let opened = viewer.open_and_wait(&copy);
            opened.map_err(|error| format!("could not open it: {error}"))?;
            Ok(format!("{} has it", viewer.program()))
        });
    }

    fn save_view(&mut self, view: View) {
        let configuration = self.configuration;
        self.behind_in_words(move || (configuration.save_view)(&view));
    }

    fn look_at_config(&mut self, force: bool) {
        let configuration = self.configuration;
        let mark = Arc::clone(&self.config_mark);
        self.behind(move || {
            // A look that panicked left a whole value behind.
            let mut mark = mark.lock().unwrap_or_else(PoisonError::into_inner);
            let read = (configuration.look)(&mut mark, force)?;
            Some(read.map_or_else(Event::Failed, |read| Event::ConfigRead(Box::new(read))))
        });
    }

    fn consent(&mut self, server: ServerName, agreed_to: Option<String>) {
        let configuration = self.configuration;
        self.behind(move || {
            let consent = (configuration.consent)(&server, agreed_to.as_deref());
            [consent.map_or_else(Event::Failed, |consent| Event::ConsentRead(server, consent))]
        });
    }

    fn import(&mut self, takes: bool) {
        let (configuration, paths) = (self.configuration, self.paths.clone());
        self.behind(move || {
            [match (configuration.import)(&paths, takes) {
                Ok(findings) if takes => Event::ServersImported(findings),
                Ok(findings) => Event::ServersFound(findings),
                Err(why) => Event::Failed(why),
            }]
        });
    }

    #[cfg(feature = "demo")]
    fn break_demo(&mut self, what: &str) {
        let Some(dir) = self.demo_dir.clone() else {
            return;
        };
        let what = what.replace(' ', "=");
        self.behind_in_words(move || {
            what.parse::<crate::demo::Fault>()
                .map_err(|error| error.to_string())
                .and_then(|fault| {
                    crate::demo::control(&dir, fault).map_err(|error| error.to_string())
                })
        });
    }

    #[cfg(not(feature = "demo"))]
    fn break_demo(&mut self, _what: &str) {
        if self.demo_dir.is_some() {
            // A full queue means that the same words are on their way already.
            let why = "this longhaul was built without the demo".to_owned();
            let _ = self.words.try_send(Event::Failed(why));
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

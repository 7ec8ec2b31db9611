//! What the loop needs of the session, its file, the configuration and the demo server. Slow work runs on other threads.

use std::{
    collections::BTreeMap,
    fmt::Display,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use tokio::sync::mpsc;

use super::Services;
use crate::{
    app::{Command, Event},
    config::{self, FileMark, approval, import},
    domain::{
        RequestError, Saved, SavedRead, ServerName, ServerView, SessionEvent, SessionOutcome,
        SessionRequest, SessionRequestId, SessionResponse, TaskId, TaskView, decode_base64, locked,
        text,
    },
    engine::{PanicIn, ReadError, Session, Subscription, panic_if_told, read_saved},
    store::{ListFilter, Paths, Reader, StoreError, create_atomically},
    term::browser::Browser,
};

/// Settled tasks of the first frame; the session brings the rest.
const FIRST_TASKS: usize = 200;

/// The first number of a request to read. The screen numbers its own requests from 0, and an opening from the top.
const FIRST_READ: SessionRequestId = SessionRequestId::MAX / 2;

/// Events of background work that may wait.
const EVENTS_WAITING: usize = 16;

/// What the session file shows before a driver answers.
pub(super) fn saved(paths: &Paths) -> Event {
    let read = || -> Result<Event, StoreError> {
        let mut reader = Reader::open(paths)?;
        let saved_at = reader.saved_at()?;
        let tasks = reader.tasks(ListFilter {
            all: false,
            limit: Some(FIRST_TASKS),
        })?;
        let views = tasks
            .into_iter()
            .map(|task| Arc::new(TaskView::unwatched(task, saved_at)))
            .collect();
        let servers = reader.links()?.iter().map(ServerView::of_record).collect();
        Ok(Event::Restored {
            views,
            servers,
            saved_at,
            watched_at: paths.watched_at(),
        })
    };
    read().unwrap_or_else(|error| Event::Failed(format!("could not {error}")))
}

/// What the services need besides the session.
pub struct ServiceOptions {
    /// Where the demo server keeps its data; only in the demo.
    pub demo_dir: Option<PathBuf>,
    /// The configuration file as it was when it was read.
    pub config_mark: FileMark,
    /// Opens pages, if there is a browser.
    pub browser: Option<Browser>,
}

/// The session, its file, the configuration and the demo server.
pub(super) struct SessionServices {
    pub(super) session: Session,
    subscription: Subscription,
    paths: Paths,
    options: ServiceOptions,
    /// The configuration file as it was last read. Each read holds it, so that reads follow one another.
    config_mark: Arc<Mutex<FileMark>>,
    sender: mpsc::Sender<Event>,
    receiver: mpsc::Receiver<Event>,
    received: Vec<Event>,
    /// Requests of the opening, which the screen does not know.
    opening: Vec<SessionRequestId>,
    /// Whether the session file is on another machine.
    is_remote: bool,
    /// What was asked of the other machine, by request, and the file to save it to.
    reads: BTreeMap<SessionRequestId, (SavedRead, Option<PathBuf>)>,
    reads_asked: u64,
}

impl SessionServices {
    pub(super) fn new(
        session: Session,
        paths: Paths,
        options: ServiceOptions,
        is_remote: bool,
    ) -> Self {
        let subscription = session.subscribe();
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
        Self {
            session,
            subscription,
            paths,
            config_mark: Arc::new(Mutex::new(options.config_mark)),
            options,
            sender,
            receiver,
            received: Vec::new(),
            opening: Vec::new(),
            is_remote,
            reads: BTreeMap::new(),
            reads_asked: 0,
        }
    }

    /// Sends a request whose response is reported only if it is an error. The screen numbers its own requests from 0.
    pub(super) fn ask_for_opening(&mut self, what: SessionRequest) {
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

    /// Runs slow work on another thread and sends its events.
    fn in_background<E: IntoIterator<Item = Event>>(
        &self,
        work: impl FnOnce() -> E + Send + 'static,
    ) {
        let sender = self.sender.clone();
        tokio::task::spawn_blocking(move || {
            for event in work() {
                // The screen may be gone by now.
                let _ = sender.blocking_send(event);
            }
        });
    }

    /// As [`Self::in_background`], for work that ends with a message.
    fn in_background_with_message<E: Display>(
        &self,
        work: impl FnOnce() -> Result<String, E> + Send + 'static,
    ) {
        self.in_background(move || [work().map_or_else(failed, Event::Succeeded)]);
    }

    /// Asks the other end of the tunnel to read the session file.
    fn ask_to_read(&mut self, read: SavedRead, file: Option<PathBuf>) {
        let ask = FIRST_READ + self.reads_asked;
        self.reads_asked += 1;
        self.session
            .ask_as(&self.subscription, ask, SessionRequest::Read(read.clone()));
        self.reads.insert(ask, (read, file));
    }

    /// The events of an answer to [`Self::ask_to_read`].
    fn answered(
        &self,
        (read, file): (SavedRead, Option<PathBuf>),
        outcome: SessionOutcome,
    ) -> Vec<Event> {
        let saved = match outcome {
            Ok(SessionResponse::Read(saved)) => Ok(saved),
            Ok(_) => Err(ServiceError::OtherAnswer),
            Err(error) => Err(error.into()),
        };
        let Some(file) = file else {
            return events_of(read, saved);
        };
        self.in_background_with_message(move || write_part(saved?, &file));
        Vec::new()
    }
}

fn failed(error: impl Display) -> Event {
    Event::Failed(error.to_string())
}

/// Why something that the user asked for failed. The text is a whole message.
#[derive(Debug, thiserror::Error)]
enum ServiceError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("unexpected response from the other machine")]
    OtherAnswer,
    #[error("it was corrupted in transit")]
    DamagedPart,
    #[error("could not write {}: {}", file.display(), text::os_error(error))]
    Write { file: PathBuf, error: io::Error },
}

/// Writes a block of a result to a file that must not exist. Returns the message for the user.
fn write_part(part: Saved, file: &Path) -> Result<String, ServiceError> {
    let Saved::Part(base64) = part else {
        return Err(ReadError::NoPart.into());
    };
    let bytes = decode_base64(&base64).ok_or(ServiceError::DamagedPart)?;
    create_atomically(file, &bytes).map_err(|error| ServiceError::Write {
        file: file.to_owned(),
        error,
    })?;
    let size = text::bytes(bytes.len());
    Ok(format!("saved {size} to {}", file.display()))
}

/// The events of what was read. A read that failed is answered too, so that the next one can be asked for.
fn events_of(read: SavedRead, saved: Result<Saved, impl Display>) -> Vec<Event> {
    match saved {
        Ok(saved) => vec![Event::Read(read, Some(saved))],
        Err(error) => vec![Event::Read(read, None), failed(error)],
    }
}

impl Services for SessionServices {
    async fn changed(&mut self) {
        tokio::select! {
            () = self.subscription.changed() => {}
            Some(event) = self.receiver.recv() => self.received.push(event),
        }
    }

    fn take(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.received);
        let news = self.subscription.take();
        panic_if_told(PanicIn::Screen);
        for news in news {
            match news {
                SessionEvent::Response { request, outcome }
                    if self.reads.contains_key(&request) =>
                {
                    if let Some(read) = self.reads.remove(&request) {
                        events.extend(self.answered(read, outcome));
                    }
                }
                news => events.push(self.event(news)),
            }
        }
        events
    }

    fn carry_out(&mut self, command: Command) -> Vec<Event> {
        match command {
            Command::Request(ask, what) => self.session.ask_as(&self.subscription, ask, what),
            Command::Read(what) => return self.read(what),
            Command::InjectFault(what) => self.break_demo(&what),
            Command::FindServers => self.import(false),
            Command::ImportServers => self.import(true),
            Command::CheckConfig { force } => self.look_at_config(force),
            Command::ReadApproval(server) => self.approval(server, None),
            Command::Approve { server, digest } => self.approval(server, Some(digest)),
            Command::OpenPage(url) => self.open_page(url),
            Command::SavePart { task, part, path } => self.save_part(task, part, &path),
            Command::Terminal(_) | Command::Quit(_) => {}
        }
        Vec::new()
    }
}

impl SessionServices {
    /// Reads the session file. What it says is returned, or is an event later.
    fn read(&mut self, what: SavedRead) -> Vec<Event> {
        if self.is_remote {
            self.ask_to_read(what, None);
            return Vec::new();
        }
        // A record can be large, and nobody waits for it.
        let is_slow = matches!(what, SavedRead::Traffic { .. });
        let paths = self.paths.clone();
        let read = move || {
            let saved = read_saved(&paths, &what);
            events_of(what, saved)
        };
        if is_slow {
            self.in_background(read);
            return Vec::new();
        }
        read()
    }

    /// Opens a page in the user's browser; only a failure is an event later.
    fn open_page(&self, page: String) {
        let browser = self.options.browser.clone();
        self.in_background(move || {
            let why = match browser {
                Some(browser) => browser.open_and_wait(&page).err()?.to_string(),
                None => "no browser was found".to_owned(),
            };
            Some(failed(format_args!(
                "could not open it: {why}; y copies the URL"
            )))
        });
    }

    /// Writes a block of a result to a new file; an event reports the outcome later.
    fn save_part(&mut self, task: TaskId, part: usize, path: &str) {
        let file = match path.strip_prefix("~/") {
            Some(rest) => dirs::home_dir().unwrap_or_default().join(rest),
            None => PathBuf::from(path),
        };
        // An absolute path, so that the message helps anywhere.
        let file = std::path::absolute(&file).unwrap_or(file);
        let read = SavedRead::Part { task, part };
        if self.is_remote {
            return self.ask_to_read(read, Some(file));
        }
        let paths = self.paths.clone();
        self.in_background_with_message(move || write_part(read_saved(&paths, &read)?, &file));
    }

    /// Looks whether the configuration has changed, or reads it `force`; what it says now is an event later.
    fn look_at_config(&mut self, force: bool) {
        let mark = Arc::clone(&self.config_mark);
        self.in_background(move || {
            // A read that panicked left the value whole.
            let mut mark = locked(&mark);
            let read = config::reread(&mut mark, force)?;
            Some(match read {
                Ok(read) => Event::ConfigRead(Box::new(read)),
                Err(error) => failed(format_args!(
                    "{error}; the previous configuration stays in use"
                )),
            })
        });
    }

    /// Reads what the configuration has for a server, agreed to where this is its digest.
    fn approval(&mut self, server: ServerName, agreed_to: Option<String>) {
        self.in_background(move || {
            let approval = approval::approve(&server, agreed_to.as_deref());
            [approval.map_or_else(failed, |approval| Event::ApprovalRead(server, approval))]
        });
    }

    /// Looks for servers in other MCP clients, and imports them if `takes`; an event reports the outcome later.
    fn import(&mut self, takes: bool) {
        let paths = self.paths.clone();
        self.in_background(move || {
            [match import::findings(&paths, takes) {
                Ok(findings) if takes => Event::ServersImported(findings),
                Ok(findings) => Event::ServersFound(findings),
                Err(error) => failed(error),
            }]
        });
    }

    /// Injects a fault into the demo server; an event reports the outcome later.
    #[cfg(feature = "demo")]
    fn break_demo(&mut self, what: &str) {
        let Some(dir) = self.options.demo_dir.clone() else {
            return;
        };
        let fault = what.replace(' ', "=").parse::<crate::demo::Fault>();
        self.in_background_with_message(move || {
            let fault = fault.map_err(|error| error.to_string())?;
            crate::demo::control(&dir, fault).map_err(|error| error.to_string())
        });
    }

    #[cfg(not(feature = "demo"))]
    fn break_demo(&mut self, _what: &str) {
        if self.options.demo_dir.is_some() {
            // A full queue means that the same message is on its way already.
            let why = "this longhaul was built without the demo".to_owned();
            let _ = self.sender.try_send(Event::Failed(why));
        }
    }
}

//! What the loop needs of the session, its file, the configuration and the demo server. Slow work runs on other threads.

use std::{
    fs::{File, Permissions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use secrecy::SecretString;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::Services;
use crate::{
    app::{ConfigReread, Consent, Event, SaveContent, ServerFindings, View},
    config::FileMark,
    domain::{
        ContentBlock, HistoryEntry, LinkState, Milestone, ServerName, ServerView, SessionEvent,
        SessionRequest, SessionRequestId, TaskId, TaskView, TrafficEntry, Wall, content_element,
        server_url, text,
    },
    engine::{Clock, FailPoint, PanicIn, Session, Subscription},
    store::{ListFilter, Paths, Reader, StoreError, TraceReader, create_atomically},
    term::{browser::Browser, viewer::Viewer},
};

/// The most history entries of a task that the screen takes at once; older ones are counted.
const HISTORY_AT_ONCE: usize = 2000;

/// The most recorded messages that the screen takes at once, from the last [`TRAFFIC_BYTES`] of the record.
const TRAFFIC_AT_ONCE: usize = 200;

const TRAFFIC_BYTES: usize = 512 * 1024;

/// Settled tasks of the first frame; the session brings the rest.
const FIRST_TASKS: usize = 200;

/// Events of background work that may wait.
const EVENTS_WAITING: usize = 16;

/// Exports a task as of a time, without the given secrets and those that it finds.
pub type Export = fn(&Paths, &TaskId, SaveContent, Wall, &[SecretString]) -> Result<String, String>;

/// What the screen needs of the modules that know the configuration and the export.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    /// Finds the servers of other MCP clients; if `true`, adds the unknown ones to the configuration.
    pub import: fn(&Paths, bool) -> Result<ServerFindings, String>,
    /// Saves a view in the configuration and returns the message for the user.
    pub save_view: fn(&View) -> Result<String, String>,
    /// Reads the configuration again; `None` if the file has not changed, unless `true`.
    pub look: fn(&mut FileMark, bool) -> Option<Result<ConfigReread, String>>,
    /// Exports a task as a page or as JSON.
    pub export: Export,
    /// Reads what a server would receive, and approves it if the digest matches.
    pub consent: fn(&ServerName, Option<&str>) -> Result<Consent, String>,
}

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
            watched_at: paths.watched_at(),
        })
    };
    read().unwrap_or_else(|error| Event::Failed(format!("could not {error}")))
}

/// The session, its file, the configuration and the demo server.
pub(super) struct SessionServices {
    pub(super) session: Session,
    subscription: Subscription,
    paths: Paths,
    demo_dir: Option<PathBuf>,
    configuration: Configuration,
    /// The configuration file as it was last read. Each read holds it, so that reads follow one another.
    pub(super) config_mark: Arc<Mutex<FileMark>>,
    clock: Clock,
    pub(super) given: Vec<SecretString>,
    pub(super) browser: Option<Browser>,
    pub(super) viewer: Option<Viewer>,
    /// The directory of copies that other programs opened; removed with this.
    copies: Option<TempDir>,
    /// How many copies were made.
    copied: u64,
    sender: mpsc::Sender<Event>,
    receiver: mpsc::Receiver<Event>,
    received: Vec<Event>,
    /// Requests of the opening, which the screen does not know.
    opening: Vec<SessionRequestId>,
    fuse: FailPoint,
}

impl SessionServices {
    pub(super) fn new(
        session: Session,
        paths: Paths,
        demo_dir: Option<PathBuf>,
        configuration: Configuration,
        clock: Clock,
        fuse: FailPoint,
    ) -> Self {
        let subscription = session.subscribe();
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING);
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
            sender,
            receiver,
            received: Vec::new(),
            opening: Vec::new(),
            fuse,
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
    fn in_background_with_message(
        &self,
        work: impl FnOnce() -> Result<String, String> + Send + 'static,
    ) {
        self.in_background(move || [work().map_or_else(Event::Failed, Event::Succeeded)]);
    }

    fn reader(&self) -> Result<Reader, String> {
        Reader::open(&self.paths).map_err(|error| format!("could not {error}"))
    }
}

/// The bytes of a part of a saved result, and the extension of the file that another program may open.
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
            // Usually only a few are new.
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

    fn milestones(&mut self, task: &TaskId, after_seq: u64) -> Result<Vec<Milestone>, String> {
        self.reader()?
            .milestones(task, after_seq)
            .map_err(|error| format!("could not {error}"))
    }

    fn result(&mut self, task: &TaskId) -> Result<Option<String>, String> {
        self.reader()?
            .result(task)
            .map_err(|error| format!("could not {error}"))
    }

    fn wire(&mut self, task: TaskId, server: ServerName) {
        let paths = self.paths.clone();
        self.in_background(move || {
            let reader = TraceReader::of_servers(&paths, [&server]);
            let is_ours = |entry: &TrafficEntry| entry.task.as_ref().is_none_or(|of| *of == task);
            let entries = reader.newest(TRAFFIC_AT_ONCE, TRAFFIC_BYTES, is_ours);
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
        self.in_background(move || {
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
        // An absolute path, so that the message helps anywhere.
        let file = std::path::absolute(&file).unwrap_or(file);
        self.in_background_with_message(move || {
            let bytes = match what {
                SaveContent::Part(part) => part_of(&paths, &task, part)?.0,
                trace => (configuration.export)(&paths, &task, trace, now, &given)?.into_bytes(),
            };
            // An existing file is never overwritten.
            let written = create_atomically(&file, &bytes);
            written.map_err(|error| format!("could not write {}: {error}", file.display()))?;
            let size = text::bytes(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            Ok(format!("saved {size} to {}", file.display()))
        });
    }

    fn open_part(&mut self, task: &TaskId, part: usize) {
        let (paths, task) = (self.paths.clone(), task.clone());
        // Readable by this user only.
        let make = || {
            tempfile::Builder::new()
                .prefix("longhaul-")
                .permissions(Permissions::from_mode(0o700))
                .tempdir()
        };
        let dir = match self.copies.take().map_or_else(make, Ok) {
            Ok(dir) => dir,
            Err(error) => {
                return self.in_background_with_message(move || {
                    Err(format!("could not make a copy: {error}"))
                });
            }
        };
        self.copied += 1;
        let copy = dir.path().join(format!("{task}-{}", self.copied));
        self.copies = Some(dir);
        let viewer = self.viewer.clone();
        self.in_background_with_message(move || {
            let viewer = viewer.ok_or("no desktop was found")?;
            let (bytes, extension) = part_of(&paths, &task, part)?;
            // Checked again, because this is what is opened.
            let copy = copy.with_extension(extension?);
            let write = || File::create_new(&copy)?.write_all(&bytes);
            write().map_err(|error| format!("could not make a copy: {error}"))?;
            let opened = viewer.open_and_wait(&copy);
            opened.map_err(|error| format!("could not open it: {error}"))?;
            Ok(format!("opened with {}", viewer.program()))
        });
    }

    fn save_view(&mut self, view: View) {
        let configuration = self.configuration;
        self.in_background_with_message(move || (configuration.save_view)(&view));
    }

    fn look_at_config(&mut self, force: bool) {
        let configuration = self.configuration;
        let mark = Arc::clone(&self.config_mark);
        self.in_background(move || {
            // A read that panicked left the value whole.
            let mut mark = mark.lock().unwrap_or_else(PoisonError::into_inner);
            let read = (configuration.look)(&mut mark, force)?;
            Some(read.map_or_else(Event::Failed, |read| Event::ConfigRead(Box::new(read))))
        });
    }

    fn consent(&mut self, server: ServerName, agreed_to: Option<String>) {
        let configuration = self.configuration;
        self.in_background(move || {
            let consent = (configuration.consent)(&server, agreed_to.as_deref());
            [consent.map_or_else(Event::Failed, |consent| Event::ConsentRead(server, consent))]
        });
    }

    fn import(&mut self, takes: bool) {
        let (configuration, paths) = (self.configuration, self.paths.clone());
        self.in_background(move || {
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
        self.in_background_with_message(move || {
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
            // A full queue means that the same message is on its way already.
            let why = "this longhaul was built without the demo".to_owned();
            let _ = self.sender.try_send(Event::Failed(why));
        }
    }
}

//! Answers the requests of the screen, the commands and other processes.

use std::sync::Arc;

use itertools::Itertools as _;

use crate::{
    domain::{
        Connectivity, NewCall, NoticeLevel, RequestError, Row, ServerName, ServerRef, SessionEvent,
        SessionOutcome, SessionRequest, SessionRequestId, SessionResponse, Stamp, Task, TaskId,
        TaskView, server_url,
    },
    engine::{
        driver::state::{Driver, Linked, OwnSave, PUBLISH_EVERY, Saver},
        snapshots::ReaderId,
    },
    link::{Input, Link, Unfollowed},
    store::{Lookup, Reader, StoreError},
};

/// Who answers a request.
enum Route {
    /// A link, by its index.
    Link(usize),
    /// The driver, because no link holds the task.
    SavedTask(TaskId),
    Answer(SessionResponse),
    /// The end of a job that is under way.
    Later,
}

/// The snapshot of a task that no link holds.
pub(super) fn at_rest(task: Task) -> TaskView {
    TaskView {
        contact: Connectivity::Idle,
        ..TaskView::unwatched(task, None)
    }
}

/// Why a task that no link holds refuses a request.
fn refusal_at_rest(task: &Task, what: &SessionRequest) -> Option<String> {
    let (id, word) = (&task.id, task.status.label());
    let refusal = match what {
        SessionRequest::Pause(_) | SessionRequest::StopNow(_) => {
            format!("not paused: {id} has ended ({word})")
        }
        SessionRequest::Resume(_) => {
            format!("{id} has ended ({word}); `longhaul again {id}` runs it again")
        }
        SessionRequest::Cancel(_) | SessionRequest::GiveUp(_) => {
            format!("not cancelled: {id} has ended ({word})")
        }
        SessionRequest::Answer { .. } => format!("{id} has no open question"),
        _ => return None,
    };
    let is_removed = task.forgotten_at.is_some() && !task.status.is_settled();
    let removed =
        || format!("{id} was removed from the list; `longhaul rm --undo {id}` restores it");
    Some(if is_removed { removed() } else { refusal })
}

impl Driver<'_> {
    /// The server that a reader means by this name, for new requests.
    fn to_ask(&self, from: Option<ReaderId>, name: &ServerName) -> Result<usize, RequestError> {
        match self.configs.why_not(from, name) {
            Some(words) => Err(RequestError::Usage(words)),
            None => self.index_of(name).ok_or_else(|| self.unknown_server(name)),
        }
    }

    pub(super) fn respond(&mut self, number: SessionRequestId, outcome: SessionOutcome) {
        self.open.answer(self.snapshots, number, outcome);
    }

    pub(super) fn unknown_server(&self, name: &ServerName) -> RequestError {
        let mut known = self.links.iter().map(|it| &it.link.record().name);
        let known = known.join(", ");
        let known = if known.is_empty() {
            "no server yet"
        } else {
            &known
        };
        RequestError::Usage(format!(
            "no server named {name} in this session (it has {known}); give its URL with -s URL"
        ))
    }

    pub(super) fn ask(&mut self, number: SessionRequestId, mut what: SessionRequest, now: Stamp) {
        self.publishing.every = PUBLISH_EVERY;
        self.publishing.limit.within(PUBLISH_EVERY);
        self.pace.attend();
        self.pace.shown_every(self.publishing.every);
        if let SessionRequest::Collected { id, .. } = &mut what {
            if self.proxies.holds(id) {
                return self.proxies.hold(number, what);
            }
            *id = self.proxies.task_of(id.clone());
        }
        let asked = match &what {
            SessionRequest::In(_, what) => what.as_ref(),
            what => what,
        };
        let from = self.open.reader(number);
        // The proxy of the first call may come back, and say that its host has the result.
        if let SessionRequest::Start(call) = asked
            && self.proxies.may_come_back(now.mono)
            && (self.repeated_call(call, from, now)).is_some_and(|earlier| earlier != call.id)
        {
            return self.proxies.hold(number, what);
        }
        let index = match self.route(number, asked, now) {
            Ok(Route::Link(index)) => index,
            Ok(Route::SavedTask(id)) => return self.ask_session(number, &id, &what, now),
            Ok(Route::Answer(response)) => return self.respond(number, Ok(response)),
            Ok(Route::Later) => return,
            Err(refused) => return self.respond(number, Err(refused)),
        };
        let prepared = self.check_cleartext(number, index, asked, now);
        match prepared.and_then(|()| self.prepare(index, asked)) {
            Ok(()) => self.feed(index, Input::Ask { ask: number, what }, now),
            Err(refused) => self.respond(number, Err(refused)),
        }
    }

    /// Finds out who answers a request, and carries out what no link has to do with.
    fn route(
        &mut self,
        number: SessionRequestId,
        asked: &SessionRequest,
        now: Stamp,
    ) -> Result<Route, RequestError> {
        let from = self.open.reader(number);
        let refused = |words: &str| Err(RequestError::Usage(words.to_owned()));
        Ok(match asked {
            SessionRequest::Server(server) => self.route_server(server, from, now)?,
            SessionRequest::Configure(config) => {
                self.configure(config.clone(), from, now);
                Route::Answer(SessionResponse::Accepted)
            }
            // Requests to a server use only its own revision.
            SessionRequest::In(..) => {
                return refused("two protocol revisions were requested at once");
            }
            SessionRequest::Read(_) => {
                return refused("only the far end of a tunnel reads the session file");
            }
            SessionRequest::SignIn(name) => {
                self.sign_in(number, name);
                Route::Later
            }
            SessionRequest::Trace { server, is_on } => {
                Route::Answer(self.trace(server.as_ref(), *is_on)?)
            }
            SessionRequest::Introduce { server, host } => {
                self.introduce_host(server, host, from, now);
                Route::Link(self.to_ask(from, server)?)
            }
            SessionRequest::Roots { .. }
            | SessionRequest::Collect(_)
            | SessionRequest::Follow(_)
            | SessionRequest::Calls { .. } => Route::Answer(self.ask_of_proxy(asked, from, now)?),
            SessionRequest::Tools(name)
            | SessionRequest::RootsChanged(name)
            | SessionRequest::Forward { server: name, .. }
            | SessionRequest::CancelForward { server: name, .. }
            | SessionRequest::Respond { server: name, .. }
            | SessionRequest::Notify { server: name, .. }
            | SessionRequest::Adopt { server: name, .. }
            | SessionRequest::Checkpoints { server: name, .. } => {
                Route::Link(self.to_ask(from, name)?)
            }
            SessionRequest::Start(call) => match self.started_or_repeated(call, from, now)? {
                Some(id) => self.route_repeat(number, id, now),
                None => Route::Link(self.to_ask(from, &call.server)?),
            },
            SessionRequest::RetryNow => self.retry_all(now),
            SessionRequest::Collected { id, how } => {
                self.collected(id, how, from);
                self.route_task(id)
            }
            SessionRequest::Cancel(id) if self.only_leaves(id, from) => {
                Route::Answer(SessionResponse::Accepted)
            }
            SessionRequest::Pause(id)
            | SessionRequest::StopNow(id)
            | SessionRequest::Resume(id)
            | SessionRequest::Cancel(id)
            | SessionRequest::GiveUp(id)
            | SessionRequest::Forget(id)
            | SessionRequest::Unforget(id)
            | SessionRequest::Seen(id)
            | SessionRequest::Answer { id, .. }
            | SessionRequest::Edit { id, .. } => self.route_task(id),
        })
    }

    fn retry_all(&mut self, now: Stamp) -> Route {
        for index in 0..self.links.len() {
            self.tell(index, SessionRequest::RetryNow, now);
        }
        // From the response on, a view that needs a sign-in is not from before the retry.
        self.publish_changes(now);
        Route::Answer(SessionResponse::Accepted)
    }

    fn route_server(
        &mut self,
        server: &ServerRef,
        from: Option<ReaderId>,
        now: Stamp,
    ) -> Result<Route, RequestError> {
        if server.url.is_none() && self.configs.why_not(from, &server.name).is_some() {
            // Requests to it report the error.
            return Ok(Route::Answer(SessionResponse::Accepted));
        }
        self.configs.named_again(&server.name);
        self.show_gone_from(&server.name, None, now);
        let known = self.know(server.clone(), from, now);
        match (from, &known) {
            (Some(reader), Ok(index)) => {
                self.configs.accept(reader, &server.name);
                let link = self.links.get(*index).map(|linked| &linked.link);
                if let Some(error) = link.and_then(Link::waiting_config) {
                    let level = NoticeLevel::Info;
                    let notice = SessionEvent::notice(now.wall, level, error.to_string());
                    self.snapshots.tell(reader, notice);
                }
            }
            // What it asks for next must not go to another server.
            (Some(reader), Err(refused)) if server.url.is_some() => {
                let words = refused.to_string();
                self.configs.refuse(reader, server.name.clone(), words);
            }
            _ => {}
        }
        known.map(Route::Link)
    }

    fn route_task(&self, id: &TaskId) -> Route {
        let index = self.links.iter().position(|linked| linked.link.holds(id));
        index.map_or_else(|| Route::SavedTask(id.clone()), Route::Link)
    }

    /// Each command has to allow credentials over plain http for itself; the calls that it makes keep that permission.
    fn check_cleartext(
        &mut self,
        number: SessionRequestId,
        index: usize,
        asked: &SessionRequest,
        now: Stamp,
    ) -> Result<(), RequestError> {
        let is_allowed = self.allows_insecure_http(number);
        let Some(linked) = self.links.get_mut(index) else {
            return Ok(());
        };
        let record = linked.link.record();
        let url = url::Url::parse(&record.url).ok();
        let Some(url) = url.filter(server_url::is_cleartext) else {
            return Ok(());
        };
        if is_allowed {
            if !std::mem::replace(&mut linked.insecure_http, true) {
                linked.http = None;
            }
            return Ok(());
        }
        let is_signed_in = || {
            let found = self.sign_in.logins.is_signed_in(&url, now.wall);
            !matches!(found, Ok(None | Some(false)))
        };
        let sends_secrets = !linked.given().is_empty()
            || linked.insecure_http && (self.configs.has_headers(&record.name) || is_signed_in());
        if !asked.starts_something() || !sends_secrets {
            return Ok(());
        }
        Err(RequestError::Usage(format!(
            "refusing to send credentials to {} over plain http, where others can read them; use an https:// URL, or pass --insecure-http",
            record.name
        )))
    }

    pub(super) fn allows_insecure_http(&self, number: SessionRequestId) -> bool {
        if self.open.is_ours(number) {
            return self.sign_in.insecure_http;
        }
        let reader = self.open.reader(number);
        reader.is_some_and(|reader| self.configs.allows_insecure_http(reader))
    }

    /// Checks that a link can answer a request, and tells it what only the session file knows.
    fn prepare(&mut self, index: usize, asked: &SessionRequest) -> Result<(), RequestError> {
        let trouble = self.saves.trouble.as_ref();
        if let Some(trouble) = trouble.filter(|_| !self.saves.unsaved.has_room())
            && asked.starts_something()
        {
            return Err(RequestError::CannotSave(format!(
                "not sent: {}; longhaul reads nothing from servers until the disk works again",
                trouble.error
            )));
        }
        if let SessionRequest::Adopt { server, .. } = asked
            && let Err(error) = self.tell_known(index, server)
        {
            let words = format!("could not {error}, so the saved result can't be found");
            return Err(RequestError::CannotSave(words));
        }
        Ok(())
    }

    /// A link knows only unfinished tasks; a task to adopt could have settled long ago.
    fn tell_known(&mut self, index: usize, server: &ServerName) -> Result<(), StoreError> {
        let known = Reader::open(self.paths)?.server_tasks(server)?;
        if let Some(linked) = self.links.get_mut(index) {
            let shown = |(theirs, ours, is_forgotten): (String, TaskId, bool)| {
                (theirs, Some(ours).filter(|_| !is_forgotten))
            };
            linked.link.knows(known.into_iter().map(shown));
        }
        Ok(())
    }

    /// A repeated call has started, unless the first one is not saved yet: its link answers both.
    fn route_repeat(&mut self, number: SessionRequestId, id: TaskId, now: Stamp) -> Route {
        let is_starting = |linked: &Linked| linked.link.is_starting(&id);
        let index = self.links.iter().position(is_starting);
        let Some((index, linked)) = index.and_then(|it| Some((it, self.links.get_mut(it)?))) else {
            return Route::Answer(SessionResponse::Started(id));
        };
        linked.link.repeat_start(number, id);
        self.feed(index, Input::Timer, now);
        Route::Later
    }

    /// The task that a request to start would repeat: the same id, or the same `--once` key.
    ///
    /// An unreadable file does not prove that the key is new, so then the call is refused.
    pub(super) fn started_before(
        &mut self,
        call: &NewCall,
    ) -> Result<Option<TaskId>, RequestError> {
        let is_repeat = |task: &Task| {
            // Among 10,000 tasks, one call in 100,000 gets the id of another task.
            let message = || {
                format!(
                    "not sent: {} is the id of another task; call again",
                    call.id
                )
            };
            let repeated = task.is_call(call).then(|| Some(call.id.clone()));
            repeated.ok_or_else(|| RequestError::Usage(message()))
        };
        if let Some(view) = self.snapshots.task(&call.id) {
            return is_repeat(&view.task);
        }
        // A task started just now is neither published yet nor on disk.
        let just_now = |linked: &Linked| linked.link.started_before(call);
        if let Some(id) = self.links.iter().find_map(just_now) {
            return Ok(Some(id));
        }
        let cannot_read =
            |error: StoreError| RequestError::CannotSave(format!("could not {error}"));
        let reader = match &mut self.saves.reader {
            Some(reader) => reader,
            none => none.insert(Reader::open(self.paths).map_err(cannot_read)?),
        };
        // The snapshots lack old and removed tasks.
        if let Lookup::One(task) = reader.task(call.id.as_str()).map_err(cannot_read)? {
            return is_repeat(&task);
        }
        let Some(once) = &call.once else {
            return Ok(None);
        };
        let mut shown = self.snapshots.tasks().into_iter();
        let on_board = shown.find(|view| view.task.options.once.as_ref() == Some(once));
        if let Some(view) = on_board {
            return Ok(Some(view.task.id.clone()));
        }
        reader.once(once).map_err(cannot_read)
    }

    /// Handles requests about a task that no link holds: settled, or forgotten.
    pub(super) fn ask_session(
        &mut self,
        number: SessionRequestId,
        id: &TaskId,
        what: &SessionRequest,
        now: Stamp,
    ) {
        // A link drops a task once its end is saved, while the last snapshot may still show it running.
        self.publish_changes(now);
        let Some(mut task) = self.recall(id) else {
            let words = format!("no task {id}; `longhaul ls --all` lists them");
            return self.respond(number, Err(RequestError::Usage(words)));
        };
        if let Some(words) = refusal_at_rest(&task, what) {
            let refused = if task.status.is_settled() {
                RequestError::Settled(words)
            } else {
                RequestError::Usage(words)
            };
            return self.respond(number, Err(refused));
        }
        let server = &task.server;
        let is_undo = matches!(what, SessionRequest::Unforget(_));
        if is_undo && !task.status.is_settled() && self.index_of(server).is_none() {
            let words = format!(
                "not restored: {server} is no longer in this session; `longhaul servers add` puts it back"
            );
            return self.respond(number, Err(RequestError::Usage(words)));
        }
        what.change(&mut task, now.wall);
        if !task.status.is_settled()
            && task.forgotten_at.is_none()
            && let Some(index) = self.index_of(&task.server)
        {
            // Restored: it continues where it was, and the link saves it from now on.
            // Without them a replay would add entries twice.
            let known = Reader::open(self.paths).and_then(|mut it| it.recent_ids(&task));
            let ids = known.unwrap_or_default();
            let restored = Input::Restored {
                tasks: vec![(task, ids)],
                unfollowed: Unfollowed::Removed,
            };
            self.feed(index, restored, now);
            let what = SessionRequest::Edit {
                id: id.clone(),
                changes: Vec::new(),
            };
            return self.feed(index, Input::Ask { ask: number, what }, now);
        }
        let house = self.saves.own.next_number;
        self.saves.own.next_number += 1;
        let rows = Arc::new(vec![Row::Task(Box::new(task.clone()))]);
        self.saves.own.waiting.push(OwnSave {
            number: house,
            ask: Some(number),
            view: at_rest(task),
        });
        let is_vital = !matches!(what, SessionRequest::Collected { .. });
        self.write(Saver::Own(house), rows, is_vital, now);
    }

    /// The record of a task that no link holds, as it will be on disk.
    fn recall(&self, id: &TaskId) -> Option<Task> {
        // The newest state is the one that still waits to be saved.
        let waiting = self.saves.own.waiting.iter();
        let unsaved = waiting.filter(|save| save.view.task.id == *id);
        if let Some(save) = unsaved.max_by_key(|save| save.number) {
            return Some(save.view.task.clone());
        }
        if let Some(view) = self.snapshots.task(id) {
            return Some(view.task.clone());
        }
        match Reader::open(self.paths).and_then(|mut reader| reader.task(id.as_str())) {
            Ok(Lookup::One(task)) => Some(*task),
            _ => None,
        }
    }
}

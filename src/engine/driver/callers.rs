//! What the driver does for the callers behind `longhaul proxy`.

use std::sync::Arc;

use super::Driver;
use crate::{
    domain::{
        Collected, HostProfile, NewCall, RequestError, ServerName, SessionEvent, SessionOutcome,
        SessionRequest, SessionRequestId, SessionResponse, Stamp, TaskId, TaskView,
    },
    engine::snapshots::ReaderId,
    link::{Input, Recipient},
};

impl Driver<'_> {
    /// The call of a proxy that this one repeats.
    pub(super) fn repeated_call(
        &mut self,
        call: &NewCall,
        from: Option<ReaderId>,
        now: Stamp,
    ) -> Option<TaskId> {
        let reader = from.filter(|_| !call.never_attaches)?;
        self.forget_gone_proxies();
        let held = |id: &TaskId| self.links.iter().find_map(|linked| linked.link.task(id));
        (self.proxies).earlier(call, reader, self.snapshots, held, now.wall)
    }

    fn forget_gone_proxies(&mut self) {
        // A link may have dropped a task whose end is not published yet.
        self.publish_changes(self.clock.now());
        let holds = |id: &TaskId| self.links.iter().any(|linked| linked.link.holds(id));
        self.proxies.forget_gone(self.snapshots, holds);
    }

    /// Carries out the repeated calls that waited for the proxies of an earlier driver.
    pub(super) fn start_held_calls(&mut self, now: Stamp) {
        for (number, start) in self.proxies.take_held(now.mono) {
            let from = self.open.reader(number);
            // Nothing was promised to a proxy that has gone.
            if from.is_some_and(|reader| self.snapshots.has(reader)) {
                self.ask(number, start, now);
            }
        }
    }

    /// Updates the hosts of each link.
    pub(super) fn update_listening(&mut self, now: Stamp) {
        self.forget_gone_proxies();
        for (server, key) in self.open.forwards_of_gone(self.snapshots) {
            if let Some(index) = self.index_of(&server) {
                let reason = "the host has exited".to_owned();
                let cancel = SessionRequest::CancelForward {
                    server,
                    key,
                    reason,
                };
                self.tell(index, cancel, now);
            }
        }
        for index in 0..self.links.len() {
            if let Some(linked) = self.links.get_mut(index) {
                let hosts = self.proxies.hosts_of(&linked.link.record().name);
                if linked.link.set_hosts(hosts) {
                    self.feed(index, Input::Timer, now);
                }
            }
        }
        self.answer_roots(now);
    }

    /// Passes on what a server has notified of, and its requests for roots.
    pub(super) fn pass_to_hosts(&mut self, index: usize) {
        let Some(linked) = self.links.get_mut(index) else {
            return;
        };
        if !linked.link.is_listened_to() {
            return;
        }
        let notifications = linked.link.take_notifications();
        let requests = linked.link.take_roots_requests();
        let server = &linked.link.record().name;
        for notification in notifications {
            let readers = match notification.recipient {
                Recipient::AllHosts => self.proxies.listening_to(server),
                Recipient::HostOfCall(task) => self.proxies.waiting_for(&task, self.snapshots),
                Recipient::HostOfRequest(ask) => self.open.reader(ask).into_iter().collect(),
            };
            for reader in readers {
                let event = SessionEvent::Notification {
                    server: server.clone(),
                    message: notification.message.clone(),
                };
                self.snapshots.tell(reader, event);
            }
        }
        for request in requests {
            let (number, readers) = self.proxies.ask_roots(server, request);
            for reader in readers {
                let server = server.clone();
                let event = SessionEvent::RootsWanted { server, number };
                self.snapshots.tell(reader, event);
            }
        }
    }

    /// Answers the requests for roots that all hosts have answered.
    fn answer_roots(&mut self, now: Stamp) {
        for answered in self.proxies.take_answered_roots() {
            let Some(index) = self.index_of(&answered.server) else {
                continue;
            };
            if let Some(linked) = self.links.get_mut(index) {
                for request in &answered.requests {
                    linked.link.answer_roots(request, &answered.roots);
                }
                self.feed(index, Input::Timer, now);
            }
        }
    }

    /// A proxy says which host is behind it.
    pub(super) fn introduce_host(
        &mut self,
        server: &ServerName,
        host: &HostProfile,
        from: Option<ReaderId>,
        now: Stamp,
    ) {
        if let Some(reader) = from {
            self.proxies.listens(server, host, reader);
            self.snapshots.only_followed(reader);
            self.update_listening(now);
        }
    }

    /// A proxy reports what became of a call.
    pub(super) fn collected(&mut self, id: &TaskId, how: &Collected, from: Option<ReaderId>) {
        self.proxies.collected(id, how, from);
        if let (Some(reader), Collected::Delivered) = (from, how) {
            self.snapshots.unfollow(reader, id);
        }
    }

    /// Whether a proxy only ends its own wait with a cancel, because another session waits for the call too.
    pub(super) fn only_leaves(&mut self, id: &TaskId, from: Option<ReaderId>) -> bool {
        let reader = from.filter(|it| self.proxies.host(*it).is_some());
        self.forget_gone_proxies();
        reader.is_some_and(|reader| self.proxies.leaves(id, reader))
    }

    /// What only proxies ask, and no link answers.
    pub(super) fn ask_of_proxy(
        &mut self,
        asked: &SessionRequest,
        from: Option<ReaderId>,
        now: Stamp,
    ) -> SessionOutcome {
        match asked {
            SessionRequest::Roots { number, roots, .. } => {
                if let Some(reader) = from {
                    self.proxies.got_roots(*number, reader, roots);
                    self.answer_roots(now);
                }
                Ok(SessionResponse::Accepted)
            }
            SessionRequest::Collect(id) => self.follow(id, from, true, now),
            SessionRequest::Follow(id) => self.follow(id, from, false, now),
            SessionRequest::Calls {
                server,
                host,
                directory,
            } => Ok(self.calls_of(server, host, directory, now)),
            _ => Err(RequestError::Usage("nothing to do".to_owned())),
        }
    }

    /// A proxy follows a call, and perhaps `waits` for its result.
    fn follow(
        &mut self,
        id: &TaskId,
        from: Option<ReaderId>,
        waits: bool,
        now: Stamp,
    ) -> SessionOutcome {
        self.publish_changes(now);
        let shown = self.snapshots.task(id);
        // What is not saved yet is not published either.
        let held = self.links.iter().find_map(|linked| linked.link.task(id));
        let Some(task) = shown.as_ref().map(|view| &view.task).or(held) else {
            let words = format!("no task {id}; `longhaul ls --all` lists them");
            return Err(RequestError::Usage(words));
        };
        if let Some(reader) = from {
            self.snapshots.follow(reader, id);
            self.proxies.follows(task, reader, waits);
        }
        Ok(SessionResponse::Accepted)
    }

    /// The calls that a host made on a server.
    fn calls_of(
        &mut self,
        server: &ServerName,
        host: &str,
        directory: &str,
        now: Stamp,
    ) -> SessionResponse {
        self.publish_changes(now);
        let is_its = |view: &TaskView| {
            let caller = view.task.caller.as_deref();
            let is_host = caller.is_some_and(|caller| caller.is_host(host, directory));
            is_host && view.task.server.shares_entry(server) && view.task.forgotten_at.is_none()
        };
        let views = self.snapshots.tasks().into_iter();
        let mut views: Vec<TaskView> = views
            .filter(|view| is_its(view))
            .map(Arc::unwrap_or_clone)
            .collect();
        for view in &mut views {
            // A list needs neither, and they can be large.
            view.task.arguments.clear();
            view.task.questions.clear();
        }
        views.sort_by_key(|view| view.task.created_at);
        SessionResponse::Calls(views)
    }

    /// Adds to an introduction the earliest time at which its host gave up, as seen in its calls.
    pub(super) fn with_timeout(
        &self,
        number: SessionRequestId,
        response: SessionResponse,
    ) -> SessionResponse {
        let SessionResponse::Introduced(mut introduction) = response else {
            return response;
        };
        let reader = self.open.reader(number);
        if let Some(host) = reader.and_then(|reader| self.proxies.host(reader)) {
            let views = self.snapshots.tasks();
            let callers = views.iter().filter_map(|view| view.task.caller.as_deref());
            let own = callers.filter(|it| it.host == host.name && it.version == host.version);
            introduction.timeout_ms = own.filter_map(|caller| caller.timeout_ms).min();
        }
        SessionResponse::Introduced(introduction)
    }

    /// The task that a request to start would repeat, for itself or for the caller behind a proxy, which waits for it.
    pub(super) fn started_or_repeated(
        &mut self,
        call: &NewCall,
        from: Option<ReaderId>,
        now: Stamp,
    ) -> Result<Option<TaskId>, RequestError> {
        let started = self.started_before(call)?;
        let repeated = match &started {
            Some(_) => None,
            None => self.repeated_call(call, from, now),
        };
        if let (Some(reader), Some(_)) = (from, &call.caller) {
            let id = started.as_ref().or(repeated.as_ref());
            let id = id.unwrap_or(&call.id);
            self.snapshots.follow(reader, id);
            self.proxies.calls(&call.id, id, reader);
        }
        if let (Some(id), Some(caller)) = (&repeated, &call.caller) {
            let request_id = caller.request_id.clone();
            let how = Collected::Repeated { request_id };
            let note = SessionRequest::Collected {
                id: id.clone(),
                how,
            };
            match self.links.iter().position(|linked| linked.link.holds(id)) {
                Some(index) => self.tell(index, note, now),
                None => self.ask_session(0, id, &note, now),
            }
        }
        Ok(started.or(repeated))
    }
}

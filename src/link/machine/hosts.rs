//! The hosts behind `longhaul proxy`: what longhaul declares for them, and what is passed to them.

use core::time::Duration;

use serde_json::{Value, json};

use super::Link;
use crate::{
    domain::{
        Answer, Forwarded, HostProfile, Mono, Question, QuestionKind, SessionRequestId, TaskId,
    },
    link::{
        active_task::ActiveTask,
        connection::ConnectionState,
        hosts::{PassedNotification, Recipient, RootsRequest, WAITING},
        in_flight::RequestKind,
        negotiation::NegotiationStep,
    },
    protocol::{Incoming, Method, encode},
};

/// How often hosts are asked to read the lists again, at most: the sessions of some servers end all the time.
const LISTS_EVERY: Duration = Duration::from_secs(60);

/// How long a request that only a host can answer waits for a host that has gone.
const HOST_RETURNS_WITHIN: Duration = Duration::from_secs(30);

impl Link {
    /// Whether a host listens to this server.
    pub fn is_listened_to(&self) -> bool {
        !self.hosts.profiles.is_empty()
    }

    /// Whether a host waits for the changes of a resource.
    pub fn has_subscribers(&self) -> bool {
        !self.hosts.resources().is_empty()
    }

    /// Sets the hosts that listen to this server. Returns whether that is news.
    pub fn set_hosts(&mut self, profiles: Vec<HostProfile>) -> bool {
        if self.hosts.profiles == profiles {
            return false;
        }
        let count = self.hosts.count_with_roots();
        let before = std::mem::replace(&mut self.hosts.profiles, profiles);
        self.hosts.since = self.now.mono;
        let is_back = |host: &HostProfile| {
            let mut known = before.iter();
            host.knows_lists && !known.any(|it| it.knows_lists && it.name == host.name)
        };
        if self.hosts.profiles.iter().any(is_back) {
            self.hosts.know_lists = true;
            self.subscription.has_gap = true;
        }
        if !self.is_listened_to() {
            self.hosts.notifications.clear();
        }
        if self.hosts.profiles.len() < before.len() && self.is_ready_for_hosts() {
            self.drop_host_state(&before);
        }
        self.redeclare();
        if self.hosts.count_with_roots() != count {
            self.roots_changed();
        }
        self.gather();
        self.schedule.needs_advance = true;
        true
    }

    /// The notifications since they were last taken.
    pub fn take_notifications(&mut self) -> Vec<PassedNotification> {
        std::mem::take(&mut self.hosts.notifications)
    }

    /// The requests for roots since they were last taken.
    pub fn take_roots_requests(&mut self) -> Vec<RootsRequest> {
        std::mem::take(&mut self.hosts.roots_requests)
    }

    /// Answers a request for roots with those of all hosts, or with the error of a host.
    pub fn answer_roots(&mut self, request: &RootsRequest, roots: &Forwarded) {
        if request.session_number == self.record.session_number && self.is_ready_for_hosts() {
            let response = encode::response_of_hosts(&request.id, roots);
            self.send_now(RequestKind::Reply(None), response);
            self.schedule.needs_advance = true;
        }
    }

    /// The host that a connection is opened for: with all that any listening host can do.
    pub(super) fn presented_host(&self) -> Option<HostProfile> {
        let mut host = self.hosts.profiles.first()?.clone();
        for other in &self.hosts.profiles {
            host.capabilities.extend(&other.capabilities);
        }
        // A person answers on the screen too.
        host.capabilities.0.remove("elicitation");
        Some(host)
    }

    pub(super) fn pass_notification(&mut self, recipient: Recipient, message: &str) {
        let is_wanted = self.is_listened_to() && !message.contains(encode::OUTPUT_MARK);
        if is_wanted && self.hosts.notifications.len() < WAITING {
            self.hosts.notifications.push(PassedNotification {
                recipient,
                message: message.to_owned(),
            });
        }
    }

    /// The server could not report changes of its lists for a while.
    pub(super) fn lists_may_have_changed(&mut self) {
        let now = self.now.mono;
        let again = self.hosts.lists_told.map(|told| told.after(LISTS_EVERY));
        self.hosts.lists_due = again.max(Some(now));
        self.schedule.needs_advance = true;
    }

    /// Tells the hosts to read the lists again, if that is due.
    pub(super) fn tell_of_lists(&mut self) {
        let now = self.now.mono;
        if self.hosts.lists_due.take_if(|due| now >= *due).is_none() {
            return;
        }
        self.hosts.lists_told = Some(now);
        let introduction = self.record.introduction.as_deref().unwrap_or_default();
        let introduction: Value = serde_json::from_str(introduction).unwrap_or_default();
        for list in ["tools", "prompts", "resources"] {
            let promise = format!("/capabilities/{list}/listChanged");
            if introduction.pointer(&promise) == Some(&Value::Bool(true)) {
                let message =
                    format!(r#"{{"jsonrpc":"2.0","method":"notifications/{list}/list_changed"}}"#);
                self.pass_notification(Recipient::AllHosts, &message);
            }
        }
    }

    /// The hosts that get a message as it came, if any do; it came on the stream of `task`, or beside all streams.
    pub(super) fn recipient_of(
        &self,
        task: Option<&TaskId>,
        message: &Incoming<'_>,
    ) -> Option<Recipient> {
        match message {
            // That of a call comes to the hosts with its task.
            Incoming::Progress { token, .. } => {
                let is_of_call = self.call(token).is_some();
                let (_, ask, _) = (!is_of_call).then(|| self.in_flight.forward(token))??;
                Some(Recipient::HostOfRequest(ask))
            }
            // News of what the server offers.
            Incoming::ToolsChanged | Incoming::OtherChanged => Some(Recipient::AllHosts),
            Incoming::Log { .. } | Incoming::Other => {
                if let Some(ask) = self.reading.forward {
                    return Some(Recipient::HostOfRequest(ask));
                }
                let is_log = matches!(message, Incoming::Log { .. });
                let call = match task {
                    None if is_log => self.task_of_process_log(),
                    task => task.cloned(),
                };
                Some(call.map_or(Recipient::AllHosts, Recipient::HostOfCall))
            }
            // longhaul handles them itself.
            Incoming::Response { .. }
            | Incoming::Request { .. }
            | Incoming::TaskStatus(_)
            | Incoming::Acknowledged(_)
            | Incoming::Cancelled(_)
            | Incoming::BadResponse(_)
            | Incoming::Unreadable => None,
        }
    }

    pub(super) fn has_forwards(&self) -> bool {
        self.in_flight.forwards().next().is_some()
    }

    /// The request of a host, other than a call, that a question is about. If a call may be meant as well, also the only
    /// process of a host that may be asked, which is empty if there are several. The question came on the stream of
    /// `task`, or beside all streams.
    pub(super) fn forward_asking(
        &self,
        task: Option<&TaskId>,
        kind: QuestionKind,
    ) -> Option<(SessionRequestId, Option<String>)> {
        if let Some(ask) = self.reading.forward {
            return Some((ask, None));
        }
        let is_elsewhere = task.is_some() || kind == QuestionKind::Roots;
        let forwards = self.in_flight.forwards().filter(|_| !is_elsewhere);
        let forwards: Vec<_> = forwards.filter(|(.., it)| it.may_ask()).collect();
        let (_, ask, first) = forwards.first()?;
        let is_one = forwards
            .iter()
            .all(|(.., it)| it.process() == first.process());
        let process = if is_one { first.process() } else { "" };
        let may_ask = |id| self.tasks.get(id).is_some_and(|it| !it.was_cancelled());
        let is_certain = is_one && !self.calls_in_session().iter().any(may_ask);
        Some((*ask, (!is_certain).then(|| process.to_owned())))
    }

    /// Passes a request of the server on to the host whose own request it is about. Its id names the session too, in which
    /// alone the response counts, and `forward` the host's request.
    pub(super) fn pass_request(
        &mut self,
        ask: SessionRequestId,
        kind: QuestionKind,
        (raw_id, params): (&str, &str),
    ) {
        let forward = (self.in_flight.forwards()).find(|(_, of, _)| *of == ask);
        let key = forward.map(|(.., request)| &request.key);
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"{}","params":{params},"forward":{}}}"#,
            json!(format!("{} {raw_id}", self.reading.session_number)),
            kind.method(),
            json!(key)
        );
        self.pass_notification(Recipient::HostOfRequest(ask), &message);
    }

    /// A host has responded to what [`Self::pass_request`] passed on.
    pub(super) fn respond_of_host(&mut self, id: &str, outcome: &Forwarded) {
        let Some((session, raw_id)) = id.split_once(' ') else {
            return;
        };
        if session == self.record.session_number.to_string() && self.is_ready_for_hosts() {
            let response = encode::response_of_hosts(raw_id, outcome);
            self.send_now(RequestKind::Reply(None), response);
        }
    }

    /// Passes a request for roots on. Returns whether a host can answer it.
    pub(super) fn pass_roots_request(&mut self, raw_id: &str) -> bool {
        let can_pass =
            self.hosts.count_with_roots() > 0 && self.hosts.roots_requests.len() < WAITING;
        if can_pass {
            self.hosts.roots_requests.push(RootsRequest {
                session_number: self.reading.session_number,
                id: raw_id.to_owned(),
            });
        }
        can_pass
    }

    /// The hosts work in other directories now.
    pub(super) fn roots_changed(&mut self) {
        if self.is_ready_for_hosts() && self.record.declared.can_answer(QuestionKind::Roots) {
            let notification = encode::roots_changed_notification();
            self.send_now(RequestKind::Reply(None), notification);
        }
    }

    /// When what only a host can answer is refused, because the host of the call does not come back.
    pub(super) fn host_question_expires(&self, active: &ActiveTask) -> Option<Mono> {
        let is_for_host =
            |question: &Question| question.is_open() && !question.kind.is_elicitation();
        if !active.task.questions.iter().any(is_for_host) {
            return None;
        }
        let host = active.task.caller.as_ref().map(|caller| &caller.host);
        let mut hosts = self.hosts.profiles.iter();
        let is_there = hosts.any(|profile| Some(&profile.name) == host);
        (!is_there).then(|| self.hosts.since.after(HOST_RETURNS_WITHIN))
    }

    /// Refuses what only hosts can answer that have gone.
    pub(super) fn expire_host_questions(&mut self) {
        let is_due = |at: Mono| self.now.mono >= at;
        let due = self.tasks.iter();
        let due = due.filter(|(_, active)| self.host_question_expires(active).is_some_and(is_due));
        let due: Vec<(TaskId, Vec<String>)> = due
            .map(|(id, active)| {
                let open = active.task.questions.iter();
                let open = open.filter(|it| it.is_open() && !it.kind.is_elicitation());
                (id.clone(), open.map(|it| it.key.clone()).collect())
            })
            .collect();
        for (id, keys) in due {
            for key in keys {
                // It is open, so nothing refuses the answer.
                let _ = self.answer_question(&id, Some(&key), &Answer::Decline);
            }
        }
    }

    fn is_ready_for_hosts(&self) -> bool {
        self.connection == ConnectionState::Ready && self.record.is_stateful()
    }

    /// Opens another session if the current one was not told what the hosts can do. That costs nothing while the server
    /// has no work of it; a program keeps what another host may have done with it.
    pub(super) fn redeclare(&mut self) {
        self.hosts.are_undeclared = false;
        let Some(host) = self.presented_host() else {
            return;
        };
        let is_shared = self.record.is_process() && self.hosts.profiles.len() > 1;
        if !self.is_ready_for_hosts()
            || self.record.declared.includes(&host.capabilities)
            || is_shared
        {
            return;
        }
        if self.has_work_in_session() || self.has_forwards() || self.exit.keeps_session {
            self.hosts.are_undeclared = true;
            return;
        }
        // The server is the same one, and so are its lists.
        self.hosts.know_lists = false;
        if self.record.is_process() {
            self.close_legacy_sse();
        } else if self.record.session.is_some() {
            self.send_now(RequestKind::TerminateSession, Method::Delete);
        }
        self.leave_session(NegotiationStep::Initialize);
    }
}

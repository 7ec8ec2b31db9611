//! Handles the handshake, the tool list, and the loss of their session.

use core::time::Duration;

use crate::{
    domain::{
        Era, LostReason, Phase, ProtocolVersion, RequestError, SessionOutcome, SessionRequestId,
        Status, TaskErrorKind, TaskId, server_url,
    },
    link::{
        ActiveTask, ConnectionState, ExchangeId, HandshakeError, Link, NegotiationStep, Output,
        RequestKind, SaveToken, StreamState,
        active_task::DetachedStream,
        credentials::AuthRefusal,
        handshake_error::out_of_reach,
        in_flight::Pages,
        negotiation::{MODERN, PROGRAM_TELLS_WITHIN},
        queued_requests::QueuedRequest,
        replies::AnswersDue,
        stream_state::DETACHED_FOR,
        time::doubled,
    },
    protocol::{self, HttpError, encode},
};

/// The first and the longest wait between failed handshakes.
const FIRST_HANDSHAKE_WAIT: Duration = Duration::from_millis(500);
const LAST_HANDSHAKE_WAIT: Duration = Duration::from_secs(30);

impl Link {
    /// Whether anything needs a session.
    pub(super) fn wants_session(&self) -> bool {
        self.record.is_stateful() && self.has_subscribers()
            || !self.queued_requests.is_empty()
            || self.tasks.values().any(|active| {
                active.task.forgotten_at.is_none()
                    && (active.waits_to_be_sent() && active.intent.is_none()
                        || matches!(active.stream, StreamState::Waiting(_))
                        || active.follow.is_some()
                        || active.served.is_some()
                        || active.answers != AnswersDue::Never
                        || active.waits_to_cancel())
            })
    }

    /// Opens the session when something needs it, then fetches the tools when something needs those.
    pub(super) fn tend_connection(&mut self) {
        if self.connection == ConnectionState::Disconnected
            && self.wants_session()
            && self.reachability.may_send(self.now)
            && !self.exit.is_leaving
        {
            self.aim();
            let needs_legacy_sse =
                self.negotiation.step == NegotiationStep::LegacySse || self.record.is_process();
            match self.negotiation.step {
                _ if needs_legacy_sse && self.legacy_sse.is_none() => self.open_legacy_sse(),
                NegotiationStep::Discover => self.discover(),
                NegotiationStep::Initialize | NegotiationStep::LegacySse => self.send_initialize(),
            }
        }
        if self.connection == ConnectionState::Ready
            && !self.exit.is_leaving
            && let Some((step, asked)) = self.missing()
        {
            return self.negotiate_for(step, asked);
        }
        if self.connection == ConnectionState::Ready && self.wants_tools() && self.may_ask().is_ok()
        {
            let mut requests = self.queued_requests.iter();
            let first = requests.find(|request| request.is_for_tools());
            let asked = first.and_then(|request| request.version);
            let version = match asked {
                Some(MODERN) if !self.record.is_process() => MODERN,
                _ => self.session_version(),
            };
            self.ask_tools(version, Pages::default());
        }
    }

    fn send_initialize(&mut self) {
        if self.reachability.spend(self.now).is_err() {
            return;
        }
        self.close_negotiation();
        let exchange = self.initialize(RequestKind::Handshake { session: None });
        if self.record.is_process()
            && self.negotiation.second_best.is_some()
            && let Some(in_flight) = self.in_flight.get_mut(exchange)
        {
            // It has just answered in the other era, so it doesn't need minutes to start.
            in_flight.until = Some(self.now.mono.after(PROGRAM_TELLS_WITHIN * 3));
        }
        self.connection = ConnectionState::Initializing;
    }

    /// Sends `initialize`, for a session to use or to find out whether a server is there.
    pub(super) fn initialize(&mut self, kind: RequestKind) -> ExchangeId {
        let version = self.negotiation.stateful_version();
        let id = self.in_flight.new_request_id();
        let host = self.presented_host();
        let method = encode::initialize(&id, version, host.as_ref());
        self.session.declares = host.map(|host| host.capabilities).unwrap_or_default();
        self.send_request(kind, method, id)
    }

    /// The result of `initialize` (MCP 2025-11-25, basic/lifecycle).
    pub(super) fn shook_hands(&mut self, session: Option<String>, result: &str) {
        let Some(mut shake) = protocol::parse_initialize_result(result) else {
            return self.not_mcp("its answer to initialize is invalid".to_owned());
        };
        let named = shake.versions.concat();
        let read = ProtocolVersion::parse(&named);
        let read = read.filter(|version| version.era() == Era::Stateful);
        // Some servers name the revision before that of their transport.
        let of_transport = match self.legacy_sse {
            Some(_) => ProtocolVersion::V20241105,
            None => ProtocolVersion::V20250326,
        };
        let is_old = named == ProtocolVersion::V20241105.label();
        let Some(version) = read.or(is_old.then_some(of_transport)) else {
            if self.opens_without_session() {
                return;
            }
            let why = format!(
                "it supports only MCP {named}, which this version of longhaul does not support"
            );
            return self.handshake_failed(&HandshakeError::Incompatible { why });
        };
        if session.is_none() && !self.record.is_process() && self.prefers_modern() {
            return;
        }
        // Whatever it speaks on the one stream, that is what a call stands on.
        let version = match self.legacy_sse {
            Some(_) if !self.record.is_process() => ProtocolVersion::V20241105,
            _ => version,
        };
        self.record.refuses_session = false;
        let asked = self.negotiation.pinned;
        self.record.asked_version = asked.filter(|_| asked != self.config.choice.version);
        // What was removed from the list ran in an earlier session.
        self.exit.keeps_session = false;
        self.record.declared = std::mem::take(&mut self.session.declares);
        (shake.tasks).take_if(|_| version < ProtocolVersion::V20251125);
        let is_why_known = self.negotiation.is_remembered && self.record.era_why.is_some();
        let why = (!is_why_known).then(|| self.why_stateful());
        self.session_begun(version, session, shake, why);
        self.send_now(RequestKind::Announce, encode::initialized_notification());
        self.connection = ConnectionState::Announcing;
    }

    /// The server took `notifications/initialized`, or refused it because it does not need it. Only now is the session
    /// saved as usable: some servers refuse every request before this notification.
    pub(super) fn announced(&mut self) {
        if self.connection == ConnectionState::Announcing {
            self.connection = ConnectionState::Ready;
            self.record_changed();
            self.session_opened();
            self.restore_host_state();
            // What failed in the session before may work in this one.
            let now = self.now.mono;
            let tasks = self.tasks.values_mut();
            for served in tasks.filter_map(|active| active.served.as_mut()) {
                served.back_in_contact(now);
            }
            self.show_all();
        }
    }

    /// Refuses every queued client request.
    pub(super) fn refuse_queued(&mut self, because: &RequestError) {
        self.refuse_queued_in(None, because);
    }

    /// Refuses the queued client requests for this revision; all of them where it is `None`.
    pub(super) fn refuse_queued_in(
        &mut self,
        version: Option<ProtocolVersion>,
        because: &RequestError,
    ) {
        let is_it = |it: &mut QueuedRequest| version.is_none() || it.version == version;
        let refused: Vec<_> = self.queued_requests.extract_if(.., is_it).collect();
        for request in refused {
            self.answer(request.id, Err(because.clone()));
        }
    }

    pub(super) fn answer(&mut self, ask: SessionRequestId, outcome: SessionOutcome) {
        self.answer_after(ask, outcome, None);
    }

    /// Answers once that save is on disk.
    pub(super) fn answer_after(
        &mut self,
        ask: SessionRequestId,
        outcome: SessionOutcome,
        after: Option<SaveToken>,
    ) {
        self.out.push(Output::Answer {
            ask,
            outcome,
            after,
        });
    }

    pub(super) fn out_of_reach(&self, why: &str) -> String {
        let url = server_url::redacted(&self.record.url);
        out_of_reach(&self.record.name, &url, why)
    }

    /// The handshake failed; a server that was never reached fails what waits for it, a known one is tried again.
    pub(super) fn handshake_failed(&mut self, error: &HandshakeError) {
        self.close_legacy_sse();
        self.connection = ConnectionState::Disconnected;
        let url = server_url::redacted(&self.record.url);
        let words = error.message(&self.record.name, &url);
        let is_known = self.record.session_number > 0;
        let is_unreachable = error.is_unreachable() || is_known && !error.is_by_server();
        if !is_known {
            let kind = if is_unreachable {
                TaskErrorKind::Unreachable
            } else {
                TaskErrorKind::Refused
            };
            for id in self.tasks_where(ActiveTask::waits_to_be_sent) {
                let message = format!("{words}; nothing was sent");
                self.fail(&id, kind, error.code(), message);
            }
        }
        self.back_off(error.why().to_owned(), error.retry_after());
        self.refuse_queued(&if is_unreachable {
            RequestError::Unreachable(words)
        } else {
            RequestError::Usage(words)
        });
    }

    /// A server that responds but does not serve: without this, each response would cause the next attempt at once.
    pub(super) fn back_off(&mut self, why: String, at_least: Option<Duration>) {
        let tries = self.session.handshake_tries;
        let wait = doubled(FIRST_HANDSHAKE_WAIT, tries, LAST_HANDSHAKE_WAIT);
        self.session.handshake_tries = tries.saturating_add(1);
        self.mark_unreachable(why, false, Some(wait.max(at_least.unwrap_or_default())));
    }

    /// A sign-in is needed, or the handshake was denied: every task waits where it is until the user provides credentials. Returns what the user can do.
    pub(super) fn auth_refused(&mut self, refusal: &HttpError) -> String {
        let AuthRefusal { reason, advice } = self.credentials.refused(&self.record.name, refusal);
        self.refuse_queued(&RequestError::NeedsLogin(advice.clone()));
        if self.connection == ConnectionState::Announcing {
            // The server never learned that the handshake has completed.
            self.record.is_initialized = false;
            self.record_changed();
        }
        self.connection = ConnectionState::AuthRequired(reason);
        self.show_all();
        advice
    }

    /// A call needs a sign-in (401, or 403 for lack of a scope), and waits until the user provides credentials. The server may accept everything else.
    pub(super) fn call_denied(&mut self, id: &TaskId, refusal: &HttpError) {
        let reason = self.credentials.refused(&self.record.name, refusal).reason;
        self.unsend(id, Some(&reason));
        if let Some(active) = self.tasks.get_mut(id) {
            active.denied = Some(reason);
        }
        self.show_all();
    }

    /// Something is to be sent, perhaps with new credentials.
    pub(super) fn retry_auth(&mut self) {
        if self.is_barred() {
            self.connection = ConnectionState::of_session(self.record.is_initialized);
            self.show_all();
        }
    }

    /// The user asks to try again, or the credentials have changed: denied calls are sent again too.
    pub fn retry_denied(&mut self) {
        self.retry_auth();
        for active in self.tasks.values_mut() {
            active.denied = None;
        }
        self.show_all();
    }

    /// The server does not know our session any more. What depended on it continues another way or is lost.
    pub(super) fn session_gone(&mut self, said: Option<&str>) {
        if !self.record.is_initialized {
            return;
        }
        (self.record.is_initialized, self.record.session) = (false, None);
        self.session.check = None;
        self.forget_tools();
        if !self.is_barred() {
            self.connection = ConnectionState::Disconnected;
        }
        self.record_changed();
        if self.session.unproven == Some(self.record.session_number) {
            // The server was not restarted: it forgets each session.
            self.hosts.know_lists = false;
            let why = said.unwrap_or("its sessions end immediately").to_owned();
            self.back_off(why, None);
        }
        self.note_session_over();
        for id in self.tasks.keys().cloned().collect::<Vec<_>>() {
            // What is on its way on a silent connection may still come.
            self.return_to_kept(&id);
            let Some(active) = self.tasks.get_mut(&id) else {
                continue;
            };
            if matches!(active.stream, StreamState::Verifying { .. })
                && active.phase() == Phase::Queued
            {
                // A ping was to show what the 400 to this call meant.
                let refusal = HttpError {
                    status: 400,
                    server_text: said.map(str::to_owned),
                    ..HttpError::default()
                };
                self.requeue(&id, &refusal);
                continue;
            }
            if active.served.is_some() {
                // Its task may outlive the session; the next look in a new one tells.
                continue;
            }
            // It may have become a task whose id never came and that outlives the session, so it stays unknown.
            let may_be_task = self.record.tasks.is_some() && self.record.binds_tasks != Some(true);
            if matches!(active.task.status, Status::Unknown(_)) && may_be_task {
                continue;
            }
            // A call in flight learns of it from its own response, and a call of the modern era belongs to no session.
            if active.is_modern()
                || !matches!(active.phase(), Phase::Sent | Phase::Open)
                || !active.is_active()
                || matches!(active.stream, StreamState::Calling(_))
            {
                continue;
            }
            let last_byte = active.activity.last_byte.mono;
            let after_restart = self.reachability.was_refused_lately(self.now, last_byte);
            let reason = LostReason::SessionGone {
                after_restart,
                server_text: said.map(str::to_owned),
            };
            if matches!(active.stream, StreamState::Open { .. }) {
                // No finished result is lost: what is on its way on an open stream may still come.
                if active.detached.is_none() {
                    let until = self.now.mono.after(DETACHED_FOR);
                    let words =
                        format!("{reason}; only its open stream can still bring the result");
                    active.notice(self.now, words);
                    if let Some(attempt) = active.attempt_mut() {
                        attempt.cursors.is_session_gone = true;
                    }
                    active.detached = Some(DetachedStream { until, reason });
                }
                continue;
            }
            self.leave_stream(&id, Status::Lost(reason), after_restart);
        }
        self.show_all();
    }

    /// Something was served in this session, so the next one does not follow on a failure.
    pub(super) fn note_served(&mut self) {
        (self.session.handshake_tries, self.session.unproven) = (0, None);
    }

    /// The session has ended; the next one has to prove that it lasts longer.
    pub(super) fn note_session_over(&mut self) {
        self.session.handshake_tries = self.session.handshake_tries.saturating_add(1);
        self.session.unproven = Some(self.record.session_number + 1);
    }
}

//! The handshake, the tool list, and what to do when the session behind them is gone.

use core::time::Duration;

use super::Link;
use crate::{
    domain::{
        Era, LostReason, Phase, ProtocolVersion, RequestError, SessionRequestId, SessionResponse,
        Status, TaskErrorKind, TaskId, Tool, server_url, text,
    },
    link::{
        active_task::{DetachedStream, PendingControl},
        connection::ConnectionState,
        credentials::AuthRefusal,
        in_flight::{CURSOR_BYTES, InFlight, RequestKind},
        io::Output,
        negotiation::{MODERN, NegotiationStep, refuses_what_it_speaks},
        reachability::doubled,
        stream_state::{DETACHED_FOR, StreamState},
    },
    protocol::{self, HttpError, RpcError, encode},
};

/// Tools of one server, and the bytes of what they take: a list that nobody reads to its end. It is in memory, in the
/// session file and on its way to every window of the session.
const TOOLS: usize = 5_000;
const TOOLS_BYTES: usize = 8 << 20;
/// The first and the longest wait between handshakes that lead to nothing.
const FIRST_HANDSHAKE_WAIT: Duration = Duration::from_millis(500);
const LAST_HANDSHAKE_WAIT: Duration = Duration::from_secs(30);

impl Link {
    /// Whether anything needs a session.
    pub(super) fn wants_session(&self) -> bool {
        !self.queued_requests.is_empty()
            || self.tasks.values().any(|active| {
                active.task.forgotten_at.is_none()
                    && (active.phase() == Phase::Queued
                        && active.is_active()
                        && active.intent.is_none()
                        || matches!(active.stream, StreamState::Waiting { .. })
                        || active.follow.is_some()
                        || active.served.is_some()
                        || active.has_answers
                        || active
                            .control
                            .as_ref()
                            .is_some_and(PendingControl::waits_to_cancel))
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
                self.negotiation.step() == NegotiationStep::LegacySse || self.record.is_process();
            match self.negotiation.step() {
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
            let asked = self
                .queued_requests
                .first_for_tools()
                .and_then(|it| it.version);
            let version = match asked {
                Some(MODERN) => MODERN,
                _ => self.session_version(),
            };
            self.ask_tools(version, Vec::new(), Vec::new());
        }
    }

    fn send_initialize(&mut self) {
        if self.reachability.spend(self.now).is_err() {
            return;
        }
        let version = self.negotiation.stateful_version();
        let id = self.in_flight.new_request_id();
        let method = encode::initialize(&id, version);
        self.send(
            RequestKind::Handshake { session: None },
            method,
            Some(id),
            None,
        );
        self.connection = ConnectionState::Initializing;
    }

    /// The result of `initialize` (MCP 2025-11-25, basic/lifecycle).
    pub(super) fn shook_hands(&mut self, session: Option<String>, result: &str) {
        let Some(shake) = protocol::parse_initialize_result(result) else {
            return self.not_mcp("its answer to initialize is not one".to_owned());
        };
        let read = ProtocolVersion::parse(&shake.version);
        let is_legacy_sse =
            self.legacy_sse.is_some() && shake.version == ProtocolVersion::V20241105.label();
        let read = read.filter(|version| version.era() == Era::Stateful);
        let Some(version) = read.or(is_legacy_sse.then_some(ProtocolVersion::V20241105)) else {
            return self.handshake_failed(
                format!(
                    "it speaks only MCP {}, which this build does not",
                    shake.version
                ),
                None,
            );
        };
        if session.is_none() && self.prefers_modern() {
            return;
        }
        // Whatever it speaks on the one stream, that is what a call stands on.
        let version = match self.legacy_sse {
            Some(_) if !self.record.is_process() => ProtocolVersion::V20241105,
            _ => version,
        };
        self.record.version = Some(version);
        self.record.refuses_session = false;
        self.record.asked_version = self
            .negotiation
            .pinned()
            .filter(|asked| Some(*asked) != self.config.choice.version);
        self.record.session = session;
        self.record.session_number += 1;
        self.session.check = None;
        self.record.is_initialized = true;
        self.record.has_logging = shake.has_logging;
        self.record.tasks = shake
            .tasks
            .filter(|_| version >= ProtocolVersion::V20251125);
        if !self.negotiation.is_remembered() || self.record.era_why.is_none() {
            self.record.era_why = Some(self.why_stateful().to_owned());
        }
        self.record.server_info = shake.server_info;
        self.record.tools_at = None;
        self.session.has_fresh_tools = false;
        self.record_changed();
        self.send(
            RequestKind::Announce,
            encode::initialized_notification(),
            None,
            None,
        );
        self.connection = ConnectionState::Announcing;
        self.era_is_settled();
    }

    /// The server took `notifications/initialized`, or refused it because it does not need it. Only now is the session
    /// saved as usable: some servers refuse every request before this notification.
    pub(super) fn announced(&mut self) {
        if self.connection == ConnectionState::Announcing {
            self.connection = ConnectionState::Ready;
            self.record_changed();
            self.session_opened();
            self.show_all();
        }
    }

    pub(super) fn wants_tools(&self) -> bool {
        let is_listing = self
            .in_flight
            .values()
            .any(|in_flight| matches!(in_flight.kind, RequestKind::ListTools { .. }));
        let has_queued = || {
            self.tasks
                .values()
                .any(|active| active.phase() == Phase::Queued && active.is_active())
        };
        let for_asker = self.queued_requests.first_for_tools().is_some();
        !is_listing
            && !self.is_session_doubted()
            && (for_asker || self.record.tools_at.is_none() && has_queued())
    }

    fn ask_tools(&mut self, version: ProtocolVersion, so_far: Vec<Tool>, cursors: Vec<String>) {
        let id = self.in_flight.new_request_id();
        let cursor = cursors.last().map(String::as_str);
        let method = encode::list_tools(version, &id, cursor);
        let kind = RequestKind::ListTools {
            version,
            so_far,
            cursors,
        };
        self.send(kind, method, Some(id), None);
    }

    /// A list that was refused for a revision that the server says it speaks is asked for again, once.
    fn lists_again(&mut self, in_flight: &InFlight, refusal: &HttpError) -> bool {
        matches!(in_flight.kind, RequestKind::ListTools { .. })
            && in_flight.is_modern
            && refuses_what_it_speaks(refusal)
            && self.negotiation.may_repeat()
    }

    /// One page of tools.
    pub(super) fn tools_listed(
        &mut self,
        version: ProtocolVersion,
        mut so_far: Vec<Tool>,
        mut cursors: Vec<String>,
        result: &str,
    ) {
        let (tools, next) = protocol::parse_tool_page(result);
        so_far.extend(tools);
        let is_whole = cut_tools(&mut so_far);
        match next {
            Some(next)
                if is_whole
                    && !cursors.contains(&next)
                    && next.len() <= CURSOR_BYTES
                    && self.reachability.spend(self.now).is_ok() =>
            {
                cursors.push(next);
                self.ask_tools(version, so_far, cursors);
            }
            Some(next) if is_whole && !cursors.contains(&next) => {
                let mut stand_in = so_far.last().cloned();
                if let Some(stand_in) = &mut stand_in {
                    "more tools".clone_into(&mut stand_in.name);
                    stand_in.fault = Some(format!(
                        "its list goes on after {}",
                        text::plural(cursors.len() as u64 + 1, "page")
                    ));
                }
                so_far.extend(stand_in);
                self.have_tools(version, so_far);
            }
            _ => self.have_tools(version, so_far),
        }
    }

    fn have_tools(&mut self, version: ProtocolVersion, mut tools: Vec<Tool>) {
        // On pipes there are no headers that a schema could ask for.
        if version.era() == Era::Modern && !self.record.is_process() {
            for tool in &mut tools {
                tool.fault = tool.fault.take().or_else(|| tool.header_error());
            }
        }
        self.note_served();
        self.needs_advance = true;
        for request in self.queued_requests.take_for_tools() {
            self.answer(request.id, Ok(SessionResponse::Tools(tools.clone())));
        }
        // The modern list has less: only the session's list says which tools can run as tasks.
        if version == self.session_version() {
            self.record.tools = tools;
            self.record.tools_at = Some(self.now.wall);
            self.session.has_fresh_tools = true;
            self.record_changed();
        }
    }

    /// The server would not list its tools; a call can still be tried.
    pub(super) fn tools_refused(&mut self, error: &RpcError) {
        let words = format!(
            "{} did not list its tools: {}",
            self.record.name, error.message
        );
        self.refuse_queued(&RequestError::Usage(words));
        self.have_tools(self.session_version(), Vec::new());
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
        for request in self.queued_requests.take_in(version) {
            self.answer(request.id, Err(because.clone()));
        }
    }

    pub(super) fn answer(
        &mut self,
        ask: SessionRequestId,
        outcome: Result<SessionResponse, RequestError>,
    ) {
        self.out.push(Output::Answer {
            ask,
            outcome,
            after: None,
        });
    }

    fn out_of_reach(&self, why: &str) -> String {
        let (name, url) = (&self.record.name, server_url::redacted(&self.record.url));
        format!("could not reach {name} at {url} ({why})")
    }

    /// Somebody answered, who is no MCP server or wants something else.
    fn no_handshake(&self, refusal: &HttpError, why: &str) -> String {
        let (name, url) = (&self.record.name, server_url::redacted(&self.record.url));
        match refusal.status {
            300..=399 => format!(
                "{name} at {url} leads elsewhere: {}",
                text::clean_line(refusal.server_text.as_deref().unwrap_or(why))
            ),
            200..=299 => format!(
                "{name} answered at {url}, but not as an MCP server ({why}); is the URL right?"
            ),
            404 | 405 | 410 => format!(
                "{name} answered HTTP {} at {url}; is the path right, e.g. /mcp?",
                refusal.status
            ),
            _ => format!("{name} at {url} refused the handshake ({why})"),
        }
    }

    /// The handshake failed; a server that was never reached fails what waits for it, a known one is tried again.
    pub(super) fn handshake_failed(&mut self, why: String, refusal: Option<&HttpError>) {
        self.close_legacy_sse();
        self.connection = ConnectionState::Disconnected;
        let is_unreachable =
            refusal.is_none_or(|refusal| refusal.status >= 500 || refusal.status == 429);
        let words = match refusal {
            Some(refusal) if !is_unreachable => self.no_handshake(refusal, &why),
            _ => self.out_of_reach(&why),
        };
        if self.record.session_number == 0 {
            let kind = if is_unreachable {
                TaskErrorKind::Unreachable
            } else {
                TaskErrorKind::Refused
            };
            for id in self.queued() {
                self.fail(
                    &id,
                    kind,
                    refusal
                        .map(|refusal| i64::from(refusal.status))
                        .filter(|status| *status >= 400),
                    format!("{words}; nothing was sent"),
                );
            }
        }
        self.back_off(why, refusal.and_then(|refusal| refusal.retry_after));
        self.refuse_queued(&if is_unreachable {
            RequestError::Unreachable(words)
        } else {
            RequestError::Usage(words)
        });
    }

    /// A server that answers and does not serve: without this, each answer would make the next try come at once.
    pub(super) fn back_off(&mut self, why: String, at_least: Option<Duration>) {
        let wait = doubled(
            FIRST_HANDSHAKE_WAIT,
            self.session.handshake_tries,
            LAST_HANDSHAKE_WAIT,
        );
        self.session.handshake_tries = self.session.handshake_tries.saturating_add(1);
        self.mark_unreachable(why, false, Some(wait.max(at_least.unwrap_or_default())));
    }

    fn queued(&self) -> Vec<TaskId> {
        let is_queued = |id: &&TaskId| {
            self.tasks
                .get(*id)
                .is_some_and(|r| r.phase() == Phase::Queued && r.is_active())
        };
        self.tasks.keys().filter(is_queued).cloned().collect()
    }

    /// 401 or 403: every task waits where it is until the user provides credentials.
    pub(super) fn auth_refused(&mut self, refusal: &HttpError) {
        let AuthRefusal { reason, advice } = self.credentials.refused(&self.record.name, refusal);
        self.refuse_queued(&RequestError::NeedsLogin(advice));
        if self.connection == ConnectionState::Announcing {
            // The server never heard that the handshake is done.
            self.record.is_initialized = false;
            self.record_changed();
        }
        self.connection = ConnectionState::AuthRequired(reason);
        self.show_all();
    }

    /// A person says to try again, perhaps with new credentials.
    pub(super) fn retry_auth(&mut self) {
        if matches!(self.connection, ConnectionState::AuthRequired(_)) {
            self.connection = if self.record.is_initialized {
                ConnectionState::Ready
            } else {
                ConnectionState::Disconnected
            };
            self.show_all();
        }
    }

    /// The server does not know our session any more. What hung on it goes on by another handle or is lost.
    pub(super) fn session_gone(&mut self, said: Option<&str>) {
        if !self.record.is_initialized {
            return;
        }
        (self.record.is_initialized, self.record.session) = (false, None);
        self.session.check = None;
        self.record.tools_at = None;
        self.session.has_fresh_tools = false;
        if !matches!(self.connection, ConnectionState::AuthRequired(_)) {
            self.connection = ConnectionState::Disconnected;
        }
        self.record_changed();
        if self.session.unproven == Some(self.record.session_number) {
            let why = said.unwrap_or("its sessions end at once").to_owned();
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
                let refusal = HttpError {
                    status: 400,
                    retry_after: None,
                    error: None,
                    server_text: said.map(str::to_owned),
                };
                self.requeue(&id, &refusal);
                continue;
            }
            if active.served.is_some() {
                // Its task may outlive the session; the next look in a new one tells.
                continue;
            }
            // It may have become a task whose id never came and that outlives the session: still nobody knows.
            let may_be_task = self.record.tasks.is_some() && self.record.binds_tasks != Some(true);
            if matches!(active.task.status, Status::Unknown(_)) && may_be_task {
                continue;
            }
            // A call that is out hears of it by its own answer, and one of the modern era is of no session.
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
                let until = self.now.mono.after(DETACHED_FOR);
                active
                    .detached
                    .get_or_insert(DetachedStream { until, reason });
                continue;
            }
            self.out_of_stream(&id, Status::Lost(reason), after_restart);
        }
        self.needs_advance = true;
    }

    /// A short request was refused: its server session may be gone, or it wants credentials.
    ///
    /// Our short requests are well-formed, so a 400 to one of them means the session too: several
    /// servers answer so for a session that they no longer know, where MCP 2025-11-25, basic/transports, wants a 404.
    pub(super) fn short_refused(&mut self, in_flight: &InFlight, refusal: HttpError) {
        let has_session = self.record.session.is_some() && !in_flight.is_modern;
        match refusal.status {
            _ if matches!(in_flight.kind, RequestKind::Discover) => self.discover_refused(&refusal),
            _ if matches!(in_flight.kind, RequestKind::LegacySse) => {
                self.legacy_sse_refused(&refusal);
            }
            _ if matches!(in_flight.kind, RequestKind::Listen) => {
                self.listening_ended(Some(&refusal));
            }
            _ if matches!(in_flight.kind, RequestKind::Standalone) => {
                self.standalone_ended(Some(&refusal));
            }
            401 | 403 => {
                self.auth_refused(&refusal);
                self.in_flight_lost(in_flight, &refusal);
            }
            _ if self.lists_again(in_flight, &refusal) => self.needs_advance = true,
            // A handshake that fails has an end of its own.
            _ if !matches!(in_flight.kind, RequestKind::Handshake { .. })
                && Self::disproves_era(in_flight.is_modern, &refusal) =>
            {
                self.renegotiate(in_flight, refusal.server_text.as_deref());
                self.in_flight_lost(in_flight, &refusal);
            }
            _ if self.wants_new_legacy_sse(in_flight, &refusal) => {
                self.legacy_sse_ended(&format!("HTTP {}", refusal.status));
                self.in_flight_lost(in_flight, &refusal);
            }
            404 | 410 | 400
                if has_session
                    && !matches!(
                        in_flight.kind,
                        RequestKind::Handshake { .. } | RequestKind::TerminateSession
                    )
                    && !self.is_of_no_session(in_flight) =>
            {
                if in_flight.session_number == self.record.session_number {
                    self.doubt_session(refusal.server_text.as_deref());
                }
                self.in_flight_lost(in_flight, &refusal);
            }
            _ => {
                let why = format!("HTTP {}", refusal.status);
                self.short_failed(in_flight, why, Some(refusal));
            }
        }
    }

    /// Something was served in this session, so the next one does not follow on a failure.
    pub(super) fn note_served(&mut self) {
        (self.session.handshake_tries, self.session.unproven) = (0, None);
    }

    /// The session is over, and the next one has to show that it is not like that too.
    pub(super) fn note_session_over(&mut self) {
        self.session.handshake_tries = self.session.handshake_tries.saturating_add(1);
        self.session.unproven = Some(self.record.session_number + 1);
    }

    /// Whether a refusal means the request itself: the session was made to replace one that ended in the same way, and
    /// nothing was ever served in it. A server that has no such method would else be negotiated with forever.
    fn is_of_no_session(&self, in_flight: &InFlight) -> bool {
        self.session.unproven == Some(self.record.session_number)
            && in_flight.session_number == self.record.session_number
            && matches!(
                in_flight.kind,
                RequestKind::Announce | RequestKind::ListTools { .. }
            )
    }

    /// A short request came to nothing for reasons of the link; who waits for it waits on.
    fn in_flight_lost(&mut self, in_flight: &InFlight, refusal: &HttpError) {
        match &in_flight.kind {
            RequestKind::Ping { verifies: Some(id) } => self.verify_later(id),
            RequestKind::Look(id) => self.look_failed(id, None),
            RequestKind::Pause(id) | RequestKind::Cancel(id) => self.control_unheard(id),
            RequestKind::Reply(Some((id, _))) => self.reply_unheard(id, in_flight, None),
            RequestKind::Poll(_) | RequestKind::Fetch(_) | RequestKind::Update(..) => {
                self.task_request_failed(
                    in_flight,
                    "its server session was refused",
                    Some(refusal),
                );
            }
            RequestKind::ListTasks { ask, .. }
            | RequestKind::ListCheckpoints { ask }
            | RequestKind::Adopt { ask, .. } => {
                let words = format!("{} did not answer; ask again", self.record.name);
                self.answer(*ask, Err(RequestError::Unreachable(words)));
            }
            _ => {}
        }
        self.needs_advance = true;
    }

    /// A short request got no answer.
    pub(super) fn short_failed(
        &mut self,
        in_flight: &InFlight,
        why: String,
        refusal: Option<HttpError>,
    ) {
        match &in_flight.kind {
            RequestKind::Handshake { .. } if in_flight.came.is_some() => self.not_mcp(why),
            RequestKind::Handshake { .. } if self.negotiation.take_unheard() => {
                self.negotiate_with(NegotiationStep::Initialize);
            }
            RequestKind::Handshake { .. } => {
                let is_tried = refusal.as_ref().is_some_and(|refusal| {
                    self.negotiation.was_refused(refusal);
                    self.tries_other_era(refusal) || self.tries_legacy_sse()
                });
                if !is_tried {
                    self.handshake_failed(why, refusal.as_ref());
                }
            }
            // It may know the handshake all the same.
            RequestKind::Discover if in_flight.came.is_some() => self.is_not_modern(&why),
            RequestKind::Discover if self.record.is_process() => self.discover_unheard(why),
            RequestKind::Discover => self.handshake_failed(why, refusal.as_ref()),
            RequestKind::LegacySse if in_flight.is_opened => self.legacy_sse_unsupported(),
            RequestKind::LegacySse => self.handshake_failed(why, None),
            RequestKind::Poll(_)
            | RequestKind::Fetch(_)
            | RequestKind::Update(..)
            | RequestKind::Listen => {
                self.task_request_failed(in_flight, &why, refusal.as_ref());
            }
            RequestKind::ListTasks { ask, .. }
            | RequestKind::ListCheckpoints { ask }
            | RequestKind::Adopt { ask, .. } => {
                let words = format!("{} did not answer ({why}); ask again", self.record.name);
                self.answer(*ask, Err(RequestError::Unreachable(words)));
            }
            RequestKind::Reply(Some((id, key))) => match refusal {
                Some(refusal) if refusal.is_transient() => {
                    self.reply_unheard(id, in_flight, refusal.retry_after);
                }
                // Whoever refuses an answer does not wait for it any more.
                Some(_) => self.question_delivered(id, key),
                None => self.reply_unheard(id, in_flight, None),
            },
            RequestKind::Standalone => self.standalone_ended(None),
            RequestKind::Announce if refusal.as_ref().is_some_and(|it| !it.is_transient()) => {
                self.announced();
            }
            // The server may not have seen the notification: open another session.
            RequestKind::Announce if self.connection == ConnectionState::Announcing => {
                self.connection = ConnectionState::Disconnected;
                self.record.is_initialized = false;
                self.record_changed();
                let words = self.out_of_reach(&why);
                self.refuse_queued(&RequestError::Unreachable(words));
                self.back_off(why, None);
            }
            RequestKind::ListTools { .. } => match refusal {
                Some(refusal) if refusal.status < 500 => {
                    let message = refusal.server_text.unwrap_or(why);
                    self.tools_refused(&RpcError {
                        code: i64::from(refusal.status),
                        message,
                        data: None,
                    });
                }
                _ => {
                    self.refuse_queued(&match in_flight.came {
                        Some(_) => RequestError::Usage(format!(
                            "{} did not list its tools ({why}); is the URL right?",
                            self.record.name
                        )),
                        None => RequestError::Unreachable(self.out_of_reach(&why)),
                    });
                    self.back_off(why, refusal.and_then(|refusal| refusal.retry_after));
                }
            },
            RequestKind::Ping { verifies } => {
                if let Some(id) = verifies {
                    self.verify_later(id);
                }
                if refusal.is_none() {
                    self.suspect_connections(why);
                }
            }
            RequestKind::Look(id) => {
                self.look_failed(id, refusal.and_then(|refusal| refusal.retry_after));
            }
            RequestKind::Pause(id) if refusal.is_some() => {
                self.control_refused(
                    id,
                    &refusal
                        .and_then(|refusal| refusal.server_text)
                        .unwrap_or(why),
                );
            }
            // A server that refuses the cancel has heard it; the limit says that it did not react.
            RequestKind::Cancel(_) if refusal.is_some() => {}
            RequestKind::Pause(id) | RequestKind::Cancel(id) => self.control_unheard(id),
            RequestKind::Announce
            | RequestKind::Reply(None)
            | RequestKind::TerminateSession
            | RequestKind::Stream(_)
            | RequestKind::Reread(_) => {}
        }
        self.needs_advance = true;
    }
}

/// Cuts a list of tools to what is kept; the last one left then stands for the rest. Tells whether nothing was cut.
fn cut_tools(tools: &mut Vec<Tool>) -> bool {
    let mut bytes = 0_usize;
    let weight = |tool: &Tool| {
        let about = tool.description.as_ref().map_or(0, String::len);
        tool.name.len() + tool.input_schema.len() + about
    };
    let fit = tools
        .iter()
        .take(TOOLS)
        .take_while(|tool| {
            bytes = bytes.saturating_add(weight(tool));
            bytes <= TOOLS_BYTES
        })
        .count();
    if fit == tools.len() {
        return true;
    }
    let rest = u64::try_from(tools.len() - fit).unwrap_or(u64::MAX);
    let Some(stand_in) = tools.get_mut(fit) else {
        return true;
    };
    stand_in.name = format!("{} or more", text::plural(rest, "further tool"));
    stand_in.fault = Some(format!(
        "of a list of more than {} or {}",
        text::plural(TOOLS as u64, "tool"),
        text::bytes(TOOLS_BYTES as u64)
    ));
    tools.truncate(fit + 1);
    false
}

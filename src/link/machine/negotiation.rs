//! Which eras a server speaks: found out by asking. Which of them a call is made in is [`ServerCapabilities::era_of`].
//!
//! Source: MCP 2026-07-28, basic/versioning, backward compatibility. The modern era needs no session, so a server that
//! speaks both is spoken to in both: in its one session, and beside it. A process of ours speaks one of them, depending on
//! its SDK. Nothing survives there in any era, but only the stateful one lets a tool ask while it runs, so the modern
//! one is for programs with tasks.
//!
//! [`ServerCapabilities::era_of`]: crate::domain::ServerCapabilities::era_of

use crate::{
    domain::{
        Era, LostReason, ModernSupport, Phase, ProtocolVersion, RequestError, Status,
        TaskErrorKind, TaskKind, text,
    },
    link::{
        ActiveTask, ConnectionState, HandshakeError, InFlight, Link, NegotiationStep, RequestKind,
        StreamState,
        negotiation::{
            HEADER_MISMATCH, MISSING_CAPABILITY, MODERN, Negotiation, PROGRAM_TELLS_WITHIN,
            UNSUPPORTED_VERSION, supported, supported_by,
        },
        subscription::TaskSubscription,
    },
    protocol::{self, HttpError, Introduced, RpcError, encode},
};

impl Link {
    /// Asks whether the server is modern; nothing is run by it, whatever the server is.
    pub(super) fn discover(&mut self) {
        if self.reachability.spend(self.now).is_err() {
            return;
        }
        self.close_negotiation();
        let id = self.in_flight.new_request_id();
        let method = encode::discover(&id, MODERN);
        let exchange = self.send_request(RequestKind::Discover, method, id);
        self.connection = ConnectionState::Discovering;
        if self.record.is_process()
            && self.negotiation.pinned.is_none()
            && let Some(in_flight) = self.in_flight.get_mut(exchange)
        {
            in_flight.until = Some(self.now.mono.after(PROGRAM_TELLS_WITHIN));
        }
    }

    /// Only the newest request says what the server speaks.
    pub(super) fn close_negotiation(&mut self) {
        self.close_where(|kind| {
            matches!(kind, RequestKind::Discover | RequestKind::Handshake { .. })
        });
    }

    /// A program said nothing to `server/discover`, or ended at it: it may know only the handshake (MCP 2026-07-28,
    /// basic/transports/stdio, backward compatibility).
    pub(super) fn discover_unheard(&mut self, why: String) {
        if self.negotiation.pinned.is_some() || self.negotiation.was_handshake_refused {
            self.negotiation.was_handshake_refused = false;
            return self.handshake_failed(&HandshakeError::NoAnswer { why });
        }
        self.negotiation.is_unheard = true;
        self.negotiate_with(NegotiationStep::Initialize);
    }

    /// The server answered `server/discover`.
    pub(super) fn discovered(&mut self, result: &str) {
        let Some(found) = protocol::parse_discover_result(result) else {
            return self.is_not_modern("its server/discover response is invalid", true);
        };
        let wanted = MODERN.label();
        if !found.versions.iter().any(|version| version == wanted) {
            return self.no_version_of(&found.versions);
        }
        let has_tasks = found.tasks.is_some();
        self.record.modern = ModernSupport::Offered { has_tasks };
        // A session that is only to be made again is not given up for a call that needs none.
        let is_free = self.record.is_process() || !self.is_known_stateful();
        let is_pinned = self.negotiation.pinned.is_some() && is_free;
        let has_no_session =
            self.record.refuses_session || self.negotiation.unanswered_handshakes > 0;
        let is_best_modern = self.record.is_process() && (has_tasks || has_no_session);
        if self.has_session() {
            self.keep_session();
        } else if is_best_modern || is_pinned {
            self.open_modern(found);
        } else if self.negotiation.was_handshake_refused {
            self.record.refuses_session = true;
            self.open_modern(found);
        } else {
            self.negotiation.second_best = Some(found);
            if self.record.is_process() {
                // Some SDKs serve the era of the first message, and refuse the other one until the process ends.
                self.close_legacy_sse();
            }
            self.negotiate_with(NegotiationStep::Initialize);
        }
    }

    pub(super) fn is_known_stateful(&self) -> bool {
        self.record.version.is_some() && self.record.is_stateful()
    }

    /// Whether a session of the stateful era stands.
    fn has_session(&self) -> bool {
        self.record.is_initialized && self.record.is_stateful()
    }

    /// Which revision the server speaks in addition to its session is now known.
    fn keep_session(&mut self) {
        self.negotiation.step = NegotiationStep::Initialize;
        self.connection = ConnectionState::Ready;
        self.negotiation.pinned = self.config.choice.version;
        self.era_is_settled();
        self.end_subscription();
        self.subscription = TaskSubscription::default();
        self.gather();
        self.record_changed();
        self.show_all();
    }

    /// The server refused `server/discover` or answered it with an error.
    pub(super) fn discover_refused(&mut self, refusal: &HttpError) {
        let error = refusal.error.as_ref();
        let code = error.map(|error| error.code);
        match (refusal.status, code) {
            (401 | 403, _) => {
                self.connection = ConnectionState::Disconnected;
                self.auth_refused(refusal);
            }
            (_, Some(UNSUPPORTED_VERSION)) => {
                if !self.retries_version(error, MODERN) {
                    self.no_version_of(&supported(error));
                }
            }
            (_, Some(HEADER_MISMATCH | MISSING_CAPABILITY)) => {
                let said = refusal.server_text.as_deref().unwrap_or_default();
                let why = format!("it rejected server/discover: {}", text::clean_line(said));
                self.handshake_failed(&HandshakeError::of_request(why, Some(refusal)));
            }
            (408 | 425 | 429 | 500..=599, _) => {
                self.handshake_failed(&HandshakeError::of_status(refusal));
            }
            _ => self.is_not_modern("it does not support server/discover", code.is_some()),
        }
    }

    /// A server that refuses a revision names those that it speaks, and serves the repeat even where that is the one that
    /// it refused: the newest that we speak too is asked for, once. Returns whether it is.
    fn retries_version(&mut self, error: Option<&RpcError>, asked: ProtocolVersion) -> bool {
        let Some(newest) = self.negotiation.version_to_retry(error) else {
            return false;
        };
        // An older one of the same era is asked for by the handshake, which is tried anyway.
        if newest.era() != asked.era() && self.has_session() {
            return false;
        }
        self.negotiation.retry_with = Some(newest);
        self.negotiate_with(match newest.era() {
            Era::Modern => NegotiationStep::Discover,
            Era::Stateful => NegotiationStep::Initialize,
        });
        true
    }

    fn no_version_of(&mut self, versions: &[String]) {
        let read = |word: &String| ProtocolVersion::parse(word);
        let is_stateful = |version: ProtocolVersion| version.era() == Era::Stateful;
        if self.has_session() {
            self.record.modern = ModernSupport::Refused;
            return self.keep_session();
        }
        if self.negotiation.pinned.is_none() && versions.iter().filter_map(read).any(is_stateful) {
            self.record.modern = ModernSupport::Refused;
            return self.negotiate_with(NegotiationStep::Initialize);
        }
        if let Some(version) = versions.iter().filter_map(read).max()
            && self
                .negotiation
                .pinned
                .is_none_or(|pinned| pinned == version)
        {
            let why = format!(
                "it rejected MCP {} twice although it claims to support it",
                version.label()
            );
            return self.refused_for_good(why);
        }
        let ours = ProtocolVersion::ALL.map(ProtocolVersion::label).join(", ");
        let why = format!(
            "no common version: it supports MCP {}; longhaul supports {ours}",
            text::clean_line(&versions.join(", "))
        );
        self.refused_for_good(why);
    }

    /// The server answered, and will keep answering like that.
    fn refused_for_good(&mut self, why: String) {
        self.negotiation.retry_with = None;
        let pinned = self.negotiation.pinned;
        if let Some(version) = pinned.filter(|_| pinned != self.config.choice.version) {
            return self.refuse_version(version, &why);
        }
        self.handshake_failed(&HandshakeError::Incompatible { why });
    }

    /// What was asked for in a revision (`--protocol`) that the server does not speak fails, and nothing else does.
    pub(super) fn refuse_version(&mut self, version: ProtocolVersion, why: &str) {
        let words = format!("{}: {why}", self.record.name);
        let is_asked = |asked: Option<ProtocolVersion>| asked == Some(version);
        let queued = self.tasks.iter().filter(|(_, active)| {
            is_asked(active.task.options.protocol) && active.phase() == Phase::Queued
        });
        for id in queued.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            let message = format!("{words}; nothing was sent");
            self.fail(&id, TaskErrorKind::Refused, None, message);
        }
        self.refuse_queued_in(Some(version), &RequestError::Usage(words));
        self.negotiation = Negotiation::new(self.config.choice, &self.record);
        self.connection = ConnectionState::of_session(self.record.is_initialized);
        self.record_changed();
        self.show_all();
    }

    /// The answer to the handshake is not MCP. That says nothing about eras, unless the same server has just answered in
    /// the modern one.
    pub(super) fn not_mcp(&mut self, why: String) {
        if self.negotiation.pinned.is_none() {
            if self.opens_without_session() {
                return;
            }
            if self.record.is_initialized && !self.record.is_stateful() {
                // The modern era was spoken long ago; a different server may answer now.
                return self.negotiate_with(NegotiationStep::Discover);
            }
        }
        self.negotiation.was_handshake_refused = false;
        self.handshake_failed(&HandshakeError::NotMcp { why });
    }

    /// Opens the modern era that was found, where the server makes no session beside it. Returns whether there is one.
    pub(super) fn opens_without_session(&mut self) -> bool {
        let Some(found) = self.negotiation.second_best.take() else {
            return false;
        };
        self.record.refuses_session = true;
        self.open_modern(found);
        true
    }

    /// If a program that answered `server/discover` exits at the handshake or doesn't answer it, starts it again for the
    /// modern era. Returns whether it did.
    pub(super) fn leaves_handshake(&mut self) -> bool {
        let is_known = self.record.is_process() && self.negotiation.second_best.take().is_some();
        if is_known {
            self.negotiation.unanswered_handshakes += 1;
            self.close_legacy_sse();
            self.negotiate_with(NegotiationStep::Discover);
        }
        is_known
    }

    /// The server seems not to speak the modern era. Unless `is_by_server`, a proxy or a portal may have said so.
    pub(super) fn is_not_modern(&mut self, because: &str, is_by_server: bool) {
        if !is_by_server && self.may_still_be_modern() {
            if self.has_session() {
                self.keep_session();
                self.ping(None);
            } else if self.negotiation.pinned.is_some() {
                let why = because.to_owned();
                self.handshake_failed(&HandshakeError::NoAnswer { why });
            } else {
                self.negotiate_with(NegotiationStep::Initialize);
            }
            return;
        }
        let unsupported = |version: ProtocolVersion| {
            let label = version.label();
            format!("it doesn't support MCP {label}, which was requested: {because}")
        };
        if let Some(version) = self.negotiation.pinned {
            return self.refused_for_good(unsupported(version));
        }
        self.record.modern = ModernSupport::Refused;
        if self.has_session() {
            self.keep_session();
            // Beside a session, only single requests ask for this revision.
            return self.refuse_version(MODERN, &unsupported(MODERN));
        }
        self.negotiation.second_best = None;
        if !self.negotiation.count_refusal() {
            if self.tries_legacy_sse() {
                return;
            }
            self.negotiation.go_to(NegotiationStep::Initialize);
            return self.refused_for_good(format!("it rejects initialize, and {because}"));
        }
        self.negotiate_with(NegotiationStep::Initialize);
    }

    /// Counts a refusal that may not be the server's. Returns whether the server may still speak the modern era: tasks
    /// would be lost with it, and no MCP server has answered since the last such refusal.
    fn may_still_be_modern(&mut self) -> bool {
        let would_lose = |active: &ActiveTask| {
            let task = active.task.server_task.as_ref();
            !active.is_settled() && task.is_some_and(|task| task.kind == TaskKind::Extension)
        };
        let answers = self.session.answers;
        self.tasks.values().any(would_lose)
            && self
                .negotiation
                .refused_after
                .replace(answers)
                .is_none_or(|before| before == answers)
    }

    pub(super) fn negotiate_with(&mut self, step: NegotiationStep) {
        self.negotiation.go_to(step);
        self.connection = ConnectionState::Disconnected;
        self.schedule.needs_advance = true;
    }

    /// `initialize` was refused: perhaps the server speaks only the other era. Returns whether
    /// that is tried.
    pub(super) fn tries_other_era(&mut self, refusal: &HttpError) -> bool {
        let error = refusal.error.as_ref();
        let code = error.map(|error| error.code);
        let asked = self.negotiation.stateful_version();
        if code == Some(UNSUPPORTED_VERSION)
            && supported_by(error).any(|version| version.era() == Era::Stateful)
            && self.retries_version(error, asked)
        {
            return true;
        }
        let is_transient = refusal.is_transient()
            // A redirect says nothing of the server.
            || (300..400).contains(&refusal.status)
            // A server that offers tasks may break when asked for a session.
            || refusal.status >= 500 && !self.record.has_extension();
        if is_transient
            || self.negotiation.pinned.is_some()
            || self.negotiation.step == NegotiationStep::LegacySse
        {
            return false;
        }
        if self.opens_without_session() {
            return true;
        }
        if self.record.is_initialized && !self.record.is_stateful() {
            // The server refused a session beside the modern era; calls continue there without one.
            self.record.refuses_session = true;
            self.negotiation.pinned = self.config.choice.version;
            self.connection = ConnectionState::Ready;
            self.record_changed();
            self.show_all();
            return true;
        }
        let is_tried = self.negotiation.count_refusal();
        if is_tried {
            self.negotiate_with(NegotiationStep::Discover);
        }
        is_tried
    }

    /// Neither era was agreed on: the stream of HTTP+SSE is the last resort. Returns whether that is tried.
    pub(super) fn tries_legacy_sse(&mut self) -> bool {
        let is_tried = self.negotiation.no_handshake.is_some();
        if is_tried {
            self.negotiate_with(NegotiationStep::LegacySse);
        }
        is_tried
    }

    /// Without a session, nothing can be resumed in the stateful era either: then the modern era is the better
    /// one, with a cancel that works and a loss that can be proved. Returns whether it was taken.
    pub(super) fn prefers_modern(&mut self) -> bool {
        let Some(found) = self.negotiation.second_best.take() else {
            return false;
        };
        self.negotiation.go_to(NegotiationStep::Discover);
        self.record.refuses_session = true;
        self.open_modern(found);
        self.record.era_why = Some(
            "in older revisions the server creates no session, so calls couldn't be resumed in those either"
                .to_owned(),
        );
        true
    }

    fn open_modern(&mut self, found: Introduced) {
        let has_tasks = found.tasks.is_some();
        let why = if self.negotiation.pinned.is_some() {
            self.who_asks()
        } else if self.record.is_process() && has_tasks {
            "in this revision the program offers tasks; in any revision, a call ends with the process that started it"
        } else if self.record.is_process() {
            "the program did not accept the handshake of older revisions"
        } else if has_tasks {
            "in this revision the server offers tasks, which survive a lost connection"
        } else {
            "the server supports no other revision; it offers no tasks, so a lost connection cancels a call"
        };
        self.record.modern = ModernSupport::Offered { has_tasks };
        self.record.asked_version = None;
        self.session_begun(MODERN, None, found, Some(why));
        self.connection = ConnectionState::Ready;
        self.session_opened();
        self.show_all();
    }

    /// A session of this revision, or a time without one in the modern era, has begun.
    pub(super) fn session_begun(
        &mut self,
        version: ProtocolVersion,
        session: Option<String>,
        found: Introduced,
        why: Option<&str>,
    ) {
        self.record.version = Some(version);
        self.record.session = session;
        self.record.session_number += 1;
        self.session.check = None;
        self.record.is_initialized = true;
        self.record.tasks = found.tasks;
        self.record.server_info = found.server_info;
        self.record.introduction = found.introduction;
        if let Some(why) = why {
            self.record.era_why = Some(why.to_owned());
        }
        self.forget_tools();
        self.era_is_settled();
        self.record_changed();
    }

    /// Who chose the revision, if it was chosen.
    fn who_asks(&self) -> &'static str {
        if self.config.choice.is_configured {
            "set in the configuration"
        } else {
            "set for this server, not negotiated"
        }
    }

    /// Why the stateful era was chosen.
    pub(super) fn why_stateful(&self) -> &'static str {
        if self.negotiation.pinned.is_some() {
            self.who_asks()
        } else if self.record.is_process() && self.negotiation.second_best.is_some() {
            "the program also supports 2026-07-28, without tasks; only in older revisions can its tools ask questions while they run"
        } else if self.record.is_process() {
            "the program supports no newer revision"
        } else if self.legacy_sse.is_some() {
            "the server has only the old SSE transport: it rejects a handshake by POST and names its endpoint on a stream"
        } else if self.record.has_extension() {
            "the server also speaks 2026-07-28; each call uses the revision in which it can be resumed"
        } else if self.negotiation.second_best.is_some() {
            "the server offers no tasks with MCP 2026-07-28, so a lost connection would cancel a call; in older revisions, a stream with event ids can be resumed"
        } else {
            "the server supports no newer revision"
        }
    }

    /// The version is agreed on. What depends on another version is lost.
    pub(super) fn era_is_settled(&mut self) {
        self.negotiation.settle();
        let version = self.session_version();
        for id in self.tasks.keys().cloned().collect::<Vec<_>>() {
            let Some(active) = self.tasks.get(&id) else {
                continue;
            };
            if active.is_settled() || !active.is_active() {
                continue;
            }
            let now_speaks = || Some(format!("it now speaks MCP {}", version.label()));
            let is_spoken = |kind: TaskKind| match kind {
                TaskKind::Core => self.record.tasks.is_some_and(|offer| offer.kind == kind),
                TaskKind::Extension => self.record.has_extension(),
            };
            let gone = match &active.task.server_task {
                Some(task) if !is_spoken(task.kind) => LostReason::TaskGone {
                    server_text: now_speaks(),
                },
                Some(_) => continue,
                None => {
                    let is_out = matches!(active.stream, StreamState::Waiting(_));
                    if !is_out || version.era() == Era::Stateful {
                        continue;
                    }
                    LostReason::session_gone(now_speaks())
                }
            };
            self.out_of_stream(&id, Status::Lost(gone));
        }
    }

    /// Whether a refusal shows that the server is not what it was taken for.
    pub(super) fn disproves_era(is_modern: bool, refusal: &HttpError) -> bool {
        let code = refusal.error.as_ref().map(|error| error.code);
        if !is_modern {
            let says_modern = matches!(code, Some(HEADER_MISMATCH | UNSUPPORTED_VERSION));
            return refusal.status == 400 && says_modern;
        }
        let is_of_mcp = matches!(
            code,
            Some(HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION)
        );
        let is_of_rpc = matches!(code, Some(-32603..=-32601));
        !is_of_mcp && !is_of_rpc && matches!(refusal.status, 400 | 404 | 405 | 410)
    }

    /// The server is negotiated with again: what was believed of it does not hold.
    pub(super) fn renegotiate(&mut self, in_flight: &InFlight, said: Option<&str>) {
        if in_flight.session_number != self.record.session_number || !self.record.is_initialized {
            return;
        }
        // What is disproved of the modern era says nothing of the session beside it.
        let keeps_session = in_flight.is_modern && self.has_session();
        self.record.is_initialized = keeps_session;
        self.record.refuses_session = false;
        if !keeps_session {
            self.forget_tools();
        }
        if !matches!(self.connection, ConnectionState::AuthRequired(_)) {
            self.connection = ConnectionState::Disconnected;
        }
        self.negotiation.go_to(NegotiationStep::Discover);
        self.record_changed();
        if self.session.handshake_tries > 0 {
            let why = said.unwrap_or("it speaks no known protocol");
            self.back_off(why.to_owned(), None);
        }
        self.note_session_over();
        self.schedule.needs_advance = true;
    }
}

//! Short requests that were refused or got no response.

use crate::{
    domain::{ControlKind, RequestError, SessionRequest, TaskId},
    link::{
        ConnectionState, HandshakeError, InFlight, Link, NegotiationStep, RequestKind,
        queued_requests::QueuedRequest,
    },
    protocol::HttpError,
};

impl Link {
    /// A short request was refused: its server session may be gone, or it wants credentials.
    ///
    /// Our short requests are well-formed, so a 400 to one of them means the session too: several
    /// servers answer so for a session that they no longer know, where MCP 2025-11-25, basic/transports, wants a 404.
    pub(super) fn short_refused(&mut self, in_flight: &InFlight, refusal: HttpError) {
        let has_session = self.record.session.is_some() && !in_flight.is_modern;
        match in_flight.kind {
            RequestKind::Discover => return self.discover_refused(&refusal),
            RequestKind::LegacySse => return self.legacy_sse_refused(&refusal),
            RequestKind::Listen => return self.listening_refused(&refusal),
            RequestKind::Standalone => return self.standalone_ended(Some(&refusal)),
            _ => {}
        }
        let is_handshake = matches!(in_flight.kind, RequestKind::Handshake { .. });
        match refusal.status {
            401 | 403 if is_handshake || !refusal.is_denial() => {
                let advice = self.auth_refused(&refusal);
                if let RequestKind::Forward { ask, .. } = in_flight.kind {
                    return self.answer(ask, Err(RequestError::NeedsLogin(advice)));
                }
                self.in_flight_lost(in_flight, &refusal);
            }
            _ if self.lists_again(in_flight, &refusal) => self.schedule.needs_advance = true,
            _ if matches!(in_flight.kind, RequestKind::FindServer) => {
                if refusal.error.is_some() {
                    self.server_found();
                }
            }
            // A handshake that fails has an end of its own.
            _ if !is_handshake && Self::disproves_era(in_flight.is_modern, &refusal) => {
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
                    self.doubt_session(&refusal);
                }
                self.in_flight_lost(in_flight, &refusal);
            }
            _ => {
                let why = format!("HTTP {}", refusal.status);
                self.short_failed(in_flight, why, Some(refusal));
            }
        }
    }

    /// A short request came to nothing for reasons of the link; who waits for it waits on.
    fn in_flight_lost(&mut self, in_flight: &InFlight, refusal: &HttpError) {
        match &in_flight.kind {
            RequestKind::Ping { verifies: Some(id) } => self.verify_later(id, false),
            RequestKind::Look(id) => self.look_failed(id, None),
            RequestKind::Pause(id) => self.control_unheard(id, ControlKind::Pausing),
            RequestKind::Cancel(id) => self.control_unheard(id, ControlKind::Cancelling),
            RequestKind::Reply(Some((id, _))) => self.reply_unheard(id, in_flight, None),
            RequestKind::Poll(_) | RequestKind::Fetch(_) | RequestKind::Update(..) => {
                let message = format!("HTTP {}", refusal.status);
                self.task_request_failed(in_flight, &message, Some(refusal));
            }
            RequestKind::Forward {
                ask,
                request,
                is_repeated: false,
            } if !matches!(refusal.status, 401 | 403) => {
                self.queued_requests.push(QueuedRequest {
                    id: *ask,
                    what: SessionRequest::Forward {
                        server: self.record.name.clone(),
                        request: (**request).clone(),
                    },
                    version: None,
                    is_repeated: true,
                });
            }
            RequestKind::Forward { ask, .. }
            | RequestKind::ListTasks { ask, .. }
            | RequestKind::ListCheckpoints { ask }
            | RequestKind::Adopt { ask, .. } => {
                let what = match refusal.status {
                    400 | 404 | 410 => "no longer knows this MCP session; try again".to_owned(),
                    status => format!("refused it (HTTP {status})"),
                };
                self.forward_failed(*ask, &what);
            }
            _ => {}
        }
        self.schedule.needs_advance = true;
    }

    /// A short request got no answer.
    pub(super) fn short_failed(
        &mut self,
        in_flight: &InFlight,
        why: String,
        refusal: Option<HttpError>,
    ) {
        let what = match &refusal {
            Some(refusal) if refusal.status < 500 => format!("refused the request ({why})"),
            _ => format!("did not answer ({why})"),
        };
        match &in_flight.kind {
            RequestKind::Handshake { .. } => {
                self.initialize_failed(in_flight, why, refusal.as_ref());
            }
            // It may still support the handshake.
            RequestKind::Discover if in_flight.came.is_some() => {
                self.is_not_modern(&why, false);
            }
            RequestKind::Discover if self.record.is_process() => self.discover_unheard(why),
            RequestKind::Discover => {
                self.handshake_failed(&HandshakeError::of_request(why, refusal.as_ref()));
            }
            RequestKind::LegacySse if in_flight.is_opened => self.legacy_sse_unsupported(),
            RequestKind::LegacySse => {
                self.handshake_failed(&HandshakeError::NoAnswer { why });
            }
            RequestKind::Poll(_)
            | RequestKind::Fetch(_)
            | RequestKind::Update(..)
            | RequestKind::Listen => {
                self.task_request_failed(in_flight, &why, refusal.as_ref());
            }
            RequestKind::Forward { ask, .. } => {
                self.forward_failed(*ask, &what);
            }
            RequestKind::ListTasks { ask, .. }
            | RequestKind::ListCheckpoints { ask }
            | RequestKind::Adopt { ask, .. } => {
                let words = format!("{} {what}; try again", self.record.name);
                self.answer(*ask, Err(RequestError::Unreachable(words)));
            }
            RequestKind::Reply(Some((id, key))) => {
                self.reply_came_to_nothing(id, key, in_flight, &why, refusal.as_ref());
            }
            RequestKind::Standalone => self.standalone_ended(None),
            RequestKind::Announce if refusal.as_ref().is_some_and(|it| !it.is_undelivered()) => {
                if refusal.is_some_and(|refusal| refusal.error.is_none()) {
                    self.session.maybe_unannounced = Some(self.record.session_number);
                }
                self.announced();
            }
            RequestKind::Announce if self.connection == ConnectionState::Announcing => {
                self.announce_failed(why);
            }
            RequestKind::ListTools { .. } => self.tool_list_failed(in_flight, why, refusal),
            RequestKind::Ping { verifies } => {
                self.ping_failed(verifies.as_ref(), why, refusal.is_none());
            }
            RequestKind::Look(id) => {
                self.look_failed(id, refusal.and_then(|refusal| refusal.retry_after));
            }
            RequestKind::Pause(id) if refusal.is_some() => {
                let said = refusal.and_then(|refusal| refusal.server_text);
                self.control_refused(id, &said.unwrap_or(why));
            }
            // A server that refuses the cancel has received it; the limit says that it did not respond.
            RequestKind::Cancel(_) if refusal.as_ref().is_some_and(|it| !it.is_undelivered()) => {}
            RequestKind::Pause(id) => self.control_unheard(id, ControlKind::Pausing),
            RequestKind::Cancel(id) => self.control_unheard(id, ControlKind::Cancelling),
            RequestKind::Announce
            | RequestKind::FindServer
            | RequestKind::Reply(None)
            | RequestKind::TerminateSession
            | RequestKind::Stream(_)
            | RequestKind::Reread(_) => {}
        }
        self.schedule.needs_advance = true;
    }

    fn ping_failed(&mut self, verifies: Option<&TaskId>, why: String, is_outage: bool) {
        if let Some(id) = verifies {
            self.verify_later(id, is_outage);
        }
        if is_outage {
            self.suspect_connections(why);
        }
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

    fn initialize_failed(
        &mut self,
        in_flight: &InFlight,
        why: String,
        refusal: Option<&HttpError>,
    ) {
        if in_flight.came.is_some() {
            return self.not_mcp(why);
        }
        if self.leaves_handshake() {
            return;
        }
        if std::mem::take(&mut self.negotiation.is_unheard) {
            return self.negotiate_with(NegotiationStep::Initialize);
        }
        let is_tried = refusal.is_some_and(|refusal| {
            self.negotiation.was_refused(refusal);
            self.tries_other_era(refusal) || self.tries_legacy_sse()
        });
        if !is_tried {
            self.handshake_failed(&HandshakeError::of_request(why, refusal));
        }
    }

    /// The server may not have seen `notifications/initialized`: open another session.
    fn announce_failed(&mut self, why: String) {
        self.connection = ConnectionState::Disconnected;
        self.record.is_initialized = false;
        self.record_changed();
        let words = self.out_of_reach(&why);
        self.refuse_queued(&RequestError::Unreachable(words));
        self.back_off(why, None);
    }

    fn tool_list_failed(&mut self, in_flight: &InFlight, why: String, refusal: Option<HttpError>) {
        let announced = self.session.maybe_unannounced.take();
        if announced == Some(in_flight.session_number) {
            return self.announce_failed(why);
        }
        if let Some(refusal) = refusal.as_ref().filter(|refusal| refusal.status < 500) {
            return self.tools_refused(refusal.server_text.as_deref().unwrap_or(&why));
        }
        self.refuse_queued(&match in_flight.came {
            Some(_) => RequestError::Usage(format!(
                "{} did not list its tools ({why}); is the URL right?",
                self.record.name
            )),
            None => RequestError::Unreachable(self.out_of_reach(&why)),
        });
        self.back_off(why, refusal.and_then(|refusal| refusal.retry_after));
    }
}

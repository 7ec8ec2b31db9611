//! HTTP+SSE, the transport before there was one endpoint: the last resort.
//!
//! One GET brings everything the server says, and names first where to POST. The connection is the session: what it loses
//! is lost, and nothing of it outlives this process. The pipes of a program are such a stream too, in every revision.
//!
//! Source: MCP 2024-11-05, basic/transports, HTTP with SSE; MCP 2025-11-25, basic/transports, backwards compatibility.

use core::time::Duration;

use super::{ConnectionState, InFlight, Link, RequestKind, negotiation::NegotiationStep};
use crate::{
    link::{
        ExchangeId,
        active_task::{ActiveTask, StreamState},
    },
    protocol::{Body, ExchangeEvent, HttpError, Method},
};

/// How long a stream may take to name its endpoint; one of another kind stays silent.
pub(super) const ENDPOINT_WITHIN: Duration = Duration::from_secs(10);

/// The one stream, once it has named where to POST.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    on: ExchangeId,
    pub(super) target: String,
}

impl InFlight {
    /// Whether a message has to come for it, not only a status.
    pub(super) fn awaits_answer(&self) -> bool {
        self.request_id.is_some() || matches!(self.kind, RequestKind::Stream(_))
    }

    /// Whether a server may refuse it for a session that it does not know.
    fn is_unknown(&self, refusal: &HttpError) -> bool {
        self.is_by_wire
            && !matches!(self.kind, RequestKind::Handshake { .. })
            && matches!(refusal.status, 400 | 404 | 410)
    }
}

impl Link {
    /// Asks for the stream; its first event has to name the endpoint.
    pub(super) fn ask_for_wire(&mut self) {
        if self.reachability.spend(self.now).is_err() {
            return;
        }
        self.send(
            RequestKind::LegacySse,
            Method::Get { cursor: None },
            None,
            None,
        );
        self.connection = ConnectionState::OpeningSse;
    }

    /// Something came on the stream: first the endpoint, then all that the server says.
    pub(super) fn wire_brought(&mut self, exchange: ExchangeId, arrival: ExchangeEvent) {
        if self.wire.is_none() {
            return self.wire_began(exchange, arrival);
        }
        self.reading.is_modern = !self.record.is_stateful();
        let now = self.now;
        self.mark_reachable();
        for active in self.tasks.values_mut() {
            if matches!(active.stream, StreamState::Open { .. }) {
                active.heard(now);
                active.activity.last_news = now.mono;
            }
        }
        if let ExchangeEvent::Event { data, .. } = arrival {
            self.in_flight.last_traffic = now.mono;
            // Steps and answers name their call; what else comes can be said to be of one only where there is one.
            let of = self.only_one();
            self.read(of.as_ref(), None, &data);
        }
    }

    fn wire_began(&mut self, exchange: ExchangeId, arrival: ExchangeEvent) {
        match arrival {
            ExchangeEvent::Endpoint { target: Ok(target) } => {
                if let Some(in_flight) = self.in_flight.get_mut(exchange) {
                    in_flight.until = None;
                }
                self.wire = Some(Wire {
                    on: exchange,
                    target,
                });
                self.connection = ConnectionState::Disconnected;
                self.needs_advance = true;
            }
            ExchangeEvent::Endpoint { target: Err(why) } => {
                self.close(exchange);
                let refusal = HttpError {
                    status: 300,
                    retry_after: None,
                    error: None,
                    server_text: None,
                };
                self.handshake_failed(why, Some(&refusal));
            }
            ExchangeEvent::Event { .. } => {
                self.close(exchange);
                self.is_no_wire();
            }
            _ => {}
        }
    }

    /// What comes of a POST whose answer comes on the stream. Returns whether that is all there is to it.
    pub(super) fn was_posted(&mut self, exchange: ExchangeId, arrival: &ExchangeEvent) -> bool {
        let Some(in_flight) = self.in_flight.get_mut(exchange) else {
            return false;
        };
        match arrival {
            ExchangeEvent::Opened { .. } => {
                in_flight.is_opened = true;
                if let RequestKind::Stream(id) = &in_flight.kind {
                    let id = id.clone();
                    self.stream_opened(&id, exchange, &Body::Stream);
                }
                self.mark_reachable();
                true
            }
            // Some answer here as well, or instead.
            ExchangeEvent::Event { data, .. } => {
                self.read(None, None, data);
                true
            }
            ExchangeEvent::Endpoint { .. } | ExchangeEvent::Alive => true,
            ExchangeEvent::Ended
            | ExchangeEvent::Broken { .. }
            | ExchangeEvent::TooLarge { .. } => in_flight.is_opened,
            _ => false,
        }
    }

    /// The GET was answered with something other than 2xx.
    pub(super) fn wire_refused(&mut self, refusal: &HttpError) {
        match refusal.status {
            401 | 403 => {
                self.connection = ConnectionState::Disconnected;
                self.auth_refused(refusal);
            }
            408 | 425 | 429 | 500..=599 => {
                self.handshake_failed(format!("HTTP {}", refusal.status), Some(refusal));
            }
            _ => self.is_no_wire(),
        }
    }

    /// HTTP+SSE is no way either: the refusal of the handshake says most. A server that was known by it is negotiated with again.
    pub(super) fn is_no_wire(&mut self) {
        self.negotiate_with(NegotiationStep::Discover);
        if let Some(refusal) = self.negotiation.no_handshake.take() {
            self.handshake_failed(format!("HTTP {}", refusal.status), Some(&refusal));
        }
    }

    /// A server that no longer knows the session of a POST gets a new stream, unless a call still hangs on this one.
    /// Returns whether it does.
    pub(super) fn wants_new_wire(&self, in_flight: &InFlight, refusal: &HttpError) -> bool {
        let has_call = |in_flight: &InFlight| {
            in_flight.is_by_wire
                && in_flight.is_opened
                && matches!(in_flight.kind, RequestKind::Stream(_))
        };
        self.wire.is_some()
            && in_flight.is_unknown(refusal)
            && !self.in_flight.values().any(has_call)
    }

    /// The stream is gone, and with it the session and every answer that was to come.
    pub(super) fn wire_ended(&mut self, why: &str) {
        self.hang_up_wire();
        self.record.is_initialized = false;
        self.record.tools_at = None;
        self.session.has_fresh_tools = false;
        self.record_changed();
        if self.record.is_process() {
            self.tasks_ended_with_process(why);
            // Whatever was left to itself there has ended too.
            self.exit.keeps_session = false;
        }
        let waiting: Vec<(ExchangeId, InFlight)> = self
            .in_flight
            .iter()
            .filter(|(_, in_flight)| in_flight.is_by_wire)
            .map(|(exchange, in_flight)| (exchange, in_flight.clone()))
            .collect();
        for (exchange, in_flight) in waiting {
            self.close(exchange);
            if in_flight.is_opened {
                self.exchange_ended(&in_flight, Some(why.to_owned()));
            } else {
                self.unanswered(&in_flight, why.to_owned(), false);
            }
        }
        if !matches!(self.connection, ConnectionState::AuthRequired(_)) {
            self.connection = ConnectionState::Disconnected;
        }
        if self.session.handshake_tries > 0 {
            self.back_off(why.to_owned(), None);
        }
        self.note_session_over();
        self.show_all();
    }

    /// A program that is configured no more is ended once nothing runs there: nothing new begins in it.
    pub(super) fn end_idle_program(&mut self) {
        let is_of_wire = |in_flight: &InFlight| {
            matches!(in_flight.kind, RequestKind::LegacySse | RequestKind::Listen)
        };
        let is_idle = self.config.gone_from.is_some()
            && self.record.is_process()
            && self.wire.is_some()
            && !self.exit.keeps_session
            && !self.wants_session()
            && !self.has_unsettled()
            && self.in_flight.values().all(is_of_wire);
        if is_idle {
            self.wire_ended("its server is configured no more");
        }
    }

    /// What the server had made tasks of was in the process that ended.
    fn tasks_ended_with_process(&mut self, why: &str) {
        let is_there = |active: &ActiveTask| !active.is_settled() && active.served.is_some();
        let there = self.tasks.iter().filter(|(_, active)| is_there(active));
        for id in there.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            let end = self.end_without_id(&id, why);
            self.out_of_stream(&id, end, false);
        }
    }

    /// Leaves the stream.
    pub(super) fn hang_up_wire(&mut self) {
        if let Some(wire) = self.wire.take() {
            self.close(wire.on);
        }
    }
}

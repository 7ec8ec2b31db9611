//! HTTP+SSE, the transport before there was one endpoint: the last resort.
//!
//! One GET brings everything the server says, and names first where to POST. The connection is the session: what it loses
//! is lost, and nothing of it outlives this process. The pipes of a program are such a stream too, in every revision.
//!
//! Source: MCP 2024-11-05, basic/transports, HTTP with SSE; MCP 2025-11-25, basic/transports, backwards compatibility.

use super::answers::Belongs;
use crate::{
    domain::{Mono, ServerConfig},
    link::{
        ActiveTask, ConnectionState, ExchangeId, HandshakeError, InFlight, Link, NegotiationStep,
        RequestKind, StreamState, connection::LegacySse,
    },
    protocol::{Body, ExchangeEvent, HttpError, Method},
};

impl Link {
    /// Asks for the stream; its first event has to name the endpoint.
    pub(super) fn open_legacy_sse(&mut self) {
        if self.reachability.spend(self.now).is_err() {
            return;
        }
        self.config.started_with.clone_from(&self.config.program);
        self.send_now(RequestKind::LegacySse, Method::Get { cursor: None });
        self.connection = ConnectionState::OpeningSse;
    }

    /// Something came on the stream: first the endpoint, then all that the server says.
    pub(super) fn legacy_sse_brought(&mut self, exchange: ExchangeId, arrival: ExchangeEvent) {
        if self.legacy_sse.is_none() {
            return self.legacy_sse_began(exchange, arrival);
        }
        self.reading.is_modern = !self.record.is_stateful();
        let now = self.now;
        self.mark_reachable();
        // Steps and answers name their call; what else comes can be said to be of one only where there is one.
        let of = self.only_active_task();
        // What a process says shows nothing of its other calls, and with many of them it would cost a lot to note it.
        let is_process = self.record.is_process();
        let is_heard_of = |id| !is_process || of.as_ref() == Some(id);
        for (id, active) in &mut self.tasks {
            if matches!(active.stream, StreamState::Open { .. }) && is_heard_of(id) {
                active.heard(now);
                if !is_process {
                    active.activity.last_news = now.mono;
                }
            }
        }
        match arrival {
            ExchangeEvent::Event { data, .. } => {
                self.in_flight.last_traffic = now.mono;
                let belongs = self.read(of.as_ref(), None, &data);
                let active = of.and_then(|id| self.tasks.get_mut(&id));
                // The response to another request says nothing about the call.
                if is_process
                    && belongs != Belongs::Elsewhere
                    && let Some(active) = active
                {
                    active.activity.last_news = now.mono;
                }
            }
            ExchangeEvent::ResponseTooLarge { request_id, cap } => {
                self.response_too_large(&request_id, cap);
            }
            _ => {}
        }
    }

    fn legacy_sse_began(&mut self, exchange: ExchangeId, arrival: ExchangeEvent) {
        match arrival {
            ExchangeEvent::Endpoint { target: Ok(target) } => {
                if let Some(in_flight) = self.in_flight.get_mut(exchange) {
                    in_flight.until = None;
                }
                self.legacy_sse = Some(LegacySse {
                    on: exchange,
                    target,
                });
                // Only a process that was inherited knows the handshake already.
                self.connection = ConnectionState::of_session(self.record.is_initialized);
                self.schedule.needs_advance = true;
            }
            ExchangeEvent::Endpoint { target: Err(error) } => {
                self.close(exchange);
                let why = format!("its endpoint {error}; nothing is sent there");
                self.handshake_failed(&HandshakeError::LeadsElsewhere { why });
            }
            ExchangeEvent::Event { .. } => {
                self.close(exchange);
                self.legacy_sse_unsupported();
            }
            _ => {}
        }
    }

    /// Handles the response to a POST whose answer arrives on the stream. Returns whether nothing else is to be done.
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
    pub(super) fn legacy_sse_refused(&mut self, refusal: &HttpError) {
        match refusal.status {
            401 | 403 => {
                self.connection = ConnectionState::Disconnected;
                self.auth_refused(refusal);
            }
            408 | 425 | 429 | 500..=599 => {
                self.handshake_failed(&HandshakeError::of_status(refusal));
            }
            _ => self.legacy_sse_unsupported(),
        }
    }

    /// HTTP+SSE is no way either: the refusal of the handshake says most. A server that was known by it is negotiated with again.
    pub(super) fn legacy_sse_unsupported(&mut self) {
        self.negotiate_with(NegotiationStep::Discover);
        if let Some(refusal) = self.negotiation.no_handshake.take() {
            self.handshake_failed(&HandshakeError::of_status(&refusal));
        }
    }

    /// A server that no longer knows the session of a POST gets a new stream, unless a call still depends on this one.
    /// Returns whether it does.
    pub(super) fn wants_new_legacy_sse(&self, in_flight: &InFlight, refusal: &HttpError) -> bool {
        let has_call = |in_flight: &InFlight| {
            in_flight.is_by_legacy_sse
                && in_flight.is_opened
                && matches!(in_flight.kind, RequestKind::Stream(_))
        };
        self.legacy_sse.is_some()
            && in_flight.is_unknown(refusal)
            && !self.in_flight.values().any(has_call)
    }

    /// The stream is gone, and with it the session and every answer that was to come.
    pub(super) fn legacy_sse_ended(&mut self, why: &str) {
        self.close_legacy_sse();
        self.record.is_initialized = false;
        self.forget_tools();
        self.record_changed();
        if self.record.is_process() {
            self.tasks_ended_with_process(why);
            // Whatever was left to itself there has ended too.
            self.exit.keeps_session = false;
        }
        let waiting: Vec<(ExchangeId, InFlight)> = self
            .in_flight
            .iter()
            .filter(|(_, in_flight)| in_flight.is_by_legacy_sse)
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
        if !self.is_barred() {
            self.connection = ConnectionState::Disconnected;
        }
        if self.session.handshake_tries > 0 {
            self.back_off(why.to_owned(), None);
        }
        self.note_session_over();
        self.show_all();
    }

    /// Ends a program without anything to do: after a while, or at once if its entry was changed or removed. The next call
    /// starts it again.
    pub(super) fn end_idle_program(&mut self) {
        if self.is_program_outdated() && self.is_program_unused() {
            return self.legacy_sse_ended("its command has changed");
        }
        // What a host has done with it may be in its memory.
        if !self.is_program_unused() || self.is_listened_to() || self.wants_session() {
            self.schedule.program_idle_since = None;
            return;
        }
        self.schedule
            .program_idle_since
            .get_or_insert(self.now.mono);
        if self.config.gone_from.is_some() {
            self.legacy_sse_ended("its server is no longer configured");
        } else if self.program_ends_at().is_some_and(|at| at <= self.now.mono) {
            self.legacy_sse_ended("it had nothing to do");
        }
    }

    /// When the idle program is ended.
    pub(super) fn program_ends_at(&self) -> Option<Mono> {
        let stays = self.config.stop_when_idle;
        let stays = stays.unwrap_or(ServerConfig::STOP_WHEN_IDLE);
        Some(self.schedule.program_idle_since?.after(stays))
    }

    /// Whether the program has not yet answered all requests.
    pub(super) fn has_requests_out(&self) -> bool {
        let is_of_legacy_sse = |in_flight: &InFlight| {
            matches!(in_flight.kind, RequestKind::LegacySse | RequestKind::Listen)
        };
        !self.in_flight.values().all(is_of_legacy_sse)
    }

    /// Whether the program runs, and nothing is asked of it.
    fn is_program_unused(&self) -> bool {
        self.record.is_process()
            && self.legacy_sse.is_some()
            && !self.exit.keeps_session
            && !self.has_unsettled()
            && !self.has_requests_out()
    }

    /// What the server had made tasks of was in the process that ended.
    fn tasks_ended_with_process(&mut self, why: &str) {
        let is_there = |active: &ActiveTask| !active.is_settled() && active.served.is_some();
        for id in self.tasks_where(is_there) {
            let end = self.end_of(&id, why);
            self.out_of_stream(&id, end);
        }
    }

    /// Leaves the stream.
    pub(super) fn close_legacy_sse(&mut self) {
        self.config.started_with = None;
        if let Some(legacy_sse) = self.legacy_sse.take() {
            self.close(legacy_sse.on);
        }
    }
}

//! Routes what arrives on exchanges.

use crate::{
    domain::{LostReason, Status, TaskId, UnknownReason, text},
    link::{
        ConnectionState, ExchangeId, InFlight, Link, RequestKind, StreamState,
        in_flight::NoResponse, stream_state::SLOW_POLL,
    },
    protocol::{self, Body, ExchangeEvent, HttpError, Incoming},
};

impl Link {
    /// Routes what arrived on an exchange to what it is for.
    pub(super) fn arrived(&mut self, exchange: ExchangeId, arrival: ExchangeEvent) {
        let Some(in_flight) = self.in_flight.get(exchange) else {
            return;
        };
        self.reading.session_number = match in_flight.kind {
            // Opened before there was a session.
            RequestKind::LegacySse | RequestKind::Handshake { .. } => self.record.session_number,
            _ => in_flight.session_number,
        };
        if let ExchangeEvent::MoreRequests(more) = arrival {
            return self.took_more(exchange, more);
        }
        if arrival == ExchangeEvent::Sent {
            if let RequestKind::Stream(id) = &in_flight.kind
                && let Some(active) = self.tasks.get_mut(id)
            {
                active.went_out(self.now);
                self.schedule.needs_advance = true;
            }
            return;
        }
        self.reading.is_modern = in_flight.is_modern;
        if brings_more(&arrival) {
            return self.body_brought(exchange, arrival);
        }
        if in_flight.is_posted() && self.was_posted(exchange, &arrival) {
            return;
        }
        match arrival {
            ExchangeEvent::Opened { body, session } => {
                self.response_began(exchange, &body, session);
            }
            end => self.exchange_over(exchange, end),
        }
    }

    /// Something arrived inside the body of a response.
    fn body_brought(&mut self, exchange: ExchangeId, arrival: ExchangeEvent) {
        let Some(in_flight) = self.in_flight.get(exchange) else {
            return;
        };
        let names_endpoint = matches!(arrival, ExchangeEvent::Endpoint { .. });
        match &in_flight.kind {
            // The hot path first: an event of a task's stream.
            RequestKind::Stream(id) if !names_endpoint => {
                let (id, is_json) = (id.clone(), in_flight.came.is_some());
                if is_json && self.answered_without_id(&id, exchange, &arrival) {
                    return;
                }
                return self.on_stream_event(&id, exchange, arrival);
            }
            RequestKind::Reread(id) if !names_endpoint => {
                return self.reread_brought(&id.clone(), exchange, arrival);
            }
            RequestKind::Standalone => return self.standalone_brought(exchange, arrival),
            RequestKind::LegacySse if in_flight.is_opened => {
                return self.legacy_sse_brought(exchange, arrival);
            }
            _ => {}
        }
        if in_flight.is_posted() && self.was_posted(exchange, &arrival) {
            return;
        }
        // An endpoint on any other stream means nothing.
        if let ExchangeEvent::Event { id, data, .. } = arrival {
            self.response_brought(exchange, id.is_some(), &data);
        }
    }

    /// Notes what the JSON body of a call's response is, unless it is the response. Takes an error without an id, which can
    /// only be of this call; returns whether it was one.
    fn answered_without_id(
        &mut self,
        id: &TaskId,
        exchange: ExchangeId,
        arrival: &ExchangeEvent,
    ) -> bool {
        let ExchangeEvent::Event { data, .. } = arrival else {
            return false;
        };
        let active = self.tasks.get(id);
        let request_id = active.and_then(|active| Some(active.request_id()?.to_owned()));
        if let (Some(error), Some(request_id)) = (protocol::error_without_id(data), request_id) {
            self.responded(&request_id, Err(error));
            return true;
        }
        if let Some(in_flight) = self.in_flight.get_mut(exchange) {
            in_flight.came = no_answer(data).or_else(|| in_flight.came.take());
        }
        false
    }

    /// A message arrived on the response to a request that is not a stream.
    fn response_brought(&mut self, exchange: ExchangeId, has_id: bool, data: &str) {
        let Some(in_flight) = self.in_flight.get(exchange) else {
            return;
        };
        let of = match &in_flight.kind {
            RequestKind::Fetch(id) => Some(id.clone()),
            _ => None,
        };
        let forward = match in_flight.kind {
            RequestKind::Forward {
                ask, ref request, ..
            } if !request.key.is_empty() => Some(ask),
            _ => None,
        };
        if has_id && !in_flight.is_modern {
            // A server that numbers the answer to a handshake numbers those of calls too.
            self.gives_ids(None, true);
        }
        self.in_flight.last_traffic = self.now.mono;
        if let Some(id) = &of
            && let Some(active) = self.tasks.get_mut(id)
        {
            active.heard(self.now);
        }
        self.reading.forward = forward;
        self.read(of.as_ref(), None, data);
        self.reading.forward = None;
        // Still there, so this was not its answer. Whatever answers a notification is fine.
        let in_flight = self.in_flight.get_mut(exchange);
        if let Some(in_flight) = in_flight.filter(|it| it.request_id.is_some()) {
            in_flight.came = no_answer(data).or_else(|| in_flight.came.take());
        }
    }

    fn response_began(&mut self, exchange: ExchangeId, body: &Body, session: Option<String>) {
        let Some(in_flight) = self.in_flight.mark_opened(exchange, self.now.mono) else {
            return;
        };
        self.published.is_server_stale |= in_flight.sent_at.is_some();
        let page = NoResponse::of_body(body).filter(|_| matches!(body, Body::Other { .. }));
        let awaits_message = in_flight.request_id.is_some();
        // Whatever answers a notification is fine, but a redirect most likely led to a login page, and a user's answer is
        // worth a second copy.
        let is_answer = matches!(in_flight.kind, RequestKind::Reply(Some(_)));
        in_flight.came = match &page {
            Some(_) if in_flight.more_requests > 0 || is_answer => page.clone(),
            _ => NoResponse::of_body(body).filter(|_| awaits_message),
        };
        match &mut in_flight.kind {
            RequestKind::Handshake { session: slot } => *slot = session,
            RequestKind::Announce if page.is_some() => {
                self.session.maybe_unannounced = Some(self.record.session_number);
            }
            RequestKind::Stream(id) => {
                let id = id.clone();
                let session = in_flight.session();
                let active = self.tasks.get(&id);
                let is_call = active.is_some_and(|it| matches!(it.stream, StreamState::Calling(_)));
                in_flight.came = (is_call && *body == Body::Json).then_some(NoResponse::JsonBody);
                self.session_lives(session);
                self.stream_opened(&id, exchange, body);
            }
            RequestKind::Reread(id) if *body != Body::Stream => {
                let id = id.clone();
                self.reread_over(&id, exchange);
            }
            RequestKind::Standalone => self.standalone_opened(body),
            // A captive portal may have answered with a page of its own.
            RequestKind::Cancel(id) if page.is_none() => {
                let id = id.clone();
                self.cancel_arrived(&id);
            }
            _ => {}
        }
        match page {
            // A portal or a proxy answers in place of the server.
            Some(why) if awaits_message || self.reachability.down.is_some() => {
                self.announce_again();
                self.mark_unreachable(why.to_string(), false, None);
            }
            Some(_) => {}
            None => {
                self.session.maybe_unannounced.take_if(|_| awaits_message);
                self.mark_reachable();
            }
        }
    }

    /// A page came in place of a response. If one had come for `notifications/initialized` too, the server has not heard
    /// it, and there has to be another handshake.
    fn announce_again(&mut self) {
        let announced = self.session.maybe_unannounced.take();
        if announced == Some(self.record.session_number) && self.record.is_initialized {
            (self.record.is_initialized, self.record.session) = (false, None);
            self.connection = ConnectionState::Disconnected;
            self.record_changed();
        }
    }

    /// Nothing more arrives on an exchange.
    fn exchange_over(&mut self, exchange: ExchangeId, end: ExchangeEvent) {
        self.schedule.needs_advance = true;
        let Some(in_flight) = self.in_flight.remove(exchange) else {
            return;
        };
        self.reachability.prober_gone();
        match &in_flight.kind {
            RequestKind::Stream(id) if self.is_kept(id, exchange) => {
                return self.kept_ended(&id.clone(), &end);
            }
            RequestKind::LegacySse if self.legacy_sse.is_some() => {
                return self.legacy_sse_ended(&match end {
                    ExchangeEvent::Broken { why } => why,
                    ExchangeEvent::TooLarge { cap } => over_the_cap(cap),
                    _ => "its only stream ended".to_owned(),
                });
            }
            RequestKind::Reread(id) => return self.reread_over(id, exchange),
            _ => {}
        }
        match end {
            ExchangeEvent::Ended if in_flight.is_opened => self.exchange_ended(&in_flight, None),
            ExchangeEvent::Ended => {
                self.exchange_ended(&in_flight, Some("the connection was closed".to_owned()));
            }
            ExchangeEvent::Broken { why } => self.exchange_ended(&in_flight, Some(why)),
            ExchangeEvent::TooLarge { cap } => self.too_large(&in_flight, cap),
            ExchangeEvent::Refused(refusal) => self.exchange_refused(in_flight, *refusal),
            ExchangeEvent::NotSent { why, is_refused } => {
                for active in self.tasks.values_mut() {
                    active.recovery.was_refused |= is_refused;
                }
                self.mark_unreachable(why.clone(), is_refused, None);
                self.unanswered(&in_flight, why, true);
            }
            ExchangeEvent::NoAnswer { why } => {
                self.mark_unreachable(why.clone(), false, None);
                self.unanswered(&in_flight, why, false);
            }
            ExchangeEvent::Untrusted { why } => {
                let message = format!("it could not prove its identity: {why}");
                self.mark_unreachable(message, false, Some(SLOW_POLL));
                self.unanswered(&in_flight, why, true);
            }
            ExchangeEvent::Opened { .. }
            | ExchangeEvent::Event { .. }
            | ExchangeEvent::ResponseTooLarge { .. }
            | ExchangeEvent::Endpoint { .. }
            | ExchangeEvent::MoreRequests(_)
            | ExchangeEvent::Sent
            | ExchangeEvent::Alive => {}
        }
    }

    /// A request was answered with a status other than 2xx.
    fn exchange_refused(&mut self, in_flight: InFlight, refusal: HttpError) {
        // Neither a gateway nor a redirect is a sign of the server. Where a handshake is redirected, that is shown.
        let is_redirect = matches!(refusal.status, 300..=399);
        let is_gateway = matches!(refusal.status, 502..=504);
        let opens_session = matches!(
            in_flight.kind,
            RequestKind::Discover | RequestKind::Handshake { .. } | RequestKind::LegacySse
        );
        let is_down = self.reachability.down.is_some();
        if is_redirect && !opens_session || (is_redirect || is_gateway) && is_down {
            let message = format!("HTTP {}", refusal.status);
            self.mark_unreachable(message, false, refusal.retry_after);
        } else if !is_redirect && !is_gateway {
            self.mark_reachable();
        }
        match &in_flight.kind {
            RequestKind::Stream(id) if in_flight.is_modern => {
                self.modern_call_refused(&id.clone(), &in_flight, &refusal);
            }
            RequestKind::Stream(id) if self.wants_new_legacy_sse(&in_flight, &refusal) => {
                self.requeue(&id.clone(), &refusal);
                self.legacy_sse_ended(&format!("HTTP {}", refusal.status));
            }
            RequestKind::Stream(id) => {
                self.stream_refused(&id.clone(), in_flight.session_number, &refusal);
            }
            _ if in_flight.is_answered_by(&refusal) => {
                let error = refusal.error.unwrap_or_default();
                self.in_flight_answered(in_flight, Err(error));
            }
            _ => self.short_refused(&in_flight, refusal),
        }
    }

    /// An exchange took more requests than one. What a person asked for, and the looks at a pace that the server sets,
    /// are beyond the budget; so are theirs.
    fn took_more(&mut self, exchange: ExchangeId, more: u32) {
        self.in_flight.sent += u64::from(more);
        let now = self.now;
        let Some(in_flight) = self.in_flight.get_mut(exchange) else {
            return;
        };
        in_flight.more_requests += more;
        match &in_flight.kind {
            RequestKind::Stream(id) => {
                if let Some(active) = self.tasks.get_mut(id)
                    && !matches!(active.stream, StreamState::Calling(_))
                {
                    active.recovery.budget.charge(now.mono, more);
                }
            }
            RequestKind::Standalone => self.standalone.budget.charge(now.mono, more),
            RequestKind::Poll(_) => {}
            _ => self.reachability.charge(now, more),
        }
    }

    pub(super) fn unanswered(&mut self, in_flight: &InFlight, why: String, is_unsent: bool) {
        match &in_flight.kind {
            RequestKind::Stream(id) => self.stream_unanswered(&id.clone(), &why, is_unsent),
            _ => self.short_failed(in_flight, why, None),
        }
    }

    pub(super) fn exchange_ended(&mut self, in_flight: &InFlight, broken: Option<String>) {
        let is_taken = broken.is_none() && in_flight.came.is_none();
        match &in_flight.kind {
            RequestKind::Stream(id) => match &in_flight.came {
                Some(came @ (NoResponse::OtherJson | NoResponse::Text))
                    if broken.is_none() && !self.is_over(id) =>
                {
                    let is_json = *came == NoResponse::OtherJson;
                    let reason = UnknownReason::BadResponse { is_json };
                    self.out_of_stream(&id.clone(), Status::Unknown(reason));
                }
                _ => self.stream_ended(&id.clone(), broken),
            },
            RequestKind::Announce if is_taken => self.announced(),
            RequestKind::Cancel(id) if is_taken && in_flight.request_id.is_none() => {
                self.cancel_taken(&id.clone());
            }
            RequestKind::Reply(Some((id, key))) if is_taken => {
                self.question_delivered(&id.clone(), &key.clone());
            }
            // Any response shows that the server is there.
            RequestKind::Ping { verifies: None } if broken.is_none() => {}
            RequestKind::Reply(None) | RequestKind::TerminateSession => {}
            // An answer was due and did not come; where it did, the request was removed with it.
            _ => {
                let why = in_flight.came.as_ref().map(ToString::to_string).or(broken);
                let why = why.unwrap_or_else(|| "no answer".to_owned());
                self.short_failed(in_flight, why, None);
            }
        }
    }

    /// Whether the end of a call's stream needs no other reason: it was cancelled, or its session is gone.
    fn is_over(&self, id: &TaskId) -> bool {
        let active = self.tasks.get(id);
        active.is_some_and(|it| it.is_being_cancelled() || it.detached.is_some())
    }

    /// The result of a call exceeds the limit.
    pub(super) fn call_too_large(&mut self, id: &TaskId, cap: usize) {
        if let Some(active) = self.tasks.get_mut(id) {
            active.stream = StreamState::None;
        }
        let cap = u64::try_from(cap).unwrap_or(u64::MAX);
        self.out_of_stream(id, Status::Lost(LostReason::TooMuch { cap }));
    }

    /// The response to a request exceeds the limit.
    pub(super) fn too_large(&mut self, in_flight: &InFlight, cap: usize) {
        match &in_flight.kind {
            RequestKind::Stream(id) | RequestKind::Fetch(id) => self.call_too_large(id, cap),
            // The response has the result of the task, and would have it the next time.
            RequestKind::Poll(id) if in_flight.is_modern => self.call_too_large(id, cap),
            _ => self.short_failed(in_flight, over_the_cap(cap), None),
        }
    }

    /// Short requests and resumes whose time is up.
    pub(super) fn expire_in_flight(&mut self) {
        for exchange in self.in_flight.expired(self.now.mono) {
            let Some(in_flight) = self.in_flight.get_mut(exchange) else {
                continue;
            };
            in_flight.until = None;
            if matches!(in_flight.kind, RequestKind::Stream(_)) && in_flight.is_opened {
                continue;
            }
            let in_flight = in_flight.clone();
            self.close(exchange);
            if let RequestKind::Reread(id) = &in_flight.kind {
                self.reread_over(id, exchange);
                continue;
            }
            let why = in_flight.came.as_ref().map(ToString::to_string);
            let why = why.unwrap_or_else(|| "no response in time".to_owned());
            let is_list = matches!(in_flight.kind, RequestKind::ListTools { .. });
            if is_list && (in_flight.is_opened || self.record.is_process()) {
                self.tools_unanswered(&why);
                continue;
            }
            self.unanswered(&in_flight, why, false);
        }
    }
}

/// Whether an arrival is something inside a body.
fn brings_more(arrival: &ExchangeEvent) -> bool {
    matches!(
        arrival,
        ExchangeEvent::Event { .. }
            | ExchangeEvent::ResponseTooLarge { .. }
            | ExchangeEvent::Endpoint { .. }
            | ExchangeEvent::Alive
    )
}

fn over_the_cap(cap: usize) -> String {
    let cap = text::bytes(u64::try_from(cap).unwrap_or(u64::MAX));
    format!("an event exceeds the limit of {cap}")
}

/// What an event is that came where an answer was due; `None` for what may come beside one.
fn no_answer(data: &str) -> Option<NoResponse> {
    let mut messages = protocol::decode(data);
    messages.retain(|it| !matches!(it, Incoming::Unreadable | Incoming::BadResponse(_)));
    let is_response = |message: &Incoming<'_>| matches!(message, Incoming::Response { .. });
    if data.is_empty() || !messages.is_empty() && !messages.iter().any(is_response) {
        return None;
    }
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok();
    Some(if is_json {
        NoResponse::OtherJson
    } else {
        NoResponse::Text
    })
}

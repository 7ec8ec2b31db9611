//! How requests go out, and what they show of the way to the server.

use core::time::Duration;

use crate::{
    domain::{Era, Mono, ProtocolVersion, TaskId, TaskKind},
    link::{
        ActiveTask, ExchangeId, InFlight, Link, Output, RequestKind, SaveToken, StreamState,
        negotiation::MODERN,
    },
    protocol::{Method, Request},
};

impl Link {
    /// The revision of the requests about a task: that of its call or of its server task, whatever else is spoken.
    pub(super) fn version_of(&self, id: &TaskId) -> ProtocolVersion {
        let active = self.tasks.get(id);
        let server_task = active.and_then(|active| active.task.server_task.as_ref());
        let is_modern = match server_task {
            Some(task) => task.kind == TaskKind::Extension,
            None => active.is_some_and(ActiveTask::is_modern),
        };
        if is_modern {
            return MODERN;
        }
        let of_session = self.session_version();
        let of_call = || active.and_then(|it| it.attempt()?.version);
        match of_session.era() {
            Era::Stateful => of_session,
            Era::Modern => of_call().unwrap_or(of_session),
        }
    }

    /// The revision that a request is dressed in.
    fn version_for(&self, kind: &RequestKind, is_request: bool) -> Option<ProtocolVersion> {
        match kind {
            RequestKind::Handshake { .. } | RequestKind::FindServer | RequestKind::LegacySse => {
                None
            }
            RequestKind::Stream(id)
            | RequestKind::Reread(id)
            | RequestKind::Cancel(id)
            | RequestKind::Poll(id)
            | RequestKind::Fetch(id)
            | RequestKind::Update(id, _) => Some(self.version_of(id)),
            RequestKind::ListTools { version, .. } => Some(*version),
            RequestKind::Discover
            | RequestKind::Adopt {
                kind: TaskKind::Extension,
                ..
            } => Some(MODERN),
            // That of the session is a GET.
            RequestKind::Listen if is_request => Some(MODERN),
            _ => self.record.version,
        }
    }

    /// Sends at once what has no request id: a notification, a reply, or an HTTP request without a message.
    pub(super) fn send_now(&mut self, kind: RequestKind, method: Method) -> ExchangeId {
        self.send(kind, method, None, None)
    }

    /// Sends a request with an id at once.
    pub(super) fn send_request(
        &mut self,
        kind: RequestKind,
        method: Method,
        request_id: String,
    ) -> ExchangeId {
        self.send(kind, method, Some(request_id), None)
    }

    /// Sends a request; during an outage it is the prober.
    pub(super) fn send(
        &mut self,
        kind: RequestKind,
        method: Method,
        request_id: Option<String>,
        after: Option<SaveToken>,
    ) -> ExchangeId {
        let version = self.version_for(&kind, request_id.is_some());
        let has_session = version.is_some_and(|version| version.era() == Era::Stateful);
        let target = self.legacy_sse.as_ref();
        let target = target.map(|legacy_sse| legacy_sse.target.clone());
        let (is_short, within) = (kind.is_short(), kind.time_limit(self.record.is_process()));
        let exchange = self.in_flight.insert(
            InFlight {
                kind,
                request_id,
                until: within.map(|wait| self.now.mono.after(wait)),
                is_opened: false,
                // What waits for another request, or whose answer is held open, tells nothing of the way there.
                sent_at: (after.is_none() && is_short).then_some(self.now.mono),
                after,
                came: None,
                more_requests: 0,
                session_number: self.record.session_number,
                is_modern: version.is_some_and(|version| version.era() == Era::Modern),
                is_by_legacy_sse: target.is_some(),
            },
            self.now.mono,
        );
        self.reachability.sent(self.now);
        self.published.is_server_stale = true;
        self.out.push(Output::Send {
            exchange,
            request: Request {
                method,
                session: self.record.session.clone().filter(|_| has_session),
                version: version.filter(|version| *version != ProtocolVersion::V20241105),
                target,
            },
            after,
        });
        exchange
    }

    /// What changed must be on disk soon, and decides what comes next.
    pub(super) fn save_vital(&mut self) {
        self.saver.urge(self.now.mono);
        self.schedule.needs_advance = true;
    }

    pub(super) fn close_all(&mut self, exchanges: Vec<ExchangeId>) {
        for exchange in exchanges {
            self.close(exchange);
        }
    }

    pub(super) fn close_where(&mut self, is_it: impl Fn(&RequestKind) -> bool) {
        let exchanges = self.in_flight.iter();
        let exchanges = exchanges.filter(|(_, in_flight)| is_it(&in_flight.kind));
        self.close_all(exchanges.map(|(exchange, _)| exchange).collect());
    }

    /// Drops an exchange; nothing more arrives of it.
    pub(super) fn close(&mut self, exchange: ExchangeId) {
        if let Some(in_flight) = self.in_flight.remove(exchange) {
            if !in_flight.is_opened {
                self.reachability.prober_gone();
            }
            self.out.push(Output::Close { exchange });
        }
    }

    /// Something came back from the server: the way is open.
    pub(super) fn mark_reachable(&mut self) {
        if self.reachability.worked() {
            self.schedule.needs_advance = true;
            self.published.is_server_stale = true;
            // Streams follow the prober staggered, so that a server that just came back is not run over.
            let mut place = 0;
            for active in self.tasks.values_mut() {
                active.saving.is_shown_stale = true;
                if let StreamState::Waiting(until) = &mut active.stream {
                    let wait = Duration::from_millis(place * 25 + self.rng.u64(0..25));
                    let turn = self.now.mono.after(wait);
                    // What waits because its server asked for it keeps waiting.
                    if *until < turn {
                        *until = turn;
                        place += 1;
                    }
                }
                if active.cancel_taken_at.is_some() {
                    active.cancel_taken_at = Some(self.now.mono);
                }
                if let Some(served) = &mut active.served {
                    served.back_in_contact(self.now.mono);
                }
            }
        }
    }

    pub(super) fn mark_unreachable(
        &mut self,
        why: String,
        is_refused: bool,
        at_least: Option<Duration>,
    ) {
        self.reachability
            .failed(self.now, why, is_refused, at_least, &mut self.rng);
        self.show_all();
    }

    /// Whether an automatic request may go out now. `Err` holds when the budget allows one; it holds nothing during an
    /// outage, because what waits for the server continues when a probe is answered.
    pub(super) fn may_ask(&mut self) -> Result<(), Option<Mono>> {
        if !self.reachability.may_send(self.now) {
            return Err(None);
        }
        self.reachability.spend(self.now).map_err(Some)
    }
}

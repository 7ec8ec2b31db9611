//! The subscription to changes of server tasks, in the modern era.

use std::collections::BTreeSet;

use crate::{
    domain::{ServerTask, TaskId, TaskKind},
    link::{ConnectionState, Link, RequestKind, negotiation::MODERN},
    protocol::{HttpError, encode},
};

impl Link {
    /// New tasks are collected before longhaul subscribes to them.
    pub(super) fn gather(&mut self) {
        if self.may_listen() {
            self.subscription.gather(self.now.mono);
        }
    }

    /// Whether there is a subscription: the stateful era has its standalone stream instead.
    pub(super) fn may_listen(&self) -> bool {
        let is_of_use = self.record.has_extension() || self.wants_lists();
        is_of_use && !self.subscription.is_refused
    }

    /// Whether hosts want to know when a list changes. In the stateful era the standalone stream tells.
    fn wants_lists(&self) -> bool {
        self.is_listened_to() && !self.record.is_stateful()
    }

    /// The tasks of the server that are followed.
    fn served_of(&self, kind: TaskKind) -> impl Iterator<Item = &ServerTask> {
        self.tasks
            .values()
            .filter(|active| !active.is_settled() && active.served.is_some())
            .filter_map(|active| active.task.server_task.as_ref())
            .filter(move |task| task.kind == kind)
    }

    /// Opens or renews the streams that report on our tasks: the session's stream and the subscription.
    pub(super) fn step_listening(&mut self) {
        let next = self.subscription.next;
        let is_due = next.is_some_and(|next| self.now.mono >= next);
        if !is_due
            || self.connection != ConnectionState::Ready
            || self.exit.is_leaving
            || !self.may_listen()
        {
            return;
        }
        let wanted = self.served_of(TaskKind::Extension);
        let wanted: BTreeSet<String> = wanted.map(|task| task.id.clone()).collect();
        let wants_lists = self.wants_lists();
        if self.subscription.covers(&wanted, wants_lists) {
            self.subscription.next = None;
            return;
        }
        if let Err(later) = self.may_ask() {
            self.subscription.next = later.or(self.subscription.next);
            return;
        }
        self.subscription.next = None;
        self.end_subscription();
        self.mark_unsubscribed();
        if wanted.is_empty() && !wants_lists {
            self.subscription.wanted.clear();
            return;
        }
        let request_id = self.in_flight.new_request_id();
        let ids: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let ids = self.record.has_extension().then_some(ids.as_slice());
        let method = encode::listen(MODERN, &request_id, ids, wants_lists);
        let exchange = self.send_request(RequestKind::Listen, method, request_id);
        let since = self.now.mono;
        self.subscription
            .requested(exchange, wanted, wants_lists, since);
    }

    /// Leaves a subscription. On pipes there is no stream to close: there the server is notified (2026-07-28,
    /// basic/patterns/cancellation).
    pub(super) fn end_subscription(&mut self) {
        let Some(on) = self.subscription.on.take() else {
            return;
        };
        let in_flight = self.in_flight.get(on);
        let request_id = in_flight.and_then(|in_flight| in_flight.request_id.clone());
        self.close(on);
        if let Some(request_id) = request_id.filter(|_| self.record.is_process()) {
            let method = encode::cancelled_notification(&request_id, "requested again");
            self.send_now(RequestKind::Reply(None), method);
        }
    }

    /// The server ends a subscription, where it cannot do so by closing its stream.
    pub(super) fn listening_withdrawn(&mut self, raw_id: &str) {
        let Some(on) = self.subscription.on else {
            return;
        };
        let in_flight = self.in_flight.get(on);
        let request_id = in_flight.and_then(|in_flight| in_flight.request_id.as_deref());
        if request_id == Some(raw_id.trim_matches('"')) {
            self.close(on);
            self.listening_ended(false);
        }
    }

    /// Returns the tasks that were subscribed to.
    fn mark_unsubscribed(&mut self) -> Vec<TaskId> {
        let mut told = Vec::new();
        for (id, active) in &mut self.tasks {
            if let Some(served) = active.served.as_mut().filter(|served| served.is_subscribed) {
                served.is_subscribed = false;
                told.push(id.clone());
            }
        }
        told
    }

    /// The server confirmed what it will report (2026-07-28, basic/patterns/subscriptions).
    pub(super) fn listening_to(&mut self, json: &str) {
        if self.subscription.take_gap() {
            self.lists_may_have_changed();
        }
        let value: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
        let accepted = value
            .pointer("/notifications/taskIds")
            .and_then(|ids| ids.as_array());
        for server_task in accepted.into_iter().flatten().filter_map(|id| id.as_str()) {
            let id = self.index.by_server_task.get(server_task);
            if let Some(served) = id
                .and_then(|id| self.tasks.get_mut(id))
                .and_then(|active| active.served.as_mut())
            {
                served.is_subscribed = true;
                // There is no replay: one poll covers what changed before the server began to report.
                served.look_soon(self.now.mono);
            }
        }
        self.schedule.needs_advance = true;
    }

    /// The request for the subscription got a status other than 2xx.
    pub(super) fn listening_refused(&mut self, refusal: &HttpError) {
        let is_temporary = matches!(refusal.status, 401 | 403 | 408 | 409 | 425 | 429);
        self.listening_ended(refusal.status < 500 && !is_temporary);
    }

    /// The subscription ended. `is_final` says that the server has none.
    pub(super) fn listening_ended(&mut self, is_final: bool) {
        let told = self.mark_unsubscribed();
        let now = self.now.mono;
        if !self.subscription.ended(now, is_final, &mut self.rng) {
            return;
        }
        // What changes in between is found by asking, at the usual pace again.
        for id in told {
            self.poll_again(&id);
        }
    }

    /// A server was negotiated with, perhaps a different one than before.
    pub(super) fn session_opened(&mut self) {
        self.subscription.is_refused = false;
        if let Some(on) = self.subscription.on.take() {
            self.close(on);
        }
        if self.wants_lists() {
            // At once: the first call may change a list.
            self.subscription.next = Some(self.now.mono);
        } else {
            self.gather();
        }
        if std::mem::replace(&mut self.hosts.know_lists, true) {
            self.lists_may_have_changed();
        }
    }
}

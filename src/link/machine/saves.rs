//! What goes to the disk and when, and what follows once it is there or could not be written.
//!
//! A task is shown, and a request sent, only after the save that it waits for.

use std::sync::Arc;

use crate::{
    domain::{RequestError, Row, SessionResponse, TaskId},
    link::{ConnectionState, InFlight, Link, Output, RequestKind, SaveToken},
};

impl Link {
    pub(super) fn record_changed(&mut self) {
        (self.saver.is_record_dirty, self.published.is_server_stale) = (true, true);
        self.saver.touch(self.now.mono);
    }

    /// A server that was never reached and has no task is most likely a slip of the keyboard, unless its revision was
    /// chosen with care.
    pub(super) fn is_worth_saving(&self) -> bool {
        let is_known = self.record.session_number > 0 || self.record.pinned_version.is_some();
        self.saver.is_record_dirty && (is_known || !self.tasks.is_empty())
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.is_worth_saving()
            || !self.saver.erasing.is_empty()
            || self.tasks.values().any(|active| active.saving.is_dirty)
    }

    pub(super) fn flush(&mut self) {
        // First, so that a call asked for again under the same id is not taken out with its failed intent.
        let mut rows: Vec<Row> = self.saver.erasing.drain(..).map(Row::Erase).collect();
        if self.is_worth_saving() {
            self.saver.is_record_dirty = false;
            let mut record = self.record.clone();
            // A process that ends now may leave a session that the server does not serve yet.
            record.is_initialized &= self.connection != ConnectionState::Announcing;
            rows.push(Row::Link(Box::new(record)));
        }
        let tasks = self.tasks.values_mut();
        for active in tasks.filter(|active| active.saving.is_dirty) {
            active.saving.is_dirty = false;
            let task = &active.task;
            if !active.saving.pending.is_empty() {
                let entries = active.saving.pending.take();
                rows.push(Row::History {
                    task: task.id.clone(),
                    entries,
                });
            }
            if let Some(json) = active.saving.result.take() {
                rows.push(Row::Result {
                    task: task.id.clone(),
                    json,
                });
            }
            rows.push(Row::Task(Box::new(task.clone())));
        }
        let rows = Arc::new(rows);
        let (token, is_vital) = self.saver.begin(Arc::clone(&rows));
        self.out.push(Output::Save {
            token,
            rows,
            is_vital,
        });
    }

    pub(super) fn saved(&mut self, token: SaveToken) {
        let had_trouble = self.saver.trouble.is_some();
        let Some(flight) = self.saver.done(token) else {
            return;
        };
        for row in flight.rows.iter() {
            match row {
                Row::Task(task) => {
                    if let Some(active) = self.tasks.get_mut(&task.id) {
                        (active.saving.saved_seq, active.saving.is_shown_stale) = (task.seq, true);
                    }
                }
                Row::Result { task, .. } => {
                    if let Some(active) = self.tasks.get_mut(task) {
                        active.saving.result_part.set(0);
                    }
                }
                _ => {}
            }
        }
        let is_past = |waits: Option<SaveToken>| waits.is_some_and(|waits| waits <= token);
        for active in self.tasks.values_mut() {
            if is_past(active.saving.held) {
                active.saving.held = None;
            }
            if is_past(active.sending) {
                active.sending = None;
            }
            if is_past(active.intent.as_ref().map(|intent| intent.save)) {
                active.intent = None;
            }
            active.saving.is_shown_stale |= had_trouble;
        }
        self.publish();
        // What is settled or forgotten, saved and shown is the session file's from now on.
        let (index, mut has_left) = (&mut self.index, false);
        let count = self.tasks.len();
        self.tasks.retain(|_, active| {
            let stays = active.task.is_open()
                || active.saving.is_dirty
                || active.saving.held.is_some()
                || active.saving.saved_seq < active.task.seq;
            if !stays && let Some(server_task) = &active.task.server_task {
                index.server_task_saved(&server_task.id, &active.task);
                has_left = true;
            }
            stays
        });
        if self.tasks.len() < count {
            let is_here = |_: &String, id: &mut TaskId| self.tasks.contains_key(id);
            self.index.by_request.retain(is_here);
        }
        if has_left {
            self.gather();
        }
        self.schedule.needs_advance = true;
    }

    pub(super) fn save_failed(&mut self, token: SaveToken, why: String) {
        let Some(flight) = self.saver.failed(self.now.mono, token, why) else {
            return;
        };
        for row in Arc::unwrap_or_clone(flight.rows) {
            match row {
                Row::Link(_) => self.saver.is_record_dirty = true,
                Row::Task(task) => {
                    if let Some(active) = self.tasks.get_mut(&task.id) {
                        active.saving.is_dirty = true;
                    }
                }
                Row::History { task, entries } => {
                    if let Some(active) = self.tasks.get_mut(&task) {
                        active.saving.pending.put_back(entries);
                    }
                }
                Row::Result { task, json } => {
                    if let Some(active) = self.tasks.get_mut(&task) {
                        active.saving.result.get_or_insert(json);
                    }
                }
                Row::Erase(id) => self.saver.erasing.push(id),
            }
        }
        let trouble = self.disk_trouble();
        // The driver has dropped what waited for this save, so nothing of it was sent.
        for id in self.tasks.keys().cloned().collect::<Vec<_>>() {
            let Some(active) = self.tasks.get_mut(&id) else {
                continue;
            };
            active.saving.is_shown_stale = true;
            if active.sending == Some(token) {
                active.sending = None;
                self.unsend(&id, None);
            }
            let intent = self.tasks.get(&id).and_then(|it| it.intent.as_ref());
            if let Some(intent) = intent.filter(|intent| intent.save == token).cloned() {
                self.tasks.remove(&id);
                self.index.by_request.retain(|_, of| *of != id);
                self.saver.erasing.push(id.clone());
                self.published.erased.push(id);
                for ask in intent.asks {
                    let outcome = trouble.clone().map_or(Ok(SessionResponse::Accepted), Err);
                    self.answer(ask, outcome);
                }
            }
        }
        self.never_went_out(token);
        // A view that waits for the disk is shown now, marked as not saved.
        self.tasks
            .values_mut()
            .for_each(|active| active.saving.held = None);
        self.schedule.needs_advance = true;
    }

    /// Answers that waited for a save that failed were forgotten with it; they are sent again with the next.
    fn never_went_out(&mut self, token: SaveToken) {
        for exchange in self.in_flight.waiting_for(token) {
            self.reachability.prober_gone();
            if let Some(InFlight {
                kind: RequestKind::Update(id, key) | RequestKind::Reply(Some((id, key))),
                ..
            }) = self.in_flight.remove(exchange)
            {
                self.reachability.refund(self.now);
                self.answers_wait(&id, &key);
            }
        }
    }

    /// The words for refusing a new call while the disk fails.
    pub(super) fn disk_trouble(&self) -> Option<RequestError> {
        self.saver.trouble.as_deref().map(|why| {
            RequestError::CannotSave(format!(
                "not started: {why}; nothing was sent. Fix this, then try again"
            ))
        })
    }
}

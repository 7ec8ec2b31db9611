//! When to write: immediately what promises depend on, the rest every quarter of a second, less often with many active
//! tasks.

use core::time::Duration;
use std::sync::Arc;

use super::{io::SaveToken, pending::Unsaved};
use crate::domain::{Mono, Row, TaskId};

/// How long progress may wait to be written.
const FLUSH_EVERY: Duration = Duration::from_millis(250);
/// With many active tasks, a write is delayed by this for each of its rows ...
const FLUSH_A_ROW: Duration = Duration::from_millis(10);
/// ... but no longer than this: what is lost with the process until then is replayed to the next.
const FLUSH_AT_LATEST: Duration = Duration::from_secs(2);
/// How long [`Saver::urge_soon`] waits.
const SOON: Duration = Duration::from_millis(20);
/// How long after a failed write the next is tried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The writes of one link: one at a time, numbered.
#[derive(Debug, Default)]
pub(super) struct Saver {
    /// The number of the write that will hold everything changed up to now.
    pub(super) next_token: SaveToken,
    in_flight: Option<InFlight>,
    flush_every: Duration,
    /// The driver waits for everything to be on disk: writes are no longer delayed.
    is_hurried: bool,
    due: Option<Mono>,
    is_vital: bool,
    /// Why the last write failed, until one succeeds.
    pub(super) trouble: Option<String>,
    /// How much history and how many results are waiting to be saved, over all links.
    pub(super) unsaved: Unsaved,
    /// Since when nothing is read from servers because the unsaved results leave no room.
    pub(super) backpressured_since: Option<Mono>,
    pub(super) is_record_dirty: bool,
    /// Intents whose save failed and that may be on disk nevertheless.
    pub(super) erasing: Vec<TaskId>,
}

/// A write that was handed out and not yet answered; its rows are kept to be written again if it fails.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) token: SaveToken,
    pub(super) rows: Arc<Vec<Row>>,
}

impl Saver {
    pub(super) fn new(is_record_dirty: bool) -> Self {
        Self {
            next_token: 1,
            flush_every: FLUSH_EVERY,
            is_record_dirty,
            ..Self::default()
        }
    }

    /// Something changed that can wait a little.
    pub(super) fn touch(&mut self, now: Mono) {
        if self.due.is_none() {
            let wait = if self.is_hurried {
                Duration::ZERO
            } else {
                self.flush_every
            };
            self.due = Some(now.after(wait));
        }
    }

    /// What has changed until now is written at once, except after a failed attempt.
    pub(super) fn save_now(&mut self, now: Mono) {
        if self.trouble.is_none() {
            self.due = self.due.map(|due| due.min(now));
        }
    }

    /// From now on writes are immediate, except for the delay between two attempts on a failing disk.
    pub(super) fn hurry(&mut self, now: Mono) {
        self.is_hurried = true;
        self.save_now(now);
    }

    /// Something changed that a promise depends on.
    pub(super) fn urge(&mut self, now: Mono) {
        // After a failure the retry keeps its delay, or a full disk would be hammered.
        if self.trouble.is_none() {
            self.urge_now(now);
        } else {
            self.is_vital = true;
            self.touch(now);
        }
    }

    /// As [`Self::urge`], but also tries again right after a failure: the user may have freed some space.
    pub(super) fn urge_now(&mut self, now: Mono) {
        self.is_vital = true;
        self.due = Some(now);
    }

    /// As [`Self::urge`], but leaves a moment for what most likely follows, such as the result of a short call: one write
    /// takes less time than two.
    pub(super) fn urge_soon(&mut self, now: Mono) {
        self.is_vital = true;
        self.touch(now);
        let soon = now.after(SOON);
        if self.trouble.is_none() {
            self.due = self.due.map(|due| due.min(soon));
        }
    }

    /// Whether a write is due and none is under way.
    pub(super) fn is_due(&self, now: Mono) -> bool {
        self.in_flight.is_none() && self.due.is_some_and(|due| now >= due)
    }

    /// When [`Self::is_due`] turns true by the passing of time.
    pub(super) fn next_due(&self) -> Option<Mono> {
        self.due.filter(|_| self.in_flight.is_none())
    }

    /// Hands a write out; returns its number and whether it is vital.
    pub(super) fn begin(&mut self, rows: Arc<Vec<Row>>) -> (SaveToken, bool) {
        let token = self.next_token;
        self.next_token += 1;
        self.due = None;
        let more = FLUSH_A_ROW.saturating_mul(u32::try_from(rows.len()).unwrap_or(u32::MAX));
        self.flush_every = FLUSH_EVERY.saturating_add(more).min(FLUSH_AT_LATEST);
        self.in_flight = Some(InFlight { token, rows });
        (token, std::mem::take(&mut self.is_vital))
    }

    /// The write under way is on disk; its rows come back to see what they were.
    pub(super) fn done(&mut self, token: SaveToken) -> Option<InFlight> {
        let flight = self.in_flight.take_if(|flight| flight.token == token)?;
        self.trouble = None;
        Some(flight)
    }

    /// The write under way failed; its rows come back to be written again.
    pub(super) fn failed(&mut self, now: Mono, token: SaveToken, why: String) -> Option<InFlight> {
        let flight = self.in_flight.take_if(|flight| flight.token == token)?;
        self.trouble = Some(why);
        self.is_vital = true;
        self.due = Some(now.after(RETRY_AFTER));
        Some(flight)
    }

    /// Whether anything is not on disk yet.
    pub(super) fn is_behind(&self) -> bool {
        self.in_flight.is_some() || self.due.is_some()
    }
}

//! The standalone stream: the stream of a bare GET, on which a stateful server sends what belongs to no call.
//!
//! Its requests have a budget of their own, so that a server that ends it again and again takes nothing from the calls.
//!
//! Source: MCP 2025-11-25, basic/transports, listening for messages from the server.

use core::time::Duration;

use super::{
    reachability::Budget,
    recent_ids::RecentIds,
    stream_state::HALF_OPEN_AFTER,
    time::{doubled, jittered},
};
use crate::{domain::Mono, link::ExchangeId};

/// How long a call waits for the head of this stream: what a server asks before it is open is lost at some of them.
const COMES_FIRST: Duration = Duration::from_secs(1);
/// The first and the longest wait before a stream that delivered nothing is requested again.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// While a call is silent, this stream may be on a dead connection too; it is looked after at most this often.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// A stream that was opened from a cursor and was silent for this long has replayed. Then one without a cursor takes its
/// place: at several SDKs, the former brings nothing but the replay, although it stays open.
const REPLAYS_FOR: Duration = Duration::from_millis(500);
/// The wait after a stream that delivered something or stayed open for at least the longest wait.
const AT_ONCE: Duration = Duration::from_millis(50);

/// The standalone stream of one link.
#[derive(Debug, Default)]
pub(super) struct Standalone {
    /// Where it is requested or open.
    pub(super) on: Option<ExchangeId>,
    /// A connection that may be dead, until the stream is open on a new one.
    pub(super) kept: Option<ExchangeId>,
    checked_at: Option<Mono>,
    /// The session that it was opened in.
    session_number: u64,
    is_opened: bool,
    since: Mono,
    /// When it was opened from a cursor, until another one has been requested in its place.
    resumed_at: Option<Mono>,
    /// The next one is requested without a cursor.
    pub(super) is_bare_next: bool,
    /// When it may be requested again.
    pub(super) next: Mono,
    /// Times in a row that it ended or was refused without having brought anything.
    pub(super) failures: u32,
    last_byte: Mono,
    /// The widest gap between two signs of life, once there were two.
    longest_silence: Option<Duration>,
    pub(super) recent: RecentIds,
    pub(super) budget: Budget,
    /// The message that is being read came on it.
    pub(super) is_being_read: bool,
}

impl Standalone {
    pub(super) fn new(now: Mono) -> Self {
        Self {
            since: now,
            next: now,
            last_byte: now,
            budget: Budget::of_stream(now),
            ..Self::default()
        }
    }

    /// Whether it is requested or open.
    pub(super) fn is_on(&self) -> bool {
        self.on.is_some()
    }

    pub(super) fn is_in(&self, session_number: u64) -> bool {
        self.session_number == session_number
    }

    /// Starts from scratch in a new session. Only the budget stays.
    pub(super) fn enter_session(&mut self, session_number: u64, now: Mono) {
        let budget = self.budget.clone();
        *self = Self {
            session_number,
            budget,
            ..Self::new(now)
        };
    }

    /// Takes a request from the budget, if one may go out now.
    pub(super) fn spend(&mut self, now: Mono) -> bool {
        match self.budget.spend(now) {
            Ok(()) => true,
            Err(later) => {
                self.next = later;
                false
            }
        }
    }

    pub(super) fn hurry(&mut self, now: Mono) {
        self.next = self.next.min(now);
    }

    /// It was requested, from a cursor or without one.
    pub(super) fn requested(&mut self, exchange: ExchangeId, is_resumed: bool, now: Mono) {
        (self.on, self.is_opened, self.since) = (Some(exchange), false, now);
        self.resumed_at = is_resumed.then_some(now);
        (self.last_byte, self.longest_silence) = (now, None);
    }

    /// The response began. Returns a connection that is no longer needed.
    pub(super) fn opened(&mut self, is_stream: bool, now: Mono) -> Option<ExchangeId> {
        // Any other response ends at once, and the stream is requested again later.
        self.is_opened = is_stream;
        self.last_byte = now;
        self.resumed_at = self.resumed_at.map(|_| now);
        self.kept.take_if(|_| is_stream)
    }

    /// Makes the kept connection the current one again. Returns the connection that it replaces.
    pub(super) fn return_to_kept(&mut self) -> Option<ExchangeId> {
        let kept = self.kept.take()?;
        self.is_opened = true;
        self.on.replace(kept)
    }

    /// Frees its place for a new connection, and keeps an open one until that brings something. Returns the connection to
    /// close, if there is one.
    pub(super) fn set_aside(&mut self, now: Mono) -> Option<ExchangeId> {
        self.checked_at = Some(now);
        self.hurry(now);
        let on = self.on.take();
        let stays = self.is_opened && self.kept.is_none();
        self.is_opened = false;
        if stays {
            self.kept = on;
            return None;
        }
        on
    }

    /// When a stream without a cursor is to take its place.
    pub(super) fn replayed_at(&self) -> Option<Mono> {
        let at = self
            .resumed_at
            .filter(|_| self.is_on() && self.is_opened && self.kept.is_none())?;
        Some(at.max(self.last_byte).after(REPLAYS_FOR))
    }

    /// Ends the replay: the next request has no cursor.
    pub(super) fn replayed(&mut self) {
        (self.resumed_at, self.is_bare_next) = (None, true);
    }

    /// Whether its connection should be checked while a call is silent.
    pub(super) fn wants_check(&self, now: Mono) -> bool {
        let is_due = |at: Mono| now.since(at) >= CHECK_EVERY;
        self.is_on() && self.checked_at.is_none_or(is_due)
    }

    /// Gives up its connections, which are then to be closed.
    pub(super) fn take_connections(&mut self) -> impl Iterator<Item = ExchangeId> + use<> {
        [self.on.take(), self.kept.take()].into_iter().flatten()
    }

    /// Sets when it is requested again after it ended.
    pub(super) fn request_later(&mut self, now: Mono, at_least: Duration, rng: &mut fastrand::Rng) {
        let has_stood = now.since(self.since) >= LAST_WAIT;
        if self.is_opened && has_stood {
            self.failures = 0;
        }
        let is_fresh = |at: Mono| self.is_opened && now.since(at) < REPLAYS_FOR;
        if self.resumed_at.is_some_and(is_fresh) {
            // It ended right after the replay.
            self.replayed();
            self.failures = 0;
        }
        let wait = match self.failures {
            0 => AT_ONCE,
            failures => jittered(doubled(FIRST_WAIT, failures - 1, LAST_WAIT), rng),
        };
        self.failures = self.failures.saturating_add(1);
        self.next = now.after(wait.max(at_least));
    }

    /// A sign of life.
    pub(super) fn heard(&mut self, now: Mono) {
        let gap = now.since(self.last_byte);
        if gap > Duration::from_secs(1) {
            self.longest_silence = Some(self.longest_silence.unwrap_or_default().max(gap));
        }
        self.last_byte = now;
    }

    /// When its silence means that the connection is dead. A stream without keep-alive comments may stay silent forever.
    pub(super) fn silent_at(&self) -> Option<Mono> {
        let gap = self
            .longest_silence
            .filter(|_| self.on.is_some() && self.is_opened)?;
        Some(self.last_byte.after(HALF_OPEN_AFTER.max(gap * 3)))
    }

    /// Until when a call waits for its response head.
    pub(super) fn awaited_until(&self) -> Option<Mono> {
        (self.on.is_some() && self.kept.is_none() && !self.is_opened)
            .then(|| self.since.after(COMES_FIRST))
    }
}

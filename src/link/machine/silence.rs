//! Silent streams: an open connection proves nothing, so a stream without data is requested again on a new connection.
//!
//! A half-open connection (NAT, Wi-Fi roaming, a proxy that drops bytes) looks like a slow tool, and an answered ping
//! proves the server, never the stream. So the silent connection is kept while its stream is requested again from its
//! cursor. Data replayed on the new connection proves the old one dead; data on the old one, the new one needless. Until
//! then both are open, and a tool that is just slow loses nothing.

use core::time::Duration;

use crate::{
    domain::{Mono, Status, TaskId},
    link::{
        ActiveTask, ExchangeId, Link, ReplayGap, StreamState,
        recovery::{KeptConnection, ProbeResult, ReplayProbe},
        replay_gap::Held,
        steps::REPLAY_PAUSES,
        stream_state::DETACHED_FOR,
    },
    protocol::{self, ExchangeEvent, HttpError, Incoming},
};

/// A stream may be silent for this long, or for three times its longest step.
const SILENT_AT_LEAST: Duration = Duration::from_secs(20);
/// The longest silence that is taken for a slow tool without a look.
const SILENT_AT_MOST: Duration = Duration::from_secs(900);
/// A stream that stays silent is requested again after these, counted from the last request.
const REPEATS: [Duration; 5] = [
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(40),
    Duration::from_secs(60),
];
/// A probe that brought nothing known back for this long counts as silent.
const PROBE_WITHIN: Duration = Duration::from_secs(20);
/// The SDKs send keep-alive comments every 15 s. A connection with a byte younger than this carries what the server sends.
const ALIVE_WITHIN: Duration = Duration::from_secs(17);
/// What the row says where the server replays nothing and only the silent connection is left.
const NO_REPLAY: &str =
    "the stream is silent and the server no longer replays it; still listening on its connection";

impl Link {
    /// When the silence of a task's stream has to be acted on.
    pub(super) fn silence_ends(active: &ActiveTask) -> Option<Mono> {
        if let (Some(detached), StreamState::Open { .. }) = (&active.detached, &active.stream) {
            let after_news = active.activity.last_news.after(DETACHED_FOR);
            return Some(detached.until.max(after_news));
        }
        if matches!(active.replay_gap, ReplayGap::Reread(_)) {
            // The second reading has a limit of its own.
            return None;
        }
        let StreamState::Open {
            is_resumed, since, ..
        } = active.stream
        else {
            return None;
        };
        if !active.has_cursor() {
            return None;
        }
        if active.recovery.probe.is_unanswered() {
            return Some(since.after(PROBE_WITHIN));
        }
        let silent_since = since.max(active.activity.last_news);
        let not_before = active.recovery.not_before.unwrap_or(silent_since);
        let is_unproven = is_resumed && active.activity.live_gap.is_none();
        let repeats_from = match active.recovery.rechecked_at {
            Some(at) => Some(silent_since.max(at)),
            None => is_unproven.then_some(silent_since),
        };
        let ends = if let Some(from) = repeats_from {
            repeat_at(from, active.recovery.silences)
        } else {
            let live_gap = active.activity.live_gap.unwrap_or_default();
            let longest = active.activity.longest_step.max(live_gap);
            silent_since.after((longest * 3).clamp(SILENT_AT_LEAST, SILENT_AT_MOST))
        };
        Some(ends.max(not_before))
    }

    /// Acts on the silence of an open stream.
    pub(super) fn check_silence(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let StreamState::Open {
            on,
            is_resumed,
            since,
        } = active.stream
        else {
            return;
        };
        if Self::silence_ends(active).is_none_or(|at| self.now.mono < at) {
            return;
        }
        if let Some(detached) = active.detached.take() {
            return self.out_of_stream(id, Status::Lost(detached.reason));
        }
        if active.recovery.probe.is_unanswered() {
            if active.recovery.note_silent_probe() {
                active.recovery.probe = ReplayProbe::Off;
                active.stream = StreamState::Waiting(self.now.mono);
                return self.close(on);
            }
            active.stream = StreamState::None;
            self.close(on);
            return self.probe_ended(id);
        }
        if active.recovery.rechecked_at.is_some()
            || is_resumed && active.activity.live_gap.is_none()
        {
            active.recovery.silences = active.recovery.silences.saturating_add(1);
        }
        if is_resumed && !active.activity.has_news {
            // A connection from before the probe, to which the stream returned, shows nothing of the newest event.
            let rechecked_at = active.recovery.rechecked_at;
            let is_after_probe = rechecked_at.is_none_or(|at| since >= at);
            if active.recovery.has_failed_probe() && is_after_probe {
                self.close(on);
                return self.replay_gone(id);
            }
            // A connection that was returned to has been counted before.
            if active.recovery.kept.is_some() || active.recovery.rechecked_at.is_none() {
                active.recovery.empty_resumes += 1;
            }
        }
        self.recheck(id);
    }

    /// Requests an open stream again on a new connection; the old one is kept.
    fn recheck(&mut self, id: &TaskId) {
        let now = self.now.mono;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if !active.has_cursor() {
            return;
        }
        active.saving.is_shown_stale = true;
        self.schedule.needs_advance = true;
        self.recheck_standalone_at_times();
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        // What waits behind a replay gap comes again with the stream, and could not be given to an old connection.
        let needless = if let (ReplayGap::Reread(_), StreamState::Open { on, .. }) =
            (&active.replay_gap, &active.stream)
        {
            let on = *on;
            active.stream = StreamState::Waiting(now);
            Some(on)
        } else {
            active.set_aside(now)
        };
        if let Some(needless) = needless {
            self.close(needless);
        }
    }

    /// Requests every open stream again that can be, because its connection may be dead.
    pub(super) fn recheck_all(&mut self) {
        let is_open = |active: &ActiveTask| matches!(active.stream, StreamState::Open { .. });
        for id in self.tasks_where(is_open) {
            self.recheck(&id);
        }
    }

    /// Something came on the connection that was kept. Returns whether it is news, and the stream is back on it.
    pub(super) fn came_on_kept(&mut self, id: &TaskId, arrival: &ExchangeEvent) -> bool {
        let Some(active) = self.tasks.get_mut(id) else {
            return false;
        };
        let Some(kept) = &mut active.recovery.kept else {
            return false;
        };
        kept.last_byte = self.now;
        if !matches!(arrival, ExchangeEvent::Event { data, .. } if !data.is_empty()) {
            active.heard(self.now);
            return false;
        }
        self.return_to_kept(id);
        true
    }

    /// Makes the connection that was kept the one of the stream again.
    pub(super) fn return_to_kept(&mut self, id: &TaskId) {
        if let Some(active) = self.tasks.get_mut(id)
            && let Some(needless) = active.return_to_kept(self.now)
        {
            self.close(needless);
        }
        self.schedule.needs_advance = true;
    }

    /// Whether an exchange is the connection that was kept of a stream.
    pub(super) fn is_kept(&self, id: &TaskId, exchange: ExchangeId) -> bool {
        let kept = self.tasks.get(id).and_then(|it| it.recovery.kept.as_ref());
        kept.is_some_and(|kept| kept.on == exchange)
    }

    /// The connection that was kept ended: what the stream still brings comes on the new one.
    pub(super) fn kept_ended(&mut self, id: &TaskId, arrival: &ExchangeEvent) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.recovery.kept = None;
        active.saving.is_shown_stale = true;
        // A clean end only says that the server serves the new connection in its place.
        if let (
            ExchangeEvent::Broken { why },
            StreamState::Waiting(_) | StreamState::Asking { .. },
        ) = (arrival, &active.stream)
        {
            active.note_disconnection(self.now, why);
        }
        self.schedule.needs_advance = true;
    }

    /// Closes the kept connection once the new one delivers what the old one should have delivered.
    pub(super) fn leave_kept(&mut self, id: &TaskId, event: &Held) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if !is_of_this_call(active, &event.data) {
            return;
        }
        let Some(kept) = active.recovery.kept.take() else {
            return;
        };
        // Many servers send on the newest connection only, although the old one carries their keep-alive comments.
        let was_alive = self.now.mono.since(kept.last_byte.mono) < ALIVE_WITHIN;
        // Nothing shows that the old one was dead if this was not sent before the new one was there.
        let is_replayed = matches!(active.stream, StreamState::Open { since, .. }
            if self.now.mono.since(since) <= REPLAY_PAUSES);
        if active.recovery.disconnection.is_none() && !was_alive && is_replayed {
            active.note_silence(self.now);
            active.note_back(self.now);
        }
        self.close(kept.on);
    }

    /// The request for a silent stream ended without bringing anything new. Returns whether that was all, because the old
    /// connection is still there.
    pub(super) fn recheck_ended(&mut self, id: &TaskId, is_broken: bool) -> bool {
        let Some(active) = self.tasks.get_mut(id) else {
            return false;
        };
        if active.recovery.kept.is_none() {
            return false;
        }
        if is_broken {
            active.recovery.tries += 1;
            self.ask_later(id);
            return true;
        }
        if active.recovery.probe != ReplayProbe::Off {
            active.recovery.probe_result = if active.recovery.probe.has_matched() {
                ProbeResult::None
            } else {
                ProbeResult::Failed
            };
        } else if active.recovery.has_failed_probe() && !active.activity.has_news {
            self.replay_gone(id);
            return true;
        }
        active.recovery.empty_resumes += 1;
        self.return_to_kept(id);
        true
    }

    /// The request for a silent stream was refused. Returns whether the old connection stays.
    pub(super) fn recheck_refused(&mut self, id: &TaskId, refusal: &HttpError) -> bool {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return false;
        };
        active.saving.is_shown_stale = true;
        let Some(kept) = &active.recovery.kept else {
            return false;
        };
        active.recovery.not_before = refusal.retry_after.map(|wait| now.mono.after(wait));
        let is_probe = matches!(active.stream, StreamState::Asking { is_probe: true, .. });
        let is_replay_refused = matches!(refusal.status, 400 | 404..=407 | 410..=424);
        // It took the newest cursor and refuses an older one: so it knows the newest.
        active.recovery.refuses_older_cursors |= is_probe && is_replay_refused;
        active.recovery.is_replay_failing |= is_replay_refused && !is_probe;
        let is_needless = match refusal.status {
            // The server considers the old connection alive, and serves no other one.
            409 => kept.is_resumed || now.mono.since(kept.last_byte.mono) >= ALIVE_WITHIN,
            _ => is_replay_refused && !is_probe && !kept.was_live(),
        };
        let (on, is_resumed) = (kept.on, kept.is_resumed);
        if is_needless {
            active.recovery.kept = None;
            active.note_silence(now);
            self.close(on);
            return false;
        }
        self.return_to_kept(id);
        if is_replay_refused && is_resumed && !is_probe && self.is_stream_refused_for_long(id) {
            self.refused_for_long(id, refusal.server_text.clone());
            return true;
        }
        match refusal.status {
            401 | 403 if !refusal.is_denial() => {
                self.auth_refused(refusal);
            }
            400 | 404 | 410 if self.record.session.is_some() => {
                self.doubt_session(refusal);
            }
            _ => {}
        }
        true
    }

    /// Where the server replays nothing any more, the silent connection is the last hope. Returns whether there is one.
    pub(super) fn hopes_for_kept(&mut self, id: &TaskId) -> bool {
        let Some(active) = self.tasks.get_mut(id) else {
            return false;
        };
        let kept = active.recovery.kept.as_ref();
        if !kept.is_some_and(KeptConnection::was_live) {
            return false;
        }
        active.notice(self.now, NO_REPLAY.to_owned());
        active.recovery.is_replay_failing = true;
        self.saver.touch(self.now.mono);
        self.return_to_kept(id);
        true
    }

    /// A ping was not answered: every socket may be dead.
    pub(super) fn suspect_connections(&mut self, why: String) {
        self.recheck_all();
        self.recheck_standalone();
        if self.reachability.down.is_none() {
            self.mark_unreachable(why, false, None);
        }
    }
}

/// When a stream that has been silent since `from` is requested again. The last repetitions fall together for all streams,
/// so that many silent streams wake an idle machine only once a minute.
fn repeat_at(from: Mono, round: u32) -> Mono {
    let index = usize::try_from(round).unwrap_or(usize::MAX);
    let [early @ .., last] = REPEATS;
    match early.get(index) {
        Some(after) => from.after(*after),
        None => from.after(last + last / 2).at_last_multiple_of(last),
    }
}

/// Whether an event belongs to the present attempt, as far as it says: some stores replay the messages of other streams.
fn is_of_this_call(active: &ActiveTask, data: &str) -> bool {
    let own = active.request_id();
    let messages = protocol::decode(data);
    let mut named = messages.iter().filter_map(Incoming::names_request);
    named.all(|name| own == Some(name))
}

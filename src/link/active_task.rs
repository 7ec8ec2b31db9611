//! One unfinished task inside the machine: its record, where its stream is, and what is not on disk yet.

use core::time::Duration;

use super::{
    checkpoint::Follow,
    io::{ExchangeId, SaveToken},
    pending::Unsaved,
    reachability::Budget,
    recent_ids::RecentIds,
    recovery::{Disconnection, KeptConnection, Recovery, ReplayProbe},
    replay_gap::{ReplayGap, StepInterval},
    replies::AnswersDue,
    save_state::SaveState,
    server_task_poll::{ASKED_AGAIN_WITHIN, ServerTaskPoll},
    stream_state::{ASK_AGAIN, HALF_OPEN_AFTER, HEAD_BEFORE_ANSWER, StreamState},
};
use crate::domain::{
    Attempt, ControlKind, ControlRequest, Era, EventId, HistoryEntry, HistoryEvent, LostReason,
    Mono, Phase, ProtocolVersion, Question, QuestionSource, SessionRequestId, Stamp, Status, Task,
    TaskError, TaskErrorKind, TaskId, TaskKind, Wall, text,
};
use crate::protocol::HttpError;

/// Silence after which the checkpoint behind a stream without heartbeats is read.
const DOUBT_AFTER: Duration = Duration::from_secs(60);

/// What the user wants from the server beside the call itself.
#[derive(Clone, Debug)]
pub(super) struct PendingControl {
    pub(super) what: ControlKind,
    /// When the request counts as "the server did not respond".
    pub(super) until: Mono,
    /// Whether the server took the request (2xx).
    pub(super) is_taken: bool,
    /// Whether the request has been sent; the server's id of the work may have to be found first.
    pub(super) is_sent: bool,
    /// How many requests in a row did not get through.
    pub(super) unheard: u32,
    /// When a failed request is sent again.
    pub(super) retry_at: Option<Mono>,
}

/// The save that holds the intent of a call, and who waits for it.
#[derive(Clone, Debug)]
pub(super) struct Intent {
    pub(super) save: SaveToken,
    pub(super) asks: Vec<SessionRequestId>,
}

/// The server no longer knows the session of an open stream; data on it is awaited a little longer.
#[derive(Clone, Debug)]
pub(super) struct DetachedStream {
    pub(super) until: Mono,
    pub(super) reason: LostReason,
}

/// An unfinished task.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "marks that come and go each by itself"
)]
pub(super) struct ActiveTask {
    pub(super) task: Task,
    pub(super) stream: StreamState,
    pub(super) recovery: Recovery,
    pub(super) ids: RecentIds,
    /// Where replayed and live events meet.
    pub(super) replay_gap: ReplayGap,
    pub(super) step_interval: StepInterval,
    pub(super) follow: Option<Follow>,
    /// How its server task is polled, while it has one.
    pub(super) served: Option<ServerTaskPoll>,
    /// When the user's answers are sent.
    pub(super) answers: AnswersDue,
    /// The server refused the way the call was made (task or plain); the other is tried, once.
    pub(super) is_flipped: bool,
    pub(super) control: Option<PendingControl>,
    /// The save that the call waits for before it goes out.
    pub(super) sending: Option<SaveToken>,
    /// The save that holds the intent, until it is on disk.
    pub(super) intent: Option<Intent>,
    /// A call that came back unsent goes out again only within the budget.
    pub(super) was_unsent: bool,
    /// Why the server did not let it run with these credentials. It waits for the user to try again.
    pub(super) denied: Option<String>,
    /// The history entry that says that the current attempt was sent, until that is known.
    pub(super) start: Option<HistoryEvent>,
    pub(super) detached: Option<DetachedStream>,
    /// The limits begin to count then: after a restart the server is heard first.
    pub(super) limits_from: Mono,
    /// When the server took the cancel of the current attempt, or was back in contact after that.
    pub(super) cancel_taken_at: Option<Mono>,
    /// `--detach`: refuse if a cut is known to lose it.
    pub(super) must_survive: bool,
    /// Its arguments are sent even if the tool's schema rejects them.
    pub(super) is_unchecked: bool,
    pub(super) activity: StreamActivity,
    pub(super) saving: SaveState,
}

/// When the stream last showed signs of life.
#[derive(Debug, Default)]
pub(super) struct StreamActivity {
    /// Whether the present exchange brought something new.
    pub(super) has_news: bool,
    /// The last event that named a call named another one: the server replays other streams too.
    pub(super) is_of_another: bool,
    /// Whether progress of the call has arrived on its own stream.
    pub(super) has_own_steps: bool,
    pub(super) last_byte: Stamp,
    /// The widest gap between two signs of life on this stream, once there were two.
    pub(super) longest_silence: Option<Duration>,
    pub(super) last_news: Mono,
    /// The longest time between two events once one came too late to be of a replay: the resumed stream is alive.
    pub(super) live_gap: Option<Duration>,
    pub(super) last_step: Option<Mono>,
    pub(super) longest_step: Duration,
    /// Since when we are in contact; the idle limit does not count our own outages.
    pub(super) contact_since: Mono,
}

impl ActiveTask {
    pub(super) fn new(now: Stamp, task: Task, ids: Vec<EventId>, unsaved: &Unsaved) -> Self {
        let saved_seq = task.seq;
        Self {
            task,
            recovery: Recovery {
                budget: Budget::of_stream(now.mono),
                ..Recovery::default()
            },
            ids: RecentIds::restored(ids),
            activity: StreamActivity {
                last_byte: now,
                last_news: now.mono,
                contact_since: now.mono,
                ..StreamActivity::default()
            },
            saving: SaveState::new(unsaved, saved_seq),
            ..Self::default()
        }
    }

    pub(super) fn attempt(&self) -> Option<&Attempt> {
        self.task.attempts.last()
    }

    /// Whether the user wanted it stopped, in this process or an earlier one; work that has stopped since is not
    /// started again.
    pub(super) fn was_cancelled(&self) -> bool {
        self.attempt().is_some_and(|attempt| attempt.was_cancelled)
    }

    /// Whether the user wants a call that has not run to end as cancelled; one to be paused stays queued.
    pub(super) fn is_to_be_cancelled(&self) -> bool {
        (self.was_cancelled() || self.is_asked(ControlKind::Cancelling))
            && !self.is_asked(ControlKind::Pausing)
    }

    /// Whether this control waits for the server.
    pub(super) fn is_asked(&self, what: ControlKind) -> bool {
        let control = self.control.as_ref();
        control.is_some_and(|control| control.what == what)
    }

    pub(super) fn attempt_mut(&mut self) -> Option<&mut Attempt> {
        self.task.attempts.last_mut()
    }

    /// The id of the server task that is polled for it.
    pub(super) fn polled_task(&self) -> Option<String> {
        self.served.as_ref()?;
        self.task.server_task_id.clone()
    }

    /// How far the present attempt got.
    pub(super) fn phase(&self) -> Phase {
        self.attempt().map_or(Phase::Ended, |attempt| attempt.phase)
    }

    /// Whether a call that ends like this never ran.
    pub(super) fn never_ran(&self, status: &Status, error: Option<&TaskError>) -> bool {
        let is_first = self.task.attempts_made() <= 1 && self.task.questions.is_empty();
        let kind = error.map(|error| error.kind);
        let was_refused =
            kind == Some(TaskErrorKind::Refused) || kind == Some(TaskErrorKind::Unreachable);
        let is_given_up = *status == Status::Cancelled || kind == Some(TaskErrorKind::TimedOut);
        is_first && (was_refused || is_given_up && self.phase() == Phase::Queued)
    }

    /// Whether its call goes out as soon as it can.
    pub(super) fn waits_to_be_sent(&self) -> bool {
        self.phase() == Phase::Queued && self.is_active() && self.denied.is_none()
    }

    /// Whether it has not run: it was never sent, or each request was refused.
    pub(super) fn has_not_run(&self) -> bool {
        self.phase() == Phase::Queued && self.task.attempts.len() == 1
    }

    /// Marks all attempts as ended.
    pub(super) fn end_attempts(&mut self, now: Stamp) {
        for attempt in &mut self.task.attempts {
            attempt.phase = Phase::Ended;
            attempt.ended_at.get_or_insert(now.wall);
        }
    }

    /// The request id of the present attempt while its answer is awaited.
    pub(super) fn request_id(&self) -> Option<&str> {
        self.attempt()
            .filter(|attempt| matches!(attempt.phase, Phase::Sent | Phase::Open))
            .map(|attempt| attempt.request_id.as_str())
    }

    /// Sets the open connection aside, so that its stream can be requested on a new one. Returns a connection that is not
    /// needed any more: the open one, where an older one is kept already.
    pub(super) fn set_aside(&mut self, now: Mono) -> Option<ExchangeId> {
        let StreamState::Open {
            on,
            is_resumed,
            since,
        } = self.stream
        else {
            return None;
        };
        self.stream = StreamState::Waiting(now);
        self.recovery.rechecked_at = Some(now);
        self.recovery.probe.stop_dropping();
        if self.recovery.kept.is_some() {
            return Some(on);
        }
        self.recovery.kept = Some(KeptConnection {
            on,
            last_byte: self.activity.last_byte,
            is_resumed,
            since,
            has_news: self.activity.has_news,
            replay_gap: std::mem::take(&mut self.replay_gap),
            live_gap: self.activity.live_gap,
            last_step: self.activity.last_step,
        });
        None
    }

    /// Makes the kept connection the one of the stream again. Returns the connection that took its place.
    pub(super) fn return_to_kept(&mut self, now: Stamp) -> Option<ExchangeId> {
        let kept = self.recovery.kept.take()?;
        let replaced = self.stream.exchange();
        self.stream = StreamState::open(kept.on, kept.is_resumed, kept.since);
        (self.activity.has_news, self.replay_gap) = (kept.has_news, kept.replay_gap);
        (self.activity.live_gap, self.activity.last_step) = (kept.live_gap, kept.last_step);
        self.recovery.probe = ReplayProbe::Off;
        // What the other connection brought says nothing of this one.
        self.activity.last_byte = kept.last_byte;
        self.note_back(now);
        self.saving.is_shown_stale = true;
        replaced
    }

    /// Drops the stream and returns the connections to close.
    pub(super) fn take_connections(&mut self) -> Vec<ExchangeId> {
        let line = std::mem::replace(&mut self.stream, StreamState::None);
        let kept = self.recovery.kept.take().map(|kept| kept.on);
        line.exchange().into_iter().chain(kept).collect()
    }

    /// As [`Self::take_connections`], and follows it in no other way either.
    pub(super) fn let_go(&mut self) -> Vec<ExchangeId> {
        let mut connections = self.take_connections();
        self.follow = None;
        connections.extend(self.served.take().and_then(|served| served.fetching));
        if let ReplayGap::Reread(reread) = std::mem::take(&mut self.replay_gap) {
            connections.push(reread.on);
        }
        connections
    }

    /// The current attempt is known to have been sent. The history says so once.
    pub(super) fn went_out(&mut self, now: Stamp) {
        if let Some(start) = self.start.take() {
            if let Some(attempt) = self.attempt_mut() {
                attempt.sent_at = Some(now.wall);
            }
            self.note(now, None, start);
        }
    }

    /// Adds a change of the status to the history.
    pub(super) fn note_status(&mut self, now: Stamp, status: &str, reason: Option<String>) {
        let status = status.to_owned();
        self.note(now, None, HistoryEvent::Status { status, reason });
    }

    /// Adds to the history; the sequence number is final once saved.
    pub(super) fn note(&mut self, now: Stamp, event_id: Option<&str>, what: HistoryEvent) {
        let is_bulk = matches!(what, HistoryEvent::Progress(_) | HistoryEvent::Log { .. });
        let entry = HistoryEntry {
            seq: self.task.seq + 1,
            at: now.wall,
            attempt: self.attempt().map_or(1, |attempt| attempt.number),
            event_id: event_id.map(EventId::new),
            what,
        };
        if is_bulk && self.saving.pending.is_full(&entry) {
            return self.left_out(now);
        }
        self.task.seq = entry.seq;
        self.saving.pending.push(entry);
        self.touch(now);
    }

    /// Counts something that the history leaves out: it could not be read, came faster than it could be saved, or was one
    /// question too many. The task's row shows the count, and the log whenever it has doubled, so that a flood does not
    /// become a flood of lines.
    pub(super) fn left_out(&mut self, now: Stamp) {
        self.saving.left_out += 1;
        let count = self.saving.left_out;
        let messages = text::plural(count, "message");
        let words = format!("not recorded: {messages} (unreadable, too fast or too many)");
        if count.is_power_of_two() {
            self.task.gap_at = Some(now.wall);
            self.notice(now, words);
            return;
        }
        self.task.notice = Some(words);
        self.touch(now);
    }

    /// One line of the log for one outage, however many tries it takes; the state shows why the last one failed.
    pub(super) fn note_disconnection(&mut self, now: Stamp, why: &str) {
        if let Some(disconnection) = &mut self.recovery.disconnection {
            why.clone_into(&mut disconnection.why);
        } else {
            self.recovery.disconnection = Some(Disconnection {
                at: now.mono,
                before: Duration::ZERO,
                why: why.to_owned(),
            });
            let state = "reconnecting".to_owned();
            let why = text::clean_line(why).into_owned();
            self.note(now, None, HistoryEvent::Contact { state, why });
        }
    }

    /// The log shows a silence that was a dead connection as a disconnection since its last data.
    pub(super) fn note_silence(&mut self, now: Stamp) {
        let silent_for = now.mono.since(self.activity.last_news);
        self.note_disconnection(now, &format!("no data for {}", text::span(silent_for)));
        if let Some(disconnection) = &mut self.recovery.disconnection {
            disconnection.at = self.activity.last_news;
        }
    }

    /// The line that ends the one of [`Self::note_disconnection`]; returns whether there was one.
    pub(super) fn note_back(&mut self, now: Stamp) -> bool {
        let Some(disconnection) = self.recovery.disconnection.take() else {
            return false;
        };
        let since = now.mono.since(disconnection.at);
        let lasted = disconnection.before.saturating_add(since);
        let state = "live".to_owned();
        let why = if lasted < Duration::from_secs(60) {
            format!("reconnected after {:.1} s", lasted.as_secs_f64())
        } else {
            format!("reconnected after {}", text::span(lasted))
        };
        self.note(now, None, HistoryEvent::Contact { state, why });
        true
    }

    /// A line of the log where steps are missing at the replay gap of a resumed stream, as far as their distance tells.
    pub(super) fn note_gap(&mut self, now: Stamp, value: f64) {
        if !matches!(self.replay_gap, ReplayGap::Passing) {
            return;
        }
        if let Some(last) = self.step_interval.missing_since(value) {
            let (last, value) = (text::exact(last), text::exact(value));
            let state = "live".to_owned();
            let why = format!("gap: the steps between {last} and {value} were not replayed");
            self.task.gap_at = Some(now.wall);
            self.note(now, None, HistoryEvent::Contact { state, why });
        }
    }

    /// Adds a notice of longhaul's to the history and the row; returns whether it is new.
    pub(super) fn notice(&mut self, now: Stamp, words: String) -> bool {
        // Each process that continues a task would otherwise repeat it.
        if self.task.notice.as_ref() == Some(&words) {
            return false;
        }
        self.note_status(now, self.task.status.label(), Some(words.clone()));
        self.task.notice = Some(words);
        true
    }

    /// Notes what the server wrote when it refused a call that may still be running.
    pub(super) fn notice_refusal(&mut self, now: Stamp, refusal: &HttpError) {
        if let Some(said) = refusal.server_text.as_deref().map(text::clean_line) {
            self.notice(now, format!("HTTP {}: {said}", refusal.status));
        }
    }

    pub(super) fn touch(&mut self, now: Stamp) {
        self.task.updated_at = now.wall;
        (self.saving.is_dirty, self.saving.is_shown_stale) = (true, true);
    }

    /// Sets the status by whether a question waits for a person.
    pub(super) fn refresh_status(&mut self) {
        if matches!(self.task.status, Status::Running | Status::InputRequired) {
            self.task.status = if self.task.open_question().is_some() {
                Status::InputRequired
            } else {
                Status::Running
            };
        }
        self.saving.is_shown_stale = true;
        self.saving.is_dirty = true;
    }

    /// Sets or clears the pending control.
    pub(super) fn set_control(&mut self, now: Stamp, control: Option<PendingControl>) {
        self.task.control = control.as_ref().map(|control| match self.task.control {
            Some(asked) if asked.what == control.what => asked,
            _ => ControlRequest {
                what: control.what,
                at: now.wall,
            },
        });
        self.control = control;
        self.touch(now);
    }

    /// A sign of life on its stream.
    pub(super) fn heard(&mut self, now: Stamp) {
        let gap = now.mono.since(self.activity.last_byte.mono);
        if gap > Duration::from_secs(1) {
            self.activity.longest_silence =
                Some(self.activity.longest_silence.unwrap_or_default().max(gap));
        }
        // The age of the last byte is shown in seconds.
        if now.wall.0 / 1000 != self.activity.last_byte.wall.0 / 1000 {
            self.saving.is_shown_stale = true;
        }
        self.activity.last_byte = now;
    }

    /// When a stream that brings nothing makes its checkpoint worth a look: it was resumed several times without news, or
    /// it is silent and can't be asked for again. The stream stays: it may be a long step as well as a dead connection.
    pub(super) fn doubted_at(&self) -> Option<Mono> {
        let attempt = self
            .attempt()
            .filter(|_| self.task.resumability.checkpoint)?;
        if self.recovery.is_empty_for_long() {
            return Some(Mono(0));
        }
        // Not before its head: some servers send none before the result, and the call may be on its way still.
        if !matches!(self.stream, StreamState::Open { .. }) {
            return None;
        }
        let longest = self.activity.longest_silence;
        let patience = longest.map_or(DOUBT_AFTER, |gap| HALF_OPEN_AFTER.max(gap * 3));
        let can_replay = attempt.cursors.newest.is_some() && !self.recovery.is_replay_failing;
        let has_way_back = can_replay || self.is_modern();
        (!has_way_back).then(|| self.activity.last_byte.mono.after(patience))
    }

    /// Answers must be sent or checked again.
    pub(super) fn answers_wait(&mut self) {
        self.answers = AnswersDue::At(Mono(0));
    }

    /// Whether the result is not being waited for yet, on whose stream the server is likely to ask again.
    pub(super) fn task_asks_later(&self, answers: &[Question]) -> bool {
        let served = self.served.as_ref();
        served.is_some_and(|served| served.fetching.is_none() && served.asks_again(answers))
    }

    /// Until when answers wait for a stream, if the stream was requested again or soon will be. Some servers drop a
    /// result that no stream takes, and the answer may bring one at once.
    pub(super) fn stream_for_answers(&self, now: Mono, answers: &[Question]) -> Option<Mono> {
        let served = self.served.as_ref();
        if served.is_some_and(|served| served.asks_again(answers)) {
            return Some(now.after(ASKED_AGAIN_WITHIN));
        }
        let is_of_stream =
            |question: &Question| matches!(question.source, QuestionSource::Request { .. });
        if self.recovery.kept.is_some() || !answers.iter().any(is_of_stream) {
            return None;
        }
        match self.stream {
            StreamState::Asking { .. } => Some(now.after(HEAD_BEFORE_ANSWER)),
            StreamState::Waiting(until) if until <= now.after(ASK_AGAIN) => {
                Some(until.max(now).after(HEAD_BEFORE_ANSWER))
            }
            _ => None,
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.task.status.is_settled()
    }

    /// Whether its call is in flight.
    pub(super) fn is_out(&self) -> bool {
        matches!(
            self.stream,
            StreamState::Calling(_) | StreamState::Open { .. }
        )
    }

    /// Whether it needs a connection.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.task.status, Status::Running | Status::InputRequired)
            || self.control.is_some()
            || self.follow.is_some()
    }

    /// Whether nothing is due for it but the next poll of its server task, which the poller of the link sees to.
    pub(super) fn is_parked(&self) -> bool {
        self.served.is_some()
            && self.stream == StreamState::None
            && self.control.is_none()
            && self.follow.is_none()
            && self.answers == AnswersDue::Never
            && self.task.options.limits == crate::domain::Limits::default()
    }

    /// Whether its core task was made in another session of the server, and may have ended with it.
    pub(super) fn is_bound_to_another(&self, session_number: u64) -> bool {
        let task = self.task.server_task.as_ref();
        let is_open = task.is_some_and(|it| it.kind == TaskKind::Core && it.is_bound.is_none());
        let made_in = self.attempt().map(|attempt| attempt.session_number);
        is_open && made_in != Some(session_number)
    }

    /// What was seen of its core task and the server session.
    pub(super) fn set_bound(&mut self, is_bound: bool) {
        if let Some(task) = &mut self.task.server_task {
            task.is_bound = Some(is_bound);
        }
        (self.saving.is_dirty, self.saving.is_shown_stale) = (true, true);
    }

    /// The era of its current attempt.
    pub(super) fn era(&self) -> Era {
        let version = self.attempt().and_then(|attempt| attempt.version);
        version.map_or(Era::Stateful, ProtocolVersion::era)
    }

    pub(super) fn is_modern(&self) -> bool {
        self.era() == Era::Modern
    }
}

/// An attempt that has not been sent.
pub(super) fn new_attempt(
    now: Wall,
    number: u32,
    request_id: String,
    session_number: u64,
) -> Attempt {
    Attempt {
        number,
        token: request_id.clone(),
        request_id,
        session_number,
        started_at: now,
        ..Attempt::default()
    }
}

/// The task with an id in a map that may no longer have it.
pub(super) type Tasks = std::collections::BTreeMap<TaskId, ActiveTask>;

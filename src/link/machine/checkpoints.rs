//! Follows a checkpoint by its server's list and applies the checkpoint rule.

use core::time::Duration;

use serde_json::{Value, json};

use crate::{
    domain::{ControlKind, Progress, Status, TaskId, UnknownReason},
    link::{
        ConnectionState, Follow, Link, RequestKind, StreamState,
        checkpoint::{self, BY_CHECKPOINT, Listed, Verdict},
    },
    protocol::{self, encode},
};

/// The wait between two readings of the list behind a silent stream, at least and at most: a quarter of the silence.
const DOUBTS_APART: Duration = Duration::from_secs(10);
const DOUBTS_APART_AT_MOST: Duration = Duration::from_secs(60);
/// A step may be this long where a stream brings nothing new and nothing else shows that the server was restarted.
const SLOW_STEP: Duration = Duration::from_secs(300);
/// The same after a refused connection, which may also have been that of a proxy.
const SLOW_STEP_AFTER_RESTART: Duration = Duration::from_secs(20);
/// The wait after a failed reading of the list.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

impl Link {
    /// A stream that brings nothing is doubted: the list tells whether it lives. A step may be as long as the silence,
    /// which keeps the tool from being called a second time too early.
    fn step_doubt(&mut self, id: &TaskId) {
        let now = self.now.mono;
        if let Some(active) = self.tasks.get_mut(id)
            && active.follow.is_none()
            && active.doubted_at().is_some_and(|at| now >= at)
        {
            let silence = now.since(active.activity.last_byte.mono);
            // A replay shows that the stream is known, so a slow step gets more time to end.
            let slow = match (
                active.recovery.is_empty_for_long(),
                active.recovery.was_refused,
            ) {
                (true, true) => SLOW_STEP_AFTER_RESTART,
                (true, false) => SLOW_STEP,
                (false, _) => Duration::ZERO,
            };
            let longest_step = active.activity.longest_step.max(silence).max(slow);
            active.follow = Some(Follow::new(now, longest_step));
        }
    }

    /// The stream is dead; its checkpoint is followed on the list, which was read already.
    fn follow_instead(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let connections = active.take_connections();
        active.activity.last_byte = self.now;
        active.notice(
            self.now,
            format!("its stream brings nothing new; {BY_CHECKPOINT}"),
        );
        self.save_vital();
        self.close_all(connections);
    }

    /// Reads the server's list when it is time.
    pub(super) fn step_follow(&mut self, id: &TaskId) {
        self.step_doubt(id);
        let now = self.now.mono;
        let next = self.follow_mut(id).and_then(|follow| follow.next);
        if next.is_none_or(|next| now < next) || self.connection != ConnectionState::Ready {
            return;
        }
        let next = match self.may_ask() {
            Ok(()) => None,
            Err(None) => return,
            Err(Some(later)) => Some(later.max(now)),
        };
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let client_id = active.task.client_id.clone().unwrap_or_default();
        if let Some(follow) = active.follow.as_mut() {
            follow.next = next;
        }
        if next.is_none() {
            self.call_list(RequestKind::Look(id.clone()), &client_id);
        }
    }

    fn follow_mut(&mut self, id: &TaskId) -> Option<&mut Follow> {
        self.tasks.get_mut(id)?.follow.as_mut()
    }

    /// Asks the companion that lists a client's checkpoints.
    pub(super) fn call_list(&mut self, kind: RequestKind, client_id: &str) {
        let convention = self.record.convention.clone();
        let arguments = json!({convention.client_id: client_id});
        self.call_companion(kind, &convention.list, &arguments);
    }

    fn call_companion(&mut self, kind: RequestKind, tool: &str, arguments: &Value) {
        let request_id = self.in_flight.new_request_id();
        let call = encode::CallParams {
            id: &request_id,
            token: &request_id,
            tool,
            arguments: &arguments.to_string(),
            ..encode::CallParams::default()
        };
        let method = encode::call_tool(self.session_version(), &call);
        self.send_request(kind, method, request_id);
    }

    /// The list could not be read; that says nothing about the task.
    pub(super) fn look_failed(&mut self, id: &TaskId, at_least: Option<Duration>) {
        let wait = LOOK_AGAIN.max(at_least.unwrap_or_default());
        let next = self.now.mono.after(wait);
        if let Some(follow) = self.follow_mut(id) {
            follow.next = Some(next);
        }
    }

    /// The list was read: the checkpoint rule decides.
    pub(super) fn on_checkpoint_list(&mut self, id: &TaskId, result: &str) {
        let now = self.now;
        let answer = protocol::parse_call_result(result);
        if answer.is_error {
            return self.look_failed(id, None);
        }
        let list = checkpoint::read_list(answer.text.as_deref().unwrap_or_default());
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let task = &active.task;
        let entry = checkpoint::find(&list, task.server_task_id.as_deref(), &task.tool).cloned();
        let mut is_live = active.stream != StreamState::None;
        let is_doubted =
            active.control.is_none() && active.doubted_at().is_some_and(|at| now.mono >= at);
        if is_live && active.control.is_none() && !is_doubted {
            // The stream reports progress; the list was read only for a control that has ended.
            active.follow = None;
        }
        let attempt = active.attempt();
        let tells_steps = attempt.is_some_and(|attempt| attempt.last_value.is_some());
        let Some(follow) = active.follow.as_mut() else {
            return;
        };
        follow.read_at = Some(now.wall);
        let was_moved_at = follow.moved_at;
        let verdict = follow.judge(now.mono, entry.as_ref());
        let pace = if active.control.is_some() {
            Duration::from_secs(1)
        } else if is_doubted {
            let silence = now.mono.since(active.activity.last_byte.mono);
            (silence / 4).clamp(DOUBTS_APART, DOUBTS_APART_AT_MOST)
        } else {
            follow.pace()
        };
        follow.next = Some(now.mono.after(pace));
        let has_moved = follow.moved_at > was_moved_at;
        let is_empty = active.recovery.is_empty_for_long();
        let is_over = is_empty && verdict == Verdict::CallAgain;
        if is_doubted && (follow.belies_stream(now.mono, tells_steps) || is_over) {
            is_live = false;
            self.follow_instead(id);
        } else if !is_doubted {
            active.activity.last_byte = now;
        }
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.saving.is_shown_stale = true;
        if has_moved {
            active.activity.last_news = now.mono;
        }
        if let Some(entry) = &entry {
            self.list_showed(id, entry, is_live);
            self.pause_if_requested(id, &entry.task_id);
        }
        self.apply(id, verdict, is_live);
    }

    /// The list shows how far the work is.
    fn list_showed(&mut self, id: &TaskId, entry: &Listed, is_live: bool) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if active.task.server_task_id.as_ref() != Some(&entry.task_id) {
            active.task.server_task_id = Some(entry.task_id.clone());
            active.touch(self.now);
        }
        // While a stream is open the steps come there, in full.
        let Some(value) = entry.progress.filter(|value| !is_live && *value > 0.0) else {
            return;
        };
        let known = active.task.progress.as_ref();
        let total = entry.total.or(known.and_then(|known| known.total));
        let is_news = known.is_none_or(|known| known.value < value);
        if let Some(progress) = Progress::reported(value, total, None).filter(|_| is_news) {
            let token = active.attempt().map(|attempt| attempt.token.clone());
            self.on_progress(id, &token.unwrap_or_default(), progress, None, false);
        }
    }

    /// The pause goes out once the server's id of the work is known.
    fn pause_if_requested(&mut self, id: &TaskId, server_task_id: &str) {
        if let Some(active) = self.tasks.get_mut(id)
            && !active.was_cancelled()
            && let Some(control) = &mut active.control
            && control.what == ControlKind::Pausing
            && !control.is_sent
        {
            control.is_sent = true;
            let convention = self.record.convention.clone();
            let arguments = json!({convention.task_id: server_task_id});
            let kind = RequestKind::Pause(id.clone());
            self.call_companion(kind, &convention.pause, &arguments);
        }
    }

    fn apply(&mut self, id: &TaskId, verdict: Verdict, is_live: bool) {
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        let asked = active.control.as_ref().map(|control| control.what);
        let has_its_session = active.is_of_session(self.record.session_number);
        let is_wanted = active.was_cancelled() || asked == Some(ControlKind::Cancelling);
        let verdict = match verdict {
            // Nobody asked for it: the end of our connection cancelled the call, as it has to in that era.
            Verdict::Cancelled if active.is_modern() && !is_wanted => Verdict::CallAgain,
            other => other,
        };
        match (verdict, asked) {
            (Verdict::Watch, _) => {}
            (Verdict::Paused, _) => self.paused(id),
            (Verdict::Cancelled, _) if active.is_being_cancelled() => {
                self.conclude(id, Status::Cancelled, None);
            }
            (Verdict::Stopped | Verdict::CallAgain, _) if active.is_stopped_for_pause() => {
                self.paused(id);
            }
            // A live stream brings the outcome itself; what the list says of it is only a hint.
            (_, _) if is_live => {}
            (Verdict::Cancelled, _) => self.conclude(id, Status::Cancelled, None),
            // Not by us: in the modern era the end of our connection did, or the server's own. In a session that is gone, a
            // cancel can't reach it any more.
            (Verdict::Stopped | Verdict::CallAgain, Some(ControlKind::Cancelling))
                if verdict == Verdict::Stopped || !has_its_session =>
            {
                let message = "nothing was running; its checkpoint stays on the server";
                self.stands(id, message);
                self.conclude(id, Status::Cancelled, None);
            }
            // Calling again would undo what was asked: what stands still is what was wanted.
            (Verdict::CallAgain | Verdict::Restarted, Some(ControlKind::Cancelling))
            | (Verdict::Restarted, Some(ControlKind::Pausing)) => {}
            (Verdict::Restarted, _) if active.was_cancelled() => {}
            (Verdict::Stopped | Verdict::CallAgain, _) if active.was_cancelled() => {
                self.stands(
                    id,
                    "it stopped after the cancel; its checkpoint stays on the server",
                );
                self.conclude(id, Status::Cancelled, None);
            }
            (Verdict::Stopped | Verdict::CallAgain, Some(ControlKind::Pausing)) => {
                self.stands(
                    id,
                    "it had already stopped; its checkpoint stays on the server",
                );
                self.paused(id);
            }
            (Verdict::Stopped | Verdict::CallAgain | Verdict::Restarted | Verdict::Finished, _) => {
                self.call_again(id);
            }
            (Verdict::Missing, _) => {
                self.conclude(id, Status::Unknown(UnknownReason::NoCheckpoint), None);
            }
        }
    }

    fn stands(&mut self, id: &TaskId, words: &str) {
        if let Some(active) = self.tasks.get_mut(id) {
            active.notice(self.now, words.to_owned());
        }
    }
}

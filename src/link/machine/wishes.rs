//! Pausing, cancelling and limits, and watching a checkpoint by its server's list.

use core::time::Duration;

use serde_json::{Value, json};

use super::{Door, Kind, Link, earliest, streams::BY_CHECKPOINT};
use crate::{
    domain::{
        AskedFor, Done, Mono, Phase, Progress, QuestionWay, Refused, Status, TaskErrorKind, TaskId,
        Window, text,
    },
    link::{
        checkpoint::{self, Follow, Verdict},
        running::{Line, Wish},
    },
    protocol::{self, encode},
};

/// How long a pause may take before "the server did not stop".
const PAUSE_WITHIN: Duration = Duration::from_secs(60);
/// How long a cancel may take before "the server did not react".
const CANCEL_WITHIN: Duration = Duration::from_secs(5);
/// The same for a server task, whose server may take its time.
const TASK_CANCEL_WITHIN: Duration = Duration::from_secs(30);
/// How long a resume may take before it is no longer shown as asked for.
const RESUME_WITHIN: Duration = Duration::from_secs(60);
/// How long after a cancel or pause that did not get through it is sent again.
const WISH_AGAIN: Duration = Duration::from_secs(1);
/// How long after a look at the list behind a silent stream the next comes, at least and at most: a quarter of the silence.
const DOUBTS_APART: Duration = Duration::from_secs(10);
const DOUBTS_APART_AT_MOST: Duration = Duration::from_secs(60);
/// How long after a failed look at the list the next comes.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

impl Link {
    /// Sets what was asked for, with its limit.
    pub(super) fn wish_for(&mut self, id: &TaskId, what: AskedFor) {
        let now = self.now;
        let within = match what {
            AskedFor::Pausing => PAUSE_WITHIN,
            AskedFor::Cancelling => CANCEL_WITHIN,
            AskedFor::Resuming => RESUME_WITHIN,
        };
        if let Some(running) = self.tasks.get_mut(id) {
            running.task.remark = None;
            let until = now.mono.after(within);
            running.set_wish(
                now,
                Some(Wish {
                    what,
                    until,
                    is_taken: false,
                    is_sent: false,
                    retry_at: None,
                }),
            );
        }
        self.saver.touch(now.mono);
        self.is_restless = true;
    }

    /// Asks the server's pause tool; refused in words where there is none.
    pub(super) fn ask_pause(&mut self, id: &TaskId) -> Result<Done, Refused> {
        let now = self.now;
        let name = self.record.name.clone();
        let pause = &self.record.convention.pause;
        let has_pause = self.record.tools.iter().any(|tool| tool.name == *pause);
        let running = self.tasks.get_mut(id).ok_or_else(|| {
            Refused::Usage(format!(
                "Not paused: {id} is settled; there is nothing left to pause"
            ))
        })?;
        let refusal = if running.task.status == Status::Paused {
            Some("it is paused already; r goes on".to_owned())
        } else if running.phase() == Phase::Queued {
            Some("it does not run yet; x takes it back".to_owned())
        } else if !has_pause {
            Some(format!("{name} has no pause tool; the work goes on"))
        } else if !running.task.resumability.checkpoint {
            Some(format!(
                "{} keeps no checkpoint that {name}'s pause tool could stop at; the work goes on",
                running.task.tool
            ))
        } else if matches!(running.task.status, Status::Unknown(_)) {
            Some("nobody knows whether it runs".to_owned())
        } else {
            None
        };
        if let Some(refusal) = refusal {
            let words = format!("Not paused: {refusal}");
            running.remark(now, words.clone());
            return Err(Refused::Usage(words));
        }
        if running.follow.is_none() {
            running.follow = Some(Follow::new(now.mono, running.longest_step, false));
        }
        self.wish_for(id, AskedFor::Pausing);
        Ok(Done::Accepted)
    }

    /// Cancels: by notification where a call is out, at once where nothing runs.
    pub(super) fn ask_cancel(&mut self, id: &TaskId) -> Result<Done, Refused> {
        let now = self.now;
        let running = self.tasks.get_mut(id).ok_or_else(|| {
            Refused::Usage(format!(
                "Not cancelled: {id} is settled; there is nothing left to cancel"
            ))
        })?;
        let is_of_another = running
            .attempt()
            .is_some_and(|attempt| attempt.session_number != self.record.session_number);
        if running.is_modern() && running.is_out() && running.sending.is_none() {
            return Ok(self.hang_up(id));
        }
        let is_at_work = running.is_out() || running.served.is_some();
        let was_cancelled = running.attempt().is_some_and(|it| it.was_cancelled);
        if self.record.is_process() && is_at_work && was_cancelled && running.wish.is_none() {
            return self.end_process(id);
        }
        let is_round = running.task.status == Status::InputRequired
            && running
                .task
                .open_question()
                .is_some_and(|q| q.way == QuestionWay::Round);
        match (&running.task.status, running.phase()) {
            (Status::InputRequired, _) if is_round => {
                running.remark(
                    now,
                    "nothing ran; the server's question stays unanswered".to_owned(),
                );
                self.conclude(id, Status::Cancelled, None);
            }
            (Status::Unknown(_), _)
                if (is_of_another || !self.record.is_initialized)
                    && !running.task.resumability.checkpoint =>
            {
                return Err(Refused::Usage(
                    "Not cancelled: the server session that it ran in is gone; mark it lost or forget it"
                        .to_owned(),
                ));
            }
            (Status::Running, Phase::Queued) => {
                running.remark(now, "it was never run".to_owned());
                self.conclude(id, Status::Cancelled, None);
            }
            (Status::Paused, _) => {
                running.remark(
                    now,
                    "it was paused; its checkpoint stays on the server".to_owned(),
                );
                self.conclude(id, Status::Cancelled, None);
            }
            _ => {
                if running.task.resumability.checkpoint && running.follow.is_none() {
                    running.follow = Some(Follow::new(now.mono, running.longest_step, false));
                }
                self.wish_for(id, AskedFor::Cancelling);
            }
        }
        Ok(Done::Accepted)
    }

    /// A plain call of the modern era is cancelled by closing its stream, on pipes by saying so; its server must say nothing
    /// to either (2026-07-28, basic/patterns/cancellation).
    fn hang_up(&mut self, id: &TaskId) -> Done {
        let now = self.now;
        let may_be_task = self.may_be_task(id);
        let is_process = self.record.is_process();
        let mut request_id = None;
        if let Some(running) = self.tasks.get_mut(id) {
            request_id = running.request_id().map(str::to_owned);
            // On pipes nothing tells that a call was taken.
            let is_unanswered = is_process || matches!(running.line, Line::Calling(_));
            let mut words = if is_process {
                "its program was told, which cancels it".to_owned()
            } else {
                "its connection was closed, which cancels it".to_owned()
            };
            if is_unanswered && may_be_task {
                words.push_str("; if the server had made a task of it, that goes on");
            }
            running.remark(now, words);
        }
        if let Some(request_id) = request_id.filter(|_| is_process) {
            let method = encode::cancelled(&request_id, "cancelled by the user");
            self.send(Kind::Cancel(id.clone()), method, None, None);
        }
        self.conclude(id, Status::Cancelled, None);
        Done::Accepted
    }

    /// A cancel to which the process did not react, asked for again: its end is the end of the call. MCP lets a server
    /// say nothing to a cancel, so this is the one proof that can be had.
    fn end_process(&mut self, id: &TaskId) -> Result<Done, Refused> {
        let others = self.tasks.iter().filter(|(other, running)| {
            *other != id && !running.is_settled() && (running.is_out() || running.served.is_some())
        });
        let others = u64::try_from(others.count()).unwrap_or(u64::MAX);
        let name = self.record.name.clone();
        if others > 0 {
            let calls = text::plural(others, "other call");
            return Err(Refused::Usage(format!(
                "Not cancelled: the program of {name} did not react, and {calls} would end with it"
            )));
        }
        if let Some(running) = self.tasks.get_mut(id) {
            let words = "its program did not react to the cancel and was ended".to_owned();
            running.remark(self.now, words);
        }
        self.conclude(id, Status::Cancelled, None);
        self.wire_ended("its program was ended after a cancel");
        Ok(Done::Accepted)
    }

    pub(super) fn step_wish(&mut self, id: &TaskId) {
        let now = self.now;
        let can_send = self.door == Door::Open && self.path.may_send(now);
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(wish) = running.wish.clone() else {
            return;
        };
        let is_due = wish.waits_to_cancel()
            && running.sending.is_none()
            && wish.retry_at.is_none_or(|at| now.mono >= at);
        if is_due && running.phase() == Phase::Queued {
            running.remark(now, "it was never run".to_owned());
            return self.conclude(id, Status::Cancelled, None);
        }
        // The first goes out because a person wants it, the next ones within the budget.
        if is_due && can_send && (wish.retry_at.is_none() || self.path.spend(now).is_ok()) {
            self.send_cancel(id);
        }
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(wish) = running.wish.clone() else {
            return;
        };
        if now.mono < wish.until {
            return;
        }
        let name = &self.record.name;
        let words = match wish.what {
            AskedFor::Pausing if wish.is_sent => {
                format!("{name} did not stop within a minute; x stops it, the checkpoint stays")
            }
            AskedFor::Pausing => format!("{name} could not be asked to pause within a minute"),
            AskedFor::Cancelling if !wish.is_sent => {
                // Not reachable, or its call is not out yet: it is asked as soon as it can be.
                if let Some(wish) = running.wish.as_mut() {
                    wish.until = now.mono.after(CANCEL_WITHIN);
                }
                return;
            }
            AskedFor::Cancelling if self.record.is_process() => {
                format!("{name} did not react to the cancel; a second one ends its program")
            }
            AskedFor::Cancelling => {
                format!(
                    "{name} did not react to the cancel; the call is still followed (D stops following)"
                )
            }
            AskedFor::Resuming => {
                running.set_wish(now, None);
                return;
            }
        };
        running.set_wish(now, None);
        running.remark(now, words);
        if running.line != Line::None {
            running.follow = None;
        }
        self.saver.touch(now.mono);
    }

    fn send_cancel(&mut self, id: &TaskId) {
        let (now, session_number) = (self.now, self.record.session_number);
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        if running.is_modern() && running.is_out() {
            self.hang_up(id);
            return;
        }
        if let Some(attempt) = running.attempt_mut() {
            attempt.was_cancelled = true;
        }
        running.touch(now);
        let Some(attempt) = running.task.attempts.last() else {
            return;
        };
        // A request id means nothing in another session; what the list shows is all that can be known.
        // In the modern era whatever is out was hung up.
        let is_ours = attempt.session_number == session_number && !running.is_modern();
        let request_id = attempt.request_id.clone();
        let server_task = running
            .served
            .as_ref()
            .and(running.task.server_task_id.clone());
        if let Some(wish) = running.wish.as_mut() {
            // The limit runs from when the server could hear it.
            let within = if server_task.is_some() {
                TASK_CANCEL_WITHIN
            } else {
                CANCEL_WITHIN
            };
            wish.until = now.mono.after(within);
            wish.is_sent = true;
        }
        if let Some(server_task) = server_task {
            let request_id = self.new_request_id();
            let method = encode::cancel_task(self.version_of(id), &request_id, &server_task);
            self.send(Kind::Cancel(id.clone()), method, Some(request_id), None);
        } else if is_ours {
            let method = encode::cancelled(&request_id, "cancelled by the user");
            self.send(Kind::Cancel(id.clone()), method, None, None);
        }
    }

    /// The server took `notifications/cancelled`.
    pub(super) fn cancel_taken(&mut self, id: &TaskId) {
        if let Some(running) = self.tasks.get_mut(id)
            && let Some(wish) = running
                .wish
                .as_mut()
                .filter(|wish| wish.what == AskedFor::Cancelling)
        {
            wish.is_taken = true;
        }
    }

    /// The request for a wish did not get through; it goes out again within its limit.
    pub(super) fn wish_unheard(&mut self, id: &TaskId) {
        let retry_at = self.now.mono.after(WISH_AGAIN);
        if let Some(wish) = self.tasks.get_mut(id).and_then(|r| r.wish.as_mut()) {
            (wish.is_sent, wish.retry_at) = (false, Some(retry_at));
        }
    }

    /// The pause tool refused, in its own words.
    pub(super) fn wish_refused(&mut self, id: &TaskId, said: &str) {
        let now = self.now;
        let name = self.record.name.clone();
        if let Some(running) = self.tasks.get_mut(id) {
            running.set_wish(now, None);
            running.remark(
                now,
                format!("Not paused: {name} says {}", text::clean_line(said)),
            );
            if running.line != Line::None {
                running.follow = None;
            }
        }
        self.saver.touch(now.mono);
    }

    /// The pause tool answered; only standing still is proof.
    pub(super) fn pause_answered(&mut self, id: &TaskId, result: &str) {
        let answer = protocol::call_result(result);
        if answer.is_error {
            return self.wish_refused(id, answer.text.as_deref().unwrap_or("no"));
        }
        if let Some(wish) = self
            .tasks
            .get_mut(id)
            .and_then(|running| running.wish.as_mut())
        {
            wish.is_taken = true;
        }
    }

    /// A stream that fell silent and has no way back is doubted: the list tells whether it lives. A step may be as long
    /// as the silence, which keeps the tool from being called a second time too early.
    fn step_doubt(&mut self, id: &TaskId) {
        let now = self.now.mono;
        if let Some(running) = self.tasks.get_mut(id)
            && running.follow.is_none()
            && running.doubted_at().is_some_and(|at| now >= at)
        {
            let silence = now.since(running.last_byte.mono);
            let longest_step = running.longest_step.max(silence);
            running.follow = Some(Follow::new(now, longest_step, false));
        }
    }

    /// The stream is dead; its checkpoint is followed on the list, which was read already.
    fn follow_instead(&mut self, id: &TaskId) {
        let now = self.now;
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let connections = running.take_connections();
        running.last_byte = now;
        let words =
            format!("its stream stayed silent while its checkpoint went on; {BY_CHECKPOINT}");
        running.remark(now, words);
        self.saver.urge(now.mono);
        self.is_restless = true;
        for exchange in connections.into_iter().flatten() {
            self.close(exchange);
        }
    }

    /// Looks at the server's list when it is time.
    pub(super) fn step_follow(&mut self, id: &TaskId) {
        self.step_doubt(id);
        let now = self.now.mono;
        let Some(running) = self.tasks.get(id) else {
            return;
        };
        let is_due = running
            .follow
            .as_ref()
            .and_then(|follow| follow.next)
            .is_some_and(|next| now >= next);
        if !is_due || self.door != Door::Open {
            return;
        }
        match self.may_ask() {
            Ok(()) => {}
            Err(later) => {
                if let (Some(later), Some(follow)) = (
                    later,
                    self.tasks.get_mut(id).and_then(|r| r.follow.as_mut()),
                ) {
                    follow.next = Some(later.max(now));
                }
                return;
            }
        }
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let client_id = running.task.client_id.clone().unwrap_or_default();
        if let Some(follow) = running.follow.as_mut() {
            follow.next = None;
        }
        self.call_list(Kind::Look(id.clone()), &client_id);
    }

    /// Asks the companion that lists a client's checkpoints.
    pub(super) fn call_list(&mut self, kind: Kind, client_id: &str) {
        let convention = self.record.convention.clone();
        let arguments = json!({convention.client_id: client_id});
        self.call_companion(kind, &convention.list, &arguments);
    }

    pub(super) fn call_companion(&mut self, kind: Kind, tool: &str, arguments: &Value) {
        let request_id = self.new_request_id();
        let call = encode::Call {
            id: &request_id,
            token: &request_id,
            tool,
            arguments,
            task_ttl_ms: None,
            input: None,
            params: &[],
        };
        let method = encode::call_tool(self.session_version(), &call);
        self.send(kind, method, Some(request_id), None);
    }

    /// The list could not be read; that says nothing about the task.
    pub(super) fn look_failed(&mut self, id: &TaskId, at_least: Option<Duration>) {
        let next = self
            .now
            .mono
            .after(LOOK_AGAIN.max(at_least.unwrap_or_default()));
        if let Some(follow) = self
            .tasks
            .get_mut(id)
            .and_then(|running| running.follow.as_mut())
        {
            follow.next = Some(next);
        }
    }

    /// The list was read: the checkpoint rule decides.
    pub(super) fn looked(&mut self, id: &TaskId, result: &str) {
        let now = self.now;
        let answer = protocol::call_result(result);
        if answer.is_error {
            return self.look_failed(id, None);
        }
        let list = checkpoint::read_list(answer.text.as_deref().unwrap_or_default());
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let entry = checkpoint::find(
            &list,
            running.task.server_task_id.as_deref(),
            &running.task.tool,
        )
        .cloned();
        let is_live = running.line != Line::None;
        let is_doubted =
            running.wish.is_none() && running.doubted_at().is_some_and(|at| now.mono >= at);
        if is_live && running.wish.is_none() && !is_doubted {
            // Its stream tells; the list was only read for a wish that is over.
            running.follow = None;
        }
        let Some(follow) = running.follow.as_mut() else {
            return;
        };
        follow.read_at = Some(now.wall);
        let was_moved_at = follow.moved_at();
        let verdict = follow.judge(now.mono, entry.as_ref());
        let pace = if running.wish.is_some() {
            Duration::from_secs(1)
        } else if is_doubted {
            let silence = now.mono.since(running.last_byte.mono);
            (silence / 4).clamp(DOUBTS_APART, DOUBTS_APART_AT_MOST)
        } else {
            follow.pace()
        };
        follow.next = Some(now.mono.after(pace));
        let has_moved = follow.moved_at() > was_moved_at;
        let tells_steps = running
            .task
            .attempts
            .last()
            .is_some_and(|attempt| attempt.last_value.is_some());
        if is_doubted && follow.belies_stream(now.mono, tells_steps) {
            return self.follow_instead(id);
        }
        if !is_doubted {
            running.last_byte = now;
        }
        running.is_shown_stale = true;
        if has_moved {
            running.last_news = now.mono;
        }
        let token = running
            .attempt()
            .map(|attempt| attempt.token.clone())
            .unwrap_or_default();
        if let Some(entry) = &entry {
            if running.task.server_task_id.as_ref() != Some(&entry.task_id) {
                running.task.server_task_id = Some(entry.task_id.clone());
                running.touch(now);
            }
            // While a stream is open the steps come there, in full.
            if !is_live && let Some(value) = entry.progress {
                let total = entry
                    .total
                    .or(running.task.progress.as_ref().and_then(|p| p.total));
                if let Some(progress) =
                    Progress::reported(value, total, None).filter(|_| value > 0.0)
                {
                    let is_news = running
                        .task
                        .progress
                        .as_ref()
                        .is_none_or(|known| known.value < value);
                    if is_news {
                        self.progressed(id, &token, progress, None);
                    }
                }
            }
            self.pause_if_wished(id, &entry.task_id);
        }
        self.apply(id, verdict, is_live);
    }

    /// The pause goes out once the server's id of the work is known.
    fn pause_if_wished(&mut self, id: &TaskId, server_task_id: &str) {
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        if let Some(wish) = running
            .wish
            .as_mut()
            .filter(|wish| wish.what == AskedFor::Pausing && !wish.is_sent)
        {
            wish.is_sent = true;
            let convention = self.record.convention.clone();
            let arguments = json!({convention.task_id: server_task_id});
            self.call_companion(Kind::Pause(id.clone()), &convention.pause, &arguments);
        }
    }

    fn apply(&mut self, id: &TaskId, verdict: Verdict, is_live: bool) {
        let Some(running) = self.tasks.get(id) else {
            return;
        };
        let asked = running.wish.as_ref().map(|wish| wish.what);
        let is_wanted = running.was_cancelled() || asked == Some(AskedFor::Cancelling);
        let verdict = match verdict {
            // Nobody asked for it: the end of our connection cancelled the call, as it has to in that era.
            Verdict::Cancelled if running.is_modern() && !is_wanted => Verdict::CallAgain,
            other => other,
        };
        match (verdict, asked) {
            (Verdict::Watch, _) => {}
            (Verdict::Paused, _) => self.paused(id),
            (Verdict::Cancelled, Some(AskedFor::Cancelling)) => {
                self.conclude(id, Status::Cancelled, None);
            }
            // A live stream brings the outcome itself; what the list says of it is only a hint.
            (_, _) if is_live => {}
            (Verdict::Cancelled, _) => self.conclude(id, Status::Cancelled, None),
            // Not by us: in the modern era the end of our connection did, or the server's own.
            (Verdict::Stopped, Some(AskedFor::Cancelling)) => {
                self.stands(
                    id,
                    "nothing ran any more; its checkpoint stays on the server",
                );
                self.conclude(id, Status::Cancelled, None);
            }
            // Calling again would undo what was asked: what stands still is what was wanted.
            (Verdict::CallAgain | Verdict::Restarted, Some(AskedFor::Cancelling))
            | (Verdict::Restarted, Some(AskedFor::Pausing)) => {}
            (Verdict::Restarted, _) if running.was_cancelled() => {}
            (Verdict::Stopped | Verdict::CallAgain, _) if running.was_cancelled() => {
                self.stands(id, "it stands still since the cancel; its checkpoint stays");
                self.conclude(id, Status::Cancelled, None);
            }
            (Verdict::Stopped | Verdict::CallAgain, Some(AskedFor::Pausing)) => {
                self.stands(id, "it stood still already; its checkpoint stays");
                self.paused(id);
            }
            (Verdict::Stopped | Verdict::CallAgain | Verdict::Restarted | Verdict::Finished, _) => {
                self.call_again(id);
            }
            (Verdict::Missing, _) => self.conclude(id, Status::Unknown(Window::NoCheckpoint), None),
        }
    }

    fn stands(&mut self, id: &TaskId, words: &str) {
        let now = self.now;
        if let Some(running) = self.tasks.get_mut(id) {
            running.remark(now, words.to_owned());
        }
    }

    /// When a limit of the user's ends a task.
    pub(super) fn limit_ends(&self, running: &crate::link::running::Running) -> Option<Mono> {
        let limits = running.task.limits;
        if running.task.status != Status::Running {
            return None;
        }
        running
            .attempt()
            .filter(|attempt| attempt.number > 1 || attempt.phase != Phase::Queued)?;
        let started = running.task.attempts.first()?.started_at;
        let hard = limits.hard.map(|hard| {
            let spent = self.now.wall.since(started);
            self.now.mono.after(hard.saturating_sub(spent))
        });
        earliest(hard, self.idle_ends(running)).map(|at| at.max(running.limits_from))
    }

    /// When the idle limit ends a task; it runs only while the server could tell us something.
    fn idle_ends(&self, running: &crate::link::running::Running) -> Option<Mono> {
        let is_in_contact = matches!(running.line, Line::Open { .. } | Line::Calling(_))
            || (running.follow.is_some() || running.served.is_some())
                && self.door == Door::Open
                && self.path.down().is_none();
        let idle = running.task.limits.idle.filter(|_| is_in_contact)?;
        Some(running.last_news.max(running.contact_since).after(idle))
    }

    pub(super) fn step_limits(&mut self, id: &TaskId) {
        let Some(running) = self.tasks.get(id) else {
            return;
        };
        if self.limit_ends(running).is_none_or(|at| self.now.mono < at) {
            return;
        }
        let is_idle = self
            .idle_ends(running)
            .is_some_and(|at| self.now.mono >= at);
        let which = if is_idle {
            "nothing new came within your idle limit"
        } else {
            "your hard limit is over"
        };
        let can_send = self.door == Door::Open && self.path.may_send(self.now);
        let request_id = running.request_id().map(str::to_owned);
        let server_task = running
            .served
            .as_ref()
            .and(running.task.server_task_id.clone());
        let is_modern = running.is_modern();
        let outcome = if let Some(server_task) = server_task.filter(|_| can_send) {
            let request_id = self.new_request_id();
            let method = encode::cancel_task(self.version_of(id), &request_id, &server_task);
            self.send(Kind::Cancel(id.clone()), method, Some(request_id), None);
            "its task was cancelled"
        } else if is_modern && !self.record.is_process() {
            "its connection was closed, which cancels it"
        } else if let Some(request_id) = request_id.filter(|_| can_send) {
            let method = encode::cancelled(&request_id, "timed out");
            self.send(Kind::Cancel(id.clone()), method, None, None);
            "the call was cancelled"
        } else {
            "the server could not be told"
        };
        self.fail(
            id,
            TaskErrorKind::TimedOut,
            None,
            format!("{which}; {outcome}"),
        );
    }
}

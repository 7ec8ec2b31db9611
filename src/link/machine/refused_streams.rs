//! Calls and resumes that the server refuses, and what that says about the call, the cursor or the session.

use crate::{
    domain::{LostReason, Phase, Status, TaskErrorKind, TaskId, UnknownReason, text},
    link::{
        InFlight, Link, StreamState,
        connection::{SESSION_GONE, STREAM_GONE, UNSUPPORTED},
        negotiation::{HEADER_MISMATCH, refuses_what_it_speaks},
        stream_state::Refused,
    },
    protocol::HttpError,
};

/// Failing resumes after which a checkpoint is the better way.
const TRIES_BEFORE_CHECKPOINT: u32 = 3;
/// How often a refused call is sent again. The first refusal may be about an ended session or another revision; one in a
/// fresh session is about the call.
const REQUEUES: u32 = 1;

impl Link {
    /// A call of the modern era was answered with something other than 2xx: nothing of it runs.
    pub(super) fn modern_call_refused(
        &mut self,
        id: &TaskId,
        in_flight: &InFlight,
        refusal: &HttpError,
    ) {
        let is_disproved = Self::disproves_era(true, refusal);
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.saving.is_shown_stale = true;
        active.stream = StreamState::None;
        match refusal.status {
            _ if refusal.is_denial() => self.refused_call(id, refusal),
            401 | 403 => self.call_denied(id, refusal),
            _ if is_disproved => {
                self.requeue(id, refusal);
                self.renegotiate(in_flight, refusal.server_text.as_deref());
            }
            400 | 404 => {
                let error = refusal.error.clone().unwrap_or_default();
                let is_stale = error.code == HEADER_MISMATCH || refuses_what_it_speaks(refusal);
                if is_stale && active.recovery.tries == 0 {
                    // Our headers follow from the list of tools, which is out of date.
                    self.record.tools_at = None;
                    return self.requeue(id, refusal);
                }
                self.fail_with(id, TaskErrorKind::Refused, error);
            }
            _ if refusal.may_run() => {
                active.notice_refusal(self.now, refusal);
                let reason = if self.may_be_task(id) {
                    UnknownReason::BeforeTaskId
                } else {
                    UnknownReason::HttpStatus(refusal.status)
                };
                self.out_of_stream(id, Status::Unknown(reason));
            }
            _ => self.refused_call(id, refusal),
        }
    }

    /// A call, a resume or a probe was answered with something other than 2xx.
    pub(super) fn stream_refused(&mut self, id: &TaskId, sent_in: u64, refusal: &HttpError) {
        let has_session = self.record.session.is_some();
        let is_of_another = sent_in != self.record.session_number || !self.record.is_initialized;
        if self.recheck_refused(id, refusal) {
            return;
        }
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let line = std::mem::replace(&mut active.stream, StreamState::None);
        let is_probe = matches!(line, StreamState::Asking { is_probe: true, .. });
        let is_call = matches!(line, StreamState::Calling(_));
        active.recovery.probe.stop_dropping();
        let said = refusal.server_text.clone();
        match refusal.status {
            _ if is_call && refusal.is_denial() => self.refused_call(id, refusal),
            401 | 403 if is_call => self.call_denied(id, refusal),
            // A sign-in does not help, and it may come from something in front of the server.
            _ if refusal.is_denial() => self.resume_put_off(id, refusal),
            401 | 403 => {
                active.note_disconnection(self.now, &format!("HTTP {}", refusal.status));
                active.stream = StreamState::Waiting(self.now.mono);
                self.auth_refused(refusal);
            }
            // What was sent in a session that is known to be gone says nothing of the present one.
            400 | 404 | 410 if is_of_another && is_call => {
                self.requeue(id, refusal);
            }
            400 | 404 | 410 if is_of_another => {
                let reason = LostReason::session_gone(said);
                self.out_of_stream(id, Status::Lost(reason));
            }
            404 | 410 if has_session && is_call => {
                self.requeue(id, refusal);
                self.doubt_session(refusal);
            }
            404 | 410 if has_session => self.resume_refused(id, refusal),
            // It took the newest cursor and refuses an older one: so it knows the newest.
            400 | 405..=407 | 411..=424 if is_probe => {
                active.recovery.refuses_older_cursors = true;
                active.recovery.empty_resumes += 1;
                self.ask_later(id);
            }
            400 if has_session || !is_call => {
                let said = format!("HTTP 400 {}", said.unwrap_or_default());
                let meant = if is_call {
                    Refused::Call
                } else {
                    Refused::Cursor
                };
                self.verify(id, said, meant);
            }
            status if is_call && refusal.may_run() => {
                active.went_out(self.now);
                active.notice_refusal(self.now, refusal);
                let end = Status::Unknown(UnknownReason::HttpStatus(status));
                self.out_of_stream(id, end);
            }
            _ if is_call => self.refused_call(id, refusal),
            // A login page redirects everything: the server was not reached.
            300..=399 => self.stream_unanswered(id, &format!("HTTP {}", refusal.status), false),
            408 | 409 | 425 | 429 | 500..=599 => self.resume_put_off(id, refusal),
            status => self.verify(id, format!("HTTP {status}"), Refused::Resumption),
        }
    }

    /// A refusal means the cursor, the call, the session or resuming as such, or it is not the server's. A ping shows which.
    pub(super) fn verify(&mut self, id: &TaskId, said: String, meant: Refused) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let is_here =
            self.record.is_initialized && active.is_of_session(self.record.session_number);
        if meant == Refused::Resumption && !is_here {
            return self.out_of_stream(id, Status::Unknown(UnknownReason::NoReplay));
        }
        if meant != Refused::Call {
            active.note_disconnection(self.now, &said);
        }
        active.stream = StreamState::Verifying { said, meant };
        if meant == Refused::Call
            && let Some(attempt) = active.attempt_mut()
        {
            attempt.phase = Phase::Queued;
            active.was_unsent = true;
            active.touch(self.now);
        }
        match self.spend_on_stream(id) {
            Ok(()) => self.ping(Some(id.clone())),
            Err(_) => self.verify_later(id, false),
        }
    }

    /// A resume was refused for a reason that passes.
    fn resume_put_off(&mut self, id: &TaskId, refusal: &HttpError) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let status = format!("HTTP {}", refusal.status);
        active.note_disconnection(self.now, &status);
        active.recovery.tries += 1;
        active.recovery.not_before = refusal.retry_after.map(|wait| self.now.mono.after(wait));
        // Whatever denies a resume would deny the call too.
        let uses_checkpoint = active.task.resumability.checkpoint && !refusal.is_denial();
        if active.recovery.tries >= TRIES_BEFORE_CHECKPOINT && uses_checkpoint {
            return self.refused_for_long(id, Some(status));
        }
        self.ask_later(id);
    }

    /// A call that the server refused before running it: it waits for a new session, within reason.
    pub(super) fn requeue(&mut self, id: &TaskId, refusal: &HttpError) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.recovery.tries += 1;
        if active.recovery.tries > REQUEUES {
            return self.refused_call(id, refusal);
        }
        self.unsend(id, Some(&refusal.message()));
        self.save_vital();
    }

    fn refused_call(&mut self, id: &TaskId, refusal: &HttpError) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if active.is_to_be_cancelled() {
            return self.unsend(id, Some(&refusal.message()));
        }
        active.went_out(self.now);
        let wait = match refusal.retry_after {
            Some(wait) => format!("; try again in {}, as it requests", text::span(wait)),
            None => String::new(),
        };
        let words = format!(
            "the server refused the call with {}{wait}",
            refusal.message()
        );
        self.fail(
            id,
            TaskErrorKind::Refused,
            Some(refusal.status.into()),
            words,
        );
    }

    /// A ping after a 400 was answered: the session lives, so it was the cursor or the call itself.
    pub(super) fn verified(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let StreamState::Verifying { said, meant } = active.stream.clone() else {
            return;
        };
        match meant {
            Refused::Call => {
                active.stream = StreamState::None;
                active.went_out(self.now);
                let words = format!("the server refused the call: {said}");
                self.fail(id, TaskErrorKind::Refused, Some(400), words);
            }
            Refused::Cursor if self.is_stream_gone(id, SESSION_GONE) => {
                self.refused_for_long(id, Some(said));
            }
            Refused::Cursor => self.verify_later(id, false),
            Refused::Resumption | Refused::Page => {
                let is_page = meant == Refused::Page;
                if self.is_stream_gone(id, if is_page { STREAM_GONE } else { UNSUPPORTED }) {
                    self.out_of_stream(id, Status::Unknown(UnknownReason::NoReplay));
                } else {
                    self.verify_later(id, false);
                }
            }
        }
    }

    /// The server refuses to bring a stream back.
    pub(super) fn refused_for_long(&mut self, id: &TaskId, said: Option<String>) {
        let reason = LostReason::ReplayGone { server_text: said };
        self.out_of_stream(id, Status::Lost(reason));
    }

    /// The ping that was to verify a session failed; the stream is asked for again later, in an outage by its back-off.
    pub(super) fn verify_later(&mut self, id: &TaskId, is_outage: bool) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if !matches!(active.stream, StreamState::Verifying { .. }) {
            return;
        }
        if active.phase() == Phase::Queued {
            active.stream = StreamState::None;
        } else if is_outage {
            let until = self.now.mono;
            active.stream = StreamState::Waiting(until);
        } else {
            // With distance, or the asking would use up the budget that the ping needs.
            active.recovery.tries += 1;
            self.ask_later(id);
        }
    }
}

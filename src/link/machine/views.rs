//! The snapshots of tasks and the server for user interfaces.

use crate::{
    domain::{Connectivity, IfCut, LinkState, Mono, ServerView, Status, TaskId, TaskView},
    link::{ActiveTask, ConnectionState, Link, StreamState, replies::AnswersDue},
};

impl Link {
    /// Tasks that changed since they were last taken and may be shown.
    pub fn take_views(&mut self) -> Vec<TaskView> {
        self.publish();
        std::mem::take(&mut self.published.tasks)
    }

    /// Whether one of the tasks that [`Self::take_views`] will return has settled.
    pub fn has_settled_view(&self) -> bool {
        let mut views = self.published.tasks.iter();
        views.any(|view| view.task.status.is_settled())
    }

    /// Tasks that were deleted.
    pub fn take_erased(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.published.erased)
    }

    /// The server's snapshot, if it changed since it was last taken.
    pub fn take_server_view(&mut self) -> Option<ServerView> {
        std::mem::take(&mut self.published.is_server_stale).then(|| self.server_view())
    }

    fn server_view(&self) -> ServerView {
        let state = match (self.needed_credentials(), &self.reachability.down) {
            (Some(why), _) if self.record.is_process() => LinkState::NotStarted {
                why: why.to_owned(),
                is_approved: self.credentials.is_program_approved,
            },
            (Some(why), _) => LinkState::NeedsLogin {
                why: why.to_owned(),
                takes_sign_in: self.credentials.from_sign_in,
            },
            // Where nothing is wanted nothing is tried, and what was found then is not known to hold.
            (None, Some(down)) if self.wants_session() => LinkState::Down {
                since: down.since.wall,
                tries: down.tries,
                next: down.next_wall,
                why: down.why.clone(),
            },
            (None, Some(_)) => LinkState::Idle,
            (None, None) => match self.connection {
                ConnectionState::Discovering
                | ConnectionState::OpeningSse
                | ConnectionState::Initializing
                | ConnectionState::Announcing => LinkState::Connecting,
                ConnectionState::Ready if self.in_flight.sent > 0 => LinkState::Live,
                // The session has ended, and the stream of a call is still open.
                _ if self.tasks.values().any(ActiveTask::is_out) => LinkState::Live,
                _ => LinkState::Idle,
            },
        };
        ServerView {
            state,
            capabilities: self.capabilities(None),
            requests: self.in_flight.sent,
            gone_from: self.config.gone_from.clone(),
            waiting_config: self.config.waits.clone(),
            latency: self.in_flight.latency,
            // Only the driver knows the variables, so no obstacle.
            ..ServerView::of_record(&self.record)
        }
    }

    pub(super) fn publish(&mut self) {
        let mut views = Vec::new();
        let is_due = |it: &&ActiveTask| it.saving.is_shown_stale && it.saving.held.is_none();
        for active in self.tasks.values().filter(is_due) {
            views.push(TaskView {
                task: active.task.clone(),
                contact: self.contact(active),
                if_cut: IfCut::of_task(&active.task).map(|if_cut| if_cut.at(self.now.wall)),
                saved_seq: active.saving.saved_seq,
                is_unsaved: self.saver.trouble.is_some(),
                unsaved_why: self.saver.trouble.clone(),
            });
        }
        for view in &views {
            if let Some(active) = self.tasks.get_mut(&view.task.id) {
                active.saving.is_shown_stale = false;
            }
        }
        self.published.tasks.append(&mut views);
    }

    /// The connection state of one task, as one of three facts.
    fn contact(&self, active: &ActiveTask) -> Connectivity {
        let is_unknown = matches!(active.task.status, Status::Unknown(_));
        let is_heard = active.stream != StreamState::None || active.follow.is_some();
        let waits = active.task.status == Status::InputRequired && active.task.waits_in_round();
        if !active.is_active() || active.is_settled() || (is_unknown || waits) && !is_heard {
            return Connectivity::Idle;
        }
        let is_open = matches!(active.stream, StreamState::Open { .. });
        // Perhaps only another call was denied: a stream that is open needs no other credentials, unless something of
        // this call has to be sent.
        let has_to_send = active.control.is_some() || active.answers != AnswersDue::Never;
        if active.denied.is_some() || self.is_barred() && (!is_open || has_to_send) {
            return Connectivity::NeedsLogin;
        }
        let last_byte = active.activity.last_byte.wall;
        let is_kept = active.recovery.kept.is_some();
        let is_polled = active.served.as_ref().is_some_and(|it| it.failures == 0);
        if is_open || (is_kept || is_polled) && self.reachability.down.is_none() {
            return Connectivity::Live { last_byte };
        }
        if let Some(down) = &self.reachability.down {
            return Connectivity::Offline {
                since: down.since.wall,
                next: down.next_wall,
                why: down.why.clone(),
            };
        }
        let in_wall = |at: Mono| self.now.wall.after(at.since(self.now.mono));
        if let Some(served) = &active.served {
            return Connectivity::Reconnecting {
                attempt: served.failures,
                next: served.next.map_or(self.now.wall, in_wall),
                why: served.why.clone().unwrap_or_default(),
            };
        }
        if let Some(check) = &self.session.check
            && active.task.is_queued()
        {
            return Connectivity::Reconnecting {
                attempt: check.tries(),
                next: in_wall(check.next_at),
                why: "checking whether the server still knows the MCP session".to_owned(),
            };
        }
        let why = |otherwise: &str| match &active.recovery.disconnection {
            Some(disconnection) => disconnection.why.clone(),
            None => otherwise.to_owned(),
        };
        match &active.stream {
            StreamState::Waiting(until) => Connectivity::Reconnecting {
                attempt: active.recovery.tries,
                next: in_wall(*until),
                why: why("the stream ended"),
            },
            StreamState::Asking { .. } | StreamState::Verifying { .. } => {
                Connectivity::Reconnecting {
                    attempt: active.recovery.tries + 1,
                    next: self.now.wall,
                    why: why("reconnecting to its stream"),
                }
            }
            _ => Connectivity::Live {
                last_byte: active
                    .follow
                    .as_ref()
                    .and_then(|f| f.read_at)
                    .unwrap_or(last_byte),
            },
        }
    }

    /// Every row shows the link's state, so all of them change with it.
    pub(super) fn show_all(&mut self) {
        (self.schedule.needs_advance, self.published.is_server_stale) = (true, true);
        self.tasks
            .values_mut()
            .for_each(|active| active.saving.is_shown_stale = true);
    }
}

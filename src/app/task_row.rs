//! A task as the screen keeps it: its snapshot, pace and arguments.

use std::sync::Arc;

use crate::domain::{
    Connectivity, ControlKind, IfCut, Mono, Pace, Stamp, Status, TaskView, Wall, text,
};

/// The three groups of the list, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Needs the user's attention.
    NeedsYou,
    /// Running or paused.
    Running,
    /// Ended, and completed or seen by the user.
    Finished,
}

/// A task on the screen.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// Its newest snapshot.
    pub view: Arc<TaskView>,
    /// Rate and time left.
    pub pace: Pace,
    /// Its arguments as short text, to tell tasks of the same name apart.
    pub arguments: Vec<(String, String)>,
    /// When the kind of connectivity last changed.
    pub connectivity_since: Wall,
    /// When the notice about it last changed.
    pub notice_since: Wall,
    /// The group that it is listed in. It moves to [`TaskRow::group`] once the user has seen the change.
    pub listed_group: Group,
    /// Whether the user has seen how it ended.
    pub is_seen: bool,
    /// When it ended, if it did so while this program was running.
    pub settled_at: Option<Mono>,
}

/// The group of a task.
pub(super) fn group_of(view: &TaskView, is_seen: bool) -> Group {
    let needs_login = matches!(view.contact, Connectivity::NeedsLogin);
    match &view.task.status {
        status if status.needs_you(is_seen) => Group::NeedsYou,
        status if status.is_settled() => Group::Finished,
        _ if needs_login => Group::NeedsYou,
        _ => Group::Running,
    }
}

impl TaskRow {
    /// Whether it runs and is connected, with no pause or server task that a resume could act on.
    pub(super) fn runs_undisturbed(&self) -> bool {
        let task = &self.view.task;
        let is_idle = task.control.is_none() && task.server_task.is_none();
        let is_live = matches!(self.view.contact, Connectivity::Live { .. });
        task.status == Status::Running && is_idle && is_live
    }

    pub(super) fn new(view: Arc<TaskView>, now: Stamp) -> Self {
        let arguments = short_arguments(&view.task.arguments);
        let is_seen = view.task.end.is_seen;
        let mut task_row = Self {
            pace: Pace::default(),
            arguments,
            connectivity_since: now.wall,
            notice_since: view.task.updated_at,
            listed_group: Group::Running,
            is_seen,
            settled_at: None,
            view,
        };
        if let Some(progress) = &task_row.view.task.progress
            && task_row.is_streaming()
        {
            task_row.pace.step(now, progress.value);
        }
        if !task_row.is_streaming() {
            task_row.pace.restart(now);
        }
        task_row.listed_group = task_row.group();
        task_row
    }

    /// Applies a newer snapshot.
    pub(super) fn update(&mut self, view: Arc<TaskView>, now: Stamp) {
        let (before, after) = (Arc::clone(&self.view), &view);
        if before.contact.label() != after.contact.label() {
            self.connectivity_since = match &after.contact {
                Connectivity::Offline { since, .. } => *since,
                _ => now.wall,
            };
        }
        if !before.task.status.is_settled() && after.task.status.is_settled() {
            self.settled_at = Some(now.mono);
        }
        if !after.task.status.is_settled() {
            // An unknown task may run again after a resume; its end is new again then.
            self.is_seen = false;
            self.settled_at = None;
        }
        if before.task.notice != after.task.notice {
            self.notice_since = now.wall;
        }
        if before.task.arguments != after.task.arguments {
            self.arguments = short_arguments(&after.task.arguments);
        }
        self.is_seen |= after.task.end.is_seen;
        let was_moving = self.is_streaming();
        self.view = view;
        let (before, after) = (&before.task, &self.view.task);
        let number = |task: &crate::domain::Task| task.attempt().map(|attempt| attempt.number);
        let is_another = number(before).is_some() && number(before) != number(after);
        if !self.is_streaming() || !was_moving || is_another {
            self.pace.restart(now);
        }
        if let Some(progress) = &self.view.task.progress
            && self.is_streaming()
        {
            self.pace.step(now, progress.value);
        }
    }

    /// Whether it is running and connected, so that its progress arrives live.
    fn is_streaming(&self) -> bool {
        let control = self.view.task.control;
        let is_resuming = control.is_some_and(|asked| asked.what == ControlKind::Resuming);
        let contact = &self.view.contact;
        let is_current = contact.is_connected() || *contact == Connectivity::Idle;
        self.is_running() && !is_resuming && is_current
    }

    /// The group that its status calls for.
    pub fn group(&self) -> Group {
        group_of(&self.view, self.is_seen)
    }

    /// What a cut would do to it; `None` if it has ended or its status is unknown.
    pub fn if_cut(&self) -> Option<&IfCut> {
        let status = &self.view.task.status;
        let is_open = !status.is_settled() && !matches!(status, Status::Unknown(_));
        self.view.if_cut.as_ref().filter(|_| is_open)
    }

    /// Whether it ended and the user has not seen that yet.
    pub fn ended_unseen(&self) -> bool {
        self.view.task.status.is_settled() && !self.is_seen
    }

    /// Whether its status is `Running`.
    pub fn is_running(&self) -> bool {
        matches!(self.view.task.status, Status::Running)
    }

    /// Whether it runs and its stream is open, so that its bar moves.
    pub fn is_moving(&self) -> bool {
        self.is_running() && self.view.contact.is_connected()
    }
}

/// The scalar arguments as short text, in their order.
pub(super) fn short_arguments(json: &str) -> Vec<(String, String)> {
    // Larger arguments don't help to tell tasks apart.
    const MAX_BYTES: usize = 16 * 1024;
    if json.len() > MAX_BYTES {
        return Vec::new();
    }
    let parsed: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(json).unwrap_or_default();
    let mut short: Vec<_> = parsed
        .iter()
        .filter(|(key, _)| *key != "client_id")
        .filter_map(|(key, value)| {
            let short = match value {
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Number(_) | serde_json::Value::Bool(_) => value.to_string(),
                _ => return None,
            };
            let line = text::truncate(&text::clean_line(&short), 60).into_owned();
            Some((text::clean_line(key).into_owned(), line))
        })
        .take(16)
        .collect();
    // One per task stays in memory.
    short.shrink_to_fit();
    short
}

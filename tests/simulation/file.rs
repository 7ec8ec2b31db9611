//! The session file as a model, and what has to be true of it after every transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use longhaul::domain::{
    HistoryEntry, HistoryEvent, LinkRecord, LostReason, Phase, Progress, ProtocolVersion, Row,
    Status, Task, TaskErrorKind, TaskId, UnknownReason,
};
use serde_json::Value;

use super::{
    server::{Convention, OnCancel, OnGet, Replay, Server, What},
    tasks::Speaks,
    world::Plan,
};

type Plans = BTreeMap<TaskId, Plan>;

#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    pub(crate) history: BTreeMap<TaskId, BTreeMap<u64, HistoryEntry>>,
    pub(crate) results: BTreeMap<TaskId, String>,
    pub(crate) link: Option<LinkRecord>,
    /// Up to which event each attempt was compared with what the server sent.
    compared: HashMap<String, u64>,
    statuses: HashMap<TaskId, Status>,
    /// Events of answered calls that the server let fall and still had, and how many of them never came.
    pub(crate) fallen: (u64, u64),
}

impl File {
    /// One transaction; returns the tasks that it changed.
    pub(crate) fn write(&mut self, rows: Vec<Row>) -> Result<Vec<TaskId>, String> {
        let mut changed = Vec::new();
        for row in rows {
            match row {
                Row::Task(task) => {
                    changed.push(task.id.clone());
                    self.tasks.insert(task.id.clone(), *task);
                }
                Row::History { task, entries } => {
                    let all = self.history.entry(task.clone()).or_default();
                    for entry in entries {
                        if let Some(old) = all.get(&entry.seq)
                            && *old != entry
                        {
                            return Err(format!(
                                "{task}: seq {} was {old:?} and became {entry:?}",
                                entry.seq
                            ));
                        }
                        all.insert(entry.seq, entry);
                    }
                }
                Row::Result { task, json } => {
                    if self.results.get(&task).is_some_and(|old| *old != json) {
                        return Err(format!("{task} has two results"));
                    }
                    self.results.insert(task, json);
                }
                Row::Link(link) => self.link = Some(*link),
                Row::Erase(id) => {
                    self.tasks.remove(&id);
                    self.history.remove(&id);
                    self.results.remove(&id);
                }
            }
        }
        changed.sort();
        changed.dedup();
        Ok(changed)
    }

    /// What must hold whenever a task is written.
    pub(crate) fn check(
        &mut self,
        id: &TaskId,
        server: &Server,
        plans: &Plans,
    ) -> Result<(), String> {
        let Some(task) = self.tasks.get(id) else {
            return Ok(());
        };
        let none = BTreeMap::new();
        let history = self.history.get(id).unwrap_or(&none);
        let count = u64::try_from(history.len()).unwrap_or(0);
        if count != task.seq || history.keys().next_back().copied().unwrap_or(0) != count {
            return Err(format!(
                "{id}: the record says seq {}, the history holds {count}",
                task.seq
            ));
        }
        compare(task, history, server, &mut self.compared)?;
        let before = self.statuses.insert(id.clone(), task.status.clone());
        if before.as_ref() != Some(&task.status) {
            truth(task, self.results.get(id), server, plans)?;
        }
        Ok(())
    }

    /// What must hold of a task in the end.
    pub(crate) fn judge(
        &mut self,
        id: &TaskId,
        server: &Server,
        plans: &Plans,
    ) -> Result<(), String> {
        let (Some(task), Some(history), Some(plan)) =
            (self.tasks.get(id), self.history.get(id), plans.get(id))
        else {
            return Ok(());
        };
        let mut ids = BTreeSet::new();
        for entry in history.values() {
            if let Some(event_id) = &entry.event_id
                && !ids.insert(event_id)
            {
                return Err(format!("{id}: event {event_id} is in the history twice"));
            }
        }
        let mut started = BTreeSet::new();
        for entry in history.values() {
            let is_start = matches!(entry.what, HistoryEvent::Started { .. });
            if is_start && !started.insert(entry.attempt) {
                return Err(format!("{id}: attempt {} started twice", entry.attempt));
            }
        }
        let mut asked = BTreeSet::new();
        for entry in history.values() {
            if let HistoryEvent::InputRequired { key, .. } = &entry.what
                && !asked.insert((entry.attempt, key))
            {
                return Err(format!("{id}: {key} is asked twice in the history"));
            }
        }
        let mut last: HashMap<u32, f64> = HashMap::new();
        for entry in history.values() {
            if let HistoryEvent::Progress(Progress { value, .. }) = entry.what {
                if last.get(&entry.attempt).is_some_and(|last| *last >= value) {
                    return Err(format!("{id}: step {value} after {last:?}"));
                }
                last.insert(entry.attempt, value);
            }
        }
        let settled = history
            .values()
            .filter(|entry| matches!(entry.what, HistoryEvent::Settled { .. }))
            .count();
        if settled != usize::from(task.status.is_settled()) {
            return Err(format!(
                "{id}: {settled} settled lines for {}",
                task.status.label()
            ));
        }
        if task.status == Status::Completed && !plan.is_checkpoint && !server.style.crosses {
            return all_there(task, history, server, &mut self.fallen);
        }
        Ok(())
    }
}

/// Compares what is on disk up to the saved cursor with what the server sent up to it.
#[expect(clippy::float_cmp, reason = "steps are whole numbers")]
fn compare(
    task: &Task,
    history: &BTreeMap<u64, HistoryEntry>,
    server: &Server,
    compared: &mut HashMap<String, u64>,
) -> Result<(), String> {
    let Some(attempt) = task.attempts.last() else {
        return Ok(());
    };
    let Some(cursor) = attempt
        .cursors
        .data
        .as_ref()
        .and_then(|id| server.order_of(id))
    else {
        return Ok(());
    };
    let Some(stream) = server.stream_of(&attempt.request_id) else {
        return Ok(());
    };
    let seen = compared.entry(attempt.request_id.clone()).or_default();
    for event in stream
        .events
        .iter()
        .filter(|event| event.order > *seen && event.order <= cursor && !event.is_dropped)
    {
        let is_there = match &event.what {
            What::Prime => true,
            What::Progress(step) => {
                attempt.last_value.is_some_and(|last| last >= *step)
                    && history.values().any(|entry| match &entry.what {
                        // What the list told is not told again; where it left is told once.
                        HistoryEvent::Progress(Progress { value, .. }) => {
                            value == step || entry.event_id.is_none() && value >= step
                        }
                        _ => false,
                    })
            }
            What::Log(_) => history.values().any(|entry| entry.event_id == event.id),
            What::Ask(_) if server.style.crosses => true,
            What::Ask(number) => history.values().any(|entry| {
                matches!(&entry.what, HistoryEvent::InputRequired { key, .. } if key.ends_with(&format!(".{number}")))
            }),
            What::Response => attempt.phase == Phase::Ended,
        };
        if !is_there {
            return Err(format!(
                "{}: the saved cursor is past {:?}, which is not in the file",
                task.id, event
            ));
        }
    }
    *seen = (*seen).max(cursor);
    Ok(())
}

/// Whether a status that was just saved is the truth.
fn truth(
    task: &Task,
    result: Option<&String>,
    server: &Server,
    plans: &Plans,
) -> Result<(), String> {
    let (id, Some(plan), Some(attempt)) = (&task.id, plans.get(&task.id), task.attempts.last())
    else {
        return Ok(());
    };
    let cursors = &attempt.cursors;
    let wrong = |words: &str| {
        Err(format!(
            "{id} is {} ({:?}), but {words}",
            task.status.label(),
            task.status.reason()
        ))
    };
    let in_reach = server.task_in_reach(&plan.key);
    let has_id = task.server_task.is_some();
    match &task.status {
        Status::Lost(reason) if in_reach.is_some() && *reason != LostReason::GivenUp => {
            return wrong("the server still has its task");
        }
        Status::Failed
            if has_id
                && in_reach.is_some_and(|job| !job.is_over() || job.state == "completed")
                && task.end.error.as_ref().is_some_and(|error| {
                    !matches!(error.kind, TaskErrorKind::Tool | TaskErrorKind::TimedOut)
                }) =>
        {
            return wrong("its task has not failed");
        }
        Status::Cancelled if has_id && in_reach.is_some_and(|job| !job.is_over()) => {
            return wrong("its task goes on");
        }
        _ => {}
    }
    let is_modern = attempt.version == Some(ProtocolVersion::V20260728);
    match &task.status {
        Status::Completed => {
            let Some(result) = result else {
                return wrong("no result is saved");
            };
            let value: Value = serde_json::from_str(result).unwrap_or_default();
            let text = value["content"][0]["text"].as_str().unwrap_or_default();
            if plan.is_checkpoint {
                let checkpoint = server.checkpoint_of(&plan.key);
                let total = plan.steps * 2 + 4;
                if checkpoint.is_none_or(|checkpoint| checkpoint.rows != total)
                    || !text.contains("completed")
                {
                    return wrong(&format!(
                        "there are {:?} rows of {total}",
                        checkpoint.map(|c| c.rows)
                    ));
                }
            } else if text != format!("result {}", plan.key) {
                return wrong(&format!("the result is {text:?}"));
            }
        }
        Status::Lost(LostReason::SessionGone { .. }) => {
            let session = server
                .stream_of(&attempt.request_id)
                .and_then(|of| of.session.clone());
            // A server that speaks only the newer revision now continues nothing, even if it never had sessions.
            if server.stream_of(&attempt.request_id).is_some()
                && server.knows(session.as_ref())
                && server.task_host.speaks() != Speaks::Modern
            {
                return wrong("the session is alive");
            }
        }
        // Its sessions let it be resumed, so nobody had to make the call where a cut cancels it.
        Status::Lost(LostReason::CancelledByDisconnect { .. })
            if task.tool == "steps"
                && server.task_host.has_task_tool()
                && server.style.gives_ids
                && server.style.has_session =>
        {
            return wrong("its server has sessions and event ids");
        }
        Status::Lost(LostReason::ReplayGone { .. })
            if server.can_deliver(
                &attempt.request_id,
                cursors.data.as_ref().or(cursors.first.as_ref()),
            ) =>
        {
            return wrong("the server would still deliver it");
        }
        Status::Unknown(window) => {
            let is_json = server
                .stream_of(&attempt.request_id)
                .is_some_and(|of| of.events.is_empty());
            let is_right = match window {
                UnknownReason::BeforeFirstId => cursors.newest.is_none(),
                UnknownReason::NoIds => {
                    cursors.newest.is_none() && (!server.style.gives_ids || is_json)
                }
                UnknownReason::NoReplay => {
                    server.style.on_get == OnGet::NotAllowed
                        || !server.style.has_session
                        || server.task_host.is_new
                }
                UnknownReason::BeforeTaskId => {
                    is_modern && server.task_host.behavior.may_make_tasks()
                }
                // Nobody can know what a page in place of the response means.
                UnknownReason::HttpStatus(_) | UnknownReason::NotMcp(_) => {
                    let id = Value::from(attempt.request_id.as_str()).to_string();
                    server.intercepted_ids.contains(&id)
                }
                UnknownReason::BadResponse { .. } => false,
                UnknownReason::NoCheckpoint => {
                    server.checkpoint_of(&plan.key).is_none_or(|c| c.rows == 0)
                }
            };
            if !is_right {
                return wrong("that is not its window");
            }
        }
        // Closing its stream cancels a modern call, as soon as the server sees that.
        // A server that ignores a cancel and is silent looks like one that has stopped, as the specification wants it.
        Status::Cancelled
            if server.is_working(&plan.key)
                && !is_modern
                && !(task.end.is_unconfirmed && server.style.on_cancel == OnCancel::Ignores) =>
        {
            return wrong("it works on");
        }
        Status::Paused => {
            let moves = |checkpoint: &super::server::Checkpoint| {
                let is_good = server.style.convention == Some(Convention::Good);
                checkpoint
                    .loops
                    .iter()
                    .any(|l| is_good || server.now.saturating_sub(l.moved) < 4000)
            };
            if server.checkpoint_of(&plan.key).is_some_and(moves) {
                return wrong("it moves");
            }
        }
        Status::Failed => {
            let kind = task.end.error.as_ref().map(|error| error.kind);
            let is_tool = kind == Some(TaskErrorKind::Tool);
            let is_late = kind == Some(TaskErrorKind::TimedOut);
            let may_fail = plan.fails || server.task_host.vain.contains(&plan.key);
            if is_tool && !may_fail || is_late && !plan.has_limit {
                return wrong("nothing of it failed like that");
            }
        }
        _ => {}
    }
    Ok(())
}

/// A plain call that was answered has everything in its history that the server did not let fall itself.
#[expect(clippy::float_cmp, reason = "steps are whole numbers")]
fn all_there(
    task: &Task,
    history: &BTreeMap<u64, HistoryEntry>,
    server: &Server,
    fallen: &mut (u64, u64),
) -> Result<(), String> {
    let Some(stream) = task
        .attempts
        .last()
        .and_then(|attempt| server.stream_of(&attempt.request_id))
    else {
        return Ok(());
    };
    // A store that drops its oldest events leaves gaps, which are the server's.
    if server.style.keeps != usize::MAX {
        return Ok(());
    }
    let may_fall = server.style.replay == Replay::Loses;
    for event in &stream.events {
        let is_there = match &event.what {
            What::Progress(step) => history.values().any(
                |entry| matches!(&entry.what, HistoryEvent::Progress(Progress { value, .. }) if value == step),
            ),
            What::Log(_) if event.id.is_some() => {
                history.values().any(|entry| entry.event_id == event.id)
            }
            _ => true,
        };
        if may_fall && event.is_dropped {
            let can_bring = !server.style.conflicts && !server.style.forgets_done;
            fallen.0 += u64::from(can_bring);
            fallen.1 += u64::from(can_bring && !is_there);
        } else if !is_there {
            return Err(format!(
                "{}: {:?} was sent and is not in the history",
                task.id, event.what
            ));
        }
    }
    Ok(())
}

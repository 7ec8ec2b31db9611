//! Newest-value slots between the engine and its readers: memory stays constant however slow a reader is.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
};

use tokio::sync::Notify;

use crate::domain::{
    NoticeLevel, ServerName, ServerView, SessionEvent, SessionOutcome, SessionRequestId, TaskId,
    TaskView, Wall, locked,
};

/// Events kept for a reader that does not read; the oldest ones are dropped, but no responses and no slots.
const EVENTS_KEPT: usize = 4096;

/// The settled tasks whose snapshots stay in memory; the session file has all of them. After a start there are as many.
const SETTLED_KEPT: usize = 1000;

/// Drops the snapshots of the tasks that settled first, except those that a reader has not taken, and those whose results
/// an agent may still collect: proxies look only here.
fn drop_oldest(tasks: &mut BTreeMap<TaskId, Arc<TaskView>>, readers: &BTreeMap<ReaderId, Reader>) {
    let mut settled: Vec<(Wall, TaskId)> = tasks
        .values()
        .filter(|view| {
            let caller = view.task.caller.as_ref();
            caller.is_none_or(|caller| caller.delivered_at.is_some())
        })
        .filter_map(|view| Some((view.task.end.settled_at?, view.task.id.clone())))
        .filter(|(_, id)| !readers.values().any(|reader| reader.tasks.contains(id)))
        .collect();
    settled.sort_unstable();
    let count = settled.len().saturating_sub(SETTLED_KEPT);
    for (_, id) in settled.into_iter().take(count) {
        tasks.remove(&id);
    }
}

/// The id of a reader.
pub(super) type ReaderId = u64;

/// The newest snapshot of everything, with marks for what each reader has not seen.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    tasks: BTreeMap<TaskId, Arc<TaskView>>,
    servers: BTreeMap<ServerName, Arc<ServerView>>,
    standing: Option<SessionEvent>,
    /// Notices from before the first reader, which gets them.
    early: VecDeque<SessionEvent>,
    readers: BTreeMap<ReaderId, Reader>,
    next_reader: ReaderId,
    /// The number of snapshots from which on the oldest ones are dropped.
    thin_at: usize,
}

#[derive(Debug, Default)]
struct Reader {
    tasks: BTreeSet<TaskId>,
    servers: BTreeSet<ServerName>,
    events: VecDeque<SessionEvent>,
    wake: Arc<Notify>,
    /// The tasks whose snapshots it gets, if not all; it is not woken by others.
    wanted: Option<BTreeSet<TaskId>>,
}

impl Snapshots {
    /// Adds a reader that has seen nothing.
    pub(super) fn subscribe(self: &Arc<Self>) -> Subscription {
        let mut inner = locked(&self.inner);
        let id = inner.next_reader;
        inner.next_reader += 1;
        let mut events = std::mem::take(&mut inner.early);
        events.extend(inner.standing.clone());
        let reader = Reader {
            tasks: inner.tasks.keys().cloned().collect(),
            servers: inner.servers.keys().cloned().collect(),
            events,
            ..Reader::default()
        };
        let wake = Arc::clone(&reader.wake);
        wake.notify_one();
        inner.readers.insert(id, reader);
        drop(inner);
        Subscription {
            snapshots: Arc::clone(self),
            id,
            wake,
        }
    }

    /// Publishes a message for the user.
    pub(super) fn notice(&self, at: Wall, level: NoticeLevel, text: impl Into<String>) {
        self.publish(SessionEvent::notice(at, level, text));
    }

    /// Puts an event in its slot, or in every reader's queue.
    pub(super) fn publish(&self, news: SessionEvent) {
        let mut inner = locked(&self.inner);
        let Inner {
            tasks,
            servers,
            standing,
            early,
            readers,
            next_reader,
            thin_at,
        } = &mut *inner;
        for reader in readers.values_mut() {
            match &news {
                SessionEvent::Task(view) if !reader.wants(&view.task.id) => continue,
                SessionEvent::Server(_) if reader.wanted.is_some() => continue,
                SessionEvent::Task(view) => {
                    // In case it is back: events come after snapshots, so the reader would assume that it is gone.
                    if !tasks.contains_key(&view.task.id) {
                        let is_gone = |event: &SessionEvent| matches!(event, SessionEvent::Erased(id) if *id == view.task.id);
                        reader.events.retain(|event| !is_gone(event));
                    }
                    reader.tasks.insert(view.task.id.clone());
                }
                SessionEvent::Server(view) => {
                    reader.servers.insert(view.name.clone());
                }
                other => reader.push(other.clone()),
            }
            reader.wake.notify_one();
        }
        match news {
            SessionEvent::Task(view) => {
                tasks.insert(view.task.id.clone(), view);
                if tasks.len() >= *thin_at {
                    drop_oldest(tasks, readers);
                    *thin_at = tasks.len() + SETTLED_KEPT;
                }
            }
            SessionEvent::Server(view) => {
                servers.insert(view.name.clone(), view);
            }
            SessionEvent::Erased(id) => {
                tasks.remove(&id);
                for reader in readers.values_mut() {
                    reader.tasks.remove(&id);
                }
            }
            SessionEvent::Driver(_) | SessionEvent::Undriven | SessionEvent::Failed { .. } => {
                *standing = Some(news);
            }
            // A keeper's own reader, which wants no snapshots, shows nothing to anybody.
            SessionEvent::Notice(_)
                if early.len() < EVENTS_KEPT
                    && (standing.is_none() || *next_reader == 0)
                    && readers.values().all(|reader| reader.wanted.is_some()) =>
            {
                early.push_back(news);
            }
            SessionEvent::Response { .. }
            | SessionEvent::Notice(_)
            | SessionEvent::Notification { .. }
            | SessionEvent::RootsWanted { .. } => {}
        }
    }

    /// Waits until every reader has taken its events.
    pub(super) async fn are_read(&self) {
        let is_unread = |reader: &Reader| !reader.events.is_empty();
        while locked(&self.inner).readers.values().any(is_unread) {
            tokio::task::yield_now().await;
        }
    }

    /// Responds to a reader's request.
    pub(super) fn answer(
        &self,
        reader: ReaderId,
        request: SessionRequestId,
        outcome: SessionOutcome,
    ) {
        self.tell(reader, SessionEvent::Response { request, outcome });
    }

    /// Puts an event in one reader's queue.
    pub(super) fn tell(&self, reader: ReaderId, news: SessionEvent) {
        if let Some(reader) = locked(&self.inner).readers.get_mut(&reader) {
            reader.push(news);
            reader.wake.notify_one();
        }
    }

    /// From now on a reader gets only the snapshots of the tasks that it follows.
    pub(super) fn only_followed(&self, reader: ReaderId) {
        let mut inner = locked(&self.inner);
        let Inner { early, readers, .. } = &mut *inner;
        if let Some(reader) = readers.get_mut(&reader)
            && reader.wanted.is_none()
        {
            reader.wanted = Some(BTreeSet::new());
            reader.tasks.clear();
            reader.servers.clear();
            let is_notice = |event: &SessionEvent| matches!(event, SessionEvent::Notice(_));
            let (notices, rest) = std::mem::take(&mut reader.events)
                .into_iter()
                .partition(is_notice);
            (*early, reader.events) = (notices, rest);
        }
    }

    /// Gives a reader the newest snapshot of a task, and all later ones.
    pub(super) fn follow(&self, reader: ReaderId, id: &TaskId) {
        let mut inner = locked(&self.inner);
        let Inner { tasks, readers, .. } = &mut *inner;
        let Some(reader) = readers.get_mut(&reader) else {
            return;
        };
        if let Some(wanted) = &mut reader.wanted {
            wanted.insert(id.clone());
        }
        if tasks.contains_key(id) {
            reader.tasks.insert(id.clone());
            reader.wake.notify_one();
        }
    }

    /// A reader has what it followed a task for.
    pub(super) fn unfollow(&self, reader: ReaderId, id: &TaskId) {
        if let Some(reader) = locked(&self.inner).readers.get_mut(&reader)
            && let Some(wanted) = &mut reader.wanted
        {
            wanted.remove(id);
        }
    }

    /// The readers that follow this task and not all of them.
    pub(super) fn followers(&self, id: &TaskId) -> Vec<ReaderId> {
        let inner = locked(&self.inner);
        let follows = |reader: &Reader| {
            reader
                .wanted
                .as_ref()
                .is_some_and(|tasks| tasks.contains(id))
        };
        let followers = inner.readers.iter().filter(|(_, reader)| follows(reader));
        followers.map(|(number, _)| *number).collect()
    }

    /// The readers that are still subscribed.
    pub(super) fn readers(&self) -> BTreeSet<ReaderId> {
        locked(&self.inner).readers.keys().copied().collect()
    }

    /// Whether a reader is still subscribed.
    pub(super) fn has(&self, reader: ReaderId) -> bool {
        locked(&self.inner).readers.contains_key(&reader)
    }

    /// The newest snapshot of a task.
    pub(super) fn task(&self, id: &TaskId) -> Option<Arc<TaskView>> {
        locked(&self.inner).tasks.get(id).cloned()
    }

    /// The newest snapshot of every task.
    pub(super) fn tasks(&self) -> Vec<Arc<TaskView>> {
        locked(&self.inner).tasks.values().cloned().collect()
    }
}

impl Reader {
    fn wants(&self, task: &TaskId) -> bool {
        self.wanted
            .as_ref()
            .is_none_or(|tasks| tasks.contains(task))
    }

    fn push(&mut self, news: SessionEvent) {
        // A requester waits for each response.
        let may_go = |event: &SessionEvent| !matches!(event, SessionEvent::Response { .. });
        if self.events.len() >= EVENTS_KEPT
            && let Some(oldest) = self.events.iter().position(may_go)
        {
            self.events.remove(oldest);
        }
        self.events.push_back(news);
    }
}

/// One reader's view of the snapshots.
#[derive(Debug)]
pub struct Subscription {
    snapshots: Arc<Snapshots>,
    pub(super) id: ReaderId,
    wake: Arc<Notify>,
}

impl Subscription {
    /// Waits until there is something new for this reader.
    pub async fn changed(&self) {
        self.wake.notified().await;
    }

    /// From now on there are no snapshots for this reader, only the other events.
    pub fn ignore_views(&self) {
        self.snapshots.only_followed(self.id);
    }

    /// Forgets a snapshot that nobody in this process needs any more.
    pub fn forget(&self, id: &TaskId) {
        locked(&self.snapshots.inner).tasks.remove(id);
    }

    /// Everything unseen: the newest snapshot of each changed server and task, then the events, in order.
    pub fn take(&self) -> Vec<SessionEvent> {
        let mut inner = locked(&self.snapshots.inner);
        let Inner {
            tasks,
            servers,
            readers,
            ..
        } = &mut *inner;
        let Some(reader) = readers.get_mut(&self.id) else {
            return Vec::new();
        };
        // What a server notified of before a call ended comes before the end, and so do longhaul's own notices: a reader
        // may stop reading there.
        let goes_first = |event: &SessionEvent| {
            matches!(
                event,
                SessionEvent::Notification { .. } | SessionEvent::Notice(_)
            )
        };
        let (mut news, events): (Vec<_>, Vec<_>) = reader.events.drain(..).partition(goes_first);
        news.extend(
            std::mem::take(&mut reader.servers)
                .iter()
                .filter_map(|name| servers.get(name).cloned())
                .map(SessionEvent::Server),
        );
        news.extend(
            std::mem::take(&mut reader.tasks)
                .iter()
                .filter_map(|id| tasks.get(id).cloned())
                .map(SessionEvent::Task),
        );
        // Responses come last, so that a requester whose task has started finds its snapshot.
        news.extend(events);
        news
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        locked(&self.snapshots.inner).readers.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Caller, NewCall, Notice, NoticeLevel, Task, Wall};

    #[test]
    fn delivers_a_notice_before_the_end_of_a_call() {
        let snapshots = Arc::new(Snapshots::default());
        let reader = snapshots.subscribe();
        let call = NewCall::new(
            TaskId::from_bits(1),
            ServerName::new("lab"),
            "work".to_owned(),
            "{}".to_owned(),
        );
        let view = TaskView::unwatched(Task::new(Wall(1), call), None);
        snapshots.publish(SessionEvent::Task(Arc::new(view)));
        snapshots.notice(Wall(1), NoticeLevel::Warning, "not used");
        let is_notice: Vec<bool> = reader
            .take()
            .iter()
            .map(|event| matches!(event, SessionEvent::Notice(_)))
            .collect();
        assert_eq!(is_notice, [true, false]);
    }

    #[test]
    fn delivers_early_notices_to_the_first_reader() {
        let snapshots = Arc::new(Snapshots::default());
        let notice = SessionEvent::Notice(Notice {
            at: Wall(1),
            level: NoticeLevel::Warning,
            text: "the session file was damaged".to_owned(),
        });
        snapshots.publish(notice.clone());
        let of_keeper = snapshots.subscribe();
        of_keeper.ignore_views();
        assert_eq!(of_keeper.take(), Vec::new());
        let first = snapshots.subscribe();
        let second = snapshots.subscribe();
        assert_eq!((first.take(), second.take()), (vec![notice], Vec::new()));
    }

    #[test]
    fn the_oldest_settled_tasks_leave_memory() {
        let snapshots = Arc::new(Snapshots::default());
        let count = 3 * SETTLED_KEPT as u64;
        let id = TaskId::from_bits;
        for number in 1..=count {
            let server = ServerName::new("lab");
            let call = NewCall::new(id(number), server, "work".to_owned(), "{}".to_owned());
            let mut task = Task::new(Wall(1), call);
            // The first one never ends.
            task.end.settled_at = (number > 1).then(|| Wall(i64::try_from(number).unwrap()));
            // An agent has not collected the result of the second one.
            task.caller = (number == 2).then(|| Box::new(Caller::of_test()));
            let view = TaskView::unwatched(task, None);
            snapshots.publish(SessionEvent::Task(Arc::new(view)));
        }
        assert!(snapshots.tasks().len() <= 2 * SETTLED_KEPT + 2);
        let is_there = |number| snapshots.task(&id(number)).is_some();
        assert!(is_there(1) && is_there(2) && !is_there(3) && is_there(count));
    }

    #[test]
    fn a_task_that_is_back_is_not_reported_as_erased() {
        let snapshots = Arc::new(Snapshots::default());
        let reader = snapshots.subscribe();
        let id = TaskId::from_bits(1);
        let server = ServerName::new("lab");
        let call = NewCall::new(id.clone(), server, "work".to_owned(), "{}".to_owned());
        let view = Arc::new(TaskView::unwatched(Task::new(Wall(1), call), None));
        snapshots.publish(SessionEvent::Task(Arc::clone(&view)));
        snapshots.publish(SessionEvent::Erased(id.clone()));
        snapshots.publish(SessionEvent::Task(Arc::clone(&view)));
        assert_eq!(reader.take(), [SessionEvent::Task(view)]);
        snapshots.publish(SessionEvent::Erased(id.clone()));
        assert_eq!(reader.take(), [SessionEvent::Erased(id)]);
    }
}

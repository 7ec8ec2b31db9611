//! The clients that pass calls on for other programs (`longhaul proxy`): what they listen to and what they wait for.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use serde_json::{Value, json};

use crate::{
    domain::{
        Caller, Collected, Forwarded, HostProfile, Mono, NewCall, ServerName, SessionRequest,
        SessionRequestId, Task, TaskId, Wall, canonical_arguments,
    },
    engine::{
        options::LOOK_EVERY,
        snapshots::{ReaderId, Snapshots},
    },
    link::RootsRequest,
};

/// The most requests of one server for roots that wait for the hosts; more get no answer.
const ROOTS_REQUESTS: usize = 32;

/// The most roots of one host.
const ROOTS: usize = 1000;

/// How soon after its start a new driver hears from the proxies of the one before.
const BACK_WITHIN: Duration = LOOK_EVERY.saturating_mul(2);

/// What proxies listen to and wait for.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    /// The server of each proxy, and the host behind it.
    listeners: BTreeMap<ReaderId, (ServerName, HostProfile)>,
    /// The servers' requests for roots that hosts have not answered.
    roots: BTreeMap<u64, RootsAsked>,
    next_roots: u64,
    /// Who wants the result of each call.
    callers: BTreeMap<TaskId, Callers>,
    /// The earlier calls that calls repeat, by the ids that the tasks of these would have.
    repeated: BTreeMap<TaskId, TaskId>,
    /// The calls of proxies whose results nobody has collected.
    undelivered: BTreeSet<TaskId>,
    /// Until when the proxies of an earlier driver may come back, and say which results their hosts have.
    all_back_at: Mono,
    /// Repeated calls that wait for that, and what became of them: the host that made the first call may already have its
    /// result.
    held: Vec<(SessionRequestId, SessionRequest)>,
}

/// The proxies whose hosts made the same call and got one task for it.
#[derive(Debug, Default)]
struct Callers {
    /// Those that wait for its result, or have it without a sign that their hosts have read it.
    waiting: BTreeSet<ReaderId>,
    /// Those that stopped waiting without a result, for example with a ticket: their next equal call is a repeat.
    gave_up: BTreeSet<ReaderId>,
    /// How many of both have ended. The next equal calls of new proxies are most likely theirs.
    gone: usize,
}

impl Callers {
    fn has(&self, reader: ReaderId) -> bool {
        self.waiting.contains(&reader) || self.gave_up.contains(&reader)
    }

    /// Whether an equal call repeats this one. Otherwise it is meant to run beside it.
    fn may_repeat(&self, reader: ReaderId) -> bool {
        let is_first = !self.waiting.contains(&reader);
        self.waiting.is_empty() || self.gave_up.contains(&reader) || self.gone > 0 && is_first
    }

    /// A proxy comes, perhaps in place of one that has ended.
    fn join(&mut self, reader: ReaderId) {
        if !self.has(reader) {
            self.gone = self.gone.saturating_sub(1);
        }
    }

    fn remove(&mut self, reader: ReaderId) {
        self.waiting.remove(&reader);
        self.gave_up.remove(&reader);
    }

    fn forget_gone(&mut self, readers: &BTreeSet<ReaderId>) {
        let all = self.waiting.union(&self.gave_up);
        self.gone += all.filter(|reader| !readers.contains(reader)).count();
        self.waiting.retain(|reader| readers.contains(reader));
        self.gave_up.retain(|reader| readers.contains(reader));
    }
}

/// A request for roots that hosts answer.
#[derive(Debug)]
struct RootsAsked {
    server: ServerName,
    /// A server that asks again before it has an answer gets the same one.
    requests: Vec<RootsRequest>,
    /// The proxies whose hosts have not answered.
    waiting: BTreeSet<ReaderId>,
    roots: BTreeMap<ReaderId, Vec<Value>>,
    /// The error of a host, as the text of a JSON object.
    error: Option<String>,
}

/// The answer to requests for roots.
#[derive(Debug)]
pub(super) struct AnsweredRoots {
    pub(super) server: ServerName,
    pub(super) requests: Vec<RootsRequest>,
    /// The roots of all hosts, or the error of a host.
    pub(super) roots: Forwarded,
}

impl Proxies {
    /// Those of a driver that starts.
    pub(super) fn new(now: Mono) -> Self {
        Self {
            all_back_at: now.after(BACK_WITHIN),
            ..Self::default()
        }
    }

    /// Whether proxies of an earlier driver may not be back yet.
    pub(super) fn may_come_back(&self, now: Mono) -> bool {
        now < self.all_back_at
    }

    /// Holds a repeated call, or what became of one, until they are back.
    pub(super) fn hold(&mut self, number: SessionRequestId, request: SessionRequest) {
        self.held.push((number, request));
    }

    /// Whether the call that would get a task with this id is held.
    pub(super) fn holds(&self, id: &TaskId) -> bool {
        let is_it = |request: &SessionRequest| matches!(request, SessionRequest::Start(call) if call.id == *id);
        self.held.iter().any(|(_, request)| is_it(request))
    }

    /// When held calls are due.
    pub(super) fn held_until(&self) -> Option<Mono> {
        (!self.held.is_empty()).then_some(self.all_back_at)
    }

    /// The held calls that are due.
    pub(super) fn take_held(&mut self, now: Mono) -> Vec<(SessionRequestId, SessionRequest)> {
        if self.may_come_back(now) {
            return Vec::new();
        }
        std::mem::take(&mut self.held)
    }

    /// Notes the calls of a session that is opened.
    pub(super) fn restore<'t>(&mut self, tasks: impl Iterator<Item = &'t Task>) {
        let is_undelivered = |caller: &Caller| caller.delivered_at.is_none();
        let open = tasks.filter(|task| task.caller.as_deref().is_some_and(is_undelivered));
        self.undelivered.extend(open.map(|task| task.id.clone()));
    }

    /// A proxy made a call, and waits for the result of this task.
    pub(super) fn calls(&mut self, call: &TaskId, id: &TaskId, reader: ReaderId) {
        if call != id {
            self.repeated.insert(call.clone(), id.clone());
        }
        self.undelivered.insert(id.clone());
        let callers = self.callers.entry(id.clone()).or_default();
        callers.join(reader);
        callers.waiting.insert(reader);
        callers.gave_up.remove(&reader);
    }

    /// A proxy `waits` for the result of a task, or only follows it, because its host may still ask for the result. It may
    /// also be the task of another host.
    pub(super) fn follows(&mut self, task: &Task, reader: ReaderId, waits: bool) {
        // A host may ask for a result in a proxy of another server, which only says where it is.
        let is_its = |(server, host): &(ServerName, HostProfile)| {
            let caller = task.caller.as_deref();
            server.shares_entry(&task.server)
                && caller.is_some_and(|caller| {
                    // A proxy of an older version does not say its directory.
                    let directory = Some(&host.directory).filter(|it| !it.is_empty());
                    caller.is_host(&host.name, directory.unwrap_or(&caller.directory))
                })
        };
        let is_wanted = waits || self.undelivered.contains(&task.id);
        if !is_wanted || !self.listeners.get(&reader).is_some_and(is_its) {
            return;
        }
        let callers = self.callers.entry(task.id.clone()).or_default();
        callers.join(reader);
        if waits {
            callers.waiting.insert(reader);
        } else if !callers.waiting.contains(&reader) {
            callers.gave_up.insert(reader);
        }
    }

    /// The task of a call, which may be that of an earlier one. A proxy knows only the id that it proposed until it hears
    /// that the call was started.
    pub(super) fn task_of(&self, call: TaskId) -> TaskId {
        self.repeated.get(&call).cloned().unwrap_or(call)
    }

    /// A proxy stops its call. Returns whether others still wait for the result, or were promised it with a ticket.
    pub(super) fn leaves(&mut self, id: &TaskId, reader: ReaderId) -> bool {
        let Some(callers) = self.callers.get_mut(id) else {
            return false;
        };
        let mut others = callers.waiting.union(&callers.gave_up);
        let is_shared = others.any(|other| *other != reader);
        if is_shared {
            callers.remove(reader);
        }
        is_shared
    }

    /// A proxy reports what became of a call.
    pub(super) fn collected(&mut self, id: &TaskId, how: &Collected, from: Option<ReaderId>) {
        if *how == Collected::Delivered {
            self.undelivered.remove(id);
        }
        let (Some(callers), Some(from)) = (self.callers.get_mut(id), from) else {
            return;
        };
        match how {
            Collected::Delivered => {
                // The others were promised that their calls don't run again.
                callers.remove(from);
                callers.gone = 0;
            }
            Collected::GaveUp { .. } | Collected::PartlyRead => {
                callers.waiting.remove(&from);
                callers.gave_up.insert(from);
            }
            Collected::TimedOut { .. } | Collected::Repeated { .. } => {}
        }
    }

    /// Whether a proxy waits for a result.
    pub(super) fn are_waiting(&self) -> bool {
        let mut callers = self.callers.values();
        callers.any(|callers| !callers.waiting.is_empty())
    }

    /// A proxy passes the notifications of a server on to its host.
    pub(super) fn listens(&mut self, server: &ServerName, host: &HostProfile, reader: ReaderId) {
        let listener = (server.clone(), host.clone());
        self.listeners.insert(reader, listener);
    }

    /// The hosts that listen to a server.
    pub(super) fn hosts_of(&self, server: &ServerName) -> Vec<HostProfile> {
        let of_server = self.listeners.values().filter(|(name, _)| name == server);
        of_server.map(|(_, host)| host.clone()).collect()
    }

    /// The host behind a proxy.
    pub(super) fn host(&self, reader: ReaderId) -> Option<&HostProfile> {
        self.listeners.get(&reader).map(|(_, host)| host)
    }

    /// The servers of all proxies.
    pub(super) fn servers(&self) -> impl Iterator<Item = &ServerName> {
        self.listeners.values().map(|(server, _)| server)
    }

    /// A server asks for roots. Returns a number for the answers, and the proxies that are to give them.
    pub(super) fn ask_roots(
        &mut self,
        server: &ServerName,
        request: RootsRequest,
    ) -> (u64, Vec<ReaderId>) {
        let mut open = self.roots.iter_mut();
        if let Some((number, asked)) = open.find(|(_, asked)| asked.server == *server) {
            if asked.requests.len() < ROOTS_REQUESTS {
                asked.requests.push(request);
            }
            return (*number, Vec::new());
        }
        let has_roots =
            |(name, host): &(ServerName, HostProfile)| name == server && host.lists_roots();
        let listeners = self.listeners.iter().filter(|(_, it)| has_roots(it));
        let readers: Vec<ReaderId> = listeners.map(|(reader, _)| *reader).collect();
        self.next_roots += 1;
        let asked = RootsAsked {
            server: server.clone(),
            requests: vec![request],
            waiting: readers.iter().copied().collect(),
            roots: BTreeMap::new(),
            error: None,
        };
        self.roots.insert(self.next_roots, asked);
        (self.next_roots, readers)
    }

    /// A host has answered a request for roots.
    pub(super) fn got_roots(&mut self, number: u64, reader: ReaderId, roots: &Forwarded) {
        let Some(asked) = self.roots.get_mut(&number) else {
            return;
        };
        if asked.waiting.remove(&reader) {
            match roots {
                Forwarded::Result(roots) => {
                    let mut roots: Vec<Value> = serde_json::from_str(roots).unwrap_or_default();
                    roots.truncate(ROOTS);
                    asked.roots.insert(reader, roots);
                }
                Forwarded::Error(error) => asked.error = Some(error.clone()),
            }
        }
    }

    /// The requests for roots that all hosts have answered, with the roots, or an error if there are none.
    pub(super) fn take_answered_roots(&mut self) -> Vec<AnsweredRoots> {
        let (answered, open) = std::mem::take(&mut self.roots)
            .into_iter()
            .partition(|(_, asked)| asked.waiting.is_empty());
        self.roots = open;
        let answered: BTreeMap<u64, RootsAsked> = answered;
        let parts = |asked: RootsAsked| {
            let roots: Vec<Value> = asked.roots.values().flatten().unique().cloned().collect();
            AnsweredRoots {
                server: asked.server,
                requests: asked.requests,
                roots: match asked.error {
                    Some(error) if asked.roots.is_empty() => Forwarded::Error(error),
                    _ => Forwarded::Result(json!({ "roots": roots }).to_string()),
                },
            }
        };
        answered.into_values().map(parts).collect()
    }

    /// Forgets the proxies that have gone, and the tasks that no longer exist, or were refused; `holds` finds those that are
    /// not published yet.
    pub(super) fn forget_gone(&mut self, snapshots: &Snapshots, holds: impl Fn(&TaskId) -> bool) {
        let readers = snapshots.readers();
        self.listeners.retain(|reader, _| readers.contains(reader));
        let exists = |id: &TaskId| snapshots.task(id).is_some() || holds(id);
        self.undelivered.retain(&exists);
        let undelivered = &self.undelivered;
        self.callers.retain(|id, callers| {
            callers.forget_gone(&readers);
            let is_used = !callers.waiting.is_empty() || !callers.gave_up.is_empty();
            exists(id) && is_used || callers.gone > 0 && undelivered.contains(id)
        });
        self.repeated.retain(|_, id| undelivered.contains(id));
        for asked in self.roots.values_mut() {
            asked.waiting.retain(|reader| readers.contains(reader));
        }
    }

    /// The proxies that wait for a call or follow it.
    pub(super) fn waiting_for(&self, task: &TaskId, snapshots: &Snapshots) -> Vec<ReaderId> {
        let waiting = self.callers.get(task).map(|callers| &callers.waiting);
        waiting.filter(|readers| !readers.is_empty()).map_or_else(
            || snapshots.followers(task),
            |readers| readers.iter().copied().collect(),
        )
    }

    /// The proxies that listen to a server.
    pub(super) fn listening_to(&self, server: &ServerName) -> Vec<ReaderId> {
        let listeners = self.listeners.iter();
        let listeners = listeners.filter(|(_, (name, _))| name == server);
        listeners.map(|(reader, _)| *reader).collect()
    }

    /// The call that this one repeats: the same host asked the same before, gave up, and never got the result. `held` finds
    /// a task that was started a moment ago and is not published yet.
    pub(super) fn earlier<'l>(
        &self,
        call: &NewCall,
        reader: ReaderId,
        snapshots: &Snapshots,
        held: impl Fn(&TaskId) -> Option<&'l Task>,
        now: Wall,
    ) -> Option<TaskId> {
        let caller = call.caller.as_deref()?;
        let arguments = canonical_arguments(&call.arguments);
        let is_same = |task: &Task| {
            let is_host = |other: &Caller| {
                let is_late = other.is_late(task.end.settled_at, now);
                caller.is_host(&other.host, &other.directory) && !is_late
            };
            task.server.shares_entry(&call.server)
                && task.tool == call.tool
                && task.caller.as_deref().is_some_and(is_host)
                && task.forgotten_at.is_none()
                && canonical_arguments(&task.arguments) == arguments
        };
        let may_repeat = |id: &&TaskId| {
            let callers = self.callers.get(*id);
            let is_free = callers.is_none_or(|callers| callers.may_repeat(reader));
            is_free && !call.has_read.contains(id)
        };
        let gave_up = |callers: &Callers| callers.gave_up.contains(&reader);
        // Another session may have got the result since this one gave up.
        let own = self.callers.iter().filter(|(_, it)| gave_up(it));
        let own = own.map(|(id, _)| id);
        let candidates = self.undelivered.iter().chain(own).filter(may_repeat);
        let same = candidates.filter_map(|id| {
            let shown = snapshots.task(id);
            let task = shown.as_ref().map(|view| &view.task).or_else(|| held(id))?;
            (is_same(task) && !task.was_cancelled()).then_some((task.created_at, id))
        });
        same.max_by_key(|(created, _)| *created)
            .map(|(_, id)| id.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        domain::{SessionEvent, Status, TaskView},
        engine::snapshots::Subscription,
    };

    fn call(number: u64) -> NewCall {
        let mut call = NewCall::new(
            TaskId::from_bits(number),
            ServerName::new("lab"),
            "work".to_owned(),
            "{}".to_owned(),
        );
        call.caller = Some(Box::new(Caller::of_test()));
        call
    }

    /// Two proxies of one host, and the task of the first one's call.
    fn shared_call() -> (Proxies, Arc<Snapshots>, [Subscription; 2], Task) {
        let task = Task::new(Wall(0), call(1));
        let (mut proxies, snapshots) = (Proxies::default(), Arc::<Snapshots>::default());
        let readers = [snapshots.subscribe(), snapshots.subscribe()];
        let host = HostProfile {
            directory: Caller::of_test().directory,
            ..Caller::of_test().profile()
        };
        for reader in &readers {
            proxies.listens(&task.server, &host, reader.id);
        }
        proxies.calls(&task.id, &task.id, 0);
        publish(&snapshots, &task);
        (proxies, snapshots, readers, task)
    }

    fn publish(snapshots: &Snapshots, task: &Task) {
        let view = TaskView::unwatched(task.clone(), None);
        snapshots.publish(SessionEvent::Task(Arc::new(view)));
    }

    #[test]
    fn a_foreign_host_that_asks_for_a_call_is_not_one_of_its_callers() {
        for (server, directory, is_shared) in [
            ("lab", "/elsewhere", false),
            ("docs", "/home/ada/app/", false),
            ("lab", "/home/ada/app/", true),
            ("lab", "", true),
        ] {
            let (mut proxies, _, _readers, task) = shared_call();
            let mut host = Caller::of_test().profile();
            directory.clone_into(&mut host.directory);
            proxies.listens(&ServerName::new(server), &host, 3);
            proxies.follows(&task, 3, false);
            assert_eq!(
                proxies.leaves(&task.id, 0),
                is_shared,
                "{server} {directory}"
            );
        }
    }

    #[test]
    fn a_call_is_not_repeated_once_its_result_was_collected() {
        let (mut proxies, snapshots, [first, second], task) = shared_call();
        proxies.collected(&task.id, &Collected::Delivered, Some(first.id));
        // The host asks for it once more, and exits.
        proxies.follows(&task, first.id, true);
        drop(first);
        proxies.forget_gone(&snapshots, |_| false);
        let earlier = proxies.earlier(&call(2), second.id, &snapshots, |_| None, Wall(0));
        assert_eq!(earlier, None);
    }

    #[test]
    fn a_refused_call_is_forgotten() {
        let (mut proxies, snapshots, _readers, task) = shared_call();
        snapshots.publish(SessionEvent::Erased(task.id.clone()));
        proxies.forget_gone(&snapshots, |id| *id == task.id);
        assert!(proxies.are_waiting());
        proxies.forget_gone(&snapshots, |_| false);
        assert!(!proxies.are_waiting());
    }

    #[test]
    fn a_call_that_was_kept_too_long_is_not_repeated() {
        let (mut proxies, snapshots, _readers, mut task) = shared_call();
        let why = crate::domain::GaveUpReason::Ticket;
        let gave_up = Collected::GaveUp { after_ms: 1, why };
        proxies.collected(&task.id, &gave_up, Some(0));
        // Another session of the host has collected the result.
        proxies.collected(&task.id, &Collected::Delivered, Some(1));
        task.status = Status::Completed;
        task.end.settled_at = Some(Wall(0));
        if let Some(caller) = &mut task.caller {
            caller.delivered_at = Some(Wall(1));
        }
        publish(&snapshots, &task);
        for (now, earlier) in [(Wall(60_000), Some(task.id)), (Wall(60_001), None)] {
            let found = proxies.earlier(&call(2), 0, &snapshots, |_| None, now);
            assert_eq!(found, earlier);
        }
    }
}

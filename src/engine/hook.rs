//! Runs the user's notification command, which gets the task as JSON on its standard input.
//!
//! The driver runs it, with or without a screen. Each end and each question is an event in the session file
//! ([`HookEvents`] says what holds after a `kill -9`), so none is missed or reported twice, whichever process saw it
//! first. Must not delay the driver or the exit of a process: the commands run in process groups of their own, and
//! longhaul never waits for what they do.

use std::{
    collections::BTreeSet,
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

use super::{clock::Clock, snapshots::Snapshots};
use crate::{
    domain::{
        Connectivity, Mono, NoticeLevel, NotifyLevel, NotifyReason, Phase, TaskId, TaskView,
        locked, text,
    },
    store::{HookEvent, HookEvents, Lookup, Paths, Reader, StoreError, Writer},
};

/// The maximum number of concurrent commands; more wait, unless this process is exiting.
const AT_ONCE: usize = 4;
/// After this wait, the user is notified: the running commands may never end.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How often running commands are polled.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The delay before the session file is read again after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The command to run, and when.
#[derive(Clone, Debug)]
pub struct Hook {
    /// The command line for `sh -c`.
    pub command: String,
    /// The level of events to run it for.
    pub on: NotifyLevel,
    /// Renders the task as JSON, with its result.
    pub encode: fn(&TaskView, Option<&str>) -> String,
}

/// A handle to the thread that runs the command.
#[derive(Debug)]
pub(super) struct Hooks {
    on: NotifyLevel,
    /// Signals that events may be waiting in the session file; one signal is enough.
    wake: mpsc::SyncSender<()>,
    /// Whether a save added events for the hook.
    has_events: Arc<AtomicBool>,
    /// The tasks that wait for a sign-in and were already reported.
    needs_login: BTreeSet<TaskId>,
    /// The tasks from before this driver whose first snapshot has come.
    looked_at: BTreeSet<TaskId>,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// What the driver and the thread that runs the command tell each other.
#[derive(Debug, Default)]
struct Shared {
    /// The tasks that wait for a sign-in, which only the driver knows, and are still to be reported.
    logins_to_tell: Mutex<Vec<TaskId>>,
    /// Set when this process exits: the deadline for starting hooks.
    leaves_at: OnceLock<Mono>,
    /// Held while a command is being started: interrupted there, nobody knows whether it ran.
    starting: Mutex<()>,
}

impl Hooks {
    /// Starts the thread and makes the writer add hook events; `None` if the system cannot start a thread, which the
    /// driver would notice first.
    pub(super) fn start(
        hook: Hook,
        paths: &Paths,
        writer: &mut Writer,
        snapshots: &Arc<Snapshots>,
        clock: Clock,
        patience: Duration,
    ) -> Option<Self> {
        let (wake, woken) = mpsc::sync_channel(1);
        let on = hook.on;
        let shared = Arc::<Shared>::default();
        let runner = Runner {
            hook,
            paths: paths.clone(),
            snapshots: Arc::clone(snapshots),
            clock,
            events: None,
            children: Vec::new(),
            shared: Arc::clone(&shared),
            patience,
            is_told: false,
        };
        let thread = std::thread::Builder::new()
            .name("hook".to_owned())
            .spawn(move || runner.run(&woken))
            .ok()?;
        Some(Self {
            on,
            wake,
            has_events: writer.add_hook_events(on),
            needs_login: BTreeSet::new(),
            looked_at: BTreeSet::new(),
            shared,
            thread,
        })
    }

    /// Starts no command while the guard lives; `None` if one is being started.
    pub(super) fn hold_starts(&self) -> Option<MutexGuard<'_, ()>> {
        self.shared.starting.try_lock().ok()
    }

    /// Runs the hook for the events of a save that is now on disk.
    pub(super) fn saved(&self) {
        if self.has_events.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Checks a snapshot before it is published: no record says that a task waits for a sign-in. `is_known` says that
    /// the task existed before this driver started, so its first snapshot is not news.
    pub(super) fn look_at(&mut self, view: &TaskView, is_known: bool) {
        let id = &view.task.id;
        let is_known = is_known && self.looked_at.insert(id.clone());
        // While the server is only asked again, nothing has changed.
        let attempt = view.task.attempt();
        let is_out = attempt.is_some_and(|attempt| attempt.phase == Phase::Open);
        if is_out && view.contact.is_connected() || view.task.notify_reason().is_some() {
            self.needs_login.remove(id);
        } else if view.contact == Connectivity::NeedsLogin
            && self.needs_login.insert(id.clone())
            && !is_known
            && self.on.includes(NotifyReason::NeedsYou)
        {
            locked(&self.shared.logins_to_tell).push(id.clone());
            self.wake();
        }
    }

    fn wake(&self) {
        // A signal that is already waiting is enough.
        let _ = self.wake.try_send(());
    }

    /// Starts the waiting hooks without waiting for any to end. The next driver starts those that miss the deadline.
    pub(super) fn close(self, until: Mono) {
        let _ = self.shared.leaves_at.set(until);
        drop(self.wake);
        // The panic hook has reported a panic there.
        let _ = self.thread.join();
    }
}

struct Runner {
    hook: Hook,
    paths: Paths,
    snapshots: Arc<Snapshots>,
    clock: Clock,
    events: Option<HookEvents>,
    children: Vec<(TaskId, Child)>,
    shared: Arc<Shared>,
    patience: Duration,
    /// Whether the long wait of the previous hook was reported.
    is_told: bool,
}

impl Runner {
    fn run(mut self, woken: &mpsc::Receiver<()>) {
        let mut is_begun = false;
        loop {
            let outcome = self.start_waiting(&mut is_begun);
            if let Err(error) = &outcome {
                tracing::warn!(%error, "the events for the hook");
            }
            let next = match outcome {
                Err(_) => woken.recv_timeout(RETRY_AFTER),
                Ok(()) if self.children.is_empty() => woken
                    .recv()
                    .map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Ok(()) => woken.recv_timeout(LOOK_EVERY),
            };
            if next == Err(mpsc::RecvTimeoutError::Disconnected) {
                // The last saves, including those whose signal came too late.
                if let Err(error) = self.start_waiting(&mut is_begun) {
                    tracing::warn!(%error, "the hook runs when longhaul starts again");
                }
                return;
            }
            self.reap();
        }
    }

    /// Starts the hook for every waiting event.
    fn start_waiting(&mut self, is_begun: &mut bool) -> Result<(), StoreError> {
        let mut events = match self.events.take() {
            Some(events) => events,
            None => HookEvents::open(&self.paths)?,
        };
        let outcome = self.start_all(&mut events, is_begun);
        self.events = Some(events);
        outcome
    }

    fn start_all(
        &mut self,
        events: &mut HookEvents,
        is_begun: &mut bool,
    ) -> Result<(), StoreError> {
        if !*is_begun {
            for id in events.give_up_claims()? {
                let id = text::clean_line(&id).into_owned();
                self.say(format!(
                    "longhaul was killed while starting the hook for {id}; the hook may not have run and will not be repeated"
                ));
            }
            *is_begun = true;
        }
        let now = self.clock.now().wall;
        let next_login = || locked(&self.shared.logins_to_tell).last().cloned();
        while let Some(id) = next_login() {
            events.add(&id, &format!("sign-in {}", now.0), NotifyReason::NeedsYou)?;
            locked(&self.shared.logins_to_tell).retain(|other| *other != id);
        }
        loop {
            self.wait_for_room();
            let is_late = |until: &Mono| self.clock.now().mono >= *until;
            if self.shared.leaves_at.get().is_some_and(is_late) {
                return Ok(());
            }
            let shared = Arc::clone(&self.shared);
            let starting = shared.starting.lock();
            let claimed = events.claim().and_then(|event| {
                let Some(event) = event else { return Ok(false) };
                self.start(&event);
                events.started(&event).map(|()| true)
            });
            drop(starting);
            if !claimed? {
                return Ok(());
            }
        }
    }

    /// Waits until another command may run. A long wait is reported once, and again only after a short one.
    fn wait_for_room(&mut self) {
        let begin = self.clock.now().mono;
        let mut is_long = false;
        while self.children.len() >= AT_ONCE && self.shared.leaves_at.get().is_none() {
            std::thread::park_timeout(LOOK_EVERY);
            self.reap();
            is_long = self.clock.now().mono.since(begin) >= self.patience;
            if is_long && !std::mem::replace(&mut self.is_told, true) {
                self.say(format!(
                    "the hook is falling behind: {AT_ONCE} of its commands have been running for {}; the next one starts when one ends",
                    text::duration(self.patience)
                ));
            }
        }
        self.is_told &= is_long;
    }

    fn start(&mut self, event: &HookEvent) {
        let id = event.task.clone();
        match self.view(&id) {
            // It was removed in the meantime.
            None => {}
            Some((view, result)) => match self.spawn(event.occasion, &view, result.as_deref()) {
                Ok(child) => self.children.push((id, child)),
                Err(error) => self.complain(&id, &format!("could not start: {error}")),
            },
        }
    }

    /// The task as on disk, with its result and what only the driver knows.
    fn view(&self, id: &TaskId) -> Option<(TaskView, Option<String>)> {
        let mut reader = Reader::open(&self.paths).ok()?;
        let Ok(Lookup::One(task)) = reader.task(id.as_str()) else {
            return None;
        };
        let result = reader.result(id).ok().flatten();
        let view = match self.snapshots.task(id) {
            Some(shown) if !task.status.is_settled() => TaskView {
                task: *task,
                ..(*shown).clone()
            },
            _ => TaskView::unwatched(*task, None),
        };
        Some((view, result))
    }

    fn spawn(
        &self,
        occasion: NotifyReason,
        view: &TaskView,
        result: Option<&str>,
    ) -> std::io::Result<Child> {
        let json = (self.hook.encode)(view, result);
        // A file, so that no thread has to feed a command that reads slowly.
        let mut input = tempfile::tempfile()?;
        input.write_all(json.as_bytes())?;
        input.seek(SeekFrom::Start(0))?;
        Command::new("sh")
            .args(["-c", &self.hook.command])
            .env("LONGHAUL_EVENT", occasion.label())
            .env("LONGHAUL_TASK", view.task.id.as_str())
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
    }

    /// Reaps the commands that have ended.
    fn reap(&mut self) {
        let mut children = std::mem::take(&mut self.children);
        children.retain_mut(|(id, child)| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) if status.success() => false,
            Ok(Some(status)) => {
                self.complain(id, &format!("ended with {status}"));
                false
            }
            Err(_) => false,
        });
        self.children = children;
    }

    fn complain(&self, id: &TaskId, why: &str) {
        self.say(format!("the hook for {id} {}", text::clean_line(why)));
    }

    fn say(&self, text: String) {
        self.snapshots
            .notice(self.clock.now().wall, NoticeLevel::Warning, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{NewCall, Row, ServerName, SessionEvent, Status, Task, Wall},
        store::{Durability, Opened},
    };

    fn task(number: u64, status: Status) -> Row {
        let call = NewCall::new(
            TaskId::from_bits(number),
            ServerName::new("lab"),
            "work".to_owned(),
            "{}".to_owned(),
        );
        Row::Task(Box::new(Task {
            status,
            ..Task::new(Wall(0), call)
        }))
    }

    fn open(dir: &std::path::Path) -> (Paths, Writer) {
        let paths = Paths::resolve(Some(dir.to_owned()), "default").unwrap();
        let Opened { writer, .. } = Writer::open(&paths, Wall(0)).unwrap();
        (paths, writer)
    }

    fn save(writer: &mut Writer, rows: &[Row]) {
        writer.save(rows, Durability::Normal, Wall(0)).unwrap();
    }

    /// Reads notices until one contains these words.
    async fn hear(reader: &super::super::snapshots::Subscription, words: &str) {
        let mut said = String::new();
        while !said.contains(words) {
            let heard = tokio::time::timeout(Duration::from_secs(60), reader.changed());
            heard
                .await
                .unwrap_or_else(|_| panic!("no {words:?} in {said:?}"));
            for news in reader.take() {
                let SessionEvent::Notice(notice) = news else {
                    continue;
                };
                said.push_str(&notice.text);
            }
        }
    }

    #[tokio::test]
    async fn reports_hung_commands_and_keeps_the_rest_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let held = dir.path().join("held");
        crate::store::write_atomically(&held, b"").unwrap();
        let hook = Hook {
            command: format!("while [ -e {} ]; do sleep 0.05; done", held.display()),
            on: NotifyLevel::All,
            encode: |_, _| String::new(),
        };
        let (paths, mut writer) = open(dir.path());
        let snapshots = Arc::<Snapshots>::default();
        let reader = snapshots.subscribe();
        let (clock, patience) = (Clock::start(), Duration::ZERO);
        let hooks = Hooks::start(hook, &paths, &mut writer, &snapshots, clock, patience).unwrap();
        let rows: Vec<Row> = (0..2000).map(|it| task(it, Status::Completed)).collect();
        save(&mut writer, &rows);
        hooks.saved();
        hear(
            &reader,
            "the hook is falling behind: 4 of its commands have been running",
        )
        .await;
        hooks.close(Mono(0));
        let mut events = HookEvents::open(&paths).unwrap();
        let mut left = 0;
        while events.claim().unwrap().is_some() {
            left += 1;
        }
        assert_eq!(left, 2000 - AT_ONCE);
        std::fs::remove_file(&held).unwrap();
    }

    #[tokio::test]
    async fn the_hook_runs_once_for_what_a_killed_process_left_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join("left");
        std::fs::create_dir(&left).unwrap();
        let hook = Hook {
            command: format!("mktemp {}/$LONGHAUL_TASK.XXXXXX", left.display()),
            on: NotifyLevel::All,
            encode: |_, _| String::new(),
        };
        let ran = || {
            let names = std::fs::read_dir(&left).unwrap();
            let name = |it: std::io::Result<std::fs::DirEntry>| it.unwrap().file_name();
            let mut names: Vec<_> = names
                .map(|it| {
                    name(it)
                        .to_str()
                        .unwrap()
                        .split('.')
                        .next()
                        .unwrap()
                        .to_owned()
                })
                .collect();
            names.sort();
            names
        };
        let (paths, mut writer) = open(dir.path());
        writer.add_hook_events(NotifyLevel::All);
        let rows: Vec<Row> = (1..=3).map(|it| task(it, Status::Completed)).collect();
        save(&mut writer, &rows);
        drop(writer);
        // The process died between the claim and the start of the first hook.
        let claimed = HookEvents::open(&paths).unwrap().claim().unwrap().unwrap();
        for is_first in [true, false] {
            let (paths, mut writer) = open(dir.path());
            let snapshots = Arc::<Snapshots>::default();
            let reader = snapshots.subscribe();
            let (hook, clock) = (hook.clone(), Clock::start());
            let hooks =
                Hooks::start(hook, &paths, &mut writer, &snapshots, clock, PATIENCE).unwrap();
            // A task that was seen or renamed is written again, which is not another end.
            save(&mut writer, &rows);
            hooks.saved();
            if is_first {
                hear(
                    &reader,
                    &format!("the hook for {}; the hook may not", claimed.task),
                )
                .await;
            }
            hooks.close(Mono(u64::MAX));
        }
        let expected: Vec<String> = (2..=3)
            .map(|it| TaskId::from_bits(it).to_string())
            .collect();
        for _ in 0..6000 {
            if ran().len() >= expected.len() {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        assert_eq!(ran(), expected);
    }
}

//! Runs the user's notification command, which gets the task as JSON on its standard input.
//!
//! The driver runs it, with or without a screen, when it publishes an end or a question that was not in the session file
//! when it started: once for each, unless it is killed or has to exit before that. Must not delay the driver or the exit of a process:
//! the commands run in process groups of their own, and longhaul never waits for what they do.

use std::{
    collections::{BTreeSet, VecDeque},
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    time::Duration,
};

use super::{clock::Clock, snapshots::Snapshots};
use crate::{
    domain::{
        Connectivity, Mono, NoticeLevel, NotifyLevel, NotifyReason, Phase, Status, Task, TaskId,
        TaskView, Wall, text,
    },
    store::{Paths, Reader},
};

/// The maximum number of concurrent commands; more wait, unless this process is exiting.
const AT_ONCE: usize = 4;
/// After this wait, the user is notified: the running commands may never end.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How long the start of what waits may take when the driver exits or is replaced.
pub(super) const START_WITHIN: Duration = Duration::from_millis(100);
/// How often running commands are polled.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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

/// What the command is run for, once for each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Occasion {
    End,
    /// Its state became unknown, in this attempt.
    Unknown(u32),
    /// A question of this time; others of the same time are numbered. Its key changes when the server asks again.
    Question(Wall, usize),
    SignIn,
}

fn occasions(task: &Task) -> Vec<Occasion> {
    match &task.status {
        _ if task.notify_reason().is_none() => Vec::new(),
        status if status.is_settled() => vec![Occasion::End],
        Status::Unknown(_) => vec![Occasion::Unknown(task.attempts_made())],
        _ => {
            let times: Vec<Wall> = task.open_questions().map(|it| it.asked_at).collect();
            let beside = |(index, at): (usize, &Wall)| {
                let earlier = times.iter().take(index);
                Occasion::Question(*at, earlier.filter(|it| *it == at).count())
            };
            times.iter().enumerate().map(beside).collect()
        }
    }
}

/// Something for the thread that runs the command.
enum Job {
    Run(Arc<TaskView>, NotifyReason),
    /// Start everything that waits now, and say so.
    Flush(mpsc::Sender<()>),
}

/// A handle to the thread that runs the command.
#[derive(Debug)]
pub(super) struct Hooks {
    on: NotifyLevel,
    jobs: mpsc::Sender<Job>,
    /// What was reported, or was in the session file already.
    seen: BTreeSet<(TaskId, Occasion)>,
    /// The tasks from before this driver whose first snapshot has not come.
    restored: BTreeSet<TaskId>,
}

impl Hooks {
    /// Starts the thread; `None` if the system cannot start one, which the driver would notice first.
    pub(super) fn start(
        hook: Hook,
        paths: &Paths,
        snapshots: &Arc<Snapshots>,
        clock: Clock,
        patience: Duration,
    ) -> Option<Self> {
        let (jobs, of_driver) = mpsc::channel();
        let on = hook.on;
        let runner = Runner {
            hook,
            paths: paths.clone(),
            snapshots: Arc::clone(snapshots),
            clock,
            waiting: VecDeque::new(),
            children: Vec::new(),
            started_at: Mono::default(),
            patience,
            is_told: false,
        };
        let thread = std::thread::Builder::new().name("hook".to_owned());
        thread.spawn(move || runner.run(&of_driver)).ok()?;
        Some(Self {
            on,
            jobs,
            seen: BTreeSet::new(),
            restored: BTreeSet::new(),
        })
    }

    /// Marks what an earlier driver has already reported.
    pub(super) fn restore(&mut self, task: &Task) {
        let seen = occasions(task).into_iter();
        self.seen.extend(seen.map(|it| (task.id.clone(), it)));
        self.restored.insert(task.id.clone());
    }

    /// Runs the hook for what is new in a snapshot.
    pub(super) fn look_at(&mut self, view: &Arc<TaskView>) {
        // What can't be saved may turn out differently after a restart, and the command could not read its result.
        if view.is_unsaved {
            return;
        }
        let task = &view.task;
        let mut new = 0;
        for occasion in occasions(task) {
            new += usize::from(self.seen.insert((task.id.clone(), occasion)));
        }
        if new > 0 && task.status.is_settled() {
            self.forget(&task.id, |it| it == Occasion::End);
        }
        // A driver that starts without the credentials is no news.
        let is_first = self.restored.remove(&task.id);
        let sign_in = (task.id.clone(), Occasion::SignIn);
        let needs_login = view.contact == Connectivity::NeedsLogin;
        // While the server is only asked again, nothing has changed.
        let is_out = task
            .attempt()
            .is_some_and(|attempt| attempt.phase == Phase::Open);
        if is_out && view.contact.is_connected() || task.notify_reason().is_some() {
            self.seen.remove(&sign_in);
        } else if needs_login {
            new += usize::from(self.seen.insert(sign_in) && !is_first);
        }
        let of_task = task.notify_reason();
        let reason = of_task.or_else(|| needs_login.then_some(NotifyReason::NeedsYou));
        let reason = reason.filter(|it| self.on.includes(*it));
        if let Some(reason) = reason {
            for _ in 0..new {
                // The thread ends only with this process.
                let _ = self.jobs.send(Job::Run(Arc::clone(view), reason));
            }
        }
    }

    /// Forgets a task that was erased.
    pub(super) fn erased(&mut self, id: &TaskId) {
        self.forget(id, |_| false);
    }

    fn forget(&mut self, id: &TaskId, stays: impl Fn(Occasion) -> bool) {
        self.seen.retain(|(of, it)| of != id || stays(*it));
    }

    /// Starts all waiting commands without waiting for any to end. `false` if they could not be started in this time.
    pub(super) fn flush(&self, within: Duration) -> bool {
        let (done, started) = mpsc::channel();
        self.jobs.send(Job::Flush(done)).is_ok() && started.recv_timeout(within).is_ok()
    }
}

struct Runner {
    hook: Hook,
    paths: Paths,
    snapshots: Arc<Snapshots>,
    clock: Clock,
    waiting: VecDeque<(Arc<TaskView>, NotifyReason)>,
    children: Vec<(TaskId, Child)>,
    /// When the newest command was started.
    started_at: Mono,
    patience: Duration,
    /// Whether it was reported that commands wait for a long time.
    is_told: bool,
}

impl Runner {
    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        loop {
            let next = if self.children.is_empty() {
                jobs.recv()
                    .map_err(|_| mpsc::RecvTimeoutError::Disconnected)
            } else {
                jobs.recv_timeout(LOOK_EVERY)
            };
            self.reap();
            match next {
                Ok(Job::Run(view, reason)) => self.waiting.push_back((view, reason)),
                Ok(Job::Flush(done)) => {
                    self.start_waiting(usize::MAX);
                    // It may have stopped waiting.
                    let _ = done.send(());
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            self.start_waiting(AT_ONCE);
        }
    }

    /// Starts waiting commands until so many run. A long wait is reported once.
    fn start_waiting(&mut self, at_once: usize) {
        while self.children.len() < at_once
            && let Some((view, reason)) = self.waiting.pop_front()
        {
            self.started_at = self.clock.now().mono;
            let id = view.task.id.clone();
            match self.spawn(reason, &view) {
                Ok(child) => self.children.push((id, child)),
                Err(error) => self.complain(&id, &format!("could not start: {error}")),
            }
        }
        if self.waiting.is_empty() {
            self.is_told = false;
        } else if self.clock.now().mono.since(self.started_at) >= self.patience
            && !std::mem::replace(&mut self.is_told, true)
        {
            self.say(format!(
                "the hook is falling behind: {AT_ONCE} of its commands have been running for {}; the next one starts when one ends",
                text::duration(self.patience)
            ));
        }
    }

    fn spawn(&self, occasion: NotifyReason, view: &TaskView) -> std::io::Result<Child> {
        let id = &view.task.id;
        let reader = Reader::open(&self.paths);
        // Without it, the task still says how it ended.
        let result = reader.and_then(|mut it| it.result(id)).ok().flatten();
        let json = (self.hook.encode)(view, result.as_deref());
        // A file, so that no thread has to feed a command that reads slowly.
        let mut input = tempfile::tempfile()?;
        input.write_all(json.as_bytes())?;
        input.seek(SeekFrom::Start(0))?;
        Command::new("sh")
            .args(["-c", &self.hook.command])
            .env("LONGHAUL_EVENT", occasion.label())
            .env("LONGHAUL_TASK", id.as_str())
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
    use crate::domain::{
        Answer, NewCall, Question, QuestionKind, QuestionSource, ServerName, SessionEvent,
    };

    fn view(status: Status, questions: Vec<Question>) -> Arc<TaskView> {
        let call = NewCall::new(
            TaskId::from_bits(1),
            ServerName::new("lab"),
            "work".to_owned(),
            "{}".to_owned(),
        );
        let task = Task {
            status,
            questions,
            ..Task::new(Wall(0), call)
        };
        Arc::new(TaskView::unwatched(task, None))
    }

    fn question(key: &str, at: i64, answer: Option<Answer>) -> Question {
        Question {
            key: key.to_owned(),
            earlier: Vec::new(),
            kind: QuestionKind::Elicitation,
            source: QuestionSource::TaskInput,
            request: "{}".to_owned(),
            asked_at: Wall(at),
            answer,
            is_delivered: false,
            is_unsent: false,
            shared_with: Vec::new(),
            only_for: None,
        }
    }

    /// Hooks without a thread, and what that would get.
    fn hooks() -> (Hooks, mpsc::Receiver<Job>) {
        let (jobs, of_driver) = mpsc::channel();
        let hooks = Hooks {
            on: NotifyLevel::All,
            jobs,
            seen: BTreeSet::new(),
            restored: BTreeSet::new(),
        };
        (hooks, of_driver)
    }

    #[test]
    fn each_end_and_each_question_is_one_event() {
        let (mut hooks, jobs) = hooks();
        let yes = || Some(Answer::Decline);
        let asks = |questions| view(Status::InputRequired, questions);
        let steps = [
            (view(Status::Running, vec![]), 0),
            (asks(vec![question("a", 5, None)]), 1),
            (asks(vec![question("a", 5, None)]), 0),
            // Asked again under another key.
            (asks(vec![question("b", 5, None)]), 0),
            // The next ones come before anybody saw that the first was answered.
            (
                asks(vec![
                    question("a", 5, yes()),
                    question("c", 6, None),
                    question("d", 6, None),
                ]),
                2,
            ),
            (view(Status::Running, vec![question("c", 6, yes())]), 0),
            (asks(vec![question("d", 6, None)]), 0),
            (view(Status::Failed, vec![question("d", 6, None)]), 1),
            (view(Status::Failed, vec![]), 0),
        ];
        for (view, count) in steps {
            hooks.look_at(&view);
            let found: Vec<Job> = jobs.try_iter().collect();
            let is_run = |job: &Job| matches!(job, Job::Run(_, NotifyReason::NeedsYou));
            assert!(found.iter().all(is_run));
            assert_eq!(found.len(), count, "{:#?}", view.task);
        }
    }

    #[test]
    fn only_what_changed_since_the_last_driver_is_an_event() {
        let (mut hooks, jobs) = hooks();
        let known = view(Status::InputRequired, vec![question("a", 5, None)]);
        hooks.restore(&known.task);
        let denied = TaskView {
            contact: Connectivity::NeedsLogin,
            ..(*view(Status::Running, vec![])).clone()
        };
        for no_news in [known, Arc::new(denied)] {
            hooks.look_at(&no_news);
            hooks.restored.insert(no_news.task.id.clone());
            assert_eq!(jobs.try_iter().count(), 0, "{no_news:#?}");
        }
        let failed = view(Status::Failed, vec![]);
        let unsaved = TaskView {
            is_unsaved: true,
            ..(*failed).clone()
        };
        for (view, events) in [(Arc::new(unsaved), 0), (failed, 1)] {
            hooks.look_at(&view);
            assert_eq!(jobs.try_iter().count(), events, "{view:#?}");
        }
    }

    #[tokio::test]
    async fn reports_hung_commands_and_starts_the_rest_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join("left");
        let held = dir.path().join("held");
        std::fs::create_dir(&left).unwrap();
        crate::store::write_atomically(&held, b"").unwrap();
        let hook = Hook {
            command: format!(
                "mktemp {}/XXXXXX; while [ -e {} ]; do sleep 0.05; done",
                left.display(),
                held.display()
            ),
            on: NotifyLevel::All,
            encode: |_, _| String::new(),
        };
        let paths = Paths::resolve(Some(dir.path().to_owned()), "default").unwrap();
        let snapshots = Arc::<Snapshots>::default();
        let reader = snapshots.subscribe();
        let (clock, patience) = (Clock::start(), Duration::ZERO);
        let hooks = Hooks::start(hook, &paths, &snapshots, clock, patience).unwrap();
        for _ in 0..2 * AT_ONCE {
            let job = Job::Run(view(Status::Completed, vec![]), NotifyReason::Done);
            hooks.jobs.send(job).unwrap();
        }
        let words = "the hook is falling behind: 4 of its commands have been running";
        let is_it = |event: &SessionEvent| matches!(event, SessionEvent::Notice(notice) if notice.text.contains(words));
        while !reader.take().iter().any(is_it) {
            let heard = tokio::time::timeout(Duration::from_secs(60), reader.changed());
            heard.await.expect("no notice");
        }
        assert!(hooks.flush(Duration::from_secs(60)));
        let ran = || std::fs::read_dir(&left).unwrap().count();
        for _ in 0..6000 {
            if ran() == 2 * AT_ONCE {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        assert_eq!(ran(), 2 * AT_ONCE);
        std::fs::remove_file(&held).unwrap();
    }
}

//! The user's command for what is worth telling: it gets the task as JSON on its standard input.
//!
//! Whoever drives runs it, with a screen or without. Must not hold up the driver, nor keep a process from leaving: the
//! commands are children of their own process group, and what they do is theirs.

use std::{
    collections::BTreeMap,
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

use super::{board::Board, clock::Clock};
use crate::{
    domain::{News, Notice, NoticeLevel, Occasion, TaskId, TaskView, Tell, text},
    store::{Paths, Reader},
};

/// So many at once; more wait, unless this process leaves.
const AT_ONCE: usize = 4;
/// So many may wait; for more it is not run, which is counted and said.
const WAITING: usize = 1000;
/// After so long somebody should hear that one waits: those that run may never end.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often one that runs is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What to run, and when.
#[derive(Clone, Debug)]
pub struct Hook {
    /// For `sh -c`.
    pub command: String,
    /// On which occasions.
    pub on: Tell,
    /// The task as JSON, with its result.
    pub encode: fn(&TaskView, Option<&str>) -> String,
}

/// The way to the thread that runs it.
#[derive(Debug)]
pub(super) struct Hooks {
    on: Tell,
    jobs: mpsc::SyncSender<(Occasion, TaskView)>,
    /// What found no room since that was said.
    left_out: Arc<AtomicU64>,
    thread: JoinHandle<()>,
    is_leaving: Arc<AtomicBool>,
    heard: Heard,
}

impl Hooks {
    /// Starts the thread; `None` where the system has none left, which the driver would hit first.
    pub(super) fn start(
        hook: Hook,
        paths: &Paths,
        board: &Arc<Board>,
        clock: Clock,
    ) -> Option<Self> {
        Self::bounded(hook, paths, board, clock, (WAITING, PATIENCE))
    }

    fn bounded(
        hook: Hook,
        paths: &Paths,
        board: &Arc<Board>,
        clock: Clock,
        (waiting, patience): (usize, Duration),
    ) -> Option<Self> {
        let (jobs, todo) = mpsc::sync_channel(waiting);
        let left_out = Arc::<AtomicU64>::default();
        let on = hook.on;
        let is_leaving = Arc::<AtomicBool>::default();
        let runner = Runner {
            hook,
            paths: paths.clone(),
            board: Arc::clone(board),
            clock,
            children: Vec::new(),
            left_out: Arc::clone(&left_out),
            patience,
            is_told: false,
            is_leaving: Arc::clone(&is_leaving),
        };
        let thread = std::thread::Builder::new()
            .name("hook".to_owned())
            .spawn(move || runner.run(&todo))
            .ok()?;
        Some(Self {
            on,
            jobs,
            left_out,
            thread,
            is_leaving,
            heard: Heard::default(),
        })
    }

    /// Looks at a picture that is about to be published. `is_known` says that the task was there before this driver,
    /// so that its first picture is no news.
    pub(super) fn heed(&mut self, view: &TaskView, is_known: bool) {
        // What is not on disk could be taken back by a kill; it is told once it is there.
        if view.saved_seq < view.task.seq {
            return;
        }
        let id = &view.task.id;
        let occasion = self.heard.news(id, view.occasion(), is_known);
        if let Some(occasion) = occasion.filter(|it| self.on.wants(*it)) {
            // The thread ends with this value only.
            let sent = self.jobs.try_send((occasion, view.clone()));
            if sent.is_err() {
                self.left_out.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Forgets a task.
    pub(super) fn erase(&mut self, id: &TaskId) {
        self.heard.0.remove(id);
    }

    /// Starts what waits, and waits for none of it.
    pub(super) fn close(self) {
        self.is_leaving.store(true, Ordering::SeqCst);
        drop(self.jobs);
        // A panic there was reported by the panic hook.
        let _ = self.thread.join();
    }
}

/// What was heard of each task last; one that is not here was never heard of.
#[derive(Debug, Default)]
struct Heard(BTreeMap<TaskId, Option<Occasion>>);

impl Heard {
    /// What of an occasion was not heard before.
    fn news(
        &mut self,
        id: &TaskId,
        occasion: Option<Occasion>,
        is_known: bool,
    ) -> Option<Occasion> {
        match self.0.insert(id.clone(), occasion) {
            None if is_known => None,
            before => occasion.filter(|it| before.flatten() != Some(*it)),
        }
    }
}

struct Runner {
    hook: Hook,
    paths: Paths,
    board: Arc<Board>,
    clock: Clock,
    children: Vec<(TaskId, Child)>,
    left_out: Arc<AtomicU64>,
    patience: Duration,
    /// Whether it was said that the one before waited long.
    is_told: bool,
    is_leaving: Arc<AtomicBool>,
}

impl Runner {
    fn run(mut self, todo: &mpsc::Receiver<(Occasion, TaskView)>) {
        loop {
            let next = if self.children.is_empty() {
                todo.recv()
                    .map_err(|_| mpsc::RecvTimeoutError::Disconnected)
            } else {
                todo.recv_timeout(LOOK_EVERY)
            };
            match next {
                Ok((occasion, view)) => {
                    self.wait_for_room();
                    self.start(occasion, &view);
                    self.tell_left_out();
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            self.reap();
        }
    }

    /// Waits until one more may run. That this takes long is said once, until it takes long no more.
    fn wait_for_room(&mut self) {
        let begin = self.clock.now().mono;
        let mut is_long = false;
        while self.children.len() >= AT_ONCE && !self.is_leaving.load(Ordering::SeqCst) {
            std::thread::park_timeout(LOOK_EVERY);
            self.reap();
            is_long = self.clock.now().mono.since(begin) >= self.patience;
            if is_long && !std::mem::replace(&mut self.is_told, true) {
                self.say(format!(
                    "what happens now waits for the hook: {AT_ONCE} of its commands run, and none has ended for {}; \
                     the next one starts when one of them ends",
                    text::duration(self.patience)
                ));
            }
        }
        self.is_told &= is_long;
    }

    fn tell_left_out(&self) {
        let count = self.left_out.swap(0, Ordering::Relaxed);
        if count > 0 {
            self.say(format!(
                "the hook was not run for {}: too many waited for it",
                text::plural(count, "event")
            ));
        }
    }

    fn start(&mut self, occasion: Occasion, view: &TaskView) {
        let id = view.task.id.clone();
        match self.spawn(occasion, view) {
            Ok(child) => self.children.push((id, child)),
            Err(error) => self.complain(&id, &format!("could not start: {error}")),
        }
    }

    fn spawn(&self, occasion: Occasion, view: &TaskView) -> std::io::Result<Child> {
        let result = Reader::open(&self.paths).and_then(|mut reader| reader.result(&view.task.id));
        let json = (self.hook.encode)(view, result.ok().flatten().as_deref());
        // A file, so that nobody has to stay to feed a command that reads slowly.
        let mut input = tempfile::tempfile()?;
        input.write_all(json.as_bytes())?;
        input.seek(SeekFrom::Start(0))?;
        Command::new("sh")
            .args(["-c", &self.hook.command])
            .env("LONGHAUL_EVENT", occasion.word())
            .env("LONGHAUL_TASK", view.task.id.as_str())
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
    }

    /// Takes leave of those that have ended.
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
        self.board.publish(News::Notice(Notice {
            at: self.clock.now().wall,
            level: NoticeLevel::Warning,
            text,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Contact, NewCall, ServerName, Status, Task, Wall};

    fn completed(number: u64) -> TaskView {
        let task = Task {
            status: Status::Completed,
            updated_at: Wall(0),
            settled_at: Some(Wall(0)),
            ..Task::new(
                Wall(0),
                NewCall::new(
                    TaskId::from_bits(number),
                    ServerName::new("lab"),
                    "work".to_owned(),
                    "{}".to_owned(),
                ),
            )
        };
        TaskView {
            task,
            contact: Contact::Idle,
            leaving: None,
            saved_seq: 0,
            guess: None,
            is_unsaved: false,
        }
    }

    #[tokio::test]
    async fn commands_that_do_not_end_are_told_of_once_and_what_finds_no_room_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let held = dir.path().join("held");
        crate::store::write_atomically(&held, b"").unwrap();
        let paths = Paths::resolve(Some(dir.path().to_owned()), "default").unwrap();
        let hook = Hook {
            command: format!("while [ -e {} ]; do sleep 0.05; done", held.display()),
            on: Tell::All,
            encode: |_, _| String::new(),
        };
        let board = Arc::<Board>::default();
        let reader = board.subscribe();
        let bounds = (8, Duration::ZERO);
        let mut hooks = Hooks::bounded(hook, &paths, &board, Clock::start(), bounds).unwrap();
        let mut said = String::new();
        let mut hear = async |words: &str| {
            while !said.contains(words) {
                let heard = tokio::time::timeout(Duration::from_secs(60), reader.changed());
                heard
                    .await
                    .unwrap_or_else(|_| panic!("no {words:?} in {said:?}"));
                for news in reader.take() {
                    let News::Notice(notice) = news else { continue };
                    said.push_str(&notice.text);
                }
            }
        };
        for number in 0..5 {
            hooks.heed(&completed(number), false);
        }
        hear("waits for the hook: 4 of its commands run").await;
        for number in 5..14 {
            hooks.heed(&completed(number), false);
        }
        std::fs::remove_file(&held).unwrap();
        hear("was not run for 1 event: too many waited").await;
        hooks.close();
    }

    #[test]
    fn an_occasion_is_news_once() {
        let (ours, theirs) = (TaskId::from_bits(1), TaskId::from_bits(2));
        let (done, needs_you) = (Some(Occasion::Done), Some(Occasion::NeedsYou));
        let mut heard = Heard::default();
        // It began and ended between two pictures.
        assert_eq!(heard.news(&ours, done, false), done);
        assert_eq!(heard.news(&ours, done, false), None);
        // It asked before this driver was there, and who drove then told of it.
        assert_eq!(heard.news(&theirs, needs_you, true), None);
        assert_eq!(heard.news(&theirs, None, true), None);
        assert_eq!(heard.news(&theirs, needs_you, true), needs_you);
        assert_eq!(heard.news(&theirs, needs_you, true), None);
        assert_eq!(heard.news(&theirs, done, true), done);
    }
}

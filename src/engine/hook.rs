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
        atomic::{AtomicBool, Ordering},
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
    jobs: mpsc::Sender<(Occasion, TaskView)>,
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
        let (jobs, todo) = mpsc::channel();
        let on = hook.on;
        let is_leaving = Arc::<AtomicBool>::default();
        let runner = Runner {
            hook,
            paths: paths.clone(),
            board: Arc::clone(board),
            clock,
            children: Vec::new(),
            is_leaving: Arc::clone(&is_leaving),
        };
        let thread = std::thread::Builder::new()
            .name("hook".to_owned())
            .spawn(move || runner.run(&todo))
            .ok()?;
        Some(Self {
            on,
            jobs,
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
            let _ = self.jobs.send((occasion, view.clone()));
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
                    while self.children.len() >= AT_ONCE && !self.is_leaving.load(Ordering::SeqCst)
                    {
                        std::thread::park_timeout(LOOK_EVERY);
                        self.reap();
                    }
                    self.start(occasion, &view);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            self.reap();
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
        let text = format!("the hook for {id} {}", text::clean_line(why));
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

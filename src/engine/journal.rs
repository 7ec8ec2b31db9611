//! The writer thread: saves that are waiting are written in one transaction.

use std::{
    sync::{Arc, mpsc as channel},
    thread::{JoinHandle, Thread},
    time::Duration,
};

use tokio::sync::mpsc;

use super::clock::Clock;
use crate::{
    domain::Row,
    engine::test_hooks::{PanicIn, panic_if_told},
    store::{Durability, StoreError, Writer},
};

/// The transactions whose outcomes the driver has not taken; it takes each at once.
const OUTCOMES: usize = 16;

/// How long a save that nothing waits for is held back, so that the next one may join its transaction.
const JOINED_WITHIN: Duration = Duration::from_millis(5);

/// One save, and the requester that waits for it.
#[derive(Debug)]
pub(super) struct Job<Who> {
    pub(super) who: Who,
    pub(super) rows: Arc<Vec<Row>>,
    pub(super) is_vital: bool,
}

/// Why the session is not saved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum JournalError {
    #[error("could not {0}")]
    Store(#[from] StoreError),
    /// A save could not be queued.
    #[error("could not write the session file: its writer thread ended; restart longhaul")]
    NotQueued,
    /// Nothing was waiting to be written.
    #[error(
        "could not write the session file: its writer thread ended; saved data is safe, restart longhaul"
    )]
    Ended,
}

/// The outcome of a save.
pub(super) type Outcome<Who> = (Who, Result<(), JournalError>);

/// A handle to the writer thread.
#[derive(Debug)]
pub(super) struct Journal<Who> {
    jobs: channel::Sender<Job<Who>>,
    outcomes: mpsc::Receiver<Vec<Outcome<Who>>>,
    thread: Option<JoinHandle<()>>,
}

impl<Who: Send + 'static> Journal<Who> {
    /// Starts the thread, which then owns the writer. Each outcome ends the caller's pause.
    pub(super) fn start(writer: Writer, clock: Clock) -> Self {
        let caller = std::thread::current();
        let (jobs, todo) = channel::channel();
        let (done, outcomes) = mpsc::channel(OUTCOMES);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write(writer, clock, &todo, &done, &caller))
            .ok();
        Self {
            jobs,
            outcomes,
            thread,
        }
    }

    /// Queues a save; `Err` returns it if the thread has ended. The queue needs no bound: a link has one save in it, a
    /// request another one.
    pub(super) fn save(&self, job: Job<Who>) -> Result<(), Who> {
        self.jobs.send(job).map_err(|refused| refused.0.who)
    }

    /// The next outcomes; `None` once the thread has ended.
    pub(super) async fn outcomes(&mut self) -> Option<Vec<Outcome<Who>>> {
        self.outcomes.recv().await
    }

    /// Waits until every queued save is written, then closes the file.
    pub(super) fn close(self) {
        drop((self.jobs, self.outcomes));
        if let Some(thread) = self.thread {
            // The panic hook has reported a panic of the writer.
            let _ = thread.join();
        }
    }
}

fn write<Who>(
    mut writer: Writer,
    clock: Clock,
    todo: &channel::Receiver<Job<Who>>,
    done: &mpsc::Sender<Vec<Outcome<Who>>>,
    caller: &Thread,
) {
    panic_if_told(PanicIn::Journal);
    while let Ok(first) = todo.recv() {
        panic_if_told(PanicIn::Journal);
        let mut jobs = vec![first];
        if jobs.iter().all(|job| !job.is_vital) {
            jobs.extend(todo.recv_timeout(JOINED_WITHIN));
        }
        jobs.extend(todo.try_iter());
        let is_vital = jobs.iter().any(|job| job.is_vital);
        let durability = if is_vital {
            Durability::Full
        } else {
            Durability::Normal
        };
        let rows = jobs.iter().flat_map(|job| job.rows.iter());
        let outcome = writer
            .save(rows, durability, clock.now().wall)
            .map_err(JournalError::from);
        let outcomes = jobs
            .into_iter()
            .map(|job| (job.who, outcome.clone()))
            .collect();
        // While the driver exits, no one receives the outcome; only the write matters.
        let _ = done.blocking_send(outcomes);
        caller.unpark();
        writer.shorten_log();
    }
}

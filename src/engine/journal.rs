//! The writer thread: saves that are waiting are written in one transaction.

use std::{
    sync::Arc,
    thread::{JoinHandle, Thread},
};

use tokio::sync::mpsc;

use super::clock::Clock;
use crate::{
    domain::Row,
    engine::options::{FailPoint, PanicIn},
    store::{Durability, StoreError, Writer},
};

/// The maximum number of waiting saves; each link has at most one, so this is never reached.
const WAITING: usize = 4096;

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
    #[error("could not write the session: its writer thread ended; start again")]
    NotQueued,
    /// Nothing was waiting to be written.
    #[error(
        "could not write the session: its writer thread ended; saved data is safe, start again"
    )]
    Ended,
}

/// The outcome of a save.
pub(super) type Outcome<Who> = (Who, Result<(), JournalError>);

/// A handle to the writer thread.
#[derive(Debug)]
pub(super) struct Journal<Who> {
    jobs: mpsc::Sender<Job<Who>>,
    outcomes: mpsc::Receiver<Vec<Outcome<Who>>>,
    thread: Option<JoinHandle<()>>,
}

impl<Who: Send + 'static> Journal<Who> {
    /// Starts the thread, which then owns the writer. Each outcome ends the caller's pause.
    pub(super) fn start(writer: Writer, clock: Clock, fuse: FailPoint) -> Self {
        let caller = std::thread::current();
        let (jobs, todo) = mpsc::channel(WAITING);
        let (done, outcomes) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write(writer, clock, todo, &done, &fuse, &caller))
            .ok();
        Self {
            jobs,
            outcomes,
            thread,
        }
    }

    /// Queues a save; `Err` returns it if the thread has ended.
    pub(super) fn save(&self, job: Job<Who>) -> Result<(), Who> {
        self.jobs.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(job) | mpsc::error::TrySendError::Closed(job) => {
                job.who
            }
        })
    }

    /// The next outcomes; `None` once the thread has ended.
    pub(super) async fn outcomes(&mut self) -> Option<Vec<Outcome<Who>>> {
        self.outcomes.recv().await
    }

    /// Waits until every queued save is written, then closes the file.
    pub(super) fn close(self) {
        let Self {
            jobs,
            outcomes,
            thread,
        } = self;
        drop(jobs);
        drop(outcomes);
        if let Some(thread) = thread {
            // The panic hook has reported a panic of the writer.
            let _ = thread.join();
        }
    }
}

fn write<Who>(
    mut writer: Writer,
    clock: Clock,
    mut todo: mpsc::Receiver<Job<Who>>,
    done: &mpsc::Sender<Vec<Outcome<Who>>>,
    fuse: &FailPoint,
    caller: &Thread,
) {
    fuse.burn(PanicIn::Journal);
    while let Some(first) = todo.blocking_recv() {
        fuse.burn(PanicIn::Journal);
        let mut jobs = vec![first];
        while let Ok(next) = todo.try_recv() {
            jobs.push(next);
        }
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
    }
}

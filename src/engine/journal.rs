//! The thread that writes: saves that wait together are written in one transaction.

use std::{sync::Arc, thread::JoinHandle};

use tokio::sync::mpsc;

use super::{clock::Clock, rest::Rest};
use crate::{
    domain::Row,
    engine::options::{FailPoint, PanicIn},
    store::{Durability, Writer},
};

/// Saves that may wait; each link has at most one under way, so this is never reached.
const WAITING: usize = 4096;

/// One save, and who waits for it.
#[derive(Debug)]
pub(super) struct Job<Who> {
    pub(super) who: Who,
    pub(super) rows: Arc<Vec<Row>>,
    pub(super) is_vital: bool,
}

/// How a save went: an error in words that name the file.
pub(super) type Outcome<Who> = (Who, Result<(), String>);

/// The way to the writing thread.
#[derive(Debug)]
pub(super) struct Journal<Who> {
    jobs: mpsc::Sender<Job<Who>>,
    outcomes: mpsc::Receiver<Vec<Outcome<Who>>>,
    thread: Option<JoinHandle<()>>,
}

impl<Who: Send + 'static> Journal<Who> {
    /// Starts the thread, which owns the writer from now on.
    pub(super) fn start(writer: Writer, clock: Clock, fuse: FailPoint, rest: Rest) -> Self {
        let (jobs, todo) = mpsc::channel(WAITING);
        let (done, outcomes) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write(writer, clock, todo, &done, &fuse, &rest))
            .ok();
        Self {
            jobs,
            outcomes,
            thread,
        }
    }

    /// Hands a save over; `Err` gives it back if the thread is gone.
    pub(super) fn save(&self, job: Job<Who>) -> Result<(), Who> {
        self.jobs.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(job) | mpsc::error::TrySendError::Closed(job) => {
                job.who
            }
        })
    }

    /// The next outcomes; `None` once the thread is gone.
    pub(super) async fn outcomes(&mut self) -> Option<Vec<Outcome<Who>>> {
        self.outcomes.recv().await
    }

    /// Waits until everything handed over is written, and closes the file.
    pub(super) fn close(self) {
        let Self {
            jobs,
            outcomes,
            thread,
        } = self;
        drop(jobs);
        drop(outcomes);
        if let Some(thread) = thread {
            // A panic of the writer was reported by the panic hook; there is nothing to add here.
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
    rest: &Rest,
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
            .map_err(|error| format!("could not {error}"));
        let outcomes = jobs
            .into_iter()
            .map(|job| (job.who, outcome.clone()))
            .collect();
        // Nobody listens any more while the driver leaves; the write itself counts.
        let _ = done.blocking_send(outcomes);
        rest.end();
    }
}

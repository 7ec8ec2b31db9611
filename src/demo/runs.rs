//! Running batch work: one run per checkpoint, with any number of watchers.
//!
//! Invariants: a checkpoint never has two runs. A watcher receives every update after the progress it saw on joining,
//! exactly once and in order. A run continues without watchers; only when the last one cancels does it stop.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

use super::{
    checkpoints::{CheckpointRecord, CheckpointStatus, Checkpoints},
    database::locked,
};
use crate::demo::{activity::ActivityTracker, error::DemoError};

/// How many updates a watcher may lag behind before the run waits for it. Watchers only write to disk, so this is rare.
const WATCHER_BUFFER: usize = 64;

/// What to process, and how fast.
#[derive(Debug, Clone)]
pub(super) struct RunSpec {
    pub(super) client_id: String,
    pub(super) tool: &'static str,
    /// The tool's arguments as JSON text: part of the checkpoint's key.
    pub(super) arguments: String,
    pub(super) dataset: String,
    pub(super) total: u64,
    /// Records per batch, at least 1.
    pub(super) batch: u64,
    /// The time per batch.
    pub(super) delay: Duration,
}

/// A message to the watchers of a run.
#[derive(Debug, Clone, Copy)]
pub(super) enum RunUpdate {
    /// The number of records done so far.
    Progress(u64),
    /// The run ended, with the number of records done. This is the last message.
    Ended(CheckpointStatus, u64),
}

/// Why a run is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    /// Stop after the current batch.
    Pause,
    /// Stop at once.
    Cancel,
    /// Stop at once, because the call's connection is gone.
    Interrupt,
}

/// A watcher's view of a run.
pub(super) struct RunSubscription {
    /// The checkpoint as of joining.
    pub(super) checkpoint: CheckpointRecord,
    /// Whether the run had already started.
    pub(super) was_running: bool,
    /// The updates since then.
    pub(super) updates: mpsc::Receiver<RunUpdate>,
}

struct Run {
    stop: watch::Sender<Option<StopReason>>,
    ended: watch::Sender<bool>,
    watchers: Mutex<Watchers>,
}

struct Watchers {
    done: u64,
    senders: Vec<mpsc::Sender<RunUpdate>>,
}

/// The runs of this boot.
pub(super) struct Runs {
    pub(super) checkpoints: Arc<Checkpoints>,
    activity: Arc<ActivityTracker>,
    live: Mutex<HashMap<String, Arc<Run>>>,
}

impl Runs {
    pub(super) fn new(checkpoints: Arc<Checkpoints>, activity: Arc<ActivityTracker>) -> Self {
        Self {
            checkpoints,
            activity,
            live: Mutex::default(),
        }
    }

    /// Joins the run of this work's checkpoint, or starts one from the checkpoint.
    pub(super) async fn start_or_join(
        self: &Arc<Self>,
        work: RunSpec,
    ) -> Result<RunSubscription, DemoError> {
        loop {
            match self.try_join(&work)? {
                Ok(joined) => return Ok(joined),
                // The run is stopping: start a new one after it.
                Err(mut ended) => {
                    let _ = ended.wait_for(|ended| *ended).await;
                }
            }
        }
    }

    fn try_join(
        self: &Arc<Self>,
        work: &RunSpec,
    ) -> Result<Result<RunSubscription, watch::Receiver<bool>>, DemoError> {
        // Held throughout, so that no other call starts the same run in between.
        let mut live = locked(&self.live);
        let mut checkpoint =
            self.checkpoints
                .of_key(&work.client_id, work.tool, &work.arguments, work.total)?;
        let (sender, updates) = mpsc::channel(WATCHER_BUFFER);
        let was_running = live.contains_key(&checkpoint.task_id);
        match live.get(&checkpoint.task_id) {
            Some(run) if run.stop.borrow().is_some() => return Ok(Err(run.ended.subscribe())),
            Some(run) => {
                let mut watchers = locked(&run.watchers);
                watchers.senders.push(sender);
                // The database may be ahead of what the watchers received; this watcher gets the updates after theirs.
                checkpoint.progress = watchers.done;
            }
            None if checkpoint.progress >= checkpoint.total => {
                let ended = RunUpdate::Ended(CheckpointStatus::Completed, checkpoint.progress);
                // Cannot fail: the channel is empty.
                let _ = sender.try_send(ended);
            }
            None => {
                self.checkpoints
                    .set_status(&checkpoint.task_id, CheckpointStatus::Running)?;
                checkpoint.status = CheckpointStatus::Running;
                let run = Arc::new(Run {
                    stop: watch::Sender::new(None),
                    ended: watch::Sender::new(false),
                    watchers: Mutex::new(Watchers {
                        done: checkpoint.progress,
                        senders: vec![sender],
                    }),
                });
                live.insert(checkpoint.task_id.clone(), Arc::clone(&run));
                tokio::spawn(Arc::clone(self).process(run, checkpoint.clone(), work.clone()));
            }
        }
        Ok(Ok(RunSubscription {
            checkpoint,
            was_running,
            updates,
        }))
    }

    /// Asks a run to pause; returns false if there is none.
    pub(super) fn pause(&self, task_id: &str) -> bool {
        let live = locked(&self.live);
        let run = live.get(task_id);
        if let Some(run) = run {
            run.stop.send_replace(Some(StopReason::Pause));
        }
        run.is_some()
    }

    /// Ends a watcher's updates. The last one to leave stops the run, and this waits for that.
    pub(super) async fn leave(&self, watcher: &mut RunSubscription, reason: StopReason) {
        let ended = {
            // Held throughout, so that a call either joins before this or finds the run stopping.
            let live = locked(&self.live);
            watcher.updates.close();
            let is_unwatched = |run: &&Arc<Run>| {
                let watchers = locked(&run.watchers);
                watchers.senders.iter().all(mpsc::Sender::is_closed)
            };
            let run = live.get(&watcher.checkpoint.task_id);
            run.filter(is_unwatched).map(|run| {
                run.stop.send_replace(Some(reason));
                run.ended.subscribe()
            })
        };
        if let Some(mut ended) = ended {
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    async fn process(self: Arc<Self>, run: Arc<Run>, task: CheckpointRecord, work: RunSpec) {
        let _busy = ActivityTracker::start(&self.activity);
        let mut stop = run.stop.subscribe();
        let mut done = task.progress;
        let status = loop {
            if done >= task.total {
                break CheckpointStatus::Completed;
            }
            // A cancel discards the current batch. A pause lets it finish, as real tools do; the status stays
            // "running" until then.
            let is_now = |requested: &Option<StopReason>| {
                requested.is_some_and(|reason| reason != StopReason::Pause)
            };
            tokio::select! {
                biased;
                requested = stop.wait_for(is_now) => break match requested.ok().as_deref() {
                    Some(Some(StopReason::Interrupt)) => CheckpointStatus::Interrupted,
                    _ => CheckpointStatus::Cancelled,
                },
                () = sleep(work.delay) => {} // sleep: simulated work
            }
            let end = (done + work.batch).min(task.total);
            if let Err(error) = self
                .checkpoints
                .commit_batch(&task, &work.dataset, done, end)
            {
                tracing::error!(%error, "could not commit a batch");
                break CheckpointStatus::Failed;
            }
            done = end;
            let senders = {
                let mut watchers = locked(&run.watchers);
                watchers.done = done;
                watchers.senders.retain(|sender| !sender.is_closed());
                watchers.senders.clone()
            };
            for sender in senders {
                let _ = sender.send(RunUpdate::Progress(done)).await;
            }
            if done < task.total && *stop.borrow() == Some(StopReason::Pause) {
                break CheckpointStatus::Paused;
            }
            // With a delay of 0, the thread's other tasks still need a turn.
            tokio::task::yield_now().await;
        };
        let senders = {
            // Saved under the lock, so that a joining call finds either the run or its final status.
            let mut live = locked(&self.live);
            if let Err(error) = self.checkpoints.set_status(&task.task_id, status) {
                tracing::error!(%error, "could not save the final status");
            }
            live.remove(&task.task_id);
            std::mem::take(&mut locked(&run.watchers).senders)
        };
        for sender in senders {
            let _ = sender.send(RunUpdate::Ended(status, done)).await;
        }
        run.ended.send_replace(true);
    }
}

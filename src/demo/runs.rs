//! The work that goes on now: one loop for each checkpoint, whoever watches.
//!
//! Owns the running loops and their watchers. Must not know MCP. Invariants: a checkpoint never has two loops; a watcher
//! hears every step after the one it was told at joining, once, in order; a loop outlives all its watchers.

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
    DemoError,
    checkpoints::{Checkpoint, Checkpoints, Status},
    disk::{self, locked},
    life::Presence,
};

/// Steps that a watcher may lag behind before the work waits for it. Watchers only write to disk, so this is rare.
const LAG: usize = 64;

/// What to process, and how fast.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) client_id: String,
    pub(super) tool: &'static str,
    /// What the key of the checkpoint holds beside the client id and the tool.
    pub(super) arguments: String,
    pub(super) dataset: String,
    pub(super) total: u64,
    /// Records of one batch, at least 1.
    pub(super) batch: u64,
    /// What one batch takes.
    pub(super) delay: Duration,
}

/// What a watcher hears.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// So many records are done.
    Moved(u64),
    /// The loop has ended; nothing follows.
    Ended(Status, u64),
}

/// Why a loop is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// At the end of the batch that is being worked on.
    Pause,
    /// At once.
    Cancel,
    /// At once, because the call's connection is gone.
    Interrupt,
}

/// A watcher's place at a piece of work.
pub(super) struct Joined {
    /// The checkpoint at the moment of joining.
    pub(super) checkpoint: Checkpoint,
    /// Whether the loop was already going.
    pub(super) was_running: bool,
    /// The steps after that moment.
    pub(super) steps: mpsc::Receiver<Step>,
}

struct Run {
    stop: watch::Sender<Option<Stop>>,
    ended: watch::Sender<bool>,
    watchers: Mutex<Watchers>,
}

struct Watchers {
    done: u64,
    senders: Vec<mpsc::Sender<Step>>,
}

/// All loops of this boot.
pub(super) struct Runs {
    pub(super) checkpoints: Arc<Checkpoints>,
    presence: Arc<Presence>,
    live: Mutex<HashMap<String, Arc<Run>>>,
}

impl Runs {
    pub(super) fn new(checkpoints: Arc<Checkpoints>, presence: Arc<Presence>) -> Self {
        Self {
            checkpoints,
            presence,
            live: Mutex::default(),
        }
    }

    /// Joins the loop of this work's checkpoint, or starts it where the checkpoint stands.
    pub(super) async fn start_or_join(self: &Arc<Self>, work: Work) -> Result<Joined, DemoError> {
        loop {
            match self.try_join(&work)? {
                Ok(joined) => return Ok(joined),
                // The loop has been told to stop: this call begins after it.
                Err(mut ended) => {
                    let _ = ended.wait_for(|ended| *ended).await;
                }
            }
        }
    }

    fn try_join(
        self: &Arc<Self>,
        work: &Work,
    ) -> Result<Result<Joined, watch::Receiver<bool>>, DemoError> {
        // Held throughout: between looking and starting nobody else may start the same.
        let mut live = locked(&self.live);
        let mut checkpoint =
            self.checkpoints
                .of_key(&work.client_id, work.tool, &work.arguments, work.total)?;
        let (sender, steps) = mpsc::channel(LAG);
        if let Some(run) = live.get(&checkpoint.task_id) {
            if run.stop.borrow().is_some() {
                return Ok(Err(run.ended.subscribe()));
            }
            let mut watchers = locked(&run.watchers);
            watchers.senders.push(sender);
            // Steps of which this watcher will hear are those after what the watchers were told, not after the disk.
            checkpoint.progress = watchers.done;
            drop(watchers);
            return Ok(Ok(Joined {
                checkpoint,
                was_running: true,
                steps,
            }));
        }
        if checkpoint.progress >= checkpoint.total {
            // The channel is empty and has room for one.
            let _ = sender.try_send(Step::Ended(Status::Completed, checkpoint.progress));
            return Ok(Ok(Joined {
                checkpoint,
                was_running: false,
                steps,
            }));
        }
        self.checkpoints
            .set_status(&checkpoint.task_id, Status::Running)?;
        checkpoint.status = Status::Running;
        let run = Arc::new(Run {
            stop: watch::Sender::new(None),
            ended: watch::Sender::new(false),
            watchers: Mutex::new(Watchers {
                done: checkpoint.progress,
                senders: vec![sender],
            }),
        });
        live.insert(checkpoint.task_id.clone(), Arc::clone(&run));
        drop(live);
        tokio::spawn(Arc::clone(self).drive(run, checkpoint.clone(), work.clone()));
        Ok(Ok(Joined {
            checkpoint,
            was_running: false,
            steps,
        }))
    }

    /// Tells a loop to stop; false if none is going. With a pause and a cancel at once the later one counts.
    pub(super) fn stop(&self, task_id: &str, stop: Stop) -> bool {
        let live = locked(&self.live);
        let run = live.get(task_id);
        if let Some(run) = run {
            run.stop.send_replace(Some(stop));
        }
        run.is_some()
    }

    async fn drive(self: Arc<Self>, run: Arc<Run>, task: Checkpoint, work: Work) {
        let _busy = Presence::busy(&self.presence);
        let mut stop = run.stop.subscribe();
        let mut done = task.progress;
        let status = loop {
            if done >= task.total {
                break Status::Completed;
            }
            // A cancelled batch is thrown away. A pause lets it end: that is what real tools do, and until then the
            // list says running.
            let is_now = |asked: &Option<Stop>| asked.is_some_and(|asked| asked != Stop::Pause);
            tokio::select! {
                biased;
                asked = stop.wait_for(is_now) => break match asked.ok().as_deref() {
                    Some(Some(Stop::Interrupt)) => Status::Interrupted,
                    _ => Status::Cancelled,
                },
                () = sleep(work.delay) => {} // sleep: it is the work
            }
            let end = (done + work.batch).min(task.total);
            if let Err(error) = self
                .checkpoints
                .commit_batch(&task, &work.dataset, done, end)
            {
                tracing::error!(%error, "a batch could not be committed");
                if disk::is_full(&error) {
                    sleep(disk::ROOM_EVERY).await; // sleep: room comes from outside
                    continue;
                }
                break Status::Failed;
            }
            done = end;
            let senders = {
                let mut watchers = locked(&run.watchers);
                watchers.done = done;
                watchers.senders.retain(|sender| !sender.is_closed());
                watchers.senders.clone()
            };
            for sender in senders {
                let _ = sender.send(Step::Moved(done)).await;
            }
            if done < task.total && *stop.borrow() == Some(Stop::Pause) {
                break Status::Paused;
            }
            // A pace of 0 must not keep the other jobs of this thread waiting.
            tokio::task::yield_now().await;
        };
        let senders = {
            // Status and end are one step for those who join: they find the loop going, or its outcome.
            let mut live = locked(&self.live);
            if let Err(error) = self.checkpoints.set_status(&task.task_id, status) {
                tracing::error!(%error, "the outcome could not be saved");
            }
            live.remove(&task.task_id);
            std::mem::take(&mut locked(&run.watchers).senders)
        };
        for sender in senders {
            let _ = sender.send(Step::Ended(status, done)).await;
        }
        run.ended.send_replace(true);
    }
}

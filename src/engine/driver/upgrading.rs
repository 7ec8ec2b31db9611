//! Stops everything between two events, passes it to the program that replaces this one, or takes it all back.

use std::{collections::BTreeSet, io::Write as _};

use tokio::time::Instant;

use super::{Driver, UPGRADE_PAUSE_AT_MOST};
use crate::{
    domain::{NoticeLevel, ServerName, Stamp, Wall},
    engine::{
        driver::state::Linked,
        frames::{HeldCall, KeeperStatus, UpgradeOutcome, Upgraded},
        hook::START_WITHIN,
        socket::{Listener, UpgradeJob},
        upgrade::{FORMAT, KeeperFiles, KeeperState, LinkState, TrialRun, UpgradeError},
    },
    link::Input,
    store::DriverLock,
    transport::{ProgramPipes, ProgramState, Stdio, StdioOptions},
};

/// What runs on while everything else waits for a save.
const SAVES: UpgradeError =
    UpgradeError::Busy("a save, a sign-in or a new connection is in progress");
const WRITES: UpgradeError = UpgradeError::Busy("a server process is not reading its input");

impl From<UpgradeError> for UpgradeOutcome {
    fn from(error: UpgradeError) -> Self {
        Self::NotUpgraded {
            why: error.to_string(),
            is_passing: matches!(error, UpgradeError::Busy(_)),
        }
    }
}

/// A server process as it was captured.
type Program = Option<(ProgramState, ProgramPipes)>;

impl Driver<'_> {
    /// Replaces this program. Returns only if it was not replaced, with everything as it was.
    pub(super) async fn upgrade(
        &mut self,
        job: UpgradeJob,
        listener: &Listener,
        lock: &DriverLock,
    ) {
        let UpgradeJob {
            request,
            trial,
            client,
            turn: _turn,
        } = job;
        let outcome = self
            .try_upgrade(request.is_forced, trial, &client, listener, lock)
            .await;
        self.take_back();
        if let UpgradeOutcome::NotUpgraded { why, .. } = &outcome {
            tracing::info!(error = %why, "not upgraded");
        }
        answer_client(&client, &outcome);
    }

    async fn try_upgrade(
        &mut self,
        is_forced: bool,
        trial: TrialRun,
        client: &std::os::unix::net::UnixStream,
        listener: &Listener,
        lock: &DriverLock,
    ) -> UpgradeOutcome {
        let paused_at = self.clock.now();
        let files = async {
            self.pause(paused_at).await?;
            let held = self.held_calls();
            if !held.is_empty() && !is_forced {
                return Err(UpgradeOutcome::Held(held));
            }
            let (state, files) = self.capture(&trial, paused_at.wall, client, listener, lock)?;
            trial.rehearse(&state, &files)?;
            Ok(files)
        };
        let files = match files.await {
            Ok(files) => files,
            Err(outcome) => return outcome,
        };
        self.publish_changes(self.clock.now());
        let hooks = self.hooks.as_ref();
        if hooks.is_some_and(|it| !it.flush(START_WITHIN)) {
            return SAVES.into();
        }
        // From here on nothing waits, so nothing can end in between.
        let programs = self.links.iter().filter_map(|it| it.stdio.as_ref());
        let running = programs.filter(|stdio| stdio.is_running()).count();
        if running != files.programs.len() {
            return SAVES.into();
        }
        tracing::info!("upgrading: replacing the keeper's program");
        trial.replace().into()
    }

    /// Stops reading and writing, and saves everything.
    async fn pause(&mut self, now: Stamp) -> Result<(), UpgradeError> {
        self.received.inbox.read_network(false);
        let until = self.clock.instant(now.mono.after(UPGRADE_PAUSE_AT_MOST));
        let links = self.links.iter();
        let programs: Vec<Stdio> = links.filter_map(|it| it.stdio.clone()).collect();
        let mut suspended = std::pin::pin!(async move {
            let running = programs.iter().filter(|stdio| stdio.is_running());
            futures_util::future::join_all(running.map(Stdio::suspend)).await;
        });
        loop {
            tokio::select! {
                biased;
                () = &mut suspended => break,
                () = self.tend_once(until) => {}
            }
            if Instant::now() >= until {
                return Err(WRITES);
            }
        }
        let now = self.clock.now();
        // What they had read before.
        self.drain_inbox(now);
        self.feed_all(|| Input::SaveAll, now);
        self.tend_until(until, Self::is_ready).await;
        if self.is_ready() { Ok(()) } else { Err(SAVES) }
    }

    /// Whether everything is saved and nothing is under way that another program could not continue.
    fn is_ready(&self) -> bool {
        let is_quiet = |linked: &Linked| {
            let is_refreshing = |job: &tokio::task::AbortHandle| !job.is_finished();
            // A process that was told to end still runs for a moment.
            let is_running = linked.stdio.as_ref().is_some_and(Stdio::is_running);
            is_running == linked.link.has_process()
                && linked.link.is_ready_to_pass_on()
                && linked.held.is_empty()
                && !linked.is_signing_in()
                && !linked.refreshing.as_ref().is_some_and(is_refreshing)
        };
        self.saves.own.waiting.is_empty() && self.links.iter().all(is_quiet)
    }

    /// Reads and writes again.
    fn take_back(&mut self) {
        for stdio in self.links.iter().filter_map(|it| it.stdio.as_ref()) {
            stdio.resume();
        }
        self.received.inbox.read_network(true);
    }

    /// The calls that would be lost.
    fn held_calls(&self) -> Vec<HeldCall> {
        let lost = self.links.iter().flat_map(|it| it.link.lost_if_passed_on());
        let held = lost.filter_map(|id| {
            let view = self.snapshots.task(&id)?;
            Some(HeldCall {
                title: view.task.title().to_owned(),
                reason: view
                    .if_cut
                    .as_ref()
                    .map_or_else(String::new, |if_cut| if_cut.reason.message()),
                id,
            })
        });
        held.collect()
    }

    /// Everything that the next program can't read from the session file.
    fn capture(
        &self,
        trial: &TrialRun,
        paused_at: Wall,
        client: &std::os::unix::net::UnixStream,
        listener: &Listener,
        lock: &DriverLock,
    ) -> Result<(KeeperState, KeeperFiles), UpgradeError> {
        let no_file = || UpgradeError::Busy("it has reached its limit of open files");
        let mut programs = Vec::new();
        let mut links = Vec::new();
        for linked in &self.links {
            let running = linked.stdio.as_ref().filter(|stdio| stdio.is_running());
            let captured: Program = match running {
                Some(stdio) => Some(stdio.capture().ok_or(WRITES)?),
                None => None,
            };
            let (program, pipes) = captured.unzip();
            links.push(LinkState {
                server: linked.link.record().name.clone(),
                headers: linked.headers.clone(),
                config_headers: linked.config_headers.clone(),
                insecure_http: linked.insecure_http,
                secrets: linked.secrets.save(),
                is_traced: linked.tap.switch().is_on(),
                program,
                has_no_stderr: pipes.as_ref().is_some_and(|pipes| pipes.stderr.is_none()),
            });
            programs.extend(pipes);
        }
        let guard = self.guard.capture();
        let (guard, pipe) = guard.unzip();
        let files = KeeperFiles {
            lock: lock.file.try_clone().map_err(|_| no_file())?.into(),
            listener: listener.duplicate().ok_or_else(no_file)?,
            client: client.try_clone().map_err(|_| no_file())?.into(),
            guard: pipe,
            programs,
        };
        let state = KeeperState {
            format: FORMAT,
            contract: self.paths.contract,
            since_ms: self.lifetime.as_ref().map(|lifetime| lifetime.since.0),
            paused_at_ms: paused_at.0,
            configs: self.configs.clone(),
            traces: self.traces,
            links,
            guard,
            trial: trial.pid(),
        };
        Ok((state, files))
    }

    /// Tells the client of an upgrade that this program drives now.
    pub(super) fn confirm_upgrade(
        &self,
        client: &std::os::unix::net::UnixStream,
        paused_at_ms: i64,
        status: KeeperStatus,
    ) {
        let pause = self.clock.now().wall.since(Wall(paused_at_ms));
        let paused_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(paused_ms, "the keeper continues in this program");
        let upgraded = Upgraded { status, paused_ms };
        answer_client(client, &UpgradeOutcome::Upgraded(upgraded));
    }

    /// Takes over what the program that this one has replaced left. Comes before any task is restored.
    pub(super) fn inherit_links(
        &mut self,
        links: Vec<LinkState>,
        programs: Vec<ProgramPipes>,
        initialized: &BTreeSet<ServerName>,
    ) {
        let mut programs = programs.into_iter();
        let now = self.clock.now();
        for state in links {
            let program = state.program.and_then(|it| Some((it, programs.next()?)));
            let Some(index) = self.index_of(&state.server) else {
                continue;
            };
            let Some(linked) = self.links.get_mut(index) else {
                continue;
            };
            linked.secrets.restore_saved(state.secrets);
            linked.headers = state.headers;
            linked.config_headers = state.config_headers;
            linked.insecure_http = state.insecure_http;
            let gone_from = self.configs.gone_from(&state.server).cloned();
            linked.link.gone_from(gone_from);
            if let Some((program, pipes)) = program {
                let mut options = StdioOptions::new(linked.link.record().name.as_str());
                options.secrets = linked.secrets.clone();
                options.buffered = self.received.unread.clone();
                options.guard = self.guard.clone();
                options.traffic = Some(linked.tap.clone());
                match Stdio::inheriting(options, &program, pipes) {
                    Ok(stdio) => {
                        linked.stdio = Some(stdio);
                        let is_initialized = initialized.contains(&state.server);
                        linked.link.inherit_process(is_initialized);
                    }
                    // Its calls end as after a crash.
                    Err(error) => tracing::error!(%error, "the pipes of {}", state.server),
                }
            }
            if state.is_traced
                && let Err(error) = self.record(index, true)
            {
                self.notice(NoticeLevel::Warning, error.to_string(), now);
            }
        }
    }
}

/// Tells the client that waits for the upgrade how it went.
fn answer_client(mut client: &std::os::unix::net::UnixStream, answer: &UpgradeOutcome) {
    let Ok(line) = serde_json::to_string(answer) else {
        return;
    };
    // It may be gone.
    let _ = client
        .set_nonblocking(false)
        .and_then(|()| writeln!(client, "{line}"));
}

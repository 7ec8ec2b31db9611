//! The session in use by a command: asks and their answers, news, signals, and leaving in order.
//!
//! Must not know what is printed. Invariant: a driver leaves only when nothing that others wait for would end by it, or
//! when the person says so twice.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    Context, config,
    fail::{Fail, code},
};
use crate::{
    domain::{
        LeaveImpact, Notice, NoticeLevel, RequestError, ServerName, ServerRef, ServerView,
        SessionEvent, SessionRequest, SessionResponse, TaskId, TaskView, text,
    },
    engine::{Options, Session, Subscription},
    term::{interruptible::end_writes_on_signals, signals::OtherSignals},
};

/// How long a driver stays silent about what keeps it.
const STAYS_SILENT: Duration = Duration::from_secs(1);

/// Something that a command reacts to.
#[derive(Debug)]
pub(super) enum Event {
    /// News of the engine; pictures of tasks are kept in [`Live::tasks`] too.
    Session(SessionEvent),
    /// Ctrl-C.
    Interrupted,
    /// A signal that leaves no choice: the terminal is gone, or the system ends us.
    Ended,
}

/// The session, opened.
pub(super) struct Live {
    session: Session,
    news: Subscription,
    waiting: VecDeque<SessionEvent>,
    /// One that [`Self::has_come`] found.
    signal: Option<Event>,
    /// The newest picture of every task.
    pub(super) tasks: BTreeMap<TaskId, Arc<TaskView>>,
    /// The newest picture of every server.
    pub(super) servers: BTreeMap<ServerName, Arc<ServerView>>,
    /// Whether this process drives.
    pub(super) is_driver: bool,
    /// Whether [`Self::warns`] has said it.
    was_warned: bool,
    interrupt: Signal,
    ends: [Signal; 3],
    others: OtherSignals,
}

/// Ids in a sentence.
pub(super) fn ids_of(dying: &[(TaskId, String)]) -> String {
    let ids: Vec<&str> = dying.iter().map(|(id, _)| id.as_str()).collect();
    ids.join(", ")
}

impl Live {
    /// Opens the session; whether it can be used shows in the news.
    pub(super) fn open(context: &mut Context<'_>, servers: Vec<ServerRef>) -> Result<Self, Fail> {
        let deaf = |error| Fail::new(code::BUG, format!("could not listen for signals: {error}"));
        let listen = |kind| signal(kind).map_err(deaf);
        end_writes_on_signals().map_err(deaf)?;
        let interrupt = listen(SignalKind::interrupt())?;
        let ends = [
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
            listen(SignalKind::quit())?,
        ];
        let others = OtherSignals::catch().map_err(deaf)?;
        let config = config::server_configs(context.config()?.servers.clone());
        let hook = context.config()?.hook();
        // Once is enough, also where a command opens the session twice.
        let remarks = context
            .config
            .as_mut()
            .map(|it| std::mem::take(&mut it.remarks));
        for remark in remarks.unwrap_or_default() {
            context.terminal.say(&format!("longhaul: {remark}"));
        }
        let session = Session::open(Options {
            paths: context.paths.clone(),
            servers,
            config,
            read_config: config::read_roster,
            readonly: context.global.readonly,
            environment: super::variable,
            logins: context.logins.clone(),
            insecure_http: context.global.insecure_http,
            traces: context.global.trace,
            protocol: context.global.protocol.0,
            seed: super::dice(),
            clock: context.clock,
            hook,
            die_after: super::die_after(),
            fuse: super::screen::fuse(),
        });
        let news = session.subscribe();
        Ok(Self {
            session,
            news,
            waiting: VecDeque::new(),
            signal: None,
            tasks: BTreeMap::new(),
            servers: BTreeMap::new(),
            is_driver: false,
            was_warned: false,
            interrupt,
            ends,
            others,
        })
    }

    /// The next thing to react to. Notices are said here, trouble ends the command.
    pub(super) async fn next(&mut self, context: &mut Context<'_>) -> Result<Event, Fail> {
        loop {
            // However much there is to tell: whoever is asked to end, ends.
            self.has_come().await;
            if let Some(signal) = self.signal.take() {
                return Ok(signal);
            }
            if let Some(news) = self.waiting.pop_front() {
                match &news {
                    SessionEvent::Task(view) => {
                        self.tasks.insert(view.task.id.clone(), Arc::clone(view));
                    }
                    SessionEvent::Erased(id) => {
                        self.tasks.remove(id);
                    }
                    SessionEvent::Driver { is_us, .. } => self.is_driver = *is_us,
                    SessionEvent::Notice(notice) => tell(context, notice),
                    SessionEvent::Trouble { words, exit } => return Err(Fail::new(*exit, words.clone())),
                    SessionEvent::Server(view) => {
                        self.servers.insert(view.name.clone(), Arc::clone(view));
                    }
                    SessionEvent::Undriven if context.global.readonly => context.terminal.say(
                        "longhaul: nobody drives this session; what is saved is shown, and --readonly drives nothing",
                    ),
                    SessionEvent::Undriven | SessionEvent::Answer { .. } => {}
                }
                return Ok(Event::Session(news));
            }
            let [terminate, hangup, quit] = &mut self.ends;
            let signal = tokio::select! {
                biased;
                _ = self.interrupt.recv() => Event::Interrupted,
                _ = terminate.recv() => Event::Ended,
                _ = hangup.recv() => Event::Ended,
                _ = quit.recv() => Event::Ended,
                _ = self.others.next() => Event::Ended,
                () = self.news.changed() => continue,
            };
            return Ok(signal);
        }
    }

    /// Whether [`Self::next`] has something to give without waiting for it.
    pub(super) async fn has_come(&mut self) -> bool {
        if self.waiting.is_empty() {
            self.waiting.extend(self.news.take());
        }
        // The runtime hears of signals only when it is given a turn.
        tokio::task::yield_now().await;
        self.signal = self.signal.take().or_else(|| self.signalled());
        self.signal.is_some() || !self.waiting.is_empty()
    }

    /// A signal that has come, without waiting for one.
    fn signalled(&mut self) -> Option<Event> {
        let ends = self.ends.iter_mut();
        if ends.filter_map(|end| end.recv().now_or_never()).count() > 0
            || self.others.next().now_or_never().is_some()
        {
            return Some(Event::Ended);
        }
        let interrupted = self.interrupt.recv().now_or_never();
        interrupted.map(|_| Event::Interrupted)
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(
        &mut self,
        context: &mut Context<'_>,
        what: SessionRequest,
    ) -> Result<SessionResponse, Fail> {
        Ok(self.outcome(context, what).await??)
    }

    /// Asks, and waits for the answer, be it a refusal.
    pub(super) async fn outcome(
        &mut self,
        context: &mut Context<'_>,
        what: SessionRequest,
    ) -> Result<Result<SessionResponse, RequestError>, Fail> {
        let asked = self.session.ask(&self.news, what);
        loop {
            match self.next(context).await? {
                Event::Session(SessionEvent::Answer { ask, outcome }) if ask == asked => {
                    return Ok(outcome.map_err(|refused| refused.reworded(|it| context.whole(it))));
                }
                Event::Session(_) => {}
                Event::Interrupted | Event::Ended => {
                    return Err(Fail::new(
                        code::INTERRUPTED,
                        format!(
                            "interrupted before there was an answer; `longhaul ls{}` shows what was started",
                            context.flags()
                        ),
                    ));
                }
            }
        }
    }

    /// Leaves in order. What would end by it is waited for, except the tasks of `ours`, whose price was told before.
    pub(super) async fn leave(mut self, context: &mut Context<'_>, ours: &[TaskId]) {
        let silent_until = tokio::time::Instant::now() + STAYS_SILENT;
        let mut was_said = false;
        while let Some(reason) = self.stays_for(ours) {
            let event = if was_said {
                self.next(context).await
            } else if let Ok(event) =
                tokio::time::timeout_at(silent_until, self.next(context)).await
            {
                event
            } else {
                let line = format!("longhaul: {reason}; Ctrl-C leaves all the same");
                context.terminal.say(&line);
                was_said = true;
                continue;
            };
            match event {
                Ok(Event::Session(_)) => {}
                Ok(Event::Interrupted | Event::Ended) | Err(_) => break,
            }
        }
        self.session.close();
    }

    /// Leaves in order, whatever it ends.
    pub(super) fn close(self) {
        self.session.close();
    }

    /// Why this driver should not leave yet.
    fn stays_for(&self, ours: &[TaskId]) -> Option<String> {
        let mut dying = self.dying();
        dying.retain(|(id, _)| !ours.contains(id));
        let (id, why) = dying.first()?;
        let count = u64::try_from(dying.len()).unwrap_or(u64::MAX);
        Some(format!(
            "staying, because quitting would end {} driven from here ({id}: {why})",
            text::plural(count, "call")
        ))
    }

    /// The calls that leaving would end, and why. Only the driver ends any.
    pub(super) fn dying(&self) -> Vec<(TaskId, String)> {
        let views = self.tasks.values().filter(|_| self.is_driver);
        views
            .filter_map(|view| match &view.leaving {
                Some(LeaveImpact::Dies { why }) => Some((view.task.id.clone(), why.clone())),
                _ => None,
            })
            .collect()
    }

    /// Says what a first Ctrl-C would end, ours first; whether there is anything that was not said yet.
    pub(super) fn warns(&mut self, context: &mut Context<'_>, ours: Option<&TaskId>) -> bool {
        let mut dying = self.dying();
        dying.sort_by_key(|(id, _)| Some(id) != ours);
        let Some((_, why)) = dying.first().filter(|_| !self.was_warned) else {
            return false;
        };
        self.was_warned = true;
        let words = format!(
            "leaving ends {}: {}. Ctrl-C again leaves",
            ids_of(&dying),
            text::clean_line(why)
        );
        context.terminal.say(&words);
        true
    }
}

/// Says what the engine has to say.
fn tell(context: &mut Context<'_>, notice: &Notice) {
    let words = context.whole(&notice.text);
    let line = format!("longhaul: {}", text::clean_line(&words));
    match notice.level {
        NoticeLevel::Info => context.terminal.remark(&line),
        NoticeLevel::Warning | NoticeLevel::Error => context.terminal.say(&line),
    }
}

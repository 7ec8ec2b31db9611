//! Following one task to its end: history first, then live, each entry once, always from what is committed.
//!
//! Owns `watch` and what `call` does after its start. Must not know how a call is made. Invariant: what is printed was
//! read from the session file, in the order of `seq`, and nothing is printed twice.

use std::{fs, sync::Arc, time::Duration};

use super::{
    Context, block_on,
    fail::{Fail, code, outcome},
    json, lines,
    live::{Event, Live, ids_of},
    prompt::{Lines, Prompt, QuestionId, Step},
    quoted,
    target::Targets,
};
use crate::{
    domain::{
        Connectivity, Elicitation, HistoryEntry, HistoryEvent, LeaveImpact, LinkState, Mono, Pace,
        Phase, Progress, ServerName, SessionEvent, SessionRequest, Status, Task, TaskErrorKind,
        TaskId, TaskView, Wall, text, whole_percent,
    },
    store::{Lookup, Reader},
};

/// Entries read at a time.
const CHUNK: usize = 512;
/// The width of the bar itself.
const BAR: usize = 20;

/// How entries are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// NDJSON on stdout.
    Json,
    /// Lines on stdout: `watch`, `logs`.
    Lines,
    /// Progress on stderr, the result on stdout: `call`.
    Call,
}

/// Prints the history of one task.
pub(super) struct Printer {
    id: TaskId,
    reader: Reader,
    style: Style,
    /// In lines: only how it stands and ends.
    is_terse: bool,
    printed: u64,
    progress: Option<Progress>,
    pace: Pace,
}

impl Printer {
    /// Begins after the entry with number `after`.
    pub(super) fn new(id: TaskId, reader: Reader, style: Style, after: u64) -> Self {
        Self {
            id,
            reader,
            style,
            is_terse: false,
            printed: after,
            progress: None,
            pace: Pace::default(),
        }
    }

    /// The record of the task, from the file.
    pub(super) fn task(&mut self) -> Result<Task, Fail> {
        match self.reader.task(self.id.as_str())? {
            Lookup::One(task) => Ok(*task),
            _ => Err(Fail::usage(format!("{} is gone from the session", self.id))),
        }
    }

    /// Prints every committed entry that was not printed yet; for a history that does not grow any more.
    pub(super) fn catch_up(&mut self, context: &mut Context<'_>) -> Result<(), Fail> {
        while self.advance(context)? {}
        Ok(())
    }

    /// Prints some of the committed entries that were not printed yet, and says whether there may be more. A history can
    /// grow faster than it is printed, so whoever follows one looks up in between.
    fn advance(&mut self, context: &mut Context<'_>) -> Result<bool, Fail> {
        if self.style == Style::Call && context.global.quiet {
            // None of it would be said; the result is printed from its own record.
            self.printed = self.task()?.seq;
            return Ok(false);
        }
        let entries = self.reader.history(&self.id, self.printed, CHUNK)?;
        if entries.is_empty() {
            return Ok(false);
        }
        // Read after the entries, so that it knows at least what they know.
        let task = self.task()?;
        for entry in &entries {
            self.print(context, &task, entry)?;
            self.printed = entry.seq;
        }
        Ok(true)
    }

    /// Prints one entry.
    pub(super) fn print(
        &mut self,
        context: &mut Context<'_>,
        task: &Task,
        entry: &HistoryEntry,
    ) -> Result<(), Fail> {
        let now = context.clock.now();
        match self.style {
            Style::Json => {
                let result = match entry.what {
                    HistoryEvent::Settled { .. } => self.reader.result(&self.id)?,
                    _ => None,
                };
                context.terminal.document(&json::text_of(&json::event(
                    task,
                    entry,
                    result.as_deref(),
                )))
            }
            Style::Lines => {
                let is_step = matches!(
                    entry.what,
                    HistoryEvent::Started { .. }
                        | HistoryEvent::Progress { .. }
                        | HistoryEvent::Log { .. }
                        | HistoryEvent::Contact { .. }
                );
                if self.is_terse && is_step {
                    return Ok(());
                }
                let line = lines::entry(&self.id, entry, now.wall);
                context.terminal.line(&line)
            }
            Style::Call => {
                if let HistoryEvent::Progress {
                    value,
                    total,
                    message,
                } = &entry.what
                {
                    let progress = Progress {
                        value: *value,
                        total: *total,
                        message: message.clone(),
                    };
                    self.pace.step(now, progress.value);
                    self.progress = Some(progress);
                    if context.terminal.draws_bars() {
                        return Ok(());
                    }
                }
                let is_for_the_end = matches!(entry.what, HistoryEvent::Settled { .. });
                let is_debug = matches!(entry.what, HistoryEvent::Log { level, .. } if level == crate::domain::LogLevel::Debug);
                if !is_for_the_end && !is_debug {
                    let line = lines::entry(&self.id, entry, now.wall);
                    context.terminal.remark(&line);
                }
                Ok(())
            }
        }
    }

    /// Draws the bar anew.
    fn bar(&self, context: &mut Context<'_>, view: &TaskView) {
        if self.style != Style::Call
            || !context.terminal.draws_bars()
            || view.task.status.ends_waiting()
        {
            return;
        }
        let now = context.clock.now();
        let contact = match view.contact.at(now) {
            Connectivity::Live { .. } | Connectivity::Idle => String::new(),
            other => format!("  {}", other.label()),
        };
        let asked = view
            .task
            .control
            .map_or(String::new(), |asked| format!("  {}", asked.what.label()));
        let guess = view.guess.map_or(String::new(), |share| {
            format!("  ~{}%", whole_percent(share))
        });
        let Some(progress) = &self.progress else {
            let said = view.task.server_message().map_or(String::new(), |said| {
                format!("  {}", text::clean_line(said))
            });
            context.terminal.bar(&format!(
                "{}  {}{guess}{contact}{asked}{said}",
                self.id,
                view.task.status.label()
            ));
            return;
        };
        let bar = match progress.ratio() {
            Some(ratio) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a part of a small number"
                )]
                let full = (ratio * BAR as f64) as usize;
                let (on, off) = if context.global.ascii {
                    ("#", ".")
                } else {
                    ("█", "░")
                };
                format!(
                    "{}{}  ",
                    on.repeat(full),
                    off.repeat(BAR.saturating_sub(full))
                )
            }
            None => String::new(),
        };
        let left = progress
            .total
            .and_then(|total| self.pace.time_left(now, total))
            .map_or(String::new(), |left| format!("  {}", text::time_left(left)));
        let message = progress.message.as_deref().map_or(String::new(), |said| {
            format!("  {}", text::clean_line(said))
        });
        context.terminal.bar(&format!(
            "{}  {bar}{}{guess}{left}{contact}{asked}{message}",
            self.id,
            lines::amount(progress)
        ));
    }
}

/// Who answers the questions of a server while its call is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// The person at this terminal, at once.
    Here,
    /// Nobody here: the follow ends with the code for that.
    Elsewhere,
}

/// How a follow goes on when the task is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// To the end.
    TheEnd,
    /// Until leaving no longer ends it (`--detach`); to the end where that never comes.
    Detachable,
}

/// Follows a task until it ends, a person decides otherwise, or the session fails. Leaves the session.
pub(super) async fn follow(
    context: &mut Context<'_>,
    mut live: Live,
    mut printer: Printer,
    until: Until,
    answers: Answers,
) -> Result<u8, Fail> {
    let id = printer.id.clone();
    let mut follow = Follow {
        context,
        live: &mut live,
        printer: &mut printer,
        until,
        id: id.clone(),
        is_behind: until == Until::TheEnd,
        waits_since: None,
        was_unsaved: false,
        is_unheard: false,
        told: Vec::new(),
        asked: None,
        answers,
        prompt: None,
        answered: Vec::new(),
        lines: None,
    };
    let outcome = follow.run().await;
    let until = follow.until;
    context.terminal.asked(false);
    context.terminal.clear_bar();
    if matches!(outcome, Ok(Left::Ended(_) | Left::Detached)) && until == Until::TheEnd {
        live.ask_quietly(context, SessionRequest::Seen(id.clone()))
            .await;
    }
    match outcome {
        Ok(Left::Ended(code)) => {
            live.leave(context, std::slice::from_ref(&id)).await;
            Ok(code)
        }
        Ok(Left::Detached) => {
            live.leave(context, &[]).await;
            Ok(code::OK)
        }
        Ok(Left::Forgotten) => {
            live.leave(context, std::slice::from_ref(&id)).await;
            Err(forgotten(context, &id))
        }
        Ok(Left::Interrupted) => {
            let mut others = live.dying();
            others.retain(|(dies, _)| *dies != id);
            let price = live.tasks.get(&id).and_then(|view| view.leaving.clone());
            let is_driver = live.is_driver;
            live.close();
            let flags = context.flags();
            let words = match &price {
                // Only the driver ends a call by leaving.
                Some(LeaveImpact::Dies { why }) if is_driver => format!(
                    "leaving ended {id}: {}; run it again: longhaul again {id}{flags}",
                    text::clean_line(why)
                ),
                _ => {
                    format!(
                        "follow it: longhaul attach {id}{flags}; stop it: longhaul cancel {id}{flags}"
                    )
                }
            };
            context.terminal.say(&words);
            if let Some((_, why)) = others.first() {
                let others = ids_of(&others);
                let words = format!(
                    "leaving ended {others}, driven from here: {}",
                    text::clean_line(why)
                );
                context.terminal.say(&words);
            }
            if let Some(LeaveImpact::Likely { why, until }) = price {
                let now = context.clock.now().wall;
                let until = until.map_or(String::new(), |until| {
                    format!(", until about {}", lines::clock(until, now))
                });
                let note = format!("left {id} running; it can probably be resumed{until}: {why}");
                context.terminal.say(&text::clean_line(&note));
            }
            Ok(code::INTERRUPTED)
        }
        Err(fail) => {
            live.close();
            Err(fail)
        }
    }
}

/// How a follow ended.
enum Left {
    Ended(u8),
    Detached,
    Interrupted,
    Forgotten,
}

/// What is said once in a follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Once {
    Waits,
    Unread,
    Unreachable,
}

/// One follow under way.
struct Follow<'f, 'c> {
    context: &'f mut Context<'c>,
    live: &'f mut Live,
    printer: &'f mut Printer,
    until: Until,
    id: TaskId,
    /// There may be more to print than was read.
    is_behind: bool,
    /// When `--detach` began to wait.
    waits_since: Option<Mono>,
    /// Whether the newest picture was not saved.
    was_unsaved: bool,
    /// Whoever drives may not have heard of a sign-in yet.
    is_unheard: bool,
    told: Vec<Once>,
    /// The question that was shown last.
    asked: Option<String>,
    answers: Answers,
    /// The question that is being answered here.
    prompt: Option<Prompt>,
    /// What was answered here, which an older picture still shows as open.
    answered: Vec<QuestionId>,
    lines: Option<Lines>,
}

impl Follow<'_, '_> {
    /// Goes on until the task ends, is left or has to be left.
    async fn run(&mut self) -> Result<Left, Fail> {
        loop {
            if self.is_behind {
                self.is_behind = print_new(self.context, self.printer)?;
            }
            if let Some(view) = self.live.tasks.get(&self.id).cloned()
                && let Some(left) = self.look(&view).await?
            {
                return Ok(left);
            }
            if self.is_behind && !self.live.has_come().await {
                continue;
            }
            if self.prompt.is_some() {
                if let Some(left) = self.converse().await? {
                    return Ok(left);
                }
                continue;
            }
            let next = self.live.next(self.context);
            let is_silent = self.until == Until::Detachable
                && self.waits_since.is_some()
                && !self.told.contains(&Once::Waits);
            // What is due by time alone.
            let again = if self.is_unheard {
                Some(LOOKS_AGAIN)
            } else {
                is_silent.then_some(WAITS_SILENTLY)
            };
            let event = if let Some(again) = again {
                let Ok(event) = tokio::time::timeout(again, next).await else {
                    continue;
                };
                event?
            } else {
                next.await?
            };
            if let Some(left) = self.react(&event)? {
                return Ok(left);
            }
        }
    }

    /// What an event means beside the new pictures that it may have brought; `Some` ends the follow.
    fn react(&mut self, event: &Event) -> Result<Option<Left>, Fail> {
        Ok(match event {
            Event::Session(SessionEvent::Erased(gone)) if *gone == self.id => Some(Left::Forgotten),
            Event::Session(SessionEvent::Undriven) => {
                over(self.context, self.printer)?.map(Left::Ended)
            }
            Event::Session(_) => None,
            Event::Interrupted if self.live.warns(self.context, Some(&self.id)) => None,
            Event::Interrupted | Event::Ended => Some(Left::Interrupted),
        })
    }

    /// Waits for a line that is typed, or for whatever else comes first; `Some` ends the follow.
    async fn converse(&mut self) -> Result<Option<Left>, Fail> {
        let lines = self.lines.get_or_insert_with(Lines::start);
        let line = tokio::select! {
            biased;
            event = self.live.next(self.context) => return self.react(&event?),
            line = lines.next() => line,
        };
        self.context.terminal.asked(line.is_some());
        let Some(prompt) = &mut self.prompt else {
            return Ok(None);
        };
        let step = line.map_or(Ok(Step::Later), |line| prompt.read(&line));
        match step {
            Ok(Step::More) => {
                for choice in prompt.choices() {
                    self.context.terminal.say(&choice);
                }
                self.context.terminal.ask(&prompt.message());
            }
            Err(why) => {
                self.context.terminal.say(&format!("  {why}"));
                self.context.terminal.ask(&prompt.message());
            }
            Ok(Step::Later) => (self.answers, self.prompt) = (Answers::Elsewhere, None),
            Ok(Step::Answer(answer)) => {
                let question = prompt.id().clone();
                self.prompt = None;
                let word = answer.outcome();
                let what = SessionRequest::Answer {
                    id: self.id.clone(),
                    key: Some(question.key.clone()),
                    answer,
                };
                self.answered.push(question);
                match self.live.outcome(self.context, what).await? {
                    Ok(_) => {
                        let words = format!("{} is {word}", self.id);
                        self.context.terminal.remark(&words);
                    }
                    Err(refused) => {
                        self.answers = Answers::Elsewhere;
                        self.context.terminal.say(&format!("longhaul: {refused}"));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Asks here what the server asks; whether it is waited for.
    fn ask_here(&mut self, view: &TaskView) -> bool {
        if self.answers == Answers::Elsewhere {
            return false;
        }
        let question = view.task.open_question();
        if let Some(prompt) = &self.prompt {
            if question.map(QuestionId::of).as_ref() == Some(prompt.id()) {
                return true;
            }
            self.prompt = None;
            self.context.terminal.asked(false);
            let words = format!("the question of {} was answered, or withdrawn", self.id);
            self.context.terminal.remark(&words);
        }
        let Some(question) = question else {
            return false;
        };
        if self.answered.contains(&QuestionId::of(question)) || view.saved_seq < view.task.seq {
            return true;
        }
        let prompt = Prompt::new(question);
        let now = self.context.clock.now().wall;
        for line in prompt.intro(now, &view.task, question) {
            self.context.terminal.say(&line);
        }
        self.lines.get_or_insert_with(Lines::start).forget();
        self.context.terminal.ask(&prompt.message());
        self.prompt = Some(prompt);
        true
    }

    /// What a new picture of the task means; `Some` ends the follow.
    async fn look(&mut self, view: &Arc<TaskView>) -> Result<Option<Left>, Fail> {
        if self.until == Until::Detachable && self.is_left(view)? {
            return Ok(Some(Left::Detached));
        }
        if self.until == Until::TheEnd {
            if !self.is_behind && view.saved_seq > self.printer.printed {
                self.is_behind = print_new(self.context, self.printer)?;
            }
            self.printer.bar(self.context, view);
        }
        self.tell_unread(view)?;
        self.tell_trouble(view);
        // What it came to is said below all that led there.
        if self.is_behind {
            return Ok(None);
        }
        if self.ask_here(view) {
            return Ok(None);
        }
        let question = view.task.open_question().map(|question| &question.key);
        // Who is to answer finds nothing left if it ends with us.
        if let Some(LeaveImpact::Dies { why }) = &view.leaving
            && self.live.is_driver
            && question.is_some()
        {
            if view.saved_seq >= view.task.seq && question != self.asked.as_ref() {
                self.asked = question.cloned();
                last_words(self.context, self.printer, &view.task)?;
                self.context.terminal.say(&format!(
                    "longhaul: staying until it is answered, because leaving would end {}: {}",
                    self.id,
                    text::clean_line(why)
                ));
            }
            return Ok(None);
        }
        self.is_unheard = view.contact == Connectivity::NeedsLogin
            && !self.live.is_driver
            && was_signed_in_just_now(self.context);
        if self.is_unheard {
            return Ok(None);
        }
        let code = ended(self.context, self.live, self.printer, view).await?;
        if code.is_none() && view.task.forgotten_at.is_some() {
            return Ok(Some(Left::Forgotten));
        }
        Ok(code.map(Left::Ended))
    }

    /// Whether it could be left by now, which is said. Where it never can be, it is followed to its end.
    fn is_left(&mut self, view: &Arc<TaskView>) -> Result<bool, Fail> {
        let id = self.id.clone();
        match detaches(view, self.live.is_driver) {
            Detach::Now => {
                if view.task.status.ends_waiting() {
                    let status = view.task.status.label();
                    let flags = self.context.flags();
                    let words = format!(
                        "longhaul: {id} finished before longhaul could detach: {status}; longhaul result {id}{flags} shows it"
                    );
                    if view.task.status == Status::Completed {
                        self.context.terminal.remark(&words);
                    } else {
                        self.context.terminal.say(&words);
                    }
                }
                if let Some(LeaveImpact::Pauses { why }) = &view.leaving {
                    let flags = self.context.flags();
                    self.context.terminal.say(&format!(
                        "longhaul: {id} pauses until longhaul runs again: {}; continue it: longhaul attach {id}{flags}",
                        text::clean_line(why)
                    ));
                }
                print_id(self.context, self.printer)?;
                return Ok(true);
            }
            Detach::Never(why) => {
                self.context.terminal.say(&format!(
                    "longhaul: staying, because quitting would end {id}: {why}"
                ));
                self.until = Until::TheEnd;
            }
            Detach::Refused => self.until = Until::TheEnd,
            Detach::NotYet => {
                let now = self.context.clock.now().mono;
                let waited = now.since(*self.waits_since.get_or_insert(now));
                let words = waiting_words(view.leaving.as_ref(), self.live.is_driver, waited);
                if let Some(words) = words
                    && self.is_first(Once::Waits)
                {
                    self.context.terminal.remark(&words);
                }
            }
        }
        Ok(false)
    }

    /// Ends a follow that nobody reads, unless the task would end by it.
    fn tell_unread(&mut self, view: &TaskView) -> Result<(), Fail> {
        // An older picture than what was read may know nothing of the price yet.
        let Some(why_unread) =
            self.context.terminal.unread().filter(|_| {
                view.task.seq >= self.printer.printed && !view.task.status.ends_waiting()
            })
        else {
            return Ok(());
        };
        match &view.leaving {
            Some(LeaveImpact::Dies { why }) if self.live.is_driver => {
                // Most calls begin so; only of a stream without ids it is known to stay so.
                if view.task.resumability.stream == Some(false) && self.is_first(Once::Unread) {
                    self.context.terminal.say(&format!(
                        "longhaul: stdout is not being read; staying, because quitting would end {}: {}",
                        self.id,
                        text::clean_line(why)
                    ));
                }
                Ok(())
            }
            _ => Err(Fail::Unread(why_unread)),
        }
    }

    fn tell_trouble(&mut self, view: &TaskView) {
        let id = self.id.clone();
        if view.is_unsaved && !self.was_unsaved {
            self.context.terminal.say(&format!(
                "longhaul: {id} is NOT SAVED; free up disk space (saving is retried)"
            ));
        }
        self.was_unsaved = view.is_unsaved;
        // Cuts are in the history; of a call that is still to be sent nothing else would be heard.
        if let Connectivity::Offline { why, .. } = &view.contact
            && view.task.is_queued()
            && self.is_first(Once::Unreachable)
        {
            self.context.terminal.say(&format!(
                "longhaul: could not reach {} ({why}); {id} is not sent yet and waits until it can be; stop waiting: longhaul cancel {id}{}; \
                 Ctrl-C leaves it waiting",
                view.task.server,
                self.context.flags()
            ));
        }
    }

    /// Whether this was not said yet; from now on it was.
    fn is_first(&mut self, what: Once) -> bool {
        let is_first = !self.told.contains(&what);
        if is_first {
            self.told.push(what);
        }
        is_first
    }
}

/// Prints some of what is new, and says whether there may be more. Where stdout was closed it goes on without printing:
/// whether to stay is for the price of leaving to say.
fn print_new(context: &mut Context<'_>, printer: &mut Printer) -> Result<bool, Fail> {
    match printer.advance(context) {
        Err(Fail::Unread(why)) => {
            context.terminal.give_up_out(why);
            printer.advance(context)
        }
        other => other,
    }
}

/// How long a sign-in may take to reach whoever drives, who looks for one every second.
const HEARD_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked whether that is over.
const LOOKS_AGAIN: Duration = Duration::from_millis(200);

/// Whether what the driver says of missing credentials may be older than a sign-in.
fn was_signed_in_just_now(context: &Context<'_>) -> bool {
    let changed = fs::metadata(context.logins.path()).and_then(|found| found.modified());
    let changed = changed
        .ok()
        .and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok())
        .and_then(|at| i64::try_from(at.as_millis()).ok());
    let now = context.clock.now().wall;
    // A file from the future would have to be waited for.
    changed.is_some_and(|at| at <= now.0 && now.since(Wall(at)) < HEARD_WITHIN)
}

/// How long `--detach` waits for a first sign of the call without a word: most calls can be left after a moment.
const WAITS_SILENTLY: Duration = Duration::from_secs(1);

/// What is said of a call that could not be left yet after so long.
fn waiting_words(
    leaving: Option<&LeaveImpact>,
    is_driver: bool,
    waited: Duration,
) -> Option<String> {
    let Some(LeaveImpact::Dies { why }) = leaving else {
        return None;
    };
    (waited >= WAITS_SILENTLY).then(|| {
        if is_driver {
            format!(
                "waiting: leaving now would end it ({}); Ctrl-C twice leaves all the same",
                text::clean_line(why)
            )
        } else {
            // Only the driver ends a call by leaving.
            "waiting until the call is sent; another longhaul drives it, so Ctrl-C leaves without ending it"
                .to_owned()
        }
    })
}

/// Whether a call can be left alone.
enum Detach {
    NotYet,
    Now,
    Never(String),
    Refused,
}

fn detaches(view: &Arc<TaskView>, is_driver: bool) -> Detach {
    let phase = view.task.attempt().map(|attempt| attempt.phase);
    match (&view.leaving, phase) {
        _ if view.task.error.is_some() => Detach::Refused,
        // Whoever drives stays with it, and sends it when that can be done.
        (_, Some(Phase::Queued) | None) if !is_driver => match view.contact {
            Connectivity::Offline { .. } => Detach::Now,
            _ => Detach::NotYet,
        },
        _ if !is_driver => Detach::Now,
        // Known once the first event came without an id.
        (Some(LeaveImpact::Dies { why }), Some(Phase::Open))
            if view.task.resumability.stream == Some(false) =>
        {
            Detach::Never(why.clone())
        }
        (Some(LeaveImpact::Dies { .. }), _) => Detach::NotYet,
        _ if view.task.status.ends_waiting() => Detach::Now,
        (_, Some(Phase::Queued) | None) => Detach::NotYet,
        _ => Detach::Now,
    }
}

fn print_id(context: &mut Context<'_>, printer: &mut Printer) -> Result<(), Fail> {
    if printer.style == Style::Json {
        let first = printer.reader.history(&printer.id, 0, 1)?;
        let task = printer.task()?;
        return match first.first() {
            Some(entry) => printer.print(context, &task, entry),
            None => context
                .terminal
                .document(&json::text_of(&serde_json::json!({"id": task.id}))),
        };
    }
    context.terminal.line(printer.id.as_str())
}

/// What a server wants before anything else, and what a person can do about it.
pub(super) fn wants(context: &Context<'_>, live: &Live, server: &ServerName) -> (String, String) {
    let state = live.servers.get(server).map(|server| &server.state);
    let sign_in = format!(
        "Sign in with `longhaul login {}{}`, or pass credentials with -H or --bearer-env",
        quoted(server.as_str()),
        context.flags()
    );
    match state {
        Some(LinkState::NeedsLogin {
            why,
            takes_sign_in: false,
        }) => (why.clone(), credentials(context, server)),
        Some(LinkState::NeedsLogin { why, .. }) => (why.clone(), sign_in),
        Some(LinkState::NotStarted { why, .. }) => {
            (why.clone(), "It resumes once that is done".to_owned())
        }
        _ => (format!("{server} wants credentials"), sign_in),
    }
}

/// What to do about credentials that no sign-in brings.
fn credentials(context: &Context<'_>, server: &ServerName) -> String {
    let config = context.config.as_ref().ok();
    let server = config.and_then(|config| config.servers.iter().find(|it| it.name == *server));
    if server.is_some_and(|server| server.withheld.is_some()) {
        return "It resumes once that is done".to_owned();
    }
    match server.map(|server| server.variables()).as_deref() {
        None | Some([]) => "Pass credentials with -H or --bearer-env".to_owned(),
        Some(variables) => format!(
            "Set ${} to what it takes where longhaul is started, or pass credentials with -H or --bearer-env",
            variables.join(", $")
        ),
    }
}

/// The exit code, once the task has come to an end that is on disk.
async fn ended(
    context: &mut Context<'_>,
    live: &mut Live,
    printer: &mut Printer,
    view: &Arc<TaskView>,
) -> Result<Option<u8>, Fail> {
    let id = printer.id.clone();
    if view.contact == Connectivity::NeedsLogin {
        let (why, hint) = wants(context, live, &view.task.server);
        if view
            .task
            .attempt()
            .is_some_and(|attempt| attempt.phase == Phase::Queued && attempt.number == 1)
        {
            // The call itself may have gone out and been refused, so "sent" is not the word.
            // Left in the queue it would go out some day, beside the one that the user is about to start again.
            live.ask_quietly(context, SessionRequest::Cancel(id.clone()))
                .await;
            printer.catch_up(context)?;
            let words = format!("nothing was run. {hint}");
            return Err(Fail::new(code::NEEDS_LOGIN, format!("{why}; {words}")));
        }
        let words = format!(
            "{why}; {id} stays. {hint}; then go on with `longhaul watch {id}{}`",
            context.flags()
        );
        return Err(Fail::new(code::NEEDS_LOGIN, words));
    }
    if !view.task.status.ends_waiting() || view.is_unsaved || view.saved_seq < view.task.seq {
        return Ok(None);
    }
    printer.catch_up(context)?;
    let task = printer.task()?;
    if !task.status.ends_waiting() {
        return Ok(None);
    }
    last_words(context, printer, &task)?;
    Ok(Some(outcome(&task)))
}

/// Prints all that is saved of a task that has come to its end, and returns its code.
fn over(context: &mut Context<'_>, printer: &mut Printer) -> Result<Option<u8>, Fail> {
    let task = printer.task()?;
    if !task.status.ends_waiting() {
        return Ok(None);
    }
    printer.catch_up(context)?;
    last_words(context, printer, &task)?;
    Ok(Some(outcome(&task)))
}

/// What stands at the end of a follow, beside the history.
fn last_words(context: &mut Context<'_>, printer: &mut Printer, task: &Task) -> Result<(), Fail> {
    let (id, flags) = (&task.id, context.flags());
    let result = match printer.style {
        Style::Json => None,
        Style::Lines | Style::Call => printer.reader.result(id)?,
    };
    if let Some(result) = &result {
        let words = lines::result(result);
        let has_failed = task.status == Status::Failed && printer.style == Style::Call;
        match (words.is_empty(), has_failed) {
            (true, _) => {}
            (false, true) => context.terminal.say(&words),
            (false, false) => context.terminal.line(&words)?,
        }
    }
    let reason = task.status.reason().unwrap_or_default();
    let said = task
        .error
        .as_ref()
        .map_or(String::new(), crate::domain::TaskError::message);
    let words = match &task.status {
        Status::Completed => match &task.notice {
            Some(remark) => format!("{id}: {remark}"),
            None => return Ok(()),
        },
        Status::Failed => match task.error.as_ref().map(|error| error.kind) {
            // The server's whole text stands above.
            Some(TaskErrorKind::Tool) if result.is_some() => {
                format!("{} failed ({id})", task.title())
            }
            Some(TaskErrorKind::Refused | TaskErrorKind::Unreachable) => said,
            _ => format!("{} failed ({id}): {said}", task.title()),
        },
        Status::Cancelled => format!("{id} was cancelled"),
        Status::Lost(_) => {
            format!("{id} is lost: {reason}. Run it again: longhaul again {id}{flags}")
        }
        Status::Unknown(_) => {
            // Without a handle there is nothing that could be asked for.
            let has_cursor = task
                .attempt()
                .is_some_and(|attempt| attempt.cursors.newest.is_some());
            let look = if task.resumability.checkpoint || has_cursor {
                format!("Look for it: longhaul resume {id}{flags}; run it again")
            } else {
                "Run it again".to_owned()
            };
            format!(
                "{id} is unknown: {reason}. {look}: longhaul again {id}{flags}; forget it: longhaul rm {id}{flags}"
            )
        }
        Status::InputRequired => {
            let open = task.open_question();
            let asks = open.map_or(String::new(), |open| Elicitation::message_of(&open.request));
            let asks = text::with_period(&asks);
            let asked_for = open.and_then(|open| open.asked_for(id));
            let asked_for = asked_for.map_or(String::new(), |words| format!(" ({words})"));
            format!("{id} asks{asked_for}: {asks} Answer it: longhaul answer {id}{flags}")
        }
        Status::Running | Status::Paused => return Ok(()),
    };
    context
        .terminal
        .say(&format!("longhaul: {}", text::clean_line(&words)));
    Ok(())
}

impl Live {
    /// Asks for something whose answer changes nothing here.
    pub(super) async fn ask_quietly(&mut self, context: &mut Context<'_>, what: SessionRequest) {
        // It was worth a try; the task itself is in its place.
        let _ = self.ask(context, what).await;
    }
}

/// What is said of a task that nobody follows any more.
pub(super) fn forgotten(context: &Context<'_>, id: &TaskId) -> Fail {
    Fail::usage(format!(
        "{id} was forgotten; `longhaul rm --undo {id}{}` brings it back",
        context.flags()
    ))
}

/// `watch ID` and `logs -f ID`, the latter from where its own lines ended.
pub(super) fn watch(context: &mut Context<'_>, id: &str, is_new_only: bool) -> Result<u8, Fail> {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, id)?;
    let after = if is_new_only { task.seq } else { 0 };
    let is_terse = context.global.quiet;
    follow_after(context, &task, reader, after, is_terse)
}

/// Follows from after an entry on.
pub(super) fn watch_after(
    context: &mut Context<'_>,
    task: &Task,
    reader: Reader,
    after: u64,
) -> Result<u8, Fail> {
    follow_after(context, task, reader, after, false)
}

fn follow_after(
    context: &mut Context<'_>,
    task: &Task,
    mut reader: Reader,
    after: u64,
    is_terse: bool,
) -> Result<u8, Fail> {
    let style = if context.global.json {
        Style::Json
    } else {
        Style::Lines
    };
    let servers = Targets::of(context, &mut reader)?;
    let mut printer = Printer::new(task.id.clone(), reader, style, after);
    printer.is_terse = is_terse;
    // Nothing more will come, so nobody has to be asked.
    if let Some(code) = over(context, &mut printer)? {
        return Ok(code);
    }
    if task.forgotten_at.is_some() {
        return Err(forgotten(context, &task.id));
    }
    servers.must_know(&task.server)?;
    let servers = servers.for_task(&task.server)?;
    block_on(async {
        let live = Live::open(context, servers)?;
        follow(context, live, printer, Until::TheEnd, Answers::Elsewhere).await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_may_become_a_task_any_moment_is_not_said_to_die() {
        let dies = LeaveImpact::Dies {
            why: "nothing came yet".to_owned(),
        };
        let short = Duration::from_millis(300);
        assert_eq!(waiting_words(Some(&dies), true, short), None);
        let words = waiting_words(Some(&dies), true, WAITS_SILENTLY).unwrap();
        assert!(words.starts_with("waiting: leaving now would end it (nothing came yet)"));
        assert_eq!(waiting_words(None, true, WAITS_SILENTLY), None);
        let beside = waiting_words(Some(&dies), false, WAITS_SILENTLY).unwrap();
        assert!(
            beside.contains("Ctrl-C leaves without ending it"),
            "{beside}"
        );
        assert!(!beside.contains("would end"), "{beside}");
    }
}

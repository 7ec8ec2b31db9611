//! Follows one task to its end: saved history first, then new entries as they are saved.
//!
//! Shared by `watch`, `logs --follow` and `call`. Must not know how a call is made. Invariant: every printed
//! entry comes from the session file, in the order of `seq`, and is printed once.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    cli::{
        CliError, CliResult, Context, HistoryPrinter, LiveEvent, LiveSession, OutputStyle, Targets,
        code,
        detach::{DetachState, SILENT_WAIT, detach_state, detach_wait_message},
        environment::block_on,
        format,
        history::print_new,
        live_session::{RETRY, join_ids},
        outcome::{exit_code_if_ended, finish_if_ended, forgotten_error, print_outcome},
        prompt::{LineReader, Prompt, PromptStep, QuestionId, question_id},
    },
    domain::{
        Connectivity, CutOutcome, IfCut, Mono, SessionEvent, SessionRequest, Status, Task, TaskId,
        TaskView, unsaved_reason,
    },
    store::Reader,
};

/// What to do with the server's questions while its call is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionHandling {
    /// Ask the user at this terminal.
    Prompt,
    /// Exit with [`code::INPUT`]; the question is answered elsewhere.
    Exit,
}

/// How long to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowUntil {
    /// Until the task ends.
    Ended,
    /// Until quitting no longer ends the call (`--detach`). Becomes [`Self::Ended`] if that never happens.
    Detachable,
}

/// Follows a task until it ends, the user quits or the session fails. Closes the session. `is_new` is set for a call that
/// this process has just started.
pub(super) async fn follow(
    context: &mut Context<'_>,
    mut live: LiveSession,
    mut printer: HistoryPrinter,
    until: FollowUntil,
    questions: QuestionHandling,
    is_new: bool,
) -> CliResult {
    let id = printer.id.clone();
    let mut follower = Follower {
        context,
        live: &mut live,
        printer: &mut printer,
        until,
        id: id.clone(),
        is_behind: until == FollowUntil::Ended,
        detach_wait_since: None,
        was_unsaved: false,
        is_new,
        has_retried: None,
        printed_notices: BTreeSet::new(),
        shown_question: None,
        questions,
        prompt: None,
        answered: Vec::new(),
        input: None,
    };
    let outcome = follower.run().await;
    let until = follower.until;
    context.terminal.end_prompt(false);
    context.terminal.clear_bar();
    if matches!(outcome, Ok(FollowEnd::Ended(_) | FollowEnd::Detached))
        && until == FollowUntil::Ended
    {
        // Best effort: the task itself is saved either way.
        let _ = live
            .request(context, SessionRequest::Seen(id.clone()))
            .await;
    }
    match outcome {
        Ok(FollowEnd::Ended(code)) => {
            live.leave(context, std::slice::from_ref(&id)).await;
            Ok(code)
        }
        Ok(FollowEnd::Detached) => {
            live.leave(context, &[]).await;
            Ok(code::OK)
        }
        Ok(FollowEnd::Forgotten) => {
            live.leave(context, std::slice::from_ref(&id)).await;
            Err(forgotten_error(&id))
        }
        Ok(FollowEnd::Interrupted) => {
            let mut others = live.lost_by_quitting();
            others.retain(|(other, _)| *other != id);
            let view = live.tasks.get(&id).cloned();
            let status = view.as_ref().map(|view| view.task.state_label());
            let contact = view.as_ref().map(|view| &view.contact);
            let is_driven = !matches!(contact, Some(Connectivity::Unwatched { .. }));
            // Only the exit of the driver ends a call.
            let if_cut = view.and_then(|view| view.if_cut.clone());
            let if_cut = if_cut.filter(|_| live.is_driver);
            live.close();
            let message = quit_message(context, &id, status, is_driven, if_cut.as_ref());
            context.report(&message);
            if let Some((_, why)) = others.first() {
                let (ids, why) = (join_ids(&others), why.message());
                context.report(&format!("quitting also lost {ids} ({why})"));
            }
            Ok(code::INTERRUPTED)
        }
        Err(fail) => {
            live.close();
            Err(fail.if_silent(|| format!("the call is {id}: `longhaul watch {id}`")))
        }
    }
}

/// What happens to the call after Ctrl-C. `if_cut` is what the exit of this process does to it, if it is the driver.
fn quit_message(
    context: &Context<'_>,
    id: &TaskId,
    status: Option<&str>,
    is_driven: bool,
    if_cut: Option<&IfCut>,
) -> String {
    let how = format!("`longhaul watch {id}`, `longhaul cancel {id}`");
    let Some(if_cut) = if_cut else {
        if !is_driven {
            return format!("detached; no process is running {id} ({how})");
        }
        let running = Status::Running.label();
        let asks = Status::InputRequired.label();
        let state = match status.filter(|status| *status != running) {
            Some(status) if status == asks => {
                return format!(
                    "detached; {id} is waiting for an answer (`longhaul answer {id}`, `longhaul cancel {id}`)"
                );
            }
            Some(status) => format!("is {status}"),
            None => "keeps running".to_owned(),
        };
        return format!("detached; {id} {state} ({how})");
    };
    let why = if_cut.reason.message();
    if if_cut.is_lost() {
        return format!(
            "quitting closed the connection of {id}: {why}; to run it again: `longhaul again {id}`"
        );
    }
    let now = context.clock.now().wall;
    let why = if_cut.message(|at| format::clock(at, now));
    format!(
        "detached from {id} ({how}); if cut: {} ({why})",
        if_cut.label()
    )
}

/// Why [`Follower::run`] returned.
enum FollowEnd {
    Ended(u8),
    Detached,
    Interrupted,
    Forgotten,
}

/// A notice that is printed at most once per follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OneTimeNotice {
    WaitingToDetach,
    StdoutUnread,
    Unreachable,
}

struct Follower<'f, 'c> {
    context: &'f mut Context<'c>,
    live: &'f mut LiveSession,
    printer: &'f mut HistoryPrinter,
    until: FollowUntil,
    id: TaskId,
    /// There may be saved entries that are not printed yet.
    is_behind: bool,
    /// When `--detach` began to wait.
    detach_wait_since: Option<Mono>,
    /// Whether the previous view was not saved.
    was_unsaved: bool,
    /// This process has just sent the call with the current credentials, so a refusal is not stale.
    is_new: bool,
    /// Set once a view needs a sign-in: whether the driver has tried again, because credentials may just have come. What
    /// it finds is in the views from then on.
    has_retried: Option<bool>,
    printed_notices: BTreeSet<OneTimeNotice>,
    /// The key of the question that was shown last.
    shown_question: Option<String>,
    questions: QuestionHandling,
    /// The question that the user is answering.
    prompt: Option<Prompt>,
    /// Questions answered here; an older view may still show them as open.
    answered: Vec<QuestionId>,
    input: Option<LineReader>,
}

impl Follower<'_, '_> {
    /// Runs until the task ends or is left.
    async fn run(&mut self) -> CliResult<FollowEnd> {
        // No driver shows a task that was removed.
        if self.printer.task()?.forgotten_at.is_some() {
            if self.until == FollowUntil::Detachable {
                print_id(self.context, self.printer)?;
                return Ok(FollowEnd::Detached);
            }
            let code = finish_if_ended(self.context, self.printer)?;
            return Ok(code.map_or(FollowEnd::Forgotten, FollowEnd::Ended));
        }
        loop {
            if self.is_behind {
                self.is_behind = print_new(self.context, self.printer)?;
            }
            if self.live.erased.contains(&self.id) {
                return Ok(FollowEnd::Forgotten);
            }
            if let Some(view) = self.live.tasks.get(&self.id).cloned()
                && let Some(left) = self.on_view(&view).await?
            {
                return Ok(left);
            }
            if self.is_behind && !self.live.is_ready().await {
                continue;
            }
            if self.prompt.is_some() {
                if let Some(left) = self.read_answer().await? {
                    return Ok(left);
                }
                continue;
            }
            let next = self.live.next(self.context);
            let awaits_detach = self.until == FollowUntil::Detachable
                && self.detach_wait_since.is_some()
                && !self
                    .printed_notices
                    .contains(&OneTimeNotice::WaitingToDetach);
            // This condition changes with time alone.
            let patience = awaits_detach.then_some(SILENT_WAIT);
            let patience = patience.unwrap_or(Duration::MAX);
            let Ok(event) = tokio::time::timeout(patience, next).await else {
                continue;
            };
            if let Some(left) = self.on_event(&event?)? {
                return Ok(left);
            }
        }
    }

    /// Handles an event; [`Self::on_view`] handles the views it brought. `Some` ends the follow.
    fn on_event(&mut self, event: &LiveEvent) -> CliResult<Option<FollowEnd>> {
        Ok(match event {
            LiveEvent::Session(SessionEvent::Undriven) => {
                finish_if_ended(self.context, self.printer)?.map(FollowEnd::Ended)
            }
            LiveEvent::Session(SessionEvent::Response { request: RETRY, .. }) => {
                self.has_retried = Some(true);
                None
            }
            LiveEvent::Session(_) => None,
            LiveEvent::Interrupted if self.live.warn_of_loss(self.context, Some(&self.id)) => None,
            LiveEvent::Interrupted | LiveEvent::Terminated => Some(FollowEnd::Interrupted),
        })
    }

    /// Waits for a typed line or an event, whichever comes first. `Some` ends the follow.
    async fn read_answer(&mut self) -> CliResult<Option<FollowEnd>> {
        let input = self.input.get_or_insert_with(LineReader::start);
        let line = tokio::select! {
            biased;
            event = self.live.next(self.context) => return self.on_event(&event?),
            line = input.next() => line,
        };
        self.context.terminal.end_prompt(line.is_some());
        let Some(prompt) = &mut self.prompt else {
            return Ok(None);
        };
        let step = line.map_or(Ok(PromptStep::Later), |line| prompt.read(&line));
        match step {
            Ok(PromptStep::More) => {
                for choice in prompt.choices() {
                    self.context.report(&choice);
                }
                self.context.terminal.ask(&prompt.message());
            }
            Err(why) => {
                self.context.report(&format!("  {why}"));
                self.context.terminal.ask(&prompt.message());
            }
            Ok(PromptStep::Later) => (self.questions, self.prompt) = (QuestionHandling::Exit, None),
            Ok(PromptStep::Answer(answer)) => {
                let question = prompt.id.clone();
                self.prompt = None;
                let outcome = answer.outcome();
                let request = SessionRequest::Answer {
                    id: self.id.clone(),
                    key: Some(question.0.clone()),
                    answer,
                };
                self.answered.push(question);
                match self.live.try_request(self.context, request).await? {
                    Ok(_) => {
                        let message = format!("{}: answer saved ({outcome})", self.id);
                        self.context.info(&message);
                    }
                    Err(error) => {
                        self.questions = QuestionHandling::Exit;
                        self.context.warn(&error);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Shows an open question to the user, if there is one to show. Returns whether an answer is awaited here.
    fn prompt_user(&mut self, view: &TaskView) -> bool {
        if self.questions == QuestionHandling::Exit {
            return false;
        }
        let question = view.task.open_question();
        if let Some(prompt) = &self.prompt {
            if question.map(question_id).as_ref() == Some(&prompt.id) {
                return true;
            }
            self.prompt = None;
            self.context.terminal.end_prompt(false);
            let message = format!("the question for {} was answered or withdrawn", self.id);
            self.context.info(&message);
        }
        let Some(question) = question else {
            return false;
        };
        if self.answered.contains(&question_id(question)) || view.saved_seq < view.task.seq {
            return true;
        }
        let prompt = Prompt::new(question);
        let now = self.context.clock.now().wall;
        for line in prompt.intro(now, &view.task, question) {
            self.context.report(&line);
        }
        self.input
            .get_or_insert_with(LineReader::start)
            .discard_typed();
        self.context.terminal.ask(&prompt.message());
        self.prompt = Some(prompt);
        true
    }

    /// Handles a view of the task. `Some` ends the follow.
    async fn on_view(&mut self, view: &Arc<TaskView>) -> CliResult<Option<FollowEnd>> {
        if self.until == FollowUntil::Detachable && self.try_detach(view)? {
            return Ok(Some(FollowEnd::Detached));
        }
        if self.until == FollowUntil::Ended {
            if !self.is_behind && view.saved_seq > self.printer.printed {
                self.is_behind = print_new(self.context, self.printer)?;
            }
            self.printer.draw_bar(self.context, view);
        }
        self.check_stdout(view)?;
        self.report_trouble(view);
        // The outcome is printed after the whole history.
        if self.is_behind {
            return Ok(None);
        }
        if self.prompt_user(view) {
            return Ok(None);
        }
        let question = view.task.open_question().map(|question| &question.key);
        // Our exit would end the call before anybody could answer.
        if let Some(if_cut) = view.if_cut.as_ref().filter(|if_cut| if_cut.is_lost())
            && self.live.is_driver
            && question.is_some()
        {
            if view.saved_seq >= view.task.seq && question != self.shown_question.as_ref() {
                self.shown_question = question.cloned();
                print_outcome(self.context, self.printer, &view.task)?;
                self.context.warn(format!(
                    "staying until it is answered, because quitting would lose {}: {}",
                    self.id,
                    if_cut.reason.message()
                ));
            }
            return Ok(None);
        }
        let may_be_stale = !self.is_new && !self.context.global.readonly;
        if view.contact == Connectivity::NeedsLogin && may_be_stale {
            let has_retried = self.has_retried.get_or_insert_with(|| {
                self.live.send_as(RETRY, SessionRequest::RetryNow);
                false
            });
            if !*has_retried {
                return Ok(None);
            }
        }
        let code = exit_code_if_ended(self.context, self.live, self.printer, view).await?;
        if code.is_none() && view.task.forgotten_at.is_some() {
            return Ok(Some(FollowEnd::Forgotten));
        }
        Ok(code.map(FollowEnd::Ended))
    }

    /// Returns whether to exit for `--detach`, and prints the id if so. If the call can never be left, follows it to its end.
    fn try_detach(&mut self, view: &Arc<TaskView>) -> CliResult<bool> {
        let id = self.id.clone();
        match detach_state(view, self.live.is_driver) {
            DetachState::Now => {
                if view.task.status.ends_waiting() {
                    let status = view.task.state_label();
                    let message = match &view.task.status {
                        Status::InputRequired => format!(
                            "longhaul: {id} is asking a question; answer it: `longhaul answer {id}`"
                        ),
                        ended if ended.is_settled() => {
                            // The call of a `--once` key may have ended long ago.
                            let ended = if self.is_new {
                                "finished before longhaul could detach"
                            } else {
                                "had already ended"
                            };
                            let has_result = view.task.end.result_bytes.is_some();
                            let show = if has_result { "result" } else { "show" };
                            format!(
                                "longhaul: {id} {ended}: {status}; `longhaul {show} {id}` shows it"
                            )
                        }
                        _ => format!("longhaul: {id} is {status}; see `longhaul show {id}`"),
                    };
                    if view.task.status == Status::Completed {
                        self.context.info(&message);
                    } else {
                        self.context.report(&message);
                    }
                }
                if let Some(if_cut) = &view.if_cut
                    && self.live.is_driver
                    && if_cut.outcome() == CutOutcome::Pauses
                {
                    let why = if_cut.reason.message();
                    self.context.warn(format!(
                        "{id} pauses until longhaul runs again: {why}; continue it: `longhaul attach {id}`"
                    ));
                }
                print_id(self.context, self.printer)?;
                return Ok(true);
            }
            DetachState::Never(why) => {
                self.context
                    .warn(format!("staying, because quitting would lose {id}: {why}"));
                self.until = FollowUntil::Ended;
            }
            DetachState::Refused => self.until = FollowUntil::Ended,
            DetachState::NotYet => {
                let now = self.context.clock.now().mono;
                let waited = now.since(*self.detach_wait_since.get_or_insert(now));
                let message =
                    detach_wait_message(view.if_cut.as_ref(), self.live.is_driver, waited);
                if let Some(message) = message
                    && self.printed_notices.insert(OneTimeNotice::WaitingToDetach)
                {
                    self.context.info(&message);
                }
            }
        }
        Ok(false)
    }

    /// Fails if nobody reads stdout any more, unless quitting would end the task.
    fn check_stdout(&mut self, view: &TaskView) -> CliResult<()> {
        // A view older than the printed entries may not say yet what a cut would do.
        let Some(unread) =
            self.context.terminal.unread.filter(|_| {
                view.task.seq >= self.printer.printed && !view.task.status.ends_waiting()
            })
        else {
            return Ok(());
        };
        match &view.if_cut {
            Some(if_cut) if self.live.is_driver && if_cut.is_lost() => {
                // Most calls start like this; it is final only if the stream has no event ids.
                if view.task.resumability.stream == Some(false)
                    && self.printed_notices.insert(OneTimeNotice::StdoutUnread)
                {
                    self.context.warn(format!(
                        "stdout is not being read; staying, because quitting would lose {}: {}",
                        self.id,
                        if_cut.reason.message()
                    ));
                }
                Ok(())
            }
            _ => Err(CliError::StdoutUnread(unread)),
        }
    }

    /// Reports saving problems, and a server that a queued call cannot reach.
    fn report_trouble(&mut self, view: &TaskView) {
        let id = self.id.clone();
        if view.is_unsaved && !self.was_unsaved {
            let why = unsaved_reason(view.unsaved_why.as_deref());
            self.context
                .warn(format!("{id} is NOT SAVED: {why}; retrying"));
        }
        self.was_unsaved = view.is_unsaved;
        // The history shows lost connections, but nothing of a call that was never sent.
        if let Connectivity::Offline { why, .. } = &view.contact
            && view.task.is_queued()
            && self.printed_notices.insert(OneTimeNotice::Unreachable)
        {
            let server = &view.task.server;
            self.context.warn(format!(
                "could not reach {server} ({why}); {id} is queued and will be sent when {server} answers. To drop it: \
                 `longhaul cancel {id}`. Ctrl-C leaves it queued"
            ));
        }
    }
}

fn print_id(context: &mut Context<'_>, printer: &HistoryPrinter) -> CliResult<()> {
    let id = &printer.id;
    match printer.style {
        OutputStyle::Json => context.terminal.print_json(&serde_json::json!({"id": id})),
        _ => context.print(id.as_str()),
    }
}

/// Follows a task after the entry whose `seq` is `after`; terse without progress and log lines.
pub(super) fn follow_after(
    context: &mut Context<'_>,
    task: &Task,
    mut reader: Reader,
    after: u64,
    is_terse: bool,
) -> CliResult {
    let servers = Targets::of(context, &mut reader)?;
    let id = task.id.clone();
    let mut printer = HistoryPrinter::new(context, id, reader, OutputStyle::Lines, after);
    printer.is_terse = is_terse;
    // It has ended already, so the session does not have to be opened.
    if let Some(code) = finish_if_ended(context, &mut printer)? {
        return Ok(code);
    }
    if task.forgotten_at.is_some() {
        return Err(forgotten_error(&task.id));
    }
    servers.must_know(&task.server)?;
    let servers = servers.for_task(&task.server)?;
    block_on(async {
        let live = LiveSession::open(context, servers)?;
        follow(
            context,
            live,
            printer,
            FollowUntil::Ended,
            QuestionHandling::Exit,
            false,
        )
        .await
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::CutReason;

    #[test]
    fn detach_waits_silently_before_it_warns() {
        let lost = IfCut::from(CutReason::NoResponseYet);
        let short = Duration::from_millis(300);
        assert_eq!(detach_wait_message(Some(&lost), true, short), None);
        let message = detach_wait_message(Some(&lost), true, SILENT_WAIT).unwrap();
        assert!(message.starts_with(
            "waiting, because quitting now would lose the call (the server hasn't answered yet"
        ));
        assert_eq!(detach_wait_message(None, true, SILENT_WAIT), None);
        let as_client = detach_wait_message(Some(&lost), false, SILENT_WAIT).unwrap();
        assert!(
            as_client.contains("press Ctrl-C to quit (the call is kept)"),
            "{as_client}"
        );
        assert!(!as_client.contains("would lose"), "{as_client}");
    }
}

//! The server's list of tools, page by page.

use std::collections::BTreeSet;

use crate::{
    domain::{Era, ProtocolVersion, RequestError, SessionResponse, Tool, text},
    link::{
        ActiveTask, InFlight, Link, RequestKind, in_flight::Pages,
        negotiation::refuses_what_it_speaks, queued_requests::QueuedRequest,
    },
    protocol::{self, HttpError, encode},
};

/// Tools of one server, and the bytes of what they take: more than any person reads. The list is in memory, in the
/// session file and on its way to every window of the session.
const TOOLS: usize = 5_000;
const TOOLS_BYTES: usize = 8 << 20;

impl Link {
    /// Has the tools listed again before the next call.
    pub(super) fn forget_tools(&mut self) {
        (self.record.tools_at, self.session.listed_at) = (None, None);
        self.session.is_unlisted = false;
    }

    pub(super) fn wants_tools(&self) -> bool {
        let is_list = |kind: &RequestKind| matches!(kind, RequestKind::ListTools { .. });
        let has_queued = || self.tasks.values().any(ActiveTask::waits_to_be_sent);
        let for_asker = self.queued_requests.iter().any(QueuedRequest::is_for_tools);
        !self.in_flight.has(is_list)
            && !self.is_session_doubted()
            && (for_asker || self.record.tools_at.is_none() && has_queued())
    }

    pub(super) fn ask_tools(&mut self, version: ProtocolVersion, pages: Pages<Tool>) {
        let id = self.in_flight.new_request_id();
        let method = encode::list(version, &id, "tools/list", pages.cursor());
        self.send_request(RequestKind::ListTools { version, pages }, method, id);
    }

    /// A list that was refused for a revision that the server says it speaks is asked for again, once.
    pub(super) fn lists_again(&mut self, in_flight: &InFlight, refusal: &HttpError) -> bool {
        matches!(in_flight.kind, RequestKind::ListTools { .. })
            && in_flight.is_modern
            && refuses_what_it_speaks(refusal)
            && self.negotiation.may_repeat()
    }

    /// One page of tools.
    pub(super) fn tools_listed(
        &mut self,
        version: ProtocolVersion,
        mut pages: Pages<Tool>,
        result: &str,
    ) {
        let (mut tools, next) = protocol::parse_tool_page(result);
        // Some servers answer an empty cursor with the first page again.
        let known: BTreeSet<&str> = pages.so_far.iter().map(|tool| tool.name.as_str()).collect();
        tools.retain(|tool| !known.contains(tool.name.as_str()));
        pages.so_far.extend(tools);
        let is_whole = cut_tools(&mut pages.so_far);
        match next {
            Some(next)
                if is_whole
                    && pages.leads_on(&next)
                    && self.reachability.spend(self.now).is_ok() =>
            {
                pages.cursors.push(next);
                self.ask_tools(version, pages);
            }
            Some(next) if is_whole && !pages.cursors.contains(&next) => {
                let mut stand_in = pages.so_far.last().cloned();
                if let Some(stand_in) = &mut stand_in {
                    "more tools".clone_into(&mut stand_in.name);
                    stand_in.fault = Some(format!(
                        "its list continues after {}",
                        text::plural(pages.cursors.len() as u64 + 1, "page")
                    ));
                }
                pages.so_far.extend(stand_in);
                self.have_tools(version, pages.so_far);
            }
            _ => self.have_tools(version, pages.so_far),
        }
    }

    fn have_tools(&mut self, version: ProtocolVersion, mut tools: Vec<Tool>) {
        // On pipes there are no headers that a schema could ask for.
        if version.era() == Era::Modern && !self.record.is_process() {
            for tool in &mut tools {
                tool.fault = tool
                    .fault
                    .take()
                    .or_else(|| tool.header_error().map(|error| error.to_string()));
            }
        }
        self.note_served();
        self.schedule.needs_advance = true;
        let is_first = self.record.tools_at.is_none();
        // The modern list has less: only the session's list says which tools can run as tasks.
        if version == self.session_version() {
            self.record.tools.clone_from(&tools);
            self.record.tools_at = Some(self.now.wall);
            self.session.listed_at = Some(self.now.mono);
            self.session.is_unlisted = false;
            self.record_changed();
        }
        // The next command finds a new server in the session file.
        let is_saved = is_first && self.is_worth_saving() && self.saver.trouble.is_none();
        let after = is_saved.then_some(self.saver.next_token);
        if is_saved {
            self.saver.urge(self.now.mono);
        }
        let is_answered = |it: &mut QueuedRequest| it.is_for_tools();
        let answered: Vec<_> = self.queued_requests.extract_if(.., is_answered).collect();
        for request in answered {
            let outcome = Ok(SessionResponse::Tools(tools.clone()));
            self.answer_after(request.id, outcome, after);
        }
    }

    /// The server did not list its tools in time, but is there: calls are sent without the list, and each asks for it again.
    pub(super) fn tools_unanswered(&mut self, why: &str) {
        let words = format!("{} did not list its tools: {why}", self.record.name);
        self.refuse_queued(&RequestError::Unreachable(words));
        self.session.is_unlisted = true;
        self.schedule.needs_advance = true;
    }

    /// The server would not list its tools. The tools known from before count on, and any other call can still be tried.
    pub(super) fn tools_refused(&mut self, said: &str) {
        let words = format!("{} did not list its tools: {said}", self.record.name);
        self.refuse_queued(&RequestError::Usage(words));
        self.have_tools(self.session_version(), self.record.tools.clone());
    }
}

/// Cuts a list of tools to what is kept; the last one left then stands for the rest. Tells whether nothing was cut.
fn cut_tools(tools: &mut Vec<Tool>) -> bool {
    let mut bytes = 0_usize;
    let weight = |tool: &Tool| {
        let about = tool.description.as_ref().map_or(0, String::len);
        tool.name.len() + tool.input_schema.len() + about
    };
    let fit = tools
        .iter()
        .take(TOOLS)
        .take_while(|tool| {
            bytes = bytes.saturating_add(weight(tool));
            bytes <= TOOLS_BYTES
        })
        .count();
    if fit == tools.len() {
        return true;
    }
    let rest = u64::try_from(tools.len() - fit).unwrap_or(u64::MAX);
    let Some(stand_in) = tools.get_mut(fit) else {
        return true;
    };
    stand_in.name = format!("at least {}", text::plural(rest, "further tool"));
    stand_in.fault = Some(format!(
        "the list exceeds {} or {}",
        text::plural(TOOLS as u64, "tool"),
        text::bytes(TOOLS_BYTES as u64)
    ));
    tools.truncate(fit + 1);
    false
}

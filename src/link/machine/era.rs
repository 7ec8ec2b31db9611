//! Which era a server is spoken to in: found out by asking, chosen by what survives.
//!
//! Source: MCP 2026-07-28, basic/versioning, backward compatibility. The choice is ours: modern where the server offers
//! tasks there, else the handshake, because in the modern era a lost connection cancels a plain call. With a process of
//! ours nothing survives in any era; there the newest is spoken.

use core::time::Duration;

use super::{Door, Errand, Kind, Link};
use crate::{
    domain::{
        Era, LinkRecord, LostReason, ProtocolVersion, Status, TaskId, TaskKind, TaskOffer, text,
    },
    link::{
        Choice,
        running::{Line, Running},
    },
    protocol::{self, Discovery, Refusal, RpcError, encode},
};

/// Codes of the modern era that prove it; everything else may come from a server of another one.
const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_VERSION: i64 = -32022;

/// The modern revision that we ask for.
pub(super) const MODERN: ProtocolVersion = ProtocolVersion::V20260728;

/// How long a program may take to answer `server/discover`: one of old may say nothing to it. One that is only slow to start
/// finds the handshake behind it, and is asked again where it does not take that.
const PROGRAM_TELLS_WITHIN: Duration = Duration::from_secs(5);

/// How a server is greeted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// `server/discover`.
    Discover,
    /// `initialize`.
    Initialize,
    /// A stream of HTTP+SSE first, and `initialize` on it; a process is spoken to on its pipes, whatever the greeting.
    Wire,
}

/// What is believed of a server's era, and what was tried to find out.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    wish: Option<ProtocolVersion>,
    pub(super) greeting: Greeting,
    /// Greetings that were refused since one last worked.
    refusals: u32,
    /// A program said nothing to `server/discover`, and the handshake follows on the same pipes: one of old may break by a
    /// method that it does not know.
    pub(super) is_unheard: bool,
    /// The greeting follows from what was found out in an earlier process, and so does the reason for it.
    pub(super) is_remembered: bool,
    /// A modern server without tasks: second best, if it takes no handshake.
    second_best: Option<Discovery>,
    /// What `initialize` was refused with while nothing else has worked: the words for it if nothing does.
    pub(super) no_handshake: Option<Refusal>,
}

impl Belief {
    /// From the user's choice, else from what was found out before.
    pub(super) fn new(choice: Choice, record: &LinkRecord) -> Self {
        let known = record.version;
        let is_wire = known == Some(ProtocolVersion::V20241105) && !record.is_process();
        let greeting = match choice.version.or(known).map(ProtocolVersion::era) {
            Some(Era::Stateful) if is_wire => {
                // No choice is HTTP+SSE.
                choice
                    .version
                    .map_or(Greeting::Wire, |_| Greeting::Initialize)
            }
            Some(Era::Stateful) => Greeting::Initialize,
            Some(Era::Modern) | None => Greeting::Discover,
        };
        Self {
            is_remembered: choice.version.is_none() && known.is_some(),
            wish: choice.version,
            greeting,
            refusals: 0,
            is_unheard: false,
            second_best: None,
            no_handshake: None,
        }
    }

    /// `initialize` was refused with a status, which may come of a server that wants a GET there (MCP 2025-11-25,
    /// basic/transports, backwards compatibility).
    pub(super) fn was_refused(&mut self, refusal: &Refusal) {
        let is_modern = |error: &RpcError| {
            matches!(
                error.code,
                HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION
            )
        };
        let is_sign = matches!(refusal.status, 400 | 404 | 405)
            && self.greeting == Greeting::Initialize
            && self.wish.is_none()
            && !refusal.error.as_ref().is_some_and(is_modern);
        self.no_handshake = is_sign.then(|| refusal.clone());
    }

    /// The stateful revision to ask for.
    pub(super) fn stateful_version(&self) -> ProtocolVersion {
        self.wish
            .filter(|version| version.era() == Era::Stateful)
            .unwrap_or(match self.greeting {
                Greeting::Wire => ProtocolVersion::V20241105,
                _ => ProtocolVersion::V20251125,
            })
    }
}

impl Link {
    /// Asks whether the server is modern; nothing is run by it, whatever the server is.
    pub(super) fn discover(&mut self) {
        if self.path.spend(self.now).is_err() {
            return;
        }
        let id = self.new_request_id();
        let method = encode::discover(&id, MODERN);
        let exchange = self.send(Kind::Discover, method, Some(id), None);
        self.door = Door::Discovering;
        if self.record.is_process()
            && self.belief.wish.is_none()
            && let Some(errand) = self.errands.get_mut(&exchange)
        {
            errand.until = Some(self.now.mono.after(PROGRAM_TELLS_WITHIN));
        }
    }

    /// A program said nothing to `server/discover`, or ended at it: it may know only the handshake (MCP 2026-07-28,
    /// basic/transports/stdio, backward compatibility).
    pub(super) fn discover_unheard(&mut self, why: String) {
        if self.belief.wish.is_some() || self.belief.refusals > 0 {
            self.belief.refusals = 0;
            return self.door_failed(why, None);
        }
        self.belief.is_unheard = true;
        self.greet_with(Greeting::Initialize);
    }

    /// The server answered `server/discover`.
    pub(super) fn discovered(&mut self, result: &str) {
        let Some(found) = protocol::discovery(result) else {
            return self.is_not_modern("it answered server/discover with something else");
        };
        let wanted = MODERN.word();
        if !found.versions.iter().any(|version| version == wanted) {
            return self.no_version_of(&found.versions);
        }
        let is_wished = self.belief.wish.is_some();
        let is_process = self.record.is_process();
        if found.has_tasks || is_wished || is_process || self.belief.refusals > 0 {
            self.open_modern(found);
        } else {
            self.belief.second_best = Some(found);
            self.greet_with(Greeting::Initialize);
        }
    }

    /// The server refused `server/discover` or answered it with an error.
    pub(super) fn discover_refused(&mut self, refusal: &Refusal) {
        let error = refusal.error.as_ref();
        let said = refusal.said.clone().unwrap_or_default();
        match (refusal.status, error.map(|error| error.code)) {
            (401 | 403, _) => {
                self.door = Door::Shut;
                self.barred(refusal);
            }
            (_, Some(UNSUPPORTED_VERSION)) => {
                let supported = error.and_then(|error| error.data.as_ref());
                let supported = supported
                    .and_then(|data| data.get("supported")?.as_array().cloned())
                    .unwrap_or_default();
                let words = supported.iter().filter_map(|word| word.as_str());
                self.no_version_of(&words.map(str::to_owned).collect::<Vec<_>>());
            }
            (_, Some(HEADER_MISMATCH | MISSING_CAPABILITY)) => {
                let why = format!(
                    "it did not take server/discover: {}",
                    text::clean_line(&said)
                );
                self.door_failed(why, Some(refusal));
            }
            (408 | 425 | 429 | 500..=599, _) => {
                self.door_failed(format!("HTTP {}", refusal.status), Some(refusal));
            }
            _ => self.is_not_modern("it does not know server/discover"),
        }
    }

    fn no_version_of(&mut self, versions: &[String]) {
        let is_stateful = |word: &String| {
            ProtocolVersion::read(word).is_some_and(|version| version.era() == Era::Stateful)
        };
        if self.belief.wish.is_none() && versions.iter().any(is_stateful) {
            return self.greet_with(Greeting::Initialize);
        }
        let ours = ProtocolVersion::ALL.map(ProtocolVersion::word).join(", ");
        let why = format!(
            "no common version: it speaks MCP {}, longhaul {ours}",
            text::clean_line(&versions.join(", "))
        );
        self.refused_for_good(why);
    }

    /// A server that answered, and will go on answering like that.
    fn refused_for_good(&mut self, why: String) {
        let refusal = Refusal {
            status: 400,
            retry_after: None,
            error: None,
            said: None,
        };
        self.door_failed(why, Some(&refusal));
    }

    /// Somebody answered the handshake, who does not speak MCP: that says nothing about eras.
    pub(super) fn not_mcp(&mut self, why: String) {
        self.belief.refusals = 0;
        let refusal = Refusal {
            status: 200,
            retry_after: None,
            error: None,
            said: None,
        };
        self.door_failed(why, Some(&refusal));
    }

    pub(super) fn is_not_modern(&mut self, because: &str) {
        if let Some(version) = self.belief.wish {
            let why = format!(
                "it does not speak MCP {}, which --protocol asks for: {because}",
                version.word()
            );
            return self.refused_for_good(why);
        }
        self.belief.second_best = None;
        if self.belief.refusals > 0 {
            self.belief.refusals = 0;
            if self.tries_wire() {
                return;
            }
            (self.belief.greeting, self.belief.is_remembered) = (Greeting::Initialize, false);
            return self.refused_for_good(format!("it takes no handshake, and {because}"));
        }
        self.belief.refusals += 1;
        self.greet_with(Greeting::Initialize);
    }

    pub(super) fn greet_with(&mut self, greeting: Greeting) {
        (self.belief.greeting, self.belief.is_remembered) = (greeting, false);
        self.door = Door::Shut;
        self.is_restless = true;
    }

    /// `initialize` was refused by somebody who answers: perhaps the server speaks only the other era. Returns whether
    /// that is tried.
    pub(super) fn tries_other_era(&mut self, refusal: &Refusal) -> bool {
        let is_transient = refusal.status >= 500 || matches!(refusal.status, 408 | 425 | 429);
        if is_transient || self.belief.wish.is_some() || self.belief.greeting == Greeting::Wire {
            return false;
        }
        if let Some(found) = self.belief.second_best.take() {
            self.belief.refusals += 1;
            self.open_modern(found);
            return true;
        }
        if self.belief.refusals > 0 {
            self.belief.refusals = 0;
            return false;
        }
        self.belief.refusals += 1;
        self.greet_with(Greeting::Discover);
        true
    }

    /// Neither era was agreed on: the stream of HTTP+SSE is the last resort. Returns whether that is tried.
    pub(super) fn tries_wire(&mut self) -> bool {
        let is_tried = self.belief.no_handshake.is_some();
        if is_tried {
            self.greet_with(Greeting::Wire);
        }
        is_tried
    }

    /// A handshake that brings no session brings nothing to pick up again either: then the modern era is the better
    /// one, with a cancel that works and a loss that can be proved. Returns whether it was taken.
    pub(super) fn prefers_modern(&mut self) -> bool {
        let Some(found) = self.belief.second_best.take() else {
            return false;
        };
        (self.belief.greeting, self.belief.is_remembered) = (Greeting::Discover, false);
        self.open_modern(found);
        self.record.era_why = Some(
            "with a handshake the server gives no session, so nothing could be picked up there either"
                .to_owned(),
        );
        true
    }

    fn open_modern(&mut self, found: Discovery) {
        let offer = TaskOffer {
            kind: TaskKind::Extension,
            can_list: false,
            can_cancel: true,
        };
        let why = if self.belief.wish.is_some() {
            self.who_asks()
        } else if self.record.is_process() {
            "its program speaks it; in no revision would a call outlive longhaul"
        } else if found.has_tasks {
            "the server offers tasks in it, which outlive a lost connection"
        } else {
            "the server speaks no other; it offers no tasks, so a lost connection cancels a call"
        };
        self.record.version = Some(MODERN);
        self.record.session = None;
        self.record.session_number += 1;
        self.record.is_initialized = true;
        self.record.has_logging = false;
        self.record.server_info = found.server_info;
        self.record.tasks = found.has_tasks.then_some(offer);
        self.greeted_anew();
        self.record.era_why = Some(why.to_owned());
        self.record.tools_at = None;
        self.has_fresh_tools = false;
        self.door = Door::Open;
        self.era_is_settled();
        self.record_changed();
        self.show_all();
    }

    /// Who chose the revision, where somebody did.
    fn who_asks(&self) -> &'static str {
        if self.choice.is_configured {
            "the configuration asks for it"
        } else {
            "--protocol asks for it"
        }
    }

    /// Why the stateful era was chosen.
    pub(super) fn why_stateful(&self) -> &'static str {
        if self.belief.wish.is_some() {
            self.who_asks()
        } else if self.record.is_process() {
            "its program speaks no newer one"
        } else if self.wire.is_some() {
            "the server speaks no newer transport: it takes no handshake by POST and names another address on a stream of its own"
        } else if self.belief.second_best.is_some() {
            "the server offers no tasks in 2026-07-28, where a lost connection cancels a call; with a handshake a stream whose events carry ids can be picked up again"
        } else {
            "the server speaks no newer one"
        }
    }

    /// An era was agreed on. What hangs on the other one is gone with it.
    pub(super) fn era_is_settled(&mut self) {
        self.belief.refusals = 0;
        (self.belief.second_best, self.belief.no_handshake) = (None, None);
        let version = self.version();
        for id in self.tasks.keys().cloned().collect::<Vec<_>>() {
            let Some(running) = self.tasks.get(&id) else {
                continue;
            };
            if running.is_settled() || !running.is_active() {
                continue;
            }
            let now_speaks = || Some(format!("it now speaks MCP {}", version.word()));
            let kind_here = self.record.tasks.map(|offer| offer.kind);
            let gone = match &running.task.server_task {
                Some(task) if kind_here != Some(task.kind) => {
                    LostReason::TaskGone { said: now_speaks() }
                }
                Some(_) => continue,
                None => {
                    let is_out = matches!(running.line, Line::Waiting { .. });
                    let is_of_another = running.is_modern() != (version.era() == Era::Modern);
                    if !is_out || !is_of_another {
                        continue;
                    }
                    LostReason::SessionGone {
                        after_restart: false,
                        said: now_speaks(),
                    }
                }
            };
            self.out_of_stream(&id, Status::Lost(gone), false);
        }
    }

    /// Whether a refusal shows that the server is not what it was taken for.
    pub(super) fn disproves_era(&self, refusal: &Refusal) -> bool {
        let is_known = refusal.error.as_ref().is_some_and(|error| {
            matches!(
                error.code,
                HEADER_MISMATCH
                    | MISSING_CAPABILITY
                    | UNSUPPORTED_VERSION
                    | -32601
                    | -32602
                    | -32603
            )
        });
        if self.era() == Era::Stateful {
            let says_modern = |code| matches!(code, HEADER_MISMATCH | UNSUPPORTED_VERSION);
            let code = refusal.error.as_ref().map(|error| error.code);
            return refusal.status == 400 && code.is_some_and(says_modern);
        }
        !is_known && matches!(refusal.status, 400 | 404 | 405 | 410)
    }

    /// The server is greeted anew: what was believed of it does not hold.
    pub(super) fn belief_failed(&mut self, errand: &Errand, said: Option<&str>) {
        if errand.session_number != self.record.session_number || !self.record.is_initialized {
            return;
        }
        self.record.is_initialized = false;
        self.record.tools_at = None;
        self.has_fresh_tools = false;
        if !matches!(self.door, Door::Barred(_)) {
            self.door = Door::Shut;
        }
        (self.belief.greeting, self.belief.is_remembered) = (Greeting::Discover, false);
        self.record_changed();
        if self.door_tries > 0 {
            self.back_off(
                said.unwrap_or("it answers in no known way").to_owned(),
                None,
            );
        }
        self.note_session_over();
        self.is_restless = true;
    }

    /// Whether a call is out that the server may still make a task of.
    pub(super) fn awaits_task_id(&self) -> bool {
        // A task of a process ends with it too.
        self.record.tasks.is_some()
            && !self.record.is_process()
            && self.tasks.iter().any(|(id, running)| {
                matches!(running.line, Line::Calling(_)) && self.may_become_task(id)
            })
    }

    /// Whether the server most likely makes a task of a call, as far as it did before.
    fn may_become_task(&self, id: &TaskId) -> bool {
        self.record.tasks.is_some()
            && self.tasks.get(id).is_some_and(|running| {
                self.record.ran_as_task.get(&running.task.tool) != Some(&false)
            })
    }

    /// Whether the server may have made a task of a call whose answer never came. What it made of the last one proves
    /// nothing, for it decides anew each time; a step on the stream does, for tasks send none.
    pub(super) fn may_be_task(&self, id: &TaskId) -> bool {
        let has_moved = |attempt: &crate::domain::Attempt| attempt.last_value.is_some();
        let attempt = self.tasks.get(id).and_then(Running::attempt);
        self.record.tasks.is_some() && !attempt.is_some_and(has_moved)
    }
}

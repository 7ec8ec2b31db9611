//! Which eras a server speaks, as far as that is known, and the next step to find out.
//!
//! Source: MCP 2026-07-28, basic/versioning, backward compatibility.

use core::time::Duration;

use crate::{
    domain::{Era, LinkRecord, ProtocolVersion},
    protocol::{HttpError, Introduced, RpcError},
};

/// What the user may insist on for a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The revision to ask for; the era that survives when absent.
    pub version: Option<ProtocolVersion>,
    /// Whether the configuration chose it, not `--protocol`.
    pub is_configured: bool,
}

/// Codes of the modern era that prove it; everything else may come from a server of another one.
pub(super) const HEADER_MISMATCH: i64 = -32020;
pub(super) const MISSING_CAPABILITY: i64 = -32021;
pub(super) const UNSUPPORTED_VERSION: i64 = -32022;

/// The modern revision that we ask for.
pub(super) const MODERN: ProtocolVersion = ProtocolVersion::V20260728;

/// How long a program may take to answer `server/discover`: an old program may not answer at all. A program that only starts
/// slowly finds the handshake behind it, and is asked again if it refuses that.
pub(super) const PROGRAM_TELLS_WITHIN: Duration = Duration::from_secs(5);

/// The next step of the negotiation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NegotiationStep {
    /// `server/discover`.
    #[default]
    Discover,
    /// `initialize`.
    Initialize,
    /// A stream of HTTP+SSE first, and `initialize` on it; a process is spoken to on its pipes, whatever the step.
    LegacySse,
}

/// What is known and assumed of a server's era, and what was tried to find out.
#[derive(Clone, Debug, Default)]
pub(super) struct Negotiation {
    /// The only revision that may be negotiated.
    pub(super) pinned: Option<ProtocolVersion>,
    /// `go_to` sets it for a reason that is found out now; other changes keep what was remembered of the reason.
    pub(super) step: NegotiationStep,
    /// A handshake was refused since the last one that worked.
    pub(super) was_handshake_refused: bool,
    /// How many answers of the server there had been when `server/discover` was last refused without a JSON-RPC error.
    pub(super) refused_after: Option<u32>,
    /// A program did not answer `server/discover`, and the handshake follows on the same pipes: an old program may break
    /// when it gets a method that it does not know.
    pub(super) is_unheard: bool,
    /// The step follows from what an earlier process found out, and so does the reason for it.
    pub(super) is_remembered: bool,
    /// How often a program that speaks the modern era exited at the handshake or didn't answer it. Not saved, because the
    /// failure may not happen again.
    pub(super) unanswered_handshakes: u32,
    /// A modern server without tasks: second best, if it takes no handshake.
    pub(super) second_best: Option<Introduced>,
    /// The refusal of `initialize` while nothing else has worked, if HTTP+SSE may explain it; reported if nothing does.
    pub(super) no_handshake: Option<HttpError>,
    /// The revision to ask for after a refusal (-32022). A second refusal is final.
    pub(super) retry_with: Option<ProtocolVersion>,
}

impl Negotiation {
    /// From the user's choice, else from what was found out before.
    pub(super) fn new(choice: Choice, record: &LinkRecord) -> Self {
        let known = record.version;
        let is_legacy_sse = known == Some(ProtocolVersion::V20241105) && !record.is_process();
        let step = match choice.version.or(known).map(ProtocolVersion::era) {
            Some(Era::Stateful) if is_legacy_sse => {
                // No choice is HTTP+SSE.
                choice
                    .version
                    .map_or(NegotiationStep::LegacySse, |_| NegotiationStep::Initialize)
            }
            Some(Era::Stateful) => NegotiationStep::Initialize,
            Some(Era::Modern) | None => NegotiationStep::Discover,
        };
        Self {
            is_remembered: choice.version.is_none() && known.is_some(),
            pinned: choice.version,
            step,
            ..Self::default()
        }
    }

    /// `initialize` was refused with a status, which may come of a server that wants a GET there (MCP 2025-11-25,
    /// basic/transports, backwards compatibility).
    pub(super) fn was_refused(&mut self, refusal: &HttpError) {
        let is_modern = |error: &RpcError| {
            matches!(
                error.code,
                HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION
            )
        };
        let is_sign = matches!(refusal.status, 400 | 404 | 405)
            && self.step == NegotiationStep::Initialize
            && self.pinned.is_none()
            && !refusal.error.as_ref().is_some_and(is_modern);
        self.no_handshake = is_sign.then(|| refusal.clone());
    }

    /// Sets the step for a reason that is found out now.
    pub(super) fn go_to(&mut self, step: NegotiationStep) {
        (self.step, self.is_remembered) = (step, false);
    }

    /// Counts the first refusal of a handshake. A second one ends the round: then it returns false.
    pub(super) fn count_refusal(&mut self) -> bool {
        self.was_handshake_refused = !self.was_handshake_refused;
        self.was_handshake_refused
    }

    /// A version was agreed on.
    pub(super) fn settle(&mut self) {
        self.was_handshake_refused = false;
        (self.second_best, self.no_handshake) = (None, None);
        self.retry_with = None;
    }

    /// The revision to repeat a refused request in: the newest that both sides speak, once.
    pub(super) fn version_to_retry(&self, error: Option<&RpcError>) -> Option<ProtocolVersion> {
        let is_allowed = |version: &ProtocolVersion| {
            self.pinned
                .is_none_or(|pinned| pinned.era() == version.era())
        };
        let newest = supported_by(error).filter(is_allowed).max();
        newest.filter(|_| self.retry_with.is_none())
    }

    /// Whether what was refused for its revision may be repeated; it may once.
    pub(super) fn may_repeat(&mut self) -> bool {
        self.retry_with.replace(MODERN).is_none()
    }

    /// The stateful revision to ask for.
    pub(super) fn stateful_version(&self) -> ProtocolVersion {
        let is_stateful = |version: &ProtocolVersion| version.era() == Era::Stateful;
        (self.retry_with.filter(is_stateful))
            .or(self.pinned.filter(is_stateful))
            .unwrap_or(match self.step {
                NegotiationStep::LegacySse => ProtocolVersion::V20241105,
                _ => ProtocolVersion::V20251125,
            })
    }
}

/// The revisions that a refusal names, as the server wrote them.
pub(super) fn supported(error: Option<&RpcError>) -> Vec<String> {
    let words = error.map_or(Vec::new(), |error| error.list("supported"));
    let words = words.iter().filter_map(|word| word.as_str());
    words.map(str::to_owned).collect()
}

/// Whether a server refused the modern revision (-32022) and names it among those that it speaks.
pub(super) fn refuses_what_it_speaks(refusal: &HttpError) -> bool {
    let code = refusal.error.as_ref().map(|error| error.code);
    code == Some(UNSUPPORTED_VERSION)
        && supported_by(refusal.error.as_ref()).any(|version| version == MODERN)
}

/// Those of them that we speak.
pub(super) fn supported_by(error: Option<&RpcError>) -> impl Iterator<Item = ProtocolVersion> {
    supported(error)
        .into_iter()
        .filter_map(|word| ProtocolVersion::parse(&word))
}

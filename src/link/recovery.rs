//! How the stream of a call is recovered after a lost connection or silence: what was tried since its last new event.

use core::time::Duration;

use super::{io::ExchangeId, reachability::Budget, refusals::Refusals, replay_gap::ReplayGap};
use crate::domain::{EventId, Mono, Stamp};

/// Resumes without news after which an older cursor has to prove that the server still replays.
pub(super) const EMPTIES_BEFORE_PROBE: u32 = 2;
/// A silent probe may have met a dead connection; this many in a row count as failed.
const SILENT_PROBES: u32 = 2;

/// A replay from an older event: it shows whether the server still replays the stream at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ReplayProbe {
    /// The stream is requested from the newest known event.
    #[default]
    Off,
    /// Everything up to and including `newest` is dropped, because it is known.
    Replaying {
        newest: EventId,
        /// Whether something known has come back, which proves that the server replays.
        has_matched: bool,
    },
    /// The replay has passed the newest known event.
    Passed,
}

/// What probes have shown since the stream last brought something new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ProbeResult {
    #[default]
    None,
    /// This many in a row stayed open and silent.
    Silent(u32),
    /// The older event may just have left the server's store: one more resume from the newest event has to bring nothing
    /// before the replay counts as gone.
    Failed,
}

/// A silent connection of a stream that is requested again on a new one. It stays open until the new one brings data, for
/// its tool may just be slow.
#[derive(Debug)]
pub(super) struct KeptConnection {
    pub(super) on: ExchangeId,
    /// When the last byte came on it, keep-alive comments included.
    pub(super) last_byte: Stamp,
    pub(super) is_resumed: bool,
    pub(super) since: Mono,
    pub(super) has_news: bool,
    pub(super) replay_gap: ReplayGap,
    pub(super) live_gap: Option<Duration>,
    pub(super) last_step: Option<Mono>,
}

impl KeptConnection {
    /// Whether it ever brought more than a replay: some servers replay what they have and then say nothing more.
    pub(super) fn was_live(&self) -> bool {
        !self.is_resumed || self.live_gap.is_some()
    }
}

/// An outage of one stream, for the one line that the log shows of it.
#[derive(Clone, Debug)]
pub(super) struct Disconnection {
    pub(super) at: Mono,
    /// How long it had lasted by then, if no process watched.
    pub(super) before: Duration,
    pub(super) why: String,
}

#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// Failed requests for the stream.
    pub(super) tries: u32,
    /// Resumes in a row that ended without anything new.
    pub(super) empty_resumes: u32,
    /// Those of them whose stream the server closed.
    pub(super) closed_empty: u32,
    /// Whether a connection was refused since the last news: the server may have been restarted.
    pub(super) was_refused: bool,
    /// How often the stream was requested again because of its silence.
    pub(super) silences: u32,
    pub(super) probe: ReplayProbe,
    pub(super) probe_result: ProbeResult,
    /// The server accepts the newest cursor and refuses older ones: it knows the stream, and a probe shows nothing more.
    pub(super) refuses_older_cursors: bool,
    /// The server did not replay the silent stream; its checkpoint, if it has one, is worth a look.
    pub(super) is_replay_failing: bool,
    /// The connection that the stream had before it was requested again because of its silence.
    pub(super) kept: Option<KeptConnection>,
    /// When the stream was last requested again because of its silence.
    pub(super) rechecked_at: Option<Mono>,
    /// The resumes that were refused since the stream was last served.
    pub(super) refusals: Option<Refusals>,
    /// The server wants no request for the stream before this (`Retry-After`).
    pub(super) not_before: Option<Mono>,
    /// What requests for the stream may cost beside the link's own budget.
    pub(super) budget: Budget,
    /// The outage that the stream is in.
    pub(super) disconnection: Option<Disconnection>,
}

impl Recovery {
    /// The stream has delivered something new, so it is no longer in doubt.
    pub(super) fn succeeded(&mut self) {
        (self.tries, self.empty_resumes, self.silences) = (0, 0, 0);
        (self.closed_empty, self.was_refused) = (0, false);
        self.probe_result = ProbeResult::None;
        (self.rechecked_at, self.is_replay_failing) = (None, false);
    }

    /// The call is sent again, on a stream of its own.
    pub(super) fn restart(&mut self) {
        (self.tries, self.empty_resumes, self.silences) = (0, 0, 0);
        (self.closed_empty, self.was_refused) = (0, false);
        (self.disconnection, self.probe) = (None, ReplayProbe::Off);
    }

    /// A probe has stayed open and silent. Returns whether another one is worth a try.
    pub(super) fn note_silent_probe(&mut self) -> bool {
        let count = match self.probe_result {
            ProbeResult::Silent(count) => count.saturating_add(1),
            ProbeResult::None | ProbeResult::Failed => 1,
        };
        self.probe_result = ProbeResult::Silent(count);
        count < SILENT_PROBES
    }

    /// Whether the server has had nothing new on the stream for several resumes, although it may still replay it, and
    /// either closed it each time or may have been restarted: a server that kept its event store replays what has ended.
    pub(super) fn is_empty_for_long(&self) -> bool {
        self.closed_empty > EMPTIES_BEFORE_PROBE
            || self.was_refused && self.empty_resumes > EMPTIES_BEFORE_PROBE
    }

    pub(super) fn has_failed_probe(&self) -> bool {
        self.probe_result == ProbeResult::Failed
    }
}

impl ReplayProbe {
    /// Whether what comes is dropped, because it is known.
    pub(super) fn is_replaying(&self) -> bool {
        matches!(self, Self::Replaying { .. })
    }

    /// Whether nothing known has come back yet.
    pub(super) fn is_unanswered(&self) -> bool {
        matches!(
            self,
            Self::Replaying {
                has_matched: false,
                ..
            }
        )
    }

    /// Whether something known has come back.
    pub(super) fn has_matched(&self) -> bool {
        *self != Self::Off && !self.is_unanswered()
    }

    /// An event of the replay; `is_known` says that it was brought before.
    pub(super) fn take(&mut self, id: &EventId, is_known: bool) {
        if let Self::Replaying {
            newest,
            has_matched,
        } = self
        {
            *has_matched |= is_known;
            if newest == id {
                self.stop_dropping();
            }
        }
    }

    /// Nothing is dropped from here on.
    pub(super) fn stop_dropping(&mut self) {
        *self = if self.has_matched() {
            Self::Passed
        } else {
            Self::Off
        };
    }
}

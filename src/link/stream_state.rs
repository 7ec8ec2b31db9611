//! Where the stream of a call is.

use core::time::Duration;

use crate::{domain::Mono, link::ExchangeId};

/// Without keep-alive comments a silent stream can be alive. With them, this much silence means that it is dead.
pub(super) const HALF_OPEN_AFTER: Duration = Duration::from_secs(45);
/// What may still come of an open stream whose session is gone has this long since its last news.
pub(super) const DETACHED_FOR: Duration = Duration::from_secs(30);
/// A resume whose response head does not come; its connection may be half-open too.
pub(super) const HEAD_WITHIN: Duration = Duration::from_secs(15);
/// How long an answer waits for that head; some servers send none while they have nothing to say.
pub(super) const HEAD_BEFORE_ANSWER: Duration = Duration::from_secs(2);
/// The longest wait between polls of a stream that brings nothing.
pub(super) const SLOW_POLL: Duration = Duration::from_secs(60);
/// The longest wait before a stream is asked for again that did not get as far as an answer.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Where the stream of the present attempt is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum StreamState {
    /// No stream: not sent yet, ended, or watched by the server's list.
    #[default]
    None,
    /// The call is out, nothing came back yet.
    Calling(ExchangeId),
    /// A stream is open.
    Open {
        on: ExchangeId,
        /// Whether it is a resumed one, which may be open and dead.
        is_resumed: bool,
        since: Mono,
    },
    /// The stream was asked for again, nothing came back yet.
    Asking { on: ExchangeId, is_probe: bool },
    /// It will be asked for again at this time.
    Waiting(Mono),
    /// The call or its resumption was refused; a ping shows whether by a server that knows the session.
    Verifying { said: String, meant: Refused },
}

/// What a refusal means, if it is the server's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Refused {
    Call,
    Cursor,
    /// Every resumption.
    Resumption,
    /// The same, in the words of a web page, which may come from a proxy in the server's place.
    Page,
}

impl StreamState {
    /// An open stream.
    pub(super) fn open(on: ExchangeId, is_resumed: bool, since: Mono) -> Self {
        Self::Open {
            on,
            is_resumed,
            since,
        }
    }

    /// The exchange that it stands on.
    pub(super) fn exchange(&self) -> Option<ExchangeId> {
        match self {
            Self::Calling(on) | Self::Open { on, .. } | Self::Asking { on, .. } => Some(*on),
            Self::None | Self::Waiting(_) | Self::Verifying { .. } => None,
        }
    }
}

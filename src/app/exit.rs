//! Whether and when the program is about to quit.

use crate::domain::Mono;

use super::event::ExitNote;

/// When the program quits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExitWhen {
    /// Not quitting.
    #[default]
    No,
    /// Ctrl-C or a key opened the dialog at this time; a second Ctrl-C quits.
    Asked(Mono),
    /// Quits as soon as no call is left that would be lost.
    NothingLost,
    /// Quits as soon as everything is cancelled, or at this time.
    Cancelled(Mono),
}

/// Whether and when the program is about to quit, and what it prints then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exit {
    /// When it quits.
    pub when: ExitWhen,
    /// Whether the keeper stops with it.
    pub(super) stops_keeper: bool,
    /// What to print after the screen has closed; set once the program quits.
    pub note: Option<ExitNote>,
}

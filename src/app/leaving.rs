//! Whether and when the program is about to quit.

use crate::domain::Mono;

use super::event::LeaveNote;

/// Whether and when the program is about to quit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Leaving {
    /// Not quitting.
    #[default]
    No,
    /// Ctrl-C or `q` opened the dialog at this time; a second Ctrl-C quits.
    Asked(Mono),
    /// Quits as soon as no call is left that quitting would end.
    OnceSafe,
    /// Quits as soon as everything is cancelled, or at this time.
    OnceCancelled(Mono),
}

/// Whether and when the program is about to quit, and what it prints then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leave {
    /// Whether and when it is about to quit.
    pub when: Leaving,
    /// What to print after the screen has closed; set once the program quits.
    pub(super) note: Option<LeaveNote>,
}

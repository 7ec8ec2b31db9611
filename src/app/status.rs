//! The last lines of the screen in words: what wants attention, and the keys that work here.

use crate::domain::Stamp;

use super::State;

/// How much a line of attention weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Good to know.
    Calm,
    /// The answer to the last key.
    Answer,
    /// Something is not as it should be.
    Pressing,
}

/// The one thing that wants attention.
pub fn attention(state: &State, _now: Stamp) -> (String, Attention) {
    if let Some(remark) = &state.remark {
        return (remark.text.clone(), Attention::Answer);
    }
    (String::new(), Attention::Calm)
}

/// Whether a line has what is searched for, without regard to case.
pub fn finds(line: &str, search: &str) -> bool {
    line.to_lowercase().contains(&search.to_lowercase())
}

/// The keys that work here, as key and label.
pub fn footer_keys(_state: &State) -> Vec<(String, String)> {
    [("j", "down"), ("k", "up"), ("q", "leave")]
        .map(|(key, label)| (key.to_owned(), label.to_owned()))
        .into()
}

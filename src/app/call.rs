//! A new call.
/// The form of a new call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallForm {}

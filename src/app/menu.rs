//! Choices.
/// A choice.
#[derive(Clone, Debug, PartialEq)]
pub enum Menu {
    /// What leaving would do.
    Leave,
}

//! The parts that share the screen.

pub(super) mod bottom;
pub(super) mod detail;
pub(super) mod header;
pub(super) mod list;

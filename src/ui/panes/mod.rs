//! The panes of the screen.

pub(super) mod bottom;
pub(super) mod detail;
mod document;
pub(super) mod empty;
pub(super) mod header;
pub(super) mod list;
mod log;
pub(super) mod messages;
mod progress;
pub(super) mod servers;
pub(super) mod timeline;
pub(super) mod tools;

//! The exit codes, as in the help: scripts rely on them.

/// Success.
pub const OK: u8 = 0;
/// The tool failed.
pub const TOOL_FAILED: u8 = 1;
/// A mistake in what was asked, or refused before anything was sent.
pub const REFUSED: u8 = 2;
/// The server wants credentials.
pub const NEEDS_LOGIN: u8 = 3;
/// The server cannot be reached.
pub const UNREACHABLE: u8 = 4;
/// The task is unknown or lost.
pub const UNKNOWN: u8 = 5;
/// The server asks something.
pub const INPUT: u8 = 6;
/// A limit of the user's ended it.
pub const TIMED_OUT: u8 = 7;
/// It was cancelled.
pub const CANCELLED: u8 = 8;
/// A bug of longhaul, or a machine that gives it no thread.
pub const BUG: u8 = 70;
/// The session, or stdout, cannot be written.
pub const CANNOT_SAVE: u8 = 73;
/// The process that drives the session does not answer.
pub const DRIVER_SILENT: u8 = 75;
/// Interrupted; the task stays.
pub const INTERRUPTED: u8 = 130;

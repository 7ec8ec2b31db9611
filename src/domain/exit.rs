//! The exit codes. Scripts rely on them, and the help documents them.

/// Success.
pub const OK: u8 = 0;
/// The tool failed.
pub const TOOL_FAILED: u8 = 1;
/// Invalid usage, or the call was refused before anything was run.
pub const REFUSED: u8 = 2;
/// The server wants credentials.
pub const NEEDS_LOGIN: u8 = 3;
/// The server can't be reached.
pub const UNREACHABLE: u8 = 4;
/// The task is unknown or lost.
pub const UNKNOWN: u8 = 5;
/// The server asked a question (elicitation).
pub const INPUT: u8 = 6;
/// A time limit set by the user ended the call.
pub const TIMED_OUT: u8 = 7;
/// The call was cancelled.
pub const CANCELLED: u8 = 8;
/// A bug in longhaul, or the system can't start a thread.
pub const BUG: u8 = 70;
/// The session file or stdout can't be written.
pub const CANNOT_SAVE: u8 = 73;
/// The driver of the session doesn't respond.
pub const DRIVER_SILENT: u8 = 75;
/// Interrupted by the user; the task is kept.
pub const INTERRUPTED: u8 = 130;

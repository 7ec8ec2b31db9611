//! longhaul: a terminal program for long-running MCP tool calls.
//!
//! The map of the house. Each room has one job and one-way doors: a room may use those on its left, never back.
//! `tests/doors.rs` reads every `use` line and fails on a back door; a door and this map change in one commit.
//!
//! ```text
//! domain <- protocol <- transport <- engine -+
//! transport, store <- auth <- engine, cli ---+
//! domain <- protocol <- link <- engine ------+
//! domain <- store <- engine -----------------+-> shell <- cli <- main
//! domain <- app <- ui -----------------------+
//! domain <- term ----------------------------+          demo (stands alone: shares nothing but the wire)
//! ```
//!
//! | room | owns | pure |
//! |---|---|---|
//! | `domain` | the words of the trade: task, status, contact, price, progress, text, what is asked and told | yes |
//! | `protocol` | JSON-RPC and MCP shapes, and one HTTP exchange as data | yes |
//! | `transport` | bytes to events: the frame splitter, SSE, HTTP, headers, TLS | |
//! | `link` | the machine of one server: eras, sessions, streams, resumption, server tasks, questions, checkpoints, back-off | yes |
//! | `store` | the session file on SQLite, the driver's lock, quarantine | |
//! | `auth` | sign-in: authorization servers, tokens and their time, the file of logins | |
//! | `engine` | runs the machines: journal thread, driver loop, socket, take-over, the record of the wire; the look of `doctor` at one server | |
//! | `app` | the screen as a value: state, events, update, keys, selection | yes |
//! | `ui` | the state as a picture | yes |
//! | `term` | the terminal's edge: modes, input, signals, escape sequences | |
//! | `shell` | the loop where clock, terminal, file and engine meet | |
//! | `cli` | the command line and its headless commands, the file of configuration | |
//! | `demo` | the embedded demo server, on the official SDK | |
//!
//! What comes in: bytes -> frame -> SSE event -> JSON-RPC message -> link machine -> rows on disk and newest-value slots
//! -> state -> screen. What goes out: key -> chord -> action -> command -> ask -> link machine -> save -> request.
//!
//! The order of disk, wire and screen is the product: a call leaves only after its intent is saved, a result is shown only
//! after it is saved, a cursor is saved only together with what the events up to it changed. The link machine names the
//! save that each output waits for, and `tests/simulation.rs` attacks that.

pub mod app;
pub mod auth;
mod cli;
#[cfg(feature = "demo")]
pub mod demo;
pub mod domain;
pub mod engine;
pub mod link;
pub mod protocol;
pub mod shell;
pub mod store;
pub mod term;
pub mod transport;
pub mod ui;

pub use cli::run;
/// The readers of files that somebody else wrote, for those who attack them.
#[doc(hidden)]
pub use cli::{Config, Imported, Saved, SavedTask};

//! longhaul: a terminal program for long-running MCP tool calls.
//!
//! Each module has one job and may only use the modules on its left. `tests/it/architecture.rs` reads every `use` line and
//! fails on any other dependency; change it together with this overview.
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
//! | module | owns | pure |
//! |---|---|---|
//! | `domain` | shared types: task, status, contact, leave impact, progress, text, requests and responses | yes |
//! | `protocol` | JSON-RPC and MCP shapes, and one HTTP exchange as data | yes |
//! | `transport` | bytes to events: the frame splitter, SSE, HTTP, headers, TLS | |
//! | `link` | the state machine of one server: eras, sessions, streams, resumption, server tasks, questions, checkpoints, backoff | yes |
//! | `store` | the session file on SQLite, the driver's lock, quarantine | |
//! | `auth` | sign-in: authorization servers, tokens and their expiry, the file of logins | |
//! | `engine` | runs the state machines: journal thread, driver loop, socket, takeover, recorded traffic; the server check of `doctor` | |
//! | `app` | the screen's state: events, update, keys, selection | yes |
//! | `ui` | renders the state | yes |
//! | `term` | the terminal: modes, input, signals, escape sequences | |
//! | `shell` | the event loop that connects clock, terminal, file and engine | |
//! | `cli` | the command line, its commands and the configuration file | |
//! | `demo` | the embedded demo server, on the official SDK | |
//!
//! Inbound: bytes -> frame -> SSE event -> JSON-RPC message -> link state machine -> rows on disk and latest-value slots ->
//! state -> screen. Outbound: key -> chord -> action -> command -> ask -> link state machine -> save -> request.
//!
//! The order of disk, network and screen is the product: a call is sent only after its intent is saved, a result is shown
//! only after it is saved, and a cursor is saved only together with what the events up to it changed. The state machine
//! names the save that each output waits for, and `tests/simulation.rs` attacks that.

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
/// Parsers of files written by others, for the fuzz targets.
#[doc(hidden)]
pub use cli::{ClientState, ClientTask, Config, Imported};

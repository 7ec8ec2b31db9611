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
//! app, store, engine <- config --------------+
//! domain <- proxy <- cli                     |
//! domain <- term ----------------------------+          demo (standalone: shares only the protocol)
//! ```
//!
//! | module | owns | pure |
//! |---|---|---|
//! | `domain` | shared types: tasks, status, connectivity, what a cut costs, progress, text, session requests and responses | yes |
//! | `protocol` | JSON-RPC and MCP messages, and one HTTP exchange as data | yes |
//! | `transport` | turns bytes into events: frames, SSE, HTTP, headers, TLS | |
//! | `link` | the state machine of one server: protocol eras, sessions, streams, resumption, server tasks, questions, checkpoints, backoff | yes |
//! | `store` | the SQLite session file, the driver's lock, quarantine of damaged files | |
//! | `auth` | sign-in: authorization servers, tokens and their expiry, saved logins | |
//! | `engine` | runs the state machines: journal thread, driver loop, socket, handover, traffic recording; the server checks of `doctor` | |
//! | `app` | the state of the screen: events, updates, keys, selection | yes |
//! | `ui` | renders that state | yes |
//! | `proxy` | what an agent host sees of `longhaul proxy`: handshake, calls, tickets, cancels | yes |
//! | `term` | the terminal: modes, input, signals, escape sequences | |
//! | `shell` | the event loop that connects the clock, the terminal, the session file and the engine | |
//! | `config` | the configuration file, approval of what it starts or sends, and the import from other programs | |
//! | `cli` | the command line and its commands | |
//! | `demo` | the built-in demo server, on the official SDK | |
//!
//! Inbound: bytes -> frame -> SSE event -> JSON-RPC message -> link state machine -> rows on disk and snapshots ->
//! state -> screen. Outbound: key -> chord -> action -> command -> session request -> link state machine -> save -> MCP
//! request.
//!
//! Three ordering rules make calls survive a crash. A call is sent only after its intent is saved. A result is shown
//! only after it is saved. A cursor is saved only together with everything that the events up to it changed. The state
//! machine names the save that each output waits for; `tests/simulation.rs` tests these rules under failures.

pub mod app;
pub mod auth;
mod cli;
mod config;
#[cfg(feature = "demo")]
pub mod demo;
pub mod domain;
pub mod engine;
pub mod link;
pub mod protocol;
pub mod proxy;
pub mod shell;
pub mod store;
pub mod term;
pub mod transport;
pub mod ui;

pub use cli::run;
/// Parsers of files that other programs write, public only for the fuzz targets.
#[doc(hidden)]
pub use cli::{ClientState, ClientTask};
#[doc(hidden)]
pub use config::{Config, import::imported};

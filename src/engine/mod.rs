//! Runs the link machines: carries their outputs out through the wire, the disk and the clock, in the order they name.
//!
//! Owns the network thread, the journal thread, the thread that records the wire, the driver's socket and the take-over when
//! a driver dies. Must not know of screens or command lines: asks come in as data, news goes out as newest-value slots.
//! Invariant: what an output waits for is on disk before the output is carried out; if that save fails, the output is
//! forgotten.

mod clock;
mod driver;
mod file_watcher;
mod hook;
mod inbox;
mod journal;
mod options;
mod pending_requests;
mod probe;
mod rest;
mod server_configs;
mod session;
mod snapshots;
mod socket;
mod tracer;

pub use self::options::FailPoint;
pub use self::options::Options;
pub use self::options::PanicIn;
pub use clock::Clock;
pub use driver::USUAL_ENVIRONMENT;
pub use hook::Hook;
pub use probe::{Flow, Obstacle, Probe, Recording, Stateful, probe};
pub use session::Session;
pub use snapshots::Subscription;
pub use socket::{ask_driver, barred_tasks};

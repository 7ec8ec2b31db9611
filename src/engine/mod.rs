//! Runs the link machines: carries out their outputs on the network, the disk and the clock, in the order they specify.
//!
//! Owns the network thread, the journal thread, the trace thread, the driver's socket and the take-over when a driver
//! dies. Must not know about screens or command lines: requests come in as data, news goes out as newest-value slots.
//! Invariant: an output is carried out only after the save that it waits for is on disk; if that save fails, the output
//! is dropped.

mod clock;
mod driver;
mod file_watcher;
mod follow;
mod frames;
mod hook;
mod inbox;
mod journal;
mod keeper;
#[cfg(target_os = "linux")]
mod logind;
mod options;
mod pace;
mod pending_requests;
mod relay;
mod saved;
mod server_configs;
mod session;
mod snapshots;
mod socket;
mod test_hooks;
mod tracer;
mod tunnel;
mod upgrade;

pub use self::options::{Options, ProcessRole, SessionPurpose};
pub use clock::Clock;
pub use driver::USUAL_ENVIRONMENT;
pub use follow::ask_driver;
pub use frames::{
    HeldCall, KeeperStatus, TaskConnections, UpgradeOutcome, UpgradeRequest, Upgraded,
};
pub use hook::Hook;
pub use keeper::{
    KeeperCommand, KeeperError, READY, detach, keeper_status, leave_terminal, stop_keeper,
    stop_unused_keeper, task_connections, upgrade_keeper,
};
#[cfg(target_os = "linux")]
pub use logind::{AtLogout, LogindError, Systemd};
pub use relay::{RelayError, relay};
pub use saved::{ReadError, read_saved};
pub use session::Session;
pub use snapshots::Subscription;
pub use test_hooks::{PanicIn, of_tests, panic_if_told};
pub use tunnel::{Host, TunnelError};
pub use upgrade::{Inherited, inherit, run_trial};

//! Tools that the tests share.

#[cfg(feature = "demo")]
pub(crate) mod agent_host;
pub(crate) mod alone;
#[cfg(feature = "demo")]
pub(crate) mod demo_server;
#[cfg(all(feature = "demo", target_os = "linux"))]
#[expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]
pub(crate) mod disk;
#[cfg(feature = "demo")]
pub(crate) mod kept;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod pty;
pub(crate) mod server;
pub(crate) mod wire;

use std::time::Duration;

/// A short pause between two looks at something that sends no event, which leaves the processor to the one waited for.
pub(crate) fn pause() {
    pause_after(Duration::ZERO);
}

/// The same after so long a wait: a tenth of it more, because a look may start a process.
pub(crate) fn pause_after(waited: Duration) {
    let span = (waited / 10).clamp(Duration::from_millis(2), Duration::from_millis(200));
    std::thread::park_timeout(span);
}

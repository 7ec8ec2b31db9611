//! The limit on the size of a file (`ulimit -f`, `LimitFSIZE`), which the system enforces with a signal that kills.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// Whether a write hit the limit since the last call.
static IS_MET: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes a write beyond the limit fail as on a full disk. Child processes are not affected.
///
/// # Errors
/// If the system does not allow a signal handler.
pub fn survive_file_size_limit() -> io::Result<()> {
    let is_met = IS_MET.get_or_init(Arc::default);
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::clone(is_met)).map(drop)
}

/// Whether a write hit the limit since the last call.
pub(super) fn has_met_file_size_limit() -> bool {
    IS_MET
        .get()
        .is_some_and(|is_met| is_met.swap(false, Ordering::Relaxed))
}

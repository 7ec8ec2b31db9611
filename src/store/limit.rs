//! The limit on the size of a file (`ulimit -f`, `LimitFSIZE`), which the system enforces with a signal that kills.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// Whether the limit was met since somebody asked.
static IS_MET: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on a write beyond the limit fails as on a full disk. Programs that are started from here are not affected.
///
/// # Errors
/// Where the system does not let us listen.
pub fn survive_file_size_limit() -> io::Result<()> {
    let is_met = IS_MET.get_or_init(Arc::default);
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::clone(is_met)).map(drop)
}

/// Whether a write met the limit since the last call.
pub(super) fn has_met_file_size_limit() -> bool {
    IS_MET
        .get()
        .is_some_and(|is_met| is_met.swap(false, Ordering::Relaxed))
}

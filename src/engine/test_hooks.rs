//! What the tests make a debug build do at an exact moment, by variables that `docs/testing.md` lists. A release build
//! reads none of them.

use std::{
    path::PathBuf,
    str::FromStr,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// A thread that can be made to panic once there is a session to lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum PanicIn {
    /// The screen's thread.
    Screen,
    /// The network thread.
    Network,
    /// The writer thread.
    Journal,
    /// The thread that reads the keyboard.
    Input,
}

/// The thread to panic, and the file that must exist first, if any.
static PANIC_IN: LazyLock<Option<(PanicIn, Option<PathBuf>)>> = LazyLock::new(|| {
    let thread = of_tests("LONGHAUL_PANIC_IN")?;
    Some((thread, of_tests("LONGHAUL_PANIC_WHEN")))
});

/// After how many outputs the process dies, so that the kill tests hit every window.
static DIE_AFTER: LazyLock<Option<u64>> = LazyLock::new(|| of_tests("LONGHAUL_DIE_AFTER"));

static OUTPUTS: AtomicU64 = AtomicU64::new(0);

/// A variable that tests set; debug builds only.
pub fn of_tests<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var_os(name).filter(|_| cfg!(debug_assertions))?;
    text.to_str()?.parse().ok()
}

/// Panics if this thread was chosen and the time has come: any thread must exit the same way.
///
/// # Panics
///
/// On purpose, as described.
pub fn panic_if_told(thread: PanicIn) {
    if let Some((chosen, when)) = &*PANIC_IN {
        let has_come = || when.as_ref().is_none_or(|path| path.exists());
        assert!(
            *chosen != thread || !has_come(),
            // With a control character, as a server could have sent it.
            "{thread:?} was told to panic by \u{9b}2J"
        );
    }
}

/// Counts an output; ends this process as `kill -9` would if it was the last one.
pub(super) fn die_if_told() {
    let done = OUTPUTS.fetch_add(1, Ordering::Relaxed) + 1;
    if DIE_AFTER.is_some_and(|limit| done > limit) {
        let me = rustix::process::getpid();
        // If even this fails, the test that requested it reports it.
        let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
    }
}

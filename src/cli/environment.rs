//! What comes from outside: environment variables, randomness, and the keychain.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use tokio::runtime::Runtime;

use crate::{
    auth::{Keychain, Logins},
    cli::{CliError, CliResult},
    config,
    engine::of_tests,
    store::{CONTRACT, Paths},
    transport::ProcessGuard,
};

/// Random bits from the operating system, for ids and jitter.
pub(super) fn random_bits() -> u64 {
    // The standard library seeds every new `RandomState` from the system.
    RandomState::new().build_hasher().finish()
}

/// The contract that this program speaks. Tests of upgrades pretend to be the next version.
pub(super) fn contract() -> u32 {
    of_tests("LONGHAUL_CONTRACT").unwrap_or(CONTRACT)
}

/// How long Claude Code waits for a tool, as it tells the servers that it starts.
pub(super) fn tool_timeout() -> Option<String> {
    std::env::var_os(crate::proxy::CLAUDE_CODE_LIMIT)?
        .into_string()
        .ok()
}

/// The stored sign-ins of this state directory.
pub(super) fn logins(paths: &Paths, defaults: Option<&config::Defaults>) -> Logins {
    Logins::new(&paths.logins(), keychain(defaults))
}

/// The desktop keychain, unless it is switched off or cannot exist here.
pub(super) fn keychain(defaults: Option<&config::Defaults>) -> Keychain {
    if defaults.is_some_and(|it| it.no_keychain) {
        return Keychain::none("the configuration says keychain = false");
    }
    let bus = || {
        let address = std::env::var_os("DBUS_SESSION_BUS_ADDRESS").filter(|it| !it.is_empty());
        // Without an existing bus the library would start one.
        address.is_some()
            || std::env::var_os("XDG_RUNTIME_DIR")
                .is_some_and(|dir| std::path::Path::new(&dir).join("bus").exists())
    };
    if !cfg!(target_os = "macos") && !bus() {
        return Keychain::none("no keychain, because there is no D-Bus session");
    }
    Keychain::desktop()
}

/// A runtime for a command that uses the engine.
pub(super) fn runtime() -> CliResult<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build();
    runtime.map_err(CliError::bug("start a runtime"))
}

/// Runs a command that uses the engine, on a runtime of its own.
pub(super) fn block_on<T>(work: impl Future<Output = CliResult<T>>) -> CliResult<T> {
    runtime()?.block_on(work)
}

/// Ends server processes if this process is killed; without the path of this program it can't.
pub(super) fn process_guard() -> ProcessGuard {
    std::env::current_exe().map_or_else(
        |_| ProcessGuard::default(),
        |program| ProcessGuard::new(program, &["--host=", "keeper", "guard"]),
    )
}

/// Where systemd can be asked about logouts.
#[cfg(target_os = "linux")]
pub(super) fn systemd() -> crate::engine::Systemd {
    let address = |name: &str, usual: String| {
        let from_environment = std::env::var_os(name).and_then(|it| it.into_string().ok());
        from_environment
            .filter(|it| !it.is_empty())
            .unwrap_or(usual)
    };
    let uid = rustix::process::geteuid().as_raw();
    crate::engine::Systemd {
        system_bus: address(
            "DBUS_SYSTEM_BUS_ADDRESS",
            "unix:path=/run/dbus/system_bus_socket".to_owned(),
        ),
        user_bus: address(
            "DBUS_SESSION_BUS_ADDRESS",
            format!("unix:path=/run/user/{uid}/bus"),
        ),
        cgroups: std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
    }
}

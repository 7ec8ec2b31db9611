//! `doctor`: checks the environment, read-only.

mod machine;
mod report;
mod servers;

use crate::cli::{
    CliResult, Context, code,
    commands::doctor::{
        machine::{configuration, disk, files, keeper, logins, sessions, terminal},
        report::{Checks, Severity, print},
        servers::servers,
    },
};

/// `doctor`.
///
/// `startup_errors` are failures to open the state directory or the log, which other commands exit with.
pub(in crate::cli) fn doctor(context: &mut Context<'_>, startup_errors: Vec<String>) -> CliResult {
    let mut checks = Checks::default();
    checks.about("longhaul");
    checks.ok(format!(
        "{} on {} {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    ));
    terminal(context, &mut checks);
    checks.about("state");
    for message in startup_errors {
        checks.add(Severity::Wrong, message, None);
    }
    files(context, &mut checks);
    disk(&context.paths.dir, &mut checks);
    configuration(context, &mut checks);
    keeper(context, &mut checks);
    sessions(context, &mut checks);
    logins(context, &mut checks);
    servers(context, &mut checks);
    let mut severities = checks.all.iter().map(|check| check.severity);
    let is_wrong = severities.any(|severity| severity == Severity::Wrong);
    print(context, &checks)?;
    Ok(if is_wrong {
        code::TOOL_FAILED
    } else {
        code::OK
    })
}

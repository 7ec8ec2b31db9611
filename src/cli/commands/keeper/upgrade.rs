//! `keeper upgrade`: the running keeper becomes this program, and every call continues.

use std::{path::Path, time::Duration};

use serde_json::json;

use crate::{
    cli::{CliError, CliResult, Context, code, context::confirm, json as documents},
    domain::text,
    engine::{HeldCall, UpgradeOutcome, UpgradeRequest, Upgraded, upgrade_keeper},
};

/// How often to try again while calls hold the upgrade back. Each try pauses the keeper.
const HELD_EVERY: Duration = Duration::from_secs(5);

/// How often to retry while the keeper is busy with something short.
const BUSY_EVERY: Duration = Duration::from_millis(500);

/// How many times to try then.
const BUSY_TRIES: u32 = 30;

/// Upgrades the keeper. Waits for calls that would be lost; with `now`, asks whether to lose them.
pub(super) fn upgrade(
    context: &mut Context<'_>,
    now: bool,
    yes: bool,
    to: Option<&Path>,
) -> CliResult {
    context.may_act()?;
    // The keeper works in another directory.
    let program = to.map_or_else(std::env::current_exe, std::path::absolute);
    let program = program.map_err(CliError::bug("find the path of the program"))?;
    let mut request = UpgradeRequest {
        program,
        is_forced: false,
    };
    let (mut tries, mut waits_for) = (0, Vec::new());
    loop {
        // The keeper can't say when to try again: it hangs up after each answer.
        let try_again_in = match upgrade_keeper(&context.paths, request.clone())? {
            None => return none(context),
            Some(UpgradeOutcome::Upgraded(upgraded)) => return report(context, &upgraded),
            Some(UpgradeOutcome::Held(calls)) if now => {
                report_calls(context, "The upgrade would lose", &calls);
                if !yes && !confirm(context, "Upgrade and lose them?")? {
                    return Ok(code::REFUSED);
                }
                request.is_forced = true;
                continue;
            }
            Some(UpgradeOutcome::Held(calls)) => {
                if calls != waits_for {
                    let waiting = "Waiting, because the upgrade would lose";
                    let hint = "Press Ctrl-C to stop waiting, or use --now to upgrade immediately.";
                    report_calls(context, waiting, &calls);
                    context.report(hint);
                    waits_for = calls;
                }
                HELD_EVERY
            }
            Some(UpgradeOutcome::NotUpgraded { why, is_passing }) => {
                tries += 1;
                if !is_passing || tries == BUSY_TRIES {
                    let message = format!("not upgraded, and nothing has changed: {why}");
                    return Err(CliError::new(code::REFUSED, message));
                }
                BUSY_EVERY
            }
        };
        std::thread::park_timeout(try_again_in);
    }
}

fn none(context: &mut Context<'_>) -> CliResult {
    let session = &context.paths.session;
    let line =
        format!("no keeper is running for session {session}; the next one will use this version");
    context.answer(&json!({ "keeper": null }), &line)
}

fn report_calls(context: &mut Context<'_>, what: &str, calls: &[HeldCall]) {
    context.report(&format!("{what} {}:", text::plural(calls.len(), "call")));
    for HeldCall { id, title, reason } in calls {
        context.report(&format!("  {id}  {title}: {reason}"));
    }
}

fn report(context: &mut Context<'_>, upgraded: &Upgraded) -> CliResult {
    let Upgraded { status, paused_ms } = upgraded;
    let document = json!({ "keeper": documents::keeper(status), "paused_ms": paused_ms });
    let line = format!(
        "keeper process {} now runs longhaul {}, with {}; connections were down for {paused_ms} ms",
        status.pid,
        status.version,
        match status.unsettled {
            0 => "no unfinished tasks".to_owned(),
            count => text::plural(count, "unfinished task"),
        },
    );
    context.answer(&document, &line)
}

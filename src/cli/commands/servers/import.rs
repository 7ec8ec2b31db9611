//! `servers import`: imports the servers of other programs and reports the outcome of each.

use serde_json::{Value, json};

use crate::{
    app::ServerFindings,
    cli::{
        CliError, CliResult, Context, code, context::confirm, live_session::notify_drivers,
        server_args::ImportArgs,
    },
    config::{
        approval,
        import::{EntryReport, ExistingServers, ImportOutcome, lines, locations, plan, read},
    },
    domain::{Template, server_url},
};

/// `servers import`.
pub(in crate::cli) fn import(context: &mut Context<'_>, import: &ImportArgs) -> CliResult {
    context.may_act()?;
    let files = match &import.file {
        Some(file) => vec![file.clone()],
        None => locations::existing(),
    };
    if files.is_empty() {
        context.info(ServerFindings::NONE);
        print(context, &[])?;
        return Ok(code::OK);
    }
    if let Some(file) = &import.file
        && let Err(why) = read(file)
    {
        let message = format!("could not import {}: {why}", file.display());
        return Err(CliError::usage(message));
    }
    let servers = ExistingServers::of(context.config()?, &context.paths);
    let mut ask_approval = |name: &str, url: &str, headers: &[(String, Template)]| {
        if import.yes || !context.terminal.is_for_people() {
            return Ok(import.yes);
        }
        for line in approval::header_destinations(url, headers, "would be sent") {
            context.propose(&format!("{name}: {line}"));
        }
        confirm(context, "allow? y/N")
    };
    let (edit, mut reports) = plan(&files, servers, &mut ask_approval)?;
    if reports.iter().any(EntryReport::is_imported) {
        edit.save()?;
        notify_drivers(context);
    }
    for needs in reports.iter_mut().filter_map(|it| it.needs.as_mut()) {
        *needs = context.terminal.with_flags(needs);
    }
    print(context, &reports)?;
    let is_skipped = |report: &EntryReport| report.outcome == ImportOutcome::Skipped;
    let is_refused = reports.iter().all(is_skipped) && import.file.is_some();
    Ok(if is_refused { code::REFUSED } else { code::OK })
}

/// Prints a line for each entry below the path of its file, or JSON.
fn print(context: &mut Context<'_>, reports: &[EntryReport]) -> CliResult<()> {
    if context.global.json {
        let document: Vec<Value> = reports
            .iter()
            .map(|report| {
                json!({
                    "file": report.file,
                    "name": report.name,
                    "known_as": report.known_as,
                    "outcome": report.outcome.key(),
                    "kind": report.kind,
                    "location": report.location.as_deref().map(server_url::redacted),
                    "variables": report.variables,
                    "is_approved": report.is_approved,
                    "notes": report.notes.iter().chain(&report.needs).collect::<Vec<_>>(),
                })
            })
            .collect();
        return context.terminal.print_pretty(document);
    }
    context.print_lines(lines(reports, true))
}

//! `servers consent` and `servers approve`.

use serde_json::json;

use crate::{
    cli::{
        CliError, CliResult, Context, context::must_confirm, live_session::notify_drivers,
        server_args::ApproveServerArgs,
    },
    config::{
        self, ConfigEdit,
        consent::{bound, consent_given, header_destinations, start_summary},
        digest,
    },
    domain::{ServerName, text},
};

/// `servers approve`.
pub(in crate::cli) fn approve(context: &mut Context<'_>, args: &ApproveServerArgs) -> CliResult {
    context.may_act()?;
    let server = context.configured(&ServerName::new(&*args.name)).cloned();
    let Some((server, program)) = server.and_then(|it| Some((it.clone(), it.program?))) else {
        return Err(CliError::usage(format!(
            "no stdio server named {:?} in the configuration; `longhaul servers list` lists the servers",
            args.name
        )));
    };
    if server.withheld.is_none() {
        // The keeper may still have the entry as it was before an edit was undone.
        notify_drivers(context);
        let message = format!("{} is already approved", server.name);
        return context.finish(&json!({"server": args.name, "is_approved": true}), &message);
    }
    let title = format!("{} would run with your permissions:", server.name);
    context.report(&title);
    let program = bound(&program);
    for line in start_summary(&program) {
        context.report(&format!("  {line}"));
    }
    let refusal = "not approved; rerun with --yes to approve";
    must_confirm(context, args.yes, "approve? y/N", refusal)?;
    let mut edit = ConfigEdit::open(config::path())?;
    edit.approve(server.name.as_str(), &program);
    edit.save()?;
    notify_drivers(context);
    let message = format!(
        "approved; longhaul asks again if anything changes; test it with `longhaul servers test {}`",
        text::shell_word(&args.name)
    );
    context.finish(&json!({"server": args.name, "is_approved": true}), &message)
}

/// `servers consent`.
pub(in crate::cli) fn consent(context: &mut Context<'_>, args: &ApproveServerArgs) -> CliResult {
    context.may_act()?;
    let server = context.config()?.server(&args.name).cloned();
    let Some(server) = server else {
        return Err(CliError::usage(format!(
            "no server named \"{}\" in the configuration; `longhaul servers list` lists the servers",
            args.name
        )));
    };
    let (Some(url), Some(_)) = (&server.url, &server.withheld) else {
        let message = format!("{} does not need consent", server.name);
        return context.finish(&json!({"server": args.name, "has_consent": true}), &message);
    };
    if server.program.is_some() {
        return Err(CliError::usage(format!(
            "{} is a stdio server; use `longhaul servers approve {}`",
            server.name,
            text::shell_word(server.name.as_str())
        )));
    }
    for line in header_destinations(url, &server.headers, "would be sent") {
        context.report(&line);
    }
    let refusal = "no consent given; rerun with --yes to consent";
    must_confirm(context, args.yes, "allow? y/N", refusal)?;
    let mut edit = ConfigEdit::open(config::path())?;
    edit.consent(&args.name, &digest(url, &server.headers));
    edit.save()?;
    notify_drivers(context);
    let document = json!({"server": args.name, "has_consent": true});
    context.finish(&document, &consent_given(&server))
}

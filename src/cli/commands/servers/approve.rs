//! `servers approve`.

use serde_json::json;

use crate::{
    cli::{
        CliError, CliResult, Context, context::must_confirm, live_session::notify_drivers,
        server_args::ApproveServerArgs,
    },
    config::approval,
    domain::ServerName,
};

/// `servers approve`.
pub(in crate::cli) fn approve(context: &mut Context<'_>, args: &ApproveServerArgs) -> CliResult {
    context.may_act()?;
    let name = ServerName::new(&*args.name);
    if context.config()?.entry(&name).is_none() {
        return Err(CliError::usage(format!(
            "no server named \"{name}\" in the configuration; `longhaul servers list` lists the servers"
        )));
    }
    let mut approval = approval::approve(&name, None)?;
    if approval.pending.is_empty() {
        approval.message = format!("{name} needs no approval, or has it already");
    } else {
        if approval.is_program {
            context.report(&format!("{name} would run with your permissions:"));
        }
        for line in &approval.pending {
            context.propose(&format!("  {line}"));
        }
        let refusal = "not approved; rerun with --yes to approve";
        must_confirm(context, args.yes, "approve? y/N", refusal)?;
        approval = approval::approve(&name, Some(&approval.digest))?;
        if !approval.pending.is_empty() {
            return Err(CliError::usage(
                "not approved, because the configuration has just changed; run the command again",
            ));
        }
    }
    // The keeper may still have the entry as it was before an edit was undone.
    notify_drivers(context);
    let document = json!({"server": args.name, "is_approved": true});
    context.finish(&document, &approval.message)
}

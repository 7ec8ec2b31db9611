//! `export`: a task for a bug report.

use crate::cli::{
    CliResult, Context,
    args::ExportArgs,
    code,
    context::write_file,
    export::{Exporter, cli_secrets},
};

/// `export`.
pub(in crate::cli) fn export(context: &mut Context<'_>, args: &ExportArgs) -> CliResult {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, &args.id)?;
    let config = context.config.as_ref().ok();
    let text = Exporter {
        logins: &context.logins,
        servers: config.map_or(&[], |config| &config.servers),
        cli_secrets: &cli_secrets(context),
        has_content: args.with_content,
        now: context.clock.now().wall,
    }
    .render(&mut reader, &task)?;
    let Some(path) = &args.out else {
        context.terminal.print_line(&text)?;
        return Ok(code::OK);
    };
    write_file(path, format!("{text}\n").as_bytes())?;
    Ok(code::OK)
}

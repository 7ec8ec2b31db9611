//! `completions` and `man`: shell completion scripts and man pages, generated from the clap definition.
//!
//! Invariant: neither shows commands or options that are hidden from the help.

use std::{fmt::Write as _, fs, path::Path};

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;
use serde_json::json;

use crate::{
    cli::{
        CliError, CliResult, Context,
        args::{Cli, ManArgs, NAME},
        code, complete,
        context::write_file,
    },
    domain::text,
};

/// `completions`.
pub(in crate::cli) fn completions(context: &mut Context<'_>, shell: Shell) -> CliResult {
    let script = complete::script(shell);
    if context.global.json {
        let document = json!({"shell": shell.to_string(), "script": script});
        return context.print_document(document);
    }
    context.terminal.print_line(script.trim_end())?;
    Ok(code::OK)
}

/// `man`.
pub(in crate::cli) fn man(context: &mut Context<'_>, args: &ManArgs) -> CliResult {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    if let Some(dir) = &args.dir {
        return write_all(context, &root, dir);
    }
    let mut command = &root;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            let typed = args.command.join(" ");
            CliError::usage(format!(
                "unknown command {typed:?}; `longhaul --help` lists the commands"
            ))
        })?;
    }
    let (name, page) = page(command)?;
    if context.global.json {
        return context.print_document(json!({"name": name, "page": page}));
    }
    context.terminal.print_line(page.trim_end())?;
    Ok(code::OK)
}

/// Writes a page for each visible command.
fn write_all(context: &mut Context<'_>, root: &Command, dir: &Path) -> CliResult {
    fs::create_dir_all(dir)
        .map_err(|error| CliError::usage(format!("could not write {}: {error}", dir.display())))?;
    let mut written = Vec::new();
    let mut pending = vec![root];
    while let Some(command) = pending.pop() {
        pending.extend(command.get_subcommands().filter(|it| !it.is_hide_set()));
        let (name, page) = page(command)?;
        write_file(&dir.join(&name), page.as_bytes())?;
        written.push(name);
    }
    written.sort();
    if context.global.json {
        return context.print_document(json!({"dir": dir, "pages": written}));
    }
    let count = text::plural(written.len(), "page");
    context.print(&format!("wrote {count} to {}", dir.display()))?;
    Ok(code::OK)
}

/// The file name and the roff text of a command's page.
fn page(command: &Command) -> CliResult<(String, String)> {
    let man = Man::new(command.clone())
        .source(format!("{NAME} {}", env!("CARGO_PKG_VERSION")))
        .manual("longhaul manual");
    let mut out = Vec::new();
    man.render_title(&mut out)
        .and_then(|()| man.render_name_section(&mut out))
        .and_then(|()| man.render_synopsis_section(&mut out))
        .and_then(|()| man.render_description_section(&mut out))
        .and_then(|()| man.render_options_section(&mut out))?;
    if command.get_subcommands().any(|it| !it.is_hide_set()) {
        man.render_subcommands_section(&mut out)?;
    }
    let mut page = String::from_utf8_lossy(&out).into_owned();
    let notes = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    // Not rendered by clap_mangen, which joins the lines of an example.
    for note in notes
        .map(ToString::to_string)
        .iter()
        .flat_map(|it| it.split("\n\n"))
    {
        let (heading, lines) = note.split_once('\n').unwrap_or((note, ""));
        let heading = heading.trim_end_matches(':').to_uppercase();
        let lines: String = lines.lines().map(|it| escaped(it) + "\n").collect();
        // Writing to a string cannot fail.
        let _ = write!(page, ".SH {}\n.nf\n{lines}.fi\n", escaped(&heading));
    }
    Ok((man.get_filename(), page))
}

/// Escapes a line so that man(7) shows every character unchanged and commands can be copied from the page.
fn escaped(line: &str) -> String {
    let line = line
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
        .replace('`', "\\(ga");
    match line.chars().next() {
        Some('.') => format!("\\&{line}"),
        _ => line,
    }
}

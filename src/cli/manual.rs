//! `completions` and `man`: the command line told to a shell and to a pager, from its one definition.
//!
//! Invariant: what is hidden from the help is offered by neither.

use std::{fs, path::Path};

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;
use serde_json::json;

use super::{
    Context,
    args::{Cli, ManArgs},
    complete,
    fail::{Fail, code},
    json as documents,
};
use crate::domain::text;

/// What the program is called.
pub(super) const NAME: &str = "longhaul";

/// `completions`.
pub(super) fn completions(context: &mut Context<'_>, shell: Shell) -> Result<u8, Fail> {
    let script = complete::script(shell);
    if context.global.json {
        let document = json!({"shell": shell.to_string(), "script": script});
        context.terminal.document(&documents::pretty(&document))?;
    } else {
        context.terminal.document(script.trim_end())?;
    }
    Ok(code::OK)
}

/// The same commands with only what their help shows; completion would offer all of it.
pub(super) fn offered(command: &Command) -> Command {
    let is_shown = |argument: &&Arg| !argument.is_hide_set();
    let commands = command.get_subcommands().filter(|it| !it.is_hide_set());
    let mut shown = Command::new(command.get_name().to_owned())
        .disable_help_subcommand(true)
        .visible_aliases(command.get_visible_aliases().map(str::to_owned))
        .args(command.get_arguments().filter(is_shown).cloned())
        .subcommands(commands.map(offered));
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    match command.get_version() {
        Some(version) => shown.version(version.to_owned()),
        None => shown,
    }
}

/// `man`.
pub(super) fn man(context: &mut Context<'_>, manual: &ManArgs) -> Result<u8, Fail> {
    let mut root = Cli::command();
    root.build();
    if let Some(dir) = &manual.dir {
        return write_all(context, &root, dir);
    }
    let mut command = &root;
    for name in &manual.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            let words = manual.command.join(" ");
            Fail::usage(format!(
                "there is no command {words:?}; `longhaul --help` lists what there is"
            ))
        })?;
    }
    let (name, page) = page(command)?;
    if context.global.json {
        let document = json!({"name": name, "page": page});
        context.terminal.document(&documents::pretty(&document))?;
    } else {
        context.terminal.document(page.trim_end())?;
    }
    Ok(code::OK)
}

/// A page for each command that is shown.
fn write_all(context: &mut Context<'_>, root: &Command, dir: &Path) -> Result<u8, Fail> {
    let failed = |path: &Path, error: &std::io::Error| {
        let words = format!("could not write {}: {error}", path.display());
        // The session itself is well.
        Fail::usage(words)
    };
    fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    let mut written = Vec::new();
    let mut waiting = vec![root];
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().filter(|it| !it.is_hide_set()));
        let (name, page) = page(command)?;
        let path = dir.join(&name);
        let file = fs::File::create(&path);
        file.and_then(|mut file| std::io::Write::write_all(&mut file, page.as_bytes()))
            .map_err(|error| failed(&path, &error))?;
        written.push(name);
    }
    written.sort();
    if context.global.json {
        let document = json!({"dir": dir, "pages": written});
        context.terminal.document(&documents::pretty(&document))?;
    } else {
        let count = text::plural(u64::try_from(written.len()).unwrap_or(u64::MAX), "page");
        context
            .terminal
            .line(&format!("{count} written to {}", dir.display()))?;
    }
    Ok(code::OK)
}

/// The file name and the text of a command's page, in the language of man(7).
fn page(command: &Command) -> Result<(String, String), Fail> {
    let man = Man::new(command.clone().disable_help_subcommand(true))
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
    // The library would let the lines of an example run together.
    for note in notes
        .map(ToString::to_string)
        .iter()
        .flat_map(|it| it.split("\n\n"))
    {
        let (heading, lines) = note.split_once('\n').unwrap_or((note, ""));
        let heading = heading.trim_end_matches(':').to_uppercase();
        page.push_str(".SH ");
        page.push_str(&escaped(&heading));
        page.push_str("\n.nf\n");
        for line in lines.lines() {
            page.push_str(&escaped(line));
            page.push('\n');
        }
        page.push_str(".fi\n");
    }
    Ok((man.get_filename(), page))
}

/// A line as man(7) shows it letter by letter, so that what is copied from a page is what was meant.
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

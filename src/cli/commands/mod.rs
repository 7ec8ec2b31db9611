//! The commands, one file each. A command never uses another one: what several need is in the modules beside this one.

mod adopt;
mod answer;
mod call;
mod control;
#[cfg(feature = "demo")]
mod demo;
mod doctor;
mod edit;
mod export;
mod keeper;
mod login;
mod logs;
mod ls;
mod manual;
mod paths;
mod proxy;
mod remove;
mod result;
mod servers;
mod sessions;
mod show;
mod tools;
mod trace;
mod wait;
mod watch;
mod wrap;

use super::{
    args::{CliCommand, SessionsCommand},
    context::Context,
    error::CliResult,
    screen,
    server_args::ServersCommand,
};
use crate::domain::ControlKind;

/// Runs a command; without one, opens the screen.
pub(super) fn carry_out(
    context: &mut Context<'_>,
    command: Option<CliCommand>,
    host: Option<&str>,
    startup_errors: Vec<String>,
) -> CliResult {
    use control::control;
    let Some(command) = command else {
        return screen::open(context, None, host);
    };
    match command {
        CliCommand::Attach { id } => screen::open(context, id.as_deref(), host),
        #[cfg(feature = "demo")]
        CliCommand::Demo(demo) => demo::run(context, &demo),
        CliCommand::Tools => tools::tools(context),
        CliCommand::Call(call) => call::call(context, call),
        CliCommand::Again(again) => call::again(context, again),
        CliCommand::Ls(ls) => ls::ls(context, &ls),
        CliCommand::Show { id } => show::show(context, &id),
        CliCommand::Result(result) => result::result(context, &result),
        CliCommand::Logs(logs) => logs::logs(context, &logs),
        CliCommand::Watch { id, new } => watch::watch(context, &id, new),
        CliCommand::Wait(wait) => wait::wait(context, &wait),
        CliCommand::Pause(which) => control(context, ControlKind::Pausing, &which),
        CliCommand::Resume(which) => control(context, ControlKind::Resuming, &which),
        CliCommand::Cancel(which) => control(context, ControlKind::Cancelling, &which),
        CliCommand::Answer(args) => answer::answer(context, &args),
        CliCommand::Adopt(args) => adopt::adopt(context, &args),
        CliCommand::Edit(edit) => edit::edit(context, edit),
        CliCommand::Rm(rm) => remove::rm(context, &rm),
        CliCommand::Clean(clean) => remove::clean(context, &clean),
        CliCommand::Servers { command } => match command {
            ServersCommand::List => servers::list::list(context),
            ServersCommand::Add(add) => servers::add::add(context, &add),
            ServersCommand::Remove(remove) => servers::remove::remove(context, &remove),
            ServersCommand::Test { name } => servers::test::test(context, name.as_deref()),
            ServersCommand::Import(import) => servers::import::import(context, &import),
            ServersCommand::Approve(approve) => servers::approve::approve(context, &approve),
        },
        CliCommand::Doctor => doctor::doctor(context, startup_errors),
        CliCommand::Export(which) => export::export(context, &which),
        CliCommand::Trace(args) => trace::trace(context, &args),
        CliCommand::Sessions { command } => match command {
            SessionsCommand::List => sessions::list(context),
            SessionsCommand::Rm(remove) => sessions::remove(context, &remove),
        },
        CliCommand::Completions { shell } => manual::completions(context, shell),
        CliCommand::Man(man) => manual::man(context, &man),
        CliCommand::Login(args) => login::login(context, &args),
        CliCommand::Logout { at } => login::logout(context, at.as_deref()),
        CliCommand::Keeper { command } => keeper::keeper(context, &command),
        CliCommand::Proxy(args) => proxy::proxy(context, &args),
        CliCommand::Wrap(args) => wrap::wrap(context, &args),
        CliCommand::Unwrap(args) => wrap::unwrap(context, &args),
        CliCommand::Paths => paths::paths(context),
    }
}

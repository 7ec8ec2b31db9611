//! `adopt`: adds tasks that exist on a server to the list.

mod checkpoints;
mod start;

use std::{io::Read as _, path::Path};

use itertools::Itertools as _;
use serde_json::Value;

use crate::{
    cli::{
        CliError, CliResult, Context, Targets,
        args::AdoptArgs,
        client_state::{ClientState, ClientStateError, ClientTask},
        code,
        commands::adopt::{checkpoints::Offer, start::report_adopted},
        context::must_confirm,
        environment::block_on,
        live_session::in_session,
    },
    domain::{CLIENT_ID, Checkpoint, ServerRef, SessionRequest, SessionResponse, server_url, text},
    store::Reader,
};

/// A state file holds a few tasks; a larger file is something else.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

/// `adopt`.
pub(in crate::cli) fn adopt(context: &mut Context<'_>, adopt: &AdoptArgs) -> CliResult {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    if let Some(path) = &adopt.from {
        return adopt_from_file(context, &mut reader, path, adopt);
    }
    if let Some(client_id) = &adopt.client_id {
        return checkpoints::adopt_checkpoints(context, &mut reader, adopt, client_id);
    }
    let server = Targets::of(context, &mut reader)?.one()?;
    let name = server.name.clone();
    in_session(context, vec![server], async |context, live| {
        let request = SessionRequest::Adopt {
            server: name.clone(),
            server_task: adopt.server_task.clone(),
        };
        let ids = match live.request(context, request).await? {
            SessionResponse::Adopted(ids) => ids,
            _ => Vec::new(),
        };
        if ids.is_empty() {
            let message = format!(
                "nothing to import: {name} lists no tasks that this session doesn't already have"
            );
            context.info(&message);
        }
        report_adopted(context, &mut reader, &ids)
    })
}

/// `adopt --from FILE`.
fn adopt_from_file(
    context: &mut Context<'_>,
    reader: &mut Reader,
    path: &Path,
    args: &AdoptArgs,
) -> CliResult {
    let failed = |error: ClientStateError| {
        CliError::usage(format!("could not import from {}: {error}", path.display()))
    };
    let state = read_file(path).map_err(failed)?;
    if state.skipped > 0 {
        context.info(&format!(
            "skipped {} (finished, without a tool name, or duplicates)",
            text::plural(state.skipped, "task")
        ));
    }
    if state.tasks.is_empty() {
        context.info("nothing to import: the file has no unfinished tasks");
        return Ok(code::OK);
    }
    let ids = state.tasks.iter().map(|task| &task.id).join(", ");
    let named = args.server_task.as_deref();
    let is_selected = |task: &ClientTask| named.is_none_or(|id| task.id == id);
    let tasks: Vec<ClientTask> = state.tasks.into_iter().filter(is_selected).collect();
    if let (Some(id), []) = (named, tasks.as_slice()) {
        let id = id.to_owned();
        return Err(failed(ClientStateError::NoTask { id, ids }));
    }
    if let Some(task) = tasks.iter().find(|task| task.client_id().is_none()) {
        return Err(failed(ClientStateError::NoClientId(task.tool.clone())));
    }
    let servers = Targets::of(context, reader)?;
    let server = match &state.url {
        _ if !servers.names().is_empty() => servers.one()?,
        Some(url) => servers.named(url)?,
        None => servers.one()?,
    };
    let url = server.url.clone().or(state.url).unwrap_or_default();
    let mut offers = Vec::new();
    for (task, offer) in block_on(build_offers(context, &server, tasks, &args.pairs))? {
        if let Some(offer) = offer {
            offers.push(offer);
            continue;
        }
        let from = path.display().to_string();
        let of = [&*task.tool, &task.state, &task.id];
        let words = ["the file lacks", "--from", &from];
        checkpoints::report_missing_arguments(context, &server, of, words);
    }
    if offers.is_empty() {
        return Err(CliError::usage("nothing was imported"));
    }
    for offer in &offers {
        let when = match offer.continues {
            Some(_) => " once no other client is working on it",
            None => "",
        };
        let message = format!(
            "would call {} {} on {} ({}){when}; current state: {}",
            offer.tool,
            Value::Object(offer.arguments.clone()),
            server.name,
            server_url::redacted(&url),
            offer.state
        );
        context.report(&message);
    }
    let refusal = "not continued; rerun with --yes to continue";
    must_confirm(context, args.yes, "continue them? y/N", refusal)?;
    checkpoints::start_calls(context, reader, server, offers)
}

fn read_file(path: &Path) -> Result<ClientState, ClientStateError> {
    let file = std::fs::File::open(path)?;
    if file.metadata().is_ok_and(|meta| meta.len() > FILE_BYTES) {
        return Err(ClientStateError::TooLarge);
    }
    ClientState::read(&std::io::read_to_string(file.take(FILE_BYTES))?)
}

/// The call to make for each task, or `None` if its arguments are unknown. The server's checkpoint list may have them, and
/// it shows whether another client is working on a task.
async fn build_offers(
    context: &mut Context<'_>,
    server: &ServerRef,
    tasks: Vec<ClientTask>,
    pairs: &[String],
) -> CliResult<Vec<(ClientTask, Option<Offer>)>> {
    let convention = context.config()?.convention(&server.name);
    let client_of = |task: &ClientTask| task.client_id().unwrap_or_default().to_owned();
    let clients: Vec<String> = tasks.iter().map(client_of).sorted().dedup().collect();
    let tools_of: Vec<String> = tasks.iter().map(|task| task.tool.clone()).collect();
    let (lists, tools) =
        checkpoints::fetch_checkpoints(context, server, &clients, &tools_of).await?;
    let mut offers = Vec::new();
    for task in tasks {
        let client_id = client_of(&task);
        let mut listed = clients.iter().zip(&lists);
        let listed = listed.find(|(client, _)| **client == client_id);
        let listed = listed.map_or(&[][..], |(_, list)| list);
        let is_only_one = tools_of.iter().filter(|it| **it == task.tool).count() == 1;
        let found = find_checkpoint(listed, &task, is_only_one);
        let mut known = Some(task.arguments.clone()).filter(|_| task.has_arguments);
        if let Some(known) = &mut known {
            known.remove(CLIENT_ID);
        }
        let known = known.or_else(|| checkpoints::listed_arguments(found?));
        let key = (convention.client_id.as_str(), client_id.as_str());
        let tool = tools.iter().find(|tool| tool.name == task.tool);
        let arguments = checkpoints::complete_arguments(known, pairs, key, tool)?;
        let offer = arguments.map(|arguments| Offer {
            tool: task.tool.clone(),
            arguments,
            continues: found.map(|found| found.id.clone()),
            once: task.once(),
            state: found.map_or_else(|| task.state.clone(), checkpoints::state_text),
        });
        offers.push((task, offer));
    }
    Ok(offers)
}

/// The checkpoint of a task from a file. Such clients usually have ids of their own, so if the id is unknown to the server,
/// the tool decides, provided that both lists have exactly one task of it.
fn find_checkpoint<'l>(
    listed: &'l [Checkpoint],
    task: &ClientTask,
    is_only_one: bool,
) -> Option<&'l Checkpoint> {
    let by_id = listed.iter().find(|it| it.id == task.id);
    let of_tool = |it: &&Checkpoint| it.is_unsettled && it.tool.as_ref() == Some(&task.tool);
    let mut others = listed.iter().filter(of_tool);
    by_id.or_else(|| match (others.next(), others.next()) {
        (Some(only), None) if is_only_one => Some(only),
        _ => None,
    })
}

//! `adopt --client-id` and `adopt --from`: checkpoints that another client left on a server, from the server's own list.
//!
//! Invariants: listing calls only the list tool. An imported task is first followed on the server; its tool is called only
//! after a yes, and only once no other client is working on it. A task whose arguments are not listed is never called,
//! because the server finds the checkpoint by them.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use serde_json::{Map, Value};

use super::start;
use crate::{
    cli::{
        CliError, CliResult, Context, LiveSession, Targets,
        args::AdoptArgs,
        arguments,
        client_state::{ClientState, ClientTask},
        code,
        context::must_confirm,
        environment::{block_on, random_bits},
        live_session::in_session,
    },
    domain::{
        Checkpoint, NewCall, Progress, ServerRef, SessionRequest, SessionResponse, Task, TaskId,
        Tool, server_url, text,
    },
    store::{ListFilter, Reader},
};

/// A checkpoint on the server.
struct Found {
    client_id: String,
    checkpoint: Checkpoint,
    /// Its arguments, if the list or the file has them.
    arguments: Option<Map<String, Value>>,
}

/// A call that continues what another client began.
struct Offer {
    tool: String,
    arguments: Map<String, Value>,
    found: Found,
}

/// The checkpoints of each client.
type Listed = BTreeMap<String, Vec<Checkpoint>>;

/// `adopt --client-id` and, with the tasks of a file, `adopt --from`.
pub(super) fn adopt_checkpoints(
    context: &mut Context<'_>,
    reader: &mut Reader,
    args: &AdoptArgs,
    file: Option<ClientState>,
) -> CliResult {
    if file.as_ref().is_some_and(|file| file.tasks.is_empty()) {
        context.info("nothing to import: the file has no unfinished tasks");
        return Ok(code::OK);
    }
    let targets = Targets::of(context, reader)?;
    let url = file.as_ref().and_then(|file| file.url.as_deref());
    let server = match url.filter(|_| targets.names().is_empty()) {
        Some(url) => targets.named(url)?,
        None => targets.one()?,
    };
    let in_file = file.iter().flat_map(|file| &file.tasks);
    let clients = in_file.filter_map(|task| task.client_id.clone());
    let clients: BTreeSet<String> = clients.chain(args.client_id.clone()).collect();
    let (listed, tools) = block_on(fetch_checkpoints(context, &server, clients))?;
    let found = match &file {
        Some(file) => find_tasks(context, &file.tasks, &listed),
        None => select(listed, args, &server)?,
    };
    let mut is_incomplete = file.is_some_and(|file| found.len() < file.tasks.len());
    let known_tasks = reader.tasks(ListFilter::ALL)?;
    let mut offers = Vec::new();
    for found in found {
        if let Some(known) = known_tasks.iter().find(|it| is_of(it, &found, &server)) {
            let message = format!("{} is already here as {}", found.checkpoint.id, known.id);
            context.info(&message);
            continue;
        }
        match make_offer(context, found, args, &server, &tools)? {
            Some(offer) => offers.push(offer),
            None => is_incomplete = true,
        }
    }
    if offers.is_empty() && is_incomplete {
        return Err(CliError::usage("nothing was imported"));
    }
    if offers.is_empty() {
        let message = format!(
            "nothing to import: {} lists no matching unfinished tasks that are new to this session",
            server.name
        );
        context.info(&message);
        return Ok(code::OK);
    }
    let url = targets
        .url_of(&server)
        .filter(|it| !server_url::is_process(it));
    let at = url.map_or(String::new(), |it| {
        format!(" ({})", server_url::redacted(&it))
    });
    for offer in &offers {
        let message = format!(
            "would continue {} {} on {}{at} once no other client is working on it; current state: {}",
            offer.tool,
            Value::Object(offer.arguments.clone()),
            server.name,
            state_text(&offer.found.checkpoint)
        );
        context.propose(&message);
    }
    let refusal = "not imported; rerun with --yes to import";
    must_confirm(context, args.yes, "import them? y/N", refusal)?;
    start_calls(context, reader, server, offers)
}

/// What the server lists for each of these clients, and its tools.
async fn fetch_checkpoints(
    context: &mut Context<'_>,
    server: &ServerRef,
    clients: BTreeSet<String>,
) -> CliResult<(Listed, Vec<Tool>)> {
    let mut live = LiveSession::open(context, vec![server.clone()])?;
    let fetch = async {
        let tools = arguments::list_tools(context, &mut live, &server.name).await?;
        let mut lists = Listed::new();
        for client_id in clients {
            let request = SessionRequest::Checkpoints {
                server: server.name.clone(),
                client_id: client_id.clone(),
            };
            if let SessionResponse::Checkpoints(listed) = live.request(context, request).await? {
                lists.insert(client_id, listed);
            }
        }
        Ok((lists, tools))
    };
    let fetched = fetch.await;
    live.leave(context, &[]).await;
    fetched
}

/// The checkpoint of each task of a file. A task for which the server lists none is reported.
fn find_tasks(context: &mut Context<'_>, tasks: &[ClientTask], listed: &Listed) -> Vec<Found> {
    let mut all = Vec::new();
    for task in tasks {
        let client_id = task.client_id.clone().unwrap_or_default();
        let listed = listed.get(&client_id).map_or(&[][..], Vec::as_slice);
        let is_only_one = tasks.iter().filter(|it| it.tool == task.tool).count() == 1;
        let Some(checkpoint) = find_checkpoint(listed, task, is_only_one) else {
            let (tool, id) = (&task.tool, &task.id);
            context.report(&format!(
                "{tool} ({id}) can't be continued: the server lists no checkpoint for it"
            ));
            continue;
        };
        all.push(Found {
            client_id,
            arguments: listed_arguments(checkpoint).or_else(|| task.arguments.clone()),
            checkpoint: checkpoint.clone(),
        });
    }
    all
}

/// The checkpoint of a task from a file. Such clients usually have ids of their own, so if the id is unknown to the server,
/// the tool decides, provided that both lists have exactly one task of it.
fn find_checkpoint<'l>(
    listed: &'l [Checkpoint],
    task: &ClientTask,
    is_only_one: bool,
) -> Option<&'l Checkpoint> {
    let by_id = listed.iter().find(|it| it.id == task.id);
    let of_tool = |it: &&Checkpoint| it.tool.as_ref() == Some(&task.tool);
    let of_tool = listed.iter().filter(of_tool);
    // One that has ended meanwhile returns its result.
    let (open, ended): (Vec<_>, Vec<_>) = of_tool.partition(|it| it.is_unsettled);
    by_id.or(match (open.as_slice(), ended.as_slice()) {
        ([only], _) | ([], [only]) if is_only_one => Some(*only),
        _ => None,
    })
}

/// Whether a task of this session continues this checkpoint.
fn is_of(task: &Task, found: &Found, server: &ServerRef) -> bool {
    // The list may show our own call's checkpoint before we know its id there.
    let is_ours = task.client_id.as_ref() == Some(&found.client_id)
        && found.checkpoint.tool.as_ref() == Some(&task.tool)
        && task.server_task_id.is_none();
    task.server == server.name
        && (is_ours || task.server_task_id.as_ref() == Some(&found.checkpoint.id))
}

/// The named checkpoint of the client, else all unfinished ones.
fn select(listed: Listed, args: &AdoptArgs, server: &ServerRef) -> CliResult<Vec<Found>> {
    let of_client = |(client_id, list): (String, Vec<Checkpoint>)| {
        list.into_iter().map(move |checkpoint| Found {
            client_id: client_id.clone(),
            arguments: listed_arguments(&checkpoint),
            checkpoint,
        })
    };
    let mut found: Vec<Found> = listed.into_iter().flat_map(of_client).collect();
    let Some(id) = &args.server_task else {
        found.retain(|it| it.checkpoint.is_unsettled);
        return Ok(found);
    };
    let ids = found.iter().map(|it| &it.checkpoint.id).join(", ");
    found.retain(|it| it.checkpoint.id == *id);
    if found.is_empty() {
        return Err(CliError::usage(format!(
            "{} has no task {id} for that client; it lists {}",
            server.name,
            if ids.is_empty() { "nothing" } else { &ids }
        )));
    }
    Ok(found)
}

/// The call that continues a checkpoint. If its arguments are unknown, says what to type.
fn make_offer(
    context: &mut Context<'_>,
    mut found: Found,
    args: &AdoptArgs,
    server: &ServerRef,
    tools: &[Tool],
) -> CliResult<Option<Offer>> {
    let convention = context.config()?.convention(&server.name);
    let Some(tool) = found.checkpoint.tool.clone() else {
        context.report(&format!(
            "{} can't be continued: the server doesn't say which tool it belongs to",
            found.checkpoint.id
        ));
        return Ok(None);
    };
    start::require_checkpoint(tools, &tool, &convention)?;
    let described = tools.iter().find(|it| it.name == tool);
    let key = (convention.client_id.as_str(), found.client_id.as_str());
    let arguments = complete_arguments(found.arguments.take(), &args.pairs, key, described)?;
    if let Some(arguments) = arguments {
        return Ok(Some(Offer {
            tool,
            arguments,
            found,
        }));
    }
    let message = format!(
        "{} ({}) can't be continued without its arguments, which the server doesn't list; add them: `longhaul adopt -s {} --client-id {} {} KEY=VALUE ...`",
        tool,
        state_text(&found.checkpoint),
        text::shell_word(server.name.as_str()),
        text::shell_word(&found.client_id),
        text::shell_word(&found.checkpoint.id),
    );
    context.report(&message);
    Ok(None)
}

/// The arguments of a checkpoint, if the server lists them.
fn listed_arguments(checkpoint: &Checkpoint) -> Option<Map<String, Value>> {
    let listed = checkpoint.arguments.as_deref()?;
    Some(serde_json::from_str(listed).unwrap_or_default())
}

/// All arguments of a call that another client made, or `None` if they are unknown. The server finds the checkpoint by its
/// arguments, so a call with the tool's defaults could start a new job.
fn complete_arguments(
    known: Option<Map<String, Value>>,
    pairs: &[String],
    (key, client_id): (&str, &str),
    tool: Option<&Tool>,
) -> CliResult<Option<Map<String, Value>>> {
    let takes_none = tool.is_some_and(|it| it.arguments().len() <= 1);
    if known.is_none() && pairs.is_empty() && !takes_none {
        return Ok(None);
    }
    let mut base = known.unwrap_or_default();
    base.insert(key.to_owned(), Value::String(client_id.to_owned()));
    let pairs = arguments::parse_pairs(pairs)?;
    let (arguments, _) = arguments::build_arguments(base, pairs, tool)
        .map_err(|error| CliError::usage(format!("{}; nothing was imported", error.message())))?;
    Ok(Some(arguments))
}

/// `running, 15/50`.
fn state_text(checkpoint: &Checkpoint) -> String {
    let at = match &checkpoint.progress {
        Some(Progress { value, total, .. }) => {
            let total = total.map_or(String::new(), |total| format!("/{}", text::exact(total)));
            format!(", {}{total}", text::exact(*value))
        }
        None => String::new(),
    };
    format!("{}{at}", checkpoint.status)
}

/// Starts the confirmed calls, and reports their tasks.
fn start_calls(
    context: &mut Context<'_>,
    reader: &mut Reader,
    server: ServerRef,
    offers: Vec<Offer>,
) -> CliResult {
    let name = server.name.clone();
    let limits = context.config()?.default_limits().for_server(&name);
    let ids = in_session(context, vec![server], async |context, live| {
        let mut ids = Vec::new();
        for offer in offers {
            let Found {
                client_id,
                checkpoint,
                ..
            } = offer.found;
            let id = TaskId::from_bits(random_bits());
            let arguments = Value::Object(offer.arguments).to_string();
            let call = NewCall {
                // A task is adopted only once.
                once: Some(format!("adopted {client_id} {}", checkpoint.id)),
                checkpoint: Some(checkpoint.id),
                limits,
                ..NewCall::new(id, name.clone(), offer.tool, arguments)
            };
            let start = SessionRequest::Start(Box::new(call));
            if let SessionResponse::Started(id) = live.request(context, start).await? {
                ids.push(id);
            }
        }
        Ok(ids)
    })?;
    start::report_adopted(context, reader, &ids)
}

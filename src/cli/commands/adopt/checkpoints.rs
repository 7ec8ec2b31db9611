//! `adopt --client-id`: checkpoints that another client left on a server, from the server's own list.
//!
//! Invariants: listing calls only the list tool. An imported task is first followed on the server; its tool is called only
//! after a yes, and only once no other client is working on it. A task whose arguments are not listed is never called,
//! because the server finds the checkpoint by them.

use itertools::Itertools as _;
use serde_json::{Map, Value};

use super::start;
use crate::{
    cli::{
        CliError, CliResult, Context, LiveSession, Targets,
        args::AdoptArgs,
        arguments,
        client_state::adoption_key,
        code,
        context::must_confirm,
        environment::{block_on, random_bits},
        live_session::in_session,
    },
    domain::{
        Checkpoint, CheckpointConvention, NewCall, Progress, ServerRef, SessionRequest,
        SessionResponse, Task, TaskId, Tool, text,
    },
    store::{ListFilter, Reader},
};

/// A call that continues what another client began.
pub(super) struct Offer {
    pub(in crate::cli) tool: String,
    pub(in crate::cli) arguments: Map<String, Value>,
    /// The id of the checkpoint to follow first, if the server lists it.
    pub(in crate::cli) continues: Option<String>,
    /// The `once` key, so that a task is adopted only once.
    pub(in crate::cli) once: String,
    /// Status and progress, e.g. `running, 15/50`.
    pub(in crate::cli) state: String,
}

/// `adopt --client-id`.
pub(super) fn adopt_checkpoints(
    context: &mut Context<'_>,
    reader: &mut Reader,
    args: &AdoptArgs,
    client_id: &str,
) -> CliResult {
    let server = Targets::of(context, reader)?.one()?;
    let convention = context.config()?.convention(&server.name);
    let clients = [client_id.to_owned()];
    let (mut lists, tools) = block_on(fetch_checkpoints(context, &server, &clients, &[]))?;
    let listed = lists.pop().unwrap_or_default();
    let known_tasks = reader.tasks(ListFilter::ALL)?;
    let mut offers = Vec::new();
    let mut lacks_arguments = false;
    for checkpoint in select(listed, args, &server)? {
        let is_it = |task: &&Task| {
            // The list may show our own call's checkpoint before we know its id there.
            let is_ours = task.client_id.as_deref() == Some(client_id)
                && checkpoint.tool.as_ref() == Some(&task.tool)
                && task.server_task_id.is_none();
            task.server == server.name
                && (is_ours || task.server_task_id.as_ref() == Some(&checkpoint.id))
        };
        if let Some(known) = known_tasks.iter().find(is_it) {
            let message = format!("{} is already here as {}", checkpoint.id, known.id);
            context.info(&message);
            continue;
        }
        match make_offer(checkpoint, args, client_id, (&tools, &convention))? {
            Ok(offer) => offers.push(offer),
            Err(checkpoint) => {
                lacks_arguments = true;
                let tool = checkpoint.tool.as_deref();
                let tool = tool.unwrap_or("a tool without a name");
                let of = [tool, &state_text(&checkpoint), &checkpoint.id];
                let words = ["the server does not list", "--client-id", client_id];
                report_missing_arguments(context, &server, of, words);
            }
        }
    }
    if offers.is_empty() && lacks_arguments {
        return Err(CliError::usage("nothing was imported"));
    }
    if offers.is_empty() {
        let message = format!(
            "nothing to import: {} lists no unfinished tasks of client {client_id} that this session doesn't already have",
            server.name
        );
        context.info(&message);
        return Ok(code::OK);
    }
    for offer in &offers {
        let message = format!(
            "would continue {} {} on {}, but not while another client is working on it; current state: {}",
            offer.tool,
            Value::Object(offer.arguments.clone()),
            server.name,
            offer.state
        );
        context.report(&message);
    }
    let refusal = "not imported; rerun with --yes to import";
    must_confirm(context, args.yes, "import them? y/N", refusal)?;
    start_calls(context, reader, server, offers)
}

/// What the server lists for each of these clients, and its tools. Fails if one of the `needed` tools keeps no checkpoint.
pub(super) async fn fetch_checkpoints(
    context: &mut Context<'_>,
    server: &ServerRef,
    client_ids: &[String],
    needed: &[String],
) -> CliResult<(Vec<Vec<Checkpoint>>, Vec<Tool>)> {
    let convention = context.config()?.convention(&server.name);
    let mut live = LiveSession::open(context, vec![server.clone()])?;
    let fetch = async {
        let tools = arguments::list_tools(context, &mut live, &server.name).await?;
        for tool in needed {
            start::require_checkpoint(&tools, tool, &convention)?;
        }
        let mut lists = Vec::new();
        for client_id in client_ids {
            let request = SessionRequest::Checkpoints {
                server: server.name.clone(),
                client_id: client_id.clone(),
            };
            lists.push(match live.request(context, request).await? {
                SessionResponse::Checkpoints(listed) => listed,
                _ => Vec::new(),
            });
        }
        Ok((lists, tools))
    };
    let fetched = fetch.await;
    live.leave(context, &[]).await;
    fetched
}

/// The named checkpoint of the list, else all unfinished ones.
fn select(
    listed: Vec<Checkpoint>,
    args: &AdoptArgs,
    server: &ServerRef,
) -> CliResult<Vec<Checkpoint>> {
    let Some(id) = &args.server_task else {
        return Ok(listed.into_iter().filter(|it| it.is_unsettled).collect());
    };
    let ids = listed.iter().map(|it| &it.id).join(", ");
    match listed.into_iter().find(|it| it.id == *id) {
        Some(it) => Ok(vec![it]),
        None => Err(CliError::usage(format!(
            "{} has no task {id} for that client; it lists {}",
            server.name,
            if ids.is_empty() { "nothing" } else { &ids }
        ))),
    }
}

/// The call that continues a checkpoint. The inner `Err` returns the checkpoint if its arguments are unknown.
fn make_offer(
    checkpoint: Checkpoint,
    args: &AdoptArgs,
    client_id: &str,
    (tools, convention): (&[Tool], &CheckpointConvention),
) -> CliResult<Result<Offer, Checkpoint>> {
    let Some(tool) = checkpoint.tool.clone() else {
        return Ok(Err(checkpoint));
    };
    start::require_checkpoint(tools, &tool, convention)?;
    let listed = listed_arguments(&checkpoint);
    let described = tools.iter().find(|it| it.name == tool);
    let key = (convention.client_id.as_str(), client_id);
    let Some(arguments) = complete_arguments(listed, &args.pairs, key, described)? else {
        return Ok(Err(checkpoint));
    };
    Ok(Ok(Offer {
        tool,
        arguments,
        once: adoption_key(client_id, &checkpoint.id),
        state: state_text(&checkpoint),
        continues: Some(checkpoint.id),
    }))
}

/// The arguments of a checkpoint, if the server lists them.
pub(super) fn listed_arguments(checkpoint: &Checkpoint) -> Option<Map<String, Value>> {
    let listed = checkpoint.arguments.as_deref()?;
    Some(serde_json::from_str(listed).unwrap_or_default())
}

/// All arguments of a call that another client made, or `None` if they are unknown. The server finds the checkpoint by its
/// arguments, so a call with the tool's defaults could start a new job.
pub(super) fn complete_arguments(
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

/// Says what to type for a task whose arguments are not known, and who lacks them.
pub(super) fn report_missing_arguments(
    context: &mut Context<'_>,
    server: &ServerRef,
    [tool, state, id]: [&str; 3],
    [lacks, option, source]: [&str; 3],
) {
    let message = format!(
        "{tool} is {state}, but {lacks} its arguments, which are needed to find its checkpoint; add them: `longhaul adopt -s {} {option} {} {} KEY=VALUE ...`",
        text::shell_word(server.name.as_str()),
        text::shell_word(source),
        text::shell_word(id),
    );
    context.report(&message);
}

/// `running, 15/50`.
pub(super) fn state_text(checkpoint: &Checkpoint) -> String {
    let at = match &checkpoint.progress {
        Some(Progress { value, total, .. }) => {
            let total = total.map_or(String::new(), |total| format!("/{}", text::exact(total)));
            format!(", {}{total}", text::exact(*value))
        }
        None => String::new(),
    };
    format!("{}{at}", checkpoint.status)
}

/// Starts the confirmed calls, and reports their tasks. Those that continue no listed checkpoint are running when this
/// returns.
pub(super) fn start_calls(
    context: &mut Context<'_>,
    reader: &mut Reader,
    server: ServerRef,
    offers: Vec<Offer>,
) -> CliResult {
    let name = server.name.clone();
    let limits = context.config()?.default_limits().for_server(&name);
    let ids = in_session(context, vec![server], async |context, live| {
        let (mut ids, mut called) = (Vec::new(), Vec::new());
        for offer in offers {
            let id = TaskId::from_bits(random_bits());
            let arguments = Value::Object(offer.arguments).to_string();
            let is_called = offer.continues.is_none();
            let call = NewCall {
                once: Some(offer.once),
                checkpoint: offer.continues,
                limits,
                ..NewCall::new(id, name.clone(), offer.tool, arguments)
            };
            if let SessionResponse::Started(id) = live
                .request(context, SessionRequest::Start(Box::new(call)))
                .await?
            {
                called.extend(is_called.then(|| id.clone()));
                ids.push(id);
            }
        }
        start::wait_until_started(context, live, &called).await?;
        Ok(ids)
    })?;
    start::report_adopted(context, reader, &ids)
}

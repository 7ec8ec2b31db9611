//! `adopt --client-id`: checkpoints that another client left on a server, as the server's own list shows them.
//!
//! Invariant: listing calls nothing but the list; what is taken over is followed there, and called only after a yes and
//! by the checkpoint rule. A list that shows no arguments is no ground for a call: its checkpoint is found by them.

use serde_json::{Map, Value};

use super::{
    Context, adopt,
    args::Adopt,
    block_on, calls, dice,
    fail::{Fail, code},
    live::Live,
    saved::adopted_once,
    target::Targets,
};
use crate::{
    domain::{
        Checkpoint, CheckpointConvention, NewCall, Progress, ServerRef, SessionRequest,
        SessionResponse, Task, TaskId, Tool, text,
    },
    store::{ListFilter, Reader},
};

/// A call that continues what another client began.
pub(super) struct Offer {
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    /// The checkpoint that is followed first, where the server lists it.
    pub(super) goes_on: Option<String>,
    /// The key by which it is taken over once.
    pub(super) once: String,
    /// How it stands.
    pub(super) stands: String,
}

/// `adopt --client-id`.
pub(super) fn take_over(
    context: &mut Context<'_>,
    reader: &mut Reader,
    wanted: &Adopt,
    client_id: &str,
) -> Result<u8, Fail> {
    let server = Targets::of(context, reader)?.one()?;
    let convention = context.config()?.convention(&server.name);
    let clients = [client_id.to_owned()];
    let (mut lists, tools) = block_on(look(context, &server, &clients, &[]))?;
    let listed = lists.pop().unwrap_or_default();
    let here = reader.tasks(ListFilter {
        all: true,
        limit: None,
    })?;
    let mut offers = Vec::new();
    let mut is_short_of_arguments = false;
    for checkpoint in chosen(listed, wanted, &server)? {
        if let Some(known) = known_as(&here, &checkpoint, &server, client_id) {
            let words = format!("{} is {known} here already", checkpoint.id);
            context.terminal.remark(&text::clean_line(&words));
            continue;
        }
        match offer(checkpoint, wanted, client_id, (&tools, &convention))? {
            Ok(offer) => offers.push(offer),
            Err(checkpoint) => {
                is_short_of_arguments = true;
                say_short(context, &checkpoint, &server, client_id);
            }
        }
    }
    if offers.is_empty() && is_short_of_arguments {
        return Err(Fail::usage("nothing was imported"));
    }
    if offers.is_empty() {
        context
            .terminal
            .remark("that client has nothing unfinished there that this session does not know");
        return Ok(code::OK);
    }
    for offer in &offers {
        let words = format!(
            "would go on with {} {} on {}, called again only once nobody works on it; there it is {}",
            offer.tool,
            Value::Object(offer.arguments.clone()),
            server.name,
            offer.stands
        );
        context.terminal.say(&text::clean_line(&words));
    }
    if !wanted.yes && !adopt::says_yes(context, "take them over? y/N")? {
        return Err(Fail::usage("nothing was imported; --yes does it"));
    }
    let ids = block_on(start_all(context, server, offers))?;
    adopt::tell(context, reader, &ids)?;
    Ok(code::OK)
}

/// What the server lists for each of these clients, and its tools; fails where one of the tools that are `needed` keeps no
/// checkpoint.
pub(super) async fn look(
    context: &mut Context<'_>,
    server: &ServerRef,
    client_ids: &[String],
    needed: &[String],
) -> Result<(Vec<Vec<Checkpoint>>, Vec<Tool>), Fail> {
    let convention = context.config()?.convention(&server.name);
    let mut live = Live::open(context, vec![server.clone()])?;
    let looked = async {
        let tools = calls::list(context, &mut live, &server.name).await?;
        for tool in needed {
            adopt::must_keep_checkpoint(&tools, tool, &convention)?;
        }
        let mut lists = Vec::new();
        for client_id in client_ids {
            let what = SessionRequest::Checkpoints {
                server: server.name.clone(),
                client_id: client_id.clone(),
            };
            lists.push(match live.ask(context, what).await? {
                SessionResponse::Checkpoints(listed) => listed,
                _ => Vec::new(),
            });
        }
        Ok((lists, tools))
    };
    let looked = looked.await;
    live.leave(context, &[]).await;
    looked
}

/// What is meant of the list: the one that is named, else everything that is not over.
fn chosen(
    listed: Vec<Checkpoint>,
    wanted: &Adopt,
    server: &ServerRef,
) -> Result<Vec<Checkpoint>, Fail> {
    let Some(id) = &wanted.server_task else {
        return Ok(listed.into_iter().filter(|it| it.is_unsettled).collect());
    };
    let ids: Vec<String> = listed.iter().map(|it| it.id.clone()).collect();
    match listed.into_iter().find(|it| it.id == *id) {
        Some(it) => Ok(vec![it]),
        None => Err(Fail::usage(format!(
            "{} lists no {id} for that client; it lists {}",
            server.name,
            match ids.as_slice() {
                [] => "nothing".to_owned(),
                _ => text::clean_line(&ids.join(", ")).into_owned(),
            }
        ))),
    }
}

/// The task of ours that stands for a checkpoint already.
fn known_as<'t>(
    here: &'t [Task],
    checkpoint: &Checkpoint,
    server: &ServerRef,
    client_id: &str,
) -> Option<&'t TaskId> {
    let is_it = |task: &&Task| {
        // The list tells our own client's checkpoint before we have read its id there.
        let is_ours = task.client_id.as_deref() == Some(client_id)
            && checkpoint.tool.as_ref() == Some(&task.tool)
            && task.server_task_id.is_none();
        task.server == server.name
            && (is_ours || task.server_task_id.as_ref() == Some(&checkpoint.id))
    };
    here.iter().find(is_it).map(|task| &task.id)
}

/// The call that goes on with a checkpoint; `Err` gives it back where nobody knows its arguments.
fn offer(
    checkpoint: Checkpoint,
    wanted: &Adopt,
    client_id: &str,
    (tools, convention): (&[Tool], &CheckpointConvention),
) -> Result<Result<Offer, Checkpoint>, Fail> {
    let Some(tool) = checkpoint.tool.clone() else {
        return Ok(Err(checkpoint));
    };
    adopt::must_keep_checkpoint(tools, &tool, convention)?;
    let shown = shown_arguments(&checkpoint);
    let described = tools.iter().find(|it| it.name == tool);
    let key = (convention.client_id.as_str(), client_id);
    let Some(arguments) = whole_arguments(shown, &wanted.pairs, key, described)? else {
        return Ok(Err(checkpoint));
    };
    Ok(Ok(Offer {
        tool,
        arguments,
        once: adopted_once(client_id, &checkpoint.id),
        stands: stands(&checkpoint),
        goes_on: Some(checkpoint.id),
    }))
}

/// The arguments of a checkpoint, where the server lists them.
pub(super) fn shown_arguments(checkpoint: &Checkpoint) -> Option<Map<String, Value>> {
    let shown = checkpoint.arguments.as_deref()?;
    Some(serde_json::from_str(shown).unwrap_or_default())
}

/// All arguments of a call that another client made; `None` where nobody knows them. The checkpoint is found by them: a
/// call with its tool's defaults could begin another job.
pub(super) fn whole_arguments(
    known: Option<Map<String, Value>>,
    pairs: &[String],
    (key, client_id): (&str, &str),
    tool: Option<&Tool>,
) -> Result<Option<Map<String, Value>>, Fail> {
    let takes_none = tool.is_some_and(|it| it.arguments().len() <= 1);
    if known.is_none() && pairs.is_empty() && !takes_none {
        return Ok(None);
    }
    let mut base = known.unwrap_or_default();
    base.insert(key.to_owned(), Value::String(client_id.to_owned()));
    let pairs = pairs.iter().map(|text| calls::pair(text));
    let pairs = pairs.collect::<Result<_, _>>()?;
    let (arguments, _) = calls::arguments(base, pairs, tool)
        .map_err(|complaint| Fail::usage(format!("{complaint}; nothing was imported")))?;
    Ok(Some(arguments))
}

fn say_short(
    context: &mut Context<'_>,
    checkpoint: &Checkpoint,
    server: &ServerRef,
    client_id: &str,
) {
    let tool = checkpoint
        .tool
        .as_deref()
        .unwrap_or("a tool without a name");
    let words = format!(
        "{tool} is {}: its arguments are not listed, and its checkpoint is found by them; longhaul{} adopt -s {} --client-id {} {} KEY=VALUE ...",
        stands(checkpoint),
        context.flags(),
        super::quoted(server.name.as_str()),
        super::quoted(client_id),
        super::quoted(&checkpoint.id),
    );
    context.terminal.say(&text::clean_line(&words));
}

/// `running, 15/50`.
pub(super) fn stands(checkpoint: &Checkpoint) -> String {
    let at = match &checkpoint.progress {
        Some(Progress { value, total, .. }) => {
            let total = total.map_or(String::new(), |total| format!("/{}", text::exact(total)));
            format!(", {}{total}", text::exact(*value))
        }
        None => String::new(),
    };
    format!("{}{at}", checkpoint.status)
}

/// Starts the calls that were agreed to; those that follow no checkpoint first are under way when this returns.
pub(super) async fn start_all(
    context: &mut Context<'_>,
    server: ServerRef,
    offers: Vec<Offer>,
) -> Result<Vec<TaskId>, Fail> {
    let name = server.name.clone();
    let limits = context.config()?.usual_limits().for_server(&name);
    let mut live = Live::open(context, vec![server])?;
    let begun = async {
        let (mut ids, mut called) = (Vec::new(), Vec::new());
        for offer in offers {
            let id = TaskId::from_bits(dice());
            let arguments = Value::Object(offer.arguments).to_string();
            let is_called = offer.goes_on.is_none();
            let call = NewCall {
                once: Some(offer.once),
                checkpoint: offer.goes_on,
                limits,
                ..NewCall::new(id, name.clone(), offer.tool, arguments)
            };
            if let SessionResponse::Started(id) = live
                .ask(context, SessionRequest::Start(Box::new(call)))
                .await?
            {
                called.extend(is_called.then(|| id.clone()));
                ids.push(id);
            }
        }
        adopt::under_way(context, &mut live, &called).await?;
        Ok(ids)
    };
    match begun.await {
        Ok(ids) => {
            live.leave(context, &[]).await;
            Ok(ids)
        }
        Err(fail) => {
            live.close();
            Err(fail)
        }
    }
}

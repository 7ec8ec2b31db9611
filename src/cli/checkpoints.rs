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
    servers::Servers,
};
use crate::{
    domain::{
        Ask, Checkpoint, Convention, Done, NewCall, Progress, ServerRef, Task, TaskId, Tool, text,
    },
    store::{ListFilter, Reader},
};

/// A checkpoint that can be gone on with.
struct Offer {
    checkpoint: Checkpoint,
    tool: String,
    arguments: Map<String, Value>,
}

/// `adopt --client-id`.
pub(super) fn take_over(
    context: &mut Context<'_>,
    reader: &mut Reader,
    wanted: &Adopt,
    client_id: &str,
) -> Result<u8, Fail> {
    let server = Servers::of(context, reader)?.one()?;
    let convention = context.config()?.convention(&server.name);
    let (listed, tools) = block_on(look(context, &server, client_id))?;
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
        return Err(Fail::usage("nothing was taken over"));
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
            stands(&offer.checkpoint)
        );
        context.terminal.say(&text::clean_line(&words));
    }
    if !wanted.yes && !adopt::says_yes(context, "take them over? y/N")? {
        return Err(Fail::usage("nothing was taken over; --yes does it"));
    }
    let ids = block_on(start_all(context, server, client_id, offers))?;
    adopt::tell(context, reader, &ids)?;
    Ok(code::OK)
}

/// What the server lists for that client, and its tools.
async fn look(
    context: &mut Context<'_>,
    server: &ServerRef,
    client_id: &str,
) -> Result<(Vec<Checkpoint>, Vec<Tool>), Fail> {
    let mut live = Live::open(context, vec![server.clone()])?;
    let looked = async {
        let tools = calls::list(context, &mut live, &server.name).await?;
        let what = Ask::Checkpoints {
            server: server.name.clone(),
            client_id: client_id.to_owned(),
        };
        match live.ask(context, what).await? {
            Done::Checkpoints(listed) => Ok((listed, tools)),
            _ => Ok((Vec::new(), tools)),
        }
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
    (tools, convention): (&[Tool], &Convention),
) -> Result<Result<Offer, Checkpoint>, Fail> {
    let Some(tool) = checkpoint.tool.clone() else {
        return Ok(Err(checkpoint));
    };
    adopt::must_keep_checkpoint(tools, &tool, convention)?;
    let described = tools.iter().find(|it| it.name == tool);
    let takes_none = described.is_some_and(|it| it.arguments().len() <= 1);
    if checkpoint.arguments.is_none() && wanted.pairs.is_empty() && !takes_none {
        return Ok(Err(checkpoint));
    }
    let shown = checkpoint.arguments.as_deref().unwrap_or("{}");
    let mut base: Map<String, Value> = serde_json::from_str(shown).unwrap_or_default();
    let key = convention.client_id.clone();
    base.insert(key, Value::String(client_id.to_owned()));
    let pairs = wanted.pairs.iter().map(|text| calls::pair(text));
    let pairs = pairs.collect::<Result<_, _>>()?;
    let (arguments, _) = calls::arguments(base, pairs, described)
        .map_err(|complaint| Fail::usage(format!("{complaint}; nothing was taken over")))?;
    Ok(Ok(Offer {
        checkpoint,
        tool,
        arguments,
    }))
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
fn stands(checkpoint: &Checkpoint) -> String {
    let at = match &checkpoint.progress {
        Some(Progress { value, total, .. }) => {
            let total = total.map_or(String::new(), |total| format!("/{}", text::exact(total)));
            format!(", {}{total}", text::exact(*value))
        }
        None => String::new(),
    };
    format!("{}{at}", checkpoint.status)
}

async fn start_all(
    context: &mut Context<'_>,
    server: ServerRef,
    client_id: &str,
    offers: Vec<Offer>,
) -> Result<Vec<TaskId>, Fail> {
    let name = server.name.clone();
    let limits = context.config()?.usual_limits().of(&name);
    let mut live = Live::open(context, vec![server])?;
    let mut ids = Vec::new();
    for offer in offers {
        let id = TaskId::from_bits(dice());
        let arguments = Value::Object(offer.arguments).to_string();
        let call = NewCall {
            once: Some(adopted_once(client_id, &offer.checkpoint.id)),
            goes_on: Some(offer.checkpoint.id),
            limits,
            ..NewCall::new(id, name.clone(), offer.tool, arguments)
        };
        match live.ask(context, Ask::Start(Box::new(call))).await {
            Ok(Done::Started(id)) => ids.push(id),
            Ok(_) => {}
            Err(fail) => {
                live.close();
                return Err(fail);
            }
        }
    }
    live.leave(context, &[]).await;
    Ok(ids)
}

//! `call` and `again`: starts calls.

use core::{pin::pin, time::Duration};

use serde_json::{Map, Value};

use crate::{
    app::{TypedArgument, TypedValue},
    cli::{
        CliError, CliResult, Context, HistoryPrinter, LiveSession, OutputStyle, Targets,
        args::{AgainArgs, CallArgs, StartArgs},
        arguments::{MAX_NAMED_TOOLS, build_arguments, list_tools, parse_pairs, read_args_object},
        code,
        context::must_confirm,
        environment::{block_on, random_bits},
        follow::{FollowUntil, QuestionHandling, follow},
    },
    domain::{
        Limits, NewCall, OnInput, ServerName, ServerRef, SessionRequest, SessionResponse, TaskId,
        Tool, has_large_integer, text, unquoted,
    },
    store::{Lookup, Reader},
};

/// How long a call waits for the tool list of a server before it makes do with the list of an earlier time.
const LISTS_WITHIN: Duration = Duration::from_secs(2);

/// A call whose arguments are not checked yet.
struct CallDraft {
    server: ServerRef,
    tool: String,
    /// The text of a JSON object.
    base: String,
    pairs: Vec<TypedArgument>,
    once: Option<String>,
    origin: Option<TaskId>,
    /// No confirmation is needed to repeat it.
    is_confirmed: bool,
    how: StartArgs,
}

/// `call`.
pub(in crate::cli) fn call(context: &mut Context<'_>, call: CallArgs) -> CliResult {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let server = Targets::of(context, &mut reader)?.one()?;
    let base = call.args.as_deref();
    let base = base.map_or_else(|| Ok("{}".to_owned()), read_args_object)?;
    let draft = CallDraft {
        server,
        tool: call.tool,
        base,
        pairs: parse_pairs(&call.pairs)?,
        once: call.once,
        origin: None,
        is_confirmed: true,
        how: call.how,
    };
    run_call(context, draft)
}

/// `again`.
pub(in crate::cli) fn again(context: &mut Context<'_>, again: AgainArgs) -> CliResult {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let old = context.find(&mut reader, &again.id)?;
    let servers = Targets::of(context, &mut reader)?;
    let server = servers.for_task(&old.server)?.into_iter().next();
    let server = server.unwrap_or_else(|| ServerRef::new(old.server.clone(), None));
    let how = again.how;
    let on_input = Some(old.options.on_input).filter(|it| *it != OnInput::Ask);
    let draft = CallDraft {
        server,
        tool: old.tool,
        base: old.arguments,
        pairs: parse_pairs(&again.pairs)?,
        once: None,
        origin: Some(old.id),
        is_confirmed: again.yes,
        how: StartArgs {
            name: how.name.or(old.name),
            tag: how.tag.or(old.tag),
            on_input: how.on_input.or(on_input),
            ..how
        },
    };
    run_call(context, draft)
}

fn run_call(context: &mut Context<'_>, draft: CallDraft) -> CliResult {
    let can_prompt = !context.global.json && !draft.how.detach && context.terminal.can_ask();
    let questions = match draft.how.on_input {
        None if can_prompt => QuestionHandling::Prompt,
        _ => QuestionHandling::Exit,
    };
    let mut reader = context.reader()?;
    block_on(async {
        let mut live = LiveSession::open(context, vec![draft.server.clone()])?;
        let until = if draft.how.detach {
            FollowUntil::Detachable
        } else {
            FollowUntil::Ended
        };
        match start_call(context, &mut live, &mut reader, draft).await {
            Ok((id, is_new)) => {
                let printer = HistoryPrinter::new(context, id, reader, OutputStyle::Call, 0);
                follow(context, live, printer, until, questions, is_new).await
            }
            Err(fail) => {
                live.leave(context, &[]).await;
                Err(fail)
            }
        }
    })
}

/// Checks the call and hands it to the engine. It is on disk when this returns.
async fn start_call(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    reader: &mut Reader,
    draft: CallDraft,
) -> CliResult<(TaskId, bool)> {
    let listed = tools_of(context, live, reader, &draft).await?;
    let described = listed.iter().find(|listed| listed.name == draft.tool);
    if described.is_none() && !listed.is_empty() {
        return Err(unknown_tool(&draft, &listed));
    }
    let (server, how) = (&draft.server.name, draft.how);
    let before: Map<String, Value> = serde_json::from_str(&draft.base).unwrap_or_default();
    if !draft.pairs.is_empty() && has_large_integer(&draft.base) {
        return Err(CliError::usage(
            "the other arguments contain a whole number that doesn't fit in 64 bits and would be rounded; pass all arguments in --args",
        ));
    }
    let (arguments, unusable) = if how.unchecked {
        let specs = described.map(Tool::arguments).unwrap_or_default();
        let mut arguments = before.clone();
        for pair in draft.pairs {
            let spec = specs.iter().find(|spec| spec.name == pair.key);
            arguments.insert(pair.key.clone(), pair.read_unchecked(spec));
        }
        (arguments, None)
    } else {
        build_arguments(before.clone(), draft.pairs, described).map_err(|error| {
            let error = error.message();
            CliError::usage(format!(
                "not sent: {error}; `longhaul -s {} tools` shows the arguments; --unchecked sends the call anyway",
                text::shell_word(server.as_str())
            ))
        })?
    };
    let tool = &draft.tool;
    // Shown only if the call is started.
    let notice = unusable.filter(|_| !arguments.is_empty()).map(|why| {
        format!("{tool}: arguments sent unchecked because its schema is unusable: {why}")
    });
    if draft.origin.is_some() {
        for line in changed_arguments(&before, &arguments) {
            context.info(&line);
        }
        if !draft.is_confirmed {
            confirm_repeat(context, server, &draft.tool, described)?;
        }
    }
    let defaults = context.config()?.default_limits().for_server(server);
    let id = TaskId::from_bits(random_bits());
    // A `Value` does not hold every number, so what did not change is sent as it is.
    let arguments = if arguments == before {
        draft.base
    } else {
        Value::Object(arguments).to_string()
    };
    let new = NewCall {
        name: how.name,
        tag: how.tag,
        once: draft.once,
        origin: draft.origin,
        // If another process drives, our exit ends nothing.
        must_survive: how.detach && live.is_driver,
        is_unchecked: how.unchecked,
        limits: Limits {
            idle: how.idle_timeout.map_or(defaults.idle, |limit| limit.0),
            hard: how.max_time.map_or(defaults.hard, |limit| limit.0),
        },
        on_input: how.on_input.unwrap_or_default(),
        ..NewCall::new(id, draft.server.name, draft.tool, arguments)
    };
    let id = hand_over(context, live, reader, &new).await?;
    let is_new = id == new.id;
    if new.once.is_some() && !is_new {
        report_used_key(context, reader, &new, &id)?;
    } else if let Some(notice) = notice {
        context.info(&notice);
    }
    Ok((id, is_new))
}

/// Hands a call to the engine. Returns its task, which is another one if its key was used before.
async fn hand_over(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    reader: &mut Reader,
    new: &NewCall,
) -> CliResult<TaskId> {
    let start = SessionRequest::Start(Box::new(new.clone()));
    let started = live.request(context, start).await;
    // Repeating a call that may have been started could run the tool twice.
    let started = started.map_err(|error| {
        error.if_silent(|| match reader.task(new.id.as_str()) {
            Ok(Lookup::One(_)) => {
                format!("the call was started as {0}: `longhaul watch {0}`", new.id)
            }
            _ => format!(
                "the call may have started anyway, as {0}: `longhaul show {0}`",
                new.id
            ),
        })
    });
    match started? {
        SessionResponse::Started(id) => Ok(id),
        _ => Err(CliError::new(code::BUG, "the engine returned no task id")),
    }
}

/// The server's tools; none if the call needs none of them.
async fn tools_of(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    reader: &mut Reader,
    draft: &CallDraft,
) -> CliResult<Vec<Tool>> {
    let is_text = |pair: &TypedArgument| matches!(pair.value, TypedValue::Text(_));
    let needs_schema = draft.pairs.iter().any(is_text);
    // If the key was used before, that task is returned without contacting the server.
    let is_key_used = match &draft.once {
        Some(key) => reader.once(key)?.is_some(),
        None => false,
    };
    if is_key_used && !needs_schema {
        return Ok(Vec::new());
    }
    let name = &draft.server.name;
    let mut listing = pin!(list_tools(context, live, name));
    let listed = match tokio::time::timeout(LISTS_WITHIN, &mut listing).await {
        Ok(listed) => listed,
        // It is slow. A tool that it had before will do: the call waits for it.
        Err(_) => match known_tools(reader, name)? {
            Some(tools) if tools.iter().any(|tool| tool.name == draft.tool) => Ok(tools),
            _ => listing.await,
        },
    };
    match listed {
        Err(CliError::Message { code, text: words }) if code == code::UNREACHABLE => {
            known_tools(reader, name)?.ok_or(CliError::Message { code, text: words })
        }
        listed => listed,
    }
}

/// The tools that a server had when it was last reached. They are kept after its MCP session has ended.
fn known_tools(reader: &mut Reader, name: &ServerName) -> CliResult<Option<Vec<Tool>>> {
    let mut links = reader.links()?.into_iter();
    let known = links
        .find(|link| link.name == *name && (link.tools_at.is_some() || !link.tools.is_empty()));
    Ok(known.map(|link| link.tools))
}

fn unknown_tool(draft: &CallDraft, listed: &[Tool]) -> CliError {
    let (server, tool) = (&draft.server.name, &draft.tool);
    let offered = listed.iter().filter(|tool| tool.is_offered());
    let names: Vec<&str> = offered.map(|tool| tool.name.as_str()).collect();
    let near = text::nearest(tool, names.iter().copied());
    let near = near.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
    CliError::usage(format!(
        "{server} has no tool {tool}{near}; it has {}",
        text::first_of(&names, MAX_NAMED_TOOLS)
    ))
}

/// Asks before a call that may be unsafe to repeat runs again.
fn confirm_repeat(
    context: &mut Context<'_>,
    server: &ServerName,
    tool: &str,
    described: Option<&Tool>,
) -> CliResult<()> {
    if !described.is_none_or(Tool::is_unsafe_to_repeat) {
        return Ok(());
    }
    let why = Tool::repeat_warning(described);
    let question = format!("{server} {why}; run {tool} again? y/N");
    let refusal = format!("{server} {why}, so nothing was sent; use --yes to run it again");
    must_confirm(context, false, &question, &refusal)
}

/// Says that a call with this `--once` key exists as the task `id`; refuses if that is a different call, whose result would
/// be taken for this one's.
fn report_used_key(
    context: &mut Context<'_>,
    reader: &mut Reader,
    new: &NewCall,
    id: &TaskId,
) -> CliResult<()> {
    let before = context.find(reader, id.as_str())?;
    let is_same = |one: &str, other: &str| {
        let [one, other] = [one, other].map(serde_json::from_str::<Value>);
        matches!((one, other), (Ok(one), Ok(other)) if one == other)
    };
    if (&before.server, &before.tool) == (&new.server, &new.tool)
        && is_same(&before.arguments, &new.arguments)
    {
        let words = format!("key already used by {id}; nothing new was started");
        context.info(&words);
        return Ok(());
    }
    let arguments = text::clean_line(&before.arguments);
    Err(CliError::usage(format!(
        "nothing new was started, because {id} used this key for a different call: {} {} on {}; to start yours, choose another --once key",
        before.tool,
        text::truncate(&arguments, 200),
        text::clean_line(before.server.as_str())
    )))
}

/// One line for each argument that differs from the repeated call.
fn changed_arguments(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(value))
        .map(|(key, value)| {
            let old = before.get(key).map_or("not set".to_owned(), unquoted);
            format!("changed {key}: {old} -> {}", unquoted(value))
        })
        .collect()
}

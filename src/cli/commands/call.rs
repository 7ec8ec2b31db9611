//! `call` and `again`: starts calls.

use serde_json::{Map, Value};

use crate::{
    cli::{
        args::{AgainArgs, CallArgs, StartArgs},
        arguments::{
            ArgumentPair, MAX_NAMED_TOOLS, PairValue, apply_pairs, build_arguments, list_tools,
            parse_args_object, parse_pair, plain,
        },
        context::{Context, confirm},
        environment::{block_on, random_bits},
        error::{CliError, code},
        follow::{FollowUntil, QuestionHandling, follow},
        history::{HistoryPrinter, OutputStyle},
        live_session::LiveSession,
        target::Targets,
    },
    domain::{
        Limits, NewCall, OnInput, ServerRef, SessionRequest, SessionResponse, TaskId, Tool, text,
    },
    store::Reader,
};

/// A call whose arguments are not checked yet.
struct CallDraft {
    server: ServerRef,
    tool: String,
    base: Map<String, Value>,
    pairs: Vec<ArgumentPair>,
    once: Option<String>,
    origin: Option<TaskId>,
    /// No confirmation is needed to repeat it.
    is_confirmed: bool,
    how: StartArgs,
}

/// `call`.
pub(in crate::cli) fn call(context: &mut Context<'_>, call: CallArgs) -> Result<u8, CliError> {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let server = Targets::of(context, &mut reader)?.one()?;
    let base = call
        .args
        .as_deref()
        .map_or_else(|| Ok(Map::new()), parse_args_object)?;
    let pairs = call
        .pairs
        .iter()
        .map(|text| parse_pair(text))
        .collect::<Result<_, _>>()?;
    let CallArgs {
        tool, once, how, ..
    } = call;
    run_call(
        context,
        CallDraft {
            server,
            tool,
            base,
            pairs,
            once,
            origin: None,
            is_confirmed: true,
            how,
        },
    )
}

/// `again`.
pub(in crate::cli) fn again(context: &mut Context<'_>, again: AgainArgs) -> Result<u8, CliError> {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let old = context.find(&mut reader, &again.id)?;
    let servers = Targets::of(context, &mut reader)?;
    let server = servers
        .for_task(&old.server)?
        .into_iter()
        .next()
        .unwrap_or(ServerRef {
            name: old.server.clone(),
            url: None,
            headers: Vec::new(),
            config_headers: Vec::new(),
            protocol: None,
        });
    let base: Map<String, Value> = serde_json::from_str(&old.arguments).unwrap_or_default();
    let pairs = again
        .pairs
        .iter()
        .map(|text| parse_pair(text))
        .collect::<Result<Vec<_>, _>>()?;
    let AgainArgs { how, yes, .. } = again;
    let how = StartArgs {
        name: how.name.or(old.name),
        tag: how.tag.or(old.tag),
        on_input: how
            .on_input
            .or(Some(old.on_input).filter(|it| *it != OnInput::Ask)),
        ..how
    };
    run_call(
        context,
        CallDraft {
            server,
            tool: old.tool,
            base,
            pairs,
            once: None,
            origin: Some(old.id),
            is_confirmed: yes,
            how,
        },
    )
}

fn run_call(context: &mut Context<'_>, draft: CallDraft) -> Result<u8, CliError> {
    let style = if context.global.json {
        OutputStyle::Json
    } else {
        OutputStyle::Call
    };
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
            Ok(id) => {
                let printer = HistoryPrinter::new(id, reader, style, 0);
                follow(context, live, printer, until, questions).await
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
) -> Result<TaskId, CliError> {
    let CallDraft {
        server,
        tool,
        base,
        pairs,
        once,
        origin,
        is_confirmed,
        how,
    } = draft;
    let needs_schema = pairs
        .iter()
        .any(|pair| matches!(pair.value, PairValue::Text(_)));
    // If the key was used before, that task is returned without contacting the server.
    let is_key_used = match &once {
        Some(key) => reader.once(key)?.is_some(),
        None => false,
    };
    let listed = if is_key_used && !needs_schema {
        Vec::new()
    } else {
        match list_tools(context, live, &server.name).await {
            Err(CliError::Message { code, text: words }) if code == code::UNREACHABLE => {
                // If the server was reached before, use the tools it had then; the call waits for it.
                let links = reader.links()?;
                let known = links
                    .into_iter()
                    .find(|link| link.name == server.name && link.tools_at.is_some());
                known.ok_or(CliError::Message { code, text: words })?.tools
            }
            other => other?,
        }
    };
    let described = listed.iter().find(|listed| listed.name == tool);
    if described.is_none() && !listed.is_empty() {
        let offered = || listed.iter().filter(|tool| tool.is_offered());
        let names: Vec<&str> = offered()
            .take(MAX_NAMED_TOOLS)
            .map(|tool| tool.name.as_str())
            .collect();
        let more = offered().count().saturating_sub(MAX_NAMED_TOOLS);
        let more = match more {
            0 => String::new(),
            more => format!(" and {} more", text::grouped(more as u64)),
        };
        let near = text::nearest(&tool, offered().map(|tool| tool.name.as_str()));
        let near = near.map_or(String::new(), |near| {
            format!(" (did you mean {}?)", text::clean_line(near))
        });
        return Err(CliError::usage(format!(
            "{} has no tool {tool}{near}; it has {}{more}",
            server.name,
            text::clean_line(&names.join(", "))
        )));
    }
    let before = base.clone();
    // Shown only if the call is started.
    let mut notices: Vec<String> = Vec::new();
    let arguments = if how.unchecked {
        let specs = described.map(Tool::arguments).unwrap_or_default();
        let mut arguments = base;
        apply_pairs(pairs, &specs, &mut arguments)
            .map(|()| arguments)
            .map_err(|error| {
                CliError::usage(format!("{error}; use key:=json to send another type"))
            })?
    } else {
        let checked = build_arguments(base, pairs, described).map_err(|error| {
            let flags = context.flags();
            CliError::usage(format!(
                "{error}; nothing was sent. `longhaul{flags} -s {} tools` shows its arguments; use --unchecked to send \
                 it anyway",
                crate::domain::text::shell_word(server.name.as_str())
            ))
        })?;
        if let (arguments, Some(why)) = &checked
            && !arguments.is_empty()
        {
            notices.push(format!(
                "{tool}: arguments sent unchecked because its schema is unusable: {why}"
            ));
        }
        checked.0
    };
    if origin.is_some() {
        for line in changed_arguments(&before, &arguments) {
            context.terminal.info(&line);
        }
        if !is_confirmed && described.is_none_or(Tool::is_unsafe_to_repeat) {
            let why = Tool::repeat_warning(described);
            let question =
                text::clean_line(&format!("{} {why}; run {tool} again? y/N", server.name))
                    .into_owned();
            if !confirm(context, &question)? {
                let message = format!(
                    "{} {why}, so nothing was sent; use --yes to run it again",
                    server.name
                );
                return Err(CliError::usage(text::clean_line(&message)));
            }
        }
    }
    let defaults = context.config()?.default_limits().for_server(&server.name);
    let id = TaskId::from_bits(random_bits());
    let arguments = Value::Object(arguments).to_string();
    let new = NewCall {
        name: how.name,
        tag: how.tag,
        once,
        origin,
        // If another process drives, our exit ends nothing.
        must_survive: how.detach && live.is_driver,
        is_unchecked: how.unchecked,
        limits: Limits {
            idle: how.idle_timeout.map_or(defaults.idle, |limit| limit.0),
            hard: how.max_time.map_or(defaults.hard, |limit| limit.0),
        },
        on_input: how.on_input.unwrap_or_default(),
        ..NewCall::new(id, server.name, tool, arguments)
    };
    let new_id = new.id.clone();
    let has_key = new.once.is_some();
    let (new_tool, new_arguments) = (new.tool.clone(), new.arguments.clone());
    match live
        .request(context, SessionRequest::Start(Box::new(new)))
        .await?
    {
        SessionResponse::Started(id) => {
            if has_key && id != new_id {
                let before = context.find(reader, id.as_str())?;
                if before.tool != new_tool || before.arguments != new_arguments {
                    context.terminal.report(&format!(
                        "longhaul: key already used by {id} with a different call: {} {}; nothing was started; choose another --once key",
                        text::clean_line(&before.tool),
                        text::truncate(&text::clean_line(&before.arguments), 200)
                    ));
                } else {
                    context.terminal.info(&format!(
                        "key already used by {id}; nothing new was started"
                    ));
                }
            } else {
                for notice in &notices {
                    context.terminal.info(&text::clean_line(notice));
                }
            }
            Ok(id)
        }
        _ => Err(CliError::new(code::BUG, "the engine returned no task id")),
    }
}

/// One line for each argument that differs from the repeated call.
fn changed_arguments(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(value))
        .map(|(key, value)| {
            let old = before.get(key).map_or("not set".to_owned(), plain);
            let line = format!("changed {key}: {old} -> {}", plain(value));
            text::clean_line(&line).into_owned()
        })
        .collect()
}

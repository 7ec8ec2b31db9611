//! `tools`, `call` and `again`: parses arguments and checks them against the tool's schema before anything is sent.

use serde_json::{Map, Value};

use super::{
    Context,
    adopt::confirm,
    args::{AgainArgs, CallArgs, StartArgs},
    block_on,
    error::{CliError, code},
    follow::{FollowUntil, HistoryPrinter, OutputStyle, QuestionHandling, follow},
    json as documents,
    live_session::LiveSession,
    random_bits,
    target::Targets,
};
use crate::{
    domain::{
        ArgumentKind, ArgumentSpec, Limits, NewCall, OnInput, ServerName, ServerRef,
        SessionRequest, SessionResponse, TaskId, Tool, text,
    },
    store::Reader,
};

/// How many tools the "no such tool" error names; `tools` lists them all.
const MAX_NAMED_TOOLS: usize = 40;

/// `tools`.
pub(super) fn tools(context: &mut Context<'_>) -> Result<u8, CliError> {
    let mut reader = context.reader_to_act()?;
    let server = Targets::of(context, &mut reader)?.one()?;
    let name = server.name.clone();
    let tools = block_on(async {
        let mut live = LiveSession::open(context, vec![server])?;
        let tools = list_tools(context, &mut live, &name).await;
        live.leave(context, &[]).await;
        tools
    })?;
    if context.global.json {
        let document: Vec<Value> = tools
            .iter()
            .filter(|tool| tool.is_offered())
            .map(|tool| documents::tool(name.as_str(), tool))
            .collect();
        context
            .terminal
            .print_json(&documents::pretty(&Value::Array(document)))?;
        return Ok(code::OK);
    }
    let ending = context.terminal.ending();
    for tool in &tools {
        if let Some(fault) = &tool.fault {
            let message = format!("not usable: {} ({fault})", tool.name);
            context.terminal.info(&text::clean_line(&message));
            continue;
        }
        let arguments: Vec<String> = tool.arguments().iter().map(argument_usage).collect();
        let line = format!("{} {}", text::clean_line(&tool.name), arguments.join(" "));
        context.terminal.print(line.trim_end())?;
        let about = tool.description.as_deref().unwrap_or_default();
        if let Some(first) = about.lines().find(|line| !line.trim().is_empty()) {
            let columns = context
                .terminal
                .out_columns()
                .unwrap_or(usize::MAX)
                .saturating_sub(4);
            let first = text::clean_line(first.trim());
            context
                .terminal
                .print(&format!("    {}", text::cut(&first, columns, ending)))?;
        }
    }
    Ok(code::OK)
}

/// `shard=INTEGER`, in brackets if it is optional.
pub(super) fn argument_usage(spec: &ArgumentSpec) -> String {
    let kind = match &spec.kind {
        ArgumentKind::Text => "TEXT".to_owned(),
        ArgumentKind::Number => "NUMBER".to_owned(),
        ArgumentKind::Integer => "INTEGER".to_owned(),
        ArgumentKind::Boolean => "true|false".to_owned(),
        ArgumentKind::Choice(choices) => {
            let choices: Vec<String> = choices.iter().map(plain).collect();
            choices.join("|")
        }
        ArgumentKind::Many(choices) => {
            let choices: Vec<String> = choices.iter().map(plain).collect();
            choices.join(",")
        }
        ArgumentKind::Json => "JSON".to_owned(),
    };
    let sign = if spec.kind == ArgumentKind::Json {
        ":="
    } else {
        "="
    };
    let default = spec
        .default
        .as_ref()
        .map_or(String::new(), |value| format!(" ({})", plain(value)));
    let line = format!("{}{sign}{kind}{default}", spec.name);
    let line = text::clean_line(&line);
    if spec.is_required {
        line.into_owned()
    } else {
        format!("[{line}]")
    }
}

/// A value as text; strings without quotes.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) async fn list_tools(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    server: &ServerName,
) -> Result<Vec<Tool>, CliError> {
    match live
        .request(context, SessionRequest::Tools(server.clone()))
        .await?
    {
        SessionResponse::Tools(tools) => Ok(tools),
        _ => Err(CliError::new(
            code::BUG,
            format!("{server} returned no tool list"),
        )),
    }
}

/// One `key=value` or `key:=json`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ArgumentPair {
    key: String,
    value: PairValue,
}

#[derive(Clone, Debug, PartialEq)]
enum PairValue {
    /// As typed; the tool's schema decides the type.
    Text(String),
    Json(Value),
}

pub(super) fn parse_pair(text: &str) -> Result<ArgumentPair, CliError> {
    let invalid = || {
        CliError::usage(format!(
            "invalid argument {text:?}: use key=value or key:=json"
        ))
    };
    let (key, value) = text.split_once('=').ok_or_else(invalid)?;
    let (key, value) = match key.strip_suffix(':') {
        Some(key) => {
            let json = serde_json::from_str(value).map_err(|error| {
                CliError::usage(format!("the value of {key} is not valid JSON: {error}"))
            })?;
            (key, PairValue::Json(json))
        }
        None => (key, PairValue::Text(value.to_owned())),
    };
    if key.is_empty() {
        return Err(invalid());
    }
    Ok(ArgumentPair {
        key: key.to_owned(),
        value,
    })
}

/// Reads `--args`: a JSON object, `@FILE` or `-` for stdin.
fn parse_args_object(text: &str) -> Result<Map<String, Value>, CliError> {
    let read_error = |error: std::io::Error, what: &str| {
        CliError::usage(format!("could not read {what}: {error}"))
    };
    let json = match text {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| read_error(error, "the arguments from stdin"))?,
        _ => match text.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path).map_err(|error| read_error(error, path))?,
            None => text.to_owned(),
        },
    };
    match serde_json::from_str(&json) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(CliError::usage(
            "--args is not a JSON object; write it as '{\"key\": value}'",
        )),
        Err(error) => Err(CliError::usage(format!(
            "--args is not valid JSON: {error}"
        ))),
    }
}

/// Adds the pairs to `into`; the specs decide the type of each text value.
pub(super) fn apply_pairs(
    pairs: Vec<ArgumentPair>,
    specs: &[ArgumentSpec],
    into: &mut Map<String, Value>,
) -> Result<(), String> {
    for ArgumentPair { key, value } in pairs {
        let spec = specs.iter().find(|spec| spec.name == key);
        let value = match (value, spec) {
            (PairValue::Json(value), _) => value,
            (PairValue::Text(typed), Some(spec)) => spec
                .parse(&typed)
                .map_err(|expected| format!("{key} must be {expected}, not {typed:?}"))?,
            (PairValue::Text(typed), None) => Value::String(typed),
        };
        into.insert(key, value);
    }
    Ok(())
}

/// The arguments of a call, checked against the tool if it is known. The second value says why its schema is unusable, in
/// which case nothing was checked.
pub(super) fn build_arguments(
    mut base: Map<String, Value>,
    pairs: Vec<ArgumentPair>,
    tool: Option<&Tool>,
) -> Result<(Map<String, Value>, Option<String>), String> {
    let specs = tool.map(Tool::arguments).unwrap_or_default();
    apply_pairs(pairs, &specs, &mut base)?;
    let checked = tool.map(|tool| tool.check(&base)).unwrap_or_default();
    if checked.errors.is_empty() {
        return Ok((base, checked.unusable));
    }
    let errors: Vec<String> = checked.errors.iter().map(ToString::to_string).collect();
    let name = tool.map_or("", |tool| tool.name.as_str());
    let line = format!("{name}: {}", errors.join(", "));
    Err(text::clean_line(&line).into_owned())
}

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
pub(super) fn call(context: &mut Context<'_>, call: CallArgs) -> Result<u8, CliError> {
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
pub(super) fn again(context: &mut Context<'_>, again: AgainArgs) -> Result<u8, CliError> {
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
                super::quoted(server.name.as_str())
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

/// The title of a task in lists: the user's name for it, else tool and arguments.
pub(super) fn task_title(task: &crate::domain::Task) -> String {
    if let Some(name) = &task.name {
        return text::clean_line(name).into_owned();
    }
    let arguments: Map<String, Value> = serde_json::from_str(&task.arguments).unwrap_or_default();
    let arguments: Vec<String> = arguments
        .iter()
        .map(|(key, value)| format!("{key}={}", plain(value)))
        .collect();
    let line = format!("{} {}", task.tool, arguments.join(" "));
    text::clean_line(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool() -> Tool {
        Tool {
            name: "t".into(),
            title: None,
            description: None,
            input_schema: json!({"properties": {
                "n": {"type": "integer"}, "x": {"type": "number"}, "b": {"type": "boolean"}, "s": {"type": "string"},
                "c": {"enum": [1, "two"]}, "free": {}, "j": {}}, "required": ["n"]})
            .to_string(),
            read_only: None,
            destructive: None,
            idempotent: None,
            task_support: crate::domain::TaskSupport::Forbidden,
            fault: None,
        }
    }

    fn build(pairs: &[&str]) -> Result<Value, String> {
        let pairs = pairs
            .iter()
            .map(|text| parse_pair(text))
            .collect::<Result<_, _>>()
            .unwrap();
        match build_arguments(Map::new(), pairs, Some(&tool())) {
            Ok((object, _)) => Ok(Value::Object(object)),
            Err(error) => Err(error),
        }
    }

    #[test]
    fn converts_typed_values_by_the_schema() {
        assert_eq!(
            build(&["n=50", "x=0.5", "b=yes", "s=50", "c=1", "free=1", "j:=[1]"]),
            Ok(json!({"n": 50, "x": 0.5, "b": true, "s": "50", "c": 1, "free": "1", "j": [1]}))
        );
        assert_eq!(build(&["n=1", "s=a=b"]), Ok(json!({"n": 1, "s": "a=b"})));
    }

    #[test]
    fn rejects_arguments_that_break_the_schema() {
        assert!(
            build(&["n=5.5"])
                .unwrap_err()
                .contains("n must be a whole number")
        );
        assert!(
            build(&["n=1", "b=perhaps"])
                .unwrap_err()
                .contains("true or false")
        );
        let typo = build(&["s=x", "nn=1"]).unwrap_err();
        assert!(
            typo.contains("n is missing, nn is not an argument of this tool (did you mean n?)"),
            "{typo}"
        );
        assert!(build(&["s=x"]).unwrap_err().contains("n is missing"));
    }

    #[test]
    fn rejects_an_argument_without_a_key() {
        for text in ["novalue", "=x", ":=1", "k:={"] {
            assert!(parse_pair(text).is_err(), "{text}");
        }
    }
}

//! `tools`, `call` and `again`: arguments as people type them, checked before anything is sent.

use serde_json::{Map, Value};

use super::{
    Context,
    adopt::says_yes,
    args::{Again, Call, How},
    block_on, dice,
    fail::{Fail, code},
    follow::{Answers, Printer, Style, Until, follow},
    json as documents,
    live::Live,
    target::Targets,
};
use crate::{
    domain::{
        ArgumentKind, ArgumentSpec, Limits, NewCall, OnInput, ServerName, ServerRef,
        SessionRequest, SessionResponse, TaskId, Tool, text,
    },
    store::Reader,
};

/// Tools named to somebody who asked for one that is not there; `tools` lists them all.
const NAMED: usize = 40;

/// `tools`.
pub(super) fn tools(context: &mut Context<'_>) -> Result<u8, Fail> {
    let mut reader = context.reader_to_act()?;
    let server = Targets::of(context, &mut reader)?.one()?;
    let name = server.name.clone();
    let tools = block_on(async {
        let mut live = Live::open(context, vec![server])?;
        let tools = list(context, &mut live, &name).await;
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
            .document(&documents::pretty(&Value::Array(document)))?;
        return Ok(code::OK);
    }
    let ending = context.terminal.ending();
    for tool in &tools {
        if let Some(fault) = &tool.fault {
            let words = format!("not offered: {} ({fault})", tool.name);
            context.terminal.remark(&text::clean_line(&words));
            continue;
        }
        let arguments: Vec<String> = tool.arguments().iter().map(takes).collect();
        let line = format!("{} {}", text::clean_line(&tool.name), arguments.join(" "));
        context.terminal.line(line.trim_end())?;
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
                .line(&format!("    {}", text::cut(&first, columns, ending)))?;
        }
    }
    Ok(code::OK)
}

/// `shard=INTEGER`, in brackets where it can be left out.
pub(super) fn takes(spec: &ArgumentSpec) -> String {
    let kind = match &spec.kind {
        ArgumentKind::Text => "TEXT".to_owned(),
        ArgumentKind::Number => "NUMBER".to_owned(),
        ArgumentKind::Integer => "INTEGER".to_owned(),
        ArgumentKind::Boolean => "true|false".to_owned(),
        ArgumentKind::Choice(choices) => {
            let words: Vec<String> = choices.iter().map(plain).collect();
            words.join("|")
        }
        ArgumentKind::Many(choices) => {
            let words: Vec<String> = choices.iter().map(plain).collect();
            words.join(",")
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

/// A value without the quotes of a text.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) async fn list(
    context: &mut Context<'_>,
    live: &mut Live,
    server: &ServerName,
) -> Result<Vec<Tool>, Fail> {
    match live
        .ask(context, SessionRequest::Tools(server.clone()))
        .await?
    {
        SessionResponse::Tools(tools) => Ok(tools),
        _ => Err(Fail::new(
            code::BUG,
            format!("{server} gave no list of tools"),
        )),
    }
}

/// One `key=value` or `key:=json`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pair {
    key: String,
    value: Given,
}

#[derive(Clone, Debug, PartialEq)]
enum Given {
    /// As typed; the tool's schema says what it is.
    Text(String),
    /// As JSON.
    Json(Value),
}

pub(super) fn pair(text: &str) -> Result<Pair, Fail> {
    let wrong = || {
        Fail::usage(format!(
            "{text:?} is not an argument; write it as key=value, or as key:=json"
        ))
    };
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    let (key, value) = match key.strip_suffix(':') {
        Some(key) => {
            let json = serde_json::from_str(value).map_err(|error| {
                Fail::usage(format!("the value of {key} is not valid JSON: {error}"))
            })?;
            (key, Given::Json(json))
        }
        None => (key, Given::Text(value.to_owned())),
    };
    if key.is_empty() {
        return Err(wrong());
    }
    Ok(Pair {
        key: key.to_owned(),
        value,
    })
}

/// `--args`: the text itself, a file, or stdin.
fn object(text: &str) -> Result<Map<String, Value>, Fail> {
    let from =
        |error: std::io::Error, what: &str| Fail::usage(format!("could not read {what}: {error}"));
    let json = match text {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| from(error, "the arguments from stdin"))?,
        _ => match text.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path).map_err(|error| from(error, path))?,
            None => text.to_owned(),
        },
    };
    match serde_json::from_str(&json) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Fail::usage(
            "--args is not a JSON object; write it as '{\"key\": value}'",
        )),
        Err(error) => Err(Fail::usage(format!("--args is not valid JSON: {error}"))),
    }
}

/// Puts typed values among others: what a text stands for is said by what is wanted there.
pub(super) fn read_pairs(
    pairs: Vec<Pair>,
    specs: &[ArgumentSpec],
    into: &mut Map<String, Value>,
) -> Result<(), String> {
    for Pair { key, value } in pairs {
        let spec = specs.iter().find(|spec| spec.name == key);
        let value = match (value, spec) {
            (Given::Json(value), _) => value,
            (Given::Text(typed), Some(spec)) => spec
                .parse(&typed)
                .map_err(|wanted| format!("{key} must be {wanted}, not {typed:?}"))?,
            (Given::Text(typed), None) => Value::String(typed),
        };
        into.insert(key, value);
    }
    Ok(())
}

/// The arguments of a call, checked against the tool where its list was asked for; and why its schema could not be used
/// for that, where it could not.
pub(super) fn arguments(
    mut base: Map<String, Value>,
    pairs: Vec<Pair>,
    tool: Option<&Tool>,
) -> Result<(Map<String, Value>, Option<String>), String> {
    let specs = tool.map(Tool::arguments).unwrap_or_default();
    read_pairs(pairs, &specs, &mut base)?;
    let checked = tool.map(|tool| tool.check(&base)).unwrap_or_default();
    if checked.errors.is_empty() {
        return Ok((base, checked.unusable));
    }
    let words: Vec<String> = checked.errors.iter().map(ToString::to_string).collect();
    let name = tool.map_or("", |tool| tool.name.as_str());
    let line = format!("{name}: {}", words.join(", "));
    Err(text::clean_line(&line).into_owned())
}

/// A call, before its arguments are final.
struct Draft {
    server: ServerRef,
    tool: String,
    base: Map<String, Value>,
    pairs: Vec<Pair>,
    once: Option<String>,
    origin: Option<TaskId>,
    /// A repeat was agreed to beforehand.
    is_agreed: bool,
    how: How,
}

/// `call`.
pub(super) fn call(context: &mut Context<'_>, call: Call) -> Result<u8, Fail> {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let server = Targets::of(context, &mut reader)?.one()?;
    let base = call
        .args
        .as_deref()
        .map_or_else(|| Ok(Map::new()), object)?;
    let pairs = call
        .pairs
        .iter()
        .map(|text| pair(text))
        .collect::<Result<_, _>>()?;
    let Call {
        tool, once, how, ..
    } = call;
    start(
        context,
        Draft {
            server,
            tool,
            base,
            pairs,
            once,
            origin: None,
            is_agreed: true,
            how,
        },
    )
}

/// `again`.
pub(super) fn again(context: &mut Context<'_>, again: Again) -> Result<u8, Fail> {
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
        .map(|text| pair(text))
        .collect::<Result<Vec<_>, _>>()?;
    let Again { how, yes, .. } = again;
    let how = How {
        name: how.name.or(old.name),
        tag: how.tag.or(old.tag),
        on_input: how
            .on_input
            .or(Some(old.on_input).filter(|it| *it != OnInput::Ask)),
        ..how
    };
    start(
        context,
        Draft {
            server,
            tool: old.tool,
            base,
            pairs,
            once: None,
            origin: Some(old.id),
            is_agreed: yes,
            how,
        },
    )
}

fn start(context: &mut Context<'_>, draft: Draft) -> Result<u8, Fail> {
    let style = if context.global.json {
        Style::Json
    } else {
        Style::Call
    };
    let has_person = !context.global.json && !draft.how.detach && context.terminal.can_ask();
    let answers = match draft.how.on_input {
        None if has_person => Answers::Here,
        _ => Answers::Elsewhere,
    };
    let mut reader = context.reader()?;
    block_on(async {
        let mut live = Live::open(context, vec![draft.server.clone()])?;
        let until = if draft.how.detach {
            Until::Detachable
        } else {
            Until::TheEnd
        };
        match begin(context, &mut live, &mut reader, draft).await {
            Ok(id) => {
                let printer = Printer::new(id, reader, style, 0);
                follow(context, live, printer, until, answers).await
            }
            Err(fail) => {
                live.leave(context, &[]).await;
                Err(fail)
            }
        }
    })
}

/// Sends the call on its way; its intent is on disk when this returns.
async fn begin(
    context: &mut Context<'_>,
    live: &mut Live,
    reader: &mut Reader,
    draft: Draft,
) -> Result<TaskId, Fail> {
    let Draft {
        server,
        tool,
        base,
        pairs,
        once,
        origin,
        is_agreed,
        how,
    } = draft;
    let needs_schema = pairs
        .iter()
        .any(|pair| matches!(pair.value, Given::Text(_)));
    // What used this key before comes back without a server being asked.
    let is_used = match &once {
        Some(key) => reader.once(key)?.is_some(),
        None => false,
    };
    let is_kept = !needs_schema && is_used;
    let listed = if is_kept {
        Vec::new()
    } else {
        match list(context, live, &server.name).await {
            Err(Fail::Said { code, words }) if code == code::UNREACHABLE => {
                // A server that was reached before is waited for, with the tools that it had then.
                let links = reader.links()?;
                let known = links
                    .into_iter()
                    .find(|link| link.name == server.name && link.tools_at.is_some());
                known.ok_or(Fail::Said { code, words })?.tools
            }
            other => other?,
        }
    };
    let described = listed.iter().find(|listed| listed.name == tool);
    if described.is_none() && !listed.is_empty() {
        let offered = || listed.iter().filter(|tool| tool.is_offered());
        let names: Vec<&str> = offered()
            .take(NAMED)
            .map(|tool| tool.name.as_str())
            .collect();
        let more = offered().count().saturating_sub(NAMED);
        let more = match more {
            0 => String::new(),
            more => format!(" and {} more", text::grouped(more as u64)),
        };
        let near = text::nearest(&tool, offered().map(|tool| tool.name.as_str()));
        let near = near.map_or(String::new(), |near| {
            format!("did you mean {}? ", text::clean_line(near))
        });
        return Err(Fail::usage(format!(
            "{} has no tool {tool}; {near}it has {}{more}",
            server.name,
            text::clean_line(&names.join(", "))
        )));
    }
    let before = base.clone();
    // Said once it goes out, and not where it stays here after all.
    let mut notes: Vec<String> = Vec::new();
    let arguments = if how.unchecked {
        let specs = described.map(Tool::arguments).unwrap_or_default();
        let mut arguments = base;
        read_pairs(pairs, &specs, &mut arguments)
            .map(|()| arguments)
            .map_err(|complaint| Fail::usage(format!("{complaint}; write it as key:=json")))?
    } else {
        let checked = arguments(base, pairs, described).map_err(|complaint| {
            let flags = context.flags();
            Fail::usage(format!(
                "{complaint}; nothing was sent. `longhaul{flags} -s {} tools` shows what it takes; --unchecked sends it \
                 all the same",
                super::quoted(server.name.as_str())
            ))
        })?;
        if let (arguments, Some(why)) = &checked
            && !arguments.is_empty()
        {
            let words = format!("{tool}: its schema cannot be used: {why}; sent unchecked");
            notes.push(words);
        }
        checked.0
    };
    if origin.is_some() {
        for line in changes(&before, &arguments) {
            context.terminal.remark(&line);
        }
        if !is_agreed && described.is_none_or(Tool::is_unsafe_to_repeat) {
            let why = Tool::repeat_warning(described);
            let question =
                text::clean_line(&format!("{} {why}; run {tool} again? y/N", server.name))
                    .into_owned();
            if !says_yes(context, &question)? {
                let words = format!(
                    "{} {why}, so nothing was sent; --yes runs it again",
                    server.name
                );
                return Err(Fail::usage(text::clean_line(&words)));
            }
        }
    }
    let usual = context.config()?.usual_limits().for_server(&server.name);
    let id = TaskId::from_bits(dice());
    let arguments = Value::Object(arguments).to_string();
    let new = NewCall {
        name: how.name,
        tag: how.tag,
        once,
        origin,
        // Beside another one that drives, our leaving ends nothing.
        must_survive: how.detach && live.is_driver,
        is_unchecked: how.unchecked,
        limits: Limits {
            idle: how.idle_timeout.map_or(usual.idle, |limit| limit.0),
            hard: how.max_time.map_or(usual.hard, |limit| limit.0),
        },
        on_input: how.on_input.unwrap_or_default(),
        ..NewCall::new(id, server.name, tool, arguments)
    };
    let wanted = new.id.clone();
    let has_key = new.once.is_some();
    let (asked_tool, asked_arguments) = (new.tool.clone(), new.arguments.clone());
    match live
        .ask(context, SessionRequest::Start(Box::new(new)))
        .await?
    {
        SessionResponse::Started(id) => {
            if has_key && id != wanted {
                let before = context.find(reader, id.as_str())?;
                let is_other = before.tool != asked_tool || before.arguments != asked_arguments;
                if is_other {
                    context.terminal.say(&format!(
                        "longhaul: key already used by {id} with a different call: {} {}; nothing was started; choose another --once key",
                        text::clean_line(&before.tool),
                        text::truncate(&text::clean_line(&before.arguments), 200)
                    ));
                } else {
                    context.terminal.remark(&format!(
                        "key already used by {id}; nothing new was started"
                    ));
                }
            } else {
                for note in &notes {
                    context.terminal.remark(&text::clean_line(note));
                }
            }
            Ok(id)
        }
        _ => Err(Fail::new(
            code::BUG,
            "the engine did not say what it started",
        )),
    }
}

/// What differs from the task that is repeated.
fn changes(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(value))
        .map(|(key, value)| {
            let old = before.get(key).map_or("(left out)".to_owned(), plain);
            let line = format!("changed {key}: {old} -> {}", plain(value));
            text::clean_line(&line).into_owned()
        })
        .collect()
}

/// The words that a list of tasks shows for a call without a name of the user's: tool and arguments.
pub(super) fn title(task: &crate::domain::Task) -> String {
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

    fn built(pairs: &[&str]) -> Result<Value, String> {
        let pairs = pairs
            .iter()
            .map(|text| pair(text))
            .collect::<Result<_, _>>()
            .unwrap();
        match arguments(Map::new(), pairs, Some(&tool())) {
            Ok((object, _)) => Ok(Value::Object(object)),
            Err(words) => Err(words),
        }
    }

    #[test]
    fn a_typed_value_becomes_what_the_tool_wants() {
        assert_eq!(
            built(&["n=50", "x=0.5", "b=yes", "s=50", "c=1", "free=1", "j:=[1]"]),
            Ok(json!({"n": 50, "x": 0.5, "b": true, "s": "50", "c": 1, "free": "1", "j": [1]}))
        );
        assert_eq!(built(&["n=1", "s=a=b"]), Ok(json!({"n": 1, "s": "a=b"})));
    }

    #[test]
    fn what_the_tool_would_refuse_is_said_before_it_is_sent() {
        assert!(
            built(&["n=5.5"])
                .unwrap_err()
                .contains("n must be a whole number")
        );
        assert!(
            built(&["n=1", "b=perhaps"])
                .unwrap_err()
                .contains("true or false")
        );
        let slip = built(&["s=x", "nn=1"]).unwrap_err();
        assert!(
            slip.contains("n is missing, nn is not an argument of this tool (did you mean n?)"),
            "{slip}"
        );
        assert!(built(&["s=x"]).unwrap_err().contains("n is missing"));
    }

    #[test]
    fn an_argument_without_a_key_is_refused() {
        for text in ["novalue", "=x", ":=1", "k:={"] {
            assert!(pair(text).is_err(), "{text}");
        }
    }
}

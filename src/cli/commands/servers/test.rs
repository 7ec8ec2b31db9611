//! `servers test`: connects to servers and says what they offer.

use std::{cmp::Reverse, collections::BTreeMap};

use serde_json::{Value, json};

use crate::{
    cli::{
        CliError, CliResult, Context, LiveSession, Targets, arguments, code, environment::block_on,
        error::worst, json as documents, target::TargetChoice,
    },
    domain::{
        HostRequest, IfCut, ServerName, ServerRef, ServerView, SessionRequest, Tool, server_url,
        text,
    },
};

/// The most tools listed by name per [`IfCut`].
const MAX_NAMED_TOOLS: usize = 4;

/// The result of testing one server.
struct TestReport {
    name: ServerName,
    url: String,
    outcome: CliResult<TestSuccess>,
}

struct TestSuccess {
    took_ms: u64,
    view: Option<ServerView>,
    tools: Vec<Tool>,
}

/// `servers test`.
pub(in crate::cli) fn test(context: &mut Context<'_>, name: Option<&str>) -> CliResult {
    let mut reader = context.reader_to_act()?;
    let servers = Targets::of(context, &mut reader)?;
    let named = servers.names().into_iter().cloned().collect::<Vec<_>>();
    let one = |server: ServerRef| vec![(server.name.clone(), Ok(server), String::new())];
    let wanted: Vec<TargetChoice> = match (name, named.as_slice()) {
        (Some(name), _) => one(servers.named(name)?),
        (None, []) => servers.choices().collect(),
        (None, _) => one(servers.one()?),
    };
    if wanted.is_empty() && !servers.is_empty() {
        let message = "no servers to test: all need approval; see `longhaul servers list`";
        return Err(CliError::usage(message));
    }
    if wanted.is_empty() {
        return Err(CliError::usage(
            "no servers to test; add one with `longhaul servers add NAME URL`",
        ));
    }
    let mut codes = Vec::new();
    let mut json_reports = Vec::new();
    for (name, server, url) in wanted {
        let report = match server {
            Ok(server) => test_one(context, server)?,
            // One that fails does not keep the others from being tested.
            Err(fail) => TestReport {
                name,
                url,
                outcome: Err(fail),
            },
        };
        codes.extend(report.outcome.as_ref().err().map(CliError::code));
        if context.global.json {
            json_reports.push(document(&report));
        } else {
            print(context, &report)?;
        }
    }
    if context.global.json {
        context.terminal.print_pretty(json_reports)?;
    }
    Ok(worst(codes.into_iter()))
}

fn test_one(context: &mut Context<'_>, server: ServerRef) -> CliResult<TestReport> {
    let name = server.name.clone();
    let configured = context.config()?.entry(&name);
    let configured = configured.and_then(|it| it.url.clone());
    let url = server.url.clone().or(configured).unwrap_or_default();
    let outcome = block_on(async {
        let mut live = LiveSession::open(context, vec![server])?;
        let started = context.clock.now().mono;
        let reached = reach(context, &mut live, &name, server_url::is_process(&url)).await;
        let took = context.clock.now().mono.since(started);
        let tools = match reached {
            Ok(()) => arguments::list_tools(context, &mut live, &name).await,
            Err(fail) => Err(fail),
        };
        let outcome = match tools {
            Ok(tools) => Ok(TestSuccess {
                took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                view: live.server(context, &name),
                tools,
            }),
            Err(fail) if fail.code() == code::INTERRUPTED => return Err(fail),
            Err(fail) => Err(fail),
        };
        live.leave(context, &[]).await;
        Ok(outcome)
    })?;
    Ok(TestReport { name, url, outcome })
}

/// Asks the server itself: the keeper may have its tools from an earlier session.
async fn reach(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    name: &ServerName,
    is_program: bool,
) -> CliResult<()> {
    // The engine limits the handshake, but not how long a host waits for an answer.
    let within = std::time::Duration::from_secs(if is_program { 360 } else { 60 });
    let request = SessionRequest::Forward {
        server: name.clone(),
        request: HostRequest {
            method: "tools/list".to_owned(),
            params: "{}".to_owned(),
            ..HostRequest::default()
        },
    };
    let answer = tokio::time::timeout(within, live.request(context, request)).await;
    let Ok(answer) = answer else {
        let message = format!("{name} did not answer within {}", text::span(within));
        return Err(CliError::new(code::UNREACHABLE, message));
    };
    answer.map(|_| ())
}

/// What a cut would do to a call of each tool: the tools by reason, best outcome first.
fn if_cuts(success: &TestSuccess) -> Vec<(IfCut, Vec<&str>)> {
    let Some(view) = &success.view else {
        return Vec::new();
    };
    let mut by_reason: BTreeMap<_, (IfCut, Vec<&str>)> = BTreeMap::new();
    for tool in success.tools.iter().filter(|tool| tool.is_offered()) {
        let if_cut = IfCut::of_call(tool, &success.tools, &view.capabilities);
        let entry = by_reason.entry((Reverse(if_cut.outcome()), if_cut.reason.code()));
        let (_, tools) = entry.or_insert((if_cut, Vec::new()));
        tools.push(&tool.name);
    }
    by_reason.into_values().collect()
}

fn document(report: &TestReport) -> Value {
    let document = json!({
        "server": report.name,
        "url": server_url::redacted(&report.url),
        "ok": report.outcome.is_ok(),
    });
    let more = match &report.outcome {
        Ok(success) => {
            let if_cut = |(if_cut, tools): (IfCut, Vec<&str>)| json!({"if_cut": if_cut.outcome().code(), "if_cut_reason": if_cut.reason.code(), "if_cut_message": if_cut.reason.message(), "tools": tools});
            let view = success.view.as_ref();
            json!({
                "took_ms": success.took_ms,
                "era": view.map(|view| &view.era),
                "era_message": view.map(|view| &view.era_why),
                "server_info": view.and_then(|view| view.server_info.as_ref()),
                "tools": success.tools.iter().filter(|tool| tool.is_offered()).count(),
                "event_ids": view.and_then(|view| view.capabilities.gives_ids),
                "calls": if_cuts(success).into_iter().map(if_cut).collect::<Vec<_>>(),
            })
        }
        Err(fail) => json!({"code": fail.code(), "error": fail.message()}),
    };
    documents::with(document, more)
}

fn print(context: &mut Context<'_>, report: &TestReport) -> CliResult<()> {
    let name = report.name.as_str();
    let success = match &report.outcome {
        Ok(success) => success,
        Err(fail) => {
            let message = fail.message();
            // Many messages start with the name already.
            let message = message.strip_prefix(&format!("{name} ")).unwrap_or(message);
            let message = message.strip_prefix("is ").unwrap_or(message);
            return context.print(&format!("{name}: {message}"));
        }
    };
    let offered = success.tools.iter().filter(|it| it.is_offered());
    let offered = offered.count();
    let tools = text::plural(offered, "tool");
    let view = success.view.as_ref();
    let info = view
        .and_then(|view| view.server_info.as_deref())
        .map_or(String::new(), |info| format!(", {info}"));
    let era = view.map_or(String::new(), |view| {
        format!(", MCP {} ({})", view.era, view.era_why)
    });
    context.print(&format!(
        "{name}: answers in {} ms{info}{era}, {tools}",
        success.took_ms
    ))?;
    for (if_cut, tools) in if_cuts(success) {
        let line = format!(
            "  if cut: {} ({}): {}",
            if_cut.label(),
            if_cut.reason.message(),
            text::first_of(&tools, MAX_NAMED_TOOLS)
        );
        context.print(&line)?;
    }
    Ok(())
}

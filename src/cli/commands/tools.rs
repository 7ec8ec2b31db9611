//! `tools`: the tools of a server.

use serde_json::Value;

use crate::{
    cli::{
        CliResult, Context, LiveSession, Targets,
        arguments::{argument_usage, list_tools},
        code,
        environment::block_on,
        json as documents,
    },
    domain::{CutReason, IfCut, Tool, text},
};

/// `tools`.
pub(in crate::cli) fn tools(context: &mut Context<'_>) -> CliResult {
    let mut reader = context.reader_to_act()?;
    let server = Targets::of(context, &mut reader)?.one()?;
    let name = server.name.clone();
    let (tools, capabilities) = block_on(async {
        let mut live = LiveSession::open(context, vec![server])?;
        let tools = list_tools(context, &mut live, &name).await;
        let capabilities = live.server(context, &name).map(|view| view.capabilities);
        live.leave(context, &[]).await;
        Ok((tools?, capabilities.unwrap_or_default()))
    })?;
    let if_cut = |tool: &Tool| IfCut::of_call(tool, &tools, &capabilities);
    if context.global.json {
        let document: Vec<Value> = tools
            .iter()
            .filter(|tool| tool.is_offered())
            .map(|tool| documents::tool(name.as_str(), tool, &if_cut(tool)))
            .collect();
        return context.print_document(document);
    }
    let ending = context.terminal.ending;
    for tool in &tools {
        if let Some(fault) = &tool.fault {
            let message = format!("not usable: {} ({fault})", tool.name);
            context.info(&message);
            continue;
        }
        let arguments: Vec<String> = tool.arguments().iter().map(argument_usage).collect();
        let line = format!("{} {}", tool.name, arguments.join(" "));
        let if_cut = if_cut(tool);
        let unless = match if_cut.reason {
            CutReason::MayBeTask => " unless the server runs it as a task",
            _ => "",
        };
        let line = format!("{}  (if cut: {}{unless})", line.trim_end(), if_cut.label());
        context.print(&line)?;
        let about = tool.description.as_deref().unwrap_or_default();
        if let Some(first) = about.lines().find(|line| !line.trim().is_empty()) {
            let columns = context.terminal.out_columns.unwrap_or(usize::MAX);
            let first = text::clean_line(first.trim());
            context.print(&format!(
                "    {}",
                text::cut(&first, columns.saturating_sub(4), ending)
            ))?;
        }
    }
    Ok(code::OK)
}

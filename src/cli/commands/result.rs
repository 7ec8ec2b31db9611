//! `result`: the result of a task, or a part of it.

use std::borrow::Cow;

use crate::{
    cli::{
        CliError, CliResult, Context, args::ResultArgs, code, context::write_file, format,
        json as documents,
    },
    domain::{ContentBlock, Status, Task, content_element},
};

/// `result`.
pub(in crate::cli) fn result(context: &mut Context<'_>, which: &ResultArgs) -> CliResult {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, &which.id)?;
    let Some(result) = reader.result(&task.id)? else {
        let message = match &task.end.error {
            Some(error) => format!(
                "{} has no result because it failed: {}",
                task.id,
                error.message()
            ),
            None if task.status == Status::InputRequired => format!(
                "{0} has no result yet, because it is asking a question; answer it: `longhaul answer {0}`",
                task.id
            ),
            None if task.status.ends_waiting() => {
                format!("{} has no result (status: {})", task.id, task.state_label())
            }
            None => format!(
                "{} has no result yet (status: {}); `longhaul watch {}` waits for it",
                task.id,
                task.state_label(),
                task.id
            ),
        };
        let code = match crate::cli::error::exit_code_of(&task) {
            code::OK => code::TOOL_FAILED,
            code => code,
        };
        return Err(CliError::new(code, message));
    };
    if let Some(number) = which.block {
        return block(context, which, &task, &result, number);
    }
    if which.raw || which.out.is_some() {
        let bytes = if context.global.json {
            result
        } else {
            format::raw_result(&result)
        };
        match &which.out {
            Some(path) => write_file(path, bytes.as_bytes())?,
            None => context.terminal.raw(&bytes)?,
        }
    } else if context.global.json {
        context.terminal.print_pretty(documents::parsed(&result))?;
    } else {
        context.terminal.print_result(&format::result(&result))?;
        if let Some(number) = format::first_media_block(&result) {
            let id = &task.id;
            context.info(&format!(
                "save it: `longhaul result {id} --block {number} --out FILE`"
            ));
        }
    }
    Ok(code::OK)
}

/// Prints or saves one content block; `number` counts from 1.
fn block(
    context: &mut Context<'_>,
    which: &ResultArgs,
    task: &Task,
    result: &str,
    number: u32,
) -> CliResult {
    let index = usize::try_from(number).unwrap_or(usize::MAX) - 1;
    let Some(element) = content_element(result, index) else {
        return Err(CliError::usage(format!(
            "{} has no block {number}",
            task.id
        )));
    };
    let block = ContentBlock::parse(&element);
    let summary = block.message();
    let contents = if context.global.json {
        Cow::Owned(documents::pretty(&element).into_bytes())
    } else {
        block.contents().map_err(|why| {
            CliError::usage(format!("block {number} of {} is {summary}: {why}", task.id))
        })?
    };
    let is_media = matches!(block, ContentBlock::Media(_)) && !context.global.json;
    if let Some(path) = &which.out {
        write_file(path, &contents)?;
    } else if is_media && context.terminal.out_columns.is_some() {
        return Err(CliError::usage(format!(
            "block {number} of {} is {summary}, which a terminal can't show; save it with --out FILE",
            task.id
        )));
    } else if is_media {
        context.terminal.data(&contents)?;
    } else {
        context.terminal.raw(&String::from_utf8_lossy(&contents))?;
    }
    Ok(code::OK)
}

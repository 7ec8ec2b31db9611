//! `adopt`: adds tasks that exist on a server to the list.

mod checkpoints;
mod start;

use std::{io::Read as _, path::Path};

use itertools::Itertools as _;

use crate::{
    cli::{
        CliError, CliResult, Context, Targets,
        args::AdoptArgs,
        client_state::{ClientState, ClientStateError},
        commands::adopt::start::report_adopted,
        live_session::in_session,
    },
    domain::{SessionRequest, SessionResponse, text},
};

/// A state file holds a few tasks; a larger file is something else.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

/// `adopt`.
pub(in crate::cli) fn adopt(context: &mut Context<'_>, adopt: &AdoptArgs) -> CliResult {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let file = adopt.from.as_deref();
    let file = file.map(|path| read_tasks(context, path, adopt));
    let file = file.transpose()?;
    if file.is_some() || adopt.client_id.is_some() {
        return checkpoints::adopt_checkpoints(context, &mut reader, adopt, file);
    }
    let server = Targets::of(context, &mut reader)?.one()?;
    let name = server.name.clone();
    in_session(context, vec![server], async |context, live| {
        let request = SessionRequest::Adopt {
            server: name.clone(),
            server_task: adopt.server_task.clone(),
        };
        let ids = match live.request(context, request).await? {
            SessionResponse::Adopted(ids) => ids,
            _ => Vec::new(),
        };
        if ids.is_empty() {
            let message =
                format!("nothing to import: {name} lists no tasks that are new to this session");
            context.info(&message);
        }
        report_adopted(context, &mut reader, &ids)
    })
}

/// The tasks to continue of a client's state file.
fn read_tasks(context: &mut Context<'_>, path: &Path, args: &AdoptArgs) -> CliResult<ClientState> {
    let failed = |error: ClientStateError| {
        CliError::usage(format!("could not import from {}: {error}", path.display()))
    };
    let mut state = read_file(path).map_err(failed)?;
    if state.skipped > 0 {
        context.info(&format!(
            "skipped {} (finished, without a tool name, or duplicates)",
            text::plural(state.skipped, "task")
        ));
    }
    if let Some(id) = &args.server_task {
        let ids = state.tasks.iter().map(|task| &task.id).join(", ");
        state.tasks.retain(|task| task.id == *id);
        if state.tasks.is_empty() && !ids.is_empty() {
            let id = id.clone();
            return Err(failed(ClientStateError::NoTask { id, ids }));
        }
    }
    if let Some(task) = state.tasks.iter().find(|task| task.client_id.is_none()) {
        return Err(failed(ClientStateError::NoClientId(task.tool.clone())));
    }
    Ok(state)
}

fn read_file(path: &Path) -> Result<ClientState, ClientStateError> {
    let file = std::fs::File::open(path)?;
    if file.metadata().is_ok_and(|meta| meta.len() > FILE_BYTES) {
        return Err(ClientStateError::TooLarge);
    }
    ClientState::read(&std::io::read_to_string(file.take(FILE_BYTES))?)
}

//! The way to the screen.

use std::process::ExitCode;

use super::{Context, fail::Fail};

/// Opens the screen, on one task if one is named.
pub(super) fn open(context: &mut Context<'_>, id: Option<&str>) -> Result<ExitCode, Fail> {
    if let Some(id) = id {
        let mut reader = context.reader()?;
        context.find(&mut reader, id)?;
    }
    Err(Fail::usage(format!(
        "the screen needs a terminal; `longhaul{} ls` lists tasks, `watch ID` follows one in lines",
        context.flags()
    )))
}

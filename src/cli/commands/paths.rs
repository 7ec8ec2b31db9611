//! `paths`: where the files of a session are.

use serde_json::{Value, json};

use crate::{
    cli::{CliResult, Context, code},
    config,
};

/// `paths`.
pub(in crate::cli) fn paths(context: &mut Context<'_>) -> CliResult {
    let paths = &context.paths;
    let rows = [
        ("config", config::path().unwrap_or_default()),
        ("state", paths.dir.clone()),
        ("session", paths.db()),
        ("lock", paths.lock()),
        ("socket", paths.socket()),
        ("log", paths.log()),
        ("trace", paths.trace_dir()),
        ("logins", paths.logins()),
        ("demo", paths.demo_dir()),
    ];
    if context.global.json {
        let document: serde_json::Map<String, Value> = rows
            .iter()
            .map(|(key, path)| ((*key).to_owned(), json!(path.to_string_lossy())))
            .collect();
        return context.print_document(document);
    }
    for (key, path) in rows {
        context.print(&format!("{key:<8} {}", path.display()))?;
    }
    Ok(code::OK)
}

//! What leaving would do to a call, said before it is sent.

use crate::domain::{ArgumentKind, Price, ServerView, Tool};

/// The tools that stand beside a checkpoint tool; a `client_id` on one of them makes it none.
const COMPANIONS: [&str; 5] = [
    "pause_task",
    "list_session_tasks",
    "get_checkpoint_stats",
    "get_session_info",
    "cleanup_checkpoints",
];

/// Whether a tool follows the checkpoint convention: it takes a `client_id` of text, is no companion, and
/// `list_session_tasks` stands beside it.
pub fn is_checkpoint_tool(tool: &Tool, beside: &[Tool]) -> bool {
    !COMPANIONS.contains(&tool.name.as_str())
        && beside
            .iter()
            .any(|other| other.name == "list_session_tasks")
        && tool
            .arguments()
            .iter()
            .any(|spec| spec.name == "client_id" && spec.kind == ArgumentKind::Text)
}

/// The price of leaving right after the call, as far as it is known beforehand.
pub fn price_of(tool: &Tool, beside: &[Tool], server: Option<&ServerView>) -> Price {
    if is_checkpoint_tool(tool, beside) {
        return Price::Safe {
            why: "checkpoint on the server; reopening goes on from there".to_owned(),
        };
    }
    match server.and_then(|server| server.gives_ids) {
        Some(true) => Price::Likely {
            why: "its stream can be picked up again while the server keeps it".to_owned(),
            until: None,
        },
        Some(false) => Price::Dies {
            why: "this server gives its events no ids, so the result has no way back".to_owned(),
        },
        None => Price::Dies {
            why: "not seen yet whether this server lets a stream be picked up again".to_owned(),
        },
    }
}

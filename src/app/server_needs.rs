//! What a server needs from the user before it can be used, e.g. a sign-in: for the servers pane, for the row of a task
//! that waits for it, and for that task's details.

use crate::domain::{Connectivity, LinkState, ServerObstacle, ServerView, text};

use super::{State, TaskRow, keymap::Action};

/// What a server needs and what to do about it; `None` if it needs nothing.
pub fn server_needs(state: &State, server: &ServerView) -> Option<String> {
    let key = state.key(Action::SignIn);
    let name = text::shell_word(server.name.as_str());
    let flags = &state.setup.flags;
    let message = match (&server.obstacle, &server.state) {
        (Some(ServerObstacle::Approval), _) => format!(
            "this server needs your approval; press {key} to review it, or run `longhaul servers approve {name}{flags}`"
        ),
        (Some(ServerObstacle::Variables(names)), _) => {
            let (were, it) = match names.as_slice() {
                [_] => ("was", "it"),
                _ => ("were", "them"),
            };
            // Short enough for a task's details, which have three lines for it.
            format!(
                "this server needs ${}, which {were} not set when this screen opened; set {it}, then reopen the screen",
                names.join(", $")
            )
        }
        (None, LinkState::NeedsLogin { why, .. }) if server.state.takes_sign_in() => {
            format!("{why}; press {key} to sign in, or run `longhaul login {name}{flags}`")
        }
        (None, LinkState::NeedsLogin { why, .. } | LinkState::NotStarted { why, .. }) => {
            why.clone()
        }
        (None, _) => return None,
    };
    Some(message)
}

/// What a task waits for before it is sent, short enough for its row: `needs $LAB_TOKEN`, `needs approval: L`.
pub fn waits_for(state: &State, task_row: &TaskRow) -> Option<String> {
    if task_row.view.contact != Connectivity::NeedsLogin {
        return None;
    }
    let key = state.key(Action::SignIn);
    let server = state.server(&task_row.view.task.server)?;
    let message = match (&server.obstacle, &server.state) {
        (Some(obstacle @ ServerObstacle::Variables(_)), _) => obstacle.message(),
        (Some(obstacle), _) => format!("{}: {key}", obstacle.message()),
        (None, state) if state.takes_sign_in() => format!("needs sign-in: {key}"),
        (None, LinkState::NeedsLogin { .. }) => "needs credentials".to_owned(),
        (None, LinkState::NotStarted { .. }) => "its program is not running".to_owned(),
        (None, _) => return None,
    };
    Some(message)
}

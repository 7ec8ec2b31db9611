//! What a server wants of a person before it can be used, in words: for its own place, for the row of a task that waits
//! for it, and for the detail of that task.

use crate::domain::{Connectivity, LinkState, Obstacle, ServerView, text};

use super::{State, TaskRow, keymap::Action};

/// What a server wants and what to do about it, as a sentence; nothing where it wants nothing.
pub fn server_needs(state: &State, server: &ServerView) -> Option<String> {
    let key = state.key(Action::SignIn);
    let name = text::shell_word(server.name.as_str());
    let flags = &state.setup.flags;
    let message = match (&server.obstacle, &server.state) {
        (Some(Obstacle::Approval), _) => format!(
            "it is a stdio server that you have not approved; {key} shows what would be started, or longhaul servers approve {name}"
        ),
        (Some(Obstacle::Consent(names)), _) => format!(
            "nobody said that {} may go there; {key} shows what would be sent, or longhaul servers consent {name}",
            names.join(", ")
        ),
        (Some(Obstacle::Variables(names)), _) => {
            let (what, were, it) = match names.as_slice() {
                [_] => ("variable", "was", "it"),
                _ => ("variables", "were", "them"),
            };
            // Short enough for the detail of a task, which gives it three lines.
            format!(
                "it wants the {what} {}, which {were} not set when longhaul was started; restart it with {it}",
                names.join(", ")
            )
        }
        (
            None,
            LinkState::NeedsLogin {
                why,
                takes_sign_in: true,
            },
        ) => format!("{why}; {key} signs in, or longhaul login {name}{flags}"),
        (None, LinkState::NeedsLogin { why, .. } | LinkState::NotStarted { why, .. }) => {
            why.clone()
        }
        (None, _) => return None,
    };
    Some(text::clean_line(&message).into_owned())
}

/// What a task waits for before it is sent, as short as its row needs it: `needs $LAB_TOKEN`, `needs consent: L`.
pub fn waits_for(state: &State, task_row: &TaskRow) -> Option<String> {
    if task_row.view.contact != Connectivity::NeedsLogin {
        return None;
    }
    let key = state.key(Action::SignIn);
    let server = state.server(&task_row.view.task.server)?;
    let message = match (&server.obstacle, &server.state) {
        (Some(obstacle @ Obstacle::Variables(_)), _) => obstacle.message(),
        (Some(obstacle), _) => format!("{}: {key}", obstacle.message()),
        (
            None,
            LinkState::NeedsLogin {
                takes_sign_in: true,
                ..
            },
        ) => format!("needs sign-in: {key}"),
        (None, LinkState::NeedsLogin { .. }) => "needs credentials".to_owned(),
        (None, LinkState::NotStarted { .. }) => "its program is not started".to_owned(),
        (None, _) => return None,
    };
    Some(text::clean_line(&message).into_owned())
}

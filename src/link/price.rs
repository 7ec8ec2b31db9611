//! What leaving would do to a task, in the words that every place shows.

use crate::domain::{LinkRecord, Phase, Price, Status, Task, Tool};

use super::checkpoint;

/// The price of leaving a task, as far as its record tells; `None` once it is settled.
pub fn price_of_task(task: &Task) -> Option<Price> {
    let safe = |why: &str| {
        Some(Price::Safe {
            why: why.to_owned(),
        })
    };
    match &task.status {
        status if status.is_settled() => return None,
        Status::Unknown(_) => {
            return safe("nothing is connected; what became of it is for you to decide");
        }
        Status::Paused => return safe("paused; the checkpoint is on the server"),
        _ => {}
    }
    let Some(attempt) = task.attempt() else {
        return safe("nothing was sent yet");
    };
    let is_taken = attempt.phase >= Phase::Open || attempt.number > 1;
    Some(match attempt.phase {
        Phase::Queued if attempt.number == 1 => Price::Safe {
            why: "not sent yet; it is sent when longhaul runs again".to_owned(),
        },
        _ if task.resumability.checkpoint && is_taken => Price::Safe {
            why: match &task.progress {
                Some(progress) => format!(
                    "checkpoint on the server; reopening goes on from step {}",
                    crate::domain::text::amount(progress.value)
                ),
                None => "checkpoint on the server; reopening goes on from it".to_owned(),
            },
        },
        _ if attempt.cursors.newest.is_some() => likely(),
        Phase::Open if task.resumability.stream == Some(false) => Price::Dies { why: no_ids() },
        Phase::Open => Price::Dies {
            why: "no event id has come yet, so nothing of it could be found again".to_owned(),
        },
        _ => Price::Dies {
            why: "the server has not answered yet, so nothing of it could be found again"
                .to_owned(),
        },
    })
}

/// The price that a call of this tool will most likely have, for saying so before it is sent; `None` if not known yet.
pub fn price_of_call(tool: &Tool, tools: &[Tool], gives_ids: Option<bool>) -> Option<Price> {
    if checkpoint::is_checkpoint_tool(tool, tools) {
        return Some(Price::Safe {
            why: "the tool keeps a checkpoint on the server".to_owned(),
        });
    }
    match gives_ids {
        Some(true) => Some(likely()),
        Some(false) => Some(Price::Dies { why: no_ids() }),
        None => None,
    }
}

/// Whether it is known, before anything is sent, that leaving would end a call of this tool.
pub(super) fn is_known_to_die(tool: &Tool, record: &LinkRecord) -> bool {
    price_of_call(tool, &record.tools, record.gives_ids).is_some_and(|price| price.dies())
}

fn likely() -> Price {
    Price::Likely {
        why: "the server keeps the stream's events, for a time that it does not tell; idle sessions end".to_owned(),
        until: None,
    }
}

fn no_ids() -> String {
    "this server gives its events no ids, so the result would have no way back".to_owned()
}

//! The price of leaving: what ends when this program does.

use serde::{Deserialize, Serialize};

use super::{Phase, Status, Task, Tool, Wall, text};

/// What leaving would do to a running task; the same words everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Price {
    /// Nothing is lost.
    Safe {
        /// Why.
        why: String,
    },
    /// It can most likely be picked up again.
    Likely {
        /// Why only likely.
        why: String,
        /// Until when, where that is known.
        until: Option<Wall>,
    },
    /// It, or its result, is gone.
    Dies {
        /// Why.
        why: String,
    },
}

impl Price {
    /// The price of leaving a task, as far as its record tells; `None` once it is settled, and while it is
    /// unknown.
    pub fn of_task(task: &Task) -> Option<Self> {
        let safe = |why: &str| {
            Some(Self::Safe {
                why: why.to_owned(),
            })
        };
        match &task.status {
            status if status.is_settled() => return None,
            // Nothing is connected, and what became of it is for a person to decide.
            Status::Unknown(_) => return None,
            Status::Paused => return safe("paused; the checkpoint is on the server"),
            _ => {}
        }
        let Some(attempt) = task.attempt() else {
            return safe("nothing runs yet");
        };
        let is_taken = attempt.phase >= Phase::Open || attempt.number > 1;
        Some(match attempt.phase {
            Phase::Queued if attempt.number == 1 => Self::Safe {
                why: "it does not run yet; it is sent when longhaul runs again".to_owned(),
            },
            _ if task.resumability.checkpoint && is_taken => Self::Safe {
                why: match &task.progress {
                    Some(progress) => format!(
                        "checkpoint on the server; reopening goes on from step {}",
                        text::amount(progress.value)
                    ),
                    None => "checkpoint on the server; reopening goes on from it".to_owned(),
                },
            },
            _ if attempt.cursors.newest.is_some() => Self::likely(),
            Phase::Open if task.resumability.stream == Some(false) => Self::Dies { why: no_ids() },
            Phase::Open => Self::Dies {
                why: "no event id has come yet, so nothing of it could be found again".to_owned(),
            },
            _ => Self::Dies {
                why: "the server has not answered yet, so nothing of it could be found again"
                    .to_owned(),
            },
        })
    }

    /// The price of leaving right after a call of `tool`, as far as it is known before anything is sent. `gives_ids`:
    /// whether the server's streams were seen to carry event ids.
    pub fn of_call(tool: &Tool, beside: &[Tool], gives_ids: Option<bool>) -> Self {
        if tool.keeps_checkpoint(beside) {
            return Self::Safe {
                why: "the tool keeps a checkpoint on the server".to_owned(),
            };
        }
        match gives_ids {
            Some(true) => Self::likely(),
            Some(false) => Self::Dies { why: no_ids() },
            None => Self::Dies {
                why: "not seen yet whether this server lets a stream be picked up again".to_owned(),
            },
        }
    }

    fn likely() -> Self {
        Self::Likely {
            why: "the server keeps the stream's events, for a time that it does not tell; idle sessions end"
                .to_owned(),
            until: None,
        }
    }

    /// The word of the LEAVE column: only DIES shouts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Safe { .. } => "safe",
            Self::Likely { .. } => "likely",
            Self::Dies { .. } => "DIES",
        }
    }

    /// The reason in words.
    pub fn why(&self) -> &str {
        match self {
            Self::Safe { why } | Self::Likely { why, .. } | Self::Dies { why } => why,
        }
    }

    /// Whether leaving now would end it.
    pub fn dies(&self) -> bool {
        matches!(self, Self::Dies { .. })
    }
}

fn no_ids() -> String {
    "this server gives its events no ids, so the result would have no way back".to_owned()
}

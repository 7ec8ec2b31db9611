//! The price of leaving: what ends when this program does.

use serde::{Deserialize, Serialize};

use super::{
    Era, EraReason, Phase, ProtocolVersion, QuestionSource, ServerCapabilities, ServerTask, Status,
    Task, TaskKind, TaskSupport, Tool, Wall, text,
};

/// What leaving would do to a running task; the same words everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum LeaveImpact {
    /// Nothing is lost.
    Safe {
        /// Why.
        why: String,
    },
    /// The server stops it at a checkpoint, and it continues from there.
    Pauses {
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

impl LeaveImpact {
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
        if attempt.is_of_process && attempt.phase != Phase::Queued {
            return Some(Self::Dies { why: process() });
        }
        if let Some(server_task) = &task.server_task {
            return Some(Self::of_server_task(server_task));
        }
        let is_asked = |way: &QuestionSource| *way == QuestionSource::Round;
        if task.status == Status::InputRequired && task.questions.iter().any(|q| is_asked(&q.way)) {
            return safe("the server waits for your answer, and nothing runs");
        }
        let is_taken = attempt.phase >= Phase::Open || attempt.number > 1;
        Some(match attempt.phase {
            Phase::Queued if attempt.number == 1 || !task.resumability.checkpoint => Self::Safe {
                why: "it does not run yet; it is sent when longhaul runs again".to_owned(),
            },
            _ if task.resumability.checkpoint && is_taken => {
                let place = task.progress.as_ref().map_or("it".to_owned(), |progress| {
                    format!("step {}", text::amount(progress.value))
                });
                // A plain call of that era ends with its connection.
                if attempt.version.map(ProtocolVersion::era) == Some(Era::Modern) {
                    Self::Pauses {
                        why: format!(
                            "in MCP 2026-07-28 the call ends with its connection; reopening continues from {place}"
                        ),
                    }
                } else {
                    Self::Safe {
                        why: format!("checkpoint on the server; reopening goes on from {place}"),
                    }
                }
            }
            _ if attempt.version.map(ProtocolVersion::era) == Some(Era::Modern) => Self::Dies {
                why: modern_plain(),
            },
            _ if attempt.version == Some(ProtocolVersion::V20241105) => {
                Self::Dies { why: http_sse() }
            }
            _ if attempt.cursors.newest.is_some() => Self::likely(),
            Phase::Open if task.resumability.stream == Some(false) => Self::Dies { why: no_ids() },
            Phase::Open => Self::Dies {
                why: "no event id has come yet, so it could not be resumed".to_owned(),
            },
            _ => Self::Dies {
                why: "the server has not answered yet, so it could not be resumed".to_owned(),
            },
        })
    }

    /// As seen at this time: an end that has come is none to wait for any more.
    #[must_use]
    pub fn at(self, now: Wall) -> Self {
        match self {
            Self::Likely {
                until: Some(until), ..
            } if until <= now => Self::Likely {
                why: "server task; its retention period has expired".to_owned(),
                until: None,
            },
            price => price,
        }
    }

    /// The price of leaving right after a call of `tool`, as far as it is known before anything is sent.
    pub fn of_call(tool: &Tool, beside: &[Tool], capabilities: &ServerCapabilities) -> Self {
        if capabilities.is_process {
            return Self::Dies { why: process() };
        }
        let keeps_checkpoint = tool.keeps_checkpoint(beside, &capabilities.convention);
        let (era, reason) = capabilities.era_of(&tool.name, Some(tool), keeps_checkpoint);
        match era {
            Era::Modern if keeps_checkpoint && reason != EraReason::CanBeTask => {
                return Self::Pauses {
                    why: "in MCP 2026-07-28 the call ends with its connection; its checkpoint stays on the server"
                        .to_owned(),
                };
            }
            Era::Stateful if keeps_checkpoint => {
                return Self::Safe {
                    why: "the tool keeps a checkpoint on the server".to_owned(),
                };
            }
            Era::Modern => return Self::of_modern_call(tool, capabilities),
            Era::Stateful => {}
        }
        if capabilities.version == Some(ProtocolVersion::V20241105) {
            return Self::Dies { why: http_sse() };
        }
        if capabilities.tasks.is_some() && tool.task_support != TaskSupport::Forbidden {
            return Self::of_core_task(capabilities.binds_tasks, None);
        }
        match capabilities.gives_ids_of(&tool.name) {
            Some(true) => Self::likely(),
            Some(false) => Self::Dies { why: no_ids() },
            None => Self::Dies {
                why: "not seen yet whether this server lets a stream be picked up again".to_owned(),
            },
        }
    }

    fn of_modern_call(tool: &Tool, capabilities: &ServerCapabilities) -> Self {
        match capabilities.ran_as_task.get(&tool.name) {
            _ if !capabilities.has_extension() => Self::Dies { why: modern_plain() },
            Some(true) => Self::Safe {
                why: "the server made a task of this tool's last call".to_owned(),
            },
            Some(false) => Self::Dies {
                why: "the server made no task of this tool's last call, and leaving cancels a plain one"
                    .to_owned(),
            },
            None => Self::Dies {
                why: "the server decides whether this becomes a task, which would be safe; as a plain call leaving cancels it"
                    .to_owned(),
            },
        }
    }

    fn of_core_task(binds_tasks: Option<bool>, until: Option<Wall>) -> Self {
        if binds_tasks == Some(false) {
            return Self::Safe {
                why: "a task on the server, which outlives the server session".to_owned(),
            };
        }
        Self::Likely {
            why: "a task on the server; it may end with the server session".to_owned(),
            until,
        }
    }

    /// The price of leaving a server task that stands.
    fn of_server_task(task: &ServerTask) -> Self {
        match task.kind {
            TaskKind::Core => Self::of_core_task(task.is_bound.or(Some(true)), task.expires_at()),
            TaskKind::Extension => Self::Safe {
                why: "a task on the server; reopening asks for it by its id".to_owned(),
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
    pub fn label(&self) -> &'static str {
        match self {
            Self::Safe { .. } => "safe",
            Self::Pauses { .. } => "pauses",
            Self::Likely { .. } => "likely",
            Self::Dies { .. } => "DIES",
        }
    }

    /// The reason in words.
    pub fn why(&self) -> &str {
        match self {
            Self::Safe { why }
            | Self::Pauses { why }
            | Self::Likely { why, .. }
            | Self::Dies { why } => why,
        }
    }

    /// Whether leaving now would end it.
    pub fn dies(&self) -> bool {
        matches!(self, Self::Dies { .. })
    }
}

fn modern_plain() -> String {
    "a plain call in MCP 2026-07-28, and leaving cancels it".to_owned()
}

fn process() -> String {
    "its server is a process of this longhaul, and ends with it".to_owned()
}

fn http_sse() -> String {
    "this server speaks HTTP+SSE of 2024-11-05, which cannot be resumed".to_owned()
}

fn no_ids() -> String {
    "this server gives its events no ids, so the result would have no way back".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_has_come_is_not_promised() {
        let price = LeaveImpact::of_core_task(Some(true), Some(Wall(5_000)));
        assert_eq!(price.clone().at(Wall(4_999)), price);
        let LeaveImpact::Likely { why, until: None } = price.at(Wall(5_000)) else {
            panic!("it promises an end that has come");
        };
        assert!(why.contains("has expired"), "{why}");
    }
}

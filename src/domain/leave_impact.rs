//! Leave impact: what quitting longhaul would do to a running call.

use serde::{Deserialize, Serialize};

use super::{
    Era, EraReason, Phase, ProtocolVersion, QuestionSource, ServerCapabilities, ServerTask, Status,
    Task, TaskKind, TaskSupport, Tool, Wall, text,
};

/// What quitting would do to a task; every view and command uses the same values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum LeaveImpact {
    /// Nothing is lost.
    Safe {
        /// The reason, for the user.
        why: String,
    },
    /// The server stops it, and it can continue from a checkpoint.
    Pauses {
        /// The reason, for the user.
        why: String,
    },
    /// It can probably be resumed.
    Likely {
        /// Why that isn't certain.
        why: String,
        /// When it can no longer be resumed, if known.
        until: Option<Wall>,
    },
    /// The call or its result is lost.
    Dies {
        /// The reason, for the user.
        why: String,
    },
}

impl LeaveImpact {
    /// The impact on a task, judged by its record; `None` if the task has settled or is unknown.
    pub fn of_task(task: &Task) -> Option<Self> {
        let safe = |why: &str| {
            Some(Self::Safe {
                why: why.to_owned(),
            })
        };
        match &task.status {
            status if status.is_settled() => return None,
            // Not connected anyway, and the user has to decide what became of it.
            Status::Unknown(_) => return None,
            Status::Paused => return safe("paused; the server keeps the checkpoint"),
            _ => {}
        }
        let Some(attempt) = task.attempt() else {
            return safe("not started yet");
        };
        if attempt.is_of_process && attempt.phase != Phase::Queued {
            return Some(Self::Dies {
                why: ENDS_WITH_PROCESS.to_owned(),
            });
        }
        if let Some(server_task) = &task.server_task {
            return Some(Self::of_server_task(server_task));
        }
        let ended_the_call = |source: &QuestionSource| *source == QuestionSource::Round;
        if task.status == Status::InputRequired
            && task.questions.iter().any(|q| ended_the_call(&q.source))
        {
            return safe("waiting for your answer; nothing is running");
        }
        let was_received = attempt.phase >= Phase::Open || attempt.number > 1;
        Some(match attempt.phase {
            Phase::Queued if attempt.number == 1 || !task.resumability.checkpoint => Self::Safe {
                why: "not sent yet; longhaul sends it when you reopen it".to_owned(),
            },
            _ if task.resumability.checkpoint && was_received => {
                let position = task.progress.as_ref().map_or("it".to_owned(), |progress| {
                    format!("step {}", text::amount(progress.value))
                });
                if attempt.version.map(ProtocolVersion::era) == Some(Era::Modern) {
                    Self::Pauses {
                        why: format!(
                            "MCP 2026-07-28 ends the call with its connection; reopening continues from {position}"
                        ),
                    }
                } else {
                    Self::Safe {
                        why: format!(
                            "checkpoint on the server; reopening continues from {position}"
                        ),
                    }
                }
            }
            _ if attempt.version.map(ProtocolVersion::era) == Some(Era::Modern) => Self::Dies {
                why: MODERN_PLAIN_CALL.to_owned(),
            },
            _ if attempt.version == Some(ProtocolVersion::V20241105) => Self::Dies {
                why: HTTP_SSE.to_owned(),
            },
            _ if attempt.cursors.newest.is_some() => Self::likely(),
            Phase::Open if task.resumability.stream == Some(false) => Self::Dies {
                why: NO_EVENT_IDS.to_owned(),
            },
            Phase::Open => Self::Dies {
                why: "no event id received yet, so it can't be resumed".to_owned(),
            },
            _ => Self::Dies {
                why: "the server hasn't answered yet, so it can't be resumed".to_owned(),
            },
        })
    }

    /// The impact at `now`: an `until` in the past becomes an explanation that the retention period has expired.
    #[must_use]
    pub fn at(self, now: Wall) -> Self {
        match self {
            Self::Likely {
                until: Some(until), ..
            } if until <= now => Self::Likely {
                why: "server task; its retention period has expired".to_owned(),
                until: None,
            },
            other => other,
        }
    }

    /// The expected impact of quitting right after a call of `tool`, before anything is sent. `tools` are all tools of
    /// the server.
    pub fn of_call(tool: &Tool, tools: &[Tool], capabilities: &ServerCapabilities) -> Self {
        if capabilities.is_process {
            return Self::Dies {
                why: ENDS_WITH_PROCESS.to_owned(),
            };
        }
        let keeps_checkpoint = tool.keeps_checkpoint(tools, &capabilities.convention);
        let (era, reason) = capabilities.era_of(&tool.name, Some(tool), keeps_checkpoint);
        match era {
            Era::Modern if keeps_checkpoint && reason != EraReason::CanBeTask => {
                return Self::Pauses {
                    why: "MCP 2026-07-28 ends the call with its connection; the checkpoint stays on the server"
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
            return Self::Dies {
                why: HTTP_SSE.to_owned(),
            };
        }
        if capabilities.tasks.is_some() && tool.task_support != TaskSupport::Forbidden {
            return Self::of_core_task(capabilities.binds_tasks, None);
        }
        match capabilities.gives_ids_of(&tool.name) {
            Some(true) => Self::likely(),
            Some(false) => Self::Dies {
                why: NO_EVENT_IDS.to_owned(),
            },
            None => Self::Dies {
                why: "not known yet whether this server can resume streams".to_owned(),
            },
        }
    }

    fn of_modern_call(tool: &Tool, capabilities: &ServerCapabilities) -> Self {
        match capabilities.ran_as_task.get(&tool.name) {
            _ if !capabilities.has_extension() => Self::Dies {
                why: MODERN_PLAIN_CALL.to_owned(),
            },
            Some(true) => Self::Safe {
                why: "the last call of this tool ran as a server task".to_owned(),
            },
            Some(false) => Self::Dies {
                why: "the last call of this tool didn't run as a server task, and quitting cancels a plain call"
                    .to_owned(),
            },
            None => Self::Dies {
                why: "safe only if the server runs it as a task; quitting cancels a plain call"
                    .to_owned(),
            },
        }
    }

    fn of_core_task(binds_tasks: Option<bool>, until: Option<Wall>) -> Self {
        if binds_tasks == Some(false) {
            return Self::Safe {
                why: "server task that survives the end of its session".to_owned(),
            };
        }
        Self::Likely {
            why: "server task that may end with its session".to_owned(),
            until,
        }
    }

    fn of_server_task(task: &ServerTask) -> Self {
        match task.kind {
            TaskKind::Core => Self::of_core_task(task.is_bound.or(Some(true)), task.expires_at()),
            TaskKind::Extension => Self::Safe {
                why: "server task; reopening finds it by its id".to_owned(),
            },
        }
    }

    fn likely() -> Self {
        Self::Likely {
            why:
                "the server keeps the events for an unspecified time, and idle sessions can expire"
                    .to_owned(),
            until: None,
        }
    }

    /// The text of the LEAVE column.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Safe { .. } => "safe",
            Self::Pauses { .. } => "pauses",
            Self::Likely { .. } => "likely",
            Self::Dies { .. } => "DIES",
        }
    }

    /// The reason, for the user.
    pub fn why(&self) -> &str {
        match self {
            Self::Safe { why }
            | Self::Pauses { why }
            | Self::Likely { why, .. }
            | Self::Dies { why } => why,
        }
    }

    /// Whether quitting now would lose the call or its result.
    pub fn dies(&self) -> bool {
        matches!(self, Self::Dies { .. })
    }
}

const MODERN_PLAIN_CALL: &str = "plain call in MCP 2026-07-28; quitting cancels it";
const ENDS_WITH_PROCESS: &str =
    "longhaul runs this server's process, which ends when longhaul quits";
const HTTP_SSE: &str = "this server uses HTTP+SSE (2024-11-05), which can't be resumed";
const NO_EVENT_IDS: &str = "this server's events have no ids, so the stream can't be resumed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_a_deadline_that_has_passed() {
        let impact = LeaveImpact::of_core_task(Some(true), Some(Wall(5_000)));
        assert_eq!(impact.clone().at(Wall(4_999)), impact);
        let LeaveImpact::Likely { why, until: None } = impact.at(Wall(5_000)) else {
            panic!("it still has a deadline");
        };
        assert!(why.contains("has expired"), "{why}");
    }
}

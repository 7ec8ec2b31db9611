//! What is known of agents' hosts: when they give up on a call.

use core::time::Duration;

use crate::domain::PatienceChoice;

/// How long a host waits for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// It gives up after this time.
    After(Duration),
    /// It waits as long as progress comes.
    None,
}

/// How a host signals that it no longer waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cancels {
    /// A cancel may mean a timeout or a person, unless its reason says which.
    Unclear,
    /// The same, and some versions say nothing after a timeout, such as hosts on version 1 of the Python SDK.
    #[default]
    UnclearOrSilent,
    /// The reason of a cancel names a timeout; otherwise a person has stopped the call.
    NamesTimeouts,
    /// It says nothing after a timeout, and cancels only if a person stops the call.
    SilentTimeouts,
    /// It says nothing if a person stops the call, and names timeouts.
    SilentPerson,
}

impl Cancels {
    /// Whether a cancel that gives no reason means that a person has stopped the call.
    pub(super) fn are_by_person(self) -> bool {
        matches!(self, Self::NamesTimeouts | Self::SilentTimeouts)
    }

    /// Whether the host may give up without sending a cancellation.
    pub(super) fn may_be_silent(self) -> bool {
        matches!(
            self,
            Self::UnclearOrSilent | Self::SilentTimeouts | Self::SilentPerson
        )
    }
}

const fn after(seconds: u64) -> Limit {
    Limit::After(Duration::from_secs(seconds))
}

/// The names of hosts in their handshakes, their limits unless they are configured otherwise, and how they end a call.
const KNOWN: [(&str, Limit, Cancels); 10] = [
    // 30 minutes without progress, and a setting in its environment, see `limit_of`.
    ("claude-code", Limit::None, Cancels::NamesTimeouts),
    // Claude Desktop.
    ("claude-ai", after(60), Cancels::Unclear),
    ("codex-mcp-client", after(300), Cancels::UnclearOrSilent),
    ("Visual Studio Code", Limit::None, Cancels::NamesTimeouts),
    ("gemini-cli-mcp-client", after(600), Cancels::SilentPerson),
    ("goose", after(300), Cancels::NamesTimeouts),
    ("Zed", after(60), Cancels::SilentTimeouts),
    ("opencode", after(60), Cancels::Unclear),
    ("cursor-vscode", after(60), Cancels::UnclearOrSilent),
    // The default of the official Python SDK.
    ("mcp", after(60), Cancels::UnclearOrSilent),
];

/// The patience with a host that nothing is known of: its SDK most likely gives up after 60 s.
const UNKNOWN: Duration = Duration::from_secs(50);

/// A ticket comes after this part of the time that the host waits.
const PART_OF_LIMIT: f64 = 0.8;

/// The least patience that experience leads to.
pub(super) const LEAST: Duration = Duration::from_millis(500);

/// The variable in which Claude Code keeps its limit in milliseconds. It is in the environment of the servers it starts.
pub const CLAUDE_CODE_LIMIT: &str = "MCP_TOOL_TIMEOUT";

/// The limit of a host. `setting` is what [`CLAUDE_CODE_LIMIT`] holds.
pub(super) fn limit_of(name: &str, setting: Option<&str>) -> Option<Limit> {
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    set_limit(name, setting).or(known.map(|(_, limit, _)| *limit))
}

/// The limit that the user has set; 0 is none.
pub(super) fn set_limit(name: &str, setting: Option<&str>) -> Option<Limit> {
    let limit = setting.filter(|_| name == "claude-code")?;
    let limit = limit.trim().parse().ok().filter(|limit| *limit > 0)?;
    Some(Limit::After(Duration::from_millis(limit)))
}

/// How a host ends a call.
pub(super) fn cancels_of(name: &str) -> Cancels {
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    known.map(|(.., cancels)| *cancels).unwrap_or_default()
}

/// When a call gets a ticket whose host gives up after `limit`.
pub fn patience_before(limit: Duration) -> Duration {
    limit.mul_f64(PART_OF_LIMIT)
}

/// How long a call of this host is held before it gets a ticket; `None`: until its end. `seen`: the earliest time at which
/// it has given up before.
pub(super) fn patience(
    choice: PatienceChoice,
    limit: Option<Limit>,
    seen: Option<Duration>,
) -> Option<Duration> {
    let by_table = match (choice, limit) {
        (PatienceChoice::Fixed(patience), _) => Some(patience),
        (PatienceChoice::Unlimited, _) => return None,
        (PatienceChoice::ByHost, Some(Limit::None)) => None,
        (PatienceChoice::ByHost, Some(Limit::After(limit))) => Some(patience_before(limit)),
        (PatienceChoice::ByHost, None) => Some(UNKNOWN),
    };
    let by_experience = seen.map(|seen| patience_before(seen).max(LEAST));
    by_table.into_iter().chain(by_experience).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_before_the_host_gives_up() {
        let by_host =
            |name, setting| patience(PatienceChoice::ByHost, limit_of(name, setting), None);
        assert_eq!(by_host("claude-ai", None), Some(Duration::from_secs(48)));
        assert_eq!(by_host("somebody", None), Some(UNKNOWN));
        assert_eq!(by_host("claude-code", None), None);
        let set = by_host("claude-code", Some("5000"));
        assert_eq!(set, Some(Duration::from_secs(4)));
        for no_limit in ["soon", "0"] {
            assert_eq!(by_host("claude-code", Some(no_limit)), None);
        }
        let seen = Some(Duration::from_secs(5));
        let limit = limit_of("claude-code", None);
        let taught = patience(PatienceChoice::ByHost, limit, seen);
        assert_eq!(taught, Some(Duration::from_secs(4)));
        let fixed = PatienceChoice::Fixed(UNKNOWN);
        assert_eq!(patience(fixed, limit, None), Some(UNKNOWN));
        assert_eq!(patience(fixed, limit, seen), Some(Duration::from_secs(4)));
    }
}

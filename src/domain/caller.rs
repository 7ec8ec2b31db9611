//! Who made a call through `longhaul proxy`, and whether it has the result.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use super::{LogLevel, QuestionKind, Wall, millis, text};

/// The program behind `longhaul proxy` that made a call: an agent host, such as an editor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// `clientInfo.name` of its handshake; not sanitized.
    pub host: String,
    /// `clientInfo.version`; not sanitized.
    pub version: String,
    /// Its working directory.
    pub directory: String,
    /// What it can do for a server while the call runs.
    #[serde(default)]
    pub capabilities: HostCapabilities,
    /// The JSON-RPC id of its request, as JSON text.
    pub request_id: String,
    /// Its own name for the call, if it sends one in `_meta`. A repeated call has a new one.
    pub call_id: Option<String>,
    /// The other members of its `_meta`, as the text of a JSON object; they are sent with the call.
    pub meta: Option<String>,
    /// The parameters of its request that MCP doesn't define, as the text of a JSON object; they are sent with the call.
    #[serde(default)]
    pub other_params: Option<String>,
    /// When and why it last stopped waiting without a result.
    pub gave_up: Option<GaveUp>,
    /// After how many milliseconds it gave up because of its own limit, at the earliest.
    pub timeout_ms: Option<u64>,
    /// How many more times it made the same call and was attached to this one.
    #[serde(default)]
    pub repeats: u32,
    /// When it got the result.
    pub delivered_at: Option<Wall>,
    /// For how many milliseconds after its end the result can be collected.
    #[serde(default = "Caller::default_keep_ms")]
    pub keep_ms: u64,
}

/// A host as servers see it: `clientInfo` and capabilities. Not sanitized.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostProfile {
    /// `clientInfo.name`.
    pub name: String,
    /// `clientInfo.version`.
    pub version: String,
    /// Its working directory, which servers don't see.
    #[serde(default)]
    pub directory: String,
    /// What it can do for a server.
    pub capabilities: HostCapabilities,
    /// Whether it is of the modern era, in which a host is asked something only during its own requests.
    #[serde(default)]
    pub is_modern: bool,
    /// The URIs of the resources that it has subscribed to.
    #[serde(default)]
    pub resources: BTreeSet<String>,
    /// The least severe log messages that it has asked for.
    pub log_level: Option<LogLevel>,
    /// Whether it may know the lists of the server from an earlier driver.
    #[serde(default)]
    pub knows_lists: bool,
}

impl HostProfile {
    /// Whether it can be asked at any time for the directories that it works in.
    pub fn lists_roots(&self) -> bool {
        !self.is_modern && self.capabilities.can_answer(QuestionKind::Roots)
    }
}

/// What a host can do for a server: its declared client capabilities, without tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostCapabilities(pub Map<String, Value>);

impl HostCapabilities {
    /// Whether it can answer a request of this kind.
    pub fn can_answer(&self, kind: QuestionKind) -> bool {
        self.0.contains_key(match kind {
            QuestionKind::Elicitation => "elicitation",
            QuestionKind::Sampling => "sampling",
            QuestionKind::Roots => "roots",
        })
    }

    /// Adds what another host can do that this one can't.
    pub fn extend(&mut self, other: &Self) {
        for (key, value) in &other.0 {
            self.0.entry(key).or_insert_with(|| value.clone());
        }
    }

    /// Whether it can do all that another host can.
    pub fn includes(&self, other: &Self) -> bool {
        other.0.keys().all(|key| self.0.contains_key(key))
    }
}

/// A caller that stopped waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GaveUp {
    /// When.
    pub at: Wall,
    /// After how many milliseconds of waiting.
    pub after_ms: u64,
    /// Why.
    pub why: GaveUpReason,
}

/// Why a caller stopped waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GaveUpReason {
    /// It got a ticket instead of the result.
    Ticket,
    /// It cancelled its request, with this reason.
    Cancelled(String),
    /// It ended.
    Ended,
}

impl Caller {
    /// The host as servers see it.
    pub fn profile(&self) -> HostProfile {
        HostProfile {
            name: self.host.clone(),
            version: self.version.clone(),
            capabilities: self.capabilities.clone(),
            ..HostProfile::default()
        }
    }

    /// Notes what became of the call.
    pub fn note(&mut self, how: &Collected, now: Wall) {
        match how {
            Collected::Delivered => self.delivered_at = Some(now),
            Collected::PartlyRead => {}
            Collected::TimedOut { after_ms } => {
                let earliest = self.timeout_ms.unwrap_or(u64::MAX);
                self.timeout_ms = Some(earliest.min(*after_ms));
            }
            Collected::GaveUp { after_ms, why } => {
                self.gave_up = Some(GaveUp {
                    at: now,
                    after_ms: *after_ms,
                    why: why.clone(),
                });
            }
            Collected::Repeated { request_id } => {
                self.repeats = self.repeats.saturating_add(1);
                self.request_id.clone_from(request_id);
                self.gave_up = None;
            }
        }
    }

    /// Host and directory for a narrow column: `claude-code app`. Not sanitized.
    pub fn label(&self) -> String {
        format!("{} {}", self.host, self.directory_name())
    }

    /// Who it is: `claude-code 2.1.197 in /home/ada/app, request 4`. Not sanitized.
    pub fn who(&self) -> String {
        let space = if self.version.is_empty() { "" } else { " " };
        format!(
            "{}{space}{} in {}, request {}",
            self.host, self.version, self.directory, self.request_id
        )
    }

    /// What has become of the call for it: `got a ticket after 48s, not collected yet`. Not sanitized.
    pub fn progress(
        &self,
        settled_at: Option<Wall>,
        now: Wall,
        clock: impl Fn(Wall) -> String,
    ) -> String {
        let waited = |gave_up: &GaveUp| text::span(Duration::from_millis(gave_up.after_ms));
        let mut parts = Vec::new();
        if self.repeats > 0 {
            let times = text::plural(u64::from(self.repeats), "time");
            parts.push(format!("repeated {times}, run once"));
        }
        if let Some(gave_up) = &self.gave_up {
            let after = waited(gave_up);
            parts.push(match &gave_up.why {
                GaveUpReason::Ticket => format!("got a ticket after {after}"),
                GaveUpReason::Ended => format!("ended after {after}"),
                GaveUpReason::Cancelled(reason) if reason.is_empty() => {
                    format!("gave up after {after}")
                }
                GaveUpReason::Cancelled(reason) => format!("gave up after {after} ({reason})"),
            });
        }
        match self.delivered_at {
            Some(at) => parts.push(format!("received the result at {}", clock(at))),
            None if self.is_expired(settled_at, now) => {
                let keep = text::span(Duration::from_millis(self.keep_ms));
                parts.push(format!("did not collect the result within {keep}"));
            }
            None if settled_at.is_some() => parts.push("has not collected the result".to_owned()),
            None if self.gave_up.is_none() => parts.push("waiting".to_owned()),
            None => {}
        }
        parts.join(", ")
    }

    /// The last part of its working directory.
    fn directory_name(&self) -> &str {
        let mut parts = self.directory.rsplit('/');
        parts.find(|part| !part.is_empty()).unwrap_or("/")
    }

    /// How long a result can be collected, unless the configuration says otherwise.
    pub const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

    fn default_keep_ms() -> u64 {
        millis(Self::KEEP)
    }

    /// Whether a result of a call that has settled then still waits for it.
    pub fn is_owed(&self, settled_at: Option<Wall>, now: Wall) -> bool {
        settled_at.is_some() && self.delivered_at.is_none() && !self.is_expired(settled_at, now)
    }

    /// Whether a result was not collected in time.
    pub fn is_expired(&self, settled_at: Option<Wall>, now: Wall) -> bool {
        self.delivered_at.is_none() && self.is_late(settled_at, now)
    }

    /// Whether it is too late to collect a result.
    pub fn is_late(&self, settled_at: Option<Wall>, now: Wall) -> bool {
        let keep = Duration::from_millis(self.keep_ms);
        settled_at.is_some_and(|settled_at| now.since(settled_at) > keep)
    }

    /// Whether it is this program in this directory.
    pub fn is_host(&self, name: &str, directory: &str) -> bool {
        self.host == name && self.directory == directory
    }
}

/// What became of a call for its caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collected {
    /// It has the result.
    Delivered,
    /// It has read a part of the result, but not the end.
    PartlyRead,
    /// It gave up because of its own limit.
    TimedOut {
        /// After how many milliseconds of waiting.
        after_ms: u64,
    },
    /// It made the same call again, and waits for this one.
    Repeated {
        /// The JSON-RPC id of its new request, as JSON text.
        request_id: String,
    },
    /// It stopped waiting.
    GaveUp {
        /// After how many milliseconds of waiting.
        after_ms: u64,
        /// Why.
        why: GaveUpReason,
    },
}

/// A server as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// The negotiated MCP revision.
    pub version: super::ProtocolVersion,
    /// The result of `initialize` or `server/discover`, verbatim JSON.
    pub result: String,
    /// After how many milliseconds this host, in this version, has given up at the earliest.
    pub timeout_ms: Option<u64>,
}

/// A request of a host that is not a tool call, for its server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRequest {
    /// The method.
    pub method: String,
    /// Its parameters, the text of a JSON object.
    pub params: String,
    /// The host. Its capabilities are those that it can use for this request.
    pub host: Box<HostProfile>,
    /// Names it in [`SessionRequest::CancelForward`](super::SessionRequest::CancelForward), and is its progress token.
    /// Unique; empty if no host waits for the response.
    #[serde(default)]
    pub key: String,
    /// Whether the host sent a progress token.
    #[serde(default)]
    pub wants_progress: bool,
}

impl HostRequest {
    /// Whether a server may ask something before it answers.
    pub fn may_ask(&self) -> bool {
        let method = self.method.as_str();
        let is_asked = !self.key.is_empty() && method != "logging/setLevel";
        is_asked && !method.ends_with("/list") && !method.ends_with("subscribe")
    }

    /// The process of the host that made it; all its keys begin with this.
    pub fn process(&self) -> &str {
        self.key.rsplit_once('-').map_or("", |(process, _)| process)
    }
}

/// The outcome of a request that was passed on to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forwarded {
    /// Its result, verbatim JSON.
    Result(String),
    /// Its JSON-RPC error object.
    Error(String),
}

impl Forwarded {
    /// The JSON of either.
    pub fn json(&self) -> &str {
        let (Self::Result(json) | Self::Error(json)) = self;
        json
    }
}

/// The text of arguments in a form in which equal ones have equal text.
pub fn canonical_arguments(arguments: &str) -> Option<String> {
    fn canonical(raw: &RawValue) -> Option<Box<RawValue>> {
        let text = raw.get();
        let canonical = match text.as_bytes().first()? {
            b'{' => {
                let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
                let members = members.into_iter();
                let members = members.map(|(key, value)| Some((key, canonical(value)?)));
                serde_json::to_string(&members.collect::<Option<BTreeMap<_, _>>>()?)
            }
            b'[' => {
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                let items = items.into_iter().map(canonical);
                serde_json::to_string(&items.collect::<Option<Vec<_>>>()?)
            }
            _ => match serde_json::from_str(text).ok()? {
                // A whole number with more digits than a float holds stays as it is.
                Value::Number(number) if number.is_f64() && text.contains(['.', 'e', 'E']) => {
                    serde_json::to_string(&json_number(number.as_f64()?))
                }
                Value::Number(_) => return Some(raw.to_owned()),
                other => serde_json::to_string(&other),
            },
        };
        RawValue::from_string(canonical.ok()?).ok()
    }
    let canonical = canonical(serde_json::from_str(arguments).ok()?)?;
    Some(Box::<str>::from(canonical).into_string())
}

/// A number as most programs write it: a whole one without a fraction.
pub fn json_number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within 2^53")]
        return Value::from(value as i64);
    }
    Value::from(value)
}

#[cfg(test)]
impl Caller {
    /// A caller that has not collected its result.
    pub(crate) fn of_test() -> Self {
        Self {
            host: "codex".to_owned(),
            version: String::new(),
            directory: "/home/ada/app/".to_owned(),
            capabilities: HostCapabilities::default(),
            request_id: "7".to_owned(),
            call_id: None,
            meta: None,
            other_params: None,
            gave_up: None,
            timeout_ms: None,
            repeats: 0,
            delivered_at: None,
            keep_ms: 60_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_has_become_of_a_call() {
        let mut caller = Caller::of_test();
        let now = Wall(59_999);
        let told =
            |caller: &Caller, settled_at| caller.progress(settled_at, now, |_| "noon".to_owned());
        assert_eq!(
            (caller.label().as_str(), &*told(&caller, None)),
            ("codex app", "waiting")
        );
        let gave_up = |after_ms, why| Collected::GaveUp { after_ms, why };
        caller.note(&gave_up(48_000, GaveUpReason::Ticket), Wall(1));
        assert_eq!(told(&caller, None), "got a ticket after 48 s");
        let request_id = "8".to_owned();
        caller.note(&Collected::Repeated { request_id }, Wall(2));
        caller.note(
            &gave_up(5_000, GaveUpReason::Cancelled("late".to_owned())),
            Wall(3),
        );
        let expected =
            "repeated 1 time, run once, gave up after 5 s (late), has not collected the result";
        assert_eq!(told(&caller, Some(Wall(0))), expected);
        assert!(caller.is_owed(Some(Wall(0)), now) && !caller.is_owed(None, now));
        assert!(told(&caller, Some(Wall(-2))).ends_with("did not collect the result within 1 min"));
        assert!(!caller.is_owed(Some(Wall(-2)), now));
        caller.note(&Collected::Delivered, Wall(4));
        assert!(told(&caller, Some(Wall(0))).ends_with("received the result at noon"));
        assert!(!caller.is_owed(Some(Wall(0)), now));
    }

    #[test]
    fn equal_arguments_have_one_form() {
        assert_eq!(
            canonical_arguments(r#"{"b":[{"y":1,"x":2}],"a":"1"}"#),
            canonical_arguments(r#"{ "a": "1", "b": [{"x":2, "y":1}] }"#)
        );
        assert_ne!(
            canonical_arguments(r#"{"a":[1,2]}"#),
            canonical_arguments(r#"{"a":[2,1]}"#)
        );
        assert_ne!(
            canonical_arguments(r#"{"a":1}"#),
            canonical_arguments(r#"{"a":"1"}"#)
        );
        let wei = |last| canonical_arguments(&format!(r#"{{"wei":118059162071741130342{last}}}"#));
        assert_ne!(wei(4), wei(5));
        assert_eq!(
            canonical_arguments(r#"{"a":2.0,"b":"\u0041"}"#),
            canonical_arguments(r#"{"a":2,"b":"A"}"#)
        );
    }
}

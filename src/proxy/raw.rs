//! JSON objects whose members stay as they were written: a [`serde_json::Value`] does not hold every number.

use core::fmt;
use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The members of a JSON object, in their order, with the text of each value. Of equal names only the last one passes:
/// another program might take the first.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct RawMembers(IndexMap<String, Box<RawValue>>);

impl RawMembers {
    /// `None` if it isn't an object.
    pub(super) fn parse(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// The text of a member.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|value| value.get())
    }

    /// Replaces a member, or adds it. `json` is the text of a value.
    pub(super) fn set(&mut self, key: &str, json: &str) {
        self.remove(key);
        if let Ok(value) = RawValue::from_string(json.to_owned()) {
            self.0.insert(key.to_owned(), value);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&str) -> bool) {
        self.0.retain(|key, _| is_kept(key));
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.0.shift_remove(key);
    }
}

/// As JSON.
impl fmt::Display for RawMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// The members of an object by their names.
pub(super) type MembersByName<'t> = BTreeMap<String, &'t RawValue>;

/// The text that a member of an object stands for, if it is a string.
pub(super) fn text(json: &str, key: &str) -> Option<String> {
    serde_json::from_str(member(json, key)?).ok()
}

/// The members of an object; none if it isn't one.
pub(super) fn members(json: Option<&str>) -> MembersByName<'_> {
    json.and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_default()
}

/// The progress token in parameters, which are JSON text.
pub(super) fn progress_token(params: &str) -> Option<&str> {
    member(member(params, "_meta")?, "progressToken")
}

/// The text of a member of an object; `None` if it is absent or null.
pub(super) fn member<'t>(json: &'t str, key: &str) -> Option<&'t str> {
    let members: MembersByName<'t> = serde_json::from_str(json).ok()?;
    let value = members.get(key)?.get();
    (value != "null").then_some(value)
}

//! JSON objects whose members stay as they were written: a [`serde_json::Value`] does not hold every number.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The members of a JSON object, in their order, with the text of each value.
#[derive(Default)]
pub(super) struct RawMembers(Vec<(String, Box<RawValue>)>);

impl RawMembers {
    /// `None` if it isn't an object.
    pub(super) fn parse(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// The text of a member.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let member = self.0.iter().find(|(name, _)| name == key);
        member.map(|(_, value)| value.get())
    }

    /// Replaces a member, or adds it. `json` is the text of a value.
    pub(super) fn set(&mut self, key: &str, json: &str) {
        self.remove(key);
        if let Ok(value) = RawValue::from_string(json.to_owned()) {
            self.0.push((key.to_owned(), value));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.0.retain(|(name, _)| name != key);
    }
}

/// As JSON.
impl fmt::Display for RawMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for RawMembers {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for RawMembers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMembers, A::Error> {
                let mut members: Vec<(String, Box<RawValue>)> = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                // Of equal names only the last one passes: another program might take the first.
                let mut names = BTreeSet::new();
                members.reverse();
                members.retain(|(name, _)| names.insert(name.clone()));
                members.reverse();
                Ok(RawMembers(members))
            }
        }
        from.deserialize_map(Members)
    }
}

/// The members of an object by their names.
pub(super) type MembersByName<'t> = BTreeMap<String, &'t RawValue>;

/// The text of a member of an object; `None` if it is absent or null.
pub(super) fn member<'t>(json: &'t str, key: &str) -> Option<&'t str> {
    let members: MembersByName<'t> = serde_json::from_str(json).ok()?;
    let value = members.get(key)?.get();
    (value != "null").then_some(value)
}

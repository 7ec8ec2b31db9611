//! The clients that pass calls on for other programs (`longhaul proxy`): what they listen to and what they wait for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::{
    domain::{Caller, Collected, NewCall, ServerName, Status, Task, TaskId},
    engine::snapshots::{ReaderId, Snapshots},
};

/// What proxies listen to and wait for.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    /// Whose notifications each of them passes on.
    listeners: BTreeMap<ReaderId, ServerName>,
    /// The proxy that waits for the result of each call.
    collectors: BTreeMap<TaskId, ReaderId>,
    /// The calls of proxies whose results nobody has got.
    undelivered: BTreeSet<TaskId>,
}

impl Proxies {
    /// Notes the calls of a session that is opened.
    pub(super) fn restore<'t>(&mut self, tasks: impl Iterator<Item = &'t Task>) {
        let is_undelivered = |caller: &Caller| caller.delivered_at.is_none();
        let open = tasks.filter(|task| task.caller.as_deref().is_some_and(is_undelivered));
        self.undelivered.extend(open.map(|task| task.id.clone()));
    }

    /// A proxy waits for the result of a call.
    pub(super) fn collects(&mut self, id: &TaskId, reader: ReaderId) {
        self.undelivered.insert(id.clone());
        self.collectors.insert(id.clone(), reader);
    }

    /// A proxy reports what became of a call.
    pub(super) fn collected(&mut self, id: &TaskId, how: &Collected) {
        match how {
            Collected::Delivered => {
                self.collectors.remove(id);
                self.undelivered.remove(id);
            }
            Collected::GaveUp { .. } => {
                self.collectors.remove(id);
            }
            Collected::TimedOut { .. } | Collected::Repeated { .. } => {}
        }
    }

    /// Whether a proxy waits for a result.
    pub(super) fn are_waiting(&self) -> bool {
        !self.collectors.is_empty()
    }

    /// A proxy passes the notifications of a server on.
    pub(super) fn listens(&mut self, server: &ServerName, reader: ReaderId) {
        self.listeners.insert(reader, server.clone());
    }

    /// Whether a proxy passes the notifications of a server on.
    pub(super) fn has_listener(&self, server: &ServerName) -> bool {
        self.listeners.values().any(|name| name == server)
    }

    /// Forgets the proxies that have gone.
    pub(super) fn forget_gone(&mut self, snapshots: &Snapshots) {
        self.listeners.retain(|reader, _| snapshots.has(*reader));
        self.collectors.retain(|_, reader| snapshots.has(*reader));
    }

    /// The readers of a notification: the proxy that waits for the call, or all that listen to the server.
    pub(super) fn readers(&self, server: &ServerName, task: Option<&TaskId>) -> Vec<ReaderId> {
        if let Some(task) = task {
            return self.collectors.get(task).copied().into_iter().collect();
        }
        let listeners = self.listeners.iter().filter(|(_, name)| *name == server);
        listeners.map(|(reader, _)| *reader).collect()
    }

    /// The call that this one repeats: the same host asked the same before, gave up, and never got the result.
    pub(super) fn repeated(&self, call: &NewCall, snapshots: &Snapshots) -> Option<TaskId> {
        let caller = call.caller.as_deref()?;
        let arguments = canonical(&call.arguments);
        let is_same = |task: &Task| {
            let is_host = |other: &Caller| caller.is_same_host(other);
            task.server == call.server
                && task.tool == call.tool
                && task.caller.as_deref().is_some_and(is_host)
                && task.forgotten_at.is_none()
                && canonical(&task.arguments) == arguments
        };
        let free = self
            .undelivered
            .iter()
            .filter(|id| !self.collectors.contains_key(*id));
        let views = free.filter_map(|id| snapshots.task(id));
        let newest = views
            .filter(|view| is_same(&view.task) && view.task.status != Status::Cancelled)
            .max_by_key(|view| view.task.created_at);
        newest.map(|view| view.task.id.clone())
    }
}

/// Arguments in a form in which equal ones have equal text.
fn canonical(arguments: &str) -> Option<String> {
    fn sorted(value: Value) -> Value {
        match value {
            Value::Object(members) => {
                let members: BTreeMap<String, Value> = members.into_iter().collect();
                let members = members.into_iter().map(|(key, value)| (key, sorted(value)));
                Value::Object(members.collect::<Map<_, _>>())
            }
            Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
            other => other,
        }
    }
    let value = serde_json::from_str(arguments).ok()?;
    Some(sorted(value).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_arguments_have_one_form() {
        assert_eq!(
            canonical(r#"{"b":[{"y":1,"x":2}],"a":"1"}"#),
            canonical(r#"{ "a": "1", "b": [{"x":2, "y":1}] }"#)
        );
        assert_ne!(canonical(r#"{"a":[1,2]}"#), canonical(r#"{"a":[2,1]}"#));
        assert_ne!(canonical(r#"{"a":1}"#), canonical(r#"{"a":"1"}"#));
    }
}

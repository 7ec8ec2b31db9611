//! What a server keeps for its host: the resources that it has subscribed to, and the level of its log messages. Hosts
//! share a connection, and a connection can be replaced, so the driver has to know both.

use serde_json::{Value, json};

use super::{Asked, Members, Proxy};
use crate::{
    domain::{HostRequest, SessionRequest},
    proxy::era,
};

/// The most subscriptions of one host that outlive a connection.
const RESOURCES: usize = 1000;

impl Proxy {
    /// Notes what a request of the host changes there.
    pub(super) fn note_server_state(&mut self, method: &str, params: &Members) {
        let uri = params.get("uri").and_then(Value::as_str);
        let resources = &mut self.host.profile.resources;
        let has_changed = match (method, uri) {
            ("resources/subscribe", Some(uri)) => {
                resources.len() < RESOURCES && resources.insert(uri.to_owned())
            }
            ("resources/unsubscribe", Some(uri)) => resources.remove(uri),
            ("logging/setLevel", _) => {
                self.host.log_level = params.get("level").and_then(era::log_level);
                true
            }
            _ => false,
        };
        if has_changed {
            self.ask(Asked::Introduce(None), self.introduce());
        }
    }

    /// Tells a server of the other era which log messages the host wants; less severe ones are dropped.
    pub(super) fn send_level(&mut self) {
        if self.sent_level == self.host.log_level || self.is_server_modern() {
            return;
        }
        let offered = self.introduction.as_ref();
        if offered.is_some_and(|it| it.result.contains("\"logging\"")) {
            self.sent_level = self.host.log_level;
            self.ask(Asked::Introduce(None), self.introduce());
            self.repeat_level();
        }
    }

    /// Sends both to the server again: a new driver does not know which connection has received them.
    pub(super) fn repeat_server_state(&mut self) {
        if !self.is_server_modern() {
            self.repeat_level();
            for uri in self.host.profile.resources.clone() {
                self.note_to_server("resources/subscribe", &json!({"uri": uri}));
            }
        }
    }

    fn repeat_level(&mut self) {
        if let Some(level) = self.host.log_level {
            self.note_to_server("logging/setLevel", &json!({"level": level.label()}));
        }
    }

    /// Sends a request whose response does not matter.
    fn note_to_server(&mut self, method: &str, params: &Value) {
        let request = SessionRequest::Forward {
            server: self.options.server.clone(),
            request: HostRequest {
                method: method.to_owned(),
                params: params.to_string(),
                host: Box::new(self.host.profile.clone()),
                ..HostRequest::default()
            },
        };
        self.ask(Asked::Note, request);
    }
}

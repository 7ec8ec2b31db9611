//! An agent's host that runs `longhaul proxy` in place of a server.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    fmt::Display,
    io::Write as _,
    path::Path,
    process::{ChildStdin, Stdio},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{kept::Kept, program::Running};

pub(crate) struct AgentHost {
    proxy: Running,
    /// `None` once the host has closed it.
    input: Option<ChildStdin>,
    next_id: u64,
    /// Messages that were read while another one was waited for.
    unread: Vec<Value>,
    /// The result of its `initialize`.
    pub(crate) handshake: Value,
}

impl AgentHost {
    /// Starts the proxy with these arguments and shakes hands, with these capabilities.
    pub(crate) fn start(kept: &Kept, arguments: &[&str], capabilities: &Value) -> Self {
        Self::start_as("test-host", kept, arguments, capabilities)
    }

    /// The same as a host of this name.
    pub(crate) fn start_as(
        name: &str,
        kept: &Kept,
        arguments: &[&str],
        capabilities: &Value,
    ) -> Self {
        let mut host = Self::connect(kept, arguments);
        host.shake_hands(name, capabilities);
        host
    }

    /// The same in a directory that other hosts are not in.
    pub(crate) fn start_in(directory: &Path, kept: &Kept, arguments: &[&str]) -> Self {
        let mut host = Self::connect_in(directory, kept, arguments);
        host.shake_hands("test-host", &json!({}));
        host
    }

    fn shake_hands(&mut self, name: &str, capabilities: &Value) {
        let info = json!({"name": name, "version": "1"});
        let handshake = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        self.handshake = self.request("initialize", &handshake)["result"].take();
        self.notify("notifications/initialized", &json!({}));
    }

    /// Starts the proxy with these arguments.
    pub(crate) fn connect(kept: &Kept, arguments: &[&str]) -> Self {
        Self::connect_in(kept.path(), kept, arguments)
    }

    fn connect_in(directory: &Path, kept: &Kept, arguments: &[&str]) -> Self {
        let arguments = [&["proxy"], arguments].concat();
        let mut command = kept.command(&arguments);
        command.stdin(Stdio::piped()).current_dir(directory);
        let mut proxy = Running::start(&mut command);
        let input = proxy.take_input();
        Self {
            proxy,
            input,
            next_id: 0,
            unread: Vec::new(),
            handshake: Value::Null,
        }
    }

    pub(crate) fn send(&mut self, message: &impl Display) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn start_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
        self.ask("tools/call", &params)
    }

    /// Waits for a message.
    pub(crate) fn wait(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.unread.iter().position(&wanted) {
            return self.unread.remove(place);
        }
        loop {
            let message = self.proxy.prints(|_| true);
            if wanted(&message) {
                return message;
            }
            self.unread.push(message);
        }
    }

    /// Whether there was such a message before the last one that was waited for.
    pub(crate) fn got(&self, method: &str) -> bool {
        self.unread
            .iter()
            .any(|message| message["method"] == method)
    }

    /// Waits for the response to a request.
    pub(crate) fn response(&mut self, id: u64) -> Value {
        self.wait(|message| message["id"] == id && message.get("method").is_none())
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.response(id)
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.start_call(tool, arguments);
        self.response(id)["result"].take()
    }

    pub(crate) fn kill(self) {
        self.proxy.signal(Signal::KILL);
        self.proxy.end();
    }

    /// Closes the proxy's stdin and waits for its end.
    pub(crate) fn close(mut self) {
        drop(self.input.take());
        let ran = self.proxy.end();
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
}

/// The id in a ticket.
pub(crate) fn ticket(result: &Value) -> String {
    let id = text(result).strip_prefix("Still running as ");
    let id = id.and_then(|rest| rest.split(':').next());
    id.unwrap_or_else(|| panic!("no ticket: {result}"))
        .to_owned()
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text: {result}"))
}

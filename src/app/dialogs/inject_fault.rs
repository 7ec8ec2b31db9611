//! The dialog to inject a fault into the demo.

use crate::app::{Command, Dialog, MenuAction, MenuItem};

/// The key, the label and the command of each fault.
const FAULTS: [(char, &str, &str); 6] = [
    ('c', "cut the network for 5 s", "cut 5"),
    ('r', "restart the server", "restart"),
    ('s', "stall connections: send nothing for 5 s", "stall"),
    ('d', "close the connection after the next event", "drop"),
    ('u', "send events twice at the next resume", "duplicate"),
    ('f', "forget all MCP sessions", "forget"),
];

pub(in crate::app) fn dialog() -> Dialog {
    let body = "Breaks the demo server or its connection on purpose.";
    let items = FAULTS.map(|(key, label, fault)| {
        MenuItem::new(
            key,
            label,
            MenuAction::Command(Command::InjectFault(fault.to_owned())),
        )
    });
    Dialog::new("Inject a fault", [body], items.to_vec()).harmless()
}

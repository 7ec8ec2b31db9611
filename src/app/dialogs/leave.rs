//! The dialog before quitting would end or endanger calls.

use crate::{
    app::{LeaveImpacts, State, leave::is_viewer},
    domain::{LeaveImpact, text},
};

use super::{
    menu::{BodyLine, Dialog, MenuAction, MenuItem},
    tasks::{MAX_LISTED, name_of},
};

pub(super) fn dialog(state: &State) -> Dialog {
    let impacts = LeaveImpacts::of(state);
    Dialog {
        on_close: MenuAction::Stay,
        ..Dialog::new("Leave?", body(state, &impacts), items(state, &impacts))
    }
}

fn body(state: &State, impacts: &LeaveImpacts<'_>) -> Vec<BodyLine> {
    let mut lines = Vec::new();
    for (label, part) in [
        ("DIES", &impacts.dies),
        ("LIKELY", &impacts.likely),
        ("PAUSES", &impacts.pauses),
        ("SAFE", &impacts.safe),
    ] {
        for (id, impact) in part.iter().take(MAX_LISTED) {
            let until = match impact {
                LeaveImpact::Likely {
                    until: Some(at), ..
                } => format!(" until about {}", state.clock_minutes(*at)),
                _ => String::new(),
            };
            let (name, why) = (name_of(state, id), text::clean_line(impact.why()));
            let text = format!("{name}{until}: {why}");
            lines.push(BodyLine { label, text });
        }
        let more = part.len().saturating_sub(MAX_LISTED);
        if more > 0 {
            let text = format!("and {more} more");
            lines.push(BodyLine { label, text });
        }
    }
    lines
}

fn items(state: &State, impacts: &LeaveImpacts<'_>) -> Vec<MenuItem> {
    let mut items = vec![MenuItem::new('s', "stay", MenuAction::Stay)];
    if !impacts.dies.is_empty() {
        let lost = match impacts.dies.len() {
            1 => "the call that would be lost has",
            _ => "the calls that would be lost have",
        };
        let label = format!("leave once {lost} ended");
        items.push(MenuItem::new('w', label, MenuAction::LeaveOnceSafe));
    }
    let why_not = if state.setup.readonly {
        Some("read only".to_owned())
    } else if is_viewer(state) {
        Some("another process is the driver".to_owned())
    } else {
        None
    };
    let cancel = MenuItem::new('c', "cancel all and leave", MenuAction::CancelAllAndLeave);
    items.push(MenuItem::new('l', "leave", MenuAction::Leave));
    items.push(cancel.unless(why_not));
    items
}

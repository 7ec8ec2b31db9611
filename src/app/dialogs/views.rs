//! The dialog to choose a view of the list.

use crate::app::{Action, Dialog, MenuAction, MenuItem, State, View};

/// The default view, then each named view by its number.
pub(super) fn dialog(state: &State) -> Dialog {
    let key = state.key(Action::Palette);
    let body = format!("To save the current view, enter {key}save-view NAME");
    let all = MenuItem::new('0', "everything", MenuAction::ShowView(View::default()));
    let views = state.setup.settings.views.iter().zip('1'..='9');
    let views = views.map(|(view, key)| {
        let label = format!("{}: {}", view.name, view.message());
        MenuItem::new(key, label, MenuAction::ShowView(view.clone()))
    });
    let items = std::iter::once(all).chain(views).collect();
    Dialog::new("Views", [body], items).harmless()
}

//! The dialog to open a sign-in page.

use crate::{
    app::{Action, Dialog, MenuAction, MenuItem, State},
    domain::{ServerName, SignInPage},
};

pub(in crate::app) fn dialog(state: &State, server: &ServerName, page: &SignInPage) -> Dialog {
    let title = format!("Sign in to {server}?");
    let mut body = vec![format!("You sign in on a page at {}.", page.host)];
    // On separate lines, so that a long host name doesn't push them out of view.
    body.extend(page.other_parties.iter().cloned());
    body.push("longhaul waits 15 minutes for the result.".to_owned());
    let key = state.key(Action::SignIn);
    let open = MenuAction::OpenPage {
        url: page.url.clone(),
        reply: format!("opening in your browser; press {key} to see the page again"),
    };
    let items = vec![
        MenuItem::new('o', "open it in the browser", open),
        MenuItem::new('y', "copy its URL", MenuAction::Copy(page.url.clone())),
        MenuItem::new('l', "later", MenuAction::Close),
    ];
    Dialog::new(title, body, items)
}

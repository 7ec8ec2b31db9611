//! The dialog to open a sign-in page.

use crate::{
    app::{Action, State},
    domain::{ServerName, SignInPage, text},
};

use super::menu::{Dialog, MenuAction, MenuItem};

pub(in crate::app) fn dialog(state: &State, server: &ServerName, page: &SignInPage) -> Dialog {
    let title = format!("Sign in to {}?", text::clean_line(server.as_str()));
    let host = text::clean_line(&page.host);
    let mut body = vec![format!("You sign in on a page at {host}.")];
    // On separate lines, so that a long host name doesn't push them out of view.
    let others = page.other_parties.iter();
    body.extend(others.map(|who| text::clean_line(who).into_owned()));
    body.push("longhaul waits 15 minutes for the result.".to_owned());
    let key = state.key(Action::SignIn);
    let open = MenuAction::OpenPage {
        url: page.url.clone(),
        reply: format!("opened in your browser; press {key} to see the page again"),
    };
    let items = vec![
        MenuItem::new('o', "open it in the browser", open),
        MenuItem::new('y', "copy its URL", MenuAction::Copy(page.url.clone())),
        MenuItem::new('l', "later", MenuAction::Close),
    ];
    Dialog::new(title, body, items)
}

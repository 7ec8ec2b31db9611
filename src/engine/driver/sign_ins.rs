//! Signs in, and refreshes tokens before they expire.

use std::sync::Arc;

use crate::{
    auth::{self, AuthError, Now, SignInOptions},
    domain::{
        NoticeLevel, RequestError, ServerName, SessionRequest, SessionRequestId, SessionResponse,
        SignInPage, Stamp, server_url, text,
    },
    engine::driver::{
        LOOK_EVERY,
        state::{Driver, Linked, SignInJob, SignInNews},
    },
};

impl Driver<'_> {
    /// Starts a sign-in; the response is sent once its page is known. An older one for the same server ends.
    pub(super) fn sign_in(&mut self, number: SessionRequestId, name: &ServerName) {
        let is_allowed = self.allows_insecure_http(number);
        let linked = self
            .index_of(name)
            .and_then(|index| self.links.get_mut(index));
        let Some(linked) = linked else {
            let refused = self.unknown_server(name);
            return self.respond(number, Err(refused));
        };
        let url = url::Url::parse(&linked.link.record().url).ok();
        linked.insecure_http |= is_allowed;
        let is_private = |url: &url::Url| !server_url::is_cleartext(url) || is_allowed;
        let Some(url) = url.filter(is_private) else {
            let words = format!(
                "a token for {name} would travel over plain http, unencrypted; use an https:// URL"
            );
            return self.respond(number, Err(RequestError::Usage(words)));
        };
        let (logins, fetcher) = (
            self.sign_in.logins.clone(),
            Arc::clone(&self.sign_in.fetcher),
        );
        let (clock, news) = (self.clock, self.sign_in.news.clone());
        let (of, name) = (name, name.clone());
        let now: Now = Arc::new(move || clock.now().wall);
        let job = tokio::spawn(async move {
            let begun = auth::begin(&url, &SignInOptions::default(), logins, fetcher, now).await;
            let begun = match begun {
                Ok(begun) => begun,
                Err(error) => {
                    let refused = match error {
                        AuthError::Unreachable { .. } | AuthError::Unavailable(_) => {
                            RequestError::Unreachable(error.to_string())
                        }
                        _ => RequestError::Usage(error.to_string()),
                    };
                    // A driver that exits has notified everyone.
                    let _ = news.send(SignInNews::Begun(number, Err(refused))).await;
                    return;
                }
            };
            let page = SignInPage {
                host: begun.host.clone(),
                other_parties: begun.other_parties.clone(),
                url: begun.page.to_string(),
            };
            let _ = news.send(SignInNews::Begun(number, Ok(page))).await;
            let over = begun.finish().await.map(drop);
            let _ = news.send(SignInNews::Over(name, over)).await;
        });
        let job = job.abort_handle();
        let older = linked.signing_in.replace(SignInJob { number, job });
        if let Some(older) = older {
            let refused = RequestError::Usage(format!("another sign-in at {of} has started since"));
            // Already answered if its page was shown.
            self.respond(older.number, Err(refused));
        }
    }

    pub(super) fn sign_in_news(&mut self, news: SignInNews, now: Stamp) {
        match news {
            SignInNews::Begun(number, page) => {
                self.respond(number, page.map(SessionResponse::SignIn));
            }
            SignInNews::Over(name, Ok(())) => {
                let words = format!("signed in to {name}; its tasks resume");
                self.notice(NoticeLevel::Info, words, now);
                if let Some(index) = self.index_of(&name) {
                    self.tell(index, SessionRequest::RetryNow, now);
                }
            }
            SignInNews::Over(name, Err(error)) => {
                let words = format!("not signed in to {name}: {error}");
                self.notice(
                    NoticeLevel::Error,
                    text::clean_line(&words).into_owned(),
                    now,
                );
            }
        }
    }

    /// Continues where a user has signed in, and refreshes tokens while the old ones are valid.
    pub(super) fn tend_logins(&mut self, now: Stamp) {
        for linked in &mut self.links {
            if let Some(tokens) = linked.tokens.clone()
                && linked.token_due().is_some_and(|due| due <= now.wall)
            {
                let refreshed = Arc::clone(&self.sign_in.refreshed);
                let job = tokio::spawn(async move {
                    tokens.renew().await;
                    refreshed.notify_one();
                });
                linked.refreshing = Some(job.abort_handle());
            }
        }
        if now.mono.since(self.sign_in.looked_at) < LOOK_EVERY {
            return;
        }
        self.sign_in.looked_at = now.mono;
        let has_news = |linked: &Linked| {
            let waits = linked.link.needed_credentials().is_some();
            let tokens = linked.tokens.as_ref().filter(|_| waits);
            tokens.is_some_and(|tokens| tokens.has_new_sign_in())
        };
        for index in 0..self.links.len() {
            if let Some(linked) = self.links.get_mut(index).filter(|linked| has_news(linked)) {
                linked.use_sign_in();
                self.tell(index, SessionRequest::RetryNow, now);
            }
        }
    }
}

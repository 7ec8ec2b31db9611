//! The token of one server for as long as longhaul runs: from the file, refreshed in time, once for all who need it.
//!
//! Invariant: a refresh token is shown to its issuer by one process at a time, which read it after it took the lock.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use reqwest::StatusCode;
use secrecy::SecretString;
use url::Url;

use super::{
    AuthError,
    flow::key_of,
    logins::{Login, Logins, Secret},
    tokens::{self, Grant, NoTokens, Tokens},
};
use crate::{
    domain::{Wall, text},
    protocol::{Challenge, both_scopes, scopes},
    store::{Edition, Held},
    transport::{Fetcher, SignIn},
};

/// The clock.
pub type Now = Arc<dyn Fn() -> Wall + Send + Sync>;

/// After a refresh that came to nothing, or to a token that is refused too, there is no other one for so long.
const NEXT_TRY: Duration = Duration::from_secs(30);

/// Keeps the token of one server.
pub struct Keeper {
    key: String,
    /// What a person calls the server.
    name: String,
    logins: Logins,
    fetcher: Arc<Fetcher>,
    now: Now,
    /// Held across a refresh, so that in this process one is under way at a time.
    known: tokio::sync::Mutex<Known>,
    seen: Mutex<Seen>,
}

/// What was read of the file last.
#[derive(Default)]
struct Known {
    edition: Option<Edition>,
    login: Option<Login>,
    /// New tokens that could not be written yet.
    is_unsaved: bool,
    /// The last refresh that came to nothing, and why, for as long as that is the last word.
    failed: Option<(Wall, String)>,
    /// When this process got the token.
    refreshed_at: Option<Wall>,
}

/// Whether less than [`NEXT_TRY`] went by; a clock that was set back makes nobody wait longer.
fn is_recent(at: Wall, now: Wall) -> bool {
    at <= now && now.since(at) < NEXT_TRY
}

/// What others may look at while a refresh is under way.
#[derive(Default)]
struct Seen {
    /// The file as it was when the server was last spoken to.
    edition: Option<Edition>,
    /// The sign-in that was known then.
    signed_in_at: Option<Wall>,
    due: Option<Wall>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Keeper {
    /// A keeper of the token for the MCP endpoint `server`, which a person calls `name`.
    pub fn new(server: &Url, name: &str, logins: Logins, fetcher: Arc<Fetcher>, now: Now) -> Self {
        Self {
            key: key_of(server),
            name: name.to_owned(),
            logins,
            fetcher,
            now,
            known: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// When a new token is due, if one can be had.
    pub fn due(&self) -> Option<Wall> {
        self.seen().due
    }

    /// Whether somebody has signed in since the last request. A new token alone is no news: with that, two processes whose
    /// tokens are all refused would wake each other without end.
    pub fn has_news(&self) -> bool {
        let edition = self.logins.edition();
        if self.seen().edition == Some(edition) {
            return false;
        }
        let Ok(book) = self.logins.read() else {
            return false;
        };
        let login = book.logins.get(&self.key);
        let signed_in_at = login
            .filter(|login| login.access.is_some())
            .map(|login| login.signed_in_at);
        let mut seen = self.seen();
        seen.edition = Some(edition);
        signed_in_at.is_some() && signed_in_at != seen.signed_in_at
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        // Nothing in there is ever half done.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file if it is another one than before.
    fn reread(&self, known: &mut Known) -> Result<(), AuthError> {
        let edition = self.logins.edition();
        if known.edition == Some(edition) {
            return Ok(());
        }
        let book = self.logins.read()?;
        let login = book.logins.get(&self.key).cloned();
        if login != known.login {
            // What came of the old one says nothing of this one.
            (known.login, known.failed, known.refreshed_at) = (login, None, None);
        }
        (known.edition, known.is_unsaved) = (Some(edition), false);
        Ok(())
    }

    /// Notes what goes out, and when the next token is due.
    fn note(&self, known: &Known) -> Option<SecretString> {
        let login = known.login.as_ref();
        let access = login.and_then(|login| login.access.clone());
        let mut seen = self.seen();
        seen.edition = known.edition;
        seen.signed_in_at = login.map(|login| login.signed_in_at);
        let next_try = known.failed.as_ref().map(|(at, _)| at.after(NEXT_TRY));
        seen.due = login
            .filter(|login| login.refresh.is_some())
            .and_then(|login| login.refresh_at)
            .map(|at| next_try.map_or(at, |next| at.max(next)));
        access.map(|access| access.0)
    }

    async fn current(&self) -> Result<Option<SecretString>, String> {
        let mut known = self.known.lock().await;
        if let Err(error) = self.reread(&mut known) {
            // The server will say that it wants a sign-in, and that one sets a damaged file aside, in words.
            tracing::warn!(%error, "no login");
            return Ok(None);
        }
        if known.is_unsaved {
            self.save(&mut known).await;
        }
        let is_due = known
            .login
            .as_ref()
            .is_some_and(|login| login.is_due((self.now)()) && login.refresh.is_some());
        if is_due && let Err(why) = self.refresh(&mut known, None).await {
            let now = (self.now)();
            let is_over = known
                .login
                .as_ref()
                .is_some_and(|login| login.expires_at.is_none_or(|end| end <= now));
            let token = self.note(&known);
            if is_over {
                return Err(why);
            }
            tracing::warn!(%why, "the token was not refreshed");
            return Ok(token);
        }
        Ok(self.note(&known))
    }

    /// Gets a new token, unless another process just did, or nothing came of it a moment ago. `refused` is a token that
    /// the server does not take.
    async fn refresh(&self, known: &mut Known, refused: Option<&Secret>) -> Result<(), String> {
        let now = (self.now)();
        if let Some((at, why)) = &known.failed
            && is_recent(*at, now)
        {
            return Err(why.clone());
        }
        let done = self.ask_anew(known, refused).await;
        known.failed = done.clone().err().map(|why| ((self.now)(), why));
        done
    }

    async fn ask_anew(&self, known: &mut Known, refused: Option<&Secret>) -> Result<(), String> {
        let held = self
            .logins
            .hold()
            .await
            .map_err(|error| error.to_string())?;
        // After the lock: whoever held it may have spent the refresh token.
        self.reread(known).map_err(|error| error.to_string())?;
        let Some(login) = known.login.as_mut() else {
            return Ok(());
        };
        let is_new = match refused {
            Some(refused) => login.access.as_ref() != Some(refused),
            None => !login.is_due((self.now)()),
        };
        let Some(refresh) = login.refresh.clone().filter(|_| !is_new) else {
            return Ok(());
        };
        let grant = Grant::Refresh(&refresh);
        let asked = tokens::ask(
            &self.fetcher,
            &login.token_endpoint,
            &login.client,
            &login.resource,
            grant,
            (self.now)(),
        );
        match asked.await {
            Ok(Tokens {
                access,
                refresh,
                refresh_at,
                expires_at,
                scope,
            }) => {
                login.access = Some(access);
                // Without a new one the old one stays good (RFC 6749, section 6).
                login.refresh = refresh.or(login.refresh.take());
                (login.refresh_at, login.expires_at) = (refresh_at, expires_at);
                login.scope = scope.or(login.scope.take());
                known.refreshed_at = Some((self.now)());
                tracing::info!(server = %self.name, "the token was refreshed");
            }
            Err(NoTokens::Later(why) | NoTokens::No(why)) => {
                return Err(format!(
                    "the token for {} is over, and {} gives no new one now: {why}",
                    self.name,
                    super::host(&login.token_endpoint)
                ));
            }
            Err(NoTokens::Never(why)) => {
                tracing::warn!(server = %self.name, %why, "the sign-in is over");
                (login.access, login.refresh) = (None, None);
                (login.refresh_at, login.expires_at) = (None, None);
            }
        }
        self.write(known, &held);
        Ok(())
    }

    async fn save(&self, known: &mut Known) {
        if let Ok(held) = self.logins.hold().await
            && self.reread(known).is_ok()
            && known.is_unsaved
        {
            self.write(known, &held);
        }
    }

    /// Writes the login; if that fails it is good for as long as this process lives, and tried again.
    fn write(&self, known: &mut Known, held: &Held) {
        let written = self.logins.read().and_then(|mut book| {
            if let Some(login) = &known.login {
                book.logins.insert(self.key.clone(), login.clone());
            }
            self.logins.write(held, &book)
        });
        known.is_unsaved = written.is_err();
        match written {
            Ok(()) => known.edition = Some(self.logins.edition()),
            Err(error) => tracing::warn!(%error, "the new token was not kept"),
        }
    }

    async fn other_than(
        &self,
        sent: Option<&SecretString>,
    ) -> Result<SecretString, Option<String>> {
        let mut known = self.known.lock().await;
        if let Err(error) = self.reread(&mut known) {
            return Err(Some(error.to_string()));
        }
        let Some(sent) = sent.cloned().map(Secret) else {
            return match known.login.as_ref().and_then(|login| login.access.clone()) {
                Some(_) => self.note(&known).ok_or(None),
                None => Err(None),
            };
        };
        let is_other = |known: &Known| {
            let access = known.login.as_ref().and_then(|login| login.access.as_ref());
            access.is_some_and(|access| *access != sent)
        };
        let now = (self.now)();
        let is_over = |login: &Login| login.expires_at.is_some_and(|end| end <= now);
        let is_over = known.login.as_ref().is_some_and(is_over);
        if !is_other(&known) && !is_over && known.refreshed_at.is_some_and(|at| is_recent(at, now))
        {
            // Refused as soon as it came: another one fares no better.
            return Err(None);
        }
        if !is_other(&known) {
            self.refresh(&mut known, Some(&sent)).await.map_err(Some)?;
        }
        let token = self.note(&known);
        token.filter(|_| is_other(&known)).ok_or(None)
    }

    /// Notes for the next sign-in that the server wants more than the token is good for.
    async fn step_up(&self, wanted: &str) -> String {
        let mut known = self.known.lock().await;
        let shown = text::clean_line(wanted).into_owned();
        let noted = async {
            let held = self.logins.hold().await?;
            self.reread(&mut known)?;
            let Some(login) = known.login.as_mut() else {
                return Ok(false);
            };
            let had = login.scope.clone().unwrap_or_default();
            let is_had = scopes(wanted).all(|scope| scopes(&had).any(|had| had == scope));
            let both = both_scopes(login.wanted_scope.as_deref().unwrap_or_default(), wanted);
            if login.wanted_scope.as_ref() != Some(&both) {
                login.wanted_scope = Some(both);
                self.write(&mut known, &held);
            }
            Ok::<_, AuthError>(is_had)
        };
        match noted.await {
            Ok(true) => format!(
                "it asks for the scope {shown}, which this sign-in was given already; ask whoever runs it"
            ),
            Ok(false) => format!("it wants the scope {shown} too, which another sign-in asks for"),
            Err(error) => error.to_string(),
        }
    }
}

impl SignIn for Keeper {
    fn token(&self) -> BoxFuture<'_, Result<Option<SecretString>, String>> {
        Box::pin(self.current())
    }

    fn refused<'s>(
        &'s self,
        sent: Option<&'s SecretString>,
        status: StatusCode,
        challenge: Option<Challenge>,
    ) -> BoxFuture<'s, Result<SecretString, Option<String>>> {
        Box::pin(async move {
            if status == StatusCode::UNAUTHORIZED {
                return self.other_than(sent).await;
            }
            let wanted = challenge
                .filter(Challenge::wants_scope)
                .and_then(|challenge| challenge.scope)
                .filter(|scope| !scope.is_empty());
            match wanted {
                Some(wanted) if sent.is_some() => Err(Some(self.step_up(&wanted).await)),
                _ => Err(None),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::tests::{Issuer, login_at};
    use std::sync::atomic::{AtomicI64, Ordering};

    struct Desk {
        dir: std::path::PathBuf,
        clock: Arc<AtomicI64>,
        server: Url,
    }

    impl Drop for Desk {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }

    impl Desk {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("longhaul-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Self {
                dir,
                clock: Arc::new(AtomicI64::new(1_000_000)),
                server: Url::parse("https://h/mcp").unwrap(),
            }
        }

        fn logins(&self) -> Logins {
            Logins::new(&self.dir.join("logins.json"))
        }

        async fn write(&self, login: Login) {
            let logins = self.logins();
            let held = logins.hold().await.unwrap();
            let mut book = logins.read().unwrap();
            book.logins.insert(key_of(&self.server), login);
            logins.write(&held, &book).unwrap();
        }

        fn keeper(&self) -> Keeper {
            crate::transport::ensure_provider();
            let clock = Arc::clone(&self.clock);
            let now: Now = Arc::new(move || Wall(clock.load(Ordering::SeqCst)));
            let fetcher = Arc::new(Fetcher::default());
            Keeper::new(&self.server, "h", self.logins(), fetcher, now)
        }

        fn pass(&self, time: Duration) {
            let millis = i64::try_from(time.as_millis()).unwrap();
            self.clock.fetch_add(millis, Ordering::SeqCst);
        }
    }

    async fn refused(keeper: &Keeper, sent: &SecretString) -> Result<SecretString, Option<String>> {
        let status = StatusCode::UNAUTHORIZED;
        keeper.refused(Some(sent), status, None).await
    }

    #[tokio::test]
    async fn an_issuer_that_is_down_is_asked_again_after_a_while_and_not_at_once() {
        let issuer = Issuer::new(|_| (503, String::new()));
        let desk = Desk::new("down");
        let mut login = login_at(&issuer.url);
        (login.refresh_at, login.expires_at) = (Some(Wall(0)), Some(Wall(1)));
        desk.write(login).await;
        let keeper = desk.keeper();
        for _ in 0..3 {
            assert!(keeper.token().await.unwrap_err().contains("is over"));
            assert_eq!(keeper.due(), Some(Wall(1_000_000).after(NEXT_TRY)));
        }
        assert_eq!(issuer.asked(), 1);
        desk.pass(NEXT_TRY);
        assert!(keeper.token().await.is_err());
        assert_eq!(issuer.asked(), 2);
        // One that was signed in for since is another matter.
        desk.write(login_at(&issuer.url)).await;
        assert!(keeper.token().await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_token_that_is_refused_as_it_comes_is_not_replaced_and_no_news_for_another_process() {
        let issuer = Issuer::new(|number| {
            let answer = format!(r#"{{"access_token":"new-{number}","expires_in":10}}"#);
            (200, answer)
        });
        let desk = Desk::new("news");
        desk.write(login_at(&issuer.url)).await;
        let (one, two) = (desk.keeper(), desk.keeper());
        let old = one.token().await.unwrap().unwrap();
        assert!(two.token().await.unwrap().is_some());
        let new = refused(&one, &old).await.unwrap();
        assert!(refused(&one, &new).await.unwrap_err().is_none());
        assert_eq!(issuer.asked(), 1);
        assert!(!two.has_news());
        // Its time being over is a reason of its own.
        desk.pass(Duration::from_secs(10));
        assert!(refused(&one, &new).await.is_ok());
        assert_eq!(issuer.asked(), 2);
        let mut login = login_at(&issuer.url);
        login.signed_in_at = Wall(2);
        desk.write(login).await;
        assert!(one.has_news() && two.has_news());
    }
}

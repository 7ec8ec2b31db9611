//! Manages the token of one server while longhaul runs: reads it from the login file and refreshes it in time, once for all
//! requests that need it.
//!
//! Invariant: only one process at a time uses a refresh token, and it reads the token after it has locked the file.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture, OptionFuture, Shared},
};
use reqwest::StatusCode;
use secrecy::SecretString;
use url::Url;

use super::{
    AuthError,
    logins::{Login, Logins, Secret},
    tokens::{self, Grant, TokenError},
};
use crate::{
    auth::logins::login_key,
    domain::{Wall, locked, text},
    protocol::{Challenge, merge_scopes, scopes},
    store::{Edition, Held},
    transport::{Fetcher, NoToken, SignIn, SignInError},
};

/// Returns the current time.
pub type Now = Arc<dyn Fn() -> Wall + Send + Sync>;

/// Shows a message to the user.
pub type NoticeSink = Arc<dyn Fn(String) + Send + Sync>;

/// The minimum time between refreshes after one failed, or got a token that was rejected too.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// How long a request with a valid token waits for a refresh, so that a slow issuer delays nothing.
const REFRESH_WAIT: Duration = Duration::from_secs(1);

/// Why there is no fresh token; all who wait for a refresh get the same error.
#[derive(Clone, Debug, thiserror::Error)]
enum RefreshError {
    #[error(transparent)]
    LoginFile(Arc<AuthError>),
    #[error("the token for {server} has expired, and {issuer} did not issue a new one: {why}")]
    NotIssued {
        server: String,
        issuer: String,
        why: String,
        /// Whether a retry may succeed.
        is_passing: bool,
    },
    #[error("the token refresh was aborted; sign in again with `longhaul login`")]
    Aborted,
}

impl From<RefreshError> for NoToken {
    fn from(error: RefreshError) -> Self {
        match error {
            RefreshError::NotIssued {
                is_passing: true, ..
            } => Self::TryLater(error.to_string()),
            _ => Self::SignInNeeded(Some(error.to_string())),
        }
    }
}

impl From<AuthError> for RefreshError {
    fn from(error: AuthError) -> Self {
        Self::LoginFile(Arc::new(error))
    }
}

/// A running refresh, shared by all who wait for it.
type Refresh = Shared<BoxFuture<'static, Result<(), RefreshError>>>;

/// Provides the token of one server.
pub struct TokenManager {
    refresher: Arc<Refresher>,
}

/// What a refresh needs; shared, because a refresh continues even if nobody waits for it anymore.
struct Refresher {
    /// The server's key in the login file.
    key: String,
    /// The server's name, for messages.
    name: String,
    logins: Logins,
    fetcher: Arc<Fetcher>,
    now: Now,
    notify: NoticeSink,
    /// Locked while reading or writing the file, never while waiting for the issuer or the keychain.
    cache: Mutex<TokenCache>,
}

#[derive(Default)]
struct TokenCache {
    /// The version of the file that was read last.
    file_version: Option<Edition>,
    /// The login in that version.
    saved_login: Option<Login>,
    /// The login in use: the saved one, or newer tokens that could not be saved yet.
    login: Option<Login>,
    /// The latest refresh of this process, running or finished.
    refresh: Option<Refresh>,
    /// When the latest refresh failed, and why; cleared by a success or a new login.
    failed: Option<(Wall, RefreshError)>,
    /// A token that the server rejected.
    rejected: Option<Secret>,
    /// When this process last refreshed the token.
    refreshed_at: Option<Wall>,
    /// The version of the file when the last request was sent.
    file_at_last_request: Option<Edition>,
    /// The time of the sign-in that the last request used.
    sign_in_at_last_request: Option<Wall>,
    /// Whether the user was warned that the login file can't be read.
    has_warned: bool,
}

impl TokenCache {
    fn access(&self) -> Option<&Secret> {
        self.login.as_ref()?.access.as_ref()
    }

    fn is_due(&self, now: Wall) -> bool {
        let login = self.login.as_ref();
        login.is_some_and(|login| login.is_due(now) && login.refresh.is_some())
    }

    fn has_expired(&self, now: Wall) -> bool {
        let login = self.login.as_ref();
        login.is_some_and(|login| login.expires_at.is_some_and(|end| end <= now))
    }

    /// The token, if the server has rejected it and it can be refreshed.
    fn rejected_access(&self) -> Option<Secret> {
        let login = self.login.as_ref()?;
        let access = self.rejected.clone().filter(|_| login.refresh.is_some());
        access.filter(|access| login.access.as_ref() == Some(access))
    }

    /// The token for a request, noted as sent.
    fn mark_sent(&mut self) -> Option<SecretString> {
        self.file_at_last_request = self.file_version;
        self.sign_in_at_last_request = self.login.as_ref().map(|login| login.signed_in_at);
        self.access().map(|access| access.0.clone())
    }
}

/// Whether less than [`RETRY_DELAY`] has passed. If the clock was set back, it counts as passed.
fn is_recent(at: Wall, now: Wall) -> bool {
    at <= now && now.since(at) < RETRY_DELAY
}

impl TokenManager {
    /// Manages the token for the MCP endpoint `server`, called `name` in messages. `notify` shows a warning if the login
    /// file can't be read.
    pub fn new(
        server: &Url,
        name: &str,
        logins: &Logins,
        fetcher: Arc<Fetcher>,
        now: Now,
        notify: NoticeSink,
    ) -> Self {
        Self {
            refresher: Arc::new(Refresher {
                key: login_key(server),
                name: name.to_owned(),
                logins: logins.waiting(Duration::ZERO),
                fetcher,
                now,
                notify,
                cache: Mutex::default(),
            }),
        }
    }

    /// When the token should be refreshed next; `None` if it can't be.
    pub fn due(&self) -> Option<Wall> {
        let cache = locked(&self.refresher.cache);
        let next_try = cache.failed.as_ref().map(|(at, _)| at.after(RETRY_DELAY));
        let login = cache.login.as_ref();
        let login = login.filter(|login| login.refresh.is_some())?;
        let at = login.refresh_at?;
        Some(next_try.map_or(at, |next| at.max(next)))
    }

    /// Refreshes the token if that is due, and waits until it is done. The next request reports a failure.
    pub async fn renew(&self) {
        self.refresher.prefetch_keys().await;
        let refresh = {
            let mut cache = locked(&self.refresher.cache);
            let now = (self.refresher.now)();
            match self.refresher.reread(&mut cache) {
                Ok(()) => cache
                    .is_due(now)
                    .then(|| self.refresher.refresh(&mut cache, None)),
                Err(error) => {
                    // The refresh stays due, so without this it would be retried in a busy loop.
                    cache.failed = Some((now, error.into()));
                    None
                }
            }
        };
        // `failed` holds the error.
        let _ = OptionFuture::from(refresh).await;
    }

    /// Waits for a running refresh. Exiting before its response is saved would end the sign-in if the issuer accepts each
    /// refresh token only once.
    pub async fn wait_for_refresh(&self) {
        let refresh = locked(&self.refresher.cache).refresh.clone();
        // `failed` holds the error.
        let _ = OptionFuture::from(refresh).await;
    }

    /// Whether the user has signed in since the last request. A refreshed token doesn't count, or two processes whose
    /// tokens are rejected would wake each other forever.
    pub fn has_new_sign_in(&self) -> bool {
        let file_version = self.refresher.logins.file.edition();
        if locked(&self.refresher.cache).file_at_last_request == Some(file_version) {
            return false;
        }
        let Ok(login_file) = self.refresher.logins.read() else {
            return false;
        };
        let login = login_file.logins.get(&self.refresher.key);
        let signed_in_at = login
            .filter(|login| login.access.is_some())
            .map(|login| login.signed_in_at);
        let mut cache = locked(&self.refresher.cache);
        cache.file_at_last_request = Some(file_version);
        signed_in_at.is_some() && signed_in_at != cache.sign_in_at_last_request
    }

    /// From now on, only a later sign-in is new: requests use credentials of another kind until then.
    pub fn skip_sign_in(&self) {
        let login = self.refresher.logins.read().ok();
        let login = login.and_then(|mut file| file.logins.remove(&self.refresher.key));
        locked(&self.refresher.cache).sign_in_at_last_request =
            login.map(|login| login.signed_in_at);
    }

    async fn current_token(&self) -> Result<Option<SecretString>, RefreshError> {
        let refresher = &self.refresher;
        refresher.prefetch_keys().await;
        let refresh = {
            let mut cache = locked(&refresher.cache);
            match refresher.reread(&mut cache) {
                Ok(()) => {
                    refresher.save(&mut cache);
                    let rejected = cache.rejected_access();
                    let is_needed = rejected.is_some() || cache.is_due((refresher.now)());
                    is_needed.then(|| refresher.refresh(&mut cache, rejected))
                }
                Err(error) => {
                    // The cached login may still be valid. If not, the server asks for a sign-in, which renames a damaged
                    // file and says so.
                    tracing::warn!(%error, "could not read the logins");
                    if cache.login.is_none() && !std::mem::replace(&mut cache.has_warned, true) {
                        (refresher.notify)(format!(
                            "continuing without a login: {error}; the login file is kept until the next `longhaul login`"
                        ));
                    }
                    None
                }
            }
        };
        if let Some(refresh) = refresh {
            let is_unusable = {
                let cache = locked(&refresher.cache);
                cache.has_expired((refresher.now)()) || cache.rejected_access().is_some()
            };
            if is_unusable {
                let renewed = refresh.await;
                // If the issuer denies a refresh, the server's answer to the old token asks for a sign-in.
                let is_denied = matches!(
                    renewed,
                    Err(RefreshError::NotIssued {
                        is_passing: false,
                        ..
                    })
                );
                if !is_denied {
                    renewed?;
                }
            } else if let Ok(Err(error)) = tokio::time::timeout(REFRESH_WAIT, refresh).await {
                tracing::warn!(%error, "could not refresh the token");
            }
        }
        Ok(locked(&refresher.cache).mark_sent())
    }

    /// A token other than the rejected one: the one in the file, or a refreshed one.
    async fn replacement_for(&self, sent: Option<&SecretString>) -> Result<SecretString, NoToken> {
        let refresher = &self.refresher;
        let sent = sent.cloned().map(Secret);
        refresher.prefetch_keys().await;
        let refresh = {
            let mut cache = locked(&refresher.cache);
            refresher.reread(&mut cache).map_err(RefreshError::from)?;
            let is_other = cache.access() != sent.as_ref();
            let now = (refresher.now)();
            if is_other || sent.is_none() {
                None
            } else if !cache.has_expired(now)
                && cache.refreshed_at.is_some_and(|at| is_recent(at, now))
            {
                // Rejected right after a refresh: another refresh would not help.
                return Err(NoToken::SignInNeeded(None));
            } else {
                cache.rejected.clone_from(&sent);
                Some(refresher.refresh(&mut cache, sent.clone()))
            }
        };
        if let Some(refresh) = refresh {
            refresh.await?;
        }
        let mut cache = locked(&refresher.cache);
        let token = cache.mark_sent();
        token
            .filter(|_| cache.access() != sent.as_ref())
            .ok_or(NoToken::SignInNeeded(None))
    }

    /// Saves the missing scope for the next sign-in, and returns a message for the user.
    async fn note_missing_scope(&self, wanted: &str) -> String {
        let refresher = &self.refresher;
        let shown = text::clean_line(wanted).into_owned();
        let noted = async {
            let lock = refresher.logins.lock().await?;
            refresher.prefetch_keys().await;
            refresher.logins.prefetch_write_key().await;
            let mut cache = locked(&refresher.cache);
            refresher.reread(&mut cache)?;
            let Some(login) = cache.login.as_mut() else {
                return Ok(false);
            };
            let had = login.scope.clone().unwrap_or_default();
            let is_had = scopes(wanted).all(|scope| scopes(&had).any(|had| had == scope));
            let both = merge_scopes(login.wanted_scope.as_deref().unwrap_or_default(), wanted);
            if login.wanted_scope.as_ref() != Some(&both) {
                login.wanted_scope = Some(both);
                refresher.write(&mut cache, &lock);
            }
            Ok::<_, AuthError>(is_had)
        };
        match noted.await {
            Ok(true) => format!(
                "the server asks for the scope {shown}, which this sign-in already has; contact the server's operator"
            ),
            Ok(false) => {
                format!("the server also requires the scope {shown}; sign in again to request it")
            }
            Err(error) => error.to_string(),
        }
    }
}

impl Refresher {
    /// Waits for the keychain without holding a lock, so that later file access doesn't have to.
    async fn prefetch_keys(&self) {
        let (is_changed, is_unsaved) = {
            let cache = locked(&self.cache);
            let is_changed = cache.file_version != Some(self.logins.file.edition());
            (is_changed, cache.login != cache.saved_login)
        };
        if is_changed {
            self.logins.prefetch_read_key().await;
        }
        if is_unsaved {
            self.logins.prefetch_write_key().await;
        }
    }

    /// Reads the file if it has changed.
    fn reread(&self, cache: &mut TokenCache) -> Result<(), AuthError> {
        let file_version = self.logins.file.edition();
        if cache.file_version == Some(file_version) {
            return Ok(());
        }
        let saved_login = self.logins.read()?.logins.remove(&self.key);
        if saved_login != cache.saved_login {
            if saved_login != cache.login {
                // A new login: earlier failures and refreshes don't apply to it.
                (cache.failed, cache.refreshed_at) = (None, None);
                cache.login.clone_from(&saved_login);
            }
            cache.saved_login = saved_login;
        }
        cache.file_version = Some(file_version);
        Ok(())
    }

    /// Refreshes the token, unless a refresh is running or failed recently. `rejected` is a token that the server rejected.
    ///
    /// The refresh runs to its end even if the returned future is dropped.
    fn refresh(self: &Arc<Self>, cache: &mut TokenCache, rejected: Option<Secret>) -> Refresh {
        let is_running = |refresh: &&Refresh| refresh.peek().is_none();
        if let Some(refresh) = cache.refresh.as_ref().filter(is_running) {
            return refresh.clone();
        }
        let failed = cache.failed.as_ref();
        if let Some((_, error)) = failed.filter(|(at, _)| is_recent(*at, (self.now)())) {
            return future::ready(Err(error.clone())).boxed().shared();
        }
        let refresher = Arc::clone(self);
        let job = tokio::spawn(async move {
            let outcome = refresher.request_token(rejected.as_ref()).await;
            locked(&refresher.cache).failed = outcome
                .clone()
                .err()
                .map(|error| ((refresher.now)(), error));
            outcome
        });
        let flatten = |joined: Result<_, _>| joined.unwrap_or(Err(RefreshError::Aborted));
        let refresh = job.map(flatten).boxed().shared();
        cache.refresh = Some(refresh.clone());
        refresh
    }

    async fn request_token(&self, rejected: Option<&Secret>) -> Result<(), RefreshError> {
        let lock = self.logins.lock().await?;
        self.prefetch_keys().await;
        // Before the request, so that nothing delays saving the response.
        self.logins.prefetch_write_key().await;
        let (mut login, refresh) = {
            let mut cache = locked(&self.cache);
            // After locking: another process may have used the refresh token.
            self.reread(&mut cache)?;
            let is_wanted = match rejected {
                Some(rejected) => cache.access() == Some(rejected),
                None => cache.is_due((self.now)()),
            };
            let login = cache.login.clone().filter(|_| is_wanted);
            let Some((login, refresh)) = login.and_then(|login| {
                let refresh = login.refresh.clone()?;
                Some((login, refresh))
            }) else {
                return Ok(());
            };
            (login, refresh)
        };
        let response = tokens::request_tokens(
            &self.fetcher,
            &login.token_endpoint,
            &login.client,
            &login.resource,
            Grant::Refresh(&refresh),
            (self.now)(),
        )
        .await;
        let mut cache = locked(&self.cache);
        let is_passing = !matches!(response, Err(TokenError::Denied(_)));
        match response {
            Ok(tokens) => {
                login.access = Some(tokens.access);
                // Without a new refresh token the old one stays valid (RFC 6749, section 6).
                login.refresh = tokens.refresh.or(login.refresh.take());
                (login.refresh_at, login.expires_at) = (tokens.refresh_at, tokens.expires_at);
                login.scope = tokens.scope.or(login.scope.take());
                cache.refreshed_at = Some((self.now)());
                // The issuer stands by it, even if it is the same token.
                cache.rejected = None;
                tracing::info!(server = %self.name, "refreshed the token");
            }
            Err(
                TokenError::Unreachable(why) | TokenError::Transient(why) | TokenError::Denied(why),
            ) => {
                return Err(RefreshError::NotIssued {
                    server: self.name.clone(),
                    issuer: super::host(&login.token_endpoint),
                    why,
                    is_passing,
                });
            }
            Err(TokenError::Revoked(why)) => {
                tracing::warn!(server = %self.name, %why, "the sign-in has expired");
                (login.access, login.refresh) = (None, None);
                (login.refresh_at, login.expires_at) = (None, None);
            }
        }
        cache.login = Some(login);
        self.write(&mut cache, &lock);
        Ok(())
    }

    /// Saves tokens that could not be saved before. If the file is locked, the next request tries again.
    fn save(&self, cache: &mut TokenCache) {
        if cache.login != cache.saved_login
            && let Ok(Some(lock)) = self.logins.file.try_hold()
            && self.reread(cache).is_ok()
            && cache.login != cache.saved_login
        {
            self.write(cache, &lock);
        }
    }

    /// Saves the login. If that fails, this process continues to use it, and tries again later.
    fn write(&self, cache: &mut TokenCache, lock: &Held) {
        let written = self.logins.read().and_then(|mut login_file| {
            if let Some(login) = &cache.login {
                login_file.logins.insert(self.key.clone(), login.clone());
            }
            self.logins.write(lock, &login_file)
        });
        match written {
            Ok(()) => {
                cache.saved_login.clone_from(&cache.login);
                cache.file_version = Some(self.logins.file.edition());
            }
            Err(error) => tracing::warn!(%error, "could not save the new token"),
        }
    }
}

impl SignIn for TokenManager {
    fn token(&self) -> BoxFuture<'_, Result<Option<SecretString>, SignInError>> {
        Box::pin(async { Ok(self.current_token().await?) })
    }

    fn private_secrets(&self) -> Vec<SecretString> {
        let cache = locked(&self.refresher.cache);
        let login = cache.login.as_ref();
        let secrets = login
            .into_iter()
            .flat_map(|it| [&it.refresh, &it.client.secret]);
        secrets.flatten().map(|secret| secret.0.clone()).collect()
    }

    fn on_rejected<'s>(
        &'s self,
        sent: Option<&'s SecretString>,
        status: StatusCode,
        challenge: Option<Challenge>,
    ) -> BoxFuture<'s, Result<SecretString, NoToken>> {
        Box::pin(async move {
            if status == StatusCode::UNAUTHORIZED {
                return self.replacement_for(sent).await;
            }
            let wanted = challenge
                .filter(Challenge::needs_more_scope)
                .and_then(|challenge| challenge.scope)
                .filter(|scope| !scope.is_empty());
            match wanted {
                Some(wanted) if sent.is_some() => {
                    let message = self.note_missing_scope(&wanted).await;
                    Err(NoToken::SignInNeeded(Some(message)))
                }
                _ => Err(NoToken::SignInNeeded(None)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{
        Keychain, sealing,
        tests::{FakeIssuer, login_at},
    };
    use std::sync::atomic::{AtomicI64, Ordering};

    struct LoginFixture {
        dir: std::path::PathBuf,
        clock: Arc<AtomicI64>,
        server: Url,
    }

    impl Drop for LoginFixture {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }

    impl LoginFixture {
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
            Logins::new(&self.dir.join("logins.json"), Keychain::none("a test"))
        }

        async fn write(&self, login: Login) {
            self.write_for(&self.server, login).await;
        }

        async fn write_for(&self, server: &Url, login: Login) {
            let logins = self.logins();
            let lock = logins.lock().await.unwrap();
            let mut login_file = logins.read().unwrap();
            login_file.logins.insert(login_key(server), login);
            logins.write(&lock, &login_file).unwrap();
        }

        fn saved_login(&self) -> Login {
            let mut login_file = self.logins().read().unwrap();
            login_file.logins.remove(&login_key(&self.server)).unwrap()
        }

        fn manager(&self) -> TokenManager {
            self.manager_of(&self.logins())
        }

        fn manager_of(&self, logins: &Logins) -> TokenManager {
            crate::transport::ensure_provider();
            let clock = Arc::clone(&self.clock);
            let now: Now = Arc::new(move || Wall(clock.load(Ordering::SeqCst)));
            let fetcher = Arc::new(Fetcher::default());
            TokenManager::new(&self.server, "h", logins, fetcher, now, Arc::new(drop))
        }

        fn pass(&self, time: Duration) {
            let millis = i64::try_from(time.as_millis()).unwrap();
            self.clock.fetch_add(millis, Ordering::SeqCst);
        }
    }

    async fn reject(manager: &TokenManager, sent: &SecretString) -> Result<SecretString, NoToken> {
        let status = StatusCode::UNAUTHORIZED;
        manager.on_rejected(Some(sent), status, None).await
    }

    #[tokio::test]
    async fn retries_an_issuer_that_is_down_only_after_a_delay() {
        let issuer = FakeIssuer::new(|_| (503, String::new()));
        let fixture = LoginFixture::new("down");
        let mut login = login_at(&issuer.url);
        (login.refresh_at, login.expires_at) = (Some(Wall(0)), Some(Wall(1)));
        fixture.write(login).await;
        let manager = fixture.manager();
        for _ in 0..3 {
            let error = manager.token().await.unwrap_err().to_string();
            assert!(error.contains("has expired"));
            assert_eq!(manager.due(), Some(Wall(1_000_000).after(RETRY_DELAY)));
        }
        assert_eq!(issuer.request_count(), 1);
        fixture.pass(RETRY_DELAY);
        assert!(manager.token().await.is_err());
        assert_eq!(issuer.request_count(), 2);
        // A new sign-in makes up for the failure.
        fixture.write(login_at(&issuer.url)).await;
        assert!(manager.token().await.unwrap().is_some());
    }

    #[tokio::test]
    async fn an_issuer_that_is_down_is_no_reason_to_sign_in() {
        let issuer = FakeIssuer::new(|_| (500, String::new()));
        let fixture = LoginFixture::new("later");
        fixture.write(login_at(&issuer.url)).await;
        let manager = fixture.manager();
        let old = manager.token().await.unwrap().unwrap();
        let refused = reject(&manager, &old).await.unwrap_err();
        assert!(matches!(refused, NoToken::TryLater(_)), "{refused:?}");
        // The server has rejected it already.
        assert!(manager.token().await.is_err());
        assert_eq!(issuer.request_count(), 1);
    }

    #[tokio::test]
    async fn does_not_refresh_a_new_token_that_is_rejected() {
        let issuer = FakeIssuer::new(|number| {
            let answer = format!(r#"{{"access_token":"new-{number}","expires_in":10}}"#);
            (200, answer)
        });
        let fixture = LoginFixture::new("news");
        fixture.write(login_at(&issuer.url)).await;
        let (one, two) = (fixture.manager(), fixture.manager());
        let old = one.token().await.unwrap().unwrap();
        assert!(two.token().await.unwrap().is_some());
        let new = reject(&one, &old).await.unwrap();
        let refused = reject(&one, &new).await.unwrap_err();
        assert!(matches!(refused, NoToken::SignInNeeded(None)));
        assert_eq!(issuer.request_count(), 1);
        assert!(!two.has_new_sign_in());
        // After it expires it is refreshed.
        fixture.pass(Duration::from_secs(10));
        assert!(reject(&one, &new).await.is_ok());
        assert_eq!(issuer.request_count(), 2);
        let mut login = login_at(&issuer.url);
        login.signed_in_at = Wall(2);
        fixture.write(login).await;
        assert!(one.has_new_sign_in() && two.has_new_sign_in());
    }

    const NEW: &str = r#"{"access_token":"new","refresh_token":"next","expires_in":9000}"#;

    /// An issuer that reports each request, and responds when released.
    fn slow_issuer() -> (
        FakeIssuer,
        tokio::sync::mpsc::Receiver<()>,
        std::sync::mpsc::Sender<()>,
    ) {
        let (sender, requests) = tokio::sync::mpsc::channel(9);
        let (release, released) = std::sync::mpsc::channel();
        let issuer = FakeIssuer::new(move |_| {
            sender.blocking_send(()).unwrap();
            released.recv().unwrap();
            (200, NEW.to_owned())
        });
        (issuer, requests, release)
    }

    #[tokio::test]
    async fn a_slow_refresh_does_not_delay_a_valid_token() {
        let (issuer, mut requests, release) = slow_issuer();
        let fixture = LoginFixture::new("slow");
        let mut login = login_at(&issuer.url);
        (login.refresh_at, login.expires_at) = (Some(Wall(0)), Some(Wall(2_000_000)));
        fixture.write(login.clone()).await;
        let manager = fixture.manager();
        let (one, two) = tokio::join!(manager.token(), manager.token());
        for token in [one, two] {
            assert_eq!(token.unwrap().map(Secret), login.access);
        }
        requests.recv().await.unwrap();
        release.send(()).unwrap();
        manager.wait_for_refresh().await;
        let token = manager.token().await.unwrap().unwrap();
        assert_eq!(Secret(token).text(), "new");
        assert_eq!(issuer.request_count(), 1);
    }

    #[tokio::test]
    async fn a_refresh_continues_after_its_request_is_dropped() {
        let (issuer, mut requests, release) = slow_issuer();
        let fixture = LoginFixture::new("given-up");
        let mut login = login_at(&issuer.url);
        (login.refresh_at, login.expires_at) = (Some(Wall(0)), Some(Wall(1)));
        fixture.write(login).await;
        let manager = fixture.manager();
        tokio::select! {
            token = manager.token() => panic!("{token:?} before the issuer responded"),
            it = requests.recv() => it.unwrap(),
        }
        drop(manager);
        release.send(()).unwrap();
        // Another manager waits for the lock, then finds the new token.
        let token = fixture.manager().token().await.unwrap().unwrap();
        assert_eq!(Secret(token).text(), "new");
        assert_eq!(fixture.saved_login().refresh.unwrap().text(), "next");
        assert_eq!(issuer.request_count(), 1);
    }

    #[tokio::test]
    async fn keeps_its_token_while_the_file_is_unreadable() {
        let issuer = FakeIssuer::new(|_| (200, NEW.to_owned()));
        let fixture = LoginFixture::new("sealed");
        let mut login = login_at(&issuer.url);
        (login.refresh_at, login.expires_at) = (Some(Wall(1_000_001)), Some(Wall(2_000_000)));
        fixture.write(login.clone()).await;
        let manager = fixture.manager();
        assert!(manager.token().await.unwrap().is_some());
        // Another process with a keychain encrypts the file.
        let path = fixture.dir.join("logins.json");
        let sealed = br#"{"version":2,"key":"theirs","book":"x"}"#;
        crate::store::write_atomically(&path, sealed).unwrap();
        fixture.pass(Duration::from_millis(1));
        manager.renew().await;
        assert_eq!(manager.due(), Some(Wall(1_000_001).after(RETRY_DELAY)));
        assert_eq!(manager.token().await.unwrap().map(Secret), login.access);
        // Once the file is readable again, the token is refreshed when due.
        std::fs::remove_file(&path).unwrap();
        fixture.write(login).await;
        fixture.pass(RETRY_DELAY);
        manager.renew().await;
        assert_eq!(
            Secret(manager.token().await.unwrap().unwrap()).text(),
            "new"
        );
        assert_eq!(issuer.request_count(), 1);
    }

    #[tokio::test]
    async fn a_slow_keychain_blocks_nothing_else() {
        let issuer = FakeIssuer::new(|_| (200, NEW.to_owned()));
        let fixture = LoginFixture::new("keychain");
        let (login, path) = (login_at(&issuer.url), fixture.dir.join("logins.json"));
        fixture.write(login.clone()).await;
        let key = sealing::new_key().unwrap();
        let login_file = sealing::seal(&key, &std::fs::read(&path).unwrap()).unwrap();
        let sealed =
            serde_json::json!({"version": 2, "key": "mine", "book": login_file}).to_string();
        crate::store::write_atomically(&path, sealed.as_bytes()).unwrap();
        let (answer, late) = std::sync::mpsc::channel();
        let keychain = Keychain::with_lookup("mine", move || late.recv().unwrap());
        let manager = fixture.manager_of(&Logins::new(&path, keychain));
        let mut token = std::pin::pin!(manager.token());
        tokio::select! {
            biased;
            token = &mut token => panic!("{token:?} before the key was there"),
            () = tokio::task::yield_now() => assert!(!manager.has_new_sign_in()),
        }
        answer.send(Ok(Some(key))).unwrap();
        let mut token = token.await.unwrap();
        while token.is_none() {
            token = manager.token().await.unwrap();
        }
        assert_eq!(token.map(Secret), login.access);
    }

    #[tokio::test]
    async fn unsaved_tokens_survive_a_write_by_another_process() {
        let fixture = LoginFixture::new("unsaved");
        let (dir, away) = (fixture.dir.clone(), fixture.dir.with_extension("away"));
        let (from, to) = (dir.clone(), away.clone());
        let issuer = FakeIssuer::new(move |_| {
            std::fs::rename(&from, &to).unwrap();
            (200, NEW.to_owned())
        });
        let mut login = login_at(&issuer.url);
        (login.refresh_at, login.expires_at) = (Some(Wall(0)), Some(Wall(1)));
        fixture.write(login.clone()).await;
        let manager = fixture.manager();
        manager.renew().await;
        std::fs::rename(&away, &dir).unwrap();
        let other = Url::parse("https://other/mcp").unwrap();
        fixture.write_for(&other, login).await;
        let token = manager.token().await.unwrap().unwrap();
        assert_eq!(Secret(token).text(), "new");
        assert_eq!(fixture.saved_login().refresh.unwrap().text(), "next");
        assert_eq!(issuer.request_count(), 1);
    }
}

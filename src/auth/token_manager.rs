//! The token of one server for as long as longhaul runs: from the file, refreshed in time, once for all who need it.
//!
//! Invariant: a refresh token is shown to its issuer by one process at a time, which read it after it took the lock.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture, Shared},
};
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
    protocol::{Challenge, merge_scopes, scopes},
    store::{Edition, Held},
    transport::{Fetcher, SignIn},
};

/// The clock.
pub type Now = Arc<dyn Fn() -> Wall + Send + Sync>;

/// Where words for a person go.
pub type Notify = Arc<dyn Fn(String) + Send + Sync>;

/// After a refresh that came to nothing, or to a token that is refused too, there is no other one for so long.
const NEXT_TRY: Duration = Duration::from_secs(30);

/// How long a request whose token is still good waits for the next one: an issuer that is slow holds up nothing.
const COURTESY: Duration = Duration::from_secs(1);

/// What is said of a refresh that broke off.
const ENDED: &str =
    "the job that asks for a new token ended early; `longhaul login` signs in again";

/// A refresh under way, for all who wait for it.
type Refresh = Shared<BoxFuture<'static, Result<(), String>>>;

/// Keeps the token of one server.
pub struct TokenManager {
    desk: Arc<Refresher>,
}

/// What a refresh needs that goes on when nobody waits for it any more.
struct Refresher {
    key: String,
    /// What a person calls the server.
    name: String,
    logins: Logins,
    fetcher: Arc<Fetcher>,
    now: Now,
    remark: Notify,
    /// Held for a look at the file, never for an answer of the issuer or of the keychain.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The file that was read last.
    edition: Option<Edition>,
    /// What it says.
    on_file: Option<Login>,
    /// What is used: that, or newer tokens that could not be written yet.
    login: Option<Login>,
    /// The one refresh of this process, also when it has ended.
    refresh: Option<Refresh>,
    /// The last refresh that came to nothing, and why, for as long as that is the last word.
    failed: Option<(Wall, String)>,
    /// When this process got the token.
    refreshed_at: Option<Wall>,
    /// The file as it was when the server was last spoken to.
    spoken_of: Option<Edition>,
    /// The sign-in that was known then.
    spoken_as: Option<Wall>,
    /// Whether it was said that no login is used.
    is_told: bool,
}

impl Known {
    fn access(&self) -> Option<&Secret> {
        self.login.as_ref()?.access.as_ref()
    }

    fn is_due(&self, now: Wall) -> bool {
        let login = self.login.as_ref();
        login.is_some_and(|login| login.is_due(now) && login.refresh.is_some())
    }

    fn is_over(&self, now: Wall) -> bool {
        let login = self.login.as_ref();
        login.is_some_and(|login| login.expires_at.is_some_and(|end| end <= now))
    }

    /// Notes what goes out.
    fn spoken(&mut self) -> Option<SecretString> {
        self.spoken_of = self.edition;
        self.spoken_as = self.login.as_ref().map(|login| login.signed_in_at);
        self.access().map(|access| access.0.clone())
    }
}

/// Whether less than [`NEXT_TRY`] went by; a clock that was set back makes nobody wait longer.
fn is_recent(at: Wall, now: Wall) -> bool {
    at <= now && now.since(at) < NEXT_TRY
}

impl fmt::Debug for TokenManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenManager")
            .field("name", &self.desk.name)
            .finish_non_exhaustive()
    }
}

impl TokenManager {
    /// A manager of the token for the MCP endpoint `server`, which a person calls `name` and hears in a remark if no login
    /// is used because the file cannot be read.
    pub fn new(
        server: &Url,
        name: &str,
        logins: &Logins,
        fetcher: Arc<Fetcher>,
        now: Now,
        remark: Notify,
    ) -> Self {
        Self {
            desk: Arc::new(Refresher {
                key: key_of(server),
                name: name.to_owned(),
                logins: logins.at_once(),
                fetcher,
                now,
                remark,
                known: Mutex::default(),
            }),
        }
    }

    /// When a new token is due, if one can be had.
    pub fn due(&self) -> Option<Wall> {
        let known = self.desk.known();
        let next_try = known.failed.as_ref().map(|(at, _)| at.after(NEXT_TRY));
        let login = known
            .login
            .as_ref()
            .filter(|login| login.refresh.is_some())?;
        let at = login.refresh_at?;
        Some(next_try.map_or(at, |next| at.max(next)))
    }

    /// Gets a new token if one is due, and waits for the end of that; what came of it shows with the next request.
    pub async fn renew(&self) {
        self.desk.ready().await;
        let refresh = {
            let mut known = self.desk.known();
            let now = (self.desk.now)();
            match self.desk.reread(&mut known) {
                Ok(()) => known
                    .is_due(now)
                    .then(|| self.desk.refresh(&mut known, None)),
                Err(error) => {
                    // It stays due, and is not to be tried without a pause.
                    known.failed = Some((now, error.to_string()));
                    None
                }
            }
        };
        if let Some(refresh) = refresh {
            // Noted where the next request looks.
            let _ = refresh.await;
        }
    }

    /// Waits for a refresh that is under way: ended before its answer is kept, it would end the sign-in where the issuer
    /// takes each refresh token once.
    pub async fn settle(&self) {
        let refresh = self.desk.known().refresh.clone();
        if let Some(refresh) = refresh {
            // Noted where the next request looks.
            let _ = refresh.await;
        }
    }

    /// Whether somebody has signed in since the last request. A new token alone is no news: with that, two processes whose
    /// tokens are all refused would wake each other without end.
    pub fn has_news(&self) -> bool {
        let edition = self.desk.logins.edition();
        if self.desk.known().spoken_of == Some(edition) {
            return false;
        }
        let Ok(book) = self.desk.logins.read() else {
            return false;
        };
        let login = book.logins.get(&self.desk.key);
        let signed_in_at = login
            .filter(|login| login.access.is_some())
            .map(|login| login.signed_in_at);
        let mut known = self.desk.known();
        known.spoken_of = Some(edition);
        signed_in_at.is_some() && signed_in_at != known.spoken_as
    }

    async fn current(&self) -> Result<Option<SecretString>, String> {
        let desk = &self.desk;
        desk.ready().await;
        let refresh = {
            let mut known = desk.known();
            match desk.reread(&mut known) {
                Ok(()) => {
                    desk.save(&mut known);
                    known
                        .is_due((desk.now)())
                        .then(|| desk.refresh(&mut known, None))
                }
                Err(error) => {
                    // What was read before may be as good as ever. Where it is not, the server will say that it wants a
                    // sign-in, and that one sets a damaged file aside, in words.
                    tracing::warn!(%error, "the logins could not be read");
                    if known.login.is_none() && !std::mem::replace(&mut known.is_told, true) {
                        (desk.remark)(format!(
                            "no login is used: {error}; it stays as it is until the next `longhaul login`"
                        ));
                    }
                    None
                }
            }
        };
        if let Some(refresh) = refresh {
            if desk.known().is_over((desk.now)()) {
                refresh.await?;
            } else if let Ok(Err(why)) = tokio::time::timeout(COURTESY, refresh).await {
                tracing::warn!(%why, "the token was not refreshed");
            }
        }
        Ok(desk.known().spoken())
    }

    async fn other_than(
        &self,
        sent: Option<&SecretString>,
    ) -> Result<SecretString, Option<String>> {
        let desk = &self.desk;
        let sent = sent.cloned().map(Secret);
        desk.ready().await;
        let refresh = {
            let mut known = desk.known();
            desk.reread(&mut known)
                .map_err(|error| Some(error.to_string()))?;
            let is_other = known.access() != sent.as_ref();
            let now = (desk.now)();
            if is_other || sent.is_none() {
                None
            } else if !known.is_over(now) && known.refreshed_at.is_some_and(|at| is_recent(at, now))
            {
                // Refused as soon as it came: another one fares no better.
                return Err(None);
            } else {
                Some(desk.refresh(&mut known, sent.clone()))
            }
        };
        if let Some(refresh) = refresh {
            refresh.await.map_err(Some)?;
        }
        let mut known = desk.known();
        let token = known.spoken();
        token
            .filter(|_| known.access() != sent.as_ref())
            .ok_or(None)
    }

    /// Notes for the next sign-in that the server wants more than the token is good for.
    async fn step_up(&self, wanted: &str) -> String {
        let desk = &self.desk;
        let shown = text::clean_line(wanted).into_owned();
        let noted = async {
            let held = desk.logins.hold().await?;
            desk.ready().await;
            desk.logins.key_to_write().await;
            let mut known = desk.known();
            desk.reread(&mut known)?;
            let Some(login) = known.login.as_mut() else {
                return Ok(false);
            };
            let had = login.scope.clone().unwrap_or_default();
            let is_had = scopes(wanted).all(|scope| scopes(&had).any(|had| had == scope));
            let both = merge_scopes(login.wanted_scope.as_deref().unwrap_or_default(), wanted);
            if login.wanted_scope.as_ref() != Some(&both) {
                login.wanted_scope = Some(both);
                desk.write(&mut known, &held);
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

impl Refresher {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing in there is ever half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the keychain, with nothing held, so that nobody does who looks at the file next.
    async fn ready(&self) {
        let (is_other, is_unsaved) = {
            let known = self.known();
            let is_other = known.edition != Some(self.logins.edition());
            (is_other, known.login != known.on_file)
        };
        if is_other {
            self.logins.key_to_read().await;
        }
        if is_unsaved {
            self.logins.key_to_write().await;
        }
    }

    /// Reads the file if it is another one than before.
    fn reread(&self, known: &mut Known) -> Result<(), AuthError> {
        let edition = self.logins.edition();
        if known.edition == Some(edition) {
            return Ok(());
        }
        let on_file = self.logins.read()?.logins.remove(&self.key);
        if on_file != known.on_file {
            if on_file != known.login {
                // What came of the old one says nothing of this one.
                (known.failed, known.refreshed_at) = (None, None);
                known.login.clone_from(&on_file);
            }
            known.on_file = on_file;
        }
        known.edition = Some(edition);
        Ok(())
    }

    /// Gets a new token, unless another process just did, or nothing came of it a moment ago. `refused` is a token that
    /// the server does not take. It goes on to its end, whoever waits for it.
    fn refresh(self: &Arc<Self>, known: &mut Known, refused: Option<Secret>) -> Refresh {
        let is_under_way = |refresh: &&Refresh| refresh.peek().is_none();
        if let Some(refresh) = known.refresh.as_ref().filter(is_under_way) {
            return refresh.clone();
        }
        let failed = known.failed.as_ref();
        if let Some((_, why)) = failed.filter(|(at, _)| is_recent(*at, (self.now)())) {
            return future::ready(Err(why.clone())).boxed().shared();
        }
        let desk = Arc::clone(self);
        let job = tokio::spawn(async move {
            let done = desk.ask_anew(refused.as_ref()).await;
            desk.known().failed = done.clone().err().map(|why| ((desk.now)(), why));
            done
        });
        let ended = |ended: Result<_, _>| ended.unwrap_or_else(|_| Err(ENDED.to_owned()));
        let refresh = job.map(ended).boxed().shared();
        known.refresh = Some(refresh.clone());
        refresh
    }

    async fn ask_anew(&self, refused: Option<&Secret>) -> Result<(), String> {
        let held = self
            .logins
            .hold()
            .await
            .map_err(|error| error.to_string())?;
        self.ready().await;
        // Before the issuer is asked: what it gives is to be kept even if longhaul ends at that moment.
        self.logins.key_to_write().await;
        let (mut login, refresh) = {
            let mut known = self.known();
            // After the lock: whoever held it may have spent the refresh token.
            self.reread(&mut known).map_err(|error| error.to_string())?;
            let is_wanted = match refused {
                Some(refused) => known.access() == Some(refused),
                None => known.is_due((self.now)()),
            };
            let login = known.login.clone().filter(|_| is_wanted);
            let Some((login, refresh)) = login.and_then(|login| {
                let refresh = login.refresh.clone()?;
                Some((login, refresh))
            }) else {
                return Ok(());
            };
            (login, refresh)
        };
        let asked = tokens::ask(
            &self.fetcher,
            &login.token_endpoint,
            &login.client,
            &login.resource,
            Grant::Refresh(&refresh),
            (self.now)(),
        );
        let asked = asked.await;
        let mut known = self.known();
        match asked {
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
                    "the token for {} has expired, and {} did not issue a new one: {why}",
                    self.name,
                    super::host(&login.token_endpoint)
                ));
            }
            Err(NoTokens::Never(why)) => {
                tracing::warn!(server = %self.name, %why, "the sign-in has expired");
                (login.access, login.refresh) = (None, None);
                (login.refresh_at, login.expires_at) = (None, None);
            }
        }
        known.login = Some(login);
        self.write(&mut known, &held);
        Ok(())
    }

    /// Writes what could not be written before, unless somebody else is at the file: the next request tries again.
    fn save(&self, known: &mut Known) {
        if known.login != known.on_file
            && let Ok(Some(held)) = self.logins.try_hold()
            && self.reread(known).is_ok()
            && known.login != known.on_file
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
        match written {
            Ok(()) => {
                known.on_file.clone_from(&known.login);
                known.edition = Some(self.logins.edition());
            }
            Err(error) => tracing::warn!(%error, "the new token was not kept"),
        }
    }
}

impl SignIn for TokenManager {
    fn token(&self) -> BoxFuture<'_, Result<Option<SecretString>, String>> {
        Box::pin(self.current())
    }

    fn private(&self) -> Vec<SecretString> {
        let known = self.desk.known();
        let login = known.login.as_ref();
        let secrets = login
            .into_iter()
            .flat_map(|it| [&it.refresh, &it.client.secret]);
        secrets.flatten().map(|secret| secret.0.clone()).collect()
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
                .filter(Challenge::needs_more_scope)
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
    use crate::auth::{
        Keychain, seal,
        tests::{Issuer, login_at},
    };
    use std::sync::atomic::{AtomicI64, Ordering};

    struct Refresher {
        dir: std::path::PathBuf,
        clock: Arc<AtomicI64>,
        server: Url,
    }

    impl Drop for Refresher {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }

    impl Refresher {
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
            let held = logins.hold().await.unwrap();
            let mut book = logins.read().unwrap();
            book.logins.insert(key_of(server), login);
            logins.write(&held, &book).unwrap();
        }

        fn on_file(&self) -> Login {
            let mut book = self.logins().read().unwrap();
            book.logins.remove(&key_of(&self.server)).unwrap()
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

    async fn refused(
        manager: &TokenManager,
        sent: &SecretString,
    ) -> Result<SecretString, Option<String>> {
        let status = StatusCode::UNAUTHORIZED;
        manager.refused(Some(sent), status, None).await
    }

    #[tokio::test]
    async fn an_issuer_that_is_down_is_asked_again_after_a_while_and_not_at_once() {
        let issuer = Issuer::new(|_| (503, String::new()));
        let desk = Refresher::new("down");
        let mut login = login_at(&issuer.url);
        (login.refresh_at, login.expires_at) = (Some(Wall(0)), Some(Wall(1)));
        desk.write(login).await;
        let manager = desk.manager();
        for _ in 0..3 {
            assert!(manager.token().await.unwrap_err().contains("has expired"));
            assert_eq!(manager.due(), Some(Wall(1_000_000).after(NEXT_TRY)));
        }
        assert_eq!(issuer.asked(), 1);
        desk.pass(NEXT_TRY);
        assert!(manager.token().await.is_err());
        assert_eq!(issuer.asked(), 2);
        // One that was signed in for since is another matter.
        desk.write(login_at(&issuer.url)).await;
        assert!(manager.token().await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_token_that_is_refused_as_it_comes_is_not_replaced_and_no_news_for_another_process() {
        let issuer = Issuer::new(|number| {
            let answer = format!(r#"{{"access_token":"new-{number}","expires_in":10}}"#);
            (200, answer)
        });
        let desk = Refresher::new("news");
        desk.write(login_at(&issuer.url)).await;
        let (one, two) = (desk.manager(), desk.manager());
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

    const NEW: &str = r#"{"access_token":"new","refresh_token":"next","expires_in":9000}"#;

    /// An issuer that says when it is asked, and answers when it is told to.
    fn slow_issuer() -> (
        Issuer,
        tokio::sync::mpsc::Receiver<()>,
        std::sync::mpsc::Sender<()>,
    ) {
        let (tell, asked) = tokio::sync::mpsc::channel(9);
        let (release, released) = std::sync::mpsc::channel();
        let issuer = Issuer::new(move |_| {
            tell.blocking_send(()).unwrap();
            released.recv().unwrap();
            (200, NEW.to_owned())
        });
        (issuer, asked, release)
    }

    #[tokio::test]
    async fn a_slow_issuer_holds_up_no_request_whose_token_is_still_good() {
        let (issuer, mut asked, release) = slow_issuer();
        let desk = Refresher::new("slow");
        let mut login = login_at(&issuer.url);
        (login.refresh_at, login.expires_at) = (Some(Wall(0)), Some(Wall(2_000_000)));
        desk.write(login.clone()).await;
        let manager = desk.manager();
        let (one, two) = tokio::join!(manager.token(), manager.token());
        for token in [one, two] {
            assert_eq!(token.unwrap().map(Secret), login.access);
        }
        asked.recv().await.unwrap();
        release.send(()).unwrap();
        manager.settle().await;
        let token = manager.token().await.unwrap().unwrap();
        assert_eq!(Secret(token).text(), "new");
        assert_eq!(issuer.asked(), 1);
    }

    #[tokio::test]
    async fn a_refresh_goes_on_to_its_end_when_the_request_that_began_it_is_given_up() {
        let (issuer, mut asked, release) = slow_issuer();
        let desk = Refresher::new("given-up");
        let mut login = login_at(&issuer.url);
        (login.refresh_at, login.expires_at) = (Some(Wall(0)), Some(Wall(1)));
        desk.write(login).await;
        let manager = desk.manager();
        tokio::select! {
            token = manager.token() => panic!("{token:?} before it was given"),
            it = asked.recv() => it.unwrap(),
        }
        drop(manager);
        release.send(()).unwrap();
        // Another one waits until the lock is free, and finds what came of it.
        let token = desk.manager().token().await.unwrap().unwrap();
        assert_eq!(Secret(token).text(), "new");
        assert_eq!(desk.on_file().refresh.unwrap().text(), "next");
        assert_eq!(issuer.asked(), 1);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_any_more_takes_no_token_away_and_is_not_read_without_a_pause()
     {
        let issuer = Issuer::new(|_| (200, NEW.to_owned()));
        let desk = Refresher::new("sealed");
        let mut login = login_at(&issuer.url);
        (login.refresh_at, login.expires_at) = (Some(Wall(1_000_001)), Some(Wall(2_000_000)));
        desk.write(login.clone()).await;
        let manager = desk.manager();
        assert!(manager.token().await.unwrap().is_some());
        // Another terminal has a keychain, and sealed it.
        let path = desk.dir.join("logins.json");
        let sealed = br#"{"version":2,"key":"theirs","book":"x"}"#;
        crate::store::write_atomically(&path, sealed).unwrap();
        desk.pass(Duration::from_millis(1));
        manager.renew().await;
        assert_eq!(manager.due(), Some(Wall(1_000_001).after(NEXT_TRY)));
        assert_eq!(manager.token().await.unwrap().map(Secret), login.access);
        // Whoever can read it again has a new one as soon as it is due.
        std::fs::remove_file(&path).unwrap();
        desk.write(login).await;
        desk.pass(NEXT_TRY);
        manager.renew().await;
        assert_eq!(
            Secret(manager.token().await.unwrap().unwrap()).text(),
            "new"
        );
        assert_eq!(issuer.asked(), 1);
    }

    #[tokio::test]
    async fn a_keychain_that_takes_its_time_holds_up_nothing_else() {
        let issuer = Issuer::new(|_| (200, NEW.to_owned()));
        let desk = Refresher::new("keychain");
        let (login, path) = (login_at(&issuer.url), desk.dir.join("logins.json"));
        desk.write(login.clone()).await;
        let key = seal::new_key().unwrap();
        let book = seal::seal(&key, &std::fs::read(&path).unwrap()).unwrap();
        let sealed = serde_json::json!({"version": 2, "key": "mine", "book": book}).to_string();
        crate::store::write_atomically(&path, sealed.as_bytes()).unwrap();
        let (answer, late) = std::sync::mpsc::channel();
        let keychain = Keychain::asking("mine", move || late.recv().unwrap());
        let manager = desk.manager_of(&Logins::new(&path, keychain));
        let mut token = std::pin::pin!(manager.token());
        tokio::select! {
            biased;
            token = &mut token => panic!("{token:?} before the key was there"),
            () = tokio::task::yield_now() => assert!(!manager.has_news()),
        }
        answer.send(Ok(Some(key))).unwrap();
        let mut token = token.await.unwrap();
        while token.is_none() {
            token = manager.token().await.unwrap();
        }
        assert_eq!(token.map(Secret), login.access);
    }

    #[tokio::test]
    async fn new_tokens_that_could_not_be_written_outlive_what_another_process_writes() {
        let desk = Refresher::new("unsaved");
        let (dir, away) = (desk.dir.clone(), desk.dir.with_extension("away"));
        let (from, to) = (dir.clone(), away.clone());
        let issuer = Issuer::new(move |_| {
            std::fs::rename(&from, &to).unwrap();
            (200, NEW.to_owned())
        });
        let mut login = login_at(&issuer.url);
        (login.refresh_at, login.expires_at) = (Some(Wall(0)), Some(Wall(1)));
        desk.write(login.clone()).await;
        let manager = desk.manager();
        manager.renew().await;
        std::fs::rename(&away, &dir).unwrap();
        let other = Url::parse("https://other/mcp").unwrap();
        desk.write_for(&other, login).await;
        let token = manager.token().await.unwrap().unwrap();
        assert_eq!(Secret(token).text(), "new");
        assert_eq!(desk.on_file().refresh.unwrap().text(), "next");
        assert_eq!(issuer.asked(), 1);
    }
}

//! Encryption keys in the desktop's keychain: Keychain on macOS, the Secret Service elsewhere.
//!
//! Must not know what the keys encrypt. Invariants: a keychain that prompts the user first delays nobody for long, and only
//! once; every key gets a name of its own, so that none is ever replaced; no key appears in debug output.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use keyring_core::{Entry, Error, api::CredentialStoreApi as _};
use secrecy::{ExposeSecret as _, SecretString};

#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain::Store;
#[cfg(not(target_os = "macos"))]
use dbus_secret_service_keyring_store::Store;

use crate::domain::locked;

/// The service name of our entries in the keychain.
const SERVICE: &str = "longhaul";
/// How long a caller waits for the keychain. A later answer is cached for the next caller.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// When to ask again for a key that was not found, because the user may have unlocked the keychain. Asking more often could
/// open one dialog after another.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// The keychain, or why there is none. Clones share a cache of the keys.
#[derive(Clone)]
pub struct Keychain {
    inner: Arc<Inner>,
    /// How long this handle waits for an answer.
    timeout: Duration,
}

struct Inner {
    /// Why there is no keychain, if there is none.
    available: Result<(), KeychainError>,
    /// By key name.
    lookups: Mutex<BTreeMap<String, Lookup>>,
    /// Name and value of the one key that this process creates.
    new_key: OnceLock<(String, SecretString)>,
    answered: Condvar,
}

#[derive(Clone, Debug)]
struct Lookup {
    /// `None` while the keychain has not answered.
    answer: Option<KeyResult>,
    asked_at: Instant,
}

impl Lookup {
    /// Whether to ask again: the last answer was not a key, and is old enough.
    fn is_stale(&self) -> bool {
        let is_found_or_pending = matches!(self.answer, Some(Ok(Some(_))) | None);
        !is_found_or_pending && self.asked_at.elapsed() >= RETRY_AFTER
    }
}

/// The key; `None` if the keychain does not have it.
type KeyResult = Result<Option<SecretString>, KeychainError>;

/// Why the login file is not encrypted with a key from the keychain. No variant holds any part of a key.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KeychainError {
    /// There is no keychain.
    #[error("{0}")]
    Unavailable(&'static str),
    /// It has not answered in time.
    #[error("no response from the keychain; it may be locked")]
    NoResponse,
    /// The system's keychain reported an error.
    #[error("the keychain failed ({0})")]
    Failed(String),
    /// The file was encrypted elsewhere.
    #[error("this keychain does not have that key")]
    Missing,
    /// The file was encrypted with another key of the same name.
    #[error("the key does not match")]
    WrongKey,
    /// The file is not encrypted, although there is a keychain now.
    #[error("it was written without a keychain")]
    NotUsed,
}

impl Keychain {
    /// The desktop's keychain.
    pub fn desktop() -> Self {
        Self::new(Ok(()))
    }

    /// No keychain, with the reason.
    pub fn none(why: &'static str) -> Self {
        Self::new(Err(KeychainError::Unavailable(why)))
    }

    fn new(available: Result<(), KeychainError>) -> Self {
        let inner = Inner {
            available,
            lookups: Mutex::default(),
            new_key: OnceLock::new(),
            answered: Condvar::new(),
        };
        Self {
            inner: Arc::new(inner),
            timeout: ANSWER_TIMEOUT,
        }
    }

    /// A handle that waits this long for an answer; with no time, it returns only cached keys.
    pub(super) fn waiting(&self, timeout: Duration) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            timeout,
        }
    }

    /// The key of this name, if there is one.
    ///
    /// # Errors
    /// Why the keychain can't be used.
    pub(super) fn key(&self, name: &str) -> KeyResult {
        self.inner.available.clone()?;
        let mut lookups = locked(&self.inner.lookups);
        if lookups.get(name).is_none_or(Lookup::is_stale) {
            self.start_lookup(&mut lookups, name, fetch_key);
        }
        self.wait(lookups, name)
    }

    /// Stores a new key, and returns its name and value.
    ///
    /// Each process creates only one key; later calls return the first. A locked keychain may store it later, and a second
    /// key would be of no use.
    ///
    /// # Errors
    /// As for [`Self::key`].
    pub(super) fn create_key(
        &self,
        name: String,
        key: SecretString,
    ) -> Result<(String, SecretString), KeychainError> {
        self.inner.available.clone()?;
        let mut lookups = locked(&self.inner.lookups);
        let (name, key) = self.inner.new_key.get_or_init(|| (name, key)).clone();
        if lookups.get(&name).is_none_or(Lookup::is_stale) {
            let key = key.clone();
            self.start_lookup(&mut lookups, &name, move |name| {
                store_key(name, &key).map(Some)
            });
        }
        self.wait(lookups, &name)?;
        Ok((name, key))
    }

    /// Runs `lookup` on its own thread, because the keychain may prompt the user first.
    fn start_lookup(
        &self,
        lookups: &mut BTreeMap<String, Lookup>,
        name: &str,
        lookup: impl FnOnce(&str) -> KeyResult + Send + 'static,
    ) {
        let pending = Lookup {
            answer: None,
            asked_at: now(),
        };
        lookups.insert(name.to_owned(), pending);
        let (keychain, name) = (self.clone(), name.to_owned());
        let run = move || {
            let answer = lookup(&name);
            if let Some(pending) = locked(&keychain.inner.lookups).get_mut(&name) {
                pending.answer = Some(answer);
            }
            keychain.inner.answered.notify_all();
        };
        let thread = std::thread::Builder::new().name("keychain".to_owned());
        // If the thread can't start, the lookup reports that there was no answer.
        let _ = thread.spawn(run);
    }

    /// Waits for the answer, for what is left of this handle's timeout since the lookup started.
    fn wait(&self, lookups: MutexGuard<'_, BTreeMap<String, Lookup>>, name: &str) -> KeyResult {
        let asked_at = lookups.get(name).map_or_else(now, |lookup| lookup.asked_at);
        let left = self.timeout.saturating_sub(asked_at.elapsed());
        let is_pending = |lookups: &mut BTreeMap<String, Lookup>| {
            lookups
                .get(name)
                .is_some_and(|lookup| lookup.answer.is_none())
        };
        let waited = self
            .inner
            .answered
            .wait_timeout_while(lookups, left, is_pending);
        let (lookups, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let answer = lookups.get(name).and_then(|lookup| lookup.answer.clone());
        answer.unwrap_or(Err(KeychainError::NoResponse))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "bounds a wait for another program, and has no effect on tasks"
)]
fn now() -> Instant {
    Instant::now()
}

fn entry(name: &str) -> Result<Entry, Error> {
    Store::new()?.build(SERVICE, name, None)
}

fn fetch_key(name: &str) -> KeyResult {
    match entry(name).and_then(|entry| entry.get_password()) {
        Ok(key) => Ok(Some(key.into())),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn store_key(name: &str, key: &SecretString) -> Result<SecretString, KeychainError> {
    let kept = entry(name).and_then(|entry| {
        entry.set_password(key.expose_secret())?;
        entry.get_password()
    });
    Ok(SecretString::from(kept?))
}

impl From<Error> for KeychainError {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    impl Keychain {
        /// A keychain with a fixed answer for one key.
        pub(in crate::auth) fn with_answer(name: &str, answer: KeyResult) -> Self {
            Self::with_lookup(name, move || answer)
        }

        /// A keychain with a running lookup of one key.
        pub(in crate::auth) fn with_lookup(
            name: &str,
            answer: impl FnOnce() -> KeyResult + Send + 'static,
        ) -> Self {
            let keychain = Self::new(Ok(()));
            keychain.start_lookup(&mut locked(&keychain.inner.lookups), name, move |_| {
                answer()
            });
            keychain
        }
    }

    #[test]
    fn waits_only_once_for_an_unresponsive_keychain() {
        let keychain = Keychain::desktop();
        let (answer, late) = mpsc::channel();
        let asking = move |_: &str| late.recv().unwrap_or(Ok(None));
        keychain.start_lookup(&mut locked(&keychain.inner.lookups), "a", asking);
        assert!(matches!(
            keychain.key("a").unwrap_err(),
            KeychainError::NoResponse
        ));
        let start = now();
        for _ in 0..1000 {
            keychain.key("a").unwrap_err();
        }
        assert!(start.elapsed() < ANSWER_TIMEOUT, "each of them waited");
        // A late answer is cached for the next caller.
        answer.send(Ok(Some("key".to_owned().into()))).unwrap();
        while keychain.key("a").is_err() {
            std::thread::yield_now();
        }
        assert_eq!(keychain.key("a").unwrap().unwrap().expose_secret(), "key");
    }

    #[test]
    fn offers_a_locked_keychain_only_one_key() {
        let key = |text: &str| SecretString::from(text.to_owned());
        let keychain =
            Keychain::with_answer("first", Err(KeychainError::Failed("locked".to_owned())));
        let new_key = ("first".to_owned(), key("key"));
        keychain.inner.new_key.set(new_key).unwrap();
        for _ in 0..3 {
            let made = keychain.create_key("next".to_owned(), key("another"));
            assert!(made.unwrap_err().to_string().contains("locked"));
        }
        assert_eq!(locked(&keychain.inner.lookups).len(), 1);
        // The user unlocks it during a lookup.
        keychain.start_lookup(&mut locked(&keychain.inner.lookups), "first", move |_| {
            Ok(Some(key("key")))
        });
        let made = keychain.create_key("next".to_owned(), key("another"));
        let (name, made) = made.unwrap();
        assert_eq!((name.as_str(), made.expose_secret()), ("first", "key"));
    }
}

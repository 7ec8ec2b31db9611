//! Keys in the keychain of the desktop, which seal files of logins: Keychain on macOS, the Secret Service elsewhere.
//!
//! Must not know what is sealed. Invariants: a keychain that first asks its person holds nobody up for long, and that only
//! once; a key is made under a name of its own, so that none is ever replaced; a key is in no debug text.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use keyring_core::{Entry, Error, api::CredentialStoreApi as _};
use secrecy::{ExposeSecret as _, SecretString};

#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain::Store;
#[cfg(not(target_os = "macos"))]
use dbus_secret_service_keyring_store::Store;

/// What keys are filed under there, beside their names.
const SERVICE: &str = "longhaul";
/// How long somebody waits for an answer. It may still come, and is there for who asks next.
const WITHIN: Duration = Duration::from_secs(2);
/// When one that had no key is asked for it anew: somebody may have unlocked it. Often would be one dialog after another.
const ASKED_ANEW_AFTER: Duration = Duration::from_secs(30);

/// The keychain, or why there is none. Copies are handles to the same one, which is asked once for a key that it has.
#[derive(Clone)]
pub struct Keychain {
    inner: Arc<Inner>,
    /// How long this handle waits for an answer.
    within: Duration,
}

struct Inner {
    /// Why there is none.
    none: Option<String>,
    known: Mutex<BTreeMap<String, Known>>,
    /// The one key that this process makes, with its name.
    own: OnceLock<(String, SecretString)>,
    answered: Condvar,
}

/// What is known of a key.
#[derive(Clone, Debug)]
struct Known {
    answer: Option<Answer>,
    asked_at: Instant,
}

impl Known {
    /// Whether it may be asked once more: it has said something else than the key, and that a while ago.
    fn is_stale(&self) -> bool {
        let is_open = matches!(self.answer, Some(Ok(Some(_))) | None);
        !is_open && self.asked_at.elapsed() >= ASKED_ANEW_AFTER
    }
}

/// The key, if the keychain has it, or in words why it could not be asked.
type Answer = Result<Option<SecretString>, String>;

impl fmt::Debug for Keychain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keychain").field(&self.inner.none).finish()
    }
}

impl Keychain {
    /// That of the desktop.
    pub fn of_desktop() -> Self {
        Self::new(None)
    }

    /// None, for this reason in words.
    pub fn none(why: impl Into<String>) -> Self {
        Self::new(Some(why.into()))
    }

    fn new(none: Option<String>) -> Self {
        let inner = Inner {
            none,
            known: Mutex::default(),
            own: OnceLock::new(),
            answered: Condvar::new(),
        };
        Self {
            inner: Arc::new(inner),
            within: WITHIN,
        }
    }

    /// The same, for one who waits for no answer and takes what is there.
    pub(super) fn at_once(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            within: Duration::ZERO,
        }
    }

    /// The same, for one who can wait.
    pub(super) fn in_time(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            within: WITHIN,
        }
    }

    /// One that answers so when it is asked for the key of this name.
    #[cfg(test)]
    pub(super) fn answering(name: &str, answer: Answer) -> Self {
        Self::asking(name, move || answer)
    }

    /// One that is being asked for the key of this name.
    #[cfg(test)]
    pub(super) fn asking(name: &str, answer: impl FnOnce() -> Answer + Send + 'static) -> Self {
        let keychain = Self::new(None);
        keychain.ask(&mut keychain.known(), name, move |_| answer());
        keychain
    }

    /// The key of this name, if there is one.
    ///
    /// # Errors
    /// In words, why the keychain cannot be asked.
    pub(super) fn key(&self, name: &str) -> Answer {
        self.no()?;
        let mut known = self.known();
        if known.get(name).is_none_or(Known::is_stale) {
            self.ask(&mut known, name, look_up);
        }
        self.wait(known, name)
    }

    /// Makes this key the one of this new name; gives those that it was asked to make first, which are the only ones: it
    /// may take them once it is unlocked, and each further one would be one more that opens nothing.
    ///
    /// # Errors
    /// As [`Self::key`].
    pub(super) fn make(
        &self,
        name: String,
        key: SecretString,
    ) -> Result<(String, SecretString), String> {
        self.no()?;
        let mut known = self.known();
        let (name, key) = self.inner.own.get_or_init(|| (name, key)).clone();
        if known.get(&name).is_none_or(Known::is_stale) {
            let key = key.clone();
            self.ask(&mut known, &name, move |name| keep(name, &key).map(Some));
        }
        self.wait(known, &name)?;
        Ok((name, key))
    }

    /// Asks on a thread of its own, for the keychain may ask its person first.
    fn ask(
        &self,
        known: &mut BTreeMap<String, Known>,
        name: &str,
        ask: impl FnOnce(&str) -> Answer + Send + 'static,
    ) {
        let asked = Known {
            answer: None,
            asked_at: now(),
        };
        known.insert(name.to_owned(), asked);
        let (keychain, name) = (self.clone(), name.to_owned());
        let asking = move || {
            let answer = ask(&name);
            if let Some(known) = keychain.known().get_mut(&name) {
                known.answer = Some(answer);
            }
            keychain.inner.answered.notify_all();
        };
        let thread = std::thread::Builder::new().name("keychain".to_owned());
        // Without a thread it has not answered, which is said.
        let _ = thread.spawn(asking);
    }

    /// Waits for the answer, as long as it was asked for a short time ago.
    fn wait(&self, known: MutexGuard<'_, BTreeMap<String, Known>>, name: &str) -> Answer {
        let asked_at = known.get(name).map_or_else(now, |known| known.asked_at);
        let left = self.within.saturating_sub(asked_at.elapsed());
        let is_open = |known: &mut BTreeMap<String, Known>| {
            known.get(name).is_some_and(|known| known.answer.is_none())
        };
        let waited = self.inner.answered.wait_timeout_while(known, left, is_open);
        let (known, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let answer = known.get(name).and_then(|known| known.answer.clone());
        answer.unwrap_or_else(|| Err("it has not answered; it may be locked".to_owned()))
    }

    fn no(&self) -> Result<(), String> {
        self.inner.none.clone().map_or(Ok(()), Err)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        // Nothing in there is ever half done.
        self.inner
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it bounds a wait for another program, and decides nothing of a task"
)]
fn now() -> Instant {
    Instant::now()
}

fn entry(name: &str) -> Result<Entry, Error> {
    Store::new()?.build(SERVICE, name, None)
}

fn look_up(name: &str) -> Answer {
    match entry(name).and_then(|entry| entry.get_password()) {
        Ok(key) => Ok(Some(key.into())),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(message(&error)),
    }
}

fn keep(name: &str, key: &SecretString) -> Result<SecretString, String> {
    let kept = entry(name).and_then(|entry| {
        entry.set_password(key.expose_secret())?;
        entry.get_password()
    });
    kept.map(SecretString::from)
        .map_err(|error| message(&error))
}

/// What a keychain says of itself, without what it holds.
fn message(error: &Error) -> String {
    match error {
        Error::PlatformFailure(why) => format!("it cannot be used ({why})"),
        Error::NoStorageAccess(why) => format!("it is locked or out of reach ({why})"),
        Error::Ambiguous(_) => "it has more than one key of this name".to_owned(),
        _ => "what it has of this name is no key".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn one_that_does_not_answer_is_waited_for_once() {
        let keychain = Keychain::of_desktop();
        let (answer, late) = mpsc::channel();
        let asking = move |_: &str| late.recv().unwrap_or(Ok(None));
        keychain.ask(&mut keychain.known(), "a", asking);
        assert!(keychain.key("a").unwrap_err().contains("not answered"));
        let begin = now();
        for _ in 0..1000 {
            keychain.key("a").unwrap_err();
        }
        assert!(begin.elapsed() < WITHIN, "each of them waited");
        // What comes late is there for the next.
        answer.send(Ok(Some("key".to_owned().into()))).unwrap();
        while keychain.key("a").is_err() {
            std::thread::yield_now();
        }
        assert_eq!(keychain.key("a").unwrap().unwrap().expose_secret(), "key");
    }

    #[test]
    fn a_locked_one_is_offered_one_key_and_that_once() {
        let key = |text: &str| SecretString::from(text.to_owned());
        let keychain = Keychain::answering("first", Err("it is locked".to_owned()));
        let own = ("first".to_owned(), key("key"));
        keychain.inner.own.set(own).unwrap();
        for _ in 0..3 {
            let made = keychain.make("next".to_owned(), key("another"));
            assert!(made.unwrap_err().contains("locked"));
        }
        assert_eq!(keychain.known().len(), 1);
        // Its person unlocks it while it is asked.
        keychain.ask(&mut keychain.known(), "first", move |_| {
            Ok(Some(key("key")))
        });
        let made = keychain.make("next".to_owned(), key("another"));
        let (name, made) = made.unwrap();
        assert_eq!((name.as_str(), made.expose_secret()), ("first", "key"));
    }
}

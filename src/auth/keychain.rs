//! A key in the keychain of the desktop, which seals the file of logins: Keychain on macOS, the Secret Service elsewhere.
//!
//! Must not know what is sealed. Invariants: a keychain that first asks its person holds nobody up for long; a key is made
//! once, and is in no debug text.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use keyring_core::{Entry, Error, api::CredentialStoreApi as _};
use secrecy::{ExposeSecret as _, SecretString};

#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain::Store;
#[cfg(not(target_os = "macos"))]
use dbus_secret_service_keyring_store::Store;

/// What it is filed under there.
const SERVICE: &str = "longhaul";
/// How long somebody waits for an answer. It may still come, and is there for who asks next.
const WITHIN: Duration = Duration::from_secs(2);

/// The keychain, or why there is none. Copies are handles to the same one, which is asked once in the life of a process.
#[derive(Clone)]
pub struct Keychain(Arc<Inner>);

struct Inner {
    /// Whose key it is: one for each file.
    account: String,
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Clone)]
enum State {
    Unasked,
    Asked,
    Answered(Result<Option<SecretString>, String>),
}

impl fmt::Debug for Keychain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let account = &self.0.account;
        f.debug_tuple("Keychain").field(account).finish()
    }
}

impl Keychain {
    /// That of the desktop, which keeps a key for `account`, e.g. the path of what it seals.
    pub fn of_desktop(account: String) -> Self {
        Self::new(account, State::Unasked)
    }

    /// None, for this reason in words.
    pub fn none(why: impl Into<String>) -> Self {
        Self::new(String::new(), State::Answered(Err(why.into())))
    }

    /// One that has answered so.
    #[cfg(test)]
    pub(super) fn answering(answer: Result<Option<SecretString>, String>) -> Self {
        Self::new("test".to_owned(), State::Answered(answer))
    }

    fn new(account: String, state: State) -> Self {
        Self(Arc::new(Inner {
            account,
            state: Mutex::new(state),
            answered: Condvar::new(),
        }))
    }

    /// The key, if there is one.
    ///
    /// # Errors
    /// In words, why the keychain cannot be asked.
    pub(super) fn key(&self) -> Result<Option<SecretString>, String> {
        let mut state = self.state();
        if matches!(*state, State::Unasked) {
            *state = State::Asked;
            let keychain = self.clone();
            let asking = move || {
                let answer = look_up(&keychain.0.account);
                keychain.answer(answer);
            };
            let thread = std::thread::Builder::new().name("keychain".to_owned());
            if let Err(error) = thread.spawn(asking) {
                *state = State::Answered(Err(format!("it could not be asked: {error}")));
            }
        }
        let is_asked = |state: &mut State| matches!(state, State::Asked);
        let waited = self.0.answered.wait_timeout_while(state, WITHIN, is_asked);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Answered(answer) => answer.clone(),
            State::Unasked | State::Asked => {
                Err("it has not answered yet; it may be locked".to_owned())
            }
        }
    }

    /// The key, made now from `fresh` if there was none. Whoever calls it holds the lock of what is sealed.
    ///
    /// # Errors
    /// As [`Self::key`].
    pub(super) fn key_or(&self, fresh: &SecretString) -> Result<SecretString, String> {
        if let Some(key) = self.key()? {
            return Ok(key);
        }
        let answer = keep(&self.0.account, fresh);
        self.answer(answer.clone().map(Some));
        answer
    }

    fn answer(&self, answer: Result<Option<SecretString>, String>) {
        *self.state() = State::Answered(answer);
        self.0.answered.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in there is ever half done.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry(account: &str) -> Result<Entry, Error> {
    Store::new()?.build(SERVICE, account, None)
}

fn look_up(account: &str) -> Result<Option<SecretString>, String> {
    match entry(account).and_then(|entry| entry.get_password()) {
        Ok(key) => Ok(Some(key.into())),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(words(&error)),
    }
}

fn keep(account: &str, key: &SecretString) -> Result<SecretString, String> {
    let kept = entry(account).and_then(|entry| {
        entry.set_password(key.expose_secret())?;
        entry.get_password()
    });
    kept.map(SecretString::from).map_err(|error| words(&error))
}

/// What a keychain says of itself, without what it holds.
fn words(error: &Error) -> String {
    match error {
        Error::PlatformFailure(why) => format!("it cannot be used ({why})"),
        Error::NoStorageAccess(why) => format!("it is locked or out of reach ({why})"),
        Error::Ambiguous(_) => "it has more than one key for this file".to_owned(),
        _ => "what it holds for this file is no key".to_owned(),
    }
}

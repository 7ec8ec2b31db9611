//! The login file: for each server its tokens and what is needed to refresh them. All sessions share it.

use std::{collections::BTreeMap, path::Path, time::Duration};

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

use super::{
    AuthError,
    keychain::{ANSWER_TIMEOUT, Keychain, KeychainError},
    sealing,
};
use crate::{
    domain::Wall,
    store::{Held, PrivateFile, StoreError},
};

/// The file format without a keychain.
const PLAIN_FORMAT: u32 = 1;

/// The file format if a keychain holds the key.
const SEALED_FORMAT: u32 = 2;

/// No key has this name; looking it up shows whether there is a keychain.
const MISSING_KEY_NAME: &str = "none";

/// How often to retry a lock that another process holds.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// How long to retry: the other process may be waiting for an authorization server.
const LOCK_TIMEOUT: Duration = Duration::from_secs(90);

/// A secret that is written to the login file, but never to debug output.
#[derive(Clone, Debug)]
pub struct Secret(pub SecretString);

impl Secret {
    pub(super) fn text(&self) -> &str {
        self.0.expose_secret()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(text.into()))
    }
}

/// How a client authenticates at the token endpoint (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// It doesn't: a public client has only an id.
    None,
    /// With its secret in `Authorization: Basic`.
    ClientSecretBasic,
    /// With its secret in the form body.
    ClientSecretPost,
}

/// longhaul's client registration at an issuer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnClient {
    /// `client_id`.
    pub id: String,
    /// `client_secret`.
    pub secret: Option<Secret>,
    /// How the client authenticates.
    pub auth: ClientAuth,
    /// The registered redirect URI, if longhaul registered itself.
    pub registered_for: Option<String>,
}

/// The login for one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Login {
    /// When the user signed in. A refresh doesn't change it, so a new value means a new sign-in.
    #[serde(default)]
    pub signed_in_at: Wall,
    /// Who issued the tokens, as the exact string. Nobody else may see them.
    pub issuer: String,
    /// The resource that the tokens are for (RFC 8707).
    pub resource: String,
    /// Where to refresh the tokens.
    pub token_endpoint: Url,
    /// Where to revoke the tokens.
    pub revocation_endpoint: Option<Url>,
    /// The client registration that the tokens were issued to.
    pub client: OwnClient,
    /// The access token; `None` once the issuer has declared the grant invalid.
    pub access: Option<Secret>,
    /// The refresh token, if the issuer gave one.
    pub refresh: Option<Secret>,
    /// When to refresh, a while before the token expires.
    pub refresh_at: Option<Wall>,
    /// When the access token expires, if the issuer said so.
    pub expires_at: Option<Wall>,
    /// The granted scopes, space-separated.
    pub scope: Option<String>,
    /// Scopes that the server has asked for since the sign-in.
    pub wanted_scope: Option<String>,
}

impl Login {
    /// Whether it is time to refresh the token.
    pub fn is_due(&self, now: Wall) -> bool {
        self.refresh_at.is_some_and(|at| at <= now)
    }
}

/// The contents of the login file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoginFile {
    version: u32,
    /// Logins by server URL.
    pub logins: BTreeMap<String, Login>,
}

impl Default for LoginFile {
    fn default() -> Self {
        Self {
            version: PLAIN_FORMAT,
            logins: BTreeMap::new(),
        }
    }
}

/// The field that every version of the file has.
#[derive(Deserialize)]
struct FormatVersion {
    version: u32,
}

/// The file if a keychain holds the key: an encrypted [`LoginFile`].
#[derive(Serialize, Deserialize)]
struct Sealed {
    version: u32,
    /// The name of the key in the keychain, so that a file that was moved finds its own.
    key: String,
    #[serde(rename = "book")]
    ciphertext: String,
}

/// The login file on disk, and the keychain that may hold its key.
#[derive(Clone)]
pub struct Logins {
    /// The file that they are in.
    pub file: PrivateFile,
    keychain: Keychain,
}

impl Logins {
    /// The file at `path`, which need not exist.
    pub fn new(path: &Path, keychain: Keychain) -> Self {
        Self {
            file: PrivateFile {
                path: path.to_owned(),
            },
            keychain,
        }
    }

    /// Checks that the file is encrypted with a key in the keychain.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_sealed(&self) -> Result<(), KeychainError> {
        let Some(name) = self.key_name() else {
            let error = self.keychain.key(MISSING_KEY_NAME).err();
            return Err(error.unwrap_or(KeychainError::NotUsed));
        };
        self.keychain.key(&name).map(|_| ())
    }

    /// The name of the key that the file is encrypted with.
    fn key_name(&self) -> Option<String> {
        let bytes = self.file.read().ok()??;
        let sealed: Sealed = serde_json::from_slice(&bytes).ok()?;
        Some(sealed.key)
    }

    /// Name and value of the file's key, or of a new one; `None` without a keychain.
    fn own_key(&self) -> Result<Option<(String, SecretString)>, AuthError> {
        if let Some(name) = self.key_name()
            && let Ok(Some(key)) = self.keychain.key(&name)
        {
            return Ok(Some((name, key)));
        }
        let made = self
            .keychain
            .create_key(super::random_text()?, sealing::new_key()?);
        Ok(made.ok())
    }

    /// A handle that waits this long for the keychain. Until that has answered, an encrypted file can't be read.
    pub(super) fn waiting(&self, timeout: Duration) -> Self {
        Self {
            file: self.file.clone(),
            keychain: self.keychain.waiting(timeout),
        }
    }

    /// Asks the keychain for the key to read the file, without blocking the runtime. The key is cached for the next read.
    pub(super) async fn prefetch_read_key(&self) {
        self.in_background(|logins| {
            if let Some(name) = logins.key_name() {
                // The read reports an error.
                let _ = logins.keychain.key(&name);
            }
        })
        .await;
    }

    /// As [`Self::prefetch_read_key`], for the key to write the file.
    pub(super) async fn prefetch_write_key(&self) {
        // Without a key the file is written unencrypted.
        self.in_background(|logins| drop(logins.own_key())).await;
    }

    async fn in_background(&self, work: impl FnOnce(&Self) + Send + 'static) {
        let logins = self.waiting(ANSWER_TIMEOUT);
        // The panic hook has reported a panic.
        let _ = tokio::task::spawn_blocking(move || work(&logins)).await;
    }

    /// Waits until the file can be locked for changes.
    ///
    /// # Errors
    /// [`AuthError::Store`], and [`AuthError::LoginFile`] if it stays locked.
    pub async fn lock(&self) -> Result<Held, AuthError> {
        let waiting = async {
            loop {
                if let Some(lock) = self.file.try_hold()? {
                    return Ok(lock);
                }
                tokio::time::sleep(LOCK_RETRY_INTERVAL).await; // sleep: a file lock does not notify when it is free
            }
        };
        tokio::time::timeout(LOCK_TIMEOUT, waiting)
            .await
            .unwrap_or_else(|_| {
                Err(AuthError::LoginFile(format!(
                    "another longhaul process has locked {}; end that process and try again",
                    self.file.path.with_extension("lock").display()
                )))
            })
    }

    /// Reads the file; empty if it does not exist.
    ///
    /// # Errors
    /// [`AuthError::Store`]; [`AuthError::Damaged`] if it is not a login file; [`AuthError::LoginFile`] if a newer longhaul
    /// wrote it or its key can't be used.
    pub fn read(&self) -> Result<LoginFile, AuthError> {
        let damaged = |why: String| AuthError::Damaged {
            path: self.file.path.clone(),
            why,
        };
        let bytes = match self.file.read() {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(LoginFile::default()),
            Err(StoreError::Damaged { why, .. }) => return Err(damaged(why)),
            Err(error) => return Err(error.into()),
        };
        let format: Result<FormatVersion, _> = serde_json::from_slice(&bytes);
        // Not the parser's message, which may quote part of the text.
        let garbled = |error: serde_json::Error| {
            damaged(format!("line {}, column {}", error.line(), error.column()))
        };
        match format.ok().map(|format| format.version) {
            Some(version) if version > SEALED_FORMAT => Err(AuthError::LoginFile(format!(
                "could not read {}: a newer longhaul wrote it (format {version}; this version reads up to {SEALED_FORMAT}); update longhaul",
                self.file.path.display(),
            ))),
            Some(SEALED_FORMAT) => {
                let Sealed {
                    key, ciphertext, ..
                } = serde_json::from_slice(&bytes).map_err(garbled)?;
                // Not `Damaged`: with the right key the file may be fine, so it must not be set aside.
                let no_key = |why: KeychainError| {
                    AuthError::LoginFile(format!(
                        "could not decrypt {} with the key from the keychain: {why}; unlock the keychain, or move the file \
                         away and sign in again",
                        self.file.path.display()
                    ))
                };
                let found = self.keychain.key(&key).map_err(no_key)?;
                let Some(found) = found else {
                    return Err(no_key(KeychainError::Missing));
                };
                let Some(bytes) = sealing::open(&found, &ciphertext) else {
                    return Err(no_key(KeychainError::WrongKey));
                };
                serde_json::from_slice(&bytes).map_err(garbled)
            }
            _ => serde_json::from_slice(&bytes).map_err(garbled),
        }
    }

    /// Whether there is a token for `server` that is valid or can be refreshed; `None` if there was no sign-in.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn is_signed_in(&self, server: &Url, now: Wall) -> Result<Option<bool>, AuthError> {
        let login = self.read()?.logins.remove(&login_key(server));
        Ok(login.map(|login| match login.expires_at {
            Some(end) if end <= now => login.refresh.is_some(),
            _ => login.access.is_some(),
        }))
    }

    /// Reads the file in order to change it. A damaged file is renamed, and the returned notice says so.
    ///
    /// # Errors
    /// [`AuthError::Store`] and [`AuthError::LoginFile`].
    pub fn read_locked(&self, lock: &Held) -> Result<(LoginFile, Option<String>), AuthError> {
        match self.read() {
            Err(AuthError::Damaged { path, why }) => {
                let aside = self.file.set_aside(lock)?;
                let notice = format!(
                    "{} is damaged ({why}) and was renamed to {}; sign in again with `longhaul login`",
                    path.display(),
                    aside.display()
                );
                Ok((LoginFile::default(), Some(notice)))
            }
            other => Ok((other?, None)),
        }
    }

    /// Removes the login for the MCP endpoint `server`; the notice is that of [`Self::read_locked`].
    ///
    /// # Errors
    /// [`AuthError::Store`] and [`AuthError::LoginFile`].
    pub async fn remove(&self, server: &Url) -> Result<(Option<Login>, Option<String>), AuthError> {
        let lock = self.lock().await?;
        let (mut login_file, notice) = self.read_locked(&lock)?;
        let login = login_file.logins.remove(&login_key(server));
        if login.is_some() {
            self.write(&lock, &login_file)?;
        }
        Ok((login, notice))
    }

    /// Writes the whole file: encrypted if there is a keychain for the key, else readable by its owner only.
    ///
    /// # Errors
    /// If the file cannot be written, or the system could not provide random numbers.
    pub fn write(&self, lock: &Held, login_file: &LoginFile) -> Result<(), AuthError> {
        // Can't fail for text and numbers.
        let not_written =
            |error| AuthError::LoginFile(format!("could not write the logins: {error}"));
        let mut bytes = serde_json::to_vec_pretty(login_file).map_err(not_written)?;
        if let Some((name, key)) = self.own_key()?
            && let Some(ciphertext) = sealing::seal(&key, &bytes)?
        {
            let sealed = Sealed {
                version: SEALED_FORMAT,
                key: name,
                ciphertext,
            };
            bytes = serde_json::to_vec_pretty(&sealed).map_err(not_written)?;
        }
        Ok(self.file.write(lock, &bytes)?)
    }
}

/// The key of the MCP endpoint `server` in the login file: its URL without fragment.
pub(super) fn login_key(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::tests::login_at;

    fn login_file() -> LoginFile {
        let issuer = Url::parse("https://issuer/token").unwrap();
        let mut login_file = LoginFile::default();
        login_file
            .logins
            .insert("https://h/mcp".to_owned(), login_at(&issuer));
        login_file
    }

    async fn save(logins: &Logins) {
        let lock = logins.lock().await.unwrap();
        logins.write(&lock, &login_file()).unwrap();
    }

    fn key() -> SecretString {
        sealing::new_key().unwrap()
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[tokio::test]
    async fn only_the_key_in_the_keychain_decrypts_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logins.json");
        let plain = Logins::new(&path, Keychain::none("a test"));
        save(&plain).await;
        assert!(text(&path).contains("canary-access"), "the plain file");
        let (name, key) = ("mine", key());
        let at = |answer| Logins::new(&path, Keychain::with_answer(name, answer));
        let good = at(Ok(Some(key.clone())));
        assert_eq!(good.read().unwrap(), login_file(), "reads a plain file too");
        // The key has the name that the file says.
        let bytes = serde_json::to_vec(&login_file()).unwrap();
        let sealed = sealing::seal(&key, &bytes).unwrap().unwrap();
        let whole = serde_json::json!({"version": 2, "key": name, "book": sealed}).to_string();
        crate::store::write_atomically(&path, whole.as_bytes()).unwrap();
        assert_eq!(good.read().unwrap(), login_file());
        save(&good).await;
        let sealed = text(&path);
        assert!(sealed.contains(name), "{sealed}");
        for secret in ["canary", "issuer", "https"] {
            assert!(!sealed.contains(secret), "{secret} in {sealed}");
        }
        assert_eq!(good.read().unwrap(), login_file());
        // A locked keychain, a missing key or a wrong key doesn't mean that the file is damaged, so it is kept.
        for answer in [
            Err(KeychainError::NoResponse),
            Ok(None),
            Ok(Some(self::key())),
        ] {
            let locked = at(answer);
            let lock = locked.lock().await.unwrap();
            let error = locked.read_locked(&lock).unwrap_err();
            let message = error.to_string();
            assert!(matches!(error, AuthError::LoginFile(_)), "{message}");
            assert!(message.contains("sign in again"), "{message}");
            assert_eq!(text(&path), sealed);
        }
    }

    #[test]
    fn does_not_read_a_file_from_a_newer_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logins.json");
        crate::store::write_atomically(&path, br#"{"version":3,"x":1}"#).unwrap();
        let error = Logins::new(&path, Keychain::none("a test"))
            .read()
            .unwrap_err();
        assert!(
            error.to_string().contains("a newer longhaul wrote it"),
            "{error}"
        );
    }
}

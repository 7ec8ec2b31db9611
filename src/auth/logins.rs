//! The file of logins: which server, whose tokens, and what it takes to get new ones. All sessions share it.

use std::{collections::BTreeMap, fmt, path::Path, time::Duration};

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

use super::{AuthError, flow::key_of, keychain::Keychain, seal};
use crate::{
    domain::Wall,
    store::{Edition, Held, PrivateFile, StoreError},
};

/// The format that this program writes, where there is no keychain ...
const VERSION: u32 = 1;
/// ... and where there is one.
const SEALED: u32 = 2;
/// No key has this name; whoever asks for it learns whether there is a keychain.
const NO_NAME: &str = "none";
/// How often a held lock is tried again, and for how long: whoever holds it is talking to an authorization server.
const TRY_EVERY: Duration = Duration::from_millis(20);
const TRY_FOR: Duration = Duration::from_secs(90);

/// A secret that is written to this file and to no debug text.
#[derive(Clone)]
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

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
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

/// How a client proves who it is at the token endpoint (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// It cannot: its id is all there is.
    None,
    /// Its secret in a header.
    ClientSecretBasic,
    /// Its secret in the form.
    ClientSecretPost,
}

impl ClientAuth {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
        }
    }
}

/// What we are called at an issuer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnClient {
    /// `client_id`.
    pub id: String,
    /// `client_secret`.
    pub secret: Option<Secret>,
    /// How it is shown.
    pub auth: ClientAuth,
    /// The one address that the issuer sends a browser back to, if we registered there ourselves.
    pub registered_for: Option<String>,
}

/// A login at one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Login {
    /// When somebody signed in; a refresh leaves it as it is, so another one is another sign-in.
    #[serde(default = "long_ago")]
    pub signed_in_at: Wall,
    /// Who made the tokens, letter for letter; they are of no use and no business to anybody else.
    pub issuer: String,
    /// What they were asked for.
    pub resource: String,
    /// Where new ones come from.
    pub token_endpoint: Url,
    /// Where they are given back.
    pub revocation_endpoint: Option<Url>,
    /// What we are called there.
    pub client: OwnClient,
    /// The token for the server; `None` once the issuer takes nothing of it any more.
    pub access: Option<Secret>,
    /// What the next one is got with, where the issuer gives such a thing.
    pub refresh: Option<Secret>,
    /// When the next one is due, a while before the end.
    pub refresh_at: Option<Wall>,
    /// The end of the token, where it is told.
    pub expires_at: Option<Wall>,
    /// The scopes that were asked for.
    pub scope: Option<String>,
    /// The scopes that the server asked for on top, since.
    #[serde(default)]
    pub wanted_scope: Option<String>,
}

impl Login {
    /// Whether a new token is due.
    pub fn is_due(&self, now: Wall) -> bool {
        self.refresh_at.is_some_and(|at| at <= now)
    }
}

fn long_ago() -> Wall {
    Wall(0)
}

/// How a sign-in stands without anything being asked of anybody.
#[derive(Debug)]
pub enum TokenState {
    /// Nobody is signed in.
    None,
    /// Its token is over, and a new one can be had.
    Over,
    /// Its token.
    Good(SecretString),
}

/// What the file says, by the URL of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoginFile {
    version: u32,
    /// The logins.
    pub logins: BTreeMap<String, Login>,
}

impl Default for LoginFile {
    fn default() -> Self {
        Self {
            version: VERSION,
            logins: BTreeMap::new(),
        }
    }
}

/// The part of the file that every version of it has.
#[derive(Deserialize)]
struct Format {
    version: u32,
}

/// The file where a keychain has its key: a [`LoginFile`], sealed.
#[derive(Serialize, Deserialize)]
struct Sealed {
    version: u32,
    /// The name of the key. It stands here and not in the keychain alone, so that a file that is moved finds its own.
    key: String,
    /// Sealed.
    book: String,
}

/// The file, and the keychain that has its key.
#[derive(Clone, Debug)]
pub struct Logins {
    file: PrivateFile,
    keychain: Keychain,
}

impl Logins {
    /// The file at `path`, whether it is there or not.
    pub fn new(path: &Path, keychain: Keychain) -> Self {
        Self {
            file: PrivateFile::new(path.to_owned()),
            keychain,
        }
    }

    /// Whether the file is sealed with a key of the keychain; `Err` says in words why not.
    ///
    /// # Errors
    /// In words.
    pub fn is_sealed(&self) -> Result<(), String> {
        match self.key_name() {
            Some(name) => self.keychain.key(&name).map(|_| ()),
            None => Err(self
                .keychain
                .key(NO_NAME)
                .err()
                .unwrap_or_else(|| "it was written without a keychain".to_owned())),
        }
    }

    /// The name of the key that the file is sealed with.
    fn key_name(&self) -> Option<String> {
        let bytes = self.file.read().ok()??;
        let sealed: Sealed = serde_json::from_slice(&bytes).ok()?;
        Some(sealed.key)
    }

    /// The key of the file with its name, else a new one; `None` where there is no keychain to have it.
    fn own_key(&self) -> Result<Option<(String, SecretString)>, AuthError> {
        if let Some(name) = self.key_name()
            && let Ok(Some(key)) = self.keychain.key(&name)
        {
            return Ok(Some((name, key)));
        }
        let made = self.keychain.make(super::random()?, seal::new_key()?);
        Ok(made.ok())
    }

    /// The same file, for one who must not be held up: where the keychain has not answered, nothing can be read.
    pub(super) fn at_once(&self) -> Self {
        Self {
            file: self.file.clone(),
            keychain: self.keychain.at_once(),
        }
    }

    /// Waits, beside everything else, until the keychain had its time to say what the file is to be read with; it is
    /// there for whoever reads next.
    pub(super) async fn key_to_read(&self) {
        self.beside(|logins| {
            if let Some(name) = logins.key_name() {
                // Said to whoever reads.
                let _ = logins.keychain.key(&name);
            }
        })
        .await;
    }

    /// The same for what it is to be written with.
    pub(super) async fn key_to_write(&self) {
        // Without one the file is written as it is where there is no keychain.
        self.beside(|logins| drop(logins.own_key())).await;
    }

    async fn beside(&self, work: impl FnOnce(&Self) + Send + 'static) {
        let logins = Self {
            file: self.file.clone(),
            keychain: self.keychain.in_time(),
        };
        // A panic there was reported by the panic hook.
        let _ = tokio::task::spawn_blocking(move || work(&logins)).await;
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn edition(&self) -> Edition {
        self.file.edition()
    }

    /// The right to change it, if nobody has it.
    pub(super) fn try_hold(&self) -> Result<Option<Held>, AuthError> {
        Ok(self.file.try_hold()?)
    }

    /// Waits for the right to change it.
    ///
    /// # Errors
    /// [`AuthError::Store`], and [`AuthError::Logins`] if nobody lets go of it.
    pub async fn hold(&self) -> Result<Held, AuthError> {
        let waiting = async {
            loop {
                if let Some(held) = self.try_hold()? {
                    return Ok(held);
                }
                tokio::time::sleep(TRY_EVERY).await; // sleep: a lock of files tells nobody when it is free
            }
        };
        tokio::time::timeout(TRY_FOR, waiting)
            .await
            .unwrap_or_else(|_| {
                Err(AuthError::Logins(format!(
                    "another longhaul keeps {} locked; end it and try again",
                    self.path().with_extension("lock").display()
                )))
            })
    }

    /// What it says now.
    ///
    /// # Errors
    /// [`AuthError::Store`], [`AuthError::Damaged`] where it is no file of logins, and [`AuthError::Logins`] where a newer
    /// program wrote it.
    pub fn read(&self) -> Result<LoginFile, AuthError> {
        let damaged = |why: String| AuthError::Damaged {
            path: self.path().to_owned(),
            why,
        };
        let bytes = match self.file.read() {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(LoginFile::default()),
            Err(StoreError::Damaged { why, .. }) => return Err(damaged(why)),
            Err(error) => return Err(error.into()),
        };
        let format: Result<Format, _> = serde_json::from_slice(&bytes);
        // The parser's own words may repeat a part of the text.
        let garbled = |error: serde_json::Error| {
            damaged(format!("line {}, column {}", error.line(), error.column()))
        };
        match format.ok().map(|format| format.version) {
            Some(version) if version > SEALED => Err(AuthError::Logins(format!(
                "could not read {}: a newer longhaul wrote it (format {version}, this one reads {SEALED}); update longhaul",
                self.path().display(),
            ))),
            Some(SEALED) => {
                let Sealed { key, book, .. } = serde_json::from_slice(&bytes).map_err(garbled)?;
                // Whatever is wrong with the key, the file may be as good as ever: it is not for us to set it aside.
                let shut = |why: String| {
                    AuthError::Logins(format!(
                        "could not open {}: its key is in a keychain, and {why}; unlock that, or move the file away and sign \
                         in again",
                        self.path().display()
                    ))
                };
                let found = self.keychain.key(&key).map_err(shut)?;
                let Some(found) = found else {
                    return Err(shut("this one does not have it".to_owned()));
                };
                let Some(bytes) = seal::open(&found, &book) else {
                    return Err(shut(
                        "what this one has of that name does not open it".to_owned(),
                    ));
                };
                serde_json::from_slice(&bytes).map_err(garbled)
            }
            _ => serde_json::from_slice(&bytes).map_err(garbled),
        }
    }

    /// The token for the MCP endpoint `server` as it stands there: nothing is refreshed. `Over` where only a new one
    /// would be good.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn standing(&self, server: &Url, now: Wall) -> Result<TokenState, AuthError> {
        let login = self.read()?.logins.remove(&key_of(server));
        Ok(match login {
            Some(login) if login.expires_at.is_some_and(|end| end <= now) => match login.refresh {
                Some(_) => TokenState::Over,
                None => TokenState::None,
            },
            Some(login) => login
                .access
                .map_or(TokenState::None, |access| TokenState::Good(access.0)),
            None => TokenState::None,
        })
    }

    /// What it says now, for whoever is about to change it; a damaged one is set aside whole, which the remark says.
    ///
    /// # Errors
    /// [`AuthError::Store`] and [`AuthError::Logins`].
    pub fn read_held(&self, held: &Held) -> Result<(LoginFile, Option<String>), AuthError> {
        match self.read() {
            Err(AuthError::Damaged { path, why }) => {
                let aside = self.file.set_aside(held)?;
                let remark = format!(
                    "{} is damaged ({why}) and was set aside whole as {}; its logins are to be made again with `longhaul login`",
                    path.display(),
                    aside.display()
                );
                Ok((LoginFile::default(), Some(remark)))
            }
            other => Ok((other?, None)),
        }
    }

    /// Takes the login of the MCP endpoint `server` out of the file; the remark is that of [`Self::read_held`].
    ///
    /// # Errors
    /// [`AuthError::Store`] and [`AuthError::Logins`].
    pub async fn remove(&self, server: &Url) -> Result<(Option<Login>, Option<String>), AuthError> {
        let held = self.hold().await?;
        let (mut book, remark) = self.read_held(&held)?;
        let login = book.logins.remove(&key_of(server));
        if login.is_some() {
            self.write(&held, &book)?;
        }
        Ok((login, remark))
    }

    /// Writes it whole: sealed, where there is a keychain to keep the key, else for its owner's eyes only.
    ///
    /// # Errors
    /// [`AuthError::Store`], and [`AuthError::Machine`] where there are no random numbers.
    pub fn write(&self, held: &Held, book: &LoginFile) -> Result<(), AuthError> {
        // Made of text and numbers, so this cannot fail; if it did, nothing would be written.
        let unwritten = |error| AuthError::Logins(format!("could not write the logins: {error}"));
        let mut bytes = serde_json::to_vec_pretty(book).map_err(unwritten)?;
        if let Some((name, key)) = self.own_key()?
            && let Some(book) = seal::seal(&key, &bytes)?
        {
            let (version, key) = (SEALED, name);
            let sealed = Sealed { version, key, book };
            bytes = serde_json::to_vec_pretty(&sealed).map_err(unwritten)?;
        }
        Ok(self.file.write(held, &bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::tests::login_at;

    fn book() -> LoginFile {
        let issuer = Url::parse("https://issuer/token").unwrap();
        let mut book = LoginFile::default();
        book.logins
            .insert("https://h/mcp".to_owned(), login_at(&issuer));
        book
    }

    async fn keep(logins: &Logins) {
        let held = logins.hold().await.unwrap();
        logins.write(&held, &book()).unwrap();
    }

    fn key() -> SecretString {
        seal::new_key().unwrap()
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[tokio::test]
    async fn a_keychain_seals_the_file_and_no_other_key_opens_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logins.json");
        let plain = Logins::new(&path, Keychain::none("there is none"));
        keep(&plain).await;
        assert!(text(&path).contains("canary-access"), "the plain file");
        let (name, key) = ("mine", key());
        let at = |answer| Logins::new(&path, Keychain::answering(name, answer));
        let good = at(Ok(Some(key.clone())));
        assert_eq!(
            good.read().unwrap(),
            book(),
            "from before there was a keychain"
        );
        // The key is the one that the file names.
        let bytes = serde_json::to_vec(&book()).unwrap();
        let sealed = seal::seal(&key, &bytes).unwrap().unwrap();
        let whole = serde_json::json!({"version": 2, "key": name, "book": sealed}).to_string();
        crate::store::write_atomically(&path, whole.as_bytes()).unwrap();
        assert_eq!(good.read().unwrap(), book());
        keep(&good).await;
        let sealed = text(&path);
        assert!(sealed.contains(name), "{sealed}");
        for secret in ["canary", "issuer", "https"] {
            assert!(!sealed.contains(secret), "{secret} in {sealed}");
        }
        assert_eq!(good.read().unwrap(), book());
        // Locked, another one, or a key lost: none of it says that the file is bad, so it stays as it is.
        for answer in [
            Err("it is locked".to_owned()),
            Ok(None),
            Ok(Some(self::key())),
        ] {
            let shut = at(answer);
            let held = shut.hold().await.unwrap();
            let error = shut.read_held(&held).unwrap_err();
            let words = error.to_string();
            assert!(matches!(error, AuthError::Logins(_)), "{words}");
            assert!(words.contains("move the file away"), "{words}");
            assert_eq!(text(&path), sealed);
        }
    }

    #[test]
    fn a_file_of_a_newer_program_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logins.json");
        crate::store::write_atomically(&path, br#"{"version":3,"x":1}"#).unwrap();
        let error = Logins::new(&path, Keychain::none("there is none"))
            .read()
            .unwrap_err();
        assert!(
            error.to_string().contains("a newer longhaul wrote it"),
            "{error}"
        );
    }
}

//! Authenticated encryption with ChaCha20-Poly1305 (RFC 8439), from ring.
//!
//! Must not know what is encrypted or where the key comes from. Invariant: only text that was sealed with the same key for
//! the same purpose can be opened.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use secrecy::{ExposeSecret as _, SecretString};

use super::{AuthError, random_bytes};
use crate::domain::{base64, base64_url, decode_base64};

/// Associated data: text sealed here can't be opened for another purpose.
const PURPOSE: &[u8] = b"longhaul logins";

/// A new 256-bit key from the system's random numbers, as text that a keychain can store.
pub(super) fn new_key() -> Result<SecretString, AuthError> {
    Ok(base64_url(&random_bytes::<32>()?).into())
}

/// Encrypts `text`, as base64 of nonce and ciphertext; `None` if `key` is malformed.
pub(super) fn seal(key: &SecretString, text: &[u8]) -> Result<Option<String>, AuthError> {
    let nonce = random_bytes::<NONCE_LEN>()?;
    let mut sealed = text.to_vec();
    let done = parse_key(key).and_then(|key| {
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::from(PURPOSE), &mut sealed)
            .ok()
    });
    Ok(done.map(|()| base64(&[&nonce[..], &sealed].concat())))
}

/// Decrypts what [`seal`] returned; `None` if the key is wrong or the text was changed.
pub(super) fn open(key: &SecretString, sealed: &str) -> Option<Vec<u8>> {
    let mut bytes = decode_base64(sealed)?;
    let (nonce, text) = bytes.split_at_mut_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let opened = parse_key(key)?.open_in_place(nonce, Aad::from(PURPOSE), text);
    Some(opened.ok()?.to_vec())
}

fn parse_key(key: &SecretString) -> Option<LessSafeKey> {
    let key = decode_base64(key.expose_secret())?;
    Some(LessSafeKey::new(
        UnboundKey::new(&CHACHA20_POLY1305, &key).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_what_was_sealed_with_the_same_key() {
        let (key, other) = (new_key().unwrap(), new_key().unwrap());
        let sealed = seal(&key, b"canary").unwrap().unwrap();
        assert_eq!(open(&key, &sealed).as_deref(), Some(&b"canary"[..]));
        assert_ne!(seal(&key, b"canary").unwrap().unwrap(), sealed);
        assert_eq!(open(&other, &sealed), None);
        assert_eq!(open(&"no key".to_owned().into(), &sealed), None);
        assert_eq!(open(&key, ""), None);
        let mut bytes = decode_base64(&sealed).unwrap();
        for index in 0..bytes.len() {
            bytes[index] ^= 1;
            assert_eq!(open(&key, &base64(&bytes)), None, "byte {index}");
            bytes[index] ^= 1;
        }
        assert!(open(&key, &base64(&bytes)).is_some());
        assert_eq!(seal(&"no key".to_owned().into(), b"x").unwrap(), None);
    }
}

//! A header as typed: `Name: value`.

use super::error::ValueError;
use crate::domain::check_header;

/// A header from the user. The value is a secret, so `Debug` does not print it.
#[derive(Clone)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Parses `Name: value`, without the spaces around both.
pub(crate) fn header(text: &str) -> Result<Header, ValueError> {
    // Error messages must not repeat the text: it may contain a secret.
    let (name, value) = text.split_once(':').ok_or(ValueError::NoColon)?;
    let (name, value) = (name.trim(), value.trim());
    check_header(name, value)?;
    Ok(Header {
        name: name.to_owned(),
        value: value.to_owned(),
    })
}

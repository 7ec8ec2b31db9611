//! Headers that repeat a part of the message, for servers that route by them (MCP 2026-07-28).

use std::borrow::Cow;

use super::{secrets::Secrets, written};

impl Secrets {
    /// As [`Self::restore`] for such a header: only what longhaul itself wrote, as in the message.
    pub(super) fn restore_in_header<'t>(&self, value: &'t str, message: &str) -> Cow<'t, str> {
        let restored = self.restore(value);
        if matches!(restored, Cow::Owned(_)) && !written::is_own(value, message) {
            return Cow::Borrowed(value);
        }
        restored
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    #[test]
    fn a_header_has_a_secret_only_if_longhaul_wrote_it() {
        let secrets = Secrets::default();
        secrets.add("authorization", &SecretString::from("sk-51c7abcdef9911"));
        let value = "a-[redacted:authorization]";
        for (member, is_own) in [("taskId", true), ("uri", false), ("name", false)] {
            let message = format!(r#"{{"params":{{"{member}":"{value}"}}}}"#);
            let header = secrets.restore_in_header(value, &message);
            let expected = if is_own { "a-sk-51c7abcdef9911" } else { value };
            assert_eq!(header, expected, "{member}");
        }
    }
}

//! `[proxy]`, and `proxy` of a server: how agents' calls are handled.

use toml::{Spanned, de::DeValue};

use super::{error::ValueError, settings::Parser};
use crate::domain::{PatienceChoice, ProxySettings, text};

const KEYS: &str = "patience, keep, on_cancel, attach";

impl Parser<'_> {
    /// Reads a table; `path` is where it is, for notices.
    pub(super) fn proxy(&mut self, path: &str, value: &Spanned<DeValue<'_>>) -> ProxySettings {
        let mut settings = ProxySettings::default();
        let table = self.table(path, value, "keep = \"7d\"");
        for (key, value) in table.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            match name {
                "patience" => settings.patience = self.text(name, value, PatienceChoice::parse),
                "keep" => settings.keep = self.text(name, value, text::parse_duration),
                "on_cancel" => settings.on_cancel = self.one_of(name, value),
                "attach" => self.attach(value, &mut settings),
                _ => self.unknown_key(key, &format!("in {path}"), KEYS),
            }
        }
        settings
    }

    fn attach(&mut self, value: &Spanned<DeValue<'_>>, settings: &mut ProxySettings) {
        let tools = self.table("attach", value, "TOOL = \"never\"");
        for (tool, value) in tools.into_iter().flatten() {
            let tool = tool.get_ref().as_ref();
            let read = |text: &str| match text {
                "never" => Ok(()),
                _ => Err(ValueError::NotOneOf("never".to_owned())),
            };
            if self.text(&format!("attach.{tool}"), value, read).is_some() {
                settings.never_attach.insert(tool.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::{
        config::Config,
        domain::{OnCancel, PatienceChoice, ServerName},
    };

    #[test]
    fn a_server_overrides_the_common_settings() {
        let text = r#"[proxy]
keep = "1d"
patience = "45s"
on_cancel = "perhaps"
[servers.lab]
url = "http://127.0.0.1:1/mcp"
proxy = { patience = "off", on_cancel = "stop", attach = { build = "never", test = 1 }, other = 1 }
"#;
        let config = Config::parse("f", text).unwrap();
        let lab = config.proxy_settings(&ServerName::new("lab"));
        assert_eq!(lab.patience, Some(PatienceChoice::Unlimited));
        assert_eq!(lab.on_cancel, Some(OnCancel::Stop));
        assert_eq!(lab.keep, Some(Duration::from_secs(86_400)));
        assert!(lab.never_attach.contains("build") && lab.never_attach.len() == 1);
        let other = config.proxy_settings(&ServerName::new("other"));
        let patience = PatienceChoice::Fixed(Duration::from_secs(45));
        assert_eq!((other.patience, other.on_cancel), (Some(patience), None));
        let begins = [
            "f:4: on_cancel is ignored: expected one of: timeout-continues",
            "f:7: attach.test is ignored",
            "f:7: unknown key \"other\" in servers.lab.proxy",
        ];
        for (notice, begin) in config.notices.iter().zip(begins) {
            assert!(notice.starts_with(begin), "{notice} is not {begin}");
        }
        assert_eq!(config.notices.len(), begins.len(), "{:?}", config.notices);
    }
}

//! `[defaults]` and `[theme]`: settings for when the command line sets none.

use toml::de::DeTable;

use crate::{
    config::settings::{Defaults, Parser},
    store::is_session_name,
};

/// The keys of `[defaults]`.
const KEYS: &str = "session, server, protocol, idle_timeout, max_time, color, ascii, motion, \
                    keychain, keeper, host";

impl Parser<'_> {
    pub(super) fn defaults(&mut self, table: &DeTable<'_>) {
        let mut defaults = Defaults::default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match name {
                "session" => {
                    defaults.session = self.string(name, value);
                    // An invalid one stays, so that no command works on another session.
                    if let Some(invalid) = defaults
                        .session
                        .as_deref()
                        .filter(|it| !is_session_name(it))
                    {
                        self.notice(value.span().start, &format!("invalid session name {invalid:?}; until you correct it, commands need --session"));
                    }
                }
                "host" => defaults.host = self.string(name, value),
                "server" => defaults.server = self.string(name, value),
                "protocol" => defaults.protocol = self.text(name, value, str::parse),
                "idle_timeout" => self.limit(name, value, &mut defaults.limits.idle),
                "max_time" => self.limit(name, value, &mut defaults.limits.hard),
                "color" => defaults.color = self.one_of(name, value),
                "ascii" => defaults.ascii = self.boolean(name, value).unwrap_or_default(),
                "motion" => defaults.no_motion = self.boolean(name, value) == Some(false),
                "keychain" => defaults.no_keychain = self.boolean(name, value) == Some(false),
                "keeper" => defaults.no_keeper = self.boolean(name, value) == Some(false),
                _ => self.unknown_key(key, "in [defaults]", KEYS),
            }
        }
        self.config.defaults = defaults;
    }

    pub(super) fn theme(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "name" => self.config.theme = self.one_of("[theme] name", value),
                other => {
                    let why = format!("unknown key {other:?} in [theme]; expected: name");
                    self.notice(key.span().start, &why);
                }
            }
        }
    }
}

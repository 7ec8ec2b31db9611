//! `[defaults]` and `[theme]`: settings for when the command line sets none.

use clap::ValueEnum;
use toml::{Spanned, de::DeValue};

use super::error::ValueError;
use crate::{
    config::settings::{Color, Defaults, Parser},
    domain::ThemeName,
};

/// The keys of `[defaults]`.
const KEYS: &str = "session, server, protocol, idle_timeout, max_time, color, ascii, motion, \
                    mouse, keychain, keeper, host";

impl Parser<'_> {
    pub(super) fn defaults(&mut self, at: usize, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.notice(at, "defaults must be a table: [defaults]");
        };
        let mut defaults = Defaults::default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match name {
                "session" => {
                    defaults.session =
                        self.text(name, value, |text| Ok::<_, ValueError>(text.to_owned()));
                }
                "host" => {
                    defaults.host =
                        self.text(name, value, |text| Ok::<_, ValueError>(text.to_owned()));
                }
                "server" => {
                    defaults.server =
                        self.text(name, value, |text| Ok::<_, ValueError>(text.to_owned()));
                }
                "protocol" => defaults.protocol = self.text(name, value, str::parse),
                "idle_timeout" => self.limit(name, value, &mut defaults.limits.idle),
                "max_time" => self.limit(name, value, &mut defaults.limits.hard),
                "color" => {
                    let read = |text: &str| {
                        Color::from_str(text, false)
                            .map_err(|_| ValueError::NotOneOf("auto, always, never".to_owned()))
                    };
                    defaults.color = self.text(name, value, read);
                }
                "ascii" => defaults.ascii = self.boolean(name, value).unwrap_or_default(),
                "motion" => defaults.no_motion = self.boolean(name, value) == Some(false),
                "mouse" => defaults.takes_mouse = self.boolean(name, value).unwrap_or_default(),
                "keychain" => defaults.no_keychain = self.boolean(name, value) == Some(false),
                "keeper" => defaults.no_keeper = self.boolean(name, value) == Some(false),
                other => {
                    let why =
                        format!("unknown key {other:?} in [defaults]; expected one of: {KEYS}");
                    self.notice(key.span().start, &why);
                }
            }
        }
        self.config.defaults = defaults;
    }

    pub(super) fn theme(&mut self, at: usize, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.notice(at, "theme must be a table: [theme]");
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "name" => {
                    let read = |text: &str| {
                        let known = ThemeName::ALL.into_iter().find(|(name, _)| *name == text);
                        known.map(|(_, theme)| theme).ok_or_else(|| {
                            let names = ThemeName::ALL.map(|(name, _)| name);
                            ValueError::NotOneOf(names.join(", "))
                        })
                    };
                    self.config.theme = self.text("[theme] name", value, read);
                }
                other => {
                    let why = format!("unknown key {other:?} in [theme]; expected: name");
                    self.notice(key.span().start, &why);
                }
            }
        }
    }
}

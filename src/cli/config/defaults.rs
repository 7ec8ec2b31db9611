//! `[defaults]` and `[theme]`: what holds where the command line says nothing.

use clap::ValueEnum as _;
use toml::{Spanned, de::DeValue};

use super::Reading;
use crate::{
    cli::args::Color,
    domain::{Limits, ProtocolChoice, ThemeName},
};

/// What can be said in `[defaults]`.
const KEYS: &str = "session, server, protocol, idle_timeout, max_time, color, ascii, motion, \
                    mouse and keychain";

/// What `[defaults]` says.
#[derive(Debug, Default, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own that the user turns"
)]
pub(crate) struct Defaults {
    /// `--session`.
    pub(in crate::cli) session: Option<String>,
    /// `--server`, where there are several to choose from.
    pub(in crate::cli) server: Option<String>,
    /// `--protocol`, for the configured servers that say none of their own.
    pub(super) protocol: Option<ProtocolChoice>,
    /// `--idle-timeout` and `--max-time`.
    pub(super) limits: Limits,
    /// `--color`.
    pub(in crate::cli) color: Option<Color>,
    /// `--ascii`.
    pub(in crate::cli) ascii: bool,
    /// `--no-motion`.
    pub(in crate::cli) no_motion: bool,
    /// The screen takes the mouse.
    pub(in crate::cli) takes_mouse: bool,
    /// The key to the tokens is not to be in a keychain.
    pub(in crate::cli) no_keychain: bool,
}

impl Reading<'_> {
    pub(super) fn defaults(&mut self, at: usize, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.remark(at, "defaults are a table; write [defaults]");
        };
        let mut defaults = Defaults::default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match name {
                "session" => defaults.session = self.text(name, value, |text| Ok(text.to_owned())),
                "server" => defaults.server = self.text(name, value, |text| Ok(text.to_owned())),
                "protocol" => defaults.protocol = self.text(name, value, str::parse),
                "idle_timeout" => self.limit(name, value, &mut defaults.limits.idle),
                "max_time" => self.limit(name, value, &mut defaults.limits.hard),
                "color" => {
                    let read = |text: &str| {
                        Color::from_str(text, false)
                            .map_err(|_| "it is one of auto, always, never".to_owned())
                    };
                    defaults.color = self.text(name, value, read);
                }
                "ascii" => defaults.ascii = self.switch(name, value).unwrap_or_default(),
                "motion" => defaults.no_motion = self.switch(name, value) == Some(false),
                "mouse" => defaults.takes_mouse = self.switch(name, value).unwrap_or_default(),
                "keychain" => defaults.no_keychain = self.switch(name, value) == Some(false),
                other => {
                    let words =
                        format!("{other:?} is not a key of [defaults]; expected one of: {KEYS}");
                    self.remark(key.span().start, &words);
                }
            }
        }
        self.config.defaults = defaults;
    }

    pub(super) fn theme(&mut self, at: usize, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.remark(at, "the theme is a table; write [theme]");
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "name" => {
                    let read = |text: &str| {
                        let known = ThemeName::ALL.into_iter().find(|(word, _)| *word == text);
                        known.map(|(_, theme)| theme).ok_or_else(|| {
                            let words = ThemeName::ALL.map(|(word, _)| word);
                            format!("it is one of {}", words.join(", "))
                        })
                    };
                    self.config.theme = self.text("name", value, read);
                }
                other => {
                    let words = format!("{other:?} is not a key of [theme]; expected: name");
                    self.remark(key.span().start, &words);
                }
            }
        }
    }
}

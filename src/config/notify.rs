//! `[notify]`: bell, desktop notifications, window title and hook.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::error::ValueError;
use crate::{
    config::settings::Parser,
    domain::{DesktopProtocol, NotifyLevel},
};

/// The keys of `[notify]`.
const KEYS: &str = "bell, desktop, desktop_by, progress, title, tmux_passthrough, hook, hook_on";

impl Parser<'_> {
    pub(super) fn notify(&mut self, table: &DeTable<'_>) {
        let mut notify = self.config.notify;
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match name {
                "bell" => self.one_of(name, value, &NotifyLevel::ALL, &mut notify.bell),
                "desktop" => self.one_of(name, value, &NotifyLevel::ALL, &mut notify.desktop),
                "desktop_by" => {
                    let known = DesktopProtocol::ALL.map(|(name, by)| (name, Some(by)));
                    self.one_of(name, value, &known, &mut notify.desktop_by);
                }
                "progress" => notify.progress = self.boolean(name, value),
                "title" => notify.title = self.boolean(name, value).unwrap_or(notify.title),
                "tmux_passthrough" => {
                    notify.tmux_passthrough = self.boolean(name, value).unwrap_or_default();
                }
                "hook" => {
                    let read = |text: &str| match text.trim() {
                        "" => Err(ValueError::NoCommand),
                        _ => Ok(text.to_owned()),
                    };
                    self.config.hook = self.text(name, value, read);
                }
                "hook_on" => {
                    let mut on = self.config.hook_on;
                    self.one_of(name, value, &NotifyLevel::ALL, &mut on);
                    self.config.hook_on = on;
                }
                _ => self.unknown_key(key, "in [notify]", KEYS),
            }
        }
        self.config.notify = notify;
    }

    /// Stores the value named in `known` in `into`; adds a notice for an unknown name.
    pub(super) fn one_of<T: Copy>(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        known: &[(&str, T)],
        into: &mut T,
    ) {
        let read = |text: &str| {
            let found = known.iter().find(|(name, _)| *name == text);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                ValueError::NotOneOf(names.join(", "))
            })
        };
        if let Some(value) = self.text(key, value, read) {
            *into = value;
        }
    }
}

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
        let levels = &NotifyLevel::ALL;
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match name {
                "bell" => {
                    notify.bell = self.one_of(name, value, levels).unwrap_or(notify.bell);
                }
                "desktop" => {
                    notify.desktop = self.one_of(name, value, levels).unwrap_or(notify.desktop);
                }
                "desktop_by" => notify.desktop_by = self.one_of(name, value, &DesktopProtocol::ALL),
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
                    let on = self.one_of(name, value, levels);
                    self.config.hook_on = on.unwrap_or(self.config.hook_on);
                }
                _ => self.unknown_key(key, "in [notify]", KEYS),
            }
        }
        self.config.notify = notify;
    }

    /// The value named in `known`; adds a notice for an unknown name.
    pub(super) fn one_of<T: Copy>(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        known: &[(&str, T)],
    ) -> Option<T> {
        self.text(key, value, |text| {
            let found = known.iter().find(|(name, _)| *name == text);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                ValueError::NotOneOf(names.join(", "))
            })
        })
    }
}

//! `[notify]`: bell, desktop notifications, window title and hook.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::error::ValueError;
use crate::config::settings::{Parser, set};

/// The keys of `[notify]`.
const KEYS: &str = "bell, desktop, desktop_by, progress, title, tmux_passthrough, hook, hook_on";

impl Parser<'_> {
    pub(super) fn notify(&mut self, table: &DeTable<'_>) {
        let mut notify = self.config.notify;
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match name {
                "bell" => set(&mut notify.bell, self.one_of(name, value)),
                "desktop" => set(&mut notify.desktop, self.one_of(name, value)),
                "desktop_by" => notify.desktop_by = self.one_of(name, value),
                "progress" => notify.progress = self.boolean(name, value),
                "title" => notify.no_title = self.boolean(name, value) == Some(false),
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
                    let on = self.one_of(name, value);
                    self.config.hook_on = on.unwrap_or(self.config.hook_on);
                }
                _ => self.unknown_key(key, "in [notify]", KEYS),
            }
        }
        self.config.notify = notify;
    }

    /// The value of this name; adds a notice for an unknown one.
    pub(super) fn one_of<T: strum::VariantArray + Copy + Into<&'static str>>(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<T> {
        self.text(key, value, |text| {
            let names = T::VARIANTS.iter().map(|it| -> &str { (*it).into() });
            let found = names.clone().position(|name| name == text);
            let found = found.and_then(|place| T::VARIANTS.get(place).copied());
            found.ok_or_else(|| ValueError::NotOneOf(names.collect::<Vec<_>>().join(", ")))
        })
    }
}

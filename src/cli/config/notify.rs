//! `[notify]`: what is told beside the screen.

use toml::{Spanned, de::DeValue};

use super::Reading;
use crate::domain::{DesktopProtocol, NotifyLevel};

/// What can be said in `[notify]`.
const KEYS: &str = "bell, desktop, desktop_by, progress, title, tmux_passthrough, hook and hook_on";

impl Reading<'_> {
    pub(super) fn notify(&mut self, at: usize, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.remark(at, "what is told is a table; write [notify]");
        };
        let mut notify = self.config.notify;
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match name {
                "bell" => self.one_of(name, value, &NotifyLevel::ALL, &mut notify.bell),
                "desktop" => self.one_of(name, value, &NotifyLevel::ALL, &mut notify.desktop),
                "desktop_by" => {
                    let known = DesktopProtocol::ALL.map(|(word, by)| (word, Some(by)));
                    self.one_of(name, value, &known, &mut notify.desktop_by);
                }
                "progress" => notify.progress = self.switch(name, value),
                "title" => notify.title = self.switch(name, value).unwrap_or(notify.title),
                "tmux_passthrough" => {
                    notify.tmux_passthrough = self.switch(name, value).unwrap_or_default();
                }
                "hook" => {
                    let read = |text: &str| match text.trim() {
                        "" => Err("it is a command for sh".to_owned()),
                        _ => Ok(text.to_owned()),
                    };
                    self.config.hook = self.text(name, value, read);
                }
                "hook_on" => {
                    let mut on = self.config.hook_on;
                    self.one_of(name, value, &NotifyLevel::ALL, &mut on);
                    self.config.hook_on = on;
                }
                other => {
                    let words = format!("{other:?} is nothing that is told; there are {KEYS}");
                    self.remark(key.span().start, &words);
                }
            }
        }
        self.config.notify = notify;
    }

    /// Takes the value that a word stands for.
    pub(super) fn one_of<T: Copy>(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        known: &[(&str, T)],
        into: &mut T,
    ) {
        let read = |text: &str| {
            let found = known.iter().find(|(word, _)| *word == text);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
                format!("it is one of {}", words.join(", "))
            })
        };
        if let Some(value) = self.text(key, value, read) {
            *into = value;
        }
    }
}

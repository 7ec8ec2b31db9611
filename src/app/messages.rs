//! What longhaul reports: toasts, the log of messages and the reply to the last key.

use std::{collections::VecDeque, time::Duration};

use crate::domain::{Mono, Notice, NoticeLevel, Stamp, Wall, text};

/// Messages in memory; older ones are dropped and counted.
const MAX_MESSAGES: usize = 1_000;
/// Toasts on the screen at once.
const MAX_TOASTS: usize = 3;
/// How long a toast stays, in milliseconds.
const TOAST_MS: u64 = 3_000;
/// How long a toast about a failure stays, in milliseconds: long enough to read two lines.
const TOAST_ERROR_MS: u64 = 7_000;
/// How long the reply to a key stays if no other key is pressed.
const REPLY_TIME: Duration = Duration::from_secs(5);

/// A short message over the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// Its severity.
    pub level: NoticeLevel,
    /// The sanitized text.
    pub text: String,
    /// When it disappears.
    pub until: Mono,
}

/// The reply to a key, shown in the attention line until the next key or for a few seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransientMessage {
    /// The text.
    pub text: String,
    /// When it disappears.
    pub until: Mono,
}

/// Toasts, the log of messages and the reply to the last key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Messages {
    /// Toasts, newest last.
    pub toasts: VecDeque<Toast>,
    /// All messages, newest last.
    pub log: VecDeque<Notice>,
    /// How many old messages were dropped.
    pub dropped: u64,
    /// The reply to the last key.
    pub reply: Option<TransientMessage>,
}

impl Messages {
    /// Logs a message and shows it as a toast.
    pub(super) fn show_toast(&mut self, level: NoticeLevel, text: &str, now: Stamp) {
        self.add(level, text, now.wall);
        let stay = match level {
            NoticeLevel::Info => TOAST_MS,
            NoticeLevel::Warning | NoticeLevel::Error => TOAST_ERROR_MS,
        };
        let text = text::clean_line(text).into_owned();
        // A repeated message extends its toast.
        self.toasts.retain(|toast| toast.text != text);
        self.toasts.push_back(Toast {
            level,
            text,
            until: Mono(now.mono.0.saturating_add(stay)),
        });
        while self.toasts.len() > MAX_TOASTS {
            self.toasts.pop_front();
        }
    }

    /// Adds a line to the log.
    pub(super) fn add(&mut self, level: NoticeLevel, text: &str, at: Wall) {
        self.log.push_back(Notice {
            at,
            level,
            text: text::clean_line(text).into_owned(),
        });
        if self.log.len() > MAX_MESSAGES {
            self.log.pop_front();
            self.dropped += 1;
        }
    }

    /// Shows a reply to a key.
    pub(super) fn reply(&mut self, text: impl Into<String>, now: Mono) {
        self.reply = Some(TransientMessage {
            text: text.into(),
            until: now.after(REPLY_TIME),
        });
    }
}

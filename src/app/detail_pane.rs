//! The detail pane: which tab of the selected task is open, where it is scrolled to, and what was loaded for it.

use std::collections::BTreeMap;

use crate::domain::TaskId;

use super::{
    Search,
    log::{ResultText, TaskLog, TrafficText},
};

/// Which half of the task pane gets the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    /// The list.
    #[default]
    List,
    /// The detail pane.
    Detail,
}

/// The tabs of the detail pane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[expect(missing_docs, reason = "the names are those on the screen")]
pub enum Tab {
    #[default]
    Now,
    Log,
    Result,
    Arguments,
    Trace,
    Resume,
}

impl Tab {
    /// All tabs, from left to right.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The label on the tab.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// How the pane shows text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// Wrap long lines.
    pub is_wrapping: bool,
    /// Show times in the log.
    pub has_times: bool,
}

/// The detail pane and what was loaded for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetailPane {
    /// Which half of the task pane gets the keys.
    pub focus: Focus,
    /// The pane fills the screen.
    pub is_zoomed: bool,
    /// The open tab.
    pub tab: Tab,
    /// The log scrolls with new entries.
    pub is_following: bool,
    /// How text is shown.
    pub text: TextOptions,
    /// Log entries scrolled back from the end, or lines scrolled down in other tabs.
    pub scroll: usize,
    /// What is searched for.
    pub search: Option<Search>,
    /// Histories in memory.
    pub logs: BTreeMap<TaskId, TaskLog>,
    /// Results in memory.
    pub results: BTreeMap<TaskId, ResultText>,
    /// Recorded traffic, while the Trace tab is open.
    pub traffic: Option<TrafficText>,
    /// The task to print once its result has been read.
    pub(super) prints: Option<TaskId>,
}

impl DetailPane {
    /// Shows another text, from its start or, for a log, from its end. A search belongs to one text.
    pub(super) fn restart(&mut self) {
        (self.scroll, self.is_following, self.search) = (0, true, None);
    }
}

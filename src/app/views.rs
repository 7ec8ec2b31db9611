//! Named views: a filter, a grouping and a sort order of the list.

use crate::domain::text;

use super::{Filter, Grouping, SortKey, TaskList};

/// A named view of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The name, without spaces.
    pub name: String,
    /// The filter as it is typed.
    pub filter: String,
    /// Show only tasks that need attention.
    pub needs_only: bool,
    /// What the list is grouped by.
    pub grouping: Grouping,
    /// What it is sorted by inside its groups.
    pub sort: SortKey,
    /// Reverse the sort.
    pub is_reversed: bool,
}

impl View {
    /// The current view of the list.
    pub(super) fn of(list: &TaskList, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            filter: list.filter.text().to_owned(),
            needs_only: list.needs_only,
            grouping: list.grouping,
            sort: list.sort,
            is_reversed: list.is_reversed,
        }
    }

    /// Applies the view. The list must be arranged afterwards.
    pub(super) fn show(&self, list: &mut TaskList) {
        list.filter = Filter::parse(&self.filter);
        list.needs_only = self.needs_only;
        list.grouping = self.grouping;
        list.sort = self.sort;
        list.is_reversed = self.is_reversed;
    }

    /// Describes the settings that differ from the default.
    pub(super) fn message(&self) -> String {
        let mut parts = Vec::new();
        if !self.filter.trim().is_empty() {
            parts.push(self.filter.trim().to_owned());
        }
        if self.needs_only {
            parts.push("only what needs you".to_owned());
        }
        if self.grouping != Grouping::default() {
            parts.push(format!("grouped by {}", self.grouping.label()));
        }
        if self.sort != SortKey::default() || self.is_reversed {
            let turned = if self.is_reversed { ", reversed" } else { "" };
            parts.push(format!("sorted by {}{turned}", self.sort.label()));
        }
        if parts.is_empty() {
            parts.push("everything".to_owned());
        }
        text::clean_line(&parts.join(", ")).into_owned()
    }

    /// Whether this is a valid name: it must be usable unquoted in a command and in the config file.
    pub fn is_name(name: &str) -> bool {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        !name.is_empty() && name.chars().all(is_plain)
    }
}

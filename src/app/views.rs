//! Views: a filter, a grouping and an order of the list under one name.

use crate::domain::text;

use super::{Filter, Grouping, SortKey, State, select};

/// How the list is shown, under a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The user's word for it, without spaces.
    pub name: String,
    /// The filter as it is typed.
    pub filter: String,
    /// Only what needs a person.
    pub needs_only: bool,
    /// What the list is grouped by.
    pub grouping: Grouping,
    /// What it is sorted by inside its groups.
    pub sort: SortKey,
    /// The order is turned round.
    pub is_reversed: bool,
}

impl View {
    /// What is shown now.
    pub(super) fn of(state: &State, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            filter: state.filter.text().to_owned(),
            needs_only: state.needs_only,
            grouping: state.grouping,
            sort: state.sort,
            is_reversed: state.is_reversed,
        }
    }

    /// Shows the list so.
    pub(super) fn show(&self, state: &mut State) {
        state.filter = Filter::parse(&self.filter);
        state.needs_only = self.needs_only;
        state.grouping = self.grouping;
        state.sort = self.sort;
        state.is_reversed = self.is_reversed;
        select::arrange(state);
    }

    /// What it does, for people: the parts that are not as usual.
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

    /// Whether this can be the name of a view: a word that is typed on a line and written into a file as it is.
    pub fn is_name(name: &str) -> bool {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        !name.is_empty() && name.chars().all(is_plain)
    }
}

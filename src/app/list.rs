//! The task list: its rows, cursor, marks, filter and order.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{Mono, TaskId};

use super::{
    filter::Filter,
    grouping::{Grouping, ListRow, SortKey},
};

/// When the rows have to be sorted again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListRefresh {
    /// Tasks that are listed in another group than [`super::TaskRow::group`] and can move.
    pub(super) regrouping: BTreeSet<TaskId>,
    /// The rows may need to be sorted, and counted, again.
    pub(super) is_order_stale: bool,
    /// When the rows were last sorted because a task changed.
    pub(super) rebuilt_at: Option<Mono>,
}

/// The task list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskList {
    /// The rows and headings, in order.
    pub rows: Vec<ListRow>,
    /// The task under the cursor.
    pub cursor: Option<TaskId>,
    /// The task that the user chose, while a filter hides it.
    pub(super) wanted: Option<TaskId>,
    /// The index of the cursor in `rows`.
    pub cursor_row: usize,
    /// The index of the first visible row.
    pub top: usize,
    /// Marked tasks.
    pub marks: BTreeSet<TaskId>,
    /// The filter.
    pub filter: Filter,
    /// Show only tasks that need attention.
    pub needs_only: bool,
    /// Hide the rows of ended tasks.
    pub is_folded: bool,
    /// What the list is grouped by.
    pub grouping: Grouping,
    /// How the list is sorted within its groups.
    pub sort: SortKey,
    /// Reverse the sort.
    pub is_reversed: bool,
    /// The task under the cursor, if it no longer matches: it stays listed until the cursor leaves.
    pub(super) kept: Option<TaskId>,
    /// When the rows have to be sorted again.
    pub(super) refresh: ListRefresh,
    /// Since when the row under the cursor has been visible without a key press.
    pub(super) cursor_still_since: Option<Mono>,
    /// By title and argument: the values of the tasks of that title, up to a limit.
    pub(super) differing: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// Forgotten tasks that undo restores, newest last.
    pub(super) undo: Vec<Vec<TaskId>>,
    /// Tasks whose undo is in progress.
    pub(super) returning: BTreeSet<TaskId>,
}

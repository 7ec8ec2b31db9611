//! How the list is grouped and sorted, and its rows.

use std::cmp::Ordering;

use crate::domain::{ServerName, Status, TaskId};

use super::task_row::{Group, TaskRow};

/// What the list is grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Grouping {
    /// By [`Group`].
    #[default]
    #[strum(serialize = "urgency")]
    Need,
    /// By server.
    Server,
    /// By status.
    Status,
    /// By the agent host and directory that made the call.
    #[strum(serialize = "from")]
    Caller,
}

impl Grouping {
    /// All groupings, in the order in which the key cycles through them.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Its name in commands and in the configuration.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Its name in messages.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Caller => "FROM",
            _ => self.name(),
        }
    }

    /// The order of two rows' groups.
    pub(super) fn compare(self, one: &TaskRow, two: &TaskRow) -> Ordering {
        let (a, b) = (&one.view.task, &two.view.task);
        match self {
            Self::Need => one.listed_group.cmp(&two.listed_group),
            Self::Server => a.server.cmp(&b.server),
            Self::Status => (urgency(&a.status).cmp(&urgency(&b.status)))
                .then_with(|| a.status.label().cmp(b.status.label())),
            Self::Caller => caller(one).cmp(&caller(two)),
        }
    }

    /// The group of a row.
    pub(super) fn title(self, task_row: &TaskRow) -> GroupTitle {
        match self {
            Self::Need => GroupTitle::Need(task_row.listed_group),
            Self::Server => GroupTitle::Server(task_row.view.task.server.clone()),
            Self::Status => GroupTitle::Status(task_row.view.task.status.row_label()),
            Self::Caller => GroupTitle::Caller(caller(task_row)),
        }
    }
}

/// The agent host and directory that made a call.
fn caller(task_row: &TaskRow) -> Option<String> {
    let caller = task_row.view.task.caller.as_ref();
    caller.map(|caller| caller.label())
}

/// The title of a group in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupTitle {
    /// Grouped by need for attention.
    Need(Group),
    /// Grouped by server.
    Server(ServerName),
    /// Grouped by status, with the status as the rows show it.
    Status(&'static str),
    /// Grouped by host and directory; `None` for calls of people.
    Caller(Option<String>),
}

/// What a heading says about the rows below it, folded ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// All rows.
    pub count: usize,
    /// Tasks that need attention.
    pub needs: usize,
    /// Ended tasks that the user has not seen.
    pub new: usize,
}

/// A row of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListRow {
    /// The title of a group.
    Heading(GroupTitle, GroupCounts),
    /// A task.
    Task(TaskId),
}

impl ListRow {
    /// The task, if it is one.
    pub(super) fn task(&self) -> Option<&TaskId> {
        match self {
            Self::Task(id) => Some(id),
            Self::Heading(..) => None,
        }
    }
}

/// What the list is sorted by inside its groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the columns")]
#[derive(strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum SortKey {
    /// Newest first.
    #[default]
    Newest,
    State,
    Task,
    Server,
    Progress,
    IfCut,
}

impl SortKey {
    /// All sort keys, in the order in which the key cycles through them.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Its name in messages and in the configuration.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// The next one of all, cyclically.
pub(super) fn next_of<T: Copy + Default + PartialEq>(all: &[T], current: T) -> T {
    let mut from_here = all.iter().cycle().skip_while(|it| **it != current);
    from_here.nth(1).copied().unwrap_or_default()
}

pub(super) fn urgency(status: &Status) -> u8 {
    match status {
        Status::InputRequired => 0,
        Status::Unknown(_) => 1,
        Status::Failed => 3,
        Status::Lost(_) => 4,
        _ => 2,
    }
}

//! The task list: filter, grouping, order and cursor.

use std::{borrow::Cow, cmp::Ordering, time::Duration};

use crate::domain::{Connectivity, ServerName, Stamp, Status, Task, TaskId, text};

use super::{
    Pane, State,
    layout::{PaneHeights, window},
    state::{TaskRow, short_arguments},
};

/// Rows keep their order for this long after a key, so that the user doesn't act on a row that has just moved.
pub(super) const HOLD_AFTER_KEY: Duration = Duration::from_secs(1);

/// The list is resorted at most this often because of changes to tasks.
pub(super) const MIN_REORDER_INTERVAL: Duration = Duration::from_millis(250);

/// The three groups of the list, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Needs the user's attention.
    NeedsYou,
    /// Running or paused.
    Running,
    /// Ended, and completed or seen by the user.
    Done,
}

/// What the list is grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// By [`Group`].
    #[default]
    Need,
    /// By server.
    Server,
    /// By status.
    Status,
}

impl Grouping {
    /// All groupings, in the order in which the key cycles through them.
    pub const ALL: [Self; 3] = [Self::Need, Self::Server, Self::Status];

    /// Its name in messages and in the configuration.
    pub fn label(self) -> &'static str {
        match self {
            Self::Need => "need",
            Self::Server => "server",
            Self::Status => "status",
        }
    }

    /// The next one in `ALL`, cyclically.
    pub(super) fn next(self) -> Self {
        let index = Self::ALL.iter().position(|it| *it == self).unwrap_or(0);
        Self::ALL
            .get((index + 1) % Self::ALL.len())
            .copied()
            .unwrap_or_default()
    }

    /// The order of two rows' groups.
    fn compare(self, one: &TaskRow, two: &TaskRow) -> Ordering {
        let (a, b) = (&one.view.task, &two.view.task);
        match self {
            Self::Need => one.listed_group.cmp(&two.listed_group),
            Self::Server => a.server.cmp(&b.server),
            Self::Status => (urgency(&a.status).cmp(&urgency(&b.status)))
                .then_with(|| a.status.label().cmp(b.status.label())),
        }
    }

    /// The group of a row.
    fn title(self, task_row: &TaskRow) -> GroupTitle {
        match self {
            Self::Need => GroupTitle::Need(task_row.listed_group),
            Self::Server => GroupTitle::Server(task_row.view.task.server.clone()),
            Self::Status => GroupTitle::Status(task_row.view.task.status.row_label()),
        }
    }
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
}

impl GroupTitle {
    /// Whether a task is listed in this group.
    fn has(&self, task_row: &TaskRow) -> bool {
        match self {
            Self::Need(group) => task_row.listed_group == *group,
            Self::Server(server) => task_row.view.task.server == *server,
            Self::Status(word) => task_row.view.task.status.row_label() == *word,
        }
    }
}

/// How many of a group's listed tasks are in which state. They match the rows below the heading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// All tasks except the paused ones and those in `left`.
    pub count: usize,
    /// Tasks that belong to another group by now but stay here until the user has seen them: needing attention, running,
    /// done.
    pub left: [usize; 3],
    /// Paused tasks.
    pub paused: usize,
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

/// What the list is sorted by inside its groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the columns")]
pub enum SortKey {
    /// Newest first.
    #[default]
    Newest,
    State,
    Task,
    Server,
    Progress,
    Leave,
}

impl SortKey {
    /// All sort keys, in the order in which the key cycles through them.
    pub const ALL: [Self; 6] = [
        Self::Newest,
        Self::State,
        Self::Task,
        Self::Server,
        Self::Progress,
        Self::Leave,
    ];

    /// Its name in messages and in the configuration.
    pub fn label(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::State => "state",
            Self::Task => "task",
            Self::Server => "server",
            Self::Progress => "progress",
            Self::Leave => "leave",
        }
    }

    /// The next one in `ALL`, cyclically.
    pub(super) fn next(self) -> Self {
        let index = Self::ALL.iter().position(|key| *key == self).unwrap_or(0);
        Self::ALL
            .get((index + 1) % Self::ALL.len())
            .copied()
            .unwrap_or_default()
    }
}

/// The keys of filter terms such as `status:failed`.
const FILTER_KEYS: [&str; 5] = ["status", "server", "tag", "tool", "id"];
/// The values of `status:`: a status, a pending request, or the connectivity.
const STATUS_VALUES: [&str; 20] = [
    "running",
    "input-required",
    "asks",
    "paused",
    "completed",
    "done",
    "failed",
    "cancelled",
    "lost",
    "unknown",
    "pausing",
    "resuming",
    "cancelling",
    "live",
    "quiet",
    "reconnecting",
    "offline",
    "needs-login",
    "unwatched",
    "idle",
];

/// A filter: words, `!x`, `status:failed`, `server:lab`, `tag:x`. A task must match all terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    is_negated: bool,
    field: Option<TermField>,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TermField {
    Status,
    Server,
    Tag,
    Tool,
    Id,
}

impl Filter {
    /// Parses a filter. Every text is valid; [`Self::invalid_reason`] finds likely mistakes.
    pub fn parse(typed: &str) -> Self {
        let terms = typed
            .split_whitespace()
            .filter_map(|word| {
                let (is_negated, word) = match word.strip_prefix('!') {
                    Some(rest) => (true, rest),
                    None => (false, word),
                };
                let named = word.split_once(':').and_then(|(name, rest)| {
                    let field = match name {
                        "status" => TermField::Status,
                        "server" => TermField::Server,
                        "tag" => TermField::Tag,
                        "tool" => TermField::Tool,
                        "id" => TermField::Id,
                        _ => return None,
                    };
                    Some((field, rest))
                });
                let (field, text) = match named {
                    Some((field, rest)) => (Some(field), rest),
                    None => (None, word),
                };
                // A term that is still being typed, e.g. `tag:`, matches everything.
                (!text.is_empty()).then(|| Term {
                    is_negated,
                    field,
                    text: text.to_lowercase(),
                })
            })
            .collect();
        Self {
            text: typed.to_owned(),
            terms,
        }
    }

    /// Returns an error message for an unknown key or status in a complete filter.
    pub fn invalid_reason(typed: &str) -> Option<String> {
        typed.split_whitespace().find_map(|word| {
            let (key, rest) = word.strip_prefix('!').unwrap_or(word).split_once(':')?;
            let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
            // `http://...` and `host:8080` are plain words, not terms with a key.
            let is_address = rest.starts_with("//") || rest.bytes().all(|it| it.is_ascii_digit());
            if !FILTER_KEYS.contains(&key) {
                let text = format!(
                    "{key}: is not a filter key; expected one of: {}",
                    FILTER_KEYS.join(", ")
                );
                return (is_key && !is_address).then_some(text);
            }
            let is_state = || {
                let rest = rest.to_lowercase();
                STATUS_VALUES.iter().any(|state| state.starts_with(&rest))
            };
            (key == "status" && !is_state()).then(|| {
                format!(
                    "{rest} is not a status; expected one of: {}",
                    STATUS_VALUES.join(", ")
                )
            })
        })
    }

    /// The filter as it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a task on the screen matches.
    pub fn matches(&self, task_row: &TaskRow) -> bool {
        let view = &task_row.view;
        self.matches_terms(&view.task, &view.contact, || {
            Cow::Borrowed(&*task_row.arguments)
        })
    }

    /// Whether a task matches, without a row on a screen.
    pub fn matches_task(&self, task: &Task, contact: &Connectivity) -> bool {
        self.matches_terms(task, contact, || {
            Cow::Owned(short_arguments(&task.arguments))
        })
    }

    fn matches_terms<'a>(
        &self,
        task: &Task,
        contact: &Connectivity,
        arguments: impl Fn() -> Cow<'a, [(String, String)]>,
    ) -> bool {
        self.terms
            .iter()
            .all(|term| term.matches(task, contact, &arguments) != term.is_negated)
    }
}

impl Term {
    fn matches<'a>(
        &self,
        task: &Task,
        contact: &Connectivity,
        arguments: &impl Fn() -> Cow<'a, [(String, String)]>,
    ) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.text);
        match self.field {
            Some(TermField::Status) => {
                task.status.label().starts_with(&self.text)
                    || (self.text == "done" && task.status == Status::Completed)
                    || (self.text == "asks" && task.status == Status::InputRequired)
                    || task
                        .control
                        .is_some_and(|asked| asked.what.label().starts_with(&self.text))
                    || contact.label().starts_with(&self.text)
            }
            Some(TermField::Server) => has(task.server.as_str()),
            Some(TermField::Tag) => task.tag.as_deref().is_some_and(has),
            Some(TermField::Tool) => has(&task.tool),
            Some(TermField::Id) => task.id.as_str().starts_with(&self.text),
            None => {
                task.id.as_str().starts_with(&self.text)
                    || has(task.title())
                    || has(&task.tool)
                    || has(task.server.as_str())
                    || has(task.status.label())
                    || task.tag.as_deref().is_some_and(has)
                    || task.note.as_deref().is_some_and(has)
                    || arguments()
                        .iter()
                        .any(|(key, value)| has(&format!("{key}={value}")))
            }
        }
    }
}

/// Whether a task is listed.
fn is_shown(state: &State, task_row: &TaskRow) -> bool {
    task_row.view.task.forgotten_at.is_none()
        && (!state.needs_only || task_row.group() == Group::NeedsYou)
        && state.filter.matches(task_row)
}

fn compare(state: &State, one: &TaskRow, two: &TaskRow) -> Ordering {
    let (a, b) = (&one.view.task, &two.view.task);
    let newest = || {
        b.created_at
            .cmp(&a.created_at)
            .then_with(|| a.id.cmp(&b.id))
    };
    let order = match state.sort {
        SortKey::Newest => Ordering::Equal,
        SortKey::State => a.status.label().cmp(b.status.label()),
        SortKey::Task => text::clean_line(a.title()).cmp(&text::clean_line(b.title())),
        SortKey::Server => a.server.as_str().cmp(b.server.as_str()),
        SortKey::Progress => {
            let part = |task_row: &TaskRow| {
                let progress = task_row.view.task.progress.as_ref();
                progress.and_then(crate::domain::Progress::ratio)
            };
            part(two)
                .unwrap_or(-1.0)
                .total_cmp(&part(one).unwrap_or(-1.0))
        }
        SortKey::Leave => {
            let weight = |task_row: &TaskRow| match task_row.view.leaving {
                Some(crate::domain::LeaveImpact::Dies { .. }) => 0,
                Some(crate::domain::LeaveImpact::Likely { .. }) => 1,
                Some(crate::domain::LeaveImpact::Pauses { .. }) => 2,
                Some(crate::domain::LeaveImpact::Safe { .. }) => 3,
                None => 4,
            };
            weight(one).cmp(&weight(two))
        }
    };
    let order = order.then_with(|| match one.listed_group {
        // Questions first, then unknown tasks, then failed and lost ones.
        Group::NeedsYou => (urgency(&a.status).cmp(&urgency(&b.status))).then_with(newest),
        Group::Done => (b.settled_at.cmp(&a.settled_at)).then_with(newest),
        Group::Running => newest(),
    });
    if state.is_reversed {
        order.reverse()
    } else {
        order
    }
}

fn urgency(status: &Status) -> u8 {
    match status {
        Status::InputRequired => 0,
        Status::Unknown(_) => 1,
        Status::Failed => 3,
        Status::Lost(_) => 4,
        _ => 2,
    }
}

/// Builds the heading of a group from all listed tasks.
fn heading<'s>(title: GroupTitle, shown: impl Iterator<Item = &'s TaskRow>) -> ListRow {
    let mut counts = GroupCounts::default();
    for task_row in shown.filter(|task_row| title.has(task_row)) {
        let group = task_row.group();
        if matches!(title, GroupTitle::Need(listed_group) if listed_group != group) {
            let [needs, running, done] = &mut counts.left;
            *match group {
                Group::NeedsYou => needs,
                Group::Running => running,
                Group::Done => done,
            } += 1;
            continue;
        }
        if group == Group::Running && task_row.view.task.status == Status::Paused {
            counts.paused += 1;
        } else {
            counts.count += 1;
        }
        counts.needs += usize::from(group == Group::NeedsYou);
        counts.new += usize::from(task_row.ended_unseen());
    }
    ListRow::Heading(title, counts)
}

/// Recounts the headings without moving any row.
fn recount(state: &mut State) {
    let mut lines = std::mem::take(&mut state.lines);
    for line in &mut lines {
        if let ListRow::Heading(title, _) = line {
            let shown = state
                .tasks
                .values()
                .filter(|task_row| is_shown(state, task_row));
            *line = heading(title.clone(), shown);
        }
    }
    state.lines = lines;
    state.are_headings_stale = false;
    state.is_dirty = true;
}

/// Rebuilds the list after the user changed what it shows: rows may move to their groups at once.
pub(super) fn arrange(state: &mut State) {
    state.regrouping.clear();
    for task_row in state.tasks.values_mut() {
        task_row.listed_group = task_row.group();
    }
    rebuild(state);
}

/// Rebuilds the rows and keeps the cursor on its task.
pub(super) fn rebuild(state: &mut State) {
    state.is_order_stale = false;
    state.are_headings_stale = false;
    let mut shown: Vec<&TaskRow> = state
        .tasks
        .values()
        .filter(|task_row| is_shown(state, task_row))
        .collect();
    let by = state.grouping;
    shown.sort_by(|one, two| {
        by.compare(one, two)
            .then_with(|| one.listed_group.cmp(&two.listed_group))
            .then_with(|| compare(state, one, two))
    });
    let mut lines = Vec::with_capacity(shown.len() + 3);
    for group in shown.chunk_by(|one, two| by.compare(one, two).is_eq()) {
        let Some(first) = group.first() else { continue };
        lines.push(heading(by.title(first), shown.iter().copied()));
        let rows = group
            .iter()
            .filter(|task_row| !(state.is_folded && task_row.listed_group == Group::Done));
        lines.extend(rows.map(|task_row| ListRow::Task(task_row.view.task.id.clone())));
    }
    state.lines = lines;
    if !state.lines.is_empty()
        && state
            .reply
            .as_ref()
            .is_some_and(|it| it.is_about_empty_list)
    {
        state.reply = None;
    }
    let is_kept = |id: &TaskId| {
        state
            .tasks
            .get(id)
            .is_some_and(|task_row| task_row.view.task.forgotten_at.is_none())
    };
    let forgotten: Vec<TaskId> = state
        .marks
        .iter()
        .filter(|id| !is_kept(id))
        .cloned()
        .collect();
    for id in forgotten {
        state.marks.remove(&id);
    }
    place_cursor(state);
}

/// Puts the cursor on its task, or on the nearest row if that task is hidden.
fn place_cursor(state: &mut State) {
    let line_of = |lines: &[ListRow], id: &TaskId| {
        lines
            .iter()
            .position(|line| matches!(line, ListRow::Task(row) if row == id))
    };
    // The cursor returns to the task that the user chose as soon as that is listed again.
    if let Some(wanted) = state.wanted.clone()
        && line_of(&state.lines, &wanted).is_some()
    {
        state.cursor = Some(wanted);
        state.wanted = None;
    }
    let found = state
        .cursor
        .as_ref()
        .and_then(|id| line_of(&state.lines, id));
    if let Some(line) = found {
        state.cursor_line = line;
    } else {
        let nearest = nearest_row(&state.lines, state.cursor_line);
        let next = nearest.and_then(|line| row_at(&state.lines, line));
        if let Some(hidden) = state.cursor.take()
            && state.tasks.contains_key(&hidden)
        {
            state.wanted.get_or_insert(hidden);
        }
        state.cursor_line = nearest.unwrap_or(0);
        state.cursor = next;
        state.scroll = 0;
        state.is_following = true;
    }
    keep_in_sight(state);
}

pub(super) fn row_at(lines: &[ListRow], line: usize) -> Option<TaskId> {
    match lines.get(line) {
        Some(ListRow::Task(id)) => Some(id.clone()),
        _ => None,
    }
}

/// The row at `line`, or the first below it, or the last above it.
fn nearest_row(lines: &[ListRow], line: usize) -> Option<usize> {
    let is_row = |index: &usize| matches!(lines.get(*index), Some(ListRow::Task(_)));
    (line..lines.len())
        .find(is_row)
        .or_else(|| (0..line.min(lines.len())).rev().find(is_row))
}

/// Scrolls as little as possible so that the cursor is visible.
pub(super) fn keep_in_sight(state: &mut State) {
    let rows = usize::from(PaneHeights::of(state, state.size).list);
    state.top = window(state.top, state.cursor_line, rows, state.lines.len());
}

/// Moves the cursor by rows, without wrapping around; returns whether it moved.
pub(super) fn move_by(state: &mut State, rows: isize) -> bool {
    let is_row = |index: &usize| matches!(state.lines.get(*index), Some(ListRow::Task(_)));
    let count = rows.unsigned_abs();
    let target = if rows >= 0 {
        (state.cursor_line + 1..state.lines.len())
            .filter(is_row)
            .take(count)
            .last()
    } else {
        (0..state.cursor_line)
            .rev()
            .filter(is_row)
            .take(count)
            .last()
    };
    match target {
        Some(line) => {
            move_to(state, line);
            true
        }
        None => false,
    }
}

/// Puts the cursor on the row at `line`.
pub(super) fn move_to(state: &mut State, line: usize) {
    let Some(id) = row_at(&state.lines, line) else {
        return;
    };
    if state.cursor.as_ref() != Some(&id) {
        state.scroll = 0;
        state.is_following = true;
    }
    state.cursor = Some(id);
    state.cursor_line = line;
    state.wanted = None;
    keep_in_sight(state);
}

/// Puts the cursor on a task if it is listed.
pub(super) fn move_to_task(state: &mut State, id: &TaskId) {
    let line = state
        .lines
        .iter()
        .position(|line| matches!(line, ListRow::Task(row) if row == id));
    if let Some(line) = line {
        move_to(state, line);
    }
}

/// The tasks that an action applies to: the marked ones, else the one under the cursor.
pub(super) fn chosen(state: &State) -> Vec<TaskId> {
    if state.marks.is_empty() {
        state.cursor.iter().cloned().collect()
    } else {
        state.marks.iter().cloned().collect()
    }
}

/// How many marked tasks are hidden.
pub(super) fn hidden_marks(state: &State) -> usize {
    hidden(state, state.marks.iter())
}

/// How many of these tasks are hidden, if they were chosen by marks.
pub(super) fn hidden_among_marked(state: &State, tasks: &[TaskId]) -> usize {
    if state.marks.is_empty() {
        return 0;
    }
    hidden(state, tasks.iter())
}

/// How many of these tasks are hidden.
fn hidden<'t>(state: &State, tasks: impl Iterator<Item = &'t TaskId>) -> usize {
    let is_seen = |id: &TaskId| {
        state.task(id).is_some_and(|task_row| {
            is_shown(state, task_row) && !(state.is_folded && task_row.listed_group == Group::Done)
        })
    };
    tasks.filter(|id| !is_seen(id)).count()
}

/// Whether rows may move: not within [`HOLD_AFTER_KEY`] of a key.
pub(super) fn may_reorder(state: &State, now: Stamp) -> bool {
    state
        .last_key
        .is_none_or(|key| now.mono.since(key) >= HOLD_AFTER_KEY)
}

/// Moves rows to their groups once the user has seen the change and the cursor is elsewhere.
pub(super) fn regroup(state: &mut State, now: Stamp) {
    // Unlike rows, counts don't wait for the user: headings must agree with the header.
    let is_count_due = state
        .counted_at
        .is_none_or(|at| now.mono.since(at) >= MIN_REORDER_INTERVAL);
    if state.are_headings_stale && is_count_due {
        state.counted_at = Some(now.mono);
        recount(state);
    }
    if !may_reorder(state, now) {
        return;
    }
    let cursor = state.cursor.clone();
    let mut has_moved = false;
    for id in std::mem::take(&mut state.regrouping) {
        let Some(task_row) = state.tasks.get_mut(&id) else {
            continue;
        };
        let group = task_row.group();
        if task_row.listed_group == group {
            continue;
        }
        if cursor.as_ref() == Some(&id) {
            state.regrouping.insert(id);
            continue;
        }
        // A task that ended stays in place until the user has seen it (`mark_seen` queues it again). One that needs
        // attention moves at once.
        if group == Group::Done && !task_row.is_seen {
            continue;
        }
        task_row.listed_group = group;
        has_moved = true;
    }
    let is_due = state
        .rebuilt_at
        .is_none_or(|at| now.mono.since(at) >= MIN_REORDER_INTERVAL);
    if has_moved || (state.is_order_stale && is_due) {
        state.rebuilt_at = Some(now.mono);
        rebuild(state);
        state.is_dirty = true;
    }
}

/// The tasks whose rows are on the screen.
pub(super) fn visible_rows(state: &State) -> Vec<TaskId> {
    if state.pane != Pane::Tasks || state.is_zoomed {
        return Vec::new();
    }
    let rows = usize::from(PaneHeights::of(state, state.size).list);
    state
        .lines
        .iter()
        .skip(state.top)
        .take(rows)
        .filter_map(|line| match line {
            ListRow::Task(id) => Some(id.clone()),
            ListRow::Heading(..) => None,
        })
        .collect()
}

/// The first row to draw if the list has `rows` rows on the screen.
pub fn first_line(state: &State, rows: usize) -> usize {
    window(state.top, state.cursor_line, rows, state.lines.len())
}

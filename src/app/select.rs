//! Which tasks are shown, in what order, and where the cursor stands.

use std::{borrow::Cow, cmp::Ordering, time::Duration};

use crate::domain::{Connectivity, ServerName, Stamp, Status, Task, TaskId, text};

use super::{
    Pane, State,
    room::{PaneHeights, window},
    state::{TaskRow, short_arguments},
};

/// Rows keep their order for this long after a key, so that nobody acts on a row that has just moved away.
pub(super) const STEADY: Duration = Duration::from_secs(1);

/// What changes by itself is put in order at most this often, however fast it changes.
pub(super) const CALM: Duration = Duration::from_millis(250);

/// The three groups of the list, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// A person has to act, or has to know.
    NeedsYou,
    /// Under way.
    Running,
    /// Settled and seen, or settled well.
    Done,
}

/// What the list is grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// By who has to act: [`Group`].
    #[default]
    Need,
    /// By server.
    Server,
    /// By status.
    Status,
}

impl Grouping {
    /// All of them, in the order of their key.
    pub const ALL: [Self; 3] = [Self::Need, Self::Server, Self::Status];

    /// The word for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Need => "need",
            Self::Server => "server",
            Self::Status => "status",
        }
    }

    /// The next one.
    pub(super) fn next(self) -> Self {
        let place = Self::ALL.iter().position(|it| *it == self).unwrap_or(0);
        Self::ALL
            .get((place + 1) % Self::ALL.len())
            .copied()
            .unwrap_or_default()
    }

    /// The order of the groups that two rows stand in.
    fn compare(self, one: &TaskRow, two: &TaskRow) -> Ordering {
        let (a, b) = (&one.view.task, &two.view.task);
        match self {
            Self::Need => one.home.cmp(&two.home),
            Self::Server => a.server.cmp(&b.server),
            Self::Status => (urgency(&a.status).cmp(&urgency(&b.status)))
                .then_with(|| a.status.label().cmp(b.status.label())),
        }
    }

    /// The group that a row stands in.
    fn title(self, task_row: &TaskRow) -> Title {
        match self {
            Self::Need => Title::Need(task_row.home),
            Self::Server => Title::Server(task_row.view.task.server.clone()),
            Self::Status => Title::Status(task_row.view.task.status.row_label()),
        }
    }
}

/// What a group of the list is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Title {
    /// Who has to act.
    Need(Group),
    /// The server.
    Server(ServerName),
    /// The status, by the word of its rows.
    Status(&'static str),
}

impl Title {
    /// Whether the row of a task stands in this group.
    fn has(&self, task_row: &TaskRow) -> bool {
        match self {
            Self::Need(group) => task_row.home == *group,
            Self::Server(server) => task_row.view.task.server == *server,
            Self::Status(word) => task_row.view.task.status.row_label() == *word,
        }
    }
}

/// How many of the tasks shown stand in a group, so that a title never contradicts the rows below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headcount {
    /// All of them but the paused ones and those that left.
    pub count: usize,
    /// Those whose rows wait here until they were seen, though they belong elsewhere by now: where a person has to act,
    /// under way, settled.
    pub left: [usize; 3],
    /// Those that are under way and paused.
    pub paused: usize,
    /// How many of them need a person.
    pub needs: usize,
    /// How many of them settled unseen.
    pub new: usize,
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The title of a group.
    Heading(Title, Headcount),
    /// A task.
    Row(TaskId),
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
    /// All of them, in the order of `s`.
    pub const ALL: [Self; 6] = [
        Self::Newest,
        Self::State,
        Self::Task,
        Self::Server,
        Self::Progress,
        Self::Leave,
    ];

    /// The word for it.
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

    /// The next one.
    pub(super) fn next(self) -> Self {
        let place = Self::ALL.iter().position(|key| *key == self).unwrap_or(0);
        Self::ALL
            .get((place + 1) % Self::ALL.len())
            .copied()
            .unwrap_or_default()
    }
}

/// The keys of a filter.
const KEYS: [&str; 5] = ["status", "server", "tag", "tool", "id"];
/// What `status:` can mean: what a server showed, what was asked for, how contact stands.
const STATES: [&str; 20] = [
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

/// A filter: words, `!x`, `status:failed`, `server:lab`, `tag:x`; all have to fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    is_negated: bool,
    field: Option<Named>,
    words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Status,
    Server,
    Tag,
    Tool,
    Id,
}

impl Filter {
    /// Reads what was typed; every text is a filter.
    pub fn read(typed: &str) -> Self {
        let terms = typed
            .split_whitespace()
            .filter_map(|word| {
                let (is_negated, word) = match word.strip_prefix('!') {
                    Some(rest) => (true, rest),
                    None => (false, word),
                };
                let named = word.split_once(':').and_then(|(name, rest)| {
                    let field = match name {
                        "status" => Named::Status,
                        "server" => Named::Server,
                        "tag" => Named::Tag,
                        "tool" => Named::Tool,
                        "id" => Named::Id,
                        _ => return None,
                    };
                    Some((field, rest))
                });
                let (field, words) = match named {
                    Some((field, rest)) => (Some(field), rest),
                    None => (None, word),
                };
                // A term that is still being typed takes nothing away.
                (!words.is_empty()).then(|| Term {
                    is_negated,
                    field,
                    words: words.to_lowercase(),
                })
            })
            .collect();
        Self {
            text: typed.to_owned(),
            terms,
        }
    }

    /// Why what was typed cannot mean anything, where somebody has ended typing it: a key or a status that there is not.
    pub fn refusal(typed: &str) -> Option<String> {
        typed.split_whitespace().find_map(|word| {
            let (key, rest) = word.strip_prefix('!').unwrap_or(word).split_once(':')?;
            let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
            // An address is a word like others.
            let is_place = rest.starts_with("//") || rest.bytes().all(|it| it.is_ascii_digit());
            if !KEYS.contains(&key) {
                let words = format!(
                    "{key}: is not a filter key; expected one of: {}",
                    KEYS.join(", ")
                );
                return (is_key && !is_place).then_some(words);
            }
            let is_state = || {
                let rest = rest.to_lowercase();
                STATES.iter().any(|state| state.starts_with(&rest))
            };
            (key == "status" && !is_state()).then(|| {
                format!(
                    "{rest} is not a status; expected one of: {}",
                    STATES.join(", ")
                )
            })
        })
    }

    /// As it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it lets everything through.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a task of the screen is let through.
    pub fn fits(&self, task_row: &TaskRow) -> bool {
        let view = &task_row.view;
        self.lets(&view.task, &view.contact, || {
            Cow::Borrowed(&*task_row.arguments)
        })
    }

    /// Whether a task that stands on no screen is let through.
    pub fn fits_task(&self, task: &Task, contact: &Connectivity) -> bool {
        self.lets(task, contact, || {
            Cow::Owned(short_arguments(&task.arguments))
        })
    }

    fn lets<'a>(
        &self,
        task: &Task,
        contact: &Connectivity,
        arguments: impl Fn() -> Cow<'a, [(String, String)]>,
    ) -> bool {
        self.terms
            .iter()
            .all(|term| term.fits(task, contact, &arguments) != term.is_negated)
    }
}

impl Term {
    fn fits<'a>(
        &self,
        task: &Task,
        contact: &Connectivity,
        arguments: &impl Fn() -> Cow<'a, [(String, String)]>,
    ) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.words);
        match self.field {
            Some(Named::Status) => {
                task.status.label().starts_with(&self.words)
                    || (self.words == "done" && task.status == Status::Completed)
                    || (self.words == "asks" && task.status == Status::InputRequired)
                    || task
                        .control
                        .is_some_and(|asked| asked.what.label().starts_with(&self.words))
                    || contact.label().starts_with(&self.words)
            }
            Some(Named::Server) => has(task.server.as_str()),
            Some(Named::Tag) => task.tag.as_deref().is_some_and(has),
            Some(Named::Tool) => has(&task.tool),
            Some(Named::Id) => task.id.as_str().starts_with(&self.words),
            None => {
                task.id.as_str().starts_with(&self.words)
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

/// Whether a task is shown.
fn is_shown(state: &State, task_row: &TaskRow) -> bool {
    task_row.view.task.forgotten_at.is_none()
        && (!state.needs_only || task_row.belongs() == Group::NeedsYou)
        && state.filter.fits(task_row)
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
    let order = order.then_with(|| match one.home {
        // The question first, then what only a person can decide, then what has to be known.
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

/// The title of a group over what is shown.
fn heading<'s>(title: Title, shown: impl Iterator<Item = &'s TaskRow>) -> Line {
    let mut heads = Headcount::default();
    for task_row in shown.filter(|task_row| title.has(task_row)) {
        let group = task_row.belongs();
        if matches!(title, Title::Need(home) if home != group) {
            let [needs, running, done] = &mut heads.left;
            *match group {
                Group::NeedsYou => needs,
                Group::Running => running,
                Group::Done => done,
            } += 1;
            continue;
        }
        if group == Group::Running && task_row.view.task.status == Status::Paused {
            heads.paused += 1;
        } else {
            heads.count += 1;
        }
        heads.needs += usize::from(group == Group::NeedsYou);
        heads.new += usize::from(task_row.is_new());
    }
    Line::Heading(title, heads)
}

/// Counts the headings again and leaves every row where it is.
fn recount(state: &mut State) {
    let mut lines = std::mem::take(&mut state.lines);
    for line in &mut lines {
        if let Line::Heading(title, _) = line {
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

/// Builds the list as the user asked for it: nobody expects a row where it was before, so each stands where it belongs.
pub(super) fn arrange(state: &mut State) {
    state.moving.clear();
    for task_row in state.tasks.values_mut() {
        task_row.home = task_row.belongs();
    }
    rebuild(state);
}

/// Builds the lines of the list again and puts the cursor back on its task.
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
            .then_with(|| one.home.cmp(&two.home))
            .then_with(|| compare(state, one, two))
    });
    let mut lines = Vec::with_capacity(shown.len() + 3);
    for group in shown.chunk_by(|one, two| by.compare(one, two).is_eq()) {
        let Some(first) = group.first() else { continue };
        lines.push(heading(by.title(first), shown.iter().copied()));
        let rows = group
            .iter()
            .filter(|task_row| !(state.is_folded && task_row.home == Group::Done));
        lines.extend(rows.map(|task_row| Line::Row(task_row.view.task.id.clone())));
    }
    state.lines = lines;
    if !state.lines.is_empty() && state.remark.as_ref().is_some_and(|it| it.is_of_empty) {
        state.remark = None;
    }
    let living = |id: &TaskId| {
        state
            .tasks
            .get(id)
            .is_some_and(|task_row| task_row.view.task.forgotten_at.is_none())
    };
    let gone: Vec<TaskId> = state
        .marks
        .iter()
        .filter(|id| !living(id))
        .cloned()
        .collect();
    for id in gone {
        state.marks.remove(&id);
    }
    place_cursor(state);
}

/// Finds the cursor's task among the lines; where it is hidden, the nearest row takes the cursor and says so.
fn place_cursor(state: &mut State) {
    let line_of = |lines: &[Line], id: &TaskId| {
        lines
            .iter()
            .position(|line| matches!(line, Line::Row(row) if row == id))
    };
    // What the user chose comes back as soon as it is shown again.
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

pub(super) fn row_at(lines: &[Line], line: usize) -> Option<TaskId> {
    match lines.get(line) {
        Some(Line::Row(id)) => Some(id.clone()),
        _ => None,
    }
}

/// The row at `line`, or the first below it, or the last above it.
fn nearest_row(lines: &[Line], line: usize) -> Option<usize> {
    let is_row = |place: &usize| matches!(lines.get(*place), Some(Line::Row(_)));
    (line..lines.len())
        .find(is_row)
        .or_else(|| (0..line.min(lines.len())).rev().find(is_row))
}

/// Moves the first line shown as little as possible, so that the cursor is seen.
pub(super) fn keep_in_sight(state: &mut State) {
    let rows = usize::from(PaneHeights::of(state, state.size).list);
    state.top = window(state.top, state.cursor_line, rows, state.lines.len());
}

/// Moves the cursor by rows; it does not wrap.
pub(super) fn move_by(state: &mut State, rows: isize) -> bool {
    let is_row = |place: &usize| matches!(state.lines.get(*place), Some(Line::Row(_)));
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

/// Puts the cursor on a task if it is shown.
pub(super) fn move_to_task(state: &mut State, id: &TaskId) {
    let line = state
        .lines
        .iter()
        .position(|line| matches!(line, Line::Row(row) if row == id));
    if let Some(line) = line {
        move_to(state, line);
    }
}

/// The tasks that an action is meant for: the marked ones, else the one under the cursor.
pub(super) fn chosen(state: &State) -> Vec<TaskId> {
    if state.marks.is_empty() {
        state.cursor.iter().cloned().collect()
    } else {
        state.marks.iter().cloned().collect()
    }
}

/// How many marked tasks are not shown at present.
pub(super) fn hidden_marks(state: &State) -> usize {
    hidden(state, state.marks.iter())
}

/// How many of the tasks that something is asked of are not shown at present, where the marks chose them.
pub(super) fn hidden_of_marked(state: &State, tasks: &[TaskId]) -> usize {
    if state.marks.is_empty() {
        return 0;
    }
    hidden(state, tasks.iter())
}

/// How many of these tasks are not shown at present.
fn hidden<'t>(state: &State, tasks: impl Iterator<Item = &'t TaskId>) -> usize {
    let is_seen = |id: &TaskId| {
        state.task(id).is_some_and(|task_row| {
            is_shown(state, task_row) && !(state.is_folded && task_row.home == Group::Done)
        })
    };
    tasks.filter(|id| !is_seen(id)).count()
}

/// Whether rows may change their places: not within a second of a key.
pub(super) fn is_steady(state: &State, now: Stamp) -> bool {
    state
        .last_key
        .is_none_or(|key| now.mono.since(key) >= STEADY)
}

/// Moves rows to the groups where they belong, once the user has seen why and the cursor is elsewhere.
pub(super) fn settle_places(state: &mut State, now: Stamp) {
    // Rows wait for the user, numbers do not: header and headings say the same.
    let is_count_due = state.counted_at.is_none_or(|at| now.mono.since(at) >= CALM);
    if state.are_headings_stale && is_count_due {
        state.counted_at = Some(now.mono);
        recount(state);
    }
    if !is_steady(state, now) {
        return;
    }
    let cursor = state.cursor.clone();
    let mut moved = false;
    for id in std::mem::take(&mut state.moving) {
        let Some(task_row) = state.tasks.get_mut(&id) else {
            continue;
        };
        let belongs = task_row.belongs();
        if task_row.home == belongs {
            continue;
        }
        if cursor.as_ref() == Some(&id) {
            state.moving.insert(id);
            continue;
        }
        // What was running and is done waits until that was seen, which puts it here again; what needs a person does not
        // wait.
        if belongs == Group::Done && !task_row.is_seen {
            continue;
        }
        task_row.home = belongs;
        moved = true;
    }
    let is_due = state.rebuilt_at.is_none_or(|at| now.mono.since(at) >= CALM);
    if moved || (state.is_order_stale && is_due) {
        state.rebuilt_at = Some(now.mono);
        rebuild(state);
        state.is_dirty = true;
    }
}

/// The tasks whose rows are on the screen now.
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
            Line::Row(id) => Some(id.clone()),
            Line::Heading(..) => None,
        })
        .collect()
}

/// The first line to draw where `rows` are there for the list.
pub fn first_line(state: &State, rows: usize) -> usize {
    window(state.top, state.cursor_line, rows, state.lines.len())
}

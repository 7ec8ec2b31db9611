//! The state of the screen: everything that it shows and remembers.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::domain::{
    Connectivity, ControlKind, LeaveImpact, LinkState, Mono, NoticeLevel, Pace, ServerName,
    ServerView, SessionRequestId, Stamp, Status, TaskId, TaskView, Tool, Wall, text,
};

use super::{
    Action, CallForm, ConfigReread, Field, Filter, Group, Grouping, LeaveNote, Leaving, ListRow,
    Menu, QuestionForm, SaveContent, Setup, SortKey, TaskLog,
    call::DraftKey,
    log::{ResultText, TrafficText},
    notify::AlertState,
    pane_scope,
};

/// Messages in memory; older ones are dropped and counted.
const MAX_MESSAGES: usize = 1_000;
/// Toasts on the screen at once.
const MAX_TOASTS: usize = 3;
/// How long a toast stays, in milliseconds.
const TOAST_MS: u64 = 3_000;
/// How long a toast about a failure stays, in milliseconds: long enough to read two lines.
const TOAST_ERROR_MS: u64 = 7_000;
/// Marks on a task's connectivity timeline.
const MAX_TIMELINE_MARKS: usize = 128;
/// How long the reply to a key stays if no other key is pressed.
const REPLY_TIME: Duration = Duration::from_secs(5);

/// A task on the screen.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// Its newest snapshot.
    pub view: Arc<TaskView>,
    /// Rate and time left.
    pub pace: Pace,
    /// Its arguments as short text, to tell tasks of the same name apart.
    pub arguments: Vec<(String, String)>,
    /// When the kind of connectivity last changed.
    pub connectivity_since: Wall,
    /// When the notice about it last changed.
    pub notice_since: Wall,
    /// The changes of its connectivity since the program started, oldest first.
    pub timeline: VecDeque<(Wall, TimelineMark)>,
    /// The group that it is listed in. It moves to [`TaskRow::group`] once the user has seen the change.
    pub listed_group: Group,
    /// Whether the user has seen how it ended.
    pub is_seen: bool,
    /// When it ended, if it did so while this program was running.
    pub settled_at: Option<Mono>,
}

/// A mark on a task's connectivity timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineMark {
    /// Connected.
    Live,
    /// Disconnected.
    Cut,
    /// The machine was asleep.
    Asleep,
    /// The session had no driver.
    Unwatched,
    /// A replay delivered the missed events.
    Replay,
    /// Some events are lost for good.
    Gap,
}

impl TaskRow {
    pub(super) fn new(view: Arc<TaskView>, now: Stamp) -> Self {
        let arguments = short_arguments(&view.task.arguments);
        let is_seen = view.task.is_seen;
        let mut task_row = Self {
            pace: Pace::default(),
            arguments,
            connectivity_since: now.wall,
            notice_since: view.task.updated_at,
            timeline: VecDeque::from([(now.wall, timeline_mark(&view.contact))]),
            listed_group: Group::Running,
            is_seen,
            settled_at: None,
            view,
        };
        if let Some(progress) = &task_row.view.task.progress
            && task_row.is_streaming()
        {
            task_row.pace.step(now, progress.value);
        }
        if !task_row.is_streaming() {
            task_row.pace.restart(now);
        }
        task_row.listed_group = task_row.group();
        task_row
    }

    /// Applies a newer snapshot.
    pub(super) fn update(&mut self, view: Arc<TaskView>, now: Stamp) {
        let (before, after) = (Arc::clone(&self.view), &view);
        if before.contact.label() != after.contact.label() {
            self.connectivity_since = match &after.contact {
                Connectivity::Offline { since, .. } => *since,
                _ => now.wall,
            };
            let (was, is) = (
                timeline_mark(&before.contact),
                timeline_mark(&after.contact),
            );
            if was != is {
                let came_back = was == TimelineMark::Cut && is == TimelineMark::Live;
                self.mark(now.wall, if came_back { TimelineMark::Replay } else { is });
                if came_back {
                    self.mark(Wall(now.wall.0.saturating_add(1)), TimelineMark::Live);
                }
            }
        }
        if let Some(at) = after.task.gap_at
            && before.task.gap_at != after.task.gap_at
        {
            // The gap may be older than the last mark, but the timeline must stay in order.
            let last = self.timeline.back().map_or(at, |(last, _)| at.max(*last));
            self.mark(last, TimelineMark::Gap);
            let is = timeline_mark(&after.contact);
            self.mark(Wall(last.0.saturating_add(1)), is);
        }
        if !before.task.status.is_settled() && after.task.status.is_settled() {
            self.settled_at = Some(now.mono);
        }
        if !after.task.status.is_settled() {
            // An unknown task may run again after a resume; its end is new again then.
            self.is_seen = false;
            self.settled_at = None;
        }
        if before.task.notice != after.task.notice {
            self.notice_since = now.wall;
        }
        if before.task.arguments != after.task.arguments {
            self.arguments = short_arguments(&after.task.arguments);
        }
        self.is_seen |= after.task.is_seen;
        let was_moving = self.is_streaming();
        self.view = view;
        let (before, after) = (&before.task, &self.view.task);
        let number = |task: &crate::domain::Task| task.attempt().map(|attempt| attempt.number);
        let is_another = number(before).is_some() && number(before) != number(after);
        if !self.is_streaming() || !was_moving || is_another {
            self.pace.restart(now);
        }
        if let Some(progress) = &self.view.task.progress
            && self.is_streaming()
        {
            self.pace.step(now, progress.value);
        }
    }

    /// Whether it is running and connected, so that its progress arrives live.
    fn is_streaming(&self) -> bool {
        let is_resuming = self
            .view
            .task
            .control
            .is_some_and(|asked| asked.what == ControlKind::Resuming);
        self.is_running() && !is_resuming && timeline_mark(&self.view.contact) == TimelineMark::Live
    }

    pub(super) fn mark(&mut self, at: Wall, mark: TimelineMark) {
        self.timeline.push_back((at, mark));
        if self.timeline.len() > MAX_TIMELINE_MARKS {
            self.timeline.pop_front();
        }
    }

    /// The group that its status calls for.
    pub fn group(&self) -> Group {
        let needs_login = matches!(self.view.contact, Connectivity::NeedsLogin);
        match &self.view.task.status {
            status if status.needs_you(self.is_seen) => Group::NeedsYou,
            status if status.is_settled() => Group::Done,
            _ if needs_login => Group::NeedsYou,
            _ => Group::Running,
        }
    }

    /// What quitting would do to it; `None` if it has ended or its status is unknown.
    pub fn leave_impact(&self) -> Option<&LeaveImpact> {
        let status = &self.view.task.status;
        let is_open = !status.is_settled() && !matches!(status, Status::Unknown(_));
        self.view.leaving.as_ref().filter(|_| is_open)
    }

    /// Whether it ended and the user has not seen that yet.
    pub fn ended_unseen(&self) -> bool {
        self.view.task.status.is_settled() && !self.is_seen
    }

    /// Whether its status is `Running`.
    pub fn is_running(&self) -> bool {
        matches!(self.view.task.status, Status::Running)
    }
}

pub(super) fn timeline_mark(contact: &Connectivity) -> TimelineMark {
    match contact {
        Connectivity::Live { .. } | Connectivity::Quiet { .. } | Connectivity::Idle => {
            TimelineMark::Live
        }
        Connectivity::Reconnecting { .. }
        | Connectivity::Offline { .. }
        | Connectivity::NeedsLogin => TimelineMark::Cut,
        Connectivity::Unwatched { .. } => TimelineMark::Unwatched,
    }
}

/// The scalar arguments as short text, in their order.
pub(super) fn short_arguments(json: &str) -> Vec<(String, String)> {
    // Larger arguments don't help to tell tasks apart.
    const MAX_BYTES: usize = 16 * 1024;
    if json.len() > MAX_BYTES {
        return Vec::new();
    }
    let parsed: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(json).unwrap_or_default();
    parsed
        .iter()
        .filter(|(key, _)| *key != "client_id")
        .filter_map(|(key, value)| {
            let short = match value {
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Number(_) | serde_json::Value::Bool(_) => value.to_string(),
                _ => return None,
            };
            let line = text::truncate(&text::clean_line(&short), 60).into_owned();
            Some((text::clean_line(key).into_owned(), line))
        })
        .take(16)
        .collect()
}

/// The four panes behind `1` to `4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    /// The task list with the detail pane.
    #[default]
    Tasks,
    /// The tools of a server.
    Tools,
    /// The servers.
    Servers,
    /// Messages from longhaul.
    Messages,
}

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    pub const ALL: [Self; 6] = [
        Self::Now,
        Self::Log,
        Self::Result,
        Self::Arguments,
        Self::Trace,
        Self::Resume,
    ];

    /// The label on the tab.
    pub fn label(self) -> &'static str {
        match self {
            Self::Now => "Now",
            Self::Log => "Log",
            Self::Result => "Result",
            Self::Arguments => "Arguments",
            Self::Trace => "Trace",
            Self::Resume => "Resume",
        }
    }
}

/// A layer over the screen that gets the keys; the last one is on top.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// The key bindings.
    Help {
        /// The search text.
        field: Field,
        /// The index of the selected match.
        cursor: usize,
    },
    /// The command palette.
    Palette {
        /// The command line.
        field: Field,
        /// The index of the selected match.
        cursor: usize,
    },
    /// Text to read.
    Page {
        /// The title.
        title: String,
        /// The lines.
        lines: Vec<String>,
        /// Lines scrolled down.
        scroll: usize,
    },
    /// A dialog with a list of actions.
    Menu {
        /// What the dialog is about.
        menu: Menu,
        /// The index of the selected item.
        cursor: usize,
        /// When it was first drawn; earlier keys were not meant for it.
        drawn: Option<Mono>,
    },
    /// The form of a new call.
    Call(Box<CallForm>),
    /// The form for a task's name, note and limits.
    Edit(Box<EditForm>),
    /// A question from the server (an elicitation).
    Question(Box<QuestionForm>),
    /// The filter line. Esc clears the filter; it does not restore the previous one.
    Filter(Field),
    /// The search line.
    Search(Field),
    /// The path to save something to.
    SaveAs {
        /// The path of the file, or of a directory for the files of several tasks.
        field: Field,
        /// The tasks.
        tasks: Vec<TaskId>,
        /// What to save.
        what: SaveContent,
    },
}

/// The form for a task's name, note and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct EditForm {
    /// The task.
    pub task: TaskId,
    /// Name, note, idle limit, hard limit.
    pub fields: [Field; 4],
    /// The index of the focused field.
    pub at: usize,
    /// Why the input is invalid.
    pub error: Option<String>,
}

impl EditForm {
    /// The labels of the fields.
    pub const LABELS: [&'static str; 4] = ["name", "note", "idle limit", "hard limit"];
}

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

/// A line of the messages pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// When it was reported.
    pub at: Wall,
    /// Its severity.
    pub level: NoticeLevel,
    /// The sanitized text.
    pub text: String,
}

/// The reply to a key, shown in the attention line until the next key or for a few seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransientMessage {
    /// The text.
    pub text: String,
    /// When it disappears.
    pub until: Mono,
    /// Whether it explains an empty list; it disappears with the first row then.
    pub is_about_empty_list: bool,
    /// The tasks whose change it announces; it disappears once all of them have changed.
    pub awaits: BTreeSet<TaskId>,
}

/// The baseline of the welcome-back banner.
#[derive(Clone, Debug, PartialEq)]
pub struct Away {
    /// The start of the absence.
    pub from: Wall,
    /// The end of the absence.
    pub until: Wall,
    /// Whether the machine was asleep, as opposed to the program not running.
    pub asleep: bool,
    /// Each task's newest history sequence number at the start.
    pub seqs: BTreeMap<TaskId, u64>,
    /// Tasks whose end the user already knows about.
    pub known: BTreeSet<TaskId>,
}

/// A frozen display and the updates that wait for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Frozen {
    /// The time that the display shows.
    pub at: Stamp,
    /// The newest snapshot of each task that changed.
    pub held: BTreeMap<TaskId, Arc<TaskView>>,
}

/// What is known of a server's tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tools {
    /// The newest list.
    pub list: Vec<Tool>,
    /// Whether a list was ever received.
    pub is_known: bool,
    /// The request in progress.
    pub request: Option<SessionRequestId>,
    /// Why the last request failed.
    pub error: Option<String>,
}

/// What a request was for, kept until its response arrives.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestPurpose {
    /// Anything else; only an error matters.
    Other,
    /// List the server's tools.
    Tools(ServerName),
    /// Start a call; the form stays open until the call is saved.
    Start(TaskId),
    /// Add the server that the user typed in; its tools are requested next.
    Server(ServerName),
    /// Answer a question; the dialog stays open until the answer is saved.
    Answer {
        /// The task that asked.
        task: TaskId,
        /// The key of the question.
        key: String,
        /// What the user chose, for the message about it.
        choice: &'static str,
    },
    /// Import tasks from this server.
    Adopt(ServerName),
    /// Start to sign in to this server.
    SignIn(ServerName),
    /// Become the driver.
    Drive,
}

/// How many tasks are in which state. Updated with every change, so that drawing a frame never counts tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks that need the user's attention.
    pub needs: usize,
    /// Running tasks.
    pub running: usize,
    /// Paused tasks.
    pub paused: usize,
    /// Ended tasks.
    pub done: usize,
    /// Tasks that have not ended and have no driver.
    pub unwatched: usize,
    /// Tasks whose last change could not be saved.
    pub unsaved: usize,
}

/// Totals over the tasks that have not ended, for the last lines of the screen. Updated with every change, so that
/// drawing a frame never scans the tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OpenTotals {
    /// Tasks that survive quitting.
    pub(super) safe: usize,
    /// Tasks that the server will stop at a checkpoint.
    pub(super) pauses: usize,
    /// Tasks that probably survive quitting, by expiry time.
    pub(super) likely: BTreeSet<(Wall, TaskId)>,
    /// Tasks that quitting would end.
    pub(super) dies: BTreeSet<TaskId>,
    /// Tasks with a pending pause, resume or cancel, by the time of the request.
    pub(super) asked: BTreeSet<(Wall, TaskId)>,
}

/// The state of the screen.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent setting of the user's"
)]
pub struct State {
    /// Settings from the start of the program.
    pub setup: Setup,
    /// The configuration as last reread.
    pub(super) config: Option<ConfigReread>,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// All tasks, including forgotten ones.
    pub tasks: BTreeMap<TaskId, TaskRow>,
    /// The servers, in the order in which they were added.
    pub servers: Vec<ServerView>,
    /// The tools of each server.
    pub tools: BTreeMap<ServerName, Tools>,

    /// The rows and headings of the list, in order.
    pub lines: Vec<ListRow>,
    /// The task under the cursor.
    pub cursor: Option<TaskId>,
    /// The task that the user chose, while a filter hides it.
    pub(super) wanted: Option<TaskId>,
    /// The index of the cursor's row in `lines`.
    pub cursor_line: usize,
    /// The index of the first visible row.
    pub top: usize,
    /// Marked tasks.
    pub marks: BTreeSet<TaskId>,
    /// The filter of the list.
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
    /// The tasks that are not forgotten and have not ended.
    pub(super) open: BTreeSet<TaskId>,
    /// How many tasks that are not forgotten are in which state.
    pub counts: Counts,
    /// Totals over the open tasks.
    pub(super) totals: OpenTotals,
    /// Tasks that are listed in another group than [`TaskRow::group`] and can move.
    pub(super) regrouping: BTreeSet<TaskId>,
    /// The rows may need to be sorted again.
    pub(super) is_order_stale: bool,
    /// The counts in the headings may be outdated.
    pub(super) are_headings_stale: bool,
    /// When the headings were last recounted.
    pub(super) counted_at: Option<Mono>,
    /// When the rows were last sorted because a task changed.
    pub(super) rebuilt_at: Option<Mono>,
    /// By title and argument: the first value, and whether tasks of that title differ in it.
    pub(super) differing: BTreeMap<String, BTreeMap<String, (String, bool)>>,

    /// The visible pane.
    pub pane: Pane,
    /// Which half of the task pane gets the keys.
    pub focus: Focus,
    /// The detail pane fills the screen.
    pub is_zoomed: bool,
    /// The tab of the detail pane.
    pub tab: Tab,
    /// The log scrolls with new entries.
    pub is_following: bool,
    /// Wrap long lines.
    pub is_wrapping: bool,
    /// Show Markdown unrendered.
    pub is_raw: bool,
    /// Show times in the log.
    pub has_times: bool,
    /// Log entries scrolled back from the end, or lines scrolled down in other tabs.
    pub scroll: usize,
    /// The search text of the detail pane.
    pub search: Option<String>,
    /// Histories in memory.
    pub logs: BTreeMap<TaskId, TaskLog>,
    /// Results in memory.
    pub results: BTreeMap<TaskId, ResultText>,
    /// Recorded traffic, while the Trace tab is open.
    pub traffic: Option<TrafficText>,

    /// Cursors of the tools, servers and messages panes.
    pub cursors: [usize; 3],
    /// The server in the tools pane.
    pub tools_of: Option<ServerName>,

    /// Layers over the screen, topmost last.
    pub overlays: Vec<Overlay>,
    /// Forms that were filled in but not sent.
    pub(super) drafts: BTreeMap<DraftKey, CallForm>,
    /// Toasts, newest last.
    pub toasts: VecDeque<Toast>,
    /// All messages, newest last.
    pub messages: VecDeque<Message>,
    /// How many old messages were dropped.
    pub messages_dropped: u64,
    /// The reply to the last key.
    pub reply: Option<TransientMessage>,
    /// The welcome-back banner.
    pub away: Option<Away>,
    /// Set while the display is frozen.
    pub frozen: Option<Frozen>,

    /// When the session was last saved, as read from the file.
    pub saved_at: Option<Wall>,
    /// When the session file was read; the user has not seen tasks created after that.
    pub restored_at: Option<Wall>,
    /// The driver: its process id, and whether it is this process.
    pub driver: Option<(u32, bool)>,
    /// The session has no driver right now.
    pub is_driverless: bool,
    /// Whether and when the program is about to quit.
    pub leaving: Leaving,
    /// Set once the program quits.
    pub(super) exit_note: Option<LeaveNote>,

    /// Forgotten tasks that undo restores, newest last.
    pub(super) undo: Vec<Vec<TaskId>>,
    /// Tasks whose undo is in progress.
    pub(super) returning: BTreeSet<TaskId>,
    /// Imported servers whose consent dialog has not opened yet, in order.
    pub(super) awaiting_consent: VecDeque<ServerName>,
    /// Requests without a response.
    pub(super) pending_requests: BTreeMap<SessionRequestId, RequestPurpose>,
    /// The id of the next request.
    pub(super) next_request: SessionRequestId,
    /// How many task ids were made from the seed.
    pub(super) ids_made: u64,
    /// When the last key was pressed.
    pub(super) last_key: Option<Mono>,
    /// Since when the row under the cursor has been visible without a key press.
    pub(super) cursor_still_since: Option<Mono>,
    /// When the last event came, to detect that the machine was asleep.
    pub(super) last_event: Option<Stamp>,
    /// Whether the terminal window has the focus.
    pub has_focus: bool,
    /// Whether the terminal has ever reported its focus.
    pub(super) reports_focus: bool,
    /// The bell, notifications, taskbar and title.
    pub(super) alerts: AlertState,
    /// Whether something changed since the last frame.
    pub(super) is_dirty: bool,
}

impl State {
    /// An empty screen, ready to draw.
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            config: None,
            size: (80, 24),
            tasks: BTreeMap::new(),
            servers: Vec::new(),
            tools: BTreeMap::new(),
            lines: Vec::new(),
            cursor: None,
            wanted: None,
            cursor_line: 0,
            top: 0,
            marks: BTreeSet::new(),
            filter: Filter::default(),
            needs_only: false,
            is_folded: false,
            grouping: Grouping::default(),
            sort: SortKey::default(),
            is_reversed: false,
            open: BTreeSet::new(),
            counts: Counts::default(),
            totals: OpenTotals::default(),
            regrouping: BTreeSet::new(),
            is_order_stale: false,
            are_headings_stale: false,
            counted_at: None,
            rebuilt_at: None,
            differing: BTreeMap::new(),
            pane: Pane::default(),
            focus: Focus::default(),
            is_zoomed: false,
            tab: Tab::default(),
            is_following: true,
            is_wrapping: false,
            is_raw: false,
            has_times: true,
            scroll: 0,
            search: None,
            logs: BTreeMap::new(),
            results: BTreeMap::new(),
            traffic: None,
            cursors: [0; 3],
            tools_of: None,
            overlays: Vec::new(),
            drafts: BTreeMap::new(),
            toasts: VecDeque::new(),
            messages: VecDeque::new(),
            messages_dropped: 0,
            reply: None,
            away: None,
            frozen: None,
            saved_at: None,
            restored_at: None,
            driver: None,
            is_driverless: false,
            leaving: Leaving::default(),
            exit_note: None,
            undo: Vec::new(),
            returning: BTreeSet::new(),
            awaiting_consent: VecDeque::new(),
            pending_requests: BTreeMap::new(),
            next_request: 1,
            ids_made: 0,
            last_key: None,
            cursor_still_since: None,
            last_event: None,
            has_focus: true,
            reports_focus: false,
            alerts: AlertState::default(),
            is_dirty: true,
        }
    }

    /// Returns whether a frame is due, and resets that.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.is_dirty)
    }

    /// Records that the top layer has been drawn, so that later keys can be meant for it.
    pub fn drawn(&mut self, now: Stamp) {
        let drawn = match self.overlays.last_mut() {
            Some(Overlay::Question(form)) => &mut form.drawn,
            Some(Overlay::Menu { drawn, .. }) => drawn,
            _ => return,
        };
        drawn.get_or_insert(now.mono);
    }

    /// Whether a frame is due.
    pub fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// What to print after the screen has closed; set once the program quits.
    pub fn exit_note(&self) -> Option<&LeaveNote> {
        self.exit_note.as_ref()
    }

    /// Looks up a task.
    pub fn task(&self, id: &TaskId) -> Option<&TaskRow> {
        self.tasks.get(id)
    }

    /// The task under the cursor.
    pub fn selected(&self) -> Option<&TaskRow> {
        self.cursor.as_ref().and_then(|id| self.tasks.get(id))
    }

    /// Looks up a server.
    pub fn server(&self, name: &ServerName) -> Option<&ServerView> {
        self.servers.iter().find(|server| &server.name == name)
    }

    /// The tasks that are not forgotten.
    pub fn kept_tasks(&self) -> impl Iterator<Item = &TaskRow> {
        self.tasks
            .values()
            .filter(|task_row| task_row.view.task.forgotten_at.is_none())
    }

    /// The tasks that are not forgotten and have not ended.
    pub fn open_tasks(&self) -> impl Iterator<Item = &TaskRow> {
        self.open.iter().filter_map(|id| self.tasks.get(id))
    }

    /// Adds a task to the counts, or removes it: call this before and after each change of a task.
    pub(super) fn count(&mut self, id: &TaskId, adds: bool) {
        let Some(task_row) = self.tasks.get(id) else {
            return;
        };
        if task_row.view.task.forgotten_at.is_some() {
            return;
        }
        let is_settled = task_row.view.task.status.is_settled();
        let is_unwatched = matches!(task_row.view.contact, Connectivity::Unwatched { .. });
        let counts = &mut self.counts;
        let count = match (task_row.group(), &task_row.view.task.status) {
            (Group::NeedsYou, _) => &mut counts.needs,
            (_, Status::Paused) => &mut counts.paused,
            (Group::Running, _) => &mut counts.running,
            (Group::Done, _) => &mut counts.done,
        };
        let by = if adds { 1 } else { -1 };
        *count = count.saturating_add_signed(by);
        if task_row.view.is_unsaved {
            counts.unsaved = counts.unsaved.saturating_add_signed(by);
        }
        if !is_settled && is_unwatched {
            counts.unwatched = counts.unwatched.saturating_add_signed(by);
        }
        if is_settled {
            return;
        }
        let totals = &mut self.totals;
        let update = |set: &mut BTreeSet<(Wall, TaskId)>, at: Wall| {
            if adds {
                set.insert((at, id.clone()));
            } else {
                set.remove(&(at, id.clone()));
            }
        };
        match task_row.leave_impact() {
            Some(LeaveImpact::Safe { .. }) => totals.safe = totals.safe.saturating_add_signed(by),
            Some(LeaveImpact::Pauses { .. }) => {
                totals.pauses = totals.pauses.saturating_add_signed(by);
            }
            Some(LeaveImpact::Likely { until, .. }) => {
                update(&mut totals.likely, until.unwrap_or(Wall(i64::MAX)));
            }
            Some(LeaveImpact::Dies { .. }) if adds => {
                totals.dies.insert(id.clone());
            }
            Some(LeaveImpact::Dies { .. }) => {
                totals.dies.remove(id);
            }
            None => {}
        }
        if let Some(asked) = task_row.view.task.control {
            update(&mut totals.asked, asked.at);
        }
        if adds {
            self.open.insert(id.clone());
        } else {
            self.open.remove(id);
        }
    }

    /// The time for the display: the present, or when it was frozen.
    pub fn shown_at(&self, now: Stamp) -> Stamp {
        self.frozen.as_ref().map_or(now, |frozen| frozen.at)
    }

    /// Logs a message and shows it as a toast.
    pub(super) fn show_toast(&mut self, level: NoticeLevel, text: &str, now: Stamp) {
        self.log_message(level, text, now.wall);
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
        self.is_dirty = true;
    }

    /// Adds a line to the messages pane.
    pub(super) fn log_message(&mut self, level: NoticeLevel, text: &str, at: Wall) {
        self.messages.push_back(Message {
            at,
            level,
            text: text::clean_line(text).into_owned(),
        });
        if self.messages.len() > MAX_MESSAGES {
            self.messages.pop_front();
            self.messages_dropped += 1;
        }
        self.is_dirty = true;
    }

    /// Shows a reply to a key.
    pub(super) fn reply(&mut self, text: impl Into<String>) {
        let now = self.last_event.unwrap_or_default().mono;
        self.reply = Some(TransientMessage {
            text: text.into(),
            until: now.after(REPLY_TIME),
            is_about_empty_list: false,
            awaits: BTreeSet::new(),
        });
        self.is_dirty = true;
    }

    /// Shows a reply to a key that requested a change of these tasks.
    pub(super) fn reply_until_changed(&mut self, text: impl Into<String>, tasks: &[TaskId]) {
        self.reply(text);
        if let Some(reply) = &mut self.reply {
            reply.awaits.extend(tasks.iter().cloned());
        }
    }

    /// Removes a reply that announces this task's change once the change has happened.
    pub(super) fn dismiss_reply_about(&mut self, id: &TaskId) {
        let is_stale =
            |reply: &mut TransientMessage| reply.awaits.remove(id) && reply.awaits.is_empty();
        if self.reply.take_if(is_stale).is_some() {
            self.is_dirty = true;
        }
    }

    /// The label of an action's key, for messages.
    pub fn key(&self, action: Action) -> String {
        self.setup.keys.key_label(pane_scope(self), action)
    }

    /// Shows a reply that explains why the list is empty.
    pub(super) fn reply_until_rows(&mut self, text: &str) {
        self.reply(text);
        if let Some(reply) = &mut self.reply {
            reply.is_about_empty_list = true;
        }
    }

    /// Whether the line below the header reports unreachable servers or outdated data.
    pub fn has_status_line(&self) -> bool {
        self.is_stale() || self.offline().is_some()
    }

    /// Whether some data comes from the session file and no driver has confirmed it yet.
    pub fn is_stale(&self) -> bool {
        self.is_driverless || self.counts.unwatched > 0
    }

    /// The server that has been down the longest, if no other server is connected.
    pub fn offline(&self) -> Option<&ServerView> {
        let is_down = |server: &&ServerView| matches!(server.state, LinkState::Down { .. });
        let has_contact = self
            .servers
            .iter()
            .any(|server| matches!(server.state, LinkState::Live | LinkState::Connecting));
        if has_contact {
            return None;
        }
        self.servers
            .iter()
            .filter(is_down)
            .min_by_key(|server| match server.state {
                LinkState::Down { since, .. } => since,
                _ => Wall(i64::MAX),
            })
    }

    /// A task's title and the argument that tells it apart from others of the same title, e.g. `render_movie` and `scene=12`.
    pub fn label(&self, task_row: &TaskRow) -> (String, Option<(String, String)>) {
        let task = &task_row.view.task;
        let index = self.differing.get(task.title());
        let differs = |key: &str| {
            index
                .and_then(|index| index.get(key))
                .is_some_and(|(_, differs)| *differs)
        };
        // A name that the user chose needs no argument unless another task has the same one.
        let first = task_row.arguments.first().filter(|_| task.name.is_none());
        let argument = task_row
            .arguments
            .iter()
            .find(|(key, _)| differs(key))
            .or(first);
        let title = text::clean_line(task.title()).into_owned();
        (title, argument.cloned())
    }
}

/// Times of day in the user's zone.
impl State {
    fn zoned(&self, at: Wall) -> Option<jiff::Zoned> {
        let time = jiff::Timestamp::from_millisecond(at.0).ok()?;
        Some(time.to_zoned(self.setup.tz.clone()))
    }

    /// `06:52:10`.
    pub fn clock_seconds(&self, at: Wall) -> String {
        self.zoned(at).map_or_else(
            || "--:--:--".to_owned(),
            |time| {
                format!(
                    "{:02}:{:02}:{:02}",
                    time.hour(),
                    time.minute(),
                    time.second()
                )
            },
        )
    }

    /// `06:52`.
    pub fn clock_minutes(&self, at: Wall) -> String {
        self.zoned(at).map_or_else(
            || "--:--".to_owned(),
            |time| format!("{:02}:{:02}", time.hour(), time.minute()),
        )
    }

    /// `Fri 06:52`.
    pub fn clock_day(&self, at: Wall) -> String {
        self.zoned(at).map_or_else(
            || "--- --:--".to_owned(),
            |time| time.strftime("%a %H:%M").to_string(),
        )
    }

    /// `06:52` of today, else `11-02`: short enough for a column.
    pub fn clock_short(&self, at: Wall, now: Stamp) -> String {
        let (Some(time), Some(today)) = (self.zoned(at), self.zoned(now.wall)) else {
            return "-".to_owned();
        };
        if time.date() == today.date() {
            self.clock_minutes(at)
        } else {
            time.strftime("%m-%d").to_string()
        }
    }
}

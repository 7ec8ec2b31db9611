//! Everything that the screen shows and remembers, in one value.

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
    Action, CallForm, Field, Filter, Group, Grouping, LeaveNote, Leaving, Line, Menu, QuestionForm,
    Reread, Saved, Setup, SortKey, TaskLog,
    call::DraftKey,
    log::{ResultText, WireText},
    notify::Telling,
    pane_scope,
};

/// Messages kept; older ones are counted.
const MESSAGES: usize = 1_000;
/// Toasts shown at once.
const TOASTS: usize = 3;
/// How long a toast stays.
const TOAST_MS: u64 = 3_000;
/// How long a toast about a failure stays: long enough to read two lines.
const TOAST_ERROR_MS: u64 = 7_000;
/// Marks of a contact timeline that are kept for a task.
const TRAIL: usize = 128;
/// How long the answer to a key stays, if no other key comes.
const ANSWER: Duration = Duration::from_secs(5);

/// What a task is to the screen.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// The newest picture.
    pub view: Arc<TaskView>,
    /// Rate and time left.
    pub pace: Pace,
    /// The arguments as short text, for telling equal names apart.
    pub arguments: Vec<(String, String)>,
    /// When the kind of contact last changed.
    pub contact_since: Wall,
    /// When longhaul last had something to say about it.
    pub remark_since: Wall,
    /// The kinds of contact since this program looks, oldest first.
    pub trail: VecDeque<(Wall, Mark)>,
    /// The group that it stands in; follows [`TaskRow::belongs`] once the user has seen why.
    pub home: Group,
    /// Whether the user has seen how it settled.
    pub is_seen: bool,
    /// When it settled before the eyes of this program.
    pub settled_at: Option<Mono>,
}

/// A kind of contact on a task's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// In contact.
    Live,
    /// The connection is gone.
    Cut,
    /// The machine slept.
    Asleep,
    /// Nobody drove.
    Unwatched,
    /// A replay brought what was missed.
    Replay,
    /// Something is missing for good.
    Gap,
}

impl TaskRow {
    /// Takes the first picture of a task.
    pub(super) fn new(view: Arc<TaskView>, now: Stamp) -> Self {
        let arguments = short_arguments(&view.task.arguments);
        let is_seen = view.task.is_seen;
        let mut task_row = Self {
            pace: Pace::default(),
            arguments,
            contact_since: now.wall,
            remark_since: view.task.updated_at,
            trail: VecDeque::from([(now.wall, mark_of(&view.contact))]),
            home: Group::Running,
            is_seen,
            settled_at: None,
            view,
        };
        if let Some(progress) = &task_row.view.task.progress
            && task_row.is_moving()
        {
            task_row.pace.step(now, progress.value);
        }
        if !task_row.is_moving() {
            task_row.pace.restart(now);
        }
        task_row.home = task_row.belongs();
        task_row
    }

    /// Takes a newer picture.
    pub(super) fn take(&mut self, view: Arc<TaskView>, now: Stamp) {
        let (before, after) = (Arc::clone(&self.view), &view);
        if before.contact.label() != after.contact.label() {
            self.contact_since = match &after.contact {
                Connectivity::Offline { since, .. } => *since,
                _ => now.wall,
            };
            let (was, is) = (mark_of(&before.contact), mark_of(&after.contact));
            if was != is {
                let came_back = was == Mark::Cut && is == Mark::Live;
                self.mark(now.wall, if came_back { Mark::Replay } else { is });
                if came_back {
                    self.mark(Wall(now.wall.0.saturating_add(1)), Mark::Live);
                }
            }
        }
        if let Some(at) = after.task.gap_at
            && before.task.gap_at != after.task.gap_at
        {
            // What the picture was taken at may lie before what is on the timeline already.
            let last = self.trail.back().map_or(at, |(last, _)| at.max(*last));
            self.mark(last, Mark::Gap);
            let is = mark_of(&after.contact);
            self.mark(Wall(last.0.saturating_add(1)), is);
        }
        if !before.task.status.is_settled() && after.task.status.is_settled() {
            self.settled_at = Some(now.mono);
        }
        if !after.task.status.is_settled() {
            // Brought back to life, e.g. by a resume of something unknown: its end is news again.
            self.is_seen = false;
            self.settled_at = None;
        }
        if before.task.notice != after.task.notice {
            self.remark_since = now.wall;
        }
        if before.task.arguments != after.task.arguments {
            self.arguments = short_arguments(&after.task.arguments);
        }
        self.is_seen |= after.task.is_seen;
        let was_moving = self.is_moving();
        self.view = view;
        let (before, after) = (&before.task, &self.view.task);
        let number = |task: &crate::domain::Task| task.attempt().map(|attempt| attempt.number);
        let is_another = number(before).is_some() && number(before) != number(after);
        if !self.is_moving() || !was_moving || is_another {
            self.pace.restart(now);
        }
        if let Some(progress) = &self.view.task.progress
            && self.is_moving()
        {
            self.pace.step(now, progress.value);
        }
    }

    /// Whether its steps arrive as they are made: it runs, and contact stands.
    fn is_moving(&self) -> bool {
        let is_asked_to_go_on = self
            .view
            .task
            .control
            .is_some_and(|asked| asked.what == ControlKind::Resuming);
        self.is_running() && !is_asked_to_go_on && mark_of(&self.view.contact) == Mark::Live
    }

    /// Adds a mark to the timeline.
    pub(super) fn mark(&mut self, at: Wall, mark: Mark) {
        self.trail.push_back((at, mark));
        if self.trail.len() > TRAIL {
            self.trail.pop_front();
        }
    }

    /// The group that its facts put it in.
    pub fn belongs(&self) -> Group {
        let needs_login = matches!(self.view.contact, Connectivity::NeedsLogin);
        match &self.view.task.status {
            status if status.needs_you(self.is_seen) => Group::NeedsYou,
            status if status.is_settled() => Group::Done,
            _ if needs_login => Group::NeedsYou,
            _ => Group::Running,
        }
    }

    /// What leaving would do to it; nothing to what has settled, or to what only a person can decide.
    pub fn price(&self) -> Option<&LeaveImpact> {
        let status = &self.view.task.status;
        let is_open = !status.is_settled() && !matches!(status, Status::Unknown(_));
        self.view.leaving.as_ref().filter(|_| is_open)
    }

    /// Whether it settled and the user has not seen that.
    pub fn is_new(&self) -> bool {
        self.view.task.status.is_settled() && !self.is_seen
    }

    /// Whether it goes on by itself as far as we know.
    pub fn is_running(&self) -> bool {
        matches!(self.view.task.status, Status::Running)
    }
}

pub(super) fn mark_of(contact: &Connectivity) -> Mark {
    match contact {
        Connectivity::Live { .. } | Connectivity::Quiet { .. } | Connectivity::Idle => Mark::Live,
        Connectivity::Reconnecting { .. }
        | Connectivity::Offline { .. }
        | Connectivity::NeedsLogin => Mark::Cut,
        Connectivity::Unwatched { .. } => Mark::Unwatched,
    }
}

/// Arguments as short text, in their order; values that are no scalars stay out.
pub(super) fn short_arguments(json: &str) -> Vec<(String, String)> {
    // A list shows a few of them; beyond this size nobody tells tasks apart by eye.
    const LONGEST: usize = 16 * 1024;
    if json.len() > LONGEST {
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
    /// What longhaul did and said.
    Messages,
}

/// Where keys go inside the task pane.
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
    /// All of them, from left to right.
    pub const ALL: [Self; 6] = [
        Self::Now,
        Self::Log,
        Self::Result,
        Self::Arguments,
        Self::Trace,
        Self::Resume,
    ];

    /// The word on the tab.
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

/// Something that lies over the screen and takes the keys; the last one is on top.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// The keys and what they do.
    Help {
        /// What is searched for.
        field: Field,
        /// Which match is chosen.
        cursor: usize,
    },
    /// The commands.
    Palette {
        /// What is typed.
        field: Field,
        /// Which match is chosen.
        cursor: usize,
    },
    /// Lines to be read.
    Page {
        /// What they are.
        title: String,
        /// The lines.
        lines: Vec<String>,
        /// Lines scrolled down.
        scroll: usize,
    },
    /// A choice.
    Menu {
        /// Of what.
        menu: Menu,
        /// Which item is chosen.
        cursor: usize,
        /// When it was first on the screen; keys typed before were not meant for it.
        drawn: Option<Mono>,
    },
    /// A new call.
    Call(Box<CallForm>),
    /// Name, note and limits of a task.
    Edit(Box<EditForm>),
    /// A question of a server.
    Question(Box<QuestionForm>),
    /// The filter being typed; what was kept before is brought back by nothing, Esc clears.
    Filter(Field),
    /// The search being typed.
    Search(Field),
    /// Where something of a task is saved to, being typed.
    SaveAs {
        /// The path: of the file, or of the directory for the files of several tasks.
        field: Field,
        /// Of which tasks.
        tasks: Vec<TaskId>,
        /// What of it.
        what: Saved,
    },
}

/// The fields of `e`.
#[derive(Clone, Debug, PartialEq)]
pub struct EditForm {
    /// Which task.
    pub task: TaskId,
    /// Name, note, idle limit, hard limit.
    pub fields: [Field; 4],
    /// Which has the cursor.
    pub at: usize,
    /// What is wrong with what was typed.
    pub complaint: Option<String>,
}

impl EditForm {
    /// The labels of the fields.
    pub const LABELS: [&'static str; 4] = ["name", "note", "idle limit", "hard limit"];
}

/// A short message over the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// How loud.
    pub level: NoticeLevel,
    /// In words.
    pub text: String,
    /// When it goes.
    pub until: Mono,
}

/// A line of the messages pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// When.
    pub at: Wall,
    /// How loud.
    pub level: NoticeLevel,
    /// In words, clean.
    pub text: String,
}

/// An answer to a key, in the attention line until the next key or for some seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransientMessage {
    /// In words.
    pub text: String,
    /// When it goes.
    pub until: Mono,
    /// It says that nothing is shown, so it goes with the first row.
    pub is_of_empty: bool,
    /// The tasks whose change it announces; it goes once all of them have changed.
    pub awaits: BTreeSet<TaskId>,
}

/// What the welcome-back banner counts from.
#[derive(Clone, Debug, PartialEq)]
pub struct Away {
    /// From when.
    pub from: Wall,
    /// Until when.
    pub until: Wall,
    /// Whether the machine slept, rather than this program being away.
    pub asleep: bool,
    /// Each task's newest history number at that time.
    pub seqs: BTreeMap<TaskId, u64>,
    /// The tasks whose end is no news.
    pub known: BTreeSet<TaskId>,
}

/// The display is frozen: what arrives waits here.
#[derive(Clone, Debug, PartialEq)]
pub struct Frozen {
    /// The time that the display shows.
    pub at: Stamp,
    /// The newest picture of each task that changed.
    pub held: BTreeMap<TaskId, Arc<TaskView>>,
}

/// The tools of a server as far as known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tools {
    /// The newest list.
    pub list: Vec<Tool>,
    /// Whether a list was ever received.
    pub is_known: bool,
    /// The ask that is under way.
    pub asked: Option<SessionRequestId>,
    /// Why the last ask failed.
    pub refused: Option<String>,
}

/// What an ask was for, kept until its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Pending {
    /// Nothing but the refusal matters.
    Plain,
    /// The tools of a server.
    Tools(ServerName),
    /// A call; the form stays open until the intent is saved.
    Start(TaskId),
    /// A server that was typed in; its tools are asked for once it is known.
    Server(ServerName),
    /// An answer; the dialog stays open until it is saved.
    Answer {
        /// Whose question.
        task: TaskId,
        /// Which.
        key: String,
        /// What was chosen, for the message about it.
        word: &'static str,
    },
    /// Tasks of this server are taken over.
    Adopt(ServerName),
    /// A sign-in at this server begins.
    SignIn(ServerName),
    /// This window wants to drive.
    Drive,
}

/// How many shown tasks stand where; kept with every change, so that a frame never counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// A person has to act or to know.
    pub needs: usize,
    /// Under way.
    pub running: usize,
    /// Paused.
    pub paused: usize,
    /// Settled.
    pub done: usize,
    /// Not settled, and nobody drives them.
    pub unwatched: usize,
    /// Their last change could not be saved.
    pub unsaved: usize,
}

/// The open tasks by what the last lines of the screen say of them, so that a frame never looks through all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ledger {
    /// Leaving costs nothing.
    pub(super) safe: usize,
    /// The server stops them at a checkpoint.
    pub(super) pauses: usize,
    /// Leaving costs nothing most likely, the first to expire first.
    pub(super) likely: BTreeSet<(Wall, TaskId)>,
    /// Leaving ends them.
    pub(super) dies: BTreeSet<TaskId>,
    /// Something was asked of them, the longest ago first.
    pub(super) asked: BTreeSet<(Wall, TaskId)>,
}

/// The state of the screen.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own that the user turns"
)]
pub struct State {
    /// What was known at the start.
    pub setup: Setup,
    /// What the configuration said when it was read last.
    pub(super) config: Option<Reread>,
    /// Columns and rows.
    pub size: (u16, u16),
    /// The tasks, forgotten ones too.
    pub tasks: BTreeMap<TaskId, TaskRow>,
    /// The servers in the order in which they became known.
    pub servers: Vec<ServerView>,
    /// The tools of servers.
    pub tools: BTreeMap<ServerName, Tools>,

    /// The rows and headings of the list, in order.
    pub lines: Vec<Line>,
    /// The task under the cursor.
    pub cursor: Option<TaskId>,
    /// The task that the user chose, while a filter hides it.
    pub(super) wanted: Option<TaskId>,
    /// The line under the cursor.
    pub cursor_line: usize,
    /// The first line shown.
    pub top: usize,
    /// Marked tasks.
    pub marks: BTreeSet<TaskId>,
    /// What is shown of the list.
    pub filter: Filter,
    /// Only what needs a person is shown.
    pub needs_only: bool,
    /// The group of what is done is folded.
    pub is_folded: bool,
    /// What the list is grouped by.
    pub grouping: Grouping,
    /// How the list is sorted inside its groups.
    pub sort: SortKey,
    /// The sorting is reversed.
    pub is_reversed: bool,
    /// The shown tasks that are not settled.
    pub(super) open: BTreeSet<TaskId>,
    /// How many shown tasks stand where.
    pub counts: Counts,
    /// What leaving would do to the open tasks, and what was asked of them.
    pub(super) ledger: Ledger,
    /// Tasks that stand in another group than where they belong, without those that are to be seen first.
    pub(super) moving: BTreeSet<TaskId>,
    /// The order may have changed.
    pub(super) is_order_stale: bool,
    /// A heading may count what has left its group.
    pub(super) are_headings_stale: bool,
    /// When the headings were last counted by themselves.
    pub(super) counted_at: Option<Mono>,
    /// When the order last followed what changed by itself.
    pub(super) rebuilt_at: Option<Mono>,
    /// For each title, whether an argument differs among its tasks.
    pub(super) differing: BTreeMap<String, BTreeMap<String, (String, bool)>>,

    /// Which pane is shown.
    pub pane: Pane,
    /// Where keys go.
    pub focus: Focus,
    /// The detail pane has the whole screen.
    pub is_zoomed: bool,
    /// The tab of the detail pane.
    pub tab: Tab,
    /// The log follows what arrives.
    pub is_following: bool,
    /// Long lines are wrapped.
    pub is_wrapping: bool,
    /// Markdown is shown as it was written.
    pub is_raw: bool,
    /// Times are shown.
    pub has_times: bool,
    /// Log entries scrolled back from the end, or lines scrolled down in other tabs.
    pub scroll: usize,
    /// What is searched for in the detail pane.
    pub search: Option<String>,
    /// Histories that were read, at most a few.
    pub logs: BTreeMap<TaskId, TaskLog>,
    /// Results that were read, at most a few.
    pub results: BTreeMap<TaskId, ResultText>,
    /// What was recorded of the wire, while the Trace tab shows it.
    pub wire: Option<WireText>,

    /// Cursors of the tools, servers and messages panes.
    pub cursors: [usize; 3],
    /// The server whose tools are shown.
    pub tools_of: Option<ServerName>,

    /// What lies over the screen.
    pub overlays: Vec<Overlay>,
    /// Calls that were filled in and not sent.
    pub(super) drafts: BTreeMap<DraftKey, CallForm>,
    /// Short messages, newest last.
    pub toasts: VecDeque<Toast>,
    /// All messages, newest last.
    pub messages: VecDeque<Message>,
    /// Messages that were dropped.
    pub messages_dropped: u64,
    /// The answer to the last key.
    pub remark: Option<TransientMessage>,
    /// The banner.
    pub away: Option<Away>,
    /// The display is frozen.
    pub frozen: Option<Frozen>,

    /// When the session was last written, while nobody has confirmed it.
    pub saved_at: Option<Wall>,
    /// When the session file was read; what was made since is new to the user too.
    pub restored_at: Option<Wall>,
    /// Who drives: process id, and whether it is this process.
    pub driver: Option<(u32, bool)>,
    /// Nobody drives at the moment.
    pub is_driverless: bool,
    /// How the program is about to end.
    pub leaving: Leaving,
    /// The program is over.
    pub(super) over: Option<LeaveNote>,

    /// Tasks forgotten here, newest last; `u` brings them back.
    pub(super) undo: Vec<Vec<TaskId>>,
    /// Those of them that were asked back and have not come yet.
    pub(super) returning: BTreeSet<TaskId>,
    /// Servers that were just taken over and wait for a person's word, in the order in which it is asked for.
    pub(super) to_agree: VecDeque<ServerName>,
    /// Asks without an answer.
    pub(super) pending: BTreeMap<SessionRequestId, Pending>,
    /// The number of the next ask.
    pub(super) next_ask: SessionRequestId,
    /// How many ids were made from the seed.
    pub(super) ids_made: u64,
    /// When the last key came.
    pub(super) last_key: Option<Mono>,
    /// Since when the row under the cursor can be looked at.
    pub(super) looked_since: Option<Mono>,
    /// The last time that an event came; a jump of the wall clock beside it is sleep.
    pub(super) last_event: Option<Stamp>,
    /// Whether the terminal window has the focus.
    pub has_focus: bool,
    /// Whether the terminal ever spoke of its focus.
    pub(super) tells_focus: bool,
    /// What was told beside the screen.
    pub(super) told: Telling,
    /// Whether something changed since the last frame.
    pub(super) is_dirty: bool,
}

impl State {
    /// An empty screen; the first frame can be drawn from it.
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
            ledger: Ledger::default(),
            moving: BTreeSet::new(),
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
            wire: None,
            cursors: [0; 3],
            tools_of: None,
            overlays: Vec::new(),
            drafts: BTreeMap::new(),
            toasts: VecDeque::new(),
            messages: VecDeque::new(),
            messages_dropped: 0,
            remark: None,
            away: None,
            frozen: None,
            saved_at: None,
            restored_at: None,
            driver: None,
            is_driverless: false,
            leaving: Leaving::default(),
            over: None,
            undo: Vec::new(),
            returning: BTreeSet::new(),
            to_agree: VecDeque::new(),
            pending: BTreeMap::new(),
            next_ask: 1,
            ids_made: 0,
            last_key: None,
            looked_since: None,
            last_event: None,
            has_focus: true,
            tells_focus: false,
            told: Telling::default(),
            is_dirty: true,
        }
    }

    /// Whether a frame is due; asking takes the flag.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.is_dirty)
    }

    /// Notes that a frame with everything that is open now is on the screen: keys that come from now on can be meant
    /// for it.
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

    /// What to say after the screen is gone, once the program is over.
    pub fn is_over(&self) -> Option<&LeaveNote> {
        self.over.as_ref()
    }

    /// A task by its id.
    pub fn task(&self, id: &TaskId) -> Option<&TaskRow> {
        self.tasks.get(id)
    }

    /// The task under the cursor.
    pub fn selected(&self) -> Option<&TaskRow> {
        self.cursor.as_ref().and_then(|id| self.tasks.get(id))
    }

    /// A server by its name.
    pub fn server(&self, name: &ServerName) -> Option<&ServerView> {
        self.servers.iter().find(|server| &server.name == name)
    }

    /// Tasks that are shown at all: not forgotten.
    pub fn living(&self) -> impl Iterator<Item = &TaskRow> {
        self.tasks
            .values()
            .filter(|task_row| task_row.view.task.forgotten_at.is_none())
    }

    /// Tasks that are shown and not settled.
    pub fn open_tasks(&self) -> impl Iterator<Item = &TaskRow> {
        self.open.iter().filter_map(|id| self.tasks.get(id))
    }

    /// Takes a task out of the counts before a change of it, and in again after.
    pub(super) fn count(&mut self, id: &TaskId, is_in: bool) {
        let Some(task_row) = self.tasks.get(id) else {
            return;
        };
        if task_row.view.task.forgotten_at.is_some() {
            return;
        }
        let is_settled = task_row.view.task.status.is_settled();
        let is_unwatched = matches!(task_row.view.contact, Connectivity::Unwatched { .. });
        let counts = &mut self.counts;
        let place = match (task_row.belongs(), &task_row.view.task.status) {
            (Group::NeedsYou, _) => &mut counts.needs,
            (_, Status::Paused) => &mut counts.paused,
            (Group::Running, _) => &mut counts.running,
            (Group::Done, _) => &mut counts.done,
        };
        let by = if is_in { 1 } else { -1 };
        *place = place.saturating_add_signed(by);
        if task_row.view.is_unsaved {
            counts.unsaved = counts.unsaved.saturating_add_signed(by);
        }
        if !is_settled && is_unwatched {
            counts.unwatched = counts.unwatched.saturating_add_signed(by);
        }
        if is_settled {
            return;
        }
        let ledger = &mut self.ledger;
        let enter = |set: &mut BTreeSet<(Wall, TaskId)>, at: Wall| {
            if is_in {
                set.insert((at, id.clone()));
            } else {
                set.remove(&(at, id.clone()));
            }
        };
        match task_row.price() {
            Some(LeaveImpact::Safe { .. }) => ledger.safe = ledger.safe.saturating_add_signed(by),
            Some(LeaveImpact::Pauses { .. }) => {
                ledger.pauses = ledger.pauses.saturating_add_signed(by);
            }
            Some(LeaveImpact::Likely { until, .. }) => {
                enter(&mut ledger.likely, until.unwrap_or(Wall(i64::MAX)));
            }
            Some(LeaveImpact::Dies { .. }) if is_in => {
                ledger.dies.insert(id.clone());
            }
            Some(LeaveImpact::Dies { .. }) => {
                ledger.dies.remove(id);
            }
            None => {}
        }
        if let Some(asked) = task_row.view.task.control {
            enter(&mut ledger.asked, asked.at);
        }
        if is_in {
            self.open.insert(id.clone());
        } else {
            self.open.remove(id);
        }
    }

    /// The time that the display shows: the present, or when it was frozen.
    pub fn shown_at(&self, now: Stamp) -> Stamp {
        self.frozen.as_ref().map_or(now, |frozen| frozen.at)
    }

    /// Adds a message, and a toast that shows it.
    pub(super) fn say(&mut self, level: NoticeLevel, words: &str, now: Stamp) {
        self.note(level, words, now.wall);
        let stay = match level {
            NoticeLevel::Info => TOAST_MS,
            NoticeLevel::Warning | NoticeLevel::Error => TOAST_ERROR_MS,
        };
        let text = text::clean_line(words).into_owned();
        // The same thing said twice is one toast that stays longer.
        self.toasts.retain(|toast| toast.text != text);
        self.toasts.push_back(Toast {
            level,
            text,
            until: Mono(now.mono.0.saturating_add(stay)),
        });
        while self.toasts.len() > TOASTS {
            self.toasts.pop_front();
        }
        self.is_dirty = true;
    }

    /// Adds a message without a toast.
    pub(super) fn note(&mut self, level: NoticeLevel, words: &str, at: Wall) {
        self.messages.push_back(Message {
            at,
            level,
            text: text::clean_line(words).into_owned(),
        });
        if self.messages.len() > MESSAGES {
            self.messages.pop_front();
            self.messages_dropped += 1;
        }
        self.is_dirty = true;
    }

    /// Answers a key.
    pub(super) fn answer(&mut self, words: impl Into<String>) {
        let now = self.last_event.unwrap_or_default().mono;
        self.remark = Some(TransientMessage {
            text: words.into(),
            until: now.after(ANSWER),
            is_of_empty: false,
            awaits: BTreeSet::new(),
        });
        self.is_dirty = true;
    }

    /// Answers a key that asked for a change of these tasks.
    pub(super) fn answer_until_changed(&mut self, words: impl Into<String>, tasks: &[TaskId]) {
        self.answer(words);
        if let Some(remark) = &mut self.remark {
            remark.awaits.extend(tasks.iter().cloned());
        }
    }

    /// Notes that a task has changed as it was asked to, so that no answer announces it any longer.
    pub(super) fn has_changed(&mut self, id: &TaskId) {
        let is_stale =
            |remark: &mut TransientMessage| remark.awaits.remove(id) && remark.awaits.is_empty();
        if self.remark.take_if(is_stale).is_some() {
            self.is_dirty = true;
        }
    }

    /// The key of an action as a sentence names it.
    pub fn key(&self, action: Action) -> String {
        self.setup.keys.said(pane_scope(self), action)
    }

    /// Answers a key after which nothing is shown.
    pub(super) fn answer_empty(&mut self, words: &str) {
        self.answer(words);
        if let Some(remark) = &mut self.remark {
            remark.is_of_empty = true;
        }
    }

    /// Whether a line below the header says that servers are out of reach, or that what is shown is old.
    pub fn has_status_line(&self) -> bool {
        self.is_stale() || self.offline().is_some()
    }

    /// Whether what is shown comes from the session file and nobody has confirmed it yet.
    pub fn is_stale(&self) -> bool {
        self.is_driverless || self.counts.unwatched > 0
    }

    /// The server that is out of reach for the longest, while nothing else is in contact.
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

    /// The name of a task with the argument that tells it from others of the same tool, e.g. `render_movie scene=12`.
    pub fn label(&self, task_row: &TaskRow) -> (String, Option<(String, String)>) {
        let task = &task_row.view.task;
        let index = self.differing.get(task.title());
        let differs = |key: &str| {
            index
                .and_then(|index| index.get(key))
                .is_some_and(|(_, differs)| *differs)
        };
        // A name of the user's says enough as long as it is the only one.
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

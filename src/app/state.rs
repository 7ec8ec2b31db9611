//! The state of the screen: everything that it shows and remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::{
    LinkState, Mono, NoticeLevel, ServerName, ServerView, SessionRequestId, Stamp, TaskId,
    TaskView, Tool, Wall, text,
};

use super::{
    Action, Focus,
    alerts::{AlertState, WindowFocus},
    detail_pane::DetailPane,
    dialogs::{Dialogs, Overlay},
    event::{Command, Exit, Setup, TerminalCommand},
    keymap::Scope,
    list::TaskList,
    log::TaskLog,
    messages::Messages,
    session::{SessionInfo, SessionRequests},
    task_row::TaskRow,
    timeline::{NIGHT, Timeline},
    totals::TaskTotals,
};

/// What the tools pane shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolsPane {
    /// The server whose tools are listed.
    pub server: Option<ServerName>,
    /// The pane from which it was opened.
    pub(super) from: Pane,
}

/// The panes behind `1` to `5`.
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
    /// The timeline of the tasks.
    Timeline,
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
    /// The tasks whose end the user does not know about yet.
    pub open: BTreeSet<TaskId>,
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

/// The state of the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Settings from the start of the program.
    pub setup: Setup,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// All tasks, including forgotten ones.
    pub tasks: BTreeMap<TaskId, TaskRow>,
    /// Counts over the tasks.
    pub totals: TaskTotals,
    /// The servers, in the order in which they were added.
    pub servers: Vec<ServerView>,
    /// The tools of each server.
    pub tools: BTreeMap<ServerName, Tools>,
    /// The visible pane.
    pub pane: Pane,
    /// The task list.
    pub list: TaskList,
    /// The detail pane.
    pub detail: DetailPane,
    /// Cursors of the tools, servers and messages panes.
    pub cursors: [usize; 3],
    /// The timeline pane.
    pub timeline: Timeline,
    /// The tools pane.
    pub tools_pane: ToolsPane,
    /// The layers over the screen.
    pub dialogs: Dialogs,
    /// Toasts, the log of messages and the reply to the last key.
    pub messages: Messages,
    /// The welcome-back banner.
    pub away: Option<Away>,
    /// Set while the display is frozen.
    pub frozen: Option<Frozen>,
    /// The session and its driver.
    pub session: SessionInfo,
    /// Whether and when the program is about to quit.
    pub exit: Exit,
    /// Requests to the session.
    pub(super) requests: SessionRequests,
    /// When the last key was pressed.
    pub(super) last_key: Option<Mono>,
    /// When the last event came, to detect that the machine was asleep.
    pub(super) last_event: Option<Stamp>,
    /// Whether the terminal window has the focus.
    pub(super) window: WindowFocus,
    /// The bell, notifications, taskbar and title.
    pub(super) alerts: AlertState,
    /// Whether something changed since the last frame.
    pub is_dirty: bool,
}

impl State {
    /// An empty screen, ready to draw.
    pub fn new(setup: Setup) -> Self {
        let mut state = Self {
            setup,
            size: (80, 24),
            is_dirty: true,
            ..Self::default()
        };
        state.detail.is_following = true;
        state.detail.text.has_times = true;
        state.timeline.zoom = NIGHT;
        state
    }

    /// Asks the shell to do something after the current update.
    pub(super) fn command(&mut self, command: impl Into<Command>) {
        self.requests.commands.push(command.into());
    }

    /// Copies a text and says so.
    pub(super) fn copy(&mut self, text: String) {
        self.command(TerminalCommand::Copy(text));
        self.show_toast(NoticeLevel::Info, "sent to the terminal's clipboard");
    }

    /// The time of the event that is being handled.
    pub(super) fn now(&self) -> Stamp {
        self.last_event.unwrap_or_default()
    }

    /// Records that the top layer has been drawn, so that later keys can be meant for it.
    pub fn drawn(&mut self, now: Stamp) {
        let drawn = match self.dialogs.stack.last_mut() {
            Some(Overlay::Question(form)) => &mut form.drawn,
            Some(Overlay::Menu { drawn, .. }) => drawn,
            _ => return,
        };
        drawn.get_or_insert(now.mono);
    }

    /// Looks up a task.
    pub fn task(&self, id: &TaskId) -> Option<&TaskRow> {
        self.tasks.get(id)
    }

    /// The task under the cursor.
    pub fn selected(&self) -> Option<&TaskRow> {
        self.list.cursor.as_ref().and_then(|id| self.tasks.get(id))
    }

    /// The server of the task under the cursor.
    pub(super) fn selected_server(&self) -> Option<ServerName> {
        Some(self.selected()?.view.task.server.clone())
    }

    /// The history of the task under the cursor, as far as it is in memory.
    pub(super) fn selected_log(&self) -> Option<&TaskLog> {
        self.detail.logs.get(self.list.cursor.as_ref()?)
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
        self.totals.open.iter().filter_map(|id| self.tasks.get(id))
    }

    /// The time for the display: the present, or when it was frozen.
    pub fn shown_at(&self, now: Stamp) -> Stamp {
        self.frozen.as_ref().map_or(now, |frozen| frozen.at)
    }

    /// Adds a task to the counts, or removes it: call this before and after each change of a task.
    pub(super) fn count(&mut self, id: &TaskId, adds: bool) {
        if let Some(task_row) = self.tasks.get(id) {
            self.totals.count(task_row, adds);
        }
    }

    /// Logs a message and shows it as a toast.
    pub(super) fn show_toast(&mut self, level: NoticeLevel, text: &str) {
        self.messages.show_toast(level, text, self.now());
    }

    /// Adds a line to the messages pane.
    pub(super) fn log_message(&mut self, level: NoticeLevel, text: &str) {
        self.messages.add(level, text, self.now().wall);
    }

    /// Shows a reply to a key.
    pub(super) fn reply(&mut self, text: impl Into<String>) {
        self.messages.reply(text, self.now().mono);
    }

    /// The label of an action's key, for messages.
    pub fn key(&self, action: Action) -> String {
        self.setup.settings.keys.key_label(pane_scope(self), action)
    }

    /// Whether the line below the header reports unreachable servers or outdated data.
    pub fn has_status_line(&self) -> bool {
        self.is_stale() || self.offline().is_some()
    }

    /// Whether some data comes from the session file and no driver has confirmed it yet.
    pub fn is_stale(&self) -> bool {
        self.session.is_driverless || self.totals.counts.unwatched > 0
    }

    /// Whether nothing is known yet of the session on another machine.
    pub fn has_never_connected(&self) -> bool {
        self.setup.host.is_some() && self.session.driver.is_none()
    }

    /// The message while there is no connection to the session on another machine.
    pub fn connecting_to_host(&self) -> Option<String> {
        let is_driverless = self.session.is_driverless;
        let host = self.setup.host.as_ref().filter(|_| is_driverless)?;
        let connecting = if self.has_never_connected() {
            "Connecting"
        } else {
            "Reconnecting"
        };
        Some(format!("{connecting} to {}.", text::clean_line(host)))
    }

    /// The server with open calls that has been down the longest, if no other server is connected.
    pub fn offline(&self) -> Option<&ServerView> {
        let is_down = |server: &&ServerView| matches!(server.state, LinkState::Down { .. });
        let has_contact = self
            .servers
            .iter()
            .any(|server| matches!(server.state, LinkState::Live | LinkState::Connecting));
        if has_contact {
            return None;
        }
        let has_calls = |server: &ServerView| {
            self.open_tasks()
                .any(|it| it.view.task.server == server.name)
        };
        self.servers
            .iter()
            .filter(|server| is_down(server) && has_calls(server))
            .min_by_key(|server| match server.state {
                LinkState::Down { since, .. } => since,
                _ => Wall(i64::MAX),
            })
    }

    /// A task's title and the argument that best tells it apart from others of the same title, e.g. `render_movie` and
    /// `scene=12`.
    pub fn label(&self, task_row: &TaskRow) -> (String, Option<(String, String)>) {
        let task = &task_row.view.task;
        let index = self.list.differing.get(task.title());
        let values = |key: &str| {
            let known = index.and_then(|index| index.get(key));
            known.map_or(0, BTreeSet::len)
        };
        // A name that the user chose needs no argument unless another task has the same one.
        let first = task_row.arguments.first().filter(|_| task.name.is_none());
        let differing = task_row.arguments.iter().rev();
        let differing = differing.filter(|(key, _)| values(key) > 1);
        // The first one of several.
        let argument = differing.max_by_key(|(key, _)| values(key)).or(first);
        let title = text::clean_line(task.title()).into_owned();
        (title, argument.cloned())
    }

    /// As [`Self::label`], in one piece.
    pub fn whole_label(&self, task_row: &TaskRow) -> String {
        match self.label(task_row) {
            (title, Some((key, value))) => format!("{title} {key}={value}"),
            (title, None) => title,
        }
    }
}

/// The scope of the current pane, without the layers over it.
pub fn pane_scope(state: &State) -> Scope {
    match (state.pane, state.detail.focus) {
        (Pane::Tasks, Focus::List) => Scope::List,
        (Pane::Tasks, Focus::Detail) => Scope::Detail,
        (Pane::Tools, _) => Scope::Tools,
        (Pane::Servers, _) => Scope::Servers,
        (Pane::Messages, _) => Scope::Messages,
        (Pane::Timeline, _) => Scope::Timeline,
    }
}

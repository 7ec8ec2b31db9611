//! What comes in and what goes out: events, commands, and what the program is told at its start.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::{Keymap, View};
use crate::domain::{
    ColorDepth, DefaultLimits, HistoryEntry, NotifyConfig, OverallProgress, ServerConfigs,
    ServerName, ServerView, SessionEvent, SessionRequest, SessionRequestId, TaskId, TaskView,
    ThemeName, TrafficEntry, UserInput, Wall,
};

/// What the shell knows before the first frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The name of the saved session.
    pub session: String,
    /// The command that opens this session again, e.g. `longhaul --session nightly`.
    pub reopens_with: String,
    /// What any other command needs to find this session, e.g. ` --session nightly`; empty where it needs nothing.
    pub flags: String,
    /// Whether the embedded demo server is what this session is about.
    pub is_demo: bool,
    /// The zone in which times are shown.
    pub tz: TimeZone,
    /// What the terminal can show.
    pub look: Look,
    /// Whether the screen takes the mouse, so that the terminal no longer marks text with it.
    pub takes_mouse: bool,
    /// Whether nothing may be started, changed or stopped.
    pub readonly: bool,
    /// What limits a new call has.
    pub limits: DefaultLimits,
    /// What is told beside the screen.
    pub notify: NotifyConfig,
    /// How the list can be shown, by name.
    pub views: Vec<View>,
    /// The program that opens files on this desktop, where there is one.
    pub viewer: Option<String>,
    /// What each key does.
    pub keys: Keymap,
    /// Where the ids of new tasks come from; each start brings fresh dice.
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            session: "default".to_owned(),
            reopens_with: "longhaul".to_owned(),
            flags: String::new(),
            is_demo: false,
            tz: TimeZone::UTC,
            look: Look::default(),
            takes_mouse: false,
            readonly: false,
            limits: DefaultLimits::default(),
            notify: NotifyConfig::default(),
            views: Vec::new(),
            viewer: None,
            keys: Keymap::default(),
            seed: 0,
        }
    }
}

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// How many colours.
    pub colour: ColorDepth,
    /// Which of them.
    pub theme: ThemeName,
    /// Whether only ASCII may be drawn.
    pub ascii: bool,
    /// Whether anything may move by itself.
    pub motion: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            colour: ColorDepth::Ansi16,
            theme: ThemeName::default(),
            ascii: false,
            motion: true,
        }
    }
}

/// The servers that other programs know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// A line for each file, and for each server what becomes or became of it.
    pub lines: Vec<String>,
    /// How many of them are new here.
    pub new: usize,
    /// What the configuration says after they were taken over; nothing where none was.
    pub server_configs: ServerConfigs,
    /// Those of the new ones that wait for a person's word.
    pub waiting: Vec<ServerName>,
}

impl Findings {
    /// What is said where there is no file of another program.
    pub const NONE: &str = "no file of another program found here or in your home";
}

/// How it stands with what the configuration has for a server and nothing happens of without the user's word.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consent {
    /// What would go where or be started, if that waits for the user.
    pub to_agree: Vec<String>,
    /// The digest of all of it.
    pub digest: String,
    /// Whether a program would be started.
    pub is_program: bool,
    /// Whether it was agreed to just now.
    pub is_agreed: bool,
    /// Where nothing waits for the user: how it stands.
    pub words: String,
    /// All that is configured now.
    pub server_configs: ServerConfigs,
}

/// What an open screen takes of the configuration; the rest of it holds from the next start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reread {
    /// The file, for people.
    pub file: String,
    /// The servers.
    pub server_configs: ServerConfigs,
    /// What limits a new call has.
    pub limits: DefaultLimits,
    /// The colours.
    pub theme: ThemeName,
    /// Whether the screen takes the mouse.
    pub takes_mouse: bool,
    /// How the list can be shown, by name.
    pub views: Vec<View>,
    /// What each key does.
    pub keys: Keymap,
    /// What was passed over, each with its file and line.
    pub remarks: Vec<String>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The user did something at the terminal.
    Input(UserInput),
    /// The engine has something to say.
    Session(SessionEvent),
    /// What the session file held, for the first paint.
    Restored {
        /// The tasks, with contact `Unwatched`.
        views: Vec<Arc<TaskView>>,
        /// The servers.
        servers: Vec<ServerView>,
        /// When the session was last written; `None` for a new one.
        saved_at: Option<Wall>,
    },
    /// The answer to [`Command::ReadHistory`].
    History {
        /// Whose.
        task: TaskId,
        /// What follows `after_seq`, in order.
        entries: Vec<HistoryEntry>,
        /// How many entries between `after_seq` and the first of these were left out.
        dropped: u64,
    },
    /// The answer to [`Command::ReadResult`].
    ResultRead {
        /// Whose.
        task: TaskId,
        /// The JSON text; `None` if there is none on disk.
        json: Option<String>,
    },
    /// The answer to [`Command::ReadWire`].
    WireRead {
        /// For which task.
        task: TaskId,
        /// The newest messages of it and of its server, in order.
        entries: Vec<TrafficEntry>,
    },
    /// Something that the shell tried worked, in words: a demo fault, a page that was opened.
    Worked(String),
    /// The answer to [`Command::FindServers`].
    ServersFound(Findings),
    /// The answer to [`Command::TakeServers`].
    ServersTaken(Findings),
    /// The answer to [`Command::ReadConsent`] and [`Command::Agree`].
    ConsentRead(ServerName, Consent),
    /// The answer to [`Command::LookAtConfig`] where there is something new, or that was wanted in any case.
    ConfigRead(Box<Reread>),
    /// The user named this task on the command line: the cursor goes there.
    Attached(TaskId),
    /// The user wants this window to drive, by the command line.
    WantsToDrive,
    /// The time that [`super::next_wake`] named has come.
    Tick,
    /// The program was suspended and goes on.
    Resumed,
    /// Something that the shell tried failed, in words.
    Failed(String),
}

/// What of a task is written to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// A part of its result, from 0.
    Part(usize),
    /// What happened to it, as a page with its timeline.
    Page,
    /// What happened to it, as JSON.
    Json,
}

/// Something that the shell must do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Ask the engine; it answers with one [`SessionEvent::Response`].
    Ask(SessionRequestId, SessionRequest),
    /// Read a task's history from the session file; answered by [`Event::History`].
    ReadHistory {
        /// Whose.
        task: TaskId,
        /// The newest entry that is held already.
        after_seq: u64,
    },
    /// Read a task's result from the session file; answered by [`Event::ResultRead`].
    ReadResult(TaskId),
    /// Read what was recorded of the wire; answered by [`Event::WireRead`], in its own time.
    ReadWire {
        /// For which task.
        task: TaskId,
        /// With which server.
        server: ServerName,
    },
    /// Hand text to the terminal's clipboard (OSC 52); it is clean.
    Copy(String),
    /// Leave the screen, print the text for the mouse, and wait for Enter.
    Print(String),
    /// Stop the process group, as Ctrl-Z does.
    Suspend,
    /// Clear the terminal and draw everything again.
    Redraw,
    /// Let the terminal report the mouse, or no longer.
    ReportMouse(bool),
    /// Set the terminal's title; it is clean.
    SetTitle(String),
    /// Ring.
    Bell,
    /// Show a notification of the desktop; it is clean.
    Notify(String),
    /// Show the overall progress in the taskbar.
    Progress(OverallProgress),
    /// Break something on the demo server: `cut 5`, `restart`, `stall`, `drop`, `duplicate`, `forget`,
    /// `polls`, `hang`.
    Break(String),
    /// Look for the servers that other programs know; answered by [`Event::ServersFound`].
    FindServers,
    /// Write them into the configuration; answered by [`Event::ServersTaken`].
    TakeServers,
    /// Write this view into the configuration; answered in words.
    SaveView(View),
    /// Look whether the file of configuration has changed; answered by [`Event::ConfigRead`] if it has.
    LookAtConfig {
        /// Read it even if it has not.
        anyway: bool,
    },
    /// Look what of the configuration waits for consent at this server; answered by [`Event::ConsentRead`].
    ReadConsent(ServerName),
    /// Note that the user agrees to it as it was shown; answered by [`Event::ConsentRead`].
    Agree {
        /// At which server.
        server: ServerName,
        /// The digest of what was shown.
        digest: String,
    },
    /// Open this page in the user's browser; http or https, and the user has agreed.
    OpenPage(String),
    /// Write something of a task to a file that is not there yet; answered by [`Event::Worked`] or [`Event::Failed`].
    Save {
        /// Of which one.
        task: TaskId,
        /// What of it.
        what: Saved,
        /// Where to, as it was typed.
        path: String,
    },
    /// Give a private copy of a part of a task's result to the program that opens files; the user has agreed. Answered as
    /// [`Command::Save`].
    OpenPart {
        /// Whose.
        task: TaskId,
        /// Which one, from 0.
        part: usize,
    },
    /// Leave the program.
    Quit(LeaveNote),
}

/// What to say after the screen is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveNote {
    /// One line for stderr that says how to go on; empty if there is nothing to go on with.
    pub line: String,
}

//! The interface between the screen's state and the shell: events in, commands out, and the settings at startup.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::Keymap;
use crate::domain::{
    DefaultLimits, Mono, NotifyConfig, OverallProgress, Saved, SavedRead, ServerConfigs,
    ServerName, ServerView, SessionEvent, SessionRequest, SessionRequestId, TaskId, TaskView,
    ThemeName, UserInput, Wall,
};

/// Settings that are known before the first frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The name of the saved session.
    pub session: String,
    /// The command that reopens this session, e.g. `longhaul --session nightly`.
    pub reopens_with: String,
    /// Flags that point other commands at this session, with a leading space, e.g. ` --session nightly`; empty for the
    /// default session.
    pub flags: String,
    /// Whether this session runs against the embedded demo server.
    pub is_demo: bool,
    /// The machine of the session, if it is not this one.
    pub host: Option<String>,
    /// The time zone for displayed times.
    pub tz: TimeZone,
    /// Colors, character set and animation.
    pub look: Look,
    /// Whether starting, changing and stopping tasks is disabled.
    pub readonly: bool,
    /// What can change while the screen is open.
    pub settings: Settings,
    /// Random seed for the ids of new tasks.
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            session: "default".to_owned(),
            reopens_with: "longhaul".to_owned(),
            flags: String::new(),
            is_demo: false,
            host: None,
            tz: TimeZone::UTC,
            look: Look::default(),
            readonly: false,
            settings: Settings::default(),
            seed: 0,
        }
    }
}

/// Colors, character set and animation, chosen by the terminal's capabilities and the user's flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Use no colors, only bold, underline and reverse.
    pub no_color: bool,
    /// The color theme.
    pub theme: ThemeName,
    /// Draw with ASCII characters only.
    pub ascii: bool,
    /// Show nothing that moves.
    pub no_motion: bool,
}

/// Servers found in the configuration of other MCP clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerFindings {
    /// A line for each file and each server, with what happens or happened to it.
    pub lines: Vec<String>,
    /// How many servers are new or were added.
    pub new: usize,
    /// The servers in the configuration after the import; empty if nothing was imported.
    pub server_configs: ServerConfigs,
    /// The new servers that need the user's approval.
    pub waiting: Vec<ServerName>,
}

impl ServerFindings {
    /// The notice when no file of another client was found.
    pub const NONE: &str = "no MCP client configuration found in this directory or your home directory; to read another file: `longhaul servers import FILE`";
}

/// What a server's configuration needs the user to approve: variables that would be sent, or a program to start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Approval {
    /// A line for each item to approve; empty if nothing needs approval.
    pub pending: Vec<String>,
    /// The digest of everything to approve.
    pub digest: String,
    /// Whether approval starts a program.
    pub is_program: bool,
    /// Whether the user approved it just now.
    pub is_approved: bool,
    /// The server's approval status in a sentence, if nothing is pending.
    pub message: String,
    /// All configured servers.
    pub server_configs: ServerConfigs,
}

/// The settings that an open screen picks up from a changed config file; the others apply at the next start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Default limits of a new call.
    pub limits: DefaultLimits,
    /// When to ring the bell, show desktop notifications and set the title.
    pub notify: NotifyConfig,
    /// The key bindings.
    pub keys: Keymap,
}

/// A changed config file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigReread {
    /// The path of the file, for display.
    pub file: String,
    /// The configured servers.
    pub server_configs: ServerConfigs,
    /// The color theme.
    pub theme: ThemeName,
    /// The other settings of the screen.
    pub settings: Settings,
    /// Ignored lines of the file, each with its line number and reason.
    pub warnings: Vec<String>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Keys, paste, resize or focus.
    Input(UserInput),
    /// An event from the engine.
    Session(SessionEvent),
    /// The contents of the session file, for the first frame.
    Restored {
        /// The tasks, with their connectivity set to `Unwatched`.
        views: Vec<Arc<TaskView>>,
        /// The known servers.
        servers: Vec<ServerView>,
        /// When the session was last written; `None` for a new one.
        saved_at: Option<Wall>,
        /// When a screen last showed the session; `None` if none ever did.
        watched_at: Option<Wall>,
    },
    /// The response to [`Command::Read`], possibly much later; `None` if it could not be read.
    Read(SavedRead, Option<Saved>),
    /// The shell did something, e.g. injected a fault; the text says what.
    Succeeded(String),
    /// The response to [`Command::FindServers`].
    ServersFound(ServerFindings),
    /// The response to [`Command::ImportServers`].
    ServersImported(ServerFindings),
    /// The response to [`Command::ReadApproval`] and [`Command::Approve`].
    ApprovalRead(ServerName, Approval),
    /// The response to [`Command::CheckConfig`], if the file changed or the check was forced.
    ConfigRead(Box<ConfigReread>),
    /// The user named this task on the command line: the cursor goes there.
    Attached(TaskId),
    /// The time that [`super::next_wake`] returned has come.
    Tick,
    /// The program continues after a suspension.
    Resumed,
    /// The shell failed to do something; the text says what and why.
    Failed(String),
}

/// Something that the shell must do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Send a request to the engine; it responds with one [`SessionEvent::Response`].
    Request(SessionRequestId, SessionRequest),
    /// Read from the session file; responds with [`Event::Read`].
    Read(SavedRead),
    /// Do something with the terminal.
    Terminal(TerminalCommand),
    /// Inject a fault into the demo server: `cut 5`, `restart`, `stall`, `drop`, `duplicate`, `forget`, `polls`, `hang`.
    InjectFault(String),
    /// Look for servers in the configuration of other MCP clients; responds with [`Event::ServersFound`].
    FindServers,
    /// Add those servers to the configuration; responds with [`Event::ServersImported`].
    ImportServers,
    /// Check whether the config file changed; responds with [`Event::ConfigRead`] if so.
    CheckConfig {
        /// Read it even if it did not change.
        force: bool,
    },
    /// Look up what needs approval for this server; responds with [`Event::ApprovalRead`].
    ReadApproval(ServerName),
    /// Record the user's approval; responds with [`Event::ApprovalRead`].
    Approve {
        /// The approved server.
        server: ServerName,
        /// The digest of what the user saw.
        digest: String,
    },
    /// Open an http or https page in the user's browser; the user has agreed.
    OpenPage(String),
    /// Write a part of a result to a new file; responds with [`Event::Succeeded`] or [`Event::Failed`].
    SavePart {
        /// The task.
        task: TaskId,
        /// The index of the part.
        part: usize,
        /// The path as the user typed it.
        path: String,
    },
    /// Exit the program.
    Quit(ExitNote),
}

/// Something that the shell must do with the terminal.
#[derive(Clone, Debug, PartialEq)]
pub enum TerminalCommand {
    /// Copy sanitized text to the terminal's clipboard (OSC 52).
    Copy(String),
    /// Leave the screen, print the text so that the mouse can select it, and wait for Enter.
    Print(String),
    /// Stop the process group, as Ctrl-Z does.
    Suspend,
    /// Clear the terminal and redraw the screen.
    Redraw,
    /// Set the terminal's title to sanitized text.
    SetTitle(String),
    /// Ring the bell.
    Bell,
    /// Show a desktop notification with sanitized text.
    Notify(String),
    /// Show the overall progress in the taskbar.
    Progress(OverallProgress),
}

impl From<TerminalCommand> for Command {
    fn from(command: TerminalCommand) -> Self {
        Self::Terminal(command)
    }
}

/// What to print after the screen has closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitNote {
    /// One line for stderr with the command to continue; empty if nothing is running.
    pub line: String,
    /// Whether the keeper is to be stopped too.
    pub stops_keeper: bool,
}

/// When the program quits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExitWhen {
    /// Not quitting.
    #[default]
    No,
    /// Ctrl-C or a key opened the dialog at this time; a second Ctrl-C quits.
    Asked(Mono),
    /// Quits as soon as no call is left that would be lost.
    NothingLost,
    /// Quits as soon as everything is cancelled, or at this time.
    Cancelled(Mono),
}

/// Whether and when the program is about to quit, and what it prints then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exit {
    /// When it quits.
    pub when: ExitWhen,
    /// Whether the keeper stops with it.
    pub(super) stops_keeper: bool,
    /// What to print after the screen has closed; set once the program quits.
    pub note: Option<ExitNote>,
}

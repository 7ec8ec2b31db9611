//! What keys and commands do, and where keys apply.

/// What a key or a typed command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the table below describes each one")]
pub enum Action {
    Down,
    Up,
    First,
    Last,
    PageDown,
    PageUp,
    Open,
    Back,
    NextPane,
    PreviousTab,
    NextTab,
    Zoom,
    Filter,
    FindTool,
    Search,
    FindNext,
    FindPrevious,
    NeedsOnly,
    Fold,
    Group,
    FoldHere,
    FoldAll,
    Sort,
    Reverse,
    Mark,
    MarkAll,
    ShowTasks,
    ShowTools,
    ShowServers,
    ShowMessages,
    ShowTimeline,
    ZoomIn,
    ZoomOut,
    NewCall,
    RunAgain,
    Pause,
    Resume,
    Cancel,
    Edit,
    Answer,
    CopyMenu,
    Print,
    Forget,
    Undo,
    Follow,
    Wrap,
    SaveOrOpenPart,
    Times,
    Freeze,
    SignIn,
    Trace,
    AddServer,
    Import,
    Reload,
    Adopt,
    Palette,
    Help,
    InjectFault,
    Quit,
    StopKeeper,
    Interrupt,
    Suspend,
    Redraw,
    Accept,
    NextField,
    PreviousField,
    Send,
    Raw,
    OpenPage,
    CopyPage,
    PreviousChoice,
    NextChoice,
}

/// What has the keyboard focus; a key can mean different actions in different scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::VariantArray)]
pub enum Scope {
    /// The list of tasks.
    List,
    /// The detail pane.
    Detail,
    /// The tools of a server.
    Tools,
    /// The servers.
    Servers,
    /// Messages from longhaul.
    Messages,
    /// The timeline of the tasks.
    Timeline,
    /// A dialog or a text page over the screen.
    Menu,
    /// A form.
    Form,
    /// A question that asks the user to open a web page.
    Page,
    /// A text line such as the filter or a command.
    Text,
}

impl Scope {
    /// All scopes, in the order of the help.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The title over its keys in the help.
    pub fn title(self) -> &'static str {
        match self {
            Self::List => "In the list and most panes",
            Self::Detail => "In the detail pane",
            Self::Tools => "In the tools pane",
            Self::Servers => "In the servers pane",
            Self::Messages => "In the messages",
            Self::Timeline => "In the timeline",
            Self::Menu => "In a dialog",
            Self::Form => "In a form",
            Self::Page => "In a question with a URL",
            Self::Text => "While typing",
        }
    }
}

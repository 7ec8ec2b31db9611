//! The default key bindings, and the bindings with the user's overrides. Key handling, the footer, the help, the palette
//! and every message that names a key use them.

mod key_override;

use std::collections::BTreeMap;

use crate::domain::{Chord, Key, text};

pub use key_override::KeyOverride;

/// What a key or a palette command does.
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
    Views,
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
    NewCall,
    RunAgain,
    Pause,
    Resume,
    Cancel,
    Edit,
    Answer,
    CopyMenu,
    Export,
    Print,
    Forget,
    Undo,
    Follow,
    Wrap,
    Markdown,
    SaveOrOpenPart,
    Times,
    Freeze,
    SignIn,
    Trace,
    AddServer,
    Import,
    Reload,
    Drive,
    Adopt,
    Palette,
    Help,
    InjectFault,
    Leave,
    Interrupt,
    Suspend,
    Redraw,
    Accept,
    NextField,
    PreviousField,
    Send,
    Raw,
    Earlier,
    CopyCommand,
    OpenPage,
    CopyPage,
    PreviousChoice,
    NextChoice,
}

/// What has the keyboard focus; a key can mean different actions in different scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// A dialog or a text page over the screen.
    Menu,
    /// A form.
    Form,
    /// A question that asks the user to open a web page.
    Page,
    /// A text line such as the filter or the palette.
    Text,
}

impl Scope {
    /// All scopes, in the order of the help.
    pub const ALL: [Self; 9] = [
        Self::List,
        Self::Detail,
        Self::Tools,
        Self::Servers,
        Self::Messages,
        Self::Menu,
        Self::Form,
        Self::Page,
        Self::Text,
    ];

    /// The title over its keys in the help.
    pub fn title(self) -> &'static str {
        match self {
            Self::List => "Everywhere, and in the list",
            Self::Detail => "In the detail pane",
            Self::Tools => "In the tools",
            Self::Servers => "In the servers",
            Self::Messages => "In the messages",
            Self::Menu => "In a dialog",
            Self::Form => "In a form",
            Self::Page => "In a question about a page",
            Self::Text => "While typing",
        }
    }
}

/// One row of the table of key bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// What it does.
    pub action: Action,
    /// The default chords, as [`Chord`] displays them; the first is shown.
    pub chords: &'static [&'static str],
    /// Where it applies.
    pub scopes: &'static [Scope],
    /// Its command in the palette and its name in the configuration, the same as on the command line if there is one;
    /// empty if it only has keys.
    pub command: &'static str,
    /// A short label for the footer.
    pub label: &'static str,
    /// A description for the help.
    pub help: &'static str,
}

use Scope::{Detail, Form, List, Menu, Messages, Page, Servers, Text, Tools};

const PANES: &[Scope] = &[List, Detail, Tools, Servers, Messages];
const TASK: &[Scope] = &[List, Detail];
const SCROLLED: &[Scope] = &[List, Detail, Tools, Servers, Messages, Menu];

const fn bind(
    action: Action,
    chords: &'static [&'static str],
    scopes: &'static [Scope],
    command: &'static str,
    label: &'static str,
    help: &'static str,
) -> Binding {
    Binding {
        action,
        chords,
        scopes,
        command,
        label,
        help,
    }
}

/// The default bindings.
pub const BINDINGS: &[Binding] = &[
    bind(
        Action::Open,
        &["enter", "l", "right"],
        PANES,
        "open",
        "open",
        "open (for unknown or lost tasks: recovery options)",
    ),
    bind(
        Action::Back,
        &["esc", "h", "left"],
        PANES,
        "",
        "back",
        "go back (never quits)",
    ),
    bind(Action::Down, &["j", "down"], SCROLLED, "", "down", "down"),
    bind(Action::Up, &["k", "up"], SCROLLED, "", "up", "up"),
    bind(
        Action::First,
        &["g", "home"],
        SCROLLED,
        "",
        "first",
        "go to the first line",
    ),
    bind(
        Action::Last,
        &["G", "end"],
        SCROLLED,
        "",
        "last",
        "go to the last line",
    ),
    bind(
        Action::PageDown,
        &["pgdn", "ctrl-d"],
        SCROLLED,
        "",
        "page down",
        "a page down",
    ),
    bind(
        Action::PageUp,
        &["pgup", "ctrl-u"],
        SCROLLED,
        "",
        "page up",
        "a page up",
    ),
    bind(
        Action::NextPane,
        &["tab", "backtab"],
        PANES,
        "",
        "pane",
        "next pane",
    ),
    bind(
        Action::PreviousTab,
        &["["],
        TASK,
        "",
        "tab",
        "previous detail tab",
    ),
    bind(Action::NextTab, &["]"], TASK, "", "tab", "next detail tab"),
    bind(
        Action::Zoom,
        &["z"],
        TASK,
        "zoom",
        "zoom",
        "zoom the detail pane",
    ),
    bind(
        Action::NewCall,
        &["n"],
        &[List, Tools, Servers, Messages],
        "call",
        "new",
        "start a new call",
    ),
    bind(
        Action::RunAgain,
        &["R"],
        TASK,
        "again",
        "run again",
        "run the selected task again; its arguments are filled in",
    ),
    bind(
        Action::Pause,
        &["p"],
        TASK,
        "pause",
        "pause",
        "pause; press again to stop now and keep the checkpoint",
    ),
    bind(
        Action::Resume,
        &["r"],
        &[List, Detail, Servers],
        "resume",
        "resume",
        "resume a paused task, or retry the connection now",
    ),
    bind(
        Action::Cancel,
        &["x"],
        TASK,
        "cancel",
        "cancel",
        "cancel (asks first)",
    ),
    bind(
        Action::Edit,
        &["e"],
        TASK,
        "edit",
        "edit",
        "edit name, note and limits",
    ),
    bind(
        Action::Answer,
        &["a"],
        &[Detail],
        "answer",
        "answer",
        "answer the server's question (in the list, open does it)",
    ),
    bind(
        Action::Forget,
        &["D"],
        TASK,
        "rm",
        "forget",
        "remove from the list (can be undone)",
    ),
    bind(
        Action::Undo,
        &["u"],
        TASK,
        "undo",
        "undo",
        "restore the last removed task",
    ),
    bind(
        Action::CopyMenu,
        &["y"],
        TASK,
        "copy",
        "copy",
        "copy to the clipboard",
    ),
    bind(
        Action::Export,
        &["E"],
        TASK,
        "export",
        "export",
        "export the task as HTML or JSON (asks for a file)",
    ),
    bind(
        Action::Print,
        &["Y"],
        TASK,
        "print",
        "print",
        "print to the terminal, to select with the mouse",
    ),
    bind(
        Action::Filter,
        &["/"],
        &[List],
        "filter",
        "filter",
        "filter: words, !x, status:failed, server:lab, tag:x",
    ),
    bind(
        Action::FindTool,
        &["/"],
        &[Tools],
        "find",
        "find",
        "find a tool on any server by name, description or server",
    ),
    bind(
        Action::NeedsOnly,
        &["!"],
        &[List],
        "needs-me",
        "needs you",
        "show only what needs you",
    ),
    bind(
        Action::Fold,
        &["."],
        &[List],
        "fold",
        "fold",
        "fold finished tasks",
    ),
    bind(
        Action::Views,
        &["v"],
        &[List],
        "views",
        "views",
        "choose one of your views",
    ),
    bind(
        Action::Group,
        &["B"],
        &[List],
        "group",
        "group",
        "group by attention, server or status",
    ),
    bind(
        Action::Sort,
        &["s"],
        &[List],
        "sort",
        "sort",
        "sort by the next column",
    ),
    bind(
        Action::Reverse,
        &["S"],
        &[List],
        "reverse",
        "reverse",
        "reverse the sort",
    ),
    bind(
        Action::Mark,
        &["space"],
        &[List],
        "mark",
        "mark",
        "mark and move down; actions apply to all marked tasks",
    ),
    bind(
        Action::MarkAll,
        &["a"],
        &[List],
        "mark-all",
        "mark all",
        "mark all visible tasks, or none",
    ),
    bind(
        Action::Search,
        &["/"],
        &[Detail],
        "search",
        "search",
        "search the log, result or trace",
    ),
    bind(
        Action::FindNext,
        &["n"],
        &[Detail],
        "",
        "next",
        "next match",
    ),
    bind(
        Action::FindPrevious,
        &["N"],
        &[Detail],
        "",
        "previous",
        "previous match",
    ),
    bind(
        Action::FoldHere,
        &["space"],
        &[Detail],
        "fold-here",
        "fold",
        "fold or unfold the JSON value under the cursor (open does it too)",
    ),
    bind(
        Action::FoldAll,
        &["."],
        &[Detail],
        "fold-all",
        "fold all",
        "fold or unfold the whole result",
    ),
    bind(
        Action::Follow,
        &["F"],
        TASK,
        "follow",
        "follow",
        "follow new log lines",
    ),
    bind(
        Action::Wrap,
        &["w"],
        TASK,
        "wrap",
        "wrap",
        "wrap long lines",
    ),
    bind(
        Action::Markdown,
        &["m"],
        &[Detail],
        "markdown",
        "raw text",
        "switch between rendered and raw Markdown",
    ),
    bind(
        Action::SaveOrOpenPart,
        &["s"],
        &[Detail],
        "take-out",
        "save, open",
        "save or open the selected part of the result (asks first)",
    ),
    bind(
        Action::Times,
        &["T"],
        TASK,
        "times",
        "times",
        "show times in the log",
    ),
    bind(Action::ShowTasks, &["1"], PANES, "ls", "tasks", "the tasks"),
    bind(
        Action::ShowTools,
        &["2"],
        PANES,
        "tools",
        "tools",
        "the tools of a server",
    ),
    bind(
        Action::ShowServers,
        &["3"],
        PANES,
        "servers",
        "servers",
        "the servers",
    ),
    bind(
        Action::ShowMessages,
        &["4"],
        PANES,
        "messages",
        "messages",
        "messages from longhaul",
    ),
    bind(
        Action::AddServer,
        &["a"],
        &[Tools, Servers],
        "add",
        "add server",
        "add a server by URL",
    ),
    bind(
        Action::Import,
        &["i"],
        &[List, Tools, Servers],
        "import",
        "import servers",
        "import servers from other MCP clients",
    ),
    bind(
        Action::Reload,
        &[],
        PANES,
        "reload",
        "reload",
        "reload the configuration, in every window of this session",
    ),
    bind(
        Action::Drive,
        &[],
        PANES,
        "drive",
        "drive",
        "take over as the driver of this session; asks first if that would end a call",
    ),
    bind(
        Action::Adopt,
        &["A"],
        &[Servers],
        "adopt",
        "adopt",
        "import tasks that exist on the server",
    ),
    bind(
        Action::Freeze,
        &["Z"],
        PANES,
        "freeze",
        "freeze",
        "freeze the display; updates wait",
    ),
    bind(
        Action::SignIn,
        &["L"],
        PANES,
        "login",
        "sign in",
        "sign in to a server, or approve what it receives",
    ),
    // Too rarely used for a key.
    bind(
        Action::Trace,
        &[],
        TASK,
        "trace",
        "record traffic",
        "start or stop recording traffic with the task's server (see the Trace tab)",
    ),
    bind(
        Action::InjectFault,
        &["b"],
        PANES,
        "break",
        "break",
        "inject a fault (demo only)",
    ),
    bind(
        Action::Palette,
        &[":"],
        PANES,
        "",
        "commands",
        "command palette; also accepts longhaul commands",
    ),
    bind(
        Action::Help,
        &["?", "f1"],
        PANES,
        "help",
        "keys",
        "all keys; type to search, Enter to run",
    ),
    bind(
        Action::Leave,
        &["q"],
        &[List, Detail, Tools, Servers, Messages, Menu],
        "quit",
        "leave",
        "close the top layer; in the list, quit",
    ),
    bind(
        Action::Interrupt,
        &["ctrl-c"],
        &Scope::ALL,
        "",
        "leave",
        "quit from anywhere; twice to quit now",
    ),
    bind(
        Action::Suspend,
        &["ctrl-z"],
        &Scope::ALL,
        "suspend",
        "suspend",
        "suspend",
    ),
    bind(
        Action::Redraw,
        &["ctrl-l"],
        &Scope::ALL,
        "redraw",
        "redraw",
        "redraw the screen",
    ),
    bind(
        Action::Accept,
        &["enter"],
        &[Menu, Form, Page, Text],
        "",
        "choose",
        "confirm; in a form, go to the next field",
    ),
    bind(
        Action::Back,
        &["esc"],
        &[Menu, Form, Page, Text],
        "",
        "close",
        "close without changes",
    ),
    bind(
        Action::NextField,
        &["tab", "down"],
        &[Form, Page, Text],
        "",
        "next field",
        "next field",
    ),
    bind(
        Action::PreviousField,
        &["backtab", "up"],
        &[Form, Page, Text],
        "",
        "previous field",
        "previous field",
    ),
    bind(
        Action::PageDown,
        &["pgdn"],
        &[Text],
        "",
        "next page",
        "next page of matches",
    ),
    bind(
        Action::PageUp,
        &["pgup"],
        &[Text],
        "",
        "previous page",
        "previous page of matches",
    ),
    bind(
        Action::PreviousChoice,
        &["left"],
        &[Form, Page],
        "",
        "other choice",
        "previous choice",
    ),
    bind(
        Action::NextChoice,
        &["right"],
        &[Form, Page],
        "",
        "other choice",
        "next choice",
    ),
    bind(
        Action::Send,
        &["ctrl-s"],
        &[Form],
        "",
        "send",
        "send the form; accept a question, once a field or button is focused",
    ),
    bind(
        Action::Raw,
        &["ctrl-r"],
        &[Form],
        "",
        "as JSON",
        "switch between JSON and fields",
    ),
    bind(
        Action::Earlier,
        &["ctrl-p"],
        &[Form],
        "",
        "earlier",
        "fill in the arguments of the last call of this tool; again for the one before",
    ),
    bind(
        Action::CopyCommand,
        &["ctrl-y"],
        &[Form],
        "",
        "copy command",
        "copy the call as a longhaul command",
    ),
    bind(
        Action::OpenPage,
        &["o"],
        &[Page],
        "",
        "open",
        "open the page in your browser (asks first)",
    ),
    bind(
        Action::CopyPage,
        &["y"],
        &[Page],
        "",
        "copy",
        "copy the URL to the clipboard",
    ),
];

/// A line of the help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelpLine {
    /// The keys, or the command if it has no key; empty in a title and in a continued line.
    pub keys: String,
    /// What they do, or the title.
    pub text: String,
    /// The binding and its index among the help's bindings; `None` for a title.
    pub binding: Option<(usize, &'static Binding)>,
}

impl HelpLine {
    fn title(text: &str) -> Self {
        Self {
            keys: String::new(),
            text: text.to_owned(),
            binding: None,
        }
    }
}

/// The key bindings in use: the defaults with the user's overrides.
#[derive(Clone, Debug, PartialEq)]
pub struct Keymap {
    /// Every binding with its keys; the first one is shown.
    rows: Vec<(&'static Binding, Vec<Chord>)>,
    /// The action of each chord in each scope.
    actions: BTreeMap<(Scope, Chord), Action>,
}

impl Default for Keymap {
    fn default() -> Self {
        Self::new(
            BINDINGS
                .iter()
                .map(|binding| (binding, binding.defaults()))
                .collect(),
        )
    }
}

impl Keymap {
    fn new(rows: Vec<(&'static Binding, Vec<Chord>)>) -> Self {
        let mut actions = BTreeMap::new();
        for (binding, chords) in &rows {
            for scope in binding.scopes {
                actions.extend(
                    chords
                        .iter()
                        .map(|chord| ((*scope, *chord), binding.action)),
                );
            }
        }
        Self { rows, actions }
    }

    /// The action of a chord in a scope.
    pub fn lookup(&self, scope: Scope, chord: Chord) -> Option<Action> {
        self.actions.get(&(scope, chord)).copied()
    }

    /// An action's binding in a scope and the label of its first key, if it has one.
    pub fn key_of(&self, scope: Scope, action: Action) -> Option<(&'static Binding, String)> {
        let (binding, chords) = self.row(scope, action)?;
        Some((binding, pretty(*chords.first()?)))
    }

    /// The label of an action's key for messages: its key in this scope, else in another one, else its command.
    pub fn key_label(&self, scope: Scope, action: Action) -> String {
        let elsewhere = || self.rows.iter().find(|(row, _)| row.action == action);
        match self.row(scope, action).or_else(elsewhere) {
            Some((binding, chords)) => match chords.first() {
                Some(chord) => pretty(*chord),
                None => format!(":{}", binding.command),
            },
            None => String::new(),
        }
    }

    /// The label of a binding's first key; empty if it has none.
    pub fn first_key(&self, binding: &Binding) -> String {
        let mut rows = self.rows.iter();
        let row = rows.find(|(row, _)| *row == binding);
        row.and_then(|(_, chords)| chords.first())
            .map_or(String::new(), |chord| pretty(*chord))
    }

    /// The label of a binding's first key, if it applies in this scope.
    pub fn lookup_first(&self, scope: Scope, binding: &Binding) -> Option<String> {
        let key = self.first_key(binding);
        (binding.scopes.contains(&scope) && !key.is_empty()).then_some(key)
    }

    fn row(&self, scope: Scope, action: Action) -> Option<&(&'static Binding, Vec<Chord>)> {
        self.rows
            .iter()
            .find(|(row, _)| row.action == action && row.scopes.contains(&scope))
    }

    /// The help's lines for a search text, wrapped for a screen of this width.
    pub fn help_page(&self, columns: u16, typed: &str) -> Vec<HelpLine> {
        // Leave room for the keys, the frame and the margins.
        let width = usize::from(columns).min(96).saturating_sub(29).max(20);
        let mut page = Vec::new();
        for mut line in self.help_found(typed) {
            let whole = std::mem::take(&mut line.text);
            for word in whole.split(' ') {
                if !line.text.is_empty() && text::width(&line.text) + 1 + text::width(word) > width
                {
                    page.push(line.clone());
                    line.keys.clear();
                    line.text.clear();
                }
                if !line.text.is_empty() {
                    line.text.push(' ');
                }
                line.text.push_str(word);
            }
            page.push(line);
        }
        page
    }

    /// The help's lines for a search text: all bindings by scope if it is empty, else the matches, best first.
    fn help_found(&self, typed: &str) -> Vec<HelpLine> {
        let typed = typed.trim();
        // A leading slash is a habit from pagers.
        let typed = typed
            .strip_prefix('/')
            .filter(|it| !it.is_empty())
            .unwrap_or(typed);
        if typed.is_empty() {
            return self.help_all();
        }
        let lower = typed.to_lowercase();
        let rank = |line: &HelpLine| {
            let (_, binding) = line.binding?;
            let is_key = line.keys.split(' ').any(|key| key == typed);
            let matches = |text: &str| text.to_lowercase().contains(&lower);
            Some(match binding.command {
                _ if is_key => 0,
                word if word == lower => 1,
                word if word.starts_with(&lower) => 2,
                _ if matches(&line.text) || matches(binding.label) || matches(&line.keys) => 3,
                _ => return None,
            })
        };
        let ranked = self.help_all().into_iter();
        let mut found: Vec<(u8, HelpLine)> = ranked
            .filter_map(|line| Some((rank(&line)?, line)))
            .collect();
        found.sort_by_key(|(rank, _)| *rank);
        let found = found.into_iter().enumerate();
        found
            .map(|(index, (_, mut line))| {
                line.binding = line.binding.map(|(_, binding)| (index, binding));
                line
            })
            .collect()
    }

    /// All bindings by scope; an action without a key is listed with its command.
    fn help_all(&self) -> Vec<HelpLine> {
        let mut lines = Vec::new();
        let mut seen: Vec<(Action, &str)> = Vec::new();
        for scope in Scope::ALL {
            let of_scope: Vec<&(&Binding, Vec<Chord>)> = self
                .rows
                .iter()
                .filter(|(binding, _)| binding.scopes.contains(&scope))
                .filter(|(binding, _)| !seen.contains(&(binding.action, binding.help)))
                .collect();
            if of_scope.is_empty() {
                continue;
            }
            if !lines.is_empty() {
                lines.push(HelpLine::title(""));
            }
            lines.push(HelpLine::title(scope.title()));
            for (binding, chords) in of_scope {
                let index = seen.len();
                seen.push((binding.action, binding.help));
                let keys: Vec<String> = chords.iter().map(|chord| pretty(*chord)).collect();
                let keys = match keys.as_slice() {
                    [] => format!(":{}", binding.command),
                    keys => keys.join(" "),
                };
                lines.push(HelpLine {
                    keys,
                    text: binding.help.to_owned(),
                    binding: Some((index, binding)),
                });
            }
        }
        lines
    }

    /// The whole help as pairs of keys and descriptions; a title has no keys.
    pub fn help_lines(&self) -> Vec<(String, String)> {
        let lines = self.help_all().into_iter();
        lines.map(|line| (line.keys, line.text)).collect()
    }
}

impl Binding {
    /// Its default chords.
    fn defaults(&self) -> Vec<Chord> {
        let chords = self.chords.iter();
        chords.filter_map(|chord| chord.parse().ok()).collect()
    }

    /// Whether it applies to the panes, as opposed to layers over them.
    pub(super) fn acts_on_panes(&self) -> bool {
        self.scopes.iter().any(|scope| PANES.contains(scope))
    }

    /// Its name for messages.
    fn name(&self) -> &'static str {
        if self.command.is_empty() {
            self.label
        } else {
            self.command
        }
    }
}

/// The label of a chord: `Enter`, `Esc`, `Ctrl-C`, `p`.
pub fn pretty(chord: Chord) -> String {
    let mut text = String::new();
    for (is_held, name) in [
        (chord.ctrl, "Ctrl-"),
        (chord.alt, "Alt-"),
        (chord.shift, "Shift-"),
    ] {
        if is_held {
            text.push_str(name);
        }
    }
    let name = Chord::plain(chord.key).to_string();
    match chord.key {
        Key::BackTab => text.push_str("Shift-Tab"),
        Key::PageUp => text.push_str("PgUp"),
        Key::PageDown => text.push_str("PgDn"),
        Key::Char(letter) if letter != ' ' && !chord.ctrl => text.push(letter),
        Key::Char(letter) if letter != ' ' => text.extend(letter.to_uppercase()),
        _ => {
            let mut letters = name.chars();
            text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
            text.push_str(letters.as_str());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chords_are_unique_per_scope() {
        for scope in Scope::ALL {
            let mut seen = Vec::new();
            for binding in BINDINGS
                .iter()
                .filter(|binding| binding.scopes.contains(&scope))
            {
                for chord in binding.chords {
                    assert!(!seen.contains(chord), "{chord} twice in {scope:?}");
                    seen.push(chord);
                }
            }
        }
    }

    #[test]
    fn every_default_chord_finds_its_action() {
        let keys = Keymap::default();
        for binding in BINDINGS {
            for chord in binding.chords {
                let parsed: Chord = chord.parse().unwrap();
                assert_eq!(parsed.to_string(), *chord);
                for scope in binding.scopes {
                    assert_eq!(keys.lookup(*scope, parsed), Some(binding.action), "{chord}");
                }
            }
        }
    }

    #[test]
    fn every_action_has_a_binding_and_a_help_line() {
        let lines = Keymap::default().help_lines();
        let last = Action::NextChoice as usize;
        let bound: std::collections::BTreeSet<usize> = BINDINGS
            .iter()
            .map(|binding| binding.action as usize)
            .collect();
        assert_eq!(bound, (0..=last).collect());
        for binding in BINDINGS {
            let keys: Vec<String> = binding.defaults().into_iter().map(pretty).collect();
            let keys = match keys.as_slice() {
                [] => format!(":{}", binding.command),
                keys => keys.join(" "),
            };
            let line = (keys, binding.help.to_owned());
            assert!(lines.contains(&line), "{line:?}");
        }
    }

    #[test]
    fn formats_chords_for_display() {
        for (chord, shown) in [
            ("enter", "Enter"),
            ("ctrl-c", "Ctrl-C"),
            ("alt-x", "Alt-x"),
            ("alt-X", "Alt-X"),
            ("ctrl-pgup", "Ctrl-PgUp"),
            ("ctrl-space", "Ctrl-Space"),
            ("backtab", "Shift-Tab"),
            ("shift-down", "Shift-Down"),
            ("f12", "F12"),
            ("G", "G"),
        ] {
            assert_eq!(pretty(chord.parse().unwrap()), shown);
        }
    }
}

//! The one table of keys, and the keys that hold once the user changed some: they feed dispatch, the footer, the help,
//! the palette, and every sentence that names a key.

mod key_override;

use std::collections::BTreeMap;

use crate::domain::{Chord, Key, text};

pub use key_override::KeyOverride;

/// Something that the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each has its sentence in the table below")]
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
    TabBefore,
    TabAfter,
    Zoom,
    Filter,
    FindTool,
    Search,
    FindNext,
    FindBefore,
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
    TakeOut,
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
    Break,
    Leave,
    Interrupt,
    Suspend,
    Redraw,
    Accept,
    NextField,
    FieldBefore,
    Send,
    Raw,
    Earlier,
    CopyCommand,
    OpenPage,
    CopyPage,
    ChoiceBefore,
    ChoiceAfter,
}

/// Where keys go.
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
    /// What longhaul did and said.
    Messages,
    /// A choice or a page over the screen.
    Menu,
    /// A form.
    Form,
    /// A question that wants a page opened.
    Page,
    /// A line that is being typed.
    Text,
}

impl Scope {
    /// All of them.
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
            Self::Menu => "In a choice",
            Self::Form => "In a form",
            Self::Page => "In a question about a page",
            Self::Text => "While typing",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// What it does.
    pub action: Action,
    /// The chords that do it where the user wants no others, as [`Chord`] writes them; the first is shown.
    pub chords: &'static [&'static str],
    /// Where it does it.
    pub scopes: &'static [Scope],
    /// The word of the palette, the same as on the command line where there is one; empty for what only keys do.
    pub word: &'static str,
    /// A word or two for the footer.
    pub label: &'static str,
    /// A sentence for the help.
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
    word: &'static str,
    label: &'static str,
    help: &'static str,
) -> Binding {
    Binding {
        action,
        chords,
        scopes,
        word,
        label,
        help,
    }
}

/// The table.
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
        Action::TabBefore,
        &["["],
        TASK,
        "",
        "tab",
        "previous detail tab",
    ),
    bind(Action::TabAfter, &["]"], TASK, "", "tab", "next detail tab"),
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
        Action::FindBefore,
        &["N"],
        &[Detail],
        "",
        "before",
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
        "as written",
        "switch between rendered and raw Markdown",
    ),
    bind(
        Action::TakeOut,
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
    // Seldom enough to do without a key.
    bind(
        Action::Trace,
        &[],
        TASK,
        "trace",
        "record the wire",
        "start or stop recording traffic with the task's server (see the Trace tab)",
    ),
    bind(
        Action::Break,
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
        Action::FieldBefore,
        &["backtab", "up"],
        &[Form, Page, Text],
        "",
        "field before",
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
        "page before",
        "previous page of matches",
    ),
    bind(
        Action::ChoiceBefore,
        &["left"],
        &[Form, Page],
        "",
        "other choice",
        "previous choice",
    ),
    bind(
        Action::ChoiceAfter,
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
    /// The keys, or the command where there is no key; empty in a title and in the rest of a wrapped line.
    pub keys: String,
    /// What they do, or the title.
    pub words: String,
    /// The row of the table and its place among the lines that have one; a title has none.
    pub binding: Option<(usize, &'static Binding)>,
}

impl HelpLine {
    fn title(words: &str) -> Self {
        Self {
            keys: String::new(),
            words: words.to_owned(),
            binding: None,
        }
    }
}

/// The keys that hold: those of the table, with what the user changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Keymap {
    /// Every row of the table with its keys; the first of them is shown.
    rows: Vec<(&'static Binding, Vec<Chord>)>,
    /// What a key does where.
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

    /// What a chord does in a scope.
    pub fn lookup(&self, scope: Scope, chord: Chord) -> Option<Action> {
        self.actions.get(&(scope, chord)).copied()
    }

    /// An action that has a key in a scope, and the first of its keys as people write it.
    pub fn key_of(&self, scope: Scope, action: Action) -> Option<(&'static Binding, String)> {
        let (binding, chords) = self.row(scope, action)?;
        Some((binding, pretty(*chords.first()?)))
    }

    /// The key of an action as a sentence names it: the one of this scope, else the one of where the action is at home;
    /// without any, its command.
    pub fn said(&self, scope: Scope, action: Action) -> String {
        let elsewhere = || self.rows.iter().find(|(row, _)| row.action == action);
        match self.row(scope, action).or_else(elsewhere) {
            Some((binding, chords)) => match chords.first() {
                Some(chord) => pretty(*chord),
                None => format!(":{}", binding.word),
            },
            None => String::new(),
        }
    }

    /// The first key of a row of the table as people write it; empty where it has none.
    pub fn first_key(&self, binding: &Binding) -> String {
        let mut rows = self.rows.iter();
        let row = rows.find(|(row, _)| *row == binding);
        row.and_then(|(_, chords)| chords.first())
            .map_or(String::new(), |chord| pretty(*chord))
    }

    /// The first key of a row of the table as people write it, if it holds in this scope.
    pub fn lookup_first(&self, scope: Scope, binding: &Binding) -> Option<String> {
        let key = self.first_key(binding);
        (binding.scopes.contains(&scope) && !key.is_empty()).then_some(key)
    }

    fn row(&self, scope: Scope, action: Action) -> Option<&(&'static Binding, Vec<Chord>)> {
        self.rows
            .iter()
            .find(|(row, _)| row.action == action && row.scopes.contains(&scope))
    }

    /// What the help shows for what is typed, wrapped for a screen so many columns wide.
    pub fn help_page(&self, columns: u16, typed: &str) -> Vec<HelpLine> {
        // The keys, the frame and what lies beside it.
        let room = usize::from(columns).min(96).saturating_sub(29).max(20);
        let mut page = Vec::new();
        for mut line in self.help_found(typed) {
            let whole = std::mem::take(&mut line.words);
            for word in whole.split(' ') {
                if !line.words.is_empty() && text::width(&line.words) + 1 + text::width(word) > room
                {
                    page.push(line.clone());
                    line.keys.clear();
                    line.words.clear();
                }
                if !line.words.is_empty() {
                    line.words.push(' ');
                }
                line.words.push_str(word);
            }
            page.push(line);
        }
        page
    }

    /// What the help shows for what is typed: the whole table by the places where its keys hold, or what fits, best
    /// first.
    fn help_found(&self, typed: &str) -> Vec<HelpLine> {
        let typed = typed.trim();
        // In pagers, a search begins with a slash.
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
            let says = |words: &str| words.to_lowercase().contains(&lower);
            Some(match binding.word {
                _ if is_key => 0,
                word if word == lower => 1,
                word if word.starts_with(&lower) => 2,
                _ if says(&line.words) || says(binding.label) || says(&line.keys) => 3,
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
            .map(|(place, (_, mut line))| {
                line.binding = line.binding.map(|(_, binding)| (place, binding));
                line
            })
            .collect()
    }

    /// The whole table by the places where its keys hold; an action without a key has its command there.
    fn help_all(&self) -> Vec<HelpLine> {
        let mut lines = Vec::new();
        let mut told: Vec<(Action, &str)> = Vec::new();
        for scope in Scope::ALL {
            let of_scope: Vec<&(&Binding, Vec<Chord>)> = self
                .rows
                .iter()
                .filter(|(binding, _)| binding.scopes.contains(&scope))
                .filter(|(binding, _)| !told.contains(&(binding.action, binding.help)))
                .collect();
            if of_scope.is_empty() {
                continue;
            }
            if !lines.is_empty() {
                lines.push(HelpLine::title(""));
            }
            lines.push(HelpLine::title(scope.title()));
            for (binding, chords) in of_scope {
                let place = told.len();
                told.push((binding.action, binding.help));
                let keys: Vec<String> = chords.iter().map(|chord| pretty(*chord)).collect();
                let keys = match keys.as_slice() {
                    [] => format!(":{}", binding.word),
                    keys => keys.join(" "),
                };
                lines.push(HelpLine {
                    keys,
                    words: binding.help.to_owned(),
                    binding: Some((place, binding)),
                });
            }
        }
        lines
    }

    /// The whole help as keys and words; a title has no keys.
    pub fn help_lines(&self) -> Vec<(String, String)> {
        let lines = self.help_all().into_iter();
        lines.map(|line| (line.keys, line.words)).collect()
    }
}

impl Binding {
    /// Its keys in the table.
    fn defaults(&self) -> Vec<Chord> {
        let chords = self.chords.iter();
        chords.filter_map(|chord| chord.parse().ok()).collect()
    }

    /// Whether it does something where nothing lies over the panes.
    pub(super) fn is_of_panes(&self) -> bool {
        self.scopes.iter().any(|scope| PANES.contains(scope))
    }

    /// What people call it.
    fn name(&self) -> &'static str {
        if self.word.is_empty() {
            self.label
        } else {
            self.word
        }
    }
}

/// A chord as people write it: `Enter`, `Esc`, `Ctrl-C`, `p`.
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
    fn no_chord_means_two_things_in_one_scope() {
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
    fn every_chord_of_the_table_is_a_key_and_finds_its_action() {
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
    fn every_action_is_bound_and_in_the_help() {
        let lines = Keymap::default().help_lines();
        let last = Action::ChoiceAfter as usize;
        let bound: std::collections::BTreeSet<usize> = BINDINGS
            .iter()
            .map(|binding| binding.action as usize)
            .collect();
        assert_eq!(bound, (0..=last).collect());
        for binding in BINDINGS {
            let keys: Vec<String> = binding.defaults().into_iter().map(pretty).collect();
            let keys = match keys.as_slice() {
                [] => format!(":{}", binding.word),
                keys => keys.join(" "),
            };
            let line = (keys, binding.help.to_owned());
            assert!(lines.contains(&line), "{line:?}");
        }
    }

    #[test]
    fn chords_are_shown_as_people_write_them() {
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

//! The default key bindings, one line each.

use crate::domain::Chord;

use super::action::{
    Action,
    Scope::{self, Detail, Form, List, Menu, Messages, Page, Servers, Text, Timeline, Tools},
};

/// One row of the table of key bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// What it does.
    pub action: Action,
    /// The default chords, as [`Chord`] displays them; the first is shown.
    pub chords: &'static [&'static str],
    /// Where it applies.
    pub scopes: &'static [Scope],
    /// Its command after `:` and its name in the configuration, the same as on the command line if there is one;
    /// empty if it only has keys.
    pub command: &'static str,
    /// A short label for the footer.
    pub label: &'static str,
    /// A description for the help.
    pub help: &'static str,
    /// It starts, changes or stops something, which a read-only window refuses.
    pub(in crate::app) is_change: bool,
    /// It is about the task under the cursor.
    pub(in crate::app) is_of_task: bool,
}

const PANES: &[Scope] = &[List, Detail, Tools, Servers, Messages, Timeline];
/// The panes in which left and right close and open.
const LEVELS: &[Scope] = &[List, Detail, Tools, Servers, Messages];
const TASK: &[Scope] = &[List, Detail];
const SCROLLED: &[Scope] = &[List, Detail, Tools, Servers, Messages, Timeline, Menu];

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
        is_change: false,
        is_of_task: false,
    }
}

/// The default bindings.
#[rustfmt::skip]
pub const BINDINGS: &[Binding] = &[
    bind(Action::Open, &["enter", "l", "right"], LEVELS, "open", "open", "open (unknown or lost task: recovery options; failed task: press twice)"),
    bind(Action::Back, &["esc", "h", "left"], LEVELS, "", "back", "go back (never quits)"),
    bind(Action::Down, &["j", "down"], SCROLLED, "", "down", "down"),
    bind(Action::Up, &["k", "up"], SCROLLED, "", "up", "up"),
    bind(Action::First, &["g", "home"], SCROLLED, "", "first", "go to the first line"),
    bind(Action::Last, &["G", "end"], SCROLLED, "", "last", "go to the last line"),
    bind(Action::PageDown, &["pgdn", "ctrl-d"], SCROLLED, "", "page down", "page down"),
    bind(Action::PageUp, &["pgup", "ctrl-u"], SCROLLED, "", "page up", "page up"),
    bind(Action::NextPane, &["tab", "backtab"], PANES, "", "pane", "switch between list and detail pane"),
    bind(Action::PreviousTab, &["["], TASK, "", "tab", "previous detail tab").of_task(),
    bind(Action::NextTab, &["]"], TASK, "", "tab", "next detail tab").of_task(),
    bind(Action::Zoom, &["z"], TASK, "zoom", "zoom", "zoom the detail pane").of_task(),
    bind(Action::NewCall, &["n"], &[List, Tools, Servers, Messages, Timeline], "call", "new", "start a new call").changes(),
    bind(Action::RunAgain, &["R"], TASK, "again", "run again", "run the selected task again; its arguments are filled in").changes().of_task(),
    bind(Action::Pause, &["p"], TASK, "pause", "pause", "pause; press again to stop the call now and keep the checkpoint").changes().of_task(),
    bind(Action::Resume, &["r"], &[List, Detail, Servers], "resume", "resume", "resume a paused task, or retry the connection now").changes(),
    bind(Action::Cancel, &["x"], TASK, "cancel", "cancel", "cancel (asks first)").changes().of_task(),
    bind(Action::Edit, &["e"], TASK, "edit", "edit", "edit name, note and limits").changes().of_task(),
    bind(Action::Answer, &["a"], &[Detail], "answer", "answer", "answer the server's question (in the list, press Enter)").changes().of_task(),
    bind(Action::Forget, &["D"], TASK, "rm", "remove", "remove a task that isn't running (can be undone)").changes().of_task(),
    bind(Action::Undo, &["u"], TASK, "undo", "undo", "restore the task last removed on this screen").changes(),
    bind(Action::CopyMenu, &["y"], TASK, "copy", "copy", "copy to the clipboard").of_task(),
    bind(Action::Print, &["Y"], TASK, "print", "print", "leave the screen and print this view as plain text, to select with the mouse").of_task(),
    bind(Action::Filter, &["/"], &[List], "filter", "filter", "filter: words, !word, status:failed, server:lab, tag:nightly"),
    bind(Action::FindTool, &["/"], &[Tools], "find", "find", "find a tool by name, description or server"),
    bind(Action::NeedsOnly, &["!"], &[List], "needs-you", "needs you", "show only what needs you"),
    bind(Action::Fold, &["."], &[List], "fold", "fold", "fold or unfold finished tasks"),
    bind(Action::Group, &["B"], &[List], "group", "group", "group by urgency, server, status or FROM"),
    bind(Action::Sort, &["s"], &[List], "sort", "sort", "sort by the next column"),
    bind(Action::Reverse, &["S"], &[List], "reverse", "reverse", "reverse the sort"),
    bind(Action::Mark, &["space"], &[List], "mark", "mark", "mark and move down; actions apply to all marked tasks").of_task(),
    bind(Action::MarkAll, &["a"], &[List], "mark-all", "mark all", "mark or unmark all visible tasks"),
    bind(Action::Search, &["/"], &[Detail], "search", "search", "search the log, result or trace").of_task(),
    bind(Action::FindNext, &["n"], &[Detail], "", "next", "next match"),
    bind(Action::FindPrevious, &["N"], &[Detail], "", "previous", "previous match"),
    bind(Action::FoldHere, &["space"], &[Detail], "fold-here", "fold", "fold or unfold the JSON value under the cursor (so does Enter)").of_task(),
    bind(Action::FoldAll, &["."], &[Detail], "fold-all", "fold all", "fold or unfold the whole result").of_task(),
    bind(Action::Follow, &["F"], TASK, "follow", "follow", "follow new log lines").of_task(),
    bind(Action::Wrap, &["w"], TASK, "wrap", "wrap", "wrap long lines"),
    bind(Action::SaveOrOpenPart, &["s"], &[Detail], "save-part", "save or open", "save the selected block of the result, or open a link (asks first)").of_task(),
    bind(Action::Times, &["T"], TASK, "times", "times", "show or hide times in the log"),
    bind(Action::ShowTasks, &["1"], PANES, "ls", "tasks", "show the tasks"),
    bind(Action::ShowTools, &["2"], PANES, "tools", "tools", "show the tools of a server"),
    bind(Action::ShowServers, &["3"], PANES, "servers", "servers", "show the servers"),
    bind(Action::ShowMessages, &["4"], PANES, "messages", "messages", "show messages from longhaul"),
    bind(Action::ShowTimeline, &["5"], PANES, "timeline", "timeline", "show the timeline: when each task ran, paused, asked a question or was disconnected"),
    bind(Action::Open, &["enter"], &[Timeline], "", "open", "open the task"),
    bind(Action::Back, &["esc"], &[Timeline], "", "back", "go back to the tasks"),
    bind(Action::ZoomIn, &["+", "="], &[Timeline], "", "zoom in", "zoom in (shorter span)"),
    bind(Action::ZoomOut, &["-"], &[Timeline], "", "zoom out", "zoom out (longer span)"),
    bind(Action::AddServer, &["a"], &[Tools, Servers], "add", "add server", "add a server by URL (also in the servers pane)").changes(),
    bind(Action::Import, &["i"], &[List, Tools, Servers], "import", "import servers", "import servers from other MCP clients").changes(),
    bind(Action::Reload, &[], PANES, "reload", "reload", "reload the configuration, on every screen of this session").changes(),
    bind(Action::Adopt, &["A"], &[Servers], "adopt", "import tasks", "import tasks that exist on the server").changes(),
    bind(Action::Freeze, &["Z"], PANES, "freeze", "freeze", "freeze or unfreeze the display"),
    bind(Action::SignIn, &["L"], PANES, "login", "approve or sign in", "sign in to a server, allow its variables, or approve its command").changes(),
    // Too rarely used for a key.
    bind(Action::Trace, &[], TASK, "trace", "record traffic", "start or stop recording traffic with the task's server (see the Trace tab)").changes().of_task(),
    bind(Action::InjectFault, &["b"], PANES, "break", "fault", "inject a fault (demo only)").changes(),
    bind(Action::Palette, &[":"], PANES, "", "commands", "keys and commands; also accepts most longhaul commands"),
    bind(Action::Help, &["?", "f1"], PANES, "help", "keys", "all keys and commands; type to search, Enter to run"),
    bind(Action::Quit, &["q"], &[List, Detail, Tools, Servers, Messages, Timeline, Menu], "quit", "quit", "close the dialog or pane; in the list, quit"),
    bind(Action::StopKeeper, &["Q"], PANES, "stop", "stop the keeper", "stop the keeper and quit; first shows what happens to each call"),
    bind(Action::Interrupt, &["ctrl-c"], Scope::ALL, "", "quit", "quit; if this asks first, press again to quit anyway"),
    bind(Action::Suspend, &["ctrl-z"], Scope::ALL, "suspend", "suspend", "suspend"),
    bind(Action::Redraw, &["ctrl-l"], Scope::ALL, "redraw", "redraw", "redraw the screen"),
    bind(Action::Accept, &["enter"], &[Menu, Form, Page, Text], "", "confirm", "confirm; in a form, go to the next field"),
    bind(Action::Back, &["esc"], &[Menu, Form, Page, Text], "", "back", "close without changes"),
    bind(Action::NextField, &["tab", "down"], &[Form, Page, Text], "", "next field", "next field"),
    bind(Action::PreviousField, &["backtab", "up"], &[Form, Page, Text], "", "previous field", "previous field"),
    bind(Action::PageDown, &["pgdn"], &[Text], "", "next page", "next page of matches"),
    bind(Action::PageUp, &["pgup"], &[Text], "", "previous page", "previous page of matches"),
    bind(Action::PageDown, &["pgdn"], &[Form, Page], "", "show all", "show the whole question (in a question)"),
    bind(Action::PreviousChoice, &["left"], &[Form, Page], "", "other choice", "previous choice"),
    bind(Action::NextChoice, &["right"], &[Form, Page], "", "other choice", "next choice"),
    bind(Action::Send, &["ctrl-s"], &[Form], "", "send", "send the form (in a question, press Tab first)"),
    bind(Action::Raw, &["ctrl-r"], &[Form], "", "JSON/fields", "switch between JSON and fields"),
    bind(Action::OpenPage, &["o"], &[Page], "", "open", "open the page in your browser (asks first)"),
    bind(Action::CopyPage, &["y"], &[Page], "", "copy", "copy the URL to the clipboard"),
];

impl Binding {
    const fn changes(mut self) -> Self {
        self.is_change = true;
        self
    }

    const fn of_task(mut self) -> Self {
        self.is_of_task = true;
        self
    }

    /// Its default chords.
    pub(super) fn defaults(&self) -> Vec<Chord> {
        let chords = self.chords.iter();
        chords.filter_map(|chord| chord.parse().ok()).collect()
    }

    /// Whether it applies to the panes, as opposed to layers over them.
    pub(in crate::app) fn acts_on_panes(&self) -> bool {
        self.scopes.iter().any(|scope| PANES.contains(scope))
    }

    /// Whether it acts on the selected task, or the marked ones.
    pub(in crate::app) fn acts_on_tasks(&self) -> bool {
        self.scopes.contains(&Detail) && self.action != Action::Undo
    }

    /// Its name for messages.
    pub(super) fn name(&self) -> &'static str {
        if self.command.is_empty() {
            self.label
        } else {
            self.command
        }
    }
}

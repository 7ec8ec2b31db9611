//! The layers over the screen and the forms that the user closed without sending. Each dialog is a file: what it shows, and
//! what its keys do.

mod approval;
mod cancel;
pub(super) mod commands;
mod copy;
pub(super) mod edit;
pub(super) mod filter;
mod fit;
mod import;
pub(super) mod inject_fault;
pub(super) mod keys;
pub(super) mod menu;
pub(super) mod menu_keys;
pub(super) mod page;
pub(super) mod part;
pub(super) mod question;
mod quit;
pub(super) mod repeat;
pub(super) mod save_as;
pub(super) mod search;
pub(super) mod sign_in;
mod stop_now;
pub(super) mod tasks;
mod what_now;

use std::collections::{BTreeMap, VecDeque};

use crate::domain::{Mono, ServerName, TaskId};

use super::{CallForm, Field, FormField, QuestionForm, call::DraftKey};
use menu::Menu;

/// A layer over the screen that gets the keys; the last one is on top.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// The keys and commands.
    Commands {
        /// The command line, or a text to search for.
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
        /// The key of the selected item, because the items can change while it is open; absent for the first item.
        selected: Option<char>,
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
    /// The path to save a part of a result to.
    SaveAs {
        /// The path of the file.
        field: Field,
        /// The task.
        task: TaskId,
        /// The index of the part.
        part: usize,
    },
}

impl Overlay {
    /// The menu that it shows.
    pub(super) fn menu(&self) -> Option<&Menu> {
        match self {
            Self::Menu { menu, .. } => Some(menu),
            _ => None,
        }
    }

    /// Whether it is about this task, and has nothing left to act on once the task is erased.
    pub(super) fn is_about(&self, id: &TaskId) -> bool {
        match self {
            Self::Menu { menu, .. } => menu.is_about(id),
            Self::SaveAs { task, .. } => task == id,
            Self::Edit(form) => &form.task == id,
            Self::Question(form) => &form.task == id,
            _ => false,
        }
    }
}

/// The form for a task's name, note and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct EditForm {
    /// The task.
    pub task: TaskId,
    /// Name, note, idle limit, hard limit.
    pub fields: [Field; 4],
    /// Their texts when the form was opened.
    pub before: [String; 4],
    /// The index of the focused field.
    pub at: usize,
    /// Why the input is invalid.
    pub error: Option<String>,
}

impl EditForm {
    /// The labels of the fields.
    pub const LABELS: [&'static str; 4] = ["name", "note", "idle timeout", "max time"];
}

/// The layers over the screen and the forms that the user closed without sending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dialogs {
    /// Layers over the screen, topmost last.
    pub stack: Vec<Overlay>,
    /// Forms that were filled in but not sent.
    pub(super) drafts: BTreeMap<DraftKey, CallForm>,
    /// What was typed in questions that are still open, by task and key.
    pub(super) postponed: BTreeMap<(TaskId, String), Vec<FormField>>,
    /// Imported servers whose approval dialog has not opened yet, in order.
    pub(super) awaiting_approval: VecDeque<ServerName>,
}

impl Dialogs {
    /// Opens a dialog with a list of actions on top of the others.
    pub(super) fn open_menu(&mut self, menu: Menu) {
        self.stack.push(Overlay::Menu {
            menu,
            selected: None,
            drawn: None,
        });
    }

    /// Opens a page to read on top of the others.
    pub(super) fn open_page(&mut self, title: String, lines: Vec<String>) {
        self.stack.push(Overlay::Page {
            title,
            lines,
            scroll: 0,
        });
    }
}

//! The program as a value: [`State`], what happens to it ([`Event`]), and what has to be done about it ([`Command`]).
//!
//! Owns the meaning of every key, what is selected, open, shown and remembered on the screen. Must not know of clocks,
//! terminals, disks or networks: the time comes in with each call, and whatever touches the world goes out as a
//! [`Command`]. Invariants: [`update`] is pure, the cursor stands on a task that exists, every list that can grow is
//! bounded, and every key answers, with an effect or with the reason why it has none.

mod away;
mod call;
mod detail;
mod document;
mod event;
mod field;
mod form;
mod input;
pub mod keymap;
mod leave;
mod line;
mod log;
mod menu;
mod notify;
mod palette;
mod question;
mod room;
mod select;
mod state;
mod status;
mod update;
mod views;
mod wake;
mod wants;

pub use crate::domain::ColorDepth;
pub use crate::domain::UserInput;
pub use away::away_line;
pub use call::{CallForm, FormErrors, Stage};
pub use detail::{tab_document, tab_lines, task_offer};
pub use document::{Document, Kind, Match, Shown, finds, matches_in};
pub use event::{Command, Consent, Event, Findings, LeaveNote, Look, Reread, Saved, Setup};
pub use field::Field;
pub use form::{FormField, FormRow, FormValue};
pub use input::why_not;
pub use keymap::{Action, HelpLine, KeyOverride, Keymap};
pub use leave::{Leaving, Prices, is_viewer, leave_line, leave_note};
pub use line::{Pair, lines};
pub use log::{Part, ResultText, TaskLog, WireText};
pub use menu::{Act, Item, Menu, Told, body, items, title};
pub use palette::matches;
pub use question::{Button, QuestionForm, place_of, waits};
pub use room::{PaneHeights, SMALLEST, detail_margin, servers_shown, tabs, tools_shown};
pub use select::{Filter, Group, Grouping, Headcount, Line, SortKey, Title, first_line};
pub use state::{
    Away, Counts, EditForm, Focus, Frozen, Mark, Message, Overlay, Pane, Pending, State, Tab,
    TaskRow, Toast, Tools, TransientMessage,
};
pub use status::{Attention, attention, footer_keys, in_time, pane_scope, scope, until};
pub use update::{update, update_all};
pub use views::View;
pub use wake::{FRAME_MS, ages, next_wake};
pub use wants::{waits_for, wants};

//! The logic of the screen: its [`State`], the [`Event`]s that change it, and the [`Command`]s for the shell.
//!
//! Owns the meaning of every key, and what the screen selects, shows and remembers. Must not know of clocks, terminals,
//! disks or networks: the time comes in with each call, and every side effect goes out as a [`Command`]. Invariants:
//! [`update`] is pure, the cursor is on an existing task, every list that can grow is bounded, and every key has an effect
//! or gets a reply with the reason.

mod alerts;
mod away;
mod call;
mod clock;
mod detail;
mod detail_pane;
mod dialogs;
mod document;
mod event;
mod field;
mod filter;
mod find;
mod form;
mod grouping;
mod input;
pub mod keymap;
mod layout;
mod leave;
mod leaving;
mod list;
mod log;
mod menu;
mod messages;
mod notify;
mod palette;
mod question;
mod select;
mod server_needs;
mod session;
mod state;
mod status;
mod task_row;
mod totals;
mod typed_line;
mod update;
mod views;
mod wake;

pub use crate::domain::ColorDepth;
pub use crate::domain::UserInput;
pub use away::away_line;
pub use call::{CallForm, FormErrors, Stage};
pub use detail::{tab_document, tab_lines, task_offer};
pub use detail_pane::{DetailPane, Focus, Tab, TextOptions};
pub use dialogs::{Dialogs, EditForm, Overlay};
pub use document::{Document, DocumentLine, LineKind, Match};
pub use event::{
    Command, ConfigReread, Consent, Event, LeaveNote, Look, SaveContent, ServerFindings, Setup,
};
pub use field::Field;
pub use filter::Filter;
pub use find::{finds, matches_in};
pub use form::{FormField, FormRow, FormValue};
pub use grouping::{GroupCounts, GroupTitle, Grouping, ListRow, SortKey};
pub use input::why_not;
pub use keymap::{Action, HelpLine, KeyOverride, Keymap};
pub use layout::{PaneHeights, SMALLEST, detail_margin, servers_shown, tabs, tools_shown};
pub use leave::{LeaveImpacts, is_viewer, leave_line, leave_note};
pub use leaving::{Leave, Leaving};
pub use list::{ListRefresh, TaskList};
pub use log::{ResultPart, ResultText, TaskLog, TrafficText};
pub use menu::{BodyLine, Menu, MenuAction, MenuItem, body, items, title};
pub use messages::{Message, Messages, Toast, TransientMessage};
pub use palette::matches;
pub use question::{Button, QuestionForm, position_of, waits};
pub use select::first_line;
pub use server_needs::{server_needs, waits_for};
pub use session::{RequestPurpose, SessionInfo, SessionRequests};
pub use state::{Away, Frozen, Pane, State, Tools};
pub use status::{Attention, attention, footer_keys, pane_scope, scope, until, until_phrase};
pub use task_row::{Group, TaskRow, TimelineMark};
pub use totals::{Counts, TaskTotals};
pub use typed_line::{TypedArgument, lines};
pub use update::{update, update_all};
pub use views::View;
pub use wake::{FRAME_MS, ages, next_wake};

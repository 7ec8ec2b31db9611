//! The logic of the screen: its [`State`], the [`Event`]s that change it, and the [`Command`]s for the shell.
//!
//! Owns the meaning of every key, and what the screen selects, shows and remembers. Must not know of clocks, terminals,
//! disks or networks: the time comes in with each call, and every side effect goes out as a [`Command`]. Invariants:
//! [`update`] is pure, the cursor is on an existing task, every list that can grow is bounded, and every key has an effect
//! or gets a reply with the reason.

mod alerts;
mod availability;
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
mod footer;
mod form;
mod grouping;
mod input;
pub mod keymap;
mod lanes;
mod layout;
mod list;
mod loading;
mod log;
mod messages;
mod notify;
mod open_calls;
mod question;
mod quit;
mod requests;
mod responses;
mod seen;
mod select;
mod server_needs;
mod servers;
mod session;
mod state;
mod status;
mod task_actions;
mod task_row;
mod tasks;
mod timeline;
mod totals;
mod typed_line;
mod update;
mod wake;

pub use crate::domain::UserInput;
pub use availability::why_not;
pub use away::away_line;
pub use call::{CallForm, FormErrors, Stage};
pub use detail::{tab_document, tab_lines, task_offer};
pub use detail_pane::{DetailPane, Focus, Tab, TextOptions};
pub use dialogs::menu::{BodyLine, Dialog, Menu, MenuAction, MenuItem};
pub use dialogs::menu_keys::dialog;
pub use dialogs::question::{position_of, waits};
pub use dialogs::{Dialogs, EditForm, Overlay};
pub use document::{Document, DocumentLine, LineKind, Match};
pub use event::{
    Approval, Command, ConfigReread, Event, Exit, ExitNote, ExitWhen, Look, ServerFindings,
    Settings, Setup, TerminalCommand,
};
pub use field::Field;
pub use filter::Filter;
pub use find::{Search, SearchStep};
pub use footer::footer_keys;
pub use form::{FormField, FormValue};
pub use grouping::{GroupCounts, GroupTitle, Grouping, ListRow, SortKey};
pub use keymap::{Action, HelpLine, KeyOverride, Keymap};
pub use lanes::{Lane, axis, has_life, lane_of, time_at, visible_lanes};
pub use layout::{PaneHeights, SMALLEST, is_large_enough};
pub use list::{ListRefresh, TaskList};
pub use log::{ResultPart, ResultText, TaskLog, TrafficText};
pub use messages::{Messages, Toast, TransientMessage};
pub use open_calls::{exit_note, open_calls, other_driver, quit_lines};
pub use question::{Button, QuestionForm};
pub use select::first_line;
pub use server_needs::{server_needs, waits_for};
pub use session::{RequestPurpose, SessionInfo, SessionRequests};
pub use state::{Away, Frozen, Pane, State, Tools, ToolsPane, pane_scope};
pub use status::{Attention, attention, retry_phrase, scope, time_left, until_phrase};
pub use task_row::{Group, TaskRow};
pub use timeline::Timeline;
pub use totals::{Counts, TaskTotals};
pub use typed_line::TypedArgument;
pub(crate) use typed_line::{TypedValue, WrongType, parse_argument};
pub use update::{update, update_all};
pub use wake::{FRAME_MS, ages, next_wake};

// What most of these files use.
use alerts::WindowFocus;
use keymap::KeyPress;

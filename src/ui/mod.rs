//! Renders an [`app::State`](crate::app::State) with ratatui: layout, colors and glyphs.
//!
//! Has no access to the terminal, keys or clock: the area comes with the frame, the time as an argument. Invariants:
//! [`view`] changes nothing, never panics at any size, formats only visible rows, shows server text only after cleaning
//! it with [`text`](crate::domain::text), and never conveys meaning by color alone.

mod columns;
mod glyphs;
mod labels;
mod overlays;
mod panes;
mod region;
mod spans;
mod theme;
mod view;

pub use view::view;

// What most of these files use.
use glyphs::Glyphs;
use region::Region;
use theme::{Role, Theme};

use crate::domain::wrap;

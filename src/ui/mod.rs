//! The screen: draws an [`app::State`](crate::app::State) and nothing else.
//!
//! Owns where things stand, their colours and their glyphs. Must not know of terminals, keys or time: the area comes
//! with the frame and the stamp with the call. Invariants: [`view`] changes nothing, draws at any size without panic,
//! formats only rows that are visible, shows server text only after [`text`](crate::domain::text), and never says
//! anything by colour alone.

mod canvas;
mod glyphs;
mod labels;
mod layout;
mod markdown;
mod overlays;
mod panes;
mod theme;
mod view;

pub use layout::Layout;
pub use view::view;

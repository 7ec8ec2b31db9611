//! Terminal IO: takes over and restores the terminal, decodes its input and writes frames.
//!
//! Owns raw mode, escape sequences, signals and the single write per frame. Must not know about tasks, sessions or widgets.
//! Invariant: however the program ends, the terminal is restored once, with its original modes, and nothing is drawn after
//! that.

pub mod browser;
pub mod caps;
pub mod guard;
pub mod input;
pub mod interruptible;
pub mod keys;
pub mod osc;
pub mod screen;
pub mod signals;

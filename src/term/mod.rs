//! The terminal edge: takes the terminal, gives it back, and turns its bytes into values of ours and back.
//!
//! Owns raw mode, escape sequences, signals and the one write a frame. Must not know of tasks, sessions or widgets
//! beyond the frame it hands out. Invariant: whatever ends the program, the terminal is given back once, with the
//! modes it had; nothing is painted afterwards.

pub mod browser;
pub mod caps;
pub mod guard;
pub mod input;
pub mod keys;
pub mod osc;
pub mod patient;
pub mod screen;
pub mod signals;
pub mod viewer;
